"""Posterior of the counts of a table with many cells: the prior is learnt from the release itself.

Cells become a few hundred weighted centroids, and every posterior is tilted by e^{λf}, with λ such that the means add
to N. Two priors are averaged by their evidence:

- The population prior: negative binomials NB(k, ·), over k. Given the total they are Dirichlet-multinomial(k), and the
  evidence conditions on it by the saddle point: ln p(z | Σf = N) ≈ Σ ln p_λ(z_i) − λN − ½ ln Var_post + ½ ln Var_prior.
- A mixture fitted by leave-one-out EM, with components at several resolutions: the population prior, NB(1, m) and
  NB(6, m) on ladders of means m, the atom at 0 and single bins. Their weights have a Dirichlet(τb) prior. A single bin
  must be supported by more than a few other cells (absolute discount), which stops chance ties of two cells.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from ..lazy import special
from .likelihood import (
    SHAPES,
    BinnedLikelihood,
    Likelihood,
    all_equal,
    bin_edges,
    bin_likelihood,
    likelihood_of,
    negative_binomial,
    softmax,
    thin,
)
from .values import FloatArray, NoisyCounts

MAX_CENTROIDS = 400
"""Tables up to this size are not compressed."""
FAR = 8
"""Deviations of the noise beyond which a value is large."""
SPACING = 0.08
"""Least distance of centroids, in deviations of the noise."""
ALONE = 3
"""A large value with no other within this many deviations learns from none."""
LOG_SHAPE_SD = 1.5
"""Hyper-prior: ln k ~ N(0, this²)."""
POISSON_WEIGHT, EQUAL_WEIGHT = 0.3, 0.05
"""Prior weights of "all probabilities equal" and "all counts equal"."""
CONCENTRATION = 0.5
"""τ: prior weight of the whole dictionary, in cells."""
SHARES = {"population": 0.8, "wide": 0.14, "narrow": 0.12, "zero": 0.2, "bins": 0.08}
"""How τ is split over the parts of the dictionary (normalised when used)."""
DISCOUNT = 3.0
"""Cells that a single bin must exceed in support."""
WIDE, NARROW = (1.0, 1.6), (6.0, 1.35)
"""Shape of the negative binomials of a ladder, and the ratio of their means from step to step."""
LADDER_START = 0.7
"""The lowest mean of both ladders."""
NEAR = 1.5
"""Single bins within this many standard deviations support each other."""
SWEEPS, MAX_SWEEPS, TILT_EVERY = 80, 300, 5
LEARNT_ODDS = math.exp(-2.0)
"""Prior odds of the learnt mixture against the population prior alone."""
CAVITY_CELLS = 200
"""Up to here the uncertainty of the other cells' sum matters and is conditioned on as well."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Compressed:
    """Values grouped by size: a centroid stands for `counts` cells; `values` is None if none were."""

    centroids: FloatArray
    counts: FloatArray
    spread: FloatArray
    values: FloatArray | None

    def expand(self, at_centroids: FloatArray, alone: FloatArray) -> FloatArray:
        """Interpolate between centroids; isolated ones have nothing to learn from others: use `alone`."""
        if self.values is None:
            return at_centroids
        return np.interp(self.values, self.centroids, np.where(self._isolated(), alone, at_centroids))

    def expand_shift(self, at_centroids: FloatArray, alone: FloatArray) -> FloatArray:
        """The same for a shift relative to the value itself."""
        if self.values is None:
            return at_centroids
        return self.values + self.expand(at_centroids - self.centroids, alone)

    def _isolated(self) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        gaps = np.diff(self.centroids)
        around = np.maximum(np.append(0.0, gaps), np.append(gaps, 0.0))
        # Under little noise neighbouring whole numbers are far apart too, but near 0 they still learn from each other.
        large = self.centroids > FAR * self.spread
        return np.asarray((around > ALONE * self.spread) & (self.counts <= 1) & large)


