"""Class counts from several tables that all cross a feature with the class: the class marginal is free."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from .one_table import Method, estimate
from .values import Estimate, NoisyCounts

_POINTS = 2000
"""Points of the quadrature over the count of one of two classes."""


def pooled(tables: Sequence[NoisyCounts]) -> NoisyCounts:
    """Independent releases of the same counts as one: their precision-weighted mean, whose noise is nearly normal."""
    if len(tables) == 1:
        return tables[0]
    variances = np.array([table.variance for table in tables])
    slopes = np.array([table.slope for table in tables])
    total = next((table.total for table in tables if table.total is not None), None)
    seen = total if total is not None else float(np.mean([table.values.sum() for table in tables]))
    precision = 1 / (variances + slopes * max(1.0, seen) / tables[0].size)
    shares = precision / precision.sum()
    return NoisyCounts(
        values=np.tensordot(shares, np.array([table.values for table in tables]), 1),
        variance=float(shares**2 @ variances),
        slope=float(shares**2 @ slopes),
        total=total,
    )


def pooled_classes(tables: Sequence[NoisyCounts], alone: Sequence[NoisyCounts] = ()) -> NoisyCounts:
    """The precision-weighted mean of all tables' class sums, as one table over the classes.

    A class sum of a table with C cells a class has variance C·variance + slope·count.

    Args:
        tables: each features × classes, all about the same records.
        alone: tables of the classes alone.
    """
    sums = [
        NoisyCounts(
            values=table.values.sum(axis=0),
            variance=table.variance * len(table.values),
            slope=table.slope,
            total=table.total,
        )
        for table in tables
    ]
    return pooled([*sums, *alone])


def class_estimate(
    tables: Sequence[NoisyCounts], alone: Sequence[NoisyCounts] = (), method: Method = "posterior-mean"
) -> Estimate:
    """Class probabilities with uncertainty from everything that was released about the classes."""
    seen = pooled_classes(tables, alone)
    if method == "posterior-mean" and seen.size == 2 and seen.total:
        return _two_classes(seen, seen.total)
    return estimate(seen, method)


def _two_classes(seen: NoisyCounts, total: float) -> Estimate:
    """The posterior mean of two shares under a uniform prior: a normal distribution cut at 0 and at the total.

    Two classes are hardly ever equal, which is what the prior of other small tables takes to be likely, and two shares
    alone cannot tell how unequal shares usually are.
    """
    first, second = (float(value) for value in seen.values)
    # Given the total, only the difference speaks, and its noise is that of the two counts together.
    deviation = math.sqrt((2 * seen.variance + seen.slope * total) / 4)
    centre = (first - second + total) / 2
    mode = min(max(centre, 0.0), total)
    # Beyond this the density is e^−40 of that at the mode, which may be an end of the range.
    outside = abs(centre - mode) / deviation
    reach = deviation * 80 / (outside + math.sqrt(outside**2 + 80))
    low, high = max(mode - reach, 0.0), min(mode + reach, total)
    counts = low + (high - low) * (np.arange(_POINTS) + 0.5) / _POINTS
    weights = np.exp(((mode - centre) ** 2 - (counts - centre) ** 2) / (2 * deviation**2))
    weights /= weights.sum()
    share = float(weights @ counts) / total
    error = math.sqrt(float(weights @ (counts / total - share) ** 2))
    return Estimate(
        probabilities=np.array([share, float(weights @ (total - counts)) / total]),
        standard_errors=np.array([error, error]),
        name="posterior-mean",
        noisy=seen,
    )
