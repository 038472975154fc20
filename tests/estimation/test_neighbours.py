"""What neighbouring cells say: predictions against brute force, columns without an order, and what order brings."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.special import logsumexp

from simplexdp.estimation import NoisyCounts
from simplexdp.estimation.beta import Proportions, beta_posterior
from simplexdp.estimation.network import estimate_network
from simplexdp.estimation.network_rows import MOST_CELLS, NoisyRows, Posteriors, _softmax, left_out, said_by_neighbours

PLACES = np.arange(6.0)


def cells_around(rows: np.ndarray, values: np.ndarray, totals: np.ndarray, variance: float = 25.0) -> Proportions:
    return Proportions(
        values=values.ravel(), variance=variance, totals=np.repeat(totals, rows.shape[1]), means=rows.ravel()
    )


def test_left_out_predictions_are_those_of_the_other_observations() -> None:
    """Against conditioning on all observations but one, to 1e-10."""
    rng = np.random.default_rng(0)
    root = rng.normal(size=(7, 7))
    signal, observed = root @ root.T, rng.normal(size=7) * 3
    predicted, log_density = left_out(observed, signal)
    whole = signal + np.eye(7)
    for i in range(7):
        rest = np.arange(7) != i
        expected = signal[i, rest] @ np.linalg.solve(whole[np.ix_(rest, rest)], observed[rest])
        assert predicted[i] == pytest.approx(expected, abs=1e-10)
    expected_log = -0.5 * (observed @ np.linalg.solve(whole, observed) + math.log(np.linalg.det(whole)))
    assert log_density == pytest.approx(expected_log, abs=1e-10)


def test_a_cell_does_not_speak_for_itself() -> None:
    """A wild value of one cell moves what is said about the others only (before rows are normalised)."""
    rows, totals = np.full((4, 6), 1 / 6), np.full(4, 300.0)
    values = np.full((4, 6), 50.0)
    plain = said_by_neighbours(cells_around(rows, values, totals), [None, PLACES], [4, 6])
    values[1, 2] += 60.0
    moved = said_by_neighbours(cells_around(rows, values, totals), [None, PLACES], [4, 6])
    assert plain is not None
    assert moved is not None
    assert plain == pytest.approx(rows, abs=1e-12)
    assert moved[1, 1] > 1.02 * moved[1, 2]
    assert moved[1, 3] > 1.02 * moved[1, 2]
    assert moved[0] == pytest.approx(rows[0], abs=1e-12)  # the rows have no order
    assert moved.sum(axis=1) == pytest.approx(np.ones(4))


def test_without_an_order_or_with_too_many_cells_nothing_is_said() -> None:
    rows, totals = np.full((4, 6), 1 / 6), np.full(4, 300.0)
    known = cells_around(rows, 300 * rows, totals)
    assert said_by_neighbours(known, [None, None], [4, 6]) is None
    assert said_by_neighbours(known, [np.arange(2.0), None], [2, 12]) is None  # two values have no order to speak of
    wide = np.full((1, MOST_CELLS + 1), 1 / (MOST_CELLS + 1))
    many = cells_around(wide, 300 * wide, totals[:1])
    assert said_by_neighbours(many, [None, np.arange(MOST_CELLS + 1.0)], [1, MOST_CELLS + 1]) is None


def test_cells_for_other_and_missing_values_have_no_neighbours() -> None:
    rows, totals = np.full((3, 6), 1 / 6), np.full(3, 300.0)
    places = np.array([0.0, 1.0, 2.0, 3.0, math.inf, math.inf])
    values = np.full((3, 6), 50.0)
    values[0, 4] += 60.0
    found = said_by_neighbours(cells_around(rows, values, totals), [None, places], [3, 6])
    assert found == pytest.approx(rows, abs=1e-12)
    values[0, 3] += 60.0
    moved = said_by_neighbours(cells_around(rows, values, totals), [None, places], [3, 6])
    assert moved is not None
    assert moved[0, 2] > moved[0, 5]


def trend(steepness: float) -> np.ndarray:
    """P(x, p) with x the larger the larger p, eight by eight."""
    p, x = np.mgrid[:8, :8]
    rows = np.exp(steepness * (p - 3.5) * (x - 3.5) / 12)
    return np.asarray(rows / rows.sum(axis=1, keepdims=True) / 8)


@pytest.mark.slow
@pytest.mark.parametrize(("steepness", "shuffled"), [(1.0, False), (1.0, True), (0.0, False)])
def test_order_pays_for_trends_and_costs_little_elsewhere(steepness: float, shuffled: bool) -> None:
    """30 samples of 2000 records under noise of deviation 12, paired; at 4 standard errors (3e-5, one-sided).

    The control: values in random order, or rows that are all alike, where knowing an order must not cost more than
    a twentieth of the loss.
    """
    rng = np.random.default_rng(5)
    joint = trend(steepness)
    if shuffled:
        joint = joint[np.ix_(rng.permutation(8), rng.permutation(8))]
    rows = joint / joint.sum(axis=1, keepdims=True)
    places = {"p": np.arange(8.0), "x": np.arange(8.0)}
    losses = np.empty((30, 2))
    for i in range(30):
        counts = rng.multinomial(2000, joint.ravel()).reshape(8, 8) + 12 * rng.normal(size=(8, 8))
        tables = {("p", "x"): NoisyCounts(values=counts, variance=144.0, total=2000)}
        for j, known in enumerate((None, places)):
            found = estimate_network([("p", ()), ("x", ("p",))], tables, known)["x"]
            losses[i, j] = float(np.sum(joint * np.log(rows / found)))
    gain = losses[:, 0] - losses[:, 1]
    error = float(gain.std(ddof=1)) / math.sqrt(len(gain))
    if steepness and not shuffled:
        assert gain.mean() > 4 * error
        assert losses[:, 1].mean() < 0.7 * losses[:, 0].mean()
    else:
        assert gain.mean() > -0.05 * losses[:, 0].mean() - 2 * error


def test_weights_and_evidence_are_those_of_all_terms() -> None:
    """Against the textbook formula at large and small numbers, and where several terms are the largest."""
    rng = np.random.default_rng(4)
    logs = rng.normal(size=(2, 7, 5)) * 300
    logs[0, 3] = logs[0].max(axis=0)
    weights, evidence = _softmax(logs)
    np.testing.assert_allclose(evidence, logsumexp(logs, axis=1), rtol=1e-15)
    np.testing.assert_allclose(weights, np.exp(logs - logsumexp(logs, axis=1)[:, None]), rtol=1e-13)
    assert not np.allclose(weights.sum(axis=2), 1)  # the control: another axis


@pytest.mark.parametrize("kept", [True, False])
def test_posteriors_that_are_kept_are_those_made_anew(kept: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("simplexdp.estimation.network_rows.MOST_KEPT", 100 if kept else 0)
    rng = np.random.default_rng(2)
    noisy = NoisyRows(
        values=rng.normal(30, 20, (4, 3)),
        variance=9.0,
        slope=0.1,
        totals=np.full(4, 90.0),
        total_variances=np.full(4, 5.0),
    )
    other = replace(noisy, values=noisy.values + 1)
    means = [rng.dirichlet(np.ones(3), 4) for _ in range(3)]
    known = Posteriors()
    for name, table, asked in (("a", noisy, means[:2]), ("a", noisy, means[::-1]), ("b", other, means)):
        for rows, found in zip(asked, known.around(name, table, asked), strict=True):
            alone = beta_posterior(table.around(rows))
            np.testing.assert_array_equal(found.mean, alone.mean)
            np.testing.assert_array_equal(found.log_evidence, alone.log_evidence)


def test_the_cells_of_a_posterior_do_not_know_each_other() -> None:
    """In any order and number they are what each is alone, also where a prior turns narrow."""
    rng = np.random.default_rng(3)
    known = Proportions(
        values=rng.normal(40, 60, 50),
        variance=25.0,
        totals=rng.uniform(50, 5000, 50),
        means=rng.uniform(1e-6, 1 - 1e-6, 50),
        slope=0.2,
    )
    whole = beta_posterior(known)
    for i in range(50):
        alone = beta_posterior(known.part(np.array([i])))
        np.testing.assert_allclose(whole.mean[:, i], alone.mean[:, 0], rtol=1e-13)
        np.testing.assert_allclose(whole.log_evidence[:, i], alone.log_evidence[:, 0], rtol=1e-13, atol=1e-13)
