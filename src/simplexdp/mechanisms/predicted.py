"""The loss that the default estimate is predicted to have, from public facts alone: N, the cells and the noise law.

Bayes' risk of the posterior mean m(z) = E[f | z], cell by cell, where the counts f of the cells come from a reference
table of the same size:

    E KL(f/N ‖ m/N) ≈ (1 − 1/d) · d/N · E[f ln(f/m(z)) − f + m(z)],   z = f + noise,

the factor 1 − 1/d being what the public total tells. Small counts are summed over bins of a quarter of the noise
deviation; from REACH deviations on the prior is flat within the noise and the risk is Var/2f. The variance alone does
not tell: among many small counts the heavy tails of Laplace noise hide what Gaussian noise of the same variance shows.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.special import betainc, xlogy

from .base import FloatArray

REACH = 12.0
"""Counts above this many deviations are estimated by their noisy value."""
STEPS = 4
"""Bins a deviation of the noise."""
GROWTH = 0.3
"""Of bins that are not yet as wide as that."""
RANKS = 24
"""Points at which a reference table by rank is taken."""


@dataclass(frozen=True, kw_only=True)
class NoiseLaw:
    """Integer noise on every count.

    Args:
        shape: of its density.
        variance: of the continuous law that it agrees with on the integers, at an empty cell.
        slope: how the variance grows with the count.
    """

    shape: Literal["normal", "laplace"]
    variance: float
    slope: float = 0.0

    def density(self, noise: FloatArray, variance: FloatArray) -> FloatArray:
        """Normalised along the first axis."""
        log = -np.abs(noise) * np.sqrt(2 / variance) if self.shape == "laplace" else -0.5 * noise**2 / variance
        weights = np.exp(log - log.max(axis=0))
        return np.asarray(weights / weights.sum(axis=0))


@dataclass(frozen=True)
class Reference:
    """A table as a mixture of NB(k, mean) counts: shares of the cells, their k and means."""

    shares: FloatArray
    shapes: FloatArray
    means: FloatArray


def sparse(total: float, cells: int) -> Reference:
    """One cell in twenty is not empty."""
    few = max(1 / 20, min(1.0, 2 / cells))  # but two at least
    return Reference(np.array([few, 1 - few]), np.array([1.0, 1.0]), np.array([total / cells / few, 0.0]))


def zipf(power: float) -> Callable[[float, int], Reference]:
    """Probabilities ∝ rank^−power; the ranks in groups, so counts spread by a quarter within them."""

    def table(total: float, cells: int) -> Reference:
        edges = np.geomspace(0.5, cells + 0.5, RANKS + 1) if cells > RANKS else np.arange(cells + 1) + 0.5
        shares, means = np.diff(edges) / cells, np.sqrt(edges[1:] * edges[:-1]) ** -power
        shares = shares / shares.sum()
        means = means * total / cells / float(shares @ means)
        return Reference(shares, np.full(means.size, 16.0), means)

    return table


REFERENCES: tuple[Callable[[float, int], Reference], ...] = (zipf(1.0), zipf(1.5), sparse)
"""With these the better of Gaussian and Laplace noise was predicted in 96 % of 594 simulated pairs that differed by
more than 10 % (synthetic tables of 4 to 1000 cells, variance ratios 1/2 to 3); the variances alone tell it in 91 %."""


def predicted_loss(law: NoiseLaw, *, total: float, cells: int) -> float:
    """The geometric mean of Bayes' risk over the reference tables of this size.

    >>> normal, laplace = NoiseLaw(shape="normal", variance=900.0), NoiseLaw(shape="laplace", variance=900.0)
    >>> predicted_loss(normal, total=10_000, cells=1000) < predicted_loss(laplace, total=10_000, cells=1000)
    True
    """
    risks = [_risk(law, table(total, cells)) for table in REFERENCES]
    share = (1 - 1 / cells) * cells / total
    return share * math.exp(float(np.mean(np.log(np.maximum(risks, 1e-300)))))


def _risk(law: NoiseLaw, table: Reference) -> float:
    """E[f ln(f/m(z)) − f + m(z)] of one cell of the table."""
    deviation = math.sqrt(law.variance)
    limit = REACH * math.sqrt(law.variance + law.slope * REACH * deviation)
    step = max(1.0, deviation / STEPS)
    counts, mass = _bins(table, step, 2 * limit)
    near, close = counts <= limit, counts <= 2 * limit  # beyond twice the limit no posterior that matters is touched
    f, prior = counts[close], mass[close]
    z = np.asarray(np.arange(-math.ceil(REACH * deviation / step) - 2.0, math.ceil(2 * limit / step) + 3) * step)
    density = law.density(z[:, None] - f, law.variance + law.slope * f)
    drawn = float(law.density(z, np.array(law.variance)) @ z**2)  # less than `variance` where the lattice is coarse
    far = float(np.sum(mass[~near] * (drawn + law.slope * counts[~near]) / (2 * counts[~near])))
    joint = density * prior
    posterior = np.maximum((joint @ f) / np.maximum(joint.sum(axis=1), 1e-300), 1e-300)
    inside = near[close]
    f, prior, density = f[inside], prior[inside], density[:, inside]
    loss = xlogy(f, f) - f - f * (np.log(posterior) @ density) + posterior @ density
    return float(prior @ loss) + far


def _bins(table: Reference, width: float, limit: float) -> tuple[FloatArray, FloatArray]:
    """Mean count and mass of the cells in {0} and in bins: growing to this width, even to the limit, growing again."""
    most = max(limit, float(np.max(table.means * (1 + 40 / table.shapes)))) + 2
    growing = [0.5]
    while growing[-1] < width:
        growing.append(growing[-1] + max(1.0, math.floor(GROWTH * growing[-1])))
    even = np.arange(growing[-1], max(limit, growing[-1]) + width, math.floor(width))  # one bin at least
    edges = np.concatenate([[-0.5], growing[:-1], even, np.geomspace(even[-1], even[-1] + most, 60)[1:]])
    k, mean = table.shapes[:, None], table.means[:, None]
    success = k / (k + mean)
    below = np.where(edges > 0, betainc(k, np.maximum(edges, 0) + 0.5, success), 0.0)
    # f NB(f; k, μ) = μ NB(f − 1; k + 1, μ(k + 1)/k): the sums of counts below each edge.
    sums = mean * np.where(edges > 1, betainc(k + 1, np.maximum(edges - 0.5, 1e-9), success), 0.0)
    mass, weight = table.shares @ np.diff(below, axis=1), table.shares @ np.diff(sums, axis=1)
    real = mass > 1e-14
    return np.asarray(weight[real] / mass[real]), np.asarray(mass[real])
