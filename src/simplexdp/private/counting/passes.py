"""Passes over whatever holds the rows: `count` for tables, `encode_rows` for cell numbers, `Passes` for those of a fit.

Every pass of a fit sees the same rows, and of each person the same few: a guarantee for persons rests on the bound on
the rows of each, in every pass. So what reads rows for a fit goes through `Passes`, and there is no way to read them
without the bound.

Proof: docs/proofs/composition.md.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ...budget import Neighbours, check_whole
from ...cores import threads_from
from ...errors import InvalidArgument, PrivacyError, SourceError, discreet
from ...fitting import Facts
from ...lazy import pa
from ...schema import Numeric, Quantiles, Schema, SchemaLike
from ..tables import CountTable, opened
from . import database, files, frames
from .kernel import Block
from .persons import Bound, HasGenerator
from .plan import MEMORY_LIMIT, Deferred, Identity, Plan, column_spec, identity_of, make_plan
from .query import OneRecordPerRow, Prepared, Query, Seen, readable, seen
from .source import MixedBatch, Request, Source, Tabled, engine_errors
from .spread import Encoding, Task, counted, tasks_of

if TYPE_CHECKING:
    from ..copies import PrivateCopy

Progress = Callable[[int, int | None], None]
"""Called with the rows done and the rows in all, where that is known."""


@discreet
def count(
    source: Any,
    schema: SchemaLike,
    tables: Iterable[Sequence[str]],
    *,
    rows_per_person: int | None = None,
    person: str | None = None,
    entropy: HasGenerator | np.random.Generator | None = None,
    progress: Progress | None = None,
    memory_limit: int = MEMORY_LIMIT,
    threads: int | None = None,
) -> list[CountTable]:
    """Count the rows in every cell of every table, in one pass over the source.

    >>> import pyarrow as pa
    >>> from simplexdp.schema import Schema
    >>> rows = pa.table({"smoker": ["no", "yes", "no"], "ill": [False, True, True]})
    >>> schema = Schema.of(smoker=["no", "yes"], ill=[False, True])
    >>> for table in count(rows, schema, [("smoker",), ("smoker", "ill")]):
    ...     print(table)
    CountTable(columns=('smoker',), shape=(2,), unit='row')
    CountTable(columns=('smoker', 'ill'), shape=(2, 2), unit='row')

    Args:
        source: a path, folder or glob of Parquet, CSV or JSON files (see `Files`); a `Query`; a pandas,
            polars or Spark frame; an Arrow table, reader, dataset or iterable of batches; a DuckDB
            relation; a DB-API cursor in `OneRecordPerRow`; a NumPy array of cell numbers (see
            `CellNumbers`); anything with `__arrow_c_stream__`.
        schema: the declared columns: a Schema, the path of its file, or a mapping of names to values or columns.
        tables: for each table the columns it crosses.
        rows_per_person: keep at most this many rows of each person, chosen at random; the unit of the
            tables is then the person. Needs memory for that many rows of every person.
        person: the column that names the person, exactly with `rows_per_person`.
        entropy: where the choice comes from: `SecureEntropy()`. A NumPy generator or a seeded entropy can be repeated
            by whoever knows its seed, so tables counted with one are marked as not private.
        progress: called with the rows done and the rows in all (None if unknown).
        memory_limit: bytes that all tables may take; above, nothing is read.
        threads: how many work; by default as many as the machine grants. The tables are the same for any number.

    Returns:
        The tables in the order asked for.

    Raises:
        PrivacyError: a row of the source may depend on more than one record, and nobody declares that it does not.
        SourceError: the source lacks a column, has it in a wrong type, breaks a rule of the schema or
            cannot be read. The message names file, column and rule, never a value; the error has no context
            and no inner frames, because those hold rows.
    """
    rows = None if rows_per_person is None else check_whole("rows_per_person", rows_per_person)
    return count_bounded(
        source,
        Schema.given(schema),
        tables,
        bound=Bound.of(rows, person, entropy),
        progress=progress,
        memory_limit=check_whole("memory_limit", memory_limit, at_least=0),
        threads=threads_from(threads),
    )


def count_bounded(
    source: Any,
    schema: Schema,
    tables: Iterable[Sequence[str]],
    *,
    bound: Bound | None,
    progress: Progress | None = None,
    memory_limit: int = MEMORY_LIMIT,
    threads: int = 1,
) -> list[CountTable]:
    """`count` with the bound on the rows of persons as one value, which several passes can share."""
    plan = make_plan(schema, tables, memory_limit)
    source = files.with_layout(source, schema)
    known = source if isinstance(source, Seen) else seen(source)
    if isinstance(known.source, Tabled):
        return known.source.tables(schema, plan.tables, bound)
    return _tables(_arrays(known.source, schema, plan, bound, progress, threads), plan, known, bound)


def _tables(arrays: Sequence[NDArray[np.int64]], plan: Plan, known: Seen, bound: Bound | None) -> list[CountTable]:
    return [
        CountTable(
            counts,
            columns,
            unit="row" if bound is None else "person",
            rows_per_person=None if bound is None else bound.rows,
            fingerprint=fingerprint,
            is_private=plan.is_private and (bound is None or bound.is_private),
            relations=known.relations,
            declarations=known.declarations,
        )
        for counts, columns, fingerprint in zip(arrays, plan.tables, plan.fingerprints, strict=True)
    ]


def relations_of(source: Any) -> frozenset[Neighbours]:
    """The neighbours that what is counted may be released under; no row is read.

    Raises:
        PrivacyError: a row of the source may depend on more than one record, and nobody declares that it does not.
    """
    return seen(source).relations


def declarations_of(source: Any) -> tuple[str, ...]:
    """What the curator declares of the source, as the certificate says it."""
    return source.declarations if isinstance(source, (Query, OneRecordPerRow)) else ()


def _arrays(
    source: Any, schema: Schema, plan: Plan, bound: Bound | None, progress: Progress | None, threads: int
) -> list[NDArray[np.int64]]:
    if isinstance(source, Deferred):
        source = source.source()
    person = None if bound is None else bound.person
    request = Request(specs=plan.specs, person=person, rows=plan.layout.block_rows(), threads=threads)
    if _root(source) == "pyspark":
        from .spark import count_frame

        return count_frame(source, request, plan.layout, bound, progress)
    with _opened(source, schema, request) as (tasks, total):
        told = None if progress is None else partial(_tell, progress, total)
        return counted(tasks, plan, request, None if bound is None else bound.sample(), told)


def _tell(progress: Progress, total: int | None, done: int) -> None:
    progress(done, total)


@contextlib.contextmanager
def _opened(source: Any, schema: Schema, request: Request) -> Iterator[tuple[Iterator[Task], int | None]]:
    """The rows of a source as tasks in their order, and how many there are in all where that is known."""
    opened = frames.open_codes(source, schema, request) if frames.is_codes(source) else open_source(source, request)
    with contextlib.closing(opened), contextlib.closing(tasks_of(opened, request)) as tasks:
        yield tasks, opened.rows


def open_source(source: Any, request: Request) -> Source:
    """The engine that reads this kind of source; it is imported here and no other is."""
    source = readable(source)
    root = _root(source)
    if isinstance(source, Deferred):
        return open_source(source.source(), request)
    if frames.without_columns(source):
        return frames.open_batches((), request)
    if isinstance(source, (str, os.PathLike)):
        return files.open_files(files.Files(source), request)
    if isinstance(source, files.Files):
        return files.open_files(source, request)
    if isinstance(source, Prepared):
        return database.open_query(source, request)
    if isinstance(source, (pa.Table, pa.RecordBatch)):
        return frames.open_table(source, request)
    if frames.is_dataset(source):
        return frames.open_dataset(source, request)
    if isinstance(source, MixedBatch):
        return frames.open_mixed(source)
    if frames.is_pandas(source):
        return frames.open_frame(source, request)
    if root in ("duckdb", "_duckdb") and hasattr(source, "to_arrow_reader") and hasattr(source, "project"):
        from .database import open_relation

        return open_relation(source, request)
    if root == "polars" and hasattr(source, "collect_batches"):
        return frames.open_lazy(source, request)
    if isinstance(source, pa.RecordBatchReader):
        return frames.open_reader(source, "the Arrow stream")
    if hasattr(source, "__arrow_c_stream__"):
        return frames.open_stream(source, request)
    if hasattr(source, "fetchmany") and hasattr(source, "description"):
        return database.open_cursor(source, request)
    if isinstance(source, Iterable):
        if isinstance(source, Sequence) and source and all(isinstance(item, (str, os.PathLike)) for item in source):
            return files.open_files(files.Files(source), request)
        return frames.open_batches(source, request)
    raise no_source(source)


def check_source(source: Any) -> None:
    """Refuse what is no source by its type, before anything is paid for."""
    source = source.source if isinstance(source, OneRecordPerRow) else source
    known = isinstance(source, (str, os.PathLike, files.Files, Query, Prepared, Deferred, Tabled, MixedBatch, Iterable))
    known = known or frames.is_dataset(source) or frames.is_codes(source) or frames.is_pandas(source)
    known = known or _root(source) in ("pyspark", "duckdb", "_duckdb", "polars")
    if not (known or hasattr(source, "__arrow_c_stream__") or hasattr(source, "fetchmany")):
        raise no_source(source)


def stays_elsewhere(source: Any) -> bool:
    """Whether rows are counted where they are, as Spark does, so that no kernel here can see one."""
    source = source.source if isinstance(source, Seen | OneRecordPerRow) else source
    return (
        isinstance(source, Tabled)
        or _root(source) == "pyspark"
        or _root(getattr(source, "connection", None)) == "pyspark"
    )


def no_source(source: Any) -> InvalidArgument:
    """What is said of an argument that has no rows."""
    expected = "a path, a Query, a data frame, an Arrow stream, batches, a cursor or an array of cell numbers"
    return InvalidArgument("source", expected, got=type(source).__name__)


def _root(source: object) -> str:
    return type(source).__module__.partition(".")[0]


# -- rows --------------------------------------------------------------------------------------------------------------


ROWS = 1 << 16


def encode_rows(
    source: Any,
    schema: Schema,
    columns: Sequence[str],
    *,
    bound: Bound | None = None,
    threads: int = 1,
) -> Iterator[dict[str, NDArray[np.int64]]]:
    """Blocks of cell numbers by column, in the order of the rows; see `count` for the sources (Spark excepted).

    With a bound, only the rows of each person that it keeps, in any order.

    Raises:
        SourceError: a column is missing, has a wrong type or breaks a rule of the schema.
    """
    specs = tuple(column_spec(schema[name]) for name in columns)
    request = Request(specs=specs, person=None if bound is None else bound.person, rows=ROWS, threads=threads)
    source = source.source if isinstance(source, Seen) else readable(source)
    source = source.source() if isinstance(source, Deferred) else source
    sample = None if bound is None else bound.sample()
    with (
        _opened(source, schema, request) as (tasks, _),
        contextlib.closing(Encoding(request).in_order(tasks)) as blocks,
    ):
        for block, label in blocks:
            if sample is None:
                yield _named(columns, block.codes)
            else:
                sample.add(block.persons, block.codes, label)
    for chosen in () if sample is None else sample.chosen(ROWS):
        yield _named(columns, chosen)


def _named(columns: Sequence[str], codes: Sequence[NDArray[Any]]) -> dict[str, NDArray[np.int64]]:
    return {name: array.astype(np.int64) for name, array in zip(columns, codes, strict=True)}


def _codes(plan: Plan, block: Mapping[str, NDArray[np.int64]]) -> list[NDArray[Any]]:
    return [block[spec.name].astype(spec.dtype) for spec in plan.specs]


# -- the passes of one fit ---------------------------------------------------------------------------------------------


def validated(source: Any, schema: Schema, person: str | None = None) -> int:
    """The number of rows of a source whose every row obeys the schema. **Private**, as is any refusal.

    Quantile columns are checked against their bounds.
    """
    if isinstance(source, Tabled):  # whose rows obeyed it when they were counted
        source.check(schema, [(name,) for name in schema.names if name != person], *source.unit)
        return source.records
    columns = [_bounds(column) if isinstance(column, Quantiles) else column for column in schema]
    bound = None if person is None else Bound.of(1, person, np.random.default_rng())
    counted = count_bounded(source, schema.replace(*columns), [(name,) for name in schema.names], bound=bound)
    return int(opened(counted[0].private_counts()).sum())


def _bounds(column: Quantiles) -> Numeric:
    fields = column.model_dump(include={"name", "outside", "missing", "transform"})
    return Numeric([column.lower, column.upper], **fields)


class Passes:
    """The rows of a source, counted or handed out as cell numbers, under one bound and one choice of rows.

    Args:
        source: see `count`.
        facts: what was known beforehand; another number of records than the public one is an error.
        bound: of the rows of each person, if persons are the unit.
        progress: called with the rows done and the rows in all.
        known: what was seen of the source already.
        identity: which source it was when the facts were found.
        copied: the schema of a private copy, which a source needs that gives its rows once; see `private/copies.py`.
        threads: that work in each pass.
    """

    def __init__(
        self,
        source: Any,
        facts: Facts,
        bound: Bound | None = None,
        progress: Progress | None = None,
        known: Seen | None = None,
        identity: Identity | None = None,
        copied: Schema | None = None,
        threads: int = 1,
    ) -> None:
        self._known = seen(source) if known is None else known
        self._source, self._facts, self._bound, self._progress = source, facts, bound, progress
        self._identity = identity_of(source) if identity is None else identity
        self._rows: int | None = None
        self._threads = threads_from(threads)
        self._copied: Schema | None = copied
        self._copy: PrivateCopy | None = None
        self._kept: Any = None
        self._passes = 0
        self._closed = False

    def count(self, schema: Schema | None, tables: Iterable[Sequence[str]]) -> list[CountTable]:
        """All tables in one pass. **Private**."""
        assert schema is not None  # rows are counted by the rules of one
        self._begin()
        if self._copied is None:
            found = count_bounded(
                self._known, schema, tables, bound=self._bound, progress=self._progress, threads=self._threads
            )
        else:
            plan = make_plan(schema, tables, MEMORY_LIMIT)
            request = Request(specs=plan.specs, person=None, rows=plan.layout.block_rows(), threads=self._threads)
            blocks = self._rows_of_copy(schema.select(plan.names))
            tasks = (Task(Block(codes=_codes(plan, block)), "the rows") for block in blocks)
            found = _tables(counted(tasks, plan, request), plan, self._known, self._bound)
        self._check(int(opened(found[0].private_counts()).sum()))
        return found

    def blocks(self, schema: Schema, columns: Sequence[str]) -> Iterator[dict[str, NDArray[np.int64]]]:
        """Cell numbers of the same rows, in blocks. **Private**."""
        self._begin()
        rows = 0
        if self._copied is None:
            blocks = encode_rows(self._known, schema, columns, bound=self._bound, threads=self._threads)
        else:
            blocks = self._rows_of_copy(schema.select(columns))
        for block in blocks:
            rows += len(block[columns[0]])
            yield block
        self._check(rows)

    def close(self) -> None:
        """No pass follows: the rows are let go of."""
        if self._copy is not None:
            self._copy.close()
        if self._kept is not None:
            with contextlib.suppress(Exception):  # of Spark, which lets go of them by itself in the end
                self._kept.unpersist()
        self._closed, self._source, self._known, self._copy, self._kept = True, None, Seen(source=None), None, None

    def keep(self) -> None:
        """Ask Spark to keep the frame between passes, so that each sees the rows of the first."""
        frame = self._known.source
        if hasattr(frame, "to_spark"):  # pandas on Spark
            frame = frame.to_spark()
        with engine_errors("the Spark frame could not be kept for several passes"):
            self._kept = frame.persist()
        self._known = replace(self._known, source=self._kept)

    def _rows_of_copy(self, schema: Schema) -> Iterator[dict[str, NDArray[np.int64]]]:
        """Blocks from the private copy, which the first pass makes. **Private**."""
        from ..copies import PrivateCopy  # it knows the encoders

        assert self._copied is not None
        if self._copy is None:
            self._copy, rows = PrivateCopy(self._copied), 0
            names, threads = self._copied.names, self._threads
            for block in encode_rows(self._known, self._copied, names, bound=self._bound, threads=threads):
                self._copy.add(block)
                rows += len(block[self._copied.names[0]])
                if self._progress is not None:
                    self._progress(rows, None)
        yield from self._copy.blocks(schema)

    def _begin(self) -> None:
        if self._closed:
            raise PrivacyError("what was paid for is published, and the rows are not read again for it.")
        if self._passes and not self._facts.again:
            raise SourceError("a further pass over the rows is needed, and the facts of this fit were for one alone.")
        self._check_identity()
        self._passes += 1

    def _check_identity(self) -> None:
        if identity_of(self._source) != self._identity:
            raise SourceError("the files of the source have changed since the fit began.")

    def _check(self, rows: int) -> None:
        """The number of rows must be that of the facts and of the pass before; neither is told."""
        self._check_identity()
        total = self._facts.total
        if total is not None and rows != total:
            raise SourceError(
                "the source has another number of records than was said, registered or counted before. Under "
                "replace-one that number is public and the noise was chosen for it."
            )
        if self._rows is not None and rows != self._rows:
            raise SourceError("the source gave another number of rows in this pass than in the one before.")
        self._rows = rows
