"""Appendix A: the mechanism is not pure DP; the loss has no upper bound."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from simplexdp.mechanisms import Dirichlet

from ..cells import Cell
from ..results import Row, curve
from .base import Figure
from .canvas import canvas

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing

MECHANISMS = (Dirichlet(r=0.5, alpha=1.0), Dirichlet(r=0.5, alpha=8.0), Dirichlet(r=2.0, alpha=40.0))


class NotPure(Figure):
    """The loss r·ln(t/(1−t)) in t = y_i/(y_i+y_j), and δ(ε) > 0 for every ε."""

    name = "not-pure"
    title = "Not pure differential privacy: the privacy loss has no bound"
    paper_says = "For any ε > 0, the mechanism that outputs y ~ Dirichlet(r f(x) + α) is not ε-differentially private."

    def compute(self, cell: Cell) -> list[Row]:  # noqa: ARG002
        """Loss over t, and the profile over ε."""
        rows = []
        for mechanism in MECHANISMS:
            key = f"r = {mechanism.r:g}, α = {mechanism.alpha:g}"
            for logit in np.linspace(-25, 25, 101).tolist():
                t = 1 / (1 + np.exp(-logit))
                rows.append(Row(figure=self.name, method=key, x=float(t), metric="loss", value=mechanism.r * logit))
            loss = mechanism.loss()
            for epsilon in np.linspace(0, 12, 25).tolist():
                value = loss.bounds(epsilon=epsilon).lower
                rows.append(Row(figure=self.name, method=key, x=epsilon, metric="delta", value=value))
        return rows

    def draw(self, rows: Sequence[Row]) -> dict[str, Drawing]:
        """Two panels."""
        drawing, (left, right) = canvas(1, 2)
        for key in dict.fromkeys(row.method for row in rows):
            loss, delta = (curve(rows, method=key, metric=metric) for metric in ("loss", "delta"))
            left.plot(loss.x, loss.mean, label=key)
            right.semilogy(delta.x, np.maximum(delta.mean, 1e-60), label=key)
        left.set_xscale("logit")
        left.set_xlabel("t = y_i/(y_i + y_j)")
        left.set_ylabel("privacy loss")
        right.set_xlabel("ε")
        right.set_ylabel("δ(ε), lower bound")
        right.legend(fontsize=7)
        return {"": drawing}

    def found(self, rows: Sequence[Row]) -> list[str]:
        """Positive everywhere, yet small."""
        positive = all(row.value > 0 for row in rows if row.metric == "delta")
        last = [curve(rows, method=m, metric="delta").mean[-1] for m in dict.fromkeys(r.method for r in rows)]
        return [
            "The loss of the worst pair is r·ln(y_i/y_j), unbounded; δ(ε) is "
            f"{'positive' if positive else 'not positive'} at every ε computed, so the claim holds for every r and α.",
            "It falls fast: at ε = 12 it is " + ", ".join(f"{value:.1e}" for value in last) + ".",
            "The published proof has the ratio 1/y₁ where it is y₁^−r up to a constant; the claim stands.",
        ]
