"""The loop that every engine runs: batches are encoded, gathered into blocks and counted.

Depends on NumPy and pyarrow only, because it is shipped to Spark executors.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import SourceError
from .encode import Codes, ColumnSpec, Encoder, encoder
from .kernel import Layout, Tally
from .persons import PersonSample


@dataclass(frozen=True, kw_only=True)
class Block:
    """Cell numbers of some rows, one array a column of the plan, and whose rows they are if that matters."""

    codes: Sequence[Codes]
    persons: Any = None  # an Arrow array

    def __len__(self) -> int:
        return len(self.codes[0])


class BatchEncoder:
    """Arrow record batches to blocks; encoders are made once for each type a column comes in."""

    def __init__(self, specs: Sequence[ColumnSpec], person: str | None, rows: int) -> None:
        self._specs, self._person, self._rows = specs, person, rows
        self._encoders: dict[tuple[int, Any], Encoder] = {}
        self._schema: Any = None
        self._plan: list[tuple[ColumnSpec, int, Encoder]] = []
        self._person_index: int | None = None

    def check(self, schema: Any, label: str) -> None:
        """Refuse an Arrow schema that lacks a column or has it in a type that does not fit."""
        if self._schema is not None and schema.equals(self._schema):
            return
        place: dict[str, int] = {}
        for index, name in enumerate(schema.names):
            place[name] = -1 if name in place else index
        wanted = [spec.name for spec in self._specs] + ([] if self._person is None else [self._person])
        for name in wanted:
            if place.get(name, 0) < 0:
                raise SourceError(f"{label}: column {name!r} is there more than once.")
        absent = [name for name in wanted if name not in place]
        if absent:
            raise SourceError(f"{label}: {_listed('column', absent)} missing. {_listed('column', place)} there.")
        self._plan = []
        for number, spec in enumerate(self._specs):
            index = place[spec.name]
            kind = schema.field(index).type
            found = self._encoders.get((number, kind))
            if found is None:
                found = self._encoders[number, kind] = encoder(spec, kind, label)
            self._plan.append((spec, index, found))
        self._person_index = None if self._person is None else place[self._person]
        self._schema = schema

    def blocks(self, batch: Any, label: str) -> Iterator[Block]:
        """The rows of a batch as blocks of at most the wanted length."""
        self.check(batch.schema, label)
        for start in range(0, batch.num_rows, self._rows):
            part = batch.slice(start, self._rows) if batch.num_rows > self._rows else batch
            codes = [spec.encode(part.column(index), encode, label) for spec, index, encode in self._plan]
            persons = None if self._person_index is None else part.column(self._person_index)
            yield Block(codes=codes, persons=persons)


class Counter:
    """Gathers blocks of any length into full ones, optionally bounds the rows of each person, and counts."""

    def __init__(self, specs: Sequence[ColumnSpec], layout: Layout, sample: PersonSample | None = None) -> None:
        self.rows = 0
        self._tally, self._sample = Tally(layout), sample
        self._length = layout.block_rows()
        self._dtypes = [spec.dtype for spec in specs]
        self._held: list[NDArray[Any]] = []
        self._filled = 0

    def add(self, block: Block, label: str) -> None:
        """Count the rows of a block, or put them up for the choice of each person's rows."""
        self.rows += len(block)
        if self._sample is not None:
            self._sample.add(block.persons, block.codes, label)
        else:
            self._count(block.codes)

    def _count(self, codes: Sequence[Codes]) -> None:
        rows = len(codes[0])
        if self._filled == 0 and rows >= self._length // 2:  # large enough not to be worth a copy
            self._tally.add(codes)
            return
        if not self._held:
            self._held = [np.empty(self._length, dtype) for dtype in self._dtypes]
        start = 0
        while start < rows:
            take = min(rows - start, self._length - self._filled)
            for held, column in zip(self._held, codes, strict=True):
                held[self._filled : self._filled + take] = column[start : start + take]
            self._filled += take
            start += take
            if self._filled == self._length:
                self._flush()

    def _flush(self) -> None:
        if self._filled:
            self._tally.add([held[: self._filled] for held in self._held])
            self._filled = 0

    def finish(self) -> list[NDArray[np.int64]]:
        """The tables; the counter is empty afterwards."""
        if self._sample is not None:
            for codes in self._sample.chosen(self._length):
                self._count(codes)
        self._flush()
        self._held = []
        return self._tally.tables()


def _listed(noun: str, names: Any) -> str:
    """`column 'a' is` or `columns 'a', 'b', ... are`, ten at most."""
    names = list(names)
    if not names:
        return f"No {noun}s are"
    some = ", ".join(map(repr, names[:10])) + (f", ... ({len(names)} in all)" if len(names) > 10 else "")
    return f"{noun} {some} is" if len(names) == 1 else f"{noun}s {some} are"
