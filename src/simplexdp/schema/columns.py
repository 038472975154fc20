"""Columns: which cells a value can fall into. Everything here is public and says nothing about the rows."""

from __future__ import annotations

import datetime
import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from numbers import Rational, Real
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self

from pydantic import (
    BaseModel,
    BeforeValidator,
    Field,
    PlainSerializer,
    PlainValidator,
    StrictInt,
    StrictStr,
    ValidationError,
    WithJsonSchema,
    model_serializer,
    model_validator,
)

from ..budget import check_whole
from ..errors import SchemaError
from .described import SETTINGS
from .transforms import EPOCH, PARTS, WORDS, Step, plain_steps, steps

_EXPECTATIONS = {
    "missing": "given",
    "extra_forbidden": "left out: there is no such field",
    "bool_type": "true or false",
    "int_type": "a whole number",
    "float_type": "a number",
    "string_type": "a string",
    "tuple_type": "a list",
}


class Part(BaseModel):
    """A frozen piece of a schema."""

    model_config = SETTINGS

    def __init__(self, **fields: Any) -> None:
        try:
            super().__init__(**fields)
        except ValidationError as error:
            raise translate(error, type(self)) from None

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:  # noqa: ARG002
        """A copy with some fields changed, checked like any other; pydantic's own would write them unseen."""
        return type(self)(**{name: getattr(self, name) for name in type(self).model_fields} | dict(update or {}))

    def copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:  # type: ignore[override]
        """The name of old for `model_copy`."""
        return self.model_copy(update=update, deep=deep)


def with_first(name: str, first: tuple[Any, ...], fields: dict[str, Any]) -> dict[str, Any]:
    """Fields where the one called `name` may have been given by position."""
    if len(first) > 1 or (first and name in fields):
        raise SchemaError(name, "given once", hint="Every other field goes by its name.")
    return {name: first[0], **fields} if first else fields


def translate(error: ValidationError, model: type[BaseModel]) -> SchemaError:
    """The first of pydantic's complaints as one of ours: path to the field, expectation and hint."""
    first = error.errors(include_url=False)[0]
    path = join_path(*first["loc"]) or model.__name__
    cause = first.get("ctx", {}).get("error")
    if isinstance(cause, SchemaError):
        return nested(join_path(*first["loc"]), cause)
    kind = first["type"]
    if kind == "extra_forbidden":
        known = ", ".join(dict.fromkeys([*model.model_fields, "origin"]))
        return SchemaError(path, _EXPECTATIONS[kind], hint=f"The fields are: {known}.")
    expectation = _EXPECTATIONS.get(kind)
    if expectation is None:
        message = first["msg"]
        expectation = message.removeprefix("Input should be ")
        if expectation == message:
            expectation = f"valid ({message[:1].lower()}{message[1:]})"
    return SchemaError(path, expectation)


def nested(outer: str, error: SchemaError) -> SchemaError:
    """The same error with the path of what surrounds it; validators name themselves "" or "[i]"."""
    separator = "." if outer and error.name and not error.name.startswith("[") else ""
    return SchemaError(f"{outer}{separator}{error.name}", error.expectation, hint=error.hint)


def join_path(*steps: str | int) -> str:
    """A path as people write it.

    >>> join_path("columns", 3, "edges")
    'columns[3].edges'
    """
    path = ""
    for step in steps:
        path += f"[{step}]" if isinstance(step, int) else f".{step}" if path else str(step)
    return path


Value = str | int | bool | datetime.date
"""A category. The type is part of the value: 1, True and "1" are three different ones."""

INT64 = 2**63
"""Whole numbers fit a signed 64-bit integer, the widest that every source has."""

OTHER, MISSING = "(other)", "(missing)"
"""What the two extra cells are called in tables for people."""

USUAL_SHARE = 0.1
"""Part of the budget that private edges cost where a column does not say it."""
TAILS = 10
"""Where bins are merged, each tail is one bin in so many."""

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
    if type(value) is datetime.date:
        return float(value.toordinal() - EPOCH)
    if isinstance(value, bool) or not isinstance(value, Real | Decimal):
        raise SchemaError(
            path,
            f"a number, not {type(value).__name__}",
            hint="YAML reads 1e3 as text; write 1.0e+3 or 1000.",
        )
    try:
        number = float(value)
    except (OverflowError, ValueError):  # too large, or a nan that signals
        raise SchemaError(path, "a finite number") from None
    if not math.isfinite(number):
        raise SchemaError(path, "a finite number", hint="Use outside: to say what happens beyond the ends.")
    if number != value:
        raise SchemaError(path, "a number that a 64-bit float holds exactly")
    return number


