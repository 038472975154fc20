"""CSV and JSON files: every field is read as the declared type and nothing is guessed from the records.

What a record counts as must not depend on the others. So types, names, delimiters and the layout of a file are never
found out from its records, a field that is not of the declared type is that field's affair, and a record ends where
the rules say and nowhere else.
"""

from __future__ import annotations

import io
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np

from ...cores import in_order
from ...errors import SourceError
from ...lazy import csv_files, pa
from ...schema.never import did_you_mean
from ...schema.text import MAX_HEADER, TextFile
from .fields import by_value, field_type, fields
from .source import Columns, MixedBatch, Part, Piece, Request, Source, engine_errors

_LINES = (".jsonl", ".ndjson")
_HINT = "It may be damaged, or have rows of different lengths."
_NO_HEADER = "If the file has no header, name its columns with --names or Files(path, names=[...])."
_LONGEST = 2 << 20  # bytes of a record of a CSV file
_TOO_LONG = "a record is longer than 2 MiB"
_BLOCK = (2 << 20) - (1 << 16)  # bytes that are parsed at once, so few that no record in them is too long
_JSON_ROWS = 1 << 17
_BOM = b"\xef\xbb\xbf"


def open_text(path: str, form: str, layout: TextFile, request: Request) -> Source:
    """The rows of a CSV or JSON file."""
    names = request.names
    specs = {spec.name: spec for spec in request.specs}
    codec = layout.codec if form == "csv" else "utf-8"

    def read(raw: Callable[[], Any]) -> Iterator[MixedBatch]:
        batch = raw()
        yield MixedBatch(names, [fields(specs.get(n), batch.column(place), codec) for place, n in enumerate(names)])

    if form == "csv":
        distinct = pa.dictionary(pa.int32(), pa.binary())
        kinds = {name: pa.binary() if by_value(specs.get(name)) else distinct for name in names}
        raws, close = _csv(path, layout, kinds)
    else:
        raws, close = _json(path, names, request)
    pieces = (Piece(read=partial(read, raw)) for raw in raws)
    schema = Columns(tuple(names), tuple(field_type(specs.get(name)) for name in names))
    return Source(parts=iter([Part(label=path, schema=schema, batches=pieces)]), close=close)


def count_text(path: str, form: str, layout: TextFile, threads: int = 1) -> int:
    """The number of records of a CSV or JSON file; no field is converted."""
    request = Request(specs=(), person=None, rows=_JSON_ROWS, threads=threads)
    raws, close = _csv(path, layout, {}) if form == "csv" else _json(path, [], request)
    try:
        with engine_errors(f"{path} could not be read", _HINT):
            return sum(in_order(lambda raw: int(raw().num_rows), raws, threads))
    finally:
        close()


def text_columns(path: str, form: str, layout: TextFile) -> list[str]:
    """The names of the columns of a CSV file, or those that DuckDB sees in a JSON file: not for counting."""
    if form == "csv":
        return _header(path, layout)[1]
    import duckdb

    with duckdb.connect() as connection, engine_errors(f"{path} could not be opened", "It may be damaged."):
        return list(connection.sql(f"FROM read_json({_local(path)})").columns)


# -- CSV --------------------------------------------------------------------------------------------------------


def _csv(path: str, layout: TextFile, kinds: Mapping[str, Any]) -> tuple[Iterator[Callable[[], Any]], Any]:
    """What parses the blocks of a file, each by itself: batches of the named columns, or of any if none is named."""
    delimiter, header = _header(path, layout)
    for name in kinds:
        if header.count(name) != 1:
            raise SourceError(
                f"{path}: column {name!r} {_absent(name, list(kinds), header, delimiter, headless=layout.headless)}"
            )
    if len(set(header)) != len(header):
        raise SourceError(f"{path}: the header names a column twice. {_NO_HEADER}")
    if not header:
        raise SourceError(f"{path}: the file has no header.")
    with engine_errors(f"{path} could not be opened"):
        file = pa.input_stream(path)
    written = layout.model_copy(update={"delimiter": delimiter, "quote": layout.mark})
    return _parsers(path, file, written, header, kinds or {header[0]: pa.binary()}), file.close


