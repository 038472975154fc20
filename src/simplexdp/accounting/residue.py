"""The residue of a step: how much of a Gaussian budget it uses, with a proof in numbers.

With G(t) for N(√t, 1) against N(0, 1), a step that (P, Q) dominates costs ρ where t is left if (P, Q) ⊗ G(t − ρ) ≼ G(t)
up to τ:

    δ_{P ⊗ G(t−ρ)}(e) ≤ δ_{G(t)}(e) + τ   for all real e, that is for e ≥ 0 and both (P, Q) and (Q, P).

Both profiles are convex in e^e: between the points of a grid chords bound the first from above, at the points a contour
integral that errs upwards does, and tangents bound the second from below. Beyond the grid the first is below τ.

Proof: docs/proofs/filter.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import TypeGuard

import numpy as np

from ..errors import NumericalError
from ..lazy import special
from ..numerics.printed import as_float
from .composition import ROUNDING, Bag, Composition, gaussian_part
from .discrete import (
    BalancedLaplaceTerm,
    DiscreteGaussianTerm,
    DiscreteLaplaceTerm,
    NegativeBinomialTerm,
    RandomisedResponseTerm,
)
from .smooth import GammaTerm, GaussianTerm
from .terms import ComplexArray, FloatArray, RenyiOnly, Term

_SPACING = 0.03
"""Points of the grid, in standard deviations of the step's loss: chords and tangents then cost 0.05 % of ρ."""
LAST = 2.0**-10
"""The least share of t that stays in the Gaussian beside a step, which makes its contour integral short."""
SMALLEST = 1e-12
"""No step costs less: below it rounding would decide."""
_MOST_POINTS, _MOST_NODES = 1 << 17, 1 << 15
_ROUNDING, _PHASE, _NORMAL = 2e-12, 1e-14, 1e-13
"""Relative errors of a node of the contour, of its phase by unit of angle, and of the normal distribution function."""
_ANOTHER = 1e-6
"""Added to a price, so that another machine with other rounding certifies it too."""
_TOLERANCE = 1e-4
"""Relative width to which a price is searched."""
_OWN_MIRRORS = (DiscreteGaussianTerm, DiscreteLaplaceTerm, RandomisedResponseTerm, BalancedLaplaceTerm)


@lru_cache(maxsize=4096)
def parts(directions: tuple[Bag, ...]) -> tuple[float, tuple[Bag, ...]]:
    """The μ² of the Gaussian terms, rounded up, and the bags of the others, one for each direction."""
    totals, rests = [], []
    for bag in directions:
        parts = [(gaussian_part(term), term, times) for term, times in bag]
        totals.append(sum((Fraction(part) * times for part, _, times in parts if part is not None), Fraction(0)))
        rests.append(tuple((term, times) for part, term, times in parts if part is None))
    gammas = [tuple((t.curve, times) for t, times in rest if _is_gamma(t)) for rest in rests]
    for i, curve in enumerate(gammas):
        # Tables are drawn side by side: their curves add up, and those of the other direction bound (Q, P).
        pairs = ((RenyiPair(curve, gammas[-1 - i]), 1),) if curve else ()
        rests[i] = (*((_alone(t), times) for t, times in rests[i] if not _is_gamma(t)), *pairs)
    return as_float(max(totals), "up"), tuple(rests)


def _is_gamma(term: Term) -> TypeGuard[RenyiOnly]:
    return isinstance(term, RenyiOnly) and isinstance(term.curve, GammaTerm)


def _alone(term: Term) -> Term:
    """A step with the curve of a Gaussian, which holds for both orders of the neighbours, as a pair of its own."""
    if isinstance(term, RenyiOnly) and isinstance(term.curve, GaussianTerm):
        return RenyiPair(((term.curve, 1),), ((term.curve, 1),))
    return term


@dataclass(frozen=True)
class RenyiPair:
    """What is known by Rényi curves only, that of (P, Q) and that of (Q, P)."""

    curve: Bag
    back: Bag

    @property
    def domain(self) -> tuple[float, float]:
        """That of both curves."""
        return -1 - Composition(self.back).domain[1], Composition(self.curve).domain[1]

    def rate(self, w: float) -> float:
        """K(w)/w of the curve."""
        return Composition(self.curve).rate(w)


