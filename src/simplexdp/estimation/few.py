"""Posterior of the counts of a table with few cells: exact under a mixture of Dirichlet-multinomial priors.

Given the total, Dirichlet-multinomial(k) counts are independent NB(k, ·) counts conditioned on their sum, so
the posterior of one count is its own prior × likelihood times the convolution of all the others at what
remains of the total. The convolutions run on a lattice (the whole numbers where the noise is small) by FFT,
under an exponential tilt that puts the total in the middle, and k is averaged out by its exact evidence.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..lazy import fft, special
from .likelihood import SHAPES, Likelihood, likelihood_of, softmax
from .values import FloatArray, NoisyCounts, projection

LOG_SHAPE_SD = 2.0
"""Hyper-prior: ln k ~ N(0, (2 (1 − 1/d)²)²): around the flat prior, the closer the fewer cells can speak of k."""
POISSON_WEIGHT, EQUAL_WEIGHT = 0.1, 0.05
"""Prior weights of "all probabilities equal" and of "all counts equal"."""
NARROW_CENTRE, NARROW_SD = 2.0, 0.7
"""ln k ~ N(ln 2, 0.7²) where the noise is far below or far above an average count."""
CLEAR, DROWNED = (0.05, 0.3), (1.0, 10.0)
"""Deviation of the noise over an average count: the narrow hyper-prior below 0.05 and above 10, the wide one between
0.3 and 1. Clear counts speak for themselves, but for small ones, which shrink too far if the table may be very uneven;
drowned ones do not say how uneven it is."""
DROWNED_EQUAL_WEIGHT = 0.2
"""Prior weight of "all counts equal" where the noise drowns them."""
STEPS = 5
"""Lattice points per standard deviation of the noise."""
MAX_POINTS = 4000
"""Longest lattice of one cell."""
REACH = {"normal": 6.5, "laplace": 10.0, "other": 8.0}
"""Half-width of a cell's window, in standard deviations."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Lattice:
    """Counts `step · (first + 0, 1, …)` for each cell; the total is `steps` steps."""

    step: float
    steps: int
    first: NDArray[np.int64]
    points: int

    @property
    def index(self) -> NDArray[np.int64]:
        """Position of every point, one row for each cell."""
        return np.asarray(self.first[:, None] + np.arange(self.points))


@dataclass(frozen=True, kw_only=True, eq=False)
class FewPosterior:
    """Posterior of each count on its lattice."""

    lattice: Lattice
    weights: FloatArray

    def bounds(self, level: float) -> tuple[FloatArray, FloatArray]:
        """Equal-tailed bounds of each count; all the error is above where 0 is inside the lower tail."""
        error = 1 - level
        lower = self._quantile(np.full(len(self.weights), error / 2), upper=False)
        upper = self._quantile(np.where(lower <= 0, level, 1 - error / 2), upper=True)
        return lower, upper

    def _quantile(self, level: FloatArray, *, upper: bool) -> FloatArray:
        cumulative = np.cumsum(self.weights, axis=1)
        rows = np.arange(level.size)
        column = np.minimum((cumulative < level[:, None] - 1e-12).sum(axis=1), self.lattice.points - 1)
        at = self.lattice.step * (self.lattice.first + column)
        if self.lattice.step <= 1:
            return np.asarray(at)
        before = cumulative[rows, column] - self.weights[rows, column]
        part = np.clip((level - before) / np.maximum(self.weights[rows, column], 1e-300), 0.0, 1.0)
        inside = at + (part - 0.5) * self.lattice.step
        return np.where((at == 0) & (not upper), 0.0, np.maximum(inside, 0.0))


def lattice_for(noisy: NoisyCounts, law: Likelihood) -> Lattice | None:
    """A lattice that resolves the noise and covers the posterior, or None if that takes too many points."""
    total = noisy.likely_total
    finest = max(1.0, float(law.width.min()) / STEPS)
    steps = max(1, math.ceil(total / finest - 1e-9))
    step = total / steps
    centres = [law.centre]
    if noisy.total is not None:
        # On the plane Σf = N a common shift of all values changes nothing under normal noise.
        projected = projection(noisy).ravel()
        centres = [projected] if law.kind == "normal" else [law.centre, projected]
    reach = REACH[law.kind] * law.width
    low = np.min([np.clip(centre, 0, total) - reach for centre in centres], axis=0)
    high = np.max([np.clip(centre, 0, total) + reach for centre in centres], axis=0)
    first = np.maximum(np.floor(low / step), 0).astype(np.int64)
    last = np.minimum(np.ceil(high / step), steps).astype(np.int64)
    points = int((last - first).max()) + 1
    if points > MAX_POINTS or points * noisy.size > 20 * MAX_POINTS:
        return None
    return Lattice(step=step, steps=steps, first=first, points=points)


