"""Schemas from tables: a draft from header and declared types alone, without a look at any value; or columns read off
the rows, for public data, for the paper's reproduction, and for those who give up privacy.

What the second part returns depends on the rows it is given, and is marked so. `Schema` decides who may ask.
"""

from __future__ import annotations

import gzip
import json
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ..budget import check_not_negative, check_whole
from ..errors import InvalidArgument, SchemaError, SourceError
from .columns import Categories, Keep, Numeric, Origin
from .templates import suggested
from .text import MAX_HEADER, Quoted, TextFile, dump_yaml

TODO = "TODO"
"""What a draft says where the user has to decide on a column."""

_INTRO = """\
# A draft from the header and the types of {file}: no value was looked at.
# Replace each TODO by public facts only, never by what you see in the sensitive rows. A column may be
#   age-5                                a template; more of them: simplexdp schema templates
#   [a, b, c]                            its values; quote text that looks like a number, a date, yes or no
#   {{edges: [0, 18, 65, 120]}}            bins from edge to edge; with integer: true for whole numbers
#   {{bins: 10, lower: 0, upper: 100}}     private quantile bins, which cost a share of the budget
# and say transform: [trim, fold, {{map: {{m: male}}}}] (spellings), other: cell or outside: nearest (what is not
# declared is refused otherwise) and missing: cell (so is what is missing). A column left as TODO cannot be used.
columns:
"""


def draft(path: str | PathLike[str], layout: TextFile | None = None) -> str:
    """A YAML template for a CSV, Parquet, Arrow, JSON or NDJSON file (text files also with .gz).

    Columns to be filled in say TODO, beside a template that their name or type suggests; until then they cannot be
    used. The first line of a CSV file names its columns, unless `layout` does, which says how the file is written.
    """
    file = Path(path)
    layout = TextFile() if layout is None else layout
    try:
        columns = _columns(file, layout)
    except (OSError, EOFError) as error:
        raise SourceError(f"{file} cannot be read: {getattr(error, 'strerror', None) or error}") from None
    if not columns:
        raise SourceError(f"{file} has no columns in its header.")
    said = {key: value for key, value in layout.model_dump().items() if value is not None and key != "names"}
    said |= {"header": False} if layout.headless else {}  # the columns of the draft are in the order of the names
    top = f"file: {dump_yaml(said, width=10**9, flow=True).strip()}\n" if said else ""
    return _INTRO.format(file=file.name).replace("columns:\n", f"{top}columns:\n") + "".join(
        _entry(name, kind) for name, kind in columns
    )


def header(path: str | PathLike[str], layout: TextFile | None = None) -> list[tuple[str, str, str | None]]:
    """Name, declared type (empty where none is) and suggested template of each column; no value is looked at."""
    file = Path(path)
    try:
        columns = _columns(file, TextFile() if layout is None else layout)
    except (OSError, EOFError) as error:
        raise SourceError(
            f"{file} cannot be read: {getattr(error, 'strerror', None) or type(error).__name__}"
        ) from None
    return [
        (name, "" if kind is None else " ".join(str(kind).split()), _template(name, kind)) for name, kind in columns
    ]


def _template(name: str, kind: Any) -> str | None:
    """The template that the name suggests, where its type does not speak against it."""
    from pyarrow import types

    return None if kind is not None and (types.is_boolean(kind) or types.is_nested(kind)) else suggested(name)


def _columns(file: Path, layout: TextFile) -> list[tuple[str, Any]]:
    """Names, with the Arrow type where the file declares one."""
    suffixes = [suffix.lower() for suffix in file.suffixes]
    zipped = suffixes[-1:] == [".gz"]
    suffix = (suffixes[:-1] if zipped else suffixes)[-1:]
    if suffix in ([".parquet"], [".pq"], [".arrow"], [".feather"], [".ipc"]) and not zipped:
        return _declared(file, parquet=suffix[0].startswith(".p"))
    if suffix in ([".csv"], [".tsv"]):
        return [(name, None) for name in layout.columns(_start(file, zipped), str(file))[1]]
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


def _start(file: Path, zipped: bool) -> bytes:
    """The start of a text file."""
    with file.open("rb") as stream:
        return gzip.GzipFile(fileobj=stream).read(MAX_HEADER) if zipped else stream.read(MAX_HEADER)


