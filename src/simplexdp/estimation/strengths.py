"""How strongly rows are pulled towards what they have in common: a grid of strengths, weighed by what the rows say."""

from __future__ import annotations

import numpy as np

from .values import FloatArray

STRENGTHS = np.append(np.geomspace(0.5, 2e4, 13), np.inf)
"""Prior strengths τ in records; ∞ means that the row is the pooled marginal."""
STRENGTH_PRIOR = np.array([0.01, 0.015, 0.03, 0.05, 0.08, 0.1, 0.12, 0.1, 0.08, 0.08, 0.08, 0.06, 0.04, 0.155])
STRENGTH_PRIOR /= STRENGTH_PRIOR.sum()
HYPER_WEIGHT = 10.0
"""How many rows or tables the prior over the strengths is worth against those of the model."""
TABLE_WEIGHT = 2.0
"""How many rows the tables together are worth against the rows of one table."""


def softmax(log_weights: FloatArray) -> FloatArray:
    """Weights of sum 1 along the last axis."""
    weights = np.exp(log_weights - log_weights.max(axis=-1, keepdims=True))
    return np.asarray(weights / weights.sum(axis=-1, keepdims=True))


def row_strengths(log_evidence: FloatArray) -> FloatArray:
    """Posterior weights of each row over the grid; the prior is shared by the rows and learnt by EM."""
    shared, weights = STRENGTH_PRIOR, np.empty_like(log_evidence)
    for _ in range(20):
        weights = softmax(log_evidence + np.log(shared))
        shared = (weights.sum(axis=0) + HYPER_WEIGHT * STRENGTH_PRIOR) / (len(weights) + HYPER_WEIGHT)
    return weights


def table_strengths(log_evidence: FloatArray, prior: FloatArray = STRENGTH_PRIOR) -> FloatArray:
    """Posterior weights of each row of each table, (tables, rows, strengths): population → table → row, by EM."""
    tables, rows, _ = log_evidence.shape
    whole = log_evidence.sum(axis=1)
    population = prior
    for _ in range(30):
        weights = softmax(whole + np.log(population))
        population = (weights.sum(axis=0) + HYPER_WEIGHT * prior) / (tables + HYPER_WEIGHT)
    by_table = np.tile(population, (tables, 1))
    weights = softmax(log_evidence + np.log(by_table)[:, None])
    for _ in range(20):
        population = (weights.sum(axis=(0, 1)) + HYPER_WEIGHT * prior) / (tables * rows + HYPER_WEIGHT)
        by_table = (weights.sum(axis=1) + TABLE_WEIGHT * population) / (rows + TABLE_WEIGHT)
        weights = softmax(log_evidence + np.log(by_table)[:, None])
    return weights


def bayes_factors(log_evidence: FloatArray, weights: FloatArray, prior: FloatArray = STRENGTH_PRIOR) -> FloatArray:
    """ln of how much better each table, (tables, rows, strengths), is explained by free strengths than by τ = ∞.

    The strengths are weighed half by what all rows say and half by the prior.
    """
    population = (weights.mean(axis=(0, 1)) + prior) / 2
    free = np.logaddexp.reduce(log_evidence + np.log(population), axis=-1)
    return np.asarray((free - log_evidence[..., -1]).sum(axis=1))
