"""Synthetic records from a release or model: as an Arrow reader or table, or in a CSV or Parquet file.

They are in the schema's types, and post-processing, so at no further budget.

Rules for each cell of a column:

| cell | value |
|---|---|
| declared category | the value, in its declared type |
| own value of a numeric column | the number |
| bin of a numeric column | "uniform": a uniform draw inside the bin; "midpoint": its middle; "neighbours": by a density
that rises or falls inside the bin as its neighbours suggest; "auto": that where the column is whole, else uniform |
| bin of a whole column (`integer: true`) or of dates | the same among the whole numbers of the bin: 1 in [1, 2) |
| other, missing | null |

With `labels=True` every column is text and holds the labels of the schema, so other and missing stay apart.
"""

from __future__ import annotations

import datetime
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol, get_args, runtime_checkable

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from .budget import check_whole
from .cores import ahead, threads_from
from .errors import InvalidArgument
from .models.document import whole_file
from .models.model import Model
from .models.query import Family
from .models.records import IntArray, RowDraws, draw_given
from .schema import Categories, Numeric, Schema

Floats = NDArray[np.float64]
Bins = Literal["auto", "uniform", "midpoint", "neighbours"]
BLOCK = 1 << 16
"""Records made at once."""
PILOT = 1 << 16
"""Records that the density inside bins is read off."""
_SLICES, _WHOLE_SLICES = 32, 1024
"""Slices of a bin, between which the density changes."""
_REDRAWS = 64
"""Times that a number of its own is drawn again where a bin around it would hold it."""

_TYPES = {str: pa.string(), int: pa.int64(), bool: pa.bool_(), datetime.date: pa.date32()}


@runtime_checkable
class Sampler(Protocol):
    """What records can be drawn from: every `simplexdp.models.Model`."""

    @property
    def schema(self) -> Schema | None:
        """Of its columns."""

    def sample_codes(self, size: int, generator: np.random.Generator) -> Mapping[str, IntArray]:
        """Cell numbers of so many records, by column."""


def synthetic_records(
    model: Sampler,
    size: int,
    *,
    bins: Bins = "auto",
    labels: bool = False,
    seed: int | np.random.Generator | None = None,
    given: Mapping[str, Any] | None = None,
) -> Any:
    """A `pyarrow.RecordBatchReader` of synthetic records, made block by block; `.read_all()` gives a table.

    Records follow the published distribution and nothing else, so they cost no budget, however many there are. They
    are private exactly when the model is, whatever the seed.

    Args:
        model: a Bayesian network, a naive Bayes model or a release over declared columns.
        size: how many records.
        bins: numbers inside their bin: "uniform", its "midpoint", by a density that follows the "neighbours", or
            "auto": neighbours for whole numbers and dates, uniform for others.
        labels: write the schema's labels, so that other and missing stay apart; otherwise both are null.
        seed: makes the records repeatable.
        given: values of some columns, {"smoker": "yes", "age": (18, 45)}: records of such people alone.

    >>> from simplexdp import Budget, Schema, release_distribution
    >>> rows, schema = pa.table({"ill": [True, False, True, True]}), Schema.of(ill=[False, True])
    >>> published = release_distribution(rows, schema, ["ill"], budget=Budget(epsilon=1, delta=1e-5))
    >>> synthetic_records(published, 1000, seed=1).read_all().shape
    (1000, 1)
    """
    if seed is not None and not isinstance(seed, np.random.Generator):
        seed = check_whole("seed", seed, at_least=0)
    generator = np.random.default_rng(seed)
    if given is not None:
        model = given_values(model, given)
    batches = record_batches(model, size, generator, bins=bins, labels=labels)
    return pa.RecordBatchReader.from_batches(arrow_schema(model_schema(model), labels=labels), batches)


@dataclass(frozen=True)
class _Given:
    """A model of the people whose cells of some columns are among these."""

    model: Model
    cells: Mapping[str, list[int]]

    @property
    def schema(self) -> Schema | None:
        """Of its columns."""
        return self.model.schema

    def sample_codes(self, size: int, generator: np.random.Generator) -> Mapping[str, IntArray]:
        """Cell numbers of so many records, by column."""
        return self.model.sample_codes_given(size, generator, self.cells)


