"""Conditional tables of a Bayesian network from noisy tables that overlap: back-off along the parents.

For a node x with parents p₁, p₂, … the rows are learnt in a chain: θ_x, then θ_{x|p₁}, then θ_{x|p₁p₂}, …, each level
shrunk to what fewer parents say: θ_{x|S+p} ~ Dir(τ m), where m is θ_{x|S}, or what θ_{x|S} and θ_{x|p} say together if
they do not interact, or rarely the uniform distribution. Each parent begins one chain, which goes on in the order of
the highest evidence given the noise, and the chains are averaged; m and τ are mixed for each row, their weights learnt
from all rows under two hyper-priors of τ (rows close to their back-off, rows that share nothing). Where values have an
order, m may also be what the other cells of the table say about each (`neighbours`). Pairs may be shrunk to the mean of
their own rows, where one large row makes the marginal. Every level is then moved half of the way to adding up to the
levels before it, which are better known. The number of records in each row comes from the nodes above, which are
estimated first. Everything is post-processing of released values.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ..lazy import special
from ..numerics.factors import Factor, eliminate, largest_table
from .beta import Proportions, beta_posterior
from .network_rows import (
    Mean,
    NoisyRows,
    Places,
    Posteriors,
    Rows,
    half_raked,
    learn_rows,
    no_interaction,
    normalised,
    row_priors,
    said_by_neighbours,
)
from .network_tables import OverlappingTables
from .one_table import estimate
from .values import FloatArray, NoisyCounts

PAIR_UNIFORM_ODDS, CHAIN_UNIFORM_ODDS = 0.2, 0.03
"""Of rows around nothing at all, against rows around what fewer parents say."""
OWN_MEAN_ROUNDS = 2
"""How often the mean of a pair's own rows is taken and the rows are learnt again around it."""
PAIR_RAKING_ROUNDS, CHAIN_RAKING_ROUNDS = 2, 1
UNIFORM_SHARE, UNIFORM_RECORDS = 0.02, 30
"""Part of every back-off that is uniform, and records that it is worth on top: a value that is rare on the whole may be
common in some row, and few records do not say much of rare values."""
ROW_FLOOR = 0.03
"""Added to every cell, in standard deviations of the noise: the grid of τ cannot tell 0 from very small."""
UPSTREAM_FLOOR = 2e-6
"""Added to every cell of a joint from above: no configuration is impossible."""
UPSTREAM_CELLS = 1 << 22
"""The joint of a node's parents comes from the network above it when that takes no larger table."""


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
        return normalised(joint / joint.sum() + UPSTREAM_FLOOR)

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
    families: Iterable[tuple[str, tuple[str, ...]]],
    tables: Mapping[tuple[str, ...], NoisyCounts],
    places: Mapping[str, Places] | None = None,
) -> dict[str, FloatArray]:
    """P(node | parents) for every node, parents on the first axes; every row is positive and sums to one.

    Args:
        families: each node with its parents, parents before children.
        tables: released tables by columns; each family must be inside one of them. More tables help.
        places: of the cells of columns whose values have an order.
    """
    known, above = OverlappingTables(tables), _Above()
    for node, parents in families:
        marginal = estimate(known.marginal([node])).probabilities[None]
        table = _Family(known, node, parents, marginal, above, places or {}).table() if parents else marginal[0]
        above.add(node, parents, table, marginal[0])
    return above.tables