def log_prior_mass(lattice: Lattice, shape: float, mean: float) -> tuple[FloatArray, float]:
    """Log-mass of NB(shape, mean) in the bin around each lattice point, and the mean inside the bin at 0."""
    index, step = lattice.index, lattice.step
    log_mass = _log_negative_binomial(np.asarray(index * step, dtype=np.float64), shape, mean) + math.log(step)
    inside = 0.0
    if step > 1:
        # Point mass × step is accurate where the prior is smooth; sum it up near 0 and where it is narrow.
        narrow = mean + (0.0 if math.isinf(shape) else mean * mean / shape) < (4 * step) ** 2
        rough = np.ones_like(index, dtype=np.bool_) if narrow else index < 8
        at = np.asarray(index[rough] * step, dtype=np.float64)  # a bin holds the whole numbers within half a step
        mass = _between(at - step / 2, at + step / 2, shape, mean)
        log_mass[rough] = np.where(mass > 1e-200, np.log(np.maximum(mass, 1e-300)), log_mass[rough])
        # f NB(f; k, μ) = μ NB(f − 1; k + 1, μ (k + 1)/k) gives the mean inside the bin at 0.
        edge, next_mean = np.array([step / 2]), mean if math.isinf(shape) else mean * (shape + 1) / shape
        share = _below(edge - 1, shape + 1, next_mean) / np.maximum(_below(edge, shape, mean), 1e-300)
        inside = min(mean * float(share[0]), step / 2)
    return np.where(index > lattice.steps, -np.inf, log_mass), inside


def _log_negative_binomial(counts: FloatArray, shape: float, mean: float) -> FloatArray:
    if math.isinf(shape):
        return np.asarray(special.xlogy(counts, mean) - mean - special.gammaln(counts + 1))
    success = math.log(mean / (shape + mean))
    fail = -math.log1p(mean / shape)
    return np.asarray(
        special.gammaln(counts + shape)
        - special.gammaln(shape)
        - special.gammaln(counts + 1)
        + shape * fail
        + counts * success
    )


def _below(edges: FloatArray, shape: float, mean: float) -> FloatArray:
    """P(count < edge + ½): the distribution function between whole numbers, continued smoothly."""
    at = np.maximum(edges + 0.5, 1e-300)
    if math.isinf(shape):
        return np.where(edges > -0.5, special.gammaincc(at, mean), 0.0)
    return np.where(edges > -0.5, special.betainc(shape, at, shape / (shape + mean)), 0.0)


def _between(lower: FloatArray, upper: FloatArray, shape: float, mean: float) -> FloatArray:
    """Mass between two edges, from the tail that is smaller."""
    mass = np.asarray(_below(upper, shape, mean) - _below(lower, shape, mean))
    above = lower > mean
    low, high = lower[above] + 0.5, upper[above] + 0.5
    if math.isinf(shape):
        mass[above] = special.gammainc(low, mean) - special.gammainc(high, mean)
    else:
        chance = shape / (shape + mean)
        mass[above] = special.betaincc(shape, low, chance) - special.betaincc(shape, high, chance)
    return mass


@dataclass(frozen=True, kw_only=True, eq=False)
class FewModels:
    """What each model says: one for each shape, and last that all counts are the same.

    Args:
        lattice: where the counts live.
        weights: posterior of each count on its lattice, one block for each shape.
        means: of each count under each model.
        squares: means of the squares.
        log_evidence: of each model, without its prior weight.
    """

    lattice: Lattice
    weights: FloatArray
    means: FloatArray
    squares: FloatArray
    log_evidence: FloatArray


def few_cells(noisy: NoisyCounts) -> tuple[FloatArray, FloatArray, FewPosterior] | None:
    """Posterior mean and standard deviation of every (flat) count, and the posterior for intervals."""
    models = few_models(noisy)
    if models is None:
        return None
    noise = noisy.scale * noisy.size / max(noisy.likely_total, 1.0)
    model = softmax(models.log_evidence + np.log(model_weights(noisy.size, noise)))[0]
    mean = model @ models.means
    variance = model @ models.squares - mean**2
    # Intervals must hold for any table: they have the widest prior, without the laws under which all cells are alike,
    # since those would be taken for true where they are true but for a little.
    uneven = softmax(models.log_evidence[:-2] + np.log(model_weights(noisy.size)[:-2]))[0]
    posterior = FewPosterior(lattice=models.lattice, weights=np.einsum("k,kij->ij", uneven, models.weights[:-1]))
    return mean, np.sqrt(np.maximum(variance, 0.0)), posterior


def few_models(noisy: NoisyCounts) -> FewModels | None:
    """Every model's posterior, or None if that takes too many points."""
    law = likelihood_of(noisy.values.ravel(), noisy)
    lattice = lattice_for(noisy, law)
    if lattice is None:
        return None
    total = noisy.likely_total
    mean = total / noisy.size
    counts = np.asarray(lattice.index * lattice.step, dtype=np.float64)
    masses = [log_prior_mass(lattice, float(shape), mean) for shape in SHAPES]
    log_joint = np.array([mass for mass, _ in masses]) + law.log_at(counts)
    if noisy.total is None:
        weights, log_evidence = _independent(log_joint)
    else:
        weights, log_evidence = _conditioned(log_joint, lattice)
        # The sum over the lattice has the total within a step of N, not at N.
        log_evidence -= math.log(lattice.step) + np.array(
            [float(_log_negative_binomial(np.array(total), shape * noisy.size, total)) for shape in SHAPES]
        )
    inside = np.array([mean_at_zero for _, mean_at_zero in masses])
    at = np.where(counts == 0, inside[:, None, None], counts)
    return FewModels(
        lattice=lattice,
        weights=weights,
        means=np.vstack([(weights * at).sum(axis=2), np.full(noisy.size, mean)]),
        squares=np.vstack([(weights * at**2).sum(axis=2), np.full(noisy.size, mean**2)]),
        log_evidence=np.append(log_evidence, float(law.log_at(np.full((1, 1), mean)).sum())),
    )


