"""Random tables through every source of rows, beside the second count: whatever the batching, order, type and engine.

Values are of one type a column where a source has types, and of any where it holds Python objects or text.
"""

from __future__ import annotations

import datetime as dt
import gzip
import json
import random
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet as pq

from simplexdp import Categories, CellNumbers, Files, Numeric, OneRecordPerRow, Query, Schema, count
from simplexdp.errors import SourceError
from simplexdp.learn.inputs import feature_column
from simplexdp.private.counting.source import MixedBatch
from simplexdp.private.tables import opened
from simplexdp.sampling import SeededEntropy

from . import second_count

Rows = list[dict[str, Any]]
PERSON = "who"
DAYS = [dt.date(1969, 12, 31), dt.date(2024, 2, 29), dt.date(2030, 1, 1)]
DECLARED: dict[str, list[list[Any]]] = {
    "text": [["a", "b", "grün"], ["1", "01", ""], ["x y", 'q"q', "l\nl"]],
    "whole": [[0, 1, 2], [3, -1, 300], [2**53 + 1, 7, -(2**62)]],
    "truth": [[True, False], [True]],
    "date": [DAYS[:2], DAYS[1:]],
}
EDGES = [[0, 1, 2.5, 10], [0.1, 0.2, 0.3], [-5, 5], [i / 7 for i in range(60)]]
PLAIN: dict[str, list[Any]] = {
    "text": ["a", "b", "grün", "1", "01", "x y", 'q"q', "l\nl", "zebra", "A"],
    "whole": [0, 1, 2, 3, -1, 300, 7, 8, 2**53 + 1, 2**53, -(2**62)],
    "truth": [True, False],
    "date": [*DAYS, dt.date(1, 1, 1)],
    "numeric": [0.0, -0.0, 0.1, 0.3, 0.5, 1.0, 2.5, 9.9, 10.0, 10.5, -1.0, float("inf"), -float("inf"), 5.0, 1 / 7],
}
FOREIGN: list[Any] = [
    *(None, float("nan"), True, 1, 0, 1.0, 0.5, "1", "a", "1.5", "", b"a", b"\xff", (1,), [1], {"a": 1}, 1j),
    *(Decimal("0.3"), Decimal("1.00"), Decimal("NaN"), Decimal("1e400"), Fraction(1, 2), Fraction(3), 10**30, 2**63),
    *(DAYS[1], dt.datetime(2024, 2, 29), dt.datetime(2024, 2, 29, 12), dt.datetime(2024, 2, 29, tzinfo=dt.UTC)),
    *(dt.time(1), dt.timedelta(1), "\ud800", object, -(10**400)),
]
DAYS_ONLY = {"values": DAYS, "other": "cell", "missing": "cell"}
JUNK = ["abc", "1,5", "2024-02-30", "2024-02-29 12:00:00", "0x10", "1_0", "é", "--1"]


@dataclass(frozen=True, kw_only=True)
class Case:
    """A declaration, rows of Python values, and dice for how they are handed over."""

    columns: dict[str, dict[str, Any]]
    rows: Rows
    dice: random.Random
    folder: Path

    @property
    def names(self) -> list[str]:
        """The declared columns."""
        return list(self.columns)

    @property
    def schema(self) -> Schema:
        """The declaration as the library has it."""
        return Schema(
            [
                Categories(**column, name=name) if "values" in column else Numeric(**column, name=name)
                for name, column in self.columns.items()
            ]
        )

    def kind(self, name: str) -> str:
        """What a column declares."""
        return kind_of(self.columns[name])

    def values(self, name: str) -> list[Any]:
        """One column."""
        return [row[name] for row in self.rows]


def kind_of(column: dict[str, Any]) -> str:
    """What a declaration holds."""
    if "values" not in column:
        return "numeric"
    return {str: "text", int: "whole", bool: "truth", dt.date: "date"}[type(column["values"][0])]


def declaration(dice: random.Random, kind: str, refuse: float = 0.1) -> dict[str, Any]:
    """A random declaration; rules that refuse are rare, or most tables would be refused."""

    def rule() -> str:
        return "refuse" if dice.random() < refuse else "cell"

    if kind != "numeric":
        return {"values": dice.choice(DECLARED[kind]), "other": rule(), "missing": rule()}
    own = dice.sample([5.0, -99.0, 0.0, 0.3], dice.randint(0, 2))
    if own and dice.random() < 0.2:
        return {"own": own, "outside": rule(), "missing": rule()}
    outside = "nearest" if dice.random() < 0.3 else rule()
    return {"edges": dice.choice(EDGES), "own": own, "outside": outside, "missing": rule()}


