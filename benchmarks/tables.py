"""Many tables at once against ResidualPlanner: squared error, KL, agreement, and the time of 300 tables.

    python -m benchmarks tables [--quick] [--data Adult] [--file extract.csv] [--seeds 2] [--aim PYTHON]

ResidualPlanner (Xiao, He, Zhang and Kifer, "An optimal and scalable matrix mechanism for noisy marginals under convex
loss functions", 2023) adds Gaussian noise to the residuals of marginals, each with the precision that makes the summed
squared error of the wanted tables least: no linear mechanism with Gaussian noise does better. It is written here from
the formulas, with continuous noise at the exact (ε, δ) of a Gaussian. Under replace-one its precisions are optimised
for the largest shift over all sets of columns in which two records can differ, which is found exactly. Its tables are
scored as they are for squared error, and clipped at 1e-6 and normalised for KL.

Adult and Bank are the sets that the estimate was tried on; everything else is fresh. `--file` takes any CSV file with a
header, for instance a census extract. Columns have up to 30 values or ten bins, as they come, so nothing here is a
private release. Numbers are ours over ResidualPlanner's: below 1 less is lost.

`--aim PYTHON` also compares with AIM (`benchmarks/aim.py`) under add-remove, the relation that it is stated for, on the
same tables; PYTHON is an interpreter that has dpmm. AIM is given ρ = μ²/2 for the μ of the Gaussian that is exactly
(ε, δ), to its advantage: its own conversion from ρ allows less. Its tables are scored as they are, and take many
minutes with its own settings (80 MB, 1000 iterations).
"""

from __future__ import annotations

import argparse
import csv
import itertools
import json
import math
import subprocess
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import get_args

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.stats import norm

from benchmarks.utility.networks import discretised, loaded
from simplexdp import Budget, CellNumbers, Schema, release_tables
from simplexdp.budget import Neighbours
from simplexdp.estimation.cross_tables import centred, disagreement, least_variance_tables

FloatArray = NDArray[np.float64]
Codes = dict[str, NDArray[np.int64]]
Columns = tuple[str, ...]
TUNED = ("Adult", "Bank")
FRESH = ("Shopper", "CreditCard")
BITS = "bits"
"""Twelve binary columns of 200,000 made-up records: many records in every cell, where count tables lose most."""
EPSILONS = (0.1, 1.0, 10.0)
DELTA = 1e-9
DROPPED = frozenset({"", "id", "rownames", "wght", "fnlwgt"})
"""Names of columns that are no answers: row numbers and weights."""
MOST_CELLS = 60
"""Columns with more cells than that, none of the tuned sets has, are left out."""


# ---- data ---------------------------------------------------------------------------------------------------
def codes_of(name: str, file: Path | None, wanted: Sequence[str] = ()) -> Codes:
    """Cell numbers of every column, or of these."""
    if name == BITS:
        rng, size = np.random.default_rng(1), 200_000
        one = rng.random(size)
        return {f"c{i}": (rng.random(size) < 0.3 + 0.2 * one * (i % 3)).astype(np.int64) for i in range(12)}
    if file is None:
        table = loaded(name)
        columns = {key: (values, table.numeric[key]) for key, values in table.columns.items()}
    else:
        with file.open(newline="", encoding="utf-8") as rows:
            head, *body = csv.reader(rows)
        cells = np.array(body)
        columns = {key: (cells[:, i], is_numeric(cells[:, i])) for i, key in enumerate(head) if key not in DROPPED}
    columns = {key: columns[key] for key in wanted or columns}
    size = len(next(iter(columns.values()))[0])
    every = {key: discretised(values, numeric, np.arange(size)) for key, (values, numeric) in columns.items()}
    return {key: codes for key, codes in every.items() if 1 < int(codes.max()) + 1 <= MOST_CELLS}


def is_numeric(values: NDArray[np.str_]) -> bool:
    try:
        values.astype(np.float64)
    except ValueError:
        return False
    return True