def model_weights(cells: int, noise: float = 0.5) -> FloatArray:
    """Prior weights of the shapes and of "all counts equal".

    Args:
        cells: of the table, two or more.
        noise: the standard deviation of the noise over an average count; 0.5 gives the widest prior.
    """
    clear = _part(noise, CLEAR[1], CLEAR[0]) if cells > 2 else 0.0  # two cells say so little of k that it is narrow
    drowned = _part(noise, *DROWNED)
    narrow = clear + drowned
    spread = (LOG_SHAPE_SD * (1 - 1 / cells) ** 2) ** (1 - narrow) * NARROW_SD**narrow
    finite = np.exp(-0.5 * ((np.log(SHAPES[:-1]) - narrow * math.log(NARROW_CENTRE)) / spread) ** 2)
    equal = EQUAL_WEIGHT ** (1 - drowned) * DROWNED_EQUAL_WEIGHT**drowned
    return np.concatenate([finite / finite.sum() * (1 - POISSON_WEIGHT), [POISSON_WEIGHT, equal]])


def _part(noise: float, none: float, all_of_it: float) -> float:
    """How far the noise has gone from one level to the other, on the logarithmic scale: 0 to 1."""
    return min(1.0, max(0.0, math.log(max(noise, 1e-12) / none) / math.log(all_of_it / none)))


def _independent(log_joint: FloatArray) -> tuple[FloatArray, FloatArray]:
    weights, log_sums = softmax(log_joint)
    return weights, log_sums.sum(axis=1)


def _conditioned(log_joint: FloatArray, lattice: Lattice) -> tuple[FloatArray, FloatArray]:
    """Posterior of each cell given the total, and the log-evidence with the total, for each model."""
    cells, points = log_joint.shape[1:]
    local = np.arange(points)
    target = lattice.steps - int(lattice.first.sum())
    tilt = _balance(log_joint, target)
    weights, log_sums = softmax(log_joint + tilt[:, None, None] * local)
    log_evidence = log_sums.sum(axis=1) - tilt * target
    length = fft.next_fast_len(cells * (points - 1) + 1, real=True)
    spectrum = fft.rfft(weights, length, axis=2)
    before, after = np.ones_like(spectrum), np.ones_like(spectrum)
    before[:, 1:] = np.cumprod(spectrum[:, :-1], axis=1)
    after[:, :-1] = np.cumprod(spectrum[:, :0:-1], axis=1)[:, ::-1]
    others = fft.irfft(before * after, length, axis=2)
    rest = target - local
    possible = (rest >= 0) & (rest <= (cells - 1) * (points - 1))
    remaining = np.where(possible, others[:, :, np.clip(rest, 0, length - 1)], 0.0)
    joint = weights * np.maximum(remaining, 0.0)
    sums = joint.sum(axis=2, keepdims=True)
    alive = sums[:, :, 0] > 1e-290
    joint = np.where(alive[:, :, None], joint / np.maximum(sums, 1e-300), weights)
    log_evidence = log_evidence + np.where(alive.all(axis=1), np.log(np.maximum(sums[:, 0, 0], 1e-300)), -np.inf)
    if not np.isfinite(log_evidence).any():
        log_evidence = log_sums.sum(axis=1)
    return joint, log_evidence


def _balance(log_joint: FloatArray, target: int) -> FloatArray:
    """The tilt of each model at which the cells' mean positions add to the target: safeguarded Newton."""
    local = np.arange(log_joint.shape[2], dtype=np.float64)
    tilt = np.zeros(log_joint.shape[0])
    low, high = np.full_like(tilt, -np.inf), np.full_like(tilt, np.inf)
    for _ in range(40):
        weights, _ = softmax(log_joint + tilt[:, None, None] * local)
        mean = weights @ local
        spread = np.maximum((weights @ local**2 - mean**2).sum(axis=1), 1e-6)
        gap = mean.sum(axis=1) - target
        if np.all(np.abs(gap) <= 0.2 * np.sqrt(spread) + 0.01):
            break
        low, high = np.where(gap < 0, tilt, low), np.where(gap >= 0, tilt, high)
        new = tilt - np.clip(gap / spread, -2.0, 2.0)
        outside = (new <= low) | (new >= high)
        middle = np.where(np.isfinite(low + high), (low + high) / 2, new)
        tilt = np.where(outside, middle, new)
    return tilt
