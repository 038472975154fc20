"""Features and labels in whatever they come: as columns and positions among the declared classes, value by value."""

from __future__ import annotations

import contextlib
import datetime
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ..errors import InvalidArgument, SourceError
from ..private.counting.encode import plain
from ..private.counting.frames import pandas_column
from ..private.counting.source import engine_errors
from ..schema import Categories, Schema


def rows_of(X: Any) -> Any:
    """Lists of rows as an array of objects: NumPy would look for one type, or one depth, that fits all records.

    Raises:
        ValueError: not two-dimensional. scikit-learn would say so too, and show the rows.
    """
    if isinstance(X, (list, tuple)):
        rows = [_row(row) for row in X]
        if not rows or len(set(map(len, rows))) > 1:
            raise ValueError(_SHAPE.format("rows of different lengths" if rows else "no rows"))
        array = np.empty((len(rows), len(rows[0])), dtype=object)
        for place, row in enumerate(rows):
            for feature, value in enumerate(row):
                array[place, feature] = value
        return array
    shape = getattr(X, "shape", None)
    if isinstance(shape, tuple) and len(shape) != 2:
        raise ValueError(_SHAPE.format(f"{len(shape)}D array"))
    return X


_SHAPE = (
    "Expected 2D array, got {} instead. Reshape your data either using array.reshape(-1, 1) if your data has a single "
    "feature or array.reshape(1, -1) if it contains a single sample."
)


def _row(row: Any) -> Sequence[Any]:
    if isinstance(row, (list, tuple)):
        return row
    values = np.asarray(row, dtype=object) if hasattr(row, "__array__") else None
    if values is None or values.ndim != 1:
        raise ValueError(_SHAPE.format("1D array"))
    return list(values)


def plain_labels(y: Any) -> Any:
    """Labels as an array, whatever they came in; without a type of their own they stay objects."""
    if isinstance(y, (pa.Array, pa.ChunkedArray)):
        y = y.to_pylist()
    elif hasattr(y, "to_list") and not hasattr(y, "to_arrow") and isinstance(y.dtype, np.dtype):  # pandas, by dtype
        return y.to_numpy()
    elif hasattr(y, "to_list"):
        y = y.to_list()
    elif hasattr(y, "to_numpy"):
        return y.to_numpy()
    return np.array(y, dtype=object) if isinstance(y, (list, tuple)) else y


def label_codes(labels: NDArray[Any], values: NDArray[Any]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """The order that sorts the class values, and the position of every label among them."""
    order = np.argsort(values)
    ordered = values[order]
    if labels.dtype.kind in "OUS" or ordered.dtype.kind in "OUS":
        known = {plain(value): i for i, value in enumerate(values.tolist())}
        places = None
        with contextlib.suppress(TypeError):  # an error raised inside would carry the label with it
            places = np.array([known.get(plain(label), -1) for label in labels.tolist()], dtype=np.intp)
        if places is None or (places < 0).any():
            raise SourceError("y: some labels are not declared classes.")
        return order, places
    place = np.minimum(np.searchsorted(ordered, labels), len(ordered) - 1)
    if not np.array_equal(ordered[place], labels):
        raise SourceError("y: some labels are not declared classes.")
    return order, order[place]


def declared_classes(schema: Schema, name: object) -> Categories:
    """The class column of the schema."""
    column = schema[name] if isinstance(name, str) and name in schema else None
    if not isinstance(column, Categories):
        raise InvalidArgument(
            "target", "the class column of the schema", got=name, hint="Or list the labels with classes=."
        )
    return column


def without(schema: Schema, name: object) -> Schema:
    """The schema without one of its columns."""
    return schema.select([n for n in schema.names if n != name])


def class_column(values: NDArray[Any], name: str) -> Categories:
    """A schema column of these labels; numbers with a fraction are kept as text."""
    plain = [value.item() if isinstance(value, np.generic) else value for value in values]
    if all(isinstance(value, float) for value in plain):
        whole = all(value.is_integer() and abs(value) < 2**53 for value in plain)
        plain = [int(value) if whole else repr(value) for value in plain]
    if not all(isinstance(value, (str, int, bool, datetime.date)) for value in plain):
        raise InvalidArgument("classes", "labels that are text, numbers, booleans or dates")
    return Categories(plain, name=name)


def is_named(X: Any) -> bool:
    """Whether this is a frame with text for column names; scikit-learn takes all others for arrays."""
    return hasattr(X, "columns") and all(isinstance(name, str) for name in X.columns)


def free_name(name: str, taken: Sequence[str]) -> str:
    """The name, with underscores until no column has it."""
    while name in taken:
        name += "_"
    return name


def feature_column(name: str, values: Any) -> Any:
    """One column as an Arrow array of the type that it has, or as the Python objects that it holds.

    Without a record pandas and NumPy make up a type, which says nothing.
    """
    if hasattr(values, "to_arrow"):  # polars
        if str(values.dtype) == "Object":
            return values.to_list()
        found = values.to_arrow()
        return found.combine_chunks() if isinstance(found, pa.ChunkedArray) else found
    if len(values) == 0:
        return []
    if hasattr(values, "iloc"):
        return pandas_column(name, values, "X")
    array = np.asarray(values)
    if array.dtype == np.dtype(object):
        return array.tolist()
    with engine_errors(f"X: column {name!r} has no Arrow type"):
        return pa.array(array)


def inferred(name: str, column: Any) -> Any:
    """Objects as an Arrow array of the type they have in common: for domains taken from the rows, not private."""
    if not isinstance(column, list):
        return column
    with engine_errors(f"X: column {name!r} has no Arrow type", "A column holds one type only."):
        return pa.array(column, from_pandas=True)
