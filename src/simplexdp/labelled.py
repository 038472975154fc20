"""Counts that carry names: `value_counts`, cross tables, counters, grouped tables.

Which names there are, and in which order, came from the data: a rare value is there or not, and the most frequent one
comes first. What the axes are called, and of which type the object is, did not.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .errors import PrivacyError, SourceError

LABEL = "the counts"

REFUSAL = (
    "These counts carry names that came from the data: which values occur, and in which order, tells about single "
    "records. Either declare all values that can occur, with release(counts, schema=...) for a column or schema, or "
    "release(counts, categories=[...]) for a list (a mapping of names to lists for several columns): the counts are "
    "then put in the declared order, with zeros for what did not occur. Or count the rows with a schema: "
    "release_distribution(rows, schema, columns)."
)
_NAMING = ("index", "columns", "coords", "axes")


@dataclass(frozen=True, kw_only=True)
class Labelled:
    """Counts with names, read in two steps.

    Args:
        axes: what the columns behind the names are called, None for one without a name; () if nothing says how many
            there are.
        entries: **Private.** For so many columns the names of all entries, a list a column, and their counts.
    """

    axes: tuple[str | None, ...]
    entries: Callable[[int], tuple[list[Sequence[Any]], Any]] = field(repr=False)


def check_unlabelled(counts: object) -> None:
    """Refuse counts whose names and order came from the data, where no declaration can be given."""
    if labelled(counts) is not None:
        raise PrivacyError(REFUSAL)


def labelled(counts: object) -> Labelled | None:
    """The names that counts carry; None for plain ones, whose number and order of cells the caller declares.

    Plain are lists, tuples and arrays, and pandas objects with the default index. No name and no count is looked at.

    Raises:
        PrivacyError: there are names in a form that is not read here.
    """
    kind = type(counts)
    roots = {part.__module__.partition(".")[0] for part in kind.__mro__}
    if "pandas" in roots:
        return _pandas(counts)
    if "polars" in roots:
        return _polars(counts)
    if "pyarrow" in roots:
        return _arrow(counts)
    if isinstance(counts, np.ndarray):
        return None if counts.dtype.names is None else _unread(counts)
    if isinstance(counts, (array, memoryview, range, str, bytes)):
        return None
    if isinstance(counts, (list, tuple)):
        inside = any(labelled(item) is not None for item in counts if not isinstance(item, (int, float, np.generic)))
        return _unread(counts) if inside or hasattr(kind, "_fields") else None
    if isinstance(counts, Mapping) and not hasattr(kind, "coords"):
        return Labelled(axes=(), entries=lambda axes: _of_mapping(counts, axes))
    if hasattr(kind, "dims") and hasattr(kind, "coords") and not isinstance(counts, Mapping):
        return _coordinates(counts)
    if hasattr(kind, "__arrow_c_stream__"):
        return _stream(counts)
    naming = any(not callable(getattr(kind, name, print)) for name in _NAMING)
    return _unread(counts) if naming or isinstance(counts, Mapping) else None


def _unread(counts: object) -> Labelled:
    raise PrivacyError(
        f"{REFUSAL} Names in a {type(counts).__name__} cannot be read: give a dictionary, a pandas series or cross "
        "table, or a polars, pyarrow or pandas table with the counts in its last column."
    )


# -- what carries names -----------------------------------------------------------------------------------------------


def _pandas(counts: Any) -> Labelled | None:
    if not hasattr(type(counts), "iloc"):
        return None  # an index or an array: values without names
    index = counts.index
    if counts.ndim == 1:
        if _is_default(index) and len(index):  # an empty dictionary gets the default index, too
            return None
        return Labelled(axes=_names(index), entries=lambda _: (_levels(index), counts.array))
    across = counts.columns
    if _is_default(index):
        return None if _is_default(across) else _long(list(across), lambda i: counts.iloc[:, i])
    if across.nlevels == 1 and across.name is None and counts.shape[1] == 1:  # from `to_frame`
        return Labelled(axes=_names(index), entries=lambda _: (_levels(index), counts.iloc[:, 0].array))

    def entries(_: int) -> tuple[list[Sequence[Any]], Any]:
        keys = _crossed([_levels(index), _levels(across)], counts.shape)
        return keys, [value for i in range(len(index)) for value in counts.iloc[i].array]

    return Labelled(axes=_names(index) + _names(across), entries=entries)


def _is_default(index: Any) -> bool:
    return type(index).__name__ == "RangeIndex" and (index.start, index.step, index.name) == (0, 1, None)


def _names(index: Any) -> tuple[str | None, ...]:
    return tuple(_name(name) for name in index.names)


def _levels(index: Any) -> list[Sequence[Any]]:
    return [index.get_level_values(i).tolist() for i in range(index.nlevels)]


def _polars(counts: Any) -> Labelled | None:
    import polars as pl

    if isinstance(counts, pl.Series) and counts.dtype != pl.Struct:
        return None
    if not isinstance(counts, (pl.Series, pl.DataFrame)):
        return _unread(counts)
    frame = counts if isinstance(counts, pl.DataFrame) else counts.struct.unnest()
    if frame.columns == [f"column_{i}" for i in range(frame.width)]:  # the names that polars gives
        return None
    return _long(frame.columns, lambda i: frame.to_series(i).to_list())


def _arrow(counts: Any) -> Labelled | None:
    import pyarrow as pa

    if isinstance(counts, (pa.Table, pa.RecordBatch)):
        return _long(counts.schema.names, lambda i: counts.column(i).to_pylist())
    if isinstance(counts, pa.RecordBatchReader):
        return _stream(counts)
    if not isinstance(counts, (pa.Array, pa.ChunkedArray)):
        return _unread(counts)
    if not pa.types.is_struct(counts.type):
        return None
    names = [counts.type.field(i).name for i in range(counts.type.num_fields)]

    def column(i: int) -> list[Any]:
        chunks = counts.chunks if isinstance(counts, pa.ChunkedArray) else [counts]
        return [value for chunk in chunks for value in chunk.flatten()[i].to_pylist()]

    return _long(names, column)


def _stream(counts: Any) -> Labelled:
    """A table of any library that exports an Arrow stream; it is read once, when the counts are asked for."""
    import pyarrow as pa

    reader = counts if isinstance(counts, pa.RecordBatchReader) else pa.RecordBatchReader.from_stream(counts)
    read: list[Any] = []

    def column(i: int) -> list[Any]:
        if not read:
            read.append(reader.read_all())
        return read[0].column(i).to_pylist()  # type: ignore[no-any-return]  # pyarrow is untyped

    return _long(reader.schema.names, column)


def _long(names: Sequence[Any], column: Callable[[int], Any]) -> Labelled:
    """A table with a row for each combination: names first, and the counts in the last column."""
    last = len(names) - 1
    return Labelled(
        axes=tuple(_name(name) for name in names[:last]),
        entries=lambda _: ([list(column(i)) for i in range(last)], column(last)),
    )


def _coordinates(counts: Any) -> Labelled | None:
    """An array with coordinates, as xarray has them."""
    named = [dimension for dimension in counts.dims if dimension in counts.coords]
    if not named:
        return None
    if len(named) < len(counts.dims):
        return _unread(counts)

    def entries(_: int) -> tuple[list[Sequence[Any]], Any]:
        labels = [[_plain(np.asarray(counts.coords[dimension]))] for dimension in counts.dims]
        return _crossed(labels, counts.shape), np.asarray(counts).ravel()

    return Labelled(axes=tuple(_name(name) for name in counts.dims), entries=entries)


def _crossed(labels: Sequence[Sequence[Sequence[Any]]], shape: tuple[int, ...]) -> list[Sequence[Any]]:
    """The names of all cells of an array, row by row, from those of its axes, which may have several levels."""
    places = np.indices(shape).reshape(len(shape), -1)
    return [[level[i] for i in place] for place, levels in zip(places, labels, strict=True) for level in levels]


def _plain(labels: Any) -> list[Any]:
    import pyarrow as pa

    return labels.tolist() if labels.dtype == object else pa.array(labels).to_pylist()  # type: ignore[no-any-return]


def _of_mapping(counts: Mapping[Any, Any], axes: int) -> tuple[list[Sequence[Any]], Any]:
    keys: list[Any] = list(counts)
    if axes > 1 and not all(isinstance(key, tuple) and len(key) == axes for key in keys):
        raise SourceError(f"{LABEL}: each key must be a tuple of {axes} values, one for each declared column.")
    return [[key[i] for key in keys] for i in range(axes)] if axes > 1 else [keys], list(counts.values())


def _name(name: Any) -> str | None:
    """What a column is called; None for what libraries write where nobody named it."""
    if not isinstance(name, str) or name in ("", "index", "values"):
        return None
    stem, _, number = name.rpartition("_")
    return None if stem in ("row", "col", "level", "dim", "column") and number.isdigit() else name
