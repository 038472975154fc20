"""Counting on one core and on all of them, beside DuckDB and polars with the same number of threads.

    python -m benchmarks counting_cores [--rows N] [--threads N] [--quick]

Three requests (the tables of a naive Bayes classifier, the families of a network, all pairs of columns) from four
sources (Parquet, memory, CSV of digits, CSV of quoted strings). Every contender is asked for the same tables; DuckDB in
two ways, by grouping sets where they are not hundreds, and by one statement a table over rows that it has loaded;
polars lazily and over loaded rows. The fastest counts. Turns are interleaved and the least wall time of each is taken,
so that what else runs on the machine disturbs all alike; the load is printed. Each group of contenders runs in a
process of its own, because polars takes its number of threads when it is imported.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.csv
import pyarrow.parquet as pq

from . import counting_data as data

if TYPE_CHECKING:
    from simplexdp import Schema

REPEATS = 3
TWO_CORES, RIVALS, CSV_RIVALS = 0.7, 1.0, 1.1
"""What is wanted: wall time on two cores over that on one; ours over the faster rival's; from CSV over DuckDB's."""
COLUMNS = [*data.NAMES, "y"]
REQUESTS: dict[str, list[tuple[str, ...]]] = {
    "naive Bayes": [(name, "y") for name in data.NAMES],
    "network": [tuple(data.NAMES[i : i + 3]) for i in range(data.FEATURES - 2)],
    "all pairs": list(combinations(COLUMNS, 2)),
}
SIZES = {"parquet": 1, "memory": 4, "csv": 0.5, "strings csv": 0.25}
"""Rows of each source: about the same time."""


def declared(strings: bool) -> Schema:
    """The schema of the data, of digits or of words."""
    from simplexdp import Categories, Schema

    sizes = [*((name, data.VALUES) for name in data.NAMES), ("y", data.CLASSES)]
    values: dict[str, list[Any]] = {
        name: [f"{name}-value-{v}" for v in range(size)] if strings else list(range(size)) for name, size in sizes
    }
    if strings:
        values["y"] = ["no", "yes"]
    return Schema([Categories(each, name=name) for name, each in values.items()])


def place(folder: Path, source: str, rows: int) -> Path:
    """The file of a source, written once."""
    path = data.strings_file(folder, rows) if source == "strings csv" else data.codes_file(folder, rows)
    if source not in ("csv", "strings csv"):
        return path
    text = path.with_suffix(".csv")
    if not text.exists():
        pyarrow.csv.write_csv(pq.read_table(path), text)
    return text


def contenders(path: Path, source: str, request: str, threads: int) -> dict[str, Callable[[], object]]:
    """Calls that make the tables of a request; what is in memory is loaded before."""
    import duckdb
    import polars

    from simplexdp.counting import count

    tables, schema = REQUESTS[request], declared(source == "strings csv")
    held: Any = pq.read_table(path) if source == "memory" else None
    ours: Any = path if held is None else held
    frame: Any = None if held is None else polars.from_arrow(held)
    relation = f"'{path}'"
    memory = duckdb.connect(config={"threads": threads})
    if held is not None:
        memory.execute(f"CREATE TABLE held AS FROM '{path}'")

    def sets() -> object:
        wanted = ", ".join(f"({', '.join(names)})" for names in tables)
        used = ", ".join(dict.fromkeys(name for names in tables for name in names))
        statement = "SELECT {}, count(*) FROM {} GROUP BY GROUPING SETS ({})"
        return _duckdb(lambda on, rows: on.sql(statement.format(used, rows, wanted)).fetchall())

    def each() -> object:
        def run(on: Any, rows: str) -> object:
            if held is None:
                on.execute(f"CREATE TEMP TABLE loaded AS FROM {rows}")
                rows = "loaded"
            texts = [", ".join(names) for names in tables]
            return [on.sql(f"SELECT {names}, count(*) FROM {rows} GROUP BY {names}").fetchall() for names in texts]

        return _duckdb(run)

    def _duckdb(work: Callable[[Any, str], object]) -> object:
        if held is not None:
            return work(memory, "held")
        with duckdb.connect(config={"threads": threads}) as connection:
            return work(connection, relation)

    def lazy() -> object:
        scan = {"parquet": polars.scan_parquet}.get(source, polars.scan_csv)
        rows = scan(path) if frame is None else frame.lazy()
        return polars.collect_all([rows.group_by(list(names)).len() for names in tables])

    def loaded() -> object:
        read = {"parquet": polars.read_parquet}.get(source, polars.read_csv)
        rows = read(path) if frame is None else frame
        return polars.collect_all([rows.lazy().group_by(list(names)).len() for names in tables])

    found: dict[str, Callable[[], object]] = {
        "one thread": lambda: count(ours, schema, tables, threads=1),
        "all threads": lambda: count(ours, schema, tables, threads=threads),
        "DuckDB, each": each,
        "polars, loaded": loaded,
    }
    if len(tables) < 50:  # hundreds of grouping sets take DuckDB minutes
        found["DuckDB, sets"] = sets
    if source != "memory":
        found["polars, lazy"] = lazy
    return found


def measure(calls: dict[str, Callable[[], object]], repeats: int) -> dict[str, list[float]]:
    """The least wall and CPU seconds of each, in turns."""
    for call in calls.values():  # imports and caches of files
        call()
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in calls}
    for _ in range(repeats):
        for name, call in calls.items():
            wall, cpu = time.perf_counter(), time.process_time()
            call()
            found[name].append((time.perf_counter() - wall, time.process_time() - cpu))
    return {name: [min(w for w, _ in each), min(c for _, c in each)] for name, each in found.items()}


def compare(folder: Path, rows: int, threads: int, repeats: int = REPEATS) -> list[str]:
    """Print every cell; what was missed."""
    missed = []
    print(f"\n{rows:,} rows × {len(COLUMNS)} columns, {threads} threads, wall seconds (CPU); load {os.getloadavg()}")
    environment = {**os.environ, "POLARS_MAX_THREADS": str(threads)}
    for source in SIZES:
        for request in REQUESTS:
            size = int(rows * SIZES[source])
            place(folder, source, size)
            command = [sys.executable, "-m", "benchmarks.counting_cores", "--child", source, request]
            command += ["--folder", str(folder), "--rows", str(size), "--threads", str(threads)]
            command += ["--repeats", str(repeats)]
            done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
            missed += _show(f"{request} from {source}", json.loads(done.stdout.splitlines()[-1]), source)
    print(f"load at the end {os.getloadavg()}")
    return missed


def _show(title: str, found: dict[str, list[float]], source: str) -> list[str]:
    ours, one = found["all threads"][0], found["one thread"][0]
    asked = "DuckDB" if "csv" in source else ("DuckDB", "polars")
    rival, least = min((each[0], name) for name, each in found.items() if name.startswith(asked))[::-1]
    wanted = CSV_RIVALS if "csv" in source else RIVALS
    times = ", ".join(f"{name} {wall:.3f} ({cpu:.3f})" for name, (wall, cpu) in found.items())
    verdicts = {
        f"of one thread {ours / one:.2f}, wanted {TWO_CORES}": ours / one <= TWO_CORES,
        f"of {rival} {ours / least:.2f}, wanted {wanted}": ours / least <= wanted,
    }
    print(f"  {title}: {times}")
    print("    " + "; ".join(f"{text}: {'met' if met else 'MISSED'}" for text, met in verdicts.items()))
    return [f"{title}: {text}" for text, met in verdicts.items() if not met]


def main(arguments: list[str] | None = None) -> int:
    """Parse and run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=4_000_000)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=REPEATS)
    parser.add_argument("--quick", action="store_true", help="a tenth of the rows")
    parser.add_argument("--folder", type=Path, help="where the data are kept; default: a temporary folder")
    parser.add_argument("--child", nargs=2, metavar=("SOURCE", "REQUEST"))
    options = parser.parse_args(arguments)
    if options.child:
        source, request = options.child
        calls = contenders(place(options.folder, source, options.rows), source, request, options.threads)
        print(json.dumps(measure(calls, options.repeats)))
        return 0
    rows = options.rows // 10 if options.quick else options.rows
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        missed = compare(folder, rows, options.threads, options.repeats)
    print("\nAll targets met." if not missed else "\nMissed:\n  " + "\n  ".join(missed))
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
