"""Machanavajjhala, Kifer, Abowd, Gehrke & Vilhuber (2008): synthetic records from a Dirichlet-multinomial."""

from __future__ import annotations

import math

import numpy as np

from ...budget import Budget
from ...sampling.entropy import SeededEntropy
from ..encode import FloatArray
from ..problems import Tables
from .base import Method, pure_epsilon


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
