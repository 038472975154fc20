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


@pytest.mark.slow
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


# ---- the hyper-prior of the shapes
def shape_moments(weights: np.ndarray) -> tuple[float, float]:
    """Mean and standard deviation of ln k over the finite shapes."""
    finite, logs = weights[:-2] / weights[:-2].sum(), np.log(few.SHAPES[:-1])
    mean = float(finite @ logs)
    return mean, math.sqrt(float(finite @ (logs - mean) ** 2))


@pytest.mark.parametrize("cells", [2, 3, 6, 10])
def test_the_hyper_prior_is_widest_where_the_noise_is_like_a_count(cells: int) -> None:
    wide = few.model_weights(cells)
    for noise in (0.3, 1.0):
        assert few.model_weights(cells, noise) == pytest.approx(wide, rel=1e-12)
    drowned = few.model_weights(cells, 1e6)
    assert shape_moments(drowned)[0] == pytest.approx(math.log(2), abs=0.05)
    assert drowned[-1] == pytest.approx(0.2)
    clear = few.model_weights(cells, 0.0)
    if cells == 2:
        assert clear == pytest.approx(wide, rel=1e-12)
    else:
        assert shape_moments(clear)[0] == pytest.approx(math.log(2), abs=0.05)
        assert shape_moments(clear)[1] < shape_moments(wide)[1]
        assert clear[-1] == pytest.approx(wide[-1])


@pytest.mark.slow
def test_a_small_count_among_clear_ones_is_not_shrunk_away() -> None:
    """Yeast cells (Student 1907), 400 draws of noise with deviation 1.4: paired with the widest prior."""
    table = np.array([213.0, 128.0, 37.0, 18.0, 3.0, 1.0])
    rng = np.random.default_rng(31)
    gains = []
    for _ in range(400):
        noisy = balanced_laplace(table, 1.0, rng)
        models = few.few_models(noisy)
        assert models is not None
        weights = np.exp(models.log_evidence - models.log_evidence.max()) * few.model_weights(table.size)
        wide = weights @ models.means / weights.sum()
        own = estimate(noisy).probabilities
        gains.append(float((table / table.sum()) @ (np.log(own) - np.log(wide / wide.sum()))))
    mean, error = float(np.mean(gains)), float(np.std(gains)) / 20
    assert mean > 4 * error  # one-sided, significance 3e-5
