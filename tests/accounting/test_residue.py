"""Residues: what a step costs a Gaussian filter, against brute force, and the rule against requests that choose."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from fractions import Fraction
from functools import cache

import mpmath as mp
import numpy as np
import pytest

from simplexdp import Budget, Dirichlet, Gaussian, Laplace, PrivacyLoss
from simplexdp.accounting import conversion_floor
from simplexdp.accounting.discrete import RandomisedResponseTerm
from simplexdp.accounting.filters import (
    GaussianFilter,
    Price,
    RenyiFilter,
    converted,
    converts,
    covers,
    filter_for,
    renyi_filter,
)
from simplexdp.accounting.residue import _Line, certified, parts, residue, size_of
from simplexdp.accounting.smooth import GaussianTerm
from simplexdp.accounting.terms import RenyiOnly

BUDGET = Budget(epsilon=1.0, delta=1e-6)
FILTER = filter_for(BUDGET)
assert isinstance(FILTER, GaussianFilter)


def delta_g(e: mp.mpf, t: mp.mpf) -> mp.mpf:
    """δ of N(√t, 1) against N(0, 1), at the working precision."""
    m = mp.sqrt(t)
    return mp.ncdf(m / 2 - e / m) - mp.exp(e) * mp.ncdf(-m / 2 - e / m)


Atoms = list[tuple[mp.mpf, mp.mpf]]
"""Losses of a pair with their masses under P."""


def response(epsilon: float, times: int = 1) -> Atoms:
    """Randomised response of this ε, so many times."""
    e = mp.mpf(epsilon)
    p = 1 / (1 + mp.exp(-e))
    return [((2 * k - times) * e, mp.binomial(times, k) * p**k * (1 - p) ** (times - k)) for k in range(times + 1)]


def laplace(scale: float) -> Atoms:
    """Discrete Laplace noise of this scale on two cells that move by one in opposite directions."""
    a = mp.exp(-1 / mp.mpf(scale))
    up = 1 / (1 + a)  # of the two atoms of one cell, as all losses but ±1/b are lumped there
    return [((2 * k - 2) / mp.mpf(scale), mp.binomial(2, k) * up**k * (1 - up) ** (2 - k)) for k in range(3)]


def with_gaussian(atoms: Atoms, e: mp.mpf, rest: mp.mpf) -> mp.mpf:
    """δ of a pair with a Gaussian beside it: a mixture of shifted Gaussian profiles."""
    return mp.fsum(p * delta_g(e - loss, rest) for loss, p in atoms)


CASES: list[tuple[str, PrivacyLoss, Callable[[], Atoms]]] = [
    ("response", PrivacyLoss.of_term(RandomisedResponseTerm(epsilon=0.03)), lambda: response(0.03)),
    ("three responses", 3 * PrivacyLoss.of_term(RandomisedResponseTerm(epsilon=0.03)), lambda: response(0.03, 3)),
    ("large response", PrivacyLoss.of_term(RandomisedResponseTerm(epsilon=0.1)), lambda: response(0.1)),
    ("Laplace", Laplace(scale=50.0).loss(), lambda: laplace(50.0)),
]


@pytest.mark.parametrize(("loss", "atoms"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
@pytest.mark.parametrize("share", [1.0, 0.3])
def test_a_price_dominates_at_forty_digits_and_is_nearly_the_least(
    loss: PrivacyLoss, atoms: Callable[[], Atoms], share: float
) -> None:
    price = FILTER.price(loss, Fraction(FILTER.total) * Fraction(share))
    assert price.at is not None

    def worst(cost: float) -> mp.mpf:
        with mp.workdps(40):
            t = mp.mpf(price.at)
            ends = mp.sqrt(t) * 7
            points = [ends * i / 200 for i in range(-200, 201)]
            return max(with_gaussian(atoms(), e, t - cost) - delta_g(e, t) for e in points)

    assert worst(price.cost) <= price.slack
    assert FILTER.holds(loss, price)
    # A planted price that is too small is exposed by brute force and not certified.
    small = 0.995 * price.cost
    assert worst(small) > price.slack
    assert not FILTER.holds(loss, Price(cost=small, slack=price.slack, at=price.at))


@pytest.mark.parametrize("loss", [Dirichlet(r=1.0, alpha=900.0).loss(), Laplace(scale=50.0).loss("add-remove")])
def test_the_upper_bound_is_never_below_the_truth_and_close(loss: PrivacyLoss) -> None:
    """δ of the step with a Gaussian beside it by the exact composition, at points of the grid."""
    _, rests = parts(loss.directions)
    line, cost = _Line(rests[0], False, 0.05, 1e-10), 0.01
    upper = line.upper(cost)
    whole = PrivacyLoss.of_term(GaussianTerm(line.total - cost))
    for i in (0, 50, 200, 500):
        total = PrivacyLoss("replace-one", (rests[0],)) + whole
        exact = total.bounds(epsilon=float(line.e[i]))
        assert exact.lower <= upper[i] <= exact.upper * (1 + 1e-6) + 1e-11


def test_chords_and_tangents_bound_what_lies_between_the_points() -> None:
    """Between two points the chord of the upper bound is above the tangents' bound by no more than `gap` says."""
    line = _Line(parts(Laplace(scale=50.0).loss().directions)[1][0], False, 0.05, 1e-10)
    with mp.workdps(40):
        t = mp.mpf(0.05)
        for i in range(0, len(line.gap), 97):
            a, b = mp.exp(mp.mpf(line.e[i])), mp.exp(mp.mpf(line.e[i + 1]))
            f = [delta_g(mp.log(x), t) for x in (a, b)]
            over = max(
                f[0] + (f[1] - f[0]) * s / 20 - delta_g(mp.log(a + (b - a) * mp.mpf(s) / 20), t) for s in range(21)
            )
            assert 0 < over <= line.gap[i] < 5 * over


