"""Wang, Fienberg & Smola (2015): one posterior sample is private when the log-likelihood is bounded."""

from __future__ import annotations

import math

import numpy as np

from ...budget import Budget
from ...errors import NumericalError
from ...sampling.entropy import SeededEntropy
from ..encode import FloatArray
from ..problems import Tables
from .base import Method, pure_epsilon

LEAST_SHARE = 0.01


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
