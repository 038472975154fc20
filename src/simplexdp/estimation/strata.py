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
from numpy.typing import NDArray
from scipy.special import expit, logit

from .beta import Proportions, beta_posteriors
from .halving import Order, Shares, halve
from .strengths import bayes_factors, softmax, table_strengths
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
        signal: the same shape: how much of what the estimate says about the class is signal rather than noise.
    """

    conditionals: tuple[FloatArray, ...]
    marginals: tuple[FloatArray, ...]
    reliability: tuple[FloatArray, ...]
    signal: tuple[FloatArray, ...]

    def over(self, maps: Sequence[NDArray[np.intp] | None]) -> Strata:
        """The same over finer values, alike within each of these: `maps` has the place of each finer value."""
        places = [np.arange(m.size) if new is None else new for m, new in zip(self.marginals, maps, strict=True)]
        shares = [
            1 / np.bincount(place, minlength=m.size)[place] for m, place in zip(self.marginals, places, strict=True)
        ]

        def spread(parts: tuple[FloatArray, ...]) -> tuple[FloatArray, ...]:
            return tuple(part[..., place] * share for part, place, share in zip(parts, places, shares, strict=True))

        return Strata(
            conditionals=spread(self.conditionals),
            marginals=spread(self.marginals),
            reliability=spread(self.reliability),
            signal=tuple(part[:, place] for part, place in zip(self.signal, places, strict=True)),
        )


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
    found = _flat(consistent, [table.slope for table in tables], marginals, counts)
    ordered = {k: order for k, order in enumerate(orders or ()) if order is not None and order.size > 2}
    if ordered:
        chosen = [tables[k] for k in ordered]
        halved = halve(chosen, list(ordered.values()), [marginals[k] for k in ordered], counts, variances)
        odds = np.array([each.evidence - found[k].evidence for k, each in zip(ordered, halved, strict=True)])
        for k, each, part in zip(ordered, halved, _order_weights(odds), strict=True):
            found[k] = Shares(
                mean=part * each.mean + (1 - part) * found[k].mean,
                second=part * each.second + (1 - part) * found[k].second,
                signal=part * each.signal + (1 - part) * found[k].signal,
                evidence=each.evidence,
            )
    conditionals, reliability = [], []
    for shares, table, (_, noise) in zip(found, tables, consistent, strict=True):
        reliability.append(_reliability(shares.mean, shares.second, counts, noise, table.slope))
        kept = np.maximum(shares.mean, LEAST)
        conditionals.append(kept / kept.sum(axis=1, keepdims=True))
    return Strata(
        conditionals=tuple(conditionals),
        marginals=tuple(marginals),
        reliability=tuple(reliability),
        signal=tuple(shares.signal for shares in found),
    )


def _reliability(
    mean: FloatArray, second: FloatArray, counts: FloatArray, noise: FloatArray, slope: float
) -> FloatArray:
    """dE n/dz = Var(n | z) / Var(z | n), for counts of each class and value."""
    size = counts[:, None]
    around = noise[:, None] + (1 + slope) * size * mean + 0.25
    return np.clip(np.maximum(second - mean**2, 0.0) * size**2 / around, 0.0, 1.0)


def _flat(
    consistent: Sequence[tuple[FloatArray, FloatArray]],
    slopes: Sequence[float],
    marginals: Sequence[FloatArray],
    counts: FloatArray,
) -> list[Shares]:
    """Every value by itself: θ_kj ~ Dirichlet(τ_kj m_k)."""
    classes = counts.size
    posteriors = beta_posteriors(
        [
            Proportions(
                values=values.ravel(),
                totals=np.repeat(counts, marginal.size),
                means=np.tile(marginal, classes),
                variance=np.repeat(variance, marginal.size),
                slope=slope,
            )
            for (values, variance), slope, marginal in zip(consistent, slopes, marginals, strict=True)
        ]
    )
    rows = []
    for posterior, marginal in zip(posteriors, marginals, strict=True):
        # The last value of a row and the last class follow from the totals: count the free ones.
        free = max(classes - 1, 1) / classes * max(marginal.size - 1, 1) / marginal.size
        rows.append(posterior.log_evidence.reshape(-1, classes, marginal.size).sum(axis=2).T * free)
    evidence = np.array(rows)
    weights = table_strengths(evidence)
    factors = bayes_factors(evidence, weights)
    found = []
    for k, (posterior, weight) in enumerate(zip(posteriors, weights, strict=True)):
        means, variances = (part.reshape(weight.shape[1], classes, -1) for part in (posterior.mean, posterior.variance))
        mean = np.einsum("jt,tjc->jc", weight, means)
        second = np.einsum("jt,tjc->jc", weight, means**2 + variances)
        signal = _reliability(mean, second, counts, consistent[k][1], slopes[k])
        found.append(Shares(mean=mean, second=second, signal=signal, evidence=float(factors[k])))
    return found


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
            Proportions(
                values=sums + (total - sums.sum()) / cells,
                totals=np.full(cells, total),
                means=np.full(cells, 1 / cells),
                variance=np.full(cells, noise),
                slope=table.slope,
            )
        )
    marginals = []
    for posterior in beta_posteriors(columns, MARGINAL_STRENGTHS):
        cells = posterior.mean.shape[1]
        weights = softmax(posterior.log_evidence.sum(axis=1) * (max(cells - 1, 1) / cells))
        share = np.maximum(weights @ posterior.mean, LEAST)
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
    signal = sum(float((part * true).sum()) for part, true in zip(parts, strata.signal, strict=True))
    effective = found.sum() ** 2 / (found**2).sum()
    return float(1 / (1 + (math.sqrt(effective) - 1) * signal / found.sum()))
