"""Anything that speaks Arrow: tables, batches, readers, datasets, and every frame that exports a stream."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any

import pyarrow as pa

from ..errors import SourceError
from .source import Part, Request, Source, engine_errors


def open_table(table: Any, request: Request) -> Source:
    """A pyarrow Table or RecordBatch."""
    if isinstance(table, pa.RecordBatch):
        return _one(Part(label="the record batch", schema=table.schema, batches=iter([table])), table.num_rows)
    narrow = table.select(_present(table.schema, request))
    batches = narrow.to_batches(max_chunksize=request.rows)
    return _one(Part(label="the Arrow table", schema=narrow.schema, batches=iter(batches)), table.num_rows)


def open_dataset(dataset: Any, request: Request) -> Source:
    """A pyarrow dataset; only the columns that are needed are read."""
    scanner = dataset.scanner(columns=_present(dataset.schema, request), batch_size=request.rows)
    return open_reader(scanner.to_reader(), "the Arrow dataset")


def open_stream(source: Any, request: Request) -> Source:
    """Whatever has `__arrow_c_stream__`."""
    kind = type(source).__name__
    label = f"the {type(source).__module__.partition('.')[0]} {kind}"
    rows = None
    if type(source).__module__.partition(".")[0] == "polars" and hasattr(source, "height"):
        rows = source.height
        source = source.select([name for name in request.names if name in source.columns])
    with engine_errors(f"{label} could not be read as an Arrow stream"):
        reader = pa.RecordBatchReader.from_stream(source)
    return open_reader(reader, label, rows)


def open_lazy(frame: Any, request: Request) -> Source:
    """A polars LazyFrame, computed in batches."""
    with engine_errors("the polars LazyFrame could not be started"):
        names = frame.collect_schema().names()
        if set(request.names) <= set(names):
            frame = frame.select(request.names)
        frames = iter(frame.collect_batches(chunk_size=request.rows))
    part = Part(label="the polars LazyFrame", schema=None, batches=_flat(frames))
    return Source(parts=iter([part]))


def open_reader(reader: Any, label: str, rows: int | None = None) -> Source:
    """A stream of batches; it is used up by counting."""
    return Source(
        parts=iter([Part(label=label, schema=reader.schema, batches=iter(reader))]),
        rows=rows,
        close=getattr(reader, "close", lambda: None),
    )


def open_batches(batches: Iterable[Any]) -> Source:
    """A list, generator or other iterable of record batches or tables."""
    return Source(parts=iter([Part(label="the record batches", schema=None, batches=_flat(iter(batches)))]))


def _flat(items: Iterator[Any]) -> Iterator[Any]:
    for item in items:
        if isinstance(item, pa.RecordBatch):
            yield item
        elif isinstance(item, pa.Table):
            yield from item.to_batches()
        elif hasattr(item, "__arrow_c_array__"):
            yield pa.record_batch(item)
        elif hasattr(item, "__arrow_c_stream__"):
            yield from pa.RecordBatchReader.from_stream(item)
        else:
            raise SourceError(f"the record batches: an item is of type {type(item).__name__}, not a record batch.")


def _present(schema: Any, request: Request) -> list[int] | list[str]:
    """The wanted columns that are there; what is not, or is there twice, is reported by the encoder."""
    wanted = set(request.names)
    if len(set(schema.names)) == len(schema.names):
        return [name for name in schema.names if name in wanted]
    return list(range(len(schema.names)))


def _one(part: Part, rows: int) -> Source:
    return Source(parts=chain([part]), rows=rows)
