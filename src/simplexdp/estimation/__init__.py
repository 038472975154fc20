"""From released values to probabilities with uncertainty, at no further budget."""

from .conditional import ConditionalEstimate, estimate_conditional
from .one_table import Method, estimate
from .values import Estimate, IntervalKind, NoiseShape, NoisyCounts

__all__ = [
    "ConditionalEstimate",
    "Estimate",
    "IntervalKind",
    "Method",
    "NoiseShape",
    "NoisyCounts",
    "estimate",
    "estimate_conditional",
]
