"""From noisy overlapping tables to conditional tables: quadrature, marginals, back-off."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import special, stats

from simplexdp.estimation import NoisyCounts
from simplexdp.estimation.beta import NARROW, STRENGTHS, Proportions, beta_posterior
from simplexdp.estimation.network import estimate_network
from simplexdp.estimation.network_rows import half_raked, no_interaction
from simplexdp.estimation.network_tables import NetworkTables, OverlappingTables

FAMILIES = [("a", ()), ("b", ("a",)), ("c", ("a", "b")), ("d", ("c", "a", "b"))]
SIZES = {"a": 3, "b": 2, "c": 4, "d": 3}


# -- one proportion -----------------------------------------------------------------------------------------------


def exact(known: Proportions, tau: float) -> tuple[float, float]:
    """Log-evidence and mean of one cell on a dense grid of the logit."""
    z, n, m, spread = (float(x[0]) for x in (known.values, known.totals, known.means, known.total_variances))
    far = 40 / (tau * min(m, 1 - m))  # where the Beta density has fallen by e^-40
    u = np.sort(np.concatenate([np.linspace(-60, 60, 200_001), np.linspace(-far, far, 200_001)]))
    theta, log_rest = special.expit(u), -np.logaddexp(0, u)
    variance = known.variance + known.slope * n * theta + n * theta * (1 - theta) + spread * (theta - known.centre) ** 2
    logs = stats.norm.logpdf(z, n * theta, np.sqrt(variance)) - special.betaln(tau * m, tau * (1 - m))
    logs += tau * m * -np.logaddexp(0, -u) + tau * (1 - m) * log_rest
    weights = np.exp(logs - logs.max())
    whole = float(np.trapezoid(weights, u))
    return math.log(whole) + float(logs.max()), float(np.trapezoid(weights * theta, u)) / whole


@pytest.mark.slow
@pytest.mark.parametrize("m", [0.003, 0.2, 0.5, 0.9])
@pytest.mark.parametrize(("z", "v", "n"), [(3.0, 25.0, 40.0), (-20.0, 900.0, 100.0), (700.0, 4.0, 1000.0)])
def test_the_quadrature_agrees_with_brute_force(m: float, z: float, v: float, n: float) -> None:
    known = Proportions(
        values=np.array([z]),
        variance=v,
        slope=0.1,
        totals=np.array([n]),
        total_variances=np.array([9.0]),
        means=np.array([m]),
        centre=0.25,
    )
    found = beta_posterior(known)
    expected = [exact(known, tau) for tau in STRENGTHS[:-1]]
    best = max(log_evidence for log_evidence, _ in expected)
    for i, (tau, (log_evidence, mean)) in enumerate(zip(STRENGTHS, expected, strict=False)):
        if log_evidence < best - 5:
            assert found.log_evidence[i, 0] < best - 4  # it will get no weight
            continue
        loose = 3.0 if tau * m * (1 - m) > NARROW else 1.0  # a narrow prior is taken for normal
        assert found.log_evidence[i, 0] == pytest.approx(log_evidence, abs=0.05 * loose)
        assert found.mean[i, 0] == pytest.approx(mean, rel=0.03 * loose, abs=1e-5)
    assert found.mean[-1, 0] == m
    assert found.variance[-1, 0] == 0


# -- marginals of overlapping tables ------------------------------------------------------------------------------


def test_marginals_are_weighted_by_precision() -> None:
    """10,000 draws: mean and variance of the combined marginal are what it states, to 5 %; any table alone is worse."""
    rng = np.random.default_rng(0)
    joint = np.array([[30.0, 10.0, 5.0], [4.0, 1.0, 50.0]])
    sigma = {("x", "y"): 3.0, ("y",): 4.0}
    draws = []
    for _ in range(10_000):
        tables = {
            ("x", "y"): NoisyCounts(values=joint + rng.normal(0, 3.0, joint.shape), variance=9.0, total=100.0),
            ("y",): NoisyCounts(values=joint.sum(axis=0) + rng.normal(0, 4.0, 3), variance=16.0, total=100.0),
        }
        marginal = OverlappingTables(tables).marginal(["y"])
        draws.append(marginal.values)
    found = np.array(draws)
    np.testing.assert_allclose(found.mean(axis=0), joint.sum(axis=0), atol=0.15)
    np.testing.assert_allclose(found.sum(axis=1), 100.0)
    np.testing.assert_allclose(found.var(axis=0), marginal.variance, rtol=0.05)
    assert marginal.variance < min(2 * sigma["x", "y"] ** 2, sigma["y",] ** 2)


def test_axes_come_in_the_order_asked_for_and_slopes_add_up() -> None:
    values = np.arange(24.0).reshape(2, 3, 4)
    table = NoisyCounts(values=values, variance=2.0, slope=0.5, total=float(values.sum()))
    found = OverlappingTables({("x", "y", "z"): table}).marginal(["z", "x"])
    np.testing.assert_allclose(found.values, values.sum(axis=1).T)
    assert found.variance == pytest.approx(2.0 * 3 * 7 / 8)
    assert found.slope == pytest.approx(0.5 * 7 / 8)
    rows = OverlappingTables({("x", "y", "z"): table}).rows(["z"], "x")  # 8 cells, 1/2 of the noise is in the totals
    np.testing.assert_allclose(rows.values, found.values)
    assert rows.variance == pytest.approx(2.0 * 3 / 2)


def test_rows_add_up_to_better_known_columns() -> None:
    """4,000 draws: the error of rows once their totals are known is as stated to 5 %, and less than one table's."""
    rng = np.random.default_rng(1)
    joint = np.array([[30.0, 10.0, 5.0], [4.0, 1.0, 50.0]])
    errors = []
    for _ in range(4000):
        tables = {
            ("x", "y"): NoisyCounts(values=joint + rng.normal(0, 3.0, joint.shape), variance=9.0, total=100.0),
            ("y",): NoisyCounts(values=joint.sum(axis=0) + rng.normal(0, 1.0, 3), variance=1.0, total=100.0),
        }
        rows = OverlappingTables(tables).rows(["x"], "y")
        error = rows.values - joint
        errors.append(error - error.mean(axis=1, keepdims=True))
    assert np.var(errors) == pytest.approx(rows.variance, rel=0.05)
    assert rows.variance < 0.65 * 9.0 * 2 / 3  # two rows: about half of the noise is in the columns


