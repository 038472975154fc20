"""The accounting against published values (1e-10) and 40-digit arithmetic over the whole range of parameters (1e-9)."""

from __future__ import annotations

import math

import mpmath as mp
import numpy as np
import pytest

import reference
from simplexdp import Dirichlet
from simplexdp.accounting.composition import ROUNDING, Composition
from simplexdp.accounting.smooth import GammaTerm
from simplexdp.numerics.roots import Interval

KINDS = {"replace": (True, False), "remove": (True,), "add": (False,)}

ALGORITHM_1 = [
    (5, 1, 2.44119266151864, 40.0590825842982, 0.739862425220309),
    (5, 0.1, 0.277567689896068, 5.44108303833708, 0.0763683381738635),
    (2, 0.001, 0.0181176583301037, 1.07247063332041, 0.000964263958958906),
    (20, 3, 8.55876593622776, 651.46621115331, 2.26072014393307),
    (1, 0.5, 0.551328895421792, 1, 0.364222750354333),
    (200, 10, 29.8508375052725, 23762.2666541969, 7.5757479152753),
    (5, 1e-9, 1.10276441771095e-5, 1.00017644230683, 9.99927490228819e-10),
    (5, 1e6, 2400000.04166667, 38400001.6666667, 736682.754156437),
]
PROFILES = [
    (1, 0.5, 8, 1.16422379353746e-5, 1.5931931847951e-18, 9.39303638722115e-7),
    (0.1, 0.05, 4, 7.85819612193333e-5, 3.40600684870015e-11, 1.99386115084731e-5),
    (5, 2, 10, 1.91603391577715e-7, 2.18873900855795e-42, 5.00728893889201e-9),
    (0, 1, 1, 0.5, 0.367879441171442, 0.367879441171442),
    (10, 1, 0.3, 0.0424845038114719, None, 0.0297364095631112),
]


def pair(r: float, alpha: float, kind: str) -> Composition:
    return Composition(tuple((GammaTerm(r, alpha, removing), 1) for removing in KINDS[kind]))


@pytest.mark.parametrize(("order", "epsilon", "r", "alpha", "exact"), ALGORITHM_1)
def test_algorithm_1_and_the_exact_curve_at_its_parameters(
    order: float, epsilon: float, r: float, alpha: float, exact: float
) -> None:
    found = Dirichlet.algorithm1(order=order, epsilon=epsilon)
    assert found.r == pytest.approx(r, rel=1e-10)
    assert found.alpha == pytest.approx(alpha, rel=1e-10)
    assert Dirichlet(r=r, alpha=alpha).loss().rdp(order) == pytest.approx(exact, rel=1e-10)


@pytest.mark.parametrize(("epsilon", "r", "alpha", "replace", "remove", "add"), PROFILES)
def test_profiles(epsilon: float, r: float, alpha: float, replace: float, remove: float | None, add: float) -> None:
    for kind, expected in (("replace", replace), ("remove", remove), ("add", add)):
        found = pair(r, alpha, kind).delta(epsilon)
        if expected is None:
            assert 0 <= found.lower <= found.upper < 1e-300
        else:
            assert found.upper == pytest.approx(expected, rel=1e-10)
            assert found.lower == pytest.approx(expected, rel=1e-10)
    mechanism = Dirichlet(r=r, alpha=alpha)
    assert mechanism.loss("replace-one").delta(epsilon) == pytest.approx(replace, rel=1e-10)
    assert mechanism.loss("add-remove").delta(epsilon) == pytest.approx(max(remove or 0, add), rel=1e-10)


def test_compositions() -> None:
    assert (24 * Dirichlet(r=1, alpha=900).loss()).delta(1) == pytest.approx(5.95733303796798e-7, rel=1e-10)
    mixed = 10 * Dirichlet(r=0.5, alpha=100).loss() + 5 * Dirichlet(r=2, alpha=2000).loss()
    assert mixed.delta(2) == pytest.approx(2.09420111093637e-15, rel=1e-10)


@pytest.mark.slow
def test_the_renyi_curve_over_the_whole_range() -> None:
    """2000 cases, seed 1: r 1e-6..1e6, α 1e-3..1e12, orders 1..1e4, three relations; within a fifth of the margin."""
    rng = np.random.default_rng(1)
    infinite = worst = 0.0
    for case in range(2000):
        kind = list(KINDS)[case % 3]
        r, alpha = 10 ** rng.uniform(-6, 6), 10 ** rng.uniform(-3, 12)
        order = 1.0 if rng.random() < 0.03 else 1 + 10 ** rng.uniform(-6, 4)
        if kind != "remove" and rng.random() < 0.7:
            order = 1 + min(1e4, alpha / r * rng.uniform(0, 0.9999))
        found, expected = pair(r, alpha, kind).rate(order - 1), reference.rdp(r, alpha, order, kind)
        if mp.isinf(expected):
            infinite += 1
            assert found == math.inf
        else:
            worst = max(worst, float(abs(found / expected - 1)))
    assert worst < ROUNDING / 5
    assert 50 < infinite < 600  # both answers were asked for


