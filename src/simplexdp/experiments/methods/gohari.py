"""Gohari et al. (2021) with a correct budget: whole tables with the public total, exact composition of (ε₀, δ₀)."""

from __future__ import annotations

import numpy as np

from ...budget import Budget
from ...mechanisms import Dirichlet
from ...sampling.entropy import SeededEntropy
from ..encode import FloatArray
from ..problems import Tables
from .base import Method, pure_epsilon
from .paper import dirichlet_draws


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
