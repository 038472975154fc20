"""Counts with names: refused without a declaration, and with one exactly what counting the rows gives."""

from __future__ import annotations

import datetime
import decimal
import json
from array import array
from collections import Counter, namedtuple
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simplexdp import Budget, CountTable, Gaussian, Release, release, synthetic_records
from simplexdp.counting import count
from simplexdp.errors import InvalidArgument, PrivacyError, SchemaError, SourceError
from simplexdp.labelled import labelled
from simplexdp.mechanisms import Dirichlet
from simplexdp.models.release import release_rows
from simplexdp.private.given import given_counts
from simplexdp.report import model_report
from simplexdp.schema import Categories, Numeric, Quantiles, Schema

BUDGET = Budget(epsilon=1, delta=1e-5)
SEX = ["m", "f", "m", None, "m", "f"]
ILL = ["no", "yes", "no", "no", "yes", "yes"]
FRAME = pd.DataFrame({"sex": SEX, "ill": ILL})
POLARS = pl.DataFrame({"sex": SEX, "ill": ILL})
SCHEMA = Schema.of(sex=Categories(["f", "x", "m"], missing="cell"), ill=["no", "yes"], unused=[1, 2])
ONE = [2, 0, 3, 1]  # f, x, m, missing
TWO = [[0, 2], [0, 0], [2, 1], [1, 0]]


class Coordinates:
    """An array with coordinates, as xarray has them."""

    def __init__(self, values: Any, **coords: Any) -> None:
        self.values, self.dims, self.coords = np.array(values), tuple(coords), coords
        self.shape = self.values.shape

    dims: Any = property(lambda self: self._dims, lambda self, dims: setattr(self, "_dims", dims))
    coords: Any = property(lambda self: self._coords, lambda self, coords: setattr(self, "_coords", coords))

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return self.values


class Foreign:
    """What another library of frames might hand over."""

    index = ("b", "a")

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return np.array([3, 4])


def sized() -> Any:
    return FRAME.groupby(["sex", "ill"], dropna=False).size()


LABELLED_ONE: dict[str, Any] = {
    "value_counts": lambda: FRAME["sex"].value_counts(dropna=False),
    "value_counts of categories": lambda: FRAME["sex"].astype("category").value_counts(dropna=False),
    "to_frame": lambda: FRAME["sex"].value_counts(dropna=False).to_frame(),
    "reset_index": lambda: FRAME["sex"].value_counts(dropna=False).reset_index(),
    "no name": lambda: pd.Series(SEX).value_counts(dropna=False),
    "Counter": lambda: Counter(SEX),
    "dictionary": lambda: {None: 1, "m": 3, "f": 2, "unseen": 0},
    "polars": lambda: POLARS["sex"].value_counts(),
    "polars struct": lambda: POLARS.select(pl.col("sex").value_counts())["sex"],
    "pyarrow": lambda: pc.value_counts(pa.array(SEX)),
    "pyarrow chunks": lambda: pc.value_counts(pa.chunked_array([SEX[:2], SEX[2:]])),
    "coordinates": lambda: Coordinates([3, 1, 2], sex=np.array(["m", None, "f"], dtype=object)),
}
LABELLED_TWO: dict[str, Any] = {
    "size": sized,
    "unstack": lambda: sized().unstack(),
    "crosstab": lambda: pd.crosstab(FRAME["sex"].fillna(np.nan), FRAME["ill"], dropna=False),
    "long": lambda: FRAME.groupby(["sex", "ill"], dropna=False, as_index=False).size(),
    "tuples": lambda: Counter(zip(SEX, ILL, strict=True)),
    "polars": lambda: POLARS.group_by("sex", "ill").len(),
    "pyarrow": lambda: pa.TableGroupBy(pa.table(POLARS), ["sex", "ill"]).aggregate([([], "count_all")]),
    "batch": lambda: pa.table(POLARS.group_by("sex", "ill").len()).combine_chunks().to_batches()[0],
    "reader": lambda: pa.table(POLARS.group_by("sex", "ill").len()).to_reader(),
    "coordinates": lambda: Coordinates([[2, 1], [0, 2], [1, 0]], sex=["m", "f", None], ill=["no", "yes"]),
}
UNREAD: dict[str, Any] = {
    "list of series": lambda: [FRAME["sex"].value_counts(), FRAME["sex"].value_counts()],
    "nested": lambda: [[Counter(SEX)]],
    "structured array": lambda: np.array([("m", 3), ("f", 2)], dtype=[("sex", "U1"), ("count", int)]),
    "named tuple": lambda: namedtuple("Counts", "values counts")([1, 2], [3, 4]),
    "lazy": lambda: POLARS.lazy().group_by("sex").len(),
    "other library": Foreign,
    "some coordinates": lambda: _partly(),
}


