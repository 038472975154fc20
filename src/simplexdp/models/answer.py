"""What is asked of a model and what comes back: questions about columns, and estimates with intervals."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from ..budget import check_fraction
from ..errors import Infeasible, InvalidArgument
from ..estimation.posterior import About
from ..estimation.values import IntervalKind
from ..lazy import sparse, special
from ..schema import Categories, Column, Numeric
from ..shown import Shown, card
from .sections import Bars, Table

FloatArray = NDArray[np.float64]
Ground = Literal["released", "given the graph"]
_WORDS: dict[str, str] = {
    "released": "The columns share a released table: the interval has the noise of the releases in it.",
    "given the graph": "No released table holds all these columns: the answer is that of the published structure, "
    "whose own error nobody has measured, and the interval promises no coverage.",
    "records": "About the records that were counted: noise alone.",
    "population": "About the population that the records were drawn from: noise and sampling.",
}


@dataclass(frozen=True, kw_only=True, eq=False)
class Answer(Shown):
    """Estimates with intervals, one row each.

    Args:
        names: of the columns that tell the rows apart.
        labels: for each row, its cell of each of these columns.
        measure: what is estimated: "probability", "count", "mean", "quantile", "difference", "ratio".
        estimate, standard_error, low, high: of each row; an end may be infinite where noise wins.
        about: the "records", or the "population" that they were drawn from.
        kind: "posterior" or "frequentist".
        level: of the intervals.
        ground: what it rests on: "released" or "given the graph".
        notes: what else should be said.
    """

    names: tuple[str, ...]
    labels: tuple[tuple[str, ...], ...]
    measure: str
    estimate: FloatArray
    standard_error: FloatArray
    low: FloatArray
    high: FloatArray
    about: About
    kind: IntervalKind
    level: float
    ground: Ground
    notes: tuple[str, ...] = ()

    @property
    def value(self) -> float:
        """The estimate, where there is one."""
        if len(self.estimate) != 1:
            raise InvalidArgument("by", "left out for one number", hint="`estimate` has one for each row.")
        return float(self.estimate[0])

    def columns(self) -> dict[str, list[Any]]:
        """By name: the labels, then estimate, standard_error, low and high."""
        told: dict[str, list[Any]] = {name: [row[i] for row in self.labels] for i, name in enumerate(self.names)}
        for name in ("estimate", "standard_error", "low", "high"):
            told[name if name not in told else f"{name}_"] = getattr(self, name).tolist()
        return told

    def _columns(self) -> dict[str, list[Any]]:
        return self.columns()

    def _facts(self) -> list[str]:
        return self.remarks

    def __len__(self) -> int:
        return len(self.labels)

    def picture(self) -> Bars:
        """The estimates as bars with their intervals."""
        return Bars(
            labels=[", ".join(label) or self.measure for label in self.labels],
            values=self.estimate,
            lower=self.low,
            upper=self.high,
            title=f"{self.measure}{' by ' if self.names else ''}{', '.join(self.names)}",
            unit=f"{self.measure}, {self.level:.0%} intervals",
        )

    def plot(self) -> Any:
        """The estimates with their intervals: a figure of matplotlib that shows itself in a notebook."""
        from .. import plots

        return plots.figure(self.picture())

    def _repr_html_(self) -> str:
        """For notebooks: what it rests on, bars with intervals, and the numbers."""
        from ..pictures import svg

        whole = all(np.isfinite(each).all() for each in (self.estimate, self.low, self.high))
        drawn = svg(self.picture()) if whole and len(self) > 1 and float(self.estimate.min()) >= 0 else ""
        return card(repr(self), self._facts(), self._columns(), drawn=drawn)

    @property
    def remarks(self) -> list[str]:
        """What it rests on and speaks of, in words."""
        return [_WORDS[self.ground], _WORDS[self.about], *self.notes]

    def table(self, most: int | None = None) -> Table:
        """For the terminal and reports."""
        rows = [
            [*label, *(_shown(number) for number in numbers)]
            for label, *numbers in zip(
                self.labels, self.estimate, self.standard_error, self.low, self.high, strict=True
            )
        ]
        head = [*self.names, self.measure, "standard error", f"{self.level:.0%} from", "to"]
        left = len(rows) - (most or len(rows))
        return Table(columns=head, rows=rows[:most], note=f"{left} more rows" if left > 0 else "")

    def __str__(self) -> str:
        table = self.table(30)
        lines = [list(table.columns), *map(list, table.rows)]
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        named = len(self.names)
        text = [
            "  ".join(
                cell.ljust(w) if i < named else cell.rjust(w)
                for i, (cell, w) in enumerate(zip(line, widths, strict=True))
            )
            for line in lines
        ]
        return "\n".join([*text, *([table.note] if table.note else []), "", *self.remarks])

    def __repr__(self) -> str:
        return f"Answer({self.measure} of {', '.join(self.names) or 'one thing'}: {len(self)} rows, {self.ground})"


@dataclass(frozen=True, kw_only=True)
class Axis:
    """One column of a question: groups of its cells, or numbers for them."""

    name: str
    labels: tuple[str, ...]
    groups: tuple[tuple[int, ...], ...]
    size: int

    @cached_property
    def matrix(self) -> Any:
        """Cells × groups."""
        places = [(cell, i) for i, group in enumerate(self.groups) for cell in group]
        rows, columns = zip(*places, strict=True)
        return sparse.csr_array((np.ones(len(places)), (rows, columns)), shape=(self.size, len(self.groups)))


@dataclass(frozen=True, kw_only=True)
class How:
    """What is said of every answer: whom it is about, on which ground, at which level."""

    about: About = "population"
    kind: IntervalKind = "posterior"
    level: float = 0.95
    strict: bool = False

    def __post_init__(self) -> None:
        if self.about not in get_args(About):
            raise InvalidArgument("about", "'records' or 'population'", got=self.about)
        if self.kind not in get_args(IntervalKind):
            raise InvalidArgument("kind", "'posterior' or 'frequentist'", got=self.kind)
        object.__setattr__(self, "level", check_fraction("level", self.level))

    @property
    def quantile(self) -> float:
        """Of the normal."""
        return float(-special.ndtri((1 - self.level) / 2))

    def refuse_if_strict(self, names: Sequence[str]) -> None:
        """Where nothing but the graph joins these columns."""
        if self.strict:
            raise Infeasible(
                f"no released table has {', '.join(names)} together, so no interval can promise coverage; a fit with "
                f"for_analysis=[({', '.join(map(repr, names))})] buys one, and strict=False answers given the graph."
            )


def cells_of(name: str, column: Column | None, labels: Sequence[str], wanted: Any) -> list[int]:
    """The cells that a value, a label, a list of them, or a pair (from, below) of edges names."""
    if isinstance(wanted, list | set | frozenset | range):
        return sorted({cell for each in wanted for cell in cells_of(name, column, labels, each)})
    if isinstance(wanted, tuple) and isinstance(column, Numeric) and len(wanted) == 2:
        low, high = map(float, wanted)
        if low not in column.edges or high not in column.edges or low >= high:
            raise InvalidArgument(name, f"between two of the edges {list(column.edges)}", got=wanted)
        first = len(column.own)
        return [first + i for i, (a, b) in enumerate(itertools.pairwise(column.edges)) if low <= a and b <= high]
    if isinstance(wanted, str) and wanted in labels:
        return [list(labels).index(wanted)]
    if isinstance(column, Categories):
        same = [i for i, value in enumerate(column.values) if value == wanted and isinstance(wanted, type(value))]
        if same:
            return same
    if isinstance(column, Numeric) and isinstance(wanted, int | float) and not isinstance(wanted, bool):
        if wanted in column.own:
            return [column.own.index(wanted)]
        place = int(np.searchsorted(column.edges, wanted, side="right")) - 1
        if column.edges and wanted == column.edges[-1]:
            place = column.bins - 1
        if 0 <= place < column.bins:
            return [len(column.own) + place]
    if column is None and isinstance(wanted, int) and 1 <= wanted <= len(labels):
        return [wanted - 1]
    shown = ", ".join(labels[:12]) + (" …" if len(labels) > 12 else "")
    raise InvalidArgument(name, f"one of {shown}", got=wanted)


def _shown(number: float) -> str:
    if math.isnan(number):
        return "–"
    return f"{number:.4g}" if math.isfinite(number) else ("∞" if number > 0 else "−∞")
