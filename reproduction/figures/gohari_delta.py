"""Figure 2: Gohari's δ(γ), and why the paper's curve stops at 2.1e-4."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import gammaln, roots_jacobi, roots_legendre

from simplexdp.accounting.paper import gohari_delta, gohari_guarantee
from simplexdp.mechanisms import Dirichlet
from simplexdp.numerics.printed import printed

from ..cells import Cell
from ..results import Row, curve
from .base import Figure
from .canvas import canvas

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing

R, TOTAL, CELLS = 0.97, 147, 6
ALPHA = 1 + 4 * R
"""The published parameters: λ = 2, so that k = rN + dα = 171.87 and η = α/k = 0.0284."""
CONCENTRATION = R * TOTAL + CELLS * ALPHA
DEGREE = 50
FLOOR = 2.1e-4


def quadrature_delta(gamma: float, degree: int = DEGREE) -> float:
    """1 − ∫∫ of the Dirichlet density over y₁, y₂, y₃ ≥ γ by a triangle rule that is exact to this degree.

    The published code does the same with another rule of degree 50. The density is a polynomial of degree k − 3 = 169
    near enough, so no rule of degree 50 can be exact, and one minus it shows the rule's error.
    """
    n = degree // 2 + 1
    x, wx = roots_jacobi(n, 1, 0)  # (1 − x) is the width of the triangle
    y, wy = roots_legendre(n)
    u, v = (1 + x) / 2, (1 + y) / 2
    side = 1 - 3 * gamma
    first = gamma + side * u[:, None] * np.ones_like(v)
    second = gamma + side * (1 - u)[:, None] * v
    a, c = ALPHA, CONCENTRATION - 2 * ALPHA
    log_density = (
        gammaln(CONCENTRATION)
        - 2 * gammaln(a)
        - gammaln(c)
        + (a - 1) * (np.log(first) + np.log(second))
        + (c - 1) * np.log(1 - first - second)
    )
    weights = wx[:, None] * wy * side**2 / 8
    return float(1 - np.sum(weights * np.exp(log_density)))


class GohariDelta(Figure):
    """δ computed as it stands, and as one minus a quadrature rule."""

    name = "gohari-delta"
    title = "Gohari's δ as a function of γ"
    paper_says = "With r = 171.87, η = 0.028 and η' = 0.114, the value of δ cannot go below 2.1e-4."

    def compute(self, cell: Cell) -> list[Row]:  # noqa: ARG002
        """Both ways over γ."""
        rows = []
        for gamma in np.geomspace(1e-8, 10**-2.2, 90).tolist():
            exact = gohari_delta(gamma, concentration=CONCENTRATION, alpha=ALPHA, cells=CELLS)
            for method, value in (("exact", exact), ("quadrature", quadrature_delta(gamma))):
                rows.append(Row(figure=self.name, method=method, x=gamma, metric="delta", value=value))
        return rows

    def draw(self, rows: Sequence[Row]) -> dict[str, Drawing]:
        """One panel with the published floor."""
        drawing, (panel,) = canvas(1, 1, width=5.5)
        exact, rule = curve(rows, method="exact"), curve(rows, method="quadrature")
        panel.loglog(exact.x, exact.mean, label="δ(γ)")
        panel.loglog(rule.x, np.abs(rule.mean), "--", label=f"|1 − rule of degree {DEGREE}|: artefact")
        panel.axhline(FLOOR, color="grey", linestyle=":", label="published floor 2.1e-4: artefact")
        panel.axhline(1e-5, color="C3", linewidth=0.8, label="δ = 1e-5")
        panel.set_xlabel("γ")
        panel.set_ylabel("δ")
        panel.set_ylim(1e-14, 1)
        panel.legend(fontsize=7)
        return {"": drawing}

    def found(self, rows: Sequence[Row]) -> list[str]:
        """The floor is the rule's, not the guarantee's."""
        rule = curve(rows, method="quadrature")
        epsilon = gohari_guarantee(r=R, alpha=ALPHA, total=TOTAL, cells=CELLS, delta=1e-5)
        exact = Dirichlet(r=R, alpha=ALPHA).loss().epsilon(1e-5)
        smallest = gohari_delta(1e-8, concentration=CONCENTRATION, alpha=ALPHA, cells=CELLS)
        return [
            f"δ falls without end: {smallest:.1e} at γ = 1e-8. The published floor is the integration rule's error.",
            f"A rule of the same degree computed here stops at {abs(rule.mean[0]):.1e}.",
            f"At δ = 1e-5 the theorem gives ε = {printed(epsilon)}; the exact ε of the same mechanism is "
            f"{printed(exact)}.",
        ]
