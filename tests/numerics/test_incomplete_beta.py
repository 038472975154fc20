"""The incomplete beta function of our own against SciPy's."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import betainc

from simplexdp.numerics.beta import incomplete_beta


@pytest.mark.parametrize(("least", "tolerance"), [(-3.0, 1e-11), (-9.0, 1e-9)])
def test_it_is_what_scipy_says(least: float, tolerance: float) -> None:
    rng = np.random.default_rng(1)
    a, b = rng.uniform(0.05, 30, 3000), 10 ** rng.uniform(least, 6, 3000)
    x = 1 / (1 + 10 ** rng.uniform(-4, 6, 3000))
    np.testing.assert_allclose(incomplete_beta(a, b, x), betainc(a, b, x), rtol=0, atol=tolerance)
    assert np.abs(incomplete_beta(a, b + 1e-3, x) - betainc(a, b, x)).max() > tolerance


def test_its_ends() -> None:
    assert incomplete_beta(2.0, [0.5, 7.0], 1.0).tolist() == [1.0, 1.0]
    assert 0 <= float(incomplete_beta(16.0, 2000.0, 1e-6)) < 1e-50
