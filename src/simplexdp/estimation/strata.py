"""Conditional tables P(value | class): each class is pulled towards the pooled marginal as far as the release supports.

Every table crosses a feature with the class, so that the class marginal is free. θ_kj ~ Dirichlet(τ_kj m_k), m_k the
pooled marginal of feature k. The strength τ is mixed over a grid for each (feature, class) row; its prior is learnt by
EM from all tables, with a table in between, and everything is noise-aware.

Features with ordered values are also estimated by halving, and the two are averaged by their evidence. The values in
order are cut in two where the pooled marginal has half of its mass, each half again, down to single values. At every
cut θ ~ Beta(τm, τ(1−m)) is the share of the lower side in each class; the strengths are learnt at each depth from all
features. A shift of a whole half is seen through the sum of its cells, whose noise is √cells times smaller, relative to
the count, than that of one cell.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..lazy import special
from .beta import STRENGTH_PRIOR, Proportions, bayes_factors, beta_posteriors, softmax, table_strengths
from .one_table import Method, estimate
from .values import Estimate, FloatArray, NoisyCounts

Order = NDArray[np.intp]
"""Cell numbers of a feature in increasing order of their values."""
NO_CHANGE = 0.6
"""Prior probability that a cut says nothing about the class: of many cuts few matter."""
CUT_PRIOR = (1 - NO_CHANGE) * STRENGTH_PRIOR
CUT_PRIOR[-1] += NO_CHANGE
MARGINAL_STRENGTHS = np.array([0.5, 1, 2, 4, 8, 16, 32, 64, 256])
"""Prior strengths of a feature's pooled distribution, in records, all as likely."""
LEAST = 1e-7
"""No share is taken for smaller."""
ORDER_TABLES = 1.0
"""How many features the even odds of order mattering or not are worth against the ordered features of the model."""
ORDER_ROUNDS = 30
"""Of EM: more change nothing that matters."""


def pooled(tables: Sequence[NoisyCounts]) -> NoisyCounts:
    """Independent releases of the same counts as one: their precision-weighted mean, whose noise is nearly normal."""
    if len(tables) == 1:
        return tables[0]
    variances = np.array([table.variance for table in tables])
    slopes = np.array([table.slope for table in tables])
    total = next((table.total for table in tables if table.total is not None), None)
    seen = total if total is not None else float(np.mean([table.values.sum() for table in tables]))
    precision = 1 / (variances + slopes * max(1.0, seen) / tables[0].size)
    shares = precision / precision.sum()
    return NoisyCounts(
        values=np.tensordot(shares, np.array([table.values for table in tables]), 1),
        variance=float(shares**2 @ variances),
        slope=float(shares**2 @ slopes),
        total=total,
    )


def pooled_classes(tables: Sequence[NoisyCounts], alone: Sequence[NoisyCounts] = ()) -> NoisyCounts:
    """The precision-weighted mean of all tables' class sums, as one table over the classes.

    A class sum of a table with C cells a class has variance C·variance + slope·count.

    Args:
        tables: each features × classes, all about the same records.
        alone: tables of the classes alone.
    """
    sums = [
        NoisyCounts(
            values=table.values.sum(axis=0),
            variance=table.variance * len(table.values),
            slope=table.slope,
            total=table.total,
        )
        for table in tables
    ]
    return pooled([*sums, *alone])


def class_estimate(
    tables: Sequence[NoisyCounts], alone: Sequence[NoisyCounts] = (), method: Method = "posterior-mean"
) -> Estimate:
    """Class probabilities with uncertainty from everything that was released about the classes."""
    return estimate(pooled_classes(tables, alone), method)


@dataclass(frozen=True, kw_only=True, eq=False)
class Shares:
    """What is known about θ of one feature, classes × values.

    Args:
        mean: E θ.
        second: E θ².
        signal: how much of what θ says about the class is signal rather than noise, 0 to 1.
        evidence: ln of the Bayes factor against no difference of the classes.
    """

    mean: FloatArray
    second: FloatArray
    signal: FloatArray
    evidence: float


@dataclass(frozen=True, kw_only=True, eq=False)
class _Node:
    """Neighbouring values of one feature, and the moments of their share in each class.

    `said` is what the cuts above say about each class, Σ (ln share/m)², and `signal` the part of it that is signal.
    """

    feature: int
    cells: Order
    cut: int
    mean: FloatArray
    second: FloatArray
    said: FloatArray
    signal: FloatArray


