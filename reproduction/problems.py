"""What is released and how it is judged: a flat vector of counts in rows and tables, and a test set.

A *row* is one conditional distribution, a *table* is what one record touches once: naive Bayes has a table for each
attribute with a row for each class, a network has a table for each node with a row for each parent configuration.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from .datasets import Table
from .encode import PUBLIC_SHARE, Column, FloatArray, IntArray, public_columns, published_columns, split
from .graphs import Graph

MetricValues = dict[str, FloatArray]

FLOOR = 1e-20
"""The published cross-entropy is −mean ln(p + 1e-20)."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Tables:
    """Counts of all cells one after another.

    Args:
        counts: of every cell.
        row_starts: where each conditional distribution starts.
        table_starts: where each table starts.
        total: the public number of records.
        shares: into how many parts the budget is divided; the number of tables unless a published slip is repeated.
        multiplier: how many times its per-table ε the published (ε, δ) experiments print; None where they do not apply.
    """

    counts: FloatArray
    row_starts: IntArray
    table_starts: IntArray
    total: int
    shares: int
    multiplier: float | None = None

    @property
    def cells(self) -> int:
        """How many cells."""
        return len(self.counts)

    @cached_property
    def table_sizes(self) -> IntArray:
        """Cells of each table."""
        return np.diff(np.append(self.table_starts, self.cells)).astype(np.int64)

    @cached_property
    def row_sizes(self) -> IntArray:
        """Cells of each row."""
        return np.diff(np.append(self.row_starts, self.cells)).astype(np.int64)

    @property
    def typical_cells(self) -> int:
        """The average size of a table, for choosing parameters."""
        return max(2, round(self.cells / len(self.table_starts)))

    def normalise(self, values: FloatArray) -> FloatArray:
        """Divide every row by its sum; the cells are the last axis."""
        sums = np.add.reduceat(values, self.row_starts, axis=-1)
        shares: FloatArray = values / np.repeat(sums, self.row_sizes, axis=-1)
        return shares

    def normalise_tables(self, values: FloatArray) -> FloatArray:
        """Divide every table by its sum."""
        return values / np.repeat(self.table_sums(values), self.table_sizes, axis=-1)

    def rectangles(self) -> list[tuple[int, int, int]]:
        """Start, cells and rows of each table; all rows of a table are equally long in the correct settings."""
        edges = np.searchsorted(self.row_starts, np.append(self.table_starts, self.cells))
        return [
            (int(start), int(size), int(last - first))
            for start, size, first, last in zip(self.table_starts, self.table_sizes, edges, edges[1:], strict=False)
        ]

    def table_sums(self, values: FloatArray) -> FloatArray:
        """The sum of each table."""
        sums: FloatArray = np.add.reduceat(values, self.table_starts, axis=-1)
        return sums


class Problem(Protocol):
    """Tables to release and a way to judge what was fitted to them."""

    @property
    def tables(self) -> Tables:
        """What is released."""

    def evaluate(self, probabilities: FloatArray) -> MetricValues:
        """Test metrics of row-normalised probabilities, one for each row of a (repeats, cells) array."""


@dataclass(frozen=True, kw_only=True, eq=False)
class NaiveBayes:
    """Attribute tables (rows are classes) followed by the class table; the test rows as a sparse 0/1 matrix."""

    tables: Tables
    test: csr_matrix
    labels: IntArray
    classes: int

    def evaluate(self, probabilities: FloatArray) -> MetricValues:
        """Cross-entropy and accuracy; among equally likely classes a random one is predicted."""
        logs = np.log(probabilities)
        loss, accuracy = [], []
        for one in logs:
            prior = one[-self.classes :]
            # Row j of the rectangle holds the cells of class j in the order of the columns of `test`.
            scores = self.test @ self._by_class(one).T + prior
            scores -= scores.max(axis=1, keepdims=True)
            chances = np.exp(scores)
            chances /= chances.sum(axis=1, keepdims=True)
            truth = chances[np.arange(len(self.labels)), self.labels]
            loss.append(-np.mean(np.log(truth + FLOOR)))
            best = scores == 0
            hit = best[np.arange(len(self.labels)), self.labels] / best.sum(axis=1)
            accuracy.append(hit.mean())
        return {"cross-entropy": np.array(loss), "accuracy": np.array(accuracy)}

    @cached_property
    def _columns(self) -> IntArray:
        """For every class the places of its cells."""
        sizes = self.tables.table_sizes[:-1] // self.classes
        starts = self.tables.table_starts[:-1]
        places = [
            np.concatenate(
                [np.arange(start + j * size, start + (j + 1) * size) for start, size in zip(starts, sizes, strict=True)]
            )
            for j in range(self.classes)
        ]
        return np.array(places)

    def _by_class(self, one: FloatArray) -> FloatArray:
        return one[self._columns]


