"""The same seed makes the same release: what mechanisms, plans, models and audits gave is written down here.

Whole numbers and texts must be equal, and other numbers to nine digits: other processors round their last ones
differently. Times and versions are left out. `python tests/test_same_bytes.py` prints the table anew; a change of it is
a change that users see, and CHANGELOG.md says which and why.
"""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from simplexdp import BayesianNetwork, Budget, Schema, release, release_distribution
from simplexdp.accounting.filters import RenyiFilter
from simplexdp.audit import audit_fit, audit_mechanism
from simplexdp.errors import SimplexDPError
from simplexdp.mechanisms import BalancedLaplace, Dirichlet, Gaussian, Laplace, Polya
from simplexdp.mechanisms.auto import choose
from simplexdp.mechanisms.sums import GaussianTables, NoisySum
from simplexdp.models.guarantee import Guarantee
from simplexdp.naive_bayes import fit_naive_bayes
from simplexdp.planning import plan_tables

NAMES = ("auto", "polya", "dirichlet", "gaussian", "laplace", "balanced-laplace", "none")
RELATIONS = ("replace-one", "add-remove")
BUDGETS = (Budget(epsilon=1.0, delta=1e-5), Budget.rdp(order=5, epsilon=0.5), Budget(epsilon=1.5, delta=0))
METHODS = ("posterior-mean", "raw", "clip", "clip-tiny", "projection", "truncated-normal")
COUNTS = np.array([[31, 4, 0], [17, 160, 2]])
SCHEMA = Schema.of(a=["u", "v", "w"], b=["x", "y"], c=[0, 1, 2, 3], t=[False, True])
ROWS = pa.table(
    {
        "a": [("u", "v", "w")[(i * i) % 3] for i in range(400)],
        "b": [("x", "y")[i % 7 > 2] for i in range(400)],
        "c": [(i // 5) % 4 for i in range(400)],
        "t": [i % 3 == 0 for i in range(400)],
        "who": [i // 2 for i in range(400)],
    }
)
SHAPES: tuple[tuple[tuple[int, ...], ...], ...] = (((3, 2), (6,)), ((3,), (8, 4)))
PUBLIC = ((BUDGETS[0], 500.0), (BUDGETS[0], None), (BUDGETS[1], 20_000.0), (BUDGETS[2], 500.0))
TOPICS: dict[str, Callable[[str, Any], Any]] = {}


def topic(work: Callable[[str, Any], Any]) -> Callable[[str, Any], Any]:
    TOPICS[work.__name__] = work
    return work


def promised(made: Any) -> str:
    """The certificate without what it says of risk, which came after this was recorded and has tests of its own."""
    return str(replace(made.certificate(), risk=()))


def told(work: Callable[[], Any]) -> Any:
    """The result, or the refusal."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return work()
    except SimplexDPError as error:
        return type(error).__name__, str(error)


def of_release(made: Any) -> Any:
    body = {key: value for key, value in made.to_body().items() if key not in ("created", "software")}
    return body, made.probabilities, made.standard_errors, made.intervals(), made.intervals(0.9, "frequentist")


@topic
def releases(name: str, neighbours: Any) -> Iterator[Any]:
    for budget in BUDGETS:
        for method in METHODS if budget is BUDGETS[0] else METHODS[:1]:
            settings: dict[str, Any] = {"budget": budget, "mechanism": name, "neighbours": neighbours, "entropy": 1}
            yield told(lambda s=settings, m=method: of_release(release(COUNTS, estimate=m, **s)))
    settings = {"budget": BUDGETS[0], "mechanism": name, "neighbours": neighbours, "entropy": 1}
    yield told(lambda: promised(release(COUNTS, **settings)))
    persons: dict[str, Any] = {**settings, "rows_per_person": 2, "person": "who"}
    yield told(lambda: of_release(release_distribution(ROWS, SCHEMA, ["a", "b"], **persons)))


@topic
def plans(name: str, neighbours: Any) -> Iterator[Any]:
    steps = {"extras": [("tables", 0.3), ("vector", 0.1), ("matrix", 0.2)], "split": "cells"}
    facts: list[dict[str, Any]] = [{}, {"pure": (0.1,)}, steps, {"split": "loss"}, {"rows": 3, "unit": "person"}]
    if name == "auto":
        facts.append({"prices": RenyiFilter(order=5.0, total=1.0)})
    if name in ("polya", "dirichlet"):  # they take longest
        facts = facts[:2]
    for shapes in SHAPES:
        columns = [(f"a{i}",) for i in range(len(shapes))]
        for case, (budget, total) in product(facts, PUBLIC):
            settings = case | {"mechanism": name, "neighbours": neighbours, "total": total, "quiet": True}

            def made(s: Any = shapes, c: Any = columns, b: Any = budget, f: Any = settings) -> Any:
                found = plan_tables(c, s, b, **f)
                return found.guarantee.to_body(), found.guarantee.loss.rdp(3)

            yield told(made)


@topic
def models(name: str, neighbours: Any) -> Iterator[Any]:
    settings: dict[str, Any] = {"mechanism": name, "neighbours": neighbours, "entropy": 1}
    for epsilon, method in ((1.0, "raw"), (40.0, "posterior-mean")):
        budget = Budget(epsilon=epsilon, delta=1e-5)

        def bayes(b: Any = budget, m: Any = method) -> Any:
            found = fit_naive_bayes(ROWS, SCHEMA, "t", ["a", "b", "c"], budget=b, estimate=m, **settings)
            parts = found.conditionals, found.class_probabilities, found.weights, found.biases
            return [of_release(each) for each in found.releases], parts, promised(found)

        yield told(bayes)

    def network() -> Any:
        graph = {"b": ["a"], "c": ["a", "b"]}
        found = BayesianNetwork(graph, SCHEMA, budget=BUDGETS[0], **settings).fit(ROWS).model
        return [of_release(each) for each in found.releases], found.to_body()["tables"], promised(found)

    yield told(network)


@topic
def choices(_: str, neighbours: Any) -> Iterator[Any]:
    for budget in BUDGETS:
        for tables in (1, 30):
            for total in (None, 300.0, 1e6):
                for cells in (None, 2, 12, 500):
                    facts: dict[str, Any] = {"tables": tables, "total": total, "cells": cells, "neighbours": neighbours}
                    yield told(lambda b=budget, f=facts: choose(b, **f).parameters)


@topic
def audits(_: str, neighbours: Any) -> Iterator[Any]:
    one: list[Any] = [Polya(r=2, alpha=20), Dirichlet(r=2.0, alpha=20.0), Gaussian(sigma=1.5), Laplace(scale=1.5)]
    one += [BalancedLaplace(scale=2.0, cells=4)]
    for mechanism in one:
        settings: dict[str, Any] = {"draws": 1000, "entropy": 1}
        yield told(lambda m=mechanism, s=settings: audit_mechanism(m, neighbours=neighbours, **s).as_dict())
        steps = (mechanism, GaussianTables(sigma=2.0), *(NoisySum.of(kind, 2.0) for kind in ("vector", "matrix")))
        yield told(lambda p=steps, s=settings: audit_fit(Guarantee(mechanisms=p, neighbours=neighbours), **s).as_dict())


def flat(found: Any) -> Iterator[Any]:
    """Plain values, one after the other."""
    if isinstance(found, dict):
        for key, value in found.items():
            yield key
            yield from flat(value)
    elif isinstance(found, np.ndarray):
        yield from found.ravel().tolist()
    elif isinstance(found, list | tuple | Iterator):
        for each in found:
            yield from flat(each)
    else:
        yield found


def fingerprint(values: list[Any]) -> tuple[str, float]:
    """What must be equal, and what must be close: fractions weighed by their place, so that their order matters."""
    words = [repr(value) for value in values if not isinstance(value, float)]
    numbers = [value for value in values if isinstance(value, float) and np.isfinite(value)]
    weighed = sum(value * (1 + i % 97) for i, value in enumerate(numbers))
    return hashlib.sha256("\n".join(words).encode()).hexdigest()[:12], float(f"{weighed:.12g}")


CASES = [(work, name, relation) for work in ("releases", "plans", "models") for name in NAMES for relation in RELATIONS]
CASES += [(work, "all", relation) for work in ("choices", "audits") for relation in RELATIONS]
KNOWN: dict[str, tuple[str, float]] = {
    "releases auto replace-one": ("f68dc1ef6f55", 72227.244785),
    "releases auto add-remove": ("97a91cf1830b", 3722.04918434),
    "releases polya replace-one": ("172409d5749a", 57742.9217855),
    "releases polya add-remove": ("2cdd6a4dcc88", 2679.90365697),
    "releases dirichlet replace-one": ("accfe5daf6ea", 59331.2215673),
    "releases dirichlet add-remove": ("2a052e458ead", 0.0),
    "releases gaussian replace-one": ("c554a215bfdc", 74710.4795028),
    "releases gaussian add-remove": ("695d8ea863fa", 5720.56267345),
    "releases laplace replace-one": ("b1d7c39dab18", 72192.1097059),
    "releases laplace add-remove": ("0c970bd6c902", 3670.00501016),
    "releases balanced-laplace replace-one": ("766f01623675", 71520.879482),
    "releases balanced-laplace add-remove": ("f625b369a11e", 0.0),
    "releases none replace-one": ("19c552b7db80", 75355.3189979),
    "releases none add-remove": ("9a9538b720c2", 2687.29975723),
    "plans auto replace-one": ("1491ed64a948", 44866.9240847),
    "plans auto add-remove": ("235fa2fcaf2e", 30694.0782059),
    "plans polya replace-one": ("f2b4848c87b9", 746.10361864),
    "plans polya add-remove": ("69f81c4f24eb", 746.11500504),
    "plans dirichlet replace-one": ("75c7caf3e89a", 12143.6240398),
    "plans dirichlet add-remove": ("97286bad871f", 14635.2241268),
    "plans gaussian replace-one": ("02b6f4649d82", 42266.2779203),
    "plans gaussian add-remove": ("b2b665c4c718", 30771.9817935),
    "plans laplace replace-one": ("6d844e5c108c", 37519.7417377),
    "plans laplace add-remove": ("e475ca80129d", 24742.1756763),
    "plans balanced-laplace replace-one": ("ed72cd764dfa", 27847.6444975),
    "plans balanced-laplace add-remove": ("f8dfe19c9f58", 0.0),
    "plans none replace-one": ("bcdb334edb9c", 2756.20566),
    "plans none add-remove": ("62cad531313e", 2756.20566),
    "models auto replace-one": ("16f878dd3b31", 289702.355814),
    "models auto add-remove": ("a83ae7cb378c", 39413.3026169),
    "models polya replace-one": ("c9661b523826", 218210.702838),
    "models polya add-remove": ("008aa5e4bd57", 4254.23992164),
    "models dirichlet replace-one": ("869a225182bf", 213348.188451),
    "models dirichlet add-remove": ("40f5053522bd", 0.0),
    "models gaussian replace-one": ("a39b5ab69022", 291483.713025),
    "models gaussian add-remove": ("b6144a8c10e6", 41108.5319225),
    "models laplace replace-one": ("e2460c4a6635", 286040.684346),
    "models laplace add-remove": ("8b6d03487a6d", 28379.8723086),
    "models balanced-laplace replace-one": ("07957d310357", 288354.798422),
    "models balanced-laplace add-remove": ("8b2193129025", 0.0),
    "models none replace-one": ("9a0349f65a04", 182172.851576),
    "models none add-remove": ("22de5bce0d12", 8935.77357939),
    "choices all replace-one": ("4d425c4a38a1", 49354.0531193),
    "choices all add-remove": ("45454579ea85", 28074.8530429),
    "audits all replace-one": ("9266a65ef091", 1166.59749283),
    "audits all add-remove": ("4724a49418e5", 604.175841183),
}


@pytest.mark.parametrize(("work", "name", "relation"), CASES, ids=["-".join(case) for case in CASES])
def test_the_same_seed_makes_the_same_release(work: str, name: str, relation: str) -> None:
    words, weighed = fingerprint(list(flat(TOPICS[work](name, relation))))
    assert (words, weighed) == (
        KNOWN[f"{work} {name} {relation}"][0],
        pytest.approx(KNOWN[f"{work} {name} {relation}"][1], rel=1e-9),
    )


if __name__ == "__main__":
    for work, name, relation in CASES:
        print(f'    "{work} {name} {relation}": {fingerprint(list(flat(TOPICS[work](name, relation))))},')
