"""Every source gives the counts of the slow twin, for every set of columns it can hold."""

from __future__ import annotations

import gzip
import json
import sqlite3

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv
import pyarrow.dataset
import pyarrow.parquet as pq
import pytest
from brute import SCHEMA, TABLES, as_arrow, assert_counts, cell, sample_rows

from simplexdp.counting import CellNumbers, Files, OneRecordPerRow, Query, count

ROWS = sample_rows(700)
ARROW = as_arrow(ROWS)


class OnlyCapsule:
    """A frame of a library nobody knows: it exports an Arrow stream and nothing else."""

    def __arrow_c_stream__(self, requested_schema=None):
        return ARROW.__arrow_c_stream__(requested_schema)


def _parquet(path, **options):
    pq.write_table(ARROW, path / "rows.parquet", **options)
    return path / "rows.parquet"


def _shards(path):
    for shard in range(3):
        pq.write_table(ARROW.slice(shard * 250, 250), path / f"rows-{shard}.parquet", row_group_size=64)
    return str(path / "rows-*.parquet")


def _spark_folder(path):
    _shards(path)
    (path / "_SUCCESS").touch()
    return path


def _csv(path, **options):
    # Empty strings and missing entries are one in a CSV file; the sample has no empty string.
    pyarrow.csv.write_csv(ARROW, path / "rows.csv", **options)
    return str(path / "rows.csv")


def _tsv_gz(path):
    file = path / "rows.tsv.gz"
    with gzip.open(file, "wb") as out:
        pyarrow.csv.write_csv(ARROW, out, pyarrow.csv.WriteOptions(delimiter="\t"))
    return file


def _semicolons(path):
    file = path / "rows.data"
    pyarrow.csv.write_csv(ARROW, file, pyarrow.csv.WriteOptions(delimiter=";"))
    return Files(file, format="csv", delimiter=";")


def _json(path, lines):
    records = [{name: str(v) if name == "day" and v else v for name, v in row.items()} for row in ARROW.to_pylist()]
    file = path / ("rows.ndjson" if lines else "rows.json")
    file.write_text("\n".join(map(json.dumps, records)) if lines else json.dumps(records))
    return file


def _sqlite(path):
    connection = sqlite3.connect(path / "rows.db")
    connection.execute("create table t (text text, whole integer, number real)")
    columns = [ROWS[name] for name in ("text", "whole", "number")]
    connection.executemany("insert into t values (?, ?, ?)", list(zip(*columns, strict=True)))
    return connection


def _sqlite_cursor(path):
    return OneRecordPerRow(_sqlite(path).execute("select number, whole, text from t"))


def _codes():
    return {
        column.name: np.array([cell(column, value) for value in ROWS[column.name]], np.int16)
        for column in SCHEMA.columns
    }


SOURCES = {
    "arrow table": lambda _: ARROW,
    "record batch": lambda _: ARROW.combine_chunks().to_batches()[0],
    "reader": lambda _: pa.RecordBatchReader.from_batches(ARROW.schema, ARROW.to_batches(max_chunksize=13)),
    "list of batches": lambda _: ARROW.to_batches(max_chunksize=100),
    "generator of batches": lambda _: iter(ARROW.to_batches(max_chunksize=1)),
    "list of tables": lambda _: [ARROW.slice(0, 300), ARROW.slice(300)],
    "dataset": lambda _: pyarrow.dataset.dataset(ARROW),
    "capsule": lambda _: OnlyCapsule(),
    "pandas": lambda _: ARROW.to_pandas(),
    "pandas objects": lambda _: pd.DataFrame(ROWS),
    "pandas arrow types": lambda _: ARROW.to_pandas(types_mapper=pd.ArrowDtype),
    "pandas nullable": lambda _: ARROW.to_pandas().convert_dtypes(),
    "pandas categorical": lambda _: ARROW.to_pandas().astype({"text": "category", "whole": "category"}),
    "polars": lambda _: pl.from_arrow(ARROW),
    "polars lazy": lambda _: pl.from_arrow(ARROW).lazy(),
    "polars categorical": lambda _: pl.from_arrow(ARROW).with_columns(pl.col("text").cast(pl.Categorical)),
    "duckdb relation": lambda _: duckdb.connect().from_arrow(ARROW),
    "duckdb query": lambda path: Query(f"select * from '{_parquet(path)}'"),
    "duckdb connection": lambda _: Query("from rows", duckdb.connect().register("rows", ARROW)),
    "parquet": _parquet,
    "parquet plain": lambda path: _parquet(path, use_dictionary=False, row_group_size=99),
    "parquet pages": lambda path: _parquet(path, data_page_size=64, dictionary_pagesize_limit=32),
    "parquet glob": _shards,
    "parquet list": lambda path: [_shards(path), _parquet(path)][:1],
    "parquet folder": _spark_folder,
    "csv": _csv,
    "csv quoted": lambda path: _csv(path, write_options=pyarrow.csv.WriteOptions(quoting_style="all_valid")),
    "tsv gzip": _tsv_gz,
    "csv of another kind": _semicolons,
    "json lines": lambda path: _json(path, True),
    "json array": lambda path: _json(path, False),
    "cursor": _sqlite_cursor,
    "db-api query": lambda path: Query("select * from t", _sqlite(path)),
    "cell numbers by name": lambda _: CellNumbers(_codes()),
    "cell numbers": lambda _: CellNumbers(np.stack(list(_codes().values()), axis=1)),
    "cell numbers by column": lambda _: CellNumbers(np.stack(list(_codes().values())).T),
}
LACKS = {"cursor": {"truth", "day"}, "db-api query": {"truth", "day"}}


@pytest.mark.filterwarnings("ignore::ResourceWarning")  # sqlite connections of the helpers above
@pytest.mark.parametrize("name", SOURCES)
def test_counts_equal_the_slow_twin(name, tmp_path):
    wanted = [table for table in TABLES if not LACKS.get(name, set()) & set(table)]
    calls = []
    tables = count(SOURCES[name](tmp_path), SCHEMA, wanted, progress=lambda *rows: calls.append(rows))
    assert_counts(tables, ROWS, SCHEMA, wanted)
    assert calls[-1][0] == 700
    assert calls[-1][1] in (None, 700)


@pytest.mark.parametrize("columns", TABLES)
def test_postgresql_through_adbc_and_psycopg(postgres, columns):
    import psycopg

    with psycopg.connect(postgres) as connection:
        connection.execute("create temp table t (text text, whole int, number float8, truth bool, day date)")
        rows = list(zip(*(ROWS[name] for name in SCHEMA.names), strict=True))
        with connection.cursor() as cursor:
            cursor.executemany("insert into t values (%s, %s, %s, %s, %s)", rows)
            cursor.execute("select * from t")
            assert_counts(count(OneRecordPerRow(cursor), SCHEMA, [columns]), ROWS, SCHEMA, [columns])
        assert_counts(count(Query("select * from t", connection), SCHEMA, [columns]), ROWS, SCHEMA, [columns])
        connection.execute("create table if not exists kept as select * from t")
    adbc = Query(f"select {', '.join(columns)} from kept", postgres)
    assert_counts(count(adbc, SCHEMA, [columns]), ROWS, SCHEMA, [columns])


def test_no_rows_give_tables_of_zeros(tmp_path):
    for source in (ARROW.slice(0, 0), [], pl.from_arrow(ARROW.slice(0, 0)), ARROW.slice(0, 0).to_pandas()):
        for table in count(source, SCHEMA, TABLES):
            assert not table.private_counts().any()
            assert table.shape == SCHEMA.shape(table.columns)
