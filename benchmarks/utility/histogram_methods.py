"""Every way to release one histogram at one budget: parameters from the library's own exact calibration.

Replace-one neighbours with a public total. Methods with the same noise see the same noise, and all noises are quantiles
of their exact laws at the same uniform numbers, so that luck is shared. These are a Latin hypercube over the seeds:
each cell sees every part of the law equally often, so losses are more precise than independent seeds would make them,
and the standard errors, which do not know of it, are upper bounds.
"""

from __future__ import annotations

import math
import zlib
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import xlogy

from reproduction.methods.noisy import BURN_IN, KEPT, GibbsSampler
from reproduction.problems import Tables
from simplexdp.accounting.conversion import rdp_for_epsilon
from simplexdp.budget import Budget
from simplexdp.errors import Infeasible
from simplexdp.estimation import Method, NoisyCounts, estimate
from simplexdp.mechanisms import AnyMechanism, Dirichlet, Gaussian, Laplace
from simplexdp.mechanisms.auto import choose
from simplexdp.mechanisms.dirichlet import zipf_profile
from simplexdp.models.guarantee import Guarantee
from simplexdp.models.release import Release
from simplexdp.sampling import SeededEntropy

from .histogram_cases import Case
from .histogram_noise import draws, latin_hypercube
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


@cache
def gaussian(budget: Budget) -> Gaussian:
    """Discrete Gaussian noise for one table."""
    return Gaussian.calibrate(budget)


@cache
def laplace(budget: Budget) -> Laplace:
    """Discrete Laplace noise for one table."""
    return Laplace.calibrate(budget)


@cache
def chosen(budget: Budget, total: int, cells: int) -> AnyMechanism:
    """What the library takes, from public facts."""
    return choose(budget, total=total, cells=cells)


@cache
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


@cache
def exact_dirichlet(budget: Budget, half_octaves: int) -> Dirichlet:
    """The point of the exact curve that the budget leaves at r = 2^(half_octaves/2)."""
    return Dirichlet.calibrate(budget, r=2.0 ** (half_octaves / 2))


def best_dirichlet(case: Case, budget: Budget) -> Dirichlet:
    """The r, to a factor √2, that loses least on a zipf(1) table of this size: downhill from where it tends to be.

    `Dirichlet.calibrate` finds it more closely, but calibrates anew for every table.
    """
    profile, variance = zipf_profile(case.total, case.cells), gaussian(budget).noise_variance

    def loss(half_octaves: int) -> float:
        return exact_dirichlet(budget, half_octaves).expected_kl_of_profile(profile)

    at = round(2 * math.log2(max(case.total / (case.cells * variance), 1 / math.sqrt(variance))))
    for step in (1, -1):
        while loss(at + step) < loss(at):
            at += step
    return exact_dirichlet(budget, at)


def raw_draws(case: Case, budget: Budget) -> dict[str, float]:
    """Expected losses: Algorithm 1 at the best λ for this very table, exact Dirichlet at the best r for zipf(1)."""
    counts = case.counts.astype(np.float64)
    return {
        "Algorithm 1": min((each.expected_kl_of_profile(counts) for each in algorithm_1(budget)), default=math.nan),
        "exact Dir": best_dirichlet(case, budget).expected_kl_of_profile(counts),
    }


def released(mechanism: AnyMechanism, case: Case, values: NDArray[Any]) -> NoisyCounts:
    """Drawn values in count units, as a release holds them."""
    guarantee = Guarantee(mechanisms=(mechanism,), neighbours="replace-one", unit="row", rows=1)
    return Release(values=values, mechanism=mechanism, guarantee=guarantee, total=float(case.total)).noisy


def kl(case: Case, probabilities: FloatArray) -> float:
    """KL(f/N ‖ q)."""
    truth = case.counts / case.total
    return float(np.sum(xlogy(truth, truth) - xlogy(truth, probabilities)))


def _normalised(counts: FloatArray) -> FloatArray:
    return np.asarray(counts / counts.sum())


def losses(case: Case, budget: Budget, seeds: int) -> dict[str, FloatArray]:
    """The loss of every method for each seed."""
    return rivals(case, budget, seeds) | ours(case, budget, seeds)


def randomness(case: Case, seeds: int) -> tuple[SeededEntropy, FloatArray]:
    """Entropy and uniform numbers that depend on the name of the case alone."""
    entropy = SeededEntropy(zlib.crc32(case.name.encode()))
    return entropy, latin_hypercube(seeds, case.cells, entropy.child("uniform").generator())


def ours(case: Case, budget: Budget, seeds: int) -> dict[str, FloatArray]:
    """The default estimate from the noise that the library chooses, and from both kinds of noise."""
    entropy, uniform = randomness(case, seeds)
    mechanisms: dict[str, AnyMechanism] = {FIXED_NOISE["G"]: gaussian(budget), FIXED_NOISE["L"]: laplace(budget)}
    known: dict[AnyMechanism, FloatArray] = {}
    for mechanism in (*mechanisms.values(), chosen(budget, case.total, case.cells)):
        if mechanism not in known:
            values = draws(mechanism, case.counts, uniform, entropy)
            known[mechanism] = np.array(
                [kl(case, estimate(released(mechanism, case, each)).probabilities) for each in values]
            )
    found = {name: known[mechanism] for name, mechanism in mechanisms.items()}
    return {OURS: known[chosen(budget, case.total, case.cells)]} | found


def rivals(case: Case, budget: Budget, seeds: int, *, sampler: bool = True) -> dict[str, FloatArray]:
    """All the others; the losses of raw draws are constant, as their expectation is closed form."""
    entropy, uniform = randomness(case, seeds)
    found: dict[str, list[float]] = {}

    def add(name: str, probabilities: FloatArray) -> None:
        found.setdefault(name, []).append(kl(case, probabilities))

    mechanisms: dict[str, Gaussian | Laplace] = {"G": gaussian(budget), "L": laplace(budget)}
    for letter, mechanism in mechanisms.items():
        for values in draws(mechanism, case.counts, uniform, entropy):
            noisy = released(mechanism, case, values)
            for name, method in ESTIMATES.items():
                add(f"{letter} {name}", estimate(noisy, method).probabilities)
    scale, generator = laplace(budget).scale, entropy.child("posterior").generator()
    noisy_values = draws(laplace(budget), case.counts, uniform, entropy).astype(np.float64)
    for each in noisy_values:
        add("Ye", _normalised(np.maximum(each, scale)))
        add("Foulds", _normalised(np.maximum(generator.standard_gamma(np.maximum(each, 0.0) + 1.0), 1e-300)))
    if sampler:
        found["Bernstein"] = _bernstein_sheldon(case, noisy_values, scale)
    constant = {name: np.full(seeds, value) for name, value in raw_draws(case, budget).items()}
    return constant | {name: np.array(values) for name, values in found.items()}


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
