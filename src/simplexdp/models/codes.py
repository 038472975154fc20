"""Rows of cell numbers, checked against a schema."""

from __future__ import annotations

import datetime
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import InvalidArgument
from ..schema import Categories, Column, Numeric, Schema

IntArray = NDArray[np.int64]


def check_codes(codes: Any, schema: Schema, columns: Sequence[str]) -> dict[str, IntArray]:
    """One array of cell numbers for each column, from a mapping or from rows × columns in this order."""
    if not isinstance(codes, Mapping):
        array = np.asarray(codes)
        if array.ndim != 2 or array.shape[1] != len(columns):
            raise InvalidArgument("codes", f"rows × the {len(columns)} columns {', '.join(columns)}", got=array.shape)
        codes = {name: array[:, i] for i, name in enumerate(columns)}
    absent = [name for name in columns if name not in codes]
    if absent:
        raise InvalidArgument("codes", f"given for the column {absent[0]!r}")
    found: dict[str, IntArray] = {}
    for name in columns:
        array = np.asarray(codes[name])
        if array.ndim != 1 or array.dtype.kind not in "iub":
            raise InvalidArgument("codes", f"a one-dimensional array of whole numbers for {name!r}")
        if array.size and not (array.min() >= 0 and array.max() < schema[name].size):
            raise InvalidArgument("codes", f"cell numbers from 0 to {schema[name].size - 1} for {name!r}")
        found[name] = array.astype(np.int64, copy=False)
    if len({array.size for array in found.values()}) > 1:
        raise InvalidArgument("codes", "arrays of one length")
    return found


def cell_order(column: Column) -> NDArray[np.intp] | None:
    """Cell numbers in increasing order of the values, other and missing last; None for text and truth values.

    >>> from simplexdp.schema import Numeric
    >>> cell_order(Numeric([0, 10, 20], own=[10], outside="cell"))
    array([1, 0, 2, 3])
    """
    places = cell_places(column)
    return None if places is None else np.argsort(places, kind="stable")


def cell_places(column: Column) -> NDArray[np.float64] | None:
    """The place of each cell in the order of the values, ∞ for other and missing; None for text and truth values.

    >>> from simplexdp.schema import Numeric
    >>> cell_places(Numeric([0, 10, 20], own=[10], outside="cell"))
    array([ 1.,  0.,  2., inf])
    """
    places: list[float]
    if isinstance(column, Numeric):
        # A value of its own comes before the bin that begins with it, and after the bins that begin below it.
        places = [*column.own, *column.edges[:-1]]
    elif isinstance(column, Categories):
        if isinstance(column.values[0], str | bool):
            return None
        places = [v.toordinal() if isinstance(v, datetime.date) else float(v) for v in column.values]
    else:
        places = list(range(column.declared))
    order = np.argsort(places, kind="stable")
    found = np.full(column.size, math.inf)
    found[order] = np.arange(order.size)
    return found


def distinct_rows(columns: Sequence[IntArray]) -> tuple[IntArray, IntArray]:
    """The different rows, and for each row which of them it is."""
    distinct, inverse = np.unique(np.column_stack(columns), axis=0, return_inverse=True)
    return distinct, inverse.ravel()
