"""What the samplers' tests share: chi-square goodness of fit with pooled cells, and sources that are
watched."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from simplexdp.sampling import SeededEntropy

SIGNIFICANCE = 1e-4
"""A right sampler fails a test with this probability; seeds are fixed, so a passing test passes always. A
control with a wrong law must be rejected at the same level."""


def p_value(draws: NDArray[np.int64], support: NDArray[np.int64], probabilities: NDArray[np.float64]) -> float:
    """The p-value of `draws` under a law on `support` (consecutive); the rest of the mass goes to the
    ends."""
    size = draws.size
    observed = np.bincount(np.clip(draws - support[0], 0, support.size - 1), minlength=support.size).astype(float)
    expected = np.asarray(probabilities, dtype=float) * size
    expected[-1] += size - expected.sum()
    pooled: list[list[float]] = [[0.0, 0.0]]
    for seen, due in zip(observed, expected, strict=True):
        pooled[-1][0] += seen
        pooled[-1][1] += due
        if pooled[-1][1] >= 10:
            pooled.append([0.0, 0.0])
    rest = pooled.pop()
    pooled[-1] = [pooled[-1][0] + rest[0], pooled[-1][1] + rest[1]]
    table = np.array(pooled)
    statistic = ((table[:, 0] - table[:, 1]) ** 2 / table[:, 1]).sum()
    return float(stats.chi2.sf(statistic, len(table) - 1))


class Counting(SeededEntropy):
    """Counts the words, and has no generator of floating-point numbers."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.calls: list[int] = []

    def words(self, size: int) -> NDArray[np.uint64]:
        self.calls.append(size)
        return super().words(size)

    def generator(self) -> np.random.Generator:
        raise AssertionError("the exact sampler asked for floating-point numbers")


class Replay(SeededEntropy):
    """Gives back the words it is told to."""

    def __init__(self, words: list[int]) -> None:
        super().__init__(0)
        self.queue = words

    def words(self, size: int) -> NDArray[np.uint64]:
        taken, self.queue = self.queue[:size], self.queue[size:]
        assert len(taken) == size
        return np.array(taken, dtype=np.uint64)
