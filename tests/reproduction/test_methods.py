"""Each method on its own formula."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import chi2, kstest

from reproduction.methods.base import pure_epsilon
from reproduction.methods.noisy import GibbsSampler
from reproduction.methods.paper import dirichlet_draws, mironov_scale
from reproduction.methods.posterior import (
    exact_delta,
    floor_of,
    likelihood_power,
    needed_prior,
    pinsker_delta,
    pinsker_weight,
    restricted_dirichlet,
)
from reproduction.methods.published import PublishedDirichlet, share_of
from reproduction.methods.registry import FURTHER, PAPER, PUBLISHED, methods
from reproduction.problems import Tables
from simplexdp import Budget, Dirichlet
from simplexdp.accounting.discrete import RandomisedResponseTerm
from simplexdp.accounting.loss import PrivacyLoss
from simplexdp.sampling import SeededEntropy

RDP, DP = Budget.rdp(order=5, epsilon=0.5), Budget(epsilon=1.0, delta=1e-5)


def tables(multiplier: float | None = None) -> Tables:
    """Two tables: three rows of four cells, and one row of three."""
    counts = np.array([[40.0, 30, 20, 10], [5, 0, 15, 80], [0, 0, 1, 99]]).ravel()
    return Tables(
        counts=np.concatenate([counts, [100.0, 100, 100]]),
        row_starts=np.array([0, 4, 8, 12]),
        table_starts=np.array([0, 12]),
        total=300,
        shares=2,
        multiplier=multiplier,
    )


def large() -> Tables:
    """A table with many records, where every method must come close at a large budget."""
    counts = np.array([4e5, 3e5, 2e5, 1e5, 1e5, 2e5, 3e5, 4e5])
    return Tables(
        counts=counts, row_starts=np.array([0, 4]), table_starts=np.array([0]), total=int(counts.sum()), shares=1
    )


ALL = sorted({m.name: m for m in (*PAPER, *FURTHER)}.items())


@pytest.mark.slow
@pytest.mark.parametrize(("name", "method"), ALL, ids=[name for name, _ in ALL])
def test_every_method_gives_distributions_and_repeats_by_its_seed(name: str, method: object) -> None:
    for regime, budget in (("rdp", RDP), ("dp", DP)):
        if regime not in method.regimes:  # type: ignore[attr-defined]
            continue
        one, same, other = (
            method.fit(tables(), budget, SeededEntropy(seed), 2)  # type: ignore[attr-defined]
            for seed in (1, 1, 2)
        )
        assert one.shape == (2, 15)
        assert np.all(one > 0)
        assert np.allclose(np.add.reduceat(one, tables().row_starts, axis=1), 1)
        assert np.array_equal(one, same)
        if name not in ("random", "non-private"):
            assert not np.array_equal(one, other)
            assert not np.array_equal(one[0], one[1])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "method"), [each for each in ALL if each[0] not in ("random", "dimitrakakis", "machanavajjhala")]
)
def test_every_method_learns_from_much_data(name: str, method: object) -> None:
    problem = large()
    truth = problem.normalise(problem.counts)
    budget = Budget(epsilon=8.0, delta=1e-5)
    found = method.fit(problem, budget, SeededEntropy(3), 2)  # type: ignore[attr-defined]
    # Wang's power of the likelihood and Gohari's guarantee are weak: they come close slowly.
    assert np.abs(found - truth).max() < 0.02


@pytest.mark.parametrize("method", PUBLISHED["dp"], ids=lambda m: m.name)
def test_published_methods_work_on_their_tables(method: object) -> None:
    found = method.fit(tables(multiplier=30.0), DP, SeededEntropy(1), 2)  # type: ignore[attr-defined]
    assert np.allclose(np.add.reduceat(found, tables().row_starts, axis=1), 1)


def test_published_alpha_is_four_times_too_small() -> None:
    """At the published r and α the exact Rényi divergence exceeds what Algorithm 1 promises for them."""
    epsilon, delta = share_of(tables(multiplier=0.2), DP)
    assert (epsilon, delta) == (5.0, 2.5e-6)
    order = 1 + 1 / 0.9
    r = Dirichlet.algorithm1(order=order, epsilon=0.9).r
    promised = Dirichlet(r=r, alpha=1 + 4 * (order - 1) * r).loss().rdp(order)
    published = Dirichlet(r=r, alpha=1 + (order - 1) * r).loss().rdp(order)
    assert promised <= 0.9 < published
    assert PublishedDirichlet().fit(tables(multiplier=30.0), DP, SeededEntropy(1), 1).shape == (1, 15)


def test_registry() -> None:
    assert [m.name for m in methods("rdp", published=True)] == [
        "random",
        "non-private",
        "algorithm1",
        "gaussian-clip",
        "laplace-clip",
    ]
    assert "gohari" not in [m.name for m in methods("rdp", published=False)]
    assert len(methods("dp", published=False)) == len(PAPER) + len(FURTHER)


def test_dirichlet_draws_have_the_dirichlet_mean_and_variance() -> None:
    problem = tables()
    draws = dirichlet_draws(problem, 0.3, 2.0, SeededEntropy(5), 4000)
    shapes = 0.3 * problem.counts + 2.0
    total = np.repeat(np.add.reduceat(shapes, problem.row_starts), problem.row_sizes)
    mean, variance = shapes / total, shapes * (total - shapes) / (total**2 * (total + 1))
    # 15 cells, 5 standard errors: significance about 1e-5.
    assert np.all(np.abs(draws.mean(axis=0) - mean) < 5 * np.sqrt(variance / 4000))
    assert np.all(np.abs(draws.var(axis=0) / variance - 1) < 0.2)


def test_mironov_scale_inverts_his_corollary() -> None:
    for order, epsilon in ((5.0, 1e-4), (5.0, 0.3), (2.0, 3.0)):
        t = 2 / mironov_scale(order, epsilon)
        inside = order / (2 * order - 1) * math.exp((order - 1) * t) + (order - 1) / (2 * order - 1) * math.exp(
            -order * t
        )
        assert math.log(inside) / (order - 1) == pytest.approx(epsilon, rel=1e-6)


def test_pure_epsilon_composes_to_the_budget() -> None:
    for budget in (RDP, DP):
        epsilon = pure_epsilon(budget, 10)
        loss = PrivacyLoss("replace-one", (((RandomisedResponseTerm(epsilon=epsilon), 10),),))
        assert loss.fits(budget)
        more = PrivacyLoss("replace-one", (((RandomisedResponseTerm(epsilon=1.01 * epsilon), 10),),))
        assert not more.fits(budget)
        assert epsilon > DP.epsilon / 10 if budget is DP else epsilon > 0


def test_machanavajjhala_prior_is_tight() -> None:
    """The likeliest tell-tale is that all m synthetic records fall into the moved record's cell."""
    records, epsilon = 7, 0.8
    alpha = needed_prior(records, epsilon)

    def all_in_first(count: int, total: float) -> float:
        return math.prod((count + alpha + i) / (total + i) for i in range(records))

    total = 3 + 2 * alpha  # three records in two cells
    ratios = [all_in_first(c + 1, total) / all_in_first(c, total) for c in range(3)]
    assert max(ratios) == pytest.approx(math.exp(epsilon))
    assert ratios == sorted(ratios, reverse=True)