@dataclass(frozen=True, kw_only=True, eq=False)
class Network:
    """One table for each node; the test rows counted into the same cells."""

    tables: Tables
    test_counts: FloatArray

    def evaluate(self, probabilities: FloatArray) -> MetricValues:
        """The test log-likelihood; test records in cells that do not exist are skipped, as published."""
        seen = self.test_counts > 0
        return {"log-likelihood": np.log(probabilities[:, seen]) @ self.test_counts[seen]}


def naive_bayes(table: Table, *, published: bool, seed: int = 1) -> NaiveBayes:
    """The naive Bayes problem of a data set, with the published slips or without."""
    train, test = split(table.rows, seed)
    classes = np.unique(table.labels[train] if published else np.array(list(table.data_set.classes)))
    label = np.searchsorted(classes, table.labels).astype(np.int64)
    if published:
        columns = published_columns(table, published_attributes(table), train, test)
    else:
        public, train = _set_aside(train)
        columns = public_columns(table, table.attributes, public, train, test)
    j = len(classes)
    parts = [np.bincount(label[train] * c.size + c.train, minlength=j * c.size).astype(np.float64) for c in columns]
    class_counts = np.bincount(label[train], minlength=j).astype(np.float64)
    parts.append(class_counts * (len(columns) if published else 1))  # slip 1: K times too many
    sizes = [len(part) for part in parts]
    rows = [c.size for c in columns for _ in range(j)] + [j]
    return NaiveBayes(
        tables=Tables(
            counts=np.concatenate(parts),
            row_starts=_starts(rows),
            table_starts=_starts(sizes),
            total=len(train),
            shares=len(columns) + 1,
            multiplier=_advanced(13, 0.5) if published else None,  # slip: that of Adult, for every data set
        ),
        test=_one_hot(columns, len(test)),
        labels=label[test],
        classes=j,
    )


def network(table: Table, graph: Graph, *, published: bool, seed: int = 1) -> Network:
    """The network problem of a data set: observed cells only as published, or all cells of the public domain."""
    train, test = split(table.rows, seed)
    names = list(graph)
    if published:
        found = published_columns(table, names, train, test)
    else:
        public, train = _set_aside(train)
        found = public_columns(table, names, public, train, test)
    columns = {column.name: column for column in found}
    parts, tests, rows = [], [], []
    for node, parents in graph.items():
        family = [columns[name] for name in (*parents, node) if name in columns]
        if node not in columns:
            continue  # constant in a small training part
        shape = tuple(column.size for column in family)
        counts = _count(shape, [column.train for column in family])
        seen = _count(shape, [column.test for column in family])
        size = columns[node].size
        if published:  # slip 5: only what the training rows show exists
            kept = counts > 0
            rows += [int(n) for n in kept.reshape(-1, size).sum(axis=1) if n]
            counts, seen = counts[kept], seen[kept]
        else:
            rows += [size] * (len(counts) // size)
        parts.append(counts)
        tests.append(seen)
    return Network(
        tables=Tables(
            counts=np.concatenate(parts),
            row_starts=_starts(rows),
            table_starts=_starts([len(part) for part in parts]),
            total=len(train),
            shares=3 if published else len(parts),  # slip 2: the number of data sets
            multiplier=_advanced(len(table.attributes) + 1, 1.0) if published else None,
        ),
        test_counts=np.concatenate(tests),
    )


def published_attributes(table: Table) -> list[str]:
    """The attributes of the published files. With `fnlwgt` and without `education-num` Adult's numbers agree."""
    if table.data_set.name != "Adult":
        return table.attributes
    return [name for name in table.columns if name not in ("education-num", table.data_set.label)]


def _set_aside(train: IntArray) -> tuple[IntArray, IntArray]:
    size = math.ceil(PUBLIC_SHARE * len(train))
    return train[:size], train[size:]


def _advanced(tables: int, share: float, delta: float = 1e-5) -> float:
    """2√(2K ln(share/δ)): the published factor from the ε of one table to the ε̂ of the axis."""
    return 2 * math.sqrt(2 * tables * math.log(share / delta))


def _starts(sizes: list[int]) -> IntArray:
    return np.concatenate([[0], np.cumsum(sizes)[:-1]]).astype(np.int64)


def _count(shape: tuple[int, ...], codes: list[IntArray]) -> FloatArray:
    """How often each combination occurs; rows with a value that has no cell are left out."""
    valid = np.all([code >= 0 for code in codes], axis=0)
    flat = np.ravel_multi_index(tuple(code[valid] for code in codes), shape)
    return np.bincount(flat, minlength=math.prod(shape)).astype(np.float64)


def _one_hot(columns: list[Column], rows: int) -> csr_matrix:
    places: list[NDArray[np.int64]] = []
    records: list[NDArray[np.int64]] = []
    start = 0
    for column in columns:
        valid = np.flatnonzero(column.test >= 0)
        records.append(valid)
        places.append(start + column.test[valid])
        start += column.size
    where = (np.concatenate(records), np.concatenate(places))
    return csr_matrix((np.ones(len(where[0])), where), shape=(rows, start))