def test_without_a_public_total_the_released_sums_give_it() -> None:
    tables = {
        ("x",): NoisyCounts(values=np.array([40.0, 62.0]), variance=1.0),
        ("x", "y"): NoisyCounts(values=np.full((2, 50), 1.0), variance=1.0),
    }
    total = OverlappingTables(tables).total
    assert 100 < total < 102
    assert OverlappingTables(tables).marginal(["x"]).values.sum() == pytest.approx(total)


# -- networks -----------------------------------------------------------------------------------------------------


def truth(seed: int) -> dict[str, NDArray[np.float64]]:
    rng = np.random.default_rng(seed)
    return {node: rng.dirichlet(np.full(SIZES[node], 1.0), [SIZES[p] for p in parents]) for node, parents in FAMILIES}


def records(
    tables: dict[str, NDArray[np.float64]], size: int, rng: np.random.Generator
) -> dict[str, NDArray[np.int64]]:
    drawn: dict[str, NDArray[np.int64]] = {}
    for node, parents in FAMILIES:
        rows = np.broadcast_to(tables[node], (size, SIZES[node])) if not parents else None
        rows = tables[node][tuple(drawn[p] for p in parents)] if rows is None else rows
        drawn[node] = np.minimum((rng.random((size, 1)) > rows.cumsum(axis=1)).sum(axis=1), SIZES[node] - 1)
    return drawn


def noisy_tables(
    drawn: dict[str, NDArray[np.int64]], sigma: float, rng: np.random.Generator
) -> dict[tuple[str, ...], NoisyCounts]:
    found = {}
    for columns in NetworkTables.of(FAMILIES).columns:
        shape = [SIZES[name] for name in columns]
        counts = np.zeros(shape)
        np.add.at(counts, tuple(drawn[name] for name in columns), 1)
        values = counts + rng.normal(0, sigma, shape)
        found[columns] = NoisyCounts(values=values, variance=sigma**2, total=float(counts.sum()))
    return found


def divergence(tables: dict[str, NDArray[np.float64]], found: dict[str, NDArray[np.float64]]) -> float:
    """KL of the two networks: the expected log-ratio over 20,000 records of the true one."""
    drawn = records(tables, 20_000, np.random.default_rng(77))
    total = 0.0
    for node, parents in FAMILIES:
        at = tuple(drawn[name] for name in (*parents, node))
        total += float(np.log(tables[node][at] / found[node][at]).mean())
    return total


@pytest.mark.slow
@settings(max_examples=12, deadline=None)
@given(st.integers(0, 1000), st.sampled_from([0.1, 3.0, 1000.0]), st.sampled_from([1, 50, 5000]))
def test_every_row_is_a_distribution(seed: int, sigma: float, size: int) -> None:
    rng = np.random.default_rng(seed)
    found = estimate_network(FAMILIES, noisy_tables(records(truth(seed), size, rng), sigma, rng))
    for node, parents in FAMILIES:
        assert found[node].shape == tuple(SIZES[name] for name in (*parents, node))
        assert (found[node] > 0).all()
        np.testing.assert_allclose(found[node].sum(axis=-1), 1, rtol=1e-12)


