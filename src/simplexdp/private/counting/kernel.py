"""Counting: batches are encoded, gathered into blocks and counted; tables of a small joint domain are counted together.

One table of k cells costs a pass over the rows, half a nanosecond a row. Tables whose columns together
have few cells (naive Bayes: some features and the class) are counted as one joint table and summed out at the
end: four features of ten values and a class of two are one pass over 20,000 cells instead of four passes.
Operations on a block are long beside what a change of threads takes.

Needs NumPy and pyarrow only, because it is shipped to Spark executors; SciPy is used where it is there.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...errors import SourceError
from .encode import Codes, ColumnSpec, Encoder
from .fields import column_encoder
from .persons import PersonSample
from .source import Fields

BLOCK_ROWS = 1 << 19  # threads take turns at the interpreter between two operations: these must not be short
_BLOCK_CELLS = 1 << 24  # rows × columns; wide schemas get shorter blocks
_BLOCK_BYTES = 32 << 20  # of their cell numbers
_JOINT_CELLS = 1 << 15  # 256 KiB of counts: half of a common second-level cache
_JOINT_BYTES = 32 << 20  # of all joint tables together
_BINCOUNT_CELLS = 1 << 18  # above, clearing and adding a whole table for each block costs more than it saves
_LOOK_BACK = 16  # joint tables a new table is tried with
_FEW_KEYS = 1 << 20  # counted by NumPy, before SciPy is worth its import


@dataclass(frozen=True, kw_only=True)
class Joint:
    """Columns counted together and the tables that are read off it, by their place in the request."""

    columns: tuple[int, ...]
    sizes: tuple[int, ...]
    tables: tuple[int, ...]

    @property
    def cells(self) -> int:
        """The number of cells of the joint domain."""
        return math.prod(self.sizes)


@dataclass(frozen=True, kw_only=True)
class Layout:
    """Which columns are read, how wide each is, and which tables are wanted; columns by their place here."""

    sizes: tuple[int, ...]
    tables: tuple[tuple[int, ...], ...]

    def shape(self, table: int) -> tuple[int, ...]:
        """Cells along each column of a table."""
        return tuple(self.sizes[column] for column in self.tables[table])

    def cells(self) -> int:
        """Cells of all tables together."""
        return sum(math.prod(self.shape(table)) for table in range(len(self.tables)))

    def block_rows(self) -> int:
        """Rows in a block: fewer when there are very many columns."""
        width = sum(np.min_scalar_type(size + 1).itemsize for size in self.sizes)
        rows = min(_BLOCK_CELLS // max(len(self.sizes), 1), _BLOCK_BYTES // max(width, 1))
        return max(min(BLOCK_ROWS, rows), 1 << 12)

    def joints(self) -> list[Joint]:
        """Tables put together greedily: each with the recent joint table that grows least and stays small."""
        limit = min(_JOINT_CELLS, self.block_rows() // 4, max(_JOINT_BYTES // 8 // max(len(self.tables), 1), 256))
        found: list[Joint] = []
        open_: list[int] = []
        for place, columns in enumerate(self.tables):
            best, growth = None, math.inf
            for candidate in open_:
                joint = found[candidate]
                factor = math.prod(self.sizes[column] for column in columns if column not in joint.columns)
                if joint.cells * factor <= limit and factor < growth:
                    best, growth = candidate, factor
            if best is None:
                if math.prod(self.shape(place)) <= limit:
                    open_ = [*open_[-_LOOK_BACK + 1 :], len(found)]
                found.append(Joint(columns=columns, sizes=self.shape(place), tables=(place,)))
                continue
            joint = found[best]
            union = joint.columns + tuple(column for column in columns if column not in joint.columns)
            found[best] = Joint(
                columns=union,
                sizes=tuple(self.sizes[column] for column in union),
                tables=(*joint.tables, place),
            )
        return found


def _sparse() -> Any:
    """SciPy's matrices by columns; None where it is not installed. Not cached: Spark could not send it then."""
    try:
        from scipy.sparse import csc_array
    except ImportError:
        return None
    return csc_array


