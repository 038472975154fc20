"""Profiles of discrete losses: reference values, enumeration, the pessimistic PLD, invariants, extremes."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lattice_twins import delta, laws
from mpmath import mp, mpf

from simplexdp.accounting.discrete import (
    DiscreteGaussianTerm,
    DiscreteLaplaceTerm,
    NegativeBinomialTerm,
    RandomisedResponseTerm,
)
from simplexdp.accounting.lattice import Bounds, lattice_delta
from simplexdp.accounting.terms import LatticeTerm
from simplexdp.errors import InvalidArgument

Bag = list[tuple[LatticeTerm, int]]


def nb(p: int, q: int, flips: int = 1) -> NegativeBinomialTerm:
    return NegativeBinomialTerm(shape_p=p, shape_q=q, flips=flips)


def polya(r: int, alpha: int, flips: int = 1, times: int = 1) -> Bag:
    """One released table under replace-one neighbours."""
    return [(nb(alpha + r, alpha, flips), times), (nb(alpha, alpha + r, flips), times)]


def gaussian(variance: Fraction | int, shift: int = 1, times: int = 1) -> tuple[LatticeTerm, int]:
    return DiscreteGaussianTerm(variance=Fraction(variance), shift=shift), times


def laplace(scale: Fraction | int, shift: int = 1, times: int = 1) -> tuple[LatticeTerm, int]:
    return DiscreteLaplaceTerm(scale=Fraction(scale), shift=shift), times


def response(epsilon: float, times: int = 1) -> tuple[LatticeTerm, int]:
    return RandomisedResponseTerm(epsilon=epsilon), times


def encloses(bounds: Bounds, exact: float, rel: float) -> bool:
    """The exact value lies inside and the upper bound is tight."""
    rounded = 1e-15 * exact  # the twin itself is rounded to a float
    return bounds.lower - rounded <= exact <= bounds.upper + rounded and bounds.upper <= exact * (1 + rel)


@pytest.mark.parametrize(
    ("r", "alpha", "expected"),
    [(1, 13, 8.49033815370758e-6), (3, 124, 9.47416773573759e-6), (10, 1387, 9.95276197666064e-6)],
)
def test_reference_values_of_the_coin_flip_mechanism(r: int, alpha: int, expected: float) -> None:
    bounds = lattice_delta(polya(r, alpha), 1.0)
    assert bounds.upper == pytest.approx(expected, rel=1e-10)
    assert bounds.lower == pytest.approx(expected, rel=1e-10)


def test_reference_renyi_divergences() -> None:
    assert sum(t.rate(1.0) for t, _ in polya(1, 13)) == pytest.approx(0.0753723385478914, rel=1e-13)
    assert sum(t.rate(4.0) for t, _ in polya(3, 124)) == pytest.approx(0.179513875293234, rel=1e-13)


@pytest.mark.parametrize(
    ("flips", "r", "alpha"),
    [(1, 1, 13), (2, 1, 21), (3, 1, 25), (1, 3, 124), (2, 3, 187), (3, 3, 219), (1, 10, 1387), (2, 10, 2084)],
)
def test_table_of_smallest_alphas(flips: int, r: int, alpha: int) -> None:
    assert lattice_delta(polya(r, alpha, flips), 1.0).upper <= 1e-5
    assert lattice_delta(polya(r, alpha - 1, flips), 1.0).lower > 1e-5


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [-0.5, 0.0, 0.3, 1.0, 4.0])
@pytest.mark.parametrize(
    ("terms", "reach"),
    [
        (polya(1, 2), 200),
        (polya(3, 7), 260),
        (polya(1, 1, 2), 300),
        ([(nb(9, 4), 1)], 0),
        ([(nb(4, 9), 1)], 0),
        ([(nb(3, 1, 2), 1), gaussian(2)], 260),
        ([gaussian(Fraction(1, 20))], 0),
        ([gaussian(3, 2, 2)], 60),
        ([laplace(Fraction(3, 2), 3), response(0.25)], 0),
    ],
    ids=repr,
)
def test_one_and_two_terms_against_enumeration(terms: Bag, reach: int, epsilon: float) -> None:
    exact = delta([t for t, times in terms for _ in range(times)], epsilon, reach)
    assert encloses(lattice_delta(terms, epsilon), exact, 1e-10)


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [0.0, 0.7, 2.0, 4.0])
@pytest.mark.parametrize(
    ("terms", "reach", "rel"),
    [
        ([gaussian(1, 1, 3)], 16, 1e-10),  # one lattice: exact
        ([laplace(2, 2, 3)], 120, 1e-10),
        ([response(0.5, 9)], 0, 1e-10),
        ([response(0.5, 3), laplace(4, 1, 2)], 200, 1e-10),
        ([gaussian(1, 1, 2), response(0.3, 3)], 18, 1e-5),  # lattices that do not fit: spread
        ([(nb(2, 1), 2), (nb(1, 2), 1)], 46, 1e-4),
    ],
    ids=repr,
)
def test_compositions_against_enumeration(terms: Bag, reach: int, rel: float, epsilon: float) -> None:
    if any(t == laplace(2, 2)[0] or t == laplace(4, 1)[0] for t, _ in terms):
        # Outputs beyond the shift carry one loss; the twin enumerates the few distinct losses instead.
        exact = _by_losses(terms, epsilon)
    else:
        exact = delta([t for t, times in terms for _ in range(times)], epsilon, reach)
    if exact < 1e-20:
        assert lattice_delta(terms, epsilon).upper < 1e-19
    else:
        assert encloses(lattice_delta(terms, epsilon), exact, rel)


def _by_losses(terms: Bag, epsilon: float) -> float:
    """The exact law of the sum as a dictionary from loss (40 digits) to probability."""
    with mp.workdps(40):
        law = {mpf(0): mpf(1)}
        for term, times in terms:
            single: dict[mpf, mpf] = {}
            for p, q in zip(*laws(term), strict=True):
                loss = mp.nint(mp.log(p / q) * mpf(10) ** 30) / mpf(10) ** 30
                single[loss] = single.get(loss, mpf(0)) + p
            for _ in range(times):
                new: dict[mpf, mpf] = {}
                for a, p in law.items():
                    for b, q in single.items():
                        new[a + b] = new.get(a + b, mpf(0)) + p * q
                law = new
        front = mpf(epsilon)
        return float(mp.fsum(p * (1 - mp.exp(front - a)) for a, p in law.items() if a > front))


def test_randomised_response_composition_is_the_binomial_sum() -> None:
    # Kairouz, Oh & Viswanath: k answers, losses (k − 2i)·ε₀.
    k, each, epsilon = 1000, 0.02, 1.5
    with mp.workdps(40):
        p = 1 / (1 + mp.exp(-mpf(each)))
        exact = float(
            mp.fsum(
                mp.binomial(k, i) * p ** (k - i) * (1 - p) ** i * (1 - mp.exp(epsilon - (k - 2 * i) * mpf(each)))
                for i in range(k + 1)
                if (k - 2 * i) * mpf(each) > epsilon
            )
        )
    assert encloses(lattice_delta([response(each, k)], epsilon), exact, 1e-9)


def test_convolution_agrees_with_the_sweep() -> None:
    # A third term of almost no loss sends the same pair through the grid.
    sweep = lattice_delta(polya(3, 124), 1.0)
    grid = lattice_delta([*polya(3, 124), response(1e-9)], 1.0)
    assert sweep.lower <= grid.upper <= sweep.upper * (1 + 3e-6)
    assert sweep.upper * 0.98 <= grid.lower <= sweep.upper


def test_finer_grids_only_lower_the_upper_bound() -> None:
    terms = polya(2, 300, times=8)
    bounds = [lattice_delta(terms, 1.0, tolerance=t) for t in (3e-6, 3e-7, 3e-8)]
    uppers, lowers = [b.upper for b in bounds], [b.lower for b in bounds]
    assert uppers[0] > uppers[1] > uppers[2] > lowers[2] > lowers[1] > lowers[0] > 0
    assert uppers[0] == pytest.approx(uppers[2], rel=1e-5)


@pytest.mark.parametrize(("r", "alpha"), [(1, 13), (3, 124), (10, 300)])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0])
def test_below_the_beta_pair_and_towards_it(r: int, alpha: int, epsilon: float) -> None:
    with mp.workdps(40):
        s = 1 / (1 + mp.exp(mpf(epsilon) / r))
        beta = float(
            mp.betainc(alpha, alpha + r, 0, s, regularized=True)
            - mp.exp(epsilon) * mp.betainc(alpha + r, alpha, 0, s, regularized=True)
        )
    profiles = [lattice_delta(polya(r, alpha, flips), epsilon).upper for flips in (1, 2, 4, 6)]
    assert sorted(profiles) == profiles
    assert profiles[-1] < beta


def _pld(terms: Bag, interval: float = 1e-5):  # type: ignore[no-untyped-def]
    """The pessimistic PLD of dp-accounting of the same pairs."""
    from dp_accounting.pld import privacy_loss_distribution as pld

    composed = pld.identity(value_discretization_interval=interval)
    for term, times in terms:
        atoms = term.atoms()
        p = {i: float(x) for i, x in enumerate(atoms.log_probabilities)}
        q = {i: float(x) for i, x in enumerate(atoms.log_probabilities - atoms.losses)}
        single = pld.from_two_probability_mass_functions(
            q,
            p,
            pessimistic_estimate=True,
            value_discretization_interval=interval,
            log_mass_truncation_bound=-50,
        )
        composed = composed.compose(single.self_compose(times))
    return composed


@pytest.mark.slow
@pytest.mark.parametrize(
    ("terms", "delta_"),
    [
        (polya(1, 13), 1e-5),
        (polya(3, 2000, times=16), 1e-6),
        (polya(2, 500, 2, times=4) + polya(1, 100, times=3), 1e-5),
        ([gaussian(28, times=2)], 1e-5),
        ([gaussian(200, times=20)], 1e-6),
        ([laplace(5, 2, 10)], 1e-5),
        ([gaussian(50, times=4), laplace(20, times=6), *polya(3, 400)], 1e-5),
    ],
    ids=repr,
)
def test_just_below_the_pessimistic_pld(terms: Bag, delta_: float) -> None:
    pld = _pld(terms)
    epsilon = pld.get_epsilon_for_delta(delta_)
    theirs = pld.get_delta_for_epsilon(epsilon)
    assert lattice_delta(terms, epsilon).upper <= theirs * (1 + 1e-9)
    # Within 0.1 % of ε: a thousandth further down ours is above.
    assert lattice_delta(terms, 0.999 * epsilon).upper > theirs * (1 - 1e-9)


def test_discrete_gaussian_of_dp_accounting() -> None:
    from dp_accounting.pld import privacy_loss_distribution as pld

    theirs = pld.from_discrete_gaussian_mechanism(4.0, value_discretization_interval=1e-4)
    twice = theirs.self_compose(2)
    for epsilon in (0.3, 1.0, 2.0):
        ours = lattice_delta([gaussian(16, times=2)], epsilon)
        assert ours.upper <= twice.get_delta_for_epsilon(epsilon)
        assert lattice_delta([gaussian(16, times=2)], 0.999 * epsilon).upper > twice.get_delta_for_epsilon(epsilon)


@pytest.mark.slow
@given(
    alpha=st.integers(1, 400),
    r=st.integers(1, 12),
    flips=st.integers(1, 2),
    times=st.integers(1, 5),
    epsilon=st.floats(0, 8),
    further=st.floats(0, 2),
)
@settings(max_examples=60, deadline=None)
def test_invariants(alpha: int, r: int, flips: int, times: int, epsilon: float, further: float) -> None:
    terms = polya(r, alpha, flips, times)
    bounds = lattice_delta(terms, epsilon)
    assert 0 <= bounds.lower <= bounds.upper <= 1
    slack = 1 + 1e-5
    assert lattice_delta(terms, epsilon + further).lower <= bounds.upper
    assert lattice_delta(polya(r, alpha, flips, times + 1), epsilon).upper * slack >= bounds.lower
    assert lattice_delta(polya(r, alpha + 1, flips, times), epsilon).lower <= bounds.upper
    assert lattice_delta(terms[::-1], epsilon).upper == pytest.approx(bounds.upper, rel=1e-9, abs=1e-250)
    # δ(−ε) = 1 − e^{−ε} + e^{−ε}·δ(ε) for a pair that is its own swap.
    mirrored = lattice_delta(terms, -epsilon)
    assert mirrored.upper >= (-math.expm1(-epsilon) + math.exp(-epsilon) * bounds.lower) * (1 - 1e-9)
    assert mirrored.lower <= (-math.expm1(-epsilon) + math.exp(-epsilon) * bounds.upper) * (1 + 1e-9)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("terms", "epsilon"),
    [
        (polya(1, 10**7), 1e-9),
        (polya(1, 10**7), 3.3e-3),
        (polya(1, 10**7, times=1000), 0.1),
        (polya(1000, 10**7), 4.0),
        (polya(300, 5), 100.0),
        (polya(40, 3, times=3), 100.0),
        (polya(3, 124), 2.9),
        (polya(3, 124000, times=1000), 2.4),
        ([gaussian(10**9, times=1000)], 1e-2),
        ([gaussian(10**6, 50)], 0.6),
        ([gaussian(Fraction(1, 20), 1, 5)], 100.0),
        ([laplace(Fraction(10**6), 1, 1000)], 3e-4),
        ([response(1e-9, 1000)], 1e-8),
        ([response(0.5, 1000)], 300.0),
    ],
    ids=repr,
)
def test_extremes_have_tight_bounds(terms: Bag, epsilon: float) -> None:
    bounds = lattice_delta(terms, epsilon)
    assert 0 < bounds.lower <= bounds.upper < bounds.lower * 1.03 + 1e-250
    # Chernoff's bound at a few tilts is above.
    for w in np.geomspace(0.1, 1e3, 5) / max(epsilon, 1e-3):
        exponent = sum(times * t.rate(w) for t, times in terms) * w - w * epsilon
        assert bounds.lower <= math.exp(min(exponent, 0.0))


def test_no_loss_beyond_the_largest() -> None:
    assert lattice_delta([response(0.25, 8)], 2.0) == (0.0, 0.0)
    assert lattice_delta([laplace(4, 3, 2)], 1.5) == (0.0, 0.0)
    assert lattice_delta([(nb(4, 6), 1)], 2 * math.log(2) * (1 + 1e-13)) == (0.0, 0.0)
    assert lattice_delta([(nb(4, 6), 1)], 2 * math.log(2)).upper < 1e-15  # ln 2 is rounded: a tie cannot be told
    just_below = lattice_delta([response(0.25, 8)], 2.0 - 1e-9)
    probability = (1 + math.exp(-0.25)) ** -8
    assert just_below.upper == pytest.approx(1e-9 * probability, rel=1e-5)


def test_underflow_is_an_upper_bound() -> None:
    bounds = lattice_delta(polya(1, 1000), 50.0)
    assert bounds.lower == 0
    assert 0 < bounds.upper < 1e-259


def test_nothing_composed() -> None:
    assert lattice_delta([], 0.5) == (0.0, 0.0)
    assert lattice_delta([response(1.0, 0)], -1.0).upper == pytest.approx(1 - math.exp(-1))


def test_bad_arguments() -> None:
    with pytest.raises(InvalidArgument, match="epsilon"):
        lattice_delta([response(1.0)], math.inf)
    with pytest.raises(InvalidArgument, match="terms"):
        lattice_delta([response(1.0, -1)], 1.0)
