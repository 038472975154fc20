"""What tuned constants are worth: the loss at half and at double of each, over the loss as it is.

    python -m benchmarks constants [--quick] [--only WORD]

Public data and seeded draws. A number that changes what is released, as a share of the budget does, also changes the
draws: a few per cent are luck there. The others see the same draws, and their ratios are their own.

A constant is changed where it is written, before anything is made of it: every value is tried in a process of its own,
whose import of that module finds another number. A share p is halved and doubled in its odds p/(1 − p), a prior over
a grid by the powers ½ and 2 of its weights, a whole number is rounded. docs/constants.md says what each is and what
it was chosen on. The ratios are those of a small part of what they were chosen on: a change of one per cent up or
down says nothing, and a constant may be there for a case that is not in this part.
"""

from __future__ import annotations

import argparse
import ast
import importlib
import json
import math
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from types import CodeType
from typing import Any, Literal

import numpy as np

How = Literal["times", "odds", "power"]
Part = Literal["few", "many", "bayes", "network", "tables"]
PARTS: dict[Part, str] = {
    "few": "KL, tables of up to ten cells",
    "many": "KL, larger tables",
    "bayes": "cross-entropy of naive Bayes",
    "network": "excess log-loss of networks",
    "tables": "KL of many tables",
}
FACTORS = (0.5, 2.0)
TUNED = ("GermanCredit", "Thyroid")
"""The small ones of the data sets that constants of naive Bayes were chosen on."""


@dataclass(frozen=True)
class Constant:
    """A tuned number: the module and name it is written under, how it is changed and what it matters for.

    `place` leads to one number inside a tuple or a dictionary; without it all of them are changed.
    """

    module: str
    name: str
    part: Part
    how: How = "times"
    place: tuple[int | str, ...] = ()

    def __str__(self) -> str:
        return f"{self.module}.{self.name}" + "".join(f"[{each}]" for each in self.place)

    def of(self, value: Any) -> Any:
        """The number, or the numbers, in the value of that name."""
        for each in self.place:
            value = value[each]
        return value

    def changed(self, value: Any, factor: float) -> Any:
        """The value of that name at this factor."""
        return self._changed(value, factor, self.place)

    def _changed(self, value: Any, factor: float, place: tuple[int | str, ...]) -> Any:
        if place:
            inner = self._changed(value[place[0]], factor, place[1:])
            if isinstance(value, dict):
                return value | {place[0]: inner}
            return tuple(inner if i == place[0] else each for i, each in enumerate(value))
        if isinstance(value, tuple):
            return tuple(self._changed(each, factor, ()) for each in value)
        if self.how == "power":
            return value**factor
        if self.how == "odds":
            return 1 / (1 + (1 - value) / value / factor)
        return max(1, round(value * factor)) if isinstance(value, int) else value * factor


def _all(module: str, part: Part, *names: str, how: How = "times") -> Iterator[Constant]:
    """Several constants of one module; `NAME[1]` and `NAME[key]` are one number of several."""
    for each in names:
        name, *places = each.replace("]", "").split("[")
        yield Constant(module, name, part, how, tuple(int(place) if place.isdigit() else place for place in places))


