"""The count once more, in plain Python: one value after the other, from a declaration written as a dictionary.

It shares no code with the library, not even the schema, so that an error in either shows.
"""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise
from typing import Any


def cell(column: Mapping[str, Any], value: Any) -> int | None:
    """The cell of a value by the declaration of its column; None if the declaration refuses it."""
    values: list[Any] = column.get("values", [])
    own: list[float] = column.get("own", [])
    edges: list[float] = column.get("edges", [])
    declared = len(values) + len(own) + max(len(edges) - 1, 0)
    other = declared if "cell" in (column.get("other"), column.get("outside")) else None
    if value is None or value != value:
        return declared + (other is not None) if column.get("missing") == "cell" else None
    for code, known in enumerate(values):
        if type(value) is type(known) and value == known:
            return code
        if type(known) is int and type(value) in (float, Decimal, Fraction) and value == known:
            return code
        if type(known) is dt.date and type(value) is dt.datetime and value == dt.datetime(*known.timetuple()[:3]):
            return code
    if values or type(value) not in (int, float, Decimal, Fraction):
        return other
    number = float(value) if abs(value) < 10**300 else float("inf") * (1 if value > 0 else -1)
    if number in own:
        return own.index(number)
    for code, (low, high) in enumerate(pairwise(edges)):
        if low <= number < high or number == high == edges[-1]:
            return len(own) + code
    if column.get("outside") == "nearest":
        return len(own) if number < edges[0] else declared - 1
    return other


def count(
    columns: Mapping[str, Mapping[str, Any]], rows: Iterable[Mapping[str, Any]], names: Sequence[str]
) -> Counter[tuple[int, ...]] | None:
    """How many rows are in each cell that any row is in; None if a row is refused."""
    found: Counter[tuple[int, ...]] = Counter()
    for row in rows:
        place = [cell(columns[name], row[name]) for name in names]
        if None in place:
            return None
        found[tuple(code for code in place if code is not None)] += 1
    return found
