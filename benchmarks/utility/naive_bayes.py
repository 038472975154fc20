"""Naive Bayes on the eight UCI sets at (5, ε)-RDP: test cross-entropy and accuracy, ours and the paper's.

    SIMPLEXDP_DATA=/path/to/uci python benchmarks/utility_naive_bayes.py [--quick] [--sets adult,bank] [--seeds 3]

The discretisation is the paper's, read off the data, so nothing here is private: draws are seeded, and every method
sees the same splits. Adult, CreditCard, GermanCredit and Thyroid were used to tune the estimates; the other four were
not.
"""

from __future__ import annotations

import argparse
import gzip
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.csv
from numpy.typing import NDArray

from simplexdp import Budget, Categories, CellNumbers, CountTable, Schema
from simplexdp.counting.plan import column_spec
from simplexdp.counting.run import BatchEncoder
from simplexdp.models.naive_bayes import NaiveBayesModel
from simplexdp.naive_bayes import fit_naive_bayes
from simplexdp.pipeline import draw_tables
from simplexdp.planning import plan_tables

TUNED = ("adult", "creditcard", "germancredit", "thyroid")
HELD_OUT = ("bank", "digit", "shopper", "spam")
EPSILONS = (0.001, 0.01, 0.1, 1.0, 10.0)
ORDER = 5.0
METHODS = ("algorithm 1", "gaussian clip", "ours")


@dataclass(frozen=True)
class Data:
    name: str
    codes: NDArray[np.int64]
    labels: NDArray[np.int64]
    sizes: tuple[int, ...]
    classes: int

    @property
    def schema(self) -> Schema:
        columns = [Categories(range(size), name=f"x{k}") for k, size in enumerate(self.sizes)]
        return Schema([*columns, Categories(range(self.classes), name="class")])


def load(name: str) -> Data:
    folder = os.environ.get("SIMPLEXDP_DATA")
    if not folder:
        raise SystemExit("Set SIMPLEXDP_DATA to the folder with the UCI files (adult.csv.gz and so on).")
    with gzip.open(Path(folder) / f"{name}.csv.gz") as file:
        table = pyarrow.csv.read_csv(file)
    label = table.column_names[-1]
    table = table.set_column(len(table.column_names) - 1, label, table[label].cast("string"))
    schema = Schema.paper_discretisation(table)
    specs = [column_spec(column) for column in schema]
    batch = table.combine_chunks().to_batches()[0]
    (block,) = BatchEncoder(specs, None, batch.num_rows).blocks(batch, name)
    codes = np.stack([column.astype(np.int64) for column in block.codes], axis=1)
    return Data(name, codes[:, :-1], codes[:, -1], schema.shape()[:-1], schema.shape()[-1])


def counts(data: Data, rows: NDArray[np.int64]) -> list[NDArray[np.int64]]:
    found = []
    for k, size in enumerate(data.sizes):
        cells = data.codes[rows, k] * data.classes + data.labels[rows]
        found.append(np.bincount(cells, minlength=size * data.classes).reshape(size, data.classes))
    return found


def fit(method: str, data: Data, rows: NDArray[np.int64], epsilon: float, seed: int) -> NaiveBayesModel:
    budget = Budget.rdp(order=ORDER, epsilon=epsilon)
    if method == "ours":
        columns = {f"x{k}": data.codes[rows, k] for k in range(len(data.sizes))} | {"class": data.labels[rows]}
        return fit_naive_bayes(CellNumbers(columns), data.schema, "class", budget=budget, entropy=seed)
    joint = [
        CountTable.from_array(table, columns=(f"x{k}", "class"), is_private=False)
        for k, table in enumerate(counts(data, rows))
    ]
    # The paper releases the class counts as one more table and gives every table the same share.
    alone = CountTable.from_array(
        np.bincount(data.labels[rows], minlength=data.classes), columns=("class",), is_private=False
    )
    tables = [*joint, alone]
    settings: dict[str, Any] = (
        {"mechanism": "dirichlet", "calibration": "algorithm1"}
        if method == "algorithm 1"
        else {"mechanism": "gaussian"}
    )
    plan = plan_tables(
        [t.columns for t in tables], [t.shape for t in tables], budget, total=float(len(rows)), **settings
    )
    estimate = "raw" if method == "algorithm 1" else "clip-tiny"
    releases = draw_tables(tables, plan, method=estimate, entropy=seed)  # type: ignore[arg-type]
    return NaiveBayesModel.from_releases(releases, "class", method=estimate)  # type: ignore[arg-type]


