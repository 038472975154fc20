"""Naive Bayes as one SELECT: a sum of lookups, for DuckDB and PostgreSQL.

Each feature's cell is found by CASE, its scores w·ln θ stand in an array for each class, and the scores are added to
ln π + bias. Everything in the statement is in the model file, so it is as public as that.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np

from ..errors import InvalidArgument, SchemaError
from ..schema import Categories, Column, Numeric

if TYPE_CHECKING:
    from .naive_bayes import NaiveBayesModel

Dialect = Literal["duckdb", "postgres"]
Unknown = Literal["refuse", "ignore"]


def prediction_sql(
    model: NaiveBayesModel,
    table: str,
    *,
    keep: Sequence[str] = (),
    dialect: Dialect = "duckdb",
    unknown: Unknown = "refuse",
) -> str:
    """The statement that gives `probability_…` of each class and `prediction` for each row of a table.

    Args:
        model: with a schema, without transformed columns and impossible combinations.
        table: its name in the database, with dots between its parts.
        keep: columns of the table to show before them.
        dialect: "duckdb" or "postgres"; the statement is the same today, and checked for each.
        unknown: of a row with a value that the model does not know: "refuse" gives NULL, "ignore" predicts from its
            other columns.
    """
    schema = model.schema
    if schema is None:
        raise InvalidArgument("model", "one with a schema, or its cells have no values to look up")
    for name, given, known in (("dialect", dialect, Dialect), ("unknown", unknown, Unknown)):
        if given not in get_args(known):
            raise InvalidArgument(name, " or ".join(map(repr, get_args(known))), got=given)
    if schema.never:
        raise InvalidArgument("model", "without impossible combinations: use `simplexdp predict`")
    classes = schema[model.target]
    source = ".".join(quoted(part) for part in table.split("."))
    kept = [quoted(name) for name in keep]
    cells = [f"{_cell(schema[name])} AS c{k}" for k, name in enumerate(model.features)]
    scores = []
    for i in range(classes.size):
        terms = [_number(float(np.log(model.class_probabilities[i]) + model.biases[i]))]
        for k, (rows, weight) in enumerate(zip(model.conditionals, model.weights, strict=True)):
            numbers = ", ".join(_number(float(value)) for value in weight * np.log(rows[i]))
            found = f"(CAST(ARRAY[{numbers}] AS FLOAT8[]))[c{k}]"
            terms.append(f"COALESCE({found}, 0.0e0)" if unknown == "ignore" else found)
        scores.append("\n    + ".join(terms) + f" AS s{i}")
    shares = " + ".join(f"exp(s{i} - top)" for i in range(classes.size))
    named = [f"exp(s{i} - top) / total AS {quoted(f'probability_{label}')}" for i, label in enumerate(classes.labels)]
    chosen = " ".join(f"WHEN s{i} = top THEN {value}" for i, value in enumerate(_values(classes)))
    return (
        f"-- {model.target} by naive Bayes, as `simplexdp predict` computes it\n"
        f"WITH cells AS (\n  SELECT {_listed(kept, cells)}\n  FROM {source}\n),\n"
        f"scores AS (\n  SELECT {_listed(kept, scores)}\n  FROM cells\n),\n"
        f"tops AS (SELECT *, GREATEST({', '.join(f's{i}' for i in range(classes.size))}) AS top FROM scores),\n"
        f"totals AS (SELECT *, {shares} AS total FROM tops)\n"
        f"SELECT {_listed(kept, [f'CASE {chosen} END AS prediction', *named])}\nFROM totals;\n"
    )


def quoted(name: str) -> str:
    """An identifier.

    >>> quoted('a "b"')
    '"a ""b\"""'
    """
    if "\0" in name:
        raise InvalidArgument("name", "without a zero character")
    return '"' + name.replace('"', '""') + '"'


def _listed(*groups: Sequence[str]) -> str:
    return ",\n    ".join(item for group in groups for item in group)


def _number(value: float) -> str:
    """A literal that is a double in both."""
    if math.isinf(value):
        return f"CAST('{'-' if value < 0 else ''}Infinity' AS FLOAT8)"
    text = repr(float(value))
    return text if "e" in text else f"{text}e0"


def _literal(value: Any) -> str:
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, datetime.date):
        return f"DATE '{value.isoformat()}'"
    return "'" + str(value).replace("'", "''") + "'"


def _values(column: Column) -> list[str]:
    """What the classes are called: the declared values, or labels where cells are more than that."""
    plain = isinstance(column, Categories) and column.size == column.declared
    return [_literal(value) for value in (column.values if plain else column.labels)]  # type: ignore[union-attr]


def _cell(column: Column) -> str:
    """The place of the cell of a column, from 1 on; NULL for what the declaration refuses."""
    if column.transform:
        raise SchemaError(column.name, "without transform for SQL", hint="Use `simplexdp predict`.")
    name = quoted(column.name)
    other = "NULL" if column.other_code is None else str(column.other_code + 1)
    missing = "NULL" if column.missing_code is None else str(column.missing_code + 1)
    if isinstance(column, Categories):
        found = " ".join(f"WHEN {name} = {_literal(v)} THEN {i}" for i, v in enumerate(column.values, start=1))
        return f"CASE WHEN {name} IS NULL THEN {missing} {found} ELSE {other} END"
    assert isinstance(column, Numeric)  # a model has edges
    days = f"(CAST({name} AS DATE) - DATE '1970-01-01')" if column.dates else name
    x, first = f"CAST({days} AS FLOAT8)", len(column.own) + 1
    lines = [f"WHEN {x} IS NULL OR {x} = CAST('NaN' AS FLOAT8) THEN {missing}"]
    lines += [f"WHEN {x} = {_number(v)} THEN {i}" for i, v in enumerate(column.own, start=1)]
    if column.edges:
        nearest = column.outside == "nearest"
        below, above = (str(first), str(first + column.bins - 1)) if nearest else (other, other)
        lines.append(f"WHEN {x} < {_number(column.edges[0])} THEN {below}")
        lines += [f"WHEN {x} < {_number(e)} THEN {first + i}" for i, e in enumerate(column.edges[1:-1])]
        lines.append(f"WHEN {x} <= {_number(column.edges[-1])} THEN {first + column.bins - 1}")
        other = above
    return f"CASE {' '.join(lines)} ELSE {other} END"
