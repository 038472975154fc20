"""Chi-square goodness of fit with pooled cells, for the samplers' tests."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import stats

SIGNIFICANCE = 1e-4
"""A right sampler fails a test with this probability; seeds are fixed, so a passing test passes always. A
control with a wrong law must be rejected at the same level."""


def p_value(
    draws: NDArray[np.int64], support: NDArray[np.int64], probabilities: NDArray[np.float64]
) -> float:
    """The p-value of `draws` under a law on `support` (consecutive); the rest of the mass goes to the
    ends."""
    size = draws.size
    observed = np.bincount(np.clip(draws - support[0], 0, support.size - 1), minlength=support.size).astype(
        float
    )
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
