"""Noisy counts and the law of their noise: what every mechanism says of its draws, and all that estimates know of them.

A mechanism has a law; with a public total, its draw becomes noisy counts. Neither knows any mechanism.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from fractions import Fraction
from functools import cached_property
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from .accounting.discrete import balanced_variance
from .budget import check_not_negative, check_positive, check_whole, convert
from .errors import InvalidArgument
from .lazy import special
from .numerics.printed import short_fraction

FloatArray = NDArray[np.float64]
NoiseShape = Literal["normal", "laplace"]


@dataclass(frozen=True, kw_only=True)
class NoiseLaw:
    """Independent noise of mean 0 on every count, of variance `variance + slope·count`.

    A discrete law has the same likelihood at whole counts as the continuous one of the same σ or b, whose variance is
    meant here.

    Args:
        noise: the shape: "laplace" for two-sided exponential noise, "normal" for everything else.
        variance: at an empty cell.
        slope: how the variance grows with the count.
        balanced: whether Laplace noise is known to add up to zero.
    """

    noise: NoiseShape = "normal"
    variance: float
    slope: float = 0.0
    balanced: bool = False

    def __post_init__(self) -> None:
        convert(self, variance=check_positive, slope=check_not_negative)
        if self.noise not in get_args(NoiseShape):
            raise InvalidArgument("noise", "'normal' or 'laplace'", got=self.noise)
        if self.balanced and self.noise != "laplace":
            raise InvalidArgument("balanced", "False without Laplace noise", got=True)

    def independent(self, cells: int) -> NoiseLaw:
        """Independent noise that is as large as this in a table of so many cells, once its public total is used.

        Of noise that adds up to zero: the Laplace law of the scale whose discrete variance 1/(2 sinh²(1/2b)) is that.
        """
        cells = check_whole("cells", cells)
        if not self.balanced:
            return self
        drawn = Fraction(math.sqrt(self.variance / 2))
        equivalent = balanced_variance(drawn, cells) / (1 - 1 / cells) if cells > 1 else 0.0
        scale = 0.5 / math.asinh(1 / math.sqrt(2 * max(equivalent, 1e-300)))
        return NoiseLaw(noise="laplace", variance=2 * scale**2)

    def density(self, noise: FloatArray, variance: FloatArray) -> FloatArray:
        """Of the noise where the variance is this; normalised along the first axis."""
        log = -np.abs(noise) * np.sqrt(2 / variance) if self.noise == "laplace" else -0.5 * noise**2 / variance
        weights = np.exp(log - log.max(axis=0))
        return np.asarray(weights / weights.sum(axis=0))


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
        for name in ("variance", "slope"):
            object.__setattr__(self, name, getattr(self.law, name))
        if self.noise == "laplace" and self.slope > 0:
            raise InvalidArgument("slope", "0 for Laplace noise", got=self.slope)
        if self.balanced and self.total is None:
            raise InvalidArgument("balanced", "False without a public total", got=True)
        if self.total is not None:
            convert(self, total=check_positive)

    @classmethod
    def of(cls, values: FloatArray, law: NoiseLaw, total: float | None) -> NoisyCounts:
        """Values with noise of this law; that it adds up to zero tells nothing where the total is not public."""
        return cls(values=values, total=total, **asdict(law) | {"balanced": law.balanced and total is not None})

    @cached_property
    def law(self) -> NoiseLaw:
        """The law of the noise."""
        return NoiseLaw(noise=self.noise, variance=self.variance, slope=self.slope, balanced=self.balanced)

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
        return max(1.0, mean + deviation * float(hazard(np.array([mean / deviation]))[0]))

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
            drawn = short_fraction(self.scale / math.sqrt(2))
            return np.full(self.size, math.sqrt(balanced_variance(drawn, self.size)))
        return np.sqrt(self.noise_variance(self.values.ravel()))


def hazard(x: FloatArray) -> FloatArray:
    """φ(x)/Φ(x), stable for very negative x."""
    x = np.asarray(x, dtype=np.float64)
    far = x < -20.0
    near = np.where(far, 0.0, x)
    density = np.exp(-0.5 * near * near) / math.sqrt(2 * math.pi)
    tail = -x + np.where(far, -1.0, 0.0) / np.where(far, x, 1.0)  # Mills' ratio: φ/Φ ≈ −x − 1/x
    return np.where(far, tail, density / special.ndtr(near))