def _partly() -> Coordinates:
    found = Coordinates([[2, 1], [0, 2]], sex=["m", "f"], ill=["no", "yes"])
    del found.coords["ill"]
    return found


def counted(counts: Any, **declared: Any) -> Any:
    return given_counts(counts, **declared).table().private_counts()


@pytest.mark.parametrize("make", [*LABELLED_ONE.values(), *LABELLED_TWO.values(), *UNREAD.values()])
def test_names_from_the_data_are_refused(make: Any) -> None:
    for call in (
        lambda: release(make(), budget=None, mechanism="unknown"),  # type: ignore[arg-type]  # before anything else
        lambda: CountTable.from_array(make(), columns=("sex",)),
        lambda: CountTable(make(), ("sex",)),
        lambda: Gaussian(sigma=1).release(make()),
        lambda: Dirichlet(r=1, alpha=1).release(make(), sensitivity=object()),  # type: ignore[arg-type]
    ):
        with pytest.raises(PrivacyError) as caught:
            call()
        for way in ("schema=", "categories=", "release_distribution"):
            assert way in str(caught.value)


@pytest.mark.parametrize("make", UNREAD.values())
def test_what_cannot_be_read_is_refused_with_a_declaration_too(make: Any) -> None:
    with pytest.raises(PrivacyError, match="cannot be read"):
        given_counts(make(), schema=SCHEMA)


@pytest.mark.parametrize("make", LABELLED_ONE.values(), ids=LABELLED_ONE)
def test_a_declared_column_puts_counts_in_order(make: Any) -> None:
    assert counted(make(), schema=SCHEMA.select(["sex"])).tolist() == ONE
    assert counted(make(), schema=SCHEMA["sex"]).tolist() == ONE
    assert counted(make(), schema=Categories(["f", "x", "m"], missing="cell")).tolist() == ONE
    made = release(make(), schema=SCHEMA.select(["sex"]), budget=BUDGET)
    assert (made.columns, made.schema, made.private) == (("sex",), SCHEMA.select(["sex"]), True)


@pytest.mark.parametrize("make", LABELLED_TWO.values(), ids=LABELLED_TWO)
def test_declared_columns_put_tables_in_order(make: Any) -> None:
    schema = SCHEMA.select(["sex", "ill"])
    assert counted(make(), schema=schema).tolist() == TWO
    made = release(make(), schema=schema, budget=BUDGET)
    assert (made.columns, made.schema, made.values.shape) == (("sex", "ill"), schema, (4, 2))


def test_axes_are_found_by_their_names() -> None:
    across = FRAME.groupby(["ill", "sex"], dropna=False).size()
    assert counted(across, schema=SCHEMA).T.tolist() == TWO
    assert given_counts(across, schema=SCHEMA).columns == ("ill", "sex")
    assert counted(FRAME["ill"].value_counts(), schema=SCHEMA).tolist() == [3, 3]
    unnamed = pd.crosstab(np.array(SEX[:3], dtype=object), np.array(ILL[:3], dtype=object))
    assert counted(unnamed, categories={"sex": ["f", "m"], "ill": ["no", "yes"]}).tolist() == [[0, 1], [2, 0]]
    assert counted(pd.DataFrame([["m", 3]], columns=["sex", "n"]), categories=["f", "m"]).tolist() == [0, 3]
    for counts, schema in (
        (across, SCHEMA.select(["sex"])),
        (across.rename_axis(["a", "b"]), SCHEMA),
        ({"m": 3}, SCHEMA),
    ):
        with pytest.raises((InvalidArgument, SourceError)):
            counted(counts, schema=schema)


