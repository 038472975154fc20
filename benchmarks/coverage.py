"""How often 95 % intervals of released probabilities hold the truth, with the library's own exact draws.

    python -m benchmarks coverage [--quick]

Tables have probabilities from Dirichlet(k, …, k), ln k uniform between ln 0.2 and ln 5, and 50 records a cell; the
noise has about a quarter of, or as much as, an average count. Wanted: 93 to 97 %. Each line also says how often
intervals made for half of the noise hold it: far less, or the measure could not see a wrong one.
"""

from __future__ import annotations

import argparse
import math
from dataclasses import replace

import numpy as np

from simplexdp.estimation import NoisyCounts, estimate
from simplexdp.mechanisms import AnyMechanism, BalancedLaplace, Gaussian, Laplace, Polya
from simplexdp.models.guarantee import Guarantee
from simplexdp.models.release import Release
from simplexdp.sampling import SeededEntropy

LEVEL = 0.95
RECORDS = 50
"""Per cell."""
CELLS = (2, 4, 10, 20, 60, 1000)
DEVIATIONS = (12.0, 50.0)
LEAST_CELLS = 4000
"""Cells that each line averages over, in as many tables as it takes."""


def mechanisms(deviation: float, cells: int) -> list[AnyMechanism]:
    """One of each kind with about this standard deviation of the noise."""
    scale = deviation / math.sqrt(2)
    found: list[AnyMechanism] = [Gaussian(sigma=deviation), Laplace(scale=scale)]
    found.append(Polya(r=1, alpha=round(deviation**2) - RECORDS))
    return [*found, BalancedLaplace(scale=scale, cells=cells)] if cells <= 60 else found


def inside(noisy: NoisyCounts, truth: np.ndarray) -> float:
    """The share of cells whose probability lies in its interval."""
    lower, upper = estimate(noisy).intervals(LEVEL)
    return float(np.mean((lower <= truth + 1e-12) & (truth <= upper + 1e-12)))


def covered(mechanism: AnyMechanism, cells: int, tables: int) -> tuple[float, float, float]:
    """Mean over the tables, its standard error, and the mean for intervals that believe in half the noise."""
    entropy = SeededEntropy(cells)
    rng = entropy.child("tables").generator()
    guarantee = Guarantee(mechanisms=(mechanism,), neighbours="replace-one", unit="row", rows=1)
    right, wrong = [], []
    for _ in range(tables):
        shape = math.exp(rng.uniform(math.log(0.2), math.log(5.0)))
        counts = rng.multinomial(RECORDS * cells, rng.dirichlet(np.full(cells, shape)))
        total = float(counts.sum())
        values = mechanism.draw(counts, entropy)
        noisy = Release(values=values, mechanism=mechanism, guarantee=guarantee, total=total).noisy
        right.append(inside(noisy, counts / total))
        wrong.append(inside(replace(noisy, variance=noisy.variance / 4, slope=noisy.slope / 4), counts / total))
    return float(np.mean(right)), float(np.std(right, ddof=1)) / math.sqrt(tables), float(np.mean(wrong))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a tenth of the tables")
    least = LEAST_CELLS // 10 if parser.parse_args().quick else LEAST_CELLS
    print(f"{'cells':>5} {'noise':>6} {'mechanism':>16} {'tables':>6}  covered        at half the noise")
    for cells in CELLS:
        for deviation in DEVIATIONS:
            for mechanism in mechanisms(deviation, cells):
                tables = max(4, least // cells)
                share, error, control = covered(mechanism, cells, tables)
                name = type(mechanism).__name__
                print(f"{cells:5d} {deviation:6g} {name:>16} {tables:6d}  {share:.1%} ± {error:.1%}  {control:.1%}")


if __name__ == "__main__":
    main()
