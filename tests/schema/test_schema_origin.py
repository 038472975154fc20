"""Where a column comes from stays with it, however a schema is built from it."""

import copy
import json
import pickle
import warnings

import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simplexdp import Budget, release_distribution
from simplexdp.counting import count
from simplexdp.errors import SchemaError
from simplexdp.learn import NaiveBayes
from simplexdp.network import BayesianNetwork
from simplexdp.quantiles import resolve_quantiles
from simplexdp.schema import Categories, Numeric, Quantiles, Schema, cell_map, merged

ORIGINS = ["declared", "public", "paper-discretisation", "from-data"]  # from the best to the worst
NAMES = list("abcdef")
SECRET = 10_000.0
"""Edges and values from here on are from the rows, so that a column shows where it comes from without its mark."""

ROWS = pd.DataFrame(
    {
        "a": ["secret x", "secret y"] * 30,
        "b": [SECRET + i for i in range(60)],
        "c": [f"secret {i % 3}" for i in range(60)],
    }
)
DERIVED = [
    *Schema.from_data(ROWS, bins=6, i_accept_that_the_result_is_not_private=True),
    *Schema.paper_discretisation(ROWS, bins=5),
]
CLEAN = [
    Categories(["x", "y"], name="a"),
    Numeric(range(20), name="b", outside="cell", origin="public"),
    Quantiles(4, lower=0, upper=10, name="c", share=0.01),
    Numeric(own=[1, 2], name="d"),
]


def from_rows(column):
    """Whether something of the rows is in a column, judged by what it holds and not by its mark."""
    if isinstance(column, Categories):
        return any(str(value).startswith("secret") for value in column.values)
    return isinstance(column, Numeric) and any(value >= SECRET for value in (*column.edges, *column.own))


def renamed(column, name):
    return type(column)(**column.model_dump() | {"name": name})


def again(schema, column_of):
    return Schema([column_of(column) for column in schema])


def old_copy(schema):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return schema.copy(update={"origin": "public"})


# Every way to a schema from one; the others are a column of another one, and an origin that a caller may claim.
WAYS = {
    "constructor": lambda schema, *_: Schema(list(schema)),
    "keyword": lambda schema, _, origin: Schema(columns=schema.columns, origin=origin),
    "stamped": lambda schema, _, origin: Schema(list(schema), origin=origin),
    "of": lambda schema, *_: Schema.of(**{column.name: column for column in schema}),
    "of renamed": lambda schema, *_: Schema.of(**dict(zip(reversed(NAMES), schema, strict=False))),
    "select": lambda schema, *_: schema.select(schema.names[: 1 + len(schema) // 2]),
    "reversed": lambda schema, *_: schema.select(schema.names[::-1]),
    "replace": lambda schema, extra, _: schema.replace(renamed(extra, schema.names[0])),
    "parts": lambda schema, extra, _: Schema([*schema, *([extra] if extra.name not in schema else [])]),
    "dump": lambda schema, *_: Schema(**schema.model_dump()),
    "dump of what differs": lambda schema, *_: Schema(**schema.model_dump(exclude_defaults=True)),
    "dumps": lambda schema, _, origin: Schema([column.model_dump() for column in schema], origin=origin),
    "validate": lambda schema, _, origin: Schema.model_validate(schema.model_dump() | {"origin": origin}),
    "validate json": lambda schema, *_: Schema.model_validate_json(json.dumps(schema.model_dump())),
    "validate itself": lambda schema, *_: Schema.model_validate(schema),
    "construct": lambda schema, *_: Schema.model_construct(columns=schema.columns),
    "model_copy": lambda schema, _, origin: schema.model_copy(update={"origin": origin}, deep=True),
    "model_copy of columns": lambda schema, *_: schema.model_copy(update={"columns": list(schema)}),
    "old copy": lambda schema, *_: old_copy(schema),
    "copy": lambda schema, *_: copy.copy(schema),
    "deepcopy": lambda schema, *_: copy.deepcopy(schema),
    "pickle": lambda schema, *_: pickle.loads(pickle.dumps(schema)),  # noqa: S301
    "json": lambda schema, *_: Schema.from_json(schema.to_json()),
    "yaml": lambda schema, *_: Schema.from_yaml(schema.to_yaml()),
    "json columns": lambda schema, _, origin: Schema.from_json(
        json.dumps({"columns": json.loads(schema.to_json())["columns"], "origin": origin})
    ),
    "columns changed": lambda schema, *_: again(
        schema, lambda column: type(column)(**column.model_dump() | {"missing": "cell"})
    ),
    "columns copied": lambda schema, _, origin: again(
        schema, lambda column: column.model_copy(update={"origin": origin, "missing": "refuse"})
    ),
    "columns validated": lambda schema, *_: again(
        schema, lambda column: type(column).model_validate(column.model_dump())
    ),
    "merged": lambda schema, *_: again(
        schema, lambda column: merged(column, 3) if isinstance(column, Numeric) else column
    ),
}


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.sampled_from([*CLEAN, *DERIVED]), min_size=1, max_size=4, unique_by=lambda column: column.name),
    st.lists(
        st.tuples(st.sampled_from(sorted(WAYS)), st.sampled_from([*CLEAN, *DERIVED]), st.sampled_from(ORIGINS)),
        max_size=8,
    ),
)
def test_no_way_of_building_makes_what_is_from_the_rows_private(columns, steps):
    schema, claimed = Schema(columns), "declared"
    for way, extra, origin in steps:
        before = {column.name: column.origin for column in schema}
        schema = WAYS[way](schema, extra, origin)
        claimed = max(claimed, origin, key=ORIGINS.index)
        if way not in ("of renamed", "replace"):
            kept = [column for column in schema if column.name in before]
            assert all(ORIGINS.index(column.origin) >= ORIGINS.index(before[column.name]) for column in kept)
        for column in schema:
            assert not (from_rows(column) and column.is_private), way
        assert schema.is_private == all(column.is_private for column in schema)
        assert schema.origin == max((column.origin for column in schema), key=ORIGINS.index)
        # And nothing is marked that nobody said: a mark is from the rows or from a step.
        if ORIGINS.index(claimed) < 2 and not any(extra in DERIVED for _, extra, _ in steps):
            assert schema.is_private or any(column in DERIVED for column in columns)


