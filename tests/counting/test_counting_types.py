"""Every Arrow type that can hold a declared value is understood, and no other."""

from __future__ import annotations

import datetime as dt
import decimal
from itertools import chain

import numpy as np
import pyarrow as pa
import pytest
from brute import assert_counts
from hypothesis import given, settings
from hypothesis import strategies as st

from simplexdp.counting import count
from simplexdp.errors import SourceError
from simplexdp.schema import Categories, Numeric, Schema

TEXT = ["b", "a", "", None, "other", "b"]
WHOLE = [3, 0, 120, None, 9, 3]
DAYS = [dt.date(1969, 12, 31), dt.date(2024, 2, 29), None, dt.date(2020, 1, 1)]
NUMBERS = [0, 1, 2, 3, 100, None, 7]


def _dictionary(index, value):
    return pa.dictionary(index, value)


@pytest.mark.parametrize(
    "kind",
    [
        pa.string(),
        pa.large_string(),
        pa.string_view(),
        _dictionary(pa.int8(), pa.string()),
        _dictionary(pa.uint16(), pa.large_string()),
        _dictionary(pa.int64(), pa.string()),
    ],
    ids=str,
)
def test_text(kind):
    plain = pa.array(TEXT)
    array = plain.dictionary_encode().cast(kind) if pa.types.is_dictionary(kind) else plain.cast(kind)
    _check({"c": TEXT}, array, Categories(["a", "b", "", "unseen"], name="c", other="cell", missing="cell"))


@pytest.mark.parametrize(
    "kind",
    [
        *[pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()],
        *[pa.float32(), pa.float64(), pa.decimal128(25, 0), pa.decimal256(40, 0)],
        _dictionary(pa.int32(), pa.int64()),
    ],
    ids=str,
)
@pytest.mark.parametrize(
    "values",
    [
        (0, 3, 120),
        (3, 120, 0),
        tuple(range(121)),
        (3, 10**12, 120, -(2**40)),
        (10**15,),
        tuple(range(3, 300)),
    ],
    ids=["close", "mixed", "consecutive", "far apart", "none fits", "beyond small types"],
)
def test_whole_numbers(kind, values):
    array = pa.array(WHOLE).dictionary_encode() if pa.types.is_dictionary(kind) else pa.array(WHOLE).cast(kind)
    _check({"c": WHOLE}, array, Categories(list(values), name="c", other="cell", missing="cell"))


def test_whole_numbers_at_the_ends_of_their_types():
    for dtype in (np.int8, np.uint8, np.int64, np.uint64, np.int16):
        limits = np.iinfo(dtype)
        rows = [int(limits.min), int(limits.max), 0, 1, int(limits.max) - 1]
        declared = [v for v in (int(limits.max), int(limits.min), 1) if -(2**63) <= v < 2**63]
        _check(
            {"c": rows},
            pa.array(rows, pa.from_numpy_dtype(dtype)),
            Categories(declared, name="c", other="cell"),
        )


def test_floats_that_are_not_whole_are_not_declared():
    rows = [1.0, 1.5, -0.0, float("nan"), float("inf"), None]
    _check({"c": rows}, pa.array(rows), Categories([0, 1], name="c", other="cell", missing="cell"))


@pytest.mark.parametrize(
    "kind",
    [pa.date32(), pa.date64(), *[pa.timestamp(unit) for unit in ("s", "ms", "us", "ns")]],
    ids=str,
)
@pytest.mark.parametrize("order", [1, -1])
def test_dates(kind, order):
    array = pa.array(DAYS, pa.date32()).cast(kind)
    declared = [dt.date(1969, 12, 31), dt.date(2024, 2, 29)][::order]
    _check({"c": DAYS}, array, Categories(declared, name="c", other="cell", missing="cell"))


def test_a_timestamp_is_a_date_at_midnight_only():
    array = pa.array([dt.datetime(2024, 2, 29), dt.datetime(2024, 2, 29, 0, 0, 1)])
    table = count(
        pa.table({"c": array}), Schema([Categories([dt.date(2024, 2, 29)], name="c", other="cell")]), [("c",)]
    )
    assert table[0].private_counts().tolist() == [1, 1]


@pytest.mark.parametrize("values", [(True, False), (False, True), (True,)])
def test_booleans(values):
    rows = [True, False, None, True]
    _check({"c": rows}, pa.array(rows), Categories(list(values), name="c", other="cell", missing="cell"))


@pytest.mark.parametrize(
    "kind",
    [
        *[pa.int8(), pa.uint64(), pa.float16(), pa.float32(), pa.float64(), pa.decimal128(25, 3)],
        _dictionary(pa.int8(), pa.int64()),
    ],
    ids=str,
)
@pytest.mark.parametrize("edges", [(0, 2, 3), tuple(i / 10 for i in range(100))], ids=["few", "many"])
@pytest.mark.parametrize("outside", ["cell", "nearest"])
def test_numbers(kind, edges, outside):
    array = pa.array(NUMBERS).dictionary_encode() if pa.types.is_dictionary(kind) else pa.array(NUMBERS).cast(kind)
    _check({"c": NUMBERS}, array, Numeric(edges, name="c", own=[7], outside=outside, missing="cell"))


def test_numbers_with_own_values_only_and_at_the_ends():
    rows = [0.0, -0.0, 1.0, float("inf"), -float("inf"), float("nan"), 3.0]
    _check({"c": rows}, pa.array(rows), Numeric(own=[1, 0], name="c", outside="cell", missing="cell"))
    _check({"c": rows}, pa.array(rows), Numeric([0, 3], name="c", outside="nearest", missing="cell"))


