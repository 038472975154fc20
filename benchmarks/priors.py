"""How often another prior of few cells would be within 5 % of the best rival: a frontier found by trying.

    python -m benchmarks priors [--quick]

The estimate of up to ten cells averages Dirichlet-multinomial models by their evidence, so every choice of their prior
weights can be tried on the same draws. Tables and rivals are those of the utility benchmark, without Gibbs samplers;
beside them the columns with 2 to 10 values of the four data sets that constants are chosen on, cut to 100 to 3000
records, where `SIMPLEXDP_DATA` has them. "best by regime" takes, in hindsight, the prior that is within 5 % most often
for each range of cells and of the noise over an average count: what a prior that depends on public facts could reach if
it were chosen on these very tables. "k known" is the best single shape of each cell of the table, which nobody can
know: what is missing is knowledge of the table, not a better average.
"""

from __future__ import annotations

import argparse
import math
import os
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax, xlogy

from reproduction.datasets import load
from simplexdp.budget import Budget
from simplexdp.estimation.few import few_models, model_weights
from simplexdp.estimation.likelihood import SHAPES

from .utility.histogram_cases import Case, cases
from .utility.histogram_methods import chosen, randomness, released, rivals
from .utility.histogram_noise import draws
from .utility.setting import approximate_budgets, renyi_budgets

FloatArray = NDArray[np.float64]
SEEDS = 64
TUNED = ("Adult", "CreditCard", "GermanCredit", "Thyroid")
CLOSE, FAR, MATTERS = 1.05, 1.5, 1e-4
CELL_STEPS, NOISE_STEPS = (3, 7), (0.01, 0.1, 0.3, 1.0, 3.0)
"""Between the regimes: tables of 2, 3 to 6 and 7 to 10 cells, and the deviation of the noise over an average count."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Cell:
    """A table at a budget: what every model says in each draw, and the loss of the best rival."""

    case: Case
    noise: float
    means: FloatArray
    log_evidence: FloatArray
    best: float

    @property
    def regime(self) -> tuple[int, int]:
        """What a prior may depend on, in steps."""
        return int(np.searchsorted(CELL_STEPS, self.case.cells, "right")), int(np.searchsorted(NOISE_STEPS, self.noise))

    def averaged(self, weights: FloatArray) -> float:
        """Our mean loss over the best rival's when the models have these prior weights."""
        model = softmax(self.log_evidence + np.log(weights), axis=1)
        return self._ratio(np.einsum("sk,skd->sd", model, self.means))

    def known(self) -> float:
        """The same for the model that is best here."""
        return min(self._ratio(means) for means in np.moveaxis(self.means, 1, 0))

    def _ratio(self, means: FloatArray) -> float:
        counts = np.maximum(means, 1e-12 * self.case.total)
        share, estimate = self.case.counts / self.case.total, counts / counts.sum(axis=1, keepdims=True)
        loss = float((xlogy(share, share) - xlogy(share, estimate)).sum(axis=1).mean())
        return max(loss, 1e-12) / self.best


def measure(case: Case, budget: Budget) -> Cell | None:
    """Draw and fit; None where the lattice would be too long."""
    entropy, uniform = randomness(case, SEEDS)
    mechanism = chosen(budget, case.total, case.cells)
    tables = [released(mechanism, case, each) for each in draws(mechanism, case.counts, uniform, entropy)]
    found = [few_models(table) for table in tables]
    if any(each is None for each in found):
        return None
    losses = rivals(case, budget, SEEDS, sampler=False)
    return Cell(
        case=case,
        noise=tables[0].scale * case.cells / case.total,
        means=np.array([each.means for each in found if each]),
        log_evidence=np.array([each.log_evidence for each in found if each]),
        best=max(float(np.nanmin([each.mean() for each in losses.values()])), 1e-12),
    )


def columns() -> Iterator[Case]:
    """Real histograms."""
    rng = np.random.default_rng(5)
    for name in TUNED if "SIMPLEXDP_DATA" in os.environ else ():
        table = load(name)
        for column, values in table.columns.items():
            distinct, codes = np.unique(values, return_inverse=True)
            if 2 <= len(distinct) <= 10:
                rows = rng.choice(codes, min(int(rng.choice([100, 300, 1000, 3000])), len(codes)), replace=False)
                counts = np.bincount(rows, minlength=len(distinct)).astype(np.int64)
                yield Case(family=f"{name} {column}", counts=counts, origin="tuned")


def prior(centre: float, spread: float, even: float) -> FloatArray:
    """ln k ~ N(ln centre, spread²), with this weight for equal probabilities and half of it for equal counts."""
    finite = np.exp(-0.5 * (np.log(SHAPES[:-1] / centre) / spread) ** 2)
    return np.append(finite / finite.sum() * (1 - even), [even, even / 2])


def by_regime(tried: FloatArray, found: list[Cell]) -> FloatArray:
    """The ratios of the prior that is close most often in each regime, one for each cell of the table."""
    regimes = np.array([cell.regime for cell in found])
    picked = np.empty(len(found))
    for regime in np.unique(regimes, axis=0):
        inside = (regimes == regime).all(axis=1)
        ratios = tried[:, inside]
        picked[inside] = ratios[np.lexsort((np.log(ratios).mean(axis=1), -(ratios <= CLOSE).sum(axis=1)))[0]]
    return picked


def line(name: str, ratios: FloatArray, best: FloatArray) -> str:
    """Shares within 5 % and, where it matters, within a factor 1.5; geometric mean where it matters."""
    matters = best > MATTERS
    mean = math.exp(float(np.log(ratios[matters]).mean()))
    return f"{name:28} {np.mean(ratios <= CLOSE):6.1%} {np.mean(ratios[matters] <= FAR):6.1%} {mean:6.3f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="every fifth table")
    step = 5 if parser.parse_args().quick else 1
    budgets = approximate_budgets(deltas=(1e-5,)) + renyi_budgets()
    groups = {"benchmark": [case for case in cases() if case.cells <= 10], "real columns": list(columns())}
    for title, tables in groups.items():
        with ProcessPoolExecutor() as pool:
            jobs = list(product(tables[::step], budgets))
            found = [cell for cell in pool.map(measure, *zip(*jobs, strict=True)) if cell] if jobs else []
        if not found:
            continue
        best = np.array([cell.best for cell in found])
        print(f"\n{title}: {len(found)} cells of the table\n{'prior':28} {'≤ 1.05':>6} {'≤ 1.5':>6} {'mean':>6}")
        now = np.array([cell.averaged(model_weights(cell.case.cells, cell.noise)) for cell in found])
        print(line("the default", now, best))
        tried = []
        for centre, spread, even in product((0.3, 0.5, 1.0, 2.0, 4.0), (0.4, 0.7, 1.0, 2.0), (0.03, 0.1, 0.3)):
            weights = prior(centre, spread, even)
            ratios = np.array([cell.averaged(weights) for cell in found])
            print(line(f"k {centre:g}, spread {spread:g}, even {even:g}", ratios, best))
            tried.append(ratios)
        print(line("best by regime, in hindsight", by_regime(np.array(tried), found), best))
        known = np.array([cell.known() for cell in found])
        print(line("k known", known, best), flush=True)


if __name__ == "__main__":
    main()