@pytest.mark.parametrize("way", sorted(WAYS))
def test_each_way_alone(way):
    schema = Schema([DERIVED[0], DERIVED[1], CLEAN[3]])
    made = WAYS[way](schema, DERIVED[2], "declared")
    assert (made.origin, made.is_private) == ("from-data", False)


def test_parts_of_both_kinds_keep_their_own_origin():
    mixed = Schema([*DERIVED[:1], CLEAN[1], CLEAN[3]])
    assert [column.origin for column in mixed] == ["from-data", "public", "declared"]
    assert (mixed.origin, mixed.is_private) == ("from-data", False)
    rest = mixed.select(["b", "d"])
    assert (rest.origin, rest.is_private) == ("public", True)
    assert Schema([CLEAN[0], DERIVED[4]]).origin == "paper-discretisation"
    for text in (mixed.to_yaml(), mixed.to_json()):
        assert "declared" not in text
        assert Schema.from_yaml(text) == mixed  # JSON is YAML


def test_the_origin_of_a_file_holds_of_each_of_its_columns():
    text = """
        origin: public
        columns:
          - {name: a, values: [x], origin: from-data}
          - {name: b, values: [x]}
    """
    schema = Schema.from_yaml(text)
    assert [column.origin for column in schema] == ["from-data", "public"]
    old = json.dumps({"version": 1, "columns": [{"name": "a", "values": ["x"]}], "origin": "from-data"})
    assert not Schema.from_json(old).is_private
    for wrong in ({"columns": [], "origin": ["public"]}, {"columns": [{"name": "a", "values": [1], "origin": "x"}]}):
        with pytest.raises(SchemaError, match=r"origin.*'declared', 'public'"):
            Schema.from_json(json.dumps(wrong))


