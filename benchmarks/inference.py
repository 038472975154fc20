"""How often intervals of answers hold the truth: networks, naive Bayes and single tables, about records and population.

    python -m benchmarks inference [--quick] [--runs N] [--every N] [--sets Adult,Bank] [--regressions | --large]

The file is the population; records are drawn from it with replacement. Every question lies inside a released table.
Wanted: 94 to 97 % on average, at least 92 % in each group of 2,000 intervals or more, and on average at most 0.9 of
the width of the frequentist interval. "naive" reads synthetic records as if they were real ones. Constants were chosen
on Adult and Bank; the other sets are for reporting. `SIMPLEXDP_DATA` names the folder with the files.
"""

from __future__ import annotations

import argparse
import itertools
import math
import time
import warnings
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reproduction.datasets import load
from simplexdp import BayesianNetwork, Budget, CellNumbers, Schema, release_distribution
from simplexdp.errors import SimplexDPError
from simplexdp.estimation import NoisyCounts
from simplexdp.estimation.posterior import PooledPosteriors
from simplexdp.models import Model
from simplexdp.naive_bayes import fit_naive_bayes

TUNED, FRESH = ("Adult", "Bank"), ("CreditCard", "Shopper", "Thyroid", "GermanCredit")
EPSILONS = (0.1, 0.3, 1.0, 5.0)
RECORDS = (3000, 10000)
MECHANISMS = (("auto", "replace-one"), ("laplace", "add-remove"), ("polya", "replace-one"), ("gaussian", "add-remove"))
DELTA = 1e-6
NODES = 8
LEAST = 2000
"""Intervals of a group that is judged by itself."""
Codes = dict[str, NDArray[np.int64]]
Tables = dict[tuple[str, ...], NoisyCounts]


@dataclass(frozen=True, kw_only=True, eq=False)
class Population:
    """A file in cell numbers, some columns of it, and a graph over them."""

    name: str
    codes: Codes
    schema: Schema
    graph: dict[str, tuple[str, ...]]

    @property
    def rows(self) -> int:
        return len(next(iter(self.codes.values())))

    def shares(self, columns: tuple[str, ...], codes: Codes | None = None) -> NDArray[np.float64]:
        """The true probabilities, of the file or of records drawn from it."""
        shape, found = self.schema.shape(columns), codes or self.codes
        flat = np.ravel_multi_index([found[name] for name in columns], shape)
        return np.bincount(flat, minlength=math.prod(shape)).reshape(shape) / len(flat)


@lru_cache
def population(name: str) -> Population:
    """Eight columns with 2 to 12 cells, and a tree of most information with some second parents, of the file itself."""
    table = load(name)
    codes: Codes = {}
    for column, values in table.columns.items():
        numbers = values.astype(np.float64) if table.numeric[column] else values
        distinct, found = np.unique(numbers, return_inverse=True)
        if table.numeric[column] and len(distinct) > 12:
            edges = np.unique(np.quantile(numbers.astype(np.float64), np.linspace(0, 1, 9)))
            found = np.unique(np.searchsorted(edges, numbers, side="left"), return_inverse=True)[1]
        if 2 <= found.max() + 1 <= 16 and np.bincount(found).max() < 0.97 * len(found):
            codes[column] = found.astype(np.int64)
    chosen = {column: codes[column] for column in list(codes)[-NODES:]}
    schema = Schema.of(**{column: [str(i) for i in range(int(code.max()) + 1)] for column, code in chosen.items()})
    graph = _graph(chosen, schema)
    return Population(name=name, codes=chosen, schema=schema, graph=graph)


def _graph(codes: Codes, schema: Schema) -> dict[str, tuple[str, ...]]:
    names, order = list(codes), [next(iter(codes))]
    told = {pair: _information(codes, *pair) for pair in itertools.permutations(names, 2)}
    parents: dict[str, tuple[str, ...]] = {order[0]: ()}
    while len(order) < len(names):
        best = max(((a, b) for a in order for b in names if b not in order), key=lambda pair: told[pair])
        others = sorted((a for a in order if a != best[0]), key=lambda a: -told[a, best[1]])
        second = [a for a in others[:1] if math.prod(schema.shape((best[0], a, best[1]))) <= 600]
        parents[best[1]] = (best[0], *second)
        order.append(best[1])
    return parents


