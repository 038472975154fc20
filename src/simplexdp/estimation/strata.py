"""Conditional tables P(value | class): each class is pulled towards the pooled marginal as far as the release supports.

θ_kj ~ Dirichlet(τ_kj m_k), m_k the pooled marginal of feature k. The strength τ is mixed over a grid for each (feature,
class) row; its prior is learnt by EM from all tables, with a table in between, and everything is noise-aware.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .beta_normal import Moments, Observed, beta_posteriors
from .conditional import STRENGTH_PRIOR, STRENGTHS
from .values import FloatArray, NoisyCounts

HYPER_WEIGHT = 10.0
"""How many tables the prior over the strengths is worth against the tables of the model."""
TABLE_WEIGHT = 2.0
"""How many rows the tables together are worth against the rows of one table."""
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
    classes = counts.size
    means, spreads, evidences = _posteriors(
        [
            Observed(
                values=values.ravel(),
                totals=np.repeat(counts, len(table.values)),
                prior=np.tile(marginal, classes),
                variance=np.repeat(variance, len(table.values)),
                slope=table.slope,
            )
            for table, marginal, (values, variance) in zip(tables, marginals, consistent, strict=True)
        ],
        STRENGTHS,
    )
    rows = []
    for evidence in evidences:
        values = evidence.shape[1] // classes
        # The last value of a row and the last class follow from the totals: count the free ones.
        free = max(classes - 1, 1) / classes * max(values - 1, 1) / values
        rows.append(evidence.reshape(len(STRENGTHS), classes, values).sum(axis=2).T * free)
    weights = _strength_weights(np.array(rows))
    conditionals, reliability = [], []
    for weight, table, means_, spreads_, (_, noise) in zip(weights, tables, means, spreads, consistent, strict=True):
        mean, variance = (a.reshape(len(STRENGTHS), classes, -1) for a in (means_, spreads_))
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
    columns = []
    for table in tables:
        sums = table.values.sum(axis=1)
        cells = sums.size
        noise = table.values.shape[1] * table.variance * max(1 - 1 / cells, 1e-9)
        columns.append(
            Observed(
                values=sums + (total - sums.sum()) / cells,
                totals=np.full(cells, total),
                prior=np.full(cells, 1 / cells),
                variance=np.full(cells, noise),
                slope=table.slope,
            )
        )
    means, _, evidences = _posteriors(columns, MARGINAL_STRENGTHS)
    marginals = []
    for mean, evidence in zip(means, evidences, strict=True):
        free = max(mean.shape[1] - 1, 1) / mean.shape[1]
        share = np.maximum(_softmax(evidence.sum(axis=1) * free) @ mean, LEAST)
        marginals.append(share / share.sum())
    return marginals


def _posteriors(tables: Sequence[Observed], strengths: FloatArray) -> tuple[list[FloatArray], ...]:
    """Mean, variance and log-evidence of every table, each (strengths, cells); one call for each slope there is."""
    found: dict[int, Moments] = {}
    for slope in dict.fromkeys(table.slope for table in tables):
        group = [i for i, table in enumerate(tables) if table.slope == slope]
        joined = Observed(
            values=np.concatenate([tables[i].values for i in group]),
            totals=np.concatenate([tables[i].totals for i in group]),
            prior=np.concatenate([tables[i].prior for i in group]),
            variance=np.concatenate([tables[i].variance for i in group]),
            slope=slope,
        )
        cuts = np.cumsum([tables[i].values.size for i in group])[:-1]
        parts = [np.split(moment, cuts, axis=1) for moment in beta_posteriors(joined, strengths)]
        found |= {i: (parts[0][k], parts[1][k], parts[2][k]) for k, i in enumerate(group)}
    return tuple([found[i][which] for i in range(len(tables))] for which in range(3))


def _strength_weights(rows: FloatArray) -> FloatArray:
    """Posterior over the strengths of each (feature, class): population → table → row, by EM."""
    features, classes, _ = rows.shape
    start = STRENGTH_PRIOR / STRENGTH_PRIOR.sum()
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


def information(strata: Strata, classes: FloatArray) -> FloatArray:
    """V_k = Σ m π (ln θ/m)², centred over the classes: what feature k says about the class."""
    return np.array([part.sum() for part in _information(strata, classes)])


def _information(strata: Strata, classes: FloatArray) -> list[FloatArray]:
    parts = []
    for conditional, marginal in zip(strata.conditionals, strata.marginals, strict=True):
        ratio = np.log(conditional / marginal)
        ratio = ratio - classes @ ratio
        parts.append(marginal * classes[:, None] * ratio**2)
    return parts


def temperature(strata: Strata, classes: FloatArray) -> float:
    """β = 1/(1 + (√K_e − 1) ρ): how much to trust the sum of the features' evidence, from released values only.

    V_k is the information of feature k about the class, K_e = (ΣV)²/ΣV² the effective number of features and ρ the
    share of the information that is signal rather than noise. Features that repeat each other make naive Bayes
    over-confident, the more so the more of them carry signal.
    """
    parts = _information(strata, classes)
    found = np.array([part.sum() for part in parts]) + 1e-12
    signal = sum(float((part * reliable).sum()) for part, reliable in zip(parts, strata.reliability, strict=True))
    effective = found.sum() ** 2 / (found**2).sum()
    return float(1 / (1 + (math.sqrt(effective) - 1) * signal / found.sum()))
