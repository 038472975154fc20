"""Which exact integer mechanism loses least, from public facts alone: the budget, the number of cells and the total."""

from __future__ import annotations

from ..budget import Budget, Neighbours
from .balanced import BalancedLaplace
from .noise import Gaussian, Laplace
from .polya import Polya

FEW_CELLS = 64
"""Up to here balanced noise saves more than 2 % of the variance of Laplace noise."""


def choose(
    budget: Budget,
    *,
    tables: int = 1,
    neighbours: Neighbours = "replace-one",
    total: float | None = None,
    cells: int | None = None,
    rows: int = 1,
) -> Polya | Gaussian | Laplace | BalancedLaplace:
    """The one of Pólya, discrete Gaussian, Laplace and balanced Laplace with the least noise at the average count.

    Laplace noise wins for one or a few tables at a moderate δ, Gaussian and Pólya noise for many tables. The Pólya
    noise grows with the count, so it wins with many cells and small counts; without a public size it is not considered.
    Balanced Laplace noise takes the place of Laplace noise in tables of few cells with a public total.
    """
    settings = {"tables": tables, "rows": rows}
    gaussian = Gaussian.calibrate(budget, neighbours=neighbours, **settings)
    laplace = Laplace.calibrate(budget, neighbours=neighbours, **settings)
    noise: Gaussian | Laplace | BalancedLaplace
    noise = gaussian if gaussian.noise_variance <= laplace.noise_variance else laplace
    if total is None or cells is None:
        return noise
    variance = noise.noise_variance
    if neighbours == "replace-one" and rows == 1 and 2 <= cells <= FEW_CELLS:
        balanced = BalancedLaplace.calibrate(budget, tables=tables, cells=cells)
        if balanced.equivalent_variance < variance:
            noise, variance = balanced, balanced.equivalent_variance
    polya = Polya.calibrate(budget, neighbours=neighbours, total=total, cells=cells, **settings)
    average = polya.variance + polya.slope * total / cells
    return polya if average <= variance else noise
