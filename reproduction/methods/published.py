"""The (ε̂, δ) methods of the published code, slips included. Not private: see docs/errata.

Each table gets e = ε̂/(2√(2K ln(…/δ))) and δ₁ = δ/(2T); the axis shows ε̂ although the composition it stands for needs
ε̂ ≤ 1 and the right K.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.optimize import brentq

from simplexdp.accounting.conversion import conversion_floor
from simplexdp.budget import Budget
from simplexdp.errors import Infeasible
from simplexdp.mechanisms import Dirichlet
from simplexdp.numerics.printed import printed
from simplexdp.sampling import SeededEntropy

from ..encode import FloatArray
from ..problems import Tables
from .base import Method
from .paper import clipped, dirichlet_draws


def share_of(tables: Tables, budget: Budget) -> tuple[float, float]:
    """(e, δ₁) of one table."""
    assert budget.delta is not None
    assert tables.multiplier is not None
    return budget.epsilon / tables.multiplier, 0.5 * budget.delta / tables.shares


class PublishedDirichlet(Method):
    """Order λ = 1 + 1/ε with ε + floor(λ, δ₁) = e, r of Algorithm 1, and α = 1 + (λ−1) r instead of 1 + 4(λ−1) r."""

    name = "algorithm1"
    label = "Dirichlet, as published"
    regimes = ("dp",)

    def fit(self, tables: Tables, budget: Budget, entropy: SeededEntropy, repeats: int) -> FloatArray:
        """Independent draws."""
        e, delta = share_of(tables, budget)

        def excess(log_epsilon: float) -> float:
            epsilon = math.exp(log_epsilon)
            return epsilon + conversion_floor(1 + 1 / epsilon, delta) - e

        low, high = math.log(1e-9), math.log(e)
        if excess(low) * excess(high) > 0:
            raise Infeasible(f"no order gives epsilon = {printed(e)} at delta = {printed(delta)}")
        epsilon = math.exp(float(brentq(excess, low, high)))
        order = 1 + 1 / epsilon
        r = Dirichlet.algorithm1(order=order, epsilon=epsilon).r
        return dirichlet_draws(tables, r, 1 + (order - 1) * r, entropy, repeats)


class PublishedGaussian(Method):
    """σ = √(2·2·ln(1.25/δ₁))/e: the classic bound, which needs e < 1."""

    name = "gaussian-clip"
    label = "Gaussian, as published"
    regimes = ("dp",)

    def fit(self, tables: Tables, budget: Budget, entropy: SeededEntropy, repeats: int) -> FloatArray:
        """Continuous noise, clipped."""
        e, delta = share_of(tables, budget)
        sigma = math.sqrt(2 * math.log(1.25 / delta) * 2) / e
        return clipped(tables, entropy.generator().normal(0.0, sigma, (repeats, tables.cells)))


class PublishedLaplace(Method):
    """b = 2/e · √(ln(0.5/δ)/ln(1/δ)): slightly less noise than e-DP needs."""

    name = "laplace-clip"
    label = "Laplace, as published"
    regimes = ("dp",)

    def fit(self, tables: Tables, budget: Budget, entropy: SeededEntropy, repeats: int) -> FloatArray:
        """Continuous noise, clipped."""
        e, _ = share_of(tables, budget)
        assert budget.delta is not None
        scale = 2 / e * math.sqrt(math.log(0.5 / budget.delta) / math.log(1 / budget.delta))
        return clipped(tables, entropy.generator().laplace(0.0, scale, (repeats, tables.cells)))


class PublishedGohari(Method):
    """Gohari's r at α = 1 + 16 r for each row length as if a row held all N records, one r for all: their average ε.

    The published code fixes r and prints the average ε over the attributes; here r is solved for that average.
    """

    name = "gohari"
    label = "Gohari et al., as published"
    regimes = ("dp",)

    def fit(self, tables: Tables, budget: Budget, entropy: SeededEntropy, repeats: int) -> FloatArray:
        """Independent draws."""
        e, delta = share_of(tables, budget)
        sizes, times = np.unique(tables.row_sizes[tables.row_sizes > 1], return_counts=True)
        found = [
            Dirichlet.gohari(epsilon=e, delta=delta, total=tables.total, cells=int(d), alpha=lambda r: 1 + 16 * r).r
            for d in sizes
        ]
        r = float(np.average(found, weights=times))
        return dirichlet_draws(tables, r, 1 + 16 * r, entropy, repeats)
