"""How close to the best of all rivals any estimate of a small table can come: exact, no simulation.

The risk R(f; q) = E KL(f/N ‖ q(z)) of an estimate q of the released z is convex in q, so with B(f) the best rival's
risk at f, the least worst ratio min_q max_f R(f; q)/B(f) is the value of a convex game. Its dual is a bound that no
estimate can beat: for weights w, the posterior mean under the prior w/B attains min_q Σ w(f) R(f; q)/B(f). Every
rival has noise of its own (replace-one neighbours, N public) and Algorithm 1 even the best order λ for each f; ours
is the sum-zero Laplace noise (t, −t) with P(t) ∝ e^{−ε|t|}, whose likelihood is the same for all z ≤ 0 and all z ≥ N.

With many cells the balance of the noise says nothing about one of them. A cell of count f whose fellows are large and
well known loses f ln(f/q) − f + q, whatever the rest of the table: the second part is the game of that cell alone.

Run `python -m benchmarks frontier [--quick]`.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from functools import partial

import numpy as np
from numpy.typing import NDArray
from scipy.special import betainc, digamma, gammaln, xlogy

from simplexdp.budget import Budget
from simplexdp.estimation import NoisyCounts, estimate
from simplexdp.estimation.values import truncated_normal_mean
from simplexdp.mechanisms import Dirichlet

from .utility.histogram_methods import algorithm_1, gaussian

FloatArray = NDArray[np.float64]
Curve = Callable[[FloatArray], FloatArray]
TINY = 1e-6
CLOSE, WORST = 1.05, 1.5
"""The project's targets: within 5 % of the best rival almost everywhere, never above 1.5 ×."""


# ---- rivals -------------------------------------------------------------------------------------------------
def normal_noise(sigma: float) -> tuple[FloatArray, FloatArray]:
    """Nodes and weights that integrate against N(0, σ²): fine enough for a clip at 0."""
    nodes = np.linspace(-7.0, 7.0, 401)
    weights = np.exp(-0.5 * nodes * nodes)
    return sigma * nodes, weights / weights.sum()


def laplace_noise(scale: float) -> tuple[FloatArray, FloatArray]:
    """Atoms of discrete Laplace noise, every few of them where it is wide."""
    step = max(1, round(scale / 8))
    nodes = step * np.arange(-math.ceil(25 * scale / step), math.ceil(25 * scale / step) + 1.0)
    weights = np.exp(-np.abs(nodes) / scale)
    return nodes, weights / weights.sum()


