"""Which exact integer mechanism loses least, from public facts alone: the budget, the number of cells and the total."""

from __future__ import annotations

from ..budget import Budget, Neighbours
from .noise import Gaussian
from .polya import Polya


def choose(
    budget: Budget,
    *,
    tables: int = 1,
    neighbours: Neighbours = "replace-one",
    total: float | None = None,
    cells: int | None = None,
    rows: int = 1,
) -> Polya | Gaussian:
    """The one of Pólya and discrete Gaussian with the smaller noise variance at the average count.

    The Pólya noise grows with the count, so it wins with many cells and small counts; without a public size the
    discrete Gaussian is the safe choice.
    """
    gaussian = Gaussian.calibrate(budget, tables=tables, neighbours=neighbours, rows=rows)
    if total is None or cells is None:
        return gaussian
    polya = Polya.calibrate(
        budget, tables=tables, neighbours=neighbours, total=total, cells=cells, rows=rows
    )
    average = polya.variance + polya.slope * total / cells
    return polya if average <= gaussian.noise_variance else gaussian
