"""A proportion seen through noise: θ ~ Beta(τm, τ(1−m)), z ~ N(nθ, v + slope·nθ + nθ(1−θ)), by quadrature."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import betaln

from .values import FloatArray

STRENGTHS = np.append(np.geomspace(0.5, 2e4, 13), np.inf)
"""The grid of prior strengths τ; at infinity θ is its prior mean."""
_NEAR = np.linspace(-6, 6, 33)
_FAR = np.linspace(-16, 16, 41)
_CHUNK = 8192
_LOG_2PI = float(np.log(2 * np.pi))


@dataclass(frozen=True, kw_only=True, eq=False)
class BetaPosterior:
    """Mean and variance of θ and the log-evidence of z, each with one row a strength τ."""

    mean: FloatArray
    variance: FloatArray
    log_evidence: FloatArray


def beta_posterior(
    values: FloatArray, variance: FloatArray, slope: float, totals: FloatArray, means: FloatArray
) -> BetaPosterior:
    """The posterior of each proportion for every τ of STRENGTHS; all arrays are flat and of one length.

    Args:
        values: the noisy count z of each cell.
        variance: of its noise.
        slope: how the noise grows with the count.
        totals: n, of how many records the cell holds the share θ.
        means: m, the prior mean of θ.
    """
    size = values.size
    made = BetaPosterior(
        mean=np.empty((STRENGTHS.size, size)),
        variance=np.empty((STRENGTHS.size, size)),
        log_evidence=np.empty((STRENGTHS.size, size)),
    )
    for start in range(0, size, _CHUNK):  # the quadrature needs 74 points a cell
        part = slice(start, start + _CHUNK)
        _fill(made, part, values[part], variance[part], slope, totals[part], means[part])
    return made


def _log_normal(x: FloatArray, variance: FloatArray) -> FloatArray:
    return np.asarray(-0.5 * (x * x / variance + np.log(variance) + _LOG_2PI))


def _fill(
    made: BetaPosterior,
    part: slice,
    z: FloatArray,
    v: FloatArray,
    slope: float,
    n: FloatArray,
    m: FloatArray,
) -> None:
    m, n = np.clip(m, 1e-9, 1 - 1e-9), np.maximum(n, 1e-3)
    count = np.maximum(z, 0)
    sd = np.sqrt(v + slope * count + count * np.clip(1 - z / n, 0, 1) + 0.25)
    near = np.clip((z[:, None] + sd[:, None] * _NEAR) / n[:, None], 1e-7, 1 - 1e-7)
    # Points where the likelihood is, and a fixed ladder in the logit, where the prior is.
    u = np.sort(np.hstack([np.log(near / (1 - near)), np.broadcast_to(_FAR, (z.size, _FAR.size))]), axis=1)
    log_theta, log_rest = -np.logaddexp(0, -u), -np.logaddexp(0, u)
    theta = np.exp(log_theta)
    step = np.diff(u, axis=1) / 2
    width = np.zeros_like(u)
    width[:, 1:] += step
    width[:, :-1] += step
    mean = n[:, None] * theta
    log_likelihood = _log_normal(z[:, None] - mean, v[:, None] + slope * mean + mean * (1 - theta))
    at_zero, at_one = _log_normal(z, v), _log_normal(z - n, v + slope * n)
    top = np.maximum(np.maximum(log_likelihood.max(axis=1), at_zero), at_one)
    log_weight = log_likelihood - top[:, None] + np.log(np.maximum(width, 1e-300))
    for i, strength in enumerate(STRENGTHS):
        if np.isinf(strength):
            made.mean[i, part], made.variance[i, part] = m, 0.0
            made.log_evidence[i, part] = _log_normal(z - n * m, v + slope * n * m + n * m * (1 - m))
            continue
        a, b = strength * m, strength * (1 - m)
        constant = betaln(a, b)
        exponent = log_weight + a[:, None] * log_theta + b[:, None] * log_rest - constant[:, None]
        weight = np.exp(np.minimum(exponent, 600))
        # Beyond the ladder the likelihood is constant and the tails of the Beta are powers.
        below = np.exp(a * log_theta[:, 0] - np.log(a) - constant + at_zero - top)
        above = np.exp(b * log_rest[:, -1] - np.log(b) - constant + at_one - top)
        total = weight.sum(axis=1) + below + above + 1e-300
        first = (np.einsum("ij,ij->i", weight, theta) + above) / total
        second = (np.einsum("ij,ij,ij->i", weight, theta, theta) + above) / total
        made.mean[i, part] = first
        made.variance[i, part] = np.maximum(second - first**2, 0)
        made.log_evidence[i, part] = np.log(total) + top
