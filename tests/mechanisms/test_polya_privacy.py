"""The Pólya mechanism: published values, its place below the Beta pair and the Gaussian."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import norm

from simplexdp import Budget, Dirichlet, Polya


def analytic_gaussian(epsilon: float, delta: float) -> float:
    """σ of continuous Gaussian noise with Δ = √2 (Balle & Wang 2018), from its formula."""
    shift = math.sqrt(2)

    def excess(log_sigma: float) -> float:
        s = math.exp(log_sigma) / shift
        return norm.cdf(0.5 / s - epsilon * s) - math.exp(epsilon + norm.logcdf(-0.5 / s - epsilon * s)) - delta

    return math.exp(brentq(excess, -4, 12, xtol=1e-13))


@pytest.mark.parametrize(
    ("r", "flips", "alpha", "deviation"),
    [
        (1, 1, 13, 5.10),
        (1, 2, 21, 5.29),
        (1, 3, 25, 5.35),
        (3, 1, 124, 5.249),
        (3, 2, 187, 5.263),
        (3, 3, 219, 5.273),
        (10, 1, 1387, 5.267),
        (10, 2, 2084, 5.271),
        (10, 3, 2432, 5.272),
    ],
)
def test_the_table_at_1_1e_5(r: int, flips: int, alpha: int, deviation: float) -> None:
    found = Polya.calibrate(Budget(epsilon=1, delta=1e-5), r=r, flips=flips)
    assert found == Polya(r=r, alpha=alpha, flips=flips)
    assert math.sqrt(found.variance) == pytest.approx(deviation, rel=1e-3)


def test_reference_values() -> None:
    for r, alpha, delta in (
        (1, 13, 8.49033815370758e-6),
        (3, 124, 9.47416773573759e-6),
        (10, 1387, 9.95276197666064e-6),
    ):
        assert Polya(r=r, alpha=alpha).loss().delta(1.0) == pytest.approx(delta, rel=1e-10)
    assert Polya(r=1, alpha=13).loss().rdp(2) == pytest.approx(0.0753723385478914, rel=1e-10)
    assert Polya(r=3, alpha=124).loss().rdp(5) == pytest.approx(0.179513875293234, rel=1e-10)


@pytest.mark.slow
@pytest.mark.parametrize("neighbours", ["replace-one", "add-remove"])
def test_its_curve_and_profile_lie_below_those_of_the_beta_pair_and_rise_to_them(neighbours: str) -> None:
    """10 pairs, seed 41: fewer flips lose more information, so they are more private."""
    rng = np.random.default_rng(41)
    for _ in range(10):
        r, alpha = int(rng.integers(1, 6)), int(rng.integers(3, 200))
        smooth = Dirichlet(r=r, alpha=alpha).loss(neighbours)
        coins = [Polya(r=r, alpha=alpha, flips=flips).loss(neighbours) for flips in (1, 3)]
        order, epsilon = 1 + 0.5 * alpha / r * rng.random(), smooth.epsilon(10 ** rng.uniform(-8, -2))
        assert coins[0].rdp(order) < coins[1].rdp(order) < smooth.rdp(order)
        assert coins[0].delta(epsilon) < coins[1].delta(epsilon) < smooth.delta(epsilon)


@pytest.mark.parametrize("epsilon", [0.01, 0.1, 0.5, 1.0, 2.0, 5.0, 10.0])
def test_as_good_as_the_analytic_gaussian_from_r_3_on(epsilon: float) -> None:
    """Standard deviation at an empty cell, at most 0.5 % above σ of the continuous Gaussian at δ = 1e-5."""
    for r in (3,) if epsilon < 0.1 else (3, 4, 7):
        found = Polya.calibrate(Budget(epsilon=epsilon, delta=1e-5), r=r)
        assert math.sqrt(found.variance) <= 1.005 * analytic_gaussian(epsilon, 1e-5)


def test_calibration_chooses_r_from_public_facts() -> None:
    budget = Budget(epsilon=1.0, delta=1e-5)
    few = Polya.calibrate(budget, total=100, cells=1000)
    many = Polya.calibrate(budget, total=1e5, cells=1000)
    assert few.r == 1
    assert many.r > 50
    assert many.slope < few.slope / 50
    assert Polya.calibrate(budget).r == 3
