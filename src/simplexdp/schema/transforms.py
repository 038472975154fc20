"""What a schema may do to a value before its cell is looked up: each step is a function of that one value alone.

A value is written as text, goes through the steps, and is then read as a field of a text file is: as the declared type.
So a value counts alike wherever it comes from. A text of which nothing is left is missing.

Python's own library only, because it is shipped to Spark executors.

| step | what it does |
|---|---|
| `trim` | no spaces at the ends, one between words |
| `fold`, `upper` | small letters as Unicode folds them, or capitals |
| `dmy`, `mdy` | a date written day-month-year, or month-day-year, as year-month-day |
| `{part: month}` | a part of a date or time: see `PARTS` |
| `{prefix: n}` | the first n characters |
| `{decimal: ","}` | a number with this decimal mark, without marks of thousands, spaces and signs of currencies |
| `{map: {m: male, "?": null}}` | other spellings; null is a missing value; what is not listed stays |
"""

from __future__ import annotations

import datetime
import decimal
import fractions
import re
from collections.abc import Mapping, Sequence
from typing import Any

from ..errors import SchemaError

Step = tuple[Any, ...]
"""The name of a step and its argument; the pairs of a map are in order."""

WORDS = ("trim", "fold", "upper", "dmy", "mdy")
"""Steps without an argument."""
PARTS = ("year", "quarter", "month", "week", "isoyear", "weekday", "day", "hour", "date", "number")
"""Parts of a date: weeks and their years by ISO 8601, Monday is 1; "date" drops the time, "number" counts from 1970."""
EPOCH = datetime.date(1970, 1, 1).toordinal()

_DATE = re.compile(
    r"(?P<y>[0-9]{4})(?:([-/.])(?P<m>[0-9]{1,2})(?:\2(?P<d>[0-9]{1,2}))?)?"
    r"(?:[ T](?P<h>[0-9]{1,2}):[0-9]{2}(?::[0-9]{2}(?:[.,][0-9]*)?)?\s*(?:Z|[+-][0-9]{2}(?::?[0-9]{2})?)?)?"
)
_TURNED = re.compile(r"([0-9]{1,2})([-/. ])([0-9]{1,2})\2([0-9]{4})(.*)", re.DOTALL)
_CURRENCY = re.compile(r"[\s'’_$€£¥₹₽₩₺]|(?<![A-Za-z])[A-Z]{3}(?![A-Za-z])")
_LARGEST = 400
"""Digits of the longest number that is written out."""


def steps(value: object) -> tuple[Step, ...]:
    """Steps as a file or a caller writes them, one or a list, checked.

    >>> steps(["trim", {"map": {"m": "male", 2: "female"}}])
    (('trim',), ('map', (('m', 'male'), ('2', 'female'))))
    """
    if isinstance(value, (str, Mapping)):
        value = [value]
    if not isinstance(value, Sequence):
        raise SchemaError("", "a step or a list of steps", hint=_known())
    found = []
    for i, item in enumerate(value):
        try:
            found.append(_step(item))
        except SchemaError as error:
            raise SchemaError(f"[{i}]{error.name}", error.expectation, hint=error.hint) from None
    return tuple(found)


def plain_steps(value: Sequence[Step]) -> list[Any]:
    """Steps as files have them."""
    return [step[0] if len(step) == 1 else {step[0]: dict(step[1]) if step[0] == "map" else step[1]} for step in value]


def apply_steps(chain: Sequence[Step], text: str) -> str | None:
    """The text after the steps, None if it is missing then.

    >>> apply_steps(steps(["trim", "fold", {"map": {"m": "male", "?": None}}]), "  M ")
    'male'
    >>> apply_steps(steps(["dmy", {"part": "week"}]), "29.02.2024")
    '9'

    Raises:
        ValueError: a step cannot be taken, as of a date part of what is no date.
    """
    for name, *argument in chain:
        if not text:
            return None
        if name == "map":
            found = dict(argument[0]).get(text, text)
            if found is None:
                return None
            text = found
        elif name == "prefix":
            text = text[: argument[0]]
        elif name == "part":
            text = _part(text, argument[0])
        elif name == "decimal":
            text = _number(text, argument[0])
        elif name == "trim":
            text = " ".join(text.split())
        elif name == "fold":
            text = text.casefold()
        elif name == "upper":
            text = text.upper()
        else:
            text = _turned(text, name)
    return text or None


