"""From released values to probabilities with uncertainty, at no further budget."""

from .one_table import ConditionalEstimate, Method, check_method, estimate, estimate_conditional
from .values import Estimate, IntervalKind, NoiseShape, NoisyCounts

__all__ = [
    "ConditionalEstimate",
    "Estimate",
    "IntervalKind",
    "Method",
    "NoiseShape",
    "NoisyCounts",
    "check_method",
    "estimate",
    "estimate_conditional",
]