class _Family:
    """A node with its parents: everything that its rows are learnt from."""

    def __init__(
        self,
        known: OverlappingTables,
        node: str,
        parents: tuple[str, ...],
        marginal: FloatArray,
        above: _Above,
        places: Mapping[str, Places],
    ) -> None:
        self._known, self._node, self._parents, self._marginal = known, node, parents, marginal
        self._cells, self._places = marginal.size, places
        self._sizes = {parent: above.marginals[parent].size for parent in parents}
        self._totals = _row_totals(known, parents, above.joint(parents))
        self._priors = row_priors(self._cells)
        self._posteriors = Posteriors()
        self._even = (UNIFORM_SHARE * known.total + UNIFORM_RECORDS) / (known.total + UNIFORM_RECORDS)
        self._pairs = {parent: self._pair(parent) for parent in parents}
        self._gain = {
            p: self._pairs[p].log_evidence - _no_effect(known.rows([p], node), self._totals, p, marginal)
            for p in parents
        }

    def table(self) -> FloatArray:
        """P(node | parents).

        No order of the parents is the right one: the mean of several estimates loses less than the one with the
        highest evidence.
        """
        return np.asarray(np.mean([self._along(parent) for parent in self._parents], axis=0))

    def _level(self, columns: Sequence[str], *means: FloatArray, uniform: float = 0.0) -> Rows:
        """Rows around these means, or around nothing at such odds."""
        cells, even = self._cells, self._even
        noisy = NoisyRows.of(self._known.rows(columns, self._node), *self._totals.over(columns))
        around = [Mean(rows=(1 - even) * each + even / cells) for each in means]
        axes = [self._places.get(name) for name in (*columns, self._node)]
        sizes = [*(self._sizes[name] for name in columns), cells]
        smooth = said_by_neighbours(noisy.around(around[-1].rows), axes, sizes)
        if smooth is not None:
            around.append(Mean(rows=smooth))
        if uniform:
            around.append(Mean(rows=np.full_like(noisy.values, 1 / cells), odds=uniform))
        posteriors = self._posteriors.around(tuple(columns), noisy, [each.rows for each in around])
        return learn_rows(noisy, around, posteriors, self._priors, ROW_FLOOR)

    def _pair(self, parent: str) -> Rows:
        """Rows around the marginal, or around their own mean: one large row may make the marginal."""

        def around(mean: FloatArray) -> Rows:
            return self._level([parent], np.repeat(mean, self._sizes[parent], axis=0), uniform=PAIR_UNIFORM_ODDS)

        cells, (count, _) = self._cells, self._totals.over([parent])
        weights = count / (count + cells * self._known.rows([parent], self._node).scale + cells)
        rows = own = around(self._marginal)
        for _ in range(OWN_MEAN_ROUNDS):
            own = around((weights @ own.values / weights.sum())[None])
        trust = float(special.expit(own.log_evidence - rows.log_evidence))
        mean = (1 - trust) * rows.values + trust * own.values
        raked = half_raked(mean, count, [self._marginal], PAIR_RAKING_ROUNDS)
        return Rows(values=raked, log_evidence=max(rows.log_evidence, own.log_evidence))

    def _along(self, first: str) -> FloatArray:
        """All parents in a chain that begins with this one and goes on by evidence, axes in the order of the graph."""
        chain, rows = [first], self._pairs[first].values
        left = [parent for parent in self._parents if parent != first]
        while left:
            _, parent, rows = max(
                (self._longer(chain, rows, parent, scored=len(left) > 1) for parent in left), key=lambda each: each[0]
            )
            chain.append(parent)
            left.remove(parent)
        table = rows.reshape([*(self._sizes[parent] for parent in chain), self._cells])
        return np.transpose(table, [*(chain.index(p) for p in self._parents), len(self._parents)])

    def _longer(
        self, chain: Sequence[str], rows: FloatArray, parent: str, *, scored: bool
    ) -> tuple[float, str, FloatArray]:
        """The chain with one more parent: its evidence, the parent and the rows; the last one needs no score."""
        columns, base = [*chain, parent], np.repeat(rows, self._sizes[parent], axis=0)
        pair = self._pairs[parent].values
        count = self._totals.over(columns)[0].reshape(len(rows), self._sizes[parent])
        together = no_interaction(rows, pair, self._marginal, count).reshape(-1, self._cells)
        found = self._level(columns, base, together, uniform=CHAIN_UNIFORM_ODDS)
        alone = self._level(columns, base).log_evidence if scored else 0.0
        values = found.values.reshape(*count.shape, self._cells)
        raked = half_raked(values, count, (rows[:, None], pair[None]), CHAIN_RAKING_ROUNDS)
        return found.log_evidence - alone + self._gain[parent], parent, raked.reshape(-1, self._cells)


def _no_effect(noisy: NoisyCounts, totals: _RowTotals, parent: str, marginal: FloatArray) -> float:
    """Log-evidence of the (parent, node) table when the node does not depend on the parent."""
    cells = marginal.size
    if cells == 1:
        return 0.0
    rows = NoisyRows.of(noisy, *totals.over([parent])).around(np.tile(marginal, (len(noisy.values), 1)))
    return float(rows.log_likelihood(rows.means[:, None]).sum()) * (cells - 1) / cells


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
