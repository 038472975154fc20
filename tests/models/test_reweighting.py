"""Private Newton rounds: bounds in whole numbers, exact sums, the loss of noisy sums, and what they buy."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chi2

from simplexdp import Budget, Categories, CellNumbers, Schema
from simplexdp.errors import InvalidArgument
from simplexdp.estimation.reweight import Expansion, Scores, newton_step
from simplexdp.estimation.strata import Strata
from simplexdp.mechanisms.sums import GaussianTables, NoisySum
from simplexdp.naive_bayes import fit_naive_bayes, round_shares
from simplexdp.private.counting import can_be_read_again, number_of_records
from simplexdp.private.kernels import _whole_roots, _whole_vectors, newton_sums
from simplexdp.sampling import SeededEntropy

seeds = st.integers(0, 2**32 - 1)


@settings(max_examples=60, deadline=None)
@given(seed=seeds, size=st.integers(1, 40), spread=st.floats(-8, 8), bound=st.integers(1, 1 << 20))
def test_every_vector_stays_within_its_bound(seed: int, size: int, spread: float, bound: int) -> None:
    parts = np.random.default_rng(seed).normal(size=(30, size)) * 10.0**spread
    whole = _whole_vectors(parts, 1.0, bound)
    assert all(sum(int(x) ** 2 for x in row) <= bound**2 for row in whole)


@settings(max_examples=60, deadline=None)
@given(seed=seeds, size=st.integers(1, 12), spread=st.floats(-8, 8), bound=st.integers(1, 1 << 20))
def test_every_matrix_stays_within_its_trace(seed: int, size: int, spread: float, bound: int) -> None:
    parts = np.random.default_rng(seed).normal(size=(30, 3, size)) * 10.0**spread
    whole = _whole_roots(parts, 1.0, bound)
    assert (whole == np.floor(whole)).all()
    assert all(sum(int(x) ** 2 for x in row.ravel()) <= bound for row in whole)


def test_a_clipped_vector_keeps_its_direction_and_size() -> None:
    (whole,) = _whole_vectors(np.array([[3e6, 4e6]]), 1.0, 1000)
    np.testing.assert_allclose(whole, [600, 800], atol=2)
    (small,) = _whole_vectors(np.array([[0.3, 0.4]]), 1.0, 1000)
    np.testing.assert_allclose(small, [300, 400], atol=2)


def example_scores(features: int = 3, classes: int = 2) -> Scores:
    rng = np.random.default_rng(4)
    conditionals = tuple(rng.dirichlet(np.ones(4), size=classes) for _ in range(features))
    shares = np.full(classes, 1 / classes)
    strata = Strata(
        conditionals=conditionals,
        marginals=tuple(shares @ c for c in conditionals),
        reliability=tuple(np.ones_like(c) for c in conditionals),
        signal=tuple(np.ones_like(c) for c in conditionals),
    )
    return Scores.of(strata, shares, 100.0)


def sums_of(scores: Scores, parts: Any, weights: Any, biases: Any, *sums: NoisySum) -> Any:
    """What the kernel adds up over blocks of (codes by feature, labels)."""
    names = tuple(f"x{k}" for k in range(len(scores.ratios)))
    at = Expansion(scores=scores, weights=weights, biases=biases, features=names, target="y")
    blocks = ({**dict(zip(names, codes, strict=True)), "y": labels} for codes, labels in parts)
    return newton_sums(at, blocks, sums)


@settings(max_examples=30, deadline=None)
@given(seed=seeds, classes=st.integers(2, 4))
def test_replacing_a_record_moves_the_sums_by_what_the_loss_assumes(seed: int, classes: int) -> None:
    rng = np.random.default_rng(seed)
    scores = example_scores(classes=classes)
    codes = rng.integers(0, 4, (3, 20))
    labels = rng.integers(0, classes, 20)
    weights, biases = rng.normal(size=3) * 3, rng.normal(size=classes)
    vector, matrix = NoisySum.of("vector", 3.0), NoisySum.of("matrix", 3.0)

    def sums() -> tuple[np.ndarray, np.ndarray]:
        return sums_of(scores, [(codes, labels)], weights, biases, vector, matrix)

    g, h = sums()
    codes[:, 0], labels[0] = rng.integers(0, 4, 3), rng.integers(0, classes)
    g2, h2 = sums()
    assert sum(int(x) ** 2 for x in g - g2) <= 4 * vector.bound**2
    assert sum(int(x) ** 2 for x in (h - h2).ravel()) <= 2 * matrix.bound**2


def test_sums_are_exact_and_do_not_depend_on_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(1)
    scores = example_scores()
    codes, labels = rng.integers(0, 4, (3, 500)), rng.integers(0, 2, 500)
    weights, biases = np.ones(3), np.zeros(2)
    vector, matrix = NoisySum.of("vector", 2.0), NoisySum.of("matrix", 2.0)
    whole = sums_of(scores, [(codes, labels)], weights, biases, vector, matrix)
    monkeypatch.setattr("simplexdp.private.kernels.BLOCK_CELLS", 70)
    parts = [(list(codes[:, i : i + 90]), labels[i : i + 90]) for i in range(0, 500, 90)]
    again = sums_of(scores, parts, weights, biases, vector, matrix)
    np.testing.assert_array_equal(whole[0], again[0])
    np.testing.assert_array_equal(whole[1], again[1])


def test_the_sums_are_the_derivatives_of_the_log_loss() -> None:
    """Against central differences of the leave-one-out log-loss, nothing clipped, to the grid's precision."""
    rng = np.random.default_rng(2)
    base = example_scores()
    scores = Scores(**base.__dict__ | {"gradient_size": 50.0, "hessian_trace": 500.0})
    codes, labels = rng.integers(0, 4, (3, 40)), rng.integers(0, 2, 40)
    w, b = np.array([0.5, 1.0, -0.3]), np.array([0.2, -0.1])
    vector, matrix = NoisySum.of("vector", 1.0), NoisySum.of("matrix", 1.0)
    g, _ = sums_of(scores, [(codes, labels)], w, b, vector, matrix)
    unit = scores.gradient_size / (vector.bound - math.sqrt(scores.size) / 2)

    def loss(parameters: np.ndarray) -> float:
        total = 0.0
        for i, y in enumerate(labels):
            logits = scores.start + b + scores.bias_scale * parameters[3:]
            for k in range(3):
                ratio = scores.ratios[k][:, codes[k, i]].copy()
                ratio[y] = scores.without[k][y, codes[k, i]]
                logits = logits + (w[k] + parameters[k]) * ratio
            total += float(np.logaddexp.reduce(logits) - logits[y])
        return total

    steps = 1e-5 * np.eye(5)
    expected = [(loss(step) - loss(-step)) / 2e-5 for step in steps]
    np.testing.assert_allclose(g * unit, expected, atol=40 * unit)


