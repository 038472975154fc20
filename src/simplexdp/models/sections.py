"""What a model says, as data: sections with tables and pictures, for the terminal, the report and notebooks alike."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..budget import check_fraction, check_whole, convert
from ..lazy import special
from ..schema import Schema

FloatArray = NDArray[np.float64]
_ROWS, _SERIES = 30, 8
"""Rows of a table on a page, and of these in a picture."""
HARDLY_KNOWN = 0.5
"""A row with an interval at least this long is marked: hardly anything is known of it."""


@dataclass(frozen=True, kw_only=True)
class View:
    """What is asked of a description: the level of intervals, rows of each table, and one column in place of all."""

    level: float = 0.95
    most: int | None = None
    column: str | None = None

    def __post_init__(self) -> None:
        convert(self, level=check_fraction)
        if self.most is not None:
            convert(self, most=check_whole)


@dataclass(frozen=True, kw_only=True)
class Table:
    """A table of texts; the first column is left-aligned, and all of them where it is said to hold `texts`."""

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    note: str = ""
    texts: bool = False


@dataclass(frozen=True, kw_only=True, eq=False)
class Bars:
    """Horizontal bars with optional intervals; `simplexdp.plots.figure` draws this and the pictures below."""

    labels: Sequence[str]
    values: ArrayLike
    lower: ArrayLike | None = None
    upper: ArrayLike | None = None
    title: str = ""
    note: str = ""
    unit: str = "probability"
    cells: int = 40
    texts: Sequence[str] | None = None
    """The numbers as they are to be read, where their rounding matters."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Groups:
    """Groups of bars, one colour for each series, with what tells series and cells apart."""

    labels: Sequence[str]
    series: Mapping[str, ArrayLike]
    title: str = ""
    axes: tuple[str, str] = ("given", "value")


@dataclass(frozen=True, kw_only=True, eq=False)
class HeatMap:
    """A table of probabilities as a map, with the names of its two axes and of their cells."""

    values: NDArray[Any]
    axes: tuple[str, str]
    rows: Sequence[str]
    columns: Sequence[str]
    title: str = ""
    unit: str = "published probability"


@dataclass(frozen=True, kw_only=True, eq=False)
class Diagram:
    """A graph: nodes with arrows (from, to) between them."""

    nodes: Sequence[str]
    edges: Sequence[tuple[str, str]]
    title: str = ""


@dataclass(frozen=True, kw_only=True, eq=False)
class Curves:
    """Lines over a common axis, with spreads around their points and level lines.

    Args:
        x: where the points are.
        series: for each line its values.
        errors: for some lines how far each point spreads.
        levels: horizontal lines by name.
        marks: of the x axis; by default round numbers.
        logarithmic: whether the x axis is, and the y axis.
        title: of the picture.
        x_label: of the x axis.
        y_label: of the y axis.
        note: below the picture.
    """

    x: Sequence[float]
    series: Mapping[str, Sequence[float]]
    errors: Mapping[str, Sequence[float]] = field(default_factory=dict)
    levels: Mapping[str, float] = field(default_factory=dict)
    marks: Sequence[float] | None = None
    logarithmic: tuple[bool, bool] = (False, False)
    title: str = ""
    x_label: str = ""
    y_label: str = ""
    note: str = ""


Picture = Bars | Groups | HeatMap | Diagram | Curves


@dataclass(frozen=True, kw_only=True)
class Section:
    """A heading with paragraphs, a table and pictures, in this order."""

    heading: str
    text: Sequence[str] = ()
    table: Table | None = None
    figures: Sequence[tuple[Any, str]] = ()
    """Pictures, or matplotlib figures, with what they show for those who cannot see them."""
    items: Sequence[str] = ()
    badge: bool | None = field(default=None)
    """Whether a promise holds; None for no badge."""


def conditional_section(
    column: str,
    given: Sequence[str],
    table: FloatArray,
    schema: Schema | None,
    most: int | None,
    bounds: tuple[FloatArray, FloatArray] | None = None,
) -> Section:
    """P(column | given), one row for each combination of the given cells, as many as asked for.

    `bounds` are those of the interval of each number, where they are known.
    """
    flat = table.reshape(-1, table.shape[-1])
    if schema is None:
        values, names = [str(i + 1) for i in range(flat.shape[1])], [str(i + 1) for i in range(flat.shape[0])]
    else:
        values = list(schema[column].labels)
        names = [", ".join(labels) for labels in itertools.product(*(schema[name].labels for name in given))]
    names = [name or "–" for name in names]
    shown = _ROWS if most is None else most
    marks = _marks(flat, bounds)
    unknown = f"? marks rows that hardly anything is known of: {marks.count('?'):,} of {len(names):,}"
    unknown = unknown if "?" in marks else ""
    heading = f"P({column} | {' × '.join(given)})" if given else f"P({column})"
    return Section(
        heading=heading,
        table=Table(
            columns=[" × ".join(given) or column, *values],
            rows=[
                [f"{name} {mark}".rstrip(), *row]
                for name, mark, row in zip(names[:shown], marks, _numbers(flat[:shown], bounds), strict=False)
            ],
            note="; ".join(filter(None, [_BOUNDS if bounds is not None else "", cut(shown, len(names))[2:], unknown])),
        ),
        figures=[
            (
                Groups(
                    labels=values,
                    series=dict(list(zip(names, flat, strict=True))[:_SERIES]),
                    title=heading + cut(_SERIES, len(names)),
                    axes=(" × ".join(given) or "given", column),
                ),
                f"The distributions of {column}{cut(_SERIES, len(names))}",
            )
        ],
    )


_BOUNDS = "probability (from to of its interval, as `query` answers it)"


def _marks(flat: FloatArray, bounds: tuple[FloatArray, FloatArray] | None) -> list[str]:
    """A question mark for each row with an interval so long that hardly anything is known."""
    if bounds is None:
        return [""] * len(flat)
    lengths = (bounds[1] - bounds[0]).reshape(flat.shape).max(axis=1)
    return ["?" if length >= HARDLY_KNOWN else "" for length in lengths]


def _numbers(flat: FloatArray, bounds: tuple[FloatArray, FloatArray] | None) -> list[list[str]]:
    if bounds is None:
        return [[f"{p:.4f}" for p in row] for row in flat]
    low, high = (each.reshape(-1, flat.shape[1]) for each in bounds)
    lines = zip(flat, low, high, strict=False)
    return [[f"{p:.4f} ({a:.4f}–{b:.4f})" for p, a, b in zip(*line, strict=True)] for line in lines]


def cut(shown: int, there: int) -> str:
    """What to add where not all is shown."""
    return "" if shown >= there else f": {shown} of {there:,} are shown"


def mutual_information(weights: FloatArray, rows: FloatArray) -> float:
    """In nats, between which row it is, with these weights, and what the row's distribution gives."""
    pooled = weights @ rows
    return float(max(0.0, weights @ special.xlogy(rows, rows).sum(axis=1) - special.xlogy(pooled, pooled).sum()))


def nats(value: float) -> str:
    """Information for people; NaN is what could not be computed."""
    return "–" if math.isnan(value) else f"{value:.5f}"
