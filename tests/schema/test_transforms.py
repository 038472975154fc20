"""Transformations: a function of one value alone, and the same one whatever the source."""

from __future__ import annotations

import csv
import datetime
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simplexdp.counting import Query, count
from simplexdp.errors import SchemaError, SourceError
from simplexdp.private.counting.passes import encode_rows
from simplexdp.schema import Categories, Numeric, Schema
from simplexdp.schema.templates import EXAMPLES, expanded, known
from simplexdp.schema.transforms import PARTS, apply_steps, plain_steps, steps, text_of

STEPS = [
    "trim",
    "fold",
    "upper",
    "dmy",
    "mdy",
    {"prefix": 2},
    {"decimal": ","},
    {"map": {"m": "male", "M": "male", "?": None, 1: "one"}},
    *({"part": part} for part in PARTS),
]
chains = st.lists(st.sampled_from(STEPS), min_size=1, max_size=4)
texts = st.sampled_from(
    [
        "m",
        " M ",
        "?",
        "1",
        "1,50",
        "1.234,50 €",
        "29.02.2024",
        "2024-02-29",
        "2024-02-29 10:20:30",
        "31/12/1999",
        "Ä",
        "",
    ]
) | st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0\r\n"), max_size=4)
columns = st.sampled_from(
    [
        Categories(["male", "one", "m", "Ä", "29"], other="cell", missing="cell"),
        Categories([1, 2, 9, 29, 2024], other="cell", missing="cell"),
        Numeric([0, 1.5, 10, 3000], own=[2], outside="cell", missing="cell"),
        Numeric([0, 10, 20_000], outside="cell", missing="cell"),
        Categories([datetime.date(2024, 2, 29)], other="cell", missing="cell"),
        Categories([True, False], other="cell", missing="cell"),
    ]
)


def codes(source, schema):
    return [int(code) for block in encode_rows(source, schema, ["x"]) for code in block["x"]]


