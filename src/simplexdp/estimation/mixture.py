"""The prior of many cells, learnt from all the others: a mixture fitted by leave-one-out EM.

Components at several resolutions: the population prior, negative binomials NB(1, m) and NB(6, m) on ladders
of means m, the atom at 0 and single bins. Their weights have a Dirichlet(τb) prior. A single bin must be
supported by more than a few other cells (absolute discount), which stops chance ties of two cells.
"""

from __future__ import annotations

import math

import numpy as np

from .grid import negative_binomial
from .likelihood import BinnedLikelihood
from .population import Population
from .values import FloatArray

CONCENTRATION = 0.5
"""τ: prior weight of the whole dictionary, in cells."""
SHARES = {"population": 0.8, "wide": 0.14, "narrow": 0.12, "zero": 0.2, "bins": 0.08}
"""How τ is split over the parts of the dictionary (normalised when used)."""
DISCOUNT = 3.0
"""Cells that a single bin must exceed in support."""
SWEEPS, MAX_SWEEPS, TILT_EVERY = 80, 300, 5


def dictionary(edges: FloatArray, population: FloatArray, total: float) -> tuple[FloatArray, FloatArray]:
    """Components (rows: mass in {0} and the bins) and prior weights; the last rows are the identity."""
    parts, base = [population[None]], [np.array([SHARES["population"]])]
    for shape, ratio, share in ((1.0, 1.6, SHARES["wide"]), (6.0, 1.35, SHARES["narrow"])):
        means = np.exp(np.arange(math.log(0.7), math.log(max(total, 2.0)), math.log(ratio)))
        parts.append(np.array([negative_binomial(edges, shape, float(mean)) for mean in means]))
        base.append(np.full(means.size, share / means.size))
    widths = np.log(edges[1:] / edges[:-1])
    parts.append(np.eye(edges.size))
    base.append(np.append(SHARES["zero"], SHARES["bins"] * widths / widths.sum()))
    weights = np.concatenate(base)
    return np.vstack(parts), weights / weights.sum()


class LeaveOneOut:
    """Weights of the components for each cell, learnt from all the other cells."""

    def __init__(self, base: FloatArray, counts: FloatArray, near: FloatArray) -> None:
        self._floor = CONCENTRATION * base
        self._counts = counts
        self._near = near  # bins within 1.5 standard deviations support each other

    def weights(self, shares: FloatArray, discount: float = DISCOUNT) -> FloatArray:
        """τb plus the other cells' shares, one row for each cell, single bins discounted."""
        sums = self._counts @ shares
        keep = np.ones(sums.size)
        single = self._near.shape[0]
        support = np.maximum(self._near @ sums[-single:], 1e-9)
        keep[-single:] = np.maximum(0.0, 1 - discount / support)
        return np.asarray(self._floor + np.maximum(keep * (sums - shares), 0.0))


def mixture_prior(
    edges: FloatArray,
    bins: BinnedLikelihood,
    reference: FloatArray,
    counts: FloatArray,
    total: float | None,
    likely_total: float,
    population: Population,
    scale: float,
    slope: float,
) -> tuple[FloatArray, float]:
    """Log-prior of each cell over {0} and the bins, and the tilt reached on the way."""
    components, base = dictionary(edges, population.prior, likely_total)
    middle = (edges[1:] + edges[:-1]) / 2
    reach = 1.5 * np.sqrt(scale * scale + slope * middle)
    near = (np.abs(middle[:, None] - middle[None]) <= reach).astype(np.float64)
    others = LeaveOneOut(base, counts, near)
    offset = bins.mean - reference[:, None]

    def kernel(tilt: float) -> tuple[FloatArray, FloatArray]:
        log = bins.log + tilt * offset + 0.5 * tilt * tilt * bins.variance
        likelihood = np.exp(log - log.max(axis=1, keepdims=True))
        return likelihood, likelihood @ components.T + 1e-290

    cells, tilt = float(counts.sum()), population.tilt
    likelihood, by_component = kernel(tilt)
    shares = by_component * base
    shares /= shares.sum(axis=1, keepdims=True)
    gain, last_gap = 1.0, 0.0
    limit = 0.5 / scale / math.sqrt(max(1.0, cells / 30))
    sweeps = int(min(MAX_SWEEPS, SWEEPS * max(1.0, cells / 1000) ** 0.3))
    for sweep in range(sweeps):
        # Clusters form first and are put to the test of the discount afterwards.
        shares = by_component * others.weights(shares, DISCOUNT if 3 * sweep > sweeps else 0.0)
        shares /= shares.sum(axis=1, keepdims=True)
        if total is None or sweep % TILT_EVERY != TILT_EVERY - 1 or sweep >= sweeps - 3:
            continue
        weights = likelihood * (others.weights(shares) @ components)
        weights /= weights.sum(axis=1, keepdims=True)
        moved = bins.mean + tilt * bins.variance
        mean = (weights * moved).sum(axis=1)
        variance = float(counts @ (weights * (bins.variance + (moved - mean[:, None]) ** 2)).sum(axis=1))
        gap = float(counts @ mean) - total
        if gap * last_gap < 0 and abs(gap) > 0.3 * abs(last_gap):
            gain *= 0.5
        last_gap = gap
        tilt -= float(np.clip(gain * gap / max(population.variance, variance, 1e-300), -limit, limit))
        likelihood, by_component = kernel(tilt)
    prior = others.weights(shares) @ components
    return np.log(prior / prior.sum(axis=1, keepdims=True) + 1e-300), tilt
