"""Drawing records of a network of 15 columns beside writing them to Parquet: `python -m benchmarks records`.

    python -m benchmarks records [--rows N] [--quick]

Wall time and CPU of drawing alone, of writing what was drawn, and of both together (`write_synthetic_records`), in one
run. Wanted: drawing takes at most 1.5 times as long as writing.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

from simplexdp import Budget, CellNumbers, Schema
from simplexdp.network import BayesianNetwork
from simplexdp.synthetic import synthetic_records, write_synthetic_records

COLUMNS, SIZES, WANTED, REPEATS = 15, (2, 3, 4, 5, 8), 1.5, 3


def timed(call: Callable[[], object]) -> tuple[float, float]:
    """The least wall and CPU seconds."""
    found = []
    for _ in range(REPEATS):
        wall, cpu = time.perf_counter(), time.process_time()
        call()
        found.append((time.perf_counter() - wall, time.process_time() - cpu))
    return min(wall for wall, _ in found), min(cpu for _, cpu in found)


def main(arguments: list[str] | None = None) -> int:
    """Fit once on made-up rows, draw, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--quick", action="store_true", help="a tenth of the records")
    options = parser.parse_args(arguments)
    rows = options.rows // 10 if options.quick else options.rows
    draw = np.random.default_rng(0)
    sizes = {f"c{i}": SIZES[i % len(SIZES)] for i in range(COLUMNS)}
    names = list(sizes)
    schema = Schema.of(**{name: [f"{name}-{value}" for value in range(size)] for name, size in sizes.items()})
    source = CellNumbers({name: draw.integers(0, size, 20_000) for name, size in sizes.items()})
    edges = [(names[i - step], names[i]) for step in (1, 2) for i in range(step, COLUMNS)]
    model = BayesianNetwork(edges, schema, budget=Budget(epsilon=1.0, delta=1e-6)).fit(source).model

    def drawn() -> None:
        for _ in synthetic_records(model, rows, seed=1):
            pass

    held = synthetic_records(model, min(rows, 1_000_000), seed=1).read_all()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "records.parquet"

        def written() -> None:
            with pq.ParquetWriter(path, held.schema) as writer:
                for _ in range(max(1, rows // held.num_rows)):
                    for batch in held.to_batches():
                        writer.write_batch(batch)

        times = {"drawing": timed(drawn), "writing": timed(written)}
        times["both"] = timed(lambda: write_synthetic_records(model, rows, path, seed=1))
    for name, (wall, cpu) in times.items():
        print(f"{name:<10}{wall:8.3f} s, {cpu:8.3f} s CPU for {rows:,} records of {COLUMNS} columns")
    ratio = times["drawing"][0] / times["writing"][0]
    print(f"drawing takes {ratio:.2f} × writing, wanted {WANTED}: {'met' if ratio <= WANTED else 'MISSED'}")
    print(f"both take {times['both'][0] / times['writing'][0]:.2f} × writing")
    return 0 if ratio <= WANTED else 1


if __name__ == "__main__":
    raise SystemExit(main())
