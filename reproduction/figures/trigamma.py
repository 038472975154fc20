"""Figure 1: the trigamma function between its bounds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from simplexdp.accounting.paper import trigamma

from ..cells import Cell
from ..results import Row, curve
from .base import Figure
from .canvas import canvas

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing


class Trigamma(Figure):
    """ψ'(x) with 1/x + 1/(2x²) below and 1/x + 1/x² above."""

    name = "trigamma"
    title = "The trigamma function"
    paper_says = "ψ' is positive, convex and decreasing, with 1/x + 1/(2x²) < ψ'(x) < 1/x + 1/x² (equation 5)."

    def compute(self, cell: Cell) -> list[Row]:  # noqa: ARG002
        """The function and both bounds."""
        rows = []
        for x in np.geomspace(0.05, 20, 120).tolist():
            values = {"psi'": trigamma(x), "lower": 1 / x + 0.5 / x**2, "upper": 1 / x + 1 / x**2}
            rows += [Row(figure=self.name, method=name, x=x, metric="value", value=v) for name, v in values.items()]
        return rows

    def draw(self, rows: Sequence[Row]) -> dict[str, Drawing]:
        """One panel."""
        drawing, (panel,) = canvas(1, 1)
        for name, line in (("psi'", "-"), ("lower", ":"), ("upper", "--")):
            c = curve(rows, method=name)
            panel.loglog(c.x, c.mean, line, label={"psi'": "ψ'(x)"}.get(name, f"{name} bound"))
        panel.set_xlabel("x")
        panel.legend()
        return {"": drawing}

    def found(self, rows: Sequence[Row]) -> list[str]:
        """Whether the bounds hold everywhere."""
        value, lower, upper = (curve(rows, method=name) for name in ("psi'", "lower", "upper"))
        holds = all(a < b < c for a, b, c in zip(lower.mean, value.mean, upper.mean, strict=True))
        return [f"Both bounds {'hold' if holds else 'fail'} at all {len(value.x)} points."]