def csv_file(values, folder):
    with (folder / "rows.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, quoting=csv.QUOTE_ALL)
        writer.writerow(["x", "y"])
        writer.writerows([value or "", "1"] for value in values)
    return str(folder / "rows.csv")


SOURCES = {
    "string": lambda values: pa.table({"x": pa.array(values, pa.string())}),
    "large string": lambda values: pa.table({"x": pa.array(values, pa.large_string())}),
    "string view": lambda values: pa.table({"x": pa.array(values, pa.string_view())}),
    "dictionary": lambda values: pa.table({"x": pa.array(values, pa.string()).dictionary_encode()}),
    "batches": lambda values: [pa.record_batch({"x": pa.array([value], pa.string())}) for value in values],
    "pandas objects": lambda values: pd.DataFrame({"x": pd.Series(values, dtype=object)}),
    "pandas categories": lambda values: pd.DataFrame({"x": pd.Categorical(values)}),
    "polars": lambda values: pl.DataFrame({"x": pl.Series(values, dtype=pl.String)}),
    "polars lazy": lambda values: pl.LazyFrame({"x": pl.Series(values, dtype=pl.String)}),
}


@given(chain=chains, values=st.lists(texts | st.none(), min_size=1, max_size=5), column=columns)
@settings(max_examples=60, deadline=None)
def test_a_value_counts_alike_in_every_source_and_beside_any_other(tmp_path_factory, chain, values, column):
    schema = Schema.of(x=type(column)(**column.model_dump() | {"transform": chain}))
    assert Schema.from_yaml(schema.to_yaml()) == schema == Schema.from_json(schema.to_json())
    alone = [codes(SOURCES["string"]([value]), schema)[0] for value in values]
    for name, make in SOURCES.items():
        if name != "pandas categories" or len(set(values) - {None}):
            assert codes(make(values), schema) == alone, name
    # A CSV file has no empty text: it is missing there, and after any step it is everywhere.
    assert codes(csv_file(values, tmp_path_factory.mktemp("rows")), schema) == alone
    # A second way: the steps on the text, then a field of a file without steps.
    after = []
    for value in values:
        try:
            after.append(None if value is None else apply_steps(schema["x"].transform, value))
        except ValueError:
            after.append(False)
    plain = Schema.of(x=column)
    told = codes(csv_file([None if one is False else one for one in after], tmp_path_factory.mktemp("after")), plain)
    expected = [column.other_code if one is False else code for one, code in zip(after, told, strict=True)]
    assert alone == expected


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([1, 2, None], pa.int8()),
        ([1.0, 0.5, float("nan"), None], pa.float64()),
        ([Decimal("1.00"), Decimal("0.50"), None], pa.decimal128(9, 2)),
        ([True, False, None], pa.bool_()),
        ([datetime.date(2024, 2, 29), datetime.date(1969, 12, 31), None], pa.date32()),
        *(
            (
                [datetime.datetime(2024, 2, 29, 23, 59, 59), datetime.datetime(1969, 12, 31), None],
                pa.timestamp(unit, zone),
            )
            for unit in ("s", "ms", "us", "ns")
            for zone in (None, "Europe/Berlin")
        ),
    ],
    ids=str,
)
@pytest.mark.parametrize("chain", [["trim"], [{"part": "month"}], [{"prefix": 3}], [{"part": "hour"}]], ids=str)
def test_arrow_types_take_the_steps_as_the_objects_they_hold(values, kind, chain):
    column = Categories(
        ["1", "2", "12", "0.5", "tru", "true", "23", "0", "202"], other="cell", missing="cell", transform=chain
    )
    schema = Schema.of(x=column)
    array = pa.array(values, kind)
    told = codes(pa.table({"x": array}), schema)
    assert told == codes(pa.table({"x": array.dictionary_encode()}), schema)
    assert told == codes(pd.DataFrame({"x": pd.Series(array.to_pylist(), dtype=object)}), schema)
    for value, code in zip(array.to_pylist(), told, strict=True):
        if value is None or value != value:
            assert code == column.missing_code
            continue
        try:
            after = apply_steps(column.transform, text_of(value))
        except ValueError:
            after = None
            assert code == column.other_code
        if after is not None:
            assert code == (column.values.index(after) if after in column.values else column.other_code)


def test_a_nanosecond_before_midnight_is_the_day_before():
    times = pa.array([-1, 0, 86_400_000_000_000 - 1], pa.int64()).view(pa.timestamp("ns"))
    schema = Schema.of(x=Categories([-1, 0, 1], transform={"part": "number"}))
    assert codes(pa.table({"x": times}), schema) == [0, 1, 1]


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize("part", ["year", "month", "hour", "weekday", "number"])
def test_times_are_floored_to_what_has_the_same_part(unit, part):
    dice = np.random.default_rng(1)
    times = (
        pa.array(dice.integers(-(10**9), 2 * 10**9, 300), pa.int64()).cast(pa.timestamp("s")).cast(pa.timestamp(unit))
    )
    schema = Schema.of(
        x=Numeric([-20_000, *range(-10, 70), 1970, 2000, 2040], outside="nearest", transform={"part": part})
    )
    objects = pd.DataFrame({"x": pd.Series(times.to_pylist(), dtype=object)})
    assert codes(pa.table({"x": times}), schema) == codes(objects, schema)


def test_a_time_beyond_those_of_python_is_its_own_affair():
    times = pa.array([10**15, 0, -(10**15), None], pa.int64()).view(pa.timestamp("s"))
    schema = Schema.of(x=Categories(["1970"], other="cell", missing="cell", transform={"part": "year"}))
    assert codes(pa.table({"x": times}), schema) == [1, 0, 1, 2]
    assert codes(pa.table({"x": times.dictionary_encode()}), schema) == [1, 0, 1, 2]
    days = pa.array([2**30, 0], pa.int32()).view(pa.date32())
    assert codes(pa.table({"x": days}), schema) == [1, 0]


