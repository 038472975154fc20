"""Released tables that share columns: every one that contains a set of columns speaks about its marginal."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from .values import FloatArray, NoisyCounts


@dataclass(frozen=True, kw_only=True, eq=False)
class _Effect:
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
        self._effects: dict[tuple[str, ...], _Effect] = {}
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

    def marginal(self, columns: Sequence[str]) -> NoisyCounts:
        """The table over these columns, axes in this order; it adds up to the total."""
        return self._sum(tuple(columns), None)

    def rows(self, columns: Sequence[str], node: str) -> NoisyCounts:
        """The table over these columns and the node, with the variance that is left once row totals are known."""
        return self._sum((*columns, node), node)

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

    def _effect(self, names: tuple[str, ...]) -> _Effect:
        if names not in self._effects:
            self._effects[names] = self._weighted(names)
        return self._effects[names]

    def _weighted(self, names: tuple[str, ...]) -> _Effect:
        """Marginals over the names weighted by their precision at the average count, less the mean of every axis."""
        parts: list[tuple[FloatArray, float, float, float]] = []
        for columns, table in self._tables.items():
            if not set(names) <= set(columns):
                continue
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
        return _Effect(
            values=values,
            variance=math.fsum((weight / whole) ** 2 * v for _, weight, v, _ in parts),
            slope=math.fsum((weight / whole) ** 2 * s for _, weight, _, s in parts),
            left=math.prod(1 - 1 / self._sizes[name] for name in names),
        )
