"""Scores, forests, further parents, pools and raking: what is made of releases."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simplexdp.estimation.network_tables import OverlappingTables
from simplexdp.estimation.raking import pair_counts, rake, stratified
from simplexdp.estimation.structure import (
    ANCHORS,
    DUPLICATE,
    Limits,
    Shares,
    all_pairs,
    favoured,
    forest,
    forest_pairs,
    forest_triples,
    more_parents,
    pool,
    rooted,
    shared_entropy,
    unexplained,
)
from simplexdp.estimation.values import NoisyCounts
from simplexdp.fitting.design import Expected
from simplexdp.mechanisms.sums import NoisySum
from simplexdp.private.kernels import deviation_scores

STEPS = ("one", "pairs", "tree", "links", "families", "misses", "raking")


@given(st.floats(1e-6, 1e3), st.floats(1, 1.02))
@settings(max_examples=60, deadline=None)
def test_shares_add_up_and_never_jump(ratio: float, factor: float) -> None:
    one, two = Shares.at(ratio), Shares.at(ratio * factor)
    assert math.fsum(getattr(one, step) for step in STEPS) == pytest.approx(1, abs=1e-9)
    assert all(abs(getattr(one, step) - getattr(two, step)) < 0.02 for step in STEPS)
    assert [place for place, _ in ANCHORS] == sorted(place for place, _ in ANCHORS)


def test_little_is_left_of_a_score_where_the_model_is_right() -> None:
    """The mean of 400 scores of Poisson tables is within 4 standard errors of 0, unless chance is left in."""
    rng, clip = np.random.default_rng(1), 0.5
    expected = rng.gamma(1.0, 20.0, size=(6, 5))
    vector = NoisySum(sigma=1.0, bound=1 << 20, kind="vector")
    tables = [rng.poisson(expected) for _ in range(400)]
    at = Expected(cells=(expected,) * len(tables), clip=clip)
    (whole,) = deviation_scores(at, tables, [vector])
    left = unexplained(whole * at.unit(vector.bound), at.cells, clip)
    error = left.std() / math.sqrt(len(left))
    assert abs(left.mean()) < 4 * error
    plain = unexplained(whole * at.unit(vector.bound), at.cells, clip, simulated=-1.0)
    assert abs(plain.mean()) > 20 * error


@given(st.integers(2, 6), st.integers(0, 10**6))
@settings(max_examples=40, deadline=None)
def test_pairs_of_a_forest_are_those_of_its_joint_distribution(columns: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 4, columns)
    score = {pair: float(rng.normal()) for pair in all_pairs(columns)}
    edges = forest(columns, score, 0.0)
    assert all(score[edge] >= 0 for edge in edges)
    families = rooted(columns, edges, score, target=columns - 1)
    assert families[0] == (columns - 1, ())
    assert sum(len(above) for _, above in families) == len(edges)
    tables = {
        node: rng.dirichlet(np.ones(sizes[node]), size=tuple(sizes[p] for p in above)) for node, above in families
    }
    joint = np.ones(tuple(sizes))
    for cells in itertools.product(*map(range, sizes)):
        for node, above in families:
            joint[cells] *= tables[node][tuple(cells[p] for p in (*above, node))]
    for (a, b), found in forest_pairs(families, tables).items():
        away = tuple(i for i in range(columns) if i not in (a, b))
        np.testing.assert_allclose(found, joint.sum(axis=away), atol=1e-12)
    pairs = forest_pairs(families, tables)
    for kept, found in forest_triples(families, tables, pairs).items():
        away = tuple(i for i in range(columns) if i not in kept)
        order = [sorted(kept).index(i) for i in kept]
        np.testing.assert_allclose(found, joint.sum(axis=away).transpose(order), atol=1e-12)


@given(st.integers(3, 7), st.integers(0, 10**6), st.integers(1, 4))
@settings(max_examples=40, deadline=None)
def test_further_parents_keep_their_limits(columns: int, seed: int, most: int) -> None:
    rng = np.random.default_rng(seed)
    sizes = [int(size) for size in rng.integers(2, 5, columns)]
    score = {pair: float(rng.normal()) for pair in all_pairs(columns)}
    families = rooted(columns, forest(columns, score, 0.5), score)
    shared = rng.random((columns, columns))
    shared = (shared + shared.T) / 2
    limits = Limits(cut=0.3, parents=most, cells=40, whole=40)
    found = more_parents(families, score, shared, sizes, sizes, limits)
    seen: set[int] = set()
    for (node, before), (same, after) in zip(families, found, strict=True):
        assert node == same
        assert set(before) <= set(after) <= seen  # parents come first, so there is no cycle
        assert len(after) <= max(most, 1)
        new = after[len(before) :]
        assert not new or math.prod(sizes[c] for c in (node, *after)) <= 40
        assert all(shared[q, p] <= DUPLICATE for i, p in enumerate(after) for q in after[:i] if p in new)
        seen.add(node)


def test_a_target_counts_more_and_noise_does_not() -> None:
    found = favoured(np.array([1.0, -1.0, 1.0]), [(0, 1), (0, 2), (1, 2)], 2)
    assert found.tolist() == [1.0, -1.0, 2.0]


def test_entropy_that_is_shared() -> None:
    same = np.diag([0.5, 0.3, 0.2])
    found = shared_entropy({(0, 1): same, (0, 2): np.outer([0.5, 0.5], [0.2, 0.8])}, 3)
    assert found[0, 1] == pytest.approx(1)
    assert found[0, 2] == pytest.approx(0, abs=1e-12)


@given(st.integers(5, 80), st.integers(3, 12), st.booleans(), st.integers(0, 2), st.integers(0, 10**6))
@settings(max_examples=60, deadline=None)
def test_pools_have_no_gap_and_keep_an_order(cells: int, most: int, ordered: bool, apart: int, seed: int) -> None:
    shares = np.random.default_rng(seed).dirichlet(np.ones(cells) * 0.3)
    order = None
    if ordered:
        order = np.arange(cells, dtype=float)
        order[cells - apart :] = math.inf
    found = pool(shares, order, most)
    assert set(found) == set(range(max(found) + 1))
    assert len(set(found)) <= max(most, apart + 1)
    if ordered and cells > most:
        inside = found[: cells - apart]
        assert inside == sorted(inside)
        assert all(found.count(found[cell]) == 1 for cell in range(cells - apart, cells))


# -- raking ------------------------------------------------------------------------------------------------------------


def exact(counts: np.ndarray, noise: float = 1.0) -> NoisyCounts:
    return NoisyCounts(values=counts, variance=noise**2, total=float(counts.sum()))


def test_raking_moves_records_to_a_pair_that_the_network_misses() -> None:
    """Against no raking at all: what is missed of the pair falls to a tenth, and the log-loss with it."""
    rng, size = np.random.default_rng(0), 50_000
    joint = np.array([[0.4, 0.1], [0.1, 0.4]])
    tables = {0: np.array([0.5, 0.5]), 1: np.array([0.5, 0.5]), 2: np.array([0.2, 0.8])}
    families = [(0, ()), (1, ()), (2, ())]
    known = OverlappingTables({("a", "b"): exact(joint * size), ("c",): exact(np.array([0.2, 0.8]) * size)})
    records = [stratified(families, tables, 40_000, rng) for _ in range(2)]
    found = rake(records[0], records[1], known, [(0, 1)], ("a", "b", "c"), [2, 2, 2], {})
    assert found.power > 0
    made = np.outer(tables[0], tables[1]) * found.factors[0, 1] / math.exp(found.log_scale)
    assert np.abs(made - joint).sum() < 0.1 * np.abs(0.25 - joint).sum()
    assert found.gain == pytest.approx(float((joint * np.log(joint / 0.25)).sum()), rel=0.05)


def test_impossible_cells_get_nothing() -> None:
    rng, size = np.random.default_rng(0), 20_000
    tables = {0: np.array([0.5, 0.5]), 1: np.array([0.5, 0.5])}
    records = [stratified([(0, ()), (1, ())], tables, 20_000, rng) for _ in range(2)]
    known = OverlappingTables({("a", "b"): exact(np.array([[0.0, 0.5], [0.3, 0.2]]) * size)})
    never = np.array([[True, False], [False, False]])
    found = rake(records[0], records[1], known, [(0, 1)], ("a", "b"), [2, 2], {(0, 1): never})
    assert found.factors[0, 1][0, 0] == 0
    assert found.factors[0, 1][0, 1] > 1


def test_raking_to_noise_alone_is_not_believed() -> None:
    """Targets that are noise of the size that is stated move the records by next to nothing."""
    rng = np.random.default_rng(3)
    tables = {0: np.full(8, 1 / 8), 1: np.full(8, 1 / 8)}
    records = [stratified([(0, ()), (1, ())], tables, 40_000, rng) for _ in range(2)]
    noisy = np.full((8, 8), 1000 / 64) + 30 * rng.normal(size=(8, 8))
    known = OverlappingTables({("a", "b"): NoisyCounts(values=noisy, variance=900.0, total=1000.0)})
    found = rake(records[0], records[1], known, [(0, 1)], ("a", "b"), [8, 8], {})
    assert found.gain < 0.02
    believed = OverlappingTables({("a", "b"): NoisyCounts(values=noisy, variance=1.0, total=1000.0)})
    assert rake(records[0], records[1], believed, [(0, 1)], ("a", "b"), [8, 8], {}).gain > 0.2


def test_stratified_records_have_the_shares_of_the_network() -> None:
    """Every cell of a family of 20,000 records is within 5 of what it should be, where independent draws are not."""
    rng, size = np.random.default_rng(0), 20_000
    tables = {0: np.array([0.3, 0.7]), 1: np.array([[0.1, 0.9], [0.6, 0.4]])}
    codes = stratified([(0, ()), (1, (0,))], tables, size, rng)
    expected = tables[0][:, None] * tables[1] * size
    assert np.abs(pair_counts(codes, (0, 1), [2, 2]) - expected).max() < 5
    free = rng.multinomial(size, expected.ravel() / size).reshape(2, 2)
    assert np.abs(free - expected).max() > 5
