"""Columns whose cells are pooled: each pool is one category, named by the cells in it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..budget import check_whole
from ..errors import InvalidArgument
from .columns import Categories, Column
from .model import Schema

_NAMED = 3
"""Cells that the name of a pool tells, of longer ones the first and the last."""


def pooled(column: Column, places: Sequence[int]) -> Categories:
    """The column with cell i in pool `places[i]`; pools are numbered without a gap.

    >>> from simplexdp.schema import Categories
    >>> pooled(Categories(["a", "b", "c"], name="x"), [0, 1, 1]).labels
    ('a', 'b | c')
    """
    places = [check_whole("places", place, at_least=0) for place in places]
    if len(places) != column.size or set(places) != set(range(max(places, default=0) + 1)):
        raise InvalidArgument("pools", f"a pool for each of the {column.size} cells of {column.name!r}, without a gap")
    members: list[list[str]] = [[] for _ in range(max(places) + 1)]
    for label, place in zip(column.labels, places, strict=True):
        members[place].append(label)
    names: list[str] = []
    for labels in members:
        short = labels if len(labels) <= _NAMED else [labels[0], f"… {len(labels) - 2} more …", labels[-1]]
        name = base = " | ".join(labels[:1] if len(labels) == 1 else short)
        while name in names:
            name += "'"
        names.append(name or base)
    return Categories(names, name=column.name, origin=column.origin)


def pooled_schema(schema: Schema, pools: Mapping[str, Sequence[int]]) -> Schema:
    """The schema with these columns pooled; rules about them are about cells that are no more, and go."""
    columns = {name: pooled(schema[name], places) for name, places in pools.items()}
    kept = [rule for rule in schema.never if not {name for name, _ in rule} & set(columns)]
    return Schema([columns.get(each.name, each) for each in schema], never=kept, file=schema.file)
