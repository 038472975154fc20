"""The paper's methods with correct budgets: both ends, Algorithm 1, clipped noise, and Gohari et al.

Under (λ, ε)-Rényi privacy by the paper's formulas; for (ε̂, δ) correctly converted, or by exact accounting.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from scipy.optimize import brentq

from simplexdp.accounting.conversion import best_order, rdp_for_epsilon
from simplexdp.budget import Budget
from simplexdp.errors import Infeasible
from simplexdp.mechanisms import Dirichlet, Gaussian, Laplace
from simplexdp.mechanisms.dirichlet import zipf_profile
from simplexdp.sampling import SeededEntropy

from ..encode import FloatArray
from ..problems import Tables
from .base import Method, pure_epsilon


class RandomGuess(Method):
    """Uniform in every row; costs nothing."""

    name = "random"
    label = "Random guess"

    def fit(self, tables: Tables, budget: Budget, entropy: SeededEntropy, repeats: int) -> FloatArray:  # noqa: ARG002
        """The same for every repeat."""
        return tables.normalise(np.ones((repeats, tables.cells)))


class NonPrivate(Method):
    """(count + 0.1) / (row total + 0.1 d); the paper's "non-private"."""

    name = "non-private"
    label = "Non-private (pseudo-count 0.1)"

    def fit(self, tables: Tables, budget: Budget, entropy: SeededEntropy, repeats: int) -> FloatArray:  # noqa: ARG002
        """The same for every repeat."""
        return tables.normalise(np.tile(tables.counts + 0.1, (repeats, 1)))


CLIP = 1e-6
"""The paper's baselines clip noisy counts at this value."""


def dirichlet_draws(
    tables: Tables, r: float | FloatArray, alpha: float | FloatArray, entropy: SeededEntropy, repeats: int
) -> FloatArray:
    """One draw from Dirichlet(r·row + α) for every row and repeat, by normalised gamma variables."""
    shapes = np.broadcast_to(r * tables.counts + alpha, (repeats, tables.cells))
    gammas = entropy.generator().standard_gamma(shapes)
    return tables.normalise(np.maximum(gammas, 1e-300))


def clipped(tables: Tables, noise: FloatArray) -> FloatArray:
    """Noisy counts clipped at 1e-6, as probabilities."""
    return tables.normalise(np.maximum(tables.counts + noise, CLIP))


class AlgorithmOne(Method):
    """Dirichlet(r f + α) with ε/T = ½λr²Δ₂²ψ'(1+3(λ−1)r), α = 1+4(λ−1)r (Algorithm 1), T tables by Lemma 1.

    For an (ε̂, δ) budget the Rényi ε comes from the conversion at the order that loses least on a Zipf table.
    """

    name = "algorithm1"
    label = "Dirichlet, Algorithm 1"

    def fit(self, tables: Tables, budget: Budget, entropy: SeededEntropy, repeats: int) -> FloatArray:
        """Independent draws."""
        if budget.order is not None:
            mechanism = Dirichlet.algorithm1(order=budget.order, epsilon=budget.epsilon / tables.shares)
        else:
            mechanism = converted_algorithm1(budget, tables.shares, tables.total, tables.typical_cells)
        return dirichlet_draws(tables, mechanism.r, mechanism.alpha, entropy, repeats)


@lru_cache(maxsize=256)
def converted_algorithm1(budget: Budget, tables: int, total: int, cells: int) -> Dirichlet:
    """Algorithm 1 for an (ε̂, δ) budget at the order with the lowest expected KL on a Zipf table of this size."""
    assert budget.delta is not None
    delta, profile = budget.delta, zipf_profile(total, cells)

    def at(order: float) -> Dirichlet:
        return Dirichlet.algorithm1(order=order, epsilon=rdp_for_epsilon(order, budget.epsilon, delta) / tables)

    def loss(order: float) -> float:
        try:
            return at(order).expected_kl_of_profile(profile)
        except Infeasible:
            return math.inf

    return at(best_order(loss, 1e7)[0])