def _json_keys(file: Path, zipped: bool) -> list[str]:
    """The keys of the first record; its values are parsed over and dropped."""
    try:
        text = _whole_lines(_start(file, zipped)).decode("utf-8-sig").lstrip()
    except UnicodeDecodeError:
        raise SourceError(f"{file} must be UTF-8 text.") from None
    text = text[1:].lstrip() if text.startswith("[") else text
    try:
        record, _ = json.JSONDecoder().raw_decode(text)
    except (ValueError, RecursionError):
        record = None
    if not isinstance(record, dict):
        # The parser's own message may quote the data.
        raise SourceError(f"{file} must start with a JSON object, alone, in a list or on its own line.")
    return list(record)


def _whole_lines(raw: bytes) -> bytes:
    return raw[: raw.rfind(b"\n") + 1] if len(raw) == MAX_HEADER else raw


def _entry(name: str, kind: Any) -> str:
    """The line of one column."""
    quoted = dump_yaml(Quoted(name), width=10**9).strip()
    if kind is not None:
        from pyarrow import types

        kind = kind.value_type if types.is_dictionary(kind) else kind
        if types.is_boolean(kind):
            return f"  {quoted}: [false, true]\n"
    hints = [hint for hint in (_by_type(kind), suggested(name)) if hint]
    return f"  {quoted}: {TODO}{'  # ' if hints else ''}{'; '.join(hints)}\n"


def _by_type(kind: Any) -> str:
    """What the type of a column suggests."""
    if kind is None:
        return ""
    from pyarrow import types

    shown = " ".join(str(kind).split())
    if types.is_integer(kind):
        return f"{shown}: {{edges: [...], integer: true}} or values"
    if types.is_floating(kind) or types.is_decimal(kind):
        return f"{shown}: {{edges: [...]}}, or bins with lower and upper"
    if types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind):
        return f"{shown}: values"
    if types.is_date(kind) or types.is_timestamp(kind):
        return f"{shown}: month, weekday, or {{edges: [2020-01-01, 2021-01-01]}}"
    return f"{shown} has no categories or bins: convert or leave out this column"


# -- from rows -------------------------------------------------------------------------------------------------------


def read_public(path: str | PathLike[str], layout: TextFile) -> Any:
    """All rows of a file that is stated to be public, as an Arrow table; types of text files are guessed from them."""
    import pyarrow as pa
    import pyarrow.csv
    import pyarrow.json
    import pyarrow.parquet as pq

    file = Path(path)
    names = [name for name, _ in _columns(file, layout)] if file.exists() else []
    ending = file.name.lower().removesuffix(".gz").rpartition(".")[2]
    try:
        if ending in ("parquet", "pq"):
            return pq.read_table(file)
        with pa.input_stream(str(file)) as stream:
            if ending in ("csv", "tsv"):
                delimiter, names = layout.columns(_start(file, file.suffix.lower() == ".gz"), str(file))
                return pyarrow.csv.read_csv(
                    stream,
                    pyarrow.csv.ReadOptions(
                        column_names=names,
                        skip_rows_after_names=0 if layout.headless else 1,
                        encoding=layout.codec or "utf-8",
                    ),
                    pyarrow.csv.ParseOptions(
                        delimiter=delimiter, quote_char=layout.mark or False, newlines_in_values=bool(layout.mark)
                    ),
                    pyarrow.csv.ConvertOptions(strings_can_be_null=True),
                )
            if ending in ("json", "ndjson", "jsonl"):
                text = stream.read().lstrip()
                lines = b"\n".join(json.dumps(one).encode() for one in json.loads(text)) if text[:1] == b"[" else text
                return pyarrow.json.read_json(pa.BufferReader(lines))
        with pa.memory_map(str(file)) as source:
            return pa.ipc.open_file(source).read_all()
    except (OSError, ValueError, pa.ArrowException) as error:
        raise SourceError(
            f"{file} cannot be read: {getattr(error, 'strerror', None) or type(error).__name__}"
        ) from None


Floats = npt.NDArray[np.float64]

MAX_DISTINCT = 30
"""Numeric columns with at most this many distinct values stay categorical."""


def as_table(frame: object) -> Any:
    """The frame as a pyarrow table, if it exports an Arrow stream."""
    import pyarrow as pa

    if isinstance(frame, pa.Table):
        return frame
    if not hasattr(frame, "__arrow_c_stream__"):
        hint = "pandas, polars, pyarrow and DuckDB tables do."
        raise SchemaError("frame", "a table that exports an Arrow stream", got=type(frame).__name__, hint=hint)
    return pa.RecordBatchReader.from_stream(frame).read_all()


