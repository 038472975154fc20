"""Which exact integer mechanism loses least, from public facts alone: the budget, the number of cells and the total."""

from __future__ import annotations

from ..budget import Budget, Neighbours
from .noise import Gaussian, Laplace
from .polya import Polya


def choose(
    budget: Budget,
    *,
    tables: int = 1,
    neighbours: Neighbours = "replace-one",
    total: float | None = None,
    cells: int | None = None,
    rows: int = 1,
) -> Polya | Gaussian | Laplace:
    """The one of Pólya, discrete Gaussian and discrete Laplace with the smallest noise variance at the average count.

    Laplace noise wins for one or a few tables at a moderate δ, Gaussian and Pólya noise for many tables. The Pólya
    noise grows with the count, so it wins with many cells and small counts; without a public size it is not considered.
    """
    settings = {"tables": tables, "rows": rows}
    gaussian = Gaussian.calibrate(budget, neighbours=neighbours, **settings)
    laplace = Laplace.calibrate(budget, neighbours=neighbours, **settings)
    noise = gaussian if gaussian.noise_variance <= laplace.noise_variance else laplace
    if total is None or cells is None:
        return noise
    polya = Polya.calibrate(budget, neighbours=neighbours, total=total, cells=cells, **settings)
    average = polya.variance + polya.slope * total / cells
    return polya if average <= noise.noise_variance else noise