@dataclass(frozen=True, eq=False)
class _Points:
    """A pair with finitely many losses and the masses of P at infinity and of Q at minus infinity."""

    losses: FloatArray
    log_masses: FloatArray
    beyond: float
    below: float
    domain: tuple[float, float] = (-math.inf, math.inf)

    def rate(self, w: float) -> float:
        """K(w)/w, for w other than 0."""
        return float(self.log_mgf(np.array([complex(w)]))[0].real) / w

    def log_mgf(self, w: ComplexArray) -> ComplexArray:
        """K(w) = ln Σ p e^{wℓ} over the finite losses."""
        logs = self.log_masses + w[:, None] * self.losses
        top = logs.real.max(axis=1)
        found: ComplexArray = top + np.log(np.exp(logs - top[:, None]).sum(axis=1))
        return found


@lru_cache(maxsize=256)
def _points(pair: RenyiPair, slack: float) -> _Points:
    """A pair that dominates all with these curves, with at most `slack` at infinity on each side.

    δ(e) ≤ κ(w) e^{K(w) − we} for every w, and a convex function of e^e that is below some points is below their convex
    hull.
    """
    bounds, ends = zip(*(_chernoff(side, slack) for side in (pair.curve, pair.back)), strict=True)
    end = max(ends)
    e = np.linspace(0.0, end, 257)
    ahead, behind = (np.minimum(1.0, bound(e)) for bound in bounds)
    at_one = min(ahead[0], behind[0])
    x = np.concatenate([[0.0], np.exp(-e[:0:-1]), np.exp(e)])
    left = 1 - np.exp(-e[:0:-1]) + np.exp(-e[:0:-1]) * behind[:0:-1]
    y = np.concatenate([[1.0], left, [at_one], ahead[1:]])
    kept: list[int] = []
    for i in range(len(x)):
        while len(kept) > 1 and (y[i] - y[kept[-2]]) * (x[kept[-1]] - x[kept[-2]]) <= (y[kept[-1]] - y[kept[-2]]) * (
            x[i] - x[kept[-2]]
        ):
            kept.pop()
        kept.append(i)
    x, y = x[kept], y[kept]
    slopes = np.append(np.diff(y) / np.diff(x), 0.0)
    masses = np.maximum(np.diff(slopes), 0.0)  # of Q, at each point but the first
    inside = masses > 0
    losses = np.log(x[1:][inside])
    return _Points(losses, np.log(masses[inside]) + losses, float(y[-1]), max(0.0, 1 + float(slopes[0])))


def _chernoff(side: Bag, slack: float) -> tuple[Callable[[FloatArray], FloatArray], float]:
    """A bound of the profile, and where it falls below the slack."""
    whole = Composition(side)
    root = math.sqrt(max(2 * whole.rate(0.0), SMALLEST))
    top = min(60 / root, 0.999 * whole.domain[1])
    w = top * np.exp2(-np.arange(0, 12, 0.125))
    rates = np.array([whole.rate(float(v)) for v in w]) * (1 + ROUNDING)
    logs = w * rates + w * np.log(w) - (1 + w) * np.log1p(w)
    end = float(np.min((logs - math.log(slack)) / w))
    if not math.isfinite(end):
        raise NumericalError("The loss has no finite moment")
    return lambda e: np.exp((logs - np.outer(e, w)).min(axis=1)) * (1 + 1e-9), max(end, root)


def _mirror(bag: Bag) -> dict[Term, int] | None:
    """The bag of (Q, P), where that is known: integer noise and randomised response are their own mirrors."""
    found: dict[Term, int] = {}
    for term, times in bag:
        if isinstance(term, RenyiPair):
            other: Term = RenyiPair(term.back, term.curve)
        elif isinstance(term, GammaTerm):
            other = replace(term, removing=not term.removing)
        elif isinstance(term, NegativeBinomialTerm):
            other = replace(term, shape_p=term.shape_q, shape_q=term.shape_p)
        elif isinstance(
            term, DiscreteGaussianTerm | DiscreteLaplaceTerm | RandomisedResponseTerm | BalancedLaplaceTerm
        ):
            other = term
        else:
            return None
        found[other] = found.get(other, 0) + times
    return found


def _sides(rests: tuple[Bag, ...]) -> Iterator[tuple[Bag, bool]]:
    """All bags to certify: each direction, and its mirror unless that is one of the directions."""
    known = [dict(bag) for bag in rests]
    for bag in rests:
        if bag:
            yield bag, False
            if _mirror(bag) not in known:
                yield bag, True


@lru_cache(maxsize=4096)
def size_of(rests: tuple[Bag, ...]) -> float:
    """About the variance of the loss, twice its mean: what a small step costs."""
    return max(SMALLEST, *(2 * Composition(bag).rate(0.0) if bag else 0.0 for bag in rests))