def test_bounds_of_the_renyi_curve_hold_up_to_its_end() -> None:
    """Orders within rounding of the last finite one: the argument α − wr cancels, the bounds must not."""
    rng = np.random.default_rng(2)
    for case in range(300):
        neighbours, kind = (("replace-one", "replace"), ("add-remove", "add"))[case % 2]
        r, alpha = 10 ** rng.uniform(-6, 3), 10 ** rng.uniform(-3, 3)
        order = 1 + alpha / r * (1 - 10 ** rng.uniform(-17, -8))
        if order > 1e12:
            continue
        expected = reference.rdp(r, alpha, order, kind)
        bounds = Dirichlet(r=r, alpha=alpha).loss(neighbours).bounds(order=order)
        assert bounds.lower <= expected <= bounds.upper


def agrees(found: Interval, expected: mp.mpf) -> bool:
    """The interval holds the reference (known to 1e-17) and is within 1e-9 of it; below 1e-300 it says zero."""
    if expected < mp.mpf(10) ** -300:
        return found.lower <= expected + mp.mpf(10) ** -323 and found.upper < 1e-299
    slack = mp.mpf(10) ** -16
    inside = found.lower <= expected * (1 + slack) and found.upper >= expected * (1 - slack)
    return bool(
        inside and found.upper <= expected * (1 + mp.mpf("1e-9")) and found.lower >= expected * (1 - mp.mpf("1e-9"))
    )


@pytest.mark.slow
def test_the_profile_over_the_whole_range() -> None:
    """111 cases, seed 3: ε on the scale of the loss three times of four, else anywhere in 1e-9..1e6."""
    rng = np.random.default_rng(3)
    sizes = []
    for case in range(111):
        kind = list(KINDS)[case % 3]
        r, alpha = 10 ** rng.uniform(-6, 6), 10 ** rng.uniform(-3, 12)
        mean, deviation = reference.loss_scale(r, alpha, kind)
        epsilon = mean + deviation * rng.uniform(-3, 12) if rng.random() < 0.75 else 10 ** rng.uniform(-9, 6)
        epsilon = float(np.clip(epsilon, 1e-9, 1e6))
        if kind == "remove" and epsilon / r > 10:
            continue  # doubly exponentially small: see the test below
        expected = reference.delta(r, alpha, epsilon, kind)
        assert agrees(pair(r, alpha, kind).delta(epsilon), expected), (r, alpha, epsilon, kind)
        sizes.append(float(expected))
    assert sum(1e-30 < size < 0.999 for size in sizes) > 45


@pytest.mark.parametrize(
    ("r", "alpha", "epsilon", "kind"),
    [
        (9.1e-6, 11.9, 1207.0, "remove"),
        (2.9e-6, 0.0237, 750400.0, "remove"),
        (1e-6, 1e12, 1.0, "replace"),
        (197.0, 3.1e9, 149086.0, "replace"),
    ],
)
def test_what_no_double_can_hold_is_almost_zero_and_not_negative(
    r: float, alpha: float, epsilon: float, kind: str
) -> None:
    found = pair(r, alpha, kind).delta(epsilon)
    assert found.lower == 0
    assert 0 < found.upper < 1e-300


def test_next_to_one_the_bounds_stay_on_their_sides() -> None:
    for r, alpha in ((1e6, 1.0), (1e4, 0.01), (1e5, 2e7)):
        found = pair(r, alpha, "replace").delta(1e-9)
        assert 1 - 1e-9 < found.lower < 1
        assert found.upper == 1


@pytest.mark.slow
def test_epsilon_at_delta_down_to_1e_30() -> None:
    """12 cases, seed 4: δ(ε(δ)) is δ, checked at 40 digits."""
    rng = np.random.default_rng(4)
    for _ in range(12):
        alpha, log_delta = 10 ** rng.uniform(-1, 8), rng.uniform(-30, -1)
        r = min(alpha, math.sqrt(alpha)) * 10 ** rng.uniform(-2, 0)
        bounds = Dirichlet(r=r, alpha=alpha).loss().bounds(delta=10**log_delta)
        if bounds.upper == 0:
            assert reference.delta(r, alpha, 0.0) <= 10**log_delta
            continue
        assert bounds.upper <= bounds.lower * (1 + 1e-9)
        assert reference.delta(r, alpha, bounds.upper) <= 10**log_delta * (1 + 1e-15)
        assert reference.delta(r, alpha, bounds.lower) >= 10**log_delta * (1 - 1e-15)


def test_infinite_and_trivial_values_say_so() -> None:
    loss = Dirichlet(r=2.0, alpha=1.0).loss()
    assert loss.largest_order == 1.5
    assert loss.rdp(1.5) == math.inf
    assert loss.rdp(1.4) < math.inf
    assert loss.rdp(math.inf) == math.inf
    assert loss.epsilon(0.999999) == 0.0
    assert (0 * loss).rdp(7) == 0
    assert (0 * loss).delta(0.0) == 0
