"""Counts that were made elsewhere: first what is public about them, later the counts.

Proof: docs/proofs/composition.md.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..budget import Neighbours, UnitKind
from ..errors import InvalidArgument, PrivacyError, SourceError
from ..labelled import LABEL, REFUSAL, Labelled, labelled
from ..mechanisms.base import checked_counts
from ..numerics import as_array
from ..schema import Categories, Column, Numeric, Quantiles, Schema, SchemaLike
from .counting.encode import ColumnSpec, ObjectEncoder, is_missing
from .counting.plan import column_spec, fingerprint
from .tables import CountTable, opened

CategoriesLike = Sequence[Any] | Mapping[str, Any]
"""All values that can occur: a list for one column, or a list for each name."""
VALUE = "value"
"""What a column is called that nobody named."""


@dataclass(frozen=True, kw_only=True)
class Given:
    """What is public about counts: columns, shape, schema and unit. `table()` is the private rest.

    Args:
        columns: names of the axes.
        shape: cells along each.
        schema: of the columns, where they are declared.
        named: whether the release names its columns.
        unit: whose rows were counted.
        rows_per_person: the bound, for persons.
        relations: the neighbours that the counts may be released under.
        is_private: False if the cells, or which rows count, were read off the data.
        records: the number of records, where it is public: the sum of all counts, whatever their names are; None if
            they have none. What else is wrong with them is found by `table`.
        table: makes the table of counts; nothing looks at a name in the data before. **Private.**
    """

    columns: tuple[str, ...]
    shape: tuple[int, ...]
    schema: Schema | None = None
    named: bool = True
    unit: UnitKind = "row"
    rows_per_person: int | None = None
    relations: frozenset[Neighbours] = frozenset(get_args(Neighbours))
    is_private: bool = True
    records: Callable[[], float | None] = field(repr=False)
    table: Callable[[], CountTable] = field(repr=False)


def given_counts(
    counts: ArrayLike | Mapping[Any, Any] | CountTable,
    schema: SchemaLike | Column | None = None,
    categories: CategoriesLike | None = None,
) -> Given:
    """What is public about counts, from their type and the declaration alone.

    Raises:
        PrivacyError: the counts carry names that came from the data, and nothing is declared.
        InvalidArgument: the declaration is not of these counts.
    """
    if isinstance(counts, CountTable):
        return _with_rules(_counted(counts, _declared(schema, categories)), schema)
    names = labelled(counts)
    declared = _declared(schema, categories)
    if names is None:
        return _with_rules(_plain(counts, declared), schema)
    if declared is None:
        raise PrivacyError(REFUSAL)
    columns = _matched(names.axes, declared)
    specs = [column_spec(column) for column in columns]
    made = Schema(columns)
    given = Given(
        columns=made.names,
        shape=made.shape(),
        schema=made,
        is_private=made.is_private,
        records=lambda: _sum(lambda: _whole(names.entries(len(specs))[1])),
        table=lambda: _table(_aligned(names, specs), made),
    )
    return _with_rules(given, schema)


def _with_rules(given: Given, schema: SchemaLike | Column | None) -> Given:
    """The same counts, whose schema keeps what the declared one says is impossible."""
    if given.schema is None or schema is None or isinstance(schema, (Categories, Numeric, Quantiles)):
        return given
    rules = [rule for rule in Schema.given(schema).never if {name for name, _ in rule} <= set(given.schema.names)]
    return replace(given, schema=Schema(given.schema.columns, never=rules)) if rules else given


def _declared(schema: SchemaLike | Column | None, categories: CategoriesLike | None) -> list[Column] | None:
    """The columns that the caller says the counts are over; one alone may have no name yet."""
    if schema is None and categories is None:
        return None
    if schema is not None and categories is not None:
        raise InvalidArgument("categories", "left out where a schema is given")
    if schema is not None:
        return [schema] if isinstance(schema, (Categories, Numeric, Quantiles)) else list(Schema.given(schema))
    if isinstance(categories, Mapping):
        return list(Schema.of(**categories))
    return [Categories(categories)]


def _matched(axes: tuple[str | None, ...], declared: Sequence[Column]) -> list[Column]:
    """The declared columns in the order of the axes: by name, or by position where one side has no names."""
    by_name = {column.name: column for column in declared}
    if axes and all(name in by_name for name in axes) and len(set(axes)) == len(axes):
        return [by_name[str(name)] for name in axes]
    by_position = not any(axes) or "" in by_name
    if by_position and len(axes or declared) == len(declared):
        return [_named(column, name) for column, name in zip(declared, axes or [None] * len(declared), strict=True)]
    over = ", ".join(repr(name) if name else "one without a name" for name in axes) or "no column"
    raise InvalidArgument(
        "schema",
        "of the columns that the counts are over",
        hint=f"They are over {over}, and {', '.join(map(repr, by_name))} is declared. The counts of a table are its "
        "last column.",
    )


def _named(column: Column, name: str | None = None) -> Column:
    return column if column.name else column.model_copy(update={"name": name or VALUE})


def _plain(counts: Any, declared: Sequence[Column] | None) -> Given:
    array = as_array(counts)
    # Shape and type are public; of a list they are not: one entry can make all of them text.
    if array.size < 2 or (isinstance(counts, np.ndarray) and array.dtype.kind not in "iuf"):
        hint = "Give one non-negative whole number for each of two or more cells."
        raise InvalidArgument("counts", "an array of two or more whole numbers", hint=hint)
    if declared is None:
        columns = tuple(f"axis {i}" for i in range(array.ndim))

        def table() -> CountTable:
            return CountTable.from_array(checked_counts(array), columns=columns)

        return Given(
            columns=columns,
            shape=array.shape,
            named=False,
            records=lambda: _sum(lambda: checked_counts(array)),
            table=table,
        )
    schema = Schema([_named(column) for column in declared])
    _check_shape(array.shape, schema)
    return Given(
        columns=schema.names,
        shape=array.shape,
        schema=schema,
        is_private=schema.is_private,
        records=lambda: _sum(lambda: checked_counts(array)),
        table=lambda: _table(checked_counts(array), schema),
    )


def _counted(table: CountTable, declared: Sequence[Column] | None) -> Given:
    schema = None
    if declared is not None:
        schema = Schema(_matched(table.columns, declared))
        _check_shape(table.shape, schema)
        if table.fingerprint not in (None, fingerprint(schema)):
            raise InvalidArgument("schema", "the one that the table was counted with")
    return Given(
        columns=table.columns,
        shape=table.shape,
        schema=schema,
        unit=table.unit,
        rows_per_person=table.rows_per_person,
        relations=table.relations,
        is_private=table.is_private,
        records=lambda: float(opened(table.private_counts()).sum()),
        table=lambda: table,
    )


def _check_shape(shape: tuple[int, ...], schema: Schema) -> None:
    for column in schema:
        column_spec(column)  # refuses edges that are not known yet
    if shape != schema.shape():
        hint = "Cells for other and missing values come after the declared ones."
        raise InvalidArgument("counts", f"of the declared shape {schema.shape()}", got=shape, hint=hint)


def _table(counts: NDArray[np.int64], schema: Schema) -> CountTable:
    return CountTable(counts, schema.names, fingerprint=fingerprint(schema), is_private=schema.is_private)


# -- private from here on ---------------------------------------------------------------------------------------------


def _sum(counts: Callable[[], NDArray[np.int64]]) -> float | None:
    """All records, where the counts can be added up; nothing is said of those that cannot."""
    with contextlib.suppress(Exception):
        total = float(counts().sum())
        return total if math.isfinite(total) else None
    return None


def _aligned(names: Labelled, specs: Sequence[ColumnSpec]) -> NDArray[np.int64]:
    """The counts in the order of the declared cells, zero where the data has no such entry."""
    failure = ""
    try:
        keys, values = names.entries(len(specs))
    except SourceError:
        raise
    except Exception as error:  # of the library behind the names, which may quote them
        failure = type(error).__name__
    if failure:
        raise SourceError(f"{LABEL} could not be read ({failure}).")
    numbers = _whole(values)
    seen = np.flatnonzero(numbers).tolist()  # where nothing was counted no record is behind the name
    if any(type(key[i]).__name__ == "Interval" for key in keys for i in seen):
        raise SourceError(f"{LABEL}: intervals are not read. Count over the edges of a numeric column instead.")
    codes = [
        spec.encode([key[i] for i in seen], ObjectEncoder(spec), LABEL).astype(np.intp)
        for spec, key in zip(specs, keys, strict=True)
    ]
    found = np.zeros([spec.size for spec in specs], dtype=np.int64)
    np.add.at(found, tuple(codes), numbers[seen])
    return found


def _whole(values: Any) -> NDArray[np.int64]:
    """Counts as whole numbers; what a cross table leaves empty is none."""
    array = as_array(values)
    if array.dtype == object:
        array = as_array([0 if is_missing(value) else value for value in values])
    if array.dtype.kind not in "iuf":
        raise InvalidArgument("counts", "whole numbers", hint="The counts of a table are its last column.")
    if array.dtype.kind == "f":
        array = np.where(np.isnan(array), 0.0, array)
    return checked_counts(np.append(array, [0, 0]))[:-2]  # one entry alone is a table too