# -- the mechanism ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["vector", "matrix"])
@pytest.mark.parametrize("sigma", [0.3, 1.0, 17.3, 1e4])
def test_a_sum_costs_what_a_count_table_with_that_noise_costs(kind: str, sigma: float) -> None:
    loss = NoisySum.of(kind, sigma).loss()  # type: ignore[arg-type]
    for order in (2.0, 5.0, 30.0):
        assert loss.rdp(order) == pytest.approx(order / sigma**2, rel=1e-6)
        assert loss.rdp(order) <= order / sigma**2 * (1 + 1e-9)


def test_added_or_removed_records_and_persons() -> None:
    vector, matrix = NoisySum.of("vector", 2.0), NoisySum.of("matrix", 2.0)
    assert vector.loss("add-remove").rdp(4) == pytest.approx(vector.loss().rdp(4) / 4, rel=1e-9)
    assert matrix.loss("add-remove").rdp(4) == pytest.approx(matrix.loss().rdp(4) / 2, rel=1e-9)
    assert vector.loss(rows=3).rdp(4) == pytest.approx(9 * vector.loss().rdp(4), rel=1e-9)


def test_the_noise_has_the_stated_variance() -> None:
    """Vectors of 4,000 and a 90 × 90 matrix, χ² at 1e-4 on each side; a variance 20 % off must be rejected."""

    def accepted(noise: np.ndarray, variance: float) -> bool:
        low, high = chi2(noise.size).ppf([1e-4, 1 - 1e-4])
        return bool(low < (noise.astype(float) ** 2).sum() / variance < high)

    vector, matrix = NoisySum.of("vector", 5.0), NoisySum.of("matrix", 5.0)
    noise = vector.draw(np.zeros(4000, dtype=np.int64), SeededEntropy(1))
    assert accepted(noise, vector.variance)
    assert not accepted(noise, 1.2 * vector.variance)
    square = matrix.draw(np.zeros((90, 90), dtype=np.int64), SeededEntropy(2))
    np.testing.assert_array_equal(square, square.T)
    off = square[np.triu_indices(90, 1)]
    assert accepted(off, matrix.variance / 2)
    assert not accepted(off, 1.2 * matrix.variance / 2)
    assert accepted(np.diag(square), matrix.variance)


