"""Replace-one publishes the number of rows: a query that may choose them by their values is not released under it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from simplexdp import BayesianNetwork, Budget, Ledger, NaiveBayes, Query, Schema, release, release_distribution
from simplexdp.counting import count
from simplexdp.errors import InvalidArgument, PrivacyError
from simplexdp.quantiles import resolve_quantiles
from simplexdp.schema import Categories, Quantiles

SCHEMA = Schema.of(smoker=["no", "yes"], ill=["no", "yes"])
BUDGET = Budget(epsilon=1, delta=1e-6)


@pytest.fixture
def some(tmp_path: Path) -> str:
    rows = pa.table({"smoker": ["no", "yes"] * 50, "ill": ["no", "no", "yes", "yes"] * 25})
    pq.write_table(rows, tmp_path / "rows.parquet")
    return f"SELECT * FROM '{tmp_path / 'rows.parquet'}' WHERE ill = 'yes'"


def test_no_way_of_fitting_publishes_the_number_of_selected_rows(some: str) -> None:
    query = Query(some)
    edges = [("smoker", "ill")]
    ways: list[Any] = [
        lambda q: release_distribution(q, SCHEMA, ["ill"], budget=BUDGET),
        lambda q: release(count(q, SCHEMA, [("ill",)])[0], budget=BUDGET),
        lambda q: release(sum(count(q, SCHEMA, [("ill",)])), budget=BUDGET),  # type: ignore[arg-type]
        lambda q: NaiveBayes(schema=SCHEMA, budget=BUDGET).fit_source(q, target="ill"),
        lambda q: BayesianNetwork(edges, SCHEMA, budget=BUDGET).fit(q),
    ]
    for way in ways:
        with pytest.raises(PrivacyError, match="add-remove"):
            way(query)
        way(Query(some, public_size=True))


def test_counted_tables_of_a_selection_are_released_under_add_remove(some: str) -> None:
    (table,) = count(Query(some), SCHEMA, [("ill",)])
    (rest,) = count(Query(some.partition(" WHERE")[0]), SCHEMA, [("ill",)])
    assert table.relations == {"add-remove"}
    assert rest.relations == {"add-remove", "replace-one"}
    assert (rest + table).relations == {"add-remove"}
    assert release(table, budget=BUDGET, neighbours="add-remove").total is None


@pytest.mark.slow
@pytest.mark.parametrize(
    "end", ["LIMIT 20", "limit 20 offset 5", "LIMIT/**/20", "OFFSET 5", "FETCH FIRST 20 ROWS ONLY"]
)
def test_a_number_of_rows_is_cut_under_replace_one_of_rows_only(some: str, end: str) -> None:
    # Of [a, b, c] LIMIT 2 gives (a, b); without a it gives (b, c): two rows differ, and the noise is for one.
    query = Query(f"{some.partition(' WHERE')[0]} {end}")
    release_distribution(query, SCHEMA, ["ill"], budget=BUDGET)
    with pytest.raises(PrivacyError, match="moves up"):
        release_distribution(query, SCHEMA, ["ill"], budget=BUDGET, neighbours="add-remove")
    with pytest.raises(PrivacyError, match="moves up"):
        release_distribution(query, SCHEMA, ["ill"], budget=BUDGET, rows_per_person=2, person="smoker")
    (table,) = count(query, SCHEMA, [("ill",)])
    release(table, budget=BUDGET)
    with pytest.raises(PrivacyError, match="moves up"):
        release(table, budget=BUDGET, neighbours="add-remove")


def test_names_of_columns_do_not_cut() -> None:
    assert not Query('SELECT "limit", top, t.offset, limits, t.limit FROM t').may_cut


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT TOP 10 a FROM t",
        "SELECT a FROM t LIMIT(3)",
        "SELECT a FROM t LIMIT+3",
        "SELECT a FROM t OFFSET (5)",
        "SELECT a FROM t USING SAMPLE 3 ROWS",
        "SELECT a FROM t TABLESAMPLE reservoir(3 ROWS)",
        "SELECT DISTINCT ON (g) a FROM t ORDER BY g, a",
    ],
)
def test_queries_of_which_another_row_may_move_up(sql: str) -> None:
    assert "add-remove" not in Query(sql).relations


def test_without_records_nothing_is_paid(tmp_path: Path) -> None:
    ledger = Ledger.open(tmp_path / "ledger.db", budget=Budget(epsilon=20, delta=1e-5))
    none = pa.table({"smoker": pa.array([], pa.string()), "ill": pa.array([], pa.string())})
    paid: dict[str, Any] = {"budget": BUDGET, "ledger": ledger, "dataset": "patients"}
    with pytest.raises(InvalidArgument, match="at least one record"):
        release([0, 0], **paid)
    ledger.register("patients", none, SCHEMA)
    with pytest.raises(InvalidArgument, match="at least one record"):
        BayesianNetwork([("smoker", "ill")], SCHEMA, **paid).fit(none)
    numbers = Schema([Quantiles(4, lower=0, upper=10, name="age"), Categories(["no", "yes"], name="ill")])
    empty = pa.table({"age": pa.array([], pa.float64()), "ill": pa.array([], pa.string())})
    ledger.register("patients", empty, numbers)
    with pytest.raises(InvalidArgument, match="at least one record"):
        release_distribution(empty, numbers, ["age", "ill"], **paid)
    assert not ledger.spent("patients").exact


def test_private_quantiles_are_not_drawn_from_rows_that_another_may_move_into(tmp_path: Path) -> None:
    pq.write_table(pa.table({"age": [float(i % 50) for i in range(200)]}), tmp_path / "rows.parquet")
    schema = Schema([Quantiles(4, lower=0, upper=50, name="age")])
    query = Query(f"SELECT age FROM '{tmp_path / 'rows.parquet'}' LIMIT 100")
    with pytest.raises(PrivacyError, match="moves up"):
        resolve_quantiles(schema, query, epsilon=1.0, neighbours="add-remove")
    assert not resolve_quantiles(schema, query, epsilon=1.0, neighbours="replace-one").schema.unresolved


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT a FROM t WHERE b = 1",
        "SELECT a FROM t\nwhere\nb = 1",
        'SELECT "a"FROM"t"WHERE"b"=1',
        'SELECT "group" FROM t WHERE "where" = 1',
        "SELECT a FROM t PREWHERE b = 1",
        "SELECT DISTINCT a FROM t",
        'SELECT DISTINCT "a" FROM t',
        "SELECT DISTINCT `a` FROM t",
        "SELECT a FROM t GROUP/**/BY a",
        "SELECT regexp_split_to_table(a, ' ') FROM t",
        "SELECT json_array_elements(a) FROM t",
        "SELECT a FROM t GROUP  BY a",
        "SELECT a FROM t LEFT JOIN u USING (id)",
        "SELECT a FROM t UNION SELECT a FROM u",
        "SELECT a FROM t EXCEPT SELECT a FROM u",
        "SELECT a FROM t MINUS SELECT a FROM u",
        "SELECT a FROM t QUALIFY row_number() OVER (PARTITION BY b) = 1",
        "SELECT a FROM t ORDER BY b FETCH FIRST 10 ROWS WITH TIES",
        "SELECT a FROM t LIMIT (SELECT max(b) FROM t)",
        "SELECT a, generate_series(1, b) FROM t",
        "SELECT a, unnest(b) FROM t",
        "SELECT a FROM t CROSS APPLY f(t.b)",
        "SELECT a FROM t USING SAMPLE 10%",
        "SELECT a FROM t SAMPLE 0.1",
        "SELECT a FROM read_csv('t.csv', ignore_errors=true)",
        "SELECT a -- don't\nFROM t WHERE b = 'x'",
    ],
)
def test_queries_that_may_select(sql: str) -> None:
    assert "replace-one" not in Query(sql).relations
    assert "replace-one" in Query(sql, public_size=True, one_record_per_row=True).relations


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT a, b FROM t",
        "SELECT top, sample, t.limit_reached, groups FROM t",
        'SELECT "group", t."where", "limit"::int, "join" FROM t',
        "SELECT a IS DISTINCT FROM b AS c FROM t",
        'SELECT "a" IS NOT DISTINCT FROM "b" AS c FROM t',
        "SELECT * FROM 'sample.parquet'",
        "SELECT * FROM 'patients_where.parquet'",
        "SELECT a FROM t LIMIT 1000 OFFSET 10",
        "SELECT a FROM t FETCH FIRST 10 ROWS ONLY",
        "SELECT CASE WHEN a > 1 THEN 'x' END AS a FROM t",
    ],
)
def test_queries_that_leave_the_number_of_rows_as_it_is(sql: str) -> None:
    assert "replace-one" in Query(sql).relations
