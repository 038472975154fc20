"""The tables behind a Bayesian network: which are released, their shares of the budget, and what they say together."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Literal

import numpy as np

from .values import FloatArray, NoisyCounts

Group = Literal["family", "pair", "single"]
UNKNOWN_RATIO = 3.0
"""What κ is taken for where the number of records is private."""
SINGLE_LEAST, SINGLE_RISE = 0.1, 0.87
"""Single columns get the first of these of the budget where κ is large, and the second more where it is small."""
SINGLE_RATIO, SINGLE_POWER = 3.0, 1.5
"""The κ at which half of that rise is gone, and how fast it goes."""
PAIR_PART = 0.25
"""Of what is left, for pairs."""
CELL_POWER, CELL_FALL, CELL_RATIO = 0.3, 1.3, 0.6
"""Inside a group shares are ∝ cells^p: p where κ is large, how far it falls, and the κ at which half of that is done.
Where noise drowns a table, the larger it is the less it is worth asking."""


@dataclass(frozen=True, kw_only=True)
class NetworkTables:
    """The tables to release: every family, and smaller ones that their estimates back off to.

    Args:
        columns: of each table.
        groups: "family", "single" for one node, or "pair" for a node and one of several parents.
    """

    columns: tuple[tuple[str, ...], ...]
    groups: tuple[Group, ...]

    @classmethod
    def of(
        cls,
        families: Iterable[tuple[str, tuple[str, ...]]],
        *,
        extra: bool = True,
        wanted: Iterable[tuple[str, ...]] = (),
    ) -> NetworkTables:
        """The tables of these families and of what an analysis wants; without `extra` no smaller ones."""
        families = list(families)
        found: dict[frozenset[str], tuple[tuple[str, ...], Group]] = {}
        for node, parents in families:
            found[frozenset((*parents, node))] = ((*parents, node), "family")
        for columns in wanted:
            if not any(known.issuperset(columns) for known in found):
                found[frozenset(columns)] = (columns, "family")
        for node, parents in families if extra else ():
            found.setdefault(frozenset({node}), ((node,), "single"))
            for parent in parents:
                found.setdefault(frozenset({parent, node}), ((parent, node), "pair"))
        return cls(
            columns=tuple(columns for columns, _ in found.values()), groups=tuple(group for _, group in found.values())
        )

    def weights(self, sizes: Mapping[str, int], total: float | None, noise: float) -> list[float]:
        """The share of the budget of each table, adding up to one.

        With κ the count of an average cell of a single column over its noise, single columns get 0.1 + 0.87/(1 +
        (κ/3)^1.5), pairs a quarter of the rest, families the remainder; inside a group shares are ∝ cells^p,
        p = 0.3 − 1.3/(1 + (κ/0.6)²). Where little can be learnt, little is asked.

        Args:
            sizes: cells of each column.
            total: the public number of records, None where it is private.
            noise: the standard deviation of the noise if the families alone shared the budget equally.
        """
        nodes = {name for columns in self.columns for name in columns}
        average = math.fsum(sizes[name] for name in nodes) / len(nodes)
        ratio = UNKNOWN_RATIO if total is None else total / (average * noise)
        power = CELL_POWER - CELL_FALL / (1 + (ratio / CELL_RATIO) ** 2)
        parts = _group_parts(ratio, self.groups)
        raw = [math.prod(sizes[name] for name in columns) ** power for columns in self.columns]
        whole = {g: math.fsum(w for w, h in zip(raw, self.groups, strict=True) if h == g) for g in parts}
        return [parts[group] * weight / whole[group] for weight, group in zip(raw, self.groups, strict=True)]


def _group_parts(ratio: float, groups: Sequence[Group]) -> dict[Group, float]:
    rise = SINGLE_RISE / (1 + (ratio / SINGLE_RATIO) ** SINGLE_POWER)
    single = SINGLE_LEAST + rise if "single" in groups else 0.0
    pair = (1 - single) * PAIR_PART if "pair" in groups else 0.0
    return {"family": 1 - single - pair, "pair": pair, "single": single}


@dataclass(frozen=True, kw_only=True, eq=False)
class Effect:
    """What exactly these columns say together beyond fewer of them: sums to zero along every axis.

    Args:
        values: axes in the order of the names.
        variance: of the noise of a marginal cell, before its means were taken off.
        slope: the same per count.
        left: the part of the variance that taking off the means leaves.
    """

    values: FloatArray
    variance: float
    slope: float
    left: float


class OverlappingTables:
    """Tables over named columns with the law of their noise.

    Every table splits into effects, one for each set of its columns (the analysis of variance). The noise of different
    effects is uncorrelated, so the best linear unbiased estimate of any marginal is the sum of its effects, each
    weighted by precision over all tables that contain its columns.

    Args:
        tables: released values by the columns of their axes.
    """

    def __init__(self, tables: Mapping[tuple[str, ...], NoisyCounts]) -> None:
        self._tables = dict(tables)
        self._sizes = {
            name: size
            for names, table in self._tables.items()
            for name, size in zip(names, table.values.shape, strict=True)
        }
        self._having: dict[str, list[tuple[str, ...]]] = {}
        for names in self._tables:
            for name in names:
                self._having.setdefault(name, []).append(names)
        self._effects: dict[tuple[str, ...], Effect] = {}
        self._found: dict[tuple[tuple[str, ...], str | None], NoisyCounts] = {}
        self.total = self._total()

    def _total(self) -> float:
        """The public total, or the precision-weighted mean of the tables' sums."""
        known = [table.total for table in self._tables.values() if table.total is not None]
        if known:
            return float(known[0])
        weights = np.array([table.total_scale**-2 for table in self._tables.values()])
        sums = np.array([float(table.values.sum()) for table in self._tables.values()])
        return max(1.0, float(weights @ sums / weights.sum()))

    @property
    def total_variance(self) -> float:
        """Of the total: none where it is public."""
        if any(table.total is not None for table in self._tables.values()):
            return 0.0
        return 1 / math.fsum(table.total_scale**-2 for table in self._tables.values())

    def marginal(self, columns: Sequence[str]) -> NoisyCounts:
        """The table over these columns, axes in this order; it adds up to the total."""
        return self._sum(tuple(columns), None)

    def rows(self, columns: Sequence[str], node: str) -> NoisyCounts:
        """The table over these columns and the node, with the variance that is left once row totals are known."""
        return self._sum((*columns, node), node)

    def effect(self, columns: Sequence[str]) -> tuple[FloatArray, float]:
        """What exactly these columns say together, axes in this order, and the noise variance of a cell of it."""
        names = tuple(columns)
        found = self._effect(tuple(sorted(names)))
        values = np.transpose(found.values, [sorted(names).index(name) for name in names])
        return values, found.left * (found.variance + found.slope * self.total / values.size)

    def _sum(self, key: tuple[str, ...], node: str | None) -> NoisyCounts:
        """The effects of all subsets; the variance is that of those with the node, if there is one."""
        if (key, node) in self._found:
            return self._found[key, node]
        shape = tuple(self._sizes[name] for name in key)
        values, variance, slope = np.full(shape, self.total / math.prod(shape)), 0.0, 0.0
        for names in (names for number in range(1, len(key) + 1) for names in combinations(key, number)):
            effect = self._effect(tuple(sorted(names)))
            spread = math.prod(self._sizes[name] for name in key if name not in names)
            aligned = np.transpose(effect.values, [sorted(names).index(name) for name in names])
            values += aligned.reshape([self._sizes[name] if name in names else 1 for name in key]) / spread
            if node is None or node in names:
                variance += effect.left * effect.variance / spread**2
                slope += effect.left * effect.slope / spread
        # A column of one cell has no effects, and no noise either.
        found = NoisyCounts(values=values, variance=max(variance, 1e-9), slope=slope, total=self.total)
        self._found[key, node] = found
        return found

    def noisy_effect(self, names: Sequence[str]) -> Effect:
        """The same with the law of its noise, axes in the order of their sorted names."""
        return self._effect(tuple(sorted(names)))

    def _effect(self, names: tuple[str, ...]) -> Effect:
        if names not in self._effects:
            self._effects[names] = self._weighted(names)
        return self._effects[names]

    def _weighted(self, names: tuple[str, ...]) -> Effect:
        """Marginals over the names weighted by their precision at the average count, less the mean of every axis."""
        parts: list[tuple[FloatArray, float, float, float]] = []
        for columns in min((self._having.get(name, []) for name in names), key=len):
            if not set(names) <= set(columns):
                continue
            table = self._tables[columns]
            values = table.values.sum(axis=tuple(i for i, name in enumerate(columns) if name not in names))
            kept = [name for name in columns if name in names]
            values = np.transpose(values, [kept.index(name) for name in names])
            variance = table.variance * (table.size // values.size)
            weight = 1 / (variance + table.slope * self.total / values.size)
            parts.append((values, weight, variance, table.slope))
        whole = math.fsum(weight for _, weight, _, _ in parts)
        values = np.sum([(weight / whole) * part for part, weight, _, _ in parts], axis=0)
        for axis in range(values.ndim):
            values = values - values.mean(axis=axis, keepdims=True)
        return Effect(
            values=values,
            variance=math.fsum((weight / whole) ** 2 * v for _, weight, v, _ in parts),
            slope=math.fsum((weight / whole) ** 2 * s for _, weight, _, s in parts),
            left=math.prod(1 - 1 / self._sizes[name] for name in names),
        )
