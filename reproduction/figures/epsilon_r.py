"""Appendix B: ε̂ as a function of r at four orders."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from simplexdp.accounting import Sensitivity, conversion_floor, rdp_to_epsilon
from simplexdp.mechanisms import Dirichlet
from simplexdp.numerics.printed import printed

from ..cells import Cell
from ..results import CORRECT, PUBLISHED, Row, curve
from ..settings import DELTA, Settings
from .base import Figure
from .canvas import canvas, stamp

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing

ORDERS = (2, 10, 50, 200)


class EpsilonR(Figure):
    """The paper's conversion beside the exact ε of the same mechanism."""

    name = "epsilon-r"
    title = "ε̂ as a function of r, δ = 1e-5"
    paper_says = "At a fixed δ, ε̂ increases when we increase r and decrease λ."

    def cells(self, settings: Settings) -> list[Cell]:
        """The correct curves, and the published ones on request."""
        return [Cell(figure=self.name, settings=settings, published=published) for published in settings.kinds]

    def compute(self, cell: Cell) -> list[Row]:
        """The published curve has Δ₂² = 1, although two counts move by one."""
        rows = []
        sensitivity = Sensitivity(l2_squared=1.0 if cell.published else 2.0)
        for order in ORDERS:
            for r in np.geomspace(1e-2, 10, 12 if cell.settings.quick else 40).tolist():
                mechanism = Dirichlet(r=r, alpha=1 + 4 * (order - 1) * r)
                values = {"Algorithm 1": rdp_to_epsilon(order, mechanism.bound(sensitivity).rdp(order), DELTA)}
                if not cell.published:
                    values["exact"] = mechanism.loss().epsilon(DELTA)
                rows += [
                    Row(
                        figure=self.name,
                        setting=cell.setting,
                        data=f"λ = {order}",
                        method=name,
                        x=r,
                        metric="epsilon",
                        value=value,
                    )
                    for name, value in values.items()
                ]
        return rows

    def draw(self, rows: Sequence[Row]) -> dict[str, Drawing]:
        """All orders in one panel."""
        drawing, (panel,) = canvas(1, 1, width=6, height=4)
        for i, order in enumerate(ORDERS):
            key = f"λ = {order}"
            for name, setting, line in (
                ("Algorithm 1", CORRECT, "-"),
                ("exact", CORRECT, "--"),
                ("Algorithm 1", PUBLISHED, ":"),
            ):
                c = curve(rows, data=key, method=name, setting=setting)
                if c.x:
                    text = "" if setting == CORRECT else f", {PUBLISHED}"
                    panel.loglog(c.x, c.mean, line, color=f"C{i}", label=f"{key}, {name}{text}")
        panel.set_xlabel("r")
        panel.set_ylabel("ε̂")
        panel.legend(fontsize=6)
        stamp(drawing, [row.setting for row in rows])
        return {"": drawing}

    @staticmethod
    def _ordered(rows: Sequence[Row]) -> bool:
        curves = [curve(rows, data=f"λ = {order}", method="Algorithm 1", setting=CORRECT).mean for order in ORDERS]
        return all(all(a > b for a, b in pairwise(values)) for values in zip(*curves, strict=True))

    def found(self, rows: Sequence[Row]) -> list[str]:
        """The floors, the looseness and the direction in λ."""
        floors = ", ".join(f"{printed(conversion_floor(order, DELTA), up=False)} at λ = {order}" for order in ORDERS)
        ratios = []
        for order in ORDERS:
            bound, exact = (
                curve(rows, data=f"λ = {order}", method=m, setting=CORRECT) for m in ("Algorithm 1", "exact")
            )
            ratios.append(max(b / e for b, e in zip(bound.mean, exact.mean, strict=True) if e > 0))
        return [
            f"ε̂ cannot fall below {floors}, however small r.",
            f"The conversion exceeds the exact ε of the same mechanism by a factor of up to {max(ratios):.3g}.",
            f"A larger λ gives a smaller ε̂ at {'every' if self._ordered(rows) else 'not every'} r computed; it also "
            "raises α = 1 + 4(λ−1)r, and with it the pull towards uniform.",
            "The published curves use Δ₂² = 1; for counts it is 2, so they are too low.",
        ]