@dataclass(frozen=True, kw_only=True, eq=False)
class Workload:
    """Tables of some records, with what is true of them."""

    codes: Codes
    tables: tuple[Columns, ...]

    @cached_property
    def sizes(self) -> dict[str, int]:
        return {name: int(codes.max()) + 1 for name, codes in self.codes.items()}

    @cached_property
    def records(self) -> int:
        return len(next(iter(self.codes.values())))

    def cells(self, names: Columns) -> int:
        return math.prod(self.sizes[name] for name in names)

    @cached_property
    def effects(self) -> list[Columns]:
        """All sets of columns inside of a table, the empty one too."""
        inside: set[Columns] = set()
        for names in self.tables:
            inside.update(part for n in range(len(names) + 1) for part in itertools.combinations(names, n))
        return sorted(inside, key=lambda names: (len(names), names))

    @cached_property
    def exact(self) -> dict[Columns, FloatArray]:
        """Counts of every set of columns."""
        found = {}
        for names in self.effects:
            shape = [self.sizes[name] for name in names]
            flat = np.zeros(self.records, dtype=np.int64)
            for name in names:
                flat = flat * self.sizes[name] + self.codes[name]
            found[names] = np.bincount(flat, minlength=math.prod(shape)).reshape(shape).astype(float)
        return found

    def loss(self, tables: dict[Columns, FloatArray]) -> tuple[float, float]:
        """Squared error of all shares, and KL after clipping at 1e-6 and normalising."""
        error = divergence = 0.0
        for names in self.tables:
            share, guess = self.exact[names] / self.records, tables[names] / self.records
            error += float(((share - guess) ** 2).sum())
            positive = np.maximum(guess, 1e-6) if (guess <= 0).any() else guess
            positive = positive / positive.sum()
            seen = share > 0
            divergence += float((share[seen] * np.log(share[seen] / positive[seen])).sum())
        return error, divergence


def workloads(codes: Codes, quick: bool) -> dict[str, Workload]:
    """All pairs; and all single columns with 25 pairs and 15 triples, drawn once."""
    rng = np.random.default_rng(5)
    names = list(codes)[: 8 if quick else None]
    two: list[Columns] = list(itertools.combinations(names, 2))
    three: list[Columns] = list(itertools.combinations(names, 3))

    def some(tables: list[Columns], number: int) -> list[Columns]:
        return [tables[i] for i in sorted(rng.choice(len(tables), min(number, len(tables)), replace=False))]

    mixed = [*((name,) for name in names), *some(two, 25), *some(three, 15)]
    part = {name: codes[name] for name in names}
    return {"all 2-way": Workload(codes=part, tables=tuple(two)), "mixed": Workload(codes=part, tables=tuple(mixed))}


# ---- ResidualPlanner ----------------------------------------------------------------------------------------
def gaussian_shift(epsilon: float, delta: float) -> float:
    """μ of the Gaussian pair that is exactly (ε, δ)."""

    def excess(mu: float) -> float:
        return float(norm.cdf(mu / 2 - epsilon / mu) - math.exp(epsilon) * norm.cdf(-mu / 2 - epsilon / mu)) - delta

    return float(brentq(excess, 1e-6, 100))


