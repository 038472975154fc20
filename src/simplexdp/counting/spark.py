"""Spark: every partition counts its own rows, and the partial tables are added up before they reach the
driver.

Two stages. The first runs the same loop as everywhere else inside `mapInArrow` and leaves, for each
partition, its tables as one long integer array cut into chunks; chunks of zeros are left out. The second
brings equal chunks together and adds them, so that the driver receives each cell once, however many
partitions there are. Rows never leave the executors.

Executors need NumPy and pyarrow, which Spark's own Arrow functions need as well, and not this library: the
few modules of the loop travel with the job.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ..errors import MissingExtra, SourceError
from .kernel import Layout
from .persons import PersonSample
from .run import BatchEncoder, Counter
from .source import Request, engine_errors

if TYPE_CHECKING:
    from .api import Progress

_LABEL = "the Spark frame"
_CHUNK = 1 << 16  # cells; half a MiB
_ROWS, _FAILURE = -1, -2  # numbers of the chunks that hold the number of rows and a broken rule
_FIELDS = "chunk int, counts binary, failure string"
_SHIPPED = (
    "errors",
    "counting.encode",
    "counting.kernel",
    "counting.persons",
    "counting.run",
    "counting.spark",
)


def count_frame(
    frame: Any,
    request: Request,
    layout: Layout,
    rows_per_person: int | None,
    generator: np.random.Generator | None,
    progress: Progress | None,
) -> list[NDArray[np.int64]]:
    """The tables of a Spark DataFrame."""
    _ship()
    if hasattr(frame, "to_spark"):  # pandas on Spark
        frame = frame.to_spark()
    with engine_errors(f"{_LABEL} could not be analysed"):
        narrow = _narrow(frame, request)
    seed = None
    if generator is not None:
        narrow = narrow.repartition(f"c{request.names.index(request.person or '')}")  # a person in one place
        seed = generator.integers(0, 1 << 63, 4).tolist()
    work = _worker(request, layout, rows_per_person, seed)
    cells = layout.cells()
    # The choice of rows is made anew when a lost partition is counted again. One reducer sees all chunks of
    # one attempt; several could add chunks of two choices, and a person would count more than m times.
    reducers = 1 if seed is not None else max(1, min(64, math.ceil(cells / _CHUNK)))
    with engine_errors(f"{_LABEL}: the job did not finish", "An executor may have died; the Spark logs tell."):
        merged = narrow.mapInArrow(work, _FIELDS).repartition(reducers, "chunk").mapInArrow(_merge, _FIELDS)
        found = merged.collect()
    flat = np.zeros(cells, np.int64)
    for row in found:
        if row["chunk"] == _FAILURE:
            raise SourceError(row["failure"])
        if row["chunk"] >= 0:
            counts = np.frombuffer(row["counts"], np.int64)
            flat[row["chunk"] * _CHUNK :][: len(counts)] += counts
        elif progress is not None:
            rows = int(np.frombuffer(row["counts"], np.int64)[0])
            progress(rows, rows)
    ends = np.cumsum([math.prod(layout.shape(table)) for table in range(len(layout.tables))])
    return [part.reshape(layout.shape(table)) for table, part in enumerate(np.split(flat, ends[:-1]))]


def _narrow(frame: Any, request: Request) -> Any:
    columns = list(frame.columns)
    for name in request.names:
        if columns.count(name) != 1:
            found = "is there more than once" if name in columns else "is missing"
            raise SourceError(f"{_LABEL}: column {name!r} {found}.")
    # Plain names inside the job: mapInArrow stumbles over dots and backticks in a name.
    chosen = ["`" + name.replace("`", "``") + "`" for name in request.names]
    return frame.select(*[frame[name].alias(f"c{place}") for place, name in enumerate(chosen)])


def _ship() -> None:
    """Let Spark send the loop itself rather than its name, so that executors need not have this library."""
    try:
        from pyspark import cloudpickle
    except ImportError:
        raise MissingExtra("pyspark", "spark") from None
    package = __name__.rpartition(".counting.")[0]
    for name in _SHIPPED:
        cloudpickle.register_pickle_by_value(  # type: ignore[no-untyped-call]
            sys.modules[f"{package}.{name}"]
        )


def _worker(request: Request, layout: Layout, rows_per_person: int | None, seed: list[int] | None) -> Any:
    """The first stage, as a function that carries all it needs."""
    specs, names, person = request.specs, request.names, request.person

    def work(batches: Iterator[Any]) -> Iterator[Any]:
        sample = None
        if person is not None and rows_per_person is not None and seed is not None:
            from pyspark import TaskContext

            # One stream of random numbers a partition, all from the entropy that was passed in.
            partition = TaskContext.get().partitionId()  # type: ignore[union-attr]  # inside a task there is one
            key = np.random.SeedSequence([*seed, partition])
            sample = PersonSample(person, rows_per_person, np.random.Generator(np.random.Philox(key)))
        encoder = BatchEncoder(specs, person, layout.block_rows())
        counter = Counter(specs, layout, sample)
        try:
            for batch in batches:
                for block in encoder.blocks(batch.rename_columns(names), _LABEL):
                    counter.add(block, _LABEL)
        except SourceError as error:
            # As a result rather than an exception: no retries, and no traceback in the logs.
            yield _record(_FAILURE, None, str(error))
            return
        if counter.rows:
            yield _record(_ROWS, np.array([counter.rows]))
            yield from _chunks(counter.finish())

    return work


def _chunks(tables: list[NDArray[np.int64]]) -> Iterator[Any]:
    flat = np.concatenate([table.ravel() for table in tables])
    for chunk in range(math.ceil(len(flat) / _CHUNK)):
        part = flat[chunk * _CHUNK : (chunk + 1) * _CHUNK]
        if part.any():
            yield _record(chunk, part)


def _merge(batches: Iterator[Any]) -> Iterator[Any]:
    """The second stage: equal chunks are added; of several failures the first is kept."""
    sums: dict[int, NDArray[np.int64]] = {}
    failure = None
    for batch in batches:
        for chunk, counts, text in zip(*(column.to_pylist() for column in batch.columns), strict=True):
            if text is not None:
                failure = failure or text
                continue
            part = np.frombuffer(counts, np.int64)
            sums[chunk] = sums[chunk] + part if chunk in sums else part
    if failure is not None:
        yield _record(_FAILURE, None, failure)
    for chunk, total in sums.items():
        yield _record(chunk, total)


def _record(chunk: int, counts: NDArray[np.int64] | None, failure: str | None = None) -> Any:
    return pa.RecordBatch.from_arrays(
        [
            pa.array([chunk], pa.int32()),
            pa.array([None if counts is None else counts.tobytes()], pa.binary()),
            pa.array([failure], pa.string()),
        ],
        names=["chunk", "counts", "failure"],
    )
