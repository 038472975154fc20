"""Conditional tables P(value | class): each class is pulled towards the pooled marginal as far as the release supports.

θ_kj ~ Dirichlet(τ_kj m_k), m_k the pooled marginal of feature k. The strength τ is mixed over a grid for each (feature,
class) row; its prior is learnt by EM from all tables, with a table in between, and everything is noise-aware.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .shrinkage import share_posterior
from .values import FloatArray, NoisyCounts

STRENGTHS = np.append(np.geomspace(0.5, 2e4, 13), np.inf)
HYPER = np.array([0.01, 0.015, 0.03, 0.05, 0.08, 0.1, 0.12, 0.1, 0.08, 0.08, 0.08, 0.06, 0.04, 0.155])
"""Prior over the strengths before any release is seen: weakly informative features are common."""
HYPER_WEIGHT = 10.0
TABLE_WEIGHT = 2.0
MARGINAL_STRENGTHS = np.array([0.5, 1, 2, 4, 8, 16, 32, 64, 256])
LEAST = 1e-7


@dataclass(frozen=True, kw_only=True, eq=False)
class Strata:
    """Estimated conditional tables of one model.

    Args:
        conditionals: for each feature, classes × values; every row sums to 1.
        marginals: for each feature, the pooled distribution of its values.
        reliability: for each feature, classes × values: how much of one more record the estimate would show, 0 to 1.
    """

    conditionals: tuple[FloatArray, ...]
    marginals: tuple[FloatArray, ...]
    reliability: tuple[FloatArray, ...]


def estimate_strata(tables: Sequence[NoisyCounts], counts: FloatArray, variances: FloatArray) -> Strata:
    """Hierarchical empirical Bayes for several feature × class tables of the same records.

    Args:
        tables: each values × classes.
        counts: of the classes, estimated from everything released.
        variances: of those estimates.
    """
    consistent = [_consistent(table, counts, variances) for table in tables]
    marginals = _marginals(tables, float(counts.sum()))
    sizes = [values.size for values, _ in consistent]
    classes = counts.size
    shape = "laplace" if all(table.noise == "laplace" for table in tables) else "normal"
    found = share_posterior(
        np.concatenate([values.ravel() for values, _ in consistent]),
        np.concatenate([np.repeat(v, t.values.shape[0]) for t, (_, v) in zip(tables, consistent, strict=True)]),
        np.repeat([table.slope for table in tables], sizes),
        np.concatenate([np.repeat(counts, table.values.shape[0]) for table in tables]),
        np.concatenate([np.tile(m, classes) for m in marginals]),
        STRENGTHS,
        shape,  # type: ignore[arg-type]  # one of the two literals
    )
    cuts = np.cumsum(sizes)[:-1]
    rows = []
    for evidence in np.split(found.log_evidence, cuts, axis=1):
        values = evidence.shape[1] // classes
        # The last value of a row and the last class follow from the totals: count the free ones.
        free = max(classes - 1, 1) / classes * max(values - 1, 1) / values
        rows.append(evidence.reshape(len(STRENGTHS), classes, values).sum(axis=2).T * free)
    weights = _strength_weights(np.array(rows))
    conditionals, reliability = [], []
    parts = zip(np.split(found.mean, cuts, axis=1), np.split(found.variance, cuts, axis=1), consistent, strict=True)
    for weight, table, (mean, variance, (_, noise)) in zip(weights, tables, parts, strict=True):
        values = table.values.shape[0]
        mean, variance = (a.reshape(-1, classes, values) for a in (mean, variance))
        share = np.einsum("jt,tjc->jc", weight, mean)
        spread = np.maximum(np.einsum("jt,tjc->jc", weight, mean**2 + variance) - share**2, 0.0)
        size = counts[:, None]
        around = noise[:, None] + (1 + table.slope) * size * share + 0.25
        reliability.append(np.clip(spread * size**2 / around, 0.0, 1.0))
        share = np.maximum(share, LEAST)
        conditionals.append(share / share.sum(axis=1, keepdims=True))
    return Strata(conditionals=tuple(conditionals), marginals=tuple(marginals), reliability=tuple(reliability))


def _consistent(table: NoisyCounts, counts: FloatArray, variances: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Classes × values with every row's difference to its class count spread over its cells, and the row variances."""
    values = table.values.T
    cells = values.shape[1]
    moved = values + ((counts - values.sum(axis=1)) / cells)[:, None]
    return moved, np.asarray(table.variance * max(1 - 1 / cells, 1e-9) + variances / cells**2)