def test_wang_restricts_and_pays() -> None:
    gamma = floor_of(10)
    assert likelihood_power(0.4, gamma) == pytest.approx(0.4 / (4 * math.log(1 / gamma)))
    assert likelihood_power(1e9, gamma) == 1.0
    shapes = np.array([0.5, 0.5, 3.0])
    draws = restricted_dirichlet(shapes, 0.05, np.random.default_rng(1), 2000)
    assert draws.min() >= 0.05
    free = np.random.default_rng(2).dirichlet(shapes, 40000)
    kept = free[free.min(axis=1) >= 0.05]
    # Two-sample check of the mean at 5 standard errors, 2000 draws.
    error = np.sqrt(kept.var(axis=0) * (1 / 2000 + 1 / len(kept)))
    assert np.all(np.abs(draws.mean(axis=0) - kept.mean(axis=0)) < 5 * error)
    assert np.any(np.abs(draws.mean(axis=0) - free.mean(axis=0)) > 5 * error)  # the unrestricted law is rejected


def test_the_privacy_loss_of_the_restricted_law_is_bounded_by_wangs_epsilon() -> None:
    """|r ln(y_i/y_j)| plus the change of the normaliser is at most 4 r ln(1/γ); the normaliser is simulated."""
    r, gamma = 0.5, 0.02
    generator = np.random.default_rng(3)
    free = generator.dirichlet([1.0, 1.0, 1.0], 200000)
    inside = free[free.min(axis=1) >= gamma]
    counts = np.array([3.0, 0.0, 1.0])
    moved = np.array([2.0, 1.0, 1.0])
    logs = np.log(inside)
    normaliser = math.log(np.exp(r * logs @ counts).mean() / np.exp(r * logs @ moved).mean())
    worst = np.abs(r * (logs[:, 0] - logs[:, 1]) - normaliser).max()
    assert worst <= 4 * r * math.log(1 / gamma)