class GaussianClip(Method):
    """Counts + N(0, λT/ε), clipped at 1e-6; for (ε̂, δ) the σ of exact accounting."""

    name = "gaussian-clip"
    label = "Gaussian, clip at 1e-6"

    def fit(self, tables: Tables, budget: Budget, entropy: SeededEntropy, repeats: int) -> FloatArray:
        """Continuous noise, as in the paper."""
        if budget.order is not None:
            sigma = math.sqrt(budget.order * tables.shares / budget.epsilon)
        else:
            sigma = calibrated_gaussian(budget, tables.shares).sigma
        return clipped(tables, entropy.generator().normal(0.0, sigma, (repeats, tables.cells)))


class LaplaceClip(Method):
    """Counts + Laplace(b), clipped at 1e-6; b from Mironov's Corollary 2 for one coordinate with shift 2, as published.

    That is valid for a moved record but loose: two coordinates with shift 1 cost less. For (ε̂, δ): exact accounting.
    """

    name = "laplace-clip"
    label = "Laplace, clip at 1e-6"

    def fit(self, tables: Tables, budget: Budget, entropy: SeededEntropy, repeats: int) -> FloatArray:
        """Continuous noise, as in the paper."""
        if budget.order is not None:
            scale = mironov_scale(budget.order, budget.epsilon / tables.shares)
        else:
            scale = calibrated_laplace(budget, tables.shares).scale
        return clipped(tables, entropy.generator().laplace(0.0, scale, (repeats, tables.cells)))


def mironov_scale(order: float, epsilon: float, shift: float = 2.0) -> float:
    """b with ε = ln(λ/(2λ−1) e^{(λ−1)t} + (λ−1)/(2λ−1) e^{−λt})/(λ−1), t = shift/b."""

    def excess(log_scale: float) -> float:
        t = shift / math.exp(log_scale)
        first = math.log(order / (2 * order - 1)) + (order - 1) * t
        second = math.log((order - 1) / (2 * order - 1)) - order * t
        return float(np.logaddexp(first, second)) / (order - 1) - epsilon

    return math.exp(float(brentq(excess, -15.0, 25.0, xtol=1e-13)))


@lru_cache(maxsize=256)
def calibrated_gaussian(budget: Budget, tables: int) -> Gaussian:
    """The discrete Gaussian of exact accounting."""
    return Gaussian.calibrate(budget, tables=tables)


@lru_cache(maxsize=256)
def calibrated_laplace(budget: Budget, tables: int) -> Laplace:
    """The discrete Laplace noise of exact accounting."""
    return Laplace.calibrate(budget, tables=tables)


class Gohari(Method):
    """The largest r at α = 1 + 16 r whose guarantee is (ε₀, δ/2T); ε₀ from the composition of T pure parts at δ/2.

    Their theorem speaks of one vector with a public total, so it is applied to a whole table; its rows then have the
    law they would have alone.
    """

    name = "gohari"
    label = "Gohari et al."
    regimes = ("dp",)

    def fit(self, tables: Tables, budget: Budget, entropy: SeededEntropy, repeats: int) -> FloatArray:
        """Independent draws, with the r of each table's size."""
        assert budget.delta is not None
        half = budget.delta / 2
        epsilon = pure_epsilon(Budget(epsilon=budget.epsilon, delta=half), tables.shares)
        sizes = np.unique(tables.table_sizes)
        by_size = {
            int(d): Dirichlet.gohari(
                epsilon=epsilon,
                delta=half / tables.shares,
                total=tables.total,
                cells=int(d),
                alpha=lambda r: 1 + 16 * r,
            ).r
            for d in sizes
        }
        r = np.repeat([by_size[int(d)] for d in tables.table_sizes], tables.table_sizes)
        return dirichlet_draws(tables, r, 1 + 16 * r, entropy, repeats)
