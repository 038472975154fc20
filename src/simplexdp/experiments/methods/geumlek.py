"""Geumlek, Song & Chaudhuri (2017): posterior sampling with less data weight, or with a stronger prior."""

from __future__ import annotations

from functools import lru_cache

from ...budget import Budget
from ...mechanisms import Dirichlet
from ...sampling.entropy import SeededEntropy
from ..encode import FloatArray
from ..problems import Tables
from .base import Method
from .paper import dirichlet_draws

PRIOR = 1.0


class Diffused(Method):
    """Dirichlet(r f + 1) with the largest r ≤ 1 that the exact curve allows."""

    name = "geumlek-diffused"
    label = "Geumlek, diffused"

    def fit(self, tables: Tables, budget: Budget, entropy: SeededEntropy, repeats: int) -> FloatArray:
        """Independent draws."""
        mechanism = _diffused(budget, tables.shares)
        return dirichlet_draws(tables, mechanism.r, mechanism.alpha, entropy, repeats)


class Concentrated(Method):
    """Dirichlet(f + α) with the smallest α ≥ 1 that the exact curve allows."""

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
