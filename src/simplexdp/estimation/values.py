"""What goes into an estimate and what comes out: one interface for every mechanism."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Literal, Protocol, get_args

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from ..budget import check_fraction, check_positive
from ..errors import InvalidArgument
from ..mechanisms.balanced import BalancedLaplace
from .balanced import balanced_reach

FloatArray = NDArray[np.float64]
NoiseShape = Literal["normal", "laplace"]
IntervalKind = Literal["posterior", "frequentist"]


@dataclass(frozen=True, kw_only=True, eq=False)
class NoisyCounts:
    """A released table in count units: value = count + noise of mean 0, variance `variance + slope·count`.

    | mechanism | values | variance | slope |
    |---|---|---|---|
    | Gaussian, discrete Gaussian | the noisy counts | σ² | 0 |
    | Laplace, discrete Laplace of scale b | the noisy counts | 2b² | 0 |
    | Dirichlet draw y, public total N | (y (rN + dα) − α)/r | α/r² | 1/r |
    | Pólya (coin flips) X, c = (1−p)/p | (X/c − α)/r | (1 + 1/c) α/r² | (1 + 1/c)/r |

    With a slope the noise is taken to be gamma-shaped, which is exact for the Dirichlet draw:
    (value + variance/slope)/slope ~ Gamma((count + variance/slope)/slope). A discrete law has the same
    likelihood at whole counts as the continuous one of the same σ or b, whose variance is meant here.

    Args:
        values: an unbiased estimate of each count; any shape.
        variance: the noise variance at count 0.
        slope: how fast the noise variance grows with the count.
        total: the public number of records under replace-one; None under add-remove, where it is private
            and only the released values may speak of it.
        noise: "laplace" for two-sided exponential noise, "normal" for everything else.
        balanced: whether Laplace noise is known to add up to zero. The likelihood is the same given the total; the
            noise of a cell is smaller, which intervals and standard errors from the noise alone make use of.
    """

    values: FloatArray
    variance: float
    slope: float = 0.0
    total: float | None = None
    noise: NoiseShape = "normal"
    balanced: bool = False

    def __post_init__(self) -> None:
        try:
            values = np.array(self.values, dtype=np.float64)
        except (TypeError, ValueError):
            raise InvalidArgument("values", "an array of numbers") from None
        if values.size == 0 or values.ndim == 0:
            raise InvalidArgument("values", "an array with at least one cell")
        if not np.all(np.isfinite(values)):
            raise InvalidArgument("values", "finite in every cell")
        values.flags.writeable = False
        object.__setattr__(self, "values", values)
        object.__setattr__(self, "variance", check_positive("variance", self.variance))
        if not (math.isfinite(self.slope) and self.slope >= 0):
            raise InvalidArgument("slope", "a finite number, 0 or more", got=self.slope)
        object.__setattr__(self, "slope", float(self.slope))
        if self.noise not in get_args(NoiseShape):
            raise InvalidArgument("noise", "'normal' or 'laplace'", got=self.noise)
        if self.noise == "laplace" and self.slope > 0:
            raise InvalidArgument("slope", "0 for Laplace noise", got=self.slope)
        if self.balanced and (self.noise != "laplace" or self.total is None):
            raise InvalidArgument("balanced", "False without Laplace noise and a public total", got=True)
        if self.total is not None:
            object.__setattr__(self, "total", check_positive("total", self.total))

    @property
    def size(self) -> int:
        """How many cells."""
        return int(self.values.size)

    @property
    def scale(self) -> float:
        """The standard deviation of the noise in an empty cell."""
        return math.sqrt(self.variance)

    @property
    def likely_total(self) -> float:
        """The public total, or the truncated-normal mean around the sum of the values."""
        if self.total is not None:
            return self.total
        deviation, mean = self.total_scale, float(self.values.sum())
        return max(1.0, mean + deviation * float(_hazard(np.array([mean / deviation]))[0]))

    @property
    def total_scale(self) -> float:
        """The standard deviation of the sum of the values."""
        return math.sqrt(self.size * self.variance + self.slope * max(0.0, float(self.values.sum())))

    def noise_variance(self, counts: FloatArray) -> FloatArray:
        """The noise variance at the given counts (negative ones are taken as 0)."""
        return self.variance + self.slope * np.maximum(counts, 0.0)

    @property
    def deviations(self) -> FloatArray:
        """The standard deviation of the noise of each cell, flat, the values standing for the counts."""
        if self.balanced:
            law = BalancedLaplace(scale=self.scale / math.sqrt(2), cells=self.size)
            return np.full(self.size, math.sqrt(law.noise_variance))
        return np.sqrt(self.noise_variance(self.values.ravel()))


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
    """

    probabilities: FloatArray
    standard_errors: FloatArray
    name: str
    noisy: NoisyCounts = field(repr=False)
    posterior: CellPosterior | None = field(default=None, repr=False)

    def intervals(self, level: float = 0.95, kind: IntervalKind | None = None) -> tuple[FloatArray, FloatArray]:
        """Lower and upper bounds of every probability f/N.

        "posterior" (the default where the method has a posterior): hold with probability `level` on average
        over the cells of tables like this one. Shortest, but small non-zero cells among many empty ones are
        missed more often. "frequentist": from the noise alone; every single cell is covered with probability
        `level`, whatever the table (approximately where the noise grows with the count: a normal stands for
        the gamma). Under add-remove the unknown total costs the frequentist kind a fifth of its error
        probability; the posterior kind takes the estimated total as it is.
        """
        check_fraction("level", level)
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
        shape = self.noisy.values.shape
        lower, upper = np.clip(lower, 0.0, 1.0), np.clip(upper, 0.0, 1.0)
        return lower.reshape(shape), np.maximum(lower, upper).reshape(shape)


