"""Conditional tables P(value | class): each class is pulled towards the pooled marginal as far as the release supports.

θ_kj ~ Dirichlet(τ_kj m_k), m_k the pooled marginal of feature k. The strength τ is mixed over a grid for each (feature,
class) row; its prior is learnt by EM from all tables, with a table in between, and everything is noise-aware. Features
with ordered values are also estimated by halving, and the two are averaged by their evidence.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import expit, logit

from .beta_normal import Observed, posteriors
from .halving import Order, halve
from .strengths import STRENGTHS, bayes_factors, softmax, table_strengths
from .values import FloatArray, NoisyCounts

MARGINAL_STRENGTHS = np.array([0.5, 1, 2, 4, 8, 16, 32, 64, 256])
LEAST = 1e-7
ORDER_TABLES = 1.0
"""How many features the even odds of order mattering or not are worth against the ordered features of the model."""


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


def estimate_strata(
    tables: Sequence[NoisyCounts],
    counts: FloatArray,
    variances: FloatArray,
    orders: Sequence[Order | None] | None = None,
) -> Strata:
    """Hierarchical empirical Bayes for several feature × class tables of the same records.

    Args:
        tables: each values × classes.
        counts: of the classes, estimated from everything released.
        variances: of those estimates.
        orders: of the values of each table, where they have one.
    """
    consistent = [_consistent(table, counts, variances) for table in tables]
    marginals = _marginals(tables, float(counts.sum()))
    classes = counts.size
    means, spreads, evidences = posteriors(
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
    weights = table_strengths(np.array(rows))
    shares, seconds = [], []
    for weight, means_, spreads_ in zip(weights, means, spreads, strict=True):
        mean, variance = (a.reshape(len(STRENGTHS), classes, -1) for a in (means_, spreads_))
        shares.append(np.einsum("jt,tjc->jc", weight, mean))
        seconds.append(np.einsum("jt,tjc->jc", weight, mean**2 + variance))
    ordered = [k for k, order in enumerate(orders or ()) if order is not None and order.size > 2]
    if ordered:
        flat = bayes_factors(np.array(rows), weights)[ordered]
        halved = halve(
            [tables[k] for k in ordered],
            [order for order in orders or () if order is not None and order.size > 2],
            [marginals[k] for k in ordered],
            counts,
            variances,
        )
        for k, part, found in zip(ordered, _order_weights([h.evidence for h in halved] - flat), halved, strict=True):
            shares[k] = part * found.mean + (1 - part) * shares[k]
            seconds[k] = part * found.second + (1 - part) * seconds[k]
    conditionals, reliability = [], []
    for share, second, table, (_, noise) in zip(shares, seconds, tables, consistent, strict=True):
        spread = np.maximum(second - share**2, 0.0)
        size = counts[:, None]
        around = noise[:, None] + (1 + table.slope) * size * share + 0.25
        reliability.append(np.clip(spread * size**2 / around, 0.0, 1.0))
        kept = np.maximum(share, LEAST)
        conditionals.append(kept / kept.sum(axis=1, keepdims=True))
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
    means, _, evidences = posteriors(columns, MARGINAL_STRENGTHS)
    marginals = []
    for mean, evidence in zip(means, evidences, strict=True):
        free = max(mean.shape[1] - 1, 1) / mean.shape[1]
        share = np.maximum(softmax(evidence.sum(axis=1) * free) @ mean, LEAST)
        marginals.append(share / share.sum())
    return marginals


def _order_weights(log_odds: FloatArray) -> FloatArray:
    """Posterior probabilities that a feature's values are better halved; their prior is learnt from all by EM."""
    share, weights = 0.5, np.full(log_odds.shape, 0.5)
    for _ in range(30):
        weights = np.asarray(expit(log_odds + logit(share)))
        share = float((weights.sum() + ORDER_TABLES) / (weights.size + 2 * ORDER_TABLES))
    return weights


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
