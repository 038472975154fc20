"""`count`: all tables in one pass over whatever holds the rows."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, get_args

import numpy as np
import pyarrow as pa
import pyarrow.dataset
from numpy.typing import NDArray

from ..budget import Neighbours, check_whole
from ..errors import InvalidArgument, SourceError
from ..tables import CountTable
from . import arrow, codes, database, files, frames
from .persons import PersonSample
from .plan import Plan, make_plan
from .run import BatchEncoder, Block, Counter
from .source import Request, Source, engine_errors, guarded

if TYPE_CHECKING:
    from ..schema import Schema

Progress = Callable[[int, int | None], None]
"""Called with the rows done and the rows in all, where that is known."""


class Entropy(Protocol):
    """Where random numbers come from."""

    def generator(self) -> np.random.Generator:
        """A NumPy generator."""


def count(
    source: Any,
    schema: Schema,
    tables: Iterable[Sequence[str]],
    *,
    rows_per_person: int | None = None,
    person: str | None = None,
    entropy: Entropy | np.random.Generator | None = None,
    progress: Progress | None = None,
    memory_limit: int = 2 << 30,
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
            relation; a DB-API cursor; a NumPy array of cell numbers (see `CellNumbers`); anything with
            `__arrow_c_stream__`.
        schema: the declared columns.
        tables: for each table the columns it crosses.
        rows_per_person: keep at most this many rows of each person, chosen at random; the unit of the
            tables is then the person. Needs memory for that many rows of every person.
        person: the column that names the person, exactly with `rows_per_person`.
        entropy: where the choice comes from: `SecureEntropy()`. A NumPy generator or a seeded entropy can be repeated
            by whoever knows its seed, so tables counted with one are marked as not private.
        progress: called with the rows done and the rows in all (None if unknown).
        memory_limit: bytes that all tables may take; above, nothing is read.

    Returns:
        The tables in the order asked for.

    Raises:
        SourceError: the source lacks a column, has it in a wrong type, breaks a rule of the schema or
            cannot be read. The message names file, column and rule, never a value; the error has no context
            and no inner frames, because those hold rows.
    """
    plan = make_plan(schema, tables, memory_limit)
    generator = _generator(rows_per_person, person, entropy)
    failure: SourceError | None = None
    try:
        arrays = _arrays(source, schema, plan, rows_per_person, person, generator, progress)
    except SourceError as error:
        failure = error
    if failure is not None:
        failure.__context__ = failure.__cause__ = None
        raise failure.with_traceback(None)
    return [
        CountTable(
            counts,
            columns,
            unit="row" if rows_per_person is None else "person",
            rows_per_person=rows_per_person,
            fingerprint=fingerprint,
            is_private=plan.is_private and (generator is None or getattr(entropy, "is_private", False)),
            relations=relations_of(source),
        )
        for counts, columns, fingerprint in zip(arrays, plan.tables, plan.fingerprints, strict=True)
    ]


def relations_of(source: Any) -> frozenset[Neighbours]:
    """The neighbours that what is counted may be released under, as far as can be seen: some queries rule one out."""
    every: frozenset[Neighbours] = frozenset(get_args(Neighbours))
    return source.relations if isinstance(source, database.Query) else every


def can_be_read_again(source: Any) -> bool:
    """Whether a second pass over the source sees the same rows: not so for streams, cursors and Spark frames."""
    if isinstance(
        source, (str, os.PathLike, files.Files, database.Query, codes.CellNumbers, np.ndarray, pa.Table, pa.RecordBatch)
    ):
        return True
    root = type(source).__module__.partition(".")[0]
    if root in ("pandas", "polars"):
        return True
    return isinstance(source, (Sequence, Mapping))