def test_text_of_numbers_is_the_same_for_equal_ones():
    assert {text_of(one) for one in (3, 3.0, Decimal(3), Decimal("3.00"), Fraction(3))} == {"3"}
    assert {text_of(one) for one in (0.5, Decimal("0.50"))} == {"0.5"}
    for value in (Decimal("1e999999"), Fraction(1, 3), object(), 10**5000):
        with pytest.raises((ValueError, OverflowError)):
            text_of(value)


def test_sql_and_spark_sources_too(request):
    rows = pa.table({"x": [" M", "f ", "?", None]})
    import duckdb

    schema = Schema.of(x=Categories(["female", "male"], missing="cell", transform=["trim", "fold", SPELLED]))
    expected = [1, 1, 2]
    assert count(duckdb.sql("FROM rows"), schema, [("x",)])[0].private_counts().tolist() == expected
    connection = duckdb.connect()
    connection.register("people", rows)
    assert count(Query("SELECT x FROM people", connection), schema, [("x",)])[0].private_counts().tolist() == expected


SPELLED = {"map": {"m": "male", "f": "female", "?": None}}


def test_timestamps_as_categories_bins_and_parts(tmp_path):
    times = [datetime.datetime(2024, 2, 29, 10), datetime.datetime(2023, 1, 1), None]
    path = tmp_path / "rows.csv"
    path.write_text("t\n" + "\n".join(str(time or '""') for time in times) + "\n")
    years = [datetime.date(2023, 1, 1), datetime.date(2024, 1, 1), datetime.date(2025, 1, 1)]
    for column, expected in {
        Categories(
            [datetime.date(2024, 2, 29), datetime.date(2023, 1, 1)], missing="cell", transform={"part": "date"}
        ): [1, 1, 1],
        Numeric(years, missing="cell"): [1, 1, 1],
        Categories([1, 2], missing="cell", transform={"part": "month"}): [1, 1, 1],
    }.items():
        schema = Schema.of(t=column)
        for source in (pa.table({"t": times}), pd.DataFrame({"t": times}), path):
            assert count(source, schema, [("t",)])[0].private_counts().tolist() == expected
    assert Numeric(years).labels == ("[2023-01-01, 2024-01-01)", "[2024-01-01, 2025-01-01]")


def test_a_type_without_a_text_is_refused_by_its_type_alone():
    schema = Schema.of(x=Categories(["a"], other="cell", missing="cell", transform="trim"))
    for rows in ([], [[1]]):
        with pytest.raises(SourceError, match="transformed as text and has the type list"):
            codes(pa.table({"x": pa.array(rows, pa.list_(pa.int64()))}), schema)


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ("trimm", "a known step"),
        ({"prefix": 0}, "from 1 to 100"),
        ({"prefix": True}, "from 1 to 100"),
        ({"part": "moth"}, "one of year"),
        ({"map": {True: "a"}}, "YAML reads yes"),
        ({"map": {}}, "a mapping of spellings"),
        ({"decimal": ";"}, '"," or "."'),
        ({"trim": 1, "fold": 2}, "a word, or one step"),
        (3, "a step or a list"),
    ],
)
def test_wrong_steps(bad, message):
    with pytest.raises(SchemaError, match="transform") as caught:
        Categories(["a"], transform=bad)
    assert message in str(caught.value)


def test_steps_come_back_as_they_were_written():
    assert plain_steps(steps(STEPS[:5])) == STEPS[:5]
    assert steps(plain_steps(steps(STEPS))) == steps(STEPS)


@pytest.mark.parametrize("name", known())
def test_templates_make_columns_that_refuse_nothing(name):
    schema = Schema.given({"x": {"template": name, **EXAMPLES.get(name, {})}})
    values = [None, "", "junk", 3, "2024-02-29", "E11.9", "45.1", "de", "yes", "1,250.00 USD", "12345", -1]
    found = codes(pd.DataFrame({"x": pd.Series(values, dtype=object)}), schema)
    assert all(0 <= code < schema["x"].size for code in found)
    assert Schema.from_yaml(schema.to_yaml()) == schema


