"""Many published tables that agree with each other, and what offices ask of them: counts, shares, means, quantiles."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from ..budget import check_fraction, check_whole
from ..errors import InvalidArgument
from ..estimation import IntervalKind
from ..estimation.cross_tables import (
    Columns,
    Estimated,
    check_wanted,
    disagreement,
    estimate_tables,
    margins_of,
    summed,
)
from ..estimation.joint import JointPosterior
from ..estimation.network_tables import OverlappingTables
from ..schema import Schema
from .answer import Answer
from .document import (
    NUMBERS,
    PACKED,
    SCHEMA,
    TEXTS,
    guarantee_schema,
    object_schema,
    packed,
    reading_body,
    release_schema,
    unpacked,
)
from .guarantee import Guarantee
from .margin import Line, Margin, bins_of, names_of, only
from .model import ModelOfReleases
from .records import IntArray, RowDraws, draw_given, possible_records
from .release import FloatArray, Release
from .sections import Bars, HeatMap, Section, Table, View, mutual_information

_ROWS, _COLUMNS, _PICTURES = 30, 16, 6
"""Rows and columns of a cross table on a page, and tables with a picture there."""
_AGREED = 1e-9
"""How far, as a share of the total, totals may differ, and tables of a file in what they share."""


@dataclass(frozen=True, kw_only=True, eq=False)
class TablesModel(ModelOfReleases):
    """Tables of the same records that agree on everything they share.

    Args:
        schema: of the columns.
        releases: all that was drawn, under one guarantee: the tables, and margins that make them better.
        tables: the estimated counts of each published table, by its columns; positive, with one total.
        parts: the column that says which part of the population a record is in, where that was declared.
    """

    kind: ClassVar[str] = "tables"

    schema: Schema
    releases: tuple[Release, ...]
    tables: Mapping[Columns, FloatArray]
    parts: str | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_wanted(list(self.tables))
        for columns, counts in self.tables.items():
            if counts.shape != self.schema.shape(columns):
                raise InvalidArgument("tables", f"of the shape {self.schema.shape(columns)}", got=columns)
            if not (np.isfinite(counts).all() and (counts >= 0).all() and counts.sum() > 0):
                raise InvalidArgument("tables", "of counts that are 0 or more", got=columns)
            counts.setflags(write=False)
        for release in self.releases:
            if release.schema != self.schema.select(release.columns):
                raise InvalidArgument("releases", "with the schema of the tables", got=release.columns)
        if not all(any(set(names) <= set(each.columns) for each in self.releases) for names in self.tables):
            raise InvalidArgument("releases", "with every table, alone or inside of others")
        known = self.releases[0].total
        if any(abs(counts.sum() - (known or self.total)) > _AGREED * self.total for counts in self.tables.values()):
            raise InvalidArgument("tables", "with one total, which is the public one where there is one")

    @classmethod
    def from_releases(
        cls, schema: Schema, releases: Sequence[Release], wanted: Sequence[Columns], parts: str | None = None
    ) -> TablesModel:
        """Estimate the wanted tables from all releases together, at no further budget."""
        found = _estimated(schema, releases, wanted)
        model = cls(
            schema=schema,
            releases=tuple(releases),
            tables={names: _in_order(found, names) for names in wanted},
            parts=parts,
        )
        model.__dict__["estimated"] = found  # as the property would find it
        return model

    @property
    def columns(self) -> tuple[str, ...]:
        """All columns of the tables, in the order of the schema."""
        used = {name for names in self.tables for name in names}
        return tuple(name for name in self.schema.names if name in used)

    @cached_property
    def total(self) -> float:
        """How many records there are, the public number or an estimate."""
        return float(next(iter(self.tables.values())).sum())

    @cached_property
    def estimated(self) -> Mapping[Columns, Estimated]:
        """Each table and each margin with its uncertainty."""
        return _estimated(self.schema, self.releases, list(self.tables))

    @cached_property
    def joint(self) -> JointPosterior:
        """How the cells of all tables vary together."""
        spreads = {names: each.spread for names, each in self.estimated.items()}
        return JointPosterior(spreads=spreads, total_variance=self.pooled.total_variance)

    @cached_property
    def pooled(self) -> OverlappingTables:
        """Everything that was drawn, put together without any prior knowledge."""
        return OverlappingTables({each.columns: each.noisy for each in self.releases})

    def __repr__(self) -> str:
        mark = "" if self.private else ", NOT PRIVATE"
        cells = sum(counts.size for counts in self.tables.values())
        return f"TablesModel({len(self.tables)} tables, {cells:,} cells, {len(self.columns)} columns{mark})"

    # -- answers --------------------------------------------------------------------------------------------------

    def count(
        self,
        by: Sequence[str] | str = (),
        where: Mapping[str, Any] | None = None,
        *,
        level: float = 0.95,
        kind: IntervalKind = "posterior",
    ) -> Answer:
        """How many records there are, in each group of `by`, of those that are as `where` says.

        Args:
            by: columns; one number for each combination of their cells.
            where: for some columns the label, or list of labels, that is counted.
            level: of the intervals.
            kind: "posterior", or "frequentist" for wider ones from the noise alone, which hold whatever the table.
        """
        asked = Margin.of(self, by, (), where, level, kind)
        found = asked.ratios(lambda group: (group, None)) if where else asked.cells()
        return asked.answer("count", *(np.maximum(each, 0.0).ravel() for each in found))

    def share(
        self,
        of: Sequence[str] | str,
        by: Sequence[str] | str = (),
        where: Mapping[str, Any] | None = None,
        *,
        level: float = 0.95,
        kind: IntervalKind = "posterior",
    ) -> Answer:
        """The share of each cell of some columns, within each group of `by`; see `count`."""
        of, by = names_of(of), names_of(by)
        inner = Margin.of(self, (*by, *of), (), where, level, kind)
        found = inner.ratios(lambda group: (group, inner.outer(group, len(by))))
        return inner.answer(f"share of {', '.join(of)}", *(np.clip(each, 0.0, 1.0) for each in found))

    def mean(  # type: ignore[override]  # by and where, as all answers of published tables
        self,
        column: str,
        by: Sequence[str] | str = (),
        where: Mapping[str, Any] | None = None,
        *,
        level: float = 0.95,
        kind: IntervalKind = "posterior",
    ) -> Answer:
        """The mean of a numeric column in each group, with its bins at their middles; see `count`.

        Missing and other values are left out. The interval is about the noise; a bin may hide half its width on top.
        """
        asked = Margin.of(self, by, (column,), where, level, kind)
        low, high = bins_of(self.schema, column)
        middle, known = np.where(np.isnan(low), 0.0, (low + high) / 2), ~np.isnan(low)
        scores, there = asked.over(column, middle), asked.over(column, known.astype(np.float64))
        found = asked.ratios(lambda group: (group * scores * there, group * there))
        return asked.answer(f"mean of {column}", *(np.clip(x, middle[known].min(), middle[known].max()) for x in found))

    def quantile(  # type: ignore[override]  # the same
        self,
        column: str,
        q: float = 0.5,
        by: Sequence[str] | str = (),
        where: Mapping[str, Any] | None = None,
        *,
        level: float = 0.95,
        kind: IntervalKind = "posterior",
    ) -> Answer:
        """A quantile of a numeric column in each group, evenly spread inside of bins; the median by default.

        Its interval is that of the share below it, read off the other axis; see `mean`.
        """
        q = check_fraction("q", q)
        asked = Margin.of(self, by, (column,), where, level, kind)
        low, high = bins_of(self.schema, column)
        order = [i for i in np.lexsort((high, low)) if not np.isnan(low[i])]
        line = Line(low=low[order], high=high[order])
        found = []
        for group in asked.masks():
            shares = np.array(
                [float((group * asked.over(column, only(i, low.size)) * asked.counts).sum()) for i in order]
            )
            at = line.at(shares, q)
            below = np.zeros(low.size)
            below[order] = line.below(at)
            there = np.zeros(low.size)
            there[order] = 1.0
            if not (group * asked.over(column, there) * asked.possible).any():
                found.append([math.nan] * 3)  # of nobody
                continue
            _, lower, upper = asked.ratio(group * asked.over(column, below), group * asked.over(column, there))
            reach = (upper - lower) / 2
            found.append([at, line.at(shares, max(q - reach, 0.0)), line.at(shares, min(q + reach, 1.0))])
        name = f"median of {column}" if q == 0.5 else f"{q:g} quantile of {column}"
        return asked.answer(name, *np.array(found).T)

    def intervals(
        self, columns: Sequence[str], level: float = 0.95, kind: IntervalKind = "posterior"
    ) -> tuple[FloatArray, FloatArray]:
        """Lower and upper bounds of each count of a published table or of a margin of one."""
        asked = Margin.of(self, columns, (), None, level, kind)
        _, lower, upper = asked.cells()
        return lower, upper

    def _columns(self) -> dict[str, list[Any]]:
        """A row for each cell of each table: which table, the cell, its count with an interval of 95 %."""
        told: dict[str, list[Any]] = {name: [] for name in ("table", "cell", "count", "low", "high")}
        for names, counts in self.tables.items():
            cells = itertools.product(*(map(str, self.schema[name].labels) for name in names))
            told["cell"] += map(", ".join, cells)
            told["table"] += [" × ".join(names)] * counts.size
            for name, values in zip(("count", "low", "high"), (counts, *self.intervals(names)), strict=True):
                told[name] += values.ravel().tolist()
        return told

    # -- what it says ---------------------------------------------------------------------------------------------

    @property
    def title(self) -> str:
        """Of its report."""
        tables = "1 table" if len(self.tables) == 1 else f"{len(self.tables)} tables"
        return f"{tables} over {len(self.columns)} columns"

    def sections(self, view: View) -> list[Section]:
        """What there is, and each table with its margins."""
        tables = [names for names in self.tables if view.column is None or view.column in names]
        if not tables:
            raise InvalidArgument("column", "a column of the tables", got=view.column)
        parts = [_cross_section(self, names, view, i < _PICTURES) for i, names in enumerate(tables)]
        if view.column is not None:
            return parts
        drawn = [
            [" × ".join(each.columns), f"{each.values.size:,}", f"{math.sqrt(each.mechanism.noise_variance):.4g}"]
            for each in self.releases
        ]
        public = self.releases[0].total is not None
        known = "a public number" if public else "estimated"
        text = [f"{self.total:,.0f} records, {known}. All tables agree on what they share."]
        if self.parts is not None:
            text.append(f"Every table is given for each part of the population by itself: each value of {self.parts}.")
        what = Table(
            columns=["drawn", "cells", "noise: standard deviation of a cell"],
            rows=drawn[: view.most or _ROWS],
            note=_cut(len(drawn), view.most or _ROWS),
        )
        return [Section(heading="What was drawn", text=text, table=what), *parts]

    def data(self, view: View) -> dict[str, Any]:
        """Every cell of every table with its interval."""
        found = []
        for names, counts in self.tables.items():
            lower, upper = self.intervals(names, view.level)
            found.append(
                {
                    "columns": list(names),
                    "labels": [list(self.schema[name].labels) for name in names],
                    "counts": counts.tolist(),
                    "lower": lower.tolist(),
                    "upper": upper.tolist(),
                }
            )
        return {"total": self.total, "level": view.level, "parts": self.parts, "tables": found}

    # -- records --------------------------------------------------------------------------------------------------

    def sample_codes(self, size: int, generator: np.random.Generator) -> dict[str, IntArray]:
        """Cell numbers of synthetic records: each column given those before it that a table says most about it with."""
        return possible_records(
            self.schema, check_whole("size", size, at_least=0), lambda records: self._chained(records, generator)
        )

    def _chained(self, size: int, generator: np.random.Generator) -> dict[str, IntArray]:
        drawn: dict[str, IntArray] = {}
        for name, given, table in self._chain:
            shape = table.shape[:-1]
            rows = np.zeros(size, dtype=np.int64)
            if given:
                rows = np.ravel_multi_index([drawn[each] for each in given], shape).astype(np.int64)
            drawn[name] = RowDraws(table.reshape(-1, table.shape[-1]) + 1e-300).draw(rows, generator)
        return {name: drawn.get(name, np.zeros(size, dtype=np.int64)) for name in self.schema.names}

    @property
    def families(self) -> Sequence[tuple[str, Columns]]:
        """Each column with those before it that a table says most about it with."""
        return [(name, given) for name, given, _ in self._chain]

    def conditional(self, node: str) -> FloatArray:
        """P(node | columns before it)."""
        table = next(table for name, _, table in self._chain if name == node) + 1e-300
        return np.asarray(table / table.sum(axis=-1, keepdims=True))

    def sample_codes_given(
        self, size: int, generator: np.random.Generator, given: Mapping[str, Sequence[int]]
    ) -> dict[str, IntArray]:
        """The same for records whose cells of some columns are among those given."""
        tables = {name: self.conditional(name) for name in self.columns}
        drawn = draw_given(self.families, tables, given, size, generator, self.schema)
        return {name: drawn[name] for name in self.columns}

    @cached_property
    def _chain(self) -> list[tuple[str, Columns, FloatArray]]:
        """Each column with columns before it and their table, the column's axis last."""
        found: list[tuple[str, Columns, FloatArray]] = []
        before: set[str] = set()
        for name in self.columns:
            best, most = None, -1.0
            for names, counts in self.tables.items():
                if name not in names:
                    continue
                given = tuple(each for each in names if each in before)
                table = summed(counts, names, (*given, name))
                flat = table.reshape(-1, table.shape[-1])
                weights = flat.sum(axis=1)
                told = mutual_information(weights / weights.sum(), flat / np.maximum(weights, 1e-300)[:, None])
                if told > most:
                    best, most = (name, given, table), told
            assert best is not None
            found.append(best)
            before.add(name)
        return found

    # -- files ----------------------------------------------------------------------------------------------------

    def to_body(self) -> dict[str, Any]:
        """As plain data: what was drawn and what was estimated."""
        releases = [release.to_body() for release in self.releases]
        return {
            "schema": json.loads(self.schema.to_json()),
            "guarantee": self.guarantee.to_body(),
            "releases": [{key: value for key, value in body.items() if key != "guarantee"} for body in releases],
            "tables": [{"columns": list(names), "counts": packed(counts)} for names, counts in self.tables.items()],
            "parts": self.parts,
        }

    @classmethod
    def from_body(cls, body: dict[str, Any]) -> TablesModel:
        """The inverse of `to_body`."""
        with reading_body("set of tables"):
            guarantee = Guarantee.from_body(body["guarantee"])
            schema = Schema.from_json(json.dumps(body["schema"]))
            tables = {
                tuple(each["columns"]): _unpacked(each["counts"], schema.shape(each["columns"]))
                for each in body["tables"]
            }
            if body["parts"] is not None and body["parts"] not in schema:
                raise InvalidArgument("parts", "a column of the schema", got=body["parts"])
            if len(tables) < len(body["tables"]):
                raise InvalidArgument("tables", "all different")
            found = cls(
                schema=schema,
                releases=tuple(
                    replace(Release.from_body({**release, "guarantee": body["guarantee"]}), guarantee=guarantee)
                    for release in body["releases"]
                ),
                tables=tables,
                parts=body["parts"],
            )
            if len(tables) <= _CHECKED and disagreement(tables) > _AGREED * found.total:
                raise InvalidArgument("tables", "in agreement on what they share")
            return found

    @classmethod
    def body_schema(cls) -> dict[str, Any]:
        """The JSON Schema of what `to_body` writes."""
        one = object_schema({"columns": TEXTS, "counts": {"oneOf": [NUMBERS, PACKED]}})
        return object_schema(
            {
                "schema": SCHEMA,
                "guarantee": guarantee_schema(),
                "releases": {"type": "array", "items": release_schema(guarantee_is_shared=True), "minItems": 1},
                "tables": {"type": "array", "items": one, "minItems": 1},
                "parts": {"type": ["string", "null"], "description": "the column that every table has first"},
            }
        )


