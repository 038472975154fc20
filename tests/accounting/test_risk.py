"""What an attacker can do at most, against brute force over all tests of finite pairs and against closed forms."""

import math
from collections.abc import Sequence

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import ndtr, ndtri

from simplexdp import Dirichlet, Laplace, PrivacyLoss
from simplexdp.accounting.conversion import largest_power
from simplexdp.accounting.discrete import RandomisedResponseTerm
from simplexdp.accounting.loss import to_pld
from simplexdp.accounting.smooth import GaussianTerm
from simplexdp.accounting.terms import RevealedTerm
from simplexdp.errors import InvalidArgument

RATES = (0.0, 1e-9, 0.001, 0.01, 0.1, 0.5, 0.9, 0.999, 1.0)


def best_test(p: Sequence[mp.mpf], q: Sequence[mp.mpf], rate: float) -> mp.mpf:
    """The largest true-positive rate: outcomes taken by their ratio until the false positives are used up."""
    left, power = mp.mpf(rate), mp.mpf(0)
    for one, other in sorted(zip(p, q, strict=True), key=lambda pair: -pair[0] / pair[1] if pair[1] else -mp.inf):
        share = min(mp.mpf(1), left / other) if other else mp.mpf(1)
        power, left = power + share * one, left - share * other
    return power


def profile(p: Sequence[mp.mpf], q: Sequence[mp.mpf], epsilon: float) -> float:
    return float(sum(max(mp.mpf(0), one - mp.exp(epsilon) * other) for one, other in zip(p, q, strict=True)))


def normalised(weights: Sequence[int]) -> list[mp.mpf]:
    return [mp.mpf(w) / sum(weights) for w in weights]


weights = st.lists(st.integers(0, 1000), min_size=4, max_size=4).filter(any)


@given(weights, weights, st.sampled_from(RATES))
@settings(max_examples=60)
def test_the_power_of_random_pairs_is_that_of_the_best_test(above: list[int], below: list[int], rate: float) -> None:
    with mp.workdps(40):
        p, q = normalised(above), normalised(below)
        truth = float(best_test(p, q, rate))
        found = largest_power(rate, lambda e: profile(p, q, e), lambda e: profile(q, p, e))
    assert truth - 1e-15 <= found
    assert found <= truth + 1e-7


def noise(scale: float, shift: int, reach: int = 400) -> list[mp.mpf]:
    decay = mp.exp(-1 / mp.mpf(scale))
    return [(1 - decay) / (1 + decay) * decay ** abs(x - shift) for x in range(-reach, reach + 1)]


@pytest.mark.parametrize("scale", [0.5, 2.0, 10.0])
@pytest.mark.parametrize("rate", RATES)
def test_laplace_noise_on_one_count_against_all_its_tests(scale: float, rate: float) -> None:
    loss = Laplace(scale=scale).loss("add-remove")
    with mp.workdps(40):
        truth = float(best_test(noise(scale, 1), noise(scale, 0), rate))
    assert truth * (1 - 1e-15) <= loss.power(rate) <= truth * (1 + 1e-7) + 1e-15


def test_randomised_responses_together_against_all_outcomes() -> None:
    with mp.workdps(40):
        yes = mp.exp(mp.mpf("0.5")) / (1 + mp.exp(mp.mpf("0.5")))
        p = [mp.binomial(5, k) * yes**k * (1 - yes) ** (5 - k) for k in range(6)]
        truth = {rate: float(best_test(p, p[::-1], rate)) for rate in RATES}
        advantage = profile(p, p[::-1], 0.0)
    loss = 5 * PrivacyLoss.of_term(RandomisedResponseTerm(epsilon=0.5))
    for rate, power in truth.items():
        assert power * (1 - 1e-15) <= loss.power(rate) <= power * (1 + 1e-7)
    assert loss.advantage() == pytest.approx(advantage, rel=1e-9)
    assert loss.posterior() == pytest.approx((1 + advantage) / 2, rel=1e-9)


@pytest.mark.parametrize("mu", [0.01, 0.5, 3.0])
def test_gaussian_noise_has_its_closed_form(mu: float) -> None:
    loss = PrivacyLoss.of_term(GaussianTerm(mu**2))
    for rate in RATES[1:]:
        truth = float(ndtr(mu + ndtri(rate)))
        assert truth * (1 - 1e-14) <= loss.power(rate) <= truth * (1 + 1e-8)
    assert loss.advantage() == pytest.approx(2 * ndtr(mu / 2) - 1, rel=1e-8)
    for prior in (0.1, 0.5, 0.9):
        grid = np.linspace(-12, 12, 200_001)
        right = prior * (1 - ndtr(grid - mu)) + (1 - prior) * ndtr(grid)
        assert right.max() - 1e-12 <= loss.posterior(prior) <= right.max() + 1e-7


def test_risk_grows_with_what_is_released_and_a_wrong_noise_would_be_seen() -> None:
    one = Dirichlet(r=1.0, alpha=900.0).loss()
    powers = [(n * one).power(0.01) for n in (0, 1, 4, 24)]
    assert powers[0] == pytest.approx(0.01, rel=1e-12)
    assert powers == sorted(powers)
    assert len(set(powers)) == 4
    # A loss that is thought to be half as large is below the truth: the bound tells one from the other.
    assert Laplace(scale=4.0).loss("add-remove").power(0.01) < 0.8 * Laplace(scale=2.0).loss("add-remove").power(0.01)


def test_ends_and_refusals() -> None:
    loss = Laplace(scale=2.0).loss()
    assert loss.power(1.0) == 1.0
    assert loss.power(0.0) < 1e-300
    revealed = PrivacyLoss.of_term(RevealedTerm())
    assert (revealed.advantage(), revealed.power(0.0), revealed.posterior()) == (1.0, 1.0, 1.0)
    for rate in (-0.1, 1.1, math.nan):
        with pytest.raises(InvalidArgument):
            loss.power(rate)
    for prior in (0.0, 1.0, math.nan):
        with pytest.raises(InvalidArgument):
            loss.posterior(prior)


@pytest.mark.parametrize("loss", [Laplace(scale=2.0).loss(), Dirichlet(r=1.0, alpha=100.0).loss()])
def test_riskcal_says_the_same_of_the_distribution_of_the_loss(loss: PrivacyLoss) -> None:
    analysis = pytest.importorskip("riskcal.analysis")
    pytest.importorskip("dp_accounting")
    pld = to_pld(loss, 1e-2)
    assert analysis.get_advantage_from_pld(pld) == pytest.approx(loss.advantage(), abs=1e-6)
    for rate in (0.001, 0.01, 0.1):
        assert 1 - analysis.get_beta_from_pld(pld, rate) == pytest.approx(loss.power(rate), abs=1e-6)
