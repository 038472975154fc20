"""A proportion seen through noise: θ ~ Beta(τm, τ(1−m)), z a noisy count of nθ, for a grid of strengths τ.

Rows are pulled towards what they have in common; how strongly is weighed by what all of them say.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..lazy import special
from .values import FloatArray

STRENGTHS = np.append(np.geomspace(0.5, 2e4, 13), np.inf)
"""Prior strengths τ in records; ∞ means that the row is the pooled marginal."""
STRENGTH_PRIOR = np.array([0.01, 0.015, 0.03, 0.05, 0.08, 0.1, 0.12, 0.1, 0.08, 0.08, 0.08, 0.06, 0.04, 0.155])
STRENGTH_PRIOR /= STRENGTH_PRIOR.sum()
"""Of the strengths: real features mostly share what rows have in common up to some tens or hundreds of records, or
say nothing at all (∞)."""
HYPER_WEIGHT = 10.0
"""How many rows or tables the prior over the strengths is worth against those of the model."""
TABLE_WEIGHT = 2.0
"""How many rows the tables together are worth against the rows of one table."""
ROW_ROUNDS, TABLE_ROUNDS = 20, 30
"""Of EM: more change nothing that matters."""
NARROW = 12.0
"""A prior with τm(1−m) above this is taken for normal; below it the quadrature resolves it."""
# Nodes where the likelihood is (in its standard deviations), where the prior is, and everywhere (in the logit).
_LIKELIHOOD = np.linspace(-6, 6, 25)
_PRIOR = np.linspace(-2.4, 2.4, 17)
_EVERYWHERE = np.linspace(-16, 16, 25)
_CHUNK = 512
_LOG_2PI = float(np.log(2 * np.pi))


def softmax(log_weights: FloatArray) -> FloatArray:
    """Weights of sum 1 along the last axis."""
    weights = np.exp(log_weights - log_weights.max(axis=-1, keepdims=True))
    return np.asarray(weights / weights.sum(axis=-1, keepdims=True))


def row_strengths(log_evidence: FloatArray) -> FloatArray:
    """Posterior weights of each row over the grid; the prior is shared by the rows and learnt by EM."""
    shared, weights = STRENGTH_PRIOR, np.empty_like(log_evidence)
    for _ in range(ROW_ROUNDS):
        weights = softmax(log_evidence + np.log(shared))
        shared = (weights.sum(axis=0) + HYPER_WEIGHT * STRENGTH_PRIOR) / (len(weights) + HYPER_WEIGHT)
    return weights


def table_strengths(log_evidence: FloatArray, prior: FloatArray = STRENGTH_PRIOR) -> FloatArray:
    """Posterior weights of each row of each table, (tables, rows, strengths): population → table → row, by EM."""
    tables, rows, _ = log_evidence.shape
    whole = log_evidence.sum(axis=1)
    population = prior
    for _ in range(TABLE_ROUNDS):
        weights = softmax(whole + np.log(population))
        population = (weights.sum(axis=0) + HYPER_WEIGHT * prior) / (tables + HYPER_WEIGHT)
    by_table = np.tile(population, (tables, 1))
    weights = softmax(log_evidence + np.log(by_table)[:, None])
    for _ in range(ROW_ROUNDS):
        population = (weights.sum(axis=(0, 1)) + HYPER_WEIGHT * prior) / (tables * rows + HYPER_WEIGHT)
        by_table = (weights.sum(axis=1) + TABLE_WEIGHT * population) / (rows + TABLE_WEIGHT)
        weights = softmax(log_evidence + np.log(by_table)[:, None])
    return weights


def bayes_factors(log_evidence: FloatArray, weights: FloatArray, prior: FloatArray = STRENGTH_PRIOR) -> FloatArray:
    """ln of how much better each table, (tables, rows, strengths), is explained by free strengths than by τ = ∞.

    The strengths are weighed half by what all rows say and half by the prior.
    """
    population = (weights.mean(axis=(0, 1)) + prior) / 2
    free = np.logaddexp.reduce(log_evidence + np.log(population), axis=-1)
    return np.asarray((free - log_evidence[..., -1]).sum(axis=1))


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
        variance: of its noise, one for all or one for each.
        slope: how the noise grows with the count.
        totals: n, of how many records the cell holds the share θ.
        means: m, the prior mean of θ.
        total_variances: Var(n), where n is uncertain.
        centre: c, for values that were moved by c times the error of n.
    """

    values: FloatArray
    variance: float | FloatArray
    totals: FloatArray
    means: FloatArray
    slope: float = 0.0
    total_variances: float | FloatArray = 0.0
    centre: float = 0.0

    def part(self, cut: NDArray[np.intp]) -> Proportions:
        """Some of the cells, with limits that keep every logarithm finite."""
        return Proportions(
            values=self.values[cut],
            variance=np.broadcast_to(self.variance, self.values.shape)[cut],
            slope=self.slope,
            totals=np.maximum(self.totals[cut], 1e-3),
            total_variances=np.broadcast_to(self.total_variances, self.values.shape)[cut],
            means=np.clip(self.means[cut], 1e-9, 1 - 1e-9),
            centre=self.centre,
        )

    def spread(self, shares: FloatArray) -> FloatArray:
        """The variance of z at these shares, cells × shares."""
        count = self.totals[:, None] * shares
        noise = np.asarray(self.variance)[..., None] + self.slope * count
        uncertain = np.asarray(self.total_variances)[..., None] * (shares - self.centre) ** 2
        return np.asarray(noise + count * (1 - shares) + uncertain)

    def log_likelihood(self, shares: FloatArray) -> FloatArray:
        """ln density of z at these shares, cells × shares."""
        return _log_normal(self.values[:, None] - self.totals[:, None] * shares, self.spread(shares))

    @classmethod
    def joined(cls, parts: Sequence[Proportions]) -> Proportions:
        """Several as one; they share the slope and the centre."""
        return cls(
            values=np.concatenate([part.values for part in parts]),
            variance=np.concatenate([np.broadcast_to(part.variance, part.values.shape) for part in parts]),
            totals=np.concatenate([part.totals for part in parts]),
            means=np.concatenate([part.means for part in parts]),
            slope=parts[0].slope,
            total_variances=np.concatenate([np.broadcast_to(p.total_variances, p.values.shape) for p in parts]),
            centre=parts[0].centre,
        )