_CHECKED = 400
"""Up to so many tables a file is read only if they agree; that takes the square of their number."""


def _unpacked(counts: Any, shape: tuple[int, ...]) -> FloatArray:
    return np.asarray(unpacked(counts, math.prod(shape)), dtype=np.float64).reshape(shape)


def _estimated(schema: Schema, releases: Sequence[Release], wanted: Sequence[Columns]) -> dict[Columns, Estimated]:
    """From everything that was drawn and what the schema says is impossible."""
    ruled = ((names, schema.impossible(names)) for names in margins_of(wanted))
    impossible = {names: mask for names, mask in ruled if mask is not None and mask.any()}
    return estimate_tables({each.columns: each.noisy for each in releases}, wanted, impossible)


def _in_order(found: Mapping[Columns, Estimated], names: Columns) -> FloatArray:
    """The counts of a table, its axes in the order that was asked for."""
    key = names if names in found else next(each for each in found if set(each) == set(names))
    return summed(found[key].counts, key, names)


def _cut(number: int, most: int) -> str:
    return f"the first {most} of {number:,}" if number > most else ""


def _cross_section(model: TablesModel, names: Columns, view: View, picture: bool) -> Section:
    """One column with intervals; for more a cross table with margins, the last column across."""
    most, counts, schema = view.most or _ROWS, model.tables[names], model.schema
    heading = " × ".join(names)
    if len(names) == 1:
        found = model.count(names, level=view.level)
        numbers = zip(found.labels, found.estimate, found.low, found.high, strict=True)
        rows = [[label[0], *(f"{float(x):,.1f}" for x in ends)] for label, *ends in numbers]
        bars = Bars(
            labels=list(schema[names[0]].labels),
            values=found.estimate,
            lower=found.low,
            upper=found.high,
            title=heading,
            unit="records",
        )
        return Section(
            heading=heading,
            table=Table(
                columns=[heading, "records", f"{view.level:.0%} from", "to"],
                rows=rows[:most],
                note=_cut(len(rows), most),
            ),
            figures=[(bars, f"Records by {heading}")] if picture else [],
        )
    across = [str(label) for label in schema[names[-1]].labels]
    flat = counts.reshape(-1, counts.shape[-1])
    labels = [", ".join(map(str, each)) for each in itertools.product(*(schema[name].labels for name in names[:-1]))]
    lower, upper = (bound.reshape(flat.shape) for bound in model.intervals(names, view.level))
    half = (upper - lower) / 2
    shown = range(min(len(across), _COLUMNS))
    rows = [
        [label, *(f"{row[j]:,.0f} ± {reach[j]:,.0f}" for j in shown), f"{row.sum():,.0f}"]
        for label, row, reach in zip(labels[:most], flat, half, strict=False)
    ]
    rows.append(["all", *(f"{flat[:, j].sum():,.0f}" for j in shown), f"{flat.sum():,.0f}"])
    notes = [f"records ± half the {view.level:.0%} interval", _cut(len(labels), most)]
    if len(across) > _COLUMNS:
        notes.append(f"the first {_COLUMNS} of {len(across)} columns")
    figures = []
    if picture and min(flat.shape) > 1:
        axes = (" × ".join(names[:-1]), names[-1])
        drawn = HeatMap(values=flat, axes=axes, rows=labels, columns=across, title=heading, unit="estimated records")
        figures = [(drawn, f"Records by {heading}")]
    return Section(
        heading=heading,
        table=Table(
            columns=[" × ".join(names[:-1]), *(across[j] for j in shown), "all"],
            rows=rows,
            note="; ".join(filter(None, notes)),
        ),
        figures=figures,
    )