def test_slices_and_nulls_keep_their_place():
    rows = [5, None, 1, 0, None, 2, 1, 1]
    array = pa.array([9, 9, 9, *rows], pa.int16())[3:]
    _check({"c": rows}, array, Categories([0, 1, 2], name="c", other="cell", missing="cell"))
    words = pa.array(["x", "y", *["a", None, "b", "a", "c"]]).dictionary_encode()[2:]
    _check(
        {"c": ["a", None, "b", "a", "c"]},
        words,
        Categories(["a", "b"], name="c", other="cell", missing="cell"),
    )


def test_dictionaries_that_change_from_batch_to_batch():
    words = [["a", "b", None, "c"], ["c", "b"], ["b", "b", "a"]]
    batches = [pa.record_batch({"c": pa.array(part).dictionary_encode()}) for part in words]
    schema = Schema([Categories(["c", "b", "a"], name="c", missing="cell")])
    assert_counts(count(batches, schema, [("c",)]), {"c": list(chain(*words))}, schema, [("c",)])


def test_a_missing_value_inside_a_dictionary():
    array = pa.DictionaryArray.from_arrays(pa.array([0, 1, None, 1]), pa.array(["a", None]))
    _check({"c": ["a", None, None, None]}, array, Categories(["a"], name="c", missing="cell"))


def test_a_column_of_nothing_but_missing_values():
    _check({"c": [None, None]}, pa.nulls(2), Categories(["a"], name="c", missing="cell"))


WRONG = {
    "integers as text": (Categories(["1", "2"], name="c"), pa.array([1, 2])),
    "text as integers": (Categories([1, 2], name="c"), pa.array(["1", "2"])),
    "booleans as integers": (Categories([0, 1], name="c"), pa.array([True, False])),
    "integers as booleans": (Categories([False, True], name="c"), pa.array([0, 1])),
    "text as numbers": (Numeric([0, 1], name="c"), pa.array(["0.5"])),
    "booleans as numbers": (Numeric([0, 1], name="c"), pa.array([True])),
    "text as dates": (Categories(DAYS[:1], name="c"), pa.array(["1969-12-31"])),
    "instants as dates": (Categories(DAYS[:1], name="c"), pa.array([0], pa.timestamp("s", tz="UTC"))),
    "bytes as text": (Categories(["a"], name="c"), pa.array([b"a"])),
    "fractions as integers": (Categories([1], name="c"), pa.array([decimal.Decimal("1.00")])),
    "dictionary of integers as text": (Categories(["1"], name="c"), pa.array([1]).dictionary_encode()),
    "lists": (Categories([1], name="c"), pa.array([[1]])),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_types_are_refused_before_a_row_is_read(case):
    column, array = WRONG[case]
    with pytest.raises(SourceError, match=r"column 'c' is declared with \w+ and has the type"):
        count(pa.table({"c": array}).slice(0, 0), Schema([column]), [("c",)])


def _check(rows, array, column):
    schema = Schema([column])
    assert_counts(count(pa.table({"c": array}), schema, [("c",)]), rows, schema, [("c",)])


CELLS = st.sampled_from(["cell", "refuse"])
VALUES = {
    "text": st.text("abäΩ", max_size=2),
    "whole": st.integers(-(2**63), 2**63 - 1) | st.integers(-5, 5),
    "truth": st.booleans(),
    "day": st.dates(),
}


@st.composite
def columns_with_rows(draw, name, rows):
    kind = draw(st.sampled_from([*VALUES, "number"]))
    if kind == "number":
        edges = sorted(draw(st.sets(st.integers(-8, 8), min_size=2, max_size=6)))
        column = Numeric(
            edges,
            name=name,
            own=draw(st.lists(st.integers(-10, 10), unique=True, max_size=2)),
            outside=draw(st.sampled_from(["cell", "nearest"])),
            missing="cell",
        )
        values = st.floats(-10, 10) | st.integers(-10, 10).map(float) | st.none() | st.just(float("nan"))
        return column, draw(st.lists(values, min_size=rows, max_size=rows)), pa.float64()
    arrow = {"text": pa.string(), "whole": pa.int64(), "truth": pa.bool_(), "day": pa.date32()}[kind]
    declared = draw(st.lists(VALUES[kind], unique=True, min_size=1, max_size=6))
    missing, other = draw(CELLS), draw(CELLS)
    values = st.sampled_from(declared)
    values = values | VALUES[kind] if other == "cell" else values
    values = values | st.none() if missing == "cell" else values
    column = Categories(declared, name=name, other=other, missing=missing)
    return column, draw(st.lists(values, min_size=rows, max_size=rows)), arrow


@given(data=st.data())
@settings(max_examples=150, deadline=None)
def test_generated_tables(data):
    rows = data.draw(st.integers(1, 30), label="rows")
    names = [f"c{i}" for i in range(data.draw(st.integers(1, 4), label="columns"))]
    made = [data.draw(columns_with_rows(name, rows), label=name) for name in names]
    schema = Schema([column for column, _, _ in made])
    values = {column.name: items for column, items, _ in made}
    table = pa.table({column.name: pa.array(items, kind) for column, items, kind in made})
    wanted = data.draw(st.lists(st.permutations(names).map(tuple), min_size=1, max_size=2), label="tables")
    wanted = [table_[: data.draw(st.integers(1, len(names)))] for table_ in wanted]
    batches = table.to_batches(max_chunksize=data.draw(st.integers(1, 30), label="batch"))
    assert_counts(count(batches, schema, wanted), values, schema, wanted)
