"""Columns read off a table: for public data, for the paper's reproduction, and for those who give up privacy.

What this module returns depends on the rows it is given. `Schema` decides who may ask and marks the result.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import SchemaError
from .columns import Categories, Keep, Numeric

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
    frame: object, *, bins: int, max_distinct: int, other: Keep, frequent: float | None = None
) -> list[Categories | Numeric]:
    """One column for each of the table's: sorted categories, or quantile bins for numbers with many values.

    Args:
        frame: the table.
        bins: number of quantile bins.
        max_distinct: numeric columns with at most this many distinct values stay categorical.
        other: what happens to values that this table does not have.
        frequent: above `max_distinct`, values that make up more than this share keep a cell of their own.
    """
    for name, number, least in (("bins", bins, 2), ("max_distinct", max_distinct, 0)):
        if type(number) is not int or number < least:
            raise SchemaError(name, f"a whole number, {least} or more", got=number)
    table = as_table(frame)
    columns: list[Categories | Numeric] = []
    for field, column in zip(table.schema, table.columns, strict=True):
        values, missing = _present(field.name, column)
        keep: Keep = "cell" if missing else "refuse"
        if isinstance(values, list):
            columns.append(Categories(values, name=field.name, other=other, missing=keep))
        else:
            columns.append(_numeric(field.name, values, bins, max_distinct, frequent, other, keep))
    return columns


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