def test_categories_in_place_of_a_schema() -> None:
    made = release(Counter(ILL), categories=["no", "maybe", "yes"], budget=BUDGET)
    assert (made.columns, made.schema) == (("value",), Schema.of(value=["no", "maybe", "yes"]))
    assert given_counts(FRAME["ill"].value_counts(), categories=["no", "yes"]).columns == ("ill",)
    both = {"ill": ["no", "yes"], "sex": Categories(["f", "m"], missing="cell")}
    assert counted(sized(), categories=both).tolist() == [[0, 2], [2, 1], [1, 0]]
    with pytest.raises(InvalidArgument, match="categories"):
        given_counts(Counter(ILL), schema=SCHEMA, categories=["no"])
    with pytest.raises(SchemaError, match="a list"):
        given_counts(Counter(ILL), categories={"no", "yes"})  # type: ignore[arg-type]


@pytest.mark.slow
def test_plain_counts_stay_as_they_are_and_take_names() -> None:
    plain: list[Any] = [
        [3, 1],
        (3, 1),
        np.array([3, 1]),
        np.array([3.0, 1.0]),
        pd.Series([3, 1]),
        pd.Series([3, 1], name="count"),
        pd.array([3, 1]),
        pl.Series([3, 1]),
        pa.array([3, 1]),
        pa.chunked_array([[3], [1]]),
        array("q", [3, 1]),
        range(3, 0, -2),
    ]
    for counts in plain:
        assert labelled(counts) is None
        assert counted(counts).tolist() == [3, 1]
        made = release(counts, budget=BUDGET)
        assert (made.columns, made.schema, made.private) == ((), None, True)
        named = release(counts, budget=BUDGET, categories=["f", "m"])
        assert named.schema == Schema.of(value=["f", "m"])
    for square in ([[1, 2], [3, 4]], pd.DataFrame([[1, 2], [3, 4]]), pl.DataFrame([[1, 3], [2, 4]])):
        assert counted(square).tolist() == [[1, 2], [3, 4]]
        assert given_counts(square, schema={"a": ["x", "y"], "b": ["x", "y"]}).columns == ("a", "b")
    for wrong in (["f"], ["f", "m", "x"], {"a": ["f", "m"], "b": ["f", "m"]}):
        with pytest.raises(InvalidArgument, match="declared shape"):
            release([3, 1], budget=BUDGET, categories=wrong)
    with pytest.raises(SchemaError, match="edges"):
        release([3, 1], budget=BUDGET, schema=Quantiles(2, lower=0, upper=1, name="x"))


def test_counted_tables_take_the_names_of_their_schema() -> None:
    (table,) = count(FRAME, SCHEMA, [("sex", "ill")])
    made = release(table, schema=SCHEMA, budget=BUDGET)
    assert made.schema == SCHEMA.select(["sex", "ill"])
    assert release(table, budget=BUDGET).schema is None
    other = SCHEMA.replace(Categories(["yes", "no"], name="ill"))
    with pytest.raises(InvalidArgument, match="counted with"):
        release(table, schema=other, budget=BUDGET)


def test_a_declaration_from_the_data_is_marked() -> None:
    derived = Schema.from_data(FRAME[["sex"]], i_accept_that_the_result_is_not_private=True)
    for counts in (Counter(SEX), [2, 3, 1]):
        made = release(counts, schema=derived, budget=BUDGET)
        assert not made.private
        assert made.not_private


@pytest.mark.parametrize(
    ("counts", "match"),
    [
        (Counter(["m", "secret"]), "not declared"),
        (Counter(["m", None]), "missing entries"),
        (Counter(["m", float("nan")]), "missing entries"),
        (Counter(["m", 77]), "has entries that are not"),
        (Counter(["m", ("m", "f")]), "has entries that are not"),
        (Counter(["m", pd.Interval(0, 77)]), "intervals are not read"),
        ({"m": 1, "f": -77}, "zero or more"),
        ({"m": 1, "f": 0.77}, "whole numbers"),
        ({"m": 1, "f": float("inf")}, "finite"),
        ({"m": 1, "f": "77"}, "whole numbers"),
        ({"m": 1, "f": [77]}, "array"),
        (pd.Series([True, True], index=["m", "f"]), "whole"),
    ],
)
def test_what_is_not_declared_is_refused_as_by_a_source(counts: Any, match: str) -> None:
    named = given_counts(counts, categories=["f", "m"])  # says nothing yet
    with pytest.raises((SourceError, InvalidArgument), match=match) as caught:
        named.table()
    assert "secret" not in str(caught.value)
    assert "77" not in str(caught.value)
    assert caught.value.__context__ is None


