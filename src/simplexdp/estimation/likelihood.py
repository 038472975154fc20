"""How likely a released value is at each count, on an axis of counts: an atom at 0, and bins.

The likelihood is a normal, a Laplace law, or a gamma where the noise grows with the count.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from ..lazy import special
from .values import FloatArray, NoisyCounts

SHAPES = np.append(np.geomspace(0.02, 2e3, 11), np.inf)
"""Dirichlet-multinomial shapes k; at ∞ all probabilities are equal: multinomial, or Poisson without the total."""
GAMMA_LIMIT = 1e8
"""Above this gamma shape the skewness is below 2e-4: use a normal, whose logarithm does not cancel."""
Moments = tuple[FloatArray, FloatArray, FloatArray]
GROWTH = 0.07
"""Relative width of bins away from 0."""
FINE, COARSE = 4, 3
"""Bins per deviation of the noise near 0, and around values and the mean count."""
CLUSTERS = 100
"""Large values that get finer bins around them, at most."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Likelihood:
    """The likelihood of the count behind each released value, as a function of the count.

    Args:
        centre: where it peaks (may be negative).
        width: its standard deviation near the peak.
        log_at: counts (broadcast against a column of cells) to log-likelihoods, relative to the peak.
        kind: whether it is exactly normal or Laplace; anything else is normal near its peak.
    """

    centre: FloatArray
    width: FloatArray
    log_at: Callable[[FloatArray], FloatArray]
    kind: Literal["normal", "laplace", "other"]


def likelihood_of(values: FloatArray, noisy: NoisyCounts) -> Likelihood:
    """The likelihood of each of the (flat) values under the noise law of the release."""
    variance, slope = noisy.variance, noisy.slope
    if noisy.noise == "laplace":
        return _laplace(values, noisy.scale)
    if slope == 0 or slope * max(noisy.likely_total, 1.0) < 1e-6 * variance:

        def log_normal(counts: FloatArray) -> FloatArray:
            return -0.5 * (values[:, None] - counts) ** 2 / variance

        return Likelihood(centre=values, width=np.full(values.size, noisy.scale), log_at=log_normal, kind="normal")
    pull = variance / slope
    if pull / slope > GAMMA_LIMIT:
        return _growing_normal(values, noisy)
    x = np.maximum((values + pull) / slope, 1e-12)
    log_x = np.log(x)
    shape = np.where(x > 0.5, x + 0.5, 0.6)
    for _ in range(3):  # Newton's method for ψ(shape) = ln x, the peak of x^shape / Γ(shape)
        shape = np.maximum(shape - (special.digamma(shape) - log_x) / special.polygamma(1, shape), 0.05)
    peak = shape * log_x - special.gammaln(shape)

    def log_gamma(counts: FloatArray) -> FloatArray:
        at = (counts + pull) / slope
        return at * log_x[:, None] - special.gammaln(at) - peak[:, None]

    return Likelihood(
        centre=shape * slope - pull,
        width=slope / np.sqrt(special.polygamma(1, shape)),
        log_at=log_gamma,
        kind="other",
    )


def _laplace(values: FloatArray, deviation: float) -> Likelihood:
    def log_laplace(counts: FloatArray) -> FloatArray:
        return -np.abs(values[:, None] - counts) * (math.sqrt(2) / deviation)

    width = np.full(values.size, deviation)
    return Likelihood(centre=values, width=width, log_at=log_laplace, kind="laplace")


def _growing_normal(values: FloatArray, noisy: NoisyCounts) -> Likelihood:
    deviation = np.sqrt(noisy.noise_variance(values))

    def log_normal(counts: FloatArray) -> FloatArray:
        variance = noisy.noise_variance(counts)
        ratio = variance / (deviation**2)[:, None]
        return np.asarray(-0.5 * (values[:, None] - counts) ** 2 / variance - 0.5 * np.log(ratio))

    return Likelihood(centre=values, width=deviation, log_at=log_normal, kind="other")


