"""The slow twin: one row after the other in plain Python, written from the words of the schema alone."""

from __future__ import annotations

import datetime as dt
import random

import numpy as np
import pyarrow as pa

from simplexdp.schema import Categories, Numeric, Schema


def cell(column, value):
    """The number of the cell a value falls in; None if the declaration refuses it."""
    if value is None or (isinstance(value, float) and value != value):
        return column.missing_code
    if column.kind == "categories":
        for code, declared in enumerate(column.values):
            if value == declared:
                return code
        return column.other_code
    for code, own in enumerate(column.own):
        if value == own:
            return code
    edges = column.edges
    for code in range(len(edges) - 1):
        last = code == len(edges) - 2
        if edges[code] <= value < edges[code + 1] or (last and value == edges[-1]):
            return len(column.own) + code
    if column.outside == "nearest":
        return len(column.own) + (0 if value < edges[0] else len(edges) - 2)
    return column.other_code


def brute(rows: dict[str, list], schema: Schema, tables) -> list[np.ndarray]:
    """Counts of every table."""
    length = len(next(iter(rows.values())))
    found = []
    for table in tables:
        counts = np.zeros(schema.shape(table), np.int64)
        for row in range(length):
            counts[tuple(cell(schema[name], rows[name][row]) for name in table)] += 1
        found.append(counts)
    return found


def assert_counts(tables, rows, schema, wanted) -> None:
    for got, expected, columns in zip(tables, brute(rows, schema, wanted), wanted, strict=True):
        assert got.columns == tuple(columns)
        assert np.array_equal(got.private_counts(), expected), columns


DAYS = [dt.date(1969, 12, 31), dt.date(2024, 2, 29), dt.date(2030, 1, 1)]

SCHEMA = Schema(
    [
        Categories(["b", "a", "", "grün"], name="text", other="cell", missing="cell"),
        Categories([3, -1, 7, 300], name="whole", other="cell", missing="cell"),
        Numeric([0, 1, 2.5, 10], own=[-99, 5], name="number", outside="cell", missing="cell"),
        Categories([True, False], name="truth", missing="cell"),
        Categories(DAYS[:2], name="day", other="cell", missing="cell"),
    ]
)

TABLES = [
    ("text",),
    ("truth", "text"),
    ("number",),
    ("day", "whole"),
    ("whole", "number", "text"),
    ("day", "truth", "number", "whole", "text"),
    ("truth",),
]


def sample_rows(rows: int, seed: int = 0) -> dict[str, list]:
    """Rows with declared, undeclared and missing values in every column."""
    draw = random.Random(seed)
    return {
        "person": [draw.randrange(rows // 3 + 1) for _ in range(rows)],
        "text": draw.choices(["a", "b", "grün", "zebra", "A", None], k=rows),
        "unused": ["never read"] * rows,
        "whole": draw.choices([3, -1, 7, 300, 8, 0, None], k=rows),
        "number": draw.choices([-99.0, 5.0, 0.0, 0.5, 1.0, 2.4, 2.5, 9.9, 10.0, 10.5, -1.0, None], k=rows),
        "truth": draw.choices([True, False, None], k=rows),
        "day": draw.choices([*DAYS, None], k=rows),
    }


def as_arrow(rows: dict[str, list]) -> pa.Table:
    kinds = {
        "person": pa.int64(),
        "text": pa.string(),
        "unused": pa.string(),
        "whole": pa.int32(),
        "number": pa.float64(),
        "truth": pa.bool_(),
        "day": pa.date32(),
    }
    return pa.table({name: pa.array(values, kinds[name]) for name, values in rows.items()})