def test_little_noise_and_many_records_give_the_truth() -> None:
    rng = np.random.default_rng(5)
    tables = truth(5)
    found = estimate_network(FAMILIES, noisy_tables(records(tables, 300_000, rng), 3.0, rng))
    assert divergence(tables, found) < 0.002
    assert divergence(tables, truth(6)) > 0.5  # the test can tell networks apart


@pytest.mark.slow
def test_more_noise_costs_more_and_much_noise_no_more_than_knowing_nothing() -> None:
    tables = truth(8)
    uniform = {node: np.full_like(tables[node], 1 / SIZES[node]) for node, _ in FAMILIES}
    losses = []
    for sigma in (1.0, 30.0, 3000.0):
        rng = np.random.default_rng(9)
        drawn = records(tables, 2000, rng)
        runs = [divergence(tables, estimate_network(FAMILIES, noisy_tables(drawn, sigma, rng))) for _ in range(5)]
        losses.append(float(np.mean(runs)))
    assert losses[0] < losses[1] < losses[2]
    assert losses[2] < 1.25 * divergence(tables, uniform)


def test_rows_back_off_to_their_parents_effects() -> None:
    """Rows that noise hides are predicted from the parents one by one: closer than uniform rows or raw counts."""
    rng = np.random.default_rng(10)
    effect_a, effect_b = rng.normal(0, 1.2, (3, 3)), rng.normal(0, 1.2, (2, 3))
    logits = effect_a[:, None] + effect_b[None]
    child = np.exp(logits) / np.exp(logits).sum(axis=-1, keepdims=True)
    families = [("a", ()), ("b", ()), ("x", ("a", "b"))]
    counts = 1000 * child / 6
    shapes = {("a", "b", "x"): counts, ("a", "x"): counts.sum(axis=1), ("b", "x"): counts.sum(axis=0)}
    shapes |= {("a",): counts.sum(axis=(1, 2)), ("b",): counts.sum(axis=(0, 2)), ("x",): counts.sum(axis=(0, 1))}
    ours, raw = 0.0, 0.0
    for _ in range(10):
        tables = {
            columns: NoisyCounts(
                values=values + rng.normal(0, 40.0 if len(columns) == 3 else 8.0, values.shape),
                variance=1600.0 if len(columns) == 3 else 64.0,
                total=1000.0,
            )
            for columns, values in shapes.items()
        }
        found = estimate_network(families, tables)["x"]
        clipped = np.maximum(tables["a", "b", "x"].values, 0) + 20
        clipped /= clipped.sum(axis=-1, keepdims=True)
        ours += float((child * np.log(child / found)).sum())
        raw += float((child * np.log(child / clipped)).sum())
    uniform = 10 * float((child * np.log(child * 3)).sum())
    assert ours < 0.5 * raw
    assert ours < 0.5 * uniform


def test_many_small_rows_are_not_pulled_to_one_large_row() -> None:
    """One row has nearly all records and one value; the other thirty never have it. Means over five draws."""
    counts = np.tile([0.0, 14.0, 6.0], (31, 1))
    counts[0] = [20_000.0, 0.0, 0.0]
    exact = {("p", "x"): counts, ("p",): counts.sum(axis=1), ("x",): counts.sum(axis=0)}
    draws = []
    for seed in range(5):
        rng = np.random.default_rng(seed)
        tables = {
            columns: NoisyCounts(values=values + rng.normal(0, 6.0, values.shape), variance=36.0, total=counts.sum())
            for columns, values in exact.items()
        }
        draws.append(estimate_network([("p", ()), ("x", ("p",))], tables)["x"])
    found = np.mean(draws, axis=0)
    assert found[0, 0] > 0.999
    assert found[1:, 0].mean() < 0.3  # the marginal says 0.97, and a third is knowing nothing
    assert found[1:, 1].mean() > 0.55


def test_parents_that_do_not_interact_are_told_together() -> None:
    """Iterative proportional fitting against its definition: both margins, and a log-linear law without interaction."""
    rng = np.random.default_rng(4)
    count = rng.gamma(1.0, 100.0, size=(3, 4))
    logits = rng.normal(size=(3, 1, 5)) + rng.normal(size=(1, 4, 5))
    truth = np.exp(logits) / np.exp(logits).sum(axis=2, keepdims=True)
    mass = count[:, :, None] * truth
    first, second = (mass.sum(axis=axis) / count.sum(axis=axis)[:, None] for axis in (1, 0))
    marginal = (mass.sum(axis=(0, 1)) / count.sum())[None]
    found = no_interaction(first, second, marginal, count).reshape(truth.shape)
    np.testing.assert_allclose(found, truth, atol=1e-3)
    product = first[:, None] * (second / marginal)[None]
    product /= product.sum(axis=2, keepdims=True)
    assert np.abs(product - truth).max() > 0.02  # what counts twice is far from it