def _arrays(
    source: Any,
    schema: Schema,
    plan: Plan,
    rows_per_person: int | None,
    person: str | None,
    generator: np.random.Generator | None,
    progress: Progress | None,
) -> list[NDArray[np.int64]]:
    request = Request(specs=plan.specs, person=person, rows=plan.layout.block_rows())
    if _root(source) == "pyspark":
        from .spark import count_frame

        return count_frame(source, request, plan.layout, rows_per_person, generator, progress)
    sample = None
    if rows_per_person is not None and person is not None and generator is not None:
        sample = PersonSample(person, rows_per_person, generator)
    counter = Counter(plan.specs, plan.layout, sample)
    with contextlib.ExitStack() as stack:
        if codes.is_codes(source):
            total: int | None
            plain, total = codes.open_codes(source, schema, request)
            blocks: Iterator[tuple[Block, str]] = ((block, codes.LABEL) for block in plain)
        else:
            opened = open_source(source, request)
            stack.callback(opened.close)
            total = opened.rows
            blocks = _encoded(opened, request)
            stack.callback(blocks.close)  # type: ignore[attr-defined]  # a generator
        for block, label in blocks:
            with engine_errors(f"{label} could not be counted"):
                counter.add(block, label)
            if progress is not None:
                progress(counter.rows, total)
    return counter.finish()


def _encoded(source: Source, request: Request) -> Iterator[tuple[Block, str]]:
    encoder = BatchEncoder(request.specs, request.person, request.rows)
    for part in source.parts:
        if part.schema is not None:
            encoder.check(part.schema, part.label)
        for batch in guarded(part.batches, part.label):
            for block in guarded(encoder.blocks(batch, part.label), part.label):
                yield block, part.label


def open_source(source: Any, request: Request) -> Source:
    """The engine that reads this kind of source; it is imported here and no other is."""
    root = _root(source)
    if isinstance(source, (str, os.PathLike)):
        return files.open_files(files.Files(source), request)
    if isinstance(source, files.Files):
        return files.open_files(source, request)
    if isinstance(source, database.Query):
        return database.open_query(source, request)
    if isinstance(source, (pa.Table, pa.RecordBatch)):
        return arrow.open_table(source, request)
    if isinstance(source, pa.dataset.Dataset):
        return arrow.open_dataset(source, request)
    if root == "pandas" and hasattr(source, "columns"):
        return frames.open_frame(source, request)
    if root in ("duckdb", "_duckdb") and hasattr(source, "to_arrow_reader") and hasattr(source, "project"):
        from .duckdb import open_relation

        return open_relation(source, request)
    if root == "polars" and hasattr(source, "collect_batches"):
        return arrow.open_lazy(source, request)
    if isinstance(source, pa.RecordBatchReader):
        return arrow.open_reader(source, "the Arrow stream")
    if hasattr(source, "__arrow_c_stream__"):
        return arrow.open_stream(source, request)
    if hasattr(source, "fetchmany") and hasattr(source, "description"):
        return database.open_cursor(source, request)
    if isinstance(source, Iterable):
        if isinstance(source, Sequence) and source and all(isinstance(item, (str, os.PathLike)) for item in source):
            return files.open_files(files.Files(source), request)
        return arrow.open_batches(source)
    raise InvalidArgument(
        "source",
        "a path, a Query, a data frame, an Arrow stream, batches, a cursor or an array of cell numbers",
        got=type(source).__name__,
    )


def _root(source: object) -> str:
    return type(source).__module__.partition(".")[0]


def _generator(
    rows: int | None, person: str | None, entropy: Entropy | np.random.Generator | None
) -> np.random.Generator | None:
    if rows is None and person is None:
        return None
    if rows is None or person is None:
        raise InvalidArgument("rows_per_person", "given together with person, the column that names the person")
    check_whole("rows_per_person", rows)
    if entropy is None:
        raise InvalidArgument(
            "entropy",
            "given with rows_per_person, because the rows of each person are chosen at random",
            hint="Pass SecureEntropy() of simplexdp.sampling.entropy.",
        )
    return entropy if isinstance(entropy, np.random.Generator) else entropy.generator()