def _whole(value: object) -> object:
    """Whole numbers of any type as Python's; what is none is left for the check that follows."""
    whole = isinstance(value, Rational) or (isinstance(value, Decimal) and value.is_finite())
    return int(value) if whole and not isinstance(value, bool) and value == value // 1 else value  # type: ignore[operator]


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


Origin = Literal["declared", "public", "from-data", "paper-discretisation"]
"""Where values and edges come from; the last two mean that what is made from them is not private."""
_WORSE: tuple[Origin, ...] = ("declared", "public", "paper-discretisation", "from-data")


def worst(*origins: Origin) -> Origin:
    """The origin of what is made from parts of these origins: the one that promises least.

    >>> worst("declared", "from-data", "public")
    'from-data'
    """
    return max(origins, key=_WORSE.index, default="declared")


def _dated(raw: object) -> object:
    """A column whose edges are dates says so, for they are kept as days from 1970 on."""
    if isinstance(raw, Mapping) and "dates" not in raw:
        given = [item for key in ("edges", "own") for item in _items(raw.get(key, ()))]
        if given and all(type(item) is datetime.date for item in given):
            return {**raw, "dates": True}
    if isinstance(raw, Mapping) and raw.get("dates") is not True:
        for key in ("edges", "own"):
            for i, item in enumerate(_items(raw.get(key, ()))):
                if isinstance(item, datetime.date):
                    raise SchemaError(f"{key}[{i}]", "a number, as the others are")
    return raw


def _day(number: float) -> datetime.date:
    return datetime.date.fromordinal(int(number) + EPOCH)


_ARGUMENTS: dict[str, Any] = {
    "prefix": {"type": "integer", "minimum": 1, "maximum": 100},
    "part": {"enum": list(PARTS)},
    "decimal": {"enum": [",", "."]},
    "map": {"type": "object", "minProperties": 1},
}
_STEPS_SCHEMA = {
    "type": "array",
    "items": {
        "oneOf": [
            {"enum": list(WORDS)},
            *(
                {"type": "object", "properties": {name: kind}, "required": [name], "additionalProperties": False}
                for name, kind in _ARGUMENTS.items()
            ),
        ]
    },
}
Steps = Annotated[tuple[Step, ...], PlainValidator(steps), PlainSerializer(plain_steps), WithJsonSchema(_STEPS_SCHEMA)]
_LATER = ("transform", "integer", "dates", "share")
"""Fields that files leave out where nothing is said of them."""

Name = Annotated[StrictStr, BeforeValidator(_name)]
Number = Annotated[float, BeforeValidator(_exact)]
Keep = Literal["cell", "refuse"]
Outside = Literal["cell", "refuse", "nearest"]