def test_other_and_missing_cells() -> None:
    column = Categories(["f", "m"], other="cell", missing="cell")
    counts = {"m": 1, "a": 2, "b": 3, None: 4, float("nan"): 5, pd.NA: 6, pd.NaT: 7}
    assert counted(counts, schema=column).tolist() == [0, 1, 5, 22]
    sparse = pd.DataFrame({"no": [1.0, None], "yes": [None, 2.0]}, index=pd.Index(["f", "m"], name="sex"))
    sparse.columns.name = "ill"
    assert counted(sparse, schema=SCHEMA).tolist() == [[1, 0], [0, 0], [0, 2], [0, 0]]


class Untouchable(Mapping[Any, int]):
    """Counts that nobody may look at yet."""

    def __getitem__(self, key: Any) -> int:
        raise AssertionError("secret")

    def __iter__(self) -> Iterator[Any]:
        raise ValueError("secret")

    def __len__(self) -> int:
        raise AssertionError("secret")


def test_nothing_is_looked_at_before_the_table_is_asked_for() -> None:
    counts = given_counts(Untouchable(), schema=SCHEMA.select(["sex", "ill"]))
    assert (counts.columns, counts.shape, counts.schema) == (("sex", "ill"), (4, 2), SCHEMA.select(["sex", "ill"]))
    assert "secret" not in repr(counts)
    with pytest.raises(SourceError) as caught:
        counts.table()
    assert "secret" not in str(caught.value)
    assert caught.value.__context__ is None
    with pytest.raises(PrivacyError):
        given_counts(Untouchable())
    for bad in ([-1, 2], [0.5, 1]):
        with pytest.raises(InvalidArgument):
            given_counts(bad).table()


@pytest.mark.slow
def test_labels_are_kept_where_releases_are_shown() -> None:
    made = release(sized(), schema=SCHEMA, budget=BUDGET)
    again = Release.from_json(made.to_json())
    assert again.schema == made.schema
    assert {row[0] for row in release_rows(again, 0.95, 8)} >= {"f, yes", "(missing), no"}
    assert set(synthetic_records(again, 50, seed=1).read_all()["ill"].to_pylist()) <= {"no", "yes"}
    assert "(missing)" in model_report(again)
    assert json.loads(made.to_json())["body"]["columns"] == ["sex", "ill"]
    assert "values" in made.certificate().assumed_public[0]


# -- the same as counting the rows --------------------------------------------------------------------------------

DAYS = [datetime.date(2024, 1, day) for day in range(1, 8)]
KINDS: dict[str, tuple[Any, Any, Any]] = {
    "text": (pa.string(), st.sampled_from(["a", "b", "1", "é", ""]), ["b", "", "a"]),
    "whole": (pa.int64(), st.integers(-3, 5) | st.just(2**62), [3, -1, 2**62, 0]),
    "whole in floats": (pa.float64(), st.sampled_from([0.0, -0.0, 1.0, 1.5, 3.0, float("nan")]), [3, 1, 0]),
    "truth": (pa.bool_(), st.booleans(), [True]),
    "date": (pa.date32(), st.sampled_from(DAYS), DAYS[1:4]),
    "timestamp": (
        pa.timestamp("us"),
        st.sampled_from([datetime.datetime(2024, 1, day, hour) for day in range(1, 5) for hour in (0, 7)]),
        DAYS[1:4],
    ),
}


@st.composite
def columns(draw: Any) -> tuple[list[Any], Any, Any]:
    """Rows of one column, their Arrow type, and a declaration."""
    keep = {"missing": "cell"}
    if draw(st.booleans()):
        edges = sorted(draw(st.lists(st.integers(-4, 4), min_size=2, max_size=5, unique=True)))
        own = draw(st.lists(st.integers(-5, 5), max_size=2, unique=True))
        column = Numeric(edges, own=own, name="x", outside=draw(st.sampled_from(["cell", "nearest"])), **keep)
        kind, values = draw(
            st.sampled_from(
                [
                    (pa.int64(), st.integers(-6, 6)),
                    (pa.float64(), st.floats(-6, 6) | st.sampled_from([float("nan"), float("inf"), -1e300])),
                    (pa.decimal128(5, 2), st.decimals(-6, 6, places=2)),
                ]
            )
        )
    else:
        kind, values, declared = KINDS[draw(st.sampled_from(sorted(KINDS)))]
        column = Categories(declared, name="x", other="cell", **keep)
    return draw(st.lists(values | st.none(), max_size=25)), kind, column


