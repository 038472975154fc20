"""Neighbouring tables: no pair of Dirichlet laws is further apart than the exact loss says, and some reach it."""

from __future__ import annotations

import mpmath as mp
import numpy as np
import pytest
from scipy import stats
from scipy.special import gammaln

import reference
from simplexdp import Dirichlet
from simplexdp.accounting.composition import Composition
from simplexdp.accounting.smooth import GammaTerm

TABLES = 100_000


def dirichlet_renyi(u: np.ndarray, v: np.ndarray, order: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """D_λ(Dirichlet(u) ‖ Dirichlet(v)) row by row from its own formula, and the rounding error that may be in it.

    ln ∫ p^λ q^{1−λ} = ln B(λu + (1−λ)v) − λ ln B(u) + (λ−1) ln B(v), infinite where a shape is not positive.
    """
    w = order - 1
    mixed = order[:, None] * u - w[:, None] * v
    finite = (mixed > 0).all(axis=1)
    mixed = np.where(finite[:, None], mixed, 1.0)

    def log_beta(shapes: np.ndarray) -> np.ndarray:
        return gammaln(shapes).sum(axis=1) - gammaln(shapes.sum(axis=1))

    def size(shapes: np.ndarray) -> np.ndarray:
        return np.abs(gammaln(shapes)).sum(axis=1) + np.abs(gammaln(shapes.sum(axis=1)))

    value = (log_beta(mixed) - order * log_beta(u) + w * log_beta(v)) / w
    error = 1e-15 * (size(mixed) + order * size(u) + w * size(v)) / w
    return np.where(finite, value, np.inf), error


def curve(r: np.ndarray, alpha: np.ndarray, order: np.ndarray, kinds: tuple[bool, ...]) -> np.ndarray:
    """The library's exact curve, row by row."""
    return np.array(
        [
            Composition(tuple((GammaTerm(*row[:2], removing), 1) for removing in kinds)).rate(row[2] - 1)
            for row in zip(r.tolist(), alpha.tolist(), order.tolist(), strict=True)
        ]
    )


@pytest.mark.parametrize("relation", ["replace", "stratum", "remove", "add"])
def test_no_neighbouring_tables_exceed_the_exact_curve(relation: str) -> None:
    """25,000 tables of 5 cells (two strata of 5 for a change of stratum), seed by relation; 100,000 in all."""
    size = TABLES // 4
    rng = np.random.default_rng(["replace", "stratum", "remove", "add"].index(relation))
    # Parameters come in 500 values, so that the curve is not computed 25,000 times.
    settings = rng.integers(500, size=size)
    r_values, alpha_values = 10 ** rng.uniform(-1.5, 1.0, 500), 10 ** rng.uniform(-1, 2, 500)
    ends = alpha_values / r_values if relation != "remove" else np.full(500, 20.0)
    order_values = 1 + np.minimum(ends * rng.uniform(0.05, 0.98, 500), 30)
    r, alpha, order = r_values[settings], alpha_values[settings], order_values[settings]
    kinds = {"replace": (True, False), "stratum": (True, False), "remove": (True,), "add": (False,)}[relation]
    limit = curve(r_values, alpha_values, order_values, kinds)[settings]

    counts = np.floor(10 ** rng.uniform(-1, 3, (2, size, 5))).astype(int) * (rng.random((2, size, 5)) < 0.6)
    counts[:, : size // 10, :2] = 0  # the worst case is an empty cell on either side
    if relation in ("remove", "add"):
        counts[0, : size // 20, 2] = 10**9  # and, for a private total, a large table
    one = np.zeros((size, 5))
    one[:, 0] = 1
    scale = r[:, None]
    first, second = scale * counts[0] + alpha[:, None], scale * counts[1] + alpha[:, None]
    if relation == "replace":
        other = np.roll(one, 1, axis=1)
        found, error = dirichlet_renyi(first + scale * one, first + scale * other, order)
        reached = (counts[0, :, :2] == 0).all(axis=1)
    elif relation == "stratum":
        lost, lost_error = dirichlet_renyi(first + scale * one, first, order)
        gained, gained_error = dirichlet_renyi(second, second + scale * one, order)
        found, error = lost + gained, lost_error + gained_error
        reached = np.zeros(size, dtype=bool)
    else:
        u, v = first + scale * one, first
        found, error = dirichlet_renyi(u, v, order) if relation == "remove" else dirichlet_renyi(v, u, order)
        reached = (counts[0, :, 0] == 0) & (counts[0, :, 2] >= 10**9)
        error = error + 1e-5 * limit * (counts[0, :, 2] >= 10**9)  # 1e9 records are not yet infinitely many
    assert (found <= limit * (1 + 1e-11) + error).all()
    if reached.any():
        assert (np.abs(found - limit)[reached] <= (1e-11 * limit + error)[reached]).all()
        assert (error < 0.01 * limit)[reached].mean() > 0.9  # the comparison says something
    assert reached.sum() > size // 25 or relation == "stratum"


def test_a_change_of_stratum_reaches_the_curve_in_large_strata() -> None:
    """At 60 digits, with 10^k other records in the two strata: the gap closes as 10^-k."""
    r, alpha, order = 0.7, 3.0, 2.5
    limit = reference.rdp(r, alpha, order)
    gaps = []
    with mp.workdps(60):
        R, a, w = mp.mpf(r), mp.mpf(alpha), mp.mpf(order) - 1
        for k in (2, 4, 6):
            rest = R * mp.mpf(10) ** k + a
            total = mp.mpf(0)
            for before, after in ((a + R, a), (a, a + R)):
                u, v = (before, rest), (after, rest)
                mixed = [(1 + w) * x - w * y for x, y in zip(u, v, strict=True)]
                for shapes, weight in ((mixed, 1), (u, -1 - w), (v, w)):
                    total += weight * (mp.fsum(map(mp.loggamma, shapes)) - mp.loggamma(mp.fsum(shapes)))
            gaps.append(float(1 - total / w / limit))
    assert all(gap > 0 for gap in gaps)
    assert gaps[0] > 50 * gaps[1] > 2500 * gaps[2]


def test_no_neighbouring_tables_exceed_the_exact_profile() -> None:
    """1,000 tables, seed 7: δ of Beta(u+r, v) against Beta(u, v+r) in closed form never exceeds δ at empty cells."""
    rng = np.random.default_rng(7)
    for _ in range(50):
        r, alpha = 10 ** rng.uniform(-1, 0.7), 10 ** rng.uniform(-0.5, 1.5)
        mean, deviation = reference.loss_scale(r, alpha)
        epsilon = max(0.0, mean + deviation * rng.uniform(-1, 3))
        bounds = Dirichlet(r=r, alpha=alpha).loss().bounds(epsilon=epsilon)
        counts = np.floor(10 ** rng.uniform(-0.5, 2, (20, 2))) * (rng.random((20, 2)) < 0.8)
        counts[0] = 0
        u, v = r * counts.T + alpha
        # The loss r·(ln t − ln(1−t)) + constant is increasing in t: one threshold, by the likelihood ratio.
        constant = stats.beta.logpdf(0.5, u + r, v) - stats.beta.logpdf(0.5, u, v + r)
        threshold = 1 / (1 + np.exp((constant - epsilon) / r))
        found = stats.beta.sf(threshold, u + r, v) - np.exp(epsilon) * stats.beta.sf(threshold, u, v + r)
        assert (found <= bounds.upper * (1 + 1e-9) + 1e-14 * np.exp(epsilon)).all()
        assert found[0] == pytest.approx(bounds.lower, rel=1e-8, abs=1e-13 * np.exp(epsilon))
        assert (found[1:] < bounds.lower * (1 + 1e-9) + 1e-14).all()


def test_add_and_remove_profiles_of_random_tables_stay_below_the_gamma_pair() -> None:
    """200 tables, seed 8: y = G/(G + rest) is Beta; more records in its cell or fewer elsewhere only help."""
    rng = np.random.default_rng(8)
    for _ in range(10):
        r, alpha = 10 ** rng.uniform(-1, 0.5), 10 ** rng.uniform(-0.3, 1.5)
        mean, deviation = reference.loss_scale(r, alpha, "add")
        epsilon = max(0.0, mean + deviation * rng.uniform(-1, 2.5))
        limit = Dirichlet(r=r, alpha=alpha).loss("add-remove").delta(epsilon)
        cell = np.floor(10 ** rng.uniform(-0.5, 2, 20)) * (rng.random(20) < 0.6)
        u, rest = r * cell + alpha, 10 ** rng.uniform(0, 4, 20) + alpha
        for first, second in ((u + r, u), (u, u + r)):
            # Hockey stick on a fine grid of the log-odds: independent of any threshold formula.
            t = np.linspace(-60, 20, 8001)[:, None]
            x = 1 / (1 + np.exp(-t))
            log_jacobian = -np.log1p(np.exp(-t)) - np.logaddexp(0, t)
            p = np.exp(stats.beta.logpdf(x, first, rest) + log_jacobian)
            q = np.exp(stats.beta.logpdf(x, second, rest) + log_jacobian)
            found = np.trapezoid(np.maximum(p - np.exp(epsilon) * q, 0), t[:, 0], axis=0)
            assert (found <= limit * (1 + 1e-4) + 1e-9).all()
