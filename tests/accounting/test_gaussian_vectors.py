"""Discrete Gaussian vectors are exactly Gaussian-DP: each step of the proof, the claim, and what is built on it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from itertools import pairwise

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simplexdp import Dirichlet, Gaussian, Laplace, Polya, PrivacyLoss
from simplexdp.accounting.smooth import GaussianTerm, gaussian_delta, gaussian_price, vector_term
from simplexdp.accounting.terms import FloatArray, RenyiOnly
from simplexdp.errors import InvalidArgument
from simplexdp.mechanisms.sums import GaussianTables, NoisySum

SIGMAS = (1.0, 1.2, 2.0, 5.0, 10.0, 50.0)
DIGITS = 40


def price(variance: float, *, wrong: bool = False) -> mp.mpf:
    """f(1/σ²) at the working precision; `wrong` leaves out what the integers cost."""
    x = 1 / mp.mpf(variance)
    return x if wrong else 6 * (1 - mp.sqrt(1 - x / 3))


def normal_delta(epsilon: mp.mpf, mu: mp.mpf) -> mp.mpf:
    return mp.ncdf(mu / 2 - epsilon / mu) - mp.exp(epsilon) * mp.ncdf(-mu / 2 - epsilon / mu)


# -- the theorem -----------------------------------------------------------------------------------------------------


def widths(sigma: float, most: int) -> list[mp.mpf]:
    """w_0, …, w_most: the steps of the normal quantiles of the discrete law, by Newton's method on ln Q̄."""
    variance = mp.mpf(sigma) ** 2
    reach = math.ceil(16 * sigma) + most
    weights = [mp.exp(-(mp.mpf(k) ** 2) / (2 * variance)) for k in range(reach)]
    whole = 2 * mp.fsum(weights) - 1
    tails = [mp.mpf(0)]
    for weight in reversed(weights):
        tails.append(tails[-1] + weight)
    tails = [tail / whole for tail in reversed(tails)]  # tails[k] = Pr[X ≥ k]
    z = []
    for k in range(1, most + 2):
        guess = mp.mpf(k - 0.5) / sigma
        for _ in range(60):
            upper = mp.erfc(guess / mp.sqrt(2)) / 2
            step = mp.log(upper / tails[k]) * upper / mp.npdf(guess)
            guess += step
            if abs(step) < mp.mpf(10) ** -(DIGITS - 8):
                break
        z.append(guess)
    return [2 * z[0]] + [b - a for a, b in pairwise(z)]


@pytest.mark.parametrize("sigma", SIGMAS)
def test_every_step_of_the_quantiles_is_within_the_claim_and_not_within_that_of_the_continuous_law(
    sigma: float,
) -> None:
    with mp.workdps(DIGITS):
        found = widths(sigma, math.ceil(6 * sigma))
        claimed, continuous = mp.sqrt(price(sigma**2)), mp.sqrt(price(sigma**2, wrong=True))
        assert max(found) <= claimed
        assert found[0] > continuous  # the control: f replaced by x
        assert found[0] == max(found)
        assert found[0] * sigma - 1 > 0.9 * (claimed * sigma - 1)  # sharp
        assert abs(found[-1] * sigma - 1) < 0.03 * sigma**-0.5  # step 2


def test_the_table_of_the_page() -> None:
    """docs/proofs/discrete-gaussian.md, "Sharp"."""
    with mp.workdps(DIGITS):
        rows = {sigma: (widths(sigma, 0)[0] * sigma - 1, mp.sqrt(price(sigma**2)) * sigma - 1) for sigma in SIGMAS}
    shown = {1.0: (4.58e-2, 4.93e-2), 2.0: (1.065e-2, 1.082e-2), 5.0: (1.6725e-3, 1.6765e-3)}
    shown |= {10.0: (4.1703e-4, 4.1728e-4), 50.0: (1.66673e-5, 1.66676e-5)}
    for sigma, row in shown.items():
        assert [float(value) for value in rows[sigma]] == pytest.approx(row, rel=1e-3 if sigma < 5 else 3e-5)


