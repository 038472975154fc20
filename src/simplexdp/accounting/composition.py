"""A bag of independent terms as one loss: its log-MGF is the sum of theirs, and its profile follows from it."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import cached_property

import numpy as np

from ..errors import NumericalError
from ..numerics.printed import as_float
from ..numerics.roots import Interval
from .conversion import best_order, rdp_to_log_delta
from .lattice import lattice_delta
from .smooth import (
    GammaGroup,
    GammaTerm,
    GaussianTerm,
    TooManyPoints,
    VectorTerm,
    contour_delta,
    gamma_pair_delta,
    gaussian_delta,
)
from .terms import ComplexArray, FloatArray, LatticeTerm, SmoothTerm, Term

Bag = tuple[tuple[Term, int], ...]

ROUNDING = 2e-11
"""Relative error of `rate` that every Rényi value is rounded up by; tests measure at most a fifth of it."""

_FEW_POINTS = 1 << 13


def merge(*bags: Bag) -> Bag:
    """All terms of the bags, equal terms counted together, in order of first appearance."""
    counts: dict[Term, int] = {}
    for bag in bags:
        for term, times in bag:
            counts[term] = counts.get(term, 0) + times
    return tuple(counts.items())


class Composition:
    """The total of a bag of terms."""

    def __init__(self, bag: Bag) -> None:
        self.bag = bag

    @cached_property
    def domain(self) -> tuple[float, float]:
        """Where the total is finite: the intersection of the terms' domains."""
        ends = [term.domain for term, _ in self.bag]
        return max((low for low, _ in ends), default=-math.inf), min((high for _, high in ends), default=math.inf)

    @cached_property
    def _gammas(self) -> GammaGroup | None:
        terms = [(term, times) for term, times in self.bag if isinstance(term, GammaTerm)]
        return GammaGroup(terms) if terms else None

    @cached_property
    def _others(self) -> Bag:
        return tuple((term, times) for term, times in self.bag if not isinstance(term, GammaTerm))

    def rate(self, w: float) -> float:
        """K(w)/w of the total; infinite outside the domain."""
        low, high = self.domain
        if not low < w < high:
            return math.inf
        return float(self.rates(np.array([w]))[0])

    @cached_property
    def largest_loss(self) -> Interval:
        """Bounds of the least upper bound of the total: exact where all terms say theirs as a fraction."""
        exact, rest = Fraction(0), 0.0
        for term, times in self.bag:
            largest: Fraction | None = getattr(term, "exact_largest_loss", None)
            if largest is not None:
                exact += times * largest
            else:  # a term that is no LatticeTerm has a density without bound, or only a Rényi curve
                rest += times * (term.largest_loss if isinstance(term, LatticeTerm) else math.inf)
        if rest == 0:
            return Interval(as_float(exact, "down"), as_float(exact, "up"))
        total = rest + float(exact)
        return Interval(total * (1 - ROUNDING), total * (1 + ROUNDING))

    def rate_bounds(self, w: float) -> Interval:
        """Bounds of K(w)/w, rounding included; at infinity that is the largest loss."""
        if not self.bag:
            return Interval(0.0, 0.0)
        if math.isinf(w):
            return self.largest_loss
        value = self.rate(w)
        return Interval(value * (1 - ROUNDING), value * (1 + ROUNDING))

    def rates(self, w: FloatArray) -> FloatArray:
        """K(w)/w on a vector of real w inside the domain."""
        with np.errstate(divide="ignore", invalid="ignore"):  # at the very end of the domain
            total = self._gammas.rates(w) if self._gammas else np.zeros_like(w)
        for term, times in self._others:
            total = total + times * np.array([_rate(term, float(x)) for x in w])
        return np.where(np.isnan(total), np.inf, total)

    def log_mgf(self, w: ComplexArray) -> ComplexArray:
        """K of the total on a vector of complex w."""
        total = self._gammas.log_mgf(w) if self._gammas else np.zeros_like(w)
        for term, times in self._others:
            assert isinstance(term, SmoothTerm | LatticeTerm)
            total = total + times * term.log_mgf(w)
        return total

    def log_envelope(self, c: float, t: FloatArray) -> FloatArray:
        """ln of a bound on |exp K(c + iτ)| for all τ ≥ t: smooth terms decrease, discrete ones are at most K(c)."""
        w = c + 1j * t.astype(np.complex128)
        total: FloatArray = np.real(self._gammas.log_mgf(w)) if self._gammas else np.zeros(t.shape)
        for term, times in self._others:
            if isinstance(term, LatticeTerm):
                total = total + times * c * term.rate(c)
            elif isinstance(term, SmoothTerm):
                total = total + times * np.real(term.log_mgf(w))
        return total

    @cached_property
    def mu_squared(self) -> float | None:
        """μ² of a Gaussian that dominates the total, rounded up; None where a term is not known to have one."""
        known = [(gaussian_part(term), times) for term, times in self.bag]
        if any(one is None for one, _ in known):
            return None
        return math.fsum(times * one for one, times in known if one is not None) * (1 + 1e-15)

    @cached_property
    def rho(self) -> float:
        """A ρ for which the total is ρ-zCDP, rounded up; infinite where none is known.

        A Gaussian has μ²/2, a step whose loss is at most ε has ε²/2 (Bun and Steinke 2016, Proposition 3.3).
        """
        found = Fraction(0)
        for term, times in self.bag:
            part = gaussian_part(term)
            doubled = Fraction(part) if part is not None else _squared(Composition(((term, 1),)).largest_loss.upper)
            if doubled is None:
                return math.inf
            found += times * doubled / 2
        return as_float(found, "up")

    @cached_property
    def _dominating(self) -> Composition | None:
        """Where a term has no profile of its own: the total with all that a Gaussian dominates as one Gaussian."""
        if not any(isinstance(term, VectorTerm) for term, _ in self.bag):
            return None
        gaussian = Composition(tuple(pair for pair in self.bag if gaussian_part(pair[0]) is not None)).mu_squared
        assert gaussian is not None
        rest = tuple(pair for pair in self.bag if gaussian_part(pair[0]) is None)
        return Composition(((GaussianTerm(gaussian), 1), *rest))

    def delta(self, epsilon: float) -> Interval:
        """Bounds of the profile; the upper one holds whatever the method that gave it."""
        if not self.bag:
            return Interval(0.0, 0.0)
        if self._dominating is not None:
            if not all(isinstance(term, SmoothTerm | LatticeTerm | VectorTerm) for term, _ in self.bag):
                return Interval(0.0, self.renyi_delta(epsilon))
            return Interval(0.0, self._dominating.delta(epsilon).upper)
        discrete = [isinstance(term, LatticeTerm) for term, _ in self.bag]
        if all(discrete):
            bounds = lattice_delta(self.bag, epsilon)  # type: ignore[arg-type]  # checked in the line above
            return Interval(max(0.0, bounds.lower), min(1.0, bounds.upper))
        if all(isinstance(term, GaussianTerm) for term, _ in self.bag):
            assert self.mu_squared is not None
            return gaussian_delta(epsilon, self.mu_squared)
        if all(d or isinstance(term, SmoothTerm) for d, (term, _) in zip(discrete, self.bag, strict=True)):
            found = self._smooth_delta(epsilon)
            if found is not None:
                return found
        return Interval(0.0, self.renyi_delta(epsilon))

    def _smooth_delta(self, epsilon: float) -> Interval | None:
        """The contour; where it needs very many nodes (a heavy tail) a single pair has a closed form instead."""
        try:
            return contour_delta(self, epsilon, _FEW_POINTS)
        except TooManyPoints:
            exact = gamma_pair_delta(self.bag, epsilon)
        if exact is not None:
            return exact
        try:
            return contour_delta(self, epsilon)
        except TooManyPoints:
            return None

    def renyi_delta(self, epsilon: float) -> float:
        """δ through the Rényi curve and its best order: an upper bound for any loss."""
        if self.domain[1] <= 0:
            return 1.0
        _, log_delta = best_order(
            lambda order: rdp_to_log_delta(order, self.rate(order - 1) * (1 + ROUNDING), epsilon),
            1 + self.domain[1],
        )
        return min(1.0, math.exp(log_delta) * (1 + 1e-12))


def _squared(value: float) -> Fraction | None:
    return Fraction(value) ** 2 if math.isfinite(value) else None


def gaussian_part(term: Term) -> float | None:
    """μ² of a Gaussian that dominates this term, None where none is known. Proof: docs/proofs/discrete-gaussian.md."""
    known: float | None = getattr(term, "mu_squared", None)
    return known


def _rate(term: Term, w: float) -> float:
    """K(w)/w, or infinity where it cannot be computed: any order and any line is valid, so that is only loose."""
    try:
        return term.rate(w)
    except NumericalError:
        return math.inf
