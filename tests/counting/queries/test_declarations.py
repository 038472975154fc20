"""Sources that are checked on their connection or by their plan, and what a curator declares of the others."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset
import pyarrow.parquet as pq
import pytest
import yaml

from simplexdp import BayesianNetwork, Budget, NaiveBayes, OneRecordPerRow, Query, Release, Schema, release
from simplexdp.counting import count, declarations_of, relations_of
from simplexdp.errors import InvalidArgument, PrivacyError, SourceError
from simplexdp.private.counting.expressions import NotUnderstood
from simplexdp.private.counting.names import read_alike
from simplexdp.private.counting.query import seen
from simplexdp.private.counting.statement import check

SCHEMA = Schema.of(smoker=["no", "yes"], ill=["no", "yes"])
ROWS = pa.table({"smoker": ["no", "yes"] * 50, "ill": ["no", "no", "yes", "yes"] * 25})
BUDGET = Budget(epsilon=1, delta=1e-6)
RECORD = "the curator declares that each row of this query comes from one record"
SIZE = "the curator declares that the number of rows of this query is public"
MIXED = "SELECT a.smoker, a.ill FROM rows a JOIN rows b ON a.ill = b.smoker"


@pytest.fixture
def base() -> Any:
    connection = duckdb.connect()
    connection.execute("CREATE TABLE rows (smoker VARCHAR, ill VARCHAR)")
    connection.execute(
        "INSERT INTO rows SELECT ['no', 'yes'][1 + i % 2], ['no', 'yes'][1 + i // 2 % 2] FROM range(40) t(i)"
    )
    return connection


# -- DuckDB ------------------------------------------------------------------------------------------------------------


def test_views_are_written_out(base: Any) -> None:
    base.execute("CREATE VIEW chosen AS SELECT ill AS sick, smoker FROM rows WHERE ill = 'yes'")
    base.execute("CREATE VIEW named(ill, smoker) AS SELECT * FROM chosen")
    base.execute("CREATE VIEW most AS SELECT max(ill) AS ill FROM rows")
    base.execute("CREATE VIEW few AS SELECT * FROM rows LIMIT 10")
    query = Query("SELECT v.ill FROM named v", base)
    assert relations_of(query) == {"add-remove"}
    (table,) = count(query, SCHEMA, [("ill",)])
    assert table.private_counts().tolist() == [0, 20]
    assert relations_of(Query("SELECT * FROM few", base)) == {"replace-one"}
    with pytest.raises(PrivacyError, match=r"MAX\(ill\).* in the view most"):
        relations_of(Query("SELECT ill FROM most", base))


@pytest.mark.slow
def test_the_parser_of_duckdb_reads_harmless_queries_in_the_same_way(base: Any) -> None:
    folder = Path(__file__).parent
    entries = [
        entry
        for name in ("harmless", "harmless_second", "harmless_third")
        for entry in yaml.safe_load((folder / f"{name}.yaml").read_text(encoding="utf-8"))
    ]
    texts = [entry["sql"] for entry in entries if entry["dialect"] == "duckdb"]
    refused = []
    for sql in texts:
        try:
            read_alike(sql, check(sql, "duckdb"), lambda asked: base.sql(asked).fetchall())
        except NotUnderstood as error:
            refused.append((sql, error.piece))
    assert len(texts) > 100
    assert not refused
    hidden = "select ill /*/**/ from rows -- */ , count(*) over () as n from rows"
    with pytest.raises(NotUnderstood, match=r"WINDOW|another way"):
        read_alike(hidden, check("select ill from rows", "duckdb"), lambda asked: base.sql(asked).fetchall())
    with pytest.raises(NotUnderstood, match="another way"):
        read_alike("from rows where ill", check("from rows", "duckdb"), lambda asked: base.sql(asked).fetchall())


def test_macros_types_and_names_of_the_connection(base: Any) -> None:
    base.execute("CREATE MACRO upper(x) AS (SELECT max(ill) FROM rows)")
    with pytest.raises(PrivacyError, match="macro upper, which was defined"):
        relations_of(Query("SELECT upper(ill) AS ill FROM rows", base))
    with pytest.raises(PrivacyError, match="macro upper, which was defined"):
        relations_of(Query("SELECT ill.upper() AS ill FROM rows", base))
    base.execute("DROP MACRO upper")
    base.execute("CREATE TYPE varchar2 AS ENUM ('no', 'yes'); CREATE SCHEMA s; CREATE TYPE s.text AS ENUM ('no')")
    with pytest.raises(PrivacyError, match="type that was defined"):
        relations_of(Query("SELECT CAST(ill AS TEXT) AS ill FROM rows", base))
    df = pa.table({"ill": ["no"]})
    with pytest.raises(PrivacyError, match="no table or view of the connection is called df"):
        relations_of(Query("SELECT ill FROM df", base))
    assert df.num_rows == 1
    assert relations_of(Query("SELECT ill FROM frame", base.register("frame", df))) == {"add-remove", "replace-one"}
    with pytest.raises(PrivacyError, match="pandas"):
        relations_of(Query("SELECT ill FROM other", base.register("other", pd.DataFrame({"ill": ["no", 1]}))))


@pytest.mark.parametrize(
    ("macro", "expression"),
    [
        ("array_extract(a, b) AS (SELECT max(ill) FROM rows)", "[ill][1]"),
        ("list_value(a) AS (SELECT list(ill) FROM rows)", "[ill]"),
        ("contains(a, b) AS (SELECT max(ill) = 'yes' FROM rows)", "ill IN ['no', 'yes']"),
        ("concat(a, b) AS (SELECT max(ill) FROM rows)", "ill || 'x'"),
        ("struct_extract(a, b) AS (SELECT max(ill) FROM rows)", "{'a': ill}.a"),
        ("list_transform(a, b) AS (SELECT list(ill) FROM rows)", "[x FOR x IN [ill]]"),
        ("\"~~\"(a, b) AS (SELECT max(ill) = 'yes' FROM rows)", "ill LIKE 'y%'"),
    ],
)
def test_macros_that_a_text_does_not_name(base: Any, macro: str, expression: str) -> None:
    query = Query(f"SELECT {expression} AS ill FROM rows", base)
    assert relations_of(query) == {"add-remove", "replace-one"}
    base.execute(f"CREATE MACRO {macro}")
    with pytest.raises(PrivacyError, match="which was defined on the connection"):
        relations_of(query)


def test_files_whose_name_means_something_else(base: Any, tmp_path: Path) -> None:
    path = tmp_path / "rows.parquet"
    pq.write_table(ROWS, path)
    read = f"SELECT ill FROM '{path}'"
    assert relations_of(Query(read, base)) == {"add-remove", "replace-one"}
    base.execute(f'CREATE VIEW "{path}" AS SELECT max(ill) AS ill FROM rows')
    assert len(base.execute(read).fetchall()) == 1  # the view, and not the file
    for source in (Query(read, base), base.sql(read)):
        with pytest.raises(PrivacyError, match="also the name of a table or view"):
            relations_of(source)
    base.execute(f'DROP VIEW "{path}"; CREATE MACRO parquet_scan(f) AS TABLE SELECT max(ill) AS ill FROM rows')
    with pytest.raises(PrivacyError, match="parquet_scan, which was defined"):
        relations_of(Query(read, base))


def test_views_that_look_like_arrow_tables(base: Any) -> None:
    base.execute('CREATE VIEW v AS SELECT max(ill) AS ill, 1 AS "x AS SELECT * FROM arrow_scan(1)" FROM rows')
    with pytest.raises(PrivacyError, match="MAX"):
        relations_of(Query("SELECT ill FROM v", base))
    base.execute("CREATE VIEW __duckdb_source_1 AS SELECT max(ill) AS ill FROM rows")
    with pytest.raises(PrivacyError, match="MAX"):
        relations_of(base.sql("SELECT ill FROM __duckdb_source_1"))
    base.register('we"ird AS SELECT', ROWS)
    assert relations_of(Query('SELECT ill FROM "we""ird AS SELECT"', base)) == {"add-remove", "replace-one"}


def test_a_limit_needs_the_order_of_the_table(base: Any) -> None:
    query = Query("SELECT ill FROM rows LIMIT 5", base)
    assert relations_of(query) == {"replace-one"}
    base.execute("SET preserve_insertion_order = false")
    with pytest.raises(PrivacyError, match="preserve_insertion_order"):
        relations_of(query)


def test_files_under_two_names_and_guessed_folders(tmp_path: Path) -> None:
    for name in ("a", "b"):
        pq.write_table(ROWS, tmp_path / f"{name}.parquet")
    assert relations_of(Query(f"FROM '{tmp_path}/*.parquet'")) == {"add-remove", "replace-one"}
    (tmp_path / "c.parquet").symlink_to(tmp_path / "a.parquet")
    with pytest.raises(PrivacyError, match="under two names"):
        relations_of(Query(f"FROM '{tmp_path}/*.parquet'"))
    for folder in ("year=1", "year=x"):
        (tmp_path / folder).mkdir()
        pq.write_table(ROWS, tmp_path / folder / "a.parquet")
    with pytest.raises(PrivacyError, match="guessed from all of them"):
        relations_of(Query(f"FROM '{tmp_path}/year*/a.parquet'"))
    fixed = f"FROM read_parquet('{tmp_path}/year*/a.parquet', hive_types_autocast=false)"
    assert count(Query(fixed), SCHEMA, [("ill",)])[0].private_counts().sum() == 200
    pq.write_table(ROWS, tmp_path / "once.parquet")
    assert count(Query(f"FROM '{tmp_path}/once.parquet'"), SCHEMA, [("ill",)])[0].private_counts().sum() == 100


def test_relations_are_checked_by_their_text(base: Any) -> None:
    table = base.table("rows")
    assert relations_of(table) == {"add-remove", "replace-one"}
    assert relations_of(table.filter("ill = 'yes'").project("smoker, upper(ill) AS ill")) == {"add-remove"}
    assert relations_of(table.limit(5)) == {"replace-one"}
    assert relations_of(base.from_arrow(ROWS)) == {"add-remove", "replace-one"}
    for mixed in (
        table.aggregate("max(ill) AS ill"),
        base.sql(MIXED),
        table.distinct(),
        table.order("ill").limit(5),
        base.from_df(ROWS.to_pandas()),
    ):
        with pytest.raises(PrivacyError, match=r"OneRecordPerRow\(source\)"):
            count(mixed, SCHEMA, [("ill",)])
        assert relations_of(OneRecordPerRow(mixed)) == {"add-remove"}
        assert relations_of(OneRecordPerRow(mixed, public_size=True)) == {"add-remove", "replace-one"}


def test_what_runs_is_what_was_understood(base: Any) -> None:
    base.execute("CREATE VIEW v AS SELECT * FROM rows WHERE smoker = 'no'")
    prepared = seen(Query("SELECT ill -- of all\nFROM v", base)).source
    assert prepared.sql == 'SELECT ill FROM (SELECT * FROM "rows" WHERE (smoker = \'no\')) AS "v"'


# -- other databases ---------------------------------------------------------------------------------------------------


def test_sqlite_names() -> None:
    connection = sqlite3.connect(":memory:")
    connection.executescript(
        "CREATE TABLE rows (smoker TEXT, ill TEXT); CREATE VIEW v AS SELECT max(ill) AS ill FROM rows;"
        "INSERT INTO rows VALUES ('no', 'yes'); CREATE TABLE other (ill TEXT);"
        "CREATE TEMP VIEW other AS SELECT 'no' AS ill"
    )
    try:
        assert relations_of(Query("SELECT upper(ill) AS ill FROM rows", connection)) == {"add-remove", "replace-one"}
        for name in ("v", "other", "missing"):
            with pytest.raises(PrivacyError, match=f"{name}, which is no plain table"):
                relations_of(Query(f"SELECT ill FROM {name}", connection))
        assert relations_of(Query("SELECT ill FROM main.other", connection)) == {"add-remove", "replace-one"}
        connection.create_function("upper", 1, lambda x: x)
        with pytest.raises(PrivacyError, match="upper, which was defined"):
            relations_of(Query("SELECT upper(ill) AS ill FROM rows", connection))
        connection.row_factory = lambda *_: ("no", "no")  # has no say
        assert count(Query("SELECT ill FROM rows", connection), SCHEMA, [("ill",)])[0].private_counts().tolist() == [
            0,
            1,
        ]
    finally:
        connection.close()


def test_sqlite_looks_at_the_clock_once() -> None:
    connection = sqlite3.connect(":memory:")
    try:
        connection.execute("CREATE TABLE rows (moment TEXT)")
        connection.executemany("INSERT INTO rows VALUES (?)", [("now",)] * 200_000)
        sql = "SELECT strftime('%f', moment) AS part FROM rows"
        prepared = seen(Query(sql, connection)).source
        assert len(set(connection.execute(prepared.sql))) == 1
        assert len(set(connection.execute(sql))) > 1
    finally:
        connection.close()


def test_sqlite_collations() -> None:
    connection = sqlite3.connect(":memory:")
    try:
        connection.create_collation("mine", lambda a, b: (a > b) - (a < b))
        connection.executescript("CREATE TABLE rows (ill TEXT); CREATE TABLE other (ill TEXT COLLATE Mine)")
        assert relations_of(Query("SELECT ill = 'no' AS ill FROM rows", connection)) == {"add-remove", "replace-one"}
        with pytest.raises(PrivacyError, match="collation mine, which was defined"):
            relations_of(Query("SELECT ill = 'no' AS ill FROM other", connection))
    finally:
        connection.close()


def test_postgresql_orders_and_hidden_operators(postgres: str) -> None:
    import psycopg

    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute(
            "CREATE SCHEMA h; SET search_path = h; CREATE TABLE rows (ill text, n int);"
            "INSERT INTO rows SELECT 'no', i FROM generate_series(1, 5000) i; CREATE INDEX ON rows (n); ANALYZE rows"
        )
        assert relations_of(Query("SELECT ill FROM rows LIMIT 5", connection)) == {"replace-one"}
        connection.execute("SET enable_seqscan = off; SET enable_bitmapscan = off")
        by_index = "SELECT ill FROM rows WHERE n = 7"
        assert relations_of(Query(by_index, connection)) == {"add-remove"}
        with pytest.raises(PrivacyError, match="plans as Index Scan"):
            relations_of(Query(f"{by_index} LIMIT 5", connection, public_size=True))
        case = Query("SELECT CASE n WHEN 1 THEN 'no' ELSE 'yes' END AS ill FROM rows", connection)
        assert relations_of(case) == {"add-remove", "replace-one"}
        connection.execute(
            "CREATE FUNCTION same(a int, b text) RETURNS bool LANGUAGE sql AS 'SELECT max(n) = a FROM h.rows';"
            "CREATE OPERATOR = (FUNCTION = same, LEFTARG = int, RIGHTARG = text)"
        )
        with pytest.raises(PrivacyError, match="operator that was defined"):
            relations_of(case)
        connection.execute("DROP SCHEMA h CASCADE")


@pytest.mark.slow
def test_postgresql_names(postgres: str) -> None:
    import psycopg

    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute(
            "CREATE SCHEMA q; SET search_path = q; CREATE TABLE rows (smoker text, ill text, n int);"
            "INSERT INTO rows VALUES ('no', 'yes', 1); CREATE VIEW v AS SELECT max(ill) AS ill FROM rows;"
            "CREATE MATERIALIZED VIEW m AS SELECT * FROM rows; CREATE TABLE safe (ill text);"
            "ALTER TABLE safe ENABLE ROW LEVEL SECURITY; CREATE TABLE parts (ill text) PARTITION BY LIST (ill);"
            "CREATE TABLE part PARTITION OF parts FOR VALUES IN ('no');"
            "CREATE FUNCTION most(r rows) RETURNS text LANGUAGE sql AS 'SELECT max(ill) FROM q.rows'"
        )
        every = {"add-remove", "replace-one"}
        for sql in ("SELECT upper(ill) AS ill FROM rows", "SELECT ill FROM q.rows ORDER BY n", "SELECT ill FROM parts"):
            assert relations_of(Query(sql, connection)) == every
        assert relations_of(Query("SELECT ill FROM q.rows WHERE n > 0", postgres)) == {"add-remove"}
        assert count(Query("SELECT ill FROM q.rows", postgres), SCHEMA, [("ill",)])[0].private_counts().tolist() == [
            0,
            1,
        ]
        for name in ("v", "m", "safe", "missing"):
            with pytest.raises(PrivacyError, match=name):
                relations_of(Query(f"SELECT ill FROM {name}", connection))
        for call in ("r.most", "(r).most"):  # a call of the function with the row
            with pytest.raises(PrivacyError, match="most, which was defined"):
                relations_of(Query(f"SELECT {call} AS ill FROM rows r", connection))
        connection.execute("CREATE FUNCTION lower(n int) RETURNS text LANGUAGE sql AS 'SELECT max(ill) FROM q.rows'")
        with pytest.raises(PrivacyError, match="lower, which was defined"):
            relations_of(Query("SELECT lower(n) AS ill FROM rows", connection))
        connection.execute("CREATE OPERATOR @@! (FUNCTION = lower, RIGHTARG = int)")
        assert relations_of(Query("SELECT ill FROM rows", connection)) == every
        connection.execute("SET standard_conforming_strings = off")
        with pytest.raises(PrivacyError, match="backslashes"):
            relations_of(Query("SELECT ill FROM rows", connection))
        connection.execute("DROP SCHEMA q CASCADE")


class OtherDriver:
    """A DB-API connection of a database that nobody knows."""

    def __init__(self) -> None:
        self.ran: list[str] = []

    def cursor(self) -> Any:
        return self

    def execute(self, sql: str) -> None:
        self.ran.append(sql)


def test_drivers_that_are_not_known_need_the_declaration() -> None:
    connection = OtherDriver()
    with pytest.raises(PrivacyError, match="cannot be told from views"):
        relations_of(Query("SELECT ill FROM rows", connection))
    with pytest.raises(PrivacyError, match="cannot be told from views"):
        relations_of(Query("SELECT ill FROM rows", connection, dialect="postgres"))
    assert relations_of(Query("SELECT ill FROM rows", connection, one_record_per_row=True)) == {"add-remove"}
    assert not connection.ran
    with pytest.raises(InvalidArgument, match="dialect"):
        Query("SELECT 1", connection, dialect="mysql")
    with pytest.raises(SourceError, match="of type int"):
        relations_of(Query("SELECT 1", 5))


# -- plans -------------------------------------------------------------------------------------------------------------


def test_lazy_frames_are_checked_by_their_plan(tmp_path: Path) -> None:
    pq.write_table(ROWS, tmp_path / "rows.parquet")
    every = {"add-remove", "replace-one"}
    frame = pl.from_arrow(ROWS).lazy()  # type: ignore[union-attr]
    scan = pl.scan_parquet(tmp_path / "rows.parquet")
    for lazy in (frame, scan):
        assert relations_of(lazy) == every
        assert relations_of(lazy.select("ill")) == every
        assert relations_of(lazy.filter(pl.col("ill") == "yes")) == {"add-remove"}
        assert relations_of(lazy.head(5)) == {"replace-one"}
    pq.write_table(ROWS, tmp_path / "other.parquet")
    (tmp_path / "rows.csv").write_text("ill\nno\n")
    coded = pl.from_arrow(ROWS).with_columns(pl.col("ill").cast(pl.Categorical)).lazy()  # type: ignore[union-attr]
    mixed = [
        frame.with_columns(pl.col("ill").max()),
        frame.filter(pl.col("ill") == pl.col("ill").max()),
        frame.select(pl.col("ill").shift()),
        frame.select(pl.col("ill").over("smoker")),
        frame.unique(),
        frame.group_by("ill").agg(pl.len()),
        frame.join(frame, on="ill"),
        frame.map_batches(lambda rows: rows),
        frame.filter(pl.Series([True] * 100)),
        frame.sort("ill").with_row_index(),
        pl.concat([frame, frame]),
        pl.scan_csv(tmp_path / "rows.csv"),
        pl.scan_parquet([tmp_path / "rows.parquet", tmp_path / "rows.parquet"]),
        pl.scan_parquet(tmp_path / "rows.parquet", row_index_name="n"),
        frame.select(pl.col("ill").cast(pl.Categorical)),
        coded.select(pl.col("ill").cast(pl.UInt32)),
        coded.select(pl.when(pl.col("smoker") == "no").then("ill").otherwise("ill").cast(pl.UInt32).alias("ill")),
        coded.filter(pl.col("ill") < pl.col("ill")),
        frame.filter(pl.col("ill").is_in(pl.col("smoker").implode())),
    ]
    assert relations_of(coded.select(pl.col("ill").cast(pl.String), pl.col("smoker"))) == every
    assert relations_of(coded.filter((pl.col("ill") == "no") & (pl.col("smoker") != "no"))) == {"add-remove"}
    for lazy in mixed:
        with pytest.raises(PrivacyError, match="the lazy polars frame is refused"):
            relations_of(lazy)
    assert relations_of(OneRecordPerRow(mixed[0])) == {"add-remove"}


def test_cursors_need_the_declaration_and_filtered_datasets_select() -> None:
    connection = sqlite3.connect(":memory:")
    cursor = connection.execute("SELECT 'no' AS ill UNION ALL SELECT 'yes'")
    try:
        with pytest.raises(PrivacyError, match="a statement that is not known"):
            count(cursor, SCHEMA, [("ill",)])
        (table,) = count(OneRecordPerRow(cursor), SCHEMA, [("ill",)])
        assert table.private_counts().tolist() == [1, 1]
        assert table.relations == {"add-remove"}
        assert table.declarations == ("the curator declares that each row of this source comes from one record",)
    finally:
        connection.close()
    dataset = pyarrow.dataset.dataset(ROWS)
    assert relations_of(dataset) == {"add-remove", "replace-one"}
    assert relations_of(dataset.filter(pc.field("ill") == "yes")) == {"add-remove"}


def test_datasets_read_each_file_once(tmp_path: Path) -> None:
    for name in ("a", "b"):
        pq.write_table(ROWS, tmp_path / f"{name}.parquet")
    (tmp_path / "soft.parquet").symlink_to(tmp_path / "a.parquet")
    (tmp_path / "hard.parquet").hardlink_to(tmp_path / "a.parquet")

    def of(*names: str) -> Any:
        return pyarrow.dataset.dataset([str(tmp_path / f"{name}.parquet") for name in names])

    one, other = of("a"), of("b")
    both = pyarrow.dataset.dataset([one, other])
    assert count(both, SCHEMA, [("ill",)])[0].private_counts().sum() == 200
    for twice in (pyarrow.dataset.dataset([one, one]), of("a", "soft"), of("a", "hard"), of("soft", "hard")):
        with pytest.raises(SourceError, match="more than once"):
            count(twice, SCHEMA, [("ill",)])
    with pytest.raises(SourceError, match="no files"):
        count(pyarrow.dataset.dataset([pyarrow.dataset.dataset(ROWS)] * 2), SCHEMA, [("ill",)])


# -- declarations ------------------------------------------------------------------------------------------------------


def test_a_declared_statement_runs_as_it_is(base: Any) -> None:
    declared = Query(MIXED, base, one_record_per_row=True)
    with pytest.raises(PrivacyError, match="a join"):
        count(Query(MIXED, base), SCHEMA, [("ill",)])
    (table,) = count(declared, SCHEMA, [("ill",)])
    assert table.private_counts().sum() == len(base.execute(MIXED).fetchall())
    # Nothing is known of it, so the number of its rows may be private.
    assert relations_of(declared) == {"add-remove"}
    assert relations_of(Query(MIXED, base, public_size=True, one_record_per_row=True)) == {"add-remove", "replace-one"}


@pytest.mark.parametrize(
    "sql",
    [
        f"{MIXED} LIMIT 5",
        f"{MIXED} /**/limit/**/5",
        "SELECT ill+0.limit 10",
        "SELECT DISTINCT/**/ON (ill) ill FROM rows",
        "SELECT sum(ill) FROM (SELECT ill FROM rows OFFSET 3)",
        "SELECT max(ill) FROM rows USING SAMPLE 3",
        "this is no SQL and may FETCH anything",
    ],
)
def test_a_declared_statement_that_may_cut(sql: str) -> None:
    assert "add-remove" not in Query(sql, one_record_per_row=True).relations
    assert "add-remove" not in relations_of(Query(sql, one_record_per_row=True))


@pytest.mark.slow
def test_declarations_reach_the_certificate_word_for_word(base: Any) -> None:
    query = Query(MIXED, base, public_size=True, one_record_per_row=True)
    assert declarations_of(query) == (RECORD, SIZE)
    (table,) = count(query, SCHEMA, [("smoker", "ill")])
    (plain,) = count(Query("FROM rows", base), SCHEMA, [("smoker", "ill")])
    assert plain.declarations == ()
    for made in (table, table.margin(["ill"]), table + plain, plain + table, sum([table, table])):
        assert made.declarations == (RECORD, SIZE)  # type: ignore[union-attr]
    published = release(table, budget=BUDGET)
    model = NaiveBayes(schema=SCHEMA, budget=BUDGET).fit_source(query, target="ill").model_
    network = BayesianNetwork([("smoker", "ill")], SCHEMA, budget=BUDGET).fit(query).model
    for document in (published, model, network):
        again = type(document).from_json(document.to_json())
        assert again.certificate().declarations == (RECORD, SIZE)
        assert f"Declared by the curator:\n  - {RECORD}\n  - {SIZE}" in str(again.certificate())
    assert "Declared" not in str(release(plain, budget=BUDGET).certificate())


def test_releases_of_before_have_no_declarations() -> None:
    body = release([3, 4], budget=BUDGET).to_body()
    assert body.pop("declarations") == []
    assert Release.from_body(json.loads(json.dumps(body))).declarations == ()


def test_one_declaration_is_enough() -> None:
    with pytest.raises(InvalidArgument, match="one_record_per_row"):
        OneRecordPerRow(Query("SELECT 1"))
    with pytest.raises(InvalidArgument, match="sql"):
        Query(5)  # type: ignore[arg-type]
