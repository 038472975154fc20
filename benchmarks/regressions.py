"""How often intervals of logistic regressions hold: `python -m benchmarks inference --regressions`.

One released table of an outcome with two values and the two columns that say most about it; the truth is the
regression of the file (population) or of the drawn records. Beside it, one set of synthetic records analysed as if
it were real, and "given the graph": twenty replicates of a network in which the outcome and one of the columns share no
released table, put together by `combine`.
"""

from __future__ import annotations

import itertools
import math
import time
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simplexdp import BayesianNetwork, Budget, CellNumbers, release_distribution
from simplexdp.errors import SimplexDPError
from simplexdp.models.regression import Cells, combine, fitted
from simplexdp.synthetic import replicated_records

from .inference import DELTA, EPSILONS, MECHANISMS, RECORDS, TUNED, Codes, Population, _information, population

FARTHEST = 15.0
"""Coefficients of the file beyond this belong to cells that determine the outcome: they are left out."""
REPLICATES = 20
MOST_CELLS = 600
Row = tuple[float, float, float, float]


def columns_of(people: Population) -> tuple[str, tuple[str, str]]:
    """An outcome of two cells, and the two columns that say most about it."""
    names = list(people.schema.names)
    binary = [name for name in names if people.schema[name].size == 2]
    told = {
        y: sorted((x for x in names if x != y), key=lambda x: -_information(people.codes, x, y))[:2] for y in binary
    }
    outcome = max(binary, key=lambda y: sum(_information(people.codes, x, y) for x in told[y]))
    first, second = told[outcome]
    return outcome, (first, second)


def design(people: Population, outcome: str, on: Sequence[str]) -> Cells:
    """Cells of the table over these columns; each is one term from 0 to 1."""
    shape = people.schema.shape((*on, outcome))
    places = np.indices(shape).reshape(len(shape), -1).astype(float)
    x = np.column_stack(
        [np.ones(math.prod(shape)), *(place / (n - 1) for place, n in zip(places, shape, strict=False))]
    )
    x = x[:, : 1 + len(on)]
    return Cells(names=("intercept", *on), x=x, y=places[-1], used=np.ones(len(x), dtype=bool))


def fit_of(people: Population, codes: Codes, outcome: str, on: Sequence[str]) -> tuple[Any, NDArray[np.float64]]:
    """Coefficients of these records and their usual standard errors."""
    counts = people.shares((*on, outcome), codes).ravel() * len(next(iter(codes.values())))
    beta, information = fitted(design(people, outcome, on), counts, "logistic")
    return beta, np.sqrt(np.diag(np.linalg.inv(information)))


def one_run(
    name: str, epsilon: float, records: int, noise: tuple[str, str], seed: int, found: dict[tuple[str, str], list[Row]]
) -> None:
    """Intervals of the coefficients of one release: held, finite, naive, and over those of real records."""
    people = population(name)
    outcome, on = columns_of(people)
    rng = np.random.default_rng(seed)
    at = rng.integers(0, people.rows, records)
    codes = {column: code[at] for column, code in people.codes.items()}
    settings: dict[str, Any] = {
        "budget": Budget(epsilon=epsilon, delta=DELTA),
        "mechanism": noise[0],
        "neighbours": noise[1],
    }
    published = release_distribution(CellNumbers(codes), people.schema, [*on, outcome], **settings)
    synthetic = {c: np.asarray(v) for c, v in published.sample_codes(records, rng).items()}
    naive, naive_error = fit_of(people, synthetic, outcome, on)
    real, real_error = fit_of(people, codes, outcome, on)
    values = {x: {str(i): i / (people.schema[x].size - 1) for i in range(people.schema[x].size)} for x in on}
    for about in ("records", "population"):
        truth = real if about == "records" else fit_of(people, people.codes, outcome, on)[0]
        if np.abs(truth).max() > FARTHEST:
            continue
        answer = published.regression(outcome, on, values=values, about=about)
        held = (answer.low <= truth) & (truth <= answer.high)
        finite = np.isfinite(answer.low) & np.isfinite(answer.high)
        by_naive = np.abs(naive - truth) <= 1.959964 * naive_error
        width = np.where(finite, answer.high - answer.low, np.nan) / (2 * 1.959964 * real_error)
        for i in range(truth.size):
            row = (float(held[i]), float(finite[i]), float(by_naive[i]), float(width[i]))
            for group in (
                ("all", "all"),
                ("set", name),
                ("ε", f"{epsilon:g}"),
                ("about", about),
                ("noise", " ".join(noise)),
            ):
                found[group].append(row)


def across(name: str, epsilon: float, records: int, seed: int) -> list[float]:
    """Whether intervals of replicates hold for coefficients of columns that share no released table."""
    people = population(name)
    outcome, (first, second) = columns_of(people)
    rng = np.random.default_rng(seed)
    at = rng.integers(0, people.rows, records)
    codes = {column: people.codes[column][at] for column in (first, second, outcome)}
    schema = people.schema.select([first, second, outcome])
    graph = {outcome: (first,), second: (first,)}
    fit = BayesianNetwork(graph, schema, budget=Budget(epsilon=epsilon, delta=DELTA)).fit(CellNumbers(codes))
    truth = fit_of(people, people.codes, outcome, (first, second))[0]
    if np.abs(truth).max() > FARTHEST:
        return []
    estimates = []
    for rows in replicated_records(fit.model, records, REPLICATES, labels=True, seed=seed):
        drawn = {c: np.array([int(label) for label in rows[c].to_pylist()]) for c in rows.column_names}
        estimates.append(fit_of(people, drawn, outcome, (first, second))[0])
    ends = [combine([float(each[j]) for each in estimates]) for j in range(truth.size)]
    return [float(low <= value <= high) for value, (_, _, low, high) in zip(truth, ends, strict=True)]


def run(sets: Sequence[str], runs: int, every: int) -> None:
    """Print the coverage of each group."""
    for names in ([n for n in sets if n in TUNED], [n for n in sets if n not in TUNED]):
        if not names:
            continue
        found: dict[tuple[str, str], list[Row]] = defaultdict(list)
        graph: list[float] = []
        began = time.process_time()
        cases = itertools.product(names, EPSILONS, RECORDS, MECHANISMS, range(runs))
        for i, (name, epsilon, records, noise, repeat) in enumerate(cases):
            if i % every:
                continue
            try:
                one_run(name, epsilon, records, noise, 1000 * i + repeat, found)
                if noise == MECHANISMS[0]:
                    graph += across(name, epsilon, records, 1000 * i + repeat)
            except SimplexDPError as error:
                print(f"left out: {name}, ε = {epsilon:g}, {noise}: {error}")
        tuned = "tuned" if names[0] in TUNED else "not tuned on"
        print(f"\n{', '.join(names)} ({tuned}), {time.process_time() - began:.0f} s of CPU")
        print(
            f"{'coefficients inside a released table':38} {'number':>7} {'held, %':>8} {'finite, %':>10} {'naive':>7} "
            f"{'width / real records':>21}"
        )
        for (group, value), each in sorted(found.items()):
            held, finite, naive, width = np.array(each).T
            middle = np.nanmedian(width) if np.isfinite(width).any() else math.nan
            print(
                f"{group + ': ' + value:38} {len(each):>7,} {100 * held.mean():>8.1f} {100 * finite.mean():>10.1f} "
                f"{100 * naive.mean():>7.1f} {middle:>21.2f}"
            )
        if graph:
            print(f"{'given the graph, 20 replicates':38} {len(graph):>7,} {100 * np.mean(graph):>8.1f}")
