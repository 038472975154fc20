"""Ye, Feldman & Talwar (2025, arXiv 2505.23620): noisy counts floored at about 1/ε, minimax for KL up to constants."""

from __future__ import annotations

import numpy as np

from ...budget import Budget
from ...sampling.entropy import SeededEntropy
from ..encode import FloatArray
from ..problems import Tables
from .base import Method
from .exact import noisy_counts
from .paper import calibrated_laplace


class YeFeldmanTalwar(Method):
    """q ∝ max(f + Laplace(b), b): a count of one table is (1/b)-DP, so the floor is 1/ε of a count."""

    name = "ye-feldman-talwar"
    label = "Ye, Feldman & Talwar"

    def fit(self, tables: Tables, budget: Budget, entropy: SeededEntropy, repeats: int) -> FloatArray:
        """One noisy table for each repeat."""
        mechanism = calibrated_laplace(budget, tables.shares)
        noisy = noisy_counts(mechanism, tables, entropy, repeats)
        return tables.normalise(np.maximum(noisy, mechanism.scale))