def _absent(name: str, names: Sequence[str], header: list[str], delimiter: str, *, headless: bool) -> str:
    """What is said of a column that is not there once.

    A name of the header is told only where others that were asked for are in it: else it may be no header but a record.
    """
    if name in header:
        return f"is there more than once. The header has {len(header)} columns."
    hint = f" {_NO_HEADER}"
    if headless:
        return f"is missing among the {len(header)} names of a file without a header.{_close(name, header)}"
    if set(names) & set(header):
        hint = _close(name, header)
    if len(header) == 1:
        hint = f" If {delimiter!r} does not divide its names, say --delimiter, or Files(path, delimiter=...).{hint}"
    return f"is missing. The header has {len(header)} columns.{hint}"


def _close(name: str, header: list[str]) -> str:
    close = [one for one in header if one.strip().casefold() == name.strip().casefold()]
    return f" Did you mean {close[0]!r}?" if close else f" {did_you_mean(name, header)}".rstrip()


def _parsers(
    path: str, file: Any, layout: TextFile, header: list[str], kinds: Mapping[str, Any]
) -> Iterator[Callable[[], Any]]:
    first = not layout.headless
    for block in _blocks(path, file, layout):
        yield partial(_parsed, path, block, layout, header, kinds, first)
        first = False


def _parsed(path: str, block: bytes, layout: TextFile, header: list[str], kinds: Mapping[str, Any], first: bool) -> Any:
    """The records of a block as one batch; what begins with the header is `first`."""
    problem = _problem(block, layout)
    if problem:
        raise SourceError(f"{path} could not be read: {problem}.")
    with engine_errors(f"{path} could not be read", _HINT):
        found = csv_files.read_csv(
            pa.BufferReader(block),
            read_options=csv_files.ReadOptions(
                use_threads=False, block_size=len(block) + 1, column_names=header, skip_rows_after_names=int(first)
            ),
            # In a file of one column an empty line is a record whose field is missing.
            parse_options=csv_files.ParseOptions(
                delimiter=layout.delimiter,
                quote_char=layout.mark or False,
                newlines_in_values=bool(layout.mark) and layout.mark.encode() in block,
                ignore_empty_lines=len(header) > 1,
            ),
            convert_options=csv_files.ConvertOptions(
                column_types=kinds,
                include_columns=list(kinds),
                null_values=[""],
                strings_can_be_null=True,
                quoted_strings_can_be_null=True,
            ),
        )
        return (
            found.combine_chunks().to_batches()[0] if found.num_rows else pa.RecordBatch.from_pylist([], found.schema)
        )


def _blocks(path: str, file: Any, layout: TextFile) -> Iterator[bytes]:
    """The bytes of a CSV file in blocks of whole records.

    A reader that takes a quote inside a field for a letter would read a different number of records after it. Here
    every quote opens or closes: an opening one begins a field, a closing one ends it, and two are one inside. Then what
    one record holds changes nothing for the others as long as the file is read to its end outside of quotes, and a
    record that leaves a quote open is refused in any file of whole records. A last line without an end gets one.
    """
    mark, rest, size = layout.mark.encode(), b"", 0
    while True:
        with engine_errors(f"{path} could not be read", _HINT):
            new = file.read(_BLOCK)
        data = (rest + new) if size else new.removeprefix(_BOM)
        size += len(new)
        if not new:
            break
        end = _last_end(data, mark, 0, len(data))
        if len(data) - end > _LONGEST:
            raise SourceError(f"{path} could not be read: {_problem(data[end:], layout) or _TOO_LONG}.")
        if end:
            yield data[:end]
        rest = data[end:]
    if rest:
        rest += b"" if rest[-1:] in (b"\n", b"\r") else b"\n"
        if mark and rest.count(mark) % 2:
            problem = _problem(rest, layout) or "a quote is not closed"
            raise SourceError(f"{path} could not be read: {problem}.")
        yield rest


