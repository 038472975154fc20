"""The profile δ(ε) of a composed loss from its log-MGF K, by a contour integral that errs on the safe side.

For 0 < c < (right end of the domain of K),

    δ(ε) = (1/2πi) ∫_{c−i∞}^{c+i∞} exp(K(w) − wε) / (w(w+1)) dw.

The trapezoidal rule with step h on this line equals Σ_m δ(ε + ma) e^{mac}, a = 2π/h, over all integers m (Poisson
summation). Every term is positive, so the rule can only overestimate: with the truncated tail and the rounding error
added, the sum is an upper bound whatever the step. The terms with m ≠ 0 are bounded by Chernoff's inequality, which
gives the lower bound and chooses the step. For δ close to one the line −1 < c < 0 gives 1 − δ in the same way.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from scipy.special import expit, xlogy

from ..numerics.roots import Interval
from .terms import ComplexArray, FloatArray

MAX_POINTS = 1 << 20
_ALIAS = math.log(1e-13)
_TAIL = -36.0
_UNDERFLOW = -746.0
_CHUNK = 1 << 14


class Cumulants(Protocol):
    """The log-MGF of a whole composition."""

    @property
    def domain(self) -> tuple[float, float]:
        """Where K is finite."""

    def rates(self, w: FloatArray) -> FloatArray:
        """K(w)/w on a vector of real w inside the domain, and K'(0) at 0."""

    def log_mgf(self, w: ComplexArray) -> ComplexArray:
        """K on a vector of complex numbers."""

    def log_envelope(self, c: float, t: FloatArray) -> FloatArray:
        """ln of a bound on |exp K(c + iτ)| that holds for every τ ≥ t."""


class TooManyPoints(Exception):
    """The line would need too many nodes; the caller has another way."""


@dataclass(frozen=True)
class _Line:
    c: float
    exponent: float  # K(c) − cε
    spread: float  # K''(c), roughly
    log_size: float  # ln of the value, roughly


def contour_delta(loss: Cumulants, epsilon: float, most_points: int = MAX_POINTS) -> Interval:
    """Bounds of δ(ε), typically 1e-11 apart (relative).

    Raises:
        TooManyPoints: when the line would need more than `most_points` nodes.
    """
    lower_end, upper_end = loss.domain
    if lower_end >= -1 or upper_end <= 0:
        raise TooManyPoints
    mean = float(loss.rates(np.zeros(1))[0])
    if epsilon < mean and _variance(loss, 0.0, min(1.0, 0.5 * upper_end)) > 1:
        ends = (max(-1.0, lower_end), 0.0)
        line = _saddle(loss, epsilon, ends)
        complement = _trapezoid(loss, epsilon, line, ends, _no_kappa, most_points)
        lower = math.nextafter(1 - complement.upper, 0)
        return Interval(max(0.0, lower), min(1.0, math.nextafter(1 - complement.lower, 2)))
    ends = (0.0, upper_end)
    line = _saddle(loss, epsilon, ends)
    if line.exponent < _UNDERFLOW - 1e-9 * line.c * epsilon:
        # Chernoff: δ ≤ e^{K(c)−cε}, which no double can hold; the second part is far more than K and cε are off.
        return Interval(0.0, math.nextafter(0.0, 1.0))
    found = _trapezoid(loss, epsilon, line, ends, _log_kappa, most_points)
    return Interval(found.lower, min(1.0, found.upper))


def _exponents(loss: Cumulants, c: FloatArray, epsilon: float) -> FloatArray:
    """K(c) − cε."""
    return c * (loss.rates(c) - epsilon)


def _saddle(loss: Cumulants, epsilon: float, ends: tuple[float, float]) -> _Line:
    """The c between the ends that minimises K(c) − cε − ln|c| − ln(1+c), a convex function, to a few per cent.

    Any c gives the same integral, so a rough minimum only costs a few nodes.
    """
    low, high = ends

    def place(t: FloatArray) -> FloatArray:
        if math.isinf(high):
            return low + np.exp(t)
        return np.where(t < 0, low + (high - low) * expit(t), high - (high - low) * expit(-t))

    def objective(c: FloatArray) -> FloatArray:
        inside = (low < c) & (c < high)
        safe = np.where(inside, c, 0.5 * (low + high) if math.isfinite(high) else 1.0)
        value = _exponents(loss, safe, epsilon) - np.log(np.abs(safe)) - np.log1p(safe)
        return np.where(inside & np.isfinite(value), value, np.inf)

    grid = np.arange(-45.0, 46.0, 2.5)
    t = float(grid[np.argmin(objective(place(grid)))])
    finer = t + np.linspace(-2.5, 2.5, 51)
    values = objective(place(finer))
    best = int(np.argmin(values))
    c = float(place(finer)[best])
    spread = _variance(loss, c, 0.02 * min(c - low, high - c))
    exponent = float(_exponents(loss, np.array([c]), epsilon)[0])
    return _Line(c, exponent, spread, float(values[best]) - 0.5 * math.log(2 * math.pi * spread))


