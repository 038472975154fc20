"""One Newton step from a noisy gradient and a noisy Hessian, as far as the noise allows.

With d the step and y = −gradient, y = H d + e, where d is normal a priori and e holds the noise of the gradient, that
of the Hessian times d, and the sampling noise H of the gradient itself. The posterior mean of d is the Wiener
solution; prior widths are mixed by their evidence. Everything here is post-processing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .strata import Strata, information
from .values import FloatArray

CLIP = 2.0
"""Gradients are clipped at this many times their expected size, Hessians at this many times their expected trace."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Scores:
    """What a record's scores are made of, all released: log-ratios with and without the record itself.

    Args:
        start: ln π.
        ratios: for each feature classes × values, ln θ/m.
        without: the same with one record of that class and value taken out.
        bias_scale: the unit of the biases, which makes their gradient as large as a feature's.
        gradient_size: clip of the gradient.
        hessian_trace: clip of the Hessian's trace.
    """

    start: FloatArray
    ratios: tuple[FloatArray, ...]
    without: tuple[FloatArray, ...]
    bias_scale: float
    gradient_size: float
    hessian_trace: float

    @classmethod
    def of(cls, strata: Strata, classes: FloatArray, total: float) -> Scores:
        """From the released tables."""
        size = (classes * total)[:, None]
        ratios, without = [], []
        for conditional, marginal, reliable in zip(
            strata.conditionals, strata.marginals, strata.reliability, strict=True
        ):
            left_out = (conditional * size - reliable) / np.maximum(size - 1, 1.0)
            ratios.append(np.log(conditional / marginal))
            without.append(np.log(np.maximum(left_out, 0.1 * conditional) / marginal))
        amount = float(information(strata, classes).sum())
        bias_scale = math.sqrt(amount / len(ratios) + 1e-12)
        trace = amount + bias_scale**2 * (1 - float(classes @ classes))
        return cls(
            start=np.log(classes),
            ratios=tuple(ratios),
            without=tuple(without),
            bias_scale=bias_scale,
            gradient_size=CLIP * math.sqrt(trace),
            hessian_trace=CLIP * trace,
        )

    @property
    def size(self) -> int:
        """The number of parameters."""
        return len(self.ratios) + self.start.size


@dataclass(frozen=True, kw_only=True, eq=False)
class Expansion:
    """Where a round evaluates each record: released scores at earlier estimates.

    Args:
        scores: of the records.
        weights: one for each feature.
        biases: one for each class.
        features: the columns of the scores.
        target: the class column.
    """

    scores: Scores
    weights: FloatArray
    biases: FloatArray
    features: tuple[str, ...]
    target: str


@dataclass(frozen=True, kw_only=True, eq=False)
class Step:
    """The posterior of a step: its mean and covariance."""

    mean: FloatArray
    covariance: FloatArray


def newton_step(
    gradient: FloatArray,
    gradient_noise: float,
    hessian: FloatArray,
    hessian_noise: float,
    *,
    expected: FloatArray,
    covariance: FloatArray,
    widths: Sequence[tuple[float, float]],
    features: int,
) -> Step:
    """The posterior mean of the step that minimises the loss.

    Args:
        gradient: noisy gradient.
        gradient_noise: standard deviation of its noise.
        hessian: noisy Hessian, symmetric.
        hessian_noise: standard deviation of the noise on its diagonal, √2 times that of the other entries.
        expected: prior mean of the step.
        covariance: prior covariance of the step.
        widths: pairs (common, single): further prior deviations of the first `features` coordinates, moved together
            and one by one.
        features: how many coordinates are feature weights.
    """
    values, vectors = np.linalg.eigh((hessian + hessian.T) / 2)
    positive = (vectors * np.maximum(values, 0.0)) @ vectors.T
    target = -gradient - positive @ expected
    size = gradient.size
    weights, means, covariances = [], [], []
    for common, single in widths:
        prior = covariance.copy()
        prior[:features, :features] += common**2 + single**2 * np.eye(features)
        noise = gradient_noise**2 + hessian_noise**2 / 2 * np.trace(prior)
        total = positive @ prior @ positive + noise * np.eye(size) + positive
        root = np.linalg.cholesky(total)
        white = np.linalg.solve(root, target)
        weights.append(-0.5 * float(white @ white) - float(np.log(np.diag(root)).sum()))
        gain = prior @ positive
        means.append(expected + gain @ np.linalg.solve(total, target))
        covariances.append(prior - gain @ np.linalg.solve(total, gain.T))
    share = np.exp(np.array(weights) - max(weights))
    share /= share.sum()
    mean = np.tensordot(share, np.array(means), 1)
    spread = sum(
        part * (within + np.outer(centre - mean, centre - mean))
        for part, within, centre in zip(share, covariances, means, strict=True)
    )
    return Step(mean=mean, covariance=np.asarray(spread))
