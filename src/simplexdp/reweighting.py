"""Feature weights and class biases of naive Bayes by private Newton rounds.

p_j ∝ π_j e^{b_j} ∏_k (θ_kj/m_k)^{w_k}: the weights take back what features repeat. Each round publishes the noisy
sums of the records' gradients and Hessians of the log-loss. A record's part is a function of that record and of
earlier releases only (its own share of the tables is taken out of its score), clipped and rounded to whole numbers
whose size is checked in whole numbers, so the guarantee does not rest on floating point.

Proof: docs/proofs/sums.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .budget import Budget
from .estimation.reweight import newton_step
from .estimation.strata import Strata, information
from .mechanisms.base import noise_scale
from .mechanisms.sums import ExtraKind, NoisySum
from .sampling.entropy import Entropy

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
Records = Callable[[], Iterable[tuple[Sequence[NDArray[np.integer]], NDArray[np.integer]]]]
"""Called once a round: blocks of cell numbers, one array a feature, with the cell numbers of the class."""

ROUNDS = 3
SHARE = 0.3
"""Of the budget, for all rounds together."""
LEAST_SIGNAL = 35.0
"""Rounds pay where N over the noise of one table reaches this many times the number of parameters."""
CLIP = 2.0
"""Gradients are clipped at this many times their expected size, Hessians at this many times their expected trace."""
START = 0.5
"""The first expansion is taken at this part of the temperature: Newton overshoots from over-confident points."""
BIAS_WIDTH = 0.5
FIRST_WIDTHS = tuple((common, single) for common in (0.05, 0.2, 0.5) for single in (0.02, 0.05, 0.1, 0.2, 0.4))
LATER_WIDTHS = tuple((0.0, single) for single in (0.0, 0.05, 0.1, 0.2))
BLOCK_CELLS = 1 << 20
"""Scores held at once."""


def round_shares(
    total: float | None, budget: Budget | None, features: int, classes: int
) -> list[tuple[ExtraKind, float]]:
    """What the rounds get of the budget, from public facts: nothing where they would not pay."""
    if total is None or budget is None or classes < 2:
        return []
    if total < LEAST_SIGNAL * (features + classes) * noise_scale(budget, 1):
        return []
    # The grid of a sum must be fine against the rounding of a record's part, or the sums hold noise alone.
    share = SHARE / (2 * ROUNDS)
    grid = NoisySum.of("matrix", noise_scale(budget, 1) / math.sqrt(share)).bound
    if grid < 16 * (features + classes) * classes:
        return []
    kinds: tuple[ExtraKind, ExtraKind] = ("vector", "matrix")
    return [(kind, SHARE / (2 * ROUNDS)) for _ in range(ROUNDS) for kind in kinds]


@dataclass(frozen=True, kw_only=True, eq=False)
class Scores:
    """What a record's scores are made of, all released: log-ratios with and without the record itself.

    Args:
        start: ln π.
        ratios: for each feature classes × values, ln θ/m.
        without: the same with one record of that class and value taken out.
        bias_scale: the unit of the biases, which makes their gradient as large as a feature's.
        gradient_size: clip of the gradient.
        hessian_trace: clip of the Hessian's trace.
    """

    start: FloatArray
    ratios: tuple[FloatArray, ...]
    without: tuple[FloatArray, ...]
    bias_scale: float
    gradient_size: float
    hessian_trace: float

    @classmethod
    def of(cls, strata: Strata, classes: FloatArray, total: float) -> Scores:
        """From the released tables."""
        size = (classes * total)[:, None]
        ratios, without = [], []
        for conditional, marginal, reliable in zip(
            strata.conditionals, strata.marginals, strata.reliability, strict=True
        ):
            left_out = (conditional * size - reliable) / np.maximum(size - 1, 1.0)
            ratios.append(np.log(conditional / marginal))
            without.append(np.log(np.maximum(left_out, 0.1 * conditional) / marginal))
        amount = float(information(strata, classes).sum())
        bias_scale = math.sqrt(amount / len(ratios) + 1e-12)
        trace = amount + bias_scale**2 * (1 - float(classes @ classes))
        return cls(
            start=np.log(classes),
            ratios=tuple(ratios),
            without=tuple(without),
            bias_scale=bias_scale,
            gradient_size=CLIP * math.sqrt(trace),
            hessian_trace=CLIP * trace,
        )

    @property
    def size(self) -> int:
        """The number of parameters."""
        return len(self.ratios) + self.start.size


def private_sums(
    scores: Scores, records: Records, weights: FloatArray, biases: FloatArray, vector: NoisySum, matrix: NoisySum
) -> tuple[IntArray, IntArray]:
    """The exact sums of all records' whole-number gradients and Hessians. **Private**: they need their noise."""
    size, classes = scores.size, scores.start.size
    gradient = np.zeros(size, dtype=np.int64)
    hessian = np.zeros((size, size), dtype=np.int64)
    rows = max(1, BLOCK_CELLS // (size * classes))
    for codes, labels in records():
        for first in range(0, len(labels), rows):
            cut = slice(first, first + rows)
            g, a = _parts(scores, [c[cut] for c in codes], labels[cut], weights, biases)
            gradient += _whole_vectors(g, scores.gradient_size, vector.bound).sum(axis=0)
            roots = _whole_roots(a, scores.hessian_trace, matrix.bound)
            # Whole numbers below 2^53 add up exactly in floating point, in any order.
            flat = roots.reshape(-1, size)
            hessian += (flat.T @ flat).astype(np.int64)
    return gradient, hessian


def _parts(
    scores: Scores, codes: Sequence[NDArray[np.integer]], labels: NDArray[np.integer], w: FloatArray, b: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Gradients (rows × parameters) and square roots of the Hessians (rows × classes × parameters)."""
    rows, classes, features = len(labels), scores.start.size, len(codes)
    at = np.arange(rows)
    design = np.zeros((rows, classes, features + classes))
    for k, (column, ratio, without) in enumerate(zip(codes, scores.ratios, scores.without, strict=True)):
        design[:, :, k] = ratio.T[column]
        design[at, labels, k] = without[labels, column]
    design[:, np.arange(classes), features + np.arange(classes)] = scores.bias_scale
    logits = scores.start + b + design[:, :, :features] @ w
    logits -= logits.max(axis=1, keepdims=True)
    p = np.exp(logits)
    p /= p.sum(axis=1, keepdims=True)
    error = p.copy()
    error[at, labels] -= 1
    gradient = np.einsum("njk,nj->nk", design, error)
    design -= np.einsum("njk,nj->nk", design, p)[:, None]
    design *= np.sqrt(p)[:, :, None]
    return gradient, design


def _whole_vectors(parts: FloatArray, clip: float, bound: int) -> IntArray:
    """Clipped, scaled to the bound and rounded; rounding adds at most √size/2 to a norm, which is left free."""
    free = max(bound - math.sqrt(parts.shape[1]) / 2, 0.0)
    norms = np.sqrt((parts**2).sum(axis=1))
    whole = np.rint(parts * (free / np.maximum(norms, clip))[:, None])
    # Squares of whole numbers are exact here; "not at most" also catches what is not a number.
    whole[~((whole**2).sum(axis=1) <= bound**2)] = 0
    found: IntArray = whole.astype(np.int64)
    return found


def _whole_roots(parts: FloatArray, clip: float, bound: int) -> FloatArray:
    """The same for the roots of matrices, whose squared entries add up to the trace; whole numbers as floats."""
    free = max(math.sqrt(bound) - math.sqrt(parts.shape[1] * parts.shape[2]) / 2, 0.0)
    traces = (parts**2).sum(axis=(1, 2))
    whole = np.rint(parts * (free / np.sqrt(np.maximum(traces, clip)))[:, None, None])
    whole[~((whole**2).sum(axis=(1, 2)) <= bound)] = 0
    return np.asarray(whole)


def reweighted(
    scores: Scores,
    temperature: float,
    records: Records,
    sums: Sequence[NoisySum],
    entropy: Entropy,
) -> tuple[FloatArray, FloatArray]:
    """Feature weights and class biases after one Newton round for each (vector, matrix) pair of sums."""
    features, classes = len(scores.ratios), scores.start.size
    size = scores.size
    weights, biases = np.full(features, START * temperature), np.zeros(classes)
    expected = np.zeros(size)
    expected[:features] = (1 - START) * temperature
    covariance = np.zeros((size, size))
    covariance[features:, features:] = np.eye(classes) * (BIAS_WIDTH / scores.bias_scale) ** 2
    for number, (vector, matrix) in enumerate(zip(sums[::2], sums[1::2], strict=True)):
        gradient, hessian = private_sums(scores, records, weights, biases, vector, matrix)
        noisy = vector.draw(gradient, entropy.child(f"round {number}: gradient")).astype(np.float64)
        noisy_matrix = matrix.draw(hessian, entropy.child(f"round {number}: hessian")).astype(np.float64)
        unit = scores.gradient_size / (vector.bound - math.sqrt(size) / 2)
        square = scores.hessian_trace / (math.sqrt(matrix.bound) - math.sqrt(size * classes) / 2) ** 2
        step = newton_step(
            noisy * unit,
            math.sqrt(vector.variance) * unit,
            noisy_matrix * square,
            math.sqrt(matrix.variance) * square,
            expected=expected,
            covariance=covariance,
            widths=FIRST_WIDTHS if number == 0 else LATER_WIDTHS,
            features=features,
        )
        weights = weights + step.mean[:features]
        biases = biases + scores.bias_scale * step.mean[features:]
        expected, covariance = np.zeros(size), step.covariance
    return weights, biases