def _last_end(data: bytes, mark: bytes, start: int, stop: int) -> int:
    """Where the last record ends that begins at `start` or later and is whole before `stop`; `start` if none is."""
    # A carriage return may be the first of two characters that end a line.
    alone = stop if data[stop : stop + 1] not in (b"", b"\n") else stop - 1
    open_at_end = bool(mark) and data.count(mark, start, stop) % 2 == 1
    found = start
    for line, last in ((b"\n", stop), (b"\r", alone)):
        inside, before = open_at_end ^ (bool(mark) and data[last:stop] == mark), last
        while (place := data.rfind(line, found, before)) >= 0:
            inside ^= bool(mark) and data.count(mark, place, before) % 2 == 1
            if not inside:
                found = place + 1
                break
            before = place
    return found


def _problem(block: bytes, layout: TextFile) -> str:
    """Why a record of a block may hide others; the block begins outside of quotes."""
    mark = layout.mark.encode()
    if mark and mark in block and _is_misplaced(block, layout.delimiter or ",", mark):
        return "a field has a quote inside. Put the field in quotes and write two for one"
    start = 0
    while len(block) - start > _LONGEST:
        end = _last_end(block, mark, start, start + _LONGEST)
        if end == start:
            return _TOO_LONG
        start = end
    return ""


def _is_misplaced(block: bytes, delimiter: str, mark: bytes) -> bool:
    """Whether a quote opens elsewhere than where a field begins, or closes elsewhere than where one ends."""
    data = np.frombuffer(block, np.uint8)
    beside = np.zeros(256, np.bool_)  # what may be before an opening quote and after a closing one
    beside[[*delimiter.encode(), *b"\r\n", *mark]] = True
    quotes = np.flatnonzero(data == mark[0])
    opening, closing = quotes[::2], quotes[1::2]
    opening = opening[1:] if len(opening) and opening[0] == 0 else opening
    closing = closing[:-1] if len(closing) and closing[-1] == len(data) - 1 else closing
    return not (beside.take(data.take(opening - 1)).all() and beside.take(data.take(closing + 1)).all())


def _header(path: str, layout: TextFile) -> tuple[str, list[str]]:
    """The delimiter and the names of the columns: the header decides or what is said, and no record."""
    if layout.headless:
        return layout.columns(b"", path)
    with engine_errors(f"{path} could not be opened"), pa.input_stream(path) as raw:
        start = raw.read(MAX_HEADER)
    return layout.columns(start, path)


# -- JSON -------------------------------------------------------------------------------------------------------


def _json(path: str, names: Sequence[str], request: Request) -> tuple[Iterator[Callable[[], Any]], Any]:
    """Batches of the values under these keys as text.

    A key that a record lacks is a missing entry, even if no record has it: whether one has is a fact about the records.
    """
    import duckdb

    with engine_errors(f"{path} could not be read", _HINT):
        keys = ", ".join(f"{_literal(name)}: 'VARCHAR'" for name in names or ["json"])
        records = "true" if names else "false"  # whole records if no key is asked for
        connection = duckdb.connect(config={"threads": request.threads})
        scan = f"read_json({_local(path)}, format='{_layout(path)}', records={records}, columns={{{keys}}})"
        reader = connection.sql(f"FROM {scan}").to_arrow_reader(min(request.rows, _JSON_ROWS))

    def close() -> None:
        reader.close()
        connection.close()

    return (partial(_same, batch) for batch in reader), close


def _same(batch: Any) -> Any:
    return batch


def _layout(path: str) -> str:
    """An array of records if the first character says so, otherwise one after the other, one a line by the ending."""
    with _opened(path) as text:
        first = text.read(1)
        while first.isspace():
            first = text.read(1)
    if first == "[":
        return "array"
    return "newline_delimited" if any(ending in path.lower() for ending in _LINES) else "unstructured"


@contextmanager
def _opened(path: str) -> Iterator[io.TextIOWrapper]:
    with engine_errors(f"{path} could not be opened"), pa.input_stream(path) as raw:
        # The buffer reaches into the records, whose bytes may be no text.
        yield io.TextIOWrapper(io.BufferedReader(raw), encoding="utf-8-sig", errors="surrogateescape", newline="")


def _local(path: str) -> str:
    """This very file: no pattern that others match, and nothing elsewhere."""
    return _literal(re.sub(r"[*?\[]", r"[\g<0>]", os.path.abspath(path)))  # noqa: PTH100 - resolve() follows links


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