def reference(data: Data, rows: NDArray[np.int64], test: NDArray[np.int64]) -> tuple[float, float, float, float]:
    """Cross-entropy and accuracy of the non-private fit (pseudo-count 0.1), and of the class shares."""
    shares = np.bincount(data.labels[rows], minlength=data.classes) / len(rows)
    prior = np.log(np.maximum(shares, 1e-12))
    scores = np.tile(prior, (len(test), 1))
    for k, table in enumerate(counts(data, rows)):
        smooth = table + 0.1
        scores += np.log(smooth / smooth.sum(axis=0))[data.codes[test, k]]
    scores -= np.logaddexp.reduce(scores, axis=1)[:, None]
    truth = data.labels[test]
    right = float((scores.argmax(axis=1) == truth).mean())
    return (
        -float(scores[np.arange(len(test)), truth].mean()),
        right,
        -float(prior[truth].mean()),
        float((prior.argmax() == truth).mean()),
    )


def evaluate(model: NaiveBayesModel, data: Data, test: NDArray[np.int64]) -> tuple[float, float]:
    log_proba = model.predict_log_proba(data.codes[test])
    truth = data.labels[test]
    return (
        -float(log_proba[np.arange(len(test)), truth].mean()),
        float((log_proba.argmax(axis=1) == truth).mean()),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one split, three ε")
    parser.add_argument("--sets", default=",".join(TUNED + HELD_OUT))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--methods", default=",".join(METHODS))
    options = parser.parse_args()
    seeds = 1 if options.quick else options.seeds
    epsilons = (0.01, 0.1, 1.0) if options.quick else EPSILONS
    methods = options.methods.split(",")
    ratios: dict[tuple[str, str, float], float] = {}
    began = time.perf_counter()
    print("set            prior  non-priv     ε  " + "".join(f"{m:>18}" for m in methods))
    for name in options.sets.split(","):
        data = load(name)
        table = {(m, e): [] for m in methods for e in epsilons}  # type: ignore[var-annotated]
        base = []
        for seed in range(seeds):
            order = np.random.default_rng(seed).permutation(len(data.labels))
            cut = int(0.7 * len(order))
            rows, test = order[:cut], order[cut:]
            base.append(reference(data, rows, test))
            for m, e in table:
                table[m, e].append(evaluate(fit(m, data, rows, e, seed), data, test))
        plain, plain_right, prior, _ = np.mean(base, axis=0)
        for e in epsilons:
            line = f"{name:13s} {prior:6.3f} {plain:6.3f}/{plain_right:.3f} {e:6g}"
            for m in methods:
                loss, right = np.mean(table[m, e], axis=0)
                ratios[m, name, e] = loss / prior
                line += f"  {loss:7.4f}/{right:.3f}{'*' if loss < plain else ' '} "
            print(line, flush=True)
    print("\nMean cross-entropy over that of the class shares (* above: below the non-private fit)")
    for title, names in (("tuned on", TUNED), ("held out", HELD_OUT)):
        names = tuple(n for n in names if n in options.sets.split(","))
        for m in methods:
            if names:
                means = [np.mean([ratios[m, n, e] for n in names]) for e in epsilons]
                print(
                    f"  {title:9s} {m:14s} "
                    + "  ".join(f"ε={e:g}: {v:.3f}" for e, v in zip(epsilons, means, strict=True))
                )
    print(f"{time.perf_counter() - began:.0f} s")


if __name__ == "__main__":
    main()
