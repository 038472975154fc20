"""Discrete Gaussian and Laplace noise on counts: the baselines, drawn and accounted exactly on the integers."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..accounting.discrete import DiscreteGaussianTerm, DiscreteLaplaceTerm, RandomisedResponseTerm
from ..accounting.loss import PrivacyLoss
from ..accounting.person import RenyiOnly
from ..accounting.smooth import GaussianTerm
from ..accounting.terms import Term
from ..budget import Budget, Neighbours, check_neighbours, check_positive, check_whole
from ..numerics.roots import smallest_integer_that_fits, smallest_that_fits
from ..numerics.rounding import last_bit, short_fraction
from ..sampling.discrete import discrete_gaussian, discrete_laplace
from ..sampling.entropy import Entropy
from .base import FloatArray, IntArray, TableMechanism, calibrate_upwards, noise_scale
from .expected import Law, expected_kl

_LEAST_VARIANCE, _MOST_VARIANCE = Fraction(1, 100), Fraction(10**10)
"""Between these the profile is computed on the lattice; beyond them the Rényi bound is used, which holds everywhere."""


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

    def unbiased(self, values: NDArray[Any], total: float | None) -> tuple[FloatArray, float, float]:  # noqa: ARG002
        """The values themselves, the variance of the continuous law with the same likelihood, and no slope."""
        return values.astype(np.float64), self.continuous_variance, 0.0

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


def _normalised(x: FloatArray, logs: FloatArray) -> Law:
    weights = np.exp(logs - logs.max())
    return Law(values=x, probabilities=weights / weights.sum())


@dataclass(frozen=True, kw_only=True)
class Gaussian(_IntegerNoise):
    """Counts plus discrete Gaussian noise; `variance` is σ² rounded up, and is what is drawn and accounted.

    Proof: docs/proofs/noise.md.
    """

    name: ClassVar[str] = "gaussian"
    sigma: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "sigma", check_positive("sigma", self.sigma))

    @property
    def variance(self) -> Fraction:
        """The parameter σ² of the discrete Gaussian that is drawn."""
        return short_fraction(self.sigma**2)

    @property
    def continuous_variance(self) -> float:
        """σ²."""
        return float(self.variance)

    @property
    def noise_variance(self) -> float:
        """The variance of the noise drawn: σ² to 1e-80 from σ = 3 on, less below."""
        if self.variance >= 9:
            return float(self.variance)
        law = self._noise()
        return float(law.probabilities @ law.values**2)

    def loss(self, neighbours: Neighbours = "replace-one", *, rows: int = 1) -> PrivacyLoss:
        """Exact on the integers; for persons with several rows the Rényi bound λΔ²/2σ² with Δ² = m² a cell."""
        if check_whole("rows", rows) == 1 and _LEAST_VARIANCE <= self.variance <= _MOST_VARIANCE:
            return _two_cells(DiscreteGaussianTerm(variance=self.variance), neighbours)
        return _two_cells(RenyiOnly(GaussianTerm(rows**2 / float(self.variance) * (1 + 1e-15))), neighbours)

    def continuous_loss(self, l2: float = math.sqrt(2), neighbours: Neighbours = "replace-one") -> PrivacyLoss:
        """The loss of continuous Gaussian noise on a query of this ℓ₂ sensitivity; not of what `release` draws."""
        return PrivacyLoss.of_term(GaussianTerm((l2 / self.sigma) ** 2), neighbours)

    def draw(self, counts: IntArray, entropy: Entropy) -> IntArray:
        """Counts plus noise, exact integers."""
        return counts + discrete_gaussian(counts.size, self.variance, entropy).reshape(counts.shape)

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
        rows: int = 1,
    ) -> Gaussian:
        """The smallest σ for which `tables` releases fit the budget; the next smaller variance would exceed it."""
        tables = check_whole("tables", tables)
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
    scale: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "scale", check_positive("scale", self.scale))

    @property
    def rational_scale(self) -> Fraction:
        """The scale that is drawn, rounded up to a short binary fraction."""
        return short_fraction(self.scale)

    @property
    def continuous_variance(self) -> float:
        """2b²."""
        return 2 * float(self.rational_scale) ** 2

    @property
    def noise_variance(self) -> float:
        """The variance of the noise drawn, 1 / (2 sinh²(1/2b))."""
        half = 0.5 / float(self.rational_scale)
        return 0.5 / math.sinh(half) ** 2 if half < 300 else 0.0

    def loss(self, neighbours: Neighbours = "replace-one", *, rows: int = 1) -> PrivacyLoss:
        """Exact on the integers: a cell moved by one is randomised response with ε = 1/scale."""
        if check_whole("rows", rows) == 1:
            return _two_cells(DiscreteLaplaceTerm(scale=self.rational_scale), neighbours)
        return _two_cells(
            RandomisedResponseTerm(epsilon=math.nextafter(rows / float(self.rational_scale), math.inf)),
            neighbours,
        )

    def draw(self, counts: IntArray, entropy: Entropy) -> IntArray:
        """Counts plus noise, exact integers."""
        return counts + discrete_laplace(counts.size, self.rational_scale, entropy).reshape(counts.shape)

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
        rows: int = 1,
    ) -> Laplace:
        """The smallest scale for which `tables` releases fit the budget."""
        tables = check_whole("tables", tables)
        scale = calibrate_upwards(
            lambda b: tables * cls(scale=b).loss(neighbours, rows=rows),
            budget,
            noise_scale(budget, tables) * rows,
        )
        return cls(scale=scale)
