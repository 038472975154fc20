"""Bad input names file, column and rule, never a value, and leaves nothing half done."""

from __future__ import annotations

import contextlib
import datetime as dt
import gc
import os
import subprocess
import sys
import traceback
import warnings
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from brute import SCHEMA, as_arrow, assert_counts, sample_rows

import simplexdp
from simplexdp.counting import Files, Query, count
from simplexdp.errors import InvalidArgument, PrivacyError, SourceError
from simplexdp.schema import Categories, Numeric, Schema

SECRET = "Zaphod-4711"
LIBRARY = str(Path(simplexdp.__file__).parent)


def refused(source, schema, tables=(("c",),), **about) -> str:
    """The message of the error; no part of the error may hold the secret."""
    with pytest.raises(SourceError) as caught:
        count(source, schema, tables, **about)
    error = caught.value
    assert error.__context__ is None
    assert error.__cause__ is None
    assert SECRET not in "".join(traceback.format_exception(error))
    frame = error.__traceback__
    while frame is not None:  # no frame below the door of count is kept: those hold rows
        inside = frame.tb_frame
        assert not inside.f_code.co_filename.startswith(LIBRARY) or set(inside.f_locals) <= {
            "function",
            "known",
            "bare",
        }
        frame = frame.tb_next
    return str(error)


TEXT = Schema.of(c=["a", "b"])
WHOLE = Schema.of(c=[1, 2])
NUMBER = Schema([Numeric([0, 1], name="c")])


@pytest.mark.parametrize(
    ("schema", "values", "rule"),
    [
        (TEXT, ["a", SECRET], "not declared"),
        (TEXT, ["a", None], "missing entries"),
        (WHOLE, [1, 3], "not declared"),
        (WHOLE, [1, None], "missing entries"),
        (NUMBER, [0.5, 4711.0], "outside its edges"),
        (NUMBER, [0.5, float("nan")], "missing entries"),
        (Schema.of(c=[True]), [True, False], "not declared"),
        (Schema.of(c=[dt.date(2020, 1, 1)]), [dt.date(2020, 1, 2)], "not declared"),
    ],
)
def test_a_broken_rule_is_named(schema, values, rule, tmp_path):
    table = pa.table({"c": values})
    pq.write_table(table, tmp_path / "rows.parquet")
    for source in (table, table.to_pandas(), duckdb.connect().from_arrow(table)):
        message = refused(source, schema)
        assert "'c'" in message
        assert rule in message
    assert "rows.parquet: column 'c'" in refused(tmp_path / "rows.parquet", schema)


def test_a_dictionary_may_hold_what_no_row_does():
    words = pa.DictionaryArray.from_arrays(pa.array([0, 0]), pa.array(["a", SECRET, None]))
    assert count(pa.table({"c": words}), TEXT, [("c",)])[0].private_counts().tolist() == [2, 0]


def _file(path, name, text):
    (path / name).write_text(text)
    return path / name


def test_missing_columns(tmp_path, postgres):
    table = pa.table({"d": ["a"], "e": [1]})
    pq.write_table(table, tmp_path / "rows.parquet")
    connection = duckdb.connect()
    sources = [
        *(table, table.to_batches(), table.to_pandas(), tmp_path / "rows.parquet"),
        *(connection.from_arrow(table), Query("select 1 as d"), Query("select 1 as d", postgres)),
        _file(tmp_path, "rows.csv", "d,e\na,1\n"),
        _file(tmp_path, "empty.csv", ""),
    ]
    for source in sources:
        assert "column 'c' is missing" in refused(source, TEXT)
    assert "column 'who' is missing" in refused(
        pa.table({"c": ["a"]}), TEXT, rows_per_person=1, person="who", entropy=np.random.default_rng()
    )


def test_columns_that_are_there_twice(tmp_path):
    table = pa.Table.from_arrays([pa.array(["a"]), pa.array(["a"])], names=["c", "c"])
    frame = pd.DataFrame([["a", "b"]], columns=["c", "c"])
    for source in (table, frame, _file(tmp_path, "rows.csv", "c,c\na,b\n")):
        assert "more than once" in refused(source, TEXT)


