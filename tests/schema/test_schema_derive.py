"""Schemas read off tables: public data, the refusal for sensitive data, and the paper's discretisation."""

import datetime
import decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from simplexdp.errors import PrivacyError, SchemaError
from simplexdp.schema import Categories, Numeric, Schema

DAY = datetime.date(2024, 1, 31)


def table():
    n = 1000
    return pa.table(
        {
            "text": ["b", "a"] * (n // 2),
            "coded": pa.array(["y", "x"] * (n // 2)).dictionary_encode(),
            "few": pa.array([3, 1, None, 2] * (n // 4), pa.int32()),
            "many": np.arange(n),
            "halves": [0.5, 1.5] * (n // 2),
            "floats": [*np.linspace(0, 1, n - 1), float("nan")],
            "flag": [True] * n,
            "day": [DAY] * n,
            "price": [decimal.Decimal("1.25")] * n,
        }
    )


def test_public_schema():
    schema = Schema.from_public(table())
    assert (schema.origin, schema.is_private) == ("public", True)
    assert schema.names == tuple(table().column_names)
    assert schema["text"].values == ("a", "b")
    assert schema["coded"].values == ("x", "y")
    assert schema["few"] == Categories([1, 2, 3], name="few", missing="cell", origin="public")
    edges = [0, 99, 199, 299, 399, 499, 599, 699, 799, 899, 999]
    assert schema["many"] == Numeric(edges, name="many", outside="nearest", origin="public")
    assert schema["halves"] == Numeric(own=[0.5, 1.5], name="halves", origin="public")
    assert (schema["floats"].bins, schema["floats"].missing) == (10, "cell")
    assert schema["flag"].values == (False, True)  # both values of the type, whatever the table has
    assert schema["day"].values == (DAY,)
    assert schema["price"].own == (1.25,)
    assert Schema.from_yaml(schema.to_yaml()) == schema


def test_bins_and_limits():
    schema = Schema.from_public(table(), bins=4, max_distinct=2, other="cell")
    assert (schema["many"].bins, schema["few"].kind, schema["text"].other) == (4, "numeric", "cell")


@pytest.mark.parametrize("convert", [pa.Table.to_pandas, pl.from_arrow, pa.Table.to_reader])
def test_any_arrow_stream(convert):
    source = table().select(["text", "coded", "many", "halves", "flag"])
    assert Schema.from_public(convert(source)) == Schema.from_public(source)


def test_edges_strictly_increase_where_values_repeat():
    numbers = np.concatenate([np.zeros(900), np.arange(1, 101)])
    edges = Schema.from_public(pd.DataFrame({"x": numbers}))["x"].edges
    assert edges[0] == 0
    assert edges[-1] == 100
    assert list(edges) == sorted(set(edges))


def test_infinite_values_make_no_edge():
    numbers = [float("-inf"), *range(100), float("inf")]
    edges = Schema.from_public(pa.table({"x": numbers}))["x"].edges
    assert (edges[0], edges[-1]) == (0, 99)


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        ({"a": [1]}, "exports an Arrow stream, got 'dict'"),
        (pa.table({"t": [datetime.datetime(2024, 1, 1)]}), r"frame\['t'\].*timestamp"),
        (pa.table({"t": pa.array([None], pa.string())}), "at least one value"),
        (pa.table({"t": pa.array([float("nan")])}), "at least one finite value"),
        (pa.table([[1], [2]], names=["a", "a"]), "different from that of"),
    ],
)
def test_tables_that_make_no_schema(frame, message):
    with pytest.raises(SchemaError, match=message):
        Schema.from_public(frame)


@pytest.mark.parametrize("arguments", [{"bins": 1}, {"bins": 2.5}, {"bins": True}, {"max_distinct": -1}])
def test_bad_arguments(arguments):
    with pytest.raises(SchemaError, match=next(iter(arguments))):
        Schema.from_public(table(), **arguments)


@pytest.mark.parametrize("consent", [False, 1, "yes", None])
def test_sensitive_data_is_refused(consent):
    with pytest.raises(PrivacyError) as caught:
        Schema.from_data(table(), i_accept_that_the_result_is_not_private=consent)
    for way in ("Schema.of", "schema draft", "Schema.from_public", "Quantiles", "i_accept_that_the_result"):
        assert way in str(caught.value)


def test_opt_out_is_marked():
    schema = Schema.from_data(table(), i_accept_that_the_result_is_not_private=True)
    assert (schema.origin, schema.is_private) == ("from-data", False)
    assert schema == Schema(Schema.from_public(table()).columns, origin="from-data")
    assert Schema.from_json(schema.to_json()).is_private is False


def test_paper_discretisation():
    rng = np.random.default_rng(1)
    gains = np.concatenate([np.zeros(900), rng.permutation(np.arange(1, 101))])
    frame = pd.DataFrame(
        {
            "gain": gains,
            "few": np.arange(1000) % 30,
            "more": np.arange(1000) % 31,
            "text": pd.array(["a", None] * 500, dtype="string"),
        }
    )
    schema = Schema.paper_discretisation(frame)
    assert (schema.origin, schema.is_private) == ("paper-discretisation", False)
    assert schema["gain"].own == (0.0,)
    assert schema["gain"].edges == (1, *range(10, 101, 10))
    assert (schema["few"].kind, schema["few"].size) == ("categories", 30)
    assert (schema["more"].kind, schema["more"].own, schema["more"].bins) == ("numeric", (), 10)
    assert schema["text"].labels == ("a", "(missing)")
    everything = Schema.paper_discretisation(frame, frequent=0.0)
    assert (everything["more"].bins, len(everything["more"].own)) == (0, 31)