class ResidualPlanner:
    """The precision of each residual, per unit of squared shift."""

    def __init__(self, work: Workload, neighbours: Neighbours) -> None:
        self.work, self.public = work, neighbours == "replace-one"
        effects = work.effects
        self.place = {names: i for i, names in enumerate(effects)}
        cells = np.array([work.cells(names) for names in effects], dtype=float)
        free = np.array([math.prod(work.sizes[name] - 1 for name in names) for names in effects], dtype=float)
        wanted = np.zeros(len(effects))
        for names in work.tables:
            for n in range(len(names) + 1):
                for part in itertools.combinations(names, n):
                    i = self.place[part]
                    wanted[i] += free[i] * cells[i] / work.cells(names)
        if self.public:
            wanted[self.place[()]] = 0
            self.precision = self._replaced(wanted, free / cells)
        else:
            raw = np.sqrt(wanted / (free / cells))
            self.precision = raw / (raw @ (free / cells))

    def _replaced(self, wanted: FloatArray, own: FloatArray) -> FloatArray:
        """Least Σ wanted/p with a largest shift of 1, by adding the columns in which two records differ most."""
        rng, names = np.random.default_rng(1), list(self.work.sizes)
        sets = [names, *(rng.permutation(names)[: 1 + i % len(names)].tolist() for i in range(3 * len(names)))]
        costs = [self._shift(frozenset(each), own) for each in sets]
        weights = np.ones(len(costs)) / len(costs)
        best, least = np.zeros(len(wanted)), math.inf
        for _ in range(25):
            weights = np.append(weights, [0.2] * (len(costs) - len(weights)))
            matrix = np.array(costs)
            for _ in range(300):
                raw = np.sqrt(wanted / np.maximum(weights @ matrix, 1e-9))
                shifts = matrix @ raw
                weights = weights * (shifts / shifts.max())
                weights /= weights.sum()
            worst, size = self._largest(raw)
            loss = float((wanted[wanted > 0] / raw[wanted > 0]).sum()) * size
            if loss < least:
                best, least = raw / size, loss
            costs.append(self._shift(worst, own))
            if size <= shifts.max() * 1.002:
                break
        return best

    def _shift(self, differ: frozenset[str], own: FloatArray) -> FloatArray:
        """Squared shift of each residual by a record replaced by one that differs in these columns."""
        same = [
            math.prod((0.0 if name in differ else 1.0) - 1 / self.work.sizes[name] for name in names)
            for names in self.work.effects
        ]
        return np.asarray(2 * (own - np.array(same)))

    def _largest(self, precision: FloatArray) -> tuple[frozenset[str], float]:
        """The columns in which two records differ at the largest shift, over all sets of columns."""
        names = list(self.work.sizes)
        as_tables = precision.copy()  # Möbius: residuals as tables whose precisions may be negative
        for i in reversed(range(len(self.work.effects))):
            inner = self.work.effects[i]
            for outer in self.work.effects[i + 1 :]:
                if set(inner) < set(outer):
                    as_tables[i] -= as_tables[self.place[outer]] * self.work.cells(inner) / self.work.cells(outer)
        sums = np.zeros(1 << len(names))
        for each, value in zip(self.work.effects, as_tables, strict=True):
            sums[sum(1 << names.index(name) for name in each)] = value
        for bit in range(len(names)):  # over all tables inside of the columns that are the same
            halves = sums.reshape(-1, 2, 1 << bit)
            halves[:, 1] += halves[:, 0]
        same = int(np.argmin(sums))
        return frozenset(name for i, name in enumerate(names) if not same >> i & 1), float(2 * (sums[-1] - sums[same]))

    def tables(self, epsilon: float, rng: np.random.Generator) -> dict[Columns, FloatArray]:
        """One draw of all tables."""
        precision = self.precision * gaussian_shift(epsilon, DELTA) ** 2
        found = {}
        for names, each in zip(self.work.effects, precision, strict=True):
            exact = self.work.exact[names]
            noise = 0.0 if self.public and not names else rng.normal(0, 1 / math.sqrt(each), exact.shape)
            found[names] = centred(exact + noise)
        return {names: self._sum(found, names) for names in self.work.tables}

    def _sum(self, effects: dict[Columns, FloatArray], names: Columns) -> FloatArray:
        sizes = self.work.sizes
        total = np.zeros([sizes[name] for name in names])
        for n in range(len(names) + 1):
            for part in itertools.combinations(names, n):
                shape = [sizes[name] if name in part else 1 for name in names]
                total += effects[part].reshape(shape) * (self.work.cells(part) / total.size)
        return total


def noise_ratio(work: Workload, neighbours: Neighbours) -> float:
    """The summed variance of the best linear estimates from what is drawn here, over that of ResidualPlanner."""
    public = neighbours == "replace-one"
    planner = ResidualPlanner(work, neighbours)
    ones = [1.0] * len(work.tables)
    drawn, shares = least_variance_tables(work.tables, work.sizes, ones, total_is_public=public)
    precision, wanted = np.zeros(len(work.effects)), np.zeros(len(work.effects))
    for tables, weights, found in ((drawn, shares, precision), (work.tables, ones, wanted)):
        for names, weight in zip(tables, weights, strict=True):
            for n in range(int(public), len(names) + 1):
                for part in itertools.combinations(sorted(names, key=list(work.sizes).index), n):
                    if part not in planner.place:
                        continue
                    free = math.prod(work.sizes[name] - 1 for name in part) if found is wanted else 1
                    found[planner.place[part]] += weight * free * work.cells(part) / work.cells(names)
    there = wanted > 0
    ours = (wanted[there] / precision[there]).sum() * (2 if public else 1)  # a replaced record moves two cells
    return float(ours / (wanted[there] / planner.precision[there]).sum())


