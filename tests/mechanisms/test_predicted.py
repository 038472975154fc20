"""Predicted loss: against enumeration, its shape, and whether it picks the noise that loses less."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import xlogy
from scipy.stats import nbinom

from simplexdp import Budget
from simplexdp.estimation import NoisyCounts, estimate
from simplexdp.mechanisms import Gaussian, Laplace, Polya
from simplexdp.mechanisms.auto import Reference, _risk, choose, least_loss_shares, predicted_loss, sparse, zipf
from simplexdp.noisy import NoiseLaw
from simplexdp.planning import plan_tables, shares


def enumerated(shape: str, variance: float, table: Reference) -> float:
    """E[f ln(f/m(z)) − f + m(z)] over all whole counts and released values."""
    f = np.arange(0, 3000)
    prior = sum(
        share * (nbinom.pmf(f, k, k / (k + mean)) if mean > 0 else (f == 0))
        for share, k, mean in zip(table.shares, table.shapes, table.means, strict=True)
    )
    z = np.arange(-150, 3150)
    noise = z[:, None] - f
    density = np.exp(-np.abs(noise) * np.sqrt(2 / variance) if shape == "laplace" else -0.5 * noise**2 / variance)
    density /= density.sum(axis=0)
    posterior = (density * prior) @ f / np.maximum((density * prior).sum(axis=1), 1e-300)
    logs = np.log(np.maximum(posterior, 1e-300)) @ density
    return float(prior @ (xlogy(f, f) - f - f * logs + posterior @ density))


@pytest.mark.slow
@pytest.mark.parametrize("shape", ["normal", "laplace"])
@pytest.mark.parametrize("variance", [0.3, 4.0, 90.0])
@pytest.mark.parametrize("reference", [zipf(1.0), sparse])
def test_the_risk_is_that_of_enumeration(shape, variance, reference):
    table = reference(1000.0, 50)
    assert _risk(NoiseLaw(noise=shape, variance=variance), table) == pytest.approx(
        enumerated(shape, variance, table), rel=0.06
    )


@pytest.mark.parametrize("shape", ["normal", "laplace"])
@pytest.mark.parametrize(("total", "cells"), [(1e3, 2), (1e4, 100), (1e6, 100_000)])
def test_it_grows_with_the_noise(shape, total, cells):
    losses = [
        predicted_loss(NoiseLaw(noise=shape, variance=v), total=total, cells=cells) for v in np.geomspace(0.05, 1e7, 9)
    ]
    assert (np.diff(losses) > 0).all()
    steep = NoiseLaw(noise=shape, variance=5.0, slope=1.0)
    assert predicted_loss(steep, total=total, cells=cells) > predicted_loss(
        NoiseLaw(noise=shape, variance=5.0), total=total, cells=cells
    )


def simulated(mechanism: Gaussian | Laplace, counts: np.ndarray, uniform: np.ndarray) -> float:
    """Mean KL of the default estimate; noise as quantiles, so that both mechanisms have the same luck."""
    law, shape = mechanism._noise(), "laplace" if isinstance(mechanism, Laplace) else "normal"
    p, losses = counts / counts.sum(), []
    for row in np.searchsorted(np.cumsum(law.probabilities), uniform):
        noisy = counts + law.values[np.minimum(row, law.values.size - 1)]
        release = NoisyCounts(values=noisy, variance=mechanism.continuous_variance, total=counts.sum(), noise=shape)
        losses.append(np.sum(xlogy(p, p) - xlogy(p, estimate(release).probabilities)))
    return float(np.mean(losses))


@pytest.mark.slow
def test_it_picks_the_noise_that_loses_less():
    """Over tables, noise levels and variance ratios where the two differ by more than 10 %: 90 % right."""
    rng = np.random.default_rng(11)
    right, wrong_scale = [], []
    tables = [
        (4, 200, 24, "Dirichlet"),
        (12, 30, 12, "geometric"),
        (30, 10, 6, "sparse"),
        (30, 300, 6, "zipf"),
        (80, 5, 4, "zipf"),
    ]
    for cells, per_cell, seeds, family in tables:
        weights = {
            "Dirichlet": rng.dirichlet(np.ones(cells)),
            "geometric": 0.7 ** np.arange(cells),
            "zipf": 1 / np.arange(1, cells + 1),
            "sparse": np.where(np.arange(cells) < cells // 10, 1.0, 0.0),
        }[family]
        counts = rng.multinomial(cells * per_cell, weights / weights.sum())
        uniform = (np.argsort(rng.random((seeds, cells)), axis=0) + rng.random((seeds, cells))) / seeds
        for deviation in (3.0, 30.0):
            laplace = Laplace(scale=deviation / np.sqrt(2))
            loss_laplace = simulated(laplace, counts, uniform)
            for ratio in (0.5, 0.95, 1.5):  # as at (5, ε)-RDP and at small ε with δ = 1e-5
                gaussian = Gaussian(sigma=deviation * np.sqrt(ratio))
                gain = np.log(simulated(gaussian, counts, uniform) / loss_laplace)
                if abs(gain) < np.log(1.1):
                    continue
                size = {"total": float(counts.sum()), "cells": cells}
                predicted = [predicted_loss(each.law, **size) for each in (gaussian, laplace)]
                right.append((predicted[0] < predicted[1]) == (gain < 0))
                doubled = NoiseLaw(noise="laplace", variance=4 * laplace.continuous_variance)
                wrong_scale.append((predicted[0] < predicted_loss(doubled, **size)) == (gain < 0))
    assert len(right) >= 15
    assert np.mean(right) >= 0.9
    assert np.mean(wrong_scale) < 0.9  # a prediction for twice the noise would not do


def test_the_choice_follows_the_prediction():
    one = Budget(epsilon=1.0, delta=1e-5)
    assert isinstance(choose(one, total=1e4, cells=500), Laplace)
    assert isinstance(choose(one, tables=60, total=1e4, cells=500), Gaussian | Polya)
    assert isinstance(choose(Budget.rdp(order=5, epsilon=0.01), total=1e4, cells=500), Gaussian | Polya)


@pytest.mark.slow
@pytest.mark.parametrize("cells", [170, 1000])
def test_no_millions_of_coin_flips_for_nothing(cells):
    """Where nothing can be learnt all noises lose alike, and Pólya noise would flip 4 million coins for each cell."""
    assert isinstance(choose(Budget(epsilon=0.01, delta=1e-5), tables=65, total=3933.0, cells=cells), Gaussian)


def test_where_the_tails_decide():
    """At ε = 0.01 and δ = 1e-5 Gaussian noise has 1.5 times the variance, but little of it looks like a large count."""
    budget = Budget(epsilon=0.01, delta=1e-5)
    assert Gaussian.calibrate(budget).noise_variance > 1.4 * Laplace.calibrate(budget).noise_variance
    assert isinstance(choose(budget, total=100_000, cells=100_000), Gaussian | Polya)
    assert isinstance(choose(budget, total=1_000_000, cells=100), Laplace)


def test_without_a_public_size_the_smaller_variance_is_taken():
    assert isinstance(choose(Budget(epsilon=1.0, delta=1e-5), neighbours="add-remove"), Laplace)
    assert isinstance(choose(Budget.rdp(order=5, epsilon=0.01), neighbours="add-remove"), Gaussian)


def summed_loss(shares: list[float], sizes: list[int], variance: float, total: float) -> float:
    """Predicted, when noise variances are in inverse proportion to the shares."""
    laws = [NoiseLaw(noise="normal", variance=variance / (len(sizes) * share)) for share in shares]
    return sum(predicted_loss(law, total=total, cells=size) for law, size in zip(laws, sizes, strict=True))


@pytest.mark.parametrize("sizes", [[2, 6, 10, 200], [5, 5, 5, 60], [1, 3, 3000]])
@pytest.mark.parametrize(("variance", "total"), [(10.0, 2e4), (900.0, 3e3)])
def test_the_split_loses_less_than_simpler_ones(sizes, variance, total):
    found = least_loss_shares(sizes, variance=variance, total=total)
    assert sum(found) == pytest.approx(1.0)
    assert found == [found[sizes.index(size)] for size in sizes]  # equal tables get equal shares
    known = [max(2, size) for size in sizes]
    best = summed_loss(found, known, variance, total)
    assert best < 0.95 * summed_loss([1 / len(sizes)] * len(sizes), known, variance, total)
    assert best < 1.02 * summed_loss(shares("cells", sizes, [()] * len(sizes)), known, variance, total)


def test_plans_split_by_loss():
    columns, sizes = [("a",), ("b",)], [(4,), (400,)]
    budget = Budget(epsilon=1.0, delta=1e-5)
    plan = plan_tables(columns, sizes, budget, mechanism="gaussian", split="loss", total=20_000)
    small, large = (each.noise_variance for each in plan.mechanisms)
    assert small > 10 * large
    assert plan.guarantee.loss.fits(budget)
    unknown = plan_tables(columns, sizes, budget, mechanism="gaussian", split="loss", neighbours="add-remove")
    assert unknown == plan_tables(columns, sizes, budget, mechanism="gaussian", split="cells", neighbours="add-remove")


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [1e-6, 100.0, 1000.0])
@pytest.mark.parametrize("total", [1.0, 1e9])
def test_budgets_far_from_any_use_still_have_a_choice(epsilon, total):
    """Noise far below one count leaves no bins up to a count; far above, Pólya noise is out of reach."""
    budget = Budget(epsilon=epsilon, delta=1e-5)
    assert choose(budget, total=total, cells=3).loss().fits(budget)


def test_nothing_is_predicted_of_no_records():
    budget = Budget(epsilon=1.0, delta=1e-5)
    assert choose(budget, total=0.0, cells=3) == choose(budget, cells=3)
    empty = plan_tables([["a"], ["b"]], [[2], [9]], budget, split="loss", total=0.0)
    assert empty.mechanisms == plan_tables([["a"], ["b"]], [[2], [9]], budget, split="cells").mechanisms
