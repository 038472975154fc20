"""Columns and schemas as values: cells, codes, lookups, and what is refused."""

import copy
import datetime
import json
import pickle
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from schema_strategies import schemas

from simplexdp.errors import InvalidArgument, SchemaError
from simplexdp.schema import Categories, Numeric, Quantiles, Schema
from simplexdp.schema.text import dump_json

PUBLISHED = Path(__file__).parents[2] / "docs/_static/schema.schema.json"


@given(schemas())
def test_cells_are_declared_then_other_then_missing(schema):
    for column in schema:
        codes = list(range(column.declared))
        codes += [code for code in (column.other_code, column.missing_code) if code is not None]
        assert codes == list(range(column.size))
        assert len(column.labels) == column.size
        assert (column.missing_code is not None) == (column.missing == "cell")
        if column.missing_code is not None:
            assert column.labels[column.missing_code] == "(missing)"
        if column.other_code is not None:
            assert column.labels[column.other_code] == "(other)"
    assert schema.shape() == tuple(column.size for column in schema)


def test_order_of_numeric_cells():
    column = Numeric([0, 0.5, 1], own=[-1, 7], outside="cell", missing="cell")
    assert column.labels == ("-1", "7", "[0, 0.5)", "[0.5, 1]", "(other)", "(missing)")
    assert (column.declared, column.bins, column.other_code, column.missing_code) == (4, 2, 4, 5)


def test_labels_are_short_and_tell_cells_apart():
    assert Numeric([0.1 + 0.2, 2.7119999999999997, 1e15, 1e16], name="c").labels[:2] == (
        "[0.3, 2.712)",
        "[2.712, 1e+15)",
    )
    close = Numeric([1.0, 1.0000000000000002, 2.0], name="c")
    assert close.labels == ("[1.0, 1.0000000000000002)", "[1.0000000000000002, 2.0]")


def test_nearest_has_no_cell():
    column = Numeric([0, 1], outside="nearest", missing="cell")
    assert (column.size, column.other_code, column.missing_code) == (2, None, 1)


def test_quantiles_are_as_large_as_what_they_become():
    column = Quantiles(4, lower=0, upper=1, outside="cell", missing="cell")
    assert (column.size, column.other_code, column.missing_code, column.share) == (6, 4, 5, None)


def test_types_tell_values_apart():
    one, true, text = (Categories([value], name="a") for value in (1, True, "1"))
    assert one != true
    assert one != text
    assert one == Categories((1,), name="a")
    assert hash(one) == hash(Categories((1,), name="a"))
    assert Schema([one]) != Schema([true])


def test_lookup_and_selection():
    schema = Schema.of(a=["x"], b=[1, 2], c=Numeric([0, 1, 2, 3]))
    assert (len(schema), schema.names, "b" in schema, "d" in schema) == (3, ("a", "b", "c"), True, False)
    assert [column.name for column in schema] == ["a", "b", "c"]
    assert schema["b"].values == (1, 2)
    assert schema.shape(["c", "a"]) == (3, 1)
    assert schema.select(["c", "a"]).names == ("c", "a")
    assert schema.replace(Numeric([0, 1], name="c")).shape() == (1, 2, 1)
    assert schema.select(["a"]).origin == "declared"
    for wrong in (lambda: schema["d"], lambda: schema.select(["a", "d"]), lambda: schema.shape(["d"])):
        with pytest.raises(SchemaError, match=r"'d'\. The columns are: a, b, c"):
            wrong()
    with pytest.raises(SchemaError, match="different from that of"):
        schema.select(["a", "a"])
    with pytest.raises(SchemaError, match="a list of names"):
        schema.select("abc")


@pytest.mark.parametrize(
    ("origin", "private"),
    [("declared", True), ("public", True), ("from-data", False), ("paper-discretisation", False)],
)
def test_origin_decides_on_privacy_and_is_kept(origin, private):
    schema = Schema([Categories(["x"], name="a"), Categories(["y"], name="b")], origin=origin)
    for same in (schema, schema.select(["b"]), schema.replace(Categories(["z"], name="a")), Schema(list(schema))):
        assert (same.origin, same.is_private) == (origin, private)


def test_copies_and_pickles():
    schema = Schema.of(a=[True, False], b=Quantiles(3, lower=0, upper=1))
    for same in (copy.deepcopy(schema), pickle.loads(pickle.dumps(schema))):  # noqa: S301
        assert same == schema
        assert same["b"] == schema["b"]
    assert hash(schema) == hash(copy.deepcopy(schema))


def test_frozen():
    schema = Schema.of(a=[1])
    with pytest.raises(ValueError, match="frozen"):
        schema.origin = "public"
    with pytest.raises(ValueError, match="frozen"):
        schema["a"].values = (2,)


def test_repr_of_a_wide_schema_is_short():
    assert len(repr(Schema([Categories(["x"], name=f"c{i}") for i in range(5000)]))) < 120


