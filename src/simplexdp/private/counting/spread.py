"""The pieces of a source, encoded and counted by several threads: every result is that of one thread, bit for bit.

Each thread has encoders of its own and takes one of a few tallies; counts are whole numbers, so it does not matter
which tally a row is counted in. What depends on the order of the rows, as the choice of each person's rows does, is
done in that order by the one thread that asks. The first failure in the order of these pieces is the one that is told.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass
from queue import LifoQueue
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...cores import in_order
from .kernel import BatchEncoder, Block, Counter
from .persons import PersonSample
from .plan import Plan
from .source import Part, Piece, Request, Source, engine_errors, guarded


@dataclass(frozen=True)
class Task:
    """Rows that one thread encodes: a piece, a batch, or cell numbers; `label` is what errors call them."""

    rows: Any
    label: str


def tasks_of(source: Source, request: Request) -> Generator[Task, None, None]:
    """The rows of a source in their order; schemas are checked before a row is read."""
    encoder = BatchEncoder(request.specs, request.person, request.rows)
    for part in source.parts:
        if part.schema is not None:
            encoder.check(part.schema, part.label)
        yield from tasks_in(part, request.rows)


def tasks_in(part: Part, rows: int) -> Iterator[Task]:
    """The rows of a part in their order, so many at once, or in the pieces that it has."""
    for item in guarded(part.batches, part.label):
        if isinstance(item, Piece | Block) or item.num_rows <= rows:
            yield Task(item, part.label)
            continue
        for start in range(0, item.num_rows, rows):
            yield Task(item.slice(start, rows), part.label)


class Encoding:
    """Tasks to blocks of cell numbers; every thread has encoders of its own."""

    def __init__(self, request: Request) -> None:
        self._request = request
        self._local = threading.local()

    def blocks(self, task: Task) -> Iterator[Block]:
        """The rows of a task."""
        if isinstance(task.rows, Block):
            yield task.rows
            return
        if not hasattr(self._local, "encoder"):
            request = self._request
            self._local.encoder = BatchEncoder(request.specs, request.person, request.rows)
        items = task.rows.read() if isinstance(task.rows, Piece) else iter((task.rows,))
        for item in guarded(items, task.label):
            if isinstance(item, Block):
                yield item
                continue
            yield from guarded(self._local.encoder.blocks(item, task.label), task.label)

    def in_order(self, tasks: Iterable[Task]) -> Generator[tuple[Block, str], None, None]:
        """The blocks of all tasks, in the order of the rows."""

        def work(task: Task) -> tuple[list[Block], str]:
            return list(self.blocks(task)), task.label

        with contextlib.closing(in_order(work, tasks, self._request.threads)) as parts:
            for blocks, label in parts:
                for block in blocks:
                    yield block, label


class Tallies:
    """Counters for several threads, no more of them than the memory for tables allows."""

    def __init__(self, plan: Plan, threads: int) -> None:
        self._plan = plan
        self._made: list[Counter] = []
        self._free: LifoQueue[Counter | None] = LifoQueue()  # the one whose counts are in a cache comes first
        for _ in range(max(1, min(threads, plan.memory // max(8 * plan.layout.cells(), 1)))):
            self._free.put(None)

    def add(self, block: Block, label: str) -> None:
        """Count the rows of a block, by any thread."""
        counter = self._free.get()
        if counter is None:
            counter = Counter(self._plan.specs, self._plan.layout)
            self._made.append(counter)
        try:
            with engine_errors(f"{label} could not be counted"):
                counter.add(block, label)
        finally:
            self._free.put(counter)

    def finish(self) -> list[NDArray[np.int64]]:
        """The tables of all together."""
        first, *others = self._made or [Counter(self._plan.specs, self._plan.layout)]
        while others:
            first.absorb(others.pop())
        self._made = []
        return first.finish()


def counted(
    tasks: Iterable[Task],
    plan: Plan,
    request: Request,
    sample: PersonSample | None = None,
    told: Callable[[int], None] | None = None,
) -> list[NDArray[np.int64]]:
    """The tables of all rows, or of those that the sample keeps; `told` is called with the rows done.

    Proof: docs/proofs/composition.md.
    """
    tallies, encoding, done = Tallies(plan, request.threads), Encoding(request), 0

    def work(task: Task) -> int:
        rows = 0
        for block in encoding.blocks(task):
            tallies.add(block, task.label)
            rows += len(block)
        return rows

    def put_up() -> Generator[int, None, None]:
        assert sample is not None
        for block, label in encoding.in_order(tasks):
            with engine_errors(f"{label} could not be counted"):
                sample.add(block.persons, block.codes, label)
            yield len(block)

    with contextlib.closing(in_order(work, tasks, request.threads) if sample is None else put_up()) as parts:
        for rows in parts:
            done += rows
            if rows and told is not None:
                told(done)
    if sample is not None:
        kept = (Task(Block(codes=codes), "the rows") for codes in sample.chosen(plan.layout.block_rows()))
        for _ in in_order(work, kept, request.threads):
            pass
    return tallies.finish()
