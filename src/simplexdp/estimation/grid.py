"""The count axis as an atom at 0 and bins, and the negative binomial on it."""

from __future__ import annotations

import numpy as np
from scipy.special import betainc, gammaincc

from .values import FloatArray

GROWTH = 0.07
"""Relative width of bins away from 0."""


def bin_edges(ordered: FloatArray, scale: float, total: float) -> FloatArray:
    """Edges on (0, total]: width about scale/4 near 0, growing by 7 %, finer around values and mean count.

    `ordered` are the sorted values.
    """
    coarse, edge = [0.5], 0.5
    while edge < total + 0.5:
        edge += max(1.0, GROWTH * edge, min(scale / 4, 0.3 * edge))
        coarse.append(edge)
    axis = np.array(coarse)
    axis = np.append(axis[axis < total + 0.5], total + 0.5)
    extra = [total / ordered.size + scale * np.arange(-3.0, 3.1, 0.5)]
    large = ordered[np.searchsorted(ordered, 2 * scale) :]
    if large.size:  # resolve clusters of large counts at the scale of the noise
        number = min(100, large.size)
        centres = large[((np.arange(number) + 0.5) / number * large.size).astype(np.int64)]
        extra += [centres + step * scale for step in (-1.5, -0.5, 0.0, 0.5, 1.5)]
    fine = np.concatenate(extra)
    gap = max(1.0, scale / 3)
    fine = thin(np.sort(fine[(fine > 1.5) & (fine < total)]), gap)
    merged = np.sort(np.concatenate([axis, fine]))
    kept = [0.5]
    for candidate in merged[1:]:
        if candidate - kept[-1] >= min(0.7 * gap, max(1.0, 0.2 * candidate)):
            kept.append(float(candidate))
    if kept[-1] < total + 0.5:
        kept.append(total + 0.5)
    edges = np.array(kept)
    if scale < 4:
        edges = np.append(np.round(edges[:-1] - 0.5) + 0.5, edges[-1])  # bins are sets of whole numbers
    return np.unique(edges)


def thin(ordered: FloatArray, gap: float) -> FloatArray:
    """Keep a sorted array's first value and each next one that is at least `gap` further."""
    kept: list[float] = []
    last = -np.inf
    for value in ordered:
        if value - last >= gap:
            last = value
            kept.append(float(value))
    return np.array(kept)


def negative_binomial(edges: FloatArray, shape: float, mean: float) -> FloatArray:
    """Mass of NB(shape, mean) (shape ∞: Poisson) in {0} and the bins, normalised on the grid."""
    if np.isinf(shape):
        cumulative = gammaincc(edges + 0.5, mean)
    else:
        cumulative = betainc(shape, edges + 0.5, shape / (shape + mean))
    mass = np.maximum(np.diff(cumulative, prepend=0.0), 0.0) + 1e-30
    return np.asarray(mass / mass.sum())


def all_equal(edges: FloatArray, mean: float) -> FloatArray:
    """Mass of "every count is the mean": one bin, or 0 and 1 when the mean is below ½."""
    mass = np.full(edges.size, 1e-30)
    if mean < 0.5:
        mass[0], mass[1] = 1 - mean, mean
    else:
        mass[min(max(int(np.searchsorted(edges, mean)), 1), edges.size - 1)] = 1.0
    return np.asarray(mass / mass.sum())
