"""DuckDB: relations and queries as they are, CSV and JSON files with the types the schema declares."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa

from ..errors import SourceError
from .encode import ColumnSpec
from .source import Part, Request, Source, engine_errors

_TYPES = {"text": "VARCHAR", "truth": "BOOLEAN", "date": "DATE", "numeric": "DOUBLE"}
_WORDS = {"whole": "integers", "truth": "booleans", "date": "dates", "numeric": "numbers", "text": "strings"}


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


def open_query(sql: str, connection: Any, request: Request) -> Source:
    """A query on a DuckDB connection, or on a new in-memory database, where it can read files."""
    import duckdb

    own = connection is None
    base = duckdb.connect() if own else connection
    with engine_errors("the query could not be started", "DuckDB refused it."):
        relation = base.sql(sql)
    if relation is None:
        raise SourceError("the query returns no rows; it must be a SELECT.")
    return open_relation(relation, request, "the query", base.close if own else None)


def open_text(path: str, form: str, delimiter: str, request: Request) -> Source:
    """A CSV or JSON file; columns are read as the declared types, never as guessed ones."""
    import duckdb

    connection = duckdb.connect()
    types = {spec.name: sql_type(spec) for spec in request.specs}
    if request.person is not None:
        types.setdefault(request.person, "VARCHAR")
    if form == "csv":
        scan, settings = "read_csv", _csv_settings(path, delimiter, types)
    else:
        scan, settings = "read_json", _json_settings(connection, path, types)
    select = ", ".join(quoted(name) for name in types)
    text = f"SELECT {select} FROM {scan}({_literal(path)}, {settings})"
    hint = "It may be damaged, or have rows of different lengths."
    with engine_errors(f"{path} could not be read", hint), _conversions(path, request):
        reader = connection.sql(text).to_arrow_reader(request.rows)

    def shut() -> None:
        reader.close()
        connection.close()

    return Source(
        parts=iter([Part(label=path, schema=reader.schema, batches=_read(reader, path, request))]),
        close=shut,
    )


def _read(reader: Any, path: str, request: Request) -> Iterator[Any]:
    while True:
        with _conversions(path, request):
            try:
                batch = reader.read_next_batch()
            except StopIteration:
                return
        yield batch


@contextmanager
def _conversions(path: str, request: Request) -> Iterator[None]:
    """Name the column of a field that is not of the declared type. DuckDB does, next to the field itself."""
    kinds = {spec.name: _WORDS[spec.kind] for spec in request.specs}
    try:
        yield
    except Exception as error:
        found = re.search(r'converting column "((?:[^"]|"")*)"', str(error))
        column = found.group(1).replace('""', '"') if found else None
        if column not in kinds:
            raise
        text = f"{path}: column {column!r} is declared with {kinds[column]} and has entries that are not."
        raise SourceError(text) from None


def sql_type(spec: ColumnSpec) -> str:
    """The type a column of text is read as.

    Integers are read as doubles where those are exact: DuckDB would round 1.5 to a declared integer.
    """
    if spec.kind == "whole":
        return "DOUBLE" if all(abs(value) < 1 << 53 for value in spec.values) else "BIGINT"
    return _TYPES[spec.kind]


def _csv_settings(path: str, delimiter: str, types: dict[str, str]) -> str:
    """Names from the header and fixed rules of quoting: a guess could differ from file to file."""
    header = _header(path, delimiter)
    for name in types:
        if header.count(name) != 1:
            found = "is there more than once" if name in header else "is missing"
            raise SourceError(f"{path}: column {name!r} {found}. The header has {len(header)} columns.")
    if len(set(header)) != len(header):
        raise SourceError(f"{path}: the header names a column twice.")
    columns = ", ".join(f"{_literal(name)}: {_literal(types.get(name, 'VARCHAR'))}" for name in header)
    return (
        f"auto_detect=false, header=true, strict_mode=true, delim={_literal(delimiter)}, "
        f"quote='\"', escape='\"', nullstr='', columns={{{columns}}}"
    )


def text_columns(path: str, form: str, delimiter: str) -> list[str]:
    """The names of the columns of a CSV or JSON file."""
    if form == "csv":
        return _header(path, delimiter)
    import duckdb

    with duckdb.connect() as connection:
        return _json_columns(connection, path)


def _header(path: str, delimiter: str) -> list[str]:
    with engine_errors(f"{path} could not be opened"), pa.input_stream(path) as raw:
        lines = io.TextIOWrapper(io.BufferedReader(raw), encoding="utf-8-sig", newline="")
        return next(csv.reader(lines, delimiter=delimiter), [])


def _json_columns(connection: Any, path: str) -> list[str]:
    with engine_errors(f"{path} could not be opened", "It may be damaged or truncated."):
        return list(connection.sql(f"FROM read_json({_literal(path)})").columns)


def _json_settings(connection: Any, path: str, types: dict[str, str]) -> str:
    known = _json_columns(connection, path)
    absent = [name for name in types if name not in known]
    if absent:
        raise SourceError(f"{path}: column {absent[0]!r} is missing from the records at the beginning of the file.")
    return "columns={" + ", ".join(f"{_literal(name)}: {_literal(kind)}" for name, kind in types.items()) + "}"


def quoted(name: str) -> str:
    """A name as SQL writes it."""
    return '"' + name.replace('"', '""') + '"'


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
