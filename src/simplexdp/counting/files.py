"""Parquet, CSV and JSON files, one or many."""

from __future__ import annotations

import glob
import os
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from ..errors import SourceError
from .source import Part, Request, Source, engine_errors

_FORMATS = {
    ".parquet": "parquet",
    ".pq": "parquet",
    ".csv": "csv",
    ".tsv": "csv",
    ".json": "json",
    ".jsonl": "json",
    ".ndjson": "json",
}
_PACKED = (".gz", ".zst", ".bz2")


@dataclass(frozen=True)
class Files:
    """Files whose format or delimiter their names do not tell.

    Args:
        paths: a path, folder or glob, or several.
        format: "parquet", "csv" or "json" (an array of records or one a line); by default from the ending.
        delimiter: of a CSV file; by default a comma, for .tsv a tab.
    """

    paths: str | os.PathLike[str] | Sequence[str | os.PathLike[str]]
    format: str | None = None
    delimiter: str | None = None


def open_files(files: Files, request: Request) -> Source:
    """All files of the request as one source, each a part of its own so that errors name it."""
    paths = _expand(files.paths)
    forms = [files.format or _format(path) for path in paths]
    for form in set(forms):
        if form not in ("parquet", "csv", "json"):
            raise SourceError(f"the format {form!r} is not one of 'parquet', 'csv' and 'json'.")
    rows = _rows(paths) if set(forms) == {"parquet"} else None
    parts = _parts(paths, forms, files.delimiter, request)
    return Source(parts=parts, rows=rows, close=parts.close)


def column_names(files: Files) -> list[str]:
    """The names of the columns of the first file."""
    path = _expand(files.paths)[0]
    form = files.format or _format(path)
    if form == "parquet":
        with engine_errors(f"{path} is not a readable Parquet file", "It may be damaged or truncated."):
            return list(pq.read_schema(path).names)
    from .duckdb import text_columns

    return text_columns(path, form, files.delimiter or _delimiter(path))


def _parts(paths: list[str], forms: list[str], delimiter: str | None, request: Request) -> Generator[Part, None, None]:
    for path, form in zip(paths, forms, strict=True):
        if form == "parquet":
            with _open_parquet(path, request) as file:
                yield _parquet_part(path, file, request)
            continue
        from .duckdb import open_text  # Parquet files do not need DuckDB

        source = open_text(path, form, delimiter or _delimiter(path), request)
        try:
            yield from source.parts
        finally:
            source.close()


def _open_parquet(path: str, request: Request) -> Any:
    """Strings come as dictionaries, as Parquet stores them; that is six times faster to decode."""
    with engine_errors(f"{path} is not a readable Parquet file", "It may be damaged or truncated."):
        file = pq.ParquetFile(path)
        kinds = {field.name: field.type for field in file.schema_arrow}
        strings = [name for name in request.names if name in kinds and _is_text(kinds[name])]
        if not strings:
            return file
        file.close()
        return pq.ParquetFile(path, read_dictionary=strings)


def _parquet_part(path: str, file: Any, request: Request) -> Part:
    schema = file.schema_arrow
    wanted = set(request.names)
    present = [field.name for field in schema if field.name in wanted]
    if len(present) < len(wanted):
        return Part(label=path, schema=schema, batches=iter(()))  # the encoder names what is missing
    narrow = pa.schema([schema.field(index) for index, name in enumerate(schema.names) if name in wanted])
    return Part(label=path, schema=narrow, batches=file.iter_batches(batch_size=request.rows, columns=present))


def _rows(paths: list[str]) -> int:
    total = 0
    for path in paths:
        with engine_errors(f"{path} is not a readable Parquet file", "It may be damaged or truncated."):
            total += pq.read_metadata(path).num_rows
    return total


def _is_text(kind: Any) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _expand(paths: Any) -> list[str]:
    """Globs and folders written out, in order; hidden files and those that begin with _ are no data."""
    given = [paths] if isinstance(paths, (str, os.PathLike)) else list(paths)
    found: list[str] = []
    for item in given:
        path = os.fspath(item)
        with engine_errors(f"{path} could not be looked through"):
            matches = _matches(path)
        if not matches:
            raise SourceError(f"{path}: there is no such file, and no file matches it.")
        found += matches
    return found


def _matches(path: str) -> list[str]:
    if Path(path).is_dir():
        inside = sorted(str(file) for file in Path(path).rglob("*") if file.is_file())
        return [file for file in inside if not _is_hidden(Path(file).relative_to(path)) and _ending(file)]
    if Path(path).exists():
        return [path]
    found = glob.glob(path, recursive=True)  # noqa: PTH207 - absolute globs too
    return sorted(match for match in found if Path(match).is_file())


def _delimiter(path: str) -> str:
    return "\t" if ".tsv" in Path(path).suffixes else ","


def _is_hidden(path: Path) -> bool:
    return any(step.startswith(("_", ".")) for step in path.parts)


def _ending(path: str) -> str | None:
    suffixes = [suffix.lower() for suffix in Path(path).suffixes]
    if suffixes and suffixes[-1] in _PACKED:
        suffixes.pop()
    return _FORMATS.get(suffixes[-1]) if suffixes else None


def _format(path: str) -> str:
    form = _ending(path)
    if form is None:
        raise SourceError(
            f"{path}: its ending is none of {', '.join(_FORMATS)}. Say Files({path!r}, format='csv') or another."
        )
    return form
