"""The loss of balanced Laplace noise, against enumeration of whole laws and Legendre polynomials at 40 digits."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simplexdp import BalancedLaplace, Gaussian, Laplace, Polya, PrivacyLoss
from simplexdp.accounting.discrete import BalancedLaplaceTerm, DiscreteLaplaceTerm, no_loss
from simplexdp.accounting.lattice import lattice_delta
from simplexdp.errors import InvalidArgument

SCALES = st.floats(0.01, 1e6).map(lambda scale: Fraction(scale).limit_denominator(1 << 30)).filter(bool)


def probability_of_most_loss(scale: Fraction, cells: int) -> mp.mpf:
    """p₊ = P_{d−2}(x) / ((1 − q²) P_{d−1}(x)) with x = (1 + q²)/(1 − q²), as stated, by mpmath's polynomials."""
    square = mp.exp(-2 * mp.mpf(scale.denominator) / scale.numerator)
    x = (1 + square) / (1 - square)
    return mp.legendre(cells - 2, x) / ((1 - square) * mp.legendre(cells - 1, x))


def stated(term: BalancedLaplaceTerm) -> float:
    return float(np.exp(term.atoms().log_probabilities[2]))


@lru_cache(maxsize=16)
def enumerated(scale: float, cells: int) -> tuple[np.ndarray, np.ndarray]:
    """The probabilities of all outputs near the tables e₁ and e₂ (up to 1e-12), nothing merged."""
    reach = math.ceil(20 * scale)
    grids = np.meshgrid(*[np.arange(-reach, reach + 1)] * (cells - 1), indexing="ij")
    free = np.stack([grid.ravel() for grid in grids])
    last = -free.sum(axis=0)
    noise = np.vstack([free, last])  # the output minus e₁, under the table e₁
    other = noise.copy()  # the same output minus e₂
    other[0] += 1
    other[1] -= 1
    weights = [np.exp(-np.abs(each).sum(axis=0) / scale) for each in (noise, other)]
    return weights[0] / weights[0].sum(), weights[1] / weights[0].sum()


@pytest.mark.parametrize(("scale", "cells"), [(0.5, 2), (3.0, 2), (0.7, 3), (2.0, 3), (1.0, 4), (0.4, 5)])
def test_against_enumeration_of_both_laws(scale: float, cells: int) -> None:
    """Probabilities of the three losses, δ(ε) and Rényi divergences from the laws of whole tables."""
    p, q = enumerated(scale, cells)
    term = BalancedLaplaceTerm(scale=Fraction(scale), cells=cells)
    losses = np.log(p / q) * scale
    assert set(np.unique(np.round(losses, 9))) <= {-2.0, 0.0, 2.0}
    found = [p[np.round(losses) == value].sum() for value in (-2, 0, 2)]
    assert np.exp(term.atoms().log_probabilities) == pytest.approx(found, abs=1e-7)
    loss = PrivacyLoss("replace-one", (((term, 1),),))
    for epsilon in (0.0, 0.3 / scale, 1.9 / scale):
        assert loss.delta(epsilon) == pytest.approx(np.maximum(p - np.exp(epsilon) * q, 0).sum(), rel=1e-6)
    assert loss.delta(2 / scale * (1 + 1e-12)) == 0
    for order in (1.5, 2.0, 7.0):
        renyi = np.log(np.sum(p * np.exp((order - 1) * np.log(p / q)))) / (order - 1)
        assert loss.rdp(order) == pytest.approx(renyi, rel=1e-6)


@given(SCALES, st.integers(2, 60))
def test_against_legendre_polynomials(scale: Fraction, cells: int) -> None:
    """The probability of no loss is never overstated and right to 1e-11, that of the largest loss to 1e-12."""
    with mp.workdps(60):
        exact = probability_of_most_loss(scale, cells)
        square = mp.exp(-2 * mp.mpf(scale.denominator) / scale.numerator)
        middle = 1 - exact * (1 + square)
        found = no_loss(float(1 / scale), cells)
        assert found <= middle + mp.mpf(10) ** -50
        if middle > mp.mpf(10) ** -40:
            assert found >= middle * (1 - mp.mpf(10) ** -11)
        assert abs(stated(BalancedLaplaceTerm(scale=scale, cells=cells)) / exact - 1) < 1e-12


@pytest.mark.parametrize("cells", [2, 3, 100, 1024])
@pytest.mark.parametrize("scale", [Fraction(1, 1000), Fraction(1, 300), Fraction(10**12)])
def test_the_ends_of_the_range(scale: Fraction, cells: int) -> None:
    term = BalancedLaplaceTerm(scale=scale, cells=cells)
    weights = np.exp(term.atoms().log_probabilities)
    assert weights.sum() == pytest.approx(1, abs=1e-12)
    if scale < 1:
        assert weights[2] == pytest.approx(1)
    else:
        assert weights[1] == pytest.approx((cells - 2) / (2 * cells - 3), rel=1e-9)


