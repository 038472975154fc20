"""Conditional tables of a Bayesian network from noisy tables that overlap: back-off along the parents.

For a node x with parents p₁, p₂, … the rows are learnt in a chain: θ_x, then θ_{x|p₁}, then θ_{x|p₁p₂}, …, each level
shrunk to what fewer parents say: θ_{x|S+p} ~ Dir(τ m), where m is θ_{x|S}, or what θ_{x|S} and θ_{x|p} say together if
they do not interact, or rarely the uniform distribution. The order of the parents is that of the highest evidence given
the noise; m and τ are mixed for each row, their weights learnt from all rows under two hyper-priors of τ (rows close to
their back-off, rows that share nothing). Pairs may also be shrunk to the mean of their own rows, where one large row
makes the marginal. The number of records in each row comes from the nodes above, which are estimated first. Everything
is post-processing of released values.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import logsumexp

from ..numerics.factors import Factor, eliminate, largest_table
from .beta import STRENGTHS, Proportions, beta_posterior
from .overlapping import OverlappingTables
from .values import FloatArray, NoisyCounts

HyperPriors = Sequence[tuple[float, FloatArray]]
# Hyper-priors of the strength τ. A marginal is usually uneven; a row is usually close to its back-off.
ROW = np.array([1, 1.5, 3, 5, 8, 10, 12, 10, 8, 8, 8, 6, 4, 15.5])
FREE_SHARE = 0.4
"""Prior probability that the rows of a table share nothing; with real tables of few rows it matters most."""
FREE_CENTRE, FREE_SPREAD = 1.0, 1.2
"""Then ln(τ / cells) is about normal with this centre (as a factor) and standard deviation."""
MARGINAL_CENTRE, MARGINAL_SPREAD = 0.4, 1.0
"""The same for the distribution of a single column, which is usually uneven."""
MEAN_ODDS = (1.0, 1.0, 0.03)
"""Of rows around what fewer parents say, around what they say together, and around nothing."""
FITTING_ROUNDS = 12
"""Of iterative proportional fitting; more change nothing that the noise would not hide."""
HYPER_WEIGHT = 10.0
"""How many rows the hyper-prior is worth."""
UNIFORM_SHARE = 0.02
"""Part of every back-off that is uniform: a value that is rare on the whole may be common in some row."""
MARGINAL_FLOOR, ROW_FLOOR = 0.1, 0.03
"""Added to every cell, in standard deviations of the noise: the grid of τ cannot tell 0 from very small."""
UPSTREAM_CELLS = 1 << 22
"""The joint of a node's parents comes from the network above it when that takes no larger table."""


@dataclass(frozen=True, kw_only=True, eq=False)
class _Rows:
    """Conditional rows and the log-evidence of what they were learnt from."""

    values: FloatArray
    log_evidence: float


@dataclass(frozen=True, kw_only=True, eq=False)
class _RowTotals:
    """How many records have each configuration of the parents, with variances; axes are the parents."""

    parents: tuple[str, ...]
    count: FloatArray
    variance: FloatArray

    def over(self, columns: Sequence[str]) -> tuple[FloatArray, FloatArray]:
        """Flat counts and variances over some of the parents, in this order."""
        drop = tuple(i for i, name in enumerate(self.parents) if name not in columns)
        left = [name for name in self.parents if name in columns]
        order = [left.index(name) for name in columns]
        return (
            np.transpose(self.count.sum(axis=drop), order).ravel(),
            np.transpose(self.variance.sum(axis=drop), order).ravel(),
        )


