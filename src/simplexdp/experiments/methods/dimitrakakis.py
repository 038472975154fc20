"""Dimitrakakis et al. (2017): sampling from the posterior is (0, δ)-DP, by Pinsker's inequality."""

from __future__ import annotations

import math
from functools import lru_cache

from ...budget import Budget
from ...mechanisms import Dirichlet
from ...numerics.roots import largest_that_fits
from ...sampling.entropy import SeededEntropy
from ..encode import FloatArray
from ..problems import Tables
from .base import Method
from .paper import dirichlet_draws


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
        return dirichlet_draws(tables, weight(budget.delta, tables.shares), 1.0, entropy, repeats)


@lru_cache(maxsize=64)
def weight(delta: float, tables: int) -> float:
    """The largest r at α = 1 whose Pinsker bound is at most δ."""
    return largest_that_fits(
        lambda r: math.log(pinsker_delta(Dirichlet(r=r, alpha=1.0), tables) / delta), delta, rtol=1e-6
    )