def certified(rests: tuple[Bag, ...], total: float, slack: float, cost: float) -> bool:
    """Whether (P, Q) ⊗ G(total − cost) ≼ G(total) up to the slack is proved, in all directions."""
    try:
        return all(_Line(bag, mirrored, total, slack).excess(cost) <= 0 for bag, mirrored in _sides(rests))
    except NumericalError:
        return False


@lru_cache(maxsize=4096)
def residue(rests: tuple[Bag, ...], total: float, slack: float) -> float:
    """The least cost found that is certified, to `_TOLERANCE`; infinite where none is."""
    try:
        found = max(_Line(bag, mirrored, total, slack).least() for bag, mirrored in _sides(rests))
        return found * (1 + _ANOTHER)
    except NumericalError:
        return math.inf


@lru_cache(maxsize=256)
def _nodes(bag: Bag, mirrored: bool, c: float, step: float, count: int) -> ComplexArray:
    """K on the first nodes of a vertical line."""
    w = (c + 1j * step * np.arange(count, dtype=np.float64)).astype(np.complex128)
    values = Composition(bag).log_mgf(-1 - w if mirrored else w)
    values.setflags(write=False)
    return values


@lru_cache(maxsize=256)
def _moments(bag: Bag, mirrored: bool, powers: tuple[float, ...]) -> FloatArray:
    """K at real powers, roughly: it decides how far the grid goes, and what is beyond is checked."""
    w = np.array(powers, dtype=np.complex128)
    with np.errstate(all="ignore"):  # what overflows is left out
        return np.real(Composition(bag).log_mgf(-1 - w if mirrored else w))


