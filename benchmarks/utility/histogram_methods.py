"""Every way to release one histogram at one budget: parameters from the library's own exact calibration.

Replace-one neighbours with a public total. Methods with the same noise see the same noise; draws are seeded.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterable
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import xlogy

from simplexdp.accounting.conversion import rdp_for_epsilon
from simplexdp.budget import Budget
from simplexdp.errors import Infeasible
from simplexdp.estimation import Method, NoisyCounts, estimate
from simplexdp.experiments.methods.bernstein import BURN_IN, KEPT, GibbsSampler
from simplexdp.experiments.problems import Tables
from simplexdp.mechanisms import Dirichlet, Gaussian, Laplace
from simplexdp.mechanisms.auto import choose
from simplexdp.mechanisms.dirichlet import zipf_profile
from simplexdp.mechanisms.registry import AnyMechanism
from simplexdp.models.guarantee import Guarantee
from simplexdp.models.release import Release
from simplexdp.sampling.entropy import SeededEntropy

from .histogram_cases import Case
from .table import OURS

FloatArray = NDArray[np.float64]
FIXED_NOISE = {"G": "ours, G", "L": "ours, L"}
"""Ours with the noise fixed, which shows what the choice of noise brings."""
ESTIMATES: dict[str, Method] = {
    "1e-6": "clip-tiny",
    "+s/2": "clip",
    "project": "projection",
    "truncN": "truncated-normal",
}
GIBBS_CELLS = 1000
"""The sampler of Bernstein & Sheldon takes 600 sweeps, so larger tables are left out."""


@lru_cache
def gaussian(budget: Budget) -> Gaussian:
    """Discrete Gaussian noise for one table."""
    return Gaussian.calibrate(budget)


@lru_cache
def laplace(budget: Budget) -> Laplace:
    """Discrete Laplace noise for one table."""
    return Laplace.calibrate(budget)


@lru_cache
def chosen(budget: Budget, total: int, cells: int) -> AnyMechanism:
    """What the library takes, from public facts."""
    return choose(budget, total=total, cells=cells)


@lru_cache
def algorithm_1(budget: Budget) -> tuple[Dirichlet, ...]:
    """The paper's parameters at its own order, or for each order whose conversion to (ε, δ) leaves something."""
    if budget.order is not None:
        return (Dirichlet.algorithm1(order=budget.order, epsilon=budget.epsilon),)
    assert budget.delta is not None
    found = []
    for order in np.concatenate([np.linspace(1.1, 10, 20), np.geomspace(10, 2e4, 60)]):
        try:
            epsilon = rdp_for_epsilon(float(order), budget.epsilon, budget.delta)
            found.append(Dirichlet.algorithm1(order=float(order), epsilon=epsilon))
        except Infeasible:
            continue
    return tuple(found)


@lru_cache
def exact_dirichlet(budget: Budget) -> tuple[Dirichlet, ...]:
    """The exact curve of (r, α) that the budget leaves, a point at every factor 1.5 of r."""
    return tuple(Dirichlet.calibrate(budget, r=float(f"{r:.3g}")) for r in np.geomspace(1e-4, 30, 32))


def raw_draws(case: Case, budget: Budget) -> dict[str, float]:
    """Expected losses: Algorithm 1 at the best λ for this very table, exact Dirichlet at the best r for zipf(1)."""
    counts, paper = case.counts.astype(np.float64), algorithm_1(budget)
    profile = zipf_profile(case.total, case.cells)
    public = min(exact_dirichlet(budget), key=lambda mechanism: mechanism.expected_kl_of_profile(profile))
    return {
        "Algorithm 1": min((each.expected_kl_of_profile(counts) for each in paper), default=math.nan),
        "exact Dir": public.expected_kl_of_profile(counts),
    }


def released(mechanism: AnyMechanism, case: Case, entropy: SeededEntropy) -> NoisyCounts:
    """One draw in count units, as a release holds it."""
    guarantee = Guarantee(mechanisms=(mechanism,), neighbours="replace-one", unit="row", rows=1)
    values = mechanism.draw(case.counts, entropy.child(mechanism.name))
    return Release(values=values, mechanism=mechanism, guarantee=guarantee, total=float(case.total)).noisy


def kl(case: Case, probabilities: FloatArray) -> float:
    """KL(f/N ‖ q)."""
    truth = case.counts / case.total
    return float(np.sum(xlogy(truth, truth) - xlogy(truth, probabilities)))


def _normalised(counts: FloatArray) -> FloatArray:
    return np.asarray(counts / counts.sum())


def losses(case: Case, budget: Budget, seeds: Iterable[int]) -> dict[str, FloatArray]:
    """The loss of every method for each seed; constant for the raw draws, whose expectation is closed form."""
    ours = chosen(budget, case.total, case.cells)
    fixed: dict[str, AnyMechanism] = {"G": gaussian(budget), "L": laplace(budget)}
    found: dict[str, list[float]] = {OURS: []}

    def add(name: str, probabilities: FloatArray) -> None:
        found.setdefault(name, []).append(kl(case, probabilities))

    laplace_values = []
    for seed in seeds:
        entropy = SeededEntropy(zlib.crc32(f"{case.name} {seed}".encode()))
        for letter, mechanism in fixed.items():
            noisy = released(mechanism, case, entropy)
            for name, method in ESTIMATES.items():
                add(f"{letter} {name}", estimate(noisy, method).probabilities)
            add(FIXED_NOISE[letter], estimate(noisy).probabilities)
            if mechanism == ours:
                found[OURS].append(found[FIXED_NOISE[letter]][-1])
        if ours not in fixed.values():
            add(OURS, estimate(released(ours, case, entropy)).probabilities)
        laplace_values.append(noisy.values)
        floor = laplace(budget).scale
        add("Ye", _normalised(np.maximum(noisy.values, floor)))
        posterior = entropy.generator().standard_gamma(np.maximum(noisy.values, 0.0) + 1.0)
        add("Foulds", _normalised(np.maximum(posterior, 1e-300)))
    found["Bernstein"] = _bernstein_sheldon(case, np.array(laplace_values), laplace(budget).scale)
    each = {name: np.array(values) for name, values in found.items()}
    constant = {name: np.full(len(laplace_values), value) for name, value in raw_draws(case, budget).items()}
    return constant | each


def _bernstein_sheldon(case: Case, noisy: FloatArray, scale: float) -> list[float]:
    """The posterior mean of their Gibbs sampler, all seeds in one chain of vectors."""
    if case.cells > GIBBS_CELLS:
        return [math.nan] * len(noisy)
    start = np.zeros(1, dtype=np.int64)
    tables = Tables(
        counts=case.counts.astype(np.float64), row_starts=start, table_starts=start, total=case.total, shares=1
    )
    sampler, generator = GibbsSampler(tables, noisy, scale), np.random.default_rng(zlib.crc32(case.name.encode()))
    counts, theta = sampler.start(generator)
    mean = np.zeros_like(theta)
    for sweep in range(BURN_IN + KEPT):
        counts, theta = sampler.sweep(counts, theta, generator)
        if sweep >= BURN_IN:
            mean += theta
    return [kl(case, _normalised(each)) for each in mean]
