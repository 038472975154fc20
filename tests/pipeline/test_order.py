"""Facts, design, charge, values: what a fit does before it looks at a value does not depend on values."""

from __future__ import annotations

import sqlite3
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import simplexdp.pipeline
from simplexdp import (
    BayesianNetwork,
    Budget,
    Categories,
    Files,
    NaiveBayes,
    Numeric,
    OneRecordPerRow,
    Quantiles,
    Query,
    Schema,
    count,
    release_distribution,
)
from simplexdp.errors import InvalidArgument, PrivacyWarning, SourceError, UtilityWarning
from simplexdp.fitting import Facts
from simplexdp.mechanisms.sums import GaussianTables, NoisySum
from simplexdp.models import read
from simplexdp.naive_bayes import fit_naive_bayes
from simplexdp.private.counting import Passes, can_be_read_again, number_of_records
from simplexdp.private.counting.persons import Bound
from simplexdp.sampling import SecureEntropy, SeededEntropy

BUDGET = Budget(epsilon=1.0, delta=1e-6)
SCHEMA = Schema.of(a=["x", "y"], b=["x", "y"], c=["x", "y"], d=["x", "y"], ill=["no", "yes"])


def rows(size: int = 4000) -> pa.Table:
    rng = np.random.default_rng(5)
    ill = rng.random(size) < 0.4
    words = {name: np.where(rng.random(size) < 0.3 + 0.4 * ill, "x", "y") for name in "abcd"}
    return pa.table({**words, "ill": np.where(ill, "yes", "no"), "who": np.arange(size) // 4})


def sources(folder: Path) -> dict[str, Any]:
    table = rows(100).append_column("n", pa.array(range(100)))
    pq.write_table(table, folder / "rows.parquet")
    pa.csv.write_csv(table, folder / "rows.csv")
    table.to_pandas().to_json(folder / "rows.jsonl", orient="records", lines=True)
    return {
        "path": folder / "rows.parquet",
        "csv": str(folder / "rows.csv"),
        "json": Files(folder / "rows.jsonl"),
        "paths": [folder / "rows.parquet"],
        "query": Query(f"SELECT a, ill, n, who FROM '{folder / 'rows.parquet'}'"),
        "pandas": table.to_pandas(),
        "polars": pl.from_arrow(table),
        "lazy": pl.scan_parquet(folder / "rows.parquet"),
        "table": table,
        "batches": table.to_batches(max_chunksize=30),
        "dataset": pa.dataset.dataset(folder / "rows.parquet"),
    }


KINDS = ["path", "csv", "json", "paths", "query", "pandas", "polars", "lazy", "table", "batches", "dataset"]


@pytest.mark.parametrize("kind", KINDS)
def test_records_are_counted_without_values(tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    source = sources(tmp_path)[kind]

    def never(*_: object, **__: object) -> None:
        raise AssertionError("a value was encoded")

    monkeypatch.setattr("simplexdp.private.counting.encode.ColumnSpec.encode", never)
    assert number_of_records(source) == 100
    assert can_be_read_again(source)
    assert can_be_read_again(source, in_order=True)


def test_streams_do_not_tell_their_length() -> None:
    reader = rows(100).to_reader()
    assert number_of_records(reader) is None
    assert not can_be_read_again(reader)
    assert reader.read_all().num_rows == 100  # and were not used up by the question
    assert not can_be_read_again(Query("SELECT a FROM 'rows.parquet' LIMIT 10"))


def test_what_follows_from_facts_is_the_same_for_neighbours(monkeypatch: pytest.MonkeyPatch) -> None:
    """The plan is made before the count, from the same arguments whatever one record holds."""
    plans: list[Any] = []
    plan = simplexdp.fitting.design.plan_tables
    monkeypatch.setattr(simplexdp.fitting.design, "plan_tables", lambda *a, **k: plans.append((a, k)) or plan(*a, **k))
    table = rows(400)
    changed = pa.concat_tables([table.slice(1), table.slice(0, 1).set_column(0, "a", pa.array(["y"]))])
    broken = table.set_column(0, "a", pa.array(["never"] * 400))
    for source in (table, changed):
        release_distribution(source, SCHEMA, ["a", "ill"], budget=BUDGET)
    with pytest.raises(SourceError):
        release_distribution(broken, SCHEMA, ["a", "ill"], budget=BUDGET)
    assert len(plans) == 3
    assert plans[0] == plans[1] == plans[2]


# -- records= ---------------------------------------------------------------------------------------------------------


def test_a_said_number_must_be_true_where_it_is_public() -> None:
    made = release_distribution(rows(100).to_reader(), SCHEMA, ["a"], budget=BUDGET, records=np.uint8(100))
    assert made.total == 100
    with pytest.raises(SourceError, match="another number of records"):
        release_distribution(rows(100).to_reader(), SCHEMA, ["a"], budget=BUDGET, records=99)
    for wrong in (-1, 1.5, True, "100"):
        with pytest.raises(InvalidArgument, match="records"):
            release_distribution(rows(100), SCHEMA, ["a"], budget=BUDGET, records=wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("unit", ["add-remove", "person"])
def test_a_guess_is_never_published_and_never_checked(unit: str) -> None:
    how: dict[str, Any] = (
        {"neighbours": "add-remove"} if unit == "add-remove" else {"rows_per_person": 2, "person": "who"}
    )
    made = release_distribution(rows(400), SCHEMA, ["a"], budget=BUDGET, records=5_000_000, **how)
    assert made.total is None
    assert "5000000" not in made.to_json()


def test_nothing_is_counted_beforehand_where_the_number_is_private(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(_: object) -> None:
        raise AssertionError("records were counted")

    monkeypatch.setattr(simplexdp.private.door, "number_of_records", never)
    release_distribution(rows(400), SCHEMA, ["a"], budget=BUDGET, neighbours="add-remove")
    release_distribution(rows(400), SCHEMA, ["a"], budget=BUDGET, rows_per_person=2, person="who")


# -- further passes ---------------------------------------------------------------------------------------------------


@settings(max_examples=30)
@given(st.lists(st.integers(0, 6), min_size=1, max_size=60), st.integers(1, 3), st.integers(1, 30), st.integers(0, 99))
def test_every_pass_sees_the_same_rows_of_each_person(who: list[int], most: int, batch: int, seed: int) -> None:
    table = pa.table({"x": pa.array([i % 2 == 0 for i in range(len(who))]), "n": list(range(len(who))), "who": who})
    schema = Schema.of(x=[False, True], n=list(range(60)))
    bound = Bound.of(most, "who", SeededEntropy(seed))
    facts = Facts(records=None, is_public=False, again=True)
    passes = Passes(table.to_batches(max_chunksize=batch), facts, bound)
    (counted,) = passes.count(schema, [("n",)])
    for _ in range(2):
        seen = np.concatenate([block["n"] for block in passes.blocks(schema, ["n", "x"])])
        assert np.array_equal(np.bincount(seen, minlength=60), counted.private_counts())
        of_each = np.bincount([who[n] for n in seen], minlength=7)
        assert (of_each == np.minimum(np.bincount(who, minlength=7), most)).all()


@pytest.mark.parametrize("kind", KINDS)
def test_every_pass_over_any_source_sees_the_same_rows_of_each_person(tmp_path: Path, kind: str) -> None:
    schema = Schema.of(n=list(range(100)))
    facts = Facts(records=None, is_public=False, again=True)
    passes = Passes(sources(tmp_path)[kind], facts, Bound.of(2, "who", SeededEntropy(7)))
    (counted,) = passes.count(schema, [("n",)])
    assert int(counted.private_counts().sum()) == 50
    for _ in range(2):
        seen = np.concatenate([block["n"] for block in passes.blocks(schema, ["n"])])
        assert np.array_equal(np.bincount(seen, minlength=100), counted.private_counts())


def test_a_source_without_an_order_is_read_once_for_persons(tmp_path: Path) -> None:
    """Which rows of a person stay goes by their places: in another order others would, in each pass anew."""
    files = sources(tmp_path)
    path = files["path"]
    sqlite, ordered, loose = sqlite3.connect(":memory:"), duckdb.connect(), duckdb.connect()
    rows(40).to_pandas().to_sql("t", sqlite, index=False)
    loose.execute("SET preserve_insertion_order = false")
    text = f"SELECT a, who FROM '{path}'"
    assert can_be_read_again(Query(text, ordered), in_order=True)
    for source in (
        Query("SELECT a, who FROM t", sqlite),
        Query("SELECT a, who FROM t", "postgresql://nowhere/db"),
        Query(text, loose),
        Query(f"{text} ORDER/**/BY a"),
        Query(text, one_record_per_row=True),
        OneRecordPerRow(files["lazy"]),
    ):
        assert can_be_read_again(source)
        assert not can_be_read_again(source, in_order=True)
    schema = Schema([Quantiles(2, lower=0, upper=10, name="who", outside="nearest"), Categories(["x", "y"], name="a")])
    how: dict[str, Any] = {"budget": BUDGET, "rows_per_person": 2, "person": "who"}
    for query in (Query("SELECT a, who FROM t", sqlite), Query(text, ordered)):  # the first one from a private copy
        assert release_distribution(query, schema, ["a", "who"], **how).values.shape == (2, 2)
    for connection in (sqlite, ordered, loose):
        connection.close()


def test_a_source_that_is_read_once_has_no_further_pass() -> None:
    passes = Passes(rows(50).to_reader(), Facts(records=50, is_public=True, again=False))
    passes.count(SCHEMA, [("a",)])
    with pytest.raises(SourceError, match="facts of this fit were for one alone"):
        next(passes.blocks(SCHEMA, ["a"]))


def test_a_source_that_gives_other_rows_is_refused() -> None:
    batches = rows(50).to_batches()
    passes = Passes(batches, Facts(records=None, is_public=False, again=True))
    passes.count(SCHEMA, [("a",)])
    batches.extend(rows(1).to_batches())
    with pytest.raises(SourceError, match="in this pass than in the one before") as caught:
        list(passes.blocks(SCHEMA, ["a"]))
    assert "50" not in str(caught.value)


def test_a_file_that_changes_during_a_fit_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "rows.parquet"
    pq.write_table(rows(50), path)
    passes = Passes(path, Facts(records=None, is_public=False, again=True))
    passes.count(SCHEMA, [("a",)])
    pq.write_table(rows(51), path)
    with pytest.raises(SourceError, match="files of the source have changed") as caught:
        list(passes.blocks(SCHEMA, ["a"]))
    assert "50" not in str(caught.value)
    batches = rows(50).to_batches()
    passes = Passes(batches, Facts(records=None, is_public=False, again=True))
    passes.count(SCHEMA, [("a",)])
    batches += rows(1).to_batches()
    with pytest.raises(SourceError, match="in this pass than in the one before") as caught:
        list(passes.blocks(SCHEMA, ["a"]))
    assert not any(number in str(caught.value) for number in ("50", "51"))


def test_newton_rounds_of_persons_are_bounded_like_their_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """A declared number of records buys sums for persons too; a person with a thousand rows counts with two of them."""
    table = rows(30_000)
    who = pa.array(np.where(np.arange(30_000) < 10_000, 0, np.arange(30_000)))
    table = table.set_column(table.schema.get_field_index("who"), "who", who)
    seen: list[int] = []
    kernel = simplexdp.private.kernels.KERNELS["newton"]

    def spy(at: Any, blocks: Any, sums: Any) -> Any:
        def counted() -> Any:
            total = 0
            for block in blocks:
                total += len(block["ill"])
                yield block
            seen.append(total)

        return kernel.sums(at, counted(), sums)

    monkeypatch.setitem(simplexdp.private.kernels.KERNELS, "newton", replace(kernel, sums=spy))
    how: dict[str, Any] = {"rows_per_person": 2, "person": "who", "records": 30_000}
    model = fit_naive_bayes(table, SCHEMA, "ill", budget=Budget(epsilon=8, delta=1e-6), **how)
    extras = [m for m in model.guarantee.mechanisms if isinstance(m, NoisySum)]
    assert len(extras) == 6
    assert seen == [20_002] * 3
    assert model.guarantee.rows == 2
    for each in extras:  # two rows, each replaced: twice the size, so four times the exponent of one row
        assert each.loss(rows=2).rdp(3) == pytest.approx(4 * each.loss(rows=1).rdp(3))


def test_without_a_number_persons_buy_no_sums() -> None:
    model = fit_naive_bayes(
        rows(30_000), SCHEMA, "ill", budget=Budget(epsilon=8, delta=1e-6), rows_per_person=2, person="who"
    )
    assert not any(isinstance(m, NoisySum) for m in model.guarantee.mechanisms)


# -- what is left out says so -----------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_stream_says_what_it_costs_naive_bayes(tmp_path: Path) -> None:
    large = Budget(epsilon=8, delta=1e-6)
    with pytest.warns(UtilityWarning, match="does not tell its number of records"):
        short = fit_naive_bayes(rows().to_reader(), SCHEMA, "ill", budget=large)
    assert "does not tell its number of records" in short.guarantee.left_out[0]
    short.write(tmp_path / "short.json")
    again = read(tmp_path / "short.json")  # the file and its certificate say it as well
    assert again.guarantee == short.guarantee
    assert "\n\nLeft out:\n  - the source does not tell" in str(again.certificate())
    with warnings.catch_warnings():
        warnings.simplefilter("error", UtilityWarning)
        model = fit_naive_bayes(rows(), SCHEMA, "ill", budget=large)
        streamed = fit_naive_bayes(rows().to_reader(), SCHEMA, "ill", budget=large, records=4000)
    assert any(isinstance(m, NoisySum) for m in model.guarantee.mechanisms)
    assert model.guarantee.left_out == ()
    assert "left_out" not in model.guarantee.to_body()
    assert "Left out" not in str(model.certificate())
    assert streamed.guarantee == model.guarantee  # a stream that tells its number of records costs nothing


def test_a_quantile_column_costs_naive_bayes_nothing_but_its_share() -> None:
    table = rows().append_column("age", pa.array(np.random.default_rng(0).normal(50, 15, 4000)))
    columns = {column.name: column for column in SCHEMA}
    schema = Schema.of(age=Quantiles(4, lower=0, upper=120, share=0.1), **columns)
    model = fit_naive_bayes(table, schema, "ill", budget=Budget(epsilon=8, delta=1e-6))
    kinds = {type(m) for m in model.guarantee.mechanisms}
    assert {GaussianTables, NoisySum} <= kinds
    assert model.guarantee.pure
    assert model.guarantee.loss.fits(Budget(epsilon=8, delta=1e-6))


def test_bins_beside_quantiles_are_merged_too() -> None:
    rng = np.random.default_rng(0)
    table = pa.table({"age": rng.normal(50, 15, 200), "size": rng.normal(170, 9, 200), "ill": ["no", "yes"] * 100})
    schema = Schema.of(
        age=Quantiles(4, lower=0, upper=120, share=0.1),
        size=Numeric(list(range(100, 221, 5)), outside="nearest"),
        ill=["no", "yes"],
    )
    model = fit_naive_bayes(table, schema, "ill", budget=Budget(epsilon=0.1, delta=1e-4))
    assert model.schema is not None
    assert model.schema["size"].size == 24
    assert model.schema["age"].size == 4
    assert not model.schema.unresolved
    shapes = {release.columns: release.values.shape for release in model.releases}
    assert shapes["size", "ill"][0] < 24


def test_repeated_fits_without_a_ledger_warn_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(simplexdp.private.door, "_FITTED", {})
    frame = rows(200).to_pandas()
    model = NaiveBayes(epsilon=1, delta=1e-6, schema=SCHEMA, target="ill")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for fold in range(5):
            kept = frame.index % 5 != fold
            model.fit(frame.loc[kept, list("abcd")], frame.loc[kept, "ill"])
    told = [each for each in caught if issubclass(each.category, PrivacyWarning)]
    assert len(told) == 1
    assert "cross-validation" in str(told[0].message)


def test_other_fits_do_not_warn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(simplexdp.private.door, "_FITTED", {})
    table = rows(200)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        release_distribution(table, SCHEMA, ["a"], budget=BUDGET)
        release_distribution(table, SCHEMA, ["b"], budget=BUDGET)  # other columns
        for _ in range(2):  # seeded: not private anyway
            release_distribution(table, SCHEMA, ["c"], budget=BUDGET, entropy=1)
        BayesianNetwork([("c", "ill")], SCHEMA, budget=BUDGET).fit(table)
    with pytest.warns(PrivacyWarning, match="the budgets add up"):
        BayesianNetwork([("a", "d")], SCHEMA, budget=BUDGET).fit(table)  # one column of the first fit


# -- the same fit as before -------------------------------------------------------------------------------------------


def test_frames_and_streams_give_the_same_network() -> None:
    def fitted(source: Any, **how: Any) -> list[Any]:
        network = BayesianNetwork([("ill", "a")], SCHEMA, budget=BUDGET, entropy=4)
        return [release.values.tolist() for release in network.fit(source, **how).model.releases]

    table = rows(500)
    assert fitted(table) == fitted(table.to_reader(), records=500) == fitted(table.to_pandas())


def test_pandas_rows_with_errors_fail_only_when_values_are_read() -> None:
    frame = pd.DataFrame({name: ["x", "y"] * 10 for name in "abcd"})
    model = NaiveBayes(epsilon=1, delta=1e-6, schema=SCHEMA, target="ill")
    with pytest.raises(SourceError, match="A refusal tells"):
        model.fit(frame, pd.Series(["never"] * 20, name="ill"))
    assert SecureEntropy().is_private


# -- nothing at all ---------------------------------------------------------------------------------------------------

MADE = {
    "pandas": pd.DataFrame,
    "polars": pl.DataFrame,
    "lazy": lambda rows: pl.DataFrame(rows).lazy(),
    "pyarrow": pa.Table.from_pylist,
    "stream": lambda rows: pa.Table.from_pylist(rows).to_reader(),
    "frames": lambda rows: [pd.DataFrame(rows), pl.DataFrame(rows), pa.Table.from_pylist(rows)],
}


@pytest.mark.parametrize("how", [{}, {"rows_per_person": 1, "person": "who"}], ids=["rows", "persons"])
@pytest.mark.parametrize("kind", MADE)
def test_what_is_made_of_no_records_has_no_columns_and_counts_as_empty(kind: str, how: dict[str, Any]) -> None:
    for size in (1, 0):
        source = MADE[kind](rows(1).to_pylist()[:size])
        made = release_distribution(source, SCHEMA, ["a", "ill"], budget=BUDGET, neighbours="add-remove", **how)
        assert made.values.shape == (2, 2)
        (table,) = count(MADE[kind](rows(1).to_pylist()[:size]), SCHEMA, [("a", "ill")])
        assert table.private_counts().sum() == size * (3 if kind == "frames" else 1)


@pytest.mark.parametrize(
    "source",
    [pa.table({"other": pa.array([], pa.string())}), pd.DataFrame(index=range(3)), pd.DataFrame({"other": []})],
)
def test_a_table_with_other_columns_or_rows_without_any_is_refused(source: Any) -> None:
    with pytest.raises(SourceError, match="no column 'a'"):
        release_distribution(source, SCHEMA, ["a"], budget=BUDGET, neighbours="add-remove")
    with pytest.raises(SourceError, match="'a'"):
        count(source, SCHEMA, [("a",)])
