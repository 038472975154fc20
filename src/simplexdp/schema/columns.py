"""Columns: which cells a value can fall into. Everything here is public and says nothing about the rows."""

from __future__ import annotations

import datetime
import itertools
import math
from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import (
    BeforeValidator,
    Field,
    PlainValidator,
    StrictInt,
    StrictStr,
    WithJsonSchema,
    model_validator,
)

from ..errors import SchemaError
from ._base import Part, with_first

Value = str | int | bool | datetime.date
"""A category. The type is part of the value: 1, True and "1" are three different ones."""

INT64 = 2**63
"""Whole numbers fit a signed 64-bit integer, the widest that every source has."""

OTHER, MISSING = "(other)", "(missing)"
"""What the two extra cells are called in tables for people."""

_ITEMS: tuple[dict[str, Any], ...] = (
    {"type": "string"},
    {"type": "integer", "minimum": -INT64, "maximum": INT64 - 1},
    {"type": "boolean"},
    {
        "type": "object",
        "properties": {"date": {"type": "string", "format": "date"}},
        "required": ["date"],
        "additionalProperties": False,
    },
)
_VALUES_SCHEMA = {"anyOf": [{"type": "array", "minItems": 1, "uniqueItems": True, "items": item} for item in _ITEMS]}


def _items(value: object) -> tuple[Any, ...]:
    if isinstance(value, (str, bytes, set, frozenset, dict)) or not isinstance(value, Iterable):
        raise SchemaError("", "a list", hint="The order of the list is the order of the cells.")
    return tuple(value)


def _values(value: object) -> tuple[Value, ...]:
    """Categories, checked by exact type, because Python takes 1, 1.0 and True for the same thing."""
    values = _items(value)
    if not values:
        raise SchemaError("", "a list of at least one value")
    for i, item in enumerate(values):
        if item is None:
            raise SchemaError(f"[{i}]", "a value", hint="For missing values write missing: cell.")
        if type(item) not in (str, int, bool, datetime.date):
            raise SchemaError(
                f"[{i}]",
                f"a string, whole number, boolean or date, not {type(item).__name__}",
                hint="For numbers with a fraction use a numeric column with edges or own values.",
            )
        if isinstance(item, str):
            _encodable(item, f"[{i}]")
        if type(item) is int and not -INT64 <= item < INT64:
            raise SchemaError(f"[{i}]", "a whole number of at most 64 bits")
    kinds = sorted({type(item).__name__ for item in values})
    if len(kinds) > 1:
        raise SchemaError(
            "",
            f"values of one type, not {' and '.join(kinds)}",
            hint="YAML reads yes, no, on, off, numbers and dates as such: quote what is meant as text.",
        )
    if len(set(values)) < len(values):
        raise SchemaError("", "values that are all different")
    return values


def _numbers(value: object) -> tuple[float, ...]:
    return tuple(_exact(item, f"[{i}]") for i, item in enumerate(_items(value)))


def _edges(value: object) -> tuple[float, ...]:
    """Bin edges: none, or two and more in strictly increasing order."""
    edges = _numbers(value)
    if len(edges) == 1:
        raise SchemaError("", "two numbers or more", hint="n + 1 edges make n bins.")
    for i, (low, high) in enumerate(itertools.pairwise(edges)):
        if not low < high:
            raise SchemaError(f"[{i + 1}]", "above the edge before it", hint="Edges strictly increase.")
    return edges


def _own(value: object) -> tuple[float, ...]:
    own = _numbers(value)
    if len(set(own)) < len(own):
        raise SchemaError("", "numbers that are all different")
    return own


