"""The population prior of many cells: negative binomials averaged by their evidence.

Given the total, independent NB(k, ·) counts are Dirichlet-multinomial(k). The evidence of k conditions on the
total by the saddle point: ln p(z | Σf = N) ≈ Σ ln p_λ(z_i) − λN − ½ ln Var_post + ½ ln Var_prior.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from .grid import all_equal, negative_binomial
from .likelihood import BinnedLikelihood
from .total import match_total
from .values import FloatArray

SHAPES = np.append(np.geomspace(0.02, 2e3, 11), np.inf)
"""Dirichlet-multinomial shapes k; ∞ is Poisson: all probabilities equal."""
LOG_SHAPE_SD = 1.5
"""Hyper-prior: ln k ~ N(0, this²)."""
POISSON_WEIGHT, EQUAL_WEIGHT = 0.3, 0.05
"""Prior weights of "all probabilities equal" and "all counts equal"."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Population:
    """A prior over {0} and the bins, the tilt that goes with it and the variance of the posterior total.

    `uneven` is the same prior without the laws under which all cells are alike, for intervals: these must hold where
    the table is nearly even, but not quite.
    """

    prior: FloatArray
    uneven: FloatArray
    tilt: float
    variance: float


def shape_weights(shapes: FloatArray = SHAPES, sd: float = LOG_SHAPE_SD) -> FloatArray:
    """Hyper-prior weights of the shapes, the last one being Poisson."""
    finite = np.exp(-0.5 * (np.log(shapes[:-1]) / sd) ** 2)
    return np.append(finite / finite.sum() * (1 - POISSON_WEIGHT), POISSON_WEIGHT)


def population_prior(
    edges: FloatArray,
    bins: BinnedLikelihood,
    reference: FloatArray,
    counts: FloatArray,
    total: float | None,
    mean: float,
    log_at_mean: FloatArray,
    scale: float,
) -> Population:
    """Average NB(k, mean) over k, Poisson and "all equal" by evidence."""
    cells = float(counts.sum())
    evidence, priors, tilts, variances = [], [], [], []
    tilt = 0.0
    for shape in SHAPES:
        prior = negative_binomial(edges, float(shape), mean)
        found = match_total(np.log(prior), bins, reference, counts, total, scale, start=tilt, tolerance=0.02)
        tilt = found.tilt
        variance = float(counts @ found.variance)
        log_evidence = float(counts @ found.log_evidence)
        if total is not None:
            prior_variance = mean + (mean * mean / shape if math.isfinite(shape) else 0.0)
            log_evidence -= tilt * (total - float(counts @ reference))
            log_evidence += 0.5 * math.log(cells * prior_variance) - 0.5 * math.log(max(variance, 1e-300))
        evidence.append(log_evidence)
        priors.append(prior)
        tilts.append(tilt)
        variances.append(variance)
    log_weights = np.array(evidence) + np.log(shape_weights())
    log_weights = np.append(log_weights, float(counts @ log_at_mean) + math.log(EQUAL_WEIGHT))
    weights = np.exp(log_weights - log_weights.max())
    weights /= weights.sum()
    variance = max(float(weights[:-1] @ np.array(variances)), 1e-3 * cells * scale * scale)
    limit = 3 / math.sqrt(variance)  # a larger tilt means the population misfits, which the mixture will mend
    finite = np.exp(log_weights[:-2] - log_weights[:-2].max())
    return Population(
        prior=weights @ np.array([*priors, all_equal(edges, mean)]),
        uneven=finite @ np.array(priors[:-1]) / finite.sum(),
        tilt=float(np.clip(weights[:-1] @ np.array(tilts), -limit, limit)),
        variance=variance,
    )