CONSTANTS: tuple[Constant, ...] = (
    *_all("estimation.few", "few", "LOG_SHAPE_SD", "POISSON_WEIGHT", "EQUAL_WEIGHT", "NARROW_CENTRE", "NARROW_SD"),
    *_all("estimation.few", "few", "CLEAR", "DROWNED", "DROWNED_EQUAL_WEIGHT"),
    *_all("estimation.many", "many", "LOG_SHAPE_SD", "POISSON_WEIGHT", "EQUAL_WEIGHT"),
    *_all("estimation.many", "many", "CONCENTRATION", "DISCOUNT", "NEAR", "LADDER_START"),
    *_all("estimation.many", "many", *(f"SHARES[{key}]" for key in ("population", "wide", "narrow", "zero", "bins"))),
    *_all("estimation.many", "many", "LEARNT_ODDS", "CAVITY_CELLS"),
    *_all("estimation.likelihood", "many", "GROWTH", "FINE", "COARSE"),
    *_all("estimation.beta", "bayes", "HYPER_WEIGHT", "TABLE_WEIGHT"),
    *_all("estimation.beta", "bayes", "STRENGTH_PRIOR", how="power"),
    *_all("estimation.strata", "bayes", "NO_CHANGE", how="odds"),
    *_all("estimation.strata", "bayes", "ORDER_TABLES"),
    *_all("naive_bayes", "bayes", "FEWER_BINS[0][0]", "FEWER_BINS[1][0]", "CLASS_LOSS", "LEAST_FOR_CLASSES"),
    *_all("naive_bayes", "bayes", "MOST_FOR_CLASSES", how="odds"),
    *_all("naive_bayes", "bayes", "LEAST_SIGNAL", "START", "BIAS_WIDTH", "ROUNDS"),
    *_all("estimation.reweight", "bayes", "CLIP"),
    *_all("naive_bayes", "bayes", "ROUNDS_SHARE", how="odds"),
    *_all("estimation.network_tables", "network", "SINGLE_LEAST", "SINGLE_RATIO", "SINGLE_POWER"),
    *_all("estimation.network_tables", "network", "SINGLE_RISE", "PAIR_PART", how="odds"),
    *_all("estimation.network_tables", "network", "CELL_POWER", "CELL_FALL", "CELL_RATIO"),
    *_all("estimation.network_rows", "network", "ROW", how="power"),
    *_all("estimation.network_rows", "network", "FREE_SHARE", how="odds"),
    *_all("estimation.network_rows", "network", "FREE_CENTRE", "FREE_SPREAD", "HYPER_WEIGHT"),
    *_all("estimation.network", "network", "PAIR_UNIFORM_ODDS", "CHAIN_UNIFORM_ODDS", "OWN_MEAN_ROUNDS"),
    *_all("estimation.network", "network", "UNIFORM_SHARE", "UNIFORM_RECORDS", "ROW_FLOOR"),
    *_all("estimation.network_rows", "network", "HALF"),
    *_all("estimation.network_rows", "network", "AMPLITUDES", "LEAST_RATIO"),
    *_all("estimation.network_rows", "network", "CORRELATIONS", how="odds"),
    *_all("estimation.cross_tables", "tables", "WIDTH", "LEARNT"),
)


class Edited(SourceFileLoader):
    """Loads a module with one of its constants changed."""

    def __init__(self, constant: Constant, factor: float, name: str, path: str) -> None:
        super().__init__(name, path)
        self._constant, self._factor = constant, factor

    def get_code(self, fullname: str) -> CodeType:  # noqa: ARG002  its path is known
        """Compiled from the source each time: nothing of it may be kept on disk."""
        tree = ast.parse(self.get_data(self.path))
        return compile(edited(tree, self._constant, self._factor), self.path, "exec", dont_inherit=True)


class Finder:
    """Finds the module of one constant, and no other."""

    def __init__(self, constant: Constant, factor: float) -> None:
        self._constant, self._factor = constant, factor

    def find_spec(self, name: str, path: Sequence[str] | None, target: Any = None) -> ModuleSpec | None:
        """As the import system does, with another loader."""
        if name != f"simplexdp.{self._constant.module}":
            return None
        spec = PathFinder.find_spec(name, path, target)
        if spec is not None and spec.origin is not None:
            spec.loader = Edited(self._constant, self._factor, name, spec.origin)
        return spec


def edited(tree: ast.Module, constant: Constant, factor: float) -> ast.Module:
    """The module, with the constant changed right after the statement that sets it."""
    call = (
        f"{constant.name} = __import__('benchmarks.constants', fromlist=['Constant'])"
        f".{constant!r}.changed({constant.name}, {factor!r})"
    )
    for i, node in enumerate(tree.body):
        if isinstance(node, ast.Assign) and constant.name in {
            each.id for each in ast.walk(node.targets[0]) if isinstance(each, ast.Name)
        }:
            tree.body.insert(i + 1, ast.parse(call).body[0])
            return ast.fix_missing_locations(tree)
    raise LookupError(f"{constant} is not set in its module")