@pytest.mark.parametrize(
    ("make", "name", "message"),
    [
        (lambda: Categories([]), "values", "at least one value"),
        (lambda: Categories("abc"), "values", "a list"),
        (lambda: Categories({"a", "b"}), "values", "a list"),
        (lambda: Categories(["a", "a"]), "values", "all different"),
        (lambda: Categories([1, True]), "values", "one type, not bool and int"),
        (lambda: Categories([1.0]), "values[0]", "not float"),
        (lambda: Categories([np.int64(1)]), "values[0]", "not int64"),
        (lambda: Categories([datetime.datetime(2024, 1, 1)]), "values[0]", "not datetime"),
        (lambda: Categories(["a", None]), "values[1]", "missing: cell"),
        (lambda: Categories([2**63]), "values[0]", "64 bits"),
        (lambda: Categories(["\ud800"]), "values[0]", "lone surrogates"),
        (lambda: Categories(["a"], other="nearest"), "other", "'cell' or 'refuse'"),
        (lambda: Categories(["a"], colour=1), "colour", "The fields are: kind, name, values"),
        (lambda: Categories(["a"], values=["b"]), "values", "given once"),
        (lambda: Categories(["a"], ["b"]), "values", "given once"),
        (lambda: Categories(), "values", "given"),
        (lambda: Categories(["a"], name=1), "name", "a string, not int"),
        (lambda: Numeric([]), "edges", "two numbers"),
        (lambda: Numeric([1]), "edges", "two numbers"),
        (lambda: Numeric([0, 1, 1]), "edges[2]", "above the edge before it"),
        (lambda: Numeric([0, float("inf")]), "edges[1]", "finite"),
        (lambda: Numeric([float("nan"), 1]), "edges[0]", "finite"),
        (lambda: Numeric([0, 10**400]), "edges[1]", "finite"),
        (lambda: Numeric([0, 2**53 + 1]), "edges[1]", "holds exactly"),
        (lambda: Numeric([0, True]), "edges[1]", "not bool"),
        (lambda: Numeric([0, 1], own=[2, 2.0]), "own", "all different"),
        (lambda: Numeric(own=[1], outside="nearest"), "outside", "where there are no edges"),
        (lambda: Quantiles(1, lower=0, upper=1), "bins", "greater than or equal to 2"),
        (lambda: Quantiles(True, lower=0, upper=1), "bins", "a whole number"),
        (lambda: Quantiles(2.0, lower=0, upper=1), "bins", "a whole number"),
        (lambda: Quantiles(2, lower=1, upper=1), "upper", "above lower"),
        (lambda: Quantiles(2, upper=1), "lower", "given"),
        (lambda: Quantiles(2, lower=0, upper=1, share=0), "share", "greater than 0"),
        (lambda: Quantiles(2, lower=0, upper=1, share=1), "share", "less than 1"),
        (lambda: Schema([]), "columns", "at least one column"),
        (lambda: Schema({"a": 1}), "columns[0] ('a').values", "a list"),
        (lambda: Schema(1), "columns", "a list of columns, or a mapping of names to columns"),
        (lambda: Schema([1]), "columns[0]", "not int"),
        (lambda: Schema([Categories(["a"])]), "columns[0].name", "at least one character"),
        (lambda: Schema.of(a=["x"], b=[]), "columns[1] ('b').values", "at least one value"),
        (lambda: Schema([{"name": "a", "values": [1], "edges": [0, 1]}]), "columns[0] ('a').kind", "one of"),
        (lambda: Schema([{"name": "a", "kind": "x"}]), "columns[0] ('a').kind", "one of"),
        (lambda: Schema([{"name": "a", "kind": ["x"]}]), "columns[0] ('a').kind", "one of"),
        (
            lambda: Schema([{"name": "a", "kind": "numeric", "values": [1]}]),
            "columns[0] ('a').values",
            "no such field",
        ),
        (lambda: Schema([Categories([1], name="a")], origin="x"), "origin", "'declared'"),
        (
            lambda: Schema.of(**{f"c{i}": Quantiles(2, lower=0, upper=1, share=0.25) for i in range(4)}),
            "columns",
            "add up to less than 1",
        ),
    ],
)
def test_refusals_name_field_and_expectation(make, name, message):
    with pytest.raises(SchemaError) as caught:
        make()
    assert caught.value.name == name
    assert message in str(caught.value)
    assert isinstance(caught.value, InvalidArgument)


def test_published_json_schema_is_up_to_date():
    assert PUBLISHED.read_text(encoding="utf-8") == dump_json(Schema.json_schema())


def test_published_json_schema_tells_good_from_bad():
    import jsonschema

    validator = jsonschema.Draft202012Validator(Schema.json_schema())
    validator.check_schema(Schema.json_schema())

    def accepts(column):
        return validator.is_valid({"columns": [column]})

    good = [
        {"name": "a", "values": ["x"]},
        {"name": "a", "values": [{"date": "2024-01-31"}]},
        {"name": "a", "edges": [0, 1.5]},
        {"name": "a", "own": [0]},
        {"name": "a", "bins": 3, "lower": 0, "upper": 1},
        {"name": "a", "quantiles": 3, "lower": 0, "upper": 1},
        {"name": "a", "values": ["x"], "origin": "from-data"},
    ]
    bad = [
        {"values": ["x"]},
        {"name": "a"},
        {"name": "", "values": ["x"]},
        {"name": "a", "values": []},
        {"name": "a", "values": [1.5]},
        {"name": "a", "values": [1, "x"]},
        {"name": "a", "values": ["x"], "colour": 1},
        {"name": "a", "values": ["x"], "kind": "numeric"},
        {"name": "a", "bins": 1, "lower": 0, "upper": 1},
        {"name": "a", "bins": 3, "lower": 0},
        {"name": "a", "edges": ["0", "1"]},
        {"name": "a", "values": ["x"], "origin": "private"},
    ]
    assert [column for column in good if not accepts(column)] == []
    assert [column for column in bad if accepts(column)] == []
    for column in good:
        Schema.from_json(json.dumps({"columns": [column]}))
    for column in bad:
        with pytest.raises(SchemaError):
            Schema.from_json(json.dumps({"columns": [column]}))
