"""Speed of naive Bayes, as ratios measured in one run: prediction against scikit-learn, and the parts of a fit.

    python -m benchmarks prediction [--quick]

Prediction: `NaiveBayesModel.predict_log_proba` against `CategoricalNB.predict_log_proba` on the same cell numbers;
wanted: 4 ×. Fit from a Parquet file: counting should dominate; release and estimate should stay under 10 % of the
time.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from sklearn.naive_bayes import CategoricalNB

from simplexdp import Budget, Categories, CellNumbers, Schema, count
from simplexdp.models.naive_bayes import NaiveBayesModel
from simplexdp.naive_bayes import fit_naive_bayes
from simplexdp.planning import plan_tables
from simplexdp.private.session import draw_tables

from .clock import seconds

BUDGET = Budget(epsilon=1.0, delta=1e-6)


def best(work: Callable[[], object], times: int) -> float:
    return seconds(work, times, clock=time.perf_counter)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="100 000 rows instead of a million")
    rows = 100_000 if parser.parse_args().quick else 1_000_000
    rng = np.random.default_rng(1)
    sizes = [int(size) for size in rng.integers(2, 20, 20)]
    for classes in (2, 5):
        labels = rng.integers(0, classes, rows)
        codes = np.stack(
            [(rng.integers(0, size, rows) + labels * (rng.random(rows) < 0.3)) % size for size in sizes], 1
        )
        schema = Schema(
            [
                *(Categories(range(size), name=f"x{k}") for k, size in enumerate(sizes)),
                Categories(range(classes), name="y"),
            ]
        )
        columns = {f"x{k}": codes[:, k] for k in range(len(sizes))} | {"y": labels}
        model = fit_naive_bayes(CellNumbers(columns), schema, "y", budget=BUDGET, entropy=1)
        peer = CategoricalNB(min_categories=sizes).fit(codes, labels)
        ours = best(lambda m=model, c=codes: m.predict_log_proba(c), 5)  # type: ignore[misc]
        theirs = best(lambda m=peer, c=codes: m.predict_log_proba(c), 3)  # type: ignore[misc]
        small = codes.astype(np.uint8)
        narrow = best(lambda m=model, c=small: m.predict_log_proba(c), 5)  # type: ignore[misc]
        print(
            f"predict {rows:,} × {len(sizes)}, {classes} classes: {rows / ours / 1e6:.1f} M rows/s (uint8 codes: "
            f"{rows / narrow / 1e6:.1f}), CategoricalNB {rows / theirs / 1e6:.1f}: {theirs / ours:.1f} × "
            f"({theirs / narrow:.1f} ×)"
        )
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.parquet"
        pq.write_table(pa.table(columns), path)
        tables = [(f"x{k}", "y") for k in range(len(sizes))]
        shapes = [schema.shape(t) for t in tables]
        planned = best(lambda: plan_tables(tables, shapes, BUDGET, total=float(rows)), 1)
        plan = plan_tables(tables, shapes, BUDGET, total=float(rows))
        counted = count(path, schema, tables)
        counting = best(lambda: count(path, schema, tables), 3)
        drawing = best(lambda: draw_tables(counted, plan, schema=schema), 3)
        releases = draw_tables(counted, plan, schema=schema)
        estimating = best(lambda: NaiveBayesModel.from_releases(releases, "y"), 3)
    share = (drawing + estimating) / (counting + drawing + estimating)
    print(
        f"fit from Parquet, {rows:,} rows: count {counting:.3f} s, draw {drawing:.3f} s, estimate {estimating:.3f} s: "
        f"release and estimate are {share:.0%}; planning (before any row is read) {planned:.3f} s"
    )


if __name__ == "__main__":
    main()
