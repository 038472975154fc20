"""Dirichlet shapes are floats: neighbouring ones differ by r at most, whatever the count, or are refused."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simplexdp import Budget, Dirichlet, Sensitivity
from simplexdp.errors import Infeasible, InvalidArgument
from simplexdp.mechanisms.dirichlet import MOST, ROOM
from simplexdp.planning import plan_tables
from simplexdp.sampling import SeededEntropy

SECRET = 123457


def exact(mechanism: Dirichlet, count: int) -> Fraction:
    """The shape that a count is drawn with."""
    return Fraction(float(mechanism.shapes(np.array([count]))[0]))


counts = st.one_of(st.integers(0, 200), st.integers(0, 2**53), st.integers(MOST - 100, MOST + 100))


@st.composite
def mechanisms(draw: st.DrawFn) -> Dirichlet:
    r = draw(st.floats(1e-9, 1e9))
    return Dirichlet(r=r, alpha=min(r * 2.0 ** draw(st.floats(-60, 37)), r * MOST))


@given(mechanisms(), counts, st.integers(0, 100))
def test_rows_move_a_shape_by_r_at_most(mechanism: Dirichlet, count: int, rows: int) -> None:
    few, many = exact(mechanism, count), exact(mechanism, count + rows)
    assert 0 <= many - few <= rows * Fraction(mechanism.r)
    assert few >= Fraction(mechanism.alpha)


@given(mechanisms(), counts, counts)
def test_the_smallest_shape_is_that_of_the_loss(mechanism: Dirichlet, lower: int, count: int) -> None:
    """A known lower bound of the counts is accounted with a shape that none of them is drawn below."""
    (bag,) = mechanism.loss(lower=lower).directions
    for term, _ in bag:
        assert exact(mechanism, max(lower, count)) >= Fraction(term.alpha)


@pytest.mark.parametrize(("room", "most"), [(0.0, MOST), (2.0**-17, MOST), (ROOM, MOST << 5)])
def test_less_room_is_too_little(room: float, most: int) -> None:
    """Without the room, with a sixteenth of it or for larger counts, one row moves a shape by more than r."""
    rng = np.random.default_rng(4)
    r = rng.uniform(1, 2, 100_000)
    n = rng.integers(most // 2, most, r.size).astype(np.float64)
    drawn, alpha = r * (1 - room), r * most * rng.uniform(0.5, 1, r.size)
    shift = (drawn * (n + 1) + alpha) - (drawn * n + alpha)  # exact: the shapes are close to each other
    assert (shift > r).any()
    drawn, alpha, n = r * (1 - ROOM), r * MOST * rng.uniform(0.5, 1, r.size), np.floor(n * (MOST / most))
    assert ((drawn * (n + 1) + alpha) - (drawn * n + alpha) <= r).all()


def test_what_the_refusal_is_for() -> None:
    """At α = 2⁵³ r two neighbours out of three would have the same shape, and the third a shape 2r further."""
    shapes = 1.0 * np.arange(4) + 2.0**53
    assert np.diff(shapes).tolist() == [0.0, 2.0, 2.0]
    for alpha in (2.0**53, 2.0**50, 2.0**37 * (1 + 2**-52)):
        with pytest.raises(InvalidArgument, match="`alpha` must be at most 2\\^37 times r"):
            Dirichlet(r=1.0, alpha=alpha)
    assert Dirichlet(r=1.0, alpha=2.0**37).alpha == 2.0**37


def test_calibration_says_that_nothing_can_be_drawn() -> None:
    hopeless = Budget.rdp(order=2, epsilon=1e-12)
    for call in (
        lambda: Dirichlet.calibrate(hopeless, r=1.0),
        lambda: Dirichlet.concentrated(hopeless),
        lambda: Dirichlet.diffused(hopeless, alpha=1e15),
        lambda: Dirichlet.algorithm1(order=1e12, epsilon=1e-3),
    ):
        with pytest.raises(Infeasible, match="can be drawn"):
            call()


def test_a_public_total_is_refused_and_a_private_one_is_not() -> None:
    mechanism, large = Dirichlet(r=1.0, alpha=5.0), [2**40 + SECRET, 3]
    with pytest.raises(InvalidArgument, match="`counts` must be of at most 2\\^37 records") as error:
        mechanism.release(large, entropy=1)
    assert str(2**40 + SECRET) not in str(error.value)
    with pytest.raises(Infeasible, match="137,438,953,472 records"):
        plan_tables([("a",)], [(4,)], Budget(epsilon=1.0, delta=1e-13), mechanism="dirichlet", total=2.0**38)
    same = [mechanism.release([n, 3], neighbours="add-remove", entropy=1).values for n in (MOST, large[0], 2**53)]
    assert (same[0] == same[1]).all()
    assert (same[0] == same[2]).all()


def test_queries_with_sensitivities_are_cut_where_rounding_would_tell() -> None:
    """d coordinates of tiny sensitivity: all rounding errors together stay below the room of Δ₂."""
    mechanism, small = Dirichlet(r=1.0, alpha=5.0), Sensitivity(l2_squared=2e-20, linf=1e-10)
    most = MOST * 1e-10
    cut = mechanism.release([most, 1.0], sensitivity=small, entropy=1).values
    assert (mechanism.release([1e9, 1.0], sensitivity=small, entropy=1).values == cut).all()
    with pytest.raises(InvalidArgument, match="`sensitivity`"):
        mechanism.release([1.0] * 1000, sensitivity=small, entropy=1)
    with pytest.raises(InvalidArgument, match="`sensitivity`"):
        mechanism.release([100.0, 1.0], sensitivity=Sensitivity(l2_squared=2e-20, linf=1e-10, lower=99.0), entropy=1)


def test_estimates_are_those_of_what_is_drawn() -> None:
    """At shapes of many millions the noise is smaller than the room: r in its place would show."""
    mechanism, f = Dirichlet(r=100.0, alpha=1.0), np.array([2**34, 2**33])
    values, variance, slope = mechanism.unbiased(mechanism.draw(f, SeededEntropy(1)), float(f.sum()))
    deviation = np.sqrt(variance + slope * f)
    assert (np.abs(values - f) < 6 * deviation).all()
