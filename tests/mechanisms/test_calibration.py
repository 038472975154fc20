"""Calibration re-verified at 40 digits: the budget is never exceeded and less than 1e-6 of it is left."""

from __future__ import annotations

import math
from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest

import reference
from simplexdp import Budget, Dirichlet, Gaussian, Laplace, Polya
from simplexdp.errors import Infeasible
from simplexdp.mechanisms.dirichlet import MOST, ROOM
from simplexdp.numerics.printed import BITS, last_bit

RELATIONS = {"replace-one": ("replace",), "add-remove": ("remove", "add")}
LEFT = 1e-6


def laws(mechanism: Polya | Gaussian | Laplace, neighbours: str) -> list[list[reference.Law]]:
    """The 40-digit laws of one table, a list of factors for each direction."""
    if isinstance(mechanism, Polya):
        law = reference.negative_binomial_pair(mechanism.r, mechanism.alpha, mechanism.flips)
        back = reference.flipped(law)
        return [[law, back]] if neighbours == "replace-one" else [[law], [back]]
    if isinstance(mechanism, Gaussian):
        law = reference.discrete_gaussian_pair(mp.mpf(mechanism.variance.numerator) / mechanism.variance.denominator)
    else:
        scale = mechanism.rational_scale
        law = reference.discrete_laplace_pair(mp.mpf(scale.numerator) / scale.denominator)
    return [[law, law]] if neighbours == "replace-one" else [[law]]


def spent(mechanism: Polya | Gaussian | Laplace, neighbours: str, budget: Budget, tables: int = 1) -> mp.mpf:
    """What `tables` releases cost at 40 digits, as a share of the budget."""
    with mp.workdps(reference.DIGITS):
        if budget.order is not None:
            worst = max(reference.lattice_rdp(factors, budget.order) for factors in laws(mechanism, neighbours))
            return tables * worst / mp.mpf(budget.epsilon)
        assert tables == 1
        worst = max(
            reference.lattice_delta(factors[0], factors[1] if len(factors) > 1 else None, budget.epsilon)
            for factors in laws(mechanism, neighbours)
        )
        return worst / mp.mpf(budget.delta)


def smaller(mechanism: Gaussian) -> Gaussian:
    """The discrete Gaussian with the next smaller variance that can be drawn."""
    unit = Fraction(last_bit(float(mechanism.variance)))
    sigma = math.sqrt(mechanism.variance - unit)
    while Gaussian(sigma=sigma).variance >= mechanism.variance:
        sigma = math.nextafter(sigma, 0)
    return Gaussian(sigma=sigma)


# -- Dirichlet --------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("neighbours", RELATIONS)
def test_dirichlet_epsilon_delta(neighbours: str) -> None:
    """10 random budgets for 1 to 1000 tables, seed 31."""
    rng = np.random.default_rng(31)
    for case in range(10):
        tables = 1 if case == 0 else 1000 if case == 1 else int(10 ** rng.uniform(0, 3))
        r = 10 ** rng.uniform(-1.5, 1)
        budget = Budget(epsilon=10 ** rng.uniform(-1.5, 1), delta=10 ** rng.uniform(-12, -2))
        found = Dirichlet.calibrate(budget, tables=tables, neighbours=neighbours, r=r)
        assert found.r == r
        worst = max(
            reference.delta(r, found.alpha, budget.epsilon, kind)
            if tables == 1
            else reference.composed_delta([((r, found.alpha), tables)], budget.epsilon, kind)
            for kind in RELATIONS[neighbours]
        )
        assert budget.delta * (1 - LEFT) < worst <= budget.delta, (budget, tables, r)


@pytest.mark.slow
def test_dirichlet_renyi() -> None:
    """200 random budgets, seed 32: ε from 1e-9 to 1e4, orders from 1 to 1000, r from 1e-4 to 1e3."""
    rng, refused = np.random.default_rng(32), 0
    for case in range(200):
        neighbours = list(RELATIONS)[case % 2]
        tables, r = int(10 ** rng.uniform(0, 3)), 10 ** rng.uniform(-4, 3)
        order = 1.0 if case % 20 == 0 else 1 + 10 ** rng.uniform(-2, 3)
        budget = Budget.rdp(order=order, epsilon=10 ** rng.uniform(-9, 4))
        try:
            found = Dirichlet.calibrate(budget, tables=tables, neighbours=neighbours, r=r)
        except Infeasible:  # only where even the largest α that can be drawn is too small
            assert not (tables * Dirichlet(r=r, alpha=MOST * r).loss(neighbours)).fits(budget)
            refused += 1
            continue
        worst = tables * max(reference.rdp(r, found.alpha, order, kind) for kind in RELATIONS[neighbours])
        if worst < mp.mpf(budget.epsilon) * (1 - mp.mpf(LEFT)):
            # The budget ends next to the last finite order, where α has not enough digits to use all of it.
            less = found.alpha * (1 - 1e-13)
            assert tables * max(reference.rdp(r, less, order, kind) for kind in RELATIONS[neighbours]) > budget.epsilon
        assert worst <= budget.epsilon, (budget, tables, r)
    assert refused < 30


