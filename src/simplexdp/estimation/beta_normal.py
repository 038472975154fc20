"""A probability with a beta prior, seen through multinomial sampling and noise: posterior by quadrature.

θ ~ Beta(τm, τ(1−m)), z ~ N(nθ, v + s·nθ + nθ(1−θ)): the noise variance at the count nθ and that of the count.
The integral over u = ln(θ/(1−θ)) uses the trapezoidal rule on nodes placed where the likelihood and the prior
are, and closed-form tails beyond them, where the likelihood is constant.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import betaln

from .values import FloatArray

_AROUND = np.linspace(-6.0, 6.0, 21)
_EVERYWHERE = np.linspace(-16.0, 16.0, 33)
_NEAR = np.geomspace(0.3, 400.0, 20)  # in widths of the prior at τ = 20 000
_BLOCK = 1000

Moments = tuple[FloatArray, FloatArray, FloatArray]


@dataclass(frozen=True, kw_only=True, eq=False)
class Observed:
    """Released values (flat) with what is known about each: rows' totals, prior means and the noise law."""

    values: FloatArray
    totals: FloatArray
    prior: FloatArray
    variance: FloatArray
    slope: float = 0.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "totals", np.maximum(self.totals, 1e-3))
        object.__setattr__(self, "prior", np.clip(self.prior, 1e-9, 1 - 1e-9))

    def block(self, part: slice) -> Observed:
        """Some of the cells."""
        return Observed(
            values=self.values[part],
            totals=self.totals[part],
            prior=self.prior[part],
            variance=self.variance[part],
            slope=self.slope,
        )

    def log_likelihood(self, theta: FloatArray) -> FloatArray:
        """ln N(z; nθ, ·) at θ of shape (cells, nodes)."""
        counts = self.totals[:, None] * theta
        spread = self.variance[:, None] + self.slope * counts + counts * (1 - theta)
        gap = self.values[:, None] - counts
        return np.asarray(-0.5 * gap * gap / spread - 0.5 * np.log(2 * math.pi * spread))


def beta_posteriors(observed: Observed, strengths: FloatArray) -> Moments:
    """Posterior mean, variance and log-evidence, each (strengths, cells); strength ∞ means θ = m exactly."""
    size = observed.values.size
    parts = [_block(observed.block(slice(i, i + _BLOCK)), strengths) for i in range(0, size, _BLOCK)]
    mean, variance, log_evidence = (np.concatenate(each, axis=1) for each in zip(*parts, strict=True))
    return mean, variance, log_evidence


def posteriors(tables: Sequence[Observed], strengths: FloatArray) -> tuple[list[FloatArray], ...]:
    """Mean, variance and log-evidence of every table, each (strengths, cells); one call for each slope there is."""
    found: dict[int, Moments] = {}
    for slope in dict.fromkeys(table.slope for table in tables):
        group = [i for i, table in enumerate(tables) if table.slope == slope]
        joined = Observed(
            values=np.concatenate([tables[i].values for i in group]),
            totals=np.concatenate([tables[i].totals for i in group]),
            prior=np.concatenate([tables[i].prior for i in group]),
            variance=np.concatenate([tables[i].variance for i in group]),
            slope=slope,
        )
        cuts = np.cumsum([tables[i].values.size for i in group])[:-1]
        parts = [np.split(moment, cuts, axis=1) for moment in beta_posteriors(joined, strengths)]
        found |= {i: (parts[0][k], parts[1][k], parts[2][k]) for k, i in enumerate(group)}
    return tuple([found[i][which] for i in range(len(tables))] for which in range(3))


def _block(observed: Observed, strengths: FloatArray) -> Moments:
    u = _nodes(observed)
    log_theta = -np.logaddexp(0, -u)
    log_rest = log_theta - u
    theta = np.exp(log_theta)
    weight = np.zeros_like(u)
    step = np.diff(u, axis=1) / 2
    weight[:, 1:] += step
    weight[:, :-1] += step
    log_likelihood = observed.log_likelihood(theta)
    ends = observed.log_likelihood(np.broadcast_to(np.array([0.0, 1.0]), (u.shape[0], 2)))
    top = np.maximum(log_likelihood.max(axis=1), ends.max(axis=1))
    likelihood = np.exp(log_likelihood - top[:, None])
    at_zero, at_one = np.exp(ends - top[:, None]).T
    results: list[Moments] = []
    for strength in strengths:
        if math.isinf(strength):
            exact = observed.log_likelihood(observed.prior[:, None])[:, 0]
            results.append((observed.prior, np.zeros_like(top), exact))
            continue
        a, b = strength * observed.prior, strength * (1 - observed.prior)
        log_beta = betaln(a, b)
        density = np.exp(a[:, None] * log_theta + b[:, None] * log_rest - log_beta[:, None]) * weight
        low = np.exp(a * log_theta[:, 0] - np.log(a) - log_beta)  # prior mass below the first node
        high = np.exp(b * log_rest[:, -1] - np.log(b) - log_beta)
        prior_mass = density.sum(axis=1) + low + high  # 1 but for the rule's error, which thus cancels
        joint = density * likelihood
        total = joint.sum(axis=1) + low * at_zero + high * at_one
        total = np.maximum(total, 1e-300)
        mean = ((joint * theta).sum(axis=1) + high * at_one) / total
        second = ((joint * theta**2).sum(axis=1) + high * at_one) / total
        results.append((mean, np.maximum(second - mean**2, 0.0), np.log(total / prior_mass) + top))
    mean, variance, log_evidence = (np.array(each) for each in zip(*results, strict=True))
    return mean, variance, log_evidence


def _nodes(observed: Observed) -> FloatArray:
    """Nodes in u = ln(θ/(1−θ)): around the likelihood, around the prior mean at every width, everywhere."""
    share = np.clip(observed.values / observed.totals, 0.0, 1.0)
    counts = observed.totals * share
    deviation = np.sqrt(observed.variance + observed.slope * counts + counts * (1 - share) + 0.25)
    nodes = observed.values[:, None] + deviation[:, None] * _AROUND
    theta = np.clip(nodes / observed.totals[:, None], 1e-7, 1 - 1e-7)
    m = observed.prior
    narrow = np.minimum(1 / np.sqrt(2e4 * m * (1 - m)), 0.5)
    offsets = narrow[:, None] * np.concatenate([-_NEAR, [0.0], _NEAR])
    parts = [
        np.log(theta) - np.log1p(-theta),
        np.clip((np.log(m) - np.log1p(-m))[:, None] + offsets, -16.0, 16.0),
        np.broadcast_to(_EVERYWHERE, (m.size, _EVERYWHERE.size)),
    ]
    return np.sort(np.concatenate(parts, axis=1), axis=1)
