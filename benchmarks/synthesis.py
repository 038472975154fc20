"""Models and synthetic records from any table, against AIM, MST and PrivBayes: what they lose, and what they cost.

    python -m benchmarks synthesis [--data Adult] [--epsilons 1] [--seeds 3] [--rivals PYTHON] [--cap 900] [--out FILE]

Measured on synthetic records, as many as there were training records: the mean total variation of all 2-way and of 300
random 3-way tables to the training records (TV2, TV3), the log-loss of a held-out record under the model in nats, and
the AUC of gradient boosting that is trained on synthetic records and tested on held-out ones. Beside it: independent
columns with the same budget, and without privacy a Chow–Liu tree and the training records themselves.

Columns have up to 30 values or ten bins, as `benchmarks tables` cuts them, so the bins are no private release; all
methods get the same cell numbers. Adult and Bank are the sets that the recipe was tuned on; Shopper and CreditCard are
not. Rivals are run by the interpreter that `--rivals` names, which has dpmm; each run ends at `--cap` seconds.
"""

from __future__ import annotations

import argparse
import csv
import itertools
import math
import resource
import subprocess
import tempfile
import time
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.tables import codes_of
from benchmarks.utility.networks import loaded, values_of
from simplexdp import BayesianNetwork, CellNumbers, Schema, Synthesizer
from simplexdp.budget import Neighbours
from simplexdp.errors import PrivacyWarning