def _information(codes: Codes, a: str, b: str) -> float:
    joint = np.zeros((codes[a].max() + 1, codes[b].max() + 1))
    np.add.at(joint, (codes[a], codes[b]), 1.0 / len(codes[a]))
    outer = joint.sum(axis=1, keepdims=True) * joint.sum(axis=0)
    at = joint > 0
    return float((joint[at] * np.log(joint[at] / outer[at])).sum())


def fitted(people: Population, codes: Codes, kind: str, settings: dict[str, Any]) -> Model:
    """A model of one kind with fresh noise."""
    rows = CellNumbers(codes)
    if kind == "network":
        return BayesianNetwork(people.graph, people.schema, **settings).fit(rows).model
    target = min(people.schema, key=lambda column: column.size).name
    features = [name for name in people.schema.names if name != target]
    if kind == "naive Bayes":
        return fit_naive_bayes(rows, people.schema, target, features, **settings)
    family = max(people.graph.items(), key=lambda item: len(item[1]))
    return release_distribution(rows, people.schema, [*family[1], family[0]], **settings)


def questions(people: Population, model: Model) -> Iterator[tuple[tuple[str, ...], tuple[str, ...]]]:
    """(columns, given) inside released tables: each pair and triple once, and one column given the others."""
    released = {release.columns: release.values.shape for release in model.releases}
    for columns, shape in sorted(released.items()):
        if people.schema.shape(columns) != shape:
            continue  # bins were merged
        yield columns, ()
        if len(columns) > 1:
            yield columns[-1:], columns[:-1]


def size_of(p: NDArray[np.float64]) -> NDArray[Any]:
    return np.where(p < 0.01, "<1%", np.where(p < 0.1, "1-10%", ">10%"))


Found = dict[tuple[str, str], list[tuple[float, float, float, float]]]


def one_run(
    name: str, kind: str, epsilon: float, records: int, noise: tuple[str, str], seed: int, found: Found
) -> None:
    """Answers of one fit, counted by group: whether they hold, and their width over that of the frequentist kind."""
    people = population(name)
    rng = np.random.default_rng(seed)
    at = rng.integers(0, people.rows, records)
    codes = {column: code[at] for column, code in people.codes.items()}
    settings: dict[str, Any] = {
        "budget": Budget(epsilon=epsilon, delta=DELTA),
        "mechanism": noise[0],
        "neighbours": noise[1],
    }
    model = fitted(people, codes, kind, settings)
    synthetic = {c: np.asarray(v) for c, v in model.sample_codes(records, rng).items()} if model.schema else {}
    for columns, given in questions(people, model):
        order = (*given, *columns)
        for about in ("records", "population"):
            truth = people.shares(order, codes if about == "records" else None)
            if given:
                with np.errstate(invalid="ignore"):
                    truth = truth / truth.sum(axis=tuple(range(len(given), len(order))), keepdims=True)
            truth = truth.ravel()
            made = {
                kind: model.query(columns, given=given or None, about=about, kind=kind)
                for kind in ("posterior", "frequentist")
            }
            ours, plain = made["posterior"], made["frequentist"]
            known = np.isfinite(truth)
            holds = (ours.low <= truth + 1e-12) & (truth <= ours.high + 1e-12)
            direct = (plain.low <= truth + 1e-12) & (truth <= plain.high + 1e-12)
            width = (ours.high - ours.low) / np.maximum(plain.high - plain.low, 1e-12)
            naive = _naive(people, synthetic, order, len(given), truth)
            asked = "conditional" if given else "marginal"
            groups = {
                "all": "all",
                "set": name,
                "ε": f"{epsilon:g}",
                "about": about,
                "asked": asked,
                "model": kind,
                "noise": " ".join(noise),
                "cells": "≤20" if truth.size <= 20 else "≤100" if truth.size <= 100 else ">100",
                "asked, about": f"{asked}, {about}",
            }
            for i in np.flatnonzero(known):
                for group, value in {
                    **groups,
                    "size": str(size_of(truth[i : i + 1])[0]),
                    "asked, size": f"{asked} {size_of(truth[i : i + 1])[0]}",
                }.items():
                    found[group, value].append((float(holds[i]), float(width[i]), float(direct[i]), float(naive[i])))


