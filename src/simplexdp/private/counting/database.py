"""Databases: a query through DuckDB, ADBC, or any DB-API connection or cursor, as a stream of batches."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from ...errors import MissingExtra, SourceError
from .query import Prepared, seen
from .source import OBJECTS, Columns, MixedBatch, Part, Request, Source, engine_errors

_LABEL = "the query"
_FETCH = 1 << 14  # rows a DB-API cursor hands over at once; they are Python objects, so keep them few


def open_query(query: Prepared, request: Request) -> Source:
    """Run the query where it says."""
    connection, sql = query.connection, query.sql
    if connection is None or type(connection).__module__.partition(".")[0] in ("duckdb", "_duckdb"):
        return _open_duckdb(sql, connection, request)
    if isinstance(connection, str):
        return _open_uri(sql, connection, request)
    if not hasattr(connection, "cursor"):
        raise SourceError(
            f"the connection of a Query is of type {type(connection).__name__}; it must be "
            "a URI, a DB-API connection or a DuckDB connection."
        )
    cursor = _streaming_cursor(connection)
    with engine_errors(f"{_LABEL} could not be run"):
        cursor.execute(sql)
    return open_cursor(cursor, request, close=cursor.close)


def count_rows(query: Prepared) -> int | None:
    """The number of rows that a query gives, counted by its database; None where that cannot be asked."""
    connection, sql = query.connection, query.sql
    if connection is None or type(connection).__module__.partition(".")[0] in ("duckdb", "_duckdb"):
        return _count_duckdb(sql, connection)
    text = f"SELECT count(*) FROM ({sql.strip().rstrip(';')}\n) counted"
    with engine_errors(f"{_LABEL} could not be run"):
        if isinstance(connection, str):
            with connected(connection) as opened:
                return _single(opened, text)
        return _single(connection, text) if hasattr(connection, "cursor") else None


def _single(connection: Any, sql: str) -> int:
    cursor = connection.cursor()
    try:
        cursor.execute(sql)
        return int(cursor.fetchone()[0])
    finally:
        cursor.close()


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
    # Rows of Python objects: each value is taken for what it is, and none for the type of the others.
    schema = Columns(tuple(names), (OBJECTS,) * len(names))
    batches = _fetched(cursor, names, set(request.names))
    return Source(parts=iter([Part(label=_LABEL, schema=schema, batches=batches)]), close=_all(close))


def _fetched(cursor: Any, names: list[str], wanted: set[str]) -> Iterator[Any]:
    places = [place for place, name in enumerate(names) if name in wanted]
    while rows := cursor.fetchmany(_FETCH):
        if isinstance(rows[0], Mapping):  # some drivers can be told to give rows by name
            rows = [[row[name] for name in names] for row in rows]
        columns = list(zip(*rows, strict=True))
        yield MixedBatch([names[place] for place in places], [columns[place] for place in places])


def _streaming_cursor(connection: Any) -> Any:
    """psycopg keeps the whole result in memory unless the cursor has a name and lives on the server."""
    with engine_errors("the connection gave no cursor"):
        if type(connection).__module__.partition(".")[0] in ("psycopg", "psycopg2"):
            return connection.cursor(name="simplexdp")
        cursor = connection.cursor()
        if type(cursor).__module__.partition(".")[0] == "sqlite3":
            cursor.row_factory = None  # a function of the program could carry one row into the next
        return cursor


def _open_uri(sql: str, uri: str, request: Request) -> Source:
    connection = _connect(uri)
    try:
        cursor = connection.cursor()
        with engine_errors(f"{_LABEL} could not be run"):
            cursor.execute(sql)
        return open_cursor(cursor, request, close=_all(cursor.close, connection.close))
    except BaseException:
        connection.close()
        raise


@contextmanager
def connected(uri: str) -> Iterator[Any]:
    """A connection to the database of a URI, for as long as it is needed."""
    connection = _connect(uri)
    try:
        yield connection
    finally:
        connection.close()


def _connect(uri: str) -> Any:
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
        return dbapi.connect(uri)


def _all(*closers: Any) -> Any:
    def close() -> None:
        for closer in closers:
            if closer is not None:
                closer()

    return close


# -- DuckDB; for CSV and JSON files see `text` -------------------------------------------------------------------------


def open_relation(relation: Any, request: Request, label: str = "the DuckDB relation", close: Any = None) -> Source:
    """A relation, streamed; only the columns that are needed are computed."""
    columns = list(relation.columns)
    wanted = [name for name in request.names if name in columns]
    with engine_errors(f"{label} could not be started"):
        if len(wanted) == len(request.names) and len(wanted) < len(columns):
            relation = relation.project(", ".join(quoted(name) for name in wanted))
        reader = relation.to_arrow_reader(request.rows)

    def shut() -> None:
        reader.close()
        if close is not None:
            close()

    return Source(parts=iter([Part(label=label, schema=reader.schema, batches=iter(reader))]), close=shut)


def _open_duckdb(sql: str, connection: Any, request: Request) -> Source:
    """A query on a DuckDB connection, or on a new in-memory database, where it can read files."""
    import duckdb

    own = connection is None
    base = duckdb.connect() if own else connection
    with engine_errors("the query could not be started", "DuckDB refused it."):
        relation = base.sql(sql)
    if relation is None:
        raise SourceError("the query returns no rows; it must be a SELECT.")
    return open_relation(relation, request, "the query", base.close if own else None)


def _count_duckdb(sql: str, connection: Any) -> int:
    """The number of rows that a query gives."""
    import duckdb

    base = duckdb.connect() if connection is None else connection.cursor()  # an own cursor leaves the user's as it is
    try:
        with engine_errors("the query could not be started", "DuckDB refused it."):
            found = base.execute(f"SELECT count(*) FROM ({sql.strip().rstrip(';')}\n) AS counted").fetchall()
    finally:
        base.close()
    return int(found[0][0])


def quoted(name: str) -> str:
    """A name as SQL writes it."""
    return '"' + name.replace('"', '""') + '"'


def query_columns(query: Any) -> list[str]:
    """The names of the columns that a query gives; it is not run for it. Types that are guessed are not told."""
    prepared = seen(query).source
    assert isinstance(prepared, Prepared)
    connection, sql = prepared.connection, prepared.sql
    with engine_errors(f"{_LABEL} could not be looked at", "Is it one SELECT over tables and files that are there?"):
        if isinstance(connection, str):
            with connected(connection) as opened, opened.cursor() as cursor:
                cursor.execute(f"SELECT * FROM ({sql}\n) AS its_rows LIMIT 0")
                return [str(each[0]) for each in cursor.description or ()]
        import duckdb

        with duckdb.connect() if connection is None else connection.cursor() as own:
            return [str(row[0]) for row in own.execute(f"DESCRIBE {sql}").fetchall()]