def halve(
    tables: Sequence[NoisyCounts],
    orders: Sequence[Order],
    marginals: Sequence[FloatArray],
    counts: FloatArray,
    variances: FloatArray,
) -> list[Shares]:
    """Estimate the conditional tables of features with ordered values.

    Args:
        tables: each values × classes.
        orders: of the values of each.
        marginals: pooled distribution of the values of each.
        counts: of the classes, estimated from everything released.
        variances: of those estimates.
    """
    classes = counts.size
    shapes = [(classes, marginal.size) for marginal in marginals]
    means, seconds, signals = ([np.ones(shape) for shape in shapes] for _ in range(3))
    evidence = np.zeros(len(tables))
    one, none = np.ones(classes), np.zeros(classes)
    nodes = [
        _Node(feature=k, cells=order, cut=_cut(marginals[k][order]), mean=one, second=one, said=none, signal=none)
        for k, order in enumerate(orders)
        if order.size > 1
    ]
    while nodes:
        observed = [_observed(node, tables[node.feature], marginals[node.feature], counts, variances) for node in nodes]
        found = beta_posteriors(observed)
        mean = np.array([each.mean for each in found])
        variance = np.array([each.variance for each in found])
        log_evidence = np.array([each.log_evidence for each in found])
        # The last class follows from the pooled marginal: count the free ones.
        rows = log_evidence.transpose(0, 2, 1) * (max(classes - 1, 1) / classes)
        weights = table_strengths(rows, CUT_PRIOR)
        low = np.einsum("njt,ntj->nj", weights, mean)
        low_second = np.einsum("njt,ntj->nj", weights, mean**2 + variance)
        factors = bayes_factors(rows, weights, CUT_PRIOR)
        deeper: list[_Node] = []
        for i, node in enumerate(nodes):
            k = node.feature
            evidence[k] += factors[i]
            for half in _halves(node, observed[i], low[i], low_second[i], marginals[k]):
                if half.cells.size > 1:
                    deeper.append(half)
                    continue
                (cell,) = half.cells
                means[k][:, cell], seconds[k][:, cell] = half.mean, half.second
                signals[k][:, cell] = half.signal / np.maximum(half.said, 1e-12)
        nodes = deeper
    return [
        Shares(mean=mean, second=second, signal=signal, evidence=float(each))
        for mean, second, signal, each in zip(means, seconds, signals, evidence, strict=True)
    ]


def _halves(
    node: _Node, observed: Proportions, low: FloatArray, low_second: FloatArray, marginal: FloatArray
) -> Iterator[_Node]:
    """Both sides of a cut, from the moments of the share of the lower one in each class."""
    m = observed.means
    spread = np.maximum(low_second - low**2, 0.0) * observed.totals**2
    around = observed.variance + observed.totals * low * (1 - low) + 0.25
    reliable = np.clip(spread / around, 0.0, 1.0)
    for cells, share, square, usual in (
        (node.cells[: node.cut], low, low_second, m),
        (node.cells[node.cut :], 1 - low, 1 - 2 * low + low_second, 1 - m),
    ):
        says = np.log(np.maximum(share, 1e-12) / usual) ** 2
        yield _Node(
            feature=node.feature,
            cells=cells,
            cut=_cut(marginal[cells]),
            mean=node.mean * share,
            second=node.second * square,
            said=node.said + says,
            signal=node.signal + says * reliable,
        )


def _cut(marginal: FloatArray) -> int:
    """How many of the values, in order, are the lower side: as near as can be to half of the mass."""
    if marginal.size == 1:
        return 0
    below = np.cumsum(marginal)
    return int(np.abs(below[:-1] / below[-1] - 0.5).argmin()) + 1


def _observed(
    node: _Node, table: NoisyCounts, marginal: FloatArray, counts: FloatArray, variances: FloatArray
) -> Proportions:
    """The noisy count of the lower side in each class, its difference to the node's estimated count spread evenly."""
    low, high = node.cells[: node.cut], node.cells[node.cut :]
    below, above = table.values[low].sum(axis=0), table.values[high].sum(axis=0)
    part = low.size / node.cells.size
    total = counts * node.mean
    uncertain = counts**2 * np.maximum(node.second - node.mean**2, 0.0) + variances * node.mean**2
    return Proportions(
        values=below + (total - below - above) * part,
        totals=total,
        means=np.full(counts.size, marginal[low].sum() / marginal[node.cells].sum()),
        variance=table.variance * low.size * high.size / node.cells.size + uncertain * part**2,
        slope=table.slope,
    )


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
    for _ in range(ORDER_ROUNDS):
        weights = np.asarray(special.expit(log_odds + special.logit(share)))
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