@pytest.mark.parametrize("weights", [[1.0], [1.0, 1.0], [5.0, 0.01, 3.3, 1e-6]])
@pytest.mark.parametrize("sigma", [0.31, 7.0, 1234.5])
def test_spread_precisions_never_exceed_what_was_paid(weights: list[float], sigma: float) -> None:
    look = GaussianTables(sigma=sigma)
    made = look.spread(weights)
    spent = sum(1 / Fraction(mechanism.variance) for mechanism in made)
    assert Fraction(999, 1000) / Fraction(sigma) ** 2 < spent <= 1 / Fraction(sigma) ** 2
    ratios = [float(made[0].variance / mechanism.variance) for mechanism in made]
    np.testing.assert_allclose(ratios, np.array(weights) / weights[0], rtol=1e-6)
    assert look.loss().rdp(5) == pytest.approx(5 / sigma**2, rel=1e-9)
    assert look.loss().rdp(5) >= sum(mechanism.loss() for mechanism in made).rdp(5) * (1 - 1e-9)  # type: ignore[union-attr]


def test_an_unknown_kind_of_sum_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="kind"):
        NoisySum(sigma=1.0, bound=5, kind="tensor")  # type: ignore[arg-type]


# -- what rounds buy --------------------------------------------------------------------------------------------------


def test_rounds_are_bought_only_where_public_facts_say_so() -> None:
    budget = Budget.rdp(order=5, epsilon=0.1)
    assert round_shares(None, budget, 10, 2) == []
    assert round_shares(1000.0, budget, 10, 2) == []
    assert round_shares(1e6, None, 10, 2) == []
    bought = [each for one in round_shares(1e6, budget, 10, 2) for each in one.buys]
    assert [kind for kind, _ in bought] == ["vector", "matrix"] * 3
    assert sum(share for _, share in bought) == pytest.approx(0.3)


def test_streams_are_not_read_twice() -> None:
    assert can_be_read_again("rows.parquet")
    assert can_be_read_again(["a.parquet", "b.parquet"])
    frames = [pd.DataFrame({"a": [0, 1]}), pa.table({"a": [2]})]
    assert can_be_read_again(frames)
    assert number_of_records(frames) == 3
    assert not can_be_read_again(iter([]))
    for streams in ([*frames, pa.table({"a": [2]}).to_reader()], [1, 2]):
        assert not can_be_read_again(streams)
        assert number_of_records(streams) is None


def test_a_step_without_noise_is_newtons() -> None:
    rng = np.random.default_rng(0)
    root = rng.normal(size=(4, 4))
    hessian = 1e6 * (root @ root.T + np.eye(4))
    gradient = 1e4 * rng.normal(size=4)
    step = newton_step(
        gradient,
        1e-6,
        hessian,
        1e-9,
        expected=np.zeros(4),
        covariance=100 * np.eye(4),
        widths=[(0.0, 1.0)],
        features=2,
    )
    np.testing.assert_allclose(step.mean, -np.linalg.solve(hessian, gradient), rtol=1e-3)


def test_weights_take_back_what_features_repeat() -> None:
    """Every feature three times, 60,000 rows: each copy gets about a third, and the test loss falls."""
    rng = np.random.default_rng(6)
    n = 60_000

    def sample() -> tuple[np.ndarray, np.ndarray]:
        labels = rng.integers(0, 2, n)
        columns = [(labels + (rng.random(n) < flip)) % 2 for flip in (0.3, 0.35)]
        return np.repeat(np.stack(columns, axis=1), 3, axis=1), labels

    x, y = sample()
    columns = [Categories([0, 1], name=f"x{k}") for k in range(6)]
    schema = Schema([*columns, Categories([0, 1], name="y")])
    data = {f"x{k}": x[:, k] for k in range(6)} | {"y": y}
    losses = {}
    test_x, test_y = sample()
    for reweight in (True, False):
        model = fit_naive_bayes(
            CellNumbers(data), schema, "y", budget=Budget.rdp(order=5, epsilon=1.0), entropy=1, reweight=reweight
        )
        losses[reweight] = -model.predict_log_proba(test_x)[np.arange(n), test_y].mean()
        if reweight:
            np.testing.assert_allclose(model.weights.reshape(2, 3).sum(axis=1), 1, atol=0.15)
    best = 0.0  # two independent flips: the exact conditional entropy
    for flips in ((0.3, 0.35), (0.3, 0.65), (0.7, 0.35), (0.7, 0.65)):
        joint = 0.5 * np.array([flips[0] * flips[1], (1 - flips[0]) * (1 - flips[1])])
        best -= float((joint * np.log(joint / joint.sum())).sum())
    assert losses[True] < best + 0.005
    assert losses[True] < losses[False] - 0.003
