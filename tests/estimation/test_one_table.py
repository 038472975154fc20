from __future__ import annotations

import itertools
import math
from typing import get_args

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import gammaln

from simplexdp.errors import InvalidArgument
from simplexdp.estimation import Method, NoisyCounts, estimate, few

METHODS = get_args(Method)


@st.composite
def releases(draw: st.DrawFn) -> NoisyCounts:
    cells = draw(st.integers(1, 12))
    size = draw(st.sampled_from([1.0, 100.0, 1e6]))
    values = draw(st.lists(st.floats(-size, size), min_size=cells, max_size=cells))
    scale = draw(st.sampled_from([0.2, 3.0, 80.0, 1e5]))
    law = draw(st.sampled_from(["normal", "laplace", "gamma"]))
    return NoisyCounts(
        values=np.array(values),
        variance=scale**2,
        slope=draw(st.sampled_from([1e-9, 0.01, 2.0])) if law == "gamma" else 0.0,
        total=draw(st.sampled_from([None, 1.0, 7.0, 1000.0, 1e7])),
        noise="laplace" if law == "laplace" else "normal",
    )


def assert_sound(noisy: NoisyCounts, method: Method) -> None:
    found = estimate(noisy, method)
    assert found.probabilities.shape == noisy.values.shape
    assert np.all(found.probabilities > 0)
    assert found.probabilities.sum() == pytest.approx(1.0, abs=1e-9)
    assert np.all(np.isfinite(found.standard_errors))
    assert np.all(found.standard_errors >= 0)
    lower, upper = found.intervals(0.9)
    assert np.all((lower >= 0) & (lower <= upper) & (upper <= 1))


@settings(max_examples=80, deadline=None)
@given(noisy=releases(), method=st.sampled_from(METHODS))
def test_any_release_gives_a_distribution(noisy: NoisyCounts, method: Method) -> None:
    assert_sound(noisy, method)