@pytest.mark.parametrize(
    ("template", "value", "label"),
    [
        ("yes-no", " Ja", "yes"),
        ("sex", "W", "female"),
        ("icd-10-chapter", "e11.9", "IV"),
        ("icd-10-chapter", "D45", "II"),
        ("icd-10-chapter", "H60.1", "VIII"),
        ("nace-section", "45.11", "G"),
        ("country", "no ", "NO"),
        ("postcode-2", "01067", "01"),
        ("money", "$1,250.00", "[1000, 2000)"),
        ("weekday", "2024-02-29", "4"),
        ("week", "2021-01-01", "53"),
        ("region-us", "ny", "NY"),
    ],
)
def test_templates_say_what_is_public(template, value, label):
    schema = Schema.given({"x": {"template": template}})
    assert schema["x"].labels[codes(pd.DataFrame({"x": [value]}), schema)[0]] == label


def test_fields_beside_a_template_go_before_its_own():
    made = expanded({"template": "weekday", "missing": "refuse", "transform": "dmy"})
    assert (made["missing"], made["transform"]) == ("refuse", ["dmy", {"part": "weekday"}])
    with pytest.raises(SchemaError, match="Did you mean 'age-5'"):
        Schema.given({"x": {"template": "age-5x"}})
    with pytest.raises(SchemaError, match="no such setting"):
        Schema.given({"x": {"template": "month", "from": 3}})


@pytest.mark.parametrize("make", [*SOURCES, "csv"])
@pytest.mark.parametrize("chain", [["trim"], [{"part": "month"}], [{"decimal": ","}], [{"prefix": 30}]], ids=str)
def test_an_error_of_a_transformed_column_tells_no_value(tmp_path, make, chain):
    secret = "Zaphod-4711"
    values = ["a", secret, None]
    source = csv_file(values, tmp_path) if make == "csv" else SOURCES[make](values)
    for column in (
        Categories(["a"], transform=chain),
        Numeric([0, 1], transform=chain),
        Categories([1], transform=chain),
    ):
        with pytest.raises(SourceError) as caught:
            count(source, Schema.of(x=column), [("x",)])
        assert secret not in str(caught.value)
        assert caught.value.__context__ is None
        assert "Declare" in str(caught.value)


def test_private_quantiles_are_found_after_the_steps(tmp_path):
    """Also where a ledger checks all rows beforehand, and in a file that the schema says how to read."""
    from simplexdp import Budget, release_distribution
    from simplexdp.ledger import Ledger
    from simplexdp.schema import Quantiles

    path = tmp_path / "rows.csv"
    path.write_bytes(("größe;n\n" + "".join(f"1.{i % 10},5 m;1\n" for i in range(500))).encode("latin-1"))
    column = Quantiles(3, lower=0, upper=100, integer=True, transform=["trim", SUFFIX, NUMBER])
    schema = Schema([column.model_copy(update={"name": "größe"})], file={"encoding": "latin-1"})
    budget = Budget(epsilon=20, delta=1e-6)
    ledger = Ledger.open(tmp_path / "ledger.db", budget=Budget(epsilon=40, delta=1e-5))
    ledger.register("sizes", path, schema)
    found = release_distribution(path, schema, ["größe"], budget=budget, ledger=ledger, dataset="sizes")
    edges = found.schema["größe"].edges
    assert edges[0] == 0
    assert 8 < edges[1] < 20
    assert found.schema["größe"].integer
    assert found.schema["größe"].transform == column.transform


SUFFIX, NUMBER = {"map": {f"1.{i},5 m": f"1{i},5" for i in range(10)}}, {"decimal": ","}
