"""The two ends: nothing of the data, and all of it."""

from __future__ import annotations

import numpy as np

from ...budget import Budget
from ...sampling.entropy import SeededEntropy
from ..encode import FloatArray
from ..problems import Tables
from .base import Method


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
