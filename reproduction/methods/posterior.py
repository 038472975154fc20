"""One draw from a posterior as the release: with less weight for the data, a stronger prior or a bounded likelihood.

Geumlek, Song & Chaudhuri (2017), Dimitrakakis et al. (2017), Wang, Fienberg & Smola (2015), and the synthetic records
of Machanavajjhala, Kifer, Abowd, Gehrke & Vilhuber (2008).
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from simplexdp.budget import Budget
from simplexdp.errors import NumericalError
from simplexdp.mechanisms import Dirichlet
from simplexdp.numerics.roots import largest_that_fits
from simplexdp.sampling import SeededEntropy

from ..encode import FloatArray
from ..problems import Tables
from .base import Method, pure_epsilon
from .paper import dirichlet_draws

PRIOR = 1.0
LEAST_SHARE = 0.01


class Diffused(Method):
    """Geumlek et al.: Dirichlet(r f + 1) with the largest r ≤ 1 that the exact curve allows."""

    name = "geumlek-diffused"
    label = "Geumlek, diffused"

    def fit(self, tables: Tables, budget: Budget, entropy: SeededEntropy, repeats: int) -> FloatArray:
        """Independent draws."""
        mechanism = _diffused(budget, tables.shares)
        return dirichlet_draws(tables, mechanism.r, mechanism.alpha, entropy, repeats)


class Concentrated(Method):
    """Geumlek et al.: Dirichlet(f + α) with the smallest α ≥ 1 that the exact curve allows."""

    name = "geumlek-concentrated"
    label = "Geumlek, concentrated"

    def fit(self, tables: Tables, budget: Budget, entropy: SeededEntropy, repeats: int) -> FloatArray:
        """Independent draws."""
        mechanism = _concentrated(budget, tables.shares)
        return dirichlet_draws(tables, mechanism.r, mechanism.alpha, entropy, repeats)


@lru_cache(maxsize=256)
def _diffused(budget: Budget, tables: int) -> Dirichlet:
    return Dirichlet.diffused(budget, alpha=PRIOR, tables=tables)


@lru_cache(maxsize=256)
def _concentrated(budget: Budget, tables: int) -> Dirichlet:
    return Dirichlet.concentrated(budget, alpha=PRIOR, tables=tables)


def pinsker_delta(mechanism: Dirichlet, tables: int = 1) -> float:
    """δ ≤ √(T·KL/2): the distance of neighbouring posteriors in total variation, bounded by their KL divergence."""
    return min(1.0, math.sqrt(tables * mechanism.loss().rdp(1.0) / 2))


def exact_delta(mechanism: Dirichlet, tables: int = 1) -> float:
    """δ(0) itself, the total variation distance of the worst neighbouring pair."""
    return (tables * mechanism.loss()).delta(0.0)


class Dimitrakakis(Method):
    """Dirichlet(r f + 1) with the largest r whose (0, δ) guarantee meets the budget's δ, whatever its ε."""

    name = "dimitrakakis"
    label = "Dimitrakakis et al., (0, δ)"
    regimes = ("dp",)

    def fit(self, tables: Tables, budget: Budget, entropy: SeededEntropy, repeats: int) -> FloatArray:
        """Independent draws."""
        assert budget.delta is not None
        return dirichlet_draws(tables, pinsker_weight(budget.delta, tables.shares), 1.0, entropy, repeats)


@lru_cache(maxsize=64)
def pinsker_weight(delta: float, tables: int) -> float:
    """The largest r at α = 1 whose Pinsker bound is at most δ."""
    return largest_that_fits(
        lambda r: math.log(pinsker_delta(Dirichlet(r=r, alpha=1.0), tables) / delta), delta, rtol=1e-6
    )


def floor_of(cells: int) -> float:
    """γ = 0.01/d²: a flat Dirichlet draw of d cells stays above it in every cell with probability 0.99."""
    return LEAST_SHARE / cells**2


def likelihood_power(epsilon: float, gamma: float) -> float:
    """r with ε = 4 r ln(1/γ), at most 1: |ln y_i| ≤ ln(1/γ) on the restricted simplex bounds the log-likelihood."""
    return min(1.0, epsilon / (4 * math.log(1 / gamma)))


class WangFienbergSmola(Method):
    """Dirichlet(r f + 1) restricted to y_i ≥ γ over each whole table: pure DP at a price."""

    name = "wang-fienberg-smola"
    label = "Wang, Fienberg & Smola"

    def fit(self, tables: Tables, budget: Budget, entropy: SeededEntropy, repeats: int) -> FloatArray:
        """Exact draws by rejection, table by table."""
        epsilon = pure_epsilon(budget, tables.shares)
        generator = entropy.generator()
        out = np.empty((repeats, tables.cells))
        for start, size in zip(tables.table_starts, tables.table_sizes, strict=True):
            gamma = floor_of(int(size))
            shapes = likelihood_power(epsilon, gamma) * tables.counts[start : start + size] + 1
            out[:, start : start + size] = restricted_dirichlet(shapes, gamma, generator, repeats)
        return tables.normalise(out)


def restricted_dirichlet(
    shapes: FloatArray, gamma: float, generator: np.random.Generator, repeats: int, most_rounds: int = 1000
) -> FloatArray:
    """Draws from Dirichlet(shapes) given that every coordinate is at least γ, by rejection."""
    out = np.empty((repeats, len(shapes)))
    left = np.arange(repeats)
    for _ in range(most_rounds):
        draws = generator.standard_gamma(np.broadcast_to(shapes, (len(left), len(shapes))))
        draws /= draws.sum(axis=1, keepdims=True)
        good = draws.min(axis=1) >= gamma
        out[left[good]] = draws[good]
        left = left[~good]
        if not len(left):
            return out
    raise NumericalError("the restricted Dirichlet law was not hit. Take a smaller gamma.")


def needed_prior(records: int, epsilon: float) -> float:
    """α = m/(e^ε − 1): m synthetic records are ε-DP if and only if every cell's prior is at least this.

    Moving a record changes the largest probability, that all m fall into one cell, by the factor (m + α)/α.
    """
    return records / math.expm1(epsilon)


class Machanavajjhala(Method):
    """m = N synthetic records for each table from Dirichlet-multinomial(f + α), counted with pseudo-count 0.1."""

    name = "machanavajjhala"
    label = "Machanavajjhala et al., synthetic records"

    def fit(self, tables: Tables, budget: Budget, entropy: SeededEntropy, repeats: int) -> FloatArray:
        """One set of records for each repeat."""
        epsilon = pure_epsilon(budget, tables.shares)
        alpha = needed_prior(tables.total, epsilon)
        generator = entropy.generator()
        shapes = np.broadcast_to(tables.counts + alpha, (repeats, tables.cells))
        shares = tables.normalise_tables(generator.standard_gamma(shapes))
        out = np.empty((repeats, tables.cells))
        for start, size in zip(tables.table_starts, tables.table_sizes, strict=True):
            part = shares[:, start : start + size]
            out[:, start : start + size] = generator.multinomial(tables.total, part / part.sum(axis=1, keepdims=True))
        return tables.normalise(out + 0.1)