def test_gaussian_steps_cost_their_variance_and_nothing_else() -> None:
    loss = PrivacyLoss.of_term(GaussianTerm(0.01))
    assert FILTER.price(3 * loss) == Price(
        cost=0.03 if 3 * Fraction(0.01) <= Fraction(0.03) else math.nextafter(0.03, 1)
    )
    assert FILTER.price(Gaussian(sigma=20.0).loss()).cost == pytest.approx(2 / (400 - 1 / 12), rel=1e-6)
    both = FILTER.price(loss + Laplace(scale=80.0).loss())
    assert both.cost == pytest.approx(0.01 + FILTER.price(Laplace(scale=80.0).loss()).cost, rel=1e-9)


def test_a_price_falls_as_more_is_left() -> None:
    _, rests = parts(Laplace(scale=60.0).loss().directions)
    costs = [residue(rests, t, 1e-10) for t in (0.0008, 0.002, 0.01, 0.05)]
    assert all(a > b for a, b in itertools.pairwise(costs))
    assert certified(rests, 0.05, 1e-10, costs[1])  # what holds at less holds at more


def test_both_directions_are_certified() -> None:
    loss = Dirichlet(r=1.0, alpha=900.0).loss("add-remove")
    _, rests = parts(loss.directions)
    cost = FILTER.price(loss)
    assert cost.at is not None
    each = [_Line(bag, mirrored, cost.at, cost.slack).least() for bag in rests for mirrored in (False, True)]
    assert max(each) <= cost.cost * (1 + 1e-9)
    assert each[0] == pytest.approx(each[3], rel=1e-3)  # adding is removing the other way round
    assert abs(each[0] / each[1] - 1) > 1e-3


def test_nothing_that_came_out_as_no_number_is_certified(monkeypatch: pytest.MonkeyPatch) -> None:
    from simplexdp.accounting import residue as module

    _, rests = parts(Laplace(scale=50.0).loss().directions)
    monkeypatch.setattr(module, "_nodes", lambda *args: np.full(args[-1], np.nan, dtype=np.complex128))
    assert not certified(rests, 0.05, 1e-10, 0.04)


def test_a_renyi_curve_has_a_price_above_that_of_the_pair() -> None:
    curve = PrivacyLoss.of_term(RenyiOnly(GaussianTerm(0.001)))
    price = FILTER.price(curve)
    assert 0.001 < price.cost < 0.003
    assert FILTER.holds(curve, price)


def test_sizes_are_twice_the_mean_loss() -> None:
    _, rests = parts(Laplace(scale=50.0).loss().directions)
    assert size_of(rests) == pytest.approx(2 * Laplace(scale=50.0).loss().rdp(1), rel=1e-9)


# -- requests that choose ------------------------------------------------------------------------------------------

Step = tuple[tuple[float, float], ...]
"""A two-atom mechanism: the masses of P and of Q at each outcome."""


def rr(epsilon: float) -> Step:
    p = 1 / (1 + math.exp(-epsilon))
    return ((p, 1 - p), (1 - p, p))


def profile(atoms: list[tuple[float, float]], epsilon: float) -> float:
    return math.fsum(max(p - math.exp(epsilon) * q, 0.0) for p, q in atoms)


SIZES = (0.02, 0.05, 0.08)


