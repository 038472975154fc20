"""KL loss of every way to release one histogram at equal privacy: paired seeds, one table.

Run `python benchmarks/utility_histograms.py [--quick | --full]`. Replace-one neighbours, N public. None of
these histograms was used to choose a constant of the library.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import betainc, digamma, log_ndtr, polygamma, xlogy

from simplexdp.estimation import NoisyCounts, estimate

FloatArray = NDArray[np.float64]
OURS = "ours"
GAUSSIAN = {
    OURS: "posterior-mean",
    "truncN": "truncated-normal",
    "clip+s/2": "clip",
    "clip 1e-6": "clip-tiny",
    "project": "projection",
}


# ---- histograms -----------------------------------------------------------------------------------------
def zipf(cells: int, power: float) -> FloatArray:
    weights = np.arange(1.0, cells + 1) ** -power
    return weights / weights.sum()


def histograms(quick: bool) -> dict[str, FloatArray]:
    """The families of the project's utility target, each one fixed table."""
    rng = np.random.default_rng(20240607)

    def draw(probabilities: FloatArray, total: float) -> FloatArray:
        return rng.multinomial(int(total), probabilities).astype(np.float64)

    def sparse(cells: int, full: int, total: float) -> FloatArray:
        weights = np.zeros(cells)
        weights[rng.choice(cells, full, replace=False)] = rng.dirichlet(np.ones(full))
        return draw(weights, total)

    cases: dict[str, FloatArray] = {"paper": np.array([119.0, 74, 618, 272, 13, 187])}
    for power in (1.0, 1.5):
        for cells, totals in ((100, (1e2, 1e4, 1e6)), (1000, (1e3, 1e5)), (100_000, (1e5, 1e7))):
            for total in totals:
                cases[f"zipf{power:g} d={cells:g} N={total:g}"] = draw(zipf(cells, power), total)
    for cells, total in ((10, 1e3), (1000, 1e5)):
        cases[f"uniform d={cells} N={total:g}"] = draw(np.full(cells, 1 / cells), total)
    cases["sparse 10/1000 N=1e4"] = sparse(1000, 10, 1e4)
    cases["sparse 100/10000 N=1e6"] = sparse(10_000, 100, 1e6)
    for pair in ((999.0, 1.0), (90.0, 10.0), (500.0, 500.0), (70_000.0, 30_000.0)):
        cases[f"binary {pair[0]:g}/{pair[1]:g}"] = np.array(pair)
    for concentration in (0.05, 0.3, 1.0, 10.0):
        for cells, total in ((4, 1e3), (20, 1e4), (200, 1e5)):
            weights = rng.dirichlet(np.full(cells, concentration))
            cases[f"Dir({concentration:g}) d={cells} N={total:g}"] = draw(weights, total)
    if quick:
        keep = ("paper", "d=100 N=1e+04", "d=1000 N=1e+05", "sparse 10/", "binary", "d=4 ", "d=20 ")
        cases = {name: table for name, table in cases.items() if any(part in name for part in keep)}
    return cases


# ---- calibration (formulas of the paper and of Balle & Wang 2018) -----------------------------------------
@lru_cache
def gaussian_scale(epsilon: float, delta: float, sensitivity: float = math.sqrt(2)) -> float:
    """Exact: δ = Φ(Δ/2σ − εσ/Δ) − e^ε Φ(−Δ/2σ − εσ/Δ)."""

    def excess(scale: float) -> float:
        half, tilt = sensitivity / (2 * scale), epsilon * scale / sensitivity
        return math.exp(log_ndtr(half - tilt)) - math.exp(epsilon + log_ndtr(-half - tilt)) - delta

    return float(brentq(excess, 1e-3, 1e6))


@lru_cache
def algorithm_1(epsilon: float, delta: float) -> tuple[FloatArray, FloatArray]:
    """(r, α) of the paper's Algorithm 1 for every order λ whose conversion to (ε, δ) is feasible."""
    rs, alphas = [], []
    for order in np.concatenate([np.linspace(1.1, 10, 30), np.geomspace(10, 2000, 60)]):
        rdp = epsilon - math.log((order - 1) / order) + (math.log(delta) + math.log(order)) / (order - 1)
        if rdp <= 0:
            continue

        def excess(r: float, order: float = order, rdp: float = rdp) -> float:
            return float(order * r * r * polygamma(1, 1 + 3 * (order - 1) * r) - rdp)

        r = brentq(excess, 1e-12, 1e6)
        rs.append(r)
        alphas.append(1 + 4 * (order - 1) * r)
    return np.array(rs), np.array(alphas)


@lru_cache
def exact_dirichlet(epsilon: float, delta: float) -> tuple[FloatArray, FloatArray]:
    """(r, α) on the exact frontier: δ(ε) = I_s(α, α+r) − e^ε I_s(α+r, α), s = 1/(1+e^{ε/r})."""
    rs, alphas = np.geomspace(1e-3, 30, 60), []
    for r in rs:
        s = 1 / (1 + math.exp(min(epsilon / r, 700.0)))

        def excess(log_alpha: float, r: float = r, s: float = s) -> float:
            alpha = math.exp(log_alpha)
            exact = betainc(alpha, alpha + r, s) - math.exp(epsilon) * betainc(alpha + r, alpha, s)
            return math.log(max(exact, 1e-300)) - math.log(delta)

        alphas.append(math.exp(brentq(excess, -12.0, 30.0)) if excess(-12.0) > 0 else math.exp(-12.0))
    return rs, np.array(alphas)