def given_values(model: Sampler, given: Mapping[str, Any]) -> _Given:
    """What `synthetic_records` draws from if values are given."""
    if not isinstance(model, Model):
        raise InvalidArgument("given", "left out for what is no model of the library", got=type(model).__name__)
    return _Given(model, model.given_cells(given))


@dataclass(frozen=True)
class _Redrawn:
    """A structure with tables that were drawn from what the releases leave open."""

    schema: Schema
    families: Sequence[Family]
    tables: Mapping[str, NDArray[np.float64]]

    def sample_codes(self, size: int, generator: np.random.Generator) -> Mapping[str, IntArray]:
        """Cell numbers of so many records, by column."""
        return draw_given(self.families, self.tables, {}, size, generator, self.schema)


def replicated_records(
    model: Model,
    size: int,
    replicates: int,
    *,
    bins: Bins = "auto",
    labels: bool = False,
    seed: int | None = None,
) -> list[Any]:
    """Several sets of records, each from another draw of what noise and sampling leave open, as Arrow tables.

    A statistic that is computed of each set and put together by `simplexdp.models.regression.combine` has an error that
    includes noise and sampling, where the columns that it needs share a released table. The error of a graph is in
    none of the sets.

    Args:
        model: a release of named columns, a network or naive Bayes model.
        size: records of each set.
        replicates: how many sets.
        bins, labels, seed: see `synthetic_records`.
    """
    replicates = check_whole("replicates", replicates)
    generator = np.random.default_rng(None if seed is None else check_whole("seed", seed, at_least=0))
    drawn = model.redrawn(replicates, generator)
    return [
        synthetic_records(_Redrawn(*parts), size, bins=bins, labels=labels, seed=generator).read_all()
        for parts in drawn
    ]


def write_synthetic_records(
    model: Sampler,
    size: int,
    path: str | os.PathLike[str],
    *,
    bins: Bins = "auto",
    labels: bool = False,
    seed: int | np.random.Generator | None = None,
    threads: int | None = None,
) -> None:
    """Write synthetic records to a .csv or .parquet file, block by block; nothing is left if it fails.

    With two `threads`, which is what the machine grants by default, some are drawn while others are written; the file
    is the same.
    """
    working = threads_from(threads)
    target = Path(path)
    suffix = target.suffix.lower()
    if suffix not in (".csv", ".parquet"):
        raise InvalidArgument("path", "the name of a .csv or .parquet file", got=str(path))
    reader = synthetic_records(model, size, bins=bins, labels=labels, seed=seed)
    with whole_file(target) as made, _writer(str(made), reader.schema, suffix) as writer:
        for batch in ahead(reader, working):
            writer.write_batch(batch)


def model_schema(model: Sampler) -> Schema:
    """The schema of the records."""
    if not isinstance(model, Sampler):
        raise InvalidArgument("model", "a release or a fitted model", got=type(model).__name__)
    schema = model.schema
    if not isinstance(schema, Schema):
        raise InvalidArgument("model", "fitted with a schema, which says what the cells mean")
    return schema


def arrow_schema(schema: Schema, *, labels: bool = False) -> Any:
    """The Arrow types of the records."""
    return pa.schema([(column.name, pa.string() if labels else _type(column)) for column in schema])


def record_batches(
    model: Sampler,
    size: int,
    generator: np.random.Generator,
    *,
    bins: Bins = "auto",
    labels: bool = False,
    block: int = BLOCK,
) -> Iterator[Any]:
    """Arrow record batches of `size` records in all, made as they are asked for."""
    size, block = check_whole("size", size, at_least=0), check_whole("block", block)
    if bins not in get_args(Bins):
        raise InvalidArgument("bins", "one of " + ", ".join(get_args(Bins)), got=bins)
    return _batches(model, model_schema(model), size, generator, bins, labels, block)


def _batches(
    model: Sampler,
    schema: Schema,
    size: int,
    generator: np.random.Generator,
    bins: Bins,
    labels: bool,
    block: int,
) -> Iterator[Any]:
    kinds = arrow_schema(schema, labels=labels)
    inside = {} if labels else _inside(model, schema, bins)
    for start in range(0, size, block):
        rows = min(block, size - start)
        codes = model.sample_codes(rows, generator)
        arrays = []
        for column in schema:
            drawn = codes[column.name]
            law = inside.get(column.name)
            arrays.append(_labels(column, drawn) if labels else decode(column, drawn, generator, bins, law))
        yield pa.record_batch(arrays, schema=kinds)


