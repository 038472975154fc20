"""Noise for a fair comparison: every law's quantiles at the same Latin hypercube of uniform numbers.

Losses of small tables are heavy-tailed (a relative deviation of 2 for two cells): independent seeds would compare luck.
Not private, of course: only for measuring.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from simplexdp.mechanisms import Gaussian, Laplace
from simplexdp.mechanisms.registry import AnyMechanism
from simplexdp.sampling.entropy import SeededEntropy

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]


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
    return np.array([mechanism.draw(counts, entropy) for _ in uniform])
