"""`plan`: what a release would cost and lose, before anything is spent or read.

The loss is forecast on a public stand-in for the table: Zipf-distributed counts of the stated total, or counts that the
user knows to be public. Nothing here touches sensitive data.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import xlogy

from .budget import Budget, Neighbours, check_positive, check_whole
from .errors import Infeasible, InvalidArgument
from .estimation import Method
from .mechanisms import BalancedLaplace, Dirichlet, Gaussian, Laplace
from .mechanisms.base import checked_counts
from .mechanisms.dirichlet import zipf_profile
from .mechanisms.registry import AnyMechanism
from .models.release import Release
from .planning import MechanismName, Plan, Split, plan_tables, shares, split_by_loss
from .sampling.entropy import SeededEntropy
from .schema import Schema
from .utility import tail_bound

Tables = Sequence[Sequence[str] | int]
COMPARED: tuple[MechanismName, ...] = ("balanced-laplace", "laplace", "gaussian", "polya", "dirichlet")
_FEW = 2_000
"""Cells up to which a stand-in table is simulated as it is; larger ones are cut to this many with the same mean."""


@dataclass(frozen=True, kw_only=True)
class TableForecast:
    """One table of a plan."""

    columns: tuple[str, ...]
    cells: int
    share: float
    mechanism: str
    noise: float
    expected_kl: float


@dataclass(frozen=True, kw_only=True)
class Forecast:
    """A plan with what it is expected to lose.

    `alternatives` holds the mean expected KL a table of each mechanism at this budget, `best` the smallest of them;
    `theorem2` is the paper's bound on the KL of a raw Dirichlet draw that holds with probability 0.95, beside the exact
    expectation of the same draw, for the first table.
    """

    plan: Plan
    tables: tuple[TableForecast, ...]
    total: float | None
    alternatives: dict[str, float]
    theorem2: float | None
    raw_dirichlet: float | None

    @property
    def best(self) -> str:
        """The mechanism that would lose least."""
        return min(self.alternatives, key=self.alternatives.__getitem__)

    @property
    def cells(self) -> int:
        """Of all tables."""
        return self.plan.cells

    @property
    def expected_kl(self) -> float:
        """Mean over the tables."""
        return float(np.mean([table.expected_kl for table in self.tables]))


def plan(
    tables: Tables,
    *,
    budget: Budget,
    schema: Schema | None = None,
    total: float | None = None,
    like: ArrayLike | None = None,
    mechanism: MechanismName = "auto",
    neighbours: Neighbours = "replace-one",
    split: Split = "equal",
    estimate: Method = "posterior-mean",
    rows_per_person: int | None = None,
    repeats: int | None = None,
    alternatives: Sequence[MechanismName] = COMPARED,
) -> Forecast:
    """Forecast a release: sizes, mechanisms, noise, expected KL and which mechanism would lose least.

    >>> from simplexdp import Budget, plan
    >>> forecast = plan([6], budget=Budget(epsilon=1, delta=1e-5), total=1283)
    >>> forecast.best, forecast.tables[0].mechanism
    ('balanced-laplace', 'BalancedLaplace(scale=1.99995, cells=6)')

    Args:
        tables: the columns of each table (with `schema`), or the number of cells of each.
        budget: for all of them together.
        schema: of the columns.
        total: the number of records; a guess is enough where it is not public. Default: of `like`, or 1000.
        like: public counts that the tables may resemble; Zipf's law otherwise.
        mechanism: of the plan.
        neighbours: the relation.
        split: of the budget over the tables.
        estimate: the method whose loss is forecast.
        rows_per_person: plan for persons with up to this many rows.
        repeats: simulated releases for each figure; by default 24 for small tables, fewer for large ones.
        alternatives: mechanisms to compare with.
    """
    columns, shapes = _tables(tables, schema)
    stand_in = None if like is None else checked_counts(like).ravel()
    if total is None:
        total = 1000.0 if stand_in is None else float(stand_in.sum())
    total = check_positive("total", total)
    repeats = None if repeats is None else check_whole("repeats", repeats)
    public = neighbours == "replace-one" and rows_per_person is None
    rows = 1 if rows_per_person is None else check_whole("rows_per_person", rows_per_person)

    if split == "loss":
        sizes = [math.prod(shape) for shape in shapes]
        split = split_by_loss(budget, sizes, neighbours=neighbours, total=total if public else None, rows=rows)

    def made(name: MechanismName) -> Plan:
        return plan_tables(
            columns,
            shapes,
            budget,
            mechanism=name,
            neighbours=neighbours,
            split=split,
            total=total if public else None,
            unit="row" if rows_per_person is None else "person",
            rows=rows,
        )

    def losses(made_plan: Plan) -> list[float]:
        known: dict[tuple[AnyMechanism, int], float] = {}
        for key in zip(made_plan.mechanisms, (math.prod(shape) for shape in shapes), strict=True):
            if key not in known:
                known[key] = _simulate(*key, made_plan, stand_in, total, public, estimate, repeats)
        return [known[key] for key in zip(made_plan.mechanisms, (math.prod(s) for s in shapes), strict=True)]

    chosen = made(mechanism)
    parts = shares(split, [math.prod(shape) for shape in shapes], columns)
    rows_of_table = zip(columns, shapes, parts, chosen.mechanisms, losses(chosen), strict=True)
    compared: dict[str, float] = {}
    for name in alternatives:
        try:
            compared[name] = float(np.mean(losses(made(name))))
        except Infeasible:
            continue  # a Dirichlet draw and balanced noise need a public total
    raw: float | None = None
    theorem2: float | None = None
    if public and alternatives:
        raw, theorem2 = _raw_dirichlet(budget, len(shapes), math.prod(shapes[0]), total)
    return Forecast(
        plan=chosen,
        tables=tuple(
            TableForecast(
                columns=tuple(names),
                cells=math.prod(shape),
                share=share,
                mechanism=str(each),
                noise=noise_at_empty_cell(each),
                expected_kl=max(kl, 0.0),  # rounding may put it below
            )
            for names, shape, share, each, kl in rows_of_table
        ),
        total=total,
        alternatives=compared,
        theorem2=theorem2,
        raw_dirichlet=raw,
    )


def smallest_epsilon(target_kl: float, tables: Tables, *, budget: Budget, **settings: Any) -> float:
    """About the smallest ε (δ or order as in `budget`) at which the expected KL of `plan` is at most the target."""
    check_positive("target_kl", target_kl)

    def kl(epsilon: float) -> float:
        return plan(tables, budget=replace(budget, epsilon=epsilon), alternatives=(), **settings).expected_kl

    return _search(kl, target_kl, 1e-3, 20.0)


def smallest_total(target_kl: float, tables: Tables, *, budget: Budget, **settings: Any) -> int:
    """About the smallest number of records at which the expected KL of `plan` is at most the target."""
    check_positive("target_kl", target_kl)

    def kl(total: float) -> float:
        return plan(tables, budget=budget, total=round(total), alternatives=(), **settings).expected_kl

    return math.ceil(_search(kl, target_kl, 1.0, 1e12))


def _search(kl: Callable[[float], float], target: float, low: float, high: float) -> float:
    """Bisection on a logarithmic scale to 3 %: the forecast itself is not more precise."""
    if kl(high) > target:
        raise Infeasible(f"an expected KL of {target:g} is not reached within any sensible range")
    while high / low > 1.03:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if kl(middle) <= target else (middle, high)
    return high


def _tables(tables: Tables, schema: Schema | None) -> tuple[list[tuple[str, ...]], list[tuple[int, ...]]]:
    if not tables:
        raise InvalidArgument("tables", "at least one")
    columns: list[tuple[str, ...]] = []
    shapes: list[tuple[int, ...]] = []
    for i, table in enumerate(tables):
        if isinstance(table, int):
            columns.append((f"table {i + 1}",))
            shapes.append((check_whole("tables", table, at_least=2),))
        elif schema is None:
            raise InvalidArgument("schema", "given when tables are named by their columns")
        else:
            columns.append(tuple(table))
            shapes.append(schema.shape(tuple(table)))
    return columns, shapes


def _stand_in(cells: int, stand_in: NDArray[np.int64] | None, total: float) -> NDArray[np.int64]:
    """Public counts with this total: like the given ones, or by Zipf's law."""
    size = min(cells, _FEW)
    weights = zipf_profile(1.0, size) if stand_in is None else np.resize(stand_in.astype(float) + 1e-9, size)
    expected = total * size / cells * weights / weights.sum()
    counts: NDArray[np.int64] = np.floor(expected).astype(np.int64)
    largest = np.argsort(counts - expected)[: max(1, round(float(expected.sum() - counts.sum())))]
    counts[largest] += 1
    return counts


