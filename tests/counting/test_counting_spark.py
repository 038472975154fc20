"""Spark, real: local in this process, and a cluster of two executors that do not have this library."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from brute import SCHEMA, TABLES, as_arrow, assert_counts, sample_rows

import simplexdp.counting
from simplexdp.counting import OneRecordPerRow, Query, count, relations_of
from simplexdp.errors import PrivacyError, SourceError
from simplexdp.private.counting import can_be_read_again
from simplexdp.schema import Categories, Schema

# pyspark warns about newer pandas and leaves its own sockets open.
pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::ResourceWarning"),
]

ROWS = sample_rows(700)
SECRET = "Zaphod-4711"


def test_counts_equal_the_slow_twin(spark, tmp_path):
    import pyarrow.parquet as pq

    pq.write_table(as_arrow(ROWS), tmp_path / "rows.parquet")
    for source in (spark.createDataFrame(as_arrow(ROWS)).repartition(3), spark.read.parquet(str(tmp_path))):
        calls: list[tuple[int, int | None]] = []
        tables = count(source, SCHEMA, TABLES, progress=lambda *rows, calls=calls: calls.append(rows))
        assert_counts(tables, ROWS, SCHEMA, TABLES)
        assert calls == [(700, 700)]


def test_transformed_columns_count_as_elsewhere(spark):
    import datetime

    day = datetime.datetime(2024, 2, 29, 23, 30)
    rows = pa.table({"x": [" M", "f", "?", None], "t": pa.array([day, day, None, day], pa.timestamp("us"))})
    schema = Schema.of(
        x=Categories(["female", "male"], missing="cell", transform=["trim", "fold", SPELLED]),
        t=Categories([1, 2, 3], missing="cell", transform={"part": "month"}),
    )
    for names in (["x"], ["t"], ["x", "t"]):
        (here,), (there,) = (count(source, schema, [names]) for source in (rows, spark.createDataFrame(rows)))
        assert (here.private_counts() == there.private_counts()).all()
        assert here.private_counts().sum() == 4


SPELLED = {"map": {"m": "male", "f": "female", "?": None}}


def test_many_chunks_and_names_with_dots(spark):
    values = list(range(400))
    schema = Schema([Categories(values, name="a.b"), Categories(values, name="c`d")])
    draw = np.random.default_rng(0).integers(0, 400, (2, 300))
    frame = spark.createDataFrame(pa.table({"a.b": draw[0], "c`d": draw[1]}))
    counts = count(frame, schema, [("a.b", "c`d")])[0].private_counts()
    expected = np.zeros((400, 400), int)
    np.add.at(expected, tuple(draw), 1)
    assert np.array_equal(counts, expected)


def test_a_bound_on_the_rows_of_each_person(spark):
    persons = sorted(set(ROWS["person"]))
    schema = Schema([Categories(persons, name="person")])
    frame = spark.createDataFrame(as_arrow(ROWS)).repartition(3)
    table = count(frame, schema, [("person",)], rows_per_person=2, person="person", entropy=np.random.default_rng(0))[0]
    seen = Counter(ROWS["person"])
    assert table.private_counts().tolist() == [min(2, seen[person]) for person in persons]
    assert table.unit == "person"


def test_errors_name_the_rule_and_not_the_value(spark):
    frame = spark.createDataFrame(pa.table({"c": ["a", SECRET]}))
    with pytest.raises(SourceError, match="column 'c' has values that are not declared") as caught:
        count(frame, Schema.of(c=["a"]), [("c",)])
    assert SECRET not in str(caught.value)
    with pytest.raises(SourceError, match="declared with integers and has the type string"):
        count(frame, Schema.of(c=[1]), [("c",)])
    with pytest.raises(SourceError, match="column 'd' is missing"):
        count(frame, Schema.of(d=[1]), [("d",)])


def test_a_worker_that_dies(spark):
    def die(batches):
        for _ in batches:
            os._exit(1)
        yield from ()

    frame = spark.createDataFrame(pa.table({"c": ["a", SECRET]})).mapInArrow(die, "c string")
    with pytest.raises(SourceError, match="the job did not finish") as caught:
        count(OneRecordPerRow(frame), Schema.of(c=["a"]), [("c",)])
    assert SECRET not in str(caught.value)
    assert caught.value.__context__ is None


def test_plans_are_checked(spark, tmp_path):
    from pyspark.sql import Window
    from pyspark.sql import functions as sql

    every = {"add-remove", "replace-one"}
    frame = spark.createDataFrame(as_arrow(ROWS))
    frame.createOrReplaceTempView("rows")
    for part in ("north", "south"):
        frame.write.parquet(str(tmp_path / part))
    north, south = (spark.read.parquet(str(tmp_path / part)) for part in ("north", "south"))
    assert relations_of(frame.select("text", (sql.col("whole") + 1).alias("whole")).repartition(2)) == every
    assert relations_of(frame.withColumn("text", sql.upper(sql.trim("text"))).orderBy("whole")) == every
    assert relations_of(frame.filter("whole > 1 and text in ('a', 'b')")) == {"add-remove"}
    assert relations_of(north) == relations_of(north.union(south)) == every
    assert relations_of(Query("SELECT text, coalesce(whole, 0) AS whole FROM rows WHERE truth", spark)) == {
        "add-remove"
    }
    tables = [("text",)]
    assert_counts(count(Query("SELECT text FROM rows -- all", spark), SCHEMA, tables), ROWS, SCHEMA, tables)
    assert not can_be_read_again(Query("SELECT text FROM rows", spark))
    spark.sql("CREATE OR REPLACE TEMP VIEW most AS SELECT max(whole) AS whole FROM rows")
    with pytest.raises(PrivacyError, match="what Spark plans as Aggregate"):
        relations_of(Query("SELECT whole FROM most", spark))
    spark.udf.register("upper", lambda _: "x")  # the function of Spark goes first
    assert relations_of(frame.selectExpr("upper(text) as text")) == every
    spark.udf.register("mine", lambda text: text)
    mixed = [
        frame.groupBy("text").count(),
        frame.distinct(),
        frame.dropDuplicates(["text"]),
        frame.join(frame.select("text"), "text"),
        frame.union(frame),
        north.union(north),
        north.select("_metadata.row_index"),
        frame.sample(0.5),
        frame.limit(10),
        frame.orderBy("whole").limit(10),
        frame.withColumn("n", sql.row_number().over(Window.orderBy("whole"))),
        frame.withColumn("n", sql.monotonically_increasing_id()),
        frame.withColumn("n", sql.rand()),
        frame.withColumn("n", sql.explode(sql.array("whole", "whole"))),
        frame.withColumn("n", sql.udf(lambda x: x)("text")),
        frame.selectExpr("(select max(whole) from rows) as whole"),
        frame.filter("whole in (select max(whole) from rows)"),
        frame.selectExpr("mine(text) as text"),
        frame.mapInArrow(lambda batches: batches, frame.schema),
        spark.range(5),
    ]
    for source in mixed:
        with pytest.raises(PrivacyError, match="the Spark frame is refused"):
            relations_of(source)
        assert relations_of(OneRecordPerRow(source)) == {"add-remove"}
    for name in ("upper", "mine"):
        spark.sql(f"DROP TEMPORARY FUNCTION IF EXISTS {name}")


CLUSTER = """
import os, signal, sys, warnings
warnings.simplefilter("ignore")
sys.path[:0] = {paths!r}  # not PYTHONPATH: executors must not find the library
import pyarrow as pa
from pyspark.sql import SparkSession
from brute import SCHEMA, TABLES, as_arrow, assert_counts, sample_rows
from simplexdp.counting import OneRecordPerRow, count
from simplexdp.errors import SourceError

