"""From released values to probabilities with uncertainty, at no further budget."""

from .one_table import Method, estimate
from .values import Estimate, IntervalKind, NoisyCounts

__all__ = ["Estimate", "IntervalKind", "Method", "NoisyCounts", "estimate"]