def noise_intervals(noisy: NoisyCounts, level: float) -> tuple[FloatArray, FloatArray]:
    """Intervals of every probability from the noise alone: |z − f| ≤ q √(v + slope·f), solved for f."""
    error = 1.0 - level
    cell_error = error if noisy.total is not None else 0.8 * error
    values = noisy.values.ravel()
    q = float(-ndtri(cell_error / 2))
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
    sum_q = float(-ndtri((error - cell_error) / 2))
    total, around = float(values.sum()), sum_q * noisy.total_scale
    least, most = total - around, max(total + around, 1.0)
    return lower / most, upper / least if least > 0 else np.ones_like(upper)


def _laplace_reach(values: FloatArray, b: float, error: float) -> float:
    """The smallest h with Pr[|noise| > h] ≤ error: e^{−h/b}, or 2 e^{−(h+1)/b} / (1 + e^{−1/b}) for whole numbers."""
    if np.any(values != np.rint(values)):
        return -b * math.log(error)
    return max(0.0, math.ceil(-b * (math.log(error / 2) + math.log1p(math.exp(-1 / b))) - 1))


def _hazard(x: FloatArray) -> FloatArray:
    """φ(x)/Φ(x), stable for very negative x."""
    x = np.asarray(x, dtype=np.float64)
    far = x < -20.0
    near = np.where(far, 0.0, x)
    density = np.exp(-0.5 * near * near) / math.sqrt(2 * math.pi)
    tail = -x + np.where(far, -1.0, 0.0) / np.where(far, x, 1.0)  # Mills' ratio: φ/Φ ≈ −x − 1/x
    return np.where(far, tail, density / ndtr(near))


def truncated_normal_mean(mean: FloatArray, deviation: FloatArray | float) -> FloatArray:
    """The mean of a normal truncated to positive values: m + s φ(m/s)/Φ(m/s)."""
    x = np.asarray(mean / deviation, dtype=np.float64)
    far = x < -20.0
    near = np.where(far, 0.0, x)
    safe = np.where(far, -1.0 / np.where(far, x, 1.0), near + _hazard(near))  # x + φ/Φ ≈ −1/x far below 0
    return np.asarray(deviation * safe)