class Tally:
    """Running counts. Feed it blocks of cell numbers, then take the tables."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self._joints = layout.joints()
        self._counts = [np.zeros(joint.cells, np.int64) for joint in self._joints]
        self._scratch: dict[np.dtype[Any], NDArray[Any]] = {}
        self._ones = np.empty(0, np.int32)
        self._keys_done = 0

    def add(self, block: Sequence[NDArray[Any]]) -> None:
        """Count a block: one array of cell numbers a column of the layout, all of one length and in range."""
        for joint, counts in zip(self._joints, self._counts, strict=True):
            keys = self._keys(block, joint)
            if joint.cells <= _BINCOUNT_CELLS:
                counts += self._histogram(keys, joint.cells)
            else:
                np.add.at(counts, keys, 1)

    def _histogram(self, keys: NDArray[Any], cells: int) -> NDArray[Any]:
        """How many keys have each value.

        As a product of a sparse matrix, with a one in the row of each key, and a vector of a single one: SciPy adds up
        in half the time of `numpy.bincount` and lets other threads work meanwhile, which NumPy does not.
        """
        self._keys_done += len(keys)
        matrix = None if self._keys_done < _FEW_KEYS else _sparse()
        if matrix is None:
            return np.bincount(keys, minlength=cells)
        if len(self._ones) < len(keys):  # a block has fewer rows than 2³¹
            self._ones = np.ones(len(keys), np.int32)
        places = keys.astype(np.int32)
        ends = np.array([0, len(keys)], np.int32)
        found: NDArray[Any] = matrix((self._ones[: len(keys)], places, ends), shape=(cells, 1)) @ self._ones[:1]
        return found

    def _keys(self, block: Sequence[NDArray[Any]], joint: Joint) -> NDArray[Any]:
        """Mixed-radix numbers ((c₀·s₁ + c₁)·s₂ + c₂) ..., in the smallest type that holds them so far."""
        keys = block[joint.columns[0]]
        reach = joint.sizes[0]
        for column, size in zip(joint.columns[1:], joint.sizes[1:], strict=True):
            reach *= size
            out = self._buffer(np.promote_types(np.min_scalar_type(reach - 1), block[column].dtype), len(keys))
            np.multiply(keys, out.dtype.type(size), out=out)
            keys = np.add(out, block[column], out=out)
        return keys

    def _buffer(self, dtype: np.dtype[Any], rows: int) -> NDArray[Any]:
        held = self._scratch.get(dtype)
        if held is None or len(held) < rows:
            held = self._scratch[dtype] = np.empty(rows, dtype)
        return held[:rows]

    def absorb(self, other: Tally) -> None:
        """Add the counts of another tally of the same layout, which is empty afterwards."""
        for counts in self._counts:
            counts += other._counts.pop(0)

    def tables(self) -> list[NDArray[np.int64]]:
        """The tables in the order of the layout. The tally is empty afterwards."""
        found: dict[int, NDArray[np.int64]] = {}
        while self._joints:
            joint, counts = self._joints.pop(), self._counts.pop().reshape
            for place in joint.tables:
                wanted = self.layout.tables[place]
                shaped = counts(joint.sizes)
                if wanted != joint.columns:
                    gone = tuple(axis for axis, column in enumerate(joint.columns) if column not in wanted)
                    kept = [column for column in joint.columns if column in wanted]
                    shaped = shaped.sum(axis=gone).transpose([kept.index(column) for column in wanted])
                found[place] = np.ascontiguousarray(shaped)
        return [found[place] for place in range(len(self.layout.tables))]


@dataclass(frozen=True, kw_only=True)
class Block:
    """Cell numbers of some rows, one array a column of the plan, and whose rows they are if that matters."""

    codes: Sequence[Codes]
    persons: Any = None  # an Arrow array or Python objects

    def __len__(self) -> int:
        return len(self.codes[0])


class BatchEncoder:
    """Arrow record batches and mixed ones to blocks; encoders are made once for each type a column comes in."""

    def __init__(self, specs: Sequence[ColumnSpec], person: str | None, rows: int) -> None:
        self._specs, self._person, self._rows = specs, person, rows
        self._encoders: dict[tuple[int, Any], Encoder] = {}
        self._schema: Any = None
        self._plan: list[tuple[ColumnSpec, int, Encoder]] = []
        self._person_index: int | None = None

    def check(self, schema: Any, label: str) -> None:
        """Refuse a schema that lacks a column or has it in a type that does not fit."""
        if type(schema) is type(self._schema) and schema == self._schema:
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
            kind = schema.types[index]
            found = self._encoders.get((number, kind))
            if found is None:
                found = self._encoders[number, kind] = column_encoder(spec, kind, label)
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
            yield Block(codes=codes, persons=persons.values if isinstance(persons, Fields) else persons)


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

    def absorb(self, other: Counter) -> None:
        """Add what another counter without a sample has counted, which is empty afterwards."""
        other._flush()
        self.rows += other.rows
        self._tally.absorb(other._tally)

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
