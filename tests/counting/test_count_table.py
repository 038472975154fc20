"""A CountTable adds up and tells nothing."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pyarrow as pa
import pytest

from simplexdp.counting import count
from simplexdp.errors import InvalidArgument, PrivacyError
from simplexdp.private.tables import CountTable
from simplexdp.schema import Categories, Schema

SECRET = 73219


@pytest.fixture
def table():
    return CountTable.from_array([[SECRET, 0], [1, 2]], columns=("a", "b"))


def test_no_text_shows_a_number(table):
    for text in (
        repr(table),
        str(table),
        f"{table}",
        repr([table]),
        repr(np.asarray(table)),
        repr(dir(table)),
    ):
        assert str(SECRET) not in text
    assert "(2, 2)" in repr(table)
    assert not hasattr(table, "__dict__")


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_pickling_is_refused(table, protocol):
    with pytest.raises(PrivacyError) as caught:
        pickle.dumps(table, protocol)
    assert str(SECRET) not in str(caught.value)


@pytest.mark.parametrize(
    "leak", [copy.copy, copy.deepcopy, lambda t: t.__reduce__()], ids=["copy", "deepcopy", "reduce"]
)
def test_copying_is_refused(table, leak):
    with pytest.raises(PrivacyError):
        leak(table)


def test_numpy_sees_no_array(table):
    assert np.asarray(table).dtype == object
    with pytest.raises(TypeError):
        len(table)
    with pytest.raises(TypeError):
        iter(table)


def test_equality_is_identity(table):
    twin = CountTable.from_array(table.private_counts(), columns=("a", "b"))
    assert table == table
    assert table != twin
    assert len({table, twin}) == 2


def test_nothing_can_be_changed(table):
    with pytest.raises(AttributeError):
        table.columns = ("b", "a")
    with pytest.raises(AttributeError):
        del table.unit
    with pytest.raises(ValueError, match="read-only"):
        table.private_counts()[0, 0] = 5


def test_from_array_takes_a_copy():
    counts = np.array([1, 2])
    table = CountTable.from_array(counts, columns=("a",))
    counts[0] = 50
    assert table.private_counts().tolist() == [1, 2]


def test_parts_add_up(table):
    total = table + CountTable.from_array([[1, 1], [1, 1]], columns=("a", "b"))
    assert total.private_counts().tolist() == [[SECRET + 1, 1], [2, 3]]
    assert sum([table, table]).private_counts()[0, 0] == 2 * SECRET
    with pytest.raises(TypeError):
        table + 1


def test_shards_counted_apart_add_up_to_the_whole():
    schema = Schema.of(a=["x", "y"], b=[1, 2, 3])
    rows = pa.table({"a": ["x", "y", "y", "x"], "b": [1, 2, 2, 3]})
    whole = count(rows, schema, [("b", "a")])[0]
    parts = sum(count(rows.slice(i, 1), schema, [("b", "a")])[0] for i in range(4))
    assert np.array_equal(whole.private_counts(), parts.private_counts())


def test_what_differs_does_not_add_up(table):
    others = [
        CountTable.from_array([[1, 1], [1, 1]], columns=("b", "a")),
        CountTable.from_array([[1, 1, 1]], columns=("a", "b")),
        CountTable.from_array([[1, 1], [1, 1]], columns=("a", "b"), unit="person", rows_per_person=1),
        CountTable.from_array([[1, 1], [1, 1]], columns=("a", "b"), fingerprint="other"),
    ]
    for other in others:
        with pytest.raises(InvalidArgument) as caught:
            table + other
        assert str(SECRET) not in str(caught.value)


def test_tables_of_different_declarations_do_not_add_up():
    rows = pa.table({"a": ["x", "y"]})
    one = count(rows, Schema.of(a=["x", "y"]), [("a",)])[0]
    two = count(rows, Schema.of(a=["y", "x"]), [("a",)])[0]
    same = count(rows, Schema.of(b=[1], a=["x", "y"]), [("a",)])[0]
    assert (one + same).private_counts().tolist() == [2, 2]
    with pytest.raises(InvalidArgument, match="same declaration"):
        one + two


def test_a_schema_read_off_the_data_marks_the_table():
    rows = pa.table({"a": ["x", "y"]})
    schema = Schema([Categories(["x", "y"], name="a")], origin="from-data")
    table = count(rows, schema, [("a",)])[0]
    assert not table.is_private
    assert "is_private=False" in repr(table)
    declared = CountTable.from_array([1, 1], columns=("a",), fingerprint=table.fingerprint)
    assert not (table + declared).is_private
    assert declared.is_private


@pytest.mark.parametrize(
    ("counts", "columns", "about"),
    [
        ([-SECRET, 1], ("a",), {}),
        ([0.5, 1], ("a",), {}),
        ([1.0, 2.0], ("a",), {}),
        ([True, False], ("a",), {}),
        ([1, 2], ("a", "b"), {}),
        ([1, 2], "a", {}),
        ([], ("a",), {}),
        ([[1, 2]], ("a", "a"), {}),
        (np.array([2**63], np.uint64), ("a",), {}),
        ([1, 2], ("a",), {"unit": "household"}),
        ([1, 2], ("a",), {"unit": "person"}),
        ([1, 2], ("a",), {"rows_per_person": 2}),
        ([1, 2], ("a",), {"unit": "person", "rows_per_person": 0}),
    ],
)
def test_bad_tables_are_refused_without_telling_a_count(counts, columns, about):
    with pytest.raises(InvalidArgument) as caught:
        CountTable.from_array(counts, columns=columns, **about)
    assert str(SECRET) not in str(caught.value)


def test_margins_and_merged_cells_hold_the_same_records() -> None:
    counts = np.arange(24).reshape(2, 3, 4)
    table = CountTable.from_array(
        counts, columns=("x", "y", "z"), unit="person", rows_per_person=3, is_private=False, relations=("add-remove",)
    )
    margin = table.margin(("z", "x"))
    assert margin.columns == ("x", "z")
    np.testing.assert_array_equal(margin.private_counts(), counts.sum(axis=1))
    merged = table.merged("z", (0, 1, 1, 0))
    assert merged.shape == (2, 3, 2)
    np.testing.assert_array_equal(merged.private_counts()[..., 1], counts[..., 1] + counts[..., 2])
    for other in (margin, merged):
        assert (other.unit, other.rows_per_person, other.is_private) == ("person", 3, False)
        assert other.relations == {"add-remove"}
    assert table.margin(("y", "x", "z")) is table
    with pytest.raises(InvalidArgument, match="among"):
        table.margin(("x", "unknown"))