def test_a_copy_is_checked_like_any_other():
    column, schema = Numeric(range(5), name="x"), Schema.of(x=["a"])
    assert column.model_copy(update={"origin": "public"}).origin == "public"
    assert column.model_copy(update={"origin": "public"}).model_copy(update={"origin": "declared"}).origin == "public"
    with pytest.raises(SchemaError, match="above the edge"):
        column.model_copy(update={"edges": (2, 1)})
    with pytest.raises(SchemaError, match="no such field"):
        schema.model_copy(update={"colour": 1})
    assert schema.model_copy(update={"columns": [Categories([1], name="z")]})["z"].values == (1,)


def test_columns_that_differ_in_origin_only_have_the_same_cells():
    here, there = Numeric(range(5), name="x"), Numeric(range(5), name="x", origin="from-data")
    assert here != there
    assert cell_map(here, there) == (0, 1, 2, 3)
    assert cell_map(here, merged(there, 3)) == cell_map(here, merged(here, 3))
    rows = pa.table({"x": [0.5, 1.5]})
    (one,), (two,) = (count(rows, Schema([column]), [("x",)]) for column in (here, there))
    both = one + two
    assert (one.is_private, two.is_private, both.is_private) == (True, False, False)
    assert both.private_counts().sum() == 4


def test_one_column_from_the_rows_marks_all_tables_that_are_counted_with_it():
    rows = pa.table({"a": ["x", "y"], "b": ["x", "y"]})
    schema = Schema([Categories(["x", "y"], name="a"), Categories(["x", "y"], name="b", origin="from-data")])
    # How many cells the one has decides on the noise of the other.
    assert [table.is_private for table in count(rows, schema, [("a",), ("b",)])] == [False, False]
    assert [table.is_private for table in count(rows, schema, [("a",)])] == [True]


def test_private_edges_keep_the_origin_of_the_bounds():
    bounds = Quantiles(2, lower=0, upper=10, name="x", origin="from-data")
    schema = Schema([bounds, Quantiles(2, lower=0, upper=10, name="y")])
    rows = pa.table({"x": [1.0, 2.0, 8.0] * 50, "y": [1.0, 2.0, 8.0] * 50})
    found = resolve_quantiles(schema, rows, epsilon=1.0, neighbours="replace-one").schema
    assert [column.origin for column in found] == ["from-data", "declared"]
    assert [column.kind for column in found] == ["numeric", "numeric"]


BUDGET = Budget(epsilon=1.0, delta=1e-5)
PEOPLE = pd.DataFrame({"a": ["x", "y"] * 50, "b": ["x", "x", "y", "y"] * 25, "ill": [True, False] * 50})
READ = Schema.from_data(PEOPLE[["a"]], i_accept_that_the_result_is_not_private=True)
SAID = Schema.of(b=["x", "y"], ill=[True, False])
MIXED = Schema([*SAID, *READ])


@pytest.mark.slow
def test_what_is_made_from_a_column_of_the_rows_is_marked():
    released = release_distribution(PEOPLE, MIXED, ["a", "b"], budget=BUDGET)
    network = BayesianNetwork([("b", "ill"), ("ill", "a")], MIXED, budget=BUDGET).fit(PEOPLE)
    bayes = NaiveBayes(schema=MIXED, target="ill").fit(PEOPLE[["a", "b"]], PEOPLE["ill"])
    read = NaiveBayes(domain="from-data").fit(PEOPLE[["a", "b"]], PEOPLE["ill"])
    for model in (released, network.model, bayes.model_, read.model_):
        assert not model.private
        assert not model.certificate().private
        assert not type(model).from_json(model.to_json()).private
    # Each table of them too: the number of cells of `a` decided on the noise of all.
    assert all(release.not_private for release in (*network.model.releases, *bayes.model_.releases))
    assert {column.origin for column in read.model_.schema} == {"from-data"}
    assert {column.name: column.origin for column in bayes.model_.schema}["b"] == "declared"
    assert release_distribution(PEOPLE, MIXED, ["b"], budget=BUDGET).private


def test_public_data_behind_one_column_is_said():
    schema = Schema([*SAID, *Schema.from_public(PEOPLE[["a"]])])
    model = NaiveBayes(schema=schema, target="ill").fit(PEOPLE[["b", "a"]], PEOPLE["ill"]).model_
    assert model.private
    assert any("as stated by its author" in line for line in model.certificate().assumed_public)
