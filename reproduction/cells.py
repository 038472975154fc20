"""The unit of work: one figure's part that is computed, stored and resumed as a whole."""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass
from functools import lru_cache

from simplexdp import __version__
from simplexdp.budget import Budget
from simplexdp.errors import Infeasible
from simplexdp.sampling import SeededEntropy

from .graphs import GRAPHS
from .methods.base import Regime
from .methods.registry import method_named
from .problems import Problem, naive_bayes, network
from .results import CORRECT, PUBLISHED, Row
from .settings import Settings

HEAVY_REPEATS = 2
"""Repeats of methods that fit a posterior to each draw."""
PUBLISHED_FACTOR = 4
"""The published settings are drawn more often, so that a difference to the paper is the paper's own sampling error."""


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One method on one data set over all budgets, or a whole analytic figure (without method)."""

    figure: str
    settings: Settings
    regime: Regime = "rdp"
    published: bool = False
    data: str = ""
    method: str = ""

    @property
    def identity(self) -> str:
        """What fixes the numbers, and nothing else: not the number of jobs, not the folder."""
        s = self.settings
        parts = (
            self.figure,
            self.regime,
            self.published,
            self.data,
            self.method,
            s.repeats,
            s.seed,
            s.quick,
            s.generated,
            __version__,
        )
        return "|".join(map(str, parts))

    @property
    def file(self) -> str:
        """A readable name, unique by the digest of the identity."""
        words = [self.figure, "published" if self.published else "correct", self.data, self.method]
        return "-".join(w for w in words if w) + f"-{hashlib.sha256(self.identity.encode()).hexdigest()[:12]}.csv"

    def seed(self, budget: Budget) -> int:
        """The seed of the draws at one budget, derived from the identity."""
        digest = hashlib.sha256(f"{self.identity}|{budget}".encode()).digest()
        return int.from_bytes(digest[:6], "big")

    @property
    def setting(self) -> str:
        """How the rows are marked."""
        return PUBLISHED if self.published else CORRECT


@lru_cache(maxsize=2)
def _problem(kind: str, data: str, published: bool, settings: Settings) -> Problem:
    table = settings.table(data)
    if kind == "naive-bayes":
        return naive_bayes(table, published=published)
    return network(table, GRAPHS[data], published=published)


def fit_cell(cell: Cell, kind: str) -> list[Row]:
    """Fit one method at every budget and evaluate it on the test rows."""
    problem = _problem(kind, cell.data, cell.published, cell.settings)
    method = method_named(cell.method, cell.regime, published=cell.published)
    repeats = min(cell.settings.repeats, HEAVY_REPEATS) if method.heavy else cell.settings.repeats
    if cell.published and not cell.settings.quick:
        repeats *= PUBLISHED_FACTOR
    if cell.method in ("random", "non-private"):
        repeats = 1  # nothing is drawn
    rows = []
    for budget in cell.settings.budgets(cell.regime):
        seed = cell.seed(budget)
        common = {
            "figure": cell.figure,
            "setting": cell.setting,
            "data": cell.data,
            "method": cell.method,
            "x": budget.epsilon,
            "seed": seed,
        }
        try:
            found = problem.evaluate(method.fit(problem.tables, budget, SeededEntropy(seed), repeats))
        except Infeasible as error:
            rows.append(Row(**common, metric="infeasible", value=math.nan, note=str(error)))  # type: ignore[arg-type]
            continue
        for metric, values in found.items():
            rows += [
                Row(**common, metric=metric, repeat=i, value=float(value))  # type: ignore[arg-type]
                for i, value in enumerate(values)
            ]
    return rows
