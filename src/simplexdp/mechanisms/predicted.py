"""The loss that the default estimate is predicted to have, from public facts alone: N, the cells and the noise law.

Bayes' risk of the posterior mean m(z) = E[f | z] under a reference prior of the counts, cell by cell:

    E KL(f/N ‖ m/N) ≈ (1 − 1/d) · d/N · E[f ln(f/m(z)) − f + m(z)],   f ~ NB(k, N/d),   z = f + noise.

NB(k, N/d) counts are those of a Dirichlet(k) table given its total, and 1 − 1/d is what knowing the total takes away.
Small counts are summed on a lattice of a quarter of the noise deviation; from REACH deviations on the prior is flat
within the noise and the risk is Var/2f. The variance alone does not tell: among many small counts the heavy tails of
Laplace noise hide what Gaussian noise of the same variance shows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.special import betainc, xlogy

from .base import FloatArray

SHAPES = (0.1, 1.0)
"""k of the reference tables: a few large cells, and all kinds of tables."""
REACH = 12.0
"""Counts above this many deviations are estimated by their noisy value."""
STEPS = 4
"""Lattice points a deviation of the noise."""


@dataclass(frozen=True, kw_only=True)
class NoiseLaw:
    """Noise of variance `variance + slope · count` on every count; `shape` is that of its density."""

    shape: Literal["normal", "laplace"]
    variance: float
    slope: float = 0.0

    def log_density(self, noise: FloatArray, variance: FloatArray) -> FloatArray:
        """Up to a constant."""
        if self.shape == "laplace":
            return np.asarray(-np.abs(noise) * np.sqrt(2 / variance) - 0.5 * np.log(variance))
        return np.asarray(-0.5 * noise**2 / variance - 0.5 * np.log(variance))


def predicted_loss(law: NoiseLaw, *, total: float, cells: int) -> float:
    """The geometric mean of Bayes' risk over the reference tables of this size.

    >>> normal, laplace = NoiseLaw(shape="normal", variance=900.0), NoiseLaw(shape="laplace", variance=900.0)
    >>> predicted_loss(normal, total=10_000, cells=1000) < predicted_loss(laplace, total=10_000, cells=1000)
    True
    """
    risks = [_risk(law, k, total / cells) for k in SHAPES]
    share = (1 - 1 / cells) * cells / total
    return share * math.exp(float(np.mean(np.log(np.maximum(risks, 1e-300)))))


def _risk(law: NoiseLaw, k: float, mean: float) -> float:
    """E[f ln(f/m(z)) − f + m(z)] of one cell with an NB(k, mean) count."""
    deviation = math.sqrt(law.variance)
    limit = REACH * math.sqrt(law.variance + law.slope * REACH * deviation)
    counts, mass = _bins(k, mean, deviation / STEPS, 2 * limit)
    near = counts <= limit
    far = float(np.sum(mass[~near] * (law.variance + law.slope * counts[~near]) / (2 * counts[~near])))
    # Beyond twice the limit no posterior that matters is touched.
    close = counts <= 2 * limit
    f, prior, variance = counts[close], mass[close], law.variance + law.slope * counts[close]
    step = max(1.0, deviation / STEPS)
    z = np.arange(-math.ceil(REACH * deviation / step), math.ceil(2 * limit / step) + 1) * step
    log = law.log_density(z[:, None] - f, variance)
    density = np.exp(log - log.max(axis=0))
    density /= density.sum(axis=0)
    joint = density * prior
    posterior = (joint @ f) / np.maximum(joint.sum(axis=1), 1e-300)
    inside = near[close]
    loss = xlogy(f[inside], f[inside]) - f[inside]
    loss = (
        loss
        - density[:, inside].T @ np.log(np.maximum(posterior, 1e-300)) * f[inside]
        + density[:, inside].T @ posterior
    )
    return float(prior[inside] @ loss) + far


def _bins(k: float, mean: float, width: float, limit: float) -> tuple[FloatArray, FloatArray]:
    """Mean count and mass of an NB(k, mean) count in {0} and in bins: of this width up to the limit, then growing."""
    first = np.arange(0.5, limit + 1, max(1.0, math.floor(width)))
    most = max(limit, mean * (1 + 40 / k))
    edges = np.concatenate([[-0.5], first, np.geomspace(first[-1], most * 1.01 + 2, 60)[1:]])
    success = k / (k + mean)
    below = np.where(edges > 0, betainc(k, np.maximum(edges, 0) + 0.5, success), 0.0)
    # f NB(f; k, μ) = μ NB(f − 1; k + 1, μ(k + 1)/k): the sums of counts below each edge.
    sums = mean * np.where(edges > 1, betainc(k + 1, np.maximum(edges - 0.5, 1e-9), success), 0.0)
    mass, weight = np.diff(below), np.diff(sums)
    real = mass > 1e-14
    return np.asarray(weight[real] / mass[real]), np.asarray(mass[real])
