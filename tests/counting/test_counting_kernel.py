"""Layouts, sizes and the choice of each person's rows."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pyarrow as pa
import pytest
from brute import SCHEMA, as_arrow, assert_counts, sample_rows
from hypothesis import given, settings
from hypothesis import strategies as st

from simplexdp.counting import CellNumbers, count
from simplexdp.errors import InvalidArgument, SchemaError, SourceError
from simplexdp.private.counting.kernel import Layout, Tally
from simplexdp.schema import Categories, Numeric, Quantiles, Schema


@st.composite
def layouts(draw):
    sizes = draw(st.lists(st.integers(1, 300), min_size=1, max_size=6))
    table = st.lists(st.integers(0, len(sizes) - 1), unique=True, min_size=1, max_size=4).map(tuple)
    tables = draw(st.lists(table, min_size=1, max_size=8))
    kept = [t for t in tables if math.prod(sizes[c] for c in t) <= 10**6]
    return Layout(sizes=tuple(sizes), tables=tuple(kept or [(0,)]))


@given(layout=layouts(), seed=st.integers(0, 9))
@settings(max_examples=60, deadline=None)
def test_tables_counted_together_are_those_counted_apart(layout, seed):
    random = np.random.default_rng(seed)
    columns = [random.integers(0, size, 200).astype(np.min_scalar_type(size + 1)) for size in layout.sizes]
    tally = Tally(layout)
    for start in range(0, 200, 77):
        tally.add([column[start : start + 77] for column in columns])
    for table, got in zip(layout.tables, tally.tables(), strict=True):
        expected = np.zeros([layout.sizes[c] for c in table], np.int64)
        np.add.at(expected, tuple(columns[c].astype(int) for c in table), 1)
        assert np.array_equal(got, expected)


def test_naive_bayes_tables_share_passes():
    layout = Layout(sizes=(10,) * 20 + (2,), tables=tuple((i, 20) for i in range(20)))
    joints = layout.joints()
    assert len(joints) == 5
    assert sorted(itertools.chain.from_iterable(joint.tables for joint in joints)) == list(range(20))


def test_one_cell_two_cells_and_fifty_million():
    schema = Schema.of(one=["x"], two=["a", "b"], wide=list(range(5000)), long=[f"v{i}" for i in range(10_000)])
    rows = {
        "one": ["x"] * 4,
        "two": ["a", "b", "b", "a"],
        "wide": [0, 4999, 17, 17],
        "long": ["v0", "v9999", "v3", "v3"],
    }
    tables = count(pa.table(rows), schema, [("one",), ("two",), ("wide", "long")])
    assert [table.size for table in tables] == [1, 2, 50_000_000]
    assert tables[1].private_counts().tolist() == [2, 2]
    counts = tables[2].private_counts()
    assert [counts[0, 0], counts[4999, 9999], counts[17, 3], counts.sum()] == [1, 1, 2, 4]


@pytest.mark.slow
def test_five_thousand_columns():
    random = np.random.default_rng(3)
    data = random.integers(0, 3, (500, 5000)).astype(np.uint8)
    schema = Schema([Categories([0, 1, 2], name=f"c{i}") for i in range(5000)])
    wanted = [(f"c{i}", "c0") for i in range(1, 5000)]
    by_code = count(data, schema, wanted)
    by_value = count(pa.table({f"c{i}": data[:, i] for i in range(5000)}), schema, wanted)
    for place in (0, 1, 2500, 4998):
        expected = np.zeros((3, 3), int)
        np.add.at(expected, (data[:, place + 1], data[:, 0]), 1)
        assert np.array_equal(by_code[place].private_counts(), expected)
        assert np.array_equal(by_value[place].private_counts(), expected)


def test_rows_over_many_blocks():
    random = np.random.default_rng(4)
    codes = random.integers(0, 5, (400_000, 2)).astype(np.uint8)
    schema = Schema.of(a=[0, 1, 2, 3, 4], b=[0, 1, 2, 3, 4])
    table = pa.table({"a": codes[:, 0], "b": codes[:, 1]})
    expected = np.bincount(codes[:, 0] * 5 + codes[:, 1], minlength=25).reshape(5, 5)
    for source in (
        codes,
        np.asfortranarray(codes),
        table,
        table.to_batches(max_chunksize=9_999),
        table.to_pandas(),
    ):
        assert np.array_equal(count(source, schema, [("a", "b")])[0].private_counts(), expected)


def test_tables_above_the_limit_are_refused_with_their_sizes():
    schema = Schema.of(a=list(range(1000)), b=list(range(1000)), c=["x"])
    with pytest.raises(InvalidArgument, match=r"\(a, b\): 1000 × 1000 cells, 7.63 MiB") as caught:
        count(iter(()), schema, [("c",), ("a", "b")], memory_limit=10**6)
    assert "977 KiB" in str(caught.value)
    huge = Schema([Categories(list(range(100_000)), name=name) for name in "abc"])
    with pytest.raises(InvalidArgument, match="GiB in all"):
        count(iter(()), huge, [("a", "b", "c")])


@pytest.mark.parametrize("tables", [[], "text", ["text"], [()], [("text", "text")]])
def test_bad_requests(tables):
    with pytest.raises(InvalidArgument):
        count(as_arrow(sample_rows(5)), SCHEMA, tables)


def test_unknown_columns_and_unresolved_quantiles():
    with pytest.raises(SchemaError, match="column"):
        count(as_arrow(sample_rows(5)), SCHEMA, [("nope",)])
    schema = Schema([Quantiles(4, lower=0, upper=1, name="q")])
    with pytest.raises(SchemaError, match="Resolve its quantiles first"):
        count(pa.table({"q": [0.5]}), schema, [("q",)])


def test_arrays_that_may_hold_values_must_say_what_they_hold():
    array = np.array([[1], [1]])
    with pytest.raises(SourceError, match=r"CellNumbers\(array\)"):
        count(array, Schema.of(a=[1, 2]), [("a",)])
    with pytest.raises(SourceError, match="CellNumbers"):
        count({"a": array[:, 0]}, Schema([Numeric([0, 1, 2], name="a")]), [("a",)])
    assert count(CellNumbers(array), Schema.of(a=[1, 2]), [("a",)])[0].private_counts().tolist() == [0, 2]
    assert count(array, Schema.of(a=["x", "y"]), [("a",)])[0].private_counts().tolist() == [0, 2]


@pytest.mark.parametrize(
    "array",
    [
        np.array([[0], [2]]),
        np.array([[-1]]),
        np.array([[-(2**63)]]),
        np.array([[0.0]]),
        np.array([0, 1]),
        np.zeros((3, 2), int),
        {"b": np.array([0])},
        {"a": np.array([[0]])},
    ],
)
def test_bad_arrays_of_cell_numbers(array):
    with pytest.raises(SourceError):
        count(array, Schema.of(a=["x", "y"]), [("a",)])


class Seeded:
    def generator(self):
        return np.random.default_rng(11)


def test_a_bound_keeps_at_most_m_rows_of_each_person():
    rows = sample_rows(900, seed=5)
    persons = sorted(set(rows["person"]))
    schema = Schema([Categories(persons, name="person"), *SCHEMA.columns])
    for bound in (1, 2, 5):
        for source in (
            as_arrow(rows),
            as_arrow(rows).to_batches(max_chunksize=50),
            as_arrow(rows).to_pandas(),
        ):
            table = count(
                source,
                schema,
                [("person",), ("text",)],
                rows_per_person=bound,
                person="person",
                entropy=Seeded(),
            )[0]
            expected = [min(bound, rows["person"].count(person)) for person in persons]
            assert table.private_counts().tolist() == expected
            assert (table.unit, table.rows_per_person) == ("person", bound)


def test_a_bound_above_all_rows_changes_nothing():
    rows = sample_rows(300)
    bounded = count(as_arrow(rows), SCHEMA, [("text", "day")], rows_per_person=300, person="person", entropy=Seeded())
    assert_counts(bounded, rows, SCHEMA, [("text", "day")])


def test_the_choice_is_repeated_rounds_of_compaction_too(monkeypatch):
    monkeypatch.setattr("simplexdp.private.counting.persons._WAITING_ROWS", 64)
    rows = sample_rows(900, seed=6)
    persons = sorted(set(rows["person"]))
    schema = Schema([Categories(persons, name="person")])
    batches = as_arrow(rows).to_batches(max_chunksize=17)
    table = count(batches, schema, [("person",)], rows_per_person=2, person="person", entropy=Seeded())[0]
    assert table.private_counts().tolist() == [min(2, rows["person"].count(p)) for p in persons]


def test_every_row_of_a_person_is_as_likely_to_stay():
    """χ² on which 2 of 5 rows stay; 4,000 persons, significance 1e-6; keeping the first rows is rejected."""
    from scipy.stats import chi2

    persons = 4000
    table = pa.table({"who": np.repeat(np.arange(persons), 5), "row": np.tile(np.arange(5), persons)})
    shuffled = table.take(np.random.default_rng(0).permutation(len(table)))
    schema = Schema.of(row=[0, 1, 2, 3, 4])
    threshold = chi2.isf(1e-6, 4)

    def statistic(counts):
        # Each count is a sum of independent indicators with p = 2/5; one of the five is fixed by the others.
        expected, variance = persons * 2 / 5, persons * 2 / 5 * 3 / 5
        return float(((counts - expected) ** 2).sum() / variance * 4 / 5)

    for source in (table, shuffled.to_batches(max_chunksize=1000)):
        counts = count(source, schema, [("row",)], rows_per_person=2, person="who", entropy=Seeded())[
            0
        ].private_counts()
        assert counts.sum() == 2 * persons
        assert statistic(counts) < threshold
    first = np.array([persons, persons, 0, 0, 0])
    assert statistic(first) > threshold


def test_persons_of_any_name():
    names = pa.array(["ann", "bob", "ann", "ann"])
    for who in (names, names.dictionary_encode(), names.cast(pa.string_view()), names.cast(pa.binary())):
        table = count(
            pa.table({"who": who, "a": ["x"] * 4}),
            Schema.of(a=["x"]),
            [("a",)],
            rows_per_person=1,
            person="who",
            entropy=np.random.default_rng(0),
        )
        assert table[0].private_counts().tolist() == [2]


@pytest.mark.parametrize("who", [pa.array([1, None]), pa.array([0.5, 1.5]), pa.array([True, False])])
def test_persons_without_a_name_are_refused(who):
    table = pa.table({"who": who, "a": ["x", "x"]})
    with pytest.raises(SourceError, match="person column 'who'"):
        count(table, Schema.of(a=["x"]), [("a",)], rows_per_person=1, person="who", entropy=Seeded())


def test_a_person_column_that_changes_its_type_is_refused():
    batches = [pa.record_batch({"who": who, "a": ["x"]}) for who in (pa.array([1]), pa.array(["1"]))]
    with pytest.raises(SourceError, match="before"):
        count(batches, Schema.of(a=["x"]), [("a",)], rows_per_person=1, person="who", entropy=Seeded())


@pytest.mark.parametrize(
    "about",
    [
        {"rows_per_person": 1},
        {"person": "who"},
        {"rows_per_person": 0, "person": "who", "entropy": Seeded()},
        {"rows_per_person": 1, "person": "who"},
    ],
)
def test_half_a_bound_is_refused(about):
    with pytest.raises(InvalidArgument):
        count(pa.table({"a": ["x"], "who": [1]}), Schema.of(a=["x"]), [("a",)], **about)


def test_a_bound_on_cell_numbers():
    data = {"a": np.array([0, 1, 1, 1]), "who": np.array([7, 7, 8, 8])}
    table = count(data, Schema.of(a=["x", "y"]), [("a",)], rows_per_person=1, person="who", entropy=Seeded())[0]
    assert table.private_counts().sum() == 2
