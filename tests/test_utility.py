"""Utility of a Dirichlet draw, and of every mechanism, against simulation."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from simplexdp import Dirichlet, Gaussian, Laplace, Polya
from simplexdp.errors import Infeasible, InvalidArgument
from simplexdp.sampling import SeededEntropy
from simplexdp.utility import (
    bias,
    exponential_mechanism_log_density,
    refute_pure_dp,
    smallest_total,
    tail_bound,
    variance,
)

HISTOGRAM = np.array([119, 74, 618, 272, 13, 187])
P = HISTOGRAM / HISTOGRAM.sum()
SIGMAS = 4.5
"""A right value fails with probability 7e-6; seeds are fixed. Controls are wrong by much more."""


def kl(q: np.ndarray) -> np.ndarray:
    return np.sum(P * np.log(P / q), axis=-1)


def within(samples: np.ndarray, expected: float) -> bool:
    return bool(abs(samples.mean() - expected) < SIGMAS * samples.std() / np.sqrt(len(samples)))


def test_bias_and_variance_against_simulation() -> None:
    """n = 200,000 draws of NumPy, seed 51; a mechanism with another r is rejected."""
    mechanism, n = Dirichlet(r=0.05, alpha=3.0), 200_000
    draws = np.random.default_rng(51).dirichlet(mechanism.r * HISTOGRAM + mechanism.alpha, n)
    for cell in range(6):
        assert within(draws[:, cell] - P[cell], bias(mechanism, HISTOGRAM)[cell])
        squares = (draws[:, cell] - draws[:, cell].mean()) ** 2
        assert within(squares, variance(mechanism, HISTOGRAM)[cell])
        wrong = Dirichlet(r=0.06, alpha=3.0)
        assert not within(squares, variance(wrong, HISTOGRAM)[cell])
    assert abs(bias(mechanism, HISTOGRAM).sum()) < 1e-14


def test_expected_kl_of_the_dirichlet_mechanism() -> None:
    """n = 200,000, seed 52."""
    mechanism = Dirichlet(r=0.05, alpha=3.0)
    losses = kl(np.random.default_rng(52).dirichlet(mechanism.r * HISTOGRAM + mechanism.alpha, 200_000))
    assert within(losses, mechanism.expected_kl(HISTOGRAM))
    assert not within(losses, Dirichlet(r=0.05, alpha=3.1).expected_kl(HISTOGRAM))


@pytest.mark.parametrize(
    ("mechanism", "wrong"),
    [
        (Gaussian(sigma=12.0), Gaussian(sigma=12.5)),
        (Laplace(scale=9.0), Laplace(scale=9.5)),
        (Polya(r=1, alpha=80), Polya(r=1, alpha=90)),
        (Polya(r=2, alpha=150, flips=2), Polya(r=2, alpha=170, flips=2)),
    ],
    ids=str,
)
def test_expected_kl_of_integer_mechanisms(mechanism: Gaussian, wrong: Gaussian) -> None:
    """n = 20,000 own draws with a seed; clipped at zero, plus half a standard deviation."""
    n, entropy = 20_000, SeededEntropy(53)
    values = mechanism.draw(np.tile(HISTOGRAM, (n, 1)), entropy)
    estimate, noise, _ = mechanism.unbiased(values, None)
    q = np.maximum(estimate, 0) + np.sqrt(noise) / 2
    losses = kl(q / q.sum(axis=1, keepdims=True))
    assert within(losses, mechanism.expected_kl(HISTOGRAM))
    assert not within(losses, wrong.expected_kl(HISTOGRAM))
    # Another constant is another estimate.
    q = np.maximum(estimate, 0) + 1.0
    assert within(kl(q / q.sum(axis=1, keepdims=True)), mechanism.expected_kl(HISTOGRAM, constant=1.0))


def test_theorem_2_holds_in_simulation() -> None:
    """n = 20,000, seed 54: the share of draws with KL above η stays below the bound."""
    rng = np.random.default_rng(54)
    for r, alpha, eta in ((1.0, 1.0, 0.3), (0.5, 2.0, 0.5), (2.0, 1.0, 0.1), (0.2, 0.5, 0.4)):
        mechanism = Dirichlet(r=r, alpha=alpha)
        bound = tail_bound(mechanism, total=HISTOGRAM.sum(), cells=6, eta=eta)
        share = np.mean(kl(rng.dirichlet(r * HISTOGRAM + alpha, 20_000)) > eta)
        assert 0 < bound < 1
        assert share <= bound


def test_theorem_2_says_nothing_where_its_condition_fails() -> None:
    mechanism = Dirichlet(r=0.01, alpha=50.0)
    assert tail_bound(mechanism, total=100, cells=6, eta=0.1) == 1.0
    small = Dirichlet(r=1.0, alpha=0.49)
    assert tail_bound(small, total=1e6, cells=6, eta=0.5) == 1.0
    with pytest.raises(Infeasible):
        smallest_total(small, cells=6, eta=0.5, probability=0.1)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.floats(0.01, 5), st.floats(0.5, 50), st.integers(2, 100), st.floats(0.05, 2), st.floats(1e-6, 0.5))
def test_the_smallest_total_is_the_smallest(r: float, alpha: float, cells: int, eta: float, probability: float) -> None:
    mechanism = Dirichlet(r=r, alpha=alpha)
    found = smallest_total(mechanism, cells=cells, eta=eta, probability=probability)
    assert tail_bound(mechanism, total=found, cells=cells, eta=eta) <= probability
    if found > 1:
        assert tail_bound(mechanism, total=found - 1, cells=cells, eta=eta) > probability


def test_the_exponential_mechanism_is_the_dirichlet_law() -> None:
    """50 points, seed 55: both the density and its ratios agree with SciPy's."""
    rng = np.random.default_rng(55)
    mechanism = Dirichlet(r=0.1, alpha=2.0)
    points = rng.dirichlet(np.full(6, 3.0), 50)
    ours = np.array([exponential_mechanism_log_density(mechanism, HISTOGRAM, y) for y in points])
    theirs = np.array([stats.dirichlet.logpdf(y, mechanism.r * HISTOGRAM + mechanism.alpha) for y in points])
    np.testing.assert_allclose(ours, theirs, rtol=1e-10)
    # Straight from the definition: exp(−rN·KL) Π y^{α−1} up to a constant.
    plain = -mechanism.r * HISTOGRAM.sum() * kl(points) + (mechanism.alpha - 1) * np.log(points).sum(axis=1)
    np.testing.assert_allclose(np.diff(plain), np.diff(theirs), rtol=1e-9)
    with pytest.raises(InvalidArgument, match="`y`"):
        exponential_mechanism_log_density(mechanism, HISTOGRAM, [0.5, 0.5])


@settings(max_examples=30, deadline=None, derandomize=True)
@given(st.floats(0.01, 10), st.floats(0.01, 1000), st.floats(0.01, 50))
def test_no_parameters_give_pure_dp(r: float, alpha: float, epsilon: float) -> None:
    found = refute_pure_dp(Dirichlet(r=r, alpha=alpha), epsilon)
    assert found.excess > 0
    assert found.threshold > 1


def test_the_refutation_is_an_event_that_breaks_pure_dp() -> None:
    """Pr_P[E] − e^ε Pr_Q[E] of the event shown is the excess."""
    mechanism, epsilon = Dirichlet(r=1.0, alpha=2.0), 1.5
    found = refute_pure_dp(mechanism, epsilon)
    t = found.threshold / (1 + found.threshold)
    p, q = stats.beta.sf(t, 3.0, 2.0), stats.beta.sf(t, 2.0, 3.0)
    assert p > np.exp(epsilon) * q
    assert p - np.exp(epsilon) * q == pytest.approx(found.excess, rel=1e-9)
