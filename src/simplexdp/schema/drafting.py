"""A template of a schema from the header and the declared types of a file, without a look at any value."""

from __future__ import annotations

import csv
import gzip
import io
import json
from os import PathLike
from pathlib import Path
from typing import Any

from ..errors import SourceError
from .model import TODO
from .text import Quoted, dump_yaml

MAX_HEADER = 4 * 2**20
"""Bytes in which the header of a text file must end."""

_INTRO = """\
# A draft from the header and the types of {file}: no value was looked at.
# Fill in public facts only, never what you see in the sensitive rows.
#   values: [a, b, c]        the categories; quote text that looks like a number, a date, yes or no
#   edges: [0, 18, 65, 120]  bins from edge to edge
#   bins: 10                 private quantile bins, which cost a share of the budget; with lower: and upper:
# A value that is not declared is refused, unless you add other: cell (with values), or outside: cell or
# outside: nearest (with edges). A missing value is refused, unless you add missing: cell.
version: 1
origin: declared
columns:
"""


def draft(path: str | PathLike[str]) -> str:
    """A YAML template for a CSV, Parquet, Arrow, JSON or NDJSON file (text files also with .gz).

    Columns to be filled in are empty or marked TODO; reading the template before that is an error that names
    the column. A CSV file must have a header line, for the first line is taken to be one.
    """
    file = Path(path)
    try:
        columns = _columns(file)
    except (OSError, EOFError) as error:
        raise SourceError(f"{file} cannot be read: {getattr(error, 'strerror', None) or error}") from None
    if not columns:
        raise SourceError(f"{file} has no columns in its header.")
    return _INTRO.format(file=file.name) + "".join(_entry(name, kind) for name, kind in columns)


def _columns(file: Path) -> list[tuple[str, Any]]:
    """Names, with the Arrow type where the file declares one."""
    suffixes = [suffix.lower() for suffix in file.suffixes]
    zipped = suffixes[-1:] == [".gz"]
    suffix = (suffixes[:-1] if zipped else suffixes)[-1:]
    if suffix in ([".parquet"], [".pq"], [".arrow"], [".feather"], [".ipc"]) and not zipped:
        return _declared(file, parquet=suffix[0].startswith(".p"))
    if suffix in ([".csv"], [".tsv"]):
        return [(name, None) for name in _csv_header(file, zipped)]
    if suffix in ([".json"], [".ndjson"], [".jsonl"]):
        return [(name, None) for name in _json_keys(file, zipped)]
    raise SourceError(
        f"{file.name} must be a .csv, .tsv, .json, .ndjson, .jsonl (also with .gz), .parquet or .arrow file."
    )


def _declared(file: Path, *, parquet: bool) -> list[tuple[str, Any]]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        if parquet:
            schema = pq.read_schema(file)
        else:
            with pa.memory_map(str(file)) as source:
                schema = pa.ipc.open_file(source).schema
    except pa.ArrowInvalid:
        raise SourceError(f"{file} is no {'Parquet' if parquet else 'Arrow'} file, or it is damaged.") from None
    return [(field.name, field.type) for field in schema]


def _start(file: Path, zipped: bool) -> str:
    """The start of a text file, as whole lines if there is a line break."""
    with file.open("rb") as stream:
        raw = gzip.GzipFile(fileobj=stream).read(MAX_HEADER) if zipped else stream.read(MAX_HEADER)
    if len(raw) == MAX_HEADER:
        raw = raw[: raw.rfind(b"\n") + 1]
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise SourceError(f"{file} must be UTF-8 text.") from None


def _csv_header(file: Path, zipped: bool) -> list[str]:
    text = _start(file, zipped)
    first = text.partition("\n")[0]
    delimiter = max(",;\t|", key=first.count)
    return next(csv.reader(io.StringIO(text), delimiter=delimiter), [])


def _json_keys(file: Path, zipped: bool) -> list[str]:
    """The keys of the first record; its values are parsed over and dropped."""
    text = _start(file, zipped).lstrip()
    text = text[1:].lstrip() if text.startswith("[") else text
    try:
        record, _ = json.JSONDecoder().raw_decode(text)
    except (ValueError, RecursionError):
        record = None
    if not isinstance(record, dict):
        # The parser's own message may quote the data.
        raise SourceError(f"{file} must start with a JSON object, alone, in a list or on its own line.")
    return list(record)


def _entry(name: str, kind: Any) -> str:
    """The lines of one column."""
    quoted = dump_yaml(Quoted(name), width=10**9).strip()
    return f"  - name: {quoted}\n    {_blank(kind)}\n"


def _blank(kind: Any) -> str:
    if kind is None:
        return f"kind: {TODO}  # replace this line by values, edges or bins"
    from pyarrow import types

    if types.is_dictionary(kind):
        kind = kind.value_type
    shown = " ".join(str(kind).split())
    if types.is_boolean(kind):
        return "values: [false, true]"
    if types.is_integer(kind):
        return f"edges: []  # {shown}: or values, or bins with lower and upper"
    if types.is_floating(kind) or types.is_decimal(kind):
        return f"edges: []  # {shown}: or bins with lower and upper"
    if types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind):
        return f"values: []  # {shown}"
    if types.is_date(kind):
        return f"values: []  # {shown}: days as 2024-01-31"
    return f"kind: {TODO}  # {shown} has no categories or bins: convert or leave out this column"
