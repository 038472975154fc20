"""Elementary functions without cancellation, for probabilities and losses on the integers."""

from __future__ import annotations

import math

import numpy as np
from scipy.special import exprel

from .terms import FloatArray

_STIRLING_FROM = 16
_STIRLING = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360)


def _stirling_series(y: FloatArray) -> FloatArray:
    square = 1 / (y * y)
    total = np.full_like(y, _STIRLING[-1])
    for coefficient in reversed(_STIRLING[:-1]):
        total = total * square + coefficient
    return total / y


def _stirling_table() -> FloatArray:
    """The remainder at 0 (unused), 1, ..., 16, downwards from the series by its recurrence."""
    table = np.zeros(_STIRLING_FROM + 1)
    table[-1] = _stirling_series(np.array([float(_STIRLING_FROM)]))[0]
    for y in range(_STIRLING_FROM - 1, 0, -1):
        table[y] = table[y + 1] + ((y + 0.5) * math.log1p(1 / y) - 1)
    return table


_TABLE = _stirling_table()


def stirling_remainder(y: FloatArray) -> FloatArray:
    """S(y) = lnΓ(y) − (y − ½) ln y + y − ½ ln 2π at positive integers y, to 1e-15 absolute."""
    far = _stirling_series(np.maximum(y, _STIRLING_FROM))
    if float(y.min(initial=_STIRLING_FROM)) >= _STIRLING_FROM:
        return far
    near = _TABLE[np.minimum(y, _STIRLING_FROM).astype(np.int64)]
    return np.where(y < _STIRLING_FROM, near, far)


def log1p_minus(u: FloatArray) -> FloatArray:
    """ln(1+u) − u for u > −1, relatively accurate near 0.

    With s = u/(2+u): ln(1+u) = 2 artanh s and 2s − u = −us, so the difference is −us + 2s³(1/3 + s²/5 + …).
    """
    near = np.abs(u) < 0.25
    v = np.where(near, u, 0.0)
    s = v / (2 + v)
    square = s * s
    series = np.full_like(u, 1 / 23)
    for k in range(21, 1, -2):
        series = series * square + 1 / k
    result: FloatArray = -v * s + 2 * s * square * series
    if not near.all():
        with np.errstate(divide="ignore"):
            result = np.where(near, result, np.log1p(u) - u)
    return result


def deviance(x: FloatArray, mean: FloatArray) -> FloatArray:
    """x ln(x/mean) − x + mean for x, mean > 0, relatively accurate near x = mean (Loader 2000)."""
    u = (x - mean) / mean
    result: FloatArray = mean * (u * u + (1 + u) * log1p_minus(u))
    return result


def log_negative_binomial(x: FloatArray, shape: int, p: float) -> FloatArray:
    """ln of NB(x; shape, p) = C(x+shape−1, x) p^shape (1−p)^x, by Loader's saddle-point form."""
    n = float(shape)
    positive = np.maximum(x, 1.0)
    total = positive + n
    constant = stirling_remainder(np.array([n]))[0] + 0.5 * math.log(2 * math.pi / n)
    # Heads and tails in one array each: half the calls, which is what a short list costs.
    remainders = stirling_remainder(np.stack([total, positive]))
    deviances = deviance(np.stack([np.full_like(total, n), positive]), np.stack([total * p, total * (1 - p)]))
    value = remainders[0] - remainders[1] - deviances[0] - deviances[1]
    value -= constant + 0.5 * np.log(total * positive)
    return np.where(x < 1, n * math.log(p), value)


def log_rising_ratio(x: FloatArray, start: int, steps: int, p: float) -> FloatArray:
    """ln of p^steps · Π_{i<steps} (x+start+i)/(start+i), which is ln NB(x; start+steps) − ln NB(x; start).

    p is a power of two, so every numerator xp − (start+i)(1−p) is exact and each factor is a log1p.
    """
    if steps <= 12:
        total = np.zeros_like(x)
        for i in range(steps):
            total += np.log1p((x * p - (start + i) * (1 - p)) / (start + i))
        return total
    # lnΓ(y+steps) − lnΓ(y) = steps·ln y + e(y), with e(y) small for y large against steps².
    base = np.array([float(start)])

    def remainder(y: FloatArray) -> FloatArray:
        ratio = steps / y
        smooth = y * log1p_minus(ratio) + (steps - 0.5) * np.log1p(ratio)
        return smooth + (stirling_remainder(y + steps) - stirling_remainder(y))

    head = steps * np.log1p((x * p - start * (1 - p)) / start)
    return head + (remainder(x + start) - remainder(base))


def log_sum_exp(exponents: FloatArray) -> float:
    """ln Σ e^x of a non-empty array."""
    top = float(exponents.max())
    return top + math.log(float(np.exp(exponents - top).sum()))


def log_convexity_gap(loss: FloatArray, w: float) -> tuple[FloatArray, FloatArray]:
    """m and g ≥ 0 with e^{(1+w)loss} − 1 − (1+w)(e^loss − 1) = w(1+w)·loss²·g·e^m.

    g·e^m is the divided difference of exp at 0, loss, (1+w)loss: a Taylor series where they are close, the
    textbook quotient elsewhere; m is the largest of the three, so nothing overflows.
    """
    points = np.sort(np.stack([np.zeros_like(loss), loss, (1 + w) * loss]), axis=0)
    top = points[2]
    low, mid = points[0] - top, points[1] - top
    wide = low < -1
    divisor = np.where(wide, -low, 1.0)
    quotient = (exprel(mid) - np.exp(mid) * exprel(low - mid)) / divisor
    if wide.all():
        return top, quotient
    a, b = np.where(wide, 0.0, low), np.where(wide, 0.0, mid)
    symmetric = np.ones_like(loss)  # complete homogeneous polynomial h_k(a, b)
    power = np.ones_like(loss)
    series = np.full_like(loss, 0.5)
    factorial = 2.0
    for k in range(1, 21):
        power = power * b
        symmetric = symmetric * a + power
        factorial *= k + 2
        series += symmetric / factorial
    return top, np.where(wide, quotient, series)
