"""Synthetic records from anything fitted, in the schema's types; post-processing, so at no further budget.

Rules for each cell of a column:

| cell | value |
|---|---|
| declared category | the value, in its declared type |
| own value of a numeric column | the number |
| bin of a numeric column | "uniform": a uniform draw inside the bin; "midpoint": its middle |
| other, missing | null |

With `labels=True` every column is text and holds the labels of the schema, so other and missing stay apart.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Mapping
from typing import Any, Literal, Protocol, get_args, runtime_checkable

import numpy as np
import pyarrow as pa

from ..errors import InvalidArgument
from ..schema import Categories, Numeric, Schema
from .codes import IntArray
from .draws import RowDraws, draw_cells
from .release import FloatArray, Release

Bins = Literal["uniform", "midpoint"]
BLOCK = 1 << 16
"""Records made at once."""

_TYPES = {str: pa.string(), int: pa.int64(), bool: pa.bool_(), datetime.date: pa.date32()}


@runtime_checkable
class Sampler(Protocol):
    """A fitted model that records can be drawn from."""

    @property
    def schema(self) -> Schema | None:
        """Of its columns."""

    def sample_codes(self, size: int, generator: np.random.Generator) -> Mapping[str, IntArray]:
        """Cell numbers of so many records, by column."""


@runtime_checkable
class ClassConditionals(Protocol):
    """A naive Bayes model, as far as sampling needs it."""

    @property
    def schema(self) -> Schema | None:
        """Of the features and the class."""

    @property
    def target(self) -> str:
        """The class column."""

    @property
    def features(self) -> tuple[str, ...]:
        """The feature columns."""

    @property
    def class_probabilities(self) -> FloatArray:
        """One for each class."""

    @property
    def conditionals(self) -> tuple[FloatArray, ...]:
        """For each feature classes × values."""


Source = Sampler | ClassConditionals | Release


def sample_codes(model: Source, size: int, generator: np.random.Generator) -> Mapping[str, IntArray]:
    """Cell numbers of so many records, by column."""
    if isinstance(model, Release):
        axes = np.unravel_index(draw_cells(model.probabilities, size, generator), model.values.shape)
        return dict(zip(model.columns, (axis.astype(np.int64) for axis in axes), strict=True))
    if isinstance(model, Sampler):
        return model.sample_codes(size, generator)
    if isinstance(model, ClassConditionals):
        classes = draw_cells(model.class_probabilities, size, generator)
        drawn = {
            name: RowDraws(table).draw(classes, generator)
            for name, table in zip(model.features, model.conditionals, strict=True)
        }
        return {**drawn, model.target: classes}
    raise InvalidArgument("model", "a Bayesian network, a naive Bayes model or a release", got=type(model).__name__)


def model_schema(model: Source) -> Schema:
    """The schema of the records."""
    schema = getattr(model, "schema", None)
    if not isinstance(schema, Schema):
        raise InvalidArgument("model", "fitted with a schema, which says what the cells mean")
    return schema


def arrow_schema(schema: Schema, *, labels: bool = False) -> Any:
    """The Arrow types of the records."""
    return pa.schema([(column.name, pa.string() if labels else _type(column)) for column in schema])


def record_batches(
    model: Source,
    size: int,
    generator: np.random.Generator,
    *,
    bins: Bins = "uniform",
    labels: bool = False,
    block: int = BLOCK,
) -> Iterator[Any]:
    """Arrow record batches of `size` records in all, made as they are asked for."""
    if isinstance(size, bool) or not isinstance(size, (int, np.integer)) or size < 0:
        raise InvalidArgument("size", "a whole number of records, 0 or more", got=size)
    if bins not in get_args(Bins):
        raise InvalidArgument("bins", "'uniform' or 'midpoint'", got=bins)
    return _batches(model, model_schema(model), int(size), generator, bins, labels, block)


def _batches(
    model: Source,
    schema: Schema,
    size: int,
    generator: np.random.Generator,
    bins: Bins,
    labels: bool,
    block: int,
) -> Iterator[Any]:
    kinds = arrow_schema(schema, labels=labels)
    for start in range(0, size, block):
        rows = min(block, size - start)
        codes = sample_codes(model, rows, generator)
        arrays = [
            _labels(column, codes[column.name]) if labels else decode(column, codes[column.name], generator, bins)
            for column in schema
        ]
        yield pa.record_batch(arrays, schema=kinds)


def decode(column: Any, codes: IntArray, generator: np.random.Generator, bins: Bins = "uniform") -> Any:
    """Cell numbers of one column as an Arrow array of its declared type."""
    if isinstance(column, Categories):
        values = pa.array([*column.values, *[None] * (column.size - column.declared)], type=_type(column))
        return values.take(pa.array(codes))
    if isinstance(column, Numeric):
        own = len(column.own)
        edges = np.asarray(column.edges)
        start, end = edges[:-1], edges[1:]
        low = np.concatenate([column.own, start, np.zeros(column.size - column.declared)])[codes]
        width = np.concatenate([np.zeros(own), end - start, np.zeros(column.size - column.declared)])[codes]
        if bins == "uniform":
            drawn = low + generator.random(codes.size) * width
            # Rounding may reach the next edge, which belongs to the next bin.
            ceiling = np.concatenate([column.own, np.nextafter(end, -np.inf), np.zeros(column.size - column.declared)])
            drawn = np.minimum(drawn, np.maximum(low, ceiling[codes]))
        else:
            drawn = low + width / 2
        return pa.array(drawn, mask=codes >= column.declared, type=pa.float64())
    raise InvalidArgument("schema", "without unresolved quantiles", got=column.name)


def _type(column: Any) -> Any:
    return _TYPES[type(column.values[0])] if isinstance(column, Categories) else pa.float64()


def _labels(column: Any, codes: IntArray) -> Any:
    return pa.array(list(column.labels), type=pa.string()).take(pa.array(codes))
