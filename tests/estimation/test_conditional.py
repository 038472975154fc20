from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.integrate import quad
from scipy.stats import beta, norm

from simplexdp.errors import InvalidArgument
from simplexdp.estimation import NoisyCounts, estimate_conditional
from simplexdp.estimation.beta import STRENGTHS, Proportions, beta_posterior


@pytest.mark.slow
@pytest.mark.parametrize("strength", [0.5, 8.0, 300.0, 2e4])
@pytest.mark.parametrize(
    ("z", "n", "m", "v"), [(12.0, 40.0, 0.2, 9.0), (-3.0, 30.0, 0.05, 25.0), (500.0, 900.0, 0.6, 4.0)]
)
def test_quadrature_against_adaptive_integration(strength: float, z: float, n: float, m: float, v: float) -> None:
    prior = beta(strength * m, strength * (1 - m))

    # Quantiles of the prior as the variable: no singular density at the ends.
    def moment(k: int) -> float:
        def inner(u: float) -> float:
            t = float(prior.ppf(u))
            return t**k * float(norm.pdf(z, n * t, np.sqrt(v + n * t * (1 - t))))

        peaks = np.clip(prior.cdf((z + np.sqrt(v + n / 4) * np.arange(-4.0, 5.0)) / n), 0, 1)
        return float(quad(inner, 0, 1, points=np.unique(peaks), limit=400)[0])

    total, first, second = moment(0), moment(1), moment(2)
    known = Proportions(values=np.array([z]), totals=np.array([n]), means=np.array([m]), variance=v)
    found = beta_posterior(known, np.array([strength]))
    assert found.mean[0, 0] == pytest.approx(first / total, rel=1e-2)
    # A narrow prior is taken for normal.
    assert found.variance[0, 0] == pytest.approx(second / total - (first / total) ** 2, rel=4e-2)
    assert found.log_evidence[0, 0] == pytest.approx(np.log(total), abs=3e-2)


@settings(max_examples=60, deadline=None)
@given(
    values=arrays(np.float64, st.tuples(st.integers(1, 5), st.integers(1, 6)), elements=st.floats(-1e4, 1e4)),
    scale=st.sampled_from([0.3, 10.0, 1e4]),
    slope=st.sampled_from([0.0, 0.5]),
    total=st.sampled_from([None, 1.0, 1e4]),
)
def test_any_table_gives_distributions(values: np.ndarray, scale: float, slope: float, total: float | None) -> None:
    found = estimate_conditional(NoisyCounts(values=values, variance=scale**2, slope=slope, total=total))
    assert np.all(found.rows > 0)
    assert found.rows.sum(axis=1) == pytest.approx(np.ones(len(values)), abs=1e-9)
    assert found.marginal.sum() == pytest.approx(1.0, abs=1e-9)
    assert np.all(np.isfinite(found.standard_errors))
    assert found.strengths.sum(axis=1) == pytest.approx(np.ones(len(values)))


def simulate(rows: np.ndarray, sizes: np.ndarray, scale: float, seed: int) -> NoisyCounts:
    rng = np.random.default_rng(seed)
    table = np.array([rng.multinomial(n, p) for n, p in zip(sizes, rows, strict=True)])
    values = table + scale * rng.normal(size=table.shape)
    return NoisyCounts(values=values, variance=scale**2, total=float(table.sum()))


def row_loss(truth: np.ndarray, found: np.ndarray, sizes: np.ndarray) -> float:
    return float(((truth * np.log(truth / found)).sum(axis=1) * sizes).sum() / sizes.sum())


def test_equal_rows_are_pooled() -> None:
    truth = np.tile([0.5, 0.3, 0.15, 0.05], (8, 1))
    sizes = np.full(8, 60)
    noisy = simulate(truth, sizes, 6.0, seed=1)
    found = estimate_conditional(noisy)
    alone = np.maximum(noisy.values, 0) + 3
    alone /= alone.sum(axis=1, keepdims=True)
    assert row_loss(truth, found.rows, sizes) < 0.4 * row_loss(truth, alone, sizes)
    assert np.all(found.strengths[:, STRENGTHS > 30].sum(axis=1) > 0.7)


def test_different_rows_keep_their_own() -> None:
    truth = np.array([[0.9, 0.05, 0.05], [0.05, 0.9, 0.05], [0.05, 0.05, 0.9]])
    sizes = np.array([4000, 3000, 3000])
    found = estimate_conditional(simulate(truth, sizes, 6.0, seed=2))
    assert np.abs(found.rows - truth).max() < 0.03
    assert found.marginal == pytest.approx(sizes / sizes.sum(), abs=0.01)
    assert np.all(found.strengths[:, STRENGTHS > 1000].sum(axis=1) < 0.05)


def test_an_empty_row_is_the_pooled_marginal() -> None:
    truth = np.array([[0.7, 0.2, 0.1]] * 3)
    found = estimate_conditional(simulate(truth, np.array([5000, 5000, 0]), 5.0, seed=3))
    assert found.rows[2] == pytest.approx(found.pooled, abs=0.05)


def test_standard_errors_are_the_right_size() -> None:
    """Root mean square of error/standard error over 40 tables of 6 × 4 cells (960 cells): 1.27, near 1."""
    rng = np.random.default_rng(4)
    squares = []
    for seed in range(40):
        pooled = rng.dirichlet(np.full(4, 3.0))
        truth = rng.dirichlet(20 * pooled, size=6)
        found = estimate_conditional(simulate(truth, np.full(6, 200), 8.0, seed=seed))
        squares.append(((found.rows - truth) / found.standard_errors) ** 2)
    assert 0.8 < np.sqrt(np.mean(squares)) < 1.35


def test_outside_knowledge_is_used() -> None:
    truth = np.array([[0.7, 0.2, 0.1]] * 2)
    noisy = simulate(truth, np.array([50, 50]), 40.0, seed=5)
    found = estimate_conditional(noisy, pooled=np.array([7.0, 2.0, 1.0]), row_totals=np.array([50.0, 50.0]))
    assert found.pooled == pytest.approx([0.7, 0.2, 0.1])
    assert found.marginal == pytest.approx([0.5, 0.5])
    assert np.abs(found.rows - truth).max() < 0.2


def test_bad_arguments_are_refused() -> None:
    flat = NoisyCounts(values=np.array([1.0, 2.0]), variance=1.0)
    with pytest.raises(InvalidArgument, match="`noisy`"):
        estimate_conditional(flat)
    table = NoisyCounts(values=np.ones((2, 3)), variance=1.0)
    with pytest.raises(InvalidArgument, match="`pooled`"):
        estimate_conditional(table, pooled=np.array([1.0, 2.0]))
    with pytest.raises(InvalidArgument, match="`row_totals`"):
        estimate_conditional(table, row_totals=np.array([1.0, -2.0]))
