"""The law of a sum of independent tilted discrete losses on a grid, by one circular convolution."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import reduce

import numpy as np
from numpy.typing import NDArray
from scipy.fft import irfft, next_fast_len, rfft

from ..errors import NumericalError
from .stable import log_sum_exp
from .terms import ComplexArray, FloatArray, LatticeTerm

IntArray = NDArray[np.int64]
_EPS = float(np.finfo(np.float64).eps)
_LARGEST_GRID = 1 << 22
_SMALLEST_GRID = 1 << 15
_WRAP = 37.0
"""Each end of the window leaves out at most exp(−37) of the tilted law."""


@dataclass(frozen=True, kw_only=True)
class Factor:
    """One term of a sum: its tilted law, with K, mean and variance, and how often it occurs."""

    losses: FloatArray
    masses: FloatArray
    log_masses: FloatArray
    log_scale: float
    mean: float
    variance: float
    cut: float
    spacing: Fraction | None
    times: int

    @classmethod
    def of(cls, term: LatticeTerm, times: int, c: float) -> Factor:
        """The factor of a term tilted by c."""
        atoms = term.atoms(c)
        exponents = atoms.log_probabilities + c * atoms.losses
        log_scale = log_sum_exp(exponents)
        masses = np.exp(exponents - log_scale)
        mean = float(masses @ atoms.losses)
        return cls(
            losses=atoms.losses,
            masses=masses,
            log_masses=exponents - log_scale,
            log_scale=log_scale,
            mean=mean,
            variance=float(masses @ (atoms.losses - mean) ** 2),
            cut=atoms.cut,
            spacing=term.spacing,
            times=times,
        )

    def log_moment(self, theta: float) -> float:
        """ln E exp(θ(L − mean)) under the tilted law."""
        return log_sum_exp(theta * (self.losses - self.mean) + self.log_masses)


@dataclass(frozen=True, kw_only=True)
class GridLaw:
    """Masses at first + step·j of the tilted law of the sum.

    Their total is 1 and log_scale is the K that goes with it; `outside` bounds the mass that was wrapped,
    `noise` the rounding error of one mass, `spread` counts the summands split between grid points.
    """

    first: float
    step: float
    masses: FloatArray
    log_scale: float
    outside: float
    noise: float
    spread: int

    def expectation(self, c: float, at: float) -> tuple[float, float]:
        """E φ(L − at), φ(y) = e^{−cy}(1 − e^{−y})₊, and how far the noise of the transform may have moved it.

        The grid is cut into rows. With y = a + b, φ = e^{−ca}·e^{−cb}·((1 − e^{−a}) + e^{−a}(1 − e^{−b})), so
        two matrix products take the place of exponentials at each point.
        """
        start = max(0, math.floor((at - self.first) / self.step) + 1)
        length = len(self.masses) - start
        if length <= 0:
            return 0.0, 0.0
        columns = max(16, math.isqrt(length))
        rows = -(-length // columns)
        masses = np.zeros((rows, columns))
        masses.ravel()[:length] = self.masses[start:]
        a = max(0.0, self.first + self.step * start - at) + self.step * columns * np.arange(rows)
        b = self.step * np.arange(columns)
        front, inner = np.exp(-c * a), np.exp(-c * b)
        kept, kept_inner = -np.expm1(-a), -np.expm1(-b) * inner
        value = front @ (kept * (masses @ inner) + np.exp(-a) * (masses @ kept_inner))
        total = front @ (kept * inner.sum() + np.exp(-a) * kept_inner.sum())
        return float(value), self.noise * float(total)


def convolve(factors: Sequence[Factor], c: float, tolerance: float) -> GridLaw:
    """The law of the sum on a grid so fine that splitting atoms raises δ by about `tolerance` relatively."""
    reaches = [_reach(factors, sign) for sign in (-1.0, 1.0)]
    step, aligned = _choose_step(factors, c, tolerance, sum(r for r, _ in reaches))
    spread = sum(f.times for f, exact in zip(factors, aligned, strict=True) if not exact)
    # Splitting an atom multiplies E e^{wL} by at most exp(w(w+1)h²/8) for w outside [−1, 0].
    below, above = (
        reach + spread * max(0.0, (c + theta) * (c + theta + 1)) * step**2 / (8 * abs(theta))
        for reach, theta in reaches
    )
    size = next_fast_len(int((below + above) / step) + 3, real=True)
    if size > 2 * _LARGEST_GRID:
        raise NumericalError("The composed loss needs too fine a grid")
    offset, shift, log_scale = 0.0, 0, 0.0
    transforms: dict[int, ComplexArray] = {}
    for factor, exact in zip(factors, aligned, strict=True):
        start, index, parts = _exact(factor, step) if exact else _split(factor, step, c)
        total = float(parts.sum())
        log_scale += factor.times * (factor.log_scale + math.log(total))
        base = int(index[0])
        offset, shift = offset + factor.times * start, shift + factor.times * base
        index, parts = index - base, parts / total
        dense = np.zeros(size)
        np.add.at(dense, index % size, parts)
        transform = rfft(dense)
        known = transforms.get(factor.times)
        transforms[factor.times] = transform if known is None else known * transform
    product = reduce(np.multiply, (_power(base, times) for times, base in transforms.items()))
    masses = irfft(product, size)
    first = math.floor((sum(f.times * f.mean for f in factors) - below - offset) / step)
    masses = np.roll(masses, -((first - shift) % size))
    # Normwise error of the transforms; raising to a power multiplies it by the power.
    # By Parseval the root mean square of the product is the norm of the masses.
    weight = (2 + sum(f.times for f in factors)) * math.sqrt(float(masses @ masses))
    return GridLaw(
        first=offset + step * first,
        step=step,
        masses=masses,
        log_scale=log_scale,
        outside=2 * math.exp(-_WRAP),
        noise=_EPS * math.log2(size) * weight,
        spread=spread,
    )


def _reach(factors: Sequence[Factor], sign: float) -> tuple[float, float]:
    """R with Pr[sign·(L − mean) > R] ≤ exp(−_WRAP) by Chernoff's bound, and the θ of that bound."""
    span = max(float(f.losses[-1] - f.losses[0]) for f in factors)
    deviation = max(math.sqrt(sum(f.times * f.variance for f in factors)), 1e-6 * span)
    best = (math.inf, sign)
    for scale in (0.6, 1.0):
        theta = sign * scale * math.sqrt(2 * _WRAP) / deviation
        log_moment = sum(f.times * f.log_moment(theta) for f in factors)
        best = min(best, ((log_moment + _WRAP) / abs(theta), theta))
    return best