def best_expected_loss(table: FloatArray, rs: FloatArray, alphas: FloatArray) -> float:
    """Least E KL(f/N ‖ y) of a Dirichlet(rf + α) draw over the given parameters, in closed form."""
    if not rs.size:
        return math.nan
    total, (counts, times) = table.sum(), np.unique(table, return_counts=True)
    share = times * counts / total
    entropy = float((times * xlogy(counts / total, counts / total)).sum())
    shapes = rs[:, None] * counts + alphas[:, None]
    cross = (share * digamma(shapes)).sum(axis=1) - digamma(rs * total + table.size * alphas)
    return float((entropy - cross).min())


# ---- one cell of the table ----------------------------------------------------------------------
def loss(table: FloatArray, probabilities: FloatArray) -> float:
    truth = table / table.sum()
    at = truth > 0
    return float((truth[at] * np.log(truth[at] / probabilities[at])).sum())


def laplace_methods(epsilon: float) -> dict[str, Callable[[FloatArray, np.random.Generator], FloatArray]]:
    """Estimates after Laplace noise of scale 2/ε (pure DP, Δ₁ = 2)."""
    return {
        "Laplace 1e-6": lambda z, _: np.maximum(z, 1e-6),
        "Laplace +s/2": lambda z, _: np.maximum(z, 0) + math.sqrt(2) / epsilon,
        "Ye et al.": lambda z, _: np.maximum(z, 1 / epsilon),
        "Foulds": lambda z, rng: np.maximum(rng.dirichlet(np.maximum(z, 0) + 1), 1e-300),
    }


def losses(table: FloatArray, epsilon: float, delta: float, seeds: range) -> dict[str, FloatArray]:
    """Loss of every method for each seed (constant for the two whose expectation is closed form)."""
    scale, total = gaussian_scale(epsilon, delta), float(table.sum())
    result: dict[str, list[float]] = {}
    for seed in seeds:
        rng = np.random.default_rng([seed, table.size])
        values = table + scale * rng.normal(size=table.size)
        noisy = NoisyCounts(values=values, variance=scale * scale, total=total)
        for name, method in GAUSSIAN.items():
            found = estimate(noisy, method)  # type: ignore[arg-type]
            result.setdefault(name, []).append(loss(table, found.probabilities))
        values = table + rng.laplace(scale=2 / epsilon, size=table.size)
        for name, rule in laplace_methods(epsilon).items():
            counts = rule(values, rng)
            result.setdefault(name, []).append(loss(table, counts / counts.sum()))
    constant = {
        "Alg. 1": best_expected_loss(table, *algorithm_1(epsilon, delta)),
        "Dirichlet": best_expected_loss(table, *exact_dirichlet(epsilon, delta)),
    }
    return {name: np.array(each) for name, each in result.items()} | {
        name: np.full(len(seeds), value) for name, value in constant.items()
    }


def repetitions(cells: int, quick: bool) -> range:
    return range(int(np.clip((2000 if quick else 8000) / cells, 3, 12 if quick else 60)))


def summary(means: dict[str, FloatArray]) -> list[str]:
    """Geometric means and shares over the rows of the table."""
    lines = ["", f"{'method':>14} {'ours/method':>12} {'no worse':>9}"]
    ours = means[OURS]
    for name, values in means.items():
        known = np.isfinite(values)
        ratio = ours[known] / values[known]
        lines.append(f"{name:>14} {np.exp(np.log(ratio).mean()):12.3f} {np.mean(ratio <= 1.0001):9.0%}")
    best = np.nanmin(np.array(list(means.values())), axis=0)
    matters = (ours > 1e-4) | (best > 1e-4)
    worst = (ours / best)[matters].max() if matters.any() else 1.0
    lines.append(f"within 5 % of the best in {np.mean(ours <= 1.05 * best):.1%} of {ours.size} rows")
    lines.append(f"never above {worst:.2f} × the best where the loss exceeds 1e-4")
    return lines


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer tables and seeds, under a minute")
    parser.add_argument("--full", action="store_true", help="also δ = 1e-9")
    options = parser.parse_args(argv)
    epsilons = (0.03, 0.3, 1.0, 3.0) if options.quick else (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
    rows: dict[str, list[float]] = {}
    for delta in (1e-5, 1e-9) if options.full else (1e-5,):
        for name, table in histograms(options.quick).items():
            for epsilon in epsilons:
                found = losses(table, epsilon, delta, repetitions(table.size, options.quick))
                if not rows:
                    print(f"{'histogram':>26} {'eps':>5} " + " ".join(f"{m:>12}" for m in found) + "  ±ours")
                for method, each in found.items():
                    rows.setdefault(method, []).append(float(each.mean()))
                error = found[OURS].std(ddof=1) / math.sqrt(found[OURS].size)
                cells = " ".join(f"{each.mean():12.3e}" for each in found.values())
                print(f"{name:>26} {epsilon:5g} {cells}  {error:.0e}", flush=True)
    print("\n".join(summary({method: np.array(values) for method, values in rows.items()})))


if __name__ == "__main__":
    main()