def greedy(guard: GaussianFilter, epsilon: float, depth: int) -> float:
    """δ of the worst strategy found: at each outcome the step with the largest δ in the end, of all that fit."""

    @cache
    def price(size: float, left: Fraction) -> Price:
        return guard.price(PrivacyLoss.of_term(RandomisedResponseTerm(epsilon=size)), left)

    @cache
    def best(ratio: float, left: Fraction, slack: Fraction, steps: int) -> float:
        """max over strategies of the sum of (p − e^ε q)₊, by p, with ratio = e^{ε − loss so far}."""
        found = max(1 - ratio, 0.0)
        if steps == 0:
            return found
        for size in SIZES:
            at = price(size, left)
            if not at.fits or Fraction(at.cost) > left or Fraction(at.slack) > slack:
                continue
            rest = left - Fraction(at.cost), slack - Fraction(at.slack), steps - 1
            found = max(found, math.fsum(p * best(round(ratio * q / p, 12), *rest) for p, q in rr(size)))
        return found

    return best(math.exp(epsilon), Fraction(guard.total), Fraction(guard.slack), depth)


@pytest.mark.slow
def test_requests_that_depend_on_outcomes_stay_within_the_budget() -> None:
    """All strategies over three sizes of randomised response, enumerated: the worst stays within δ, and comes near."""
    guard = filter_for(Budget(epsilon=0.1, delta=1e-2))
    assert isinstance(guard, GaussianFilter)
    assert 0.5e-2 < greedy(guard, 0.1, 8) <= 1e-2


EPSILON, DELTA = 3.0, 1e-6
RARE, SHOWN = 1e-4, 0.25
"""The first step: an outcome of this probability has this loss."""


def together(chosen: tuple[float, float]) -> float:
    """δ of a first step and a second one that uses up what one order has left: this order by the first outcome."""
    first = ((RARE, RARE * math.exp(-SHOWN)), (1 - RARE, 1 - RARE * math.exp(-SHOWN)))
    atoms: list[tuple[float, float]] = []
    for (p, q), order in zip(first, chosen, strict=True):
        w = order - 1
        used = math.log(math.fsum(a * (a / b) ** w for a, b in first)) / w
        left = EPSILON - conversion_floor(order, DELTA) - used
        assert left > 0
        # Of all losses this one makes the most of a limit: the conversion to (ε, δ) is an equality there.
        second = two_atoms(order, left, EPSILON - math.log(p / q) + math.log1p(1 / w))
        atoms += [(p * a, q * b) for a, b in second]
    return profile(atoms, EPSILON)


def two_atoms(order: float, limit: float, loss: float) -> Step:
    """The two-atom pair with this loss at its first atom, as likely as this Rényi divergence at this order allows."""
    w = order - 1

    def divergence(p: float) -> float:
        q = p * math.exp(-loss)
        return math.log(p * math.exp(w * loss) + (1 - p) ** order / (1 - q) ** w) / w

    low, high = 0.0, 1.0
    for _ in range(200):
        p = 0.5 * (low + high)
        low, high = (p, high) if divergence(p) <= limit else (low, p)
    return ((low, low * math.exp(-loss)), (1 - low, 1 - low * math.exp(-loss)))


def test_some_order_still_fits_is_no_valid_rule() -> None:
    """Whatever the first step shows, the second one keeps the limit of some order: δ is twice what was promised."""
    assert together((81.0, 8.0)) == pytest.approx(2e-6, rel=1e-3)
    for order in (81.0, 8.0):  # one order, fixed in advance, does hold
        assert 0.99 * DELTA < together((order, order)) <= DELTA


# -- an old ledger -------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_what_an_old_ledger_is_worth() -> None:
    old = renyi_filter(1.0, 1e-6)
    assert isinstance(old, RenyiFilter)
    for share, worth in ((Fraction(0), 1.14), (Fraction(9, 10), 1.67)):
        spent = Fraction(old.total) * share
        total = converted(BUDGET, old.order, spent, 1e-8)
        allowed = 2 * float(Fraction(old.total) - spent) / old.order
        assert total / allowed == pytest.approx(worth, abs=0.01)
        assert converts(BUDGET, old.order, spent, 1e-8, total)
        assert not converts(BUDGET, old.order, spent, 1e-8, total * (1 + 1e-6))
        with mp.workdps(40):  # the condition itself, on a grid
            w = mp.mpf(old.order) - 1
            for i in range(-40, 200):
                e = mp.mpf(i) / 100
                bound = (mp.mpf(1e-6) - mp.mpf(1e-8)) * mp.exp(w * (1 - mp.mpf(spent.numerator) / spent.denominator))
                assert mp.exp(w * e) * delta_g(e, mp.mpf(total)) <= bound
    assert converted(BUDGET, old.order, Fraction(old.total), 1e-8) == 0


def test_a_filter_that_admits_too_much_is_seen() -> None:
    assert covers(FILTER, BUDGET)
    assert not covers(GaussianFilter(total=FILTER.total * 1.001, slack=FILTER.slack), BUDGET)
    assert not covers(GaussianFilter(total=FILTER.total, slack=2 * FILTER.slack), BUDGET)
    assert not covers(RenyiFilter(order=18.0, total=0.6), BUDGET)