def test_files_that_are_not_there_or_not_known(tmp_path):
    assert "no such file" in refused(tmp_path / "nope.parquet", TEXT)
    assert "no file matches" in refused(str(tmp_path / "*.csv"), TEXT)
    assert "ending" in refused(_file(tmp_path, "rows.xlsx", "c"), TEXT)
    assert "format" in refused(Files(_file(tmp_path, "rows.csv", "c\na"), format="xml"), TEXT)


@pytest.mark.parametrize("keep", [3, 100, 0.5, 0.9])
def test_truncated_parquet(tmp_path, keep):
    path = tmp_path / "rows.parquet"
    pq.write_table(pa.table({"c": ["a", SECRET] * 5000}), path)
    raw = path.read_bytes()
    path.write_bytes(raw[: keep if keep > 1 else int(keep * len(raw))])
    message = refused(path, Schema([Categories(["a"], name="c", other="cell")]))
    assert str(path) in message
    assert "truncated" in message


def test_damaged_parquet_pages(tmp_path):
    path = tmp_path / "rows.parquet"
    pq.write_table(pa.table({"c": [f"{SECRET}-{i}" for i in range(5000)]}), path, compression="gzip")
    raw = bytearray(path.read_bytes())
    raw[50 : len(raw) // 3] = os.urandom(len(raw) // 3 - 50)
    path.write_bytes(bytes(raw))
    assert str(path) in refused(path, Schema([Categories(["a"], name="c", other="cell")]))


def test_the_second_of_two_files_is_named(tmp_path):
    pq.write_table(pa.table({"c": ["a"]}), tmp_path / "1.parquet")
    pq.write_table(pa.table({"c": [1]}), tmp_path / "2.parquet")
    message = refused(str(tmp_path / "*.parquet"), TEXT)
    assert "2.parquet: column 'c' is declared with strings and has the type int64" in message


def test_text_files_with_the_wrong_content(tmp_path):
    path = _file(tmp_path, "rows.csv", f"c,d\n1,x\n{SECRET},y\n")
    assert f"{path}: column 'c' is declared with integers" in refused(path, WHOLE)
    refused(_file(tmp_path, "ragged.csv", f"c,d\na,b\n{SECRET}\n"), TEXT)
    refused(_file(tmp_path, "open.csv", f'c,d\na,"b{SECRET}\n'), TEXT)
    refused(_file(tmp_path, "rows.json", f'[{{"c": "{SECRET}"}}, {{"c": '), TEXT)
    refused(_file(tmp_path, "type.json", f'[{{"c": 1}}, {{"c": "{SECRET}"}}]'), WHOLE)
    refused(_file(tmp_path, "bytes.parquet", SECRET), TEXT)


def test_a_fraction_in_a_text_file_is_not_rounded(tmp_path):
    assert "not declared" in refused(_file(tmp_path, "rows.csv", "c\n1\n1.5\n"), WHOLE)
    assert "not declared" in refused(_file(tmp_path, "rows.json", '[{"c": 1}, {"c": 1.5}]'), WHOLE)


def test_leading_zeros_are_text_when_text_is_declared(tmp_path):
    path = _file(tmp_path, "rows.csv", "c\n01\n1\n01\n")
    assert count(path, Schema.of(c=["01", "1"]), [("c",)])[0].private_counts().tolist() == [2, 1]


def test_queries_and_frames_that_fail(tmp_path, postgres):
    refused(Query(f"select '{SECRET}'::int as c"), WHOLE)
    for sql in (f"selec {SECRET}", "create table t (c int)"):
        with pytest.raises(PrivacyError, match="one_record_per_row"):
            count(Query(sql), WHOLE, [("c",)])
        refused(Query(sql, one_record_per_row=True), WHOLE)
    refused(Query(f"select '{SECRET}'::int as c", postgres), WHOLE)
    refused(Query("select 1 as c", "postgresql://nobody@/nothing?host=/nowhere"), WHOLE)
    refused(Query("select 1 as c", "mysql://host"), WHOLE)
    refused(Query("select 1 as c", 5), WHOLE)
    refused(pd.DataFrame({"c": ["a", 5, SECRET]}), TEXT)
    refused([pa.record_batch({"c": ["a"]}), SECRET], TEXT)


def test_a_stream_that_breaks():
    def broken():
        yield pa.record_batch({"c": ["a"]})
        raise RuntimeError(SECRET)

    assert "could not be read to the end (RuntimeError)" in refused(broken(), TEXT)


def test_things_that_are_no_source():
    for source in (5, None, object()):
        with pytest.raises(InvalidArgument, match="source"):
            count(source, TEXT, [("c",)])


def test_an_interruption_closes_what_was_open(tmp_path):
    rows = sample_rows(2000)
    path = tmp_path / "rows.parquet"
    pq.write_table(as_arrow(rows), path, row_group_size=100)

    def stop(done, total):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        count(path, SCHEMA, [("text",)], progress=stop)
    gc.collect()
    assert path not in open_files()
    connection = duckdb.connect()
    relation = connection.from_arrow(as_arrow(rows))
    with pytest.raises(KeyboardInterrupt):
        count(relation, SCHEMA, [("text",)], progress=stop)
    assert connection.execute("select 1").fetchall() == [(1,)]
    assert_counts(count(path, SCHEMA, [("text",)]), rows, SCHEMA, [("text",)])


def open_files() -> set[Path]:
    found = set()
    for link in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):  # the folder's own descriptor is gone by now
            found.add(link.readlink())
    return found


