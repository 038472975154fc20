"""Combinations that are known to be impossible: public facts, which say where no record can be.

A rule names some columns and for each the values that never come together, as in `{sex: male, pregnant: true}`; in a
numeric column a value of its own, or a range as `{below: 12}` or `{from: 12, below: 16}`. Nothing is refused or left
out when rows are counted: a record that breaks a rule falls into its cell and is protected there as every other. What
the rule says of that cell is used on what was released. Proof: docs/proofs/composition.md#impossible-combinations.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..errors import SchemaError
from .columns import MISSING, OTHER, Categories, Numeric
from .transforms import EPOCH

if TYPE_CHECKING:
    from .model import Schema

Condition = tuple[Any, ...]
"""Values of a column, or ("range", from, below)."""
Rule = tuple[tuple[str, Condition], ...]

_BOUNDS = ("from", "below")


def rules(value: object) -> tuple[Rule, ...]:
    """Rules as a file or a caller writes them, checked as far as that goes without columns.

    >>> rules([{"sex": "male", "pregnant": True}, {"age": {"below": 12}, "status": ["married", "widowed"]}])[1]
    (('age', ('range', None, 12)), ('status', ('married', 'widowed')))
    """
    if isinstance(value, (str, Mapping)) or not isinstance(value, Sequence):
        raise SchemaError("", "a list of rules", hint="A rule is written {sex: male, pregnant: true}.")
    return tuple(_rule(f"[{i}]", item) for i, item in enumerate(value))


def plain_rules(value: Iterable[Rule]) -> list[dict[str, Any]]:
    """Rules as files have them."""
    return [{name: _plain(condition) for name, condition in rule} for rule in value]


def check_rules(schema: Schema) -> None:
    """Refuse rules about columns or values that the schema does not have."""
    for i, rule in enumerate(schema.never):
        for name, condition in rule:
            if name not in schema:
                hint = f"{did_you_mean(name, schema.names)}Rules speak of columns of the schema."
                raise SchemaError(f"never[{i}].{name}", "a column of the schema", hint=hint)
            try:
                _matching(schema[name], condition)
            except SchemaError as error:
                raise SchemaError(f"never[{i}].{name}{error.name}", error.expectation, hint=error.hint) from None
        mask = _mask(schema, [name for name, _ in rule], rule)
        if mask.all():
            raise SchemaError(f"never[{i}]", "true of some records only: it would leave no cell")


def impossible(schema: Schema, names: Sequence[str]) -> NDArray[np.bool_] | None:
    """The cells of a table over these columns that no record can be in; None if there are none.

    >>> from simplexdp.schema import Schema
    >>> schema = Schema.of(sex=["f", "m"], pregnant=[False, True])
    >>> impossible(Schema(schema.columns, never=[{"sex": "m", "pregnant": True}]), ["sex", "pregnant"]).tolist()
    [[False, False], [False, True]]
    """
    masks = [_mask(schema, names, rule) for rule in schema.never if {name for name, _ in rule} <= set(names)]
    if not masks:
        return None
    found: NDArray[np.bool_] = np.logical_or.reduce(masks)
    return found if found.any() else None


def breaks(schema: Schema, codes: Mapping[str, NDArray[Any]]) -> NDArray[np.bool_]:
    """Which records, given by cell numbers, break a rule of those whose columns are all there."""
    size = len(next(iter(codes.values())))
    found = np.zeros(size, np.bool_)
    for rule in schema.never:
        if all(name in codes for name, _ in rule):
            each = [_matching(schema[name], condition)[np.asarray(codes[name])] for name, condition in rule]
            found |= np.logical_and.reduce(each)
    return found


def did_you_mean(name: object, known: Iterable[str]) -> str:
    """The nearest of the known names as a question, if one is near."""
    close = get_close_matches(name, list(known), n=1) if isinstance(name, str) else []
    return f"Did you mean {close[0]!r}? " if close else ""


def _mask(schema: Schema, names: Sequence[str], rule: Rule) -> NDArray[np.bool_]:
    shape = schema.shape(names)
    mask = np.ones(shape, np.bool_)
    for name, condition in rule:
        axis = list(names).index(name)
        line = _matching(schema[name], condition)
        mask &= line.reshape([-1 if i == axis else 1 for i in range(len(shape))])
    return mask


def _rule(where: str, item: object) -> Rule:
    if isinstance(item, tuple):  # as it is kept
        item = dict(item)
    if not isinstance(item, Mapping) or len(item) < 1:
        raise SchemaError(where, "a mapping of columns to values", hint="For instance {sex: male, pregnant: true}.")
    found = []
    for name, value in item.items():
        if not isinstance(name, str):
            raise SchemaError(where, "a mapping of names to values", hint="Quote the names.")
        found.append((name, _condition(f"{where}.{name}", value)))
    return tuple(found)


def _condition(where: str, value: object) -> Condition:
    if isinstance(value, Mapping):
        if not value or not set(value) <= set(_BOUNDS):
            raise SchemaError(where, "a value, a list of values, or a range with from, below or both")
        ends = [value.get(key) for key in _BOUNDS]
        for end in ends:
            if end is not None and (isinstance(end, bool) or not isinstance(end, (int, float, datetime.date))):
                raise SchemaError(where, "a range between numbers or dates")
        return ("range", *ends)
    if isinstance(value, tuple):
        return value
    values = tuple(value) if isinstance(value, list) else (value,)
    if not values or any(isinstance(one, (list, dict)) or one is None for one in values):
        raise SchemaError(where, "a value or a list of values", hint=f"A missing value is {MISSING!r}.")
    return values


def _plain(condition: Condition) -> Any:
    if condition[:1] == ("range",) and len(condition) == 3:
        return {key: end for key, end in zip(_BOUNDS, condition[1:], strict=True) if end is not None}
    return condition[0] if len(condition) == 1 else list(condition)


def _matching(column: Any, condition: Condition) -> NDArray[np.bool_]:
    """The cells of a column that lie in a condition for certain."""
    found = np.zeros(column.size, np.bool_)
    if condition[:1] == ("range",) and len(condition) == 3:
        if not isinstance(column, Numeric):
            if isinstance(column, Categories):
                raise SchemaError("", "values of the column: only a numeric one has ranges")
            return found  # edges are not known yet
        low, high = (_number(end, default) for end, default in zip(condition[1:], (-math.inf, math.inf), strict=True))
        for code, own in enumerate(column.own):
            found[code] = low <= own < high
        for place, (start, end) in enumerate(zip(column.edges, column.edges[1:], strict=False)):
            first, last = place == 0, place == column.bins - 1
            start = -math.inf if first and column.outside == "nearest" else start
            end = math.inf if last and column.outside == "nearest" else end
            # The last bin holds its right end.
            inside = end < high or (end == high and (not last or end == math.inf))
            found[len(column.own) + place] = low <= start and inside
        return found
    for value in condition:
        found[_code(column, value)] = True
    return found


def _code(column: Any, value: Any) -> int:
    if value == OTHER and column.other_code is not None:
        return int(column.other_code)
    if value == MISSING and column.missing_code is not None:
        return int(column.missing_code)
    if isinstance(column, Categories):
        for code, declared in enumerate(column.values):
            if type(declared) is type(value) and declared == value:
                return code
        hint = did_you_mean(value, [one for one in column.values if isinstance(one, str)])
        if isinstance(value, bool):
            hint += "YAML reads yes, no, on and off as truth values: quote what is meant as text. "
        raise SchemaError("", "a declared value", hint=f"{hint}Values: {', '.join(column.labels[:10])}.")
    if isinstance(column, Numeric) and not isinstance(value, (str, bool)) and _number(value, 0.0) in column.own:
        return column.own.index(_number(value, 0.0))
    raise SchemaError("", "a range such as {below: 12}, or an own value of the column")


def _number(end: Any, default: float) -> float:
    if end is None:
        return default
    return float(end.toordinal() - EPOCH) if isinstance(end, datetime.date) else float(end)