# -- sources -------------------------------------------------------------------------------------------------------


def arrow_type(dice: random.Random, kind: str, values: Sequence[Any]) -> Any:
    """Some Arrow type that holds the values of a kind."""
    if kind == "text":
        coded = [pa.dictionary(pa.int8(), pa.string()), pa.dictionary(pa.uint16(), pa.large_string())]
        return dice.choice([pa.string(), pa.large_string(), pa.string_view(), *coded])
    if kind == "truth":
        return dice.choice([pa.bool_(), pa.dictionary(pa.int8(), pa.bool_())])
    if kind == "date":
        units = ["s", "ms", "us"]  # years that nanoseconds do not reach
        return dice.choice([pa.date32(), pa.date64(), *map(pa.timestamp, units)])
    present = [value for value in values if value is not None]
    if kind == "whole":
        wide = any(abs(value) > 2**53 for value in present)
        small = [pa.int16(), pa.int32(), pa.float64()] if all(abs(value) < 2**15 for value in present) else []
        return dice.choice([pa.int64(), pa.decimal128(25, 0), *small, *([] if wide else [pa.float64()])])
    return pa.float64()


def arrow_table(case: Case) -> pa.Table:
    """The rows with some Arrow type for each column, in chunks of any size."""
    arrays = []
    for name in case.names:
        kind = arrow_type(case.dice, case.kind(name), case.values(name))
        if name == PERSON:  # no floats name persons, and all batches name them alike
            kind = pa.int64() if case.kind(name) == "whole" else pa.string()
        inner = kind.value_type if pa.types.is_dictionary(kind) else kind
        array = pa.array(case.values(name), pa.date32() if pa.types.is_timestamp(inner) else inner).cast(inner)
        arrays.append(array.dictionary_encode().cast(kind) if pa.types.is_dictionary(kind) else array)
    return pa.table(arrays, names=case.names)


def batches(case: Case) -> list[Any]:
    """The rows in batches of any size, each with Arrow types of its own."""
    return [batch for part in parts(case) for batch in arrow_table(part).to_batches()]


def parts(case: Case) -> Iterator[Case]:
    """The rows in pieces of any size."""
    start = 0
    while start < len(case.rows):
        size = case.dice.randint(1, max(1, len(case.rows)))
        yield Case(columns=case.columns, rows=case.rows[start : start + size], dice=case.dice, folder=case.folder)
        start += size


def objects(values: Sequence[Any]) -> Any:
    """A NumPy array of these very objects."""
    array = np.empty(len(values), dtype=object)
    for place, value in enumerate(values):
        array[place] = value
    return array


def object_frame(case: Case) -> pd.DataFrame:
    return pd.DataFrame({name: pd.Series(objects(case.values(name)), dtype=object) for name in case.names})


class Cursor:
    """A DB-API cursor that gives rows of any objects."""

    def __init__(self, case: Case) -> None:
        self.description = [(name, None) for name in case.names]
        self._rows = [tuple(row[name] for name in case.names) for row in case.rows]
        self._dice = case.dice

    def fetchmany(self, size: int) -> list[tuple[Any, ...]]:
        """Some of the rows that are left."""
        size = self._dice.randint(1, size if self._dice.random() < 0.5 else 3)
        given, self._rows = self._rows[:size], self._rows[size:]
        return given


def cursor(case: Case) -> OneRecordPerRow:
    return OneRecordPerRow(Cursor(case))


def sqlite_table(case: Case) -> Any:
    connection = sqlite3.connect(":memory:")
    connection.execute(f"create table t ({', '.join(f'{name} blob' for name in case.names)})")
    marks = ", ".join("?" * len(case.names))
    connection.executemany(f"insert into t values ({marks})", [tuple(row.values()) for row in case.rows])
    return connection


def sqlite_cursor(case: Case) -> OneRecordPerRow:
    return OneRecordPerRow(sqlite_table(case).execute("select * from t"))


def parquet(case: Case) -> Any:
    """One or several files, some of them named twice."""
    paths: list[Path] = []
    for part in parts(case) if case.rows else [case]:
        path = case.folder / f"{len(paths)}.parquet"
        pq.write_table(
            arrow_table(part), path, use_dictionary=case.dice.random() < 0.5, row_group_size=case.dice.randint(1, 9)
        )
        paths.append(path)
    again = case.folder / ".." / case.folder.name / paths[0].name
    return case.dice.choice([paths, [*paths, again], [case.folder, paths[-1]], str(case.folder / "*.parquet")])