def test_counting_in_a_forked_process(tmp_path):
    rows = sample_rows(500)
    path = tmp_path / "rows.parquet"
    pq.write_table(as_arrow(rows), path)
    csv = tmp_path / "rows.csv"
    as_arrow(rows).to_pandas().astype({"whole": "Int64"}).to_csv(csv, index=False)
    expected = count(path, SCHEMA, [("text", "day")])
    count(csv, SCHEMA, [("text", "day")])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # forking with threads around is what is tested
        child = os.fork()
    if child == 0:
        status = 1
        try:
            for source in (path, csv):
                again = count(source, SCHEMA, [("text", "day")])
                assert (again[0].private_counts() == expected[0].private_counts()).all()
            status = 0
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


ENGINES = {
    "duckdb",
    "polars",
    "pyspark",
    "adbc_driver_postgresql",
    "adbc_driver_manager",
    "psycopg",
    "sqlite3",
    "sqlglot",
}
USES = {
    "import simplexdp.counting": set(),
    "count(np.zeros((3, 1), np.uint8), schema, tables)": set(),
    "count(pa.table({'c': ['a']}), schema, tables)": set(),
    "pq.write_table(pa.table({'c': ['a']}), 'r.parquet'); count('r.parquet', schema, tables)": set(),
    "open('r.csv', 'w').write('c\\na\\n'); count('r.csv', schema, tables)": set(),
    "open('r.json', 'w').write('[]'); count('r.json', schema, tables)": {"duckdb"},
    "import polars; count(polars.DataFrame({'c': ['a']}), schema, tables)": {"polars"},
    "import sqlite3 as s; r = s.connect(':memory:').execute('select 1 as c'); "
    "count(OneRecordPerRow(r), Schema.of(c=[1]), tables)": {"sqlite3"},
    "count(Query('select 1 as c'), Schema.of(c=[1]), tables)": {"duckdb", "sqlglot"},
    "import pandas; count(pandas.DataFrame({'c': ['a']}), schema, tables)": set(),
}


@pytest.mark.slow
@pytest.mark.parametrize("use", USES)
def test_one_engine_does_not_import_another(use, tmp_path):
    script = f"""
import sys, numpy as np, pyarrow as pa, pyarrow.parquet as pq
from simplexdp.counting import OneRecordPerRow, Query, count
from simplexdp.schema import Schema
schema, tables = Schema.of(c=["a", "b"]), [("c",)]
{use}
print(*sorted({ENGINES!r} & set(sys.modules)))
"""
    path = os.pathsep.join(filter(None, sys.path))
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=True,
    )
    assert set(done.stdout.split()) == USES[use]