@settings(max_examples=100, deadline=None)
@given(noisy=releases())
def test_any_release_gives_a_posterior(noisy: NoisyCounts) -> None:
    assert_sound(noisy, "posterior-mean")


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("value", [-1500.0, 1500.0])
def test_all_values_far_from_the_total(value: float, method: Method) -> None:
    noisy = NoisyCounts(values=np.array([value, value - 40]), variance=300.0**2, total=100.0)
    assert_sound(noisy, method)
    if method in ("truncated-normal", "posterior-mean"):  # the total is known, so only the difference speaks
        middle = NoisyCounts(values=np.array([70.0, 30.0]), variance=300.0**2, total=100.0)
        expected = estimate(middle, method).probabilities
        assert estimate(noisy, method).probabilities == pytest.approx(expected, rel=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("noise", ["normal", "laplace"])
@pytest.mark.parametrize("total", [None, 1.0, 1e6])
def test_a_hundred_thousand_cells(method: Method, noise: str, total: float | None) -> None:
    rng = np.random.default_rng(0)
    values = rng.normal(scale=5.0, size=100_000)
    values[:20] += 30_000.0
    assert_sound(NoisyCounts(values=values, variance=25.0, total=total, noise=noise), method)  # type: ignore[arg-type]


@pytest.mark.parametrize("cells", [2, 6, 7, 500])
@pytest.mark.parametrize("total", [None, 1.0, 50.0])
def test_all_values_zero(cells: int, total: float | None) -> None:
    found = estimate(NoisyCounts(values=np.zeros(cells), variance=100.0, total=total))
    assert found.probabilities == pytest.approx(np.full(cells, 1 / cells), rel=1e-6)


@pytest.mark.parametrize("cells", [4, 30, 700])
@pytest.mark.parametrize("method", METHODS)
def test_order_of_cells_does_not_matter(cells: int, method: Method) -> None:
    rng = np.random.default_rng(cells)
    values = rng.multinomial(20 * cells, rng.dirichlet(np.full(cells, 0.3))) + rng.normal(scale=4, size=cells)
    order = rng.permutation(cells)
    straight = estimate(NoisyCounts(values=values, variance=16.0, total=20.0 * cells), method)
    shuffled = estimate(NoisyCounts(values=values[order], variance=16.0, total=20.0 * cells), method)
    assert shuffled.probabilities == pytest.approx(straight.probabilities[order], rel=1e-6)
    for one, other in zip(straight.intervals(0.9), shuffled.intervals(0.9), strict=True):
        assert other == pytest.approx(one[order], rel=1e-6, abs=1e-9)


def test_a_table_keeps_its_shape() -> None:
    values = np.array([[10.0, 20.0, 30.0], [5.0, 0.0, 40.0]])
    square = estimate(NoisyCounts(values=values, variance=4.0, total=105.0))
    flat = estimate(NoisyCounts(values=values.ravel(), variance=4.0, total=105.0))
    assert square.probabilities.shape == (2, 3)
    assert np.array_equal(square.probabilities.ravel(), flat.probabilities)
    assert square.intervals()[1].shape == (2, 3)


# ---- the exact posterior against enumeration
def enumerated_means(noisy: NoisyCounts) -> tuple[np.ndarray, np.ndarray]:
    """Posterior mean and standard deviation by summing over every table with the total."""
    total, cells = int(noisy.total or 0), noisy.size
    heads = [f for f in itertools.product(range(total + 1), repeat=cells - 1) if sum(f) <= total]
    tables = np.array([[*head, total - sum(head)] for head in heads], dtype=np.float64)

    def log_likelihood(f: np.ndarray) -> np.ndarray:
        distance = np.abs(noisy.values - f) / noisy.scale
        return (-math.sqrt(2) * distance if noisy.noise == "laplace" else -0.5 * distance**2).sum(axis=-1)

    joint = np.zeros(len(tables))
    *weights, equal_weight = few.model_weights(cells, noisy.scale * cells / total)
    for shape, weight in zip(few.SHAPES, weights, strict=True):
        if np.isinf(shape):
            log_prior = gammaln(total + 1) - gammaln(tables + 1).sum(axis=1) - total * math.log(cells)
        else:
            each = gammaln(tables + shape) - gammaln(shape) - gammaln(tables + 1)
            all_cells = gammaln(total + cells * shape) - gammaln(cells * shape) - gammaln(total + 1)
            log_prior = each.sum(axis=1) - all_cells
        joint += weight * np.exp(log_prior + log_likelihood(tables))
    equal = equal_weight * math.exp(log_likelihood(np.full(cells, total / cells)))
    tables = np.vstack([tables, np.full(cells, total / cells)])
    joint = np.append(joint, equal) / (joint.sum() + equal)
    mean = joint @ tables
    return mean, np.sqrt(joint @ (tables - mean) ** 2)


@pytest.mark.parametrize("noise", ["normal", "laplace"])
@pytest.mark.parametrize(
    ("values", "scale", "total"),
    [((3.0, 7.0), 2.0, 12), ((-4.0, 9.0), 5.0, 6), ((3.0, -7.0, 9.0), 4.0, 12), ((60.0, 1.0, -2.0), 3.0, 60)],
)
def test_few_cells_are_exact(values: tuple[float, ...], scale: float, total: int, noise: str) -> None:
    noisy = NoisyCounts(values=np.array(values), variance=scale**2, total=total, noise=noise)  # type: ignore[arg-type]
    found = estimate(noisy)
    mean, deviation = enumerated_means(noisy)
    assert found.probabilities == pytest.approx(mean / total, rel=1e-6)
    assert found.standard_errors == pytest.approx(deviation / total, rel=1e-6)


@pytest.mark.parametrize("noise", ["normal", "laplace"])
def test_a_coarse_lattice_stays_close(noise: str) -> None:
    noisy = NoisyCounts(values=np.array([300.0, -40.0, 20.0]), variance=3600.0, total=300, noise=noise)  # type: ignore[arg-type]
    mean, deviation = enumerated_means(noisy)
    found = estimate(noisy)
    assert found.probabilities == pytest.approx(mean / 300, rel=0.05)
    assert found.standard_errors == pytest.approx(deviation / 300, rel=0.05)


# ---- refusals
@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("values", {"values": np.array([])}),
        ("values", {"values": np.array([1.0, np.nan])}),
        ("values", {"values": "abc"}),
        ("variance", {"variance": 0.0}),
        ("slope", {"slope": -1.0}),
        ("slope", {"slope": 1.0, "noise": "laplace"}),
        ("noise", {"noise": "cauchy"}),
        ("total", {"total": 0.0}),
    ],
)
def test_bad_releases_are_refused(name: str, arguments: dict[str, object]) -> None:
    good: dict[str, object] = {"values": np.array([1.0, 2.0]), "variance": 1.0}
    with pytest.raises(InvalidArgument, match=f"`{name}`"):
        NoisyCounts(**(good | arguments))  # type: ignore[arg-type]


def test_bad_requests_are_refused() -> None:
    noisy = NoisyCounts(values=np.array([1.0, 2.0]), variance=1.0)
    with pytest.raises(InvalidArgument, match="`method`"):
        estimate(noisy, "magic")  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument, match="`kind`"):
        estimate(noisy, "clip").intervals(0.9, kind="posterior")
    with pytest.raises(InvalidArgument, match="`level`"):
        estimate(noisy).intervals(1.0)


@pytest.mark.parametrize("scale", [0.3, 0.7, 2.0, 11.0])
def test_intervals_of_whole_numbers_count_the_discrete_tail(scale: float) -> None:
    """The reach h is the smallest whole number with Pr[|x| > h] ≤ 5 %, by enumeration of the discrete law."""
    x = np.arange(1, 2000)
    mass = 2 * np.exp(-x / scale)
    beyond = np.append(np.cumsum(mass[::-1])[::-1], 0.0) / (1 + mass.sum())  # Pr[|x| > h] at h = 0, 1, …
    reach = int(np.argmax(beyond <= 0.05))
    noisy = NoisyCounts(values=np.array([50.0, 50.0]), variance=2 * scale**2, total=100, noise="laplace")
    lower, upper = estimate(noisy, "raw").intervals(0.95, kind="frequentist")
    np.testing.assert_allclose((lower, upper), np.array([[50 - reach] * 2, [50 + reach] * 2]) / 100)
