"""Ordered values by halving: exact without noise, better with order, unharmed where the order says nothing."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simplexdp.estimation import NoisyCounts
from simplexdp.estimation.strata import estimate_strata, halve
from simplexdp.models.model import cell_order
from simplexdp.schema import Categories, Numeric, Quantiles

CLASSES = np.array([1500.0, 1500.0])


def features(rng: np.random.Generator, number: int, scale: float) -> tuple[list[NoisyCounts], list[np.ndarray]]:
    """Ten ordered values whose log-odds between two classes are a line of random slope."""
    tables, truths = [], []
    line = np.linspace(-1, 1, 10)
    for _ in range(number):
        truth = np.exp(np.outer([-0.5, 0.5], line) * rng.normal()) / 10
        truth /= truth.sum(axis=1, keepdims=True)
        counts = np.array([rng.multinomial(1500, row) for row in truth]).T
        values = counts + scale * rng.normal(size=counts.shape)
        tables.append(NoisyCounts(values=values, variance=scale**2, total=3000))
        truths.append(truth)
    return tables, truths


def loss(tables: list[NoisyCounts], truths: list[np.ndarray], orders: list[np.ndarray] | None) -> float:
    """Mean squared error of the log-odds between the classes."""
    found = estimate_strata(tables, CLASSES, np.zeros(2), orders).conditionals
    return float(np.mean([np.diff(np.log(q / t), axis=0) ** 2 for t, q in zip(truths, found, strict=True)]))


@settings(max_examples=30, deadline=None)
@given(
    seed=st.integers(0, 2**32), cells=st.integers(2, 9), classes=st.integers(1, 4), slope=st.sampled_from([0.0, 0.3])
)
def test_any_table_gives_distributions(seed: int, cells: int, classes: int, slope: float) -> None:
    rng = np.random.default_rng(seed)
    table = NoisyCounts(values=rng.normal(0, 100, (cells, classes)), variance=1e4, slope=slope, total=500)
    order = rng.permutation(cells)
    (found,) = halve([table], [order], [np.full(cells, 1 / cells)], np.full(classes, 500 / classes), np.ones(classes))
    assert (found.mean > 0).all()
    np.testing.assert_allclose(found.mean.sum(axis=1), 1)
    assert (found.second >= found.mean**2 - 1e-12).all()
    assert np.isfinite(found.evidence)


def test_without_noise_the_shares_are_those_of_the_counts() -> None:
    counts = np.array([[300.0, 10], [500, 40], [200, 950], [0, 0]])
    table = NoisyCounts(values=counts, variance=1e-6, total=2000)
    marginal = (counts.sum(axis=1) + 1) / 2004
    (found,) = halve([table], [np.array([2, 0, 3, 1])], [marginal], counts.sum(axis=0), np.zeros(2))
    np.testing.assert_allclose(found.mean, (counts / counts.sum(axis=0)).T, atol=0.01)
    assert found.evidence > 100


@pytest.mark.slow
def test_order_pays_where_there_is_a_trend() -> None:
    """20 models of 16 features, noise 50 on cells of about 150: at most 0.75 of the loss; a wrong order is idle."""
    rng = np.random.default_rng(2)
    without, ordered, shuffled = [], [], []
    for _ in range(20):
        tables, truths = features(rng, 16, 50.0)
        without.append(loss(tables, truths, None))
        ordered.append(loss(tables, truths, [np.arange(10)] * 16))
        shuffled.append(loss(tables, truths, [rng.permutation(10) for _ in range(16)]))
    assert np.mean(ordered) < 0.75 * np.mean(without)
    assert not np.mean(shuffled) < 0.75 * np.mean(without)
    assert np.mean(shuffled) < 1.05 * np.mean(without)


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        (Categories(["b", "a"]), None),
        (Categories([True, False]), None),
        (Categories([3, 1, 2], missing="cell"), [1, 2, 0, 3]),
        (Numeric([0, 10, 20], own=[15, -1], outside="cell"), [1, 2, 3, 0, 4]),
        (Quantiles(3, lower=0, upper=1), [0, 1, 2]),
    ],
    ids=str,
)
def test_the_order_of_cells(column: Categories | Numeric | Quantiles, expected: list[int] | None) -> None:
    found = cell_order(column)
    assert (None if found is None else found.tolist()) == expected