IntArray = NDArray[np.int64]
TUNED, FRESH = ("Adult", "Bank"), ("Shopper", "CreditCard")
EPSILONS, DELTA = (0.1, 1.0, 10.0), 1e-9
TRIPLES = 300
RIVALS = ("privbayes", "mst", "aim")
DROPPED = {"Adult": {"fnlwgt"}}
"""Weights are no answers."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Case:
    """One split of one data set."""

    name: str
    seed: int
    schema: Schema
    train: dict[str, IntArray]
    test: dict[str, IntArray]
    target: str

    @classmethod
    def of(cls, name: str, seed: int) -> Case:
        """70 % of the records to train with."""
        table = loaded(name)
        codes = {key: each for key, each in codes_of(name, None).items() if key not in DROPPED.get(name, ())}
        size = len(next(iter(codes.values())))
        order = np.random.default_rng(seed).permutation(size)
        cut = int(0.7 * size)
        schema = Schema.of(**{key: values_of(each, table.numeric[key]) for key, each in codes.items()})
        part = [{key: each[rows] for key, each in codes.items()} for rows in (order[:cut], order[cut:])]
        return cls(name=name, seed=seed, schema=schema, train=part[0], test=part[1], target=table.data_set.label)

    @property
    def records(self) -> int:
        """To train with."""
        return len(self.train[self.target])


@dataclass(frozen=True, kw_only=True)
class Row:
    """What one method reached."""

    data: str
    epsilon: float
    relation: str
    method: str
    seed: int
    tv2: float = math.nan
    tv3: float = math.nan
    log_loss: float = math.nan
    auc: float = math.nan
    seconds: float = math.nan
    megabytes: float = math.nan

    def __str__(self) -> str:
        numbers = f"{self.tv2:8.4f} {self.tv3:8.4f} {self.log_loss:9.4f} {self.auc:7.4f}"
        return (
            f"{self.data:<11} {self.epsilon:<5g} {self.relation:<11} {self.method:<22} {self.seed} {numbers} "
            f"{self.seconds:8.1f} {self.megabytes:7.0f}"
        )


# ---- measures -------------------------------------------------------------------------------------------------
def total_variation(case: Case, drawn: dict[str, IntArray], ways: int) -> float:
    """Mean over tables of so many columns."""
    names, sizes = case.schema.names, dict(zip(case.schema.names, case.schema.shape(), strict=True))
    sets = list(itertools.combinations(names, ways))
    if len(sets) > TRIPLES and ways > 2:
        chosen = np.random.default_rng(0).choice(len(sets), TRIPLES, replace=False)
        sets = [sets[i] for i in chosen]
    found = []
    for columns in sets:
        shape = tuple(sizes[name] for name in columns)
        shares = [
            np.bincount(np.ravel_multi_index([codes[name] for name in columns], shape), minlength=math.prod(shape))
            / len(codes[columns[0]])
            for codes in (drawn, case.train)
        ]
        found.append(0.5 * float(np.abs(shares[0] - shares[1]).sum()))
    return float(np.mean(found))


def auc(case: Case, drawn: dict[str, IntArray]) -> float:
    """Of gradient boosting from synthetic to held-out records."""
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.metrics import roc_auc_score

    names = [name for name in case.schema.names if name != case.target]
    if len(np.unique(drawn[case.target])) < 2:
        return 0.5
    is_text = [isinstance(case.schema[name].values[0], str) for name in names]  # type: ignore[union-attr]
    learner = HistGradientBoostingClassifier(categorical_features=is_text, random_state=0)
    learner.fit(np.column_stack([drawn[name] for name in names]), drawn[case.target] == 1)
    scores = learner.predict_proba(np.column_stack([case.test[name] for name in names]))[:, 1]
    return float(roc_auc_score(case.test[case.target] == 1, scores))


def measured(case: Case, drawn: dict[str, IntArray], log: NDArray[np.float64] | None, **about: object) -> Row:
    """All measures of synthetic records."""
    return Row(
        data=case.name,
        seed=case.seed,
        tv2=total_variation(case, drawn, 2),
        tv3=total_variation(case, drawn, 3),
        log_loss=math.nan if log is None else float(-np.mean(log)),
        auc=auc(case, drawn),
        **about,  # type: ignore[arg-type]
    )


# ---- methods --------------------------------------------------------------------------------------------------
def ours(case: Case, epsilon: float, relation: Neighbours, *, target: bool) -> Row:
    """A synthesizer."""
    before = time.process_time()
    made = Synthesizer(
        case.schema,
        epsilon=epsilon,
        delta=DELTA,
        neighbours=relation,
        target=case.target if target else None,
        entropy=case.seed,
    ).fit(CellNumbers(case.train), records=case.records)
    spent = time.process_time() - before
    drawn = made.model.sample_codes(case.records, np.random.default_rng(case.seed))
    log = made.model.log_likelihoods(case.test)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    name = "simplexdp, with target" if target else "simplexdp"
    about = {"epsilon": epsilon, "relation": relation, "method": name, "seconds": spent, "megabytes": memory}
    return measured(case, dict(drawn), log, **about)


def independent(case: Case, epsilon: float, relation: Neighbours) -> Row:
    """One table a column."""
    graph = {name: [] for name in case.schema.names}  # type: dict[str, list[str]]
    made = BayesianNetwork(
        graph, case.schema, epsilon=epsilon, delta=DELTA, neighbours=relation, entropy=case.seed
    ).fit(CellNumbers(case.train), records=case.records)
    drawn = made.model.sample_codes(case.records, np.random.default_rng(case.seed))
    about = {"epsilon": epsilon, "relation": relation, "method": "independent columns"}
    return measured(case, drawn, made.model.log_likelihoods(case.test), **about)


def chow_liu(case: Case) -> Iterator[Row]:
    """The best tree without privacy, and the training records themselves."""
    from simplexdp.estimation.structure import all_pairs, forest, rooted

    names = case.schema.names
    sizes = case.schema.shape()
    joints = {}
    for a, b in all_pairs(len(names)):
        joint = np.zeros((sizes[a], sizes[b]))
        np.add.at(joint, (case.train[names[a]], case.train[names[b]]), 1)
        joints[a, b] = joint / case.records
    information = {}
    for pair, joint in joints.items():
        even = np.outer(joint.sum(axis=1), joint.sum(axis=0))
        there = joint > 0
        information[pair] = float((joint[there] * np.log(joint[there] / even[there])).sum())
    families = rooted(len(names), forest(len(names), information, 0.0), information)
    log, tables = np.zeros(len(case.test[case.target])), {}
    for node, above in families:
        table = np.zeros([*(sizes[i] for i in above), sizes[node]])
        columns = [names[i] for i in (*above, node)]
        np.add.at(table, tuple(case.train[name] for name in columns), 1)
        table = (table + 0.5) / (table + 0.5).sum(axis=-1, keepdims=True)
        tables[node] = table
        log += np.log(table[tuple(case.test[name] for name in columns)])
    from simplexdp.estimation.raking import stratified

    codes = stratified(families, tables, case.records, np.random.default_rng(case.seed))
    drawn = {name: codes[i].astype(np.int64) for i, name in enumerate(names)}
    yield measured(case, drawn, log, epsilon=math.inf, relation="none", method="Chow-Liu, no privacy")
    yield measured(case, case.train, None, epsilon=math.inf, relation="none", method="training records")


def rival(case: Case, epsilon: float, method: str, python: str, cap: float) -> Row | None:
    """In a process of its own, which is ended at the cap."""
    with tempfile.TemporaryDirectory() as folder:
        given, made = Path(folder) / "in.npz", Path(folder) / "out.npz"
        names = case.schema.names
        parts = {
            key: np.column_stack([codes[n] for n in names])
            for key, codes in (("train", case.train), ("test", case.test))
        }
        np.savez(given, sizes=np.array(case.schema.shape()), train=parts["train"], test=parts["test"])
        command = [python, str(Path(__file__).with_name("_dpmm.py")), str(given), str(made)]
        try:
            subprocess.run([*command, method, str(epsilon), str(DELTA), str(case.seed)], check=True, timeout=cap)
        except subprocess.TimeoutExpired:
            print(f"{case.name} ε = {epsilon:g}: {method} did not end within {cap:g} s", flush=True)
            return None
        except subprocess.CalledProcessError as error:
            print(f"{case.name} ε = {epsilon:g}: {method} failed with {error.returncode}", flush=True)
            return None
        found = np.load(made)
        drawn = {name: found["drawn"][:, i].astype(np.int64) for i, name in enumerate(names)}
        about = {"epsilon": epsilon, "relation": "add-remove", "method": method}
        costs = {"seconds": float(found["seconds"]), "megabytes": float(found["memory"])}
        return measured(case, drawn, found["log"], **about, **costs)


def rows(arguments: argparse.Namespace) -> Iterator[Row]:
    """All that is asked for, one after the other."""
    for name, seed in itertools.product(arguments.data, range(arguments.first, arguments.first + arguments.seeds)):
        case = Case.of(name, seed)
        if "reference" in arguments.methods:
            yield from chow_liu(case)
        for epsilon in arguments.epsilons:
            if "ours" in arguments.methods:
                yield ours(case, epsilon, "add-remove", target=False)
                yield ours(case, epsilon, "add-remove", target=True)
                yield ours(case, epsilon, "replace-one", target=False)
            if "independent" in arguments.methods:
                yield independent(case, epsilon, "add-remove")
            for method in RIVALS:
                if arguments.rivals and method in arguments.methods:
                    found = rival(case, epsilon, method, arguments.rivals, arguments.cap)
                    if found is not None:
                        yield found


def summary(found: Sequence[Row]) -> Iterator[str]:
    """Means over seeds with standard errors."""

    def key(row: Row) -> tuple[str, ...]:
        return row.data, f"{row.epsilon:g}", row.relation, row.method

    for told, group in itertools.groupby(sorted(found, key=key), key=key):
        these = list(group)
        cells = []
        for measure in ("tv2", "tv3", "log_loss", "auc", "seconds", "megabytes"):
            values = np.array([getattr(each, measure) for each in these])
            error = values.std(ddof=1) / math.sqrt(len(values)) if len(values) > 1 else math.nan
            cells.append(f"{values.mean():.4g} ± {error:.2g}")
        yield f"| {' | '.join(told)} | {len(these)} | {' | '.join(cells)} |"


def main() -> None:
    """Parse, run, print and keep."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks synthesis")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--data", nargs="*", default=[*TUNED, *FRESH])
    parser.add_argument("--epsilons", nargs="*", type=float, default=list(EPSILONS))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--methods", nargs="*", default=["reference", "ours", "independent", *RIVALS])
    parser.add_argument("--rivals", help="an interpreter that has dpmm")
    parser.add_argument("--cap", type=float, default=900.0, help="seconds of each rival's run")
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.data, arguments.epsilons, arguments.seeds = ["Adult"], [1.0], 1
    warnings.simplefilter("ignore", PrivacyWarning)
    print("data        ε     relation    method                 seed   TV2      TV3  log-loss     AUC  CPU s     MiB")
    found = []
    for row in rows(arguments):
        print(row, flush=True)
        found.append(row)
        if arguments.out is not None:
            new = not arguments.out.exists()
            with arguments.out.open("a", newline="", encoding="utf-8") as kept:
                writer = csv.DictWriter(kept, [each.name for each in fields(Row)])
                if new:
                    writer.writeheader()
                writer.writerow({each.name: getattr(row, each.name) for each in fields(Row)})
    print("\n| data | ε | relation | method | seeds | TV2 | TV3 | log-loss | AUC | CPU s | MiB |")
    print("|---|---|---|---|---|---|---|---|---|---|---|")
    for line in summary(found):
        print(line)


if __name__ == "__main__":
    main()
