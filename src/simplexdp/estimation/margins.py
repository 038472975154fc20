"""Conditional rows with known margins: what fewer parents say about the node, weighed by the records of each row."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .values import FloatArray

FITTING_ROUNDS = 12
"""Of iterative proportional fitting; more change nothing that the noise would not hide."""


def normalised(values: FloatArray) -> FloatArray:
    """Distributions along the last axis."""
    return np.asarray(values / values.sum(axis=-1, keepdims=True))


def no_interaction(first: FloatArray, second: FloatArray, marginal: FloatArray, count: FloatArray) -> FloatArray:
    """Rows for all pairs (p, q) of two parents with both one-parent tables as margins: iterative proportional fitting.

    With n_pq records for each pair, Σ_q n_pq θ_pq = n_p first_p and Σ_p n_pq θ_pq = n_q second_q. The product of both
    effects, where it starts, would count twice what the parents have in common.
    """
    start = normalised(first[:, None] * (second / marginal)[None])
    return _fitted(start, count, (first[:, None], second[None]), 1.0, FITTING_ROUNDS)


def half_raked(rows: FloatArray, count: FloatArray, margins: Sequence[FloatArray], rounds: int) -> FloatArray:
    """Rows (…, cells) moved half of the way to the margins, as factors, in each round.

    Rows that are learnt one by one do not add up to what is known of all of them: each is pulled a little to its own
    side, and small shares most. A margin has one cell along every axis that it sums over.
    """
    return _fitted(rows, count, margins, 0.5, rounds)


def _fitted(
    rows: FloatArray, count: FloatArray, margins: Sequence[FloatArray], power: float, rounds: int
) -> FloatArray:
    weights = count[..., None]
    for _ in range(rounds):
        for margin in margins:
            summed = tuple(i for i, size in enumerate(margin.shape[:-1]) if size == 1)
            found = (weights * rows).sum(axis=summed, keepdims=True) / weights.sum(axis=summed, keepdims=True)
            rows = normalised(rows * (margin / found) ** power)
    return rows