def _inside(model: Sampler, schema: Schema, bins: Bins) -> dict[str, InsideBins]:
    """The law inside the bins of each column that has one; what the neighbours say is read off records of a pilot."""
    numeric = [column for column in schema if isinstance(column, Numeric) and column.edges]
    wanted = [column for column in numeric if is_whole(column) or bins == "neighbours"]
    if not wanted or bins == "uniform":
        return {column.name: InsideBins(column, None) for column in wanted}
    if bins == "midpoint" or all(InsideBins(column, None).is_narrow for column in wanted):
        return {column.name: InsideBins(column, None, middle=bins == "midpoint") for column in wanted}
    pilot = model.sample_codes(PILOT, np.random.default_rng(0))
    found = {}
    for column in wanted:
        counts = np.bincount(pilot[column.name], minlength=column.size)
        found[column.name] = InsideBins(column, counts[len(column.own) : column.declared] / PILOT)
    return found


def is_whole(column: Numeric) -> bool:
    """Whether synthetic values of a column are whole numbers or days; the schema alone says so."""
    return bool(column.integer) or column.dates


class InsideBins:
    """The law of values inside each bin of a column, which keeps the mass of every bin.

    With masses of the bins, the distribution function between their edges is the monotone cubic through its published
    values (Fritsch and Carlson 1980, as SciPy's `PchipInterpolator`); without, it is a straight line in each bin. A bin
    is cut into slices, of one whole number each where there are not too many. Values are uniform inside a slice.

    >>> column = Numeric([0, 1, 2, 10], own=[5], integer=True)
    >>> drawn = InsideBins(column, None).draw(np.array([0, 1, 2] * 400), np.random.default_rng(1))
    >>> [sorted(set(drawn[i::3].tolist())) for i in range(3)]
    [[0.0], [1.0], [2.0, 3.0, 4.0, 6.0, 7.0, 8.0, 9.0, 10.0]]
    """

    def __init__(self, column: Numeric, masses: Floats | None, *, middle: bool = False) -> None:
        self.whole, self._own, self._middle = is_whole(column), np.asarray(column.own), middle
        edges = np.asarray(column.edges)
        starts, ends = edges[:-1].copy(), edges[1:].copy()
        if self.whole:  # whole numbers from start to before end; the last bin holds its right end
            last = ends[-1]
            starts, ends = np.ceil(starts), np.ceil(ends)
            ends[-1] = np.floor(last) + 1
            alone = ends <= starts  # no whole number lies inside: the one nearest to its middle stands for all
            starts[alone] = np.rint((edges[:-1] + edges[1:])[alone] / 2)
            ends[alone] = starts[alone] + 1
        width = ends - starts
        most = _WHOLE_SLICES if self.whole else _SLICES
        self.is_narrow = self.whole and bool((width <= 1).all())
        cuts = starts[:, None] + width[:, None] * np.linspace(
            0, 1, int(min(width.max(), most) if self.whole else most) + 1
        )
        if self.whole:
            cuts = np.ceil(cuts - 1e-9)
        self._low, self._high = cuts[:, :-1], cuts[:, 1:]
        weights = self._high - self._low
        if masses is not None:
            weights = np.where(weights > 0, np.diff(_between(starts, ends, masses)(cuts), axis=1), 0.0)
        if self.whole and len(self._own):  # a number of its own is no value of the bin around it
            alone = (self._high - self._low == 1) & np.isin(self._low, self._own)
            weights = np.where(alone, 0.0, weights)
        weights = np.maximum(weights, 0.0)
        empty = ~(weights.sum(axis=1) > 0)
        weights[empty] = (self._high - self._low)[empty]
        self._weights, self._draws = weights, RowDraws(weights)

    def draw(self, bins: IntArray, generator: np.random.Generator) -> Floats:
        """A value for each of these bin numbers."""
        if self._middle:
            middle = (self._low[:, 0] + self._high[:, -1] - self.whole) / 2
            return np.asarray(np.floor(middle)[bins])
        slices = self._draws.draw(bins, generator)
        low, high = self._low[bins, slices], self._high[bins, slices]
        drawn = low + generator.random(bins.size) * (high - low)
        if not self.whole:
            return np.asarray(np.minimum(drawn, np.nextafter(high, -np.inf)))
        drawn = np.minimum(np.floor(drawn), high - 1)
        for _ in range(_REDRAWS if len(self._own) else 0):
            again = np.flatnonzero(np.isin(drawn, self._own) & (high - low > 1))
            drawn[again] = np.floor(low[again] + generator.random(again.size) * (high - low)[again])
        return np.asarray(drawn)

    def means(self) -> Floats:
        """The mean inside each bin, but for numbers of their own in slices of several."""
        middles = (self._low + self._high - self.whole) / 2
        return np.asarray((self._weights * middles).sum(axis=1) / self._weights.sum(axis=1))


