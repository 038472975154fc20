"""Searches return the safe end of their bracket."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simplexdp.errors import NumericalError
from simplexdp.numerics.roots import Interval, largest_that_fits, smallest_integer_that_fits, smallest_that_fits

sizes = st.floats(1e-12, 1e12)
many = settings(max_examples=200, deadline=None, derandomize=True)


@many
@given(root=sizes, start=sizes, power=st.floats(0.2, 5))
def test_the_smallest_that_fits_fits(root: float, start: float, power: float) -> None:
    def excess(x: float) -> float:
        return power * math.log(root / x)

    found = smallest_that_fits(excess, start)
    assert excess(found) <= 0
    assert found == pytest.approx(root, rel=1e-9)


@many
@given(root=sizes, start=sizes)
def test_the_largest_that_fits_fits_beyond_infinite_values(root: float, start: float) -> None:
    def excess(x: float) -> float:
        return math.inf if x > 2 * root else math.log(x / root)

    found = largest_that_fits(excess, start)
    assert excess(found) <= 0
    assert found == pytest.approx(root, rel=1e-9)


def test_where_the_excess_is_steep_little_is_left() -> None:
    """It falls from infinity at 1 to 0 within 1e-9: a width of 1e-10 would leave a tenth."""

    def excess(x: float) -> float:
        return math.inf if x <= 1 else 1e-9 / (x - 1) - 1

    found = smallest_that_fits(excess, 3.0)
    assert -1e-6 < excess(found) <= 0


def test_none_and_all() -> None:
    assert smallest_that_fits(lambda _: 1.0, 1.0) == math.inf
    assert largest_that_fits(lambda _: 1.0, 1.0) == 0.0


@many
@given(root=st.integers(1, 10**9), start=st.integers(1, 10**9), cliff=st.booleans())
def test_the_first_integer_that_fits(root: int, start: int, cliff: bool) -> None:
    asked: list[int] = []

    def excess(n: int) -> float:
        asked.append(n)
        if cliff:
            return 1.0 if n < root else -1.0
        return math.log((root - 0.5) / n)

    assert smallest_integer_that_fits(excess, start) == root
    assert root in asked
    assert root == 1 or root - 1 in asked
    assert len(asked) == len(set(asked)) < 200


def test_intervals_are_not_empty() -> None:
    with pytest.raises(NumericalError):
        Interval(2.0, 1.0)
    with pytest.raises(NumericalError):
        Interval(math.nan, 1.0)