def csv_text(case: Case, delimiter: str) -> str:
    end = case.dice.choice(["\n", "\r\n"])
    lines = [delimiter.join(case.names)]
    for row in case.rows:
        fields = ["" if value is None else str(value) for value in row.values()]
        lines.append(
            delimiter.join(
                '"' + field.replace('"', '""') + '"' if len(fields) == 1 or set(field) & set('",;\r\n') else field
                for field in fields
            )
        )
    return end.join([*lines, ""])


def csv_file(case: Case) -> Any:
    """One or several files, each of which could be guessed to hold other types."""
    delimiter = case.dice.choice(",;")
    paths: list[Path] = []
    for part in parts(case) if case.rows else [case]:
        paths.append(case.folder / f"{len(paths):02}{case.dice.choice(['.csv', '.csv.gz'])}")
        data = csv_text(part, delimiter).encode()
        paths[-1].write_bytes(gzip.compress(data) if paths[-1].suffix == ".gz" else data)
    return Files(paths, delimiter=delimiter)


def json_file(case: Case) -> list[Path]:
    """One or several files, each an array of records or one record after the other."""
    paths: list[Path] = []
    for part in parts(case) if case.rows else [case]:
        plain = [
            {
                name: str(value) if isinstance(value, dt.date) else value
                for name, value in row.items()
                if value is not None or case.dice.random() < 0.5
            }
            for row in part.rows
        ]
        path = case.folder / f"{len(paths):02}{case.dice.choice(['.json', '.ndjson'])}"
        path.write_text(json.dumps(plain) if case.dice.random() < 0.5 else "\n".join(map(json.dumps, plain)))
        paths.append(path)
    return paths


def cell_numbers(case: Case) -> CellNumbers:
    kinds = [np.uint8, np.int16, np.int64]
    return CellNumbers(
        {
            name: np.array(
                [second_count.cell(case.columns[name], value) for value in case.values(name)], case.dice.choice(kinds)
            )
            for name in case.names
        }
    )


def mixed(case: Case) -> MixedBatch:
    array = np.stack([objects(case.values(name)) for name in case.names], axis=1)
    return MixedBatch(case.names, [feature_column(name, array[:, place]) for place, name in enumerate(case.names)])


def categorical(case: Case) -> pd.DataFrame:
    """pandas categoricals of objects, with categories that no row has."""
    frame = object_frame(case)
    for name in case.names:
        if case.kind(name) in ("text", "whole"):
            unused = ["unused", 99]
            frame[name] = pd.Categorical(frame[name], [*dict.fromkeys(frame[name].dropna()), *unused])
    return frame


TYPED: dict[str, Callable[[Case], Any]] = {
    "arrow table": arrow_table,
    "batches": batches,
    "generator": lambda case: iter(batches(case)),
    "dataset": lambda case: pyarrow.dataset.dataset(arrow_table(case)),
    "polars": lambda case: pl.DataFrame(arrow_table(case)),
    "polars lazy": lambda case: pl.DataFrame(arrow_table(case)).lazy(),
    "pandas": lambda case: arrow_table(case).to_pandas(),
    "pandas nullable": lambda case: object_frame(case).convert_dtypes(),
    "pandas arrow": lambda case: arrow_table(case).to_pandas(types_mapper=pd.ArrowDtype),
    "pandas categorical": categorical,
    "duckdb": lambda case: duckdb.connect().from_arrow(arrow_table(case)),
    "parquet": parquet,
    "duckdb query": lambda case: Query("from rows", duckdb.connect().register("rows", arrow_table(case))),
    "cell numbers": cell_numbers,
}
OBJECTS: dict[str, Callable[[Case], Any]] = {
    "pandas objects": object_frame,
    "pandas list": lambda case: [object_frame(part) for part in parts(case)],
    "cursor": cursor,
    "scikit-learn": mixed,
}
TEXT: dict[str, Callable[[Case], Any]] = {"csv": csv_file, "json": json_file}
SQLITE: dict[str, Callable[[Case], Any]] = {
    "sqlite": sqlite_cursor,
    "sqlite query": lambda case: Query("select * from t", sqlite_table(case)),
}
SOURCES = {**TYPED, **OBJECTS, **TEXT, **SQLITE}
NARROW = {"pandas", "pandas nullable"}  # their integers become floats where entries are missing
SLOW = {"duckdb", "duckdb query", "polars lazy", "json"}