def test_dirichlet_chooses_r_for_the_lowest_expected_kl() -> None:
    budget = Budget(epsilon=1.0, delta=1e-5)
    chosen = Dirichlet.calibrate(budget, total=1283, cells=6)
    zipf = 1283 / np.arange(1, 7) / np.sum(1 / np.arange(1, 7))
    best = chosen.expected_kl_of_profile(zipf)
    assert chosen.loss().fits(budget)
    for factor in (0.3, 3.0):
        other = Dirichlet.calibrate(budget, r=factor * chosen.r)
        assert other.expected_kl_of_profile(zipf) > best
    near = Dirichlet.calibrate(budget, r=1.2 * chosen.r)
    assert near.expected_kl_of_profile(zipf) > best * (1 - 1e-3)


def test_algorithm_1_at_every_scale() -> None:
    """300 cases, seed 33: ε 1e-12..1e6, orders 1..1e4, sensitivities and lower bounds; checked at 40 digits."""
    rng = np.random.default_rng(33)
    for case in range(300):
        order = 1.0 if case % 10 == 0 else 1 + 10 ** rng.uniform(-3, 4)
        epsilon, linf = 10 ** rng.uniform(-12, 6), 10 ** rng.uniform(-1, 1)
        l2_squared = linf**2 * rng.uniform(1, 5)
        lower = 0.0 if case % 3 else 10 ** rng.uniform(-1, 3)
        found = Dirichlet.algorithm1(order=order, epsilon=epsilon, l2_squared=l2_squared, linf=linf, lower=lower)
        with mp.workdps(reference.DIGITS):
            r, slope = mp.mpf(found.r), (mp.mpf(order) - 1) * mp.mpf(linf)
            shape = 1 + 3 * slope * r + mp.mpf(lower * (1 - 2 * ROOM)) * r  # as it is drawn
            bound = mp.mpf(order) * r**2 * mp.mpf(l2_squared) * mp.psi(1, shape) / 2
            assert mp.mpf(epsilon) * (1 - mp.mpf(LEFT)) < bound <= mp.mpf(epsilon)
            needed = 1 + 4 * slope * r
            assert needed <= mp.mpf(found.alpha) <= needed * (1 + mp.mpf("1e-14"))


def test_algorithm_1_with_another_g() -> None:
    """Remark 1: g = 0 has the closed form r = sqrt(2ε / (λ Δ₂² ψ'(1))), ψ'(1) = π²/6."""
    for order, epsilon in ((1.0, 0.5), (5.0, 1e-6), (20.0, 30.0)):
        found = Dirichlet.algorithm1(order=order, epsilon=epsilon, g=lambda _: 0.0)
        assert found.r == pytest.approx(math.sqrt(epsilon / order * 6) / math.pi, rel=1e-10)
        assert found.alpha == pytest.approx(1 + (order - 1) * found.r, rel=1e-12)
    steep = Dirichlet.algorithm1(order=5.0, epsilon=1.0, g=lambda r: 12 * r)
    default = Dirichlet.algorithm1(order=5.0, epsilon=1.0)
    assert steep.r == pytest.approx(default.r, rel=1e-10)
    assert steep.alpha == pytest.approx(default.alpha, rel=1e-10)


def test_geumlek() -> None:
    budget = Budget.rdp(order=3.0, epsilon=0.2)
    diffused = Dirichlet.diffused(budget, alpha=2.0, tables=4)
    assert diffused.alpha == 2.0
    assert 0.2 * (1 - LEFT) < 4 * reference.rdp(diffused.r, 2.0, 3.0) <= 0.2
    assert Dirichlet.diffused(Budget.rdp(order=3.0, epsilon=50.0), alpha=20.0).r == 1.0
    concentrated = Dirichlet.concentrated(budget, alpha=1.0, tables=4)
    assert concentrated.r == 1.0
    assert 0.2 * (1 - LEFT) < 4 * reference.rdp(1.0, concentrated.alpha, 3.0) <= 0.2
    assert Dirichlet.concentrated(Budget.rdp(order=3.0, epsilon=50.0), alpha=20.0).alpha == 20.0


