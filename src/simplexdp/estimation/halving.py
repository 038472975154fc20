"""P(value | class) of ordered values by halving: neighbours share what little a noisy table says about each.

The values in order are cut in two where the pooled marginal has half of its mass, each half again, down to single
values. At every cut θ ~ Beta(τm, τ(1−m)) is the share of the lower side in each class, m that of the pooled marginal;
the strengths are learnt at each depth from all features. A shift of a whole half is seen through the sum of its cells,
whose noise is √cells times smaller, relative to the count, than that of one cell.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .beta import Proportions, beta_posteriors
from .strengths import STRENGTH_PRIOR, bayes_factors, table_strengths
from .values import FloatArray, NoisyCounts

Order = NDArray[np.intp]
"""Cell numbers of a feature in increasing order of their values."""


NO_CHANGE = 0.6
"""Prior probability that a cut says nothing about the class: of many cuts few matter."""
CUT_PRIOR = (1 - NO_CHANGE) * STRENGTH_PRIOR
CUT_PRIOR[-1] += NO_CHANGE


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
            m = observed[i].means
            spread = np.maximum(low_second[i] - low[i] ** 2, 0.0) * observed[i].totals ** 2
            around = observed[i].variance + observed[i].totals * low[i] * (1 - low[i]) + 0.25
            reliable = np.clip(spread / around, 0.0, 1.0)
            sides = (
                (node.cells[: node.cut], low[i], low_second[i], m),
                (node.cells[node.cut :], 1 - low[i], 1 - 2 * low[i] + low_second[i], 1 - m),
            )
            for cells, share, square, usual in sides:
                first, second = node.mean * share, node.second * square
                says = np.log(np.maximum(share, 1e-12) / usual) ** 2
                said, signal = node.said + says, node.signal + says * reliable
                if cells.size == 1:
                    means[k][:, cells[0]], seconds[k][:, cells[0]] = first, second
                    signals[k][:, cells[0]] = signal / np.maximum(said, 1e-12)
                else:
                    cut = _cut(marginals[k][cells])
                    deeper.append(
                        _Node(feature=k, cells=cells, cut=cut, mean=first, second=second, said=said, signal=signal)
                    )
        nodes = deeper
    return [
        Shares(mean=mean, second=second, signal=signal, evidence=float(each))
        for mean, second, signal, each in zip(means, seconds, signals, evidence, strict=True)
    ]


def _cut(marginal: FloatArray) -> int:
    """How many of the values, in order, are the lower side: as near as can be to half of the mass."""
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
