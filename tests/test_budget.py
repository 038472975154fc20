"""Budgets are values that say what they are."""

from __future__ import annotations

import pickle

import pytest

from simplexdp import Budget, Dirichlet
from simplexdp.errors import InvalidArgument, SimplexDPError


def test_two_kinds() -> None:
    plain, renyi = Budget(epsilon=1, delta=1e-5), Budget.rdp(order=5, epsilon=0.1)
    assert (str(plain), str(renyi)) == ("(1, 1e-05)-DP", "(5, 0.1)-RDP")
    assert (plain.order, renyi.delta) == (None, None)
    assert plain == Budget(epsilon=1.0, delta=1e-5)
    assert hash(plain) == hash(Budget(epsilon=1.0, delta=1e-5))
    assert pickle.loads(pickle.dumps(renyi)) == renyi  # noqa: S301  # our own bytes
    with pytest.raises(AttributeError):
        plain.epsilon = 2.0  # type: ignore[misc]


def test_fits_is_the_sign_of_excess() -> None:
    loss = Dirichlet(r=1.0, alpha=40.0).loss()
    for budget in (Budget(epsilon=1.0, delta=1e-5), Budget(epsilon=0.5, delta=1e-5), Budget.rdp(order=3, epsilon=0.05)):
        assert loss.fits(budget) == (loss.excess(budget) <= 0)
    assert loss.fits(Budget(epsilon=loss.epsilon(1e-5), delta=1e-5))
    assert not loss.fits(Budget(epsilon=loss.epsilon(1e-5) * (1 - 1e-6), delta=1e-5))
    assert loss.fits(Budget.rdp(order=3, epsilon=loss.rdp(3)))
    assert not loss.fits(Budget.rdp(order=100, epsilon=1e9))


def test_errors_carry_the_argument() -> None:
    with pytest.raises(SimplexDPError) as error:
        Budget(epsilon=-1, delta=0.1)
    assert isinstance(error.value, InvalidArgument)
    assert isinstance(error.value, ValueError)
    assert error.value.name == "epsilon"
