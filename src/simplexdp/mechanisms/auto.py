"""Which exact integer mechanism loses least, from public facts alone: the budget, the number of cells and the total."""

from __future__ import annotations

import contextlib
import math

from ..budget import Budget, Neighbours
from ..errors import Infeasible, NumericalError
from .balanced import BalancedLaplace
from .noise import Gaussian, Laplace
from .polya import Polya
from .predicted import NoiseLaw, predicted_loss

Chosen = Polya | Gaussian | Laplace | BalancedLaplace
FEW_CELLS = 64
"""Up to here balanced noise saves more than 2 % of the variance of Laplace noise."""
BEST_POLYA = 0.9
"""No Pólya noise has less than this part of the variance of Gaussian noise at the same budget."""
WORTH = 0.99
"""Pólya noise takes as many coin flips as its variance says: it must lose less than this part of the others."""


def noise_law(mechanism: Chosen) -> NoiseLaw:
    """What the prediction needs to know of a mechanism; Pólya noise is taken as normal."""
    if isinstance(mechanism, Polya):
        return NoiseLaw(shape="normal", variance=mechanism.variance, slope=mechanism.slope)
    if isinstance(mechanism, Gaussian):
        return NoiseLaw(shape="normal", variance=mechanism.continuous_variance)
    if isinstance(mechanism, Laplace):
        return NoiseLaw(shape="laplace", variance=mechanism.continuous_variance)
    # The scale of the discrete Laplace law whose variance 1/(2 sinh²(1/2b)) is the equivalent one.
    scale = 0.5 / math.asinh(1 / math.sqrt(2 * max(mechanism.equivalent_variance, 1e-300)))
    return NoiseLaw(shape="laplace", variance=2 * scale**2)


def choose(
    budget: Budget,
    *,
    tables: int = 1,
    neighbours: Neighbours = "replace-one",
    total: float | None = None,
    cells: int | None = None,
    rows: int = 1,
) -> Chosen:
    """The one of Pólya, discrete Gaussian, Laplace and balanced Laplace noise with the least predicted loss.

    Laplace noise wins for one or a few tables at a moderate δ, Gaussian and Pólya noise for many tables. The Pólya
    noise grows with the count, so it can win with many cells and small counts only. Balanced Laplace noise takes the
    place of Laplace noise in tables of few cells with a public total. Without a public size above 0 nothing can be
    predicted, and the smaller variance of Gaussian and Laplace noise is taken.
    """
    settings = {"tables": tables, "rows": rows}
    gaussian = Gaussian.calibrate(budget, neighbours=neighbours, **settings)
    if not total or cells is None or cells < 2:
        laplace = Laplace.calibrate(budget, neighbours=neighbours, **settings)
        return gaussian if gaussian.noise_variance <= laplace.noise_variance else laplace

    def loss(law: NoiseLaw) -> float:
        return predicted_loss(law, total=total, cells=cells)

    candidates: list[Chosen] = [gaussian]
    if neighbours == "replace-one" and rows == 1 and cells <= FEW_CELLS:
        candidates.append(BalancedLaplace.calibrate(budget, tables=tables, cells=cells))
    else:
        candidates.append(Laplace.calibrate(budget, neighbours=neighbours, **settings))
    losses = [loss(noise_law(each)) for each in candidates]
    at_best = NoiseLaw(shape="normal", variance=BEST_POLYA * gaussian.continuous_variance)
    if loss(at_best) < WORTH * min(losses):  # calibrating the Pólya mechanism takes longest
        with contextlib.suppress(Infeasible, NumericalError):  # beyond its range the others still serve
            polya = Polya.calibrate(budget, neighbours=neighbours, total=total, cells=cells, **settings)
            if loss(noise_law(polya)) < WORTH * min(losses):
                return polya
    return candidates[losses.index(min(losses))]