def beta_posterior(known: Proportions, strengths: FloatArray = STRENGTHS) -> BetaPosterior:
    """The posterior of each proportion for every τ; at τ = ∞ θ is its prior mean."""
    size = known.values.size
    mean, second, log_evidence = (np.empty((strengths.size, size)) for _ in range(3))
    # Cells whose prior becomes narrow first come first, so that the others are always a slice.
    order = np.argsort(-known.means * (1 - known.means), kind="stable")
    for start in range(0, size, _CHUNK):  # 67 nodes a cell: five such arrays stay in the cache
        cut = order[start : start + _CHUNK]
        mean[:, cut], second[:, cut], log_evidence[:, cut] = _moments(known.part(cut), strengths)
    return BetaPosterior(mean=mean, variance=np.maximum(second - mean**2, 0), log_evidence=log_evidence)


def beta_posteriors(parts: Sequence[Proportions], strengths: FloatArray = STRENGTHS) -> list[BetaPosterior]:
    """Of several tables, in one go for each slope and centre that there is."""
    found: dict[int, BetaPosterior] = {}
    for kind in dict.fromkeys((part.slope, part.centre) for part in parts):
        group = [i for i, part in enumerate(parts) if (part.slope, part.centre) == kind]
        whole = beta_posterior(Proportions.joined([parts[i] for i in group]), strengths)
        ends = np.cumsum([parts[i].values.size for i in group])
        for i, end in zip(group, ends, strict=True):
            cut = slice(end - parts[i].values.size, end)
            found[i] = BetaPosterior(
                mean=whole.mean[:, cut], variance=whole.variance[:, cut], log_evidence=whole.log_evidence[:, cut]
            )
    return [found[i] for i in range(len(parts))]


def _log_normal(x: FloatArray, variance: FloatArray) -> FloatArray:
    return np.asarray(-0.5 * (x * x / variance + np.log(variance) + _LOG_2PI))


def _moments(known: Proportions, strengths: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """E θ, E θ² and the evidence of a chunk of cells."""
    mean, second, log_evidence = (np.empty((strengths.size, known.values.size)) for _ in range(3))
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
    for i, strength in enumerate(strengths):
        narrow = strength * m * (1 - m) > NARROW
        # Normal prior, normal likelihood.
        spread = np.where(narrow, m * (1 - m) / (strength + 1), 0.0)
        whole = noise + n * n * spread
        first = np.clip(m + n * spread / whole * (z - n * m), 1e-9, 1.0)
        mean[i], second[i] = first, first**2 + spread * noise / whole
        log_evidence[i] = _log_normal(z - n * m, whole)
        found = int(narrow.sum())
        if found == narrow.size:
            continue
        wide = slice(found, None) if narrow[:found].all() else np.flatnonzero(~narrow)
        a, b = strength * m[wide], strength * (1 - m[wide])
        constant = special.betaln(a, b)
        exponent = np.multiply(strength, log_prior[wide])
        exponent += log_weight[wide]
        exponent -= constant[:, None]
        weight = np.exp(exponent, out=exponent)  # of a wide prior, whose density in the logit is a small number
        # Beyond the outermost nodes the likelihood is constant and the Beta density a power.
        below = np.exp(a * log_theta[wide, 0] - np.log(a) - constant + ends[wide, 0] - top[wide])
        above = np.exp(b * log_rest[wide, -1] - np.log(b) - constant + ends[wide, 1] - top[wide])
        total = weight.sum(axis=1) + below + above + 1e-300
        mean[i, wide] = (np.einsum("ij,ij->i", weight, theta[wide]) + above) / total
        second[i, wide] = (np.einsum("ij,ij->i", weight, squared[wide]) + above) / total
        log_evidence[i, wide] = np.log(total) + top[wide]
    return mean, second, log_evidence


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
