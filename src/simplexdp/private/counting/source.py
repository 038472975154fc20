"""What a source of rows is, the batches it gives, and how its failures are told without telling its values.

Depends on NumPy and pyarrow only, because it is shipped to Spark executors.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from ...errors import SimplexDPError, SourceError
from ...lazy import pa
from .encode import ColumnSpec


@dataclass(frozen=True, kw_only=True)
class Request:
    """What counting asks of a source: these columns, in batches of about this many rows, for so many threads."""

    specs: tuple[ColumnSpec, ...]
    person: str | None
    rows: int
    threads: int = 1

    @property
    def names(self) -> list[str]:
        """The columns to read, the person column among them."""
        names = [spec.name for spec in self.specs]
        return names if self.person is None or self.person in names else [*names, self.person]


@dataclass(frozen=True, kw_only=True)
class Piece:
    """Rows that can be read apart from all others, by another thread.

    Args:
        read: gives their batches; may raise anything.
    """

    read: Callable[[], Iterator[Any]]


@dataclass(frozen=True, kw_only=True)
class Part:
    """A piece of a source with one Arrow schema: a file, a query, a frame.

    Args:
        label: how errors name it.
        schema: its Arrow schema, if known before the first batch.
        batches: record batches, or pieces that give some; may raise anything.
    """

    label: str
    schema: Any
    batches: Iterator[Any]


class Tabled(ABC):
    """Rows that were counted before: what is asked for is read off their tables, and no row can be read again.

    Proof: docs/proofs/composition.md.
    """

    @property
    @abstractmethod
    def relations(self) -> frozenset[Any]:
        """The neighbours that they may be released under."""

    @property
    @abstractmethod
    def declarations(self) -> tuple[str, ...]:
        """What is declared of them."""

    @property
    @abstractmethod
    def identity(self) -> Any:
        """Which rows they are."""

    @property
    @abstractmethod
    def unit(self) -> tuple[int | None, str | None]:
        """The most rows of a person and the column that names the person, if persons are the unit."""

    @property
    @abstractmethod
    def records(self) -> int:
        """How many. **Private** unless that number is public."""

    @abstractmethod
    def check(self, schema: Any, tables: Iterable[Sequence[str]], rows: int | None, person: str | None) -> None:
        """Refuse what cannot be read off the tables, before anything is paid for."""

    @abstractmethod
    def tables(self, schema: Any, tables: Iterable[Sequence[str]], bound: Any) -> list[Any]:
        """The counts. **Private**."""


@dataclass(frozen=True, kw_only=True)
class Source:
    """Parts to read one after the other, the rows in all where known, and what to close at the end."""

    parts: Iterator[Part]
    rows: int | None = None
    close: Callable[[], None] = lambda: None


def batches_in(items: Iterator[Any], label: str) -> Iterator[Any]:
    """The record batches of a part, those of its pieces in their order."""
    for item in guarded(items, label):
        if isinstance(item, Piece):
            yield from guarded(item.read(), label)
        else:
            yield item


def guarded(items: Iterator[Any], label: str) -> Iterator[Any]:
    """The items, with every failure of the engine behind them turned into a `SourceError`."""
    hint = "It may be damaged or truncated, or the engine stopped."
    while True:
        with engine_errors(f"{label} could not be read to the end", hint):
            try:
                item = next(items)
            except StopIteration:
                return
        yield item


@contextmanager
def engine_errors(what: str, hint: str = "") -> Iterator[None]:
    """Calls into an engine; a failure becomes a `SourceError` with none of the engine's words.

    Engines quote values and whole lines in their messages. The error still holds theirs as its context, which
    `discreet` drops where the caller begins.
    """
    try:
        yield
    except SimplexDPError:
        raise
    except Exception as error:
        raise SourceError(f"{what} ({type(error).__name__}). {hint}".rstrip()) from None


# -- batches -----------------------------------------------------------------------------------------------------------


OBJECTS = "Python objects"
"""The type of a column of Python objects, where Arrow columns have an Arrow type."""


@dataclass(frozen=True)
class FieldType:
    """The type of fields of a text file that were converted to an Arrow type, where they could be."""

    arrow: Any


@dataclass(frozen=True, eq=False)
class Fields:
    """Fields of a text file: their values as an Arrow array, and which of them are not of the declared type."""

    values: Any
    failed: Any  # a boolean array without nulls

    def __len__(self) -> int:
        return len(self.values)

    @property
    def type(self) -> FieldType:
        """What the values were converted to."""
        return FieldType(self.values.type)

    def slice(self, start: int, length: int) -> Fields:
        """A part of the fields."""
        return Fields(self.values.slice(start, length), self.failed.slice(start, length))


@dataclass(frozen=True)
class Columns:
    """Names and types of the columns of a batch, as an Arrow schema has them."""

    names: tuple[str, ...]
    types: tuple[Any, ...]


@dataclass(frozen=True, eq=False)
class MixedBatch:
    """Rows whose columns are Arrow arrays, sequences of Python objects, or `Fields`; as a source, `label` names it."""

    names: Sequence[str]
    columns: Sequence[Any]
    label: str = "the rows"

    @property
    def schema(self) -> Columns:
        """Names and types."""
        return Columns(
            tuple(self.names), tuple(OBJECTS if _is_objects(column) else column.type for column in self.columns)
        )

    @property
    def num_rows(self) -> int:
        """The number of rows."""
        return len(self.columns[0]) if self.columns else 0

    def column(self, index: int) -> Any:
        """One column."""
        return self.columns[index]

    def slice(self, start: int, length: int) -> MixedBatch:
        """A part of the rows."""
        return MixedBatch(
            self.names,
            [
                column[start : start + length] if _is_objects(column) else column.slice(start, length)
                for column in self.columns
            ],
            self.label,
        )


def arrow_schema(schema: Any) -> Any:
    """The Arrow schema of batches from a file."""
    if isinstance(schema, Columns):
        kinds = [kind.arrow if isinstance(kind, FieldType) else kind for kind in schema.types]
        return pa.schema(list(zip(schema.names, kinds, strict=True)))
    return schema


def arrow_batch(batch: Any) -> Any:
    """The Arrow batch of rows from a file; a field that is not of the declared type is null."""
    if isinstance(batch, MixedBatch):
        columns = [column.values if isinstance(column, Fields) else column for column in batch.columns]
        return pa.RecordBatch.from_arrays(columns, names=list(batch.names))
    return batch


def _is_objects(column: Any) -> bool:
    return not hasattr(column, "type")