@pytest.mark.slow
@given(y=st.floats(-30, 30), w=st.floats(0.05, 4.0))
def test_the_second_derivative_of_step_three(y: float, w: float) -> None:
    """The variance of a truncated normal law is at most that of the uniform one on the same interval."""
    with mp.workdps(30):
        t = [w * (mp.mpf(i) / 100 - mp.mpf(1) / 2) for i in range(101)]
        moments = [
            mp.quad(lambda s, n=n: (s**n) * mp.exp(-y * s - s * s / 2), [t[0], t[25], t[50], t[75], t[-1]])
            for n in range(3)
        ]
        variance = moments[2] / moments[0] - (moments[1] / moments[0]) ** 2
        assert variance <= mp.mpf(w) ** 2 / 12
        assert variance > 0


def test_step_four_leaves_room_everywhere() -> None:
    """w ≥ 3.28 contradicts (∗) for every k ≥ 1 and σ ≥ 1, by interval arithmetic on cells that cover a = k/σ ≤ 100."""
    with mp.workdps(20):
        iv = mp.iv
        c, w = iv.sqrt(2 / iv.pi), iv.mpf("3.28")
        assert (6 + 6 * iv.sqrt(iv.mpf(2) / 3)).a > (w * w).b
        assert (iv.log(2) + iv.mpf(3) / 2).b < (w * w / 2).a  # k = 1
        root = iv.sqrt(iv.mpf(3)) / 2  # √(k² − 1) ≥ k √3/2 from k = 2 on
        for i in range(1000):
            a = iv.mpf([i / 10, (i + 1) / 10])
            assert (w * (root * a - c) + w * w / 2 - (iv.log(2) + a + iv.mpf(1) / 2)).a > 0
        assert (w * root).a > 1  # and beyond, as the left side grows faster
        assert 2 * mp.ncdf(1.64) - 1 > 0.89 > 0.46 > 1 / (1 + 2 * mp.exp(-0.5))  # k = 0


# -- profiles by enumeration -----------------------------------------------------------------------------------------


def noise(sigma: float) -> tuple[FloatArray, FloatArray]:
    x = np.arange(-math.ceil(15 * sigma), math.ceil(15 * sigma) + 1, dtype=np.float64)
    weights = np.exp(-(x**2) / (2 * sigma**2))
    return x, weights / math.fsum(weights)


def loss_law(shifts: Sequence[int], sigma: float) -> tuple[FloatArray, FloatArray]:
    """Values and probabilities under P of the loss of noise moved by these, all of one σ: on one lattice."""
    x, p = noise(sigma)
    start, law = 0, np.ones(1)
    for shift in shifts:
        spaced = np.zeros((len(x) - 1) * shift + 1)
        spaced[::shift] = p
        law, start = np.convolve(law, spaced), start + shift * int(x[0])
    y = start + np.arange(len(law))
    squared = sum(shift**2 for shift in shifts)
    keep = law > 0
    return ((2 * y + squared) / (2 * sigma**2))[keep], law[keep]  # P is the noise moved: y + Σu² − Σu²/2


def enumerated(losses: FloatArray, masses: FloatArray, epsilon: float) -> float:
    above = losses > epsilon
    return math.fsum(masses[above] * -np.expm1(epsilon - losses[above]))


