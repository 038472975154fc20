"""Posterior of the counts of a table with many cells: the prior is learnt from the release itself."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import expit, ndtr, ndtri

from .compress import Compressed, compress
from .grid import bin_edges
from .likelihood import BinnedLikelihood, Likelihood, bin_likelihood, likelihood_of
from .mixture import mixture_prior
from .population import population_prior
from .total import Tilted, match_total, softmax
from .values import FloatArray, NoisyCounts

LEARNT_ODDS = math.exp(-2.0)
"""Prior odds of the learnt mixture against the population prior alone."""
CAVITY_CELLS = 200
"""Up to here the uncertainty of the other cells' sum matters and is conditioned on as well."""


@dataclass(frozen=True, kw_only=True, eq=False)
class ManyPosterior:
    """Posterior over {0} and bins for each centroid of the table; inside a bin a truncated normal."""

    edges: FloatArray
    weights: FloatArray
    centre: FloatArray
    width: FloatArray
    cells: Compressed

    def bounds(self, level: float) -> tuple[FloatArray, FloatArray]:
        """Equal-tailed bounds of each count; all the error is above where 0 is inside the lower tail."""
        error = 1 - level
        lower = self._quantile(np.full(self.centre.size, error / 2))
        empty = lower < 0.5
        lower = np.where(empty, 0.0, lower)
        upper = self._quantile(np.where(empty, level, 1 - error / 2))
        half = float(-ndtri(error / 2)) * self.width
        lower = self.cells.expand_shift(lower, -half)
        upper = self.cells.expand_shift(upper, half)
        return np.maximum(lower, 0.0), np.maximum(upper, 0.0)

    def _quantile(self, level: FloatArray) -> FloatArray:
        cumulative = np.cumsum(self.weights, axis=1)
        rows = np.arange(level.size)
        last = self.weights.shape[1] - 1
        column = np.minimum((cumulative < level[:, None] - 1e-12).sum(axis=1), last)
        before = np.where(column > 0, cumulative[rows, np.maximum(column - 1, 0)], 0.0)
        part = np.clip((level - before) / np.maximum(self.weights[rows, column], 1e-300), 0.0, 1.0)
        left, right = self.edges[np.maximum(column - 1, 0)], self.edges[np.maximum(column, 1)]
        a, b = (left - self.centre) / self.width, (right - self.centre) / self.width
        flip = a > 0  # work in the lower tail, where ndtr does not lose digits
        low, high = ndtr(np.where(flip, -b, a)), ndtr(np.where(flip, -a, b))
        inside = low + np.where(flip, 1 - part, part) * (high - low)
        x = ndtri(np.clip(inside, 1e-300, 1 - 1e-16))
        curved = np.clip(self.centre + self.width * np.where(flip, -x, x), left, right)
        straight = left + part * (right - left)
        narrow = (right - left < 0.4 * self.width) | (right - left <= 1)
        return np.where(column == 0, 0.0, np.where(narrow, straight, curved))


