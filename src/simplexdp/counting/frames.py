"""pandas frames, converted a few rows at a time so that no second copy of the data exists."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from ..errors import SourceError
from .source import Part, Request, Source, engine_errors

_LABEL = "the pandas frame"


def open_frame(frame: Any, request: Request) -> Source:
    """A pandas DataFrame."""
    names = list(frame.columns)
    for name in request.names:
        if names.count(name) > 1:
            raise SourceError(f"{_LABEL}: column {name!r} is there more than once.")
    present = [name for name in request.names if name in names]
    missing = len(present) < len(request.names)
    schema = pa.schema([(str(name), pa.null()) for name in names]) if missing else None
    return Source(
        parts=iter([Part(label=_LABEL, schema=schema, batches=_batches(frame, present, request.rows))]),
        rows=len(frame),
    )


def _batches(frame: Any, names: list[str], rows: int) -> Iterator[Any]:
    columns = [frame[name] for name in names]
    for start in range(0, len(frame), rows):
        arrays = [_array(name, column.iloc[start : start + rows]) for name, column in zip(names, columns, strict=True)]
        yield pa.RecordBatch.from_arrays(arrays, names=names)


def _array(name: str, values: Any) -> Any:
    hint = "A column of objects must hold one type only; convert it with astype."
    with engine_errors(f"{_LABEL}: column {name!r} has no Arrow type", hint):
        array = pa.array(values, from_pandas=values.dtype == object)
    return array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array
