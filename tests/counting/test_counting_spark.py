"""Spark, real: local in this process, and a cluster of two executors that do not have this library."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from brute import SCHEMA, TABLES, as_arrow, assert_counts, sample_rows

import simplexdp.counting
from simplexdp.counting import count
from simplexdp.errors import SourceError
from simplexdp.schema import Categories, Schema

# pyspark warns about newer pandas and leaves its own sockets open.
pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::ResourceWarning")

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
        count(frame, Schema.of(c=["a"]), [("c",)])
    assert SECRET not in str(caught.value)
    assert caught.value.__context__ is None


CLUSTER = """
import os, signal, sys, warnings
warnings.simplefilter("ignore")
sys.path[:0] = {paths!r}  # not PYTHONPATH: executors must not find the library
import pyarrow as pa
from pyspark.sql import SparkSession
from brute import SCHEMA, TABLES, as_arrow, assert_counts, sample_rows
from simplexdp.counting import count
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
print("counted")

def kill(batches):
    for _ in batches:
        daemon = os.getppid()
        executor = int(open(f"/proc/{{daemon}}/stat").read().rpartition(")")[2].split()[1])
        os.kill(executor, signal.SIGKILL)
    yield from ()

try:
    count(frame.mapInArrow(kill, frame.schema), SCHEMA, TABLES)
except SourceError as error:
    print(error)
"""


def test_a_cluster_without_the_library_and_an_executor_that_is_killed(tmp_path):
    if shutil.which("java") is None:
        pytest.skip("no Java on this machine")
    pyspark = pytest.importorskip("pyspark")
    paths = [str(Path(simplexdp.counting.__file__).parents[2]), str(Path(__file__).parent)]
    script = tmp_path / "cluster.py"
    script.write_text(CLUSTER.format(paths=paths))
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    environment |= {"PYSPARK_PYTHON": sys.executable, "SPARK_HOME": str(Path(pyspark.__file__).parent)}
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