def many_cells(noisy: NoisyCounts) -> tuple[FloatArray, FloatArray, ManyPosterior]:
    """Posterior mean and standard deviation of every (flat) count, and the posterior for intervals."""
    values, total = noisy.values.ravel(), noisy.likely_total
    ordered = np.sort(values)
    cells = compress(noisy, ordered)
    edges = bin_edges(ordered, noisy.scale, total)
    law = likelihood_of(cells.centroids, noisy)
    bins = bin_likelihood(edges, law)
    mean = total / values.size
    population = population_prior(
        edges,
        bins,
        law.centre,
        cells.counts,
        noisy.total,
        mean,
        law.log_at(np.full((1, 1), mean))[:, 0],
        noisy.scale,
    )
    log_prior, tilt = mixture_prior(
        edges, bins, law.centre, cells.counts, noisy.total, total, population, noisy.scale, noisy.slope
    )
    learnt = match_total(log_prior, bins, law.centre, cells.counts, noisy.total, noisy.scale, start=tilt, steps=60)
    plain_prior, uneven_prior = np.log(population.prior)[None], np.log(population.uneven)[None]
    plain, uneven = (
        match_total(prior, bins, law.centre, cells.counts, noisy.total, noisy.scale, start=population.tilt, steps=60)
        for prior in (plain_prior, uneven_prior)
    )
    share = _share_of_learnt(learnt, plain, law, cells.counts, noisy.total)
    centre, width = law.centre + learnt.tilt * law.width**2, law.width
    if noisy.total is not None and values.size <= CAVITY_CELLS:
        centre, width, learnt = _cavity(edges, law, bins, log_prior, learnt)
        plain, uneven = (
            _cavity(edges, law, bins, prior, found)[2]
            for prior, found in ((plain_prior, plain), (uneven_prior, uneven))
        )
    _, posterior_mean, variance = _average(share, learnt, plain)
    weights, _, _ = _average(share, learnt, uneven)
    deviation = np.sqrt(variance)
    posterior = ManyPosterior(edges=edges, weights=weights, centre=centre, width=width, cells=cells)
    least = 0.5 * float(posterior_mean.min())
    counts = np.maximum(cells.expand_shift(posterior_mean, np.zeros_like(posterior_mean)), least)
    return counts, cells.expand(deviation, law.width), posterior


def _share_of_learnt(learnt: Tilted, plain: Tilted, law: Likelihood, counts: FloatArray, total: float | None) -> float:
    """The posterior probability of the learnt prior against the population prior, by evidence given the total.

    Where the noise drowns the counts the evidence of both is the same, and a mixture learnt from noise is not to be
    trusted: LEARNT_ODDS decides.
    """

    def evidence(found: Tilted) -> float:
        missing = 0.0 if total is None else total - float(counts @ law.centre)
        return float(counts @ found.log_evidence) - found.tilt * missing

    return float(expit(evidence(learnt) - evidence(plain) + math.log(LEARNT_ODDS)))


def _average(share: float, first: Tilted, second: Tilted) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Weights, means and variances of a mixture of two posteriors."""
    mean = share * first.mean + (1 - share) * second.mean
    square = share * (first.variance + first.mean**2) + (1 - share) * (second.variance + second.mean**2)
    return share * first.weights + (1 - share) * second.weights, mean, np.maximum(square - mean**2, 0.0)


def _cavity(
    edges: FloatArray, law: Likelihood, bins: BinnedLikelihood, log_prior: FloatArray, found: Tilted
) -> tuple[FloatArray, FloatArray, Tilted]:
    """Multiply by what the other cells say: under the tilt their sum is about N(N − mean_i, V − v_i)."""
    tilt, spread = found.tilt, float(found.variance.sum())
    others = np.maximum(spread - found.variance, 1e-6 * spread + 1e-12)
    precision = 1 / law.width**2
    variance = 1 / (precision + 1 / others)
    centre = ((law.centre + tilt * law.width**2) * precision + found.mean / others) * variance
    width = np.sqrt(variance)
    if law.kind == "normal":  # a product of normals is a normal

        def log_at(counts: FloatArray) -> FloatArray:
            return -0.5 * ((counts - centre[:, None]) / width[:, None]) ** 2

        narrowed = bin_likelihood(edges, Likelihood(centre=centre, width=width, log_at=log_at, kind="normal"))
        log, mean, inner = narrowed.log, narrowed.mean, narrowed.variance
    else:
        moved, around, target = bins.mean + tilt * bins.variance, others[:, None], found.mean[:, None]
        log = bins.log + tilt * (bins.mean - law.centre[:, None]) + 0.5 * tilt * tilt * bins.variance
        log = log - 0.5 * (moved - target) ** 2 / (around + bins.variance)
        mean = (moved * around + target * bins.variance) / (around + bins.variance)
        inner = bins.variance * around / (around + bins.variance)
    weights, _ = softmax(log_prior + log)
    posterior_mean = (weights * mean).sum(axis=1)
    posterior_variance = (weights * (inner + (mean - posterior_mean[:, None]) ** 2)).sum(axis=1)
    return centre, width, replace(found, weights=weights, mean=posterior_mean, variance=posterior_variance)