def test_raking_halves_the_way_to_the_margins() -> None:
    """One parent: the log of what is missing halves in every round, but for the change of the row sums."""
    rng = np.random.default_rng(6)
    rows, count = rng.dirichlet(np.ones(4), 5), rng.gamma(2.0, 50.0, 5)
    margin = (count @ rows / count.sum() * [0.9, 1.1, 1.05, 0.95])[None]
    margin /= margin.sum()

    def missing(found: NDArray[np.float64]) -> float:
        return float(np.abs(np.log(margin[0] / (count @ found / count.sum()))).max())

    once, often = (half_raked(rows, count, [margin], rounds) for rounds in (1, 12))
    np.testing.assert_allclose(once.sum(axis=1), 1, rtol=1e-12)
    assert 0.4 * missing(rows) < missing(once) < 0.65 * missing(rows)
    assert missing(often) < 0.01 * missing(rows)
    np.testing.assert_allclose(half_raked(rows, count, [(count @ rows / count.sum())[None]], 3), rows, rtol=1e-12)


def test_values_of_small_rows_are_not_lost() -> None:
    """A value with a tenth of two small rows and nearly nothing of the whole keeps most of its share; 20 draws."""
    counts = np.array([[0.0, 2560.0, 310.0, 90.0], [24_900.0, 0.0, 0.0, 0.0], [0.0, 600.0, 230.0, 95.0]])
    exact = {("p", "x"): counts, ("p",): counts.sum(axis=1), ("x",): counts.sum(axis=0)}
    kept = []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        tables = {
            columns: NoisyCounts(values=values + rng.normal(0, 30.0, values.shape), variance=900.0, total=counts.sum())
            for columns, values in exact.items()
        }
        found = estimate_network([("p", ()), ("x", ("p",))], tables)["x"]
        kept.append(float(counts.sum(axis=1) @ found[:, 3]) / 185)
    assert 0.85 < np.mean(kept) < 1.1


def test_a_parent_that_repeats_another_adds_nothing() -> None:
    """Two parents that are equal in 98 of 100 records: rows seen rarely stay where either parent puts them."""
    rng = np.random.default_rng(5)
    share = np.array([[0.9, 0.1], [0.2, 0.8]])
    joint = np.array([[4900.0, 100.0], [100.0, 4900.0]])
    counts = joint[:, :, None] * share[:, None]
    exact = {("a", "b", "x"): counts, ("a", "x"): counts.sum(axis=1), ("b", "x"): counts.sum(axis=0), ("a", "b"): joint}
    exact |= {("a",): joint.sum(axis=1), ("b",): joint.sum(axis=0)}
    tables = {
        columns: NoisyCounts(values=values + rng.normal(0, 20.0, values.shape), variance=400.0, total=10_000.0)
        for columns, values in exact.items()
    }
    found = estimate_network([("a", ()), ("b", ("a",)), ("x", ("a", "b"))], tables)["x"]
    np.testing.assert_allclose(found[[0, 1], [0, 1]], share, atol=0.02)


def test_columns_with_one_cell_and_wide_networks_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("simplexdp.estimation.network.UPSTREAM_CELLS", 1)  # as if exact inference were too large
    rng = np.random.default_rng(3)
    found = estimate_network(FAMILIES, noisy_tables(records(truth(3), 5000, rng), 2.0, rng))
    assert divergence(truth(3), found) < 0.1
    one = {("k",): NoisyCounts(values=np.array([9.0]), variance=1.0, total=9.0)}
    one["k", "y"] = NoisyCounts(values=np.array([[4.0, 5.0]]), variance=1.0, total=9.0)
    tables = estimate_network([("k", ()), ("y", ("k",))], one)
    assert tables["k"].tolist() == [1.0]
    assert tables["y"].shape == (1, 2)


def test_the_list_of_tables_has_no_table_twice() -> None:
    found = NetworkTables.of(FAMILIES)
    assert len({frozenset(columns) for columns in found.columns}) == len(found.columns)
    assert found.columns[:4] == (("a",), ("a", "b"), ("a", "b", "c"), ("c", "a", "b", "d"))
    assert set(found.columns[4:]) == {
        ("b",),
        ("c",),
        ("d",),
        ("a", "c"),
        ("b", "c"),
        ("c", "d"),
        ("a", "d"),
        ("b", "d"),
    }
    assert NetworkTables.of(FAMILIES, extra=False).columns == found.columns[:4]
