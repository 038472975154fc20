"""Posterior of one share under a Beta prior, given a noisy count: quadrature, many cells and prior strengths at once.

θ ~ Beta(τ m, τ (1−m)) and z = n θ + sampling noise + mechanism noise; the sampling noise has variance n θ (1−θ), and the
mechanism's is `variance + slope·nθ`, normal or Laplace-shaped.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import betaln, log_ndtr

from .values import FloatArray, NoiseShape

NEAR = np.linspace(-6.0, 6.0, 25)
"""Nodes around the observation, in standard deviations."""
FAR = np.linspace(-16.0, 16.0, 33)
"""Nodes on the logit scale, for the prior."""
BLOCK = 4096
"""Cells handled at once, so that the work arrays stay in the cache."""


@dataclass(frozen=True, kw_only=True, eq=False)
class SharePosterior:
    """Mean, variance and log-evidence, each of shape (strengths, cells)."""

    mean: FloatArray
    variance: FloatArray
    log_evidence: FloatArray


def log_density(residual: FloatArray, sampling: FloatArray, noise: FloatArray, shape: NoiseShape) -> FloatArray:
    """ln density of normal sampling noise of variance `sampling` plus mechanism noise of variance `noise`."""
    if shape == "normal":
        variance = sampling + noise
        return np.asarray(-0.5 * residual**2 / variance - 0.5 * np.log(2 * math.pi * variance))
    scale, s = np.sqrt(noise / 2), np.sqrt(sampling + 1e-12)
    left = residual / scale + log_ndtr(-residual / s - s / scale)
    right = -residual / scale + log_ndtr(residual / s - s / scale)
    return np.asarray(np.logaddexp(left, right) + s * s / (2 * scale * scale) - np.log(2 * scale))


def share_posterior(
    values: FloatArray,
    variance: FloatArray,
    slope: FloatArray,
    size: FloatArray,
    prior_mean: FloatArray,
    strengths: FloatArray,
    shape: NoiseShape = "normal",
) -> SharePosterior:
    """The posterior of every θ for every strength τ (infinite allowed); all arrays flat and of one length."""
    parts = []
    for start in range(0, values.size, BLOCK):
        cut = slice(start, start + BLOCK)
        parts.append(_block(values[cut], variance[cut], slope[cut], size[cut], prior_mean[cut], strengths, shape))
    mean, second, evidence = (np.concatenate(arrays, axis=1) for arrays in zip(*parts, strict=True))
    return SharePosterior(mean=mean, variance=np.maximum(second - mean**2, 0.0), log_evidence=evidence)


def _block(
    z: FloatArray,
    variance: FloatArray,
    slope: FloatArray,
    size: FloatArray,
    prior_mean: FloatArray,
    strengths: FloatArray,
    shape: NoiseShape,
) -> tuple[FloatArray, FloatArray, FloatArray]:
    m = np.clip(prior_mean, 1e-9, 1 - 1e-9)
    n = np.maximum(size, 1e-3)

    def log_likelihood(share: FloatArray) -> FloatArray:
        count = n[:, None] * share
        noise = variance[:, None] + slope[:, None] * count
        return log_density(z[:, None] - count, count * (1 - share), noise, shape)

    seen = np.clip(z, 0.0, n)
    deviation = np.sqrt(variance + slope * seen + seen * (1 - seen / n) + 0.25)
    near = np.clip((z[:, None] + deviation[:, None] * NEAR) / n[:, None], 1e-7, 1 - 1e-7)
    logit = np.concatenate([np.log(near / (1 - near)), np.broadcast_to(FAR, (z.size, FAR.size))], axis=1)
    logit.sort(axis=1)
    share = 1 / (1 + np.exp(-logit))
    log_share, log_rest = -np.logaddexp(0, -logit), -np.logaddexp(0, logit)
    steps = np.diff(logit, axis=1)
    widths = np.zeros_like(logit)  # trapezoid rule on the logit scale, whose Jacobian is θ(1−θ)
    widths[:, 1:] += steps / 2
    widths[:, :-1] += steps / 2
    inside = log_likelihood(share)
    ends = log_likelihood(np.broadcast_to([0.0, 1.0], (z.size, 2)))
    top = np.maximum(inside.max(axis=1), ends.max(axis=1))
    weighted = inside - top[:, None] + np.log(np.maximum(widths, 1e-300))
    ends = ends - top[:, None]
    slope_of_prior = m[:, None] * log_share + (1 - m[:, None]) * log_rest
    means, seconds, evidences = [], [], []
    for tau in strengths:
        if math.isinf(tau):
            means.append(m)
            seconds.append(m * m)
            evidences.append(log_likelihood(m[:, None])[:, 0])
            continue
        a, b = tau * m, tau * (1 - m)
        log_beta = betaln(a, b)
        mass = np.exp(np.minimum(weighted + tau * slope_of_prior - log_beta[:, None], 600.0))
        # Beyond the outermost nodes the prior is a pure power and the likelihood constant.
        zero = np.exp(a * log_share[:, 0] - np.log(a) - log_beta + ends[:, 0])
        one = np.exp(b * log_rest[:, -1] - np.log(b) - log_beta + ends[:, 1])
        total = mass.sum(axis=1) + zero + one + 1e-300
        means.append(((mass * share).sum(axis=1) + one) / total)
        seconds.append(((mass * share**2).sum(axis=1) + one) / total)
        evidences.append(np.log(total) + top)
    return np.array(means), np.array(seconds), np.array(evidences)