# -- exact integer mechanisms -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("neighbours", RELATIONS)
def test_gaussian(neighbours: str) -> None:
    """12 budgets, seed 34: Rényi for up to 1000 tables and (ε, δ) for one; the next smaller variance exceeds."""
    rng = np.random.default_rng(34)
    for case in range(12):
        if case % 2:
            tables, order = int(10 ** rng.uniform(0, 3)), 1 + 10 ** rng.uniform(-1, 1.3)
            budget = Budget.rdp(order=order, epsilon=tables * order / 10 ** rng.uniform(0, 2.5))
        else:
            tables = 1
            budget = Budget(epsilon=10 ** rng.uniform(-1, 0.7), delta=10 ** rng.uniform(-12, -2))
        found = Gaussian.calibrate(budget, tables=tables, neighbours=neighbours)
        assert 1 - LEFT < spent(found, neighbours, budget, tables) <= 1, (budget, tables, found)
        assert (tables * smaller(found).loss(neighbours)).excess(budget) > 0


@pytest.mark.parametrize("neighbours", RELATIONS)
def test_laplace(neighbours: str) -> None:
    """20 budgets, seed 35: Rényi for up to 1000 tables and (ε, δ) for one."""
    rng = np.random.default_rng(35)
    for case in range(20):
        if case % 2:
            tables = int(10 ** rng.uniform(0, 3))
            budget = Budget.rdp(order=1 + 10 ** rng.uniform(-1, 2), epsilon=10 ** rng.uniform(-4, 1))
        else:
            tables = 1
            budget = Budget(epsilon=10 ** rng.uniform(-2, 1), delta=10 ** rng.uniform(-12, -2))
        found = Laplace.calibrate(budget, tables=tables, neighbours=neighbours)
        share = spent(found, neighbours, budget, tables)
        assert share <= 1, (budget, tables, found)
        if share < 1 - LEFT:
            # Next to its largest loss the profile is steep: scales of BITS bits are too coarse to use all of it.
            less = Laplace(scale=float(found.rational_scale * (1 - Fraction(2) ** -(BITS - 1))))
            assert spent(less, neighbours, budget, tables) > 1, (budget, tables, found)


@pytest.mark.slow
@pytest.mark.parametrize("neighbours", RELATIONS)
def test_polya(neighbours: str) -> None:
    """16 budgets, seed 36: α fits and α − 1 does not, at 40 digits."""
    rng = np.random.default_rng(36)
    for case in range(16):
        r, flips = int(rng.integers(1, 5)), int(rng.integers(1, 3))
        if case % 2:
            tables, order = int(10 ** rng.uniform(0, 3)), 1 + 10 ** rng.uniform(-1, 1)
            budget = Budget.rdp(order=order, epsilon=tables * order / 10 ** rng.uniform(0.5, 1.7))
        else:
            tables = 1
            budget = Budget(epsilon=10 ** rng.uniform(-0.3, 0.7), delta=10 ** rng.uniform(-10, -2))
        found = Polya.calibrate(budget, tables=tables, neighbours=neighbours, r=r, flips=flips)
        assert spent(found, neighbours, budget, tables) <= 1, (budget, tables, found)
        if found.alpha > 1:
            less = Polya(r=r, alpha=found.alpha - 1, flips=flips)
            assert spent(less, neighbours, budget, tables) > 1, (budget, tables, found)


@pytest.mark.parametrize("tables", [3, 20, 100])
def test_integer_mechanisms_for_many_tables_by_their_own_bounds(tables: int) -> None:
    budget = Budget(epsilon=1.0, delta=1e-6)
    found = Polya.calibrate(budget, tables=tables, r=2)
    assert (tables * found.loss()).delta(1.0) <= 1e-6
    assert (tables * Polya(r=2, alpha=found.alpha - 1).loss()).bounds(epsilon=1.0).upper > 1e-6
    assert (tables * Polya(r=2, alpha=math.floor(0.999 * found.alpha) - 1).loss()).bounds(epsilon=1.0).lower > 1e-6
    for mechanism in (Gaussian, Laplace):
        noise = mechanism.calibrate(budget, tables=tables)
        bounds = (tables * noise.loss()).bounds(epsilon=1.0)
        assert 1e-6 * (1 - 1e-4) < bounds.lower <= bounds.upper <= 1e-6


def test_persons() -> None:
    budget = Budget(epsilon=2.0, delta=1e-6)
    for found in (
        Dirichlet.calibrate(budget, r=1.0, rows=3),
        Polya.calibrate(budget, r=1, rows=3),
        Gaussian.calibrate(budget, rows=3),
        Laplace.calibrate(budget, rows=3),
    ):
        assert found.loss(rows=3).fits(budget)
        assert not found.loss(rows=4).fits(budget)


def test_no_alpha_makes_a_budget_of_the_impossible() -> None:
    """Under a Rényi budget any r has an α; an α below the floor of Gohari's guarantee has no r."""
    with pytest.raises(Infeasible):
        Dirichlet.gohari(epsilon=1.0, delta=1e-12, total=100, cells=3, alpha=1e-4)
