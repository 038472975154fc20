"""KL loss of every way to release one histogram at equal privacy; replace-one neighbours, public total.

`python -m benchmarks utility --part histograms [--quick] [--out FILE.csv]`; the quick run takes a few minutes, the
full one an hour or more on two cores. "Bernstein" is nan above 1000 cells and "Algorithm 1" where no order leaves it
anything.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial

import numpy as np

from simplexdp.budget import Budget

from .histogram_cases import Case, cases
from .histogram_methods import FloatArray, losses
from .histogram_summary import summary
from .setting import approximate_budgets, kind, renyi_budgets
from .table import OURS, Row

__all__ = ["as_rows", "budgets", "cell", "rows", "summary"]


def budgets(quick: bool) -> list[Budget]:
    """(ε, δ)-DP and (5, ε)-RDP."""
    if quick:
        return approximate_budgets((0.03, 0.3, 1.0, 3.0), (1e-5,)) + renyi_budgets((0.01, 0.1, 1.0))
    return approximate_budgets() + renyi_budgets()


def seeds(cells: int, quick: bool) -> int:
    """As many as time allows: the estimate takes 5 ms for 5 cells, 0.25 s for 200 and 0.8 s for 100 000."""
    many = 96 if cells <= 6 else 32 if cells <= 60 else 8 if cells <= 3000 else 3
    return max(2, many // 4) if quick else many


def rows(quick: bool) -> Iterator[Row]:
    """Case by case, budget by budget; cases run side by side, and what they draw depends on their names alone."""
    with ProcessPoolExecutor() as pool:
        for found in pool.map(partial(_case, quick=quick), cases(quick)):
            yield from found


def _case(case: Case, *, quick: bool) -> list[Row]:
    return [row for budget in budgets(quick) for row in cell(case, budget, seeds(case.cells, quick))]


def cell(case: Case, budget: Budget, repeats: int) -> Iterator[Row]:
    """Every method on a case at a budget."""
    return as_rows(case, budget, losses(case, budget, repeats))


def as_rows(case: Case, budget: Budget, found: dict[str, FloatArray]) -> Iterator[Row]:
    """Means and standard errors of losses over seeds."""
    root = math.sqrt(found[OURS].size)
    for method, each in found.items():
        yield Row(
            part="histograms",
            case=case.name,
            origin=case.origin,
            budget=kind(budget),
            epsilon=budget.epsilon,
            method=method,
            loss=float(each.mean()),
            error=float(each.std(ddof=1)) / root,
            draws=each.size,
            paired=float(np.std(found[OURS] - each, ddof=1)) / root,
        )