@dataclass(frozen=True, kw_only=True, eq=False)
class BinnedLikelihood:
    """Log-likelihood, mean and variance of the count inside {0} and every bin, one row for each cell.

    Inside a bin the prior is flat, so the likelihood cuts a truncated normal out of it: bins may be far
    wider than the noise without biasing large counts.
    """

    log: FloatArray
    mean: FloatArray
    variance: FloatArray


def bin_likelihood(edges: FloatArray, law: Likelihood) -> BinnedLikelihood:
    """Integrate the likelihood over the bins between `edges` (the first edge is ½: counts are whole)."""
    lower, upper = edges[:-1], edges[1:]
    size, middle = upper - lower, (lower + upper) / 2
    centre, width = law.centre[:, None], law.width[:, None]
    relative = size[None] / width
    wide = _laplace_bins if law.kind == "laplace" else _normal_bins
    log_wide, mean_wide, var_wide = wide(edges, centre, width)
    single = (size <= 1.0)[None]  # the bin holds one whole number
    narrow = (relative < 0.4) | single
    log_narrow = law.log_at(middle[None])
    mean_narrow = middle - np.where(single, 0.0, (middle - centre) * relative**2 / 12)
    log = np.where(narrow, log_narrow, log_wide)
    mean = np.clip(np.where(narrow, mean_narrow, mean_wide), lower, upper)
    variance = np.where(narrow, np.where(single, 0.0, size**2 / 12), var_wide)
    zero = np.zeros((law.centre.size, 1))
    return BinnedLikelihood(
        log=np.concatenate([law.log_at(np.zeros((1, 1))), log], axis=1),
        mean=np.concatenate([zero, mean], axis=1),
        variance=np.concatenate([zero, np.clip(variance, 0.0, size**2 / 12)], axis=1),
    )


def _normal_bins(edges: FloatArray, centre: FloatArray, width: FloatArray) -> Moments:
    """Log of the mean likelihood, mean and variance of the count in every bin: truncated normals."""
    lower, upper = edges[:-1], edges[1:]
    x = np.clip((edges[None] - centre) / width, -1e8, 1e8)
    left, right = x[:, :-1], x[:, 1:]
    tail = special.ndtr(-np.abs(x))  # tail areas: no cancellation on either side
    below = np.where(x > 0, 1 - tail, tail)
    same_side = (left > 0) == (right > 0)
    mass = np.where(same_side, np.abs(np.diff(tail, axis=1)), np.diff(below, axis=1))
    mass = np.maximum(mass, 1e-300)
    density = np.exp(-0.5 * x * x) / math.sqrt(2 * math.pi)
    far = mass < 1e-200
    drift = np.where(far, 0.0, (density[:, :-1] - density[:, 1:]) / mass)
    spread = np.where(far, -1.0, (left * density[:, :-1] - right * density[:, 1:]) / mass)
    log = np.log(mass * math.sqrt(2 * math.pi) * width / (upper - lower))
    log = np.where(far, -0.5 * np.minimum(left * left, right * right) - 5.0, log)
    mean = np.where(far, np.where(left > 0, lower, upper), centre + width * drift)
    return log, mean, width**2 * (1 + spread - drift**2)


def _laplace_bins(edges: FloatArray, centre: FloatArray, width: FloatArray) -> Moments:
    """The same for a Laplace likelihood: an exponential on each side of the peak, cut by the bin."""
    scale = width / math.sqrt(2)
    lower, upper = edges[None, :-1], edges[None, 1:]
    pieces = []
    for near, far in (
        (np.maximum(lower - centre, 0.0), np.maximum(upper - centre, 0.0)),  # right of the peak
        (np.maximum(centre - upper, 0.0), np.maximum(centre - lower, 0.0)),  # left of it
    ):
        length = (far - near) / scale
        ratio = np.exp(-length)
        missing = -np.expm1(-length)
        safe = np.maximum(missing, 1e-300)
        # On [0, length], e^{-t}: mass 1 − e^{-L}, mean 1 − L e^{-L}/(1 − e^{-L}); series where L is small.
        small = length < 1e-3
        mean = np.where(small, length / 2, 1 - length * ratio / safe)
        second = np.where(small, length**2 / 3, 2 - (length**2 + 2 * length) * ratio / safe)
        log_mass = np.where(length > 0, -near / scale + np.log(safe), -np.inf)
        pieces.append((log_mass, near + scale * mean, scale**2 * (second - mean**2)))
    (log_r, mean_r, var_r), (log_l, mean_l, var_l) = pieces
    log_mass = np.logaddexp(log_r, log_l)
    right = np.exp(log_r - log_mass)
    mean = right * mean_r - (1 - right) * mean_l
    variance = right * var_r + (1 - right) * var_l + right * (1 - right) * (mean_r + mean_l) ** 2
    return log_mass + np.log(scale / (upper - lower)), centre + mean, variance


