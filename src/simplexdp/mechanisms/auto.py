"""Which exact integer mechanism loses least, from public facts alone: the budget, the number of cells and the total."""

from __future__ import annotations

from ..budget import Budget, Neighbours
from .noise import Gaussian, Laplace
from .polya import Polya
from .predicted import NoiseLaw, predicted_loss

Chosen = Polya | Gaussian | Laplace
BEST_POLYA = 0.9
"""No Pólya noise has less than this part of the variance of Gaussian noise at the same budget."""


def noise_law(mechanism: Chosen) -> NoiseLaw:
    """What the prediction needs to know of a mechanism; Pólya noise is taken as normal."""
    if isinstance(mechanism, Polya):
        return NoiseLaw(shape="normal", variance=mechanism.variance, slope=mechanism.slope)
    if isinstance(mechanism, Laplace):
        return NoiseLaw(shape="laplace", variance=mechanism.continuous_variance)
    return NoiseLaw(shape="normal", variance=mechanism.continuous_variance)


def choose(
    budget: Budget,
    *,
    tables: int = 1,
    neighbours: Neighbours = "replace-one",
    total: float | None = None,
    cells: int | None = None,
    rows: int = 1,
) -> Chosen:
    """The one of Pólya, discrete Gaussian and discrete Laplace noise with the least predicted loss.

    Laplace noise wins for one or a few tables at a moderate δ, Gaussian and Pólya noise for many tables. The Pólya
    noise grows with the count, so it wins with many cells and small counts. Without a public size nothing can be
    predicted, and the smaller variance of Gaussian and Laplace noise is taken.
    """
    settings = {"tables": tables, "rows": rows}
    gaussian = Gaussian.calibrate(budget, neighbours=neighbours, **settings)
    laplace = Laplace.calibrate(budget, neighbours=neighbours, **settings)
    if total is None or cells is None or cells < 2:
        return gaussian if gaussian.noise_variance <= laplace.noise_variance else laplace

    def loss(law: NoiseLaw) -> float:
        return predicted_loss(law, total=total, cells=cells)

    candidates: list[Chosen] = [gaussian, laplace]
    losses = [loss(noise_law(each)) for each in candidates]
    at_best = NoiseLaw(shape="normal", variance=BEST_POLYA * gaussian.continuous_variance)
    if loss(at_best) < min(losses):  # calibrating the Pólya mechanism takes longest
        polya = Polya.calibrate(budget, neighbours=neighbours, total=total, cells=cells, **settings)
        candidates.append(polya)
        losses.append(loss(noise_law(polya)))
    return candidates[losses.index(min(losses))]
