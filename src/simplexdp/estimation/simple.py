"""Estimates that need no prior: the baselines of the literature, each at its best."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.optimize import brentq

from .values import FloatArray, NoisyCounts, truncated_normal_mean

TINY = 1e-6
"""The paper's Gaussian and Laplace baselines clip noisy counts at this value."""


def raw(noisy: NoisyCounts) -> FloatArray:
    """The draw itself: ∝ value + α/r for a Dirichlet or Pólya release, otherwise the same as clip-tiny."""
    pull = noisy.variance / noisy.slope if noisy.slope > 0 else 0.0
    return np.maximum(noisy.values + pull, TINY)


def clip(noisy: NoisyCounts) -> FloatArray:
    """Clip at 0 and add half a standard deviation of the noise of an empty cell."""
    return np.maximum(noisy.values, 0.0) + noisy.scale / 2


def clip_tiny(noisy: NoisyCounts) -> FloatArray:
    """Clip at 1e-6, as the paper does for its baselines."""
    return np.maximum(noisy.values, TINY)


def projection(noisy: NoisyCounts) -> FloatArray:
    """The nearest point (Euclidean) of {f ≥ 0, Σf = N}; zeros become 1e-6 so that the KL stays finite."""
    values, total = noisy.values.ravel(), noisy.likely_total
    ordered = np.sort(values)[::-1]
    excess = np.cumsum(ordered) - total
    support = np.flatnonzero(ordered - excess / np.arange(1, values.size + 1) > 0)[-1]
    shift = excess[support] / (support + 1)
    return np.asarray(np.maximum(noisy.values - shift, TINY))


def truncated_normal(noisy: NoisyCounts) -> FloatArray:
    """Posterior mean under a flat prior on counts ≥ 0, values shifted alike so that the means add to N."""
    deviation = np.sqrt(noisy.noise_variance(noisy.values))

    def mean(shift: float) -> FloatArray:
        return truncated_normal_mean(noisy.values - shift, deviation)

    if noisy.total is None:
        return np.maximum(mean(0.0), TINY)
    total = noisy.total
    low, high = -total / noisy.size, max(float(noisy.values.max()), 0.0) + noisy.scale  # doubling needs high > 0
    while mean(low).sum() < total:  # each mean is at least value − shift, so this ends
        low = 2 * low - noisy.scale
    while mean(high).sum() > total:
        high = 2 * high + noisy.scale
    shift = brentq(lambda s: float(mean(s).sum()) - total, low, high, xtol=1e-9 * noisy.scale, rtol=1e-12)
    return np.maximum(mean(shift), TINY)


METHODS: dict[str, Callable[[NoisyCounts], FloatArray]] = {
    "raw": raw,
    "clip": clip,
    "clip-tiny": clip_tiny,
    "projection": projection,
    "truncated-normal": truncated_normal,
}
"""Each gives positive counts up to a common factor."""
