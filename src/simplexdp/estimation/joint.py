"""How uncertain sums over cells of estimated tables are: cells vary together, as the margins of their table bind them.

Given the tables of fewer columns, the cells of a table are independent but for having those margins; the tables of
fewer columns vary in the same way, down to the total. So Σ w x has the variance Σ v r² + Var Σ y m: w = r + Σ y is the
projection, with weights v, on what margins m can say, and the second part is found in the same way one level below
(the law of total variance for normal laws).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from .values import FloatArray

Columns = tuple[str, ...]

SWEEPS, CLOSE = 200, 1e-6
"""Of the projection, and the relative change in a sweep at which it ends."""
MOST_SHARE = 0.9
"""Of the sum that one cell may vary by: a known sum leaves no cell more deviation than all others together."""


@dataclass(frozen=True, kw_only=True, eq=False)
class JointPosterior:
    """The law of all estimated tables of some records.

    Args:
        spreads: by columns, in one order, the variance of each cell as if its margins were not known.
        total_variance: of the number of records.
    """

    spreads: Mapping[Columns, FloatArray]
    total_variance: float

    def deviation(self, names: Columns, weights: FloatArray) -> float:
        """The standard deviation of Σ weights · cells of one table."""
        levels: dict[Columns, FloatArray] = {names: np.asarray(weights, dtype=np.float64)}
        variance = 0.0
        for number in range(len(names), 0, -1):
            for each in [key for key in levels if len(key) == number]:
                left, margins = projected(levels.pop(each), self.spreads[each])
                variance += float((self.spreads[each] * left**2).sum())
                for axis, own in enumerate(margins):
                    key = each[:axis] + each[axis + 1 :]
                    levels[key] = levels.get(key, 0.0) + own
        return math.sqrt(variance + self.total_variance * float(levels[()]) ** 2)


def projected(weights: FloatArray, spread: FloatArray) -> tuple[FloatArray, list[FloatArray]]:
    """What is left of weights after the nearest sum of functions without one of the axes each, and those functions."""
    left = weights.copy()
    sums = [np.maximum(spread.sum(axis=axis), 1e-300) for axis in range(weights.ndim)]
    margins = [np.zeros(each.shape) for each in sums]
    small = CLOSE * float(np.abs(weights).max(initial=0.0))
    for _ in range(SWEEPS if weights.ndim > 1 else 1):
        moved = 0.0
        for axis, each in enumerate(sums):
            step = (spread * left).sum(axis=axis) / each
            left -= np.expand_dims(step, axis)
            margins[axis] += step
            moved = max(moved, float(np.abs(step).max()))
        if moved <= small:
            break
    return left, margins


def free_spread(variance: FloatArray) -> FloatArray:
    """The variances v of independent cells that have these once their sum is known: v (1 − v/Σv).

    >>> free_spread(np.array([4.0, 4.0])).round(6)  # two cells with a known sum are one number
    array([8., 8.])
    """
    found = variance * (variance.size / max(variance.size - 1, 1))
    for _ in range(SWEEPS):
        share = np.minimum(found / max(float(found.sum()), 1e-300), MOST_SHARE)
        found, before = variance / (1 - share), found
        if np.abs(found - before).max(initial=0.0) <= CLOSE * found.max(initial=0.0):
            break
    return np.asarray(found)
