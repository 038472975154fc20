"""The histograms of the benchmark, each one fixed table, and where each comes from.

"tuned" are the families of the utility targets: constants of the estimates were chosen on tables of these
kinds (other draws of them, but two choices were prompted by the binary and the uniform tables themselves). "fresh" are
families on which nothing was chosen: log-normal and bell-shaped tables, and classical data; but for the butterflies and
the log-normal table of 30 cells, which were looked at when the odds of the learnt prior were chosen.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .table import Origin

FloatArray = NDArray[np.float64]

CLASSICS: dict[str, tuple[int, ...]] = {
    "Titanic survivors": (711, 1490),
    "Salk trial": (57, 200_688),
    "Mendel's peas": (315, 108, 101, 32),
    "Titanic classes": (325, 285, 706, 885),
    "hair colours": (108, 286, 71, 127),
    "eye colours": (220, 215, 93, 64),
    "horse kicks": (109, 65, 22, 3, 1),
    "yeast cells": (213, 128, 37, 18, 3, 1),
    "Berkeley departments": (933, 585, 918, 792, 584, 714),
    "alpha particles": (57, 203, 383, 525, 532, 408, 273, 139, 45, 27, 10, 4, 0, 1, 1),
}
"""Snee 1974 (hair, eyes), Bortkiewicz 1898, Student 1907, Bickel et al. 1975, Rutherford & Geiger 1910."""

LETTERS: tuple[int, ...] = (21912, 16587, 14810, 14003, 13318, 12666, 11450, 10977, 10795, 7874, 7253, 5246, 4943)
LETTERS += (4761, 4200, 3853, 3819, 3693, 3316, 2715, 2019, 1257, 315, 205, 188, 128)
"""Letters of English text, by frequency."""
BUTTERFLIES = (118, 74, 44, 24, 29, 22, 20, 19, 20, 15, 12, 14, 6, 12, 6, 9, 9, 6, 10, 10, 11, 5, 3, 3)
"""Malayan butterflies (Fisher, Corbet & Williams 1943): species of which 1, 2, 3, … were caught."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Case:
    """A histogram with a name that tells its size; it counts as public nowhere, only its total and size do."""

    family: str
    counts: NDArray[np.int64]
    origin: Origin

    @property
    def cells(self) -> int:
        """d."""
        return int(self.counts.size)

    @property
    def total(self) -> int:
        """N."""
        return int(self.counts.sum())

    @property
    def name(self) -> str:
        """The family, d and N."""
        return f"{self.family} d={self.cells} N={self.total}"


def cells_of(name: str) -> int:
    """The number of cells in a name."""
    found = re.search(r"d=(\d+)", name)
    assert found is not None, name
    return int(found.group(1))


def cases(quick: bool = False) -> list[Case]:
    """All of them, or about a third; the tables are the same in both."""
    found = [*_tuned(), *_fresh()]
    return [case for case in found if case.name in QUICK] if quick else found


QUICK = (
    "paper d=6 N=1283",
    "zipf1 d=100 N=10000",
    "zipf1.5 d=1000 N=100000",
    "uniform d=10 N=1000",
    "sparse d=1000 N=10000",
    "binary 999/1 d=2 N=1000",
    "binary 90/10 d=2 N=100",
    "binary 70000/30000 d=2 N=100000",
    "Dir(0.05) d=4 N=1000",
    "Dir(1) d=4 N=100",
    "Dir(10) d=4 N=1000",
    "Dir(0.3) d=20 N=10000",
    "Dir(10) d=20 N=10000",
    "lognormal(1) d=5 N=500",
    "lognormal(2.5) d=30 N=3000",
    "bell d=12 N=1000",
    "bell d=200 N=100000",
    "Mendel's peas d=4 N=556",
    "horse kicks d=5 N=200",
    "alpha particles d=15 N=2608",
)


def _case(origin: Origin, family: str, counts: ArrayLike) -> Case:
    return Case(family=family, counts=np.asarray(counts, dtype=np.int64), origin=origin)


def _zipf(cells: int, power: float) -> FloatArray:
    weights = np.arange(1.0, cells + 1) ** -power
    return np.asarray(weights / weights.sum())


def _tuned() -> Iterable[Case]:
    rng = np.random.default_rng(20240607)
    yield _case("tuned", "paper", (119, 74, 618, 272, 13, 187))
    totals: tuple[float, ...]
    for power in (1.0, 1.5):
        for cells, totals in ((100, (1e2, 1e4, 1e6)), (1000, (1e3, 1e5, 1e7)), (100_000, (1e5, 1e7))):
            for total in totals:
                yield _case("tuned", f"zipf{power:g}", rng.multinomial(int(total), _zipf(cells, power)))
    for cells, totals in ((3, (1e3,)), (10, (1e2, 1e3, 1e5)), (1000, (1e4, 1e6))):
        for total in totals:
            yield _case("tuned", "uniform", rng.multinomial(int(total), np.full(cells, 1 / cells)))
    for cells, full, totals in ((1000, 10, (1e3, 1e4, 1e6)), (10_000, 100, (1e4, 1e6))):
        for total in totals:
            weights = np.zeros(cells)
            weights[rng.choice(cells, full, replace=False)] = rng.dirichlet(np.ones(full))
            yield _case("tuned", "sparse", rng.multinomial(int(total), weights))
    for pair in ((99, 1), (999, 1), (90, 10), (500, 500), (70_000, 30_000), (6_000_000, 4_000_000)):
        yield _case("tuned", f"binary {pair[0]}/{pair[1]}", pair)
    for concentration in (0.05, 0.3, 1.0, 10.0):
        for cells, totals in ((4, (1e2, 1e3, 1e5)), (20, (1e3, 1e4)), (200, (1e4, 1e6))):
            for total in totals:
                weights = rng.dirichlet(np.full(cells, concentration))
                yield _case("tuned", f"Dir({concentration:g})", rng.multinomial(int(total), weights))


def _fresh() -> Iterable[Case]:
    rng = np.random.default_rng(20261116)
    for deviation, sizes in (
        (1.0, ((2, 300), (5, 500), (30, 3000), (300, 1e5))),
        (2.5, ((3, 2000), (6, 1e5), (30, 3000), (3000, 3e5))),
    ):
        for cells, total in sizes:
            weights = np.exp(deviation * rng.normal(size=cells))
            origin: Origin = "tuned" if (deviation, cells) == (1.0, 30) else "fresh"
            yield _case(origin, f"lognormal({deviation:g})", rng.multinomial(int(total), weights / weights.sum()))
    for cells, total in ((5, 400), (12, 1000), (60, 1e4), (200, 1e5)):
        weights = np.exp(-0.5 * np.linspace(-3, 3, cells) ** 2)
        yield _case("fresh", "bell", rng.multinomial(int(total), weights / weights.sum()))
    for name, counts in CLASSICS.items():
        yield _case("fresh", name, counts)
    yield _case("fresh", "letters", LETTERS)
    yield _case("tuned", "butterflies", np.repeat(np.arange(1, len(BUTTERFLIES) + 1), BUTTERFLIES))
