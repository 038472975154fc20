"""Profiles δ(ε) of discrete losses: exact for two terms or a common lattice, tight bounds otherwise.

Everything is computed under the tilted law P_c ∝ P·e^{cL}, with c > 0 near the saddle point:

    δ(ε) = E_P (1 − e^{ε−L})₊ = e^{K(c)−cε} · E_c φ(L − ε),   φ(y) = e^{−cy} (1 − e^{−y})₊ ≤ φ_max.

The expectation is of the order of φ_max there however small δ is, and whatever is left out of a window under
the tilted law costs at most φ_max times its mass.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import reduce
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..errors import InvalidArgument, NumericalError
from ..lazy import fft
from .integer_law import log_sum_exp
from .terms import Atoms, ComplexArray, FloatArray, LatticeTerm

IntArray = NDArray[np.int64]
_EPS = float(np.finfo(np.float64).eps)
_LARGEST_GRID = 1 << 22
_SMALLEST_GRID = 1 << 15
_TOGETHER = 8
"""Laws that are transformed in one go, which is faster; fewer on large grids."""
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
    size = fft.next_fast_len(int((below + above) / step) + 3, real=True)
    if size > 2 * _LARGEST_GRID:
        raise NumericalError("The composed loss needs too fine a grid")
    offset, shift, log_scale = 0.0, 0, 0.0
    transforms: dict[int, ComplexArray] = {}
    together = max(1, min(_TOGETHER, _LARGEST_GRID // size))
    for begin in range(0, len(factors), together):
        block = factors[begin : begin + together]
        dense = np.zeros((len(block), size))
        for row, factor, exact in zip(dense, block, aligned[begin : begin + together], strict=True):
            start, index, parts = _exact(factor, step) if exact else _split(factor, step, c)
            total = float(parts.sum())
            log_scale += factor.times * (factor.log_scale + math.log(total))
            base = int(index[0])
            offset, shift = offset + factor.times * start, shift + factor.times * base
            np.add.at(row, (index - base) % size, parts / total)
        for factor, transform in zip(block, fft.rfft(dense, axis=1), strict=True):
            known = transforms.get(factor.times)
            transforms[factor.times] = transform if known is None else known * transform
    product = reduce(np.multiply, (_power(base, times) for times, base in transforms.items()))
    masses = fft.irfft(product, size)
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


_UNDERFLOW = -600.0
"""Where Chernoff's bound of δ is below e^−600 = 3e-261, that is the answer."""
_HOEFFDING = 1e-7
"""Share of the spread that the lower bound gives up."""


class Bounds(NamedTuple):
    """A lower and an upper bound of δ(ε)."""

    lower: float
    upper: float


def lattice_delta(terms: Sequence[tuple[LatticeTerm, int]], epsilon: float, *, tolerance: float = 1e-6) -> Bounds:
    """Bounds of δ(ε) of the composition of terms with multiplicities.

    One term, two terms, or any number of terms on a common lattice: exact up to rounding. Other compositions
    put each loss on a fine grid by splitting every atom between its two neighbours so that its mass under P
    and under Q is kept. That is a mean-preserving spread of e^{−L}, so δ can only grow ("connect the dots",
    Doroshenko et al. 2022); the grid is chosen so that it grows by about `tolerance` relatively.

    >>> from simplexdp.accounting.discrete import RandomisedResponseTerm
    >>> print(f"{lattice_delta([(RandomisedResponseTerm(epsilon=1.0), 2)], 1.0).upper:.12f}")
    0.337834712147
    """
    if not math.isfinite(epsilon):
        raise InvalidArgument("epsilon", "a finite number", got=epsilon)
    counts: Counter[LatticeTerm] = Counter()
    for term, times in terms:
        if times < 0:
            raise InvalidArgument("terms", "pairs of a term and how often it occurs, at least 0", got=times)
        counts[term] += times
    pairs = [(term, times) for term, times in counts.items() if times > 0]
    if not pairs:
        trivial = max(0.0, -math.expm1(epsilon))
        return Bounds(trivial, trivial)
    if _at_most(pairs, epsilon):
        return Bounds(0.0, 0.0)
    tilt, exponent = _saddle(pairs, epsilon)
    if exponent < _UNDERFLOW:
        return Bounds(0.0, math.exp(_UNDERFLOW))
    # Near the largest loss the saddle point runs off; a tilt that leaves e^-45 of an atom's neighbour is enough.
    tilt = min([tilt, *(45 / float(term.spacing) for term, _ in pairs if term.spacing is not None)])
    if sum(times for _, times in pairs) <= 2:
        lists = [term.atoms(tilt) for term, times in pairs for _ in range(times)]
        bounds = _sweep(lists, epsilon, tilt)
    else:
        bounds = _convolve(pairs, epsilon, tilt, tolerance)
    return Bounds(max(0.0, bounds.lower), min(1.0, bounds.upper))


