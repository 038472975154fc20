"""How far balanced Laplace noise reaches: the law of one cell of noise that adds up to zero."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from scipy.fft import irfft, next_fast_len

_WIDE = 500.0
"""Noise of a larger scale is looked at on a grid of this scale: its law is then that of a density."""


@lru_cache(maxsize=256)
def balanced_reach(scale: float, cells: int, error: float) -> float:
    """About the smallest h, rounded up, for which Pr[|x₁| > h] ≤ error.

    Pr[x₁ = k] ∝ e^{−|k|/b} · Pr[the noise of the other cells, independent, adds up to −k]; the second factor comes from
    its characteristic function.

    >>> balanced_reach(2.0, 2, 0.05)  # two cells: Pr[|x₁| > h] = 2 e^{−2(h+1)/b} / (1 + e^{−2/b})
    3.0
    """
    step = max(1.0, scale / _WIDE)
    b = scale / step
    size = next_fast_len(2 * math.ceil(b * (40 + 8 * math.sqrt(cells)) + 20), real=True)
    q = math.exp(-1 / b)
    sines = np.sin(np.pi / size * np.arange(size // 2 + 1)) ** 2
    transform = 1 / (1 + 4 * q / math.expm1(-1 / b) ** 2 * sines)
    others = irfft(transform ** (cells - 1), size)[: size // 2]
    masses = np.exp(-np.arange(size // 2) / b) * np.maximum(others, 0.0)
    masses[1:] *= 2
    beyond = np.cumsum(masses[::-1])[::-1] / masses.sum()  # Pr[|x₁| ≥ k]
    first = int(np.argmax(beyond <= error))
    return step * (first - 1 if step == 1 else first)
