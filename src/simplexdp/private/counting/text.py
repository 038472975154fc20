"""CSV and JSON files: every field is read as the declared type and nothing is guessed from the records.

What a record counts as must not depend on the others. So types, names, delimiters and the layout of a file are never
found out from its records, a field that is not of the declared type is that field's affair, and a record ends where
the rules say and nowhere else.
"""

from __future__ import annotations

import io
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from ...errors import SourceError
from ...lazy import csv_files, pa
from ...schema.never import did_you_mean
from ...schema.text import MAX_HEADER, TextFile
from .fields import field_type, fields
from .source import Columns, MixedBatch, Part, Request, Source, engine_errors

_LINES = (".jsonl", ".ndjson")
_HINT = "It may be damaged, or have rows of different lengths."
_NO_HEADER = "If the file has no header, name its columns with --names or Files(path, names=[...])."
_LONGEST = 2 << 20  # bytes of a record of a CSV file
_BOM = b"\xef\xbb\xbf"


def open_text(path: str, form: str, layout: TextFile, request: Request) -> Source:
    """The rows of a CSV or JSON file."""
    names = request.names
    specs = {spec.name: spec for spec in request.specs}
    if form == "csv":
        raw, close = _csv(path, layout, names)
    else:
        raw, close = _json(path, names, request.rows)
    schema = Columns(tuple(names), tuple(field_type(specs.get(name)) for name in names))
    codec = layout.codec if form == "csv" else "utf-8"
    batches = (
        MixedBatch(names, [fields(specs.get(name), batch.column(place), codec) for place, name in enumerate(names)])
        for batch in raw
    )
    return Source(parts=iter([Part(label=path, schema=schema, batches=batches)]), close=close)


def count_text(path: str, form: str, layout: TextFile) -> int:
    """The number of records of a CSV or JSON file; no field is converted."""
    raw, close = _csv(path, layout, []) if form == "csv" else _json(path, [], 1 << 17)
    try:
        with engine_errors(f"{path} could not be read", _HINT):
            return sum(batch.num_rows for batch in raw)
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


def _csv(path: str, layout: TextFile, names: Sequence[str]) -> tuple[Iterator[Any], Any]:
    """Batches of the named columns as bytes, or of any column if none is named."""
    delimiter, header = _header(path, layout)
    for name in names:
        if header.count(name) != 1:
            raise SourceError(
                f"{path}: column {name!r} {_absent(name, names, header, delimiter, headless=layout.headless)}"
            )
    if len(set(header)) != len(header):
        raise SourceError(f"{path}: the header names a column twice. {_NO_HEADER}")
    if not header:
        raise SourceError(f"{path}: the file has no header.")
    with engine_errors(f"{path} could not be opened"):
        file = _Records(pa.input_stream(path), delimiter, layout.mark)
    written = layout.model_copy(update={"delimiter": delimiter, "quote": layout.mark})
    return _csv_batches(path, file, written, header, list(names) or header[:1]), file.close


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


def _csv_batches(path: str, file: _Records, layout: TextFile, header: list[str], names: list[str]) -> Iterator[Any]:
    # Arrow takes names for UTF-8: in other encodings they are given, and the header is passed over as a record.
    given: dict[str, Any] = {}
    if layout.headless or layout.codec != "utf-8":
        given = {"column_names": header, "skip_rows_after_names": 0 if layout.headless else 1}
    with engine_errors(f"{path} could not be read", _HINT):
        reader = csv_files.open_csv(
            file,
            read_options=csv_files.ReadOptions(block_size=_LONGEST, **given),
            # In a file of one column an empty line is a record whose field is missing.
            parse_options=csv_files.ParseOptions(
                delimiter=layout.delimiter,
                quote_char=layout.mark or False,
                newlines_in_values=bool(layout.mark),
                ignore_empty_lines=len(header) > 1,
            ),
            convert_options=csv_files.ConvertOptions(
                column_types=dict.fromkeys(names, pa.binary()),
                include_columns=names,
                null_values=[""],
                strings_can_be_null=True,
                quoted_strings_can_be_null=True,
            ),
        )
    for batch in reader:
        file.check(path, at_end=False)
        yield batch
    file.check(path, at_end=True)


