"""The log-gamma Jensen gap, which is the log-MGF of every gamma-type privacy loss, without cancellation.

    gap(y, s, w) = lnΓ(y + ws) − (1+w) lnΓ(y) + w lnΓ(y − s)

Removing a record is gap(α + r, r, w), adding one is gap(α, −r, w). The three log-gammas are of size 1e13 where the
gap is 1e-9, so nothing here subtracts them. Each lnΓ is shifted up by its recurrence until Stirling's series holds
and the gap of every piece (ln x, x ln x, x^-m) is written as a sum of terms of one sign; see docs/numerics.
"""

from __future__ import annotations

import math
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

Number = TypeVar("Number", np.float64, np.complex128)
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

_STIRLING_FROM = 16.0
# B_2j / (2j (2j−1)) for j = 1..6: with x ≥ 16 the first omitted piece is below 1e-16 of the gap.
_STIRLING = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360)
_SMALL = 0.25
_BLOCK = 1 << 16
# ln(1+u) − u = −u²/2 + u³/3 − ...: 26 terms reach 1e-17 for |u| < 1/4.
_SERIES = tuple((-1.0) ** (n + 1) / n for n in range(27, 1, -1))


def _log1p_ratios(u: NDArray[Number], sum_: NDArray[Number]) -> tuple[NDArray[Number], NDArray[Number]]:
    """(q(u)/u, φ(u)/u) with q = ln(1+u) − u and φ = (1+u) ln(1+u) − u, both zero at u = 0; `sum_` is 1 + u."""
    small = np.abs(u) < _SMALL
    if small.all():
        ratio = _series(u)
        return ratio, u + (1 + u) * ratio
    large = np.where(small, 1, u)
    log: NDArray[Number] = np.log(np.where(small, 1, sum_))
    ratio = log / large - 1
    phi: NDArray[Number] = sum_ * log / large - 1
    if small.any():
        near = _series(np.where(small, u, 0))
        return np.where(small, near, ratio), np.where(small, u + (1 + u) * near, phi)
    return ratio, phi


def _series(u: NDArray[Number]) -> NDArray[Number]:
    """(ln(1+u) − u)/u by its power series."""
    largest = float(np.max(np.abs(u), initial=0.0))
    if largest == 0.0:
        return np.zeros_like(u)
    # Only as many terms as the largest argument needs.
    terms = min(len(_SERIES), max(3, math.ceil(-39 / math.log(max(largest, 1e-18)))))
    total = np.full_like(u, _SERIES[-terms])
    for coefficient in _SERIES[len(_SERIES) - terms + 1 :]:
        total = total * u + coefficient
    return total * u


def gap_rate(alpha: Floats, r: Floats, removing: Bools, w: NDArray[Number]) -> NDArray[Number]:
    """gap / w, elementwise with broadcasting; at w = 0 its limit, the derivative in w.

    `removing` picks gap(α + r, r, w), otherwise gap(α, −r, w). The real part of y + ws must be positive.
    """
    y = np.where(removing, alpha + r, alpha)
    base = np.where(removing, alpha, alpha + r)  # y − s, which must not be computed from y and s
    s = np.where(removing, r, -r)
    end = _end(y, s, w)
    lowest = min(float(np.min(alpha)), float(np.min(np.real(end))))
    shifts = math.ceil(max(0.0, _STIRLING_FROM - lowest))
    total = _stirling_part(y + shifts, base + shifts, end + shifts, s, w)
    block = max(1, _BLOCK // total.size)  # several shifts a call, as memory allows
    for begin in range(0, shifts, block):
        i = np.arange(begin, min(begin + block, shifts)).reshape((-1,) + (1,) * total.ndim)
        total = total + np.sum(_log_part(y + i, base + i, end + i, s, w), axis=0)
    return total


def _end(y: Floats, s: Floats, w: NDArray[Number]) -> NDArray[Number]:
    """y + ws. At the end of the domain it is a small difference, so the product's own rounding error is added back."""
    product = w * s
    if product.dtype.kind != "f":
        return y + product
    high_w, high_s = _high(w), _high(s)
    low_w, low_s = w - high_w, s - high_s
    error = ((high_w * high_s - product) + high_w * low_s + low_w * high_s) + low_w * low_s  # Dekker 1971
    total: NDArray[Number] = (y + product) + error
    return total


def _high(x: NDArray[Number]) -> NDArray[Number]:
    """The upper half of the digits of a float (Veltkamp)."""
    scaled = x * 134217729.0
    return scaled - (scaled - x)


def _log_part(y: Floats, base: Floats, end: NDArray[Number], s: Floats, w: NDArray[Number]) -> NDArray[Number]:
    """−(ln(y+ws) − (1+w) ln y + w ln(y−s)) / w, a sum of two non-negative terms for real w ≥ 0."""
    z = s / y
    ratio, _ = _log1p_ratios(w * z, end / y)
    return -z * ratio - _log_minus(base, y, z)


def _log_minus(base: Floats, y: Floats, z: Floats) -> Floats:
    """ln(1−z) + z with 1 − z = base/y."""
    small = np.abs(z) < _SMALL
    near = np.where(small, -z, 0.0)
    return np.where(small, near * _series(near), np.log(base / y) + z)


def _stirling_part(y: Floats, base: Floats, end: NDArray[Number], s: Floats, w: NDArray[Number]) -> NDArray[Number]:
    z = s / y
    u = w * z
    ratio, phi = _log1p_ratios(u, end / y)
    q = _log_minus(base, y, z)
    # (x − ½) ln x: the gap of x ln x is y (φ(u) + w φ(−z)), and φ(−z) = z² + (1−z) q(−z).
    total = y * (z * phi + z * z + base / y * q) + 0.5 * (-z * ratio - q)
    # x^-m: gap/w = (1+w) z² a b Σ_{i<m} h_i(a, b) / y^m, a = 1/(1+u), b = 1/(1−z), h complete homogeneous.
    a, b = y / end, y / base
    front = (1 + w) * z * z * a * b
    homogeneous = np.ones_like(front)
    partial = homogeneous
    power_b = np.ones_like(z)
    for j, coefficient in enumerate(_STIRLING):
        total = total + coefficient * front * partial / y ** (2 * j + 1)
        for _ in range(2):
            power_b = power_b * b
            homogeneous = homogeneous * a + power_b
            partial = partial + homogeneous
    return total
