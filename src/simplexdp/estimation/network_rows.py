"""Rows of a conditional table around what is known already: candidate means, margins, neighbours, and their weights.

Margins: what fewer parents say about the node, weighed by the records of each row.

Neighbours, where the values of columns have an order: rows m with n records each are multiplied by 1 + g, and the noisy
count of a cell is n m (1 + g) + noise. g is a Gaussian process over all axes of the table: along a column with an
order, cells i places apart have correlation ρ^i; along other columns none. Each cell gets what all *other* cells
predict for it, (1 + ĝ) m, so that rows which are then learnt around it count no noisy value twice. The amplitude of g
and ρ are averaged by their evidence.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np

from ..lazy import linalg, special
from .beta import STRENGTHS, BetaPosterior, Proportions, beta_posteriors
from .values import FloatArray, NoisyCounts

FITTING_ROUNDS = 12
"""Of iterative proportional fitting; more change nothing that the noise would not hide."""
HALF = 0.5
"""How far rows are moved to their margins, as a power of the factor that would take them there."""
Places = FloatArray
"""The place of each cell of a column in the order of the values; ∞ for cells without a neighbour."""
AMPLITUDES = (0.1, 0.2, 0.4, 0.8)
"""Standard deviations of g."""
CORRELATIONS = (0.6, 0.9)
"""ρ of adjacent cells; the ordered columns of a table share it."""
MOST_CELLS = 600
"""Larger tables are left alone: every amplitude and ρ takes the inverse of a matrix of this size."""
LEAST_RATIO = 0.05
"""1 + ĝ is not taken below."""
HyperPriors = Sequence[tuple[float, FloatArray]]
ROW = np.array([3, 3.5, 6, 9, 12, 13, 13, 9, 6, 5, 5, 3, 2, 6])
"""Hyper-prior of the strength τ over `STRENGTHS`: a row is usually close to its back-off, by some tens of records."""
FREE_SHARE = 0.4
"""Prior probability that the rows of a table share nothing; with real tables of few rows it matters most."""
FREE_CENTRE, FREE_SPREAD = 2.0, 1.2
"""Then ln(τ / cells) is about normal with this centre (as a factor) and standard deviation."""
LEAST_WEIGHT = 1e-3
"""What a strength that this law all but excludes keeps, against 1 at the centre."""
INFINITY = 4.0
"""τ = ∞ counts as this many times the largest finite strength there."""
HYPER_WEIGHT = 3.0
"""How many rows the hyper-prior is worth."""
MOST_KEPT = 10_000
"""Cells of a table whose posteriors are kept."""
ROUNDS = 25
"""Of EM: more change nothing that matters."""


def normalised(values: FloatArray) -> FloatArray:
    """Distributions along the last axis."""
    return np.asarray(values / values.sum(axis=-1, keepdims=True))


def no_interaction(first: FloatArray, second: FloatArray, marginal: FloatArray, count: FloatArray) -> FloatArray:
    """Rows for all pairs (p, q) of two parents with both one-parent tables as margins: iterative proportional fitting.

    With n_pq records for each pair, Σ_q n_pq θ_pq = n_p first_p and Σ_p n_pq θ_pq = n_q second_q. The product of both
    effects, where it starts, would count twice what the parents have in common.
    """
    start = normalised(first[:, None] * (second / marginal)[None])
    return _fitted(start, count, (first[:, None], second[None]), 1.0, FITTING_ROUNDS)


def half_raked(rows: FloatArray, count: FloatArray, margins: Sequence[FloatArray], rounds: int) -> FloatArray:
    """Rows (…, cells) moved half of the way to the margins, as factors, in each round.

    Rows that are learnt one by one do not add up to what is known of all of them: each is pulled a little to its own
    side, and small shares most. A margin has one cell along every axis that it sums over.
    """
    return _fitted(rows, count, margins, HALF, rounds)


def _fitted(
    rows: FloatArray, count: FloatArray, margins: Sequence[FloatArray], power: float, rounds: int
) -> FloatArray:
    weights = count[..., None]
    for _ in range(rounds):
        for margin in margins:
            summed = tuple(i for i, size in enumerate(margin.shape[:-1]) if size == 1)
            found = (weights * rows).sum(axis=summed, keepdims=True) / weights.sum(axis=summed, keepdims=True)
            rows = normalised(rows * (margin / found) ** power)
    return rows


def said_by_neighbours(known: Proportions, places: Sequence[Places | None], sizes: Sequence[int]) -> FloatArray | None:
    """Rows as the other cells predict them; None where no column has an order or the table is too large.

    Args:
        known: the cells of the table, rows one after the other, with the rows m that they lie around.
        places: of the cells of each column, None where it has no order.
        sizes: of the columns, in the order of the axes; the last one is that of the rows.
    """
    if math.prod(sizes) > MOST_CELLS or not any(each is not None and each.size > 2 for each in places):
        return None
    deviation = np.sqrt(known.spread(known.means[:, None])[:, 0])
    expected = known.totals * known.means
    observed, scale = (known.values - expected) / deviation, expected / deviation
    predictions, log_evidence = [], []
    for correlation in CORRELATIONS:
        kernel: FloatArray = np.ones((1, 1))
        for each, size in zip(places, sizes, strict=True):
            kernel = np.asarray(np.kron(kernel, _kernel(each, size, correlation)), dtype=np.float64)
        signal = np.outer(scale, scale) * kernel
        for amplitude in AMPLITUDES:
            predicted, log_density = left_out(observed, amplitude**2 * signal)
            predictions.append(predicted)
            log_evidence.append(log_density)
    predicted = special.softmax(np.array(log_evidence)) @ np.array(predictions)
    ratio = np.maximum(1 + predicted / np.maximum(scale, 1e-12), LEAST_RATIO)
    return normalised((known.means * ratio).reshape(-1, sizes[-1]))


def left_out(observed: FloatArray, signal: FloatArray) -> tuple[FloatArray, float]:
    """E of each signal given all other observations, and the log-density of all; observed = signal + N(0, I).

    With C = signal + I the residual of a cell without its own observation is (C⁻¹y)ᵢ/(C⁻¹)ᵢᵢ (Rasmussen & Williams
    2006, eq. 5.12).
    """
    covariance = signal.T.copy(order="F")  # which is itself, as LAPACK wants it
    covariance.flat[:: observed.size + 1] += 1.0
    factor = linalg.cholesky(covariance, lower=True, overwrite_a=True)
    log_determinant = float(np.log(factor.diagonal()).sum())
    root, _ = linalg.lapack.dtrtri(factor, lower=1, overwrite_c=1)
    white = root @ observed
    residual = (root.T @ white) / np.einsum("ij,ij->j", root, root)
    return observed - residual, float(-0.5 * white @ white - log_determinant)


def _kernel(places: Places | None, size: int, correlation: float) -> FloatArray:
    found = np.eye(size)
    if places is not None and size > 2:
        inside = np.flatnonzero(np.isfinite(places))
        found[np.ix_(inside, inside)] = correlation ** np.abs(np.subtract.outer(places[inside], places[inside]))
    return found


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


class Posteriors:
    """Posteriors of all cells around rows, each made once: a table is asked about the same rows again and again."""

    def __init__(self) -> None:
        self._found: dict[tuple[Hashable, bytes], BetaPosterior] = {}

    def around(self, name: Hashable, noisy: NoisyRows, means: Sequence[FloatArray]) -> list[BetaPosterior]:
        """Of the table of this name around each of these rows."""
        keys = [(name, rows.tobytes()) for rows in means]
        missing = {key: rows for key, rows in zip(keys, means, strict=True) if key not in self._found}
        made = beta_posteriors([noisy.around(rows) for rows in missing.values()])
        found = self._found | dict(zip(missing, made, strict=True))
        if noisy.values.size <= MOST_KEPT:
            self._found = found
        return [found[key] for key in keys]


def learn_rows(
    noisy: NoisyRows, means: Sequence[Mean], posteriors: Sequence[BetaPosterior], hyper: HyperPriors, floor: float
) -> Rows:
    """Rows θ_r ~ Dir(τ m_r) from noisy counts z_r with row totals n_r; τ and which of the `means` are mixed by row.

    `posteriors` are those around each of the means.
    """
    rows, cells = noisy.values.shape
    if cells == 1:
        return Rows(values=np.ones((rows, 1)), log_evidence=0.0)
    # A row is bound by its total and a column by its own: (C − 1)/C and (R − 1)/R of the cells count.
    free_part = (cells - 1) / cells * (1.0 if rows == 1 else (rows - 1) / rows)
    shape = (-1, rows, cells)
    log_cells = np.stack([each.log_evidence.reshape(shape) for each in posteriors], axis=1)
    thetas = np.stack([each.mean.reshape(shape) for each in posteriors], axis=1)
    theta, around, log_evidence = _mixed(log_cells.sum(axis=3) * free_part, thetas, means, hyper)
    lift = floor * np.sqrt(noisy.variance + 0.25) / np.maximum(noisy.totals, 1)
    theta = np.maximum(theta, 1e-9) + lift[:, None] * np.minimum(1, around * cells)
    return Rows(values=normalised(theta), log_evidence=log_evidence)


def strengths(cells: int, centre: float, spread: float) -> FloatArray:
    """Weights of the strengths τ when ln(τ / (centre · cells)) has about this spread."""
    logs = np.log(np.append(STRENGTHS[:-1], INFINITY * STRENGTHS[-2]) / (centre * cells)) / spread
    return np.exp(-0.5 * logs**2) + LEAST_WEIGHT


def _mixed(
    log_rows: FloatArray, thetas: FloatArray, means: Sequence[Mean], hyper: HyperPriors
) -> tuple[FloatArray, FloatArray, float]:
    """Rows averaged over strengths and means, and the mean of the means; weights are learnt from all rows."""
    grid, choices, rows = log_rows.shape
    odds, centres = np.array([each.odds for each in means]), np.array([each.rows for each in means])
    flat = log_rows.reshape(grid * choices, rows)
    prior = np.array([np.outer(shape / shape.sum(), odds / odds.sum()).ravel() for _, shape in hyper])
    mixture = prior
    for _ in range(ROUNDS):  # both hyper-priors at once, (hyper-prior, strength and mean, row)
        weights = _softmax(flat + np.log(mixture)[..., None])[0]
        mixture = (weights.sum(axis=2) + HYPER_WEIGHT * prior) / (rows + HYPER_WEIGHT)
    weights, log_evidence = _softmax(flat + np.log(mixture)[..., None])
    by_row = weights.reshape(-1, grid, choices, rows)
    values = [np.einsum("tkr,tkrc->rc", each, thetas) for each in by_row]
    around = [np.einsum("tkr,krc->rc", each, centres) for each in by_row]
    logs = [math.log(share) + float(each.sum()) for (share, _), each in zip(hyper, log_evidence, strict=True)]
    chosen, total = _softmax(np.array(logs)[:, None])
    return (
        np.einsum("h,hrc->rc", chosen[:, 0], np.array(values)),
        np.einsum("h,hrc->rc", chosen[:, 0], np.array(around)),
        float(total[0]),
    )


def _softmax(logs: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Weights of sum 1 along the last axis but one, and ln Σ exp, without the largest term in a sum of small ones."""
    top = logs.max(axis=-2, keepdims=True)
    largest = logs == top
    rest = logs - top
    rest[largest] = -np.inf
    times = largest.sum(axis=-2, keepdims=True, dtype=np.float64)
    sums = np.log1p(np.exp(rest, out=rest).sum(axis=-2, keepdims=True) / times) + np.log(times) + top
    return np.exp(logs - sums), sums[..., 0, :]
