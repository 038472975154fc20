"""What posterior sampling guarantees at ε = 0: Dimitrakakis et al. by Pinsker's inequality, and δ(0) exactly."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from simplexdp.mechanisms import Dirichlet

from ..cells import Cell
from ..methods.posterior import exact_delta, pinsker_delta
from ..results import Row, curve
from .base import Figure
from .canvas import canvas

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing

PRIORS = (1.0, 10.0, 100.0)


class PosteriorSampling(Figure):
    """δ at ε = 0 over the likelihood power r."""

    name = "posterior-sampling"
    title = "Posterior sampling is (0, δ)-DP"
    paper_says = "Dimitrakakis et al. (2017): for the beta-binomial model, a single draw is (0, δ)-DP (related work)."

    def compute(self, cell: Cell) -> list[Row]:  # noqa: ARG002
        """Both values."""
        rows = []
        for alpha in PRIORS:
            for r in np.geomspace(1e-4, 1, 17).tolist():
                mechanism = Dirichlet(r=r, alpha=alpha)
                for name, value in (("Pinsker", pinsker_delta(mechanism)), ("exact", exact_delta(mechanism))):
                    rows.append(
                        Row(figure=self.name, data=f"α = {alpha:g}", method=name, x=r, metric="delta", value=value)
                    )
        return rows

    def draw(self, rows: Sequence[Row]) -> dict[str, Drawing]:
        """One panel."""
        drawing, (panel,) = canvas(1, 1, width=5)
        for i, key in enumerate(dict.fromkeys(row.data for row in rows)):
            for name, line in (("Pinsker", "--"), ("exact", "-")):
                c = curve(rows, data=key, method=name)
                panel.loglog(c.x, c.mean, line, color=f"C{i}", label=f"{key}, {name}")
        panel.set_xlabel("r")
        panel.set_ylabel("δ(0)")
        panel.legend(fontsize=7)
        return {"": drawing}

    def found(self, rows: Sequence[Row]) -> list[str]:
        """The ratio of the two, and how small r must be."""
        ratios = [
            p / e
            for key in dict.fromkeys(row.data for row in rows)
            for p, e in zip(
                curve(rows, data=key, method="Pinsker").mean, curve(rows, data=key, method="exact").mean, strict=True
            )
        ]
        one = curve(rows, data="α = 1", method="exact")
        return [
            f"Pinsker's bound is {min(ratios):.3g} to {max(ratios):.3g} times the exact δ(0).",
            f"With the whole likelihood (r = 1) and a flat prior δ(0) is {one.mean[-1]:.3g}. For small r it is "
            "proportional to r, so δ = 1e-5 leaves almost nothing of the data.",
        ]