def _at_most(pairs: Sequence[tuple[LatticeTerm, int]], epsilon: float) -> bool:
    """Whether no loss exceeds ε: exactly for rational losses, with room for rounding otherwise."""
    exact = Fraction(0)
    for term, times in pairs:
        largest: Fraction | None = getattr(term, "exact_largest_loss", None)
        if largest is None:
            return math.fsum(n * t.largest_loss for t, n in pairs) * (1 + 1e-14) <= epsilon
        exact += times * largest
    return exact <= Fraction(epsilon)


def _saddle(pairs: Sequence[tuple[LatticeTerm, int]], epsilon: float) -> tuple[float, float]:
    """About the c > 0 that minimises K(c) − cε − ln c − ln(1+c), and the last K(c) − cε ≥ ln δ seen.

    Every c > 0 gives valid bounds; within a fifth of the saddle point they are as good as there.
    """

    def cumulants(c: float) -> tuple[float, float, float]:
        K = mean = variance = 0.0
        for term, times in pairs:
            zeroth, first, second = term.cumulants(c)
            K, mean, variance = K + times * zeroth, mean + times * first, variance + times * second
        return K, mean, variance

    _, mean, variance = cumulants(0.0)
    variance = max(variance, 1e-300)  # noise far below one count leaves a single atom
    gap = epsilon - mean
    root = math.hypot(gap, 2 * math.sqrt(variance))
    # The Gaussian's saddle point with the −ln(1+c) left out: variance·c² − gap·c − 1 = 0.
    c = (gap + root) / (2 * variance) if gap > 0 else 2 / (root - gap)
    low, high = 0.0, math.inf
    exponent = 0.0
    for _ in range(60):
        K, mean, variance = cumulants(c)
        exponent = K - c * epsilon
        if exponent < _UNDERFLOW or variance * c * c < 1e-6:  # all mass on the largest loss already
            break
        slope = mean - epsilon - 1 / c - 1 / (1 + c)
        low, high = (low, c) if slope > 0 else (c, high)
        # Newton, kept within a factor of 8 and inside the bracket.
        step = c - slope / (variance + 1 / c**2 + 1 / (1 + c) ** 2)
        step = min(max(step, c / 8), 8 * c)
        if not low < step < high:
            step = 0.5 * (low + high)
        close = abs(step - c) <= 0.2 * c
        c = step
        if close:
            break
    return c, exponent


def _largest_phi(c: float) -> float:
    """The maximum of e^{−cy}(1 − e^{−y}), at e^{−y} = c/(1+c)."""
    return math.exp(-c * math.log1p(1 / c)) / (1 + c)


def _tail_integrals(losses: FloatArray, masses: FloatArray) -> tuple[FloatArray, FloatArray]:
    """T_i = Σ_{j≥i} p_j and f_i = Σ_{j>i} p_j (1 − e^{l_i−l_j}), by sums of positive numbers, small to large.

    f(t) = ∫_t^∞ e^{t−s} Pr[L > s] ds, so e^{−l_i} f_i = Σ_{j≥i} (e^{−l_j} − e^{−l_{j+1}}) T_{j+1}.
    """
    tail = np.cumsum(masses[::-1])[::-1]
    gaps = -np.expm1(-np.diff(losses)) * tail[1:]
    if losses[-1] - losses[0] < 600:
        scaled = np.exp(losses[-1] - losses[:-1]) * gaps
        f = np.exp(losses[:-1] - losses[-1]) * np.cumsum(scaled[::-1])[::-1]
    else:
        with np.errstate(divide="ignore"):
            logs = np.log(gaps) - losses[:-1]
        f = np.exp(losses[:-1] + np.logaddexp.accumulate(logs[::-1])[::-1])
    return tail, np.append(f, 0.0)