class _Records:
    """A CSV file that is read through, while its quotes and the lengths of its records are looked at.

    A reader that takes a quote inside a field for a letter would read a different number of records after it. Here
    every quote opens or closes: an opening one begins a field, a closing one ends it, and two are one inside. Then what
    one record holds changes nothing for the others as long as the file is read to its end outside of quotes, and a
    record that leaves a quote open is refused in any file of whole records.
    """

    def __init__(self, file: Any, delimiter: str, mark: str = '"') -> None:
        self._file, self._mark = file, mark.encode()
        self._beside = np.zeros(256, np.bool_)  # what may be before an opening quote and after a closing one
        self._beside[[ord(delimiter), *b"\r\n", *self._mark]] = True
        self._last, self._is_inside, self._length = b"\n", False, 0
        self._is_first, self._ahead, self._problem = True, b"", ""
        self.closed = False

    def read(self, size: int) -> bytes:
        """The next bytes, nothing after a problem; a last line without an end gets one, for which there is room."""
        if self._problem:
            return b""
        block = self._file.read(max(1, size - 1)) if self._is_first else self._ahead
        self._ahead = self._file.read(max(1, size - 1)) if block else b""
        if block and not self._ahead and block[-1:] not in (b"\n", b"\r"):
            block += b"\n"
        if block:
            self._look(block.removeprefix(_BOM) if self._is_first else block)
            self._is_first = False
        return block

    def close(self) -> None:
        """Close the file."""
        self.closed = True
        self._file.close()

    def _look(self, block: bytes) -> None:
        data = np.frombuffer(self._last + block, np.uint8)
        quotes = np.flatnonzero(data[1:] == self._mark[0]) + 1 if self._mark else np.empty(0, np.intp)
        opening = (np.arange(len(quotes)) % 2 == 0) != self._is_inside
        before = data[quotes[opening] - 1]
        closing = quotes[~opening]
        if self._last == self._mark and not self._is_inside:  # it closed a field at the end of the block before
            closing = np.append(0, closing)
        after = data[closing[closing + 1 < len(data)] + 1]
        if not (self._beside[before].all() and self._beside[after].all()):
            self._problem = "a field has a quote inside. Put the field in quotes and write two for one"
        breaks = np.flatnonzero((data == ord("\n")) | (data == ord("\r")))
        breaks = breaks[(np.searchsorted(quotes, breaks) % 2 == 1) == self._is_inside]
        ends = np.concatenate([[-self._length], breaks, [len(data) - 1]])
        if np.diff(ends).max() > _LONGEST:
            self._problem = "a record is longer than 2 MiB"
        self._length = int(len(data) - 1 - (breaks[-1] if len(breaks) else -self._length))
        self._is_inside ^= bool(len(quotes) % 2)
        self._last = block[-1:]

    def check(self, path: str, *, at_end: bool) -> None:
        """Refuse the file if a record in it may have hidden others."""
        problem = self._problem or ("a quote is not closed" if at_end and self._is_inside else "")
        if problem:
            raise SourceError(f"{path} could not be read: {problem}.")


def _header(path: str, layout: TextFile) -> tuple[str, list[str]]:
    """The delimiter and the names of the columns: the header decides or what is said, and no record."""
    if layout.headless:
        return layout.columns(b"", path)
    with engine_errors(f"{path} could not be opened"), pa.input_stream(path) as raw:
        start = raw.read(MAX_HEADER)
    return layout.columns(start, path)


# -- JSON -------------------------------------------------------------------------------------------------------


def _json(path: str, names: Sequence[str], rows: int) -> tuple[Iterator[Any], Any]:
    """Batches of the values under these keys as text.

    A key that a record lacks is a missing entry, even if no record has it: whether one has is a fact about the records.
    """
    import duckdb

    with engine_errors(f"{path} could not be read", _HINT):
        keys = ", ".join(f"{_literal(name)}: 'VARCHAR'" for name in names or ["json"])
        records = "true" if names else "false"  # whole records if no key is asked for
        connection = duckdb.connect()
        scan = f"read_json({_local(path)}, format='{_layout(path)}', records={records}, columns={{{keys}}})"
        reader = connection.sql(f"FROM {scan}").to_arrow_reader(rows)

    def close() -> None:
        reader.close()
        connection.close()

    return iter(reader), close


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
