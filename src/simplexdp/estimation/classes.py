"""Class counts from several tables that all cross a feature with the class: the class marginal is free."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .one_table import Method, estimate
from .values import Estimate, NoisyCounts


def pooled_classes(tables: Sequence[NoisyCounts], alone: Sequence[NoisyCounts] = ()) -> NoisyCounts:
    """The precision-weighted mean of all tables' class sums, as one table over the classes.

    A class sum of a table with C cells a class has variance C·variance + slope·count. The noise of the mean is nearly
    normal whatever the mechanism, because it is a sum.

    Args:
        tables: each features × classes, all about the same records.
        alone: tables of the classes alone.
    """
    sums = [table.values.sum(axis=0) for table in tables] + [table.values for table in alone]
    variances = np.array([t.variance * len(t.values) for t in tables] + [t.variance for t in alone])
    slopes = np.array([t.slope for t in (*tables, *alone)])
    total = next((t.total for t in (*tables, *alone) if t.total is not None), None)
    typical = max(1.0, total if total is not None else float(np.mean([s.sum() for s in sums]))) / len(sums[0])
    precision = 1 / (variances + slopes * typical)
    shares = precision / precision.sum()
    only = alone[0] if len(alone) == 1 and not tables else None
    return NoisyCounts(
        values=np.tensordot(shares, np.array(sums), 1),
        variance=float(shares**2 @ variances),
        slope=float(shares**2 @ slopes),
        total=total,
        noise=only.noise if only is not None else "normal",
    )


def class_estimate(
    tables: Sequence[NoisyCounts], alone: Sequence[NoisyCounts] = (), method: Method = "posterior-mean"
) -> Estimate:
    """Class probabilities with uncertainty from everything that was released about the classes."""
    return estimate(pooled_classes(tables, alone), method)
