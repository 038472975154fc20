"""Foulds, Geumlek, Welling & Chaudhuri (2016): Laplace noise on the counts, clip at zero, then a posterior draw."""

from __future__ import annotations

import numpy as np

from ...budget import Budget
from ...sampling.entropy import SeededEntropy
from ..encode import FloatArray
from ..problems import Tables
from .base import Method
from .exact import noisy_counts
from .paper import calibrated_laplace


class Foulds(Method):
    """θ ~ Dirichlet(max(f + Laplace, 0) + 1): private through the noise, the draw is post-processing."""

    name = "foulds"
    label = "Foulds et al."

    def fit(self, tables: Tables, budget: Budget, entropy: SeededEntropy, repeats: int) -> FloatArray:
        """One noisy table and one posterior draw for each repeat."""
        noisy = noisy_counts(calibrated_laplace(budget, tables.shares), tables, entropy, repeats)
        gammas = entropy.generator().standard_gamma(np.maximum(noisy, 0.0) + 1.0)
        return tables.normalise(np.maximum(gammas, 1e-300))