class _Above:
    """The part of the network estimated so far."""

    def __init__(self) -> None:
        self.tables: dict[str, FloatArray] = {}
        self.marginals: dict[str, FloatArray] = {}
        self._parents: dict[str, tuple[str, ...]] = {}

    def add(self, node: str, parents: tuple[str, ...], table: FloatArray, marginal: FloatArray) -> None:
        """Put a node below its parents."""
        self.tables[node], self.marginals[node], self._parents[node] = table, marginal, parents

    def joint(self, columns: tuple[str, ...]) -> FloatArray:
        """The joint distribution of these nodes, flat; a product where the exact one needs too large a table."""
        involved = self._ancestors(columns)
        axes = [(*self._parents[name], name) for name in involved]
        sizes = {name: self.tables[name].shape[-1] for name in involved}
        if largest_table(axes, sizes, columns) <= UPSTREAM_CELLS:
            factors = [Factor(names, self.tables[names[-1]]) for names in axes]
            joint = eliminate(factors, columns)[0].values.ravel()
        else:
            joint = np.ones(1)
            for name in columns:
                joint = np.outer(joint, self.marginals[name]).ravel()
        return _normalised(joint / joint.sum() + 2e-6)

    def _ancestors(self, columns: Sequence[str]) -> list[str]:
        found: dict[str, None] = {}
        left = list(columns)
        while left:
            name = left.pop()
            if name not in found:
                found[name] = None
                left.extend(self._parents[name])
        return list(found)


def estimate_network(
    families: Iterable[tuple[str, tuple[str, ...]]], tables: Mapping[tuple[str, ...], NoisyCounts]
) -> dict[str, FloatArray]:
    """P(node | parents) for every node, parents on the first axes; every row is positive and sums to one.

    Args:
        families: each node with its parents, parents before children.
        tables: released tables by columns; each family must be inside one of them. More tables help.
    """
    known, above = OverlappingTables(tables), _Above()
    for node, parents in families:
        marginal = _marginal(known, node)
        table = _conditional(known, node, parents, marginal, above) if parents else marginal[0]
        above.add(node, parents, table, marginal[0])
    return above.tables


def _marginal(known: OverlappingTables, node: str) -> FloatArray:
    """The distribution of one node, as a table of one row."""
    alone = known.marginal([node])
    uniform = np.full((1, alone.size), 1 / alone.size)
    total = np.array([known.total])
    return _learn(
        alone.values[None],
        alone,
        total,
        np.zeros(1),
        [uniform],
        ((1.0, strengths(alone.size, MARGINAL_CENTRE, MARGINAL_SPREAD)),),
        MARGINAL_FLOOR,
    ).values


def _conditional(
    known: OverlappingTables, node: str, parents: tuple[str, ...], marginal: FloatArray, above: _Above
) -> FloatArray:
    cells = marginal.size
    sizes = {parent: above.marginals[parent].size for parent in parents}
    totals = _row_totals(known, parents, above.joint(parents))

    priors = ((1 - FREE_SHARE, ROW), (FREE_SHARE, strengths(cells, FREE_CENTRE, FREE_SPREAD)))

    def level(columns: Sequence[str], *means: FloatArray) -> _Rows:
        noisy = known.rows(columns, node)
        values = noisy.values.reshape(-1, cells)
        softened = [(1 - UNIFORM_SHARE) * each + UNIFORM_SHARE / cells for each in means]
        return _learn(values, noisy, *totals.over(columns), softened, priors, ROW_FLOOR)

    def pair(parent: str) -> _Rows:
        """Rows around the marginal, or around their own mean: one large row may make the marginal."""
        rows = level([parent], np.repeat(marginal, sizes[parent], axis=0))
        count, _ = totals.over([parent])
        weights = count / (count + cells * known.rows([parent], node).scale + cells)
        mean = (weights @ rows.values / weights.sum())[None]
        again = level([parent], np.repeat(mean, sizes[parent], axis=0))
        return again if again.log_evidence > rows.log_evidence else rows

    pairs = {parent: pair(parent) for parent in parents}
    gain = {p: pairs[p].log_evidence - _no_effect(known.rows([p], node), totals, p, marginal) for p in parents}
    chain = [max(parents, key=lambda p: gain[p])]
    rows = pairs[chain[0]].values
    left = [parent for parent in parents if parent != chain[0]]
    while left:
        best: tuple[float, str, FloatArray] | None = None
        for parent in left:
            columns, base = [*chain, parent], np.repeat(rows, sizes[parent], axis=0)
            count = totals.over(columns)[0].reshape(len(rows), sizes[parent])
            together = no_interaction(rows, pairs[parent].values, marginal, count)
            found = level(columns, base, together, np.full_like(base, 1 / cells))
            score = found.log_evidence - level(columns, base).log_evidence + gain[parent]
            if best is None or score > best[0]:
                best = (score, parent, found.values)
        assert best is not None
        _, parent, rows = best
        chain.append(parent)
        left.remove(parent)
    table = rows.reshape([*(sizes[parent] for parent in chain), cells])
    return np.ascontiguousarray(np.transpose(table, [*(chain.index(p) for p in parents), len(parents)]))


