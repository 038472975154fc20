"""From Rényi to (ε, δ) with its floor, and Gohari's guarantee computed stably."""

from __future__ import annotations

import math

import mpmath as mp
import numpy as np
import pytest

from simplexdp import Dirichlet
from simplexdp.accounting import conversion_floor, gohari_delta, gohari_guarantee, rdp_for_epsilon, rdp_to_epsilon
from simplexdp.accounting.conversion import best_order, rdp_to_log_delta
from simplexdp.accounting.paper import gohari_epsilon
from simplexdp.errors import Infeasible, InvalidArgument, SimplexDPError


@pytest.mark.parametrize(("order", "floor"), [(2, 10.1), (20, 0.397), (200, 0.026)])
def test_floors_and_what_lies_below_them(order: float, floor: float) -> None:
    found = conversion_floor(order, 1e-5)
    assert found == pytest.approx(floor, rel=0.02)
    with pytest.raises(Infeasible) as error:
        rdp_for_epsilon(order, 0.99 * found, 1e-5)
    assert error.value.floor == found
    assert isinstance(error.value, SimplexDPError)
    spend = rdp_for_epsilon(order, 1.01 * found, 1e-5)
    assert rdp_to_epsilon(order, spend, 1e-5) == pytest.approx(1.01 * found, rel=1e-12)
    assert rdp_to_epsilon(order, 0.0, 1e-5) == found


def test_conversion_inverts_and_knows_its_limits() -> None:
    rng = np.random.default_rng(21)
    for _ in range(200):
        order, rdp, delta = 1 + 10 ** rng.uniform(-2, 3), 10 ** rng.uniform(-4, 2), 10 ** rng.uniform(-30, -1)
        epsilon = rdp_to_epsilon(order, rdp, delta)
        if epsilon > 0:
            assert rdp_to_log_delta(order, rdp, epsilon) == pytest.approx(math.log(delta), rel=1e-9)
    assert conversion_floor(1, 0.1) == math.inf
    assert rdp_to_log_delta(1, 0.1, 3.0) == 0.0
    assert rdp_to_log_delta(3, math.inf, 3.0) == 0.0


def test_orders_that_are_not_feasible_do_not_disturb_the_search() -> None:
    """Everything above some order is ∞, and the best one is just there; warnings are errors here."""
    for last in (1.5, 3.3, 20.0):
        order, found = best_order(lambda order, last=last: math.inf if order > last else 1 / order, 1e6)  # type: ignore[misc]
        assert order == pytest.approx(last, rel=1e-3)
        assert found == 1 / order


def test_the_best_order_beats_a_grid_and_the_conversion_is_above_the_exact_epsilon() -> None:
    loss = Dirichlet(r=0.5, alpha=60.0).loss()
    order, found = best_order(lambda order: rdp_to_epsilon(order, loss.rdp(order), 1e-6), loss.largest_order)
    grid = 1 + np.exp(np.linspace(-5, math.log(loss.largest_order - 1) - 1e-9, 300))
    assert found <= min(rdp_to_epsilon(x, loss.rdp(x), 1e-6) for x in grid) + 1e-9
    assert 1 < order < loss.largest_order
    assert found > loss.epsilon(1e-6)


# -- Gohari et al. 2021 -----------------------------------------------------------------------------------------------

R, ALPHA, TOTAL, CELLS = 0.97, 4.88, 147, 6  # k = rN + dα = 171.87


@pytest.mark.parametrize(("gamma", "delta"), [(2e-3, 7.782e-5), (1e-3, 3.031e-6), (1e-4, 4.52e-11), (1e-6, 7.97e-21)])
def test_the_table_that_the_paper_could_not_compute(gamma: float, delta: float) -> None:
    found = gohari_delta(gamma, concentration=171.87, alpha=ALPHA, cells=CELLS)
    assert found == pytest.approx(delta, rel=1e-3)


def test_gohari_against_the_exact_guarantee() -> None:
    assert pytest.approx(171.87) == R * TOTAL + CELLS * ALPHA
    assert gohari_guarantee(r=R, alpha=ALPHA, total=TOTAL, cells=CELLS, delta=1e-5) == pytest.approx(9.76, abs=0.006)
    assert Dirichlet(r=R, alpha=ALPHA).loss().epsilon(1e-5) == pytest.approx(2.92, abs=0.006)


def test_gohari_delta_against_a_double_integral() -> None:
    """Pr[Y_1 < γ or Y_2 < γ] = 1 − ∫∫_{y ≥ γ} of the density at 20 digits; parameters that make it large."""
    a, k, gamma = 1.5, 12.0, 0.05
    found = gohari_delta(gamma, concentration=k, alpha=a, cells=4)
    with mp.workdps(20):
        c = mp.mpf(k) - 2 * a
        front = mp.gamma(k) / (mp.gamma(a) ** 2 * mp.gamma(c))

        def inner(y: mp.mpf) -> mp.mpf:
            # ∫_γ^{1−y} z^{a−1} (1−y−z)^{c−1} dz
            return mp.quad(lambda z: z ** (a - 1) * (1 - y - z) ** (c - 1), [gamma, 1 - y])

        kept = mp.quad(lambda y: y ** (a - 1) * inner(y), [gamma, 1 - gamma], maxdegree=4)
        expected = float(1 - front * kept)
    assert found == pytest.approx(expected, rel=1e-8)


def test_gohari_epsilon_is_its_formula() -> None:
    for r, alpha, total, gamma in ((0.97, 4.88, 147, 1.287e-3), (0.01, 0.5, 1e6, 0.1), (3.0, 900.0, 1e5, 1e-6)):
        with mp.workdps(40):
            r_, a, n, g = map(mp.mpf, (r, alpha, total, gamma))
            expected = mp.log(mp.beta(a, r_ * n + a) / mp.beta(a + r_, r_ * n + a - r_)) + r_ * mp.log((1 - g) / g)
        assert gohari_epsilon(gamma, r=r, alpha=alpha, total=total) == pytest.approx(float(expected), rel=1e-9)


def test_gohari_calibration_uses_its_budget() -> None:
    found = Dirichlet.gohari(epsilon=5.0, delta=1e-5, total=1283, cells=6, alpha=4.0)
    spent = gohari_guarantee(r=found.r, alpha=4.0, total=1283, cells=6, delta=1e-5)
    assert 5.0 * (1 - 1e-6) < spent <= 5.0
    with pytest.raises(InvalidArgument, match="gamma"):
        gohari_delta(0.6, concentration=10, alpha=1, cells=3)