def compress(noisy: NoisyCounts, ordered: FloatArray) -> Compressed:
    """Group values at a spacing of at least `SPACING` noise deviations, denser where there are more of them.

    `ordered` are the sorted values.
    """
    values, scale = noisy.values.ravel(), noisy.scale
    if values.size <= MAX_CENTROIDS:
        spread = np.sqrt(noisy.noise_variance(values))
        return Compressed(centroids=values, counts=np.ones(values.size), spread=spread, values=None)
    ranks = np.linspace(0, values.size - 1, MAX_CENTROIDS // 2 + 1).astype(np.int64)
    least, most = float(ordered[0]), float(ordered[-1])
    far = np.geomspace(FAR * scale, max(most, (FAR + 1) * scale), 60)
    cuts = np.sort(np.concatenate([ordered[ranks], np.arange(-5, 8, 0.1) * scale, far]))
    cuts = thin(cuts[(cuts > least) & (cuts < most)], SPACING * scale)
    group = np.searchsorted(cuts, values)
    counts = np.bincount(group).astype(np.float64)
    sums = np.bincount(group, weights=values)
    full = counts > 0
    centroids = sums[full] / counts[full]
    spread = np.sqrt(noisy.noise_variance(centroids))
    return Compressed(centroids=centroids, counts=counts[full], spread=spread, values=values)


@dataclass(frozen=True, kw_only=True, eq=False)
class Binned:
    """What the release says of each centroid, on the axis of {0} and the bins.

    Args:
        edges: of the bins.
        bins: the likelihood in each.
        reference: of each centroid, where its tilt is 1: the peak of its likelihood.
        counts: how many cells each stands for.
        total: the public number of records.
        likely_total: the same, or about it.
        scale: the standard deviation of the noise in an empty cell.
        slope: how the noise grows with the count.
    """

    edges: FloatArray
    bins: BinnedLikelihood
    reference: FloatArray
    counts: FloatArray
    total: float | None
    likely_total: float
    scale: float
    slope: float


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


def posterior_at(log_prior: FloatArray, seen: Binned, tilt: float) -> Tilted:
    """The posterior of each cell under tilt λ; inside a bin e^{λf} moves the mean by λ times the variance."""
    bins = seen.bins
    offset = bins.mean - seen.reference[:, None]
    log_weights = log_prior + bins.log + tilt * offset + 0.5 * tilt * tilt * bins.variance
    weights, log_evidence = softmax(log_weights)
    moved = bins.mean + tilt * bins.variance
    mean = (weights * moved).sum(axis=1)
    variance = (weights * (bins.variance + (moved - mean[:, None]) ** 2)).sum(axis=1)
    return Tilted(tilt=tilt, weights=weights, mean=mean, variance=variance, log_evidence=log_evidence)


def match_total(
    log_prior: FloatArray, seen: Binned, *, start: float = 0.0, steps: int = 8, tolerance: float = 1e-3
) -> Tilted:
    """Safeguarded Newton for the tilt at which the means, each counted `counts` times, add to the total."""
    counts, total = seen.counts, seen.total
    tilt, low, high = start, -math.inf, math.inf
    found = posterior_at(log_prior, seen, tilt)
    if total is None:
        return found
    for _ in range(steps):
        gap = float(counts @ found.mean) - total
        spread = max(float(counts @ found.variance), 1e-300)
        if abs(gap) <= tolerance * math.sqrt(spread) + 1e-9 * total:
            break
        low, high = (low, tilt) if gap > 0 else (tilt, high)  # the sum of the means grows with the tilt
        limit = min(2 / math.sqrt(spread / float(counts.sum())), 4 / seen.scale + abs(tilt))
        step = min(max(gap / spread, -limit), limit)
        new = tilt - step
        if not low < new < high and math.isfinite(low + high):
            new = (low + high) / 2
        tilt = new
        found = posterior_at(log_prior, seen, tilt)
    return found


@dataclass(frozen=True, kw_only=True, eq=False)
class Population:
    """A prior over {0} and the bins, the tilt that goes with it and the variance of the posterior total.

    `uneven` is the same prior without the laws under which all cells are alike, for intervals: these must hold where
    the table is nearly even, but not quite.
    """

    prior: FloatArray
    uneven: FloatArray
    tilt: float
    variance: float


def shape_weights(shapes: FloatArray = SHAPES, sd: float = LOG_SHAPE_SD) -> FloatArray:
    """Hyper-prior weights of the shapes, the last one being Poisson."""
    finite = np.exp(-0.5 * (np.log(shapes[:-1]) / sd) ** 2)
    return np.append(finite / finite.sum() * (1 - POISSON_WEIGHT), POISSON_WEIGHT)


def population_prior(seen: Binned, mean: float, log_at_mean: FloatArray) -> Population:
    """Average NB(k, mean) over k, Poisson and "all equal" by evidence."""
    edges, counts, total = seen.edges, seen.counts, seen.total
    cells = float(counts.sum())
    evidence, priors, tilts, variances = [], [], [], []
    tilt = 0.0
    for shape in SHAPES:
        prior = negative_binomial(edges, float(shape), mean)
        found = match_total(np.log(prior), seen, start=tilt, tolerance=0.02)
        tilt = found.tilt
        variance = float(counts @ found.variance)
        log_evidence = float(counts @ found.log_evidence)
        if total is not None:
            prior_variance = mean + (mean * mean / shape if math.isfinite(shape) else 0.0)
            log_evidence -= tilt * (total - float(counts @ seen.reference))
            log_evidence += 0.5 * math.log(cells * prior_variance) - 0.5 * math.log(max(variance, 1e-300))
        evidence.append(log_evidence)
        priors.append(prior)
        tilts.append(tilt)
        variances.append(variance)
    log_weights = np.array(evidence) + np.log(shape_weights())
    log_weights = np.append(log_weights, float(counts @ log_at_mean) + math.log(EQUAL_WEIGHT))
    weights = np.exp(log_weights - log_weights.max())
    weights /= weights.sum()
    variance = max(float(weights[:-1] @ np.array(variances)), 1e-3 * cells * seen.scale * seen.scale)
    limit = 3 / math.sqrt(variance)  # a larger tilt means the population misfits, which the mixture will mend
    finite = np.exp(log_weights[:-2] - log_weights[:-2].max())
    return Population(
        prior=weights @ np.array([*priors, all_equal(edges, mean)]),
        uneven=finite @ np.array(priors[:-1]) / finite.sum(),
        tilt=float(np.clip(weights[:-1] @ np.array(tilts), -limit, limit)),
        variance=variance,
    )


def dictionary(edges: FloatArray, population: FloatArray, total: float) -> tuple[FloatArray, FloatArray]:
    """Components (rows: mass in {0} and the bins) and prior weights; the last rows are the identity."""
    parts, base = [population[None]], [np.array([SHARES["population"]])]
    for (shape, ratio), share in ((WIDE, SHARES["wide"]), (NARROW, SHARES["narrow"])):
        means = np.exp(np.arange(math.log(LADDER_START), math.log(max(total, 2.0)), math.log(ratio)))
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
        self._near = near

    def weights(self, shares: FloatArray, discount: float = DISCOUNT) -> FloatArray:
        """τb plus the other cells' shares, one row for each cell, single bins discounted."""
        sums = self._counts @ shares
        others = sums - shares
        if discount:
            single = self._near.shape[0]
            support = np.maximum(self._near @ sums[-single:], 1e-9)
            others[:, -single:] *= np.maximum(0.0, 1 - discount / support)
        np.maximum(others, 0.0, out=others)
        others += self._floor
        return others


def mixture_prior(seen: Binned, population: Population) -> tuple[FloatArray, float]:
    """Log-prior of each cell over {0} and the bins, and the tilt reached on the way."""
    edges, bins, counts, total, scale = seen.edges, seen.bins, seen.counts, seen.total, seen.scale
    components, base = dictionary(edges, population.prior, seen.likely_total)
    middle = (edges[1:] + edges[:-1]) / 2
    reach = NEAR * np.sqrt(scale * scale + seen.slope * middle)
    near = (np.abs(middle[:, None] - middle[None]) <= reach).astype(np.float64)
    others = LeaveOneOut(base, counts, near)
    offset = bins.mean - seen.reference[:, None]

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
        half = float(-special.ndtri(error / 2)) * self.width
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
        low, high = special.ndtr(np.where(flip, -b, a)), special.ndtr(np.where(flip, -a, b))
        inside = low + np.where(flip, 1 - part, part) * (high - low)
        x = special.ndtri(np.clip(inside, 1e-300, 1 - 1e-16))
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
    seen = Binned(
        edges=edges,
        bins=bins,
        reference=law.centre,
        counts=cells.counts,
        total=noisy.total,
        likely_total=total,
        scale=noisy.scale,
        slope=noisy.slope,
    )
    population = population_prior(seen, mean, law.log_at(np.full((1, 1), mean))[:, 0])
    log_prior, tilt = mixture_prior(seen, population)
    learnt = match_total(log_prior, seen, start=tilt, steps=60)
    plain_prior, uneven_prior = np.log(population.prior)[None], np.log(population.uneven)[None]
    plain, uneven = (match_total(prior, seen, start=population.tilt, steps=60) for prior in (plain_prior, uneven_prior))
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

    return float(special.expit(evidence(learnt) - evidence(plain) + math.log(LEARNT_ODDS)))


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
