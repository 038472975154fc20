"""The log-gamma gap on the complex plane against mpmath, where its terms are 1e13 times larger than itself."""

from __future__ import annotations

import mpmath as mp
import numpy as np
import pytest

from simplexdp.numerics.gamma import gap_rate


@pytest.mark.parametrize("removing", [True, False])
def test_complex_arguments(removing: bool) -> None:
    """400 points, seed 61: r 1e-6..1e6, α 1e-3..1e12, w inside the domain with imaginary parts of every size."""
    rng = np.random.default_rng(61)
    for _ in range(400):
        r, alpha = 10 ** rng.uniform(-6, 6), 10 ** rng.uniform(-3, 12)
        edge = alpha / r
        c = float(np.clip(edge * rng.uniform(0.01, 0.99), 0, 1e4)) if not removing else 10 ** rng.uniform(-4, 3)
        w = complex(c, min(edge, 1e4) * 10 ** rng.uniform(-3, 0.5))
        found = gap_rate(np.array([alpha]), np.array([r]), np.array([removing]), np.array([w]))[0] * w
        with mp.workdps(90):
            R, a, W = mp.mpf(r), mp.mpf(alpha), mp.mpc(w)
            y, s = (a + R, R) if removing else (a, -R)
            expected = complex(mp.loggamma(y + W * s) - (1 + W) * mp.loggamma(y) + W * mp.loggamma(y - s))
        assert abs(found - expected) <= 2e-11 * abs(expected) + 1e-300, (r, alpha, w)


def test_a_vector_is_its_elements() -> None:
    w = np.linspace(0.1, 3, 7)
    together = gap_rate(np.array([9.0]), np.array([1.0]), np.array([True]), w)
    alone = [gap_rate(np.array([9.0]), np.array([1.0]), np.array([True]), w[i : i + 1])[0] for i in range(7)]
    np.testing.assert_allclose(together, alone, rtol=1e-14)
