"""Exact mechanisms followed by the library's estimate: rows are pulled towards the pooled marginal."""

from __future__ import annotations

from abc import abstractmethod
from typing import Literal

import numpy as np

from ...budget import Budget
from ...estimation import NoisyCounts, estimate, estimate_conditional
from ...mechanisms import Polya
from ...sampling.entropy import SeededEntropy
from ..encode import FloatArray
from ..problems import Tables
from .base import Method
from .exact import Noisy, calibrated_polya
from .paper import calibrated_gaussian, calibrated_laplace


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
