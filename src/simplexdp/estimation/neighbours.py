"""What the neighbours of a cell say about it, where the values of columns have an order.

Rows m with n records each are multiplied by 1 + g, and the noisy count of a cell is n m (1 + g) + noise. g is a
Gaussian process over all axes of the table: along a column with an order, cells i places apart have correlation ρ^i;
along other columns none. Each cell gets what all *other* cells predict for it, (1 + ĝ) m, so that rows which are then
learnt around it count no noisy value twice. The amplitude of g and ρ are averaged by their evidence.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from scipy.linalg import cholesky, solve_triangular
from scipy.special import softmax

from .beta import Proportions
from .margins import normalised
from .values import FloatArray

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
    predicted = softmax(np.array(log_evidence)) @ np.array(predictions)
    ratio = np.maximum(1 + predicted / np.maximum(scale, 1e-12), LEAST_RATIO)
    return normalised((known.means * ratio).reshape(-1, sizes[-1]))


def left_out(observed: FloatArray, signal: FloatArray) -> tuple[FloatArray, float]:
    """E of each signal given all other observations, and the log-density of all; observed = signal + N(0, I).

    With C = signal + I the residual of a cell without its own observation is (C⁻¹y)ᵢ/(C⁻¹)ᵢᵢ (Rasmussen & Williams
    2006, eq. 5.12).
    """
    factor = cholesky(signal + np.eye(observed.size), lower=True)
    half = solve_triangular(factor, np.column_stack([observed, np.eye(observed.size)]), lower=True)
    white, root = half[:, 0], half[:, 1:]
    residual = (root.T @ white) / np.einsum("ij,ij->j", root, root)
    return observed - residual, float(-0.5 * white @ white - np.log(factor.diagonal()).sum())


def _kernel(places: Places | None, size: int, correlation: float) -> FloatArray:
    found = np.eye(size)
    if places is not None and size > 2:
        inside = np.flatnonzero(np.isfinite(places))
        found[np.ix_(inside, inside)] = correlation ** np.abs(np.subtract.outer(places[inside], places[inside]))
    return found