def bin_edges(ordered: FloatArray, scale: float, total: float) -> FloatArray:
    """Edges on (0, total]: width about scale/4 near 0, growing by 7 %, finer around values and mean count.

    `ordered` are the sorted values.
    """
    coarse, edge = [0.5], 0.5
    while edge < total + 0.5:
        edge += max(1.0, GROWTH * edge, min(scale / FINE, 0.3 * edge))
        coarse.append(edge)
    axis = np.array(coarse)
    axis = np.append(axis[axis < total + 0.5], total + 0.5)
    extra = [total / ordered.size + scale * np.arange(-3.0, 3.1, 0.5)]
    large = ordered[np.searchsorted(ordered, 2 * scale) :]
    if large.size:  # resolve clusters of large counts at the scale of the noise
        number = min(CLUSTERS, large.size)
        centres = large[((np.arange(number) + 0.5) / number * large.size).astype(np.int64)]
        extra += [centres + step * scale for step in (-1.5, -0.5, 0.0, 0.5, 1.5)]
    fine = np.concatenate(extra)
    gap = max(1.0, scale / COARSE)
    fine = thin(np.sort(fine[(fine > 1.5) & (fine < total)]), gap)
    merged = np.sort(np.concatenate([axis, fine]))
    kept = [0.5]
    for candidate in merged[1:]:
        if candidate - kept[-1] >= min(0.7 * gap, max(1.0, 0.2 * candidate)):
            kept.append(float(candidate))
    if kept[-1] < total + 0.5:
        kept.append(total + 0.5)
    edges = np.array(kept)
    if scale < 4:
        edges = np.append(np.round(edges[:-1] - 0.5) + 0.5, edges[-1])  # bins are sets of whole numbers
    return np.unique(edges)


def thin(ordered: FloatArray, gap: float) -> FloatArray:
    """Keep a sorted array's first value and each next one that is at least `gap` further."""
    kept: list[float] = []
    last = -np.inf
    for value in ordered:
        if value - last >= gap:
            last = value
            kept.append(float(value))
    return np.array(kept)


def negative_binomial(edges: FloatArray, shape: float, mean: float) -> FloatArray:
    """Mass of NB(shape, mean) (shape ∞: Poisson) in {0} and the bins, normalised on the grid."""
    if np.isinf(shape):
        cumulative = special.gammaincc(edges + 0.5, mean)
    else:
        cumulative = special.betainc(shape, edges + 0.5, shape / (shape + mean))
    mass = np.maximum(np.diff(cumulative, prepend=0.0), 0.0) + 1e-30
    return np.asarray(mass / mass.sum())


def all_equal(edges: FloatArray, mean: float) -> FloatArray:
    """Mass of "every count is the mean": one bin, or 0 and 1 when the mean is below ½."""
    mass = np.full(edges.size, 1e-30)
    if mean < 0.5:
        mass[0], mass[1] = 1 - mean, mean
    else:
        mass[min(max(int(np.searchsorted(edges, mean)), 1), edges.size - 1)] = 1.0
    return np.asarray(mass / mass.sum())


def softmax(log_weights: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Weights of sum 1 along the last axis, and the logarithms of their sums."""
    top = log_weights.max(axis=-1, keepdims=True)
    top = np.where(np.isfinite(top), top, 0.0)
    weights = np.exp(log_weights - top)
    sums = np.maximum(weights.sum(axis=-1, keepdims=True), 1e-300)
    return weights / sums, (top + np.log(sums))[..., 0]