class _Column(Part):
    """The cells every column has: declared ones, then the other cell, then the missing cell."""

    _extra: ClassVar[str]
    if TYPE_CHECKING:  # declared by each kind of column, in the order in which files have it
        missing: Keep
        origin: Origin
        transform: Steps

    @model_serializer(mode="wrap")
    def _without_unsaid(self, handler: Any) -> dict[str, Any]:
        plain: dict[str, Any] = handler(self)
        return {
            key: value
            for key, value in plain.items()
            if key not in _LATER or value not in (None, [], False) or (key == "integer" and value is False)
        }

    @property
    def is_private(self) -> bool:
        """False if values or edges were read from sensitive rows."""
        return self.origin in ("declared", "public")

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """A copy with some fields changed; what came from the rows stays so, whatever `origin` is asked for."""
        return super().model_copy(update=update, deep=deep).stamped(self.origin)

    def stamped(self, origin: Origin) -> Self:
        """The column with this origin, if that is worse than its own."""
        if worst(self.origin, origin) == self.origin:
            return self
        return type(self)(**self.model_dump() | {"origin": origin})

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
    origin: Origin = "declared"
    """Where the declaration comes from; `from-data` and `paper-discretisation` are not private."""
    transform: Steps = ()
    """What is done to each value before its cell is looked up: trim, fold, {prefix: 3}, {part: month}, {map: ...}."""

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
    origin: Origin = "declared"
    """Where the declaration comes from; `from-data` and `paper-discretisation` are not private."""
    transform: Steps = ()
    """What is done to each value before its cell is looked up: trim, fold, {prefix: 3}, {part: month}, {map: ...}."""
    integer: bool | None = None
    """Whether the values are whole numbers by their meaning; synthetic ones are whole then. The data never decides."""
    dates: bool = False
    """Whether edges and own values are dates, kept as days from 1970 on."""

    def __init__(self, *edges: Any, **fields: Any) -> None:
        super().__init__(**with_first("edges", edges, fields))

    @model_validator(mode="before")
    @classmethod
    def _recognise(cls, raw: object) -> object:
        return _dated(raw)

    @model_serializer(mode="wrap")
    def _without_unsaid(self, handler: Any) -> dict[str, Any]:
        plain = super()._without_unsaid(handler)
        if self.dates:
            plain |= {key: tuple(map(_day, getattr(self, key))) for key in ("edges", "own") if key in plain}
        return plain

    @model_validator(mode="after")
    def _check(self) -> Numeric:
        if self.dates or self.integer:
            for i, value in enumerate(self.own):
                if not value.is_integer():
                    raise SchemaError(f"own[{i}]", "a whole number, as the column is one of them")
        if self.dates and not all(_in_calendar(edge) for edge in (*self.edges, *self.own)):
            raise SchemaError("edges", "dates")
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
        shown = (lambda numbers: [str(_day(number)) for number in numbers]) if self.dates else _short
        own, edges = shown(self.own), shown(self.edges)
        yield from own
        for i, (low, high) in enumerate(itertools.pairwise(edges), start=1):
            yield f"[{low}, {high}{']' if i == self.bins else ')'}"


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
    bins: Annotated[StrictInt, Field(ge=2, le=1000), BeforeValidator(_whole)]
    """Number of bins."""
    lower: Number
    """Public lower bound of the values."""
    upper: Number
    """Public upper bound of the values."""
    share: Annotated[Number, Field(gt=0, lt=1)] | None = None
    """Part of the budget spent on the edges; a tenth unless many columns ask for one."""
    outside: Outside = "nearest"
    """A value below `lower` or above `upper`: its own cell, refused, or the nearest bin."""
    missing: Keep = "refuse"
    """A missing value or NaN: its own cell, or refused."""
    origin: Origin = "declared"
    """Where the declaration comes from; `from-data` and `paper-discretisation` are not private."""
    transform: Steps = ()
    """What is done to each value before its cell is looked up: trim, fold, {prefix: 3}, {part: month}, {map: ...}."""
    integer: bool | None = None
    """Whether the values are whole numbers by their meaning; synthetic ones are whole then. The data never decides."""

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


def _in_calendar(number: float) -> bool:
    return number.is_integer() and 1 <= number + EPOCH <= datetime.date.max.toordinal()


def _short(numbers: Sequence[float]) -> list[str]:
    """Numbers for people, without the last two digits, where a sum such as 0.1 + 0.2 shows what it was computed from.

    If two of them differ in those digits only, all of them in full.
    """
    texts = [f"{number + 0.0:.15g}" for number in numbers]
    return texts if len(set(texts)) == len(texts) else [repr(number) for number in numbers]


def merged(column: Numeric, bins: int) -> Numeric:
    """The column with so many bins, if it has more: two tails, a tenth of the bins each, and equal parts of the rest.

    Extreme values often say most, and everything between them mostly a trend, which few bins show. Own values stay.

    >>> merged(Numeric(range(11), own=[3]), 4).labels
    ('3', '[0, 1)', '[1, 5)', '[5, 9)', '[9, 10]')
    """
    bins = check_whole("bins", bins, at_least=3)
    if column.bins <= bins:
        return column
    tail = max(1, round(column.bins / TAILS))
    between = [tail + round(i * (column.bins - 2 * tail) / (bins - 2)) for i in range(bins - 1)]
    return column.model_copy(update={"edges": tuple(column.edges[cut] for cut in (0, *between, column.bins))})


def cell_map(
    fine: Categories | Numeric | Quantiles, coarse: Categories | Numeric | Quantiles
) -> tuple[int, ...] | None:
    """For each cell of a column the cell of a coarser one that it is part of; None if the other is not coarser.

    >>> cell_map(Numeric(range(5), missing="cell"), Numeric([0, 1, 4], missing="cell"))
    (0, 1, 1, 1, 2)
    """
    # Where they come from does not change the cells: both are taken for the worst.
    fine, coarse = fine.stamped("from-data"), coarse.stamped("from-data")
    if fine == coarse:
        return tuple(range(fine.size))
    if not isinstance(fine, Numeric) or not isinstance(coarse, Numeric) or not coarse.edges:
        return None
    if fine.model_copy(update={"edges": coarse.edges}) != coarse or not set(coarse.edges) <= set(fine.edges):
        return None
    if (fine.edges[0], fine.edges[-1]) != (coarse.edges[0], coarse.edges[-1]):
        return None
    own = len(fine.own)
    bins = [own + sum(edge <= low for edge in coarse.edges) - 1 for low in fine.edges[:-1]]
    return (*range(own), *bins, *range(own + coarse.bins, coarse.size))