def _between(starts: Floats, ends: Floats, masses: Floats) -> Any:
    """The monotone cubic through the distribution function at the edges."""
    from scipy.interpolate import PchipInterpolator

    kept = np.r_[True, np.diff(starts) > 0]
    knots = np.append(starts[kept], ends[-1])
    sums = np.add.reduceat(masses, np.flatnonzero(kept))
    return PchipInterpolator(knots, np.append(0.0, np.cumsum(sums)))


def decode(
    column: Any,
    codes: IntArray,
    generator: np.random.Generator,
    bins: Bins = "auto",
    inside: InsideBins | None = None,
) -> Any:
    """Cell numbers of one column as an Arrow array of its declared type."""
    if isinstance(column, Categories):
        values = pa.array([*column.values, *[None] * (column.size - column.declared)], type=_type(column))
        return values.take(pa.array(codes))
    if isinstance(column, Numeric):
        own = len(column.own)
        if inside is None and is_whole(column) and column.edges:
            inside = InsideBins(column, None, middle=bins == "midpoint")
        if inside is not None or is_whole(column):
            return _decoded(column, codes, generator, inside)
        edges = np.asarray(column.edges)
        start, end = edges[:-1], edges[1:]
        low = np.concatenate([column.own, start, np.zeros(column.size - column.declared)])[codes]
        width = np.concatenate([np.zeros(own), end - start, np.zeros(column.size - column.declared)])[codes]
        if bins != "midpoint":
            drawn = low + generator.random(codes.size) * width
            # Rounding may reach the next edge, which belongs to the next bin.
            ceiling = np.concatenate([column.own, np.nextafter(end, -np.inf), np.zeros(column.size - column.declared)])
            drawn = np.minimum(drawn, np.maximum(low, ceiling[codes]))
        else:
            drawn = low + width / 2
        return pa.array(drawn, mask=codes >= column.declared, type=pa.float64())
    raise InvalidArgument("schema", "without unresolved quantiles", got=column.name)


def _decoded(column: Numeric, codes: IntArray, generator: np.random.Generator, inside: InsideBins | None) -> Any:
    own, numbers = len(column.own), np.zeros(codes.size)
    alone, binned = codes < own, (codes >= own) & (codes < column.declared)
    if own:
        numbers[alone] = np.asarray(column.own)[codes[alone]]
    if inside is not None:
        numbers[binned] = inside.draw(codes[binned] - own, generator)
    kind, missing = _type(column), codes >= column.declared
    if column.dates:
        return pa.array(numbers.astype(np.int32), mask=missing, type=pa.int32()).view(kind)
    return pa.array(numbers.astype(np.int64) if is_whole(column) else numbers, mask=missing, type=kind)


def _type(column: Any) -> Any:
    if isinstance(column, Categories):
        return _TYPES[type(column.values[0])]
    if isinstance(column, Numeric) and is_whole(column):
        return pa.date32() if column.dates else pa.int64()
    return pa.float64()


def _labels(column: Any, codes: IntArray) -> Any:
    return pa.array(list(column.labels), type=pa.string()).take(pa.array(codes))


def _writer(name: str, schema: Any, suffix: str) -> Any:
    if suffix == ".csv":
        import pyarrow.csv

        return pyarrow.csv.CSVWriter(name, schema)
    import pyarrow.parquet

    return pyarrow.parquet.ParquetWriter(name, schema)
