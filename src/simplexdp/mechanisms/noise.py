"""Discrete Gaussian and Laplace noise on counts: the baselines, drawn and accounted exactly on the integers.

`NoNoise` publishes the exact counts, for comparison with private releases. Nothing made from it is private.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..accounting.discrete import DiscreteGaussianTerm, DiscreteLaplaceTerm, RandomisedResponseTerm
from ..accounting.loss import PrivacyLoss
from ..accounting.smooth import GaussianTerm, vector_term
from ..accounting.terms import RevealedTerm, Term
from ..budget import Budget, Neighbours, check_neighbours, check_positive, check_whole, convert
from ..errors import Infeasible, InvalidArgument
from ..noisy import FloatArray, NoiseLaw
from ..numerics.printed import last_bit, short_fraction
from ..numerics.roots import smallest_integer_that_fits, smallest_that_fits
from ..sampling import Entropy
from ..sampling.discrete import discrete_gaussian, discrete_laplace
from .base import (
    GAUSSIAN,
    IntArray,
    Law,
    Limits,
    TableMechanism,
    calibrate_upwards,
    check_not_below_zero,
    check_sum,
    expected_kl,
    no_pure_guarantee,
    noise_scale,
    pure_scale,
)

_LEAST_VARIANCE, _MOST_VARIANCE = Fraction(1, 100), Fraction(10**10)
"""Between these the profile is computed on the lattice; above it is that of the Gaussian which dominates it, and below
the Rényi bound is used, which holds everywhere."""


def _root(variance: float) -> float:
    """A σ whose square rounds up to this short variance, and not to the one after it."""
    sigma = math.sqrt(variance)
    while short_fraction(sigma**2) > variance:
        sigma = math.nextafter(sigma, 0.0)
    return sigma


def _two_cells(term: Term, neighbours: Neighbours) -> PrivacyLoss:
    """A replaced record moves two cells by one; an added or removed one moves one cell. Both laws are symmetric."""
    return (2 if check_neighbours(neighbours) == "replace-one" else 1) * PrivacyLoss.of_term(term, neighbours)


class _IntegerNoise(TableMechanism):
    """Independent integer noise in every cell: what the two share."""

    @property
    @abstractmethod
    def continuous_variance(self) -> float:
        """The variance of the continuous law of the same parameter, whose likelihood at whole numbers is the same."""

    @property
    @abstractmethod
    def noise_variance(self) -> float:
        """The variance of the noise drawn."""

    def expected_kl(self, counts: ArrayLike, *, constant: float | None = None) -> float:
        """E KL(f/N ‖ q) of q ∝ max(noisy, 0) + constant; half a standard deviation by default. Not private."""
        noise = self._noise()
        half = math.sqrt(self.noise_variance) / 2 + 1e-9
        constant = half if constant is None else check_positive("constant", constant)

        def law(count: int) -> Law:
            return Law(values=noise.values + count, probabilities=noise.probabilities)

        return expected_kl(counts, law, constant)

    @abstractmethod
    def _noise(self) -> Law:
        """The law of the noise of one cell, as far as it matters."""


def laplace_cell_loss(values: NDArray[Any], rows: int, scale: Fraction) -> FloatArray:
    """ln of the density of Laplace noise around n rows over that around none: (|x| − |x − n|)/b."""
    rows = check_whole("rows", rows)
    return np.asarray((np.abs(values) - np.abs(values - rows)) / float(scale))


def _normalised(x: FloatArray, logs: FloatArray) -> Law:
    weights = np.exp(logs - logs.max())
    return Law(values=x, probabilities=weights / weights.sum())


@dataclass(frozen=True, kw_only=True)
class Gaussian(_IntegerNoise):
    """Counts plus discrete Gaussian noise; `variance` is σ² rounded up, and is what is drawn and accounted.

    Proof: docs/proofs/noise.md.
    """

    name: ClassVar[str] = "gaussian"
    limits: ClassVar[Mapping[str, Limits]] = {"sigma": Limits(0.125, 1e12, "standard deviation")}
    sigma: float

    def __post_init__(self) -> None:
        convert(self, sigma=check_positive)

    @property
    def variance(self) -> Fraction:
        """The parameter σ² of the discrete Gaussian that is drawn."""
        return short_fraction(self.sigma**2)

    @property
    def drawn_with(self) -> Fraction:
        """The variance."""
        return self.variance

    @property
    def precision(self) -> Fraction:
        """1/σ² of what is drawn."""
        return 1 / self.variance

    @property
    def continuous_variance(self) -> float:
        """σ²."""
        return float(self.variance)

    @property
    def law(self) -> NoiseLaw:
        """Normal, of the continuous variance."""
        return NoiseLaw(variance=self.continuous_variance)

    @property
    def noise_variance(self) -> float:
        """The variance of the noise drawn: σ² to 1e-80 from σ = 3 on, less below."""
        if self.variance >= 9:
            return float(self.variance)
        law = self._noise()
        return float(law.probabilities @ law.values**2)

    def loss(self, neighbours: Neighbours = "replace-one", *, rows: int = 1) -> PrivacyLoss:
        """Exact on the integers; for persons with several rows that of a vector moved by Δ² = m² a cell."""
        rows = check_whole("rows", rows)
        if rows == 1 and _LEAST_VARIANCE <= self.variance <= _MOST_VARIANCE:
            return _two_cells(DiscreteGaussianTerm(variance=self.variance), neighbours)
        return _two_cells(vector_term(rows**2, self.variance), neighbours)

    def continuous_loss(self, l2: float = math.sqrt(2), neighbours: Neighbours = "replace-one") -> PrivacyLoss:
        """The loss of continuous Gaussian noise on a query of this ℓ₂ sensitivity; not of what `release` draws."""
        l2 = check_positive("l2", l2, rounded="up")
        return PrivacyLoss.of_term(GaussianTerm((l2 / self.sigma) ** 2), neighbours)

    def draw(self, counts: IntArray, entropy: Entropy) -> IntArray:
        """Counts plus noise, exact integers."""
        return counts + discrete_gaussian(counts.size, self.variance, entropy).reshape(counts.shape)

    def cell_loss(self, values: NDArray[Any], rows: int = 1) -> FloatArray:
        """n(2x − n)/2σ² for n rows."""
        n = check_whole("rows", rows)
        return np.asarray(n * (2 * values - n) / (2 * float(self.variance)))

    def at(self, variance: float, cells: int) -> Gaussian:  # noqa: ARG002
        """σ is the root."""
        return Gaussian(sigma=math.sqrt(variance))

    def _noise(self) -> Law:
        variance = float(self.variance)
        reach = math.ceil(14 * math.sqrt(variance) + 3)
        x = np.arange(-reach, reach + 1, dtype=np.float64)
        return _normalised(x, -(x**2) / (2 * variance))

    @classmethod
    def calibrate(
        cls,
        budget: Budget,
        *,
        tables: int = 1,
        neighbours: Neighbours = "replace-one",
        total: float | None = None,  # noqa: ARG003
        cells: int | None = None,  # noqa: ARG003
        rows: int = 1,
    ) -> Gaussian:
        """The smallest σ for which `tables` releases fit the budget; the next smaller variance would exceed it."""
        tables, rows = check_whole("tables", tables), check_whole("rows", rows)
        no_pure_guarantee(budget, GAUSSIAN)
        start = noise_scale(budget, tables) * rows / (math.sqrt(2) if neighbours == "add-remove" else 1.0)

        def excess(sigma: float) -> float:
            return (tables * cls(sigma=sigma).loss(neighbours, rows=rows)).excess(budget)

        near = smallest_that_fits(excess, start, rtol=1e-3)
        unit = last_bit(near**2)
        units = smallest_integer_that_fits(lambda n: excess(_root(n * unit)), math.ceil(near**2 / unit))
        return cls(sigma=_root(units * unit))


@dataclass(frozen=True, kw_only=True)
class Laplace(_IntegerNoise):
    """Counts plus discrete Laplace noise, Pr[x] ∝ exp(−|x|/scale).

    Proof: docs/proofs/noise.md.
    """

    name: ClassVar[str] = "laplace"
    limits: ClassVar[Mapping[str, Limits]] = {"scale": Limits(1e-3, 1e12, "scale")}
    scale: float

    def __post_init__(self) -> None:
        convert(self, scale=check_positive)

    @property
    def rational_scale(self) -> Fraction:
        """The scale that is drawn, rounded up to a short binary fraction."""
        return short_fraction(self.scale)

    @property
    def drawn_with(self) -> Fraction:
        """The scale."""
        return self.rational_scale

    @property
    def continuous_variance(self) -> float:
        """2b²."""
        return 2 * float(self.rational_scale) ** 2

    @property
    def law(self) -> NoiseLaw:
        """Two-sided exponential, of the continuous variance."""
        return NoiseLaw(noise="laplace", variance=self.continuous_variance)

    @property
    def noise_variance(self) -> float:
        """The variance of the noise drawn, 1 / (2 sinh²(1/2b))."""
        half = 0.5 / float(self.rational_scale)
        return 0.5 / math.sinh(half) ** 2 if half < 300 else 0.0

    def loss(self, neighbours: Neighbours = "replace-one", *, rows: int = 1) -> PrivacyLoss:
        """Exact on the integers: a cell moved by one is randomised response with ε = 1/scale."""
        rows = check_whole("rows", rows)
        if rows == 1:
            return _two_cells(DiscreteLaplaceTerm(scale=self.rational_scale), neighbours)
        return _two_cells(RandomisedResponseTerm(epsilon=rows / self.rational_scale), neighbours)

    def draw(self, counts: IntArray, entropy: Entropy) -> IntArray:
        """Counts plus noise, exact integers."""
        return counts + discrete_laplace(counts.size, self.rational_scale, entropy).reshape(counts.shape)

    def cell_loss(self, values: NDArray[Any], rows: int = 1) -> FloatArray:
        """(|x| − |x − n|)/b for n rows."""
        return laplace_cell_loss(values, rows, self.rational_scale)

    def at(self, variance: float, cells: int) -> Laplace:  # noqa: ARG002
        """Of the continuous variance 2b²."""
        return Laplace(scale=math.sqrt(variance / 2))

    def _noise(self) -> Law:
        scale = float(self.rational_scale)
        reach = math.ceil(45 * scale + 3)
        x = np.arange(-reach, reach + 1, dtype=np.float64)
        return _normalised(x, -np.abs(x) / scale)

    @classmethod
    def calibrate(
        cls,
        budget: Budget,
        *,
        tables: int = 1,
        neighbours: Neighbours = "replace-one",
        total: float | None = None,  # noqa: ARG003
        cells: int | None = None,  # noqa: ARG003
        rows: int = 1,
    ) -> Laplace:
        """The smallest scale for which `tables` releases fit the budget."""
        tables, rows = check_whole("tables", tables), check_whole("rows", rows)
        if budget.is_pure:
            moved = 2 if check_neighbours(neighbours) == "replace-one" else 1
            return cls(scale=pure_scale(budget, moved * rows * tables))
        scale = calibrate_upwards(
            lambda b: tables * cls(scale=b).loss(neighbours, rows=rows),
            budget,
            noise_scale(budget, tables) * rows,
        )
        return cls(scale=scale)


@dataclass(frozen=True, kw_only=True)
class NoNoise(TableMechanism):
    """Publishes the counts as they are. Its loss is infinite and every draw says "not private"."""

    name: ClassVar[str] = "none"
    not_private: ClassVar[str] = "exact counts were published"

    @property
    def law(self) -> NoiseLaw:
        """A variance too small to matter stands for none."""
        return NoiseLaw(variance=1e-6)

    def loss(self, neighbours: Neighbours = "replace-one", *, rows: int = 1) -> PrivacyLoss:  # noqa: ARG002
        """Infinite."""
        return PrivacyLoss.of_term(RevealedTerm(), neighbours)

    def draw(self, counts: IntArray, entropy: Entropy) -> IntArray:  # noqa: ARG002
        """The counts."""
        return counts.copy()

    def check_values(self, values: NDArray[Any], total: float | None) -> None:
        """Counts: whole numbers of at least 0 that add up to the total."""
        super().check_values(values, total)
        check_not_below_zero(self, values)
        check_sum(self, values, total)

    def cell_loss(self, values: NDArray[Any], rows: int = 1) -> FloatArray:  # noqa: ARG002
        """None that is finite."""
        raise InvalidArgument("mechanism", "one with noise", got=self.name, hint="Exact counts promise nothing.")

    def at(self, variance: float, cells: int) -> NoNoise:  # noqa: ARG002
        """Itself: there is no noise to choose."""
        return self

    @classmethod
    def calibrate(
        cls,
        budget: Budget,  # noqa: ARG003
        *,
        tables: int = 1,  # noqa: ARG003
        neighbours: Neighbours = "replace-one",  # noqa: ARG003
        total: float | None = None,  # noqa: ARG003
        cells: int | None = None,  # noqa: ARG003
        rows: int = 1,  # noqa: ARG003
    ) -> NoNoise:
        """Refused: exact counts keep no budget."""
        raise Infeasible("exact counts keep no budget: their loss is infinite")
