"""From a table to codes: the published discretisation to the letter, and one that takes nothing from private rows.

The published one learns bins and categories from the training rows, and drops test values it did not see; the lowest
quantile bin is dropped too, because the published code gives it another name in the test part ("(16.999, 22.0]"
against "(17.0, 22.0]"). The public one sets aside a tenth of the training rows as public: they fix the categories and
the bins and are counted nowhere; every other value falls into the cell "other".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .datasets import Table

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]

BINS = 10
FEW = 30
"""Numeric columns with at most this many distinct values stay categorical."""
TEST_SHARE = 0.3
PUBLIC_SHARE = 0.1


@dataclass(frozen=True, kw_only=True, eq=False)
class Column:
    """One encoded column; −1 is a test value without a cell."""

    name: str
    size: int
    train: IntArray
    test: IntArray


def split(rows: int, seed: int = 1) -> tuple[IntArray, IntArray]:
    """Training and test rows of a 70/30 split, row for row as scikit-learn's train_test_split draws it."""
    size = int(np.ceil(TEST_SHARE * rows))
    order = np.random.RandomState(seed).permutation(rows)  # the published split's generator
    return order[size:].astype(np.int64), order[:size].astype(np.int64)


def published_columns(table: Table, names: list[str], train: IntArray, test: IntArray) -> list[Column]:
    """The published encoding; columns with a single value in the training rows are left out."""
    found = []
    for name in names:
        if table.numeric[name]:
            values = table.numbers(name)
            if table.data_set.name == "Shopper":
                values = np.floor(values + 0.5)  # the published file has whole numbers only
            column = _published_numeric(name, values[train], values[test])
        else:
            column = _categorical(name, table.columns[name][train], table.columns[name][test])
        if column.size > 1:
            found.append(column)
    return found


def public_columns(table: Table, names: list[str], public: IntArray, train: IntArray, test: IntArray) -> list[Column]:
    """Cells from the public rows alone, with a cell for everything else."""
    found = []
    for name in names:
        values: NDArray[Any]
        if table.numeric[name]:
            values = table.numbers(name)
            known, edges = _rule(values[public])
        else:
            values = table.columns[name]
            known, edges = np.unique(values[public]), None
        coded = [_code(values[rows], known, edges) for rows in (train, test)]
        size = len(known) + (1 if edges is None else len(edges) + 1)
        found.append(Column(name=name, size=size, train=coded[0], test=coded[1]))
    return found


def _rule(values: FloatArray) -> tuple[NDArray[Any], FloatArray | None]:
    """The values that keep a cell of their own, and the inner edges of the bins of the rest, if there are bins.

    Above 30 distinct values, the i-th most frequent one is kept while it holds more than a 3^-i share of the rows.
    """
    known, counts = np.unique(values, return_counts=True)
    if len(known) <= FEW:
        return known, None
    order = np.argsort(-counts, kind="stable")
    kept = 0
    while kept < len(known) and counts[order[kept]] > len(values) / 3 ** (kept + 1):
        kept += 1
    if len(known) - kept <= FEW:
        return known, None
    rest = values[np.isin(values, known[order[kept:]])]
    edges = np.unique(np.quantile(rest, np.linspace(0, 1, BINS + 1)))
    return np.sort(known[order[:kept]]), edges[1:-1]


def _code(values: NDArray[Any], known: NDArray[Any], edges: FloatArray | None) -> IntArray:
    """The index in `known`, then the bin (right-closed), or the cell "other" where there are no bins."""
    place = np.minimum(np.searchsorted(known, values), max(len(known) - 1, 0))
    own = known[place] == values if len(known) else np.zeros(len(values), dtype=bool)
    other = np.zeros(len(values)) if edges is None else np.searchsorted(edges, values, side="left")
    return np.where(own, place, len(known) + other).astype(np.int64)


def _categorical(name: str, train: NDArray[Any], test: NDArray[Any]) -> Column:
    known = np.unique(train)
    place = np.minimum(np.searchsorted(known, test), len(known) - 1)
    return Column(
        name=name,
        size=len(known),
        train=np.searchsorted(known, train).astype(np.int64),
        test=np.where(known[place] == test, place, -1).astype(np.int64),
    )


def _published_numeric(name: str, train: FloatArray, test: FloatArray) -> Column:
    known, edges = _rule(train)
    if edges is None:
        return _categorical(name, train, test)
    coded = _code(test, known, edges)
    lost = ~np.isin(test, train) | (coded == len(known))  # values never seen, and the misnamed lowest bin
    return Column(
        name=name,
        size=len(known) + len(edges) + 1,
        train=_code(train, known, edges),
        test=np.where(lost, -1, coded),
    )
