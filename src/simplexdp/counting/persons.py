"""At most m rows of each person, chosen uniformly at random.

Every row gets a random 64-bit key from the entropy that was passed in; of each person the m rows with the
smallest keys stay. Any m of the rows are then equally likely, whatever the order of the rows and the
batches, and the choice for one person does not depend on the rows of another. Memory is for m rows of each
person (as cell numbers, a byte or two a column) plus as many in waiting; it grows with the number of
persons, not with the number of rows.

Depends on NumPy and pyarrow only, because it is shipped to Spark executors.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ..errors import SourceError
from .encode import Codes

_WAITING_ROWS = 1 << 20


class PersonSample:
    """Rows put up with `add`; `chosen` gives those that stay.

    Args:
        name: the person column, for messages.
        rows: the bound m.
        generator: where the keys come from.
    """

    def __init__(self, name: str, rows: int, generator: np.random.Generator) -> None:
        self._name, self._rows, self._generator = name, rows, generator
        self._persons: list[Any] = []
        self._keys: list[NDArray[np.uint64]] = []
        self._codes: list[Sequence[Codes]] = []
        self._kind: Any = None
        self._kept = self._waiting = 0

    def add(self, persons: Any, codes: Sequence[Codes], label: str) -> None:
        """Put rows up for the choice."""
        self._persons.append(self._plain(persons, label))
        self._keys.append(self._generator.integers(0, 1 << 64, len(persons), dtype=np.uint64))
        self._codes.append(codes)
        self._waiting += len(persons)
        if self._waiting >= max(_WAITING_ROWS, self._kept):
            self._choose()

    def chosen(self, rows: int) -> Iterator[Sequence[Codes]]:
        """The rows that stay, in blocks."""
        self._choose()
        codes = self._codes[0] if self._codes else ()
        for start in range(0, self._kept, rows):
            yield [column[start : start + rows] for column in codes]

    def _choose(self) -> None:
        if not self._waiting:
            return
        persons = pa.concat_arrays(self._persons)
        keys = np.concatenate(self._keys)
        who = persons.dictionary_encode().indices.to_numpy()
        order = np.lexsort((keys, who))
        sorted_who = who[order]
        first = np.flatnonzero(np.diff(sorted_who, prepend=-1))  # where each person begins
        rank = np.arange(len(order)) - np.repeat(first, np.diff(first, append=len(order)))
        stay = order[rank < self._rows]
        self._persons = [persons.take(pa.array(stay))]
        self._keys = [keys[stay]]
        self._codes = [[np.concatenate(parts)[stay] for parts in zip(*self._codes, strict=True)]]
        self._kept, self._waiting = len(stay), 0

    def _plain(self, persons: Any, label: str) -> Any:
        """One type for all batches, so that the same person is the same value in each of them."""
        kind = persons.type
        if pa.types.is_dictionary(kind):
            persons = persons.dictionary_decode()
            kind = persons.type
        wide = kind
        if pa.types.is_string(kind) or pa.types.is_string_view(kind):
            wide = pa.large_string()
        elif pa.types.is_integer(kind) and kind != pa.uint64():
            wide = pa.int64()
        elif pa.types.is_floating(kind) or pa.types.is_nested(kind) or pa.types.is_boolean(kind):
            raise SourceError(
                f"{label}: the person column {self._name!r} has the type {kind}. "
                "Whole numbers and strings name persons."
            )
        if persons.null_count:
            raise SourceError(
                f"{label}: the person column {self._name!r} has missing entries, "
                "and each row must belong to someone. Fill or drop them in the source."
            )
        if self._kind is None:
            self._kind = wide
        if wide != self._kind:
            raise SourceError(
                f"{label}: the person column {self._name!r} has the type {kind} here "
                f"and {self._kind} before. Cast it to one type in the source."
            )
        return persons if kind == wide else persons.cast(wide)
