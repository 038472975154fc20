"""The exact posterior of few cells after noise that adds to zero, whose likelihood is that of independent noise."""

from __future__ import annotations

import math

import numpy as np
import pytest

from simplexdp.estimation import NoisyCounts, estimate, few


def balanced_laplace(table: np.ndarray, scale: float, rng: np.random.Generator) -> NoisyCounts:
    """P(x) ∝ e^{−Σ|x|/b} on Σx = 0: draw all but one, keep with probability e^{−|Σx|/b}."""
    while True:
        noise = rng.laplace(scale=scale, size=table.size - 1)
        if rng.random() < math.exp(-abs(noise.sum()) / scale):
            break
    values = table + np.append(noise, -noise.sum())
    return NoisyCounts(values=values, variance=2 * scale**2, total=float(table.sum()), noise="laplace")


def covered(tables: int, cells: int, scale: float, stated: float) -> float:
    """Share of cells inside their 95 % intervals, the noise being stated as `stated` times what it is."""
    rng = np.random.default_rng(29)
    inside = []
    for _ in range(tables):
        table = rng.multinomial(60 * cells, rng.dirichlet(np.full(cells, 0.7))).astype(np.float64)
        noisy = balanced_laplace(table, scale, rng)
        told = NoisyCounts(values=noisy.values, variance=noisy.variance * stated**2, total=noisy.total, noise="laplace")
        lower, upper = estimate(told).intervals(0.95)
        truth = table / table.sum()
        inside.append((lower <= truth + 1e-12) & (truth <= upper + 1e-12))
    return float(np.mean(inside))


@pytest.mark.parametrize(("cells", "tables"), [(2, 600), (3, 400), (6, 200), (10, 120)])
def test_intervals_cover_after_balanced_noise(cells: int, tables: int) -> None:
    """1200 cells, so a standard error of 0.6 to 0.9 %; at half the noise coverage must fall."""
    assert 0.93 <= covered(tables, cells, 6.0, 1.0) <= 0.97
    assert covered(tables // 2, cells, 6.0, 0.5) < 0.9


@pytest.mark.parametrize(("values", "scale"), [((520.0, 480.0), 67.0), ((350.0, 320.0, 330.0), 40.0)])
def test_the_step_of_the_lattice_does_not_weigh_the_models(
    values: tuple[float, ...], scale: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Equal counts, one point, are weighed against laws on a lattice, whatever its step."""
    noisy = NoisyCounts(values=np.array(values), variance=2 * scale**2, total=1000.0, noise="laplace")
    coarse = estimate(noisy)
    monkeypatch.setattr(few, "STEPS", 200)
    fine = estimate(noisy)
    assert coarse.standard_errors == pytest.approx(fine.standard_errors, rel=0.04)
    assert coarse.probabilities == pytest.approx(fine.probabilities, rel=0.01)
