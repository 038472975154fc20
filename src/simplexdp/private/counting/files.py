"""Parquet, CSV and JSON files, one or many."""

from __future__ import annotations

import glob
import os
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from ...errors import SourceError
from ...lazy import pa, pq
from ...schema import Schema
from ...schema.text import TextFile
from .source import Part, Piece, Request, Source, engine_errors

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
_DECODED = 1 << 17  # rows of a Parquet file at once: what decoding holds
_GROUP_CELLS = 1 << 26
"""Values of a row group, above which it is not one thread's: its cell numbers may be held at once. Not tuned."""


@dataclass(frozen=True)
class Files:
    """Files whose format or delimiter their names do not tell.

    Args:
        paths: a path, folder or glob, or several.
        format: "parquet", "csv" or "json" (an array of records or one a line); by default from the ending.
        delimiter: of a CSV file; by default the one of comma, semicolon, tab and bar that its header has most.
        encoding: of a CSV file: utf-8, or one where each byte is a character, such as latin-1.
        quote: of a CSV file: one character, a double quote by default, or an empty text for none.
        header: of a CSV file: False if its first record is one like all others; then its columns have `names`.
        names: of a CSV file without a header: all of them, in order; by default the columns of the schema.
    """

    paths: str | os.PathLike[str] | Sequence[str | os.PathLike[str]]
    format: str | None = None
    delimiter: str | None = None
    encoding: str | None = None
    quote: str | None = None
    header: bool | None = None
    names: Sequence[str] | None = None

    @property
    def layout(self) -> TextFile:
        """How text files among them are written."""
        names = None if self.names is None else tuple(self.names)
        return TextFile(
            delimiter=self.delimiter, encoding=self.encoding, quote=self.quote, header=self.header, names=names
        )


def with_layout(source: Any, schema: Schema | None) -> Any:
    """The source, read as a schema says that its files are written, where it does not say so itself."""
    if schema is None or (schema.file is None and not isinstance(source, Files)):
        return source
    if isinstance(source, (str, os.PathLike)) or are_paths(source):
        source = Files(source)
    if not isinstance(source, Files):
        return source
    return replace(source, **source.layout.or_else(schema.file).named(schema.names).model_dump())


def are_paths(source: Any) -> bool:
    """Whether a source is a list of paths."""
    if isinstance(source, (str, bytes)) or not isinstance(source, Sequence) or not len(source):
        return False
    return all(isinstance(item, (str, os.PathLike)) for item in source)


def open_files(files: Files, request: Request) -> Source:
    """All files of the request as one source, each a part of its own so that errors name it."""
    paths = expand(files.paths)
    forms = [files.format or _format(path) for path in paths]
    for form in set(forms):
        if form not in ("parquet", "csv", "json"):
            raise SourceError(f"the format {form!r} is not one of 'parquet', 'csv' and 'json'.")
    rows = _rows(paths) if set(forms) == {"parquet"} else None
    parts = _parts(paths, forms, files.layout, request)
    return Source(parts=parts, rows=rows, close=parts.close)


def forms(files: Files) -> list[str]:
    """The format of each file."""
    return [files.format or _format(path) for path in expand(files.paths)]


def count_rows(files: Files, threads: int = 1) -> int:
    """The number of records, from the metadata of Parquet files; text files are split into records for it."""
    paths = expand(files.paths)
    forms = [files.format or _format(path) for path in paths]
    parquet = [path for path, form in zip(paths, forms, strict=True) if form == "parquet"]
    total = _rows(parquet)
    for path, form in zip(paths, forms, strict=True):
        if form != "parquet":
            from .text import count_text

            total += count_text(path, form, files.layout, threads)
    return total


def column_names(files: Files) -> list[str]:
    """The names of the columns of the first file."""
    path = expand(files.paths)[0]
    form = files.format or _format(path)
    if form == "parquet":
        with engine_errors(f"{path} is not a readable Parquet file", "It may be damaged or truncated."):
            return list(pq.read_schema(path).names)
    from .text import text_columns

    return text_columns(path, form, files.layout)