def no_interaction(first: FloatArray, second: FloatArray, marginal: FloatArray, count: FloatArray) -> FloatArray:
    """Rows for all pairs (p, q) of two parents with both one-parent tables as margins: iterative proportional fitting.

    With n_pq records for each pair, Σ_q n_pq θ_pq = n_p first_p and Σ_p n_pq θ_pq = n_q second_q. The product of both
    effects, where it starts, would count twice what the parents have in common.
    """
    target_first, target_second = count.sum(axis=1)[:, None] * first, count.sum(axis=0)[:, None] * second
    rows = _normalised(first[:, None] * (second / marginal)[None])
    for _ in range(FITTING_ROUNDS):
        mass = count[:, :, None] * rows
        mass *= (target_first / mass.sum(axis=1))[:, None]
        mass *= (target_second / mass.sum(axis=0))[None]
        rows = _normalised(mass)
    return rows.reshape(-1, rows.shape[-1])


def _learn(
    values: FloatArray,
    noisy: NoisyCounts,
    totals: FloatArray,
    total_variances: FloatArray,
    means: Sequence[FloatArray],
    hyper: HyperPriors,
    floor: float,
) -> _Rows:
    """Rows θ_r ~ Dir(τ m_r) from noisy counts z_r with row totals n_r; τ and which of the `means` are mixed by row."""
    rows, cells = values.shape
    if cells == 1:
        return _Rows(values=np.ones((rows, 1)), log_evidence=0.0)
    moved = values + ((totals - values.sum(axis=1)) / cells)[:, None]
    posterior = beta_posterior(
        Proportions(
            values=np.tile(moved.ravel(), len(means)),
            variance=noisy.variance + 1e-3,
            slope=noisy.slope,
            totals=np.tile(np.repeat(totals, cells), len(means)),
            total_variances=np.tile(np.repeat(total_variances, cells), len(means)),
            means=np.concatenate([each.ravel() for each in means]),
            centre=1 / cells,
        )
    )
    # A row is bound by its total and a column by its own: (C − 1)/C and (R − 1)/R of the cells count.
    free_part = (cells - 1) / cells * (1.0 if rows == 1 else (rows - 1) / rows)
    shape = (-1, len(means), rows, cells)
    log_rows = posterior.log_evidence.reshape(shape).sum(axis=3) * free_part
    theta, around, log_evidence = _mixed(log_rows, posterior.mean.reshape(shape), np.array(means), hyper)
    lift = floor * np.sqrt(noisy.variance + 0.25) / np.maximum(totals, 1)
    theta = np.maximum(theta, 1e-9) + lift[:, None] * np.minimum(1, around * cells)
    return _Rows(values=_normalised(theta), log_evidence=log_evidence)


def strengths(cells: int, centre: float, spread: float) -> FloatArray:
    """Weights of the strengths τ when ln(τ / (centre · cells)) has about this spread."""
    logs = np.log(np.append(STRENGTHS[:-1], 4 * STRENGTHS[-2]) / (centre * cells)) / spread
    return np.exp(-0.5 * logs**2) + 1e-3


