"""What a source of rows is, and how its failures are told without telling its values."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from ..errors import SimplexDPError, SourceError
from .encode import ColumnSpec


@dataclass(frozen=True, kw_only=True)
class Request:
    """What counting asks of a source: these columns, in batches of about this many rows."""

    specs: tuple[ColumnSpec, ...]
    person: str | None
    rows: int

    @property
    def names(self) -> list[str]:
        """The columns to read, the person column among them."""
        names = [spec.name for spec in self.specs]
        return names if self.person is None or self.person in names else [*names, self.person]


@dataclass(frozen=True, kw_only=True)
class Part:
    """A piece of a source with one Arrow schema: a file, a query, a frame.

    Args:
        label: how errors name it.
        schema: its Arrow schema, if known before the first batch.
        batches: record batches; may raise anything.
    """

    label: str
    schema: Any
    batches: Iterator[Any]


@dataclass(frozen=True, kw_only=True)
class Source:
    """Parts to read one after the other, the rows in all where known, and what to close at the end."""

    parts: Iterator[Part]
    rows: int | None = None
    close: Callable[[], None] = lambda: None


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

    Engines quote values and whole lines in their messages. `count` also drops the context of the error.
    """
    try:
        yield
    except SimplexDPError:
        raise
    except Exception as error:
        raise SourceError(f"{what} ({type(error).__name__}). {hint}".rstrip()) from None
