"""Draws from the Dirichlet law, from totals of 1e-12 to 1e15, without zeros.

This is a floating-point draw: the real numbers it stands for are rounded, and the low bits of a result may
tell neighbours apart that the exact law does not. The exact integer form is `polya`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..errors import InvalidArgument
from . import Entropy

SMALLEST = 1e-300
"""The least probability that is returned. A cell whose exact draw lies below it is lifted to it, which
changes the sum by less than the rounding of one addition."""

_LEAST_SHAPE, _MOST_SHAPE = 1e-290, 1e290  # logarithms of gamma draws stay finite in between


def dirichlet(shape_parameters: NDArray[np.float64], entropy: Entropy) -> NDArray[np.float64]:
    """One draw from `Dirichlet(a₁, …, a_d)` along the last axis; the rows before it are independent.

    `y = G / ΣG` with `G_i ~ Gamma(a_i)`. Where some a_i < 1, G can underflow, so that `ln G` is drawn
    instead: `Gamma(a) = Gamma(a + 1) U^(1/a)` (Marsaglia & Tsang 2000), `ln G = ln Gamma(a + 1) − E/a` with
    E exponential.

    Every entry is at least `SMALLEST` and each row sums to one within 1e-12.

    >>> from simplexdp.sampling import SeededEntropy
    >>> y = dirichlet(np.array([0.5, 1e-9, 30.0]), SeededEntropy(1))
    >>> bool(y.min() > 0), round(float(y.sum()), 12)
    (True, 1.0)
    """
    try:
        # The last axis lies together in memory, so that it is summed pairwise and a long row keeps digits.
        shapes = np.ascontiguousarray(shape_parameters, dtype=np.float64)
    except (TypeError, ValueError):  # whose message may show a value
        raise InvalidArgument("shape_parameters", "an array of numbers") from None
    if shapes.shape[-1] < 2:
        raise InvalidArgument("shape_parameters", "an array of two or more cells along its last axis")
    if shapes.size == 0:
        return np.empty_like(shapes)
    least = float(shapes.min())
    if not (least >= _LEAST_SHAPE and float(shapes.max()) <= _MOST_SHAPE):  # also false for nan
        raise InvalidArgument(
            "shape_parameters",
            f"from {_LEAST_SHAPE} to {_MOST_SHAPE} in every cell",
            hint="The shapes are r·count + α; α must be above 0.",
        )
    generator = entropy.generator()
    if least >= 1:
        draw = generator.standard_gamma(shapes)
    else:
        draw = generator.standard_gamma(np.where(shapes < 1, shapes + 1, shapes))
        np.log(np.maximum(draw, SMALLEST, out=draw), out=draw)
        draw -= np.where(shapes < 1, generator.standard_exponential(shapes.shape) / shapes, 0)
        np.exp(np.maximum(draw - draw.max(axis=-1, keepdims=True), -745, out=draw), out=draw)
    draw /= draw.max(axis=-1, keepdims=True)  # so that the sum of shapes near the largest cannot overflow
    draw /= draw.sum(axis=-1, keepdims=True)
    return np.maximum(draw, SMALLEST, out=draw)