class _Line:
    """One direction of a step at one t: the contour of P ⊗ G(t − ρ) for any ρ, and the profile of G(t), on one grid.

    Proof: docs/proofs/filter.md.
    """

    def __init__(self, bag: Bag, mirrored: bool, total: float, slack: float) -> None:
        self.bag, self.mirrored, self.total, self.slack = bag, mirrored, total, slack
        self.size = max(SMALLEST, 2 * Composition(bag).rate(0.0))
        if not math.isfinite(self.size):
            raise NumericalError("The loss has no finite mean")
        share = slack / (8 * sum(times for _, times in bag))
        points = [(_points(term, share), times) for term, times in bag if isinstance(term, RenyiPair)]
        self.bag = (*((t, times) for t, times in bag if not isinstance(t, RenyiPair)), *points)
        self.slack -= sum(times * (p.below if mirrored else p.beyond) for p, times in points) * (1 + 1e-9)
        if not self.slack > 0 or not all(hasattr(term, "log_mgf") for term, _ in self.bag):
            raise NumericalError("The loss has no residue")
        self.whole = Composition(self.bag)
        low, high = self.whole.domain
        self.end = -1 - low if mirrored else high
        if not self.end > 0:
            raise NumericalError("The loss has no finite moment")
        self._grid()
        self._target()

    def _grid(self) -> None:
        """The points e, from 0 to where Chernoff's bound of P ⊗ G is below half of the slack."""
        root = math.sqrt(self.total)
        # The line is the same for all t of a factor of two, so that they share the values of K.
        self.c = min(3 * 2.0 ** -math.ceil(math.log2(root)), 0.5 * self.end)
        self.step = 2 * math.pi / max(14 * 2.0 ** math.ceil(math.log2(root)), 36 / self.c)
        powers = min(10 * self.c, 0.95 * self.end) * 1.5 ** -np.arange(12.0)
        moments = _moments(self.bag, self.mirrored, tuple(powers.tolist()))
        kappa = powers * np.log(powers) - (1 + powers) * np.log1p(powers)
        bounds = (moments + 0.5 * self.total * powers * (powers + 1) + kappa + math.log(2 / self.slack)) / powers
        reach = float(np.min(bounds, initial=math.inf, where=np.isfinite(bounds)))
        if not math.isfinite(reach):
            raise NumericalError("The loss has no finite moment")
        reach = max(reach, root)
        points = min(math.ceil(reach / (_SPACING * math.sqrt(self.size))), _MOST_POINTS)
        points = max(points, 64)
        self.h = reach / points
        self.rows = math.isqrt(points) + 1
        self.columns = points // self.rows + 1
        self.e: FloatArray = self.h * np.arange(self.rows * self.columns, dtype=np.float64)
        if self.e[-1] + self.c * self.e[-1] > 600:
            raise NumericalError("The loss is too large for a residue")

    def _target(self) -> None:
        """What the upper bound of P ⊗ G may be at each point, and how far a chord rises above tangents between two."""
        root, e = math.sqrt(self.total), self.e
        upper, lower = special.ndtr(root / 2 - e / root), special.ndtr(-root / 2 - e / root)
        profile = upper * (1 - _NORMAL) - np.exp(e) * lower * (1 + _NORMAL)
        # On [x, x + d], x = e^e, the chord of a convex f is above the larger of the tangents at the ends by
        # d (f'(x + d) − f'(x))/4 at most.
        slopes = lower[:-1] * (1 + _NORMAL) - lower[1:] * (1 - _NORMAL)
        self.gap: FloatArray = np.exp(e[:-1]) * math.expm1(self.h) * slopes * (0.25 * (1 + 1e-9))
        self.allowed: FloatArray = np.maximum(profile, 0.0) + self.slack
        self.rise: FloatArray = np.maximum(
            np.exp(-((root / 2 - e / root) ** 2) / 2) / (2 * root * math.sqrt(2 * math.pi)), 1e-300
        )

    def upper(self, cost: float) -> FloatArray:
        """An upper bound of δ_{P ⊗ G(t − cost)} at each point.

        The trapezoidal rule on a vertical line overestimates (docs/proofs/composition.md); the nodes left out are
        bounded by the Gaussian factor, and rounding is added.
        """
        rest = math.nextafter(self.total - cost, math.inf)
        if not rest > 0:
            raise NumericalError("Nothing is left beside the step")
        count = math.ceil(math.sqrt(80 / rest) / self.step) + 2
        if count > _MOST_NODES:
            raise NumericalError("The contour needs too many nodes")
        heights = self.step * np.arange(count, dtype=np.float64)
        w = self.c + 1j * heights
        nodes = _nodes(self.bag, self.mirrored, self.c, self.step, 1 << (count - 1).bit_length())[:count]
        logs = nodes + 0.5 * rest * w * (w + 1)
        top = float(logs[0].real)
        if not top < 600:
            raise NumericalError("The loss is too large for a residue")
        values = np.exp(logs - top) / (w * (w + 1))
        values[1:] *= 2
        coarse = self.h * self.columns * np.arange(self.rows)
        fine = self.h * np.arange(self.columns)
        sums = ((np.exp(-np.outer(coarse, w)) * values) @ np.exp(-np.outer(w, fine))).real.ravel()
        front = self.step / (2 * math.pi) * math.exp(top)
        last = float(heights[-1])
        left_out = math.exp(top - 0.5 * rest * last**2) / (math.pi * last)
        angle = last * float(self.e[-1]) + self.c * float(self.e[-1]) + abs(top) + rest * last**2
        rounding = (_ROUNDING + _PHASE * angle) * front * float(np.abs(values).sum())
        bound: FloatArray = sums * front + (left_out + rounding) * np.exp(-self.c * self.e)
        if not np.isfinite(bound).all():  # a comparison with nan would pass
            raise NumericalError("The profile came out as no number")
        return bound

    def excess(self, cost: float) -> float:
        """Zero or less only if the step is certified at this cost."""
        over = self.upper(cost) - self.allowed
        tail = over[-1] + self.allowed[-1] - self.slack  # beyond the last point the profile falls
        return max(float((np.maximum(over[:-1], over[1:]) + self.gap).max()), float(tail))

    def needed(self, cost: float) -> float:
        """About how much more the step has to cost, by Newton's step at each point; zero or less if it is certified."""
        over = self.upper(cost) - self.allowed
        tail = float(over[-1] + self.allowed[-1] - self.slack)
        between = np.maximum(over[:-1], over[1:]) + self.gap
        worst = max(float(between.max()), tail)
        steps = float((between / self.rise[:-1]).max())
        if worst > 0:
            return max(steps, 1e-6 * cost)
        return min(steps, 0.0)

    def least(self) -> float:
        """The least certified cost, by Newton's method with a bisection to fall back on."""
        top = self.total * (1 - LAST)
        if self.size > top:
            return math.inf
        low, high, cost = 0.0, math.inf, min(self.size * 1.002, top)
        for _ in range(60):
            more = self.needed(cost)
            if more > 0:
                if cost >= top:
                    return math.inf
                low = cost
                cost = min(cost + 1.05 * more + 0.1 * _TOLERANCE * cost, top)
                if cost >= high:
                    cost = 0.5 * (low + high)
            else:
                high = cost
                if -more <= _TOLERANCE * cost:
                    return high
                cost = max(cost + 0.98 * more, 0.5 * (low + high) if low else 0.5 * cost)
            if math.isfinite(high) and high - low <= _TOLERANCE * high:
                break
        return high
