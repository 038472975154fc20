"""Losses with a density, the gamma pairs behind the Dirichlet mechanism and the Gaussian, and profiles by a contour.

The profile δ(ε) of a composed loss follows from its log-MGF K by a contour integral that errs on the safe side. For
0 < c < (right end of the domain of K),

    δ(ε) = (1/2πi) ∫_{c−i∞}^{c+i∞} exp(K(w) − wε) / (w(w+1)) dw.

The trapezoidal rule with step h on this line equals Σ_m δ(ε + ma) e^{mac}, a = 2π/h, over all integers m (Poisson
summation). Every term is positive, so the rule can only overestimate: with the truncated tail and the rounding error
added, the sum is an upper bound whatever the step. The terms with m ≠ 0 are bounded by Chernoff's inequality, which
gives the lower bound and chooses the step. For δ close to one the line −1 < c < 0 gives 1 − δ in the same way.

A single gamma or Beta pair also has a closed form, at as many digits as its cancellation needs. It is used where the
contour would need too many nodes (α far below one, or ε far above r). With s = 1/(1+e^{ε/r}):

    replace one   δ = I_s(α, α+r) − e^ε I_s(α+r, α)
    remove one    δ = Q(α+r, g) − e^ε Q(α, g),  g = exp((ε + lnΓ(α+r) − lnΓ(α))/r)
    add one       δ = P(α, g) − e^ε P(α+r, g),  g = exp((lnΓ(α+r) − lnΓ(α) − ε)/r)

Proofs: docs/proofs (one record moves or changes stratum, one record is added or removed).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Protocol

import numpy as np

from ..errors import InvalidArgument
from ..lazy import mp, special
from ..numerics.gamma import gap_rate
from ..numerics.printed import as_float
from ..numerics.roots import Interval
from .terms import ComplexArray, FloatArray, RenyiOnly, Term

_EPS = float(np.finfo(np.float64).eps)


@dataclass(frozen=True)
class GammaTerm:
    """Gamma(α+r) against Gamma(α) when `removing`, the other way round otherwise (math: one record's cell).

    K(w) is lnΓ(α+(1+w)r) − (1+w) lnΓ(α+r) + w lnΓ(α) when removing and
    lnΓ(α−wr) − (1+w) lnΓ(α) + w lnΓ(α+r) when adding. One of each is the Beta pair of replace-one.
    """

    r: float
    alpha: float
    removing: bool

    @property
    def domain(self) -> tuple[float, float]:
        """The gamma functions need positive arguments. The quotient is rounded up; `rate` looks at α − wr itself."""
        edge = math.nextafter(self.alpha / self.r, math.inf)
        return (-1 - edge, math.inf) if self.removing else (-math.inf, edge)

    def rate(self, w: float) -> float:
        """K(w)/w."""
        one = np.array([self.alpha]), np.array([self.r]), np.array([self.removing])
        with np.errstate(divide="ignore", invalid="ignore"):  # at the very end of the domain
            value = float(gap_rate(*one, np.array([w]))[0])
        return math.inf if math.isnan(value) else value

    def log_mgf(self, w: ComplexArray) -> ComplexArray:
        """K on complex w."""
        return w * gap_rate(np.array([self.alpha]), np.array([self.r]), np.array([self.removing]), w)


@dataclass(frozen=True)
class GaussianTerm:
    """N(μ, 1) against N(0, 1): K(w) = μ² w(w+1)/2, with μ = Δ₂/σ."""

    mu_squared: float

    @property
    def domain(self) -> tuple[float, float]:
        """All of the line."""
        return (-math.inf, math.inf)

    def rate(self, w: float) -> float:
        """K(w)/w."""
        return self.mu_squared * (w + 1) / 2

    def log_mgf(self, w: ComplexArray) -> ComplexArray:
        """K on complex w."""
        return self.mu_squared * w * (w + 1) / 2


@dataclass(frozen=True)
class VectorTerm:
    """Discrete Gaussian noise on whole-number vectors: dominated by N(μ, 1) against N(0, 1), which adds up.

    Its Rényi curve is that of Δ²/σ², below that of the Gaussian which dominates it.
    Proof: docs/proofs/discrete-gaussian.md.
    """

    mu_squared: float
    renyi_squared: float

    @property
    def domain(self) -> tuple[float, float]:
        """All of the line."""
        return (-math.inf, math.inf)

    def rate(self, w: float) -> float:
        """The bound λ/2 · Δ²/σ² of the Rényi curve."""
        return self.renyi_squared * (w + 1) / 2


def vector_term(squared_shift: Fraction | int, variance: Fraction) -> VectorTerm | RenyiOnly:
    """Discrete Gaussian noise of this variance on each entry of a vector that moves by at most √squared_shift.

    >>> f"{vector_term(2, Fraction(4)).mu_squared:.6f}"  # 2/σ² would be 0.5
    '0.510875'
    """
    if not (squared_shift > 0 and variance > 0):
        raise InvalidArgument("squared_shift", "positive, as the variance", got=(squared_shift, variance))
    renyi = as_float(squared_shift / variance, "up")
    if variance < 1:  # the theorem starts at 1
        return RenyiOnly(GaussianTerm(renyi))
    return VectorTerm(as_float(Fraction(squared_shift), "up") * gaussian_price(variance), renyi)


def gaussian_price(variance: Fraction) -> float:
    """μ² of one entry that moves by one, f(1/σ²) with f(x) = 6(1 − √(1 − x/3)), rounded up; for σ² ≥ 1.

    Proof: docs/proofs/discrete-gaussian.md.

    >>> print(f"{1 / gaussian_price(Fraction(100)) - 100:.6f}")  # −κ, κ = 1/12 + 1/(144 σ²) + …
    -0.083403
    """
    if variance < 1:
        raise InvalidArgument("variance", "at least 1", got=variance)
    x = as_float(1 / variance, "up")
    return 2 * x / (1 + math.sqrt(1 - x / 3)) * (1 + 8 * _EPS)


def gaussian_delta(epsilon: float, mu_squared: float) -> Interval:
    """δ of N(μ, 1) against N(0, 1), Φ(a) − e^ε Φ(b) with a = μ/2 − ε/μ and b = a − μ, between bounds.

    e^ε = φ(a)/φ(b), so it is φ(a)·(m(−a) − m(−b)) with Mills' ratio m: no large numbers are subtracted.

    >>> round(gaussian_delta(1.0, 1.0).upper, 12)
    0.126936737507
    """
    if mu_squared <= 0:
        return Interval(0.0, 0.0)
    mu = math.sqrt(mu_squared)
    a = mu / 2 - epsilon / mu
    if a > 8:
        return Interval(1 - 1e-14, 1.0)
    if a < -37.0:
        return Interval(0.0, 1e-290)  # φ(a) alone is less
    near, far = (math.sqrt(math.pi / 2) * float(special.erfcx(x / math.sqrt(2))) for x in (-a, mu - a))
    front = math.exp(-a * a / 2) / math.sqrt(2 * math.pi)
    value = front * (near - far)
    # Of erfcx (1e-13 is promised), and of a: the exponent by a² ulps, Mills' ratios by as many.
    slack = front * (2e-13 * (near + far) + 32 * _EPS * (1 + a * a) * (near - far))
    return Interval(max(0.0, value - slack), min(1.0, value + slack))


class GammaGroup:
    """Many gamma terms evaluated at once, so that a mixed composition costs one vectorised call."""

    def __init__(self, terms: Sequence[tuple[GammaTerm, int]]) -> None:
        self._alpha = np.array([term.alpha for term, _ in terms])
        self._r = np.array([term.r for term, _ in terms])
        self._removing = np.array([term.removing for term, _ in terms])
        self._times: FloatArray = np.array([float(times) for _, times in terms])

    def rates(self, w: FloatArray) -> FloatArray:
        """Σ times · K(w)/w on a vector of real w."""
        total: FloatArray = gap_rate(self._alpha, self._r, self._removing, w[:, None]) @ self._times
        return total

    def log_mgf(self, w: ComplexArray) -> ComplexArray:
        """Σ times · K(w) on a vector of complex w."""
        column = w[:, None]
        total: ComplexArray = (column * gap_rate(self._alpha, self._r, self._removing, column)) @ self._times
        return total


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
        return np.where(t < 0, low + (high - low) * special.expit(t), high - (high - low) * special.expit(-t))

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
    return special.xlogy(c, c) - (1 + c) * np.log1p(c)


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


_MARGIN = 1e-13
_MAX_DIGITS = 1000
_LARGEST_SHAPE = 1e5
"""Above it the hypergeometric series take too long, and the contour is at its best."""


def gamma_pair_delta(bag: tuple[tuple[Term, int], ...], epsilon: float) -> Interval | None:
    """δ(ε) of one Beta pair or one gamma pair, or None when the bag is something else or mpmath gives up."""
    terms = [term for term, times in bag if times == 1 and isinstance(term, GammaTerm)]
    if len(terms) != len(bag) or not 1 <= len(terms) <= 2:
        return None
    first = terms[0]
    if first.alpha + first.r > _LARGEST_SHAPE:
        return None
    if len(terms) == 2:
        second = terms[1]
        if (first.r, first.alpha) != (second.r, second.alpha) or first.removing == second.removing:
            return None
        difference = _beta
    else:
        difference = _remove if first.removing else _add
    digits = 40
    while digits <= _MAX_DIGITS:
        try:
            with mp.workdps(digits):
                whole, part = difference(mp.mpf(epsilon), mp.mpf(first.r), mp.mpf(first.alpha))
                if whole - part > whole * mp.mpf(10) ** (20 - digits):
                    value = float(whole - part)
                    return Interval(value * (1 - _MARGIN), min(1.0, value * (1 + _MARGIN) + 5e-324))
        except mp.NoConvergence:
            return None
        digits *= 2
    return None


def _beta(epsilon: mp.mpf, r: mp.mpf, alpha: mp.mpf) -> tuple[mp.mpf, mp.mpf]:
    s = 1 / (1 + mp.exp(epsilon / r))
    whole = mp.betainc(alpha, alpha + r, 0, s, regularized=True)
    return whole, mp.exp(epsilon) * mp.betainc(alpha + r, alpha, 0, s, regularized=True)


def _remove(epsilon: mp.mpf, r: mp.mpf, alpha: mp.mpf) -> tuple[mp.mpf, mp.mpf]:
    g = mp.exp((epsilon + mp.loggamma(alpha + r) - mp.loggamma(alpha)) / r)
    whole = mp.gammainc(alpha + r, g, mp.inf, regularized=True)
    return whole, mp.exp(epsilon) * mp.gammainc(alpha, g, mp.inf, regularized=True)


def _add(epsilon: mp.mpf, r: mp.mpf, alpha: mp.mpf) -> tuple[mp.mpf, mp.mpf]:
    g = mp.exp((mp.loggamma(alpha + r) - mp.loggamma(alpha) - epsilon) / r)
    whole = mp.gammainc(alpha, 0, g, regularized=True)
    return whole, mp.exp(epsilon) * mp.gammainc(alpha + r, 0, g, regularized=True)