def forms(rows: Any) -> dict[str, Any]:
    series = pd.Series(rows.to_pylist(), dtype=object, name="x")
    frame = pl.DataFrame({"x": pl.from_arrow(rows)})
    return {
        "Counter": Counter(rows.to_pylist()),
        "pandas": series.value_counts(dropna=False),
        "pandas arrow": rows.to_pandas(types_mapper=pd.ArrowDtype).rename("x").value_counts(dropna=False),
        "groupby": pd.DataFrame({"x": series, "y": 1}).groupby("x", dropna=False, sort=False).size(),
        "polars": frame["x"].value_counts(),
        "pyarrow": pc.value_counts(rows),
        "coordinates": Coordinates(list(Counter(rows.to_pylist()).values()), x=_objects(Counter(rows.to_pylist()))),
    }


def _objects(items: Any) -> Any:
    found = np.empty(len(items), dtype=object)
    found[:] = list(items)
    return found


@settings(max_examples=60, deadline=None)
@given(columns())
def test_named_counts_are_what_counting_the_rows_gives(made: tuple[list[Any], Any, Any]) -> None:
    values, kind, column = made
    rows = pa.array(values, type=kind)
    (expected,) = count(pa.table({"x": rows}), Schema([column]), [("x",)])
    for form, counts in forms(rows).items():
        if not values and form == "coordinates":
            continue
        table = given_counts(counts, schema=column).table()
        assert table.private_counts().tolist() == expected.private_counts().tolist(), form
        assert table.fingerprint == expected.fingerprint


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from([1, 2, 3, None])), min_size=1, max_size=30))
def test_the_order_of_names_does_not_matter(rows: list[tuple[str, int | None]]) -> None:
    schema = Schema.of(x=["c", "a", "b", "d"], y=Categories([2, 1], other="cell", missing="cell"))
    (expected,) = count(
        pa.table({"x": [r[0] for r in rows], "y": pa.array([r[1] for r in rows])}), schema, [("x", "y")]
    )
    counts = Counter(rows)
    for order in (list(counts), sorted(counts, key=repr), sorted(counts, key=lambda pair: -counts[pair])):
        found = counted({pair: counts[pair] for pair in order}, schema=schema)
        assert found.tolist() == expected.private_counts().tolist()
    frame = pd.DataFrame(rows, columns=["x", "y"]).astype({"y": "Int64"})
    for table in (frame.groupby(["x", "y"], dropna=False).size(), frame.value_counts(dropna=False)):
        assert counted(table, schema=schema).tolist() == expected.private_counts().tolist()
        assert counted(table.unstack(), schema=schema).tolist() == expected.private_counts().tolist()


def test_numbers_beyond_any_type() -> None:
    column = Numeric([0, 1], name="x", outside="cell", missing="cell")
    counts = {10**400: 1, -(10**400): 2, decimal.Decimal("1e500"): 3, decimal.Decimal("NaN"): 4, np.float32(0.5): 5}
    assert counted(counts, schema=column).tolist() == [5, 6, 4]
    whole = Categories([1, 2], name="x", other="cell")
    counts = {10**400: 1, decimal.Decimal(2): 2, np.int8(1): 3, float("inf"): 4, decimal.Decimal("1e500"): 5}
    assert counted(counts, schema=whole).tolist() == [3, 2, 10]
    days = Categories(DAYS, name="x", other="cell", missing="cell")
    nanosecond = pd.Timestamp("2024-01-02") + pd.Timedelta(1, "ns")
    counts = {np.datetime64("2024-01-02"): 1, np.datetime64("2024-01-02T07"): 2, nanosecond: 3, np.datetime64("NaT"): 4}
    assert counted(counts, schema=days).tolist() == [0, 1, 0, 0, 0, 0, 0, 5, 4]
    zoned = {
        datetime.datetime(2024, 1, 2, tzinfo=datetime.UTC): 1
    }  # in no zone it is a midnight: as in a source, other
    assert counted(zoned, schema=days).tolist() == [0] * 7 + [1, 0]


@pytest.mark.parametrize("made", [dict, pd.Series, lambda names: pd.Series(list(names), dtype=object).value_counts()])
def test_names_of_one_record_and_of_none_are_released_alike(made: Any) -> None:
    """An empty dictionary makes a series with the index that pandas gives to counts without names."""
    for names in ({"a": 1}, {}):
        released = release(made(names), budget=BUDGET, neighbours="add-remove", categories=["a", "b"])
        assert released.values.shape == (2,)
