"""What is settled before a value is looked at: what will be counted (columns, tables, memory), and what is known of a
source (how many records, whether they can be read again, which source it is).

A fit is designed and paid for from these facts alone. Numbers of records come from the caller, from metadata, or from
a pass that counts rows and decodes none of them.
"""

from __future__ import annotations

import datetime
import hashlib
import json
import math
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import numpy as np

from ...budget import check_whole, convert
from ...errors import InvalidArgument, SchemaError, SourceError
from ...lazy import pa
from ...schema.never import did_you_mean
from ...schema.text import dump_json
from . import database, files, frames
from .encode import ColumnSpec, Kind
from .frames import without_columns
from .kernel import Layout
from .query import OneRecordPerRow, Prepared, Query, seen
from .source import MixedBatch, Tabled, engine_errors

if TYPE_CHECKING:
    from ...schema import Column, Schema

MEMORY_LIMIT = 2 << 30
"""Bytes that all tables of a count may take."""
_KINDS: dict[type, Kind] = {str: "text", int: "whole", bool: "truth", datetime.date: "date"}


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The columns to read, in the order of first use, the layout of the tables over them, and the memory for them."""

    specs: tuple[ColumnSpec, ...]
    layout: Layout
    tables: tuple[tuple[str, ...], ...]
    fingerprints: tuple[str, ...]
    is_private: bool
    memory: int

    @property
    def names(self) -> list[str]:
        """The columns to read."""
        return [spec.name for spec in self.specs]


def check_names(table: Sequence[str]) -> tuple[str, ...]:
    """The columns of one table: at least one, each named once."""
    if isinstance(table, str):
        raise InvalidArgument("tables", f"a sequence of tuples; for one column write ({table!r},)", got=table)
    names = tuple(table)
    if not names or len(set(names)) != len(names):
        raise InvalidArgument("tables", "tuples of at least one column, each named once", got=names)
    return names


def check_size(schema: Schema, tables: list[tuple[str, ...]]) -> None:
    """Refuse tables that together take more memory than the usual limit; the message names the largest."""
    names = list(dict.fromkeys(name for table in tables for name in table))
    sizes = tuple(schema[name].size for name in names)
    layout = Layout(sizes=sizes, tables=tuple(tuple(map(names.index, table)) for table in tables))
    _check_memory(tables, layout, MEMORY_LIMIT)


def make_plan(schema: Schema, tables: Iterable[Sequence[str]], memory_limit: int) -> Plan:
    """Check the request and lay it out.

    Raises:
        InvalidArgument: a table is not a tuple of different columns, or all tables together need more memory
            than the limit; the message names the largest.
        SchemaError: a column is not in the schema, or its edges are not known yet.
    """
    if isinstance(tables, str):
        raise InvalidArgument("tables", "a sequence of tuples of column names, not one string", got=tables)
    wanted = [check_names(table) for table in tables]
    if not wanted:
        raise InvalidArgument("tables", "at least one tuple of column names")
    place: dict[str, int] = {}
    for names in wanted:
        for name in names:
            place.setdefault(name, len(place))
    columns = [schema[name] for name in place]
    specs = tuple(column_spec(column) for column in columns)
    layout = Layout(
        sizes=tuple(spec.size for spec in specs),
        tables=tuple(tuple(place[name] for name in names) for names in wanted),
    )
    _check_memory(wanted, layout, memory_limit)
    marks = [_mark(column) for column in columns]
    return Plan(
        specs=specs,
        layout=layout,
        tables=tuple(wanted),
        fingerprints=tuple(_joined(marks[column] for column in table) for table in layout.tables),
        is_private=all(column.is_private for column in columns),
        memory=memory_limit,
    )


def fingerprint(columns: Iterable[Column]) -> str:
    """Names the cells of a table over these columns: tables over the same ones add up, wherever they come from."""
    return _joined(map(_mark, columns))


def _mark(column: Column) -> str:
    return _joined([dump_json(column.model_dump(exclude={"origin"}))])


def _joined(texts: Iterable[str]) -> str:
    return hashlib.sha256("".join(texts).encode()).hexdigest()


def column_spec(column: Column) -> ColumnSpec:
    """The plain values of a declared column."""
    if column.kind == "quantiles":
        raise SchemaError(
            column.name,
            "a column with edges before it is counted",
            hint="Resolve its quantiles first: resolve_quantiles finds the edges with a share of the budget, "
            "or declare Numeric edges.",
        )
    # A refused value gets a number beyond the last cell; the two differ, so the error can tell them apart.
    other = column.size if column.other_code is None else column.other_code
    missing = column.size + 1 if column.missing_code is None else column.missing_code
    if column.kind == "numeric":
        return ColumnSpec(
            name=column.name,
            kind="numeric",
            values=column.own,
            edges=column.edges,
            nearest=column.outside == "nearest",
            size=column.size,
            other=other,
            missing=missing,
            steps=(*column.transform, ("part", "number")) if column.dates else column.transform,
        )
    return ColumnSpec(
        name=column.name,
        kind=_KINDS[type(column.values[0])],
        values=column.values,
        size=column.size,
        other=other,
        missing=missing,
        steps=column.transform,
    )


def _check_memory(tables: list[tuple[str, ...]], layout: Layout, limit: int) -> None:
    need = 8 * layout.cells()
    if need <= limit:
        return
    by_size = sorted(range(len(tables)), key=lambda table: -math.prod(layout.shape(table)))
    largest = "; ".join(
        f"({', '.join(tables[table])}): {' × '.join(map(str, layout.shape(table)))} cells, "
        f"{_bytes(8 * math.prod(layout.shape(table)))}"
        for table in by_size[:5]
    )
    raise InvalidArgument(
        "tables",
        f"at most {_bytes(limit)} in all, and they need {_bytes(need)}",
        hint=f"The largest: {largest}. Take fewer columns or cells, or raise memory_limit.",
    )


def _bytes(number: int) -> str:
    for unit, power in (("GiB", 30), ("MiB", 20), ("KiB", 10)):
        if number >= 1 << power:
            return f"{number / (1 << power):.3g} {unit}"
    return f"{number} bytes"


# -- facts of a source -------------------------------------------------------------------------------------------------


CELL_NUMBERS = "an array of cell numbers"
_SORTS = re.compile(r"\border\s+by\b", re.IGNORECASE)


@dataclass(kw_only=True)
class Deferred:
    """Rows that are made when the first value is needed, so that nothing in them can be refused before.

    Args:
        records: how many there are, from the shape of what they are made of.
        make: the rows, as any other source; called once.
    """

    records: int
    make: Callable[[], Any] = field(repr=False)
    _made: Any = field(default=None, repr=False)

    def __post_init__(self) -> None:
        convert(self, records=_whole)

    def source(self) -> Any:
        """The rows."""
        if self._made is None:
            self._made = self.make()
        return self._made


def check_columns(source: Any, names: Sequence[str]) -> None:
    """Refuse a source in memory that lacks a column; other sources say so when they are read."""
    if isinstance(source, (pa.Table, pa.RecordBatch, pa.RecordBatchReader)):
        there = list(source.schema.names)
    elif frames.is_pandas(source) or (type(source).__module__.startswith("polars.") and hasattr(source, "height")):
        there = list(source.columns)
    else:
        return
    if without_columns(source) or (not there and isinstance(source, pa.RecordBatchReader)):
        return
    absent = [name for name in names if name not in there]
    if absent:
        hint = did_you_mean(absent[0], map(str, there)).strip()
        raise SourceError(f"the source has no column {absent[0]!r}. It has {len(there)} columns. {hint}".rstrip())


@dataclass(frozen=True, kw_only=True)
class Identity:
    """Which source this is: what a ledger knows a registered one by.

    Args:
        about: in words, for people.
        place: fingerprint of where the rows come from; of rows in memory it is their type alone.
        state: fingerprint of sizes and times of files, which change when the files do; empty for others.
        parts: fingerprints of the single files.
    """

    about: str
    place: str
    state: str = ""
    parts: tuple[str, ...] = ()


def number_of_records(source: Any, threads: int = 1) -> int | None:
    """How many rows a source has, without a look at any value; None where finding out would use the source up."""
    if isinstance(source, Deferred | Tabled):
        return source.records
    if frames.is_codes(source):
        return frames.length(source)
    if isinstance(source, (str, os.PathLike)) or files.are_paths(source):
        return files.count_rows(files.Files(source), threads)
    if isinstance(source, files.Files):
        return files.count_rows(source, threads)
    if isinstance(source, Query):
        source = seen(source).source
    if isinstance(source, Prepared):
        return database.count_rows(source)
    if isinstance(source, (pa.Table, pa.RecordBatch, MixedBatch)):
        return int(source.num_rows)
    root = type(source).__module__.partition(".")[0]
    with engine_errors(f"the rows of the {root} source could not be counted"):
        if frames.is_pandas(source):
            return len(source)
        if root == "polars" and hasattr(source, "height"):
            return int(source.height)
        if root == "polars" and hasattr(source, "collect_batches"):
            import polars

            return int(source.select(polars.len()).collect().item())
        if root == "pyspark":
            return int(source.count())
        if frames.is_dataset(source, of_files=True):
            return int(source.count_rows())
    if isinstance(source, Sequence):
        numbers = [number_of_records(item, threads) for item in source]
        return None if None in numbers else sum(number or 0 for number in numbers)
    return None


def can_be_read_again(source: Any, *, in_order: bool = False) -> bool:
    """Whether a second pass over the source sees the same rows: not so for streams, cursors and Spark frames.

    Nor for a query that ends after a number of rows: which ones is up to the engine, each time anew. With `in_order`,
    whether it also sees them in the same order, on which it depends which rows of each person are kept.
    """
    declared = isinstance(source, OneRecordPerRow)
    source = source.source if isinstance(source, OneRecordPerRow) else source
    if isinstance(source, Query):
        return not source.may_cut and source.language != "spark" and (not in_order or _keeps_order(source))
    if isinstance(
        source,
        (
            *(Deferred, Tabled, str, os.PathLike, files.Files, frames.CellNumbers, np.ndarray),
            *(pa.Table, pa.RecordBatch, MixedBatch),
        ),
    ):
        return True
    root = type(source).__module__.partition(".")[0]
    if root == "polars" and declared and in_order:
        return hasattr(source, "height")  # the plan of a lazy frame is not known then
    if frames.is_pandas(source) or root == "polars" or frames.is_dataset(source, of_files=True):
        return True
    if isinstance(source, Sequence):
        return all(can_be_read_again(item) for item in source)
    return isinstance(source, Mapping)


def _keeps_order(query: Query) -> bool:
    """Whether rows come in the order in which they are stored, which DuckDB promises unless told otherwise.

    Other databases promise no order. Where the statement sorts, rows that are equal in it come in any.
    """
    if query.language != "duckdb" or query.one_record_per_row or _SORTS.search(query.verdict.sql):
        return False
    if query.connection is None:
        return True
    if type(query.connection).__module__.partition(".")[0] not in ("duckdb", "_duckdb"):
        return False
    with engine_errors("the connection could not be asked about the order of rows"), query.connection.cursor() as own:
        return bool(own.execute("SELECT current_setting('preserve_insertion_order')").fetchall()[0][0])


def _unnamed(source: files.Files) -> list[list[str]]:
    """The names of columns without a header, which tell one way to read a file from another."""
    return [] if source.names is None else [list(source.names)]


def identity_of(source: Any) -> Identity:
    """The identity of a source, from paths, file times and the text of queries."""
    if isinstance(source, Tabled):
        known: Identity = source.identity
        return known
    if isinstance(source, (str, os.PathLike)) or files.are_paths(source):
        source = files.Files(source)
    if isinstance(source, files.Files):
        paths = [str(Path(path).resolve()) for path in files.expand(source.paths)]
        with engine_errors("a file of the source could not be looked at"):
            found = [Path(path).stat() for path in paths]
        return Identity(
            about=f"{len(paths)} {'file' if len(paths) == 1 else 'files'}",
            place=_fingerprint(["files", paths, files.forms(source), source.delimiter, *_unnamed(source)]),
            state=_fingerprint([[stat.st_size, stat.st_mtime_ns] for stat in found]),
            parts=tuple(_fingerprint([stat.st_dev, stat.st_ino]) for stat in found),
        )
    if isinstance(source, OneRecordPerRow):
        inner = identity_of(source.source)
        return replace(inner, place=_fingerprint([inner.place, *source.declarations]))
    if isinstance(source, Query):
        return Identity(about="a query", place=_fingerprint([source.sql, *source.declarations, _where(source)]))
    if frames.is_codes(source):
        return Identity(about=CELL_NUMBERS, place=_fingerprint(["cell numbers"]))
    return Identity(about="rows in memory or a stream", place=_fingerprint(["memory"]))


def _where(query: Query) -> str:
    """Where a query runs, without the password of a URI."""
    if not isinstance(query.connection, str):
        return f"{query.language} {type(query.connection).__qualname__}"
    place = urlsplit(query.connection)
    return f"{place.scheme}://{place.hostname}:{place.port}{place.path}"


def _whole(name: str, value: int) -> int:
    return check_whole(name, value, at_least=0)


def _fingerprint(value: object) -> str:
    return hashlib.sha256(json.dumps(value, ensure_ascii=True).encode()).hexdigest()
