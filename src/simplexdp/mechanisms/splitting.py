"""How to split a budget over tables so that their predicted losses add up to the least, from public sizes.

Under a budget the precisions of the noises are what is shared: table t with share p_t has noise of variance V/(n p_t),
V that of n equal shares. At the least sum of losses L_t the gains −∂L_t/∂ln p_t are proportional to p_t. Where all
counts are large the KL is ∝ d_t²/p_t, so p_t ∝ cells (√cells is the rule for squared errors); tables that the noise
drowns anyway get less.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from .base import FloatArray
from .predicted import NoiseLaw, predicted_loss

ROUNDS = 40
_DECADES = np.linspace(-3.0, 2.0, 11)
"""Noise variances at which a loss is predicted, as powers of ten around V."""


def least_loss_shares(sizes: Sequence[int], *, variance: float, total: float) -> list[float]:
    """The shares of tables of these sizes, adding up to one; a table of one cell counts as one of two.

    Shares are powers of two of each other, so that few different noises have to be composed.

    >>> [round(share, 2) for share in least_loss_shares([10, 40], variance=4.0, total=1e5)]
    [0.2, 0.8]
    """
    curves = {size: _curve(max(2, size), variance, total) for size in set(sizes)}
    n = len(sizes)
    shares = np.full(n, 1 / n)
    for _ in range(ROUNDS):
        gains = np.array(
            [_gain(curves[size], -math.log10(n * share)) for size, share in zip(sizes, shares, strict=True)]
        )
        shares = np.sqrt(shares * np.maximum(gains, 1e-300))
        shares /= shares.sum()
    weights = 2.0 ** np.round(np.log2(np.maximum(shares / shares.max(), 2.0**-10)))
    return [float(weight) for weight in weights / weights.sum()]


def _curve(size: int, variance: float, total: float) -> FloatArray:
    laws = [NoiseLaw(shape="normal", variance=variance * 10.0**power) for power in _DECADES]
    return np.log([predicted_loss(law, total=total, cells=size) for law in laws])


def _gain(log_losses: FloatArray, power: float) -> float:
    """−∂L/∂ln p = ∂L/∂ln v at the variance V · 10^power."""
    slopes = np.gradient(log_losses, _DECADES * math.log(10))
    return float(np.interp(power, _DECADES, slopes) * math.exp(np.interp(power, _DECADES, log_losses)))