def _exact(value: object, path: str = "") -> float:
    """A finite float; a whole number only if a float holds it exactly."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise SchemaError(
            path,
            f"a number, not {type(value).__name__}",
            hint="YAML reads 1e3 as text; write 1.0e+3 or 1000.",
        )
    try:
        number = float(value)
    except OverflowError:
        raise SchemaError(path, "a finite number") from None
    if not math.isfinite(number):
        raise SchemaError(path, "a finite number", hint="Use outside: to say what happens beyond the ends.")
    if number != value:
        raise SchemaError(path, "a number that a 64-bit float holds exactly")
    return number


def _name(value: object) -> str:
    if type(value) is not str:
        raise SchemaError("", f"a string, not {type(value).__name__}", hint="Quote the name.")
    return _encodable(value)


def _encodable(text: str, path: str = "") -> str:
    """Text that UTF-8 can hold, so that it can be written and found in Arrow data."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise SchemaError(path, "valid Unicode text, without lone surrogates") from None
    return text


Name = Annotated[StrictStr, BeforeValidator(_name)]
Number = Annotated[float, BeforeValidator(_exact)]
Keep = Literal["cell", "refuse"]
Outside = Literal["cell", "refuse", "nearest"]


class _Column(Part):
    """The cells every column has: declared ones, then the other cell, then the missing cell."""

    _extra: ClassVar[str]
    if TYPE_CHECKING:  # declared by each kind of column, in the order in which files have it
        missing: Keep

    @property
    def declared(self) -> int:
        """Number of declared cells, before the other and the missing cell."""
        raise NotImplementedError

    @property
    def has_other(self) -> bool:
        """Whether values outside the declaration have a cell of their own."""
        return bool(getattr(self, self._extra) == "cell")

    @property
    def has_missing(self) -> bool:
        """Whether missing values have a cell of their own."""
        return self.missing == "cell"

    @property
    def size(self) -> int:
        """Number of cells, all kinds together."""
        return self.declared + self.has_other + self.has_missing

    @property
    def other_code(self) -> int | None:
        """Code of the cell for values outside the declaration, if there is one."""
        return self.declared if self.has_other else None

    @property
    def missing_code(self) -> int | None:
        """Code of the cell for missing values, if there is one."""
        return self.declared + self.has_other if self.has_missing else None

    @property
    def labels(self) -> tuple[str, ...]:
        """What the cells are called, for people, in the order of the codes."""
        extra = [OTHER] * self.has_other + [MISSING] * self.has_missing
        return (*self._declared_labels(), *extra)

    def _declared_labels(self) -> Iterable[str]:
        raise NotImplementedError


class Categories(_Column):
    """A column with declared values, all of one type, in the order of their cells.

    >>> Categories(["f", "m"], name="sex", missing="cell").labels
    ('f', 'm', '(missing)')
    """

    _extra: ClassVar[str] = "other"

    kind: Literal["categories"] = "categories"
    """The kind of column; can be left out where `values` is given."""
    name: Name = ""
    """The column in the data."""
    values: Annotated[tuple[Value, ...], PlainValidator(_values), WithJsonSchema(_VALUES_SCHEMA)]
    """The values, all of one type."""
    other: Keep = "refuse"
    """A value that is not declared: its own cell, or refused."""
    missing: Keep = "refuse"
    """A missing value: its own cell, or refused."""

    def __init__(self, *values: Any, **fields: Any) -> None:
        super().__init__(**with_first("values", values, fields))

    @property
    def declared(self) -> int:
        """Number of declared values."""
        return len(self.values)

    def _declared_labels(self) -> Iterable[str]:
        return map(str, self.values)

    # Python's equality takes (1,) and (True,) for the same values.
    def __eq__(self, other: object) -> bool:
        return super().__eq__(other) and type(self.values[0]) is type(other.values[0])  # type: ignore[attr-defined]

    def __hash__(self) -> int:
        return hash((self.name, type(self.values[0]), self.values, self.other, self.missing))