def _parts(paths: list[str], forms: list[str], layout: TextFile, request: Request) -> Generator[Part, None, None]:
    spread = request.threads > 1 and _groups(paths, forms) >= request.threads
    for path, form in zip(paths, forms, strict=True):
        if form == "parquet":
            with _open_parquet(path, request) as file:
                yield _parquet_part(path, file, request, spread=spread)
            continue
        from .text import open_text  # Parquet files do not need DuckDB

        source = open_text(path, form, layout, request)
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
        metadata = file.metadata
        file.close()
        return pq.ParquetFile(path, read_dictionary=strings, metadata=metadata)


def _parquet_part(path: str, file: Any, request: Request, *, spread: bool) -> Part:
    schema = file.schema_arrow
    wanted = set(request.names)
    present = [field.name for field in schema if field.name in wanted]
    if len(present) < len(wanted):
        return Part(label=path, schema=schema, batches=iter(()))  # the encoder names what is missing
    narrow = pa.schema([schema.field(index) for index, name in enumerate(schema.names) if name in wanted])
    metadata = file.metadata
    groups = range(metadata.num_row_groups)
    longest = max((metadata.row_group(group).num_rows for group in groups), default=0)
    batches: Iterator[Any]
    if spread and longest * len(present) <= _GROUP_CELLS:
        texts = [field.name for field in narrow if pa.types.is_dictionary(field.type)]

        def read(group: int) -> Iterator[Any]:
            """A row group, by a reader of its own."""
            with pq.ParquetFile(path, read_dictionary=texts, metadata=metadata) as own:
                yield from own.iter_batches(
                    min(request.rows, _DECODED), row_groups=[group], columns=present, use_threads=False
                )

        batches = (Piece(read=partial(read, group)) for group in groups)
    else:
        batches = file.iter_batches(
            batch_size=min(request.rows, _DECODED), columns=present, use_threads=request.threads > 1
        )
    return Part(label=path, schema=narrow, batches=batches)


def _groups(paths: list[str], forms: list[str]) -> int:
    """Row groups of Parquet files, which are read apart."""
    total = 0
    for path, form in zip(paths, forms, strict=True):
        if form == "parquet":
            with engine_errors(f"{path} is not a readable Parquet file", "It may be damaged or truncated."):
                total += pq.read_metadata(path).num_row_groups
    return total


def _rows(paths: list[str]) -> int:
    total = 0
    for path in paths:
        with engine_errors(f"{path} is not a readable Parquet file", "It may be damaged or truncated."):
            total += pq.read_metadata(path).num_rows
    return total


def _is_text(kind: Any) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def expand(paths: Any) -> list[str]:
    """The files of paths, folders and globs, in order, each once: hidden ones and those that begin with _ are no data.

    A file that is reached by several paths, by links or by another spelling would otherwise count its records several
    times.
    """
    given = [paths] if isinstance(paths, (str, os.PathLike)) else list(paths)
    found: dict[tuple[object, ...], str] = {}
    for item in given:
        path = os.fspath(item)
        with engine_errors(f"{path} could not be looked through"):
            matches = _matches(path)
            for match in matches:
                found.setdefault(real_file(match), match)
        if not matches:
            raise SourceError(f"{path}: there is no such file, and no file matches it.")
    return list(found.values())


def real_file(path: str) -> tuple[object, ...]:
    """What is the same for all names of a file: device and inode, which follow symbolic and hard links."""
    status = Path(path).stat()
    return (status.st_dev, status.st_ino) if status.st_ino else (os.path.realpath(path),)


def _matches(path: str) -> list[str]:
    if Path(path).is_dir():
        inside = sorted(str(file) for file in Path(path).rglob("*") if file.is_file())
        return [file for file in inside if not _is_hidden(Path(file).relative_to(path)) and _ending(file)]
    if Path(path).exists():
        return [path]
    found = glob.glob(path, recursive=True)  # noqa: PTH207 - absolute globs too
    return sorted(match for match in found if Path(match).is_file())


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