def separable(total: int, noise: tuple[FloatArray, FloatArray], clip: Curve, own: Curve, both: Curve) -> FloatArray:
    """Risk at f = 0 … N of −ln q_i = both(Σc) − own(c_i), c = clip(z), with independent noise."""
    nodes, weights = noise
    counts = np.arange(total + 1.0)
    clipped = clip(counts[:, None] + nodes)
    mean_own = own(clipped) @ weights
    coarse = slice(None, None, max(1, nodes.size // 130))
    few, mass = clipped[:, coarse], weights[coarse] / weights[coarse].sum()
    share = counts / total
    risk = np.empty(total + 1)
    for f in range(total // 2 + 1):
        mean_both = float(mass @ both(few[f][:, None] + few[total - f][None]) @ mass)
        risk[f] = risk[total - f] = mean_both - share[f] * mean_own[f] - share[total - f] * mean_own[total - f]
    return risk + xlogy(share, share) + xlogy(1 - share, 1 - share)


def lifted(lift: float, values: FloatArray) -> FloatArray:
    """Clip at zero and add."""
    return np.maximum(values, 0.0) + lift


def of_difference(total: int, noise: tuple[FloatArray, FloatArray], first: Curve) -> FloatArray:
    """Risk of an estimate of two cells that depends on z₁ − z₂ only, as `first`(z₁ given z₁ + z₂ = N)."""
    nodes, weights = noise
    coarse = slice(None, None, max(1, nodes.size // 400))
    nodes, weights = nodes[coarse], weights[coarse] / weights[coarse].sum()
    shift = ((nodes[:, None] - nodes[None]) / 2).ravel()
    mass = np.outer(weights, weights).ravel()
    edges = np.linspace(shift.min(), shift.max(), 1601)
    centre = np.bincount(np.digitize(shift, edges), weights=mass * shift)
    density: FloatArray = np.bincount(np.digitize(shift, edges), weights=mass).astype(np.float64)
    full = density > 0
    counts = np.arange(total + 1.0)
    return mean_risk(first(counts[:, None] + centre[full] / density[full]), counts, density[full])


def mean_risk(first: FloatArray, counts: FloatArray, mass: FloatArray) -> FloatArray:
    """E KL for estimates `first`[f, z] of the first share."""
    share = counts / counts.max()
    cross = share * (np.log(first) @ mass) + (1 - share) * (np.log1p(-first) @ mass)
    return np.asarray(xlogy(share, share) + xlogy(1 - share, 1 - share) - cross)


def flat_shares(total: int, variance: float, noise: str) -> Curve:
    """The truncated-normal estimate as a function of z₁ when z₁ + z₂ = N."""
    grid = np.linspace(-6 * math.sqrt(variance), total + 6 * math.sqrt(variance), 500)
    found = [
        estimate(
            NoisyCounts(values=np.array([z, total - z]), variance=variance, total=total, noise=noise),  # type: ignore[arg-type]
            "truncated-normal",
        ).probabilities[0]
        for z in grid
    ]
    logit = np.log(found) - np.log1p(-np.array(found))
    return lambda z: np.asarray(1 / (1 + np.exp(-np.interp(z, grid, logit))))


def raw_draw(tables: FloatArray, mechanism: Dirichlet) -> FloatArray:
    """E KL of a Dirichlet draw for each row of counts, in closed form."""
    shares, shapes = tables / tables.sum(axis=1, keepdims=True), mechanism.r * tables + mechanism.alpha
    losses = xlogy(shares, shares).sum(axis=1) - (shares * digamma(shapes)).sum(axis=1)
    return np.asarray(losses + digamma(shapes.sum(axis=1)))


def rivals(total: int, epsilon: float, delta: float) -> dict[str, FloatArray]:
    """Risk of every rival at f = 0 … N."""
    counts = np.arange(total + 1.0)
    tables = np.column_stack([counts, total - counts])
    budget = Budget(epsilon=epsilon, delta=delta)
    sigma, b = math.sqrt(gaussian(budget).noise_variance), 2 / epsilon
    found = {"exact Dir": raw_draw(tables, Dirichlet.calibrate(budget, total=total, cells=2))}
    paper = [raw_draw(tables, mechanism) for mechanism in algorithm_1(budget)]
    if paper:
        found["Alg.1"] = np.min(paper, axis=0)
    for kind, noise, deviation, law in (
        ("G", normal_noise(sigma), sigma, "normal"),
        ("L", laplace_noise(b), math.sqrt(2) * b, "laplace"),
    ):
        found[f"{kind} 1e-6"] = separable(total, noise, lambda z: np.maximum(z, TINY), np.log, np.log)
        found[f"{kind} +s/2"] = separable(total, noise, partial(lifted, deviation / 2), np.log, np.log)
        found[f"{kind} project"] = of_difference(
            total,
            noise,
            lambda z: np.clip(z, TINY, total) / (np.clip(z, TINY, total) + np.clip(total - z, TINY, total)),
        )
        found[f"{kind} truncN"] = of_difference(total, noise, flat_shares(total, deviation**2, law))
    found["L Ye"] = separable(total, laplace_noise(b), lambda z: np.maximum(z, 1 / epsilon), np.log, np.log)
    found["L Foulds"] = separable(
        total, laplace_noise(b), lambda z: np.maximum(z, 0.0), lambda c: digamma(c + 1), lambda s: digamma(s + 2)
    )
    return found


# ---- the game -----------------------------------------------------------------------------------------------
def channel(total: int, epsilon: float) -> FloatArray:
    """P(z | f) of sum-zero Laplace noise, z clipped to 0 … N, which loses nothing."""
    counts = np.arange(total + 1)
    law = np.exp(-epsilon * np.abs(counts[None] - counts[:, None]))
    law[:, [0, -1]] /= -math.expm1(-epsilon)  # all z ≤ 0, all z ≥ N
    return np.asarray(law / law.sum(axis=1, keepdims=True))


def risks(law: FloatArray, first: FloatArray) -> FloatArray:
    """Risk at every f of the estimate `first`[z] of the first share."""
    share = np.linspace(0.0, 1.0, law.shape[0])
    cross = share * (law @ np.log(first)) + (1 - share) * (law @ np.log1p(-first))
    return np.asarray(xlogy(share, share) + xlogy(1 - share, 1 - share) - cross)


def act(law: FloatArray, weights: FloatArray) -> FloatArray:
    """Posterior mean of the first share under prior weights."""
    share = np.linspace(0.0, 1.0, law.shape[0])
    first = ((weights * share) @ law) / (weights @ law)
    return np.asarray(np.clip(first, 1e-15, 1 - 1e-15))


def least_worst_ratio(law: FloatArray, best: FloatArray, rounds: int) -> tuple[float, float]:
    """A bound from below and a value attained: multiplicative weights on f."""
    weights = np.full(best.size, 1 / best.size)
    lower, upper = 0.0, math.inf
    for step in range(1, rounds + 1):
        ratio = risks(law, act(law, weights / best)) / best
        lower, upper = max(lower, float(weights @ ratio)), min(upper, float(ratio.max()))
        if upper < 1.002 * lower:
            break
        weights = weights * np.exp(min(1.0, 4 / math.sqrt(step)) * (ratio / ratio.max() - 1))
        weights = weights + weights[::-1]
        weights /= weights.sum()
    return lower, upper


def most_within(law: FloatArray, best: FloatArray, measure: FloatArray, worst: float, rounds: int) -> float:
    """A bound on the share of f within 5 % of the best rival, for estimates that are nowhere worse than `worst`.

    That share is at most Σ π(f) min(1, (W − ρ)/(W − 1.05)), concave in the estimate; each vector of multipliers
    μ gives Σ max(0, π − μ(W − 1.05)) + Σ μW − min_q Σ μρ, a bound whatever μ.
    """
    gap, bound = worst - CLOSE, 1.0
    multipliers = measure / gap
    for step in range(1, rounds + 1):
        ratio = risks(law, act(law, multipliers / best)) / best
        left = np.maximum(measure - multipliers * gap, 0.0)
        bound = min(bound, float(left.sum() + multipliers @ (worst - ratio)))
        slope = worst - ratio - np.where(left > 0, gap, 0.0)
        multipliers = multipliers * np.exp(-np.clip(slope / math.sqrt(step), -0.7, 0.7))
    return bound


def families(total: int) -> FloatArray:
    """How often f comes up when the share is Beta(c, c) with c = 0.05, 0.3, 1 or 10, as in the utility benchmark."""
    edges = np.linspace(0.0, 1.0, total + 2)
    return np.asarray(np.mean([np.diff(betainc(c, c, edges)) for c in (0.05, 0.3, 1.0, 10.0)], axis=0))


def ours(total: int, epsilon: float) -> FloatArray:
    """The library's default estimate of the first share at z = 0 … N."""

    def first(z: float) -> float:
        values = np.array([z, total - z])
        noisy = NoisyCounts(values=values, variance=8 / epsilon**2, total=total, noise="laplace")
        return float(estimate(noisy).probabilities[0])

    lower = np.array([first(z) for z in range((total + 1) // 2)])
    middle = np.full((total + 1) % 2, 0.5)
    return np.concatenate([lower, middle, 1 - lower[::-1]])


def two_cells(total: int, epsilon: float, delta: float = 1e-5) -> str:
    """One line of the first part."""
    best = np.min(list(rivals(total, epsilon, delta).values()), axis=0)
    law, measure = channel(total, epsilon), families(total)
    lower, upper = least_worst_ratio(law, best, 1000)
    bound = most_within(law, best, measure, max(WORST, CLOSE * upper), 150)
    ratio = risks(law, ours(total, epsilon)) / best
    matters = ratio[best > 1e-4].max(initial=0.0)
    return (
        f"{total:6d} {epsilon:5g} {lower:9.2f} {upper:9.2f} {ratio.max():9.2f} {ratio.argmax():5d} {matters:9.2f}"
        f" {bound:9.0%} {measure @ (ratio <= CLOSE):9.0%} {math.exp(measure @ np.log(ratio)):9.2f}"
    )


# ---- one small cell among large ones ------------------------------------------------------------------------
def small_cell(epsilon: float, rounds: int = 1500) -> str:
    """One line of the second part: Laplace noise of scale 2/ε for everyone."""
    b = 2 / epsilon
    deviation = math.sqrt(2) * b
    top = max(math.ceil(25 * b), 12)
    counts, margin = np.arange(top + 1.0), math.ceil(30 * b)
    z = np.arange(-margin, top + margin + 1.0)
    law = np.exp(-np.abs(z - counts[:, None]) / b)
    law /= law.sum(axis=1, keepdims=True)

    def risk(found: FloatArray) -> FloatArray:
        return np.asarray(xlogy(counts, counts) - counts - counts * (law @ np.log(found)) + law @ found)

    def posterior_mean(prior: FloatArray) -> FloatArray:
        return np.asarray(np.maximum((prior * counts) @ law / np.maximum(prior @ law, 1e-300), 1e-12))

    added = np.maximum(z, 0) + 1
    foulds = xlogy(counts, counts) - counts - counts * (law @ digamma(added)) + law @ added
    clipped = [np.maximum(z, TINY), np.maximum(z, 0) + deviation / 2, np.maximum(z, 1 / epsilon)]
    flat = np.maximum(truncated_normal_mean(z, deviation), TINY)
    best = np.min([foulds, *(risk(found) for found in [*clipped, flat])], axis=0)
    inside = counts <= top - 8 * b  # away from the end of the axis
    weights, lower, upper = inside / inside.sum(), 0.0, math.inf
    for step in range(1, rounds + 1):
        ratio = np.where(inside, risk(posterior_mean(weights / best)) / best, 0.0)
        lower, upper = max(lower, float(weights @ ratio)), min(upper, float(ratio.max()))
        weights = weights * np.exp(min(1.0, 4 / math.sqrt(step)) * (ratio / ratio.max() - 1))
        weights /= weights.sum()
    jeffreys = np.exp(gammaln(counts + 0.5) - gammaln(counts + 1))
    priors = [(risk(posterior_mean(prior)) / best)[inside].max() for prior in (np.ones_like(counts), jeffreys)]
    return f"{epsilon:12g} {lower:9.2f} {upper:9.2f} {priors[0]:9.2f} {priors[1]:9.2f}"


def main(argv: list[str] | None = None) -> None:
    """Print both parts."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks frontier", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one size of table, four budgets")
    options = parser.parse_args(argv)
    print(
        "Two cells, δ = 1e-5. Worst ratio to the best rival over all f: no estimate is below `any`; one that gives up\n"
        "everything else gets to `reached`. Share of f within 5 %: above `share` is no estimate that keeps every f\n"
        "within 1.5 × (or 1.05 × `reached`, if that is more).\n"
        f"{'N':>6} {'eps':>5} {'any':>9} {'reached':>9} {'ours':>9} {'at f':>5} {'if > 1e-4':>9}"
        f" {'share':>9} {'ours':>9} {'mean':>9}"
    )
    for total in (1000,) if options.quick else (100, 1000):
        for epsilon in (0.03, 0.1, 0.3, 1.0) if options.quick else (0.01, 0.03, 0.1, 0.3, 1.0, 3.0):
            print(two_cells(total, epsilon), flush=True)
    print(
        "One small cell among large ones, Laplace noise for everyone: worst ratio to the best rival over its count.\n"
        f"{'eps':>12} {'any':>9} {'reached':>9} {'flat':>9} {'Jeffreys':>9}"
    )
    for epsilon in (0.3, 1.0) if options.quick else (0.1, 0.3, 1.0, 3.0, 10.0):
        print(small_cell(epsilon), flush=True)
