"""Bad input gives one clear error of the library's own tree that names the argument and never a count."""

from __future__ import annotations

import math

import numpy as np
import pytest

from simplexdp import Budget, Dirichlet, Gaussian, Laplace, Polya, Sensitivity, utility
from simplexdp.accounting import conversion_floor
from simplexdp.errors import InvalidArgument, SimplexDPError

SECRET = 123457
MECHANISMS = [Dirichlet(r=1, alpha=5), Polya(r=1, alpha=13), Gaussian(sigma=3.0), Laplace(scale=3.0)]
BAD_COUNTS = {
    "negative": [3, -SECRET, 2],
    "not finite": [3.0, math.nan, SECRET],
    "infinite": [3.0, math.inf, SECRET],
    "not whole": [3.0, SECRET + 0.5, 1.0],
    "empty": [],
    "one cell": [SECRET],
    "a number": SECRET,
    "text": ["a", str(SECRET)],
    "nothing": None,
    "ragged": [[1, SECRET], [2]],
    "complex": [1 + 2j, SECRET],
    "too large": [SECRET * 10**13, 1],
    "far too large": [SECRET * 10**40, 1],
    "booleans": [True, False],
}


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=lambda mechanism: mechanism.name)
@pytest.mark.parametrize("counts", BAD_COUNTS.values(), ids=BAD_COUNTS)
def test_bad_counts(mechanism: object, counts: object) -> None:
    for call in (
        lambda: mechanism.release(counts, entropy=1),  # type: ignore[attr-defined]
        lambda: mechanism.expected_kl(counts),  # type: ignore[attr-defined]
    ):
        with pytest.raises(InvalidArgument, match="`counts`") as error:
            call()
        assert str(SECRET) not in str(error.value)
        assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    "counts", [*list(BAD_COUNTS.values())[:3], [], [SECRET], ["a", str(SECRET)], [[1, SECRET], [2]]]
)
def test_bad_queries_with_sensitivities(counts: object) -> None:
    with pytest.raises(InvalidArgument, match="`counts`") as error:
        Dirichlet(r=1, alpha=5).release(counts, sensitivity=Sensitivity(), entropy=1)  # type: ignore[arg-type]
    assert str(SECRET) not in str(error.value)


def test_counts_of_zero_have_no_distribution() -> None:
    for mechanism in MECHANISMS:
        with pytest.raises(InvalidArgument, match="`counts`"):
            mechanism.expected_kl([0, 0])
        assert mechanism.release([0, 0], entropy=1).values.shape == (2,)
    with pytest.raises(InvalidArgument, match="`counts`"):
        utility.bias(Dirichlet(r=1, alpha=1), [0, 0])


