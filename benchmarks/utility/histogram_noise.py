"""Noise for a fair comparison: every law's quantiles at the same Latin hypercube of uniform numbers.

Losses of small tables are heavy-tailed (a relative deviation of 2 for two cells): independent seeds would compare luck.
Not private, of course: only for measuring.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import NDArray
from scipy.signal import fftconvolve

from simplexdp.mechanisms import AnyMechanism, BalancedLaplace, Gaussian, Laplace
from simplexdp.sampling import SeededEntropy

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
REACH, FINEST = 40, 25
"""How many scales Laplace noise reaches, and the finest lattice of balanced noise in parts of its scale."""


def latin_hypercube(seeds: int, cells: int, generator: np.random.Generator) -> FloatArray:
    """Uniform numbers, a row for each seed; each column has one in every interval of length 1/seeds."""
    order = generator.permuted(np.tile(np.arange(seeds), (cells, 1)), axis=1).T
    return np.asarray((order + generator.random((seeds, cells))) / seeds)


def draws(mechanism: AnyMechanism, counts: IntArray, uniform: FloatArray, entropy: SeededEntropy) -> IntArray:
    """What the mechanism releases, a row for each row of uniform numbers."""
    if isinstance(mechanism, Gaussian | Laplace):
        law = mechanism._noise()  # the exact law, which the library needs only inside
        at = np.searchsorted(np.cumsum(law.probabilities), uniform)
        return counts + law.values[np.minimum(at, law.values.size - 1)].astype(np.int64)
    if isinstance(mechanism, BalancedLaplace):
        return counts + _balanced(float(mechanism.rational_scale), uniform)
    return np.array([mechanism.draw(counts, entropy) for _ in uniform])


@cache
def _sums(scale: float, cells: int) -> list[FloatArray]:
    """The laws of the sums of 1, 2, …, cells − 1 cells; the middle is 0."""
    x = np.arange(-REACH * FINEST, REACH * FINEST + 1)
    one = np.exp(-np.abs(x) / scale)
    found = [one / one.sum()]
    while len(found) < cells - 1:
        found.append(np.maximum(fftconvolve(found[-1], found[0]), 0.0))
    return found


def _balanced(scale: float, uniform: FloatArray) -> IntArray:
    """Laplace noise that adds up to zero, one cell after the other: each given the sum that the rest has to have.

    On a lattice of scale/FINEST where the scale is larger than that.
    """
    step = max(1.0, scale / FINEST)
    seeds, cells = uniform.shape
    sums = _sums(scale / step, cells)
    x = np.arange(sums[0].size) - sums[0].size // 2
    noise = np.zeros((seeds, cells), dtype=np.int64)
    for cell in range(cells - 1):
        rest = sums[cells - 2 - cell]
        missing = -noise.sum(axis=1)  # what this cell and the rest add up to
        at = missing[:, None] - x + rest.size // 2
        weights = sums[0] * np.where((at >= 0) & (at < rest.size), rest[np.clip(at, 0, rest.size - 1)], 0.0)
        cumulative = np.cumsum(weights, axis=1)
        places = (cumulative < uniform[:, cell : cell + 1] * cumulative[:, -1:]).sum(axis=1)
        noise[:, cell] = x[np.minimum(places, x.size - 1)]
    noise = np.round(noise * step).astype(np.int64)
    noise[:, -1] = -noise[:, :-1].sum(axis=1)
    return noise