def _choose_step(factors: Sequence[Factor], c: float, tolerance: float, width: float) -> tuple[float, list[bool]]:
    """The grid's step, and which factors have all their atoms on it."""
    spacings = [factor.spacing for factor in factors]
    if all(spacings):
        common = reduce(_common_divisor, (s for s in spacings if s))
        if width < _LARGEST_GRID * common:
            return float(common), [True] * len(factors)
    # Splitting atoms at random places multiplies E e^{cL} by exp(c(c+1)h²/12) for each.
    count = sum(f.times for f in factors)
    step = math.sqrt(12 * tolerance / (count * c * (c + 1)))
    step = max(min(step, width / _SMALLEST_GRID), width / _LARGEST_GRID)
    main = max((f for f in factors if f.spacing), key=lambda f: f.times, default=None)
    if main is None or main.spacing is None or main.spacing < step:
        return step, [False] * len(factors)
    exact = main.spacing / math.ceil(main.spacing / Fraction(step))
    return float(exact), [s is not None and (s / exact).denominator == 1 for s in spacings]


def _common_divisor(a: Fraction, b: Fraction) -> Fraction:
    return Fraction(math.gcd(a.numerator * b.denominator, b.numerator * a.denominator), a.denominator * b.denominator)


def _exact(factor: Factor, step: float) -> tuple[float, IntArray, FloatArray]:
    assert factor.spacing is not None
    ratio = round(float(factor.spacing) / step)
    return float(factor.losses[0]), ratio * np.arange(len(factor.losses), dtype=np.int64), factor.masses


def _split(factor: Factor, step: float, c: float) -> tuple[float, IntArray, FloatArray]:
    """Each atom divided between its two grid points so that Σ P and Σ P·e^{−L} stay as they are."""
    position = np.floor(factor.losses / step)
    rest = factor.losses - position * step
    up = np.clip(np.expm1(-rest) / math.expm1(-step), 0.0, 1.0)
    index = position.astype(np.int64)
    lower = factor.masses * (1 - up) * np.exp(-c * rest)
    upper = factor.masses * up * np.exp(c * (step - rest))
    base = int(index[0])
    index -= base
    masses = np.zeros(int(index[-1]) + 2)
    masses[:-1] = np.bincount(index, weights=lower)
    masses[1:] += np.bincount(index, weights=upper)
    return 0.0, base + np.arange(len(masses), dtype=np.int64), masses


def _power(base: ComplexArray, times: int) -> ComplexArray:
    """base**times by repeated squaring, far faster than a complex power."""
    result: ComplexArray | None = None
    while times:
        if times & 1:
            result = base if result is None else result * base
        times >>= 1
        if times:
            base = base * base
    assert result is not None
    return result