builder = SparkSession.builder.master("local-cluster[2,1,512]")
for key, value in {{
    "spark.ui.enabled": "false",
    "spark.executor.memory": "512m",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.task.maxFailures": "1",
    "spark.sql.shuffle.partitions": "2",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",  # short jobs: compile little
    "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1",
}}.items():
    builder = builder.config(key, value)
session = builder.getOrCreate()
session.sparkContext.setLogLevel("OFF")
rows = sample_rows(500)
frame = session.createDataFrame(as_arrow(rows)).repartition(4)

def look(batches):
    import importlib.util
    for _ in batches:
        pass
    found = importlib.util.find_spec("simplexdp") is not None
    yield pa.record_batch({{"found": [found], "pid": [os.getppid()]}})

seen = frame.mapInArrow(look, "found boolean, pid long").collect()
assert not any(row["found"] for row in seen), "the executors have the library; the test would show nothing"
assert len({{row["pid"] for row in seen}}) == 2, "one executor only"
assert_counts(count(frame, SCHEMA, TABLES), rows, SCHEMA, TABLES)
from simplexdp.schema import Categories, Schema
messy = session.createDataFrame(pa.table({{"x": [" M", "f", "?", None]}})).repartition(2)
steps = ["trim", "fold", {{"map": {{"m": "male", "f": "female", "?": None}}}}]
cleaned = Schema.of(x=Categories(["female", "male"], missing="cell", transform=steps))
assert count(messy, cleaned, [("x",)])[0].private_counts().tolist() == [1, 1, 2]
print("counted")

