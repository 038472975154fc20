"""What a row costs on Spark: CPU of the whole process tree for two sizes, and what travels.

python -m benchmarks.counting_spark [--folder FOLDER]

The difference between the two sizes is the cost of the rows; start-up and compilation cancel.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
import warnings
from pathlib import Path

import psutil

from . import counting_data as data
from .counting import TABLES, schema


def _cpu() -> float:
    """CPU seconds of this process and all below it, those that have ended included."""
    total = 0.0
    for process in [psutil.Process(), *psutil.Process().children(recursive=True)]:
        times = process.cpu_times()
        total += times.user + times.system
        if process.pid != os.getpid():
            total += times.children_user + times.children_system
    return total


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path)
    options = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    os.environ["PYSPARK_PYTHON"] = sys.executable
    from pyspark.sql import SparkSession

    from simplexdp.counting import count

    with tempfile.TemporaryDirectory() as temporary:
        path = data.codes_file(options.folder or Path(temporary), 10_000_000)
        builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
        session = builder.config("spark.python.worker.reuse", "true").getOrCreate()
        session.sparkContext.setLogLevel("OFF")
        declared, costs = schema(), {}
        for files in (1, 1, 5):  # the first warms up
            frame = session.read.parquet(*[str(path)] * files)
            start, wall = _cpu(), time.perf_counter()
            tables = count(frame, declared, TABLES)
            costs[files] = _cpu() - start
            rows = files * 10_000_000
            print(f"{rows:>12,} rows: {costs[files]:6.1f} s CPU, {time.perf_counter() - wall:6.1f} s by the clock")
        session.stop()
    each = (costs[5] - costs[1]) / 40_000_000
    size = 8 * sum(table.size for table in tables)
    print(f"{each * 1e9:.0f} ns CPU a row of 21 columns; {size:,} bytes of tables from each partition and in all")
    return 0


if __name__ == "__main__":
    sys.exit(main())
