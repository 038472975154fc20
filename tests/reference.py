"""References at 40 digits, written independently of the library: direct formulas, quadrature and sums in mpmath."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from itertools import pairwise

import mpmath as mp

DIGITS = 40
Pair = tuple[float, float]
"""(r, α) of a Dirichlet mechanism."""


def _digits(*sizes: float) -> int:
    """Working digits that leave 40 after log-gammas of these sizes have cancelled down to K ~ r²/α."""
    spread = max(sizes) / min(sizes)
    return DIGITS + 25 + 3 * int(mp.log10(max(spread, 10.0)))


# -- the log-MGF and the Rényi curve ----------------------------------------------------------------------------------


def log_mgf(r: float, alpha: float, w: complex | mp.mpf, kind: str) -> mp.mpf:
    """K(w) of `replace`, `remove` or `add` as math.md section 2 writes it; the caller sets the precision."""
    r, a = mp.mpf(r), mp.mpf(alpha)
    if kind == "replace":
        return mp.loggamma(a + (1 + w) * r) + mp.loggamma(a - w * r) - mp.loggamma(a + r) - mp.loggamma(a)
    if kind == "remove":
        return mp.loggamma(a + (1 + w) * r) - (1 + w) * mp.loggamma(a + r) + w * mp.loggamma(a)
    return mp.loggamma(a - w * r) - (1 + w) * mp.loggamma(a) + w * mp.loggamma(a + r)


def rdp(r: float, alpha: float, order: float, kind: str = "replace") -> mp.mpf:
    """The Rényi divergence; infinite where the gamma functions end."""
    with mp.workdps(_digits(r, alpha, order, 1.0)):
        w = mp.mpf(order) - 1
        if kind != "remove" and w * mp.mpf(r) >= mp.mpf(alpha):
            return mp.inf
        if w == 0:
            R, a = mp.mpf(r), mp.mpf(alpha)
            removed = R * mp.psi(0, a + R) - mp.loggamma(a + R) + mp.loggamma(a)
            added = -R * mp.psi(0, a) + mp.loggamma(a + R) - mp.loggamma(a)
            return {"replace": removed + added, "remove": removed, "add": added}[kind]
        return log_mgf(r, alpha, w, kind) / w


# -- the profile of one pair, as an integral of positive numbers ------------------------------------------------------


@cache
def _exp_sinh(step: int, digits: int) -> list[tuple[mp.mpf, mp.mpf]]:
    """Nodes and weights of the double-exponential rule on (0, ∞) for integrands that decay exponentially."""
    with mp.workdps(digits):
        nodes = []
        for i in range(-6 * step, 7 * step + 1):
            u = mp.mpf(i) / step
            v = mp.exp(u - mp.exp(-u))
            if mp.mpf(10) ** -60 < v < 3000:
                nodes.append((v, v * (1 + mp.exp(-u)) / step))
        return nodes


@cache
def _tanh_sinh(step: int, digits: int) -> list[tuple[mp.mpf, mp.mpf]]:
    """Distances from the right end and weights of the double-exponential rule on (0, 1)."""
    with mp.workdps(digits):
        nodes = []
        for i in range(-4 * step, 4 * step + 1):
            u = mp.mpf(i) / step
            x = 1 / (1 + mp.exp(mp.pi * mp.sinh(u)))
            nodes.append((x, mp.pi * mp.cosh(u) * x * (1 - x) / step))
        return nodes


def _tail_integral(
    log_density: Callable[[mp.mpf], mp.mpf], slope: mp.mpf, mode: mp.mpf, width: mp.mpf, r: mp.mpf
) -> mp.mpf:
    """∫_0^∞ e^{log_density(v)} (1 − e^{−rv}) dv for a log-concave density with this slope at 0, mode and width."""

    def f(v: mp.mpf) -> mp.mpf:
        return mp.exp(log_density(v)) * -mp.expm1(-r * v)

    previous = mp.mpf(-1)
    for step in (8, 16, 32, 64, 128):
        if mode > 0:
            start = max(mp.mpf(0), mode - 60 * width)
            size = mode - start
            value = size * mp.fsum(weight * f(mode - size * x) for x, weight in _tanh_sinh(step, mp.mp.dps))
            value += width * mp.fsum(weight * f(mode + width * v) for v, weight in _exp_sinh(step, mp.mp.dps))
        else:
            scale = min(width, -1 / slope) if slope < 0 else width
            value = scale * mp.fsum(weight * f(scale * v) for v, weight in _exp_sinh(step, mp.mp.dps))
        if abs(value - previous) <= mp.mpf(10) ** -17 * value:
            return value
        previous = value
    raise ArithmeticError("the reference integral did not converge")


def delta(r: float, alpha: float, epsilon: float, kind: str = "replace") -> mp.mpf:
    """δ(ε) of one pair: E (1 − e^{ε−L})₊ over the log-odds (replace) or the log of the gamma variable."""
    with mp.workdps(30 + int(mp.log10(max(alpha, r, epsilon, 1)) + mp.log10(max(1 / r, 1)))):
        R, a, e = mp.mpf(r), mp.mpf(alpha), mp.mpf(epsilon)
        ratio = mp.loggamma(a + R) - mp.loggamma(a)
        if kind == "replace":
            x0 = e / R
            log_beta = mp.loggamma(a) + mp.loggamma(a + R) - mp.loggamma(2 * a + R)

            def log_density(v: mp.mpf) -> mp.mpf:
                x = x0 + v
                return (a + R) * x - (2 * a + R) * (x + mp.log1p(mp.exp(-x))) - log_beta

            slope = a + R - (2 * a + R) / (1 + mp.exp(-x0))
            mode, variance = mp.log((a + R) / a) - x0, mp.psi(1, a) + mp.psi(1, a + R)
        else:
            sign, shape = (1, a + R) if kind == "remove" else (-1, a)
            x0 = (ratio + sign * e) / R
            log_gamma = mp.loggamma(shape)

            def log_density(v: mp.mpf) -> mp.mpf:
                x = x0 + sign * v
                return shape * x - mp.exp(x) - log_gamma

            slope = sign * (shape - mp.exp(x0))
            mode, variance = sign * (mp.log(shape) - x0), mp.psi(1, shape)
        if log_density(max(mode, 0)) < -1500:
            return mp.mpf(0)
        return _tail_integral(log_density, slope, mode, mp.sqrt(variance), R)


def loss_scale(r: float, alpha: float, kind: str = "replace") -> tuple[float, float]:
    """Mean and standard deviation of the loss, to choose an ε at which δ is interesting."""
    variance = {"replace": (alpha, alpha + r), "remove": (alpha + r,), "add": (alpha,)}[kind]
    return float(rdp(r, alpha, 1, kind)), float(r * mp.sqrt(sum(mp.psi(1, a) for a in variance)))


# -- compositions -----------------------------------------------------------------------------------------------------


def composed_delta(pairs: Sequence[tuple[Pair, int]], epsilon: float, kind: str = "replace") -> mp.mpf:
    """δ(ε) of a composition by the trapezoidal rule on the contour, halving the step until 15 digits stay."""
    largest = max(max(pair) for pair, _ in pairs)
    with mp.workdps(30 + 2 * int(mp.log10(largest + 10))):
        e = mp.mpf(epsilon)
        end = mp.inf if kind == "remove" else min(mp.mpf(a) / mp.mpf(r) for (r, a), _ in pairs)

        def exponent(w: mp.mpf) -> mp.mpf:
            return sum(times * log_mgf(r, a, w, kind) for (r, a), times in pairs) - w * e

        def objective(c: mp.mpf) -> mp.mpf:
            return exponent(c) - mp.log(c) - mp.log1p(c)

        # A golden-section search on ln c for the saddle point; any c gives the same value.
        low, high = mp.mpf("1e-4"), (end * mp.mpf("0.999") if end < mp.inf else mp.mpf(1e5))
        low, high = mp.log(min(low, high / 2)), mp.log(high)
        golden = (mp.sqrt(5) - 1) / 2
        for _ in range(24):
            first, second = high - golden * (high - low), low + golden * (high - low)
            if objective(mp.exp(first)) < objective(mp.exp(second)):
                high = second
            else:
                low = first
        c = mp.exp((low + high) / 2)
        step_c = c / 100
        curvature = (objective(c + step_c) - 2 * objective(c) + objective(c - step_c)) / step_c**2
        top = exponent(c)

        def f(t: mp.mpf) -> mp.mpf:
            w = mp.mpc(c, t)
            return mp.re(mp.exp(exponent(w) - top) / (w * (w + 1)))

        h = 1 / mp.sqrt(curvature)
        total, offset, previous = f(mp.mpf(0)) / 2, h, mp.mpf(0)
        for _ in range(8):
            t, small = offset, 0
            while small < 3:
                value = f(t)
                total += value
                small = small + 1 if abs(value) < mp.mpf(10) ** -22 * abs(total) else 0
                t += h if previous == 0 else 2 * h
            value = h * total / mp.pi
            if abs(value - previous) < mp.mpf(10) ** -15 * value:
                return mp.exp(top) * value
            previous = value
            h /= 2
            offset = h
        raise ArithmeticError(
            f"the reference contour did not converge: {pairs} {epsilon} {kind} {c} {value} {previous}"
        )


# -- exact integer mechanisms -----------------------------------------------------------------------------------------

Law = list[tuple[mp.mpf, mp.mpf]]
"""Probabilities (under P, under Q) of the outcomes."""


def negative_binomial_pair(r: int, alpha: int, flips: int) -> Law:
    """NB(α+r) and NB(α) by their recurrences, until what is left is below 1e-40 under both."""
    p = mp.mpf(2) ** -flips
    high, low = p ** (alpha + r), p**alpha
    law, x = [], 0
    mean = (alpha + r) / p
    while x < mean or high > mp.mpf(10) ** -(DIGITS + 5):
        law.append((high, low))
        high *= (1 - p) * (x + alpha + r) / (x + 1)
        low *= (1 - p) * (x + alpha) / (x + 1)
        x += 1
    return law


def discrete_gaussian_pair(variance: mp.mpf) -> Law:
    """Noise shifted by one against not shifted."""
    reach = int(mp.ceil(15 * mp.sqrt(variance))) + 2
    weights = [mp.exp(-(mp.mpf(x) ** 2) / (2 * variance)) for x in range(-reach - 1, reach + 1)]
    total = mp.fsum(weights)
    return [(before / total, at / total) for before, at in pairwise(weights)]


def discrete_laplace_pair(scale: mp.mpf) -> Law:
    """Noise shifted by one against not shifted: two outcomes carry all there is to know."""
    p = 1 / (1 + mp.exp(-1 / scale))
    return [(p, 1 - p), (1 - p, p)]


def flipped(law: Law) -> Law:
    """The same pair with P and Q exchanged."""
    return [(q, p) for p, q in law]


def lattice_delta(first: Law, second: Law | None, epsilon: float) -> mp.mpf:
    """Σ (P − e^ε Q)₊ over one law or a product of two, with two pointers over outcomes sorted by their loss."""
    first = sorted((pair for pair in first if pair[1] > 0), key=lambda pair: pair[0] / pair[1])
    rest = second or [(mp.mpf(1), mp.mpf(1))]
    rest = sorted((pair for pair in rest if pair[1] > 0), key=lambda pair: pair[0] / pair[1], reverse=True)
    factor = mp.exp(mp.mpf(epsilon))
    # A larger loss of the first outcome lets more outcomes of the second in, from the largest loss downwards.
    total, index, sum_p, sum_q = mp.mpf(0), 0, mp.mpf(0), mp.mpf(0)
    for p, q in first:
        while index < len(rest) and p * rest[index][0] > factor * q * rest[index][1]:
            sum_p, sum_q, index = sum_p + rest[index][0], sum_q + rest[index][1], index + 1
        total += p * sum_p - factor * q * sum_q
    return total


def lattice_rdp(laws: Sequence[Law], order: float) -> mp.mpf:
    """The Rényi divergence of a product of laws."""
    w = mp.mpf(order) - 1
    if w == 0:
        return mp.fsum(p * mp.log(p / q) for law in laws for p, q in law if p > 0)
    return mp.fsum(mp.log(mp.fsum(p * (p / q) ** w for p, q in law if q > 0)) for law in laws) / w
