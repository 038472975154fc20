"""What will be counted, checked before a row is read: columns, tables, memory."""

from __future__ import annotations

import datetime
import hashlib
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..errors import InvalidArgument, SchemaError
from .encode import ColumnSpec, Kind
from .kernel import Layout

if TYPE_CHECKING:
    from ..schema import Column, Schema

_KINDS: dict[type, Kind] = {str: "text", int: "whole", bool: "truth", datetime.date: "date"}


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The columns to read, in the order of first use, and the layout of the tables over them."""

    specs: tuple[ColumnSpec, ...]
    layout: Layout
    tables: tuple[tuple[str, ...], ...]
    fingerprints: tuple[str, ...]
    is_private: bool

    @property
    def names(self) -> list[str]:
        """The columns to read."""
        return [spec.name for spec in self.specs]


def make_plan(schema: Schema, tables: Iterable[Sequence[str]], memory_limit: int) -> Plan:
    """Check the request and lay it out.

    Raises:
        InvalidArgument: a table is not a tuple of different columns, or all tables together need more memory
            than the limit; the message names the largest.
        SchemaError: a column is not in the schema, or its edges are not known yet.
    """
    if isinstance(tables, str):
        raise InvalidArgument("tables", "a sequence of tuples of column names, not one string", got=tables)
    wanted: list[tuple[str, ...]] = []
    for table in tables:
        if isinstance(table, str):
            raise InvalidArgument("tables", f"a sequence of tuples; for one column write ({table!r},)", got=table)
        names = tuple(table)
        if not names or len(set(names)) != len(names):
            raise InvalidArgument("tables", "tuples of at least one column, each named once", got=names)
        wanted.append(names)
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
    marks = [hashlib.sha256(schema.select([column.name]).to_json().encode()).hexdigest() for column in columns]
    return Plan(
        specs=specs,
        layout=layout,
        tables=tuple(wanted),
        fingerprints=tuple(
            hashlib.sha256("".join(marks[column] for column in table).encode()).hexdigest() for table in layout.tables
        ),
        is_private=schema.is_private,
    )


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
        )
    return ColumnSpec(
        name=column.name,
        kind=_KINDS[type(column.values[0])],
        values=column.values,
        size=column.size,
        other=other,
        missing=missing,
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
