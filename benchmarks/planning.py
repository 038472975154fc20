"""What planning and the estimate of a network cost, in seconds of a processor and as ratios measured in one run.

    python -m benchmarks planning [--quick]
    python -m benchmarks planning --against COMMIT    # one large table, beside the code of another commit

Wanted: a plan of 55 tables in 2 s, one of 500 tables in 5 s, one with twelve different noises in 1 s, rivals left out
(they are forecast on request, and each takes as long again). The last column is the time over that of the exponentials
of ten million numbers in the same run, which does not depend on the machine as seconds do.
"""

from __future__ import annotations

import argparse
import io
import os
import subprocess
import sys
import tarfile
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np

from simplexdp import Budget, plan
from simplexdp.estimation import NoisyCounts
from simplexdp.estimation.network import estimate_network
from simplexdp.estimation.network_tables import NetworkTables

from .clock import seconds

BUDGET = Budget(epsilon=1.0, delta=1e-5)
MIXED = [4 + i % 20 for i in range(500)]
Tables = dict[tuple[str, ...], NoisyCounts]
Families = list[tuple[str, tuple[str, ...]]]


def plans(quick: bool) -> dict[str, Callable[[], object]]:
    """What is asked of the planner."""

    def of(sizes: list[int], **settings: object) -> Callable[[], object]:
        return lambda: plan(sizes, budget=BUDGET, total=10_000, **settings)  # type: ignore[arg-type]

    weights = [float(i + 1) for i in range(12)]
    asked = {
        "25 tables of 6 cells": of([6] * 25),
        "55 tables of 4 to 23 cells": of(MIXED[:55]),
        "500 tables of 4 to 23 cells": of(MIXED),
        "500 tables, shares by least loss": of(MIXED, split="loss"),
        "12 tables of 12 different noises": of([2, 3, 4, 5, 8, 10, 16, 20, 32, 40, 64, 100], split=weights),
        "25 tables of 6 cells, with rivals": of([6] * 25, alternatives="all"),
    }
    return {name: ask for name, ask in asked.items() if not quick or ("500" not in name and "rivals" not in name)}


def network(columns: int, seed: int = 0) -> tuple[Families, Tables, dict[str, np.ndarray]]:
    """Noisy tables of a made-up network with one to three parents a node; every third column has an order."""
    rng, records = np.random.default_rng(seed), 20_000
    sizes = {f"c{i}": int(rng.integers(2, 9)) for i in range(columns)}
    families: Families = []
    data: dict[str, np.ndarray] = {}
    for i, (name, size) in enumerate(sizes.items()):
        near = np.arange(max(0, i - 8), i)
        chosen = rng.permutation(near)[: int(rng.integers(1, 4))]
        parents = tuple(f"c{j}" for j in sorted(chosen.tolist()))
        families.append((name, parents))
        noise = rng.integers(0, size, records) * (rng.random(records) < 0.5)
        data[name] = (sum((data[p] for p in parents), np.zeros(records, np.int64)) + noise) % size
    tables: Tables = {}
    for names in NetworkTables.of(families).columns:
        shape = [sizes[name] for name in names]
        cells = np.ravel_multi_index([data[name] for name in names], shape)
        counts = np.bincount(cells, minlength=int(np.prod(shape))).reshape(shape)
        noisy = counts + np.round(rng.normal(size=shape) * 30)
        tables[names] = NoisyCounts(values=noisy, variance=900.0, total=float(records))
    places = {name: np.arange(float(size)) for name, size in list(sizes.items())[::3]}
    return families, tables, places


LARGE = """
import time, warnings
import numpy as np
from simplexdp import Budget, plan, release
warnings.simplefilter("ignore")
rng, budget, cells = np.random.default_rng(0), Budget(epsilon=1.0, delta=1e-5), CELLS
counts = rng.poisson(rng.gamma(0.5, 20.0, cells))
for call in (lambda: release(counts, budget=budget, entropy=1).probabilities,
             lambda: plan([cells], budget=budget, total=10 * cells)):
    times = []
    for _ in range(3):
        start = time.process_time()
        call()
        times.append(time.process_time() - start)
    print(min(times))
"""
"""What is timed on each of two trees, in processes of their own."""


def against(commit: str, cells: int) -> None:
    """Time a large table here and with the code of another commit, in turns; print seconds and ratios."""
    root = Path(__file__).parents[1]
    packed = subprocess.run(["git", "archive", commit, "src"], cwd=root, check=True, capture_output=True).stdout
    with tempfile.TemporaryDirectory() as folder:
        with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
            archive.extractall(folder, filter="data")
        found: dict[Path, list[list[float]]] = {root: [], Path(folder): []}
        for tree in [*found] * 2:
            ask = [sys.executable, "-c", LARGE.replace("CELLS", str(cells))]
            ran = subprocess.run(
                ask, env=os.environ | {"PYTHONPATH": str(tree / "src")}, check=True, capture_output=True, text=True
            )
            found[tree].append([float(line) for line in ran.stdout.split()])
    here, there = (np.min(times, axis=0) for times in found.values())
    print(f"{'':50}{'seconds':>10}{commit[:7]:>10}{'ratio':>9}")
    for name, ours, theirs in zip((f"release, {cells:,} cells", f"plan, {cells:,} cells"), here, there, strict=True):
        print(f"{name:50}{ours:10.2f}{theirs:10.2f}{ours / theirs:9.2f}")


def main() -> None:
    """Parse the command line and print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks planning", description="Plans and estimates.")
    parser.add_argument("--quick", action="store_true", help="fewer and smaller ones")
    parser.add_argument("--against", metavar="COMMIT", help="a large table beside the code of this commit, and no more")
    asked = parser.parse_args()
    if asked.against:
        against(asked.against, 100_000 if asked.quick else 1_000_000)
    else:
        table(asked.quick)


def table(quick: bool) -> None:
    """Time everything and print it."""
    warnings.simplefilter("ignore")
    numbers = np.linspace(-50.0, 0.0, 10_000_000)
    unit = seconds(lambda: np.exp(numbers))
    columns = 12 if quick else 60
    families, tables, places = network(columns)
    work = plans(quick) | {
        f"estimate of a network of {columns} columns": lambda: estimate_network(families, tables),
        f"the same, {len(places)} columns with an order": lambda: estimate_network(families, tables, places),
    }
    print(f"{'':50}{'seconds':>10}{'ratio':>9}")
    for name, call in work.items():
        taken = seconds(call, 1 if "rivals" in name else 2)
        print(f"{name:50}{taken:10.2f}{taken / unit:9.1f}", flush=True)


if __name__ == "__main__":
    main()