@given(SCALES, st.integers(2, 200))
def test_between_the_two_limits_and_falling_with_the_cells(scale: Fraction, cells: int) -> None:
    """From randomised response with ε = 2/b, 1/(1+q²), down towards independent noise, 1/(1+q)²."""
    q = math.exp(-float(1 / scale))
    here, next_one = (stated(BalancedLaplaceTerm(scale=scale, cells=n)) for n in (cells, cells + 1))
    assert (1 - 1e-12) / (1 + q) ** 2 <= next_one <= here * (1 + 1e-12)
    assert here <= (1 + 1e-12) / (1 + q * q)


@given(st.floats(0.2, 50), st.integers(2, 40), st.floats(0, 8), st.integers(1, 6))
def test_more_cells_lose_less(scale: float, cells: int, epsilon: float, tables: int) -> None:
    """Fewer cells dominate more, and independent noise of the same scale is dominated by all."""
    fewer, more = ((tables * BalancedLaplace(scale=scale, cells=n).loss()) for n in (cells, 3 * cells))
    independent = tables * Laplace(scale=scale).loss()
    assert independent.delta(epsilon) <= more.delta(epsilon) * (1 + 1e-9) + 1e-15
    assert more.delta(epsilon) <= fewer.delta(epsilon) * (1 + 1e-9) + 1e-15
    assert independent.rdp(3) <= more.rdp(3) * (1 + 1e-9) <= fewer.rdp(3) * (1 + 1e-8)


def test_two_cells_are_randomised_response() -> None:
    """The same profile as one cell of Laplace noise of half the scale, alone and composed."""
    pair = BalancedLaplaceTerm(scale=Fraction(5), cells=2)
    cell = DiscreteLaplaceTerm(scale=Fraction(5, 2))
    for times in (1, 2, 30):
        for epsilon in (0.1, 0.35, 2.0):
            assert lattice_delta([(pair, times)], epsilon).upper == pytest.approx(
                lattice_delta([(cell, times)], epsilon).upper, rel=1e-9, abs=1e-300
            )
    assert pair.rate(2.5) == pytest.approx(cell.rate(2.5), rel=1e-12)


@pytest.mark.parametrize(
    ("mechanisms", "epsilon"),
    [
        ([(BalancedLaplace(scale=6.0, cells=3), 10)], 1.0),
        ([(BalancedLaplace(scale=8.0, cells=2), 5), (BalancedLaplace(scale=8.0, cells=7), 5)], 1.0),
        ([(BalancedLaplace(scale=9.0, cells=4), 3), (Gaussian(sigma=12.0), 2), (Laplace(scale=7.0), 2)], 0.7),
        ([(BalancedLaplace(scale=9.0, cells=4), 2), (Polya(r=1, alpha=300), 2)], 0.5),
    ],
)
def test_composition_within_the_pessimistic_distribution_of_dp_accounting(
    mechanisms: list[tuple[BalancedLaplace | Gaussian | Laplace | Polya, int]], epsilon: float
) -> None:
    """δ is never below 0.98 of dp-accounting's upper bound on a grid of 1e-4, nor above it by more than 0.1 %."""
    from dp_accounting.pld import privacy_loss_distribution as pld

    composed = pld.identity(value_discretization_interval=1e-4)
    loss = PrivacyLoss.nothing()
    for mechanism, times in mechanisms:
        loss = loss + times * mechanism.loss()
        for term, count in mechanism.loss().directions[0]:
            atoms = term.atoms()  # type: ignore[attr-defined]  # all of them are discrete
            kept = np.isfinite(atoms.log_probabilities)
            p = dict(enumerate(atoms.log_probabilities[kept]))
            q = dict(enumerate((atoms.log_probabilities - atoms.losses)[kept]))
            single = pld.from_two_probability_mass_functions(q, p, value_discretization_interval=1e-4)
            composed = composed.compose(single.self_compose(times * count))
    theirs = composed.get_delta_for_epsilon(epsilon)
    ours = loss.delta(epsilon)
    assert 0.98 * theirs <= ours <= 1.001 * theirs
    assert loss.delta(1.05 * epsilon) < 0.98 * theirs  # the comparison can fail


@pytest.mark.parametrize("arguments", [{"scale": Fraction(-1), "cells": 3}, {"scale": Fraction(2), "cells": 1}])
def test_refusals(arguments: dict[str, Fraction | int]) -> None:
    with pytest.raises(InvalidArgument):
        BalancedLaplaceTerm(**arguments)  # type: ignore[arg-type]
