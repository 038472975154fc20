"""NumPy arrays that already hold cell numbers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ..errors import SourceError
from .encode import ColumnSpec
from .run import Block
from .source import Request

if TYPE_CHECKING:
    from ..schema import Schema

LABEL = "the array of cell numbers"


@dataclass(frozen=True)
class CellNumbers:
    """States that an array holds cell numbers (0, 1, ... in the order of the schema's cells), not values.

    A bare NumPy array is taken for cell numbers too, unless a column declares integers, booleans or bins
    that would be numbered otherwise: there the array could as well hold values, and it must say which.

    Args:
        data: rows × columns in the order of the schema, or one array for each column by name.
    """

    data: NDArray[Any] | Mapping[str, NDArray[Any]]


def is_codes(source: object) -> bool:
    """Whether the source is an array or a mapping of arrays."""
    if isinstance(source, (CellNumbers, np.ndarray)):
        return True
    return isinstance(source, Mapping) and all(isinstance(value, np.ndarray) for value in source.values())


def open_codes(source: Any, schema: Schema, request: Request) -> tuple[Iterator[Block], int]:
    """The blocks of an array of cell numbers, and its rows."""
    data = source.data if isinstance(source, CellNumbers) else source
    columns = _columns(data, schema, request)
    if not isinstance(source, CellNumbers):
        for spec in request.specs:
            _check_clear(spec)
    arrays = [_integers(columns[spec.name], spec.name) for spec in request.specs]
    persons = None if request.person is None else columns[request.person]
    lengths = {len(array) for array in arrays} | (set() if persons is None else {len(persons)})
    if len(lengths) != 1:
        raise SourceError(f"{LABEL}: the columns differ in length.")
    return _blocks(arrays, persons, request), lengths.pop()


def _columns(data: Any, schema: Schema, request: Request) -> Mapping[str, NDArray[Any]]:
    if isinstance(data, Mapping):
        absent = [name for name in request.names if name not in data]
        if absent:
            raise SourceError(f"{LABEL}: column {absent[0]!r} is missing.")
        return data
    array = np.asarray(data)
    if array.ndim != 2 or array.shape[1] != len(schema.names):
        raise SourceError(
            f"{LABEL} must have two axes, rows × the {len(schema.names)} columns of the schema; "
            f"it has the shape {array.shape}. A mapping of arrays by column name works too."
        )
    if request.person is not None and request.person not in schema.names:
        raise SourceError(f"{LABEL}: column {request.person!r} is missing. Give a mapping of arrays by column name.")
    return {name: array[:, index] for index, name in enumerate(schema.names)}


def _check_clear(spec: ColumnSpec) -> None:
    """Refuse integers that may be values: the declared ones are numbers too, with other cell numbers."""
    if spec.kind == "text" or spec.kind == "date":
        return
    if spec.kind in ("whole", "truth") and [int(value) for value in spec.values] == list(range(len(spec.values))):
        return
    raise SourceError(
        f"{LABEL}: column {spec.name!r} declares numbers, so the array may hold values or cell numbers. "
        "Say CellNumbers(array) for cell numbers; for values, pass a data frame or an Arrow table."
    )


def _integers(array: NDArray[Any], name: str) -> NDArray[Any]:
    array = np.asarray(array)
    if array.ndim != 1 or array.dtype.kind not in "iub":
        raise SourceError(f"{LABEL}: column {name!r} is not a one-dimensional array of an integer type.")
    return array.view(np.uint8) if array.dtype.kind == "b" else array


def _blocks(arrays: list[NDArray[Any]], persons: Any, request: Request) -> Iterator[Block]:
    for start in range(0, len(arrays[0]), request.rows):
        codes = []
        for spec, array in zip(request.specs, arrays, strict=True):
            part = np.ascontiguousarray(array[start : start + request.rows])
            # Negative numbers are very large ones when read as unsigned.
            unsigned = part.view(np.dtype(f"u{part.dtype.itemsize}"))
            if int(unsigned.max()) >= spec.size:
                raise SourceError(
                    f"{LABEL}: column {spec.name!r} has numbers that are none of its cells, 0 to {spec.size - 1}."
                )
            codes.append(unsigned.astype(spec.dtype, copy=False))
        who = None if persons is None else pa.array(persons[start : start + request.rows])
        yield Block(codes=codes, persons=who)
