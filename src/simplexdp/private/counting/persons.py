"""At most m rows of each person, chosen uniformly at random.

Every row gets a random 64-bit key from the entropy that was passed in; of each person the m rows with the
smallest keys stay. Any m of the rows are then equally likely, whatever the order of the rows and the
batches, and the choice for one person does not depend on the rows of another. Memory is for m rows of each
person (as cell numbers, a byte or two a column) plus as many in waiting; it grows with the number of
persons, not with the number of rows.

Depends on NumPy and pyarrow only, because it is shipped to Spark executors.
"""

from __future__ import annotations

import datetime
import decimal
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ...budget import check_whole
from ...errors import InvalidArgument, SourceError
from ...lazy import pa
from .encode import Codes, is_missing, plain
from .source import OBJECTS

_WAITING_ROWS = 1 << 20
_EXACT = decimal.Context(prec=decimal.MAX_PREC, Emax=decimal.MAX_EMAX, Emin=decimal.MIN_EMIN)


def name_of(person: Any) -> bytes | None:
    """Type and value of an object that names a person: 1 and "1" are two. None for types that name nobody."""
    person = plain(person)
    if isinstance(person, str):
        return b"text " + person.encode(errors="surrogatepass")
    if isinstance(person, bytes):
        return b"bytes " + person
    if isinstance(person, uuid.UUID):
        return b"uuid " + person.bytes
    if isinstance(person, int) and not isinstance(person, bool):
        return f"integer {person:x}".encode()
    if isinstance(person, decimal.Decimal):
        return f"decimal {_EXACT.normalize(person) if person else 0}".encode()
    if isinstance(person, datetime.datetime):
        if person.utcoffset() is None:
            return f"time {person.isoformat()}".encode()
        return f"instant {person.astimezone(datetime.UTC).isoformat()}".encode()  # one has many spellings
    if isinstance(person, datetime.date):
        return f"date {person.isoformat()}".encode()
    return None


def _names_persons(kind: Any) -> bool:
    """Whether values of an Arrow type can be told apart, and equal ones are one person."""
    types = pa.types
    told = (types.is_integer, types.is_large_string, types.is_large_binary, types.is_fixed_size_binary)
    return any(is_kind(kind) for is_kind in (*told, types.is_decimal, types.is_temporal, types.is_null))


class HasGenerator(Protocol):
    """Where random numbers come from."""

    def generator(self) -> np.random.Generator:
        """A NumPy generator."""


@dataclass(frozen=True, kw_only=True)
class Bound:
    """At most `rows` rows of each value of the column `person`, chosen by a secret key: the same ones in each pass over
    rows that come in the same order.

    `is_private` is False for a key that can be repeated by whoever knows a seed.
    """

    rows: int
    person: str
    is_private: bool
    key: tuple[int, ...] = field(repr=False)

    @classmethod
    def of(
        cls, rows: int | None, person: str | None, entropy: HasGenerator | np.random.Generator | None
    ) -> Bound | None:
        """The bound that arguments ask for, with a new key; None if they ask for none."""
        if rows is None and person is None:
            return None
        if rows is None or person is None:
            raise InvalidArgument("rows_per_person", "given together with person, the column that names the person")
        rows = check_whole("rows_per_person", rows)
        if entropy is None:
            raise InvalidArgument(
                "entropy",
                "given with rows_per_person, because the rows of each person are chosen at random",
                hint="Pass SecureEntropy() of simplexdp.sampling.",
            )
        generator = entropy if isinstance(entropy, np.random.Generator) else entropy.generator()
        key = tuple(generator.integers(0, 1 << 63, 4).tolist())
        return cls(rows=rows, person=person, is_private=getattr(entropy, "is_private", False), key=key)

    def sample(self, part: int | None = None) -> PersonSample:
        """The choice of rows, of the whole source or of one part of it that no other part shares a person with."""
        key = self.key if part is None else (*self.key, part)
        generator = np.random.Generator(np.random.Philox(np.random.SeedSequence(key)))
        return PersonSample(self.person, self.rows, generator)


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
        if not hasattr(persons, "type"):
            return self._same_kind(self._names(persons, label), OBJECTS, OBJECTS, label)
        kind = persons.type
        if pa.types.is_dictionary(kind):
            persons = persons.dictionary_decode()
            kind = persons.type
        wide = kind
        if pa.types.is_string(kind) or pa.types.is_string_view(kind):
            wide = pa.large_string()
        elif pa.types.is_binary(kind) or pa.types.is_binary_view(kind):
            wide = pa.large_binary()
        elif pa.types.is_integer(kind) and kind != pa.uint64():
            wide = pa.int64()
        elif not _names_persons(kind):
            raise SourceError(
                f"{label}: the person column {self._name!r} has the type {kind}. "
                "Whole numbers and strings name persons."
            )
        if persons.null_count:
            raise self._missing(label)
        return self._same_kind(persons if kind == wide else persons.cast(wide), kind, wide, label)

    def _names(self, persons: Sequence[Any], label: str) -> Any:
        """Python objects as names; each is taken or refused for itself."""
        names: list[bytes] = []
        for person in persons:
            if is_missing(person):
                raise self._missing(label)
            name = name_of(person)
            if name is None:
                raise SourceError(
                    f"{label}: the person column {self._name!r} has entries that are no names. "
                    "Whole numbers and strings name persons."
                )
            names.append(name)
        return pa.array(names, pa.large_binary())

    def _missing(self, label: str) -> SourceError:
        return SourceError(
            f"{label}: the person column {self._name!r} has missing entries, "
            "and each row must belong to someone. Fill or drop them in the source."
        )

    def _same_kind(self, persons: Any, kind: Any, wide: Any, label: str) -> Any:
        if self._kind is None:
            self._kind = wide
        if type(wide) is not type(self._kind) or wide != self._kind:
            raise SourceError(
                f"{label}: the person column {self._name!r} has the type {kind} here "
                f"and {self._kind} before. Cast it to one type in the source."
            )
        return persons
