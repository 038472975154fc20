"""What a run does: the grid of budgets, how often, from which seed."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from simplexdp.budget import Budget
from simplexdp.errors import InvalidArgument

from .datasets import PAPER_ORDER, Table, generate, load
from .graphs import GRAPHS
from .methods.base import Regime

ORDER = 5.0
DELTA = 1e-5


@dataclass(frozen=True, kw_only=True)
class Settings:
    """One run.

    Args:
        repeats: draws for each method and budget.
        seed: every draw's seed is derived from it and from what is drawn.
        quick: few data sets, budgets and repeats.
        as_published: also repeat the published settings with their slips; those results are not private.
        data: folder of the data files; None looks at SIMPLEXDP_DATA, the cache and the UCI repository.
        generated: use made-up tables instead of the data sets.
    """

    repeats: int = 10
    seed: int = 1
    quick: bool = False
    as_published: bool = False
    data: Path | None = None
    generated: bool = False

    def __post_init__(self) -> None:
        if self.repeats < 1:
            raise InvalidArgument("repeats", "1 or more", got=self.repeats)
        if self.quick:
            object.__setattr__(self, "repeats", min(self.repeats, 2))

    @property
    def kinds(self) -> tuple[bool, ...]:
        """Whether to run the correct settings only or the published ones as well."""
        return (True, False) if self.as_published else (False,)

    def budgets(self, regime: Regime) -> tuple[Budget, ...]:
        """The horizontal axis: ε of (5, ε)-RDP from 1e-3 to 10, or ε̂ of (ε̂, 1e-5)-DP."""
        if regime == "rdp":
            points = np.logspace(-3, 1, 3 if self.quick else 9)
            return tuple(Budget.rdp(order=ORDER, epsilon=float(f"{e:.6g}")) for e in points)
        points = np.logspace(-1, 1, 3) if self.quick else np.logspace(-2, 1, 7)
        return tuple(Budget(epsilon=float(f"{e:.6g}"), delta=DELTA) for e in points)

    def naive_bayes_data(self, *, published: bool) -> tuple[str, ...]:
        """The data sets of Table 1. The published file of GermanCredit is the South German one."""
        names = ("Thyroid", "GermanCredit") if self.quick else PAPER_ORDER
        return tuple("SouthGermanCredit" if published and name == "GermanCredit" else name for name in names)

    def network_data(self) -> tuple[str, ...]:
        """The data sets with a network."""
        return ("SouthGermanCredit",) if self.quick else tuple(GRAPHS)

    def table(self, name: str) -> Table:
        """The data set, or a made-up one."""
        if self.generated:
            return generate(name, rows=300, seed=self.seed)
        return load(name, directory=self.data)
