"""What comes out of an estimate: probabilities, their uncertainty, and intervals of both kinds."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from ..budget import check_fraction
from ..errors import InvalidArgument
from ..lazy import fft, optimize, special
from ..noisy import FloatArray, NoiseShape, NoisyCounts, hazard

IntervalKind = Literal["posterior", "frequentist"]
_WIDE = 500.0
"""Noise of a larger scale is looked at on a grid of this scale: its law is then that of a density."""


class CellPosterior(Protocol):
    """The posterior of each count, as far as intervals need it."""

    def bounds(self, level: float) -> tuple[FloatArray, FloatArray]:
        """A lower and an upper bound of every count, flat, that hold with probability `level`."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Estimate:
    """Probabilities estimated from one released table; arrays have the shape of the released values.

    Args:
        probabilities: positive, sum to 1.
        standard_errors: posterior standard deviations for "posterior-mean", those of the noise for the rest.
        name: the method.
        noisy: what it was computed from.
        posterior: of the counts, where the method has one.
        possible: cells that a record can be in, if not all are; `noisy` and `posterior` are of these alone.
    """

    probabilities: FloatArray
    standard_errors: FloatArray
    name: str
    noisy: NoisyCounts = field(repr=False)
    posterior: CellPosterior | None = field(default=None, repr=False)
    possible: NDArray[np.bool_] | None = field(default=None, repr=False)

    def intervals(self, level: float = 0.95, kind: IntervalKind | None = None) -> tuple[FloatArray, FloatArray]:
        """Lower and upper bounds of every probability f/N.

        "posterior" (the default where the method has a posterior): hold with probability `level` on average
        over the cells of tables like this one. Shortest, but small non-zero cells among many empty ones are
        missed more often. "frequentist": from the noise alone; every single cell is covered with probability
        `level`, whatever the table (approximately where the noise grows with the count: a normal stands for
        the gamma). Under add-remove the unknown total costs the frequentist kind a fifth of its error
        probability; the posterior kind takes the estimated total as it is.
        """
        level = check_fraction("level", level)
        if kind is None:
            kind = "frequentist" if self.posterior is None else "posterior"
        if kind == "posterior":
            if self.posterior is None:
                raise InvalidArgument("kind", f"'frequentist' for the method {self.name!r}", got=kind)
            lower, upper = self.posterior.bounds(level)
            total = self.noisy.likely_total
            lower, upper = lower / total, upper / total
        elif kind == "frequentist":
            lower, upper = noise_intervals(self.noisy, level)
        else:
            raise InvalidArgument("kind", "'posterior' or 'frequentist'", got=kind)
        shape = self.probabilities.shape
        if self.possible is not None:
            ends = np.zeros((2, *shape))
            ends[0][self.possible], ends[1][self.possible] = lower, upper
            lower, upper = ends[0].ravel(), ends[1].ravel()
        lower, upper = np.clip(lower, 0.0, 1.0), np.clip(upper, 0.0, 1.0)
        return lower.reshape(shape), np.maximum(lower, upper).reshape(shape)


def noise_intervals(noisy: NoisyCounts, level: float) -> tuple[FloatArray, FloatArray]:
    """Intervals of every probability from the noise alone: |z − f| ≤ q √(v + slope·f), solved for f."""
    error = 1.0 - level
    cell_error = error if noisy.total is not None else 0.8 * error
    values = noisy.values.ravel()
    q = float(-special.ndtri(cell_error / 2))
    if noisy.noise == "laplace":
        b = noisy.scale / math.sqrt(2)
        reach = balanced_reach(b, noisy.size, cell_error) if noisy.balanced else _laplace_reach(values, b, cell_error)
        q = reach / noisy.scale
    centre = values + q * q * noisy.slope / 2
    inside = noisy.variance + noisy.slope * values + (q * noisy.slope / 2) ** 2
    half = q * np.sqrt(np.maximum(inside, 0.0))
    lower, upper = np.maximum(centre - half, 0.0), np.maximum(centre + half, 0.0)
    if noisy.total is not None:
        return lower / noisy.total, upper / noisy.total
    sum_q = float(-special.ndtri((error - cell_error) / 2))
    total, around = float(values.sum()), sum_q * noisy.total_scale
    least, most = total - around, max(total + around, 1.0)
    return lower / most, upper / least if least > 0 else np.ones_like(upper)


def _laplace_reach(values: FloatArray, b: float, error: float) -> float:
    """The smallest h with Pr[|noise| > h] ≤ error: e^{−h/b}, or 2 e^{−(h+1)/b} / (1 + e^{−1/b}) for whole numbers."""
    if np.any(values != np.rint(values)):
        return -b * math.log(error)
    return max(0.0, math.ceil(-b * (math.log(error / 2) + math.log1p(math.exp(-1 / b))) - 1))


def truncated_normal_mean(mean: FloatArray, deviation: FloatArray | float) -> FloatArray:
    """The mean of a normal truncated to positive values: m + s φ(m/s)/Φ(m/s)."""
    x = np.asarray(mean / deviation, dtype=np.float64)
    far = x < -20.0
    near = np.where(far, 0.0, x)
    safe = np.where(far, -1.0 / np.where(far, x, 1.0), near + hazard(near))  # x + φ/Φ ≈ −1/x far below 0
    return np.asarray(deviation * safe)


@lru_cache(maxsize=256)
def balanced_reach(scale: float, cells: int, error: float) -> float:
    """About the smallest h, rounded up, for which Pr[|x₁| > h] ≤ error.

    Pr[x₁ = k] ∝ e^{−|k|/b} · Pr[the noise of the other cells, independent, adds up to −k]; the second factor comes from
    its characteristic function.

    >>> balanced_reach(2.0, 2, 0.05)  # two cells: Pr[|x₁| > h] = 2 e^{−2(h+1)/b} / (1 + e^{−2/b})
    3.0
    """
    step = max(1.0, scale / _WIDE)
    b = scale / step
    size = fft.next_fast_len(2 * math.ceil(b * (40 + 8 * math.sqrt(cells)) + 20), real=True)
    q = math.exp(-1 / b)
    sines = np.sin(np.pi / size * np.arange(size // 2 + 1)) ** 2
    transform = 1 / (1 + 4 * q / math.expm1(-1 / b) ** 2 * sines)
    others = fft.irfft(transform ** (cells - 1), size)[: size // 2]
    masses = np.exp(-np.arange(size // 2) / b) * np.maximum(others, 0.0)
    masses[1:] *= 2
    beyond = np.cumsum(masses[::-1])[::-1] / masses.sum()  # Pr[|x₁| ≥ k]
    first = int(np.argmax(beyond <= error))
    return step * (first - 1 if step == 1 else first)


# -- simple -----------------------------------------------------------------------------------------------------------
#
# Estimates that need no prior: the baselines of the literature, each at its best.

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
    shift = optimize.brentq(lambda s: float(mean(s).sum()) - total, low, high, xtol=1e-9 * noisy.scale, rtol=1e-12)
    return np.maximum(mean(shift), TINY)


METHODS: dict[str, Callable[[NoisyCounts], FloatArray]] = {
    "raw": raw,
    "clip": clip,
    "clip-tiny": clip_tiny,
    "projection": projection,
    "truncated-normal": truncated_normal,
}
"""Each gives positive counts up to a common factor."""


__all__ = [
    "CellPosterior",
    "Estimate",
    "FloatArray",
    "IntervalKind",
    "NoiseShape",
    "NoisyCounts",
    "noise_intervals",
    "truncated_normal_mean",
]