def _mixed(
    log_rows: FloatArray, thetas: FloatArray, means: FloatArray, hyper: HyperPriors
) -> tuple[FloatArray, FloatArray, float]:
    """Rows averaged over strengths and means, and the mean of the means; weights are learnt from all rows.

    The means are the back-off, both parents together and the uniform distribution, or the first of these.
    """
    grid, choices, rows = log_rows.shape
    odds = np.array(MEAN_ODDS[:choices])
    flat = log_rows.reshape(grid * choices, rows).T
    logs, values, around = [], [], []
    for share, shape in hyper:
        prior = np.outer(shape / shape.sum(), odds / odds.sum()).ravel()
        mixture = prior
        for _ in range(25):
            weights = _softmax(flat + np.log(mixture))[0]
            mixture = (weights.sum(axis=0) + HYPER_WEIGHT * prior) / (rows + HYPER_WEIGHT)
        weights, log_evidence = _softmax(flat + np.log(mixture))
        logs.append(math.log(share) + float(log_evidence.sum()))
        by_row = weights.T.reshape(grid, choices, rows)
        values.append(np.einsum("tkr,tkrc->rc", by_row, thetas))
        around.append(np.einsum("tkr,krc->rc", by_row, means))
    chosen, total = _softmax(np.array([logs]))
    return (
        np.einsum("h,hrc->rc", chosen[0], np.array(values)),
        np.einsum("h,hrc->rc", chosen[0], np.array(around)),
        float(total[0]),
    )


def _no_effect(noisy: NoisyCounts, totals: _RowTotals, parent: str, marginal: FloatArray) -> float:
    """Log-evidence of the (parent, node) table when the node does not depend on the parent."""
    cells = marginal.size
    if cells == 1:
        return 0.0
    count, spread = totals.over([parent])
    values = noisy.values + ((count - noisy.values.sum(axis=1)) / cells)[:, None]
    mean = count[:, None] * marginal
    variance = (
        noisy.variance
        + noisy.slope * mean
        + spread[:, None] * (1 / cells - marginal) ** 2
        + mean * (1 - marginal)
        + 1e-3
    )
    logs = -0.5 * ((values - mean) ** 2 / variance + np.log(2 * math.pi * variance))
    return float(logs.sum()) * (cells - 1) / cells


def _row_totals(known: OverlappingTables, parents: tuple[str, ...], prior: FloatArray) -> _RowTotals:
    """Posterior of the records in each configuration: released counts, with the network above as the prior."""
    noisy = known.marginal(parents)
    shape, total = noisy.values.shape, known.total
    posterior = beta_posterior(
        Proportions(
            values=noisy.values.ravel(),
            variance=noisy.variance,
            slope=noisy.slope,
            totals=np.full(noisy.size, total),
            total_variances=np.zeros(noisy.size),
            means=prior,
        )
    )
    log_strength = posterior.log_evidence.sum(axis=1)
    weights = np.exp(log_strength - log_strength.max())
    weights /= weights.sum()
    share = weights @ posterior.mean
    spread = weights @ (posterior.variance + posterior.mean**2) - share**2
    # θ is the share in the population; the rows to be split hold the records of this sample. Given θ the count is
    # N(Nθ, Nθ(1−θ)), and the released value is that count plus noise.
    expected = total * share / share.sum()
    sampling = expected * (1 - expected / total)
    noise = noisy.variance + noisy.slope * expected
    trust = sampling / (sampling + noise)
    count = np.maximum(expected + trust * (noisy.values.ravel() - expected), 1e-3)
    variance = trust * noise + ((1 - trust) * total) ** 2 * np.maximum(spread, 0)
    return _RowTotals(
        parents=parents, count=(count / count.sum() * total).reshape(shape), variance=variance.reshape(shape)
    )


def _softmax(logs: FloatArray) -> tuple[FloatArray, FloatArray]:
    sums = logsumexp(logs, axis=1)
    return np.exp(logs - sums[:, None]), sums


def _normalised(values: FloatArray) -> FloatArray:
    return np.asarray(values / values.sum(axis=-1, keepdims=True))
