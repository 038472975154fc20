"""Discrete terms against 40-digit sums, and what every log-MGF of a privacy loss satisfies."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lattice_twins import laws, log_mgf
from mpmath import mp, mpf

from simplexdp.accounting.discrete import (
    DiscreteGaussianTerm,
    DiscreteLaplaceTerm,
    NegativeBinomialTerm,
    RandomisedResponseTerm,
)
from simplexdp.accounting.integer_law import (
    log1p_minus,
    log_convexity_gap,
    log_negative_binomial,
    log_rising_ratio,
    stirling_remainder,
)
from simplexdp.accounting.terms import LatticeTerm
from simplexdp.errors import InvalidArgument, NumericalError


def nb(p: int, q: int, flips: int = 1) -> NegativeBinomialTerm:
    return NegativeBinomialTerm(shape_p=p, shape_q=q, flips=flips)


SMALL: list[LatticeTerm] = [
    nb(14, 13),
    nb(13, 14),
    nb(1, 2),
    nb(2, 1),
    nb(1, 5, 3),
    nb(127, 124, 2),
    nb(60, 30),
    nb(30, 60),
    DiscreteGaussianTerm(variance=Fraction(1, 20)),
    DiscreteGaussianTerm(variance=Fraction(7, 3), shift=-2),
    DiscreteGaussianTerm(variance=Fraction(300), shift=1),
    DiscreteLaplaceTerm(scale=Fraction(7, 2)),
    DiscreteLaplaceTerm(scale=Fraction(1, 2), shift=4),
    RandomisedResponseTerm(epsilon=1e-6),
    RandomisedResponseTerm(epsilon=30.0),
]


@pytest.mark.slow
@pytest.mark.parametrize("term", SMALL, ids=repr)
@pytest.mark.parametrize("w", [-7.5, -1.25, -0.5, 1e-9, 0.01, 1.0, 4.0, 31.0])
def test_rate_agrees_with_forty_digits(term: LatticeTerm, w: float) -> None:
    with mp.workdps(40):
        expected = log_mgf(term, mpf(w)) / mpf(w)
    assert term.rate(w) == pytest.approx(float(expected), rel=1e-13, abs=0)


@pytest.mark.slow
@pytest.mark.parametrize("term", SMALL, ids=repr)
def test_rate_at_zero_is_the_divergence(term: LatticeTerm) -> None:
    with mp.workdps(40):
        p, q = laws(term)
        expected = mp.fsum(a * mp.log(a / b) for a, b in zip(p, q, strict=True) if a > 0)
    assert term.rate(0.0) == pytest.approx(float(expected), rel=1e-13, abs=0)


@pytest.mark.parametrize("term", SMALL, ids=repr)
def test_complex_log_mgf_is_the_sum_over_the_atoms(term: LatticeTerm) -> None:
    atoms = term.atoms(0.75)
    scale = 1 / max(1e-3, math.sqrt(term.cumulants(0.75)[2]))
    w = 0.75 + 1j * np.array([0.0, 0.3, -1.0, 3.0]) * scale
    direct = np.exp(atoms.log_probabilities + w[:, None] * atoms.losses).sum(axis=1)
    assert np.exp(term.log_mgf(w)) == pytest.approx(direct, rel=1e-11, abs=1e-13 * abs(direct[0]))
    assert term.log_mgf(w).shape == w.shape


@pytest.mark.slow
@pytest.mark.parametrize("term", SMALL, ids=repr)
@pytest.mark.parametrize("tilt", [-3.0, 0.0, 2.0, 40.0])
def test_atoms_carry_the_tilted_law(term: LatticeTerm, tilt: float) -> None:
    atoms = term.atoms(tilt)
    assert np.all(np.diff(atoms.losses) > 0)
    with mp.workdps(40):
        everything = mp.exp(log_mgf(term, mpf(tilt)))
        listed = mp.fsum(
            mp.exp(mpf(a) + tilt * mpf(b))
            for a, b in zip(atoms.log_probabilities.tolist(), atoms.losses.tolist(), strict=True)
        )
        assert abs(listed / everything - 1) < 1e-12
    assert 0 <= atoms.cut < 1e-17


def test_cut_bounds_what_is_left_out() -> None:
    term = nb(5, 3, 2)
    atoms = term.atoms(1.5)
    with mp.workdps(40):
        p, q = laws(term)
        listed = len(atoms.losses)
        weights = [a * (a / b) ** mpf(1.5) for a, b in zip(p, q, strict=True)]
        outside = mp.fsum(weights[listed:]) / mp.fsum(weights[:listed])
        assert 0 < outside <= atoms.cut < 10 * outside


@given(
    alpha=st.integers(1, 10**7),
    r=st.integers(1, 300),
    flips=st.integers(1, 3),
    w=st.floats(0.01, 50),
    flip=st.booleans(),
)
@settings(max_examples=60, deadline=None)
def test_shape_of_the_log_mgf(alpha: int, r: int, flips: int, w: float, flip: bool) -> None:
    p, q = (alpha, alpha + r) if flip else (alpha + r, alpha)
    term, swapped = nb(p, q, flips), nb(q, p, flips)
    assert term.cumulants(0.0)[0] == pytest.approx(0, abs=1e-12)
    assert term.cumulants(-1.0)[0] == pytest.approx(0, abs=1e-12)
    assert term.rate(-1.0) == 0
    # Swapping P and Q mirrors K about −1/2, and the rate (a Rényi divergence) does not decrease.
    assert w * term.rate(w) == pytest.approx((-1 - w) * swapped.rate(-1 - w), rel=1e-11)
    assert 0 < term.rate(0.0) <= term.rate(w) <= term.rate(1.5 * w)
    assert term.rate(w) <= term.largest_loss


def test_large_shapes_approach_the_gaussian() -> None:
    # r²/(2·α·(1+1/c)) is the divergence of normals with the moments of the two laws.
    for flips in (1, 3, 8):
        term = nb(10**7 + 1, 10**7, flips)
        c = 2.0**flips - 1
        assert term.rate(0.0) == pytest.approx(c / (1 + c) / (2 * 10**7), rel=1e-6)


def test_stable_functions_against_forty_digits() -> None:
    with mp.workdps(60):
        for y in (1.0, 2.0, 15.0, 16.0, 17.0, 1e3, 1e9):
            exact = mp.loggamma(y) - (mpf(y) - 0.5) * mp.log(y) + y - mp.log(2 * mp.pi) / 2
            assert stirling_remainder(np.array([y]))[0] == pytest.approx(float(exact), abs=1e-15)
        for u in (-0.9, -0.25, -1e-3, 1e-12, 0.1, 0.2499, 0.25, 3.0, 1e6):
            assert log1p_minus(np.array([u]))[0] == pytest.approx(float(mp.log(1 + mpf(u)) - mpf(u)), rel=1e-14, abs=0)
        for n, p, x in [(1, 0.5, 0), (1, 0.25, 90), (10**7, 0.5, 10**7 + 9000), (300, 0.125, 2500)]:
            exact = mp.loggamma(x + n) - mp.loggamma(n) - mp.loggamma(x + 1)
            exact += n * mp.log(p) + x * mp.log(1 - mpf(p))
            assert log_negative_binomial(np.array([float(x)]), n, p)[0] == pytest.approx(
                float(exact), rel=1e-14, abs=1e-14
            )
        for start, steps, x in [(1, 1, 0), (5, 12, 40), (5, 13, 40), (10**6, 300, 10**6 + 999), (1, 5000, 3)]:
            exact = mp.log(mp.gammaprod([x + start + steps, start], [x + start, start + steps]))
            exact -= steps * mp.log(2)
            assert log_rising_ratio(np.array([float(x)]), start, steps, 0.5)[0] == pytest.approx(
                float(exact), rel=1e-12
            )
        for loss, w in [(1e-9, 2.0), (-0.4, 1.0), (0.8, 1e-12), (3.0, -0.5), (-40.0, 3.0), (500.0, 2.0)]:
            x, v = mpf(loss), mpf(w)
            exact = mp.expm1((1 + v) * x) - (1 + v) * mp.expm1(x)
            top, gap = log_convexity_gap(np.array([loss]), w)
            assert top[0] == max(0.0, loss, (1 + w) * loss)
            assert gap[0] == pytest.approx(float(exact / (v * (1 + v) * x * x) / mp.exp(top[0])), rel=3e-15)


def test_bad_parameters_are_named() -> None:
    with pytest.raises(InvalidArgument, match="shape_p"):
        nb(3, 3)
    with pytest.raises(InvalidArgument, match="shape_q"):
        nb(3, 0)
    with pytest.raises(InvalidArgument, match="flips"):
        nb(3, 2, 21)
    with pytest.raises(InvalidArgument, match="variance"):
        DiscreteGaussianTerm(variance=Fraction(0))
    with pytest.raises(InvalidArgument, match="shift"):
        DiscreteGaussianTerm(variance=Fraction(1), shift=0)
    with pytest.raises(InvalidArgument, match="scale"):
        DiscreteLaplaceTerm(scale=Fraction(-1))
    with pytest.raises(InvalidArgument, match="epsilon"):
        RandomisedResponseTerm(epsilon=math.nan)


def test_too_many_atoms_is_an_error_not_a_guess() -> None:
    wide = DiscreteGaussianTerm(variance=Fraction(10**14))
    assert wide.rate(1.0) == pytest.approx(1e-14, rel=1e-13)
    with pytest.raises(NumericalError, match="too many atoms"):
        wide.atoms(1.0)