def derive_columns(
    frame: object, *, bins: int, max_distinct: int, other: Keep, origin: Origin, frequent: float | None = None
) -> list[Categories | Numeric]:
    """One column for each of the table's: sorted categories, or quantile bins for numbers with many values.

    Args:
        frame: the table.
        bins: number of quantile bins.
        max_distinct: numeric columns with at most this many distinct values stay categorical.
        other: what happens to values that this table does not have.
        origin: what the table is, with which every column is marked.
        frequent: above `max_distinct`, values that make up more than this share keep a cell of their own.
    """
    try:
        bins, max_distinct = check_whole("bins", bins, 2), check_whole("max_distinct", max_distinct, 0)
        frequent = None if frequent is None else check_not_negative("frequent", frequent)
    except InvalidArgument as error:
        raise SchemaError(error.name, error.expectation) from None
    table = as_table(frame)
    columns: list[Categories | Numeric] = []
    for field, column in zip(table.schema, table.columns, strict=True):
        values, missing = _present(field.name, column)
        keep: Keep = "cell" if missing else "refuse"
        if isinstance(values, list):
            columns.append(Categories(values, name=field.name, other=other, missing=keep))
        else:
            columns.append(_numeric(field.name, values, bins, max_distinct, frequent, other, keep))
    return [column.stamped(origin) for column in columns]


def _present(name: str, column: Any) -> tuple[list[Any] | npt.NDArray[Any], bool]:
    """Sorted categories, or an array of numbers without the missing ones, and whether some are missing."""
    import pyarrow as pa
    import pyarrow.compute as pc
    from pyarrow import types

    coded = types.is_dictionary(column.type)
    kind = column.type.value_type if coded else column.type
    if _is_text(kind) or types.is_date(kind):
        # A dictionary may list values that no row has, and missing ones: only what rows have counts.
        found = set(pc.unique(column.cast(pa.date32()) if types.is_date64(kind) else column).to_pylist())
        if not found - {None}:
            raise SchemaError(f"frame[{name!r}]", "a column with at least one value that is not missing")
        return sorted(found - {None}), None in found
    column = column.cast(kind) if coded else column
    missing = column.null_count > 0
    if types.is_boolean(kind):
        return [False, True], missing
    if types.is_integer(kind):
        return column.drop_null().to_numpy(), missing
    if types.is_floating(kind) or types.is_decimal(kind):
        numbers = column.drop_null().cast(pa.float64()).to_numpy()
        return numbers[np.isfinite(numbers)], missing or bool(np.isnan(numbers).any())
    hint = "Leave the column out, or turn it into text, numbers or dates."
    raise SchemaError(f"frame[{name!r}]", "of text, numbers, booleans or dates", got=str(kind), hint=hint)


def _is_text(kind: Any) -> bool:
    from pyarrow import types

    return bool(types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind))


def _numeric(
    name: str,
    numbers: npt.NDArray[Any],
    bins: int,
    max_distinct: int,
    frequent: float | None,
    other: Keep,
    missing: Keep,
) -> Categories | Numeric:
    distinct, counts = np.unique(numbers, return_counts=True)
    if not len(distinct):
        raise SchemaError(f"frame[{name!r}]", "a column with at least one finite value")
    if len(distinct) <= max(max_distinct, 1):
        if distinct.dtype.kind in "iu":
            return Categories(distinct.tolist(), name=name, other=other, missing=missing)
        return Numeric(own=distinct.tolist(), name=name, outside=other, missing=missing)
    own: list[float] = []
    rest = numbers.astype(np.float64)
    if frequent is not None:
        often = distinct[counts > frequent * len(numbers)]
        own, rest = often.astype(np.float64).tolist(), rest[~np.isin(numbers, often)]
    if not len(rest):
        return Numeric(own=own, name=name, outside=other, missing=missing)
    return Numeric(quantile_edges(rest, bins), own=own, name=name, outside="nearest", missing=missing)


def quantile_edges(numbers: Floats, bins: int) -> list[float]:
    """Edges that are values of the data and split it into about equal parts; fewer where values repeat."""
    ordered, n = np.sort(numbers), len(numbers)
    # The smallest value with at least k / bins of the rows at or below it; whole numbers do not round.
    edges = np.unique(ordered[[max(-(-n * k // bins) - 1, 0) for k in range(bins + 1)]])
    if len(edges) == 1:  # one value fills the whole range: one narrow bin holds it
        edges = np.array([edges[0], np.nextafter(edges[0], np.inf)])
    return [float(edge) for edge in edges]