def text_of(value: Any) -> str:
    """A value that is not missing as text: whole numbers without a point, days and times by ISO 8601.

    >>> [text_of(value) for value in (1, 1.0, 0.5, True, datetime.date(2024, 2, 29))]
    ['1', '1', '0.5', 'true', '2024-02-29']

    Raises:
        ValueError: a value of this type has no text.
    """
    if isinstance(value, str):
        return str(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(int(value))
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() else repr(float(value))
    if isinstance(value, decimal.Decimal) and value.is_finite() and abs(value.adjusted()) < _LARGEST:
        return str(int(value)) if value == int(value) else format(value.normalize(), "f")
    if isinstance(value, fractions.Fraction) and value.denominator == 1:
        return str(value.numerator)
    if isinstance(value, datetime.datetime):
        exact = (value.hour, value.minute, value.second, value.microsecond)
        return datetime.datetime(value.year, value.month, value.day, *exact, value.tzinfo).isoformat(" ")
    if isinstance(value, datetime.date):
        return datetime.date(value.year, value.month, value.day).isoformat()
    raise ValueError("no text")


def _step(item: object) -> Step:
    if isinstance(item, (list, tuple)) and item and isinstance(item[0], str):  # as it is kept
        item = item[0] if len(item) == 1 else {item[0]: item[1]}
    if isinstance(item, str):
        if item not in WORDS:
            raise SchemaError("", "a known step", hint=_known())
        return (item,)
    if not isinstance(item, Mapping) or len(item) != 1:
        raise SchemaError("", "a word, or one step and its argument", hint=_known())
    ((name, argument),) = item.items()
    if name == "prefix":
        if type(argument) is not int or not 1 <= argument <= 100:
            raise SchemaError(".prefix", "a number of characters from 1 to 100")
        return (name, argument)
    if name == "part":
        if argument not in PARTS:
            raise SchemaError(".part", "one of " + ", ".join(PARTS))
        return (name, argument)
    if name == "decimal":
        if argument not in (",", "."):
            raise SchemaError(".decimal", '"," or "."')
        return (name, argument)
    if name == "map":
        pairs = argument.items() if isinstance(argument, Mapping) else argument
        if not isinstance(pairs, Sequence | type({}.items())) or not pairs:
            raise SchemaError(".map", "a mapping of spellings to what they mean")
        return (name, tuple((_spelling(one), None if other is None else _spelling(other)) for one, other in pairs))
    raise SchemaError("", "a known step", hint=_known())


def _spelling(value: object) -> str:
    if isinstance(value, bool):
        raise SchemaError(".map", "of texts and numbers", hint="YAML reads yes, no, on and off as truth values: quote.")
    try:
        text = text_of(value)
        text.encode()
    except (ValueError, UnicodeEncodeError):
        raise SchemaError(".map", "of texts, numbers and dates") from None
    return text


def _known() -> str:
    return f'Steps are {", ".join(WORDS)}, {{prefix: 3}}, {{part: month}}, {{decimal: ","}} and {{map: {{m: male}}}}.'


def _part(text: str, part: str) -> str:
    match = _DATE.fullmatch(text.strip())
    if match is None:
        raise ValueError("no date")
    year, month, day, hour = (None if match[key] is None else int(match[key]) for key in "ymdh")
    if part == "year":
        return str(year)
    if part == "hour":
        if hour is None or not hour < 24:
            raise ValueError("no time")
        return str(hour)
    if month is None or not 1 <= month <= 12:
        raise ValueError("no month")
    if part in ("month", "quarter"):
        return str(month if part == "month" else (month + 2) // 3)
    if day is None:
        raise ValueError("no day")
    date = datetime.date(int(match["y"]), month, day)
    if part == "date":
        return date.isoformat()
    if part == "number":
        return str(date.toordinal() - EPOCH)
    if part == "day":
        return str(day)
    return str(date.isocalendar()[("isoyear", "week", "weekday").index(part)])


def _turned(text: str, order: str) -> str:
    """A date as year-month-day; what is written otherwise stays."""
    match = _TURNED.fullmatch(text.strip())
    if match is None:
        return text
    first, _, second, year, rest = match.groups()
    day, month = (first, second) if order == "dmy" else (second, first)
    return f"{year}-{month:0>2}-{day:0>2}{rest}"


def _number(text: str, mark: str) -> str:
    bare = _CURRENCY.sub("", text)
    return bare.replace("," if mark == "." else ".", "").replace(mark, ".")
