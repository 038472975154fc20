"""From one released table to probabilities with uncertainty: the entry point of this layer."""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np

from ..errors import InvalidArgument
from .few import few_cells
from .many import many_cells
from .simple import METHODS
from .values import CellPosterior, Estimate, FloatArray, NoisyCounts

Method = Literal["posterior-mean", "truncated-normal", "projection", "clip", "clip-tiny", "raw"]

FEW = 6
"""Tables up to this size get the exact posterior: there is too little in them to learn a prior from."""
LEAST_SHARE = 1e-12
"""No count is taken below this share of the total, so that every logarithm is finite."""


def estimate(noisy: NoisyCounts, method: Method = "posterior-mean") -> Estimate:
    """Estimate the probabilities f/N behind a released table. Post-processing: it costs no budget.

    Args:
        noisy: the released values and the law of their noise.
        method: "posterior-mean", the default, minimises the expected KL(f/N ‖ q) under a prior learnt
            from the release; "truncated-normal" does so under a flat prior; "projection" is the nearest
            point of the simplex; "clip" at 0 plus half a standard deviation; "clip-tiny" the paper's clip
            at 1e-6; "raw" the draw itself.

    >>> table = NoisyCounts(values=np.array([118.0, 72.0, 610.0, -3.0]), variance=25.0, total=800)
    >>> estimate(table).probabilities.sum().round(12)
    np.float64(1.0)
    """
    if method not in get_args(Method):
        raise InvalidArgument("method", "one of " + ", ".join(map(repr, get_args(Method))), got=method)
    posterior: CellPosterior | None = None
    if noisy.size == 1:
        counts, deviations = np.ones(1), np.zeros(1)
    elif method == "posterior-mean":
        exact = few_cells(noisy) if noisy.size <= FEW else None
        counts, deviations, posterior = exact or many_cells(noisy)
    else:
        counts = METHODS[method](noisy).ravel()
        deviations = noisy.deviations
    shape = noisy.values.shape
    return Estimate(
        probabilities=_normalise(counts, noisy.likely_total).reshape(shape),
        standard_errors=(deviations / noisy.likely_total).reshape(shape),
        name=method,
        noisy=noisy,
        posterior=posterior,
    )


def _normalise(counts: FloatArray, total: float) -> FloatArray:
    floored = np.maximum(counts, LEAST_SHARE * max(total, 1.0))
    return np.asarray(floored / floored.sum())