def _sweep(lists: Sequence[Atoms], epsilon: float, c: float) -> Bounds:
    """δ of one or two lists: for each atom of the first, the profile of the second at what remains of ε."""
    first, second = lists if len(lists) == 2 else (Atoms(np.zeros(1), np.zeros(1)), lists[0])
    log_scale, log_front, masses, range_ = 0.0, -c * epsilon, [], 0.0
    for atoms in (first, second):
        exponents = atoms.log_probabilities + c * atoms.losses
        K = log_sum_exp(exponents)
        mean = float(np.exp(exponents - K) @ atoms.losses)
        # Centred at the tilted mean, the untilted masses are of order one where it matters.
        masses.append(np.exp(atoms.log_probabilities + (c * mean - K)))
        log_scale, log_front = log_scale + K - c * mean, log_front + K
        range_ += float(atoms.losses[-1] - atoms.losses[0])
    tail, f = _tail_integrals(second.losses, masses[1])

    def value(at: float) -> float:
        thresholds = at - first.losses
        index = np.searchsorted(second.losses, thresholds, side="right")
        inside = index < len(second.losses)
        i, gap = index[inside], thresholds[inside]
        gap = gap - second.losses[i]
        profile = -np.expm1(gap) * tail[i] + np.exp(gap) * f[i]
        return math.exp(log_scale) * float(np.sum(np.sort(masses[0][inside] * profile)))

    # What the lists leave out, and the rounding of sums, losses and logarithms.
    share = math.expm1(sum(math.log1p(a.cut) for a in lists))
    cut = math.exp(log_front) * _largest_phi(c) * share
    size = len(first.losses) + len(second.losses)
    rounding = _EPS * (2 * size + 64 + 8 * c * (abs(epsilon) + range_))
    slack = 4 * _EPS * abs(epsilon)
    return Bounds(value(epsilon + slack) * (1 - rounding), value(epsilon - slack) * (1 + rounding) + cut)


def _convolve(pairs: Sequence[tuple[LatticeTerm, int]], epsilon: float, c: float, tolerance: float) -> Bounds:
    """δ of many terms by one circular convolution of their tilted laws on a grid."""
    factors = [Factor.of(term, times, c) for term, times in pairs]
    law = convolve(factors, c, tolerance)
    largest_phi = _largest_phi(c)
    total = sum(factor.times for factor in factors)
    rounding = _EPS * (64 * total + 64 + 8 * c * (abs(epsilon) + law.step * len(law.masses)))
    missing = law.outside + math.expm1(sum(factor.times * math.log1p(factor.cut) for factor in factors))

    slack = 4 * _EPS * (abs(epsilon) + abs(law.first))
    value, noise = law.expectation(c, epsilon - slack)
    log_front = law.log_scale - c * epsilon
    upper = math.exp(log_front) * (value + noise + largest_phi * missing) * (1 + rounding)
    # With L' = L + U the spread loss, δ_L(ε) ≥ δ_L'(ε+a) − E_P[(1 − e^{ε+a−L'})₊; U > a]; under the tilted
    # law U is a sum of `spread` independent steps of width h and mean at most (1+c)h²/4 each (Hoeffding).
    shift = 0.0
    if law.spread:
        shift = law.spread * (1 + c) * law.step**2 / 4
        shift += law.step * math.sqrt(law.spread * math.log(1 / _HOEFFDING) / 2)
        missing += _HOEFFDING
    low_value, low_noise = law.expectation(c, epsilon + slack + shift)
    low_sum = low_value - low_noise - largest_phi * missing
    lower = math.exp(log_front - c * shift) * low_sum * (1 - rounding)
    if noise + largest_phi * law.outside > 1e-3 * value:
        raise NumericalError("The composed profile is lost in the rounding of the transform at this epsilon")
    return Bounds(lower, upper)