def exceeded(shifts: Sequence[int], sigma: float, mu_squared: float) -> float:
    """The largest ratio of the enumerated profile to that of the Gaussian, at and between the atoms."""
    losses, masses = loss_law(shifts, sigma)
    mu = math.sqrt(mu_squared)
    top = mu * (mu / 2 + 9)
    step = 1 / sigma**2
    grid = np.arange(0.0, top, max(step / 4, top / 400))
    atoms = losses[(losses >= 0) & (losses < top)]
    grid = np.concatenate([grid, atoms[:: max(1, len(atoms) // 200)]])
    return max(enumerated(losses, masses, float(e)) / gaussian_delta(float(e), mu_squared).upper for e in grid)


@pytest.mark.parametrize("sigma", SIGMAS)
@pytest.mark.parametrize("shifts", [(1,), (3,), (1, 1), (2, 1), (1, 1, 1), (2, 1, 3)], ids=str)
def test_the_claim_covers_the_enumerated_profile(shifts: tuple[int, ...], sigma: float) -> None:
    squared = sum(shift**2 for shift in shifts)
    variance = Fraction(sigma) ** 2
    assert exceeded(shifts, sigma, squared * gaussian_price(variance)) <= 1 + 1e-10


@pytest.mark.parametrize("sigma", SIGMAS)
def test_the_continuous_law_does_not_cover_it(sigma: float) -> None:
    """The control: with f replaced by x the same comparison fails, at σ = 50 too; half of κ is not enough either."""
    assert exceeded((1,), sigma, 1 / sigma**2) > 1.0002
    half = 1 / (sigma**2 - 1 / 24)
    assert exceeded((1,), sigma, half) > 1 + 1e-5


def test_entries_of_different_noise() -> None:
    """μ² adds up over entries whatever their variances: d = 2, enumerated pair by pair."""
    (x, p), (y, q) = noise(1.5), noise(4.0)
    losses = ((2 * x + 1) / (2 * 1.5**2))[:, None] + ((2 * 2 * y + 4) / (2 * 4.0**2))
    masses = p[:, None] * q
    mu_squared = gaussian_price(Fraction(9, 4)) + 4 * gaussian_price(Fraction(16))
    ratios = [
        enumerated(losses.ravel(), masses.ravel(), e) / gaussian_delta(e, mu_squared).upper
        for e in np.linspace(0, 6, 60)
    ]
    assert 0.5 < max(ratios) <= 1 + 1e-10


# -- rounding --------------------------------------------------------------------------------------------------------


@given(variance=st.fractions(min_value=1, max_value=10**14))
def test_the_price_is_rounded_up(variance: Fraction) -> None:
    with mp.workdps(DIGITS):
        x = mp.mpf(variance.denominator) / variance.numerator
        exact = 6 * (1 - mp.sqrt(1 - x / 3))
        assert exact <= gaussian_price(variance) <= exact * (1 + 1e-14)


def test_below_a_variance_of_one_there_is_no_price() -> None:
    with pytest.raises(InvalidArgument, match="variance"):
        gaussian_price(Fraction(99, 100))
    assert isinstance(vector_term(1, Fraction(99, 100)), RenyiOnly)
    with pytest.raises(InvalidArgument, match="squared_shift"):
        vector_term(0, Fraction(4))


@given(mu_squared=st.floats(1e-10, 1e3), place=st.floats(-12, 34))
def test_the_closed_form_is_between_its_bounds(mu_squared: float, place: float) -> None:
    mu = math.sqrt(mu_squared)
    epsilon = max(0.0, mu * (mu / 2 + place))
    found = gaussian_delta(epsilon, mu_squared)
    with mp.workdps(60):
        exact = normal_delta(mp.mpf(epsilon), mp.sqrt(mp.mpf(mu_squared)))
    assert found.lower <= exact <= found.upper
    if place < 8 and mu > 1e-2:
        assert found.upper <= exact * (1 + 1e-8)


# -- what is built on it ---------------------------------------------------------------------------------------------


def test_all_gaussian_steps_are_one_gaussian() -> None:
    parts = [
        3 * Gaussian(sigma=20.0).loss(),
        GaussianTables(sigma=30.0).loss(),
        2 * NoisySum.of("vector", 25.0).loss(),
        NoisySum.of("matrix", 25.0).loss(),
    ]
    total: PrivacyLoss = sum(parts[1:], parts[0])
    assert total.mu_squared == pytest.approx(sum(part.mu_squared or math.nan for part in parts), rel=1e-12)
    assert total.delta(1.0) == pytest.approx(gaussian_delta(1.0, total.mu_squared or math.nan).upper, rel=1e-12)
    assert total.bounds(epsilon=1.0).lower == 0.0  # nothing is claimed from below
    continuous = PrivacyLoss.of_term(GaussianTerm(3 * 2 / 400 + 2 / 900 + 3 * 2 / 625))
    assert 1 < total.delta(1.0) / continuous.delta(1.0) < 1.02


@pytest.mark.parametrize("other", [Laplace(scale=5.0).loss(), Polya(r=3, alpha=100).loss()], ids=["laplace", "polya"])
def test_a_composition_with_other_noise_is_that_of_the_product_pair(other: PrivacyLoss) -> None:
    """δ of the product by hand: E over the other's atoms of the Gaussian profile at what is left of ε."""
    vector = NoisySum.of("vector", 6.0).loss()
    assert vector.mu_squared is not None
    losses, masses = np.zeros(1), np.ones(1)
    for term, times in other.directions[0]:
        atoms = term.atoms()  # type: ignore[attr-defined]
        for _ in range(times):
            losses = (losses[:, None] + atoms.losses).ravel()
            masses = (masses[:, None] * np.exp(atoms.log_probabilities)).ravel()
    wanted = math.fsum(
        mass * gaussian_delta(1.0 - loss, vector.mu_squared).upper
        for loss, mass in zip(losses, masses, strict=True)
        if mass > 1e-14
    )
    assert (vector + other).delta(1.0) == pytest.approx(wanted, rel=1e-6)
    assert (vector + other).delta(1.0) > wanted * (1 - 1e-8)
    assert (vector + other).mu_squared is None


def test_the_renyi_curve_stays_that_of_the_discrete_law() -> None:
    loss = NoisySum(kind="vector", sigma=20.0, bound=1).loss()
    assert loss.rdp(8.0) == pytest.approx(8 * 2 / 400 / 2, rel=1e-7)
    assert 8 * (loss.mu_squared or 0) / 2 > loss.rdp(8.0)


def test_a_part_known_by_its_renyi_curve_takes_the_whole_there() -> None:
    persons = Dirichlet(r=1.0, alpha=400.0).loss(rows=2)
    both = persons + Gaussian(sigma=30.0).loss(rows=2)
    through = PrivacyLoss.of_term(RenyiOnly(GaussianTerm(8 / 900)))
    assert both.delta(1.0) == pytest.approx((persons + through).delta(1.0), rel=1e-9)
    assert both.mu_squared is None


@pytest.mark.parametrize("neighbours", ["replace-one", "add-remove"])
@pytest.mark.parametrize("sigma", [1.0, 3.0, 12.0])
def test_persons(neighbours: str, sigma: float) -> None:
    """A person of m rows moves one cell by m at most, or several by less: both are within the loss."""
    loss = Gaussian(sigma=sigma).loss(neighbours, rows=2)  # type: ignore[arg-type]
    moves: list[tuple[int, ...]] = [(2, 2), (2, 1, 1)] if neighbours == "replace-one" else [(2,), (1, 1)]
    for epsilon in (0.5 / sigma, 2 / sigma, 6 / sigma):
        found = [enumerated(*loss_law(move, sigma), epsilon) for move in moves]
        assert max(found) <= loss.delta(epsilon) * (1 + 1e-10)
        assert max(found) > 0.2 * loss.delta(epsilon)


@pytest.mark.slow
def test_large_variances_go_on_where_the_lattice_ends() -> None:
    edge = 10.0**5
    below, above = Gaussian(sigma=edge * 0.9999).loss(), Gaussian(sigma=edge * 1.0001).loss()
    assert above.delta(1e-4) < below.delta(1e-4) < 1.05 * above.delta(1e-4)


@given(weights=st.lists(st.floats(0.01, 100.0), min_size=1, max_size=6), sigma=st.floats(1.0, 50.0))
def test_no_spread_costs_more_than_was_paid(weights: list[float], sigma: float) -> None:
    paid = GaussianTables(sigma=sigma).loss().mu_squared
    spread = sum(2 * gaussian_price(each.variance) for each in GaussianTables(sigma=sigma).spread(weights))
    assert paid is not None
    assert spread <= paid * (1 + 1e-12)


@given(x=st.floats(1e-6, 0.5), y=st.floats(1e-6, 0.5))
def test_the_price_is_superadditive(x: float, y: float) -> None:
    one, other = Fraction(x), Fraction(y)
    both = gaussian_price(1 / (one + other))
    assert gaussian_price(1 / one) + gaussian_price(1 / other) <= both * (1 + 1e-14)
