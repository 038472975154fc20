"""Contingency tables over a declared domain: the one private object of the library."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn, cast, get_args

import numpy as np

from ..budget import Neighbours, UnitKind, check_kind, check_whole
from ..errors import InvalidArgument, PrivacyError, discreet
from ..labelled import check_unlabelled
from ..numerics import as_array

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import ArrayLike, NDArray


class PrivateCounts:
    """Exact counts as a type checker sees them: no array, so nothing is made of them by mistake."""


def opened(counts: PrivateCounts) -> NDArray[np.int64]:
    """The same counts as the array that they are, for the few functions that choose, score or draw."""
    return cast("NDArray[np.int64]", counts)


class CountTable:
    """How many rows fall in each cell of a declared domain; every cell is there, seen or not.

    The table is private. Its repr shows columns and shape, it is equal only to itself, it cannot be pickled
    or copied, and NumPy does not see an array in it. Mechanisms read the numbers through `private_counts`,
    the only door. Tables of disjoint parts of the data add up:

    >>> north = CountTable.from_array([[3, 1], [0, 2]], columns=("smoker", "ill"))
    >>> south = CountTable.from_array([[5, 0], [1, 1]], columns=("smoker", "ill"))
    >>> north + south
    CountTable(columns=('smoker', 'ill'), shape=(2, 2), unit='row')

    Args:
        counts: non-negative whole numbers, one axis a column.
        columns: the names of the axes.
        unit: "row", or "person" when the rows of each person were bounded.
        rows_per_person: the bound, exactly when the unit is "person".
        fingerprint: names the declaration of these columns; only tables with the same one add up.
        is_private: False when the declaration was read off the sensitive data, so that nothing made from this
            table is private.
        relations: the neighbours that it may be released under. A query that selects rows by their values makes their
            number private and rules out replace-one; one that cuts them at a number rules out add-remove.
        declarations: what the curator declares of the rows, word for word; certificates show it.
    """

    __slots__ = (
        "_counts",
        "columns",
        "declarations",
        "fingerprint",
        "is_private",
        "relations",
        "rows_per_person",
        "unit",
    )

    columns: tuple[str, ...]
    unit: UnitKind
    rows_per_person: int | None
    fingerprint: str | None
    is_private: bool
    relations: frozenset[Neighbours]
    declarations: tuple[str, ...]
    _counts: NDArray[np.int64]

    @discreet
    def __init__(
        self,
        counts: ArrayLike,
        columns: Sequence[str],
        *,
        unit: UnitKind = "row",
        rows_per_person: int | None = None,
        fingerprint: str | None = None,
        is_private: bool = True,
        relations: Iterable[Neighbours] = get_args(Neighbours),
        declarations: Iterable[str] = (),
    ) -> None:
        if isinstance(columns, str):
            raise InvalidArgument("columns", "a sequence of column names, not one string", got=columns)
        names = tuple(columns)
        if not names or len(set(names)) != len(names) or not all(isinstance(name, str) for name in names):
            raise InvalidArgument("columns", "at least one name, each a string and used once", got=names)
        check_kind(unit)
        if (unit == "person") != (rows_per_person is not None):
            raise InvalidArgument("rows_per_person", "given exactly when the unit is 'person'")
        if rows_per_person is not None:
            rows_per_person = check_whole("rows_per_person", rows_per_person)
        put = object.__setattr__
        put(self, "columns", names)
        put(self, "unit", unit)
        put(self, "rows_per_person", rows_per_person)
        put(self, "fingerprint", fingerprint)
        put(self, "is_private", bool(is_private))
        put(self, "relations", frozenset(relations))
        check_unlabelled(counts)
        put(self, "declarations", tuple(dict.fromkeys(declarations)))
        put(self, "_counts", _checked(counts, names))

    @classmethod
    @discreet
    def from_array(cls, counts: ArrayLike, *, columns: Sequence[str], **about: Any) -> CountTable:
        """A table from counts made elsewhere; `about` are the keyword arguments of the class.

        Counts over a domain that was declared beforehand are private input like any other. If rows and
        columns of the array were taken from the data (only the values that occurred), pass
        `is_private=False`.
        """
        return cls(counts, columns, **about)

    @property
    def shape(self) -> tuple[int, ...]:
        """The number of cells along each column; public, because the domain is declared."""
        return self._counts.shape

    @property
    def size(self) -> int:
        """The number of cells."""
        return self._counts.size

    def private_counts(self) -> PrivateCounts:
        """The exact counts, read-only. **Private**: what is made from them needs a mechanism and a budget.

        They are a NumPy array; a type checker is told that they are not, and `opened` makes them one for it.
        """
        return cast(PrivateCounts, self._counts)

    def margin(self, columns: Sequence[str]) -> CountTable:
        """The same records over some of the columns, in their order here. **Private** like this table."""
        kept = tuple(name for name in self.columns if name in columns)
        if set(kept) != set(columns):
            raise InvalidArgument("columns", f"among {self.columns}", got=tuple(columns))
        if kept == self.columns:
            return self
        away = tuple(axis for axis, name in enumerate(self.columns) if name not in kept)
        return self._remade(self._counts.sum(axis=away), kept)

    def merged(self, column: str, places: Sequence[int]) -> CountTable:
        """The same records with cells of a column merged: cell i goes to `places[i]`. **Private** like this table."""
        places = [check_whole("places", place, at_least=0) for place in places]
        axis = self.columns.index(column)
        sums = np.zeros((max(places) + 1, *np.delete(self.shape, axis)), dtype=np.int64)
        np.add.at(sums, np.asarray(places), np.moveaxis(self._counts, axis, 0))
        return self._remade(np.moveaxis(sums, 0, axis), self.columns)

    def _remade(self, counts: NDArray[np.int64], columns: Sequence[str]) -> CountTable:
        return CountTable(
            counts,
            columns,
            unit=self.unit,
            rows_per_person=self.rows_per_person,
            is_private=self.is_private,
            relations=self.relations,
            declarations=self.declarations,
        )

    def __add__(self, other: object) -> CountTable:
        """The table of two parts of the data that share no row (for unit "person": no person)."""
        if not isinstance(other, CountTable):
            return NotImplemented
        for what in ("columns", "shape", "unit", "rows_per_person"):
            mine, theirs = getattr(self, what), getattr(other, what)
            if mine != theirs:
                raise InvalidArgument("other", f"a table with the same {what}", hint=f"They are {mine} and {theirs}.")
        if self.fingerprint != other.fingerprint:
            raise InvalidArgument(
                "other",
                f"a table counted with the same declaration of {', '.join(self.columns)}",
                hint="Count both parts with one schema.",
            )
        return CountTable(
            self._counts + other._counts,
            self.columns,
            unit=self.unit,
            rows_per_person=self.rows_per_person,
            fingerprint=self.fingerprint,
            is_private=self.is_private and other.is_private,
            relations=self.relations & other.relations,
            declarations=self.declarations + other.declarations,
        )

    def __radd__(self, other: object) -> CountTable:
        """So that `sum(tables)` works; it starts at the number 0."""
        if isinstance(other, int) and other == 0:
            return self
        return NotImplemented

    def __repr__(self) -> str:
        bound = "" if self.rows_per_person is None else f", rows_per_person={self.rows_per_person}"
        mark = "" if self.is_private else ", is_private=False"
        return f"CountTable(columns={self.columns}, shape={self.shape}, unit={self.unit!r}{bound}{mark})"

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"a CountTable does not change: {name!r} cannot be set")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"a CountTable does not change: {name!r} cannot be deleted")

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise PrivacyError(
            "A CountTable holds exact counts and is not copied, pickled or sent to other processes. "
            "Release it with a mechanism first; to keep the counts themselves, take private_counts() "
            "and guard it as you guard the data."
        )

    def __reduce__(self) -> NoReturn:
        self.__reduce_ex__(2)


def _checked(counts: ArrayLike, columns: tuple[str, ...]) -> NDArray[np.int64]:
    array = as_array(counts)
    if array.ndim != len(columns):
        raise InvalidArgument(
            "counts",
            f"an array with one axis for each of the {len(columns)} columns",
            got=f"{array.ndim} axes",
        )
    if array.size == 0:
        raise InvalidArgument("counts", "an array with at least one cell", got=array.shape)
    if array.dtype.kind not in "iu":
        raise InvalidArgument("counts", "whole numbers of an integer type", got=str(array.dtype))
    # No value in the messages: a count is private.
    if array.dtype.kind == "i" and array.min() < 0:
        raise InvalidArgument("counts", "non-negative")
    if array.dtype == np.uint64 and array.max() > np.iinfo(np.int64).max:
        raise InvalidArgument("counts", "below 2**63")
    checked = array.astype(np.int64)  # a copy: what the caller does to its array later must not reach the table
    checked.flags.writeable = False
    return checked