def kill(batches):
    for _ in batches:
        daemon = os.getppid()
        executor = int(open(f"/proc/{{daemon}}/stat").read().rpartition(")")[2].split()[1])
        os.kill(executor, signal.SIGKILL)
    yield from ()

try:
    count(OneRecordPerRow(frame.mapInArrow(kill, frame.schema)), SCHEMA, TABLES)
except SourceError as error:
    print(error)
"""


def test_a_cluster_without_the_library_and_an_executor_that_is_killed(tmp_path):
    if shutil.which("java") is None:
        pytest.skip("no Java on this machine")
    pyspark = pytest.importorskip("pyspark")
    paths = [str(Path(simplexdp.private.counting.__file__).parents[2]), str(Path(__file__).parent)]
    script = tmp_path / "cluster.py"
    script.write_text(CLUSTER.format(paths=paths))
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    # Without `site` no .pth file is read, and an editable installation is in one.
    python, packages = tmp_path / "python", sysconfig.get_path("purelib")
    lines = ["#!/bin/sh", f'export PYTHONPATH="$PYTHONPATH:{packages}"', f'exec "{sys.executable}" -S "$@"', ""]
    python.write_text("\n".join(lines))
    python.chmod(0o755)
    environment |= {"PYSPARK_PYTHON": str(python), "SPARK_HOME": str(Path(pyspark.__file__).parent)}
    environment["PYSPARK_DRIVER_PYTHON"] = sys.executable
    done = subprocess.run(
        [sys.executable, str(script)],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=240,
    )
    if "the executors have the library" in done.stderr:
        pytest.skip("the library is installed where executors find it")
    assert done.returncode == 0, done.stderr[-2000:]
    assert "counted" in done.stdout
    assert "the Spark frame: the job did not finish" in done.stdout


def test_private_quantiles_keep_the_frame_for_rows_and_have_one_pass_for_persons(spark):
    from simplexdp import Budget, release_distribution
    from simplexdp.schema import Quantiles

    rows = pa.table({"x": np.linspace(0, 1, 900), "who": [i // 3 for i in range(900)]})
    frame = spark.createDataFrame(rows).repartition(3)
    schema, budget = Schema.of(x=Quantiles(4, lower=0, upper=1)), Budget(epsilon=8, delta=1e-6)
    made = release_distribution(frame, schema, ["x"], budget=budget)
    assert made.total == 900
    assert np.abs(made.probabilities - 0.25).max() < 0.1
    assert not frame.is_cached
    settings = {"budget": budget, "neighbours": "add-remove", "rows_per_person": 2, "person": "who"}
    with pytest.raises(SourceError, match="Spark may keep other rows"):
        release_distribution(frame, schema, ["x"], **settings)