def _naive(
    people: Population, synthetic: Codes, order: tuple[str, ...], given: int, truth: NDArray[np.float64]
) -> NDArray[np.bool_]:
    """Wilson's interval from synthetic records taken for real ones."""
    shape = people.schema.shape(order)
    flat = np.ravel_multi_index([synthetic[name] for name in order], shape)
    counts = np.bincount(flat, minlength=math.prod(shape)).reshape(shape)
    rows = counts.sum(axis=tuple(range(given, len(order))), keepdims=True)
    n, p = np.maximum(rows, 1), counts / np.maximum(rows, 1)
    q = 1.959964
    centre = (p + q * q / (2 * n)) / (1 + q * q / n)
    half = q / (1 + q * q / n) * np.sqrt(p * (1 - p) / n + q * q / (4 * n * n))
    found = (np.broadcast_to(np.abs(centre - truth.reshape(shape)), shape) <= half) | (rows == 0)
    return np.asarray(found).ravel()


def large() -> None:
    """Seconds of a processor for the posterior of a table of three columns, over those of one dense 1,000² inverse."""
    rng = np.random.default_rng(1)
    yard = rng.normal(size=(1000, 1000)) + 100 * np.eye(1000)
    began = time.process_time()
    np.linalg.inv(yard)
    unit = time.process_time() - began
    print(f"{'cells':>8} {'tables':>28} {'seconds':>8} {'over an inverse of 1,000 cells':>32}")
    for size in (10, 15, 22):
        counts = rng.multinomial(100_000, rng.dirichlet(np.full(size**3, 0.3))).reshape(size, size, size)
        one: Tables = {("a", "b", "c"): _noisy(counts, rng)}
        pairs: Tables = {("a", "b"): _noisy(counts.sum(axis=2), rng), ("b", "c"): _noisy(counts.sum(axis=0), rng)}
        for told, tables in (("alone", one), ("with tables of two columns", one | pairs)):
            began = time.process_time()
            _ = PooledPosteriors(tables).posterior(("a", "b", "c"), "population").variance
            took = time.process_time() - began
            print(f"{size**3:>8,} {told:>28} {took:>8.2f} {took / unit:>32.1f}")


def _noisy(counts: NDArray[Any], rng: np.random.Generator) -> NoisyCounts:
    return NoisyCounts(values=np.rint(counts + rng.normal(0, 3, counts.shape)), variance=9.0, total=100_000.0)


def main(argv: list[str] | None = None) -> None:
    """Print the coverage of each group."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks inference", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="two sets, few runs")
    parser.add_argument("--runs", type=int, default=2, help="of each case")
    parser.add_argument("--every", type=int, default=1, help="one case in so many, to save time")
    parser.add_argument("--sets", default=",".join((*TUNED, *FRESH)))
    parser.add_argument("--regressions", action="store_true", help="coefficients of logistic regressions instead")
    parser.add_argument("--large", action="store_true", help="seconds for tables of up to 10,648 cells instead")
    options = parser.parse_args(argv)
    sets = ["Adult", "Shopper"] if options.quick else options.sets.split(",")
    warnings.simplefilter("ignore")
    if options.large:
        large()
        return
    if options.regressions:
        from . import regressions

        regressions.run(sets, options.runs, 7 if options.quick else options.every)
        return
    for names in ([n for n in sets if n in TUNED], [n for n in sets if n not in TUNED]):
        if not names:
            continue
        found: Found = defaultdict(list)
        began = time.process_time()
        cases = itertools.product(
            names, ("network", "naive Bayes", "one table"), EPSILONS, RECORDS, MECHANISMS, range(options.runs)
        )
        for i, (name, kind, epsilon, records, noise, run) in enumerate(cases):
            if i % (7 if options.quick else options.every) or (options.quick and records > 3000):
                continue
            try:
                one_run(name, kind, epsilon, records, noise, 1000 * i + run, found)
            except SimplexDPError as error:
                print(f"left out: {name}, {kind}, ε = {epsilon:g}, {noise}: {error}")
        print(
            f"\n{', '.join(names)} ({'tuned' if names[0] in TUNED else 'not tuned on'}), "
            f"{time.process_time() - began:.0f} s of CPU"
        )
        print(f"{'group':34} {'intervals':>10} {'held, %':>8} {'frequentist':>12} {'naive':>7} {'width ratio':>12}")
        for (group, value), each in sorted(found.items()):
            held, width, direct, naive = np.array(each).T
            mark = " <" if len(each) >= LEAST and held.mean() < 0.92 else ""
            print(
                f"{group + ': ' + value:34} {len(each):>10,} {100 * held.mean():>8.1f} {100 * direct.mean():>12.1f} "
                f"{100 * naive.mean():>7.1f} {np.mean(np.minimum(width, 5)):>12.2f}{mark}"
            )


if __name__ == "__main__":
    main()
