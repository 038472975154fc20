"""Conditioning on the total: tilt every posterior by e^{λf}, with λ such that the means add to N."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from .likelihood import BinnedLikelihood
from .values import FloatArray


@dataclass(frozen=True, kw_only=True, eq=False)
class Tilted:
    """Posterior over {0} and the bins for each cell under a log-prior and a tilt.

    `log_evidence` is relative to the tilt's factor e^{λ · reference} of each cell.
    """

    tilt: float
    weights: FloatArray
    mean: FloatArray
    variance: FloatArray
    log_evidence: FloatArray


def softmax(log_weights: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Rows normalised to sum 1, and the logarithms of their sums."""
    top = log_weights.max(axis=1, keepdims=True)
    weights = np.exp(log_weights - top)
    sums = weights.sum(axis=1, keepdims=True)
    return weights / sums, (top + np.log(sums))[:, 0]


def posterior_at(log_prior: FloatArray, bins: BinnedLikelihood, reference: FloatArray, tilt: float) -> Tilted:
    """The posterior of each cell under tilt λ; inside a bin e^{λf} moves the mean by λ times the variance."""
    offset = bins.mean - reference[:, None]
    log_weights = log_prior + bins.log + tilt * offset + 0.5 * tilt * tilt * bins.variance
    weights, log_evidence = softmax(log_weights)
    moved = bins.mean + tilt * bins.variance
    mean = (weights * moved).sum(axis=1)
    variance = (weights * (bins.variance + (moved - mean[:, None]) ** 2)).sum(axis=1)
    return Tilted(tilt=tilt, weights=weights, mean=mean, variance=variance, log_evidence=log_evidence)


def match_total(
    log_prior: FloatArray,
    bins: BinnedLikelihood,
    reference: FloatArray,
    counts: FloatArray,
    total: float | None,
    scale: float,
    *,
    start: float = 0.0,
    steps: int = 8,
    tolerance: float = 1e-3,
) -> Tilted:
    """Safeguarded Newton for the tilt at which the means, each counted `counts` times, add to the total."""
    tilt, low, high = start, -math.inf, math.inf
    found = posterior_at(log_prior, bins, reference, tilt)
    if total is None:
        return found
    for _ in range(steps):
        gap = float(counts @ found.mean) - total
        spread = max(float(counts @ found.variance), 1e-300)
        if abs(gap) <= tolerance * math.sqrt(spread) + 1e-9 * total:
            break
        low, high = (low, tilt) if gap > 0 else (tilt, high)  # the sum of the means grows with the tilt
        limit = min(2 / math.sqrt(spread / float(counts.sum())), 4 / scale + abs(tilt))
        step = min(max(gap / spread, -limit), limit)
        new = tilt - step
        if not low < new < high and math.isfinite(low + high):
            new = (low + high) / 2
        tilt = new
        found = posterior_at(log_prior, bins, reference, tilt)
    return found
