"""Estimates behind naive Bayes: pooled classes, shrunk strata, the temperature."""

from __future__ import annotations

import numpy as np
import pytest

from simplexdp import NoisyCounts
from simplexdp.estimation.strata import class_estimate, estimate_strata, pooled_classes, temperature


def noisy(counts: np.ndarray, variance: float, rng: np.random.Generator, total: float | None = None) -> NoisyCounts:
    return NoisyCounts(values=counts + rng.normal(0, variance**0.5, counts.shape), variance=variance, total=total)


def test_class_sums_are_weighted_by_their_precision() -> None:
    fine = NoisyCounts(values=np.array([[10.0, 20.0], [10.0, 20.0]]), variance=1.0, total=60)
    coarse = NoisyCounts(values=np.array([[15.0, 15.0], [15.0, 15.0]]), variance=9.0, total=60)
    pooled = pooled_classes([fine, coarse])
    np.testing.assert_allclose(pooled.values, (9 * np.array([20, 40]) + np.array([30, 30])) / 10)
    assert pooled.variance == pytest.approx(1 / (1 / 2 + 1 / 18))


@pytest.mark.slow
def test_the_pooled_variance_is_the_variance_of_the_pooled_noise() -> None:
    """20,000 draws, three tables of different size and noise: within 5 % (standard error 1 %); half would fail."""
    rng = np.random.default_rng(5)
    found = []
    for _ in range(20_000):
        tables = [
            noisy(np.zeros((cells, 2)), variance, rng, 10.0) for cells, variance in ((3, 4.0), (10, 1.0), (2, 9.0))
        ]
        found.append(pooled_classes(tables).values[0])
    stated = pooled_classes(tables).variance
    assert np.var(found) == pytest.approx(stated, rel=0.05)
    assert np.var(found) != pytest.approx(stated / 2, rel=0.05)


def test_a_class_table_alone_is_enough() -> None:
    alone = NoisyCounts(values=np.array([30.0, 70.0]), variance=0.01, total=100)
    np.testing.assert_allclose(class_estimate([], [alone]).probabilities, [0.3, 0.7], atol=0.01)


def test_without_noise_the_conditionals_are_the_shares() -> None:
    counts = np.array([[300.0, 10], [500, 40], [200, 950]])
    strata = estimate_strata([NoisyCounts(values=counts, variance=1e-6, total=2000)], counts.sum(axis=0), np.zeros(2))
    np.testing.assert_allclose(strata.conditionals[0], (counts / counts.sum(axis=0)).T, atol=0.01)
    np.testing.assert_allclose(strata.marginals[0], counts.sum(axis=1) / 2000, atol=0.01)


def test_under_overwhelming_noise_every_class_is_the_pooled_marginal() -> None:
    rng = np.random.default_rng(0)
    tables = [noisy(np.full((4, 2), 25.0), 1e6, rng, 200.0) for _ in range(5)]
    strata = estimate_strata(tables, np.array([100.0, 100.0]), np.array([1.0, 1.0]))
    for conditional, marginal in zip(strata.conditionals, strata.marginals, strict=True):
        np.testing.assert_allclose(conditional, np.tile(marginal, (2, 1)), atol=0.05)


def test_shrinkage_loses_less_than_clipping() -> None:
    """60 models of 8 weakly informative features, noise 20 on rows of 300: mean KL below 0.8 of clip-and-add's."""
    rng = np.random.default_rng(3)
    ours, clipped = [], []
    for _ in range(60):
        tables, truths = [], []
        for _ in range(8):
            marginal = rng.dirichlet(np.ones(6))
            truth = np.array([rng.dirichlet(200 * marginal + 1e-3) for _ in range(2)])
            counts = np.array([rng.multinomial(300, row) for row in truth]).T.astype(float)
            tables.append(noisy(counts, 400.0, rng, 600.0))
            truths.append(truth)
        strata = estimate_strata(tables, np.array([300.0, 300.0]), np.zeros(2))
        for table, truth, found in zip(tables, truths, strata.conditionals, strict=True):
            simple = np.maximum(table.values.T, 0) + 10.0
            simple /= simple.sum(axis=1, keepdims=True)
            ours.append((truth * np.log((truth + 1e-12) / found)).sum())
            clipped.append((truth * np.log((truth + 1e-12) / simple)).sum())
    assert np.mean(ours) < 0.8 * np.mean(clipped)


def test_the_temperature_trusts_one_feature_and_tempers_many() -> None:
    counts = np.array([[900.0, 100], [100, 900]])
    one = NoisyCounts(values=counts, variance=1e-6, total=2000)
    classes = np.array([0.5, 0.5])
    betas = [
        temperature(estimate_strata([one] * k, np.array([1000.0, 1000.0]), np.zeros(2)), classes) for k in (1, 4, 16)
    ]
    assert betas[0] == pytest.approx(1, abs=1e-6)
    assert betas[0] > betas[1] > betas[2] > 0.2
