"""Rows of a conditional table around what is known already: several candidate means, strengths learnt from all rows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import logsumexp

from .beta import STRENGTHS, Proportions, beta_posterior
from .margins import normalised
from .values import FloatArray, NoisyCounts

HyperPriors = Sequence[tuple[float, FloatArray]]
ROW = np.array([3, 3.5, 6, 9, 12, 13, 13, 9, 6, 5, 5, 3, 2, 6])
"""Hyper-prior of the strength τ: a row is usually close to its back-off."""
FREE_SHARE = 0.4
"""Prior probability that the rows of a table share nothing; with real tables of few rows it matters most."""
FREE_CENTRE, FREE_SPREAD = 2.0, 1.2
"""Then ln(τ / cells) is about normal with this centre (as a factor) and standard deviation."""
HYPER_WEIGHT = 3.0
"""How many rows the hyper-prior is worth."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Rows:
    """Conditional rows and the log-evidence of what they were learnt from."""

    values: FloatArray
    log_evidence: float


@dataclass(frozen=True, kw_only=True, eq=False)
class Mean:
    """What rows may lie around, with its prior odds against the others."""

    rows: FloatArray
    odds: float = 1.0


def row_priors(cells: int) -> HyperPriors:
    """Of rows close to their back-off, and of rows that share nothing."""
    return (1 - FREE_SHARE, ROW), (FREE_SHARE, strengths(cells, FREE_CENTRE, FREE_SPREAD))


@dataclass(frozen=True, kw_only=True, eq=False)
class NoisyRows:
    """Noisy counts of conditional rows.

    Args:
        values: rows × cells.
        variance: of the noise of a cell once the row's total is known.
        slope: how it grows with the count.
        totals: records of each row.
        total_variances: of the totals.
    """

    values: FloatArray
    variance: float
    slope: float
    totals: FloatArray
    total_variances: FloatArray

    @classmethod
    def of(cls, noisy: NoisyCounts, totals: FloatArray, total_variances: FloatArray) -> NoisyRows:
        """A table whose last axis is the cells of a row, each row moved to its total."""
        values = noisy.values.reshape(totals.size, -1)
        moved = values + ((totals - values.sum(axis=1)) / values.shape[1])[:, None]
        variance = noisy.variance + 1e-3
        return cls(values=moved, variance=variance, slope=noisy.slope, totals=totals, total_variances=total_variances)

    def around(self, means: FloatArray) -> Proportions:
        """All cells one by one, with the rows that they lie around."""
        cells = self.values.shape[1]
        return Proportions(
            values=self.values.ravel(),
            variance=self.variance,
            slope=self.slope,
            totals=np.repeat(self.totals, cells),
            total_variances=np.repeat(self.total_variances, cells),
            means=means.ravel(),
            centre=1 / cells,
        )


def learn_rows(noisy: NoisyRows, means: Sequence[Mean], hyper: HyperPriors, floor: float) -> Rows:
    """Rows θ_r ~ Dir(τ m_r) from noisy counts z_r with row totals n_r; τ and which of the `means` are mixed by row."""
    rows, cells = noisy.values.shape
    if cells == 1:
        return Rows(values=np.ones((rows, 1)), log_evidence=0.0)
    posterior = beta_posterior(Proportions.joined([noisy.around(each.rows) for each in means]))
    # A row is bound by its total and a column by its own: (C − 1)/C and (R − 1)/R of the cells count.
    free_part = (cells - 1) / cells * (1.0 if rows == 1 else (rows - 1) / rows)
    shape = (-1, len(means), rows, cells)
    log_rows = posterior.log_evidence.reshape(shape).sum(axis=3) * free_part
    theta, around, log_evidence = _mixed(log_rows, posterior.mean.reshape(shape), means, hyper)
    lift = floor * np.sqrt(noisy.variance + 0.25) / np.maximum(noisy.totals, 1)
    theta = np.maximum(theta, 1e-9) + lift[:, None] * np.minimum(1, around * cells)
    return Rows(values=normalised(theta), log_evidence=log_evidence)


def strengths(cells: int, centre: float, spread: float) -> FloatArray:
    """Weights of the strengths τ when ln(τ / (centre · cells)) has about this spread."""
    logs = np.log(np.append(STRENGTHS[:-1], 4 * STRENGTHS[-2]) / (centre * cells)) / spread
    return np.exp(-0.5 * logs**2) + 1e-3


def _mixed(
    log_rows: FloatArray, thetas: FloatArray, means: Sequence[Mean], hyper: HyperPriors
) -> tuple[FloatArray, FloatArray, float]:
    """Rows averaged over strengths and means, and the mean of the means; weights are learnt from all rows."""
    grid, choices, rows = log_rows.shape
    odds, centres = np.array([each.odds for each in means]), np.array([each.rows for each in means])
    flat = log_rows.reshape(grid * choices, rows).T
    logs, values, around = [], [], []
    for share, shape in hyper:
        prior = np.outer(shape / shape.sum(), odds / odds.sum()).ravel()
        mixture = prior
        for _ in range(25):
            weights = _softmax(flat + np.log(mixture))[0]
            mixture = (weights.sum(axis=0) + HYPER_WEIGHT * prior) / (rows + HYPER_WEIGHT)
        weights, log_evidence = _softmax(flat + np.log(mixture))
        logs.append(math.log(share) + float(log_evidence.sum()))
        by_row = weights.T.reshape(grid, choices, rows)
        values.append(np.einsum("tkr,tkrc->rc", by_row, thetas))
        around.append(np.einsum("tkr,krc->rc", by_row, centres))
    chosen, total = _softmax(np.array([logs]))
    return (
        np.einsum("h,hrc->rc", chosen[0], np.array(values)),
        np.einsum("h,hrc->rc", chosen[0], np.array(around)),
        float(total[0]),
    )


def _softmax(logs: FloatArray) -> tuple[FloatArray, FloatArray]:
    sums = logsumexp(logs, axis=1)
    return np.exp(logs - sums[:, None]), sums
