"""A proportion seen through noise: θ ~ Beta(τm, τ(1−m)), z a noisy count of nθ, by quadrature."""

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
    values: FloatArray,
    variance: float,
    slope: float,
    totals: FloatArray,
    total_variances: FloatArray,
    means: FloatArray,
    centre: float,
) -> BetaPosterior:
    """The posterior of each proportion for every τ of STRENGTHS; all arrays are flat and of one length.

    z ~ N(nθ, variance + slope·nθ + nθ(1−θ) + Var(n)(θ − c)²).

    Args:
        values: the noisy count z of each cell.
        variance: of its noise.
        slope: how the noise grows with the count.
        totals: n, of how many records the cell holds the share θ.
        total_variances: of n, where it is uncertain.
        means: m, the prior mean of θ.
        centre: c of a value that was moved by c (n − n̂) with the row; an error of n then moves it by (c − θ).
    """
    size = values.size
    made = BetaPosterior(
        mean=np.empty((STRENGTHS.size, size)),
        variance=np.empty((STRENGTHS.size, size)),
        log_evidence=np.empty((STRENGTHS.size, size)),
    )
    for start in range(0, size, _CHUNK):  # the quadrature needs 74 points a cell
        part = slice(start, start + _CHUNK)
        _fill(made, part, values[part], variance, slope, totals[part], total_variances[part], means[part], centre)
    return made


def _log_normal(x: FloatArray, variance: FloatArray) -> FloatArray:
    return np.asarray(-0.5 * (x * x / variance + np.log(variance) + _LOG_2PI))


def _fill(
    made: BetaPosterior,
    part: slice,
    z: FloatArray,
    v: float,
    slope: float,
    n: FloatArray,
    spread: FloatArray,
    m: FloatArray,
    centre: float,
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

    def log_of(share: FloatArray) -> FloatArray:
        count = n[:, None] * share
        noise = v + slope * count + spread[:, None] * (share - centre) ** 2
        return _log_normal(z[:, None] - count, noise + count * (1 - share))

    log_likelihood = log_of(theta)
    at_zero, at_one = log_of(np.zeros((z.size, 1)))[:, 0], log_of(np.ones((z.size, 1)))[:, 0]
    top = np.maximum(np.maximum(log_likelihood.max(axis=1), at_zero), at_one)
    log_weight = log_likelihood - top[:, None] + np.log(np.maximum(width, 1e-300))
    for i, strength in enumerate(STRENGTHS):
        if np.isinf(strength):
            made.mean[i, part], made.variance[i, part] = m, 0.0
            made.log_evidence[i, part] = log_of(m[:, None])[:, 0]
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
