"""Figure 3, top: the Rényi bound of Algorithm 1 against the exact divergence."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from simplexdp.accounting import Sensitivity
from simplexdp.mechanisms import Dirichlet

from ..cells import Cell
from ..results import Row, curve
from .base import Figure
from .canvas import canvas

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing

ORDERS = (2, 20, 200)
FIRST = np.array([11, 8, 65, 25, 38, 1])
SECOND = np.array([11, 7, 65, 25, 38, 0])


def renyi_between(u: NDArray[np.float64], v: NDArray[np.float64], order: float) -> float:
    """D_λ(Dirichlet(u) ‖ Dirichlet(v)) = [ln B(u + (λ−1)(u−v)) − λ ln B(u) + (λ−1) ln B(v)]/(λ−1)."""
    w = order - 1

    def log_beta(a: NDArray[np.float64]) -> float:
        return float(gammaln(a).sum() - gammaln(a.sum()))

    return (log_beta(u + w * (u - v)) - order * log_beta(u) + w * log_beta(v)) / w


class RenyiBound(Figure):
    """Three curves for each order: the bound, the published pair, and the worst pair there is."""

    name = "renyi-bound"
    title = "Algorithm 1's Rényi bound against the exact divergence"
    paper_says = "The proposed guarantees are close to the actual Rényi divergences across different values of λ."

    def compute(self, cell: Cell) -> list[Row]:  # noqa: ARG002
        """Over r at α = 1 + 4(λ−1)r."""
        rows = []
        for order in ORDERS:
            for r in np.geomspace(1e-3, 10, 60).tolist():
                alpha = 1 + 4 * (order - 1) * r
                mechanism = Dirichlet(r=r, alpha=alpha)
                values = {
                    "Algorithm 1": mechanism.bound(Sensitivity()).rdp(order),
                    "published pair": renyi_between(r * FIRST + alpha, r * SECOND + alpha, order),
                    "worst pair": mechanism.loss().rdp(order),
                }
                rows += [
                    Row(figure=self.name, data=f"λ = {order}", method=name, x=r, metric="epsilon", value=value)
                    for name, value in values.items()
                ]
        return rows

    def draw(self, rows: Sequence[Row]) -> dict[str, Drawing]:
        """One panel for each order."""
        drawing, panels = canvas(1, 3)
        for panel, order in zip(panels, ORDERS, strict=True):
            for name, line in (("Algorithm 1", "-"), ("worst pair", "--"), ("published pair", ":")):
                c = curve(rows, data=f"λ = {order}", method=name)
                panel.loglog(c.x, c.mean, line, label=name)
            panel.set_title(f"λ = {order}")
            panel.set_xlabel("r")
            panel.set_ylabel("ε")
            panel.legend()
        return {"": drawing}

    def found(self, rows: Sequence[Row]) -> list[str]:
        """The ratios."""
        sentences = []
        for order in ORDERS:
            bound, worst, pair = (
                curve(rows, data=f"λ = {order}", method=name)
                for name in ("Algorithm 1", "worst pair", "published pair")
            )
            ratios = [b / w for b, w in zip(bound.mean, worst.mean, strict=True)]
            loose = max(b / p for b, p in zip(bound.mean, pair.mean, strict=True))
            sentences.append(
                f"λ = {order}: the bound is {min(ratios):.3f} to {max(ratios):.3f} times the exact worst case over all "
                f"tables, and up to {loose:.2f} times the divergence of the published pair."
            )
        return [*sentences, "The published pair removes two records, so it is not a neighbouring pair of replace-one."]