@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("epsilon", lambda: Budget(epsilon=0.0, delta=1e-5)),
        ("epsilon", lambda: Budget(epsilon=-1.0, delta=1e-5)),
        ("epsilon", lambda: Budget(epsilon=math.nan, delta=1e-5)),
        ("epsilon", lambda: Budget(epsilon=math.inf, delta=1e-5)),
        ("epsilon", lambda: Budget(epsilon="1", delta=1e-5)),
        ("delta", lambda: Budget(epsilon=1.0, delta=-1e-9)),
        ("delta", lambda: Budget(epsilon=1.0, delta=False)),
        ("delta", lambda: Budget(epsilon=1.0, delta=1.0)),
        ("delta", lambda: Budget(epsilon=1.0, delta=math.nan)),
        ("delta", lambda: Budget(epsilon=1.0)),
        ("delta", lambda: Budget(epsilon=1.0, delta=1e-5, order=2.0)),
        ("order", lambda: Budget.rdp(order=0.99, epsilon=1.0)),
        ("order", lambda: Budget.rdp(order=math.inf, epsilon=1.0)),
        ("order", lambda: Budget.rdp(order=math.nan, epsilon=1.0)),
        ("r", lambda: Dirichlet(r=0.0, alpha=1.0)),
        ("r", lambda: Dirichlet(r=-2.0, alpha=1.0)),
        ("r", lambda: Dirichlet(r=math.inf, alpha=1.0)),
        ("r", lambda: Dirichlet(r=None, alpha=1.0)),
        ("alpha", lambda: Dirichlet(r=1.0, alpha=0.0)),
        ("alpha", lambda: Dirichlet(r=1.0, alpha=math.nan)),
        ("r", lambda: Polya(r=1.5, alpha=3)),
        ("alpha", lambda: Polya(r=1, alpha=0)),
        ("flips", lambda: Polya(r=1, alpha=3, flips=0)),
        ("sigma", lambda: Gaussian(sigma=0)),
        ("scale", lambda: Laplace(scale=-1)),
        ("neighbours", lambda: Dirichlet(r=1, alpha=1).loss("swap")),
        ("neighbours", lambda: Polya(r=1, alpha=1).loss("swap")),
        ("neighbours", lambda: Gaussian(sigma=1).loss("swap")),
        ("neighbours", lambda: Laplace(scale=1).release([1, 2], neighbours="swap")),
        ("neighbours", lambda: Gaussian.calibrate(Budget(epsilon=1, delta=1e-5), neighbours="swap")),
        ("neighbours", lambda: Polya.calibrate(Budget(epsilon=1, delta=1e-5), neighbours="swap")),
        ("rows", lambda: Gaussian(sigma=1).loss(rows=0)),
        ("lower", lambda: Dirichlet(r=1, alpha=1).loss(lower=-1.0)),
        ("tables", lambda: Dirichlet.calibrate(Budget(epsilon=1, delta=1e-5), tables=0, r=1.0)),
        ("tables", lambda: Laplace.calibrate(Budget(epsilon=1, delta=1e-5), tables=1.5)),
        ("r", lambda: Dirichlet.calibrate(Budget(epsilon=1, delta=1e-5))),
        ("cells", lambda: Dirichlet.calibrate(Budget(epsilon=1, delta=1e-5), total=10, cells=1)),
        ("order", lambda: Dirichlet(r=1, alpha=1).loss().rdp(0.5)),
        ("epsilon", lambda: Dirichlet(r=1, alpha=1).loss().delta(-1.0)),
        ("epsilon", lambda: Dirichlet(r=1, alpha=1).loss().delta("1")),
        ("delta", lambda: Dirichlet(r=1, alpha=1).loss().epsilon(-0.1)),
        ("alpha", lambda: Dirichlet(r=1.0, alpha=2.0**37 + 1)),
        ("delta", lambda: Dirichlet(r=1, alpha=1).loss().epsilon(1.5)),
        ("bounds", lambda: Dirichlet(r=1, alpha=1).loss().bounds()),
        ("order", lambda: Dirichlet.algorithm1(order=0.5, epsilon=1.0)),
        ("order", lambda: Dirichlet.algorithm1(order=math.inf, epsilon=1.0)),
        ("epsilon", lambda: Dirichlet.algorithm1(order=2, epsilon=0.0)),
        ("linf", lambda: Dirichlet.algorithm1(order=2, epsilon=1.0, l2_squared=1.0, linf=2.0)),
        ("g", lambda: Dirichlet.algorithm1(order=2, epsilon=1.0, g=lambda _: -1.0)),
        ("delta", lambda: conversion_floor(2, 1.0)),
    ],
)
def test_bad_parameters_name_themselves(name: str, call: object) -> None:
    with pytest.raises(InvalidArgument, match=f"`{name}`") as error:
        call()  # type: ignore[operator]
    assert isinstance(error.value, SimplexDPError)
    assert error.value.expectation
    assert "\n" not in str(error.value)


def test_numbers_of_numpy_are_numbers() -> None:
    loss = Dirichlet(r=np.float32(1), alpha=np.int64(9)).loss()
    assert loss.delta(np.int64(1)) == loss.delta(np.float32(1)) == loss.delta(1)
    assert isinstance(Dirichlet(r=np.float32(1), alpha=np.int64(9)).r, float)