def test_dimitrakakis_bound_is_above_the_exact_delta() -> None:
    for r, alpha in ((1.0, 1.0), (0.1, 1.0), (0.5, 20.0)):
        mechanism = Dirichlet(r=r, alpha=alpha)
        exact, bound = exact_delta(mechanism), pinsker_delta(mechanism)
        assert exact <= bound <= 2 * exact
    assert exact_delta(Dirichlet(r=1.0, alpha=1.0)) == pytest.approx(0.5)
    r = pinsker_weight(1e-5, 20)
    assert pinsker_delta(Dirichlet(r=r, alpha=1.0), 20) == pytest.approx(1e-5, rel=1e-4)


# -- the Gibbs sampler by simulation-based calibration ---------------------------------------------------------------

RUNS, KEPT, THIN, BURN_IN = 400, 19, 8, 60


def ranks(scale_told: float) -> np.ndarray:
    """Ranks of the true θ among posterior draws, for 400 simulated tables of four cells (Talts et al. 2018)."""
    generator = np.random.default_rng(7)
    prior, total, scale = 6.0, 2000, 15.0
    problem = Tables(counts=np.zeros(4), row_starts=np.array([0]), table_starts=np.array([0]), total=total, shares=1)
    theta = generator.dirichlet([prior] * 4, RUNS)
    noisy = np.array([generator.multinomial(total, row) for row in theta]) + generator.laplace(0, scale, (RUNS, 4))
    sampler = GibbsSampler(problem, noisy, scale_told, prior)
    counts, draw = sampler.start(generator)
    below = np.zeros((RUNS, 4), dtype=int)
    for sweep in range(BURN_IN + KEPT * THIN):
        counts, draw = sampler.sweep(counts, draw, generator)
        if sweep >= BURN_IN and (sweep - BURN_IN) % THIN == THIN - 1:
            below += draw < theta
    return below


def uniformity(below: np.ndarray) -> float:
    """p-value of a chi-square test that the ranks of the first cell are uniform on 0 ... 19, in ten bins."""
    observed = np.bincount(below[:, 0] // 2, minlength=10)
    return float(chi2.sf(((observed - RUNS / 10) ** 2 / (RUNS / 10)).sum(), 9))


def test_the_gibbs_sampler_is_calibrated_and_a_wrong_scale_is_not() -> None:
    assert uniformity(ranks(15.0)) > 1e-3
    assert uniformity(ranks(60.0)) < 1e-3  # told four times the noise: ranks pile up in the middle


def test_gibbs_precisions_mix_to_laplace_noise() -> None:
    """With 1/v inverse Gaussian given the distance, N(0, v) noise around it is the Laplace law again."""
    generator = np.random.default_rng(11)
    problem = Tables(counts=np.zeros(4000), row_starts=np.array([0]), table_starts=np.array([0]), total=1, shares=1)
    noise = generator.laplace(0, 3.0, (1, 4000))
    sampler = GibbsSampler(problem, noise, 3.0)
    precision = sampler.draw_precisions(np.zeros((1, 4000)), generator)
    # v given the distance, averaged over Laplace distances, is exponential with mean 2b²; 4000 draws, level 1e-3.
    assert kstest(1 / precision[0], "expon", args=(0, 18.0)).pvalue > 1e-3
    assert kstest(1 / precision[0], "expon", args=(0, 24.0)).pvalue < 1e-3