# ---- losses --------------------------------------------------------------------------------------------------
def losses(part: Part, quick: bool) -> dict[str, float]:
    """The loss of each case at each budget."""
    measure: dict[Part, Callable[[bool], dict[str, float]]] = {
        "few": lambda quick: _histograms(quick, few=True),
        "many": lambda quick: _histograms(quick, few=False),
        "bayes": _naive_bayes,
        "network": _networks,
        "tables": _tables,
    }
    return measure[part](quick)


def _histograms(quick: bool, *, few: bool) -> dict[str, float]:
    """KL(f/N ‖ q) under Gaussian noise, the same draws for all."""
    from simplexdp import Budget
    from simplexdp.estimation import NoisyCounts, estimate
    from simplexdp.mechanisms import Gaussian

    from .utility.histogram_cases import cases

    found = {}
    for case in cases(quick=True):
        if (case.cells <= 10) != few or (quick and case.cells > 200):
            continue
        for epsilon in (0.1, 1.0):
            noise = Gaussian.calibrate(Budget(epsilon=epsilon, delta=1e-5)).noise_variance
            draws = np.random.default_rng(7).normal(size=((8 if quick else 64) if few else 2, case.cells))
            each = []
            for draw in draws:
                values = np.round(case.counts + math.sqrt(noise) * draw)
                q = estimate(NoisyCounts(values=values, variance=noise, total=case.total)).probabilities
                p = case.counts / case.total
                each.append(float(np.sum(p[p > 0] * np.log(p[p > 0] / q[p > 0]))))
            found[f"{case.name} {epsilon:g}"] = float(np.mean(each))
    return found


def _naive_bayes(quick: bool) -> dict[str, float]:
    from .utility.naive_bayes import load, ours, score
    from .utility.setting import renyi_budgets, split

    found = {}
    cases = {"GermanCredit": (0.1,), "Thyroid": (1.0,)} if quick else dict.fromkeys(TUNED, (0.01, 0.1, 1.0))
    for name, epsilons in cases.items():
        data = load(name)
        for budget in renyi_budgets(epsilons):
            each = []
            for seed in range(1 if quick else 5):
                train, test = split(len(data.codes), seed)
                each.append(score(ours(data, train, test, budget, seed), data.labels[test])[0])
            found[f"{name} {budget.epsilon:g}"] = float(np.mean(each))
    return found


def _networks(quick: bool) -> dict[str, float]:
    from simplexdp import BayesianNetwork, CellNumbers

    from .utility.networks import cases
    from .utility.setting import renyi_budgets

    found = {}
    case = next(case for case in cases(quick=True) if case.name == "GermanCredit")
    for budget in renyi_budgets((0.1,) if quick else (0.01, 0.1)):  # above, the excess is about nothing
        each = []
        for seed in range(1, 2 if quick else 9):
            problem = case.problem(seed)
            network = BayesianNetwork(problem.graph, problem.schema, budget=budget, entropy=seed)
            tables = network.fit(CellNumbers(problem.train)).model.tables
            each.append(problem.loss(tables) - problem.loss(problem.non_private()))
        found[f"{case.name} {budget.epsilon:g}"] = float(np.mean(each))
    return found


