"""The profile of a single gamma or Beta pair in closed form, at as many digits as its cancellation needs.

Used where the contour would need too many nodes (α far below one, or ε far above r). With s = 1/(1+e^{ε/r}):

    replace one   δ = I_s(α, α+r) − e^ε I_s(α+r, α)
    remove one    δ = Q(α+r, g) − e^ε Q(α, g),  g = exp((ε + lnΓ(α+r) − lnΓ(α))/r)
    add one       δ = P(α, g) − e^ε P(α+r, g),  g = exp((lnΓ(α+r) − lnΓ(α) − ε)/r)
"""

from __future__ import annotations

import mpmath as mp
from mpmath.libmp import NoConvergence

from ..numerics.roots import Interval
from .smooth import GammaTerm
from .terms import Term

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
        except NoConvergence:
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
