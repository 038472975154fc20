"""Features and labels in whatever they come: as Arrow columns and positions among the declared classes."""

from __future__ import annotations

import contextlib
import datetime
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ..errors import InvalidArgument, SourceError
from ..schema import Categories, Schema


def plain_labels(y: Any) -> Any:
    """Labels as an array, whatever frame they came in."""
    if isinstance(y, (pa.Array, pa.ChunkedArray)):
        return y.to_numpy(zero_copy_only=False) if isinstance(y, pa.Array) else y.to_numpy()
    return y.to_numpy() if hasattr(y, "to_numpy") else y


def label_codes(labels: NDArray[Any], values: NDArray[Any]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """The order that sorts the class values, and the position of every label among them."""
    order = np.argsort(values)
    ordered = values[order]
    if labels.dtype.kind in "OUS" or ordered.dtype.kind in "OUS":
        labels, ordered = labels.astype(object), ordered.astype(object)
        known = {value: i for i, value in enumerate(values)}
        places = None
        with contextlib.suppress(TypeError):  # an error raised inside would carry the label with it
            places = np.array([known.get(label, -1) for label in labels], dtype=np.intp)
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


def kind_at(columns: Sequence[Any] | None, index: int) -> str | None:
    """The kind of a column, where columns are declared."""
    return None if columns is None else columns[index].kind


def arrow_column(name: str, values: Any, kind: str | None) -> Any:
    """One column as an Arrow array. Objects become what the schema declares; without one, numbers if they can."""
    if hasattr(values, "to_arrow"):  # polars
        found = values.to_arrow()
        return found.combine_chunks() if isinstance(found, pa.ChunkedArray) else found
    objects = getattr(values, "dtype", None) == np.dtype(object)
    array = np.asarray(values) if objects else values
    if objects and kind != "categories":
        # Errors are raised outside of the handlers: those of NumPy and Arrow quote a value.
        numbers = None
        with contextlib.suppress(ValueError, TypeError):
            numbers = np.asarray(array, dtype=np.float64)
        if numbers is None and kind == "numeric":
            raise SourceError(f"X: column {name!r} is declared numeric and holds something else.")
        array = array if numbers is None else numbers
    found = None
    with contextlib.suppress(pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError):
        found = pa.array(array, from_pandas=array.dtype == np.dtype(object))
    if found is None:
        raise SourceError(f"X: column {name!r} has no Arrow type; a column holds one type only.")
    return found.combine_chunks() if isinstance(found, pa.ChunkedArray) else found