def draw_value(dice: random.Random, source: str, column: dict[str, Any]) -> Any:
    """A value that a source can hold under a declaration."""
    kind = kind_of(column)
    if dice.random() < 0.1:
        return None
    if source in OBJECTS and dice.random() < 0.5:
        return dice.choice(FOREIGN)
    if source in TEXT and kind != "text" and dice.random() < 0.15:
        return dice.choice(JUNK)
    value = dice.choice(column.get("values", PLAIN[kind])) if dice.random() < 0.7 else dice.choice(PLAIN[kind])
    if source in NARROW and _is_wide([value]):
        return None
    if source in SQLITE:
        return float(value) if kind == "numeric" else value
    if source == "json" and isinstance(value, float) and abs(value) == float("inf"):
        return 10.0
    return value


def _is_wide(values: Sequence[Any]) -> bool:
    return any(type(value) is int and abs(value) >= 2**53 for value in values)


def allowed(source: str, kind: str) -> bool:
    """Whether a source has the types of a kind."""
    return source not in SQLITE or kind in ("text", "whole", "numeric")


def draw_case(dice: random.Random, source: str, folder: Path) -> Case:
    kinds = [kind for kind in (*DECLARED, "numeric") if allowed(source, kind)]
    columns = {f"c{i}": declaration(dice, dice.choice(kinds)) for i in range(dice.randint(1, 3))}
    if source in NARROW:
        columns = {
            name: DAYS_ONLY if _is_wide(column.get("values", ())) else column for name, column in columns.items()
        }
    rows = [
        {name: draw_value(dice, source, column) for name, column in columns.items()}
        for _ in range(dice.choice([0, 1, 2, 5, 12, 40]))
    ]
    if source == "csv":  # where an empty field is a missing one
        rows = [{name: None if value == "" else value for name, value in row.items()} for row in rows]
    return Case(columns=columns, rows=rows, dice=dice, folder=folder)


def check(case: Case, source: str) -> None:
    """The library's counts of the rows, in another order, beside the second count."""
    case.dice.shuffle(case.rows)
    if source == "cell numbers" and second_count.count(case.columns, case.rows, case.names) is None:
        return  # a refused value has no cell number
    names = case.dice.sample(case.names, case.dice.randint(1, len(case.names)))
    expected = second_count.count(case.columns, case.rows, names)
    try:
        made = SOURCES[source](case)
        (table,) = count(made, case.schema, [names])
    except SourceError:
        assert expected is None, f"{source} refuses rows that are not to be refused"
        return
    assert expected is not None, f"{source} counts rows that are to be refused"
    counts = opened(table.private_counts())
    found = {tuple(map(int, place)): int(counts[tuple(place)]) for place in np.argwhere(counts)}
    assert found == dict(expected), f"{source}: {found} instead of {dict(expected)}"


def check_persons(case: Case, source: str) -> None:
    """Of each person as many rows as the bound allows; with a bound above all, every row."""
    bound = case.dice.randint(1, 3)
    people = case.dice.choice([[1, 2, 3], ["1", "2", "x"], [1, "1", 2, b"1"] if source in OBJECTS else [5, 6]])
    who = [case.dice.choice(people) for _ in case.rows]
    rows = [{PERSON: name} | row for name, row in zip(who, case.rows, strict=True)]
    columns = {PERSON: {"values": people}}
    given = Case(columns=columns | case.columns, rows=rows, dice=case.dice, folder=case.folder)
    try:
        (table,) = count(
            SOURCES[source](given),
            case.schema,
            [case.names],
            rows_per_person=bound,
            person=PERSON,
            entropy=SeededEntropy(1),
        )
    except SourceError:
        assert second_count.count(case.columns, case.rows, case.names) is None
        return
    kept = sum(min(bound, sum(type(name) is type(one) and name == one for name in who)) for one in people)
    found = int(opened(table.private_counts()).sum())
    assert found == kept, f"{source}: {found} rows instead of {kept}"


def one(data: bytes, folder: Path) -> None:
    """One random table through one source."""
    dice = random.Random(data)
    source = dice.choice([name for name in SOURCES if name not in SLOW or dice.random() < 0.2])
    run(dice, source, folder)


def run(dice: random.Random, source: str, folder: Path) -> None:
    """One random table through a source, in a folder that is emptied for it."""
    for path in folder.iterdir():
        path.unlink()
    case = draw_case(dice, source, folder)
    if dice.random() < 0.1 and source not in ("cell numbers", "pandas nullable", "pandas categorical", *SQLITE):
        check_persons(case, source)
    else:
        check(case, source)
