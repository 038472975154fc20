"""A proportion seen through noise: θ ~ Beta(τm, τ(1−m)), z a noisy count of nθ, for a grid of strengths τ."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import betaln

from .values import FloatArray

STRENGTHS = np.append(np.geomspace(0.5, 2e4, 13), np.inf)
"""The grid of prior strengths τ; at infinity θ is its prior mean."""
NARROW = 12.0
"""A prior with τm(1−m) above this is taken for normal; below it the quadrature resolves it."""
# Nodes where the likelihood is (in its standard deviations), where the prior is, and everywhere (in the logit).
_LIKELIHOOD = np.linspace(-6, 6, 25)
_PRIOR = np.linspace(-2.4, 2.4, 17)
_EVERYWHERE = np.linspace(-16, 16, 25)
_CHUNK = 4096
_LOG_2PI = float(np.log(2 * np.pi))


@dataclass(frozen=True, kw_only=True, eq=False)
class BetaPosterior:
    """Mean and variance of θ and the log-evidence of z, each with one row a strength τ."""

    mean: FloatArray
    variance: FloatArray
    log_evidence: FloatArray


@dataclass(frozen=True, kw_only=True, eq=False)
class Proportions:
    """What is known about each proportion; arrays are flat and of one length.

    z ~ N(nθ, variance + slope·nθ + nθ(1−θ) + Var(n)(θ − c)²).

    Args:
        values: the noisy count z of each cell.
        variance: of its noise.
        slope: how the noise grows with the count.
        totals: n, of how many records the cell holds the share θ.
        total_variances: Var(n), where n is uncertain.
        means: m, the prior mean of θ.
        centre: c, for values that were moved by c times the error of n.
    """

    values: FloatArray
    variance: float
    slope: float
    totals: FloatArray
    total_variances: FloatArray
    means: FloatArray
    centre: float = 0.0

    def part(self, cut: slice) -> Proportions:
        """Some of the cells, with limits that keep every logarithm finite."""
        return Proportions(
            values=self.values[cut],
            variance=self.variance,
            slope=self.slope,
            totals=np.maximum(self.totals[cut], 1e-3),
            total_variances=self.total_variances[cut],
            means=np.clip(self.means[cut], 1e-9, 1 - 1e-9),
            centre=self.centre,
        )

    def spread(self, shares: FloatArray) -> FloatArray:
        """The variance of z at these shares, cells × shares."""
        count = self.totals[:, None] * shares
        noise = self.variance + self.slope * count
        return np.asarray(noise + count * (1 - shares) + self.total_variances[:, None] * (shares - self.centre) ** 2)

    def log_likelihood(self, shares: FloatArray) -> FloatArray:
        """ln density of z at these shares, cells × shares."""
        return _log_normal(self.values[:, None] - self.totals[:, None] * shares, self.spread(shares))


def beta_posterior(known: Proportions) -> BetaPosterior:
    """The posterior of each proportion for every τ of STRENGTHS."""
    size = known.values.size
    mean, second, log_evidence = (np.empty((STRENGTHS.size, size)) for _ in range(3))
    for start in range(0, size, _CHUNK):  # the quadrature needs 67 nodes a cell
        cut = slice(start, start + _CHUNK)
        _fill(known.part(cut), mean[:, cut], second[:, cut], log_evidence[:, cut])
    return BetaPosterior(mean=mean, variance=np.maximum(second - mean**2, 0), log_evidence=log_evidence)


def _log_normal(x: FloatArray, variance: FloatArray) -> FloatArray:
    return np.asarray(-0.5 * (x * x / variance + np.log(variance) + _LOG_2PI))


def _fill(known: Proportions, mean: FloatArray, second: FloatArray, log_evidence: FloatArray) -> None:
    """Write the moments and the evidence of a chunk of cells."""
    m, n, z = known.means, known.totals, known.values
    nodes, widths = _nodes(known)
    log_theta, log_rest = -np.logaddexp(0, -nodes), -np.logaddexp(0, nodes)
    theta = np.exp(log_theta)
    log_likelihood = known.log_likelihood(theta)
    ends = known.log_likelihood(np.broadcast_to([0.0, 1.0], (z.size, 2)))
    top = np.maximum(log_likelihood.max(axis=1), ends.max(axis=1))
    log_weight = log_likelihood - top[:, None] + np.log(np.maximum(widths, 1e-300))
    log_prior = m[:, None] * log_theta + (1 - m[:, None]) * log_rest
    squared = theta * theta
    noise = known.spread(m[:, None])[:, 0]
    for i, strength in enumerate(STRENGTHS):
        narrow = strength * m * (1 - m) > NARROW
        # Normal prior, normal likelihood.
        spread = np.where(narrow, m * (1 - m) / (strength + 1), 0.0)
        whole = noise + n * n * spread
        first = np.clip(m + n * spread / whole * (z - n * m), 1e-9, 1.0)
        mean[i], second[i] = first, first**2 + spread * noise / whole
        log_evidence[i] = _log_normal(z - n * m, whole)
        wide = np.flatnonzero(~narrow)
        if wide.size == 0:
            continue
        a, b = strength * m[wide], strength * (1 - m[wide])
        constant = betaln(a, b)
        exponent = strength * log_prior[wide]
        exponent += log_weight[wide]
        exponent -= constant[:, None]
        weight = np.exp(np.minimum(exponent, 600, out=exponent), out=exponent)
        # Beyond the outermost nodes the likelihood is constant and the Beta density a power.
        below = np.exp(a * log_theta[wide, 0] - np.log(a) - constant + ends[wide, 0] - top[wide])
        above = np.exp(b * log_rest[wide, -1] - np.log(b) - constant + ends[wide, 1] - top[wide])
        total = weight.sum(axis=1) + below + above + 1e-300
        mean[i, wide] = (np.einsum("ij,ij->i", weight, theta[wide]) + above) / total
        second[i, wide] = (np.einsum("ij,ij->i", weight, squared[wide]) + above) / total
        log_evidence[i, wide] = np.log(total) + top[wide]


def _nodes(known: Proportions) -> tuple[FloatArray, FloatArray]:
    """Nodes in the logit of θ, sorted, and the weights of the trapezoidal rule; the Jacobian is θ(1−θ)."""
    z, n, m = known.values, known.totals, known.means
    guess = np.clip(z / n, 0, 1)
    deviation = np.sqrt(known.spread(guess[:, None])[:, 0] + 0.25)
    near = np.clip((z[:, None] + deviation[:, None] * _LIKELIHOOD) / n[:, None], 1e-7, 1 - 1e-7)
    parts = [
        np.log(near / (1 - near)),
        np.log(m / (1 - m))[:, None] + _PRIOR,
        np.broadcast_to(_EVERYWHERE, (z.size, _EVERYWHERE.size)),
    ]
    nodes = np.sort(np.hstack(parts), axis=1)
    step = np.diff(nodes, axis=1) / 2
    widths = np.zeros_like(nodes)
    widths[:, 1:] += step
    widths[:, :-1] += step
    return nodes, widths
