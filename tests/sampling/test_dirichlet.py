"""The floating-point Dirichlet draw: its law, and that it is always a distribution."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sampling_support import SIGNIFICANCE
from scipy import stats

from simplexdp.errors import InvalidArgument
from simplexdp.sampling import SecureEntropy, SeededEntropy
from simplexdp.sampling.dirichlet import SMALLEST, dirichlet


def is_distribution(y: np.ndarray) -> bool:
    return bool(np.isfinite(y).all() and y.min() >= SMALLEST and np.abs(y.sum(axis=-1) - 1).max() < 1e-12)


@pytest.mark.parametrize(
    "shapes", [(2.0, 3.0), (0.5, 0.7), (1e-3, 2e-3), (1.0, 1.0), (0.2, 30.0), (1e4, 3e4), (1e-9, 1e-9)]
)
def test_margins_are_beta(shapes: tuple[float, float]) -> None:
    """Kolmogorov–Smirnov at 1e-4 with 20,000 draws; shapes that are 10 % off are rejected."""
    a, b = shapes
    draws = dirichlet(np.tile([a, b], (20_000, 1)), SeededEntropy(11))
    assert is_distribution(draws)
    # Where the law piles up within a rounding error of 0 or 1 a float shows a step, so the test looks at the
    # middle.
    inner = draws[:, 0][(draws[:, 0] > 1e-12) & (draws[:, 1] > 1e-12)]
    low, high = stats.beta.cdf([1e-12, 1 - 1e-12], a, b)
    weight = stats.binomtest(inner.size, 20_000, high - low).pvalue if high - low < 1 else 1.0
    assert weight > SIGNIFICANCE
    if inner.size > 200:
        assert stats.kstest(inner, lambda x: (stats.beta.cdf(x, a, b) - low) / (high - low)).pvalue > SIGNIFICANCE
        wrong = stats.kstest(draws[:, 0], stats.beta(a * 1.1, b * 1.0).cdf).pvalue
        assert wrong < SIGNIFICANCE


def test_tiny_shapes_pick_one_cell_in_proportion() -> None:
    """As the total goes to 0 the draw is all but one corner, with probability a_i/Σa: chi-square at 1e-4,
    20,000 draws."""
    shapes = np.array([1e-12, 2e-12, 3e-12, 4e-12])
    draws = dirichlet(np.tile(shapes, (20_000, 1)), SeededEntropy(5))
    corner = np.bincount(draws.argmax(axis=1), minlength=4)
    assert is_distribution(draws)
    assert (draws.max(axis=1) > 1 - 1e-9).mean() > 0.999
    assert stats.chisquare(corner, 20_000 * shapes / shapes.sum()).pvalue > SIGNIFICANCE
    assert stats.chisquare(corner, [5000] * 4).pvalue < SIGNIFICANCE


def test_moments_of_mixed_shapes() -> None:
    """Means and variances of 50,000 draws, within 6 standard errors of the mean and 5 % of the variance."""
    shapes = np.array([0.3, 1.0, 2.5, 40.0])
    total = shapes.sum()
    draws = dirichlet(np.tile(shapes, (50_000, 1)), SeededEntropy(6))
    mean = shapes / total
    variance = mean * (1 - mean) / (total + 1)
    assert np.all(np.abs(draws.mean(axis=0) - mean) < 6 * np.sqrt(variance / 50_000))
    assert np.all(np.abs(draws.var(axis=0) / variance - 1) < 0.07)


@settings(max_examples=150, deadline=None)
@given(
    log_total=st.floats(-12, 15),
    cells=st.integers(2, 300),
    rows=st.integers(1, 4),
    skew=st.floats(0, 8),
    seed=st.integers(0, 1000),
)
def test_always_a_distribution(log_total: float, cells: int, rows: int, skew: float, seed: int) -> None:
    weights = np.random.default_rng(seed).random((rows, cells)) ** skew + 1e-12
    shapes = 10**log_total * weights / weights.sum(axis=1, keepdims=True)
    assert is_distribution(dirichlet(shapes, SeededEntropy(seed)))


@pytest.mark.parametrize("total", [1e-12, 1.0, 1e6, 1e15])
@pytest.mark.parametrize("cells", [2, 100_000])
def test_always_a_distribution_with_secure_entropy(total: float, cells: int) -> None:
    assert is_distribution(dirichlet(np.full(cells, total / cells), SecureEntropy()))


@pytest.mark.slow
def test_ten_million_cells() -> None:
    assert is_distribution(dirichlet(np.full(10_000_000, 1e-19), SeededEntropy(1)))


def test_the_order_in_memory_costs_no_digits() -> None:
    shapes = np.asfortranarray(np.full((3, 2_000_000), 1.5))
    assert is_distribution(dirichlet(shapes, SeededEntropy(1)))


def test_one_heavy_cell_beside_the_lightest() -> None:
    y = dirichlet(np.array([1e290, 1e290, 1e-290, 1.0]), SeededEntropy(1))
    assert is_distribution(y)
    assert y[2] == SMALLEST


def test_rows_are_independent_and_the_shape_is_kept() -> None:
    """Correlation of 20,000 pairs of rows within 5 standard errors (p = 6e-7)."""
    draws = dirichlet(np.full((20_000, 2, 3), 0.8), SeededEntropy(9))
    assert draws.shape == (20_000, 2, 3)
    assert abs(np.corrcoef(draws[:, 0, 0], draws[:, 1, 0])[0, 1]) < 5 / np.sqrt(20_000)
    assert dirichlet(np.ones((0, 3)), SeededEntropy(1)).shape == (0, 3)


@pytest.mark.parametrize(
    "shapes",
    [
        [77.5],
        77.5,
        [77.5, 0.0],
        [77.5, -1.0],
        [77.5, np.nan],
        [77.5, np.inf],
        [77.5, 5e-324],
        np.ones((3, 0)),
    ],
)
def test_bad_shapes_are_refused_and_not_shown(shapes: object) -> None:
    with pytest.raises(InvalidArgument) as caught:
        dirichlet(shapes, SeededEntropy(1))  # type: ignore[arg-type]
    assert caught.value.name == "shape_parameters"
    assert "77" not in str(caught.value)
