"""Tables that agree exactly on what they share, nearest to some that nearly do, with zeros where they have zeros.

Among all tables x with A x = b (each shared margin is the same in all tables that have it, each table has the total)
the one with the least Σ x ln(x/y) − x + y is x = y exp(Aᵀλ) (Csiszár 1975), where λ maximises the concave dual
bᵀλ − Σ y exp(Aᵀλ).
Newton's method solves (A diag(x) Aᵀ) step = b − A x; a cell that is zero stays so, all others stay above it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ..lazy import sparse, sparse_linalg
from .values import FloatArray

Columns = tuple[str, ...]

AGREED = 1e-13
"""The search ends where no margin differs by more than this share of the total."""
STEPS, INNER = 60, 2000
"""Steps of Newton's method, and of conjugate gradients in each."""
RIDGE = 1e-12
"""Added to the diagonal, as a share of it: some differences follow from others."""
FURTHEST = 1.0
"""In one step no cell changes by more than this factor's logarithm."""


def agreeing(tables: Mapping[Columns, FloatArray], total: float) -> dict[Columns, FloatArray]:
    """These tables, moved until they agree on every margin that is among them, and on the total.

    Args:
        tables: counts by columns, whose order is the same in all; a table of fewer columns is a margin of all that
            have them.
        total: of each.
    """
    names = list(tables)
    starts = np.concatenate([[0], np.cumsum([tables[each].size for each in names])])
    matrix = _differences(tables, names, starts)
    goal = np.zeros(matrix.shape[0])
    goal[len(goal) - len(names) :] = total
    counts = np.concatenate([tables[each].ravel() for each in names])
    counts = _newton(counts, matrix, goal, AGREED * total)
    return {
        each: counts[start:end].reshape(tables[each].shape)
        for each, start, end in zip(names, starts, starts[1:], strict=False)
    }


def _newton(counts: FloatArray, matrix: sparse.csr_array, goal: FloatArray, close: float) -> FloatArray:
    """Steps on the dual, each no longer than `FURTHEST`, until nothing is further off than `close`."""
    best, least = counts, np.inf
    for _ in range(STEPS):
        short = goal - matrix @ counts
        worst = float(np.abs(short).max())
        if worst < least:
            best, least = counts, worst
        if worst <= close:
            break
        inner = matrix @ sparse.diags_array(counts) @ matrix.T
        diagonal = inner.diagonal()
        # Rows of cells that are all zero say nothing.
        scale = 1 / np.sqrt(np.where(diagonal > 0, diagonal, 1.0))
        scaled = sparse.diags_array(scale) @ inner @ sparse.diags_array(scale)
        scaled = scaled + RIDGE * sparse.eye_array(len(goal))
        step, _ = sparse_linalg.cg(scaled, scale * short, rtol=1e-10, maxiter=INNER)
        logs = matrix.T @ (scale * step)
        length = float(np.abs(logs[counts > 0]).max())
        counts = counts * np.exp(logs * min(1.0, FURTHEST / max(length, 1e-300)))
    return best


def _differences(
    tables: Mapping[Columns, FloatArray], names: Sequence[Columns], starts: FloatArray
) -> sparse.csr_array:
    """A row for each cell of each margin of a larger table, less that margin itself; then one a table for its total."""
    places = {each: i for i, each in enumerate(names)}
    rows, columns, values, row = [], [], [], 0
    for larger in names:
        cells = np.arange(tables[larger].size)
        there = np.unravel_index(cells, tables[larger].shape)
        for smaller in names:
            if not set(smaller) < set(larger):
                continue
            axes = [there[larger.index(name)] for name in smaller]
            inside = np.ravel_multi_index(axes, tables[smaller].shape)
            own = np.arange(tables[smaller].size)
            rows += [row + inside, row + own]
            columns += [starts[places[larger]] + cells, starts[places[smaller]] + own]
            values += [np.ones(cells.size), -np.ones(own.size)]
            row += own.size
    for each in names:
        cells = np.arange(tables[each].size)
        rows.append(np.full(cells.size, row))
        columns.append(starts[places[each]] + cells)
        values.append(np.ones(cells.size))
        row += 1
    entries = (np.concatenate(values), (np.concatenate(rows), np.concatenate(columns)))
    return sparse.csr_array(entries, shape=(row, int(starts[-1])))
