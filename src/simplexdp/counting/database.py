"""Databases: a query through ADBC, or any DB-API connection or cursor, as a stream of batches."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from ..budget import Neighbours
from ..errors import MissingExtra, SourceError
from .source import Part, Request, Source, engine_errors

_LABEL = "the query"
_QUOTED_NAME = re.compile(r"""(?<![^\s,.(])(["`])\w+\1(?![^\s,.;:)])""")
_COMPARISON = re.compile(r"\bis\s+(?:not\s+)?distinct\s+from\b", re.IGNORECASE)
_COMMENT = re.compile(r"/\*.*?\*/|--[^\n]*", re.DOTALL)
# LIMIT, OFFSET and TOP with a number are not here: of a public number of rows they leave a public number.
_SELECTS = re.compile(
    r"\b(?:limit\s*\(|sample\s+[\d.]|(?:(?:pre)?where|having|qualify|join|lateral|apply|group\s+by|distinct"
    r"|with\s+ties|union|intersect|except|minus|using\s+sample|tablesample|unnest|explode|flatten|generate_\w+"
    r"|\w+_to_table|json\w*_(?:each|tree|array_elements|object_keys)\w*|(?:un)?pivot|ignore_errors)\b)",
    re.IGNORECASE,
)
# OFFSET too: a person with many rows before the cut takes the place of as many rows after it.
_CUTS = re.compile(
    r"(?<!\.)\b(?:limit|offset)\b(?!\s+from\b)"
    r"|\b(?:top\s*[\d(]|fetch\s+(?:first|next)\b|using\s+sample\b|tablesample\b|sample\s+[\d.]|distinct\s+on\b)",
    re.IGNORECASE,
)
_FETCH = 1 << 14  # rows a DB-API cursor hands over at once; they are Python objects, so keep them few


@dataclass(frozen=True)
class Query:
    """A SELECT and where to run it.

    Args:
        sql: the statement; select only the columns that are needed.
        connection: a PostgreSQL URI, an ADBC or other DB-API connection, a DuckDB connection, or None for
            DuckDB in memory (where `SELECT ... FROM 'rows/*.parquet'` reads files).
        public_size: declares that the number of rows it gives is public although it may select among them. Under
            replace-one that number is published, so a query that selects is refused without this.

    >>> Query("SELECT * FROM 'rows.parquet' WHERE age < 90").may_select
    True
    """

    sql: str
    connection: Any = None
    public_size: bool = False

    def __repr__(self) -> str:
        return f"Query({self.sql!r})"  # a URI may hold a password

    @property
    def relations(self) -> frozenset[Neighbours]:
        """The neighbours that what it counts may be released under."""
        fixed_size = self.public_size or not self.may_select
        found: list[Neighbours] = ["replace-one"] if fixed_size else []
        return frozenset(found if self.may_cut else [*found, "add-remove"])

    @property
    def may_select(self) -> bool:
        """Whether one record may change the number of rows: a word of SQL says so, were it in a text or a comment."""
        return self._has(_SELECTS)

    @property
    def may_cut(self) -> bool:
        """Whether it may end after a number of rows, so that without one record another moves up."""
        return self._has(_CUTS)

    def _has(self, words: re.Pattern[str]) -> bool:
        """With comments in it and without: what looks like one may be part of a text."""
        plain = _COMPARISON.sub("=", _QUOTED_NAME.sub("_", self.sql))
        return any(words.search(text) is not None for text in (plain, _COMMENT.sub(" ", plain)))


def open_query(query: Query, request: Request) -> Source:
    """Run the query where it says."""
    connection = query.connection
    if connection is None or type(connection).__module__.partition(".")[0] in ("duckdb", "_duckdb"):
        from .duckdb import open_query as open_duckdb

        return open_duckdb(query.sql, connection, request)
    if isinstance(connection, str):
        return _open_uri(query.sql, connection, request)
    if not hasattr(connection, "cursor"):
        raise SourceError(
            f"the connection of a Query is of type {type(connection).__name__}; it must be "
            "a URI, a DB-API connection or a DuckDB connection."
        )
    cursor = _streaming_cursor(connection)
    with engine_errors(f"{_LABEL} could not be run"):
        cursor.execute(query.sql)
    return open_cursor(cursor, request, close=cursor.close)


def open_cursor(cursor: Any, request: Request, close: Any = None) -> Source:
    """A cursor on which a SELECT has been executed."""
    if hasattr(cursor, "fetch_record_batch"):  # ADBC
        with engine_errors(f"{_LABEL} could not be read"):
            reader = cursor.fetch_record_batch()
        parts = iter([Part(label=_LABEL, schema=reader.schema, batches=iter(reader))])
        return Source(parts=parts, close=_all(reader.close, close))
    if cursor.description is None:
        raise SourceError("the cursor has no result; execute a SELECT on it first.")
    names = [column[0] for column in cursor.description]
    # Types follow from the values, batch by batch; a schema without types lets the encoder check the names.
    schema = None if set(request.names) <= set(names) else pa.schema([(name, pa.null()) for name in names])
    batches = _fetched(cursor, names, set(request.names))
    return Source(parts=iter([Part(label=_LABEL, schema=schema, batches=batches)]), close=_all(close))


def _fetched(cursor: Any, names: list[str], wanted: set[str]) -> Iterator[Any]:
    places = [place for place, name in enumerate(names) if name in wanted]
    while rows := cursor.fetchmany(_FETCH):
        columns = list(zip(*rows, strict=True))
        arrays = [_array(names[place], columns[place]) for place in places]
        yield pa.RecordBatch.from_arrays(arrays, names=[names[place] for place in places])


def _array(name: str, values: tuple[Any, ...]) -> Any:
    with engine_errors(f"{_LABEL}: column {name!r} has no Arrow type", "Cast it to one type in the SELECT."):
        return pa.array(values)


def _streaming_cursor(connection: Any) -> Any:
    """psycopg keeps the whole result in memory unless the cursor has a name and lives on the server."""
    with engine_errors("the connection gave no cursor"):
        if type(connection).__module__.partition(".")[0] in ("psycopg", "psycopg2"):
            return connection.cursor(name="simplexdp")
        return connection.cursor()


def _open_uri(sql: str, uri: str, request: Request) -> Source:
    if not uri.startswith(("postgresql://", "postgres://")):
        raise SourceError(
            "the connection of a Query is a URI of a database this library has no driver for; "
            "it knows postgresql://. For others, pass a DB-API connection."
        )
    try:
        from adbc_driver_postgresql import dbapi
    except ImportError:
        raise MissingExtra("adbc-driver-postgresql", "postgres") from None
    with engine_errors("the database could not be reached", "Check the URI."):
        connection = dbapi.connect(uri)
    try:
        cursor = connection.cursor()
        with engine_errors(f"{_LABEL} could not be run"):
            cursor.execute(sql)
        return open_cursor(cursor, request, close=_all(cursor.close, connection.close))
    except BaseException:
        connection.close()
        raise


def _all(*closers: Any) -> Any:
    def close() -> None:
        for closer in closers:
            if closer is not None:
                closer()

    return close
