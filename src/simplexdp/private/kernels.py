"""Kernels: sums over the records whose parts have a bounded size, whatever a record holds.

A kernel is known by its name. It gets released parameters and blocks of cell numbers, or the counts of some tables, and
adds up whole numbers whose size is checked in whole numbers, so the guarantee does not rest on floating point.

Proof: docs/proofs/sums.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import InvalidArgument
from ..estimation.reweight import Expansion, Scores
from ..fitting.design import Expected, Judged
from ..mechanisms.sums import NoisySum, SumKind

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
Blocks = Iterator[dict[str, IntArray]]
"""One pass over the rows: blocks of cell numbers by column. **Private**."""

BLOCK_CELLS = 1 << 20
"""Scores held at once."""


@dataclass(frozen=True, kw_only=True)
class Kernel:
    """Sums that can be asked for.

    Args:
        kinds: of the sums that one pass makes.
        names: of their draws.
        sums: makes them, exactly, from released parameters and private rows or counts. **Private**: they need noise.
        of_tables: whether it is given the counts of tables; otherwise blocks of rows.
    """

    kinds: tuple[SumKind, ...]
    names: tuple[str, ...]
    sums: Callable[[Any, Any, Sequence[NoisySum]], tuple[IntArray, ...]]
    of_tables: bool = False


def newton_sums(at: Expansion, blocks: Blocks, sums: Sequence[NoisySum]) -> tuple[IntArray, ...]:
    """The sums of all records' whole-number gradients and Hessians of the log-loss. **Private**: they need noise.

    A record's part is a function of that record and of earlier releases only: its own share of the tables is taken out
    of its score.
    """
    vector, matrix = sums
    scores = at.scores
    size, classes = scores.size, scores.start.size
    gradient = np.zeros(size, dtype=np.int64)
    hessian = np.zeros((size, size), dtype=np.int64)
    rows = max(1, BLOCK_CELLS // (size * classes))
    for block in blocks:
        codes, labels = [block[name] for name in at.features], block[at.target]
        for first in range(0, len(labels), rows):
            cut = slice(first, first + rows)
            g, a = _parts(scores, [c[cut] for c in codes], labels[cut], at.weights, at.biases)
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


def deviation_scores(at: Expected, tables: Sequence[IntArray], sums: Sequence[NoisySum]) -> tuple[IntArray, ...]:
    """How far each table is from what was expected, in whole steps. **Private**: they need their noise.

    One record more adds one slope of one cell to the score of a table, and each slope is a whole number within ±c with
    c√P at most the bound, however the floating-point numbers before it came out.
    """
    (vector,) = sums
    if [table.shape for table in tables] != [np.shape(cells) for cells in at.cells]:
        raise InvalidArgument("expected", "counts of the shapes of the tables")
    steps = at.steps(vector.bound)
    return (np.array([_score(t, m, at.clip, steps) for t, m in zip(tables, at.cells, strict=True)], dtype=np.int64),)


def _score(counts: IntArray, expected: FloatArray, clip: float, steps: int) -> int:
    """Σ over cells of the slopes from 0 to the count, which is one number in each block of `_KNOTS`.

    The work does not grow with the records, and neither does the memory.
    """
    x, m = counts.ravel(), np.asarray(expected, dtype=np.float64).ravel()
    log = np.where(m == 0, -np.inf, np.nan)
    np.log(m, out=log, where=m > 0)  # of all cells, so that no other count can change where one stands
    there = np.flatnonzero(x > 0)
    x, log = x[there], log[there]
    blocks = np.searchsorted(_KNOTS, x, side="left")
    total = 0
    at_once = max(1, BLOCK_CELLS // int(blocks.max(initial=1)))
    for first in range(0, len(x), at_once):
        cut = slice(first, first + at_once)
        cell = np.repeat(np.arange(len(x[cut])), blocks[cut])
        block = np.arange(len(cell)) - np.repeat(np.cumsum(blocks[cut]) - blocks[cut], blocks[cut])
        slopes = _MIDDLES[block] - log[cut][cell]
        whole = np.rint(np.clip(slopes, -clip, clip) * (steps / clip))
        whole[~(np.abs(whole) <= steps)] = 0  # what is not a number too
        records = np.minimum(_KNOTS[block + 1], x[cut][cell]) - _KNOTS[block]
        total += int((whole.astype(np.int64) * records).sum())
    return total


def _knots() -> IntArray:
    """0, 1, …, 128, and from there on blocks of about a 64th."""
    found = [0]
    while found[-1] < 1 << 42:
        found.append(found[-1] + max(1, found[-1] >> 6))
    return np.array(found, dtype=np.int64)


_KNOTS = _knots()
"""Where the slope of a score may change: each count below 128, and then less often."""
_MIDDLES = np.log((_KNOTS[:-1] + _KNOTS[1:]) / 2)
"""ln of the middle of each block; of a single k that is ln(k + ½)."""


def score_sums(at: Judged, blocks: Blocks, sums: Sequence[NoisySum]) -> tuple[IntArray, ...]:
    """Σ over rows of (± c for a hit or miss, log-loss from −c to c). **Private**: they need their noise.

    Each entry of a row is a whole number within ±c with c√2 at most the bound, whatever the model predicts for it.
    """
    (vector,) = sums
    steps = at.steps(vector.bound)
    total = np.zeros(2, dtype=np.int64)
    for block in blocks:
        codes = {name: np.ascontiguousarray(block[name]) for name in at.features}
        labels = block[at.target]
        if not len(labels):
            continue
        shares = np.asarray(at.model.judged(at.target, codes))
        rows = np.arange(len(labels))
        hit = shares.argmax(axis=1) == labels
        with np.errstate(divide="ignore", invalid="ignore"):
            loss = -np.log(shares[rows, labels])
        whole = np.rint((2 * np.clip(loss, 0, at.clip) / at.clip - 1) * steps)
        whole[~(np.abs(whole) <= steps)] = steps  # what is not a number too
        total += (int(np.where(hit, steps, -steps).sum()), int(whole.sum()))
    return (total,)


KERNELS: dict[str, Kernel] = {
    "deviation": Kernel(kinds=("vector",), names=("scores",), sums=deviation_scores, of_tables=True),
    "score": Kernel(kinds=("vector",), names=("score",), sums=score_sums),
    "newton": Kernel(kinds=("vector", "matrix"), names=("gradient", "hessian"), sums=newton_sums),
}
"""What a recipe may name."""