def _tables(quick: bool) -> dict[str, float]:
    """KL of all pairs of eight columns under Gaussian noise, the same draws for all."""
    from simplexdp.estimation import NoisyCounts
    from simplexdp.estimation.cross_tables import estimate_tables, least_variance_tables

    from .tables import codes_of, gaussian_shift, workloads

    found = {}
    for name in TUNED[:1] if quick else TUNED:
        work = workloads(codes_of(name, None), quick=True)["all 2-way"]
        drawn, shares = least_variance_tables(work.tables, work.sizes, [1.0] * len(work.tables), total_is_public=True)
        for epsilon in (0.1, 1.0):
            rng, each = np.random.default_rng(7), []
            variances = 2 / gaussian_shift(epsilon, 1e-9) ** 2 / np.array(shares)
            for _ in range(2 if quick else 8):
                noisy = {}
                for names, variance in zip(drawn, variances, strict=True):
                    values = work.exact[names] + np.rint(math.sqrt(variance) * rng.normal(size=work.exact[names].shape))
                    noisy[names] = NoisyCounts(values=values, variance=float(variance), total=work.records)
                made = estimate_tables(noisy, work.tables)
                each.append(work.loss({names: made[names].counts for names in work.tables})[1])
            found[f"{name} {epsilon:g}"] = float(np.mean(each))
    return found


# ---- running -------------------------------------------------------------------------------------------------
def at(constant: Constant | None, factor: float, part: Part, quick: bool) -> dict[str, float]:
    """The losses with this constant changed, or as it is, in a process of its own."""
    which = -1 if constant is None else CONSTANTS.index(constant)
    command = [sys.executable, "-m", "benchmarks.constants", str(which), repr(factor), part, str(int(quick))]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{constant} at {factor:g}: {done.stderr}")
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def child(which: int, factor: float, part: Part, quick: bool) -> None:
    """One set of losses as JSON; nothing of the library may have been imported before the finder is in place."""
    import warnings

    warnings.simplefilter("ignore")  # the same columns are fitted many times
    if which >= 0:
        sys.meta_path.insert(0, Finder(CONSTANTS[which], factor))
    print(json.dumps(losses(part, quick)))


def value(constant: Constant) -> str:
    """What it is, in words for the table."""
    found = constant.of(getattr(importlib.import_module(f"simplexdp.{constant.module}"), constant.name))
    return "(weights)" if isinstance(found, np.ndarray) else str(round(found, 6) if isinstance(found, float) else found)


def mean_ratio(changed: dict[str, float], usual: dict[str, float]) -> tuple[float, float]:
    """The geometric mean of the losses' ratios and the largest one; cases with next to no loss are left out."""
    ratios = [changed[name] / loss for name, loss in usual.items() if loss > 1e-6]
    return math.exp(math.fsum(math.log(max(each, 1e-9)) for each in ratios) / len(ratios)), max(ratios)


def compared(changed: Future[dict[str, float]], usual: dict[str, float]) -> str:
    """Both ratios, or that the library cannot work with the value."""
    try:
        mean, worst = mean_ratio(changed.result(), usual)
    except RuntimeError:
        return f"{'fails':>17}"
    return f"{mean:9.3f}{worst:8.2f}"


def main(argv: Sequence[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks constants")
    parser.add_argument("--quick", action="store_true", help="fewer cases, budgets and draws")
    parser.add_argument("--only", default="", help="constants with this in their name")
    asked = parser.parse_args(argv)
    chosen = [constant for constant in CONSTANTS if asked.only in str(constant)]
    if not os.environ.get("SIMPLEXDP_DATA"):
        print("SIMPLEXDP_DATA is not set: constants of naive Bayes and networks are left out")
        chosen = [constant for constant in chosen if constant.part in ("few", "many")]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for part, title in PARTS.items():
            mine = [constant for constant in chosen if constant.part == part]
            if not mine:
                continue
            usual = at(None, 1.0, part, asked.quick)
            print(f"\n{title}: {len(usual)} cases")
            print(f"{'constant':50}{'value':>22}{'half':>9}{'worst':>8}{'double':>9}{'worst':>8}")
            tried = [[pool.submit(at, each, factor, part, asked.quick) for factor in FACTORS] for each in mine]
            for constant, both in zip(mine, tried, strict=True):
                shown = "".join(compared(each, usual) for each in both)
                print(f"{constant!s:50}{value(constant):>22}{shown}", flush=True)


if __name__ == "__main__":
    child(int(sys.argv[1]), float(sys.argv[2]), sys.argv[3], bool(int(sys.argv[4])))  # type: ignore[arg-type]