def _marginals(tables: Sequence[NoisyCounts], total: float) -> list[FloatArray]:
    """The pooled distribution of every feature: posterior mean under Dirichlet(τ/C), τ mixed over a grid."""
    sums = []
    for table in tables:
        column = table.values.sum(axis=1)
        sums.append(column + (total - column.sum()) / column.size)
    sizes = np.array([column.size for column in sums])
    noise = np.array([t.values.shape[1] * t.variance for t in tables]) * np.maximum(1 - 1 / sizes, 1e-9)
    found = share_posterior(
        np.concatenate(sums),
        np.repeat(noise, sizes),
        np.repeat([t.slope for t in tables], sizes),
        np.full(sizes.sum(), total),
        np.repeat(1 / sizes, sizes),
        MARGINAL_STRENGTHS,
    )
    marginals = []
    cuts = np.cumsum(sizes)[:-1]
    for mean, evidence in zip(
        np.split(found.mean, cuts, axis=1), np.split(found.log_evidence, cuts, axis=1), strict=True
    ):
        log_weight = evidence.sum(axis=1) * max(mean.shape[1] - 1, 1) / mean.shape[1]
        weight = np.exp(log_weight - log_weight.max())
        share = np.maximum(weight / weight.sum() @ mean, LEAST)
        marginals.append(share / share.sum())
    return marginals


def _strength_weights(rows: FloatArray) -> FloatArray:
    """Posterior over the strengths of each (feature, class): population → table → row, by EM."""
    features, classes, _ = rows.shape
    start = HYPER / HYPER.sum()
    tables = rows.sum(axis=1)
    population = start
    for _ in range(30):
        weights = _softmax(tables + np.log(population))
        population = (weights.sum(axis=0) + HYPER_WEIGHT * start) / (features + HYPER_WEIGHT)
    by_table = np.tile(population, (features, 1))
    weights = _softmax(rows + np.log(by_table)[:, None])
    for _ in range(20):
        population = (weights.sum(axis=(0, 1)) + HYPER_WEIGHT * start) / (features * classes + HYPER_WEIGHT)
        by_table = (weights.sum(axis=1) + TABLE_WEIGHT * population) / (classes + TABLE_WEIGHT)
        weights = _softmax(rows + np.log(by_table)[:, None])
    return weights


def _softmax(log_weights: FloatArray) -> FloatArray:
    weights = np.exp(log_weights - log_weights.max(axis=-1, keepdims=True))
    return np.asarray(weights / weights.sum(axis=-1, keepdims=True))


def temperature(strata: Strata, classes: FloatArray) -> float:
    """β = 1/(1 + (√K_e − 1) ρ): how much to trust the sum of the features' evidence, from released values only.

    V_k is the information of feature k about the class, K_e = (ΣV)²/ΣV² the effective number of features and ρ the
    share of the information that is signal rather than noise. Features that repeat each other make naive Bayes
    over-confident, the more so the more of them carry signal.
    """
    information, signal = [], []
    parts = zip(strata.conditionals, strata.marginals, strata.reliability, strict=True)
    for conditional, marginal, reliable in parts:
        ratio = np.log(conditional / marginal)
        ratio = ratio - classes @ ratio
        amount = marginal * classes[:, None] * ratio**2
        information.append(amount.sum())
        signal.append((amount * reliable).sum())
    found = np.array(information) + 1e-12
    effective = found.sum() ** 2 / (found**2).sum()
    return float(1 / (1 + (math.sqrt(effective) - 1) * np.sum(signal) / found.sum()))
