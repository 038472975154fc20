"""Speed of the samplers as ratios to their peers, in one run: `python -m benchmarks.sampling`.

Every time is CPU time over the same cells with the operating system's entropy on both sides, but for NumPy's
gamma draws (PCG64), which the Dirichlet draw is held against.
"""

from __future__ import annotations

from fractions import Fraction
from functools import partial

import numpy as np

from simplexdp.sampling import SecureEntropy
from simplexdp.sampling.dirichlet import dirichlet
from simplexdp.sampling.discrete import discrete_gaussian, discrete_laplace
from simplexdp.sampling.polya import negative_binomial

from .clock import seconds

CELLS = 1_000_000
SIGMA = Fraction(5276, 1000)
"""The Gaussian at (ε, δ) = (1, 1e-5) under replace-one; beside it Polya's (r, α) of the same budget."""
POLYA = ((1, 13), (3, 124))


def report(name: str, ours: float, peer: str, theirs: float, target: str) -> None:
    ratio = f"{theirs / ours:6.1f} x faster" if theirs > ours else f"{ours / theirs:6.1f} x slower"
    line = f"{name:30} {ours / CELLS * 1e9:5.0f} ns a cell, {ratio} than {peer} ({theirs / CELLS * 1e9:.0f} ns)"
    print(f"{line}; {target}")


def main() -> None:
    import opendp.prelude as dp

    dp.enable_features("contrib")
    entropy = SecureEntropy()
    counts = np.random.default_rng(1).poisson(5, CELLS)

    # OpenDP's fastest calls: one measurement over the whole vector, a NumPy array in.
    vector = dp.vector_domain(dp.atom_domain(T="i64"))
    gaussian = dp.m.make_gaussian(vector, dp.l2_distance(T="i64"), scale=float(SIGMA))
    laplace = dp.m.make_laplace(vector, dp.l1_distance(T="i64"), scale=float(SIGMA))
    gaussian_time = seconds(lambda: gaussian(counts), repeats=1)
    laplace_time = seconds(lambda: laplace(counts), repeats=1)

    for r, alpha in POLYA:
        ours = seconds(partial(negative_binomial, r * counts + alpha, 1, entropy))
        report(
            f"Polya release, r={r}, alpha={alpha}",
            ours,
            "OpenDP's Gaussian",
            gaussian_time,
            "target 10 x faster",
        )
        upper = r * 30 + alpha
        ours = seconds(partial(negative_binomial, r * counts + alpha, 1, entropy, upper=upper))
        report("  the same with constant work", ours, "OpenDP's Gaussian", gaussian_time, "counts up to 30")
    ours = seconds(lambda: counts + discrete_gaussian(CELLS, SIGMA**2, entropy))
    report("discrete Gaussian", ours, "OpenDP's", gaussian_time, "target 10 x faster")
    ours = seconds(lambda: counts + discrete_laplace(CELLS, SIGMA, entropy))
    report("discrete Laplace", ours, "OpenDP's", laplace_time, "target 10 x faster")

    numpy = np.random.Generator(np.random.PCG64(1))
    for shape in (1e-6, 0.5, 13.0, 1e6):
        shapes = np.full(CELLS, shape)
        theirs = seconds(partial(numpy.standard_gamma, shapes))
        ours = seconds(partial(dirichlet, shapes, entropy))
        report(f"Dirichlet draw, shapes {shape:g}", ours, "standard_gamma", theirs, "target within 20 x")


if __name__ == "__main__":
    main()
