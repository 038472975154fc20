"""Released tables that share columns: every one that contains a set of columns speaks about its marginal."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from .values import FloatArray, NoisyCounts


class OverlappingTables:
    """Tables over named columns with the law of their noise.

    Args:
        tables: released values by the columns of their axes.
    """

    def __init__(self, tables: Mapping[tuple[str, ...], NoisyCounts]) -> None:
        self._tables = dict(tables)
        self._found: dict[tuple[str, ...], NoisyCounts] = {}
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
        """The table over these columns, axes in this order.

        Every released table that contains them is summed down, the sums are weighted by their precision at the
        average count, and the result is moved to the total, which takes one part in `cells` off the variance.
        """
        key = tuple(columns)
        if key not in self._found:
            self._found[key] = self._combined(key)
        return self._found[key]

    def _combined(self, key: tuple[str, ...]) -> NoisyCounts:
        parts: list[tuple[FloatArray, float, float, float]] = []
        for names, table in self._tables.items():
            if not set(key) <= set(names):
                continue
            values = table.values.sum(axis=tuple(i for i, name in enumerate(names) if name not in key))
            left = [name for name in names if name in key]
            values = np.transpose(values, [left.index(name) for name in key])
            variance = table.variance * (table.size // values.size)
            weight = 1 / (variance + table.slope * self.total / values.size)
            parts.append((values, weight, variance, table.slope))
        whole = math.fsum(weight for _, weight, _, _ in parts)
        values = np.sum([(weight / whole) * part for part, weight, _, _ in parts], axis=0)
        variance = math.fsum((weight / whole) ** 2 * v for _, weight, v, _ in parts)
        slope = math.fsum((weight / whole) ** 2 * s for _, weight, _, s in parts)
        size = values.size
        shared = 1 - 1 / max(size, 2)
        return NoisyCounts(
            values=values + (self.total - values.sum()) / size,
            variance=variance * shared,
            slope=slope * shared,
            total=self.total,
        )
