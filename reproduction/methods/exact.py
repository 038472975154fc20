"""The library's mechanisms with exact accounting of all tables together: raw draws, clipped noise, posterior means."""

from __future__ import annotations

import math
from abc import abstractmethod
from functools import lru_cache
from typing import ClassVar, Literal

import numpy as np

from simplexdp.budget import Budget
from simplexdp.estimation import NoisyCounts, estimate, estimate_conditional
from simplexdp.mechanisms import Dirichlet, Gaussian, Laplace, Polya
from simplexdp.sampling import SeededEntropy

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


class _PosteriorMean(Method):
    """The posterior mean of every row, table by table; a table of one row is estimated alone."""

    heavy = True
    noise: Literal["normal", "laplace"] = "normal"

    @abstractmethod
    def mechanism(self, tables: Tables, budget: Budget) -> Noisy:
        """The calibrated mechanism."""

    def fit(self, tables: Tables, budget: Budget, entropy: SeededEntropy, repeats: int) -> FloatArray:
        """One release and one estimate for each repeat."""
        mechanism = self.mechanism(tables, budget)
        counts = np.tile(tables.counts, (repeats, 1)).astype(np.int64)
        values, variance, slope = mechanism.unbiased(mechanism.draw(counts, entropy), tables.total)
        out = np.empty((repeats, tables.cells))
        for repeat in range(repeats):
            for start, size, rows in tables.rectangles():
                part = NoisyCounts(
                    values=values[repeat, start : start + size],
                    variance=variance,
                    slope=slope,
                    total=tables.total,
                    noise=self.noise,
                )
                out[repeat, start : start + size] = _estimated(part, rows)
        return tables.normalise(np.maximum(out, 1e-300))


def _estimated(noisy: NoisyCounts, rows: int) -> FloatArray:
    if rows == 1:
        return estimate(noisy).probabilities
    table = NoisyCounts(
        values=noisy.values.reshape(rows, -1), variance=noisy.variance, slope=noisy.slope, total=noisy.total
    )
    return estimate_conditional(table).rows.ravel()


class GaussianPosterior(_PosteriorMean):
    """Discrete Gaussian noise, exact accounting, posterior mean."""

    name = "gaussian-posterior"
    label = "Gaussian, exact, posterior mean"

    def mechanism(self, tables: Tables, budget: Budget) -> Noisy:
        """σ for all tables together."""
        return calibrated_gaussian(budget, tables.shares)


class LaplacePosterior(_PosteriorMean):
    """Discrete Laplace noise, exact accounting, posterior mean."""

    name = "laplace-posterior"
    label = "Laplace, exact, posterior mean"
    noise = "laplace"

    def mechanism(self, tables: Tables, budget: Budget) -> Noisy:
        """The scale for all tables together."""
        return calibrated_laplace(budget, tables.shares)


class PolyaPosterior(_PosteriorMean):
    """Coin flips, exact accounting, posterior mean."""

    name = "polya-posterior"
    label = "Pólya, exact, posterior mean"

    def mechanism(self, tables: Tables, budget: Budget) -> Polya:
        """r by the public size, α for all tables together."""
        return calibrated_polya(budget, tables.shares, tables.total, tables.typical_cells)