def _simulate(
    mechanism: AnyMechanism,
    cells: int,
    made_plan: Plan,
    stand_in: NDArray[np.int64] | None,
    total: float,
    public: bool,
    method: Method,
    repeats: int | None,
) -> float:
    counts = _stand_in(cells, stand_in, total)
    if repeats is None:  # the loss of a large table is a mean over its cells already, and takes longer
        repeats = min(24, max(4, 1500 // cells))
    p = counts / counts.sum()
    found = []
    for seed in range(repeats):
        release = Release(
            values=mechanism.draw(counts, SeededEntropy(seed)),
            mechanism=mechanism,
            guarantee=made_plan.guarantee,
            total=float(counts.sum()) if public else None,
            method=method,
        )
        found.append(float(np.sum(xlogy(p, p) - xlogy(p, release.probabilities))))
    return float(np.mean(found))


def noise_at_empty_cell(mechanism: AnyMechanism) -> float:
    """The standard deviation of what an empty cell shows, in records."""
    if isinstance(mechanism, Gaussian | Laplace | BalancedLaplace):
        return math.sqrt(mechanism.noise_variance)
    _, variance, _ = mechanism.unbiased(np.ones(2), 2.0)
    return math.sqrt(variance)


def _raw_dirichlet(budget: Budget, tables: int, cells: int, total: float) -> tuple[float, float | None]:
    """Exact expected KL of a raw Dirichlet draw, and the η that Theorem 2 bounds it by with probability 0.95."""
    mechanism = Dirichlet.calibrate(budget, tables=tables, total=total, cells=cells)
    expected = mechanism.expected_kl_of_profile(zipf_profile(total, cells))
    etas = np.geomspace(1e-6, 1e3, 400)
    inside = [eta for eta in etas if tail_bound(mechanism, total=total, cells=cells, eta=float(eta)) <= 0.05]
    return expected, float(inside[0]) if inside else None