# ---- AIM ----------------------------------------------------------------------------------------------------
@dataclass(frozen=True, kw_only=True)
class Aim:
    """How AIM is run.

    Args:
        python: an interpreter that has dpmm.
        model_size: the most megabytes of its model.
        iterations: of each of its fits.
        rounds: the most rounds; None for its own 16 for each column.
    """

    python: Path
    model_size: float
    iterations: int
    rounds: int | None

    def tables(self, work: Workload, epsilon: float, seed: int) -> dict[Columns, FloatArray]:
        """One fit, and its tables of the workload."""
        job = {
            "tables": work.tables,
            "sizes": work.sizes,
            "rho": gaussian_shift(epsilon, DELTA) ** 2 / 2,
            "seed": seed,
            "model_size": self.model_size,
            "iterations": self.iterations,
            "rounds": self.rounds,
        }
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            np.savez(folder / "codes.npz", **work.codes)  # type: ignore[arg-type]
            (folder / "job.json").write_text(json.dumps(job), encoding="utf-8")
            subprocess.run([self.python, Path(__file__).with_name("aim.py"), folder], check=True)
            with np.load(folder / "tables.npz") as found:
                shapes = {names: [work.sizes[each] for each in names] for names in work.tables}
                return {names: found[str(i)].reshape(shapes[names]) for i, names in enumerate(work.tables)}


def against_aim(work: Workload, epsilon: float, seeds: int, aim: Aim) -> str:
    """Ratios of squared error and KL under add-remove."""
    theirs, ours, took = [], [], 0.0
    for seed in range(seeds):
        start = time.perf_counter()
        theirs.append(work.loss(aim.tables(work, epsilon, seed)))
        took += time.perf_counter() - start
        budget = Budget(epsilon=epsilon, delta=DELTA)
        model = release_tables(
            CellNumbers(work.codes), schema_of(work), work.tables, budget=budget, neighbours="add-remove", entropy=seed
        )
        ours.append(work.loss(dict(model.tables)))
    error, divergence = np.mean(ours, axis=0) / np.mean(theirs, axis=0)
    return (
        f"  over AIM    ε = {epsilon:<4g} error {error:5.3f}  KL {divergence:5.3f}  AIM took {took / seeds:.0f} s a fit"
    )


# ---- comparison ---------------------------------------------------------------------------------------------
def schema_of(work: Workload) -> Schema:
    return Schema.of(**{name: [str(cell) for cell in range(size)] for name, size in work.sizes.items()})


def compare(work: Workload, neighbours: Neighbours, epsilons: Sequence[float], seeds: int) -> list[list[float]]:
    """Ratios of squared error and KL, coverage of 95 % intervals of both kinds, and agreement, for each ε."""
    planner, schema, source = ResidualPlanner(work, neighbours), schema_of(work), CellNumbers(work.codes)
    rows = []
    for epsilon in epsilons:
        theirs, ours, held, apart = [], [], [], 0.0
        for seed in range(seeds):
            theirs.append(work.loss(planner.tables(epsilon, np.random.default_rng(seed))))
            budget = Budget(epsilon=epsilon, delta=DELTA)
            model = release_tables(source, schema, work.tables, budget=budget, neighbours=neighbours, entropy=seed)
            ours.append(work.loss(dict(model.tables)))
            held.append([coverage(work, model.intervals, kind) for kind in ("posterior", "frequentist")])
            apart = max(apart, disagreement(model.tables) / model.total)
        rows.append([epsilon, *(np.mean(ours, axis=0) / np.mean(theirs, axis=0)), *np.mean(held, axis=0), apart])
    return rows


def coverage(work: Workload, intervals: object, kind: str) -> float:
    """The share of all cells that are inside of their intervals."""
    inside = []
    for names in work.tables:
        lower, upper = intervals(names, 0.95, kind)  # type: ignore[operator]
        inside.append(((work.exact[names] >= lower) & (work.exact[names] <= upper)).ravel())
    return float(np.concatenate(inside).mean())


