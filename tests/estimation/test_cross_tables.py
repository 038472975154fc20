"""Many tables together: the choice of what to draw, and estimates that agree, against dense linear algebra."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
import scipy.linalg
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from simplexdp.errors import InvalidArgument
from simplexdp.estimation import NoisyCounts
from simplexdp.estimation.agreement import agreeing
from simplexdp.estimation.cross_tables import (
    Columns,
    centred,
    disagreement,
    estimate_tables,
    fitted,
    least_variance_tables,
    margins_of,
    noise_of,
    summed,
)
from simplexdp.estimation.joint import JointPosterior, free_spread
from simplexdp.estimation.network_tables import OverlappingTables

FloatArray = NDArray[np.float64]
SIZES = {"a": 2, "b": 3, "c": 4}
WANTED: list[Columns] = [("a", "b"), ("b", "c"), ("a",)]


def summing(names: Columns, sizes: dict[str, int]) -> FloatArray:
    """The matrix that takes the joint table of all columns to one over some."""
    matrix = np.ones((1, 1))
    for name, size in sizes.items():
        matrix = np.kron(matrix, np.eye(size) if name in names else np.ones((1, size)))
    return matrix


def covariance(drawn: dict[Columns, float], names: Columns, sizes: dict[str, int], public: bool) -> FloatArray:
    """Of the best linear unbiased estimate of a table, from draws with these variances, by dense algebra."""
    information = sum(summing(each, sizes).T @ summing(each, sizes) / v for each, v in drawn.items())
    if public:
        information = information + 1e9 * summing((), sizes).T @ summing((), sizes)
    away = summing(names, sizes)
    return np.asarray(away @ np.linalg.pinv(information, rcond=1e-14) @ away.T)


def loss(drawn: dict[Columns, float], weights: list[float], public: bool) -> float:
    traces = [float(np.trace(covariance(drawn, names, SIZES, public))) for names in WANTED]
    return math.fsum(weight * trace for weight, trace in zip(weights, traces, strict=True))


def precisions(public: bool, weights: list[float]) -> dict[Columns, float]:
    tables, shares = least_variance_tables(WANTED, SIZES, weights, total_is_public=public)
    return dict(zip(tables, shares, strict=True))


@pytest.mark.parametrize("public", [False, True])
@pytest.mark.parametrize("weights", [[1.0, 1.0, 1.0], [5.0, 1.0, 40.0]])
def test_what_is_drawn_loses_least(public: bool, weights: list[float]) -> None:
    """No other share of the same budget over tables and margins is better by more than the rounding of precisions."""
    shares = precisions(public, weights)
    assert math.isclose(math.fsum(shares.values()), 1)
    best = loss({names: 1 / share for names, share in shares.items()}, weights, public)
    rng = np.random.default_rng(1)
    others = []
    for concentration in (0.3, 1.0, 3.0):
        for part in rng.dirichlet(np.full(len(margins_of(WANTED)), concentration), 60):
            tried = {names: 1 / p for names, p in zip(margins_of(WANTED), 0.95 * part + 0.05 / len(part), strict=True)}
            others.append(loss(tried, weights, public))
    equal = loss(dict.fromkeys(WANTED, 3.0), weights, public)
    assert best < 1.01 * min(others)
    assert best < 0.99 * equal  # and drawing the wanted tables alike is worse: the search does something


@pytest.mark.parametrize("public", [False, True])
def test_pairs_of_binary_columns_are_drawn_in_larger_tables(public: bool) -> None:
    """By dense algebra: a tenth less variance than of pairs and their margins; none where columns are wide."""
    sizes = dict.fromkeys("abcdef", 2)
    wanted = list(itertools.combinations(sizes, 2))

    def variance(tables: Any, shares: Any) -> float:
        drawn = {names: 1 / share for names, share in zip(tables, shares, strict=True)}
        return sum(float(np.trace(covariance(drawn, names, sizes, public))) for names in wanted[:1])

    tables, shares = least_variance_tables(wanted, sizes, [1.0] * len(wanted), total_is_public=public)
    assert max(map(len, tables)) > 2
    assert all(any(set(names) <= set(each) for each in tables) for names in wanted)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("simplexdp.estimation.cross_tables.LARGER", 0)
        plain = least_variance_tables(wanted, sizes, [1.0] * len(wanted), total_is_public=public)
    assert max(map(len, plain[0])) == 2
    assert variance(tables, shares) < 0.93 * variance(*plain)
    wide = least_variance_tables(wanted, dict.fromkeys(sizes, 5), [1.0] * len(wanted), total_is_public=public)
    assert max(map(len, wide[0])) == 2


def test_weights_move_precision() -> None:
    plain, heavy = precisions(True, [1.0, 1.0, 1.0]), precisions(True, [1.0, 100.0, 1.0])
    assert heavy[("b", "c")] > plain[("b", "c")]


@pytest.mark.parametrize("public", [False, True])
def test_the_noise_of_sums_is_that_of_dense_algebra(public: bool) -> None:
    rng = np.random.default_rng(2)
    drawn: dict[Columns, float] = {("a", "b"): 4.0, ("b", "c"): 9.0, ("a",): 2.0, ("a", "b", "c"): 25.0}
    tables = {
        names: NoisyCounts(
            values=rng.integers(5, 50, [SIZES[name] for name in names]).astype(float),
            variance=variance,
            total=1000.0 if public else None,
        )
        for names, variance in drawn.items()
    }
    pooled = OverlappingTables(tables)
    for names in [("a", "b"), ("b", "c"), ("b",), ("a", "b", "c")]:
        weights = rng.normal(size=[SIZES[name] for name in names])
        flat = weights.ravel()
        expected = math.sqrt(flat @ covariance(drawn, names, SIZES, public) @ flat)
        assert noise_of(pooled, names, weights) == pytest.approx(expected, rel=1e-4)
        assert noise_of(pooled, names, 2 * weights) > 1.5 * expected  # the comparison can fail


def bound(spread: FloatArray, margins: list[FloatArray], of: FloatArray) -> FloatArray:
    """Covariance of independent cells given linear margins, when those have the covariance `of`."""
    away = np.concatenate(margins)
    own = np.diag(spread)
    gain = own @ away.T @ np.linalg.pinv(away @ own @ away.T, rcond=1e-12)
    return np.asarray(own - gain @ away @ own + gain @ of @ gain.T)


def test_the_joint_posterior_is_that_of_dense_algebra() -> None:
    """Level by level: of one column given the total, of pairs given those, of a triple given all of its pairs."""
    rng = np.random.default_rng(5)
    spreads = {names: rng.uniform(1, 9, [SIZES[name] for name in names]) for names in margins_of([("a", "b", "c")])}
    joint = JointPosterior(spreads=spreads, total_variance=7.0)
    singles = {
        name: bound(spreads[name,].ravel(), [np.ones((1, size))], np.array([[7.0]])) for name, size in SIZES.items()
    }
    weights = rng.normal(size=SIZES["b"])
    assert joint.deviation(("b",), weights) == pytest.approx(math.sqrt(weights @ singles["b"] @ weights), rel=1e-5)

    # All three columns at once: given the total they are independent, and pairs are so given them.
    names, ends = list(SIZES), np.cumsum([0, *SIZES.values()])
    total = np.concatenate([spreads[name,].ravel() / spreads[name,].sum() for name in names])
    together = 7.0 * np.outer(total, total)
    for name, start, end in zip(names, ends, ends[1:], strict=False):
        together[start:end, start:end] = singles[name]
    pairs = list(itertools.combinations(names, 2))
    gains, own = [], []
    for pair in pairs:
        sizes = {name: SIZES[name] for name in pair}
        away = np.concatenate([summing((name,), sizes) for name in pair])
        spread = np.diag(spreads[pair].ravel())
        gain = spread @ away.T @ np.linalg.pinv(away @ spread @ away.T, rcond=1e-12)
        place = np.concatenate([np.arange(ends[names.index(n)], ends[names.index(n) + 1]) for n in pair])
        wide = np.zeros((spread.shape[0], ends[-1]))
        wide[:, place] = gain
        gains.append(wide)
        own.append(spread - gain @ away @ spread)
    gain = np.concatenate(gains)
    of_pairs = gain @ together @ gain.T + scipy.linalg.block_diag(*own)
    start = 0
    for pair in pairs:
        size = spreads[pair].size
        weights = rng.normal(size=spreads[pair].shape)
        exact = weights.ravel() @ of_pairs[start : start + size, start : start + size] @ weights.ravel()
        assert joint.deviation(pair, weights) == pytest.approx(math.sqrt(exact), rel=1e-4)
        start += size
    of_all = bound(spreads["a", "b", "c"].ravel(), [summing(pair, SIZES) for pair in pairs], of_pairs)
    for weights in (rng.normal(size=(2, 3, 4)), np.ones((2, 3, 4)), np.eye(24)[3].reshape(2, 3, 4)):
        exact = weights.ravel() @ of_all @ weights.ravel()
        assert joint.deviation(("a", "b", "c"), weights) == pytest.approx(math.sqrt(exact), rel=1e-3)
        alone = math.sqrt(float((weights**2 * np.diag(of_all).reshape(2, 3, 4)).sum()))
        assert weights.sum() == 1 or abs(alone / math.sqrt(exact) - 1) > 0.05  # the comparison can fail


def test_cells_that_a_known_sum_binds() -> None:
    """Independent cells with these variances, given their sum, have those that are asked for."""
    wanted = np.array([3.0, 1.0, 2.0, 0.5])
    spread = free_spread(wanted)
    given_sum = np.diag(spread) - np.outer(spread, spread) / spread.sum()
    np.testing.assert_allclose(np.diag(given_sum), wanted, rtol=1e-5)
    assert (spread > wanted).all()


def records(size: int, seed: int, columns: int = 4) -> dict[str, NDArray[np.int64]]:
    """Columns that depend on each other, some of them nearly determined."""
    rng = np.random.default_rng(seed)
    first = rng.choice(5, size, p=[0.5, 0.3, 0.15, 0.04, 0.01])
    found = {"c0": first}
    for i in range(1, columns):
        flip = rng.random(size) < 0.3 * i / columns
        found[f"c{i}"] = np.where(flip, rng.integers(0, 2 + i, size), first % (2 + i))
    return found


def counted(data: dict[str, NDArray[np.int64]], names: Columns) -> FloatArray:
    sizes = [int(data[name].max()) + 1 for name in names]
    cells = np.ravel_multi_index([data[name] for name in names], sizes)
    return np.bincount(cells, minlength=math.prod(sizes)).reshape(sizes).astype(float)


def drawn_from(
    data: dict[str, NDArray[np.int64]], tables: list[Columns], deviation: float, seed: int, public: bool = True
) -> dict[Columns, NoisyCounts]:
    rng = np.random.default_rng(seed)
    found = {}
    for names in tables:
        exact = counted(data, names)
        noisy = exact + np.rint(rng.normal(0, deviation, exact.shape))
        found[names] = NoisyCounts(values=noisy, variance=deviation**2, total=exact.sum() if public else None)
    return found


MIXED: list[Columns] = [("c2",), ("c0", "c2"), ("c1", "c2", "c0"), ("c0", "c3", "c2"), ("c3", "c1", "c2")]
"""Columns in another order in each."""
PAIRS: list[Columns] = list(itertools.combinations(["c0", "c1", "c2", "c3"], 2))
TRIPLES: list[Columns] = list(itertools.combinations(["c0", "c1", "c2", "c3"], 3))


@settings(max_examples=25, deadline=None)
@given(
    st.integers(0, 10**6),
    st.sampled_from([1.0, 10.0, 300.0]),
    st.sampled_from([PAIRS, TRIPLES, MIXED, [("c0",), *PAIRS[:2], TRIPLES[3]]]),
    st.booleans(),
)
def test_tables_agree_and_are_positive(seed: int, deviation: float, wanted: list[Columns], public: bool) -> None:
    data = records(500, seed)
    drawn = drawn_from(data, wanted, deviation, seed, public)
    found = estimate_tables(drawn, wanted)
    total = OverlappingTables(drawn).total
    counts = {names: found[names].counts for names in margins_of(wanted) if {*names} in [{*each} for each in wanted]}
    assert len(counts) == len(wanted)
    assert disagreement(counts) <= 1e-9 * total
    for names in counts:
        assert counts[names].min() > 0
        assert counts[names].sum() == pytest.approx(total, rel=1e-12)
        assert (found[names].deviations >= 0).all()
    assert set(found) == set(margins_of(wanted))


def test_disagreement_is_seen() -> None:
    one, other = np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([[1.0, 2.0], [4.0, 3.0]])
    assert disagreement({("a", "b"): one, ("b", "c"): other}) == pytest.approx(1.0)
    assert disagreement({("a", "b"): one, ("b", "a"): one.T}) == 0


def test_less_is_lost_than_by_clipping() -> None:
    """Squared error and KL, mean of 10 draws at each of three noise levels; the raw draws lose over twice as much."""
    data = records(3000, 5)
    for deviation in (3.0, 20.0, 100.0):
        ours, clipped = [], []
        for seed in range(10):
            drawn = drawn_from(data, PAIRS, deviation, seed)
            found = estimate_tables(drawn, PAIRS)
            for names in PAIRS:
                exact = counted(data, names) / 3000
                raw = np.maximum(drawn[names].values, 1e-6)
                ours.append(losses(exact, found[names].counts / 3000))
                clipped.append(losses(exact, raw / raw.sum()))
        ratio = np.mean(ours, axis=0) / np.mean(clipped, axis=0)
        assert (ratio < [0.75, 0.5]).all(), (deviation, ratio)


def losses(exact: FloatArray, guess: FloatArray) -> tuple[float, float]:
    seen = exact > 0
    return float(((exact - guess) ** 2).sum()), float((exact[seen] * np.log(exact[seen] / guess[seen])).sum())


def test_posterior_deviations_are_of_the_right_size() -> None:
    """20 draws of 6 tables: 90 to 99 % of all counts within 1.96 deviations; not with a third of them."""
    data = records(3000, 7)
    inside, third = [], []
    for seed in range(20):
        found = estimate_tables(drawn_from(data, PAIRS, 12.0, seed), PAIRS)
        for names in PAIRS:
            away = np.abs(found[names].counts - counted(data, names)) - 0.5
            inside.append((away <= 1.96 * found[names].deviations).mean())
            third.append((away <= 0.65 * found[names].deviations).mean())
    assert 0.9 < np.mean(inside) < 0.995
    assert np.mean(third) < 0.9


def test_no_count_is_where_none_can_be() -> None:
    """Of a diagonal table; and the others still agree with it."""
    data = records(500, 3)
    data["c1"] = np.minimum(data["c0"], 2)
    mask = counted(data, ("c0", "c1")) == 0
    drawn = drawn_from(data, PAIRS, 20.0, 1)
    found = estimate_tables(drawn, PAIRS, {("c0", "c1"): mask})
    assert (found["c0", "c1"].counts[mask] == 0).all()
    assert (found["c0", "c1"].deviations[mask] == 0).all()
    assert (found["c0", "c1"].counts[~mask] > 0).all()
    assert disagreement({names: found[names].counts for names in PAIRS}) < 1e-9 * 500
    assert (estimate_tables(drawn, PAIRS)["c0", "c1"].counts > 0).all()


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from([1.0, 30.0, 300.0]), st.sampled_from([PAIRS, TRIPLES, MIXED]), st.data())
def test_tables_agree_around_zeros_also_where_records_break_rules(
    seed: int, deviation: float, wanted: list[Columns], draw: Any
) -> None:
    """Up to three impossible pairs, whatever was counted there, in every table that has both columns."""
    data = records(500, seed)
    sizes = {name: int(data[name].max()) + 1 for name in data}
    pairs = [
        {name: draw.draw(st.integers(1, sizes[name] - 1)) for name in draw.draw(st.sampled_from(PAIRS))}
        for _ in range(draw.draw(st.integers(1, 3)))
    ]
    impossible = {}
    for names in margins_of(wanted):
        cells = np.indices([sizes[name] for name in names])
        inside = [
            np.all([cells[names.index(name)] == cell for name, cell in pair.items()], axis=0)
            for pair in pairs
            if set(pair) <= set(names)
        ]
        if inside:
            impossible[names] = np.any(inside, axis=0)
    found = estimate_tables(drawn_from(data, wanted, deviation, seed), wanted, impossible)
    asked = [{*each} for each in wanted]
    counts = {names: found[names].counts for names in margins_of(wanted) if {*names} in asked}
    assert disagreement(counts) <= 1e-9 * 500
    for names, table in counts.items():
        mask = impossible.get(names, np.zeros(table.shape, bool))
        assert (table[mask] == 0).all()
        assert (table[~mask] > 0).all()
        assert table.sum() == pytest.approx(500, rel=1e-10)


def test_agreement_is_reached_at_the_nearest_tables() -> None:
    """Σ x ln(x/y) − x + y is least: it grows with every small move that keeps the margins; and zeros stay."""
    rng = np.random.default_rng(3)
    first, second, margin = rng.uniform(1, 9, (3, 4)), rng.uniform(1, 9, (4, 5)), rng.uniform(1, 9, 4)
    first[0, 0] = second[1, 1] = 0
    start = {("b",): margin, ("a", "b"): first, ("b", "c"): second}
    found = agreeing(start, 40.0)
    assert disagreement(found) < 1e-11
    assert found["a", "b"][0, 0] == found["b", "c"][1, 1] == 0
    np.testing.assert_allclose([table.sum() for table in found.values()], 40.0, rtol=1e-12)
    np.testing.assert_allclose(found["a", "b"].sum(axis=0), found["b",], rtol=1e-11)

    def away(tables: dict[Columns, FloatArray]) -> float:
        inside = [(tables[names], start[names]) for names in start]
        return sum(float(np.sum(np.where(x > 0, x * np.log(np.where(x > 0, x / y, 1)), 0) - x + y)) for x, y in inside)

    with np.errstate(divide="ignore", invalid="ignore"):
        least = away(found)
        for _ in range(20):  # a move of the margin, carried into both tables
            step = rng.normal(size=4)
            step = 1e-3 * (step - step.mean())
            moved = {
                ("b",): found["b",] + step,
                ("a", "b"): found["a", "b"] + step * (first > 0) / (first > 0).sum(axis=0),
                ("b", "c"): found["b", "c"] + (step / (second > 0).sum(axis=1))[:, None] * (second > 0),
            }
            assert disagreement(moved) < 1e-11
            assert away(moved) > least


def test_proportional_fitting_keeps_interactions() -> None:
    start = np.array([[4.0, 1.0], [1.0, 4.0]])
    rows, columns = np.array([[30.0], [70.0]]), np.array([[20.0, 80.0]])
    end = fitted(start, [columns, rows], 500)
    np.testing.assert_allclose(end.sum(axis=1), [30, 70])
    np.testing.assert_allclose(end.sum(axis=0), [20, 80])
    assert end[0, 0] * end[1, 1] / end[0, 1] / end[1, 0] == pytest.approx(16)


def test_effects_have_no_margins() -> None:
    values = np.random.default_rng(1).normal(size=(3, 4, 2))
    effect = centred(values)
    for axis in range(3):
        np.testing.assert_allclose(effect.sum(axis=axis), 0, atol=1e-12)
    np.testing.assert_allclose(summed(values, ("a", "b", "c"), ("c", "a")), values.sum(axis=1).T)


@pytest.mark.parametrize("wanted", [[], [("a", "b"), ("b", "a")], [("a", "z")]])
def test_tables_that_cannot_be_estimated(wanted: Any) -> None:
    drawn = {("a", "b"): NoisyCounts(values=np.ones((2, 2)), variance=1.0, total=4.0)}
    with pytest.raises(InvalidArgument):
        estimate_tables(drawn, wanted)
