"""KL loss of every way to release one histogram at equal privacy: paired seeds, one table.

Run `python benchmarks/utility_histograms.py [--quick | --full]`. Replace-one neighbours, N public. The
weights of the priors were chosen on other random tables (Dirichlet, geometric, two-level, one-spike, uniform;
2 to 24 cells), but two choices were prompted by rows of this one: the hyper-prior that narrows with few cells
(by the binary tables) and the larger weight of equal probabilities (by the uniform ones).
"""

from __future__ import annotations

import argparse
import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import betainc, digamma, log_ndtr, polygamma, xlogy

from simplexdp.estimation import Method, NoisyCounts, estimate

FloatArray = NDArray[np.float64]
OURS = "ours"
RAW_DRAWS = ("Alg.1", "exact Dir", "L Foulds")
ESTIMATES: dict[str, Method] = {
    "posterior": "posterior-mean",
    "truncN": "truncated-normal",
    "+s/2": "clip",
    "1e-6": "clip-tiny",
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
                cases[f"zipf{power:g} d={cells} N={total:.0f}"] = draw(zipf(cells, power), total)
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
        keep = ("paper", "d=100 N=10000", "d=1000 N=100000", "sparse 10/", "binary", "d=4 ", "d=20 ")
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


def expected_losses(table: FloatArray, rs: FloatArray, alphas: FloatArray) -> FloatArray:
    """E KL(f/N ‖ y) of a Dirichlet(rf + α) draw for each of the parameters, in closed form."""
    total, (counts, times) = table.sum(), np.unique(table, return_counts=True)
    share = times * counts / total
    entropy = float((times * xlogy(counts / total, counts / total)).sum())
    shapes = rs[:, None] * counts + alphas[:, None]
    cross = (share * digamma(shapes)).sum(axis=1) - digamma(rs * total + table.size * alphas)
    return np.asarray(entropy - cross)


def raw_draws(table: FloatArray, epsilon: float, delta: float) -> dict[str, float]:
    """The paper's algorithm at its best λ for this table; exact accounting at the best r for zipf(1)."""
    paper = algorithm_1(epsilon, delta)
    exact = exact_dirichlet(epsilon, delta)
    public = int(expected_losses(table.sum() * zipf(table.size, 1.0), *exact).argmin())
    return {
        "Alg.1": float(expected_losses(table, *paper).min()) if paper[0].size else math.nan,
        "exact Dir": float(expected_losses(table, *exact)[public]),
    }


# ---- one cell of the table ----------------------------------------------------------------------
def loss(table: FloatArray, probabilities: FloatArray) -> float:
    truth = table / table.sum()
    at = truth > 0
    return float((truth[at] * np.log(truth[at] / probabilities[at])).sum())


def discrete_laplace(scale: float, size: int, rng: np.random.Generator) -> FloatArray:
    """P(x) ∝ e^{−|x|/b}: the difference of two geometric variables."""
    stop = -math.expm1(-1 / scale)
    return (rng.geometric(stop, size) - rng.geometric(stop, size)).astype(np.float64)


def losses(table: FloatArray, epsilon: float, delta: float, seeds: range) -> dict[str, FloatArray]:
    """Loss of every method for each seed (constant for the two whose expectation is closed form).

    Laplace noise has scale 2/ε (Δ₁ = 2; pure DP, so δ is not even used). "ours" is the posterior mean after
    the noise with the smaller variance, a choice from public facts.
    """
    total, b, sigma = float(table.sum()), 2 / epsilon, gaussian_scale(epsilon, delta)
    ours = "L" if 2 * b * b < sigma * sigma else "G"
    result: dict[str, list[float]] = {OURS: []}
    for seed in seeds:
        rng = np.random.default_rng([seed, table.size])
        gaussian = table + sigma * rng.normal(size=table.size)
        laplace = table + discrete_laplace(b, table.size, rng)
        releases = {
            "G": NoisyCounts(values=gaussian, variance=sigma * sigma, total=total),
            "L": NoisyCounts(values=laplace, variance=2 * b * b, total=total, noise="laplace"),
        }
        for kind, noisy in releases.items():
            for name, method in ESTIMATES.items():
                found = loss(table, estimate(noisy, method).probabilities)
                result.setdefault(f"{kind} {name}", []).append(found)
        result[OURS].append(result[f"{ours} posterior"][-1])
        others = {
            "L Ye": np.maximum(laplace, 1 / epsilon),
            "L Foulds": np.maximum(rng.dirichlet(np.maximum(laplace, 0) + 1), 1e-300),
        }
        for name, counts in others.items():
            result.setdefault(name, []).append(loss(table, counts / counts.sum()))
    constant = raw_draws(table, epsilon, delta)
    return {name: np.array(each) for name, each in result.items()} | {
        name: np.full(len(seeds), value) for name, value in constant.items()
    }


def repetitions(cells: int, quick: bool) -> range:
    return range(int(np.clip((1500 if quick else 4000) / cells, 2, 12 if quick else 40)))


def summary(means: dict[str, FloatArray]) -> list[str]:
    """Geometric means and shares over the rows of the table; losses below 1e-9 count as 1e-9."""
    means = {name: np.maximum(values, 1e-9) for name, values in means.items()}
    lines = ["", f"{'method':>14} {'ours/method':>12} {'no worse':>9}"]
    ours = means[OURS]
    for name, values in means.items():
        known = np.isfinite(values)
        ratio = ours[known] / values[known]
        lines.append(f"{name:>14} {np.exp(np.log(ratio).mean()):12.3f} {np.mean(ratio <= 1.0001):9.0%}")
    for label, chosen in {
        "all methods": list(means),
        "methods on counts (no raw draws)": [name for name in means if name not in RAW_DRAWS],
    }.items():
        best = np.nanmin(np.array([means[name] for name in chosen]), axis=0)
        ratio = ours / best
        matters = ratio[ours > 1e-4]
        lines.append(
            f"best of {label}: ours within 5 % in {np.mean(ratio <= 1.05):.1%} of {ours.size} rows, "
            f"mean ratio {np.exp(np.log(ratio).mean()):.3f}; where the loss exceeds 1e-4 "
            f"at most 1.5 × in {np.mean(matters <= 1.5):.1%}, worst {matters.max(initial=1.0):.2f} ×"
        )
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
                    print(f"{'histogram':>26} {'eps':>5} " + " ".join(f"{m:>11}" for m in found) + "  ±ours")
                for method, each in found.items():
                    rows.setdefault(method, []).append(float(each.mean()))
                error = found[OURS].std(ddof=1) / math.sqrt(found[OURS].size)
                cells = " ".join(f"{each.mean():11.2e}" for each in found.values())
                print(f"{name:>26} {epsilon:5g} {cells}  {error:.0e}", flush=True)
    print("\n".join(summary({method: np.array(values) for method, values in rows.items()})))


if __name__ == "__main__":
    main()