def speed(quick: bool) -> None:
    """300 tables over a million records, from counting to the file."""
    columns, size = (10, 50_000) if quick else (25, 1_000_000)
    rng = np.random.default_rng(1)
    first = rng.integers(0, 5, size)
    codes = {f"c{i}": np.where(rng.random(size) < 0.5, first, rng.integers(0, 5, size)) for i in range(columns)}
    schema = Schema.of(**{name: [str(cell) for cell in range(5)] for name in codes})
    start, busy = time.perf_counter(), time.process_time()
    model = release_tables(CellNumbers(codes), schema, "all-2-way", budget=Budget(epsilon=1, delta=1e-9))
    model.to_json()
    took, used = time.perf_counter() - start, time.process_time() - busy
    print(f"{len(model.tables)} tables over {size:,} records: {took:.1f} s, {used:.1f} s of a processor", flush=True)


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks tables")
    parser.add_argument("--quick", action="store_true", help="eight columns of Adult, one ε")
    parser.add_argument("--data", action="append", help=f"one of {', '.join((*TUNED, *FRESH, BITS))}; may be repeated")
    parser.add_argument("--file", action="append", type=Path, help="a CSV file; may be repeated")
    parser.add_argument("--columns", default="", help="of the files, with commas between them; all by default")
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--epsilon", type=float, action="append")
    parser.add_argument("--noise", action="store_true", help="only the variances, before any estimate: exact")
    parser.add_argument("--aim", type=Path, help="an interpreter that has dpmm, to compare with AIM")
    parser.add_argument("--aim-size", type=float, default=80, help="the most megabytes of AIM's model")
    parser.add_argument("--aim-iterations", type=int, default=1000, help="of each of AIM's fits")
    parser.add_argument("--aim-rounds", type=int, help="of AIM; 16 for each column by default")
    parser.add_argument("--only-aim", action="store_true", help="leave ResidualPlanner out")
    chosen = parser.parse_args(arguments)
    named = chosen.data or ([] if chosen.file else ["Adult"] if chosen.quick else [*TUNED, *FRESH])
    sources = [*((name, None) for name in named), *((path.stem, path) for path in chosen.file or ())]
    epsilons = chosen.epsilon or ((1.0,) if chosen.quick else EPSILONS)
    aim = None
    if chosen.aim is not None:
        aim = Aim(
            python=chosen.aim,
            model_size=chosen.aim_size,
            iterations=chosen.aim_iterations,
            rounds=chosen.aim_rounds,
        )
    print("ours over ResidualPlanner's: squared error, KL; 95 % intervals that hold; largest disagreement over N")
    for name, file in sources:
        wanted = () if file is None else tuple(filter(None, chosen.columns.split(",")))
        for kind, work in workloads(codes_of(name, file, wanted), chosen.quick).items():
            origin = "tuned" if name in TUNED else "fresh"
            print(f"{name} ({origin}), {kind}: {len(work.tables)} tables, {work.records:,} records", flush=True)
            if chosen.noise:
                for neighbours in get_args(Neighbours):
                    print(f"  {neighbours:<11} noise alone: {noise_ratio(work, neighbours):.3f}", flush=True)
                continue
            if aim is not None:
                for epsilon in epsilons:
                    print(against_aim(work, epsilon, 1 if chosen.quick else chosen.seeds, aim), flush=True)
            for neighbours in () if chosen.only_aim else get_args(Neighbours):
                for epsilon, error, divergence, posterior, noise, apart in compare(
                    work,
                    neighbours,
                    epsilons,
                    1 if chosen.quick else chosen.seeds,
                ):
                    print(
                        f"  {neighbours:<11} ε = {epsilon:<4g} error {error:5.3f}  KL {divergence:5.3f}  "
                        f"posterior {posterior:.3f}  frequentist {noise:.3f}  {apart:.0e}",
                        flush=True,
                    )
    if not (chosen.data or chosen.file or chosen.only_aim or chosen.noise):
        speed(chosen.quick)


if __name__ == "__main__":
    main()
