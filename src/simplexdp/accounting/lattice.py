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
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from ..errors import InvalidArgument, NumericalError
from .convolution import Factor, convolve
from .stable import log_sum_exp
from .terms import Atoms, FloatArray, LatticeTerm

_EPS = float(np.finfo(np.float64).eps)
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
