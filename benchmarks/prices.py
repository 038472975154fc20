"""What exact prices save: noise and loss of (ε, δ) fits with second looks, noisy sums and persons.

Each fit is made twice with the same seeds and splits: as it is, and with the price that sums, second looks and persons
had through their Rényi curve. Losses are test cross-entropies over those of the class shares (0 is perfect, 1 knows
nothing), on Adult, which constants were chosen on, and on a set that nothing was chosen on.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from typing import Any
from unittest import mock

import numpy as np

from simplexdp import Budget
from simplexdp.accounting.smooth import GaussianTerm, vector_term
from simplexdp.accounting.terms import RenyiOnly
from simplexdp.mechanisms import Gaussian
from simplexdp.planning import plan_tables

from .utility.naive_bayes import load, ours, score
from .utility.setting import split

DELTA = 1e-6
EPSILONS = (0.1, 1.0, 3.0)
FITS: dict[str, dict[str, Any]] = {
    "12 tables, second look": {"extras": [("tables", 0.3)]},
    "12 tables, second look, 4 Newton rounds": {
        "extras": [("tables", 0.3), *[("vector", 0.03)] * 4, *[("matrix", 0.03)] * 4]
    },
    "12 tables of persons with up to 3 rows": {"rows": 3, "unit": "person"},
}
SETS = ("Adult", "Spam")
SPLITS = 12


@contextmanager
def through_the_renyi_curve() -> Iterator[None]:
    """Discrete Gaussian vectors without their profile, as they were accounted before the theorem."""

    def bound(squared_shift: Fraction | int, variance: Fraction) -> RenyiOnly:
        term = vector_term(squared_shift, variance)
        return RenyiOnly(GaussianTerm(term.renyi_squared)) if not isinstance(term, RenyiOnly) else term

    with (
        mock.patch("simplexdp.mechanisms.sums.vector_term", bound),
        mock.patch("simplexdp.mechanisms.noise.vector_term", bound),
    ):
        yield


def noise(settings: dict[str, Any], epsilon: float) -> float:
    """σ of the tables."""
    shapes, names = [(10, 2)] * 12, [(f"x{i}", "y") for i in range(12)]
    budget = Budget(epsilon=epsilon, delta=DELTA)
    plan = plan_tables(names, shapes, budget, mechanism="gaussian", total=30_000.0, quiet=True, **settings)
    one = plan.mechanisms[0]
    assert isinstance(one, Gaussian)
    return one.sigma


def losses(name: str, epsilon: float, seeds: range) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Cross-entropy over that of the class shares, for each seed."""
    data = load(name)
    found = []
    for seed in seeds:
        train, test = split(len(data.codes), seed)
        labels = data.labels[test]
        shares = np.log(np.maximum(np.bincount(data.labels[train], minlength=data.classes), 0.1) / len(train))
        budget = Budget(epsilon=epsilon, delta=DELTA)
        loss, _ = score(ours(data, train, test, budget, seed), labels)
        found.append(loss / -float(shares[labels].mean()))
    return np.array(found)


def main(*, quick: bool = False) -> None:
    print(f"noise: σ through the Rényi curve over σ now, δ = {DELTA:g}")
    for label, settings in FITS.items():
        ratios = []
        for epsilon in EPSILONS:
            now = noise(settings, epsilon)
            with through_the_renyi_curve():
                ratios.append(noise(settings, epsilon) / now)
        print(f"  {label:42}" + "  ".join(f"ε = {e:g}: {r:.4f}" for e, r in zip(EPSILONS, ratios, strict=True)))
    print("naive Bayes: cross-entropy over that of the class shares, through the Rényi curve → now")
    for name in SETS:
        for epsilon in EPSILONS[:1] if quick else EPSILONS[:2]:
            seeds = range(2 if quick else SPLITS)
            found = losses(name, epsilon, seeds)
            with through_the_renyi_curve():
                before = losses(name, epsilon, seeds)
            error = (found - before).std(ddof=1) / math.sqrt(len(found))
            print(
                f"  {name:12} ε = {epsilon:g}: {before.mean():.4f} → {found.mean():.4f}, "
                f"difference {found.mean() - before.mean():+.4f} ± {error:.4f} ({len(found)} splits)"
            )


if __name__ == "__main__":
    main()
