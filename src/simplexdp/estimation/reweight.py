"""One Newton step from a noisy gradient and a noisy Hessian, as far as the noise allows.

With d the step and y = −gradient, y = H d + e, where d is normal a priori and e holds the noise of the gradient, that
of the Hessian times d, and the sampling noise H of the gradient itself. The posterior mean of d is the Wiener
solution; prior widths are mixed by their evidence. Everything here is post-processing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .values import FloatArray


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