class Numeric(_Column):
    """A numeric column in bins [e₀, e₁), [e₁, e₂), ..., the last one closed on the right.

    Values in `own` have a cell each and are matched exactly before any bin. The order of the cells is: own
    values, bins, outside, missing. `edges` may be empty if there are own values; then every other value is
    outside. NaN is missing.

    >>> Numeric([0, 18, 65], name="age", own=[-1], outside="cell").labels
    ('-1', '[0, 18)', '[18, 65]', '(other)')
    """

    _extra: ClassVar[str] = "outside"

    kind: Literal["numeric"] = "numeric"
    """The kind of column; can be left out where `edges` or `own` is given."""
    name: Name = ""
    """The column in the data."""
    edges: Annotated[tuple[float, ...], BeforeValidator(_edges)] = ()
    """Edges of the bins, strictly increasing."""
    own: Annotated[tuple[float, ...], BeforeValidator(_own)] = ()
    """Single values with a cell of their own, before the bins."""
    outside: Outside = "refuse"
    """A value below the first or above the last edge: its own cell, refused, or the nearest bin."""
    missing: Keep = "refuse"
    """A missing value or NaN: its own cell, or refused."""

    def __init__(self, *edges: Any, **fields: Any) -> None:
        super().__init__(**with_first("edges", edges, fields))

    @model_validator(mode="after")
    def _check(self) -> Numeric:
        if not self.edges and not self.own:
            raise SchemaError("edges", "two numbers or more", hint="n + 1 edges make n bins.")
        if not self.edges and self.outside == "nearest":
            raise SchemaError("outside", "'cell' or 'refuse' where there are no edges")
        return self

    @property
    def bins(self) -> int:
        """Number of bins."""
        return max(len(self.edges) - 1, 0)

    @property
    def declared(self) -> int:
        """Number of own values and bins."""
        return len(self.own) + self.bins

    def _declared_labels(self) -> Iterable[str]:
        yield from map(_plain, self.own)
        for i, (low, high) in enumerate(itertools.pairwise(self.edges), start=1):
            yield f"[{_plain(low)}, {_plain(high)}{']' if i == self.bins else ')'}"


class Quantiles(_Column):
    """A numeric column in `bins` bins of about equal counts, whose edges a private mechanism has yet to find.

    `lower` and `upper` are public bounds and the outer edges. `share` is the part of the budget that the
    edges cost. `simplexdp.quantiles.resolve_quantiles` turns this column into a `Numeric` of the same size.

    >>> Quantiles(10, lower=0, upper=1e5, name="income").size
    10
    """

    _extra: ClassVar[str] = "outside"

    kind: Literal["quantiles"] = "quantiles"
    """The kind of column; can be left out where `bins` is given."""
    name: Name = ""
    """The column in the data."""
    bins: Annotated[StrictInt, Field(ge=2, le=1000)]
    """Number of bins."""
    lower: Number
    """Public lower bound of the values."""
    upper: Number
    """Public upper bound of the values."""
    share: Annotated[Number, Field(gt=0, lt=1)] = 0.1
    """Part of the budget spent on the edges."""
    outside: Outside = "nearest"
    """A value below `lower` or above `upper`: its own cell, refused, or the nearest bin."""
    missing: Keep = "refuse"
    """A missing value or NaN: its own cell, or refused."""

    def __init__(self, *bins: Any, **fields: Any) -> None:
        super().__init__(**with_first("bins", bins, fields))

    @model_validator(mode="after")
    def _check(self) -> Quantiles:
        if not self.lower < self.upper:
            raise SchemaError("upper", "above lower")
        return self

    @property
    def declared(self) -> int:
        """Number of bins."""
        return self.bins

    def _declared_labels(self) -> Iterable[str]:
        return (f"quantile {i} of {self.bins}" for i in range(1, self.bins + 1))


Column = Annotated[Categories | Numeric | Quantiles, Field(discriminator="kind")]
"""Any column, told apart by `kind`."""


def _plain(number: float) -> str:
    """The shortest text that reads back as the same float, whole numbers without a point."""
    return str(int(number)) if number.is_integer() and abs(number) < 1e15 else repr(number)
