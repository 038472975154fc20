"""What offices ask of published tables: counts, shares, means and quantiles by group, with intervals."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, get_args

import numpy as np

from ..budget import check_fraction
from ..errors import InvalidArgument
from ..estimation import IntervalKind
from ..estimation.cross_tables import Columns, along, noise_of, summed
from ..lazy import special
from ..noisy import FloatArray
from ..schema import Numeric, Schema
from .answer import Answer

if TYPE_CHECKING:
    from .tables import TablesModel


@dataclass(frozen=True, kw_only=True, eq=False)
class Margin:
    """The cells that a question is about: a margin of a published table, with groups and a filter.

    Args:
        model: that is asked.
        names: of the margin.
        by: columns of the groups.
        filter: 0 or 1 for each cell of the margin, in a shape that broadcasts.
        level: of intervals.
        kind: of intervals.
    """

    model: TablesModel
    names: Columns
    by: Columns
    filter: FloatArray
    level: float
    kind: IntervalKind

    @classmethod
    def of(
        cls,
        model: TablesModel,
        by: Sequence[str] | str,
        further: Sequence[str],
        where: Mapping[str, Any] | None,
        level: float,
        kind: IntervalKind,
    ) -> Margin:
        """Check the question: columns of one published table, each once, and labels that there are."""
        by, where = names_of(by), dict(where or {})
        if kind not in get_args(IntervalKind):
            raise InvalidArgument("kind", "'posterior' or 'frequentist'", got=kind)
        used = (*by, *further, *where)
        if len(set(used)) < len(used):
            raise InvalidArgument("by", "columns that are not asked for twice", got=used)
        if used:
            model.schema.select(used)
        if not any(set(used) <= set(names) for names in model.tables):
            near = max(model.tables, key=lambda names: len(set(names) & set(used)))
            raise InvalidArgument(
                "columns", "those of one published table", got=used, hint=f"The nearest is {' × '.join(near)}."
            )
        names = () if not used else next(each for each in model.estimated if set(each) == set(used))
        filtered = np.ones([model.schema[name].size for name in names])
        for name, labels in where.items():
            wanted = np.zeros(model.schema[name].size)
            wanted[[cell_of(model.schema, name, label) for label in listed(labels)]] = 1.0
            filtered = filtered * along(wanted, (name,), names)
        return cls(model=model, names=names, by=by, filter=filtered, level=check_fraction("level", level), kind=kind)

    @property
    def counts(self) -> FloatArray:
        """The estimates."""
        if not self.names:
            return np.array(self.model.total)
        whole = next(names for names in self.model.tables if set(self.names) <= set(names))
        return summed(self.model.tables[whole], whole, self.names)

    @property
    def direct(self) -> FloatArray:
        """The best linear estimates, of any sign."""
        if not self.names:
            return np.array(self.model.pooled.total)
        return self.model.pooled.marginal(self.names).values

    @cached_property
    def possible(self) -> FloatArray:
        """1 for each cell that a record can be in, 0 where the schema says that none can."""
        ruled = self.model.schema.impossible(self.names) if self.names else None
        return np.ones(self.filter.shape) if ruled is None else np.asarray(~ruled, dtype=np.float64)

    def masks(self) -> list[FloatArray]:
        """For each group the cells that are in it, 0 or 1."""
        sizes = [self.model.schema[name].size for name in self.by]
        masks = []
        for cells in itertools.product(*map(range, sizes)):
            mask = self.filter
            for name, cell, size in zip(self.by, cells, sizes, strict=True):
                mask = mask * along(only(cell, size), (name,), self.names)
            masks.append(mask)
        return masks

    def over(self, column: str, values: FloatArray) -> FloatArray:
        """One value for each cell of a column, along its axis."""
        return along(values, (column,), self.names)

    def outer(self, group: FloatArray, number: int) -> FloatArray:
        """The cells in the same cell of the first columns of `by`."""
        inside = group
        for name in self.by[number:]:
            axis = self.names.index(name)
            inside = np.broadcast_to(inside.max(axis=axis, keepdims=True), group.shape)
        return inside * self.filter

    def cells(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Every cell of the margin with its interval, axes in the order of `by`."""
        reach = float(-special.ndtri((1 - self.level) / 2))
        counts, centre = self.counts, self.counts
        if self.kind == "frequentist":
            centre = self.direct
            first = np.zeros(counts.shape)
            first.flat[0] = 1.0
            deviations = np.full(counts.shape, self._noise(first))  # that of every cell of a table is the same
        elif self.names:
            deviations = self.model.estimated[self.names].deviations
        else:
            deviations = np.array(self._noise(np.ones(())))
        low, high = centre - reach * deviations - 0.5, centre + reach * deviations + 0.5  # counts are whole
        low, high = (np.maximum(each, 0.0) * self.possible for each in (low, high))
        low, high = (summed(each, self.names, self.by) for each in (low, high))
        return summed(counts, self.names, self.by), low, high

    def ratios(self, parts: Callable[[FloatArray], tuple[FloatArray, FloatArray | None]]) -> FloatArray:
        """Value, lower and upper end for each group."""
        return np.array([self.ratio(*parts(group)) for group in self.masks()]).T

    def ratio(self, above: FloatArray, below: FloatArray | None) -> tuple[float, float, float]:
        """Σ above · cells over Σ below · cells, or without that the first sum, with its interval."""
        above, below = above * self.possible, None if below is None else below * self.possible
        if below is not None and not below.any():
            return math.nan, math.nan, math.nan  # of nobody
        if not above.any():
            return 0.0, 0.0, 0.0
        reach = float(-special.ndtri((1 - self.level) / 2))
        value, deviation, base, noise = self._estimate(self.counts, above, below, self._posterior)
        if self.kind == "frequentist":
            centre, deviation, base, noise = self._estimate(self.direct, above, below, self._noise)
        else:
            centre = value
        if below is None:
            return value, centre - reach * deviation - 0.5, centre + reach * deviation + 0.5  # counts are whole
        if base <= reach * noise:  # there may be nobody in this group
            return value, -math.inf, math.inf
        return value, centre - reach * deviation, centre + reach * deviation

    def _estimate(
        self,
        cells: FloatArray,
        above: FloatArray,
        below: FloatArray | None,
        noise: Callable[[FloatArray], float],
    ) -> tuple[float, float, float, float]:
        """The value and its deviation, and the denominator and its deviation."""
        top = float((above * cells).sum())
        if below is None:
            return top, noise(above), math.inf, 0.0
        base = float((below * cells).sum())
        safe = max(base, 1e-12)
        value = top / safe
        return value, noise((above - value * below) / safe), base, noise(below)

    def _noise(self, weights: FloatArray) -> float:
        if not self.names:
            return math.sqrt(self.model.pooled.total_variance) * abs(float(weights))
        return noise_of(self.model.pooled, self.names, np.broadcast_to(weights, self.counts.shape))

    def _posterior(self, weights: FloatArray) -> float:
        """Cells vary together, as the margins that were released bind them."""
        if not self.names:
            return self._noise(weights)
        return self.model.joint.deviation(self.names, np.broadcast_to(weights, self.counts.shape))

    def answer(self, what: str, values: FloatArray, lower: FloatArray, upper: FloatArray) -> Answer:
        """With the labels of the groups."""
        labels = [self.model.schema[name].labels for name in self.by]
        reach = float(-special.ndtri((1 - self.level) / 2))
        with np.errstate(invalid="ignore"):
            errors = (upper - lower) / (2 * reach)
        return Answer(
            names=self.by,
            labels=tuple(tuple(map(str, each)) for each in itertools.product(*labels)),
            measure=what,
            estimate=values,
            standard_error=errors,
            low=lower,
            high=upper,
            about="records",
            kind=self.kind,
            level=self.level,
            ground="released",
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class Line:
    """Cells of a numeric column in their order, even inside of each."""

    low: FloatArray
    high: FloatArray

    def at(self, counts: FloatArray, share: float) -> float:
        """Where this share of the counts is below."""
        sums = np.cumsum(np.maximum(counts, 0.0))
        if sums[-1] <= 0:
            return float((self.low[0] + self.high[-1]) / 2)
        place = min(int(np.searchsorted(sums, share * sums[-1])), len(sums) - 1)
        before = sums[place] - max(counts[place], 0.0)
        part = (share * sums[-1] - before) / max(counts[place], 1e-300)
        return float(self.low[place] + min(max(part, 0.0), 1.0) * (self.high[place] - self.low[place]))

    def below(self, point: float) -> FloatArray:
        """How much of each cell is below a point."""
        width = np.maximum(self.high - self.low, 1e-300)
        return np.clip((point - self.low) / width, 0.0, 1.0)


def names_of(names: Sequence[str] | str) -> Columns:
    """One name or several."""
    return (names,) if isinstance(names, str) else tuple(names)


def listed(labels: Any) -> list[Any]:
    """One label or several."""
    return list(labels) if isinstance(labels, list | tuple | set | frozenset) else [labels]


def only(cell: int, size: int) -> FloatArray:
    """1 in this cell, 0 elsewhere."""
    found = np.zeros(size)
    found[cell] = 1.0
    return found


def cell_of(schema: Schema, name: str, label: Any) -> int:
    """The cell of a label or value of a column."""
    labels = [str(each) for each in schema[name].labels]
    if str(label) not in labels:
        some = ", ".join(labels[:10]) + (", …" if len(labels) > 10 else "")
        raise InvalidArgument("where", f"labels of {name!r}", got=label, hint=f"They are {some}.")
    return labels.index(str(label))


def bins_of(schema: Schema, name: str) -> tuple[FloatArray, FloatArray]:
    """The ends of each cell of a numeric column or of one of whole numbers; NaN for other and missing values."""
    column = schema[name]
    if isinstance(column, Numeric):
        low = [*column.own, *column.edges[:-1]]
        high = [*column.own, *column.edges[1:]]
    else:
        values = getattr(column, "values", ())
        if not values or type(values[0]) is not int:
            raise InvalidArgument("column", "a numeric column", got=name)
        low = high = [float(value) for value in values]
    extra = [math.nan] * (column.size - len(low))
    return np.array([*low, *extra]), np.array([*high, *extra])
