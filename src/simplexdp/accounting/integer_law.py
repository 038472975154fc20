"""Pairs of laws on the integers: from ln Q(x) and the loss ℓ(x) = ln P(x)/Q(x) to the log-MGF, its rate and the atoms.

A law says where its tilted mass P(x)·exp(wℓ(x)) lies; everything else follows here, in one place.

Elementary functions without cancellation stand before them.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from fractions import Fraction

import numpy as np

from ..errors import NumericalError
from ..lazy import special
from .terms import Atoms, ComplexArray, FloatArray

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
    quotient = (special.exprel(mid) - np.exp(mid) * special.exprel(low - mid)) / divisor
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


_DEPTH = 45.0
"""A window ends where the tilted mass has fallen by exp(−45) from its peak."""
MOST_ATOMS = 1 << 23
_CHUNK = 1 << 21
LARGEST_INTEGER = 2.0**50
_FEWER = "Take noise of a smaller standard deviation or fewer flips."


class IntegerLaw(ABC):
    """A pair of laws on the integers from `_first` on, with every tilted mass unimodal and ℓ monotone."""

    _first: float = -math.inf

    @property
    def _limit_log_ratio(self) -> float:
        """Past its mode a tilted mass falls by its ratio at any point or by this one (as logarithms)."""
        return -math.inf

    @abstractmethod
    def _loss(self, x: FloatArray) -> FloatArray: ...

    @abstractmethod
    def _log_q(self, x: FloatArray) -> FloatArray: ...

    @abstractmethod
    def _peak(self, tilt: float) -> tuple[float, float]:
        """The mode of P·exp(tilt·ℓ) and its width, about one standard deviation."""

    @property
    def domain(self) -> tuple[float, float]:
        """K is finite everywhere."""
        return (-math.inf, math.inf)

    def _log_weight(self, x: FloatArray, tilt: float) -> FloatArray:
        return self._log_q(x) + (1 + tilt) * self._loss(x)

    def _window(self, tilt: float) -> tuple[float, float]:
        """The first and last integer that carry the tilted law."""
        mode, width = self._peak(tilt)
        mode = math.floor(mode)
        start = math.ceil(9.4 * max(width, 1.0))
        while True:
            steps = np.ceil(start * 1.15 ** np.arange(36))
            left, right = mode - steps, mode + steps
            if self._first > -math.inf:
                left = np.where(left <= self._first + 1, self._first, left)
            weights = self._log_weight(np.concatenate([[mode], left, right]), tilt)
            deep = weights[1:] < weights[0] - _DEPTH
            deep_left, deep_right = deep[:36] | (left <= self._first), deep[36:]
            if deep_left.any() and deep_right.any():
                return float(left[np.argmax(deep_left)]), float(right[np.argmax(deep_right)])
            start = int(steps[-1])

    def _grid(self, *tilts: float, frequency: float = 0.0) -> tuple[FloatArray, float]:
        """Integers that sum the masses of these tilts, and how many integers each stands for.

        A sum over every h-th integer of a mass that is smooth on the scale of its width σ differs from 1/h of
        the full sum by about exp(−2πy/h), y ~ 2σ a shift into the complex plane (Poisson summation): h ≤ σ/4
        leaves less than 1e-20. A factor exp(i·frequency·ℓ) turns by |ℓ'| at each integer, which tightens h.
        At the edge of the support the mass is not smooth and h = 1.
        """
        windows = [self._window(tilt) for tilt in set(tilts)]
        low, high = min(a for a, _ in windows), max(b for _, b in windows)
        width = min(b - a for a, b in windows) / 20
        step = 1
        if low > self._first and width > 4:
            steepest = np.abs(np.diff(self._loss(np.array([low, low + 1, high - 1, high]))))[[0, 2]].max()
            step = max(1, int(2 * math.pi / (25 / width + frequency * float(steepest))))
        if (high - low) / step > MOST_ATOMS:
            raise NumericalError(f"The loss of {self!r} has too many atoms to sum. {_FEWER}")
        return np.arange(low, high + step, step), float(step)

    def cumulants(self, tilt: float) -> tuple[float, float, float]:
        """K, K' and K'' at a real tilt."""
        x, step = self._grid(tilt)
        loss = self._loss(x)
        log_weight = self._log_q(x) + (1 + tilt) * loss
        top = float(log_weight.max())
        weight = np.exp(log_weight - top)
        total = float(weight.sum())
        mean = float(weight @ loss) / total
        return top + math.log(total * step), mean, float(weight @ (loss - mean) ** 2) / total

    def rate(self, w: float) -> float:
        """K(w)/w, and K'(0) at 0.

        Because Q and P have mass 1, e^K − 1 = Σ Q·(e^{(1+w)ℓ} − 1 − (1+w)(e^ℓ − 1)): all terms have one sign,
        so nothing cancels however small K is.
        """
        if w != 0:
            K = self.cumulants(w)[0]
            if abs(K) > 0.5:
                return K / w
        x, step = self._grid(w, 0.0, -1.0)
        loss = self._loss(x)
        top, gap = log_convexity_gap(loss, w)
        second = step * float(np.sum(np.sort(np.exp(self._log_q(x) + top) * gap * loss * loss)))
        if w == 0:
            return second
        return math.log1p(w * (1 + w) * second) / w

    def log_mgf(self, w: ComplexArray) -> ComplexArray:
        """K on complex w."""
        flat = np.atleast_1d(np.asarray(w, dtype=np.complex128)).ravel()
        real, frequency = flat.real, float(np.abs(flat.imag).max())
        x, step = self._grid(float(real.min()), float(real.max()), frequency=frequency)
        loss, log_p = self._loss(x), self._log_weight(x, 0.0)
        result = np.empty_like(flat)
        rows = max(1, _CHUNK // len(x))
        for i in range(0, len(flat), rows):
            exponent = log_p + flat[i : i + rows, None] * loss
            top = exponent.real.max(axis=1)
            total = np.exp(exponent - top[:, None]).sum(axis=1) * step
            with np.errstate(divide="ignore"):
                result[i : i + rows] = top + np.log(total)
        return result.reshape(np.shape(w))

    def atoms(self, tilt: float = 0.0) -> Atoms:
        """The atoms that carry the law tilted by exp(tilt·loss)."""
        low, high = self._window(tilt)
        if high - low > MOST_ATOMS:
            raise NumericalError(f"The loss of {self!r} has too many atoms to list. {_FEWER}")
        x = np.arange(low, high + 1)
        loss = self._loss(x)
        log_p = self._log_q(x) + loss
        # Unimodal masses fall at least geometrically beyond the window.
        outside = np.array([high + 1, high + 2, *([low - 1, low - 2] if low > self._first else [])])
        ends = self._log_weight(outside, tilt) - log_sum_exp(log_p + tilt * loss)
        falls = np.maximum(ends[1::2] - ends[::2], self._limit_log_ratio)
        cut = float(np.sum(np.exp(ends[::2]) / -np.expm1(falls)))
        if loss[0] > loss[-1]:
            loss, log_p = loss[::-1], log_p[::-1]
        return Atoms(loss, log_p, cut)


class FiniteLaw(IntegerLaw):
    """A law with few atoms, listed in full."""

    @property
    @abstractmethod
    def _size(self) -> int: ...

    def _peak(self, tilt: float) -> tuple[float, float]:  # noqa: ARG002
        return 0.0, float(self._size)

    def _grid(self, *tilts: float, frequency: float = 0.0) -> tuple[FloatArray, float]:  # noqa: ARG002
        return np.arange(float(self._size)), 1.0

    def atoms(self, tilt: float = 0.0) -> Atoms:  # noqa: ARG002
        """All atoms."""
        x, _ = self._grid()
        loss = self._loss(x)
        return Atoms(loss, self._log_q(x) + loss)

    @property
    @abstractmethod
    def exact_largest_loss(self) -> Fraction:
        """The largest loss, not rounded."""

    @property
    def largest_loss(self) -> float:
        """The largest loss."""
        return float(self.exact_largest_loss)