def _variance(loss: Cumulants, c: float, step: float) -> float:
    """K''(c) by a second difference; only a scale, so a few digits do."""
    points = c + step * np.array([-1.0, 0.0, 1.0])
    values = points * loss.rates(points)
    return max(float(values[0] - 2 * values[1] + values[2]) / step**2, 1e-300)


def _log_kappa(c: FloatArray) -> FloatArray:
    """ln max_x (1 − e^-x) e^-cx, so that (1 − e^{ε−L})₊ ≤ κ e^{c(L−ε)}."""
    return xlogy(c, c) - (1 + c) * np.log1p(c)


def _no_kappa(c: FloatArray) -> FloatArray:
    """min(1, e^{ε−L}) ≤ e^{c(L−ε)} for −1 ≤ c ≤ 0, with constant 1."""
    return np.zeros_like(c)


def _period(
    loss: Cumulants,
    epsilon: float,
    line: _Line,
    ends: tuple[float, float],
    kappa: Callable[[FloatArray], FloatArray],
) -> tuple[float, float]:
    """The period a, and the ln of a bound on the sum of aliases, relative to the rough size of the value."""
    low, high = ends
    c = line.c
    downwards = c + (low - c) * np.array([1.0, 0.75, 0.5, 0.25])
    width = min(24 / math.sqrt(line.spread), high - c)  # the end may be very many standard deviations away
    upwards = c + width * np.array([0.25, 0.5, 0.75])
    others = np.concatenate([downwards, upwards])
    chernoff = _exponents(loss, others, epsilon) + kappa(others) - line.log_size
    needed = np.maximum(chernoff - _ALIAS, 4.0) / np.abs(others - c)
    period = max(float(np.min(needed[:4])), float(np.min(needed[4:])))
    # Each side is a geometric series with first term e^_ALIAS and ratio at most e^-4.
    return period, _ALIAS + math.log(2 / (1 - math.exp(-4)))


def _reach(loss: Cumulants, line: _Line, start: float) -> float:
    """A height T at which |exp(K(c+iT))| has fallen to e^_TAIL of its value on the axis."""
    top = line.c * float(loss.rates(np.array([line.c]))[0])
    heights: FloatArray = start * 2.0 ** np.arange(0.0, 48.0, 2.0)
    fall = loss.log_envelope(line.c, heights) - top
    below = np.flatnonzero(fall <= _TAIL)
    if not below.size:
        raise TooManyPoints
    first = int(below[0])
    if first == 0:
        return float(heights[0])
    finer: FloatArray = heights[first - 1] * 4.0 ** np.linspace(0, 1, 17)[1:]
    fall = loss.log_envelope(line.c, finer) - top
    return float(finer[np.argmax(fall <= _TAIL)])


def _trapezoid(
    loss: Cumulants,
    epsilon: float,
    line: _Line,
    ends: tuple[float, float],
    kappa: Callable[[FloatArray], FloatArray],
    most_points: int,
) -> Interval:
    period, log_alias = _period(loss, epsilon, line, ends, kappa)
    step = 2 * math.pi / period
    reach = _reach(loss, line, 4 / math.sqrt(line.spread))
    points = math.ceil(reach / step)
    if points > most_points:
        raise TooManyPoints
    total = magnitude = 0.0
    for begin in range(0, points + 1, _CHUNK):
        t = step * np.arange(begin, min(begin + _CHUNK, points + 1), dtype=np.float64)
        w = line.c + 1j * t.astype(np.complex128)
        logs = loss.log_mgf(w) - w * epsilon - line.exponent
        values = np.exp(logs) / (w * (w + 1))
        weights = np.where(t == 0, 1.0, 2.0)
        total += float(weights @ np.real(values))
        magnitude += float(weights @ np.abs(values))
    top = line.exponent + line.c * epsilon
    last = math.exp(float(loss.log_envelope(line.c, t[-1:])[0]) - top)
    tail = last / (math.pi * points * step)  # the envelope holds from here on, and |w(w+1)| ≥ t²
    scale = step / (2 * math.pi)
    rounding = (2e-12 + 1e-14 * (abs(line.exponent) + abs(line.c * epsilon))) * magnitude * scale
    value = abs(total) * scale
    front = math.exp(line.exponent)
    alias = math.exp(min(log_alias + line.log_size, 700.0))
    return Interval(
        max(0.0, front * (value - tail - rounding) - alias),
        math.nextafter(front * (value + tail + rounding), math.inf),
    )
