"""Class counts from several tables that all cross a feature with the class: the class marginal is free."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .one_table import Method, estimate
from .values import Estimate, NoisyCounts


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
    return estimate(pooled_classes(tables, alone), method)
