"""The library's mechanisms with exact accounting of all tables together, and estimates that suit them."""

from __future__ import annotations

import math
from abc import abstractmethod
from functools import lru_cache
from typing import ClassVar

import numpy as np

from ...budget import Budget
from ...mechanisms import Dirichlet, Gaussian, Laplace, Polya
from ...sampling.entropy import SeededEntropy
from ..encode import FloatArray
from ..problems import Tables
from .base import Method
from .paper import calibrated_gaussian, calibrated_laplace, dirichlet_draws

Noisy = Gaussian | Laplace | Polya


def noisy_counts(mechanism: Noisy, tables: Tables, entropy: SeededEntropy, repeats: int) -> FloatArray:
    """Exact integer draws of every cell, back in count units."""
    counts = np.tile(tables.counts, (repeats, 1)).astype(np.int64)
    return mechanism.unbiased(mechanism.draw(counts, entropy), tables.total)[0]


class DirichletExact(Method):
    """A raw draw from Dirichlet(r f + α); (r, α) on the exact curve with the lowest expected KL on a Zipf table."""

    name = "dirichlet-exact"
    label = "Dirichlet, exact accounting"

    def fit(self, tables: Tables, budget: Budget, entropy: SeededEntropy, repeats: int) -> FloatArray:
        """Independent draws."""
        mechanism = _dirichlet(budget, tables.shares, tables.total, tables.typical_cells)
        return dirichlet_draws(tables, mechanism.r, mechanism.alpha, entropy, repeats)


class _HalfDeviation(Method):
    """Noisy counts clipped at zero plus half a standard deviation."""

    def fit(self, tables: Tables, budget: Budget, entropy: SeededEntropy, repeats: int) -> FloatArray:
        """Independent draws."""
        mechanism = self.mechanism(tables, budget)
        noisy = noisy_counts(mechanism, tables, entropy, repeats)
        deviation = math.sqrt(mechanism.variance if isinstance(mechanism, Polya) else mechanism.noise_variance)
        return tables.normalise(np.maximum(noisy, 0.0) + deviation / 2)

    @abstractmethod
    def mechanism(self, tables: Tables, budget: Budget) -> Noisy:
        """The calibrated mechanism."""


class GaussianExact(_HalfDeviation):
    """Discrete Gaussian noise, exact accounting."""

    name: ClassVar[str] = "gaussian-exact"
    label: ClassVar[str] = "Gaussian, exact, clip + σ/2"

    def mechanism(self, tables: Tables, budget: Budget) -> Noisy:
        """σ for all tables together."""
        return calibrated_gaussian(budget, tables.shares)


class LaplaceExact(_HalfDeviation):
    """Discrete Laplace noise, exact accounting."""

    name: ClassVar[str] = "laplace-exact"
    label: ClassVar[str] = "Laplace, exact, clip + σ/2"

    def mechanism(self, tables: Tables, budget: Budget) -> Noisy:
        """The scale for all tables together."""
        return calibrated_laplace(budget, tables.shares)


class PolyaExact(_HalfDeviation):
    """Coin flips: exact integers whose law given the total is a Pólya urn."""

    name: ClassVar[str] = "polya-exact"
    label: ClassVar[str] = "Pólya, exact, clip + σ/2"

    def mechanism(self, tables: Tables, budget: Budget) -> Noisy:
        """r by the public size, α for all tables together."""
        return calibrated_polya(budget, tables.shares, tables.total, tables.typical_cells)


@lru_cache(maxsize=256)
def _dirichlet(budget: Budget, tables: int, total: int, cells: int) -> Dirichlet:
    return Dirichlet.calibrate(budget, tables=tables, total=total, cells=cells)


@lru_cache(maxsize=256)
def calibrated_polya(budget: Budget, tables: int, total: int, cells: int) -> Polya:
    """The coin-flip mechanism of exact accounting."""
    return Polya.calibrate(budget, tables=tables, total=total, cells=cells)
