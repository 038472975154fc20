"""Private scores: right without noise, as noisy as they say, paid like everything else, and added up with the fits."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from simplexdp import (
    BayesianNetwork,
    Budget,
    Categories,
    CellNumbers,
    Ledger,
    Schema,
    fit_naive_bayes,
    private_score,
    release,
    release_distribution,
    together,
)
from simplexdp.errors import InvalidArgument
from simplexdp.fitting.design import Judged
from simplexdp.mechanisms.sums import NoisySum
from simplexdp.numerics.lookup import Lookup, log_shares
from simplexdp.private.kernels import score_sums
from simplexdp.score import SAME_PERSONS

SCHEMA = Schema.of(a=["x", "y", "z"], b=["n", "j"], ill=["no", "yes"])
RNG = np.random.default_rng(5)
ILL = (RNG.random(4000) < 0.4).astype(int)
A = np.where(RNG.random(4000) < 0.7, ILL, RNG.integers(0, 3, 4000))
CODES = {"a": A, "b": RNG.integers(0, 2, 4000), "ill": ILL}
ROWS = CellNumbers(CODES)
BUDGET = Budget(epsilon=1, delta=1e-6)


@pytest.fixture(scope="module", params=["naive Bayes", "network"])
def model(request: pytest.FixtureRequest) -> Any:
    if request.param == "naive Bayes":
        return fit_naive_bayes(ROWS, SCHEMA, "ill", budget=BUDGET, entropy=1)
    return BayesianNetwork([("ill", "a"), ("ill", "b")], SCHEMA, budget=BUDGET, entropy=1).fit(ROWS).model


def exact(model: Any, clip: float) -> tuple[float, float]:
    shares = model.predict("ill", {"a": A, "b": CODES["b"]})
    loss = -np.log(shares[np.arange(4000), ILL])
    return float((shares.argmax(axis=1) == ILL).mean()), float(np.minimum(loss, clip).mean())


def test_with_much_budget_it_is_the_score(model: Any) -> None:
    found = private_score(model, ROWS, target="ill", budget=Budget(epsilon=18, delta=1e-4), clip=0.9, entropy=2)
    accuracy, loss = exact(model, 0.9)
    assert found.accuracy == pytest.approx(accuracy, abs=6 * found.accuracy_error + 1e-4)
    assert found.log_loss == pytest.approx(loss, abs=6 * found.log_loss_error + 1e-4)
    assert found.accuracy_error < 1e-3
    assert found.largest_class == pytest.approx(max(ILL.mean(), 1 - ILL.mean()), abs=0.01)


@pytest.mark.slow
def test_the_noise_is_what_it_says(model: Any) -> None:
    """χ² of 60 seeded scores at 1e-4 either side; a stated error of two thirds is rejected."""
    from scipy.stats import chi2

    accuracy, _ = exact(model, 4.0)
    found = [private_score(model, ROWS, target="ill", budget=BUDGET, entropy=seed) for seed in range(60)]
    total = sum(((each.accuracy - accuracy) / each.accuracy_error) ** 2 for each in found)
    assert chi2.ppf(1e-4, 60) < total < chi2.ppf(1 - 1e-4, 60)
    assert total * 1.5**2 > chi2.ppf(1 - 1e-4, 60)


@pytest.mark.parametrize("clip", [0.01, 4.0, 1e6])
def test_no_row_counts_more_than_the_bound(clip: float) -> None:
    """Whatever is predicted, nothing and what is no number among it; a vector of ±c in both is the most."""

    class Odd:
        def predict(self, variable: str, evidence: Any) -> Any:
            return np.array([[1.0, 0.0], [0.0, 1.0], [np.nan, 1.0], [0.5, 0.5], [1e-300, 1.0], [np.inf, -1.0]])

    vector = NoisySum.of("vector", 3.0)
    at = Judged(model=Odd(), target="t", features=("a",), clip=clip)
    for label in (0, 1):
        for row in range(6):

            class One(Odd):
                def judged(self, variable: str, evidence: Any, row: int = row) -> Any:
                    return super().predict(variable, evidence)[row : row + 1]

            single = Judged(model=One(), target="t", features=("a",), clip=clip)
            block = {"a": np.zeros(1, dtype=np.int64), "t": np.array([label])}
            (found,) = score_sums(single, iter([block]), [vector])
            assert int((found.astype(object) ** 2).sum()) <= vector.bound**2
    assert at.steps(vector.bound) ** 2 * 2 <= vector.bound**2 < (at.steps(vector.bound) + 1) ** 2 * 2


def test_a_row_is_predicted_alike_whatever_stands_beside_it(model: Any) -> None:
    evidence = {"a": A[:97].astype(np.int64), "b": CODES["b"][:97].astype(np.int64)}
    whole = model.predict("ill", evidence)
    for start, stop in ((0, 1), (1, 4), (4, 21), (21, 97)):
        part = model.predict("ill", {name: codes[start:stop] for name, codes in evidence.items()})
        assert (part == whole[start:stop]).all()
    backwards = model.predict("ill", {name: codes[::-1].copy() for name, codes in evidence.items()})
    assert (backwards[::-1] == whole).all()


def test_many_classes_are_added_up_alike_for_any_number_of_rows() -> None:
    draws = np.random.default_rng(2)
    scores = [draws.normal(size=(12, 5)) for _ in range(3)]
    block = draws.integers(0, 5, (3, 300))
    whole = log_shares(Lookup.of(scores), block, np.zeros(12))
    alone = [log_shares(Lookup.of(scores), block[:, i : i + 1], np.zeros(12))[0] for i in range(300)]
    assert (whole == np.array(alone)).all()


def test_a_ledger_pays_for_fits_and_scores(tmp_path: Path) -> None:
    ledger = Ledger.open(tmp_path / "ledger.db", budget=BUDGET)
    ledger.register("clinic", ROWS, SCHEMA)
    paid = {"ledger": ledger, "dataset": "clinic"}
    made = fit_naive_bayes(ROWS, SCHEMA, "ill", budget="half", **paid)  # type: ignore[arg-type]
    before = ledger.remaining("clinic").exact
    score = private_score(made, ROWS, budget="remaining", ledger=ledger, dataset="clinic")
    assert ledger.remaining("clinic").exact < 0.01 * before
    whole = together(made, score)
    assert whole.private
    assert 0.9 < whole.guarantee["epsilon_at_delta"]["1e-06"] <= 1.0


def test_choosing_settings_ends_in_one_certificate() -> None:
    rho = 0.3
    part = Budget.zcdp(rho=rho / 4)
    fits = [
        fit_naive_bayes(ROWS, SCHEMA, "ill", features, budget=part, mechanism="gaussian")
        for features in (["b"], ["a", "b"])
    ]
    scores = [private_score(each, ROWS, budget=part) for each in fits]
    best = max(range(2), key=lambda i: scores[i].accuracy)
    assert best == 1  # 0.82 beside 0.6, with errors below 0.01
    whole = together(*fits, *scores)
    assert whole.guarantee["zcdp_rho"] <= rho * (1 + 1e-12)
    assert whole.guarantee["zcdp_rho"] > 0.99 * rho
    assert len(whole.guarantee["mechanisms"]) == sum(len(each.guarantee.mechanisms) for each in (*fits, *scores))


def test_other_units_and_refusals(model: Any) -> None:
    found = private_score(model, ROWS, target="ill", budget=BUDGET, neighbours="add-remove", entropy=1)
    assert found.accuracy == pytest.approx(exact(model, 4.0)[0], abs=0.05)
    assert not found.certificate().private  # a seed
    assert not math.isnan(found.log_loss)
    with pytest.raises(InvalidArgument, match="neighbours"):
        together(found, private_score(model, ROWS, target="ill", budget=BUDGET, entropy=1))
    with pytest.raises(InvalidArgument, match="predicts"):
        private_score(release([1, 2, 3], budget=BUDGET), ROWS, budget=BUDGET)
    with pytest.raises(InvalidArgument, match="one release"):
        together()
    assert "accuracy" in repr(found)
    assert len(found.to_frame()) == 3


def test_no_record_makes_a_score_fail() -> None:
    """A record that a model says cannot be counts as any other: a refusal would tell that it is there."""
    columns = [Categories([False, True], name=name) for name in "abc"]
    schema = Schema(columns, never=[{"a": True, "b": True}])
    rows = {"a": [False, True, False, False] * 50, "b": [False, False, True, False] * 50, "c": [True, False] * 100}
    graph = [("a", "b"), ("a", "c"), ("b", "c")]
    model = BayesianNetwork(graph, schema, budget=Budget(epsilon=2, delta=1e-6)).fit(pa.table(rows)).model
    assert model.tables["b"][1, 1] == 0
    with pytest.raises(InvalidArgument, match="possible in this model"):
        model.predict("c", {"a": np.array([1]), "b": np.array([1])})
    assert model.judged("c", {"a": np.array([1, 0]), "b": np.array([1, 0])})[0].tolist() == [0.5, 0.5]
    broken = {name: [True, *values[1:]] if name in "ab" else values for name, values in rows.items()}
    for each in (rows, broken):
        assert 0 <= private_score(model, pa.table(each), target="c", budget=Budget(epsilon=1, delta=1e-6)).accuracy <= 1


def test_the_score_of_a_model_that_is_no_release_is_not_private() -> None:
    schema, rows = Schema.of(a=["x", "y"], b=["x", "y"]), pa.table({"a": ["x", "y"] * 50, "b": ["y", "x"] * 50})
    budget = Budget(epsilon=1, delta=1e-6)
    model = BayesianNetwork([("a", "b")], schema, budget=budget).fit(rows).model
    assert private_score(model, rows, target="b", budget=budget).certificate().private
    for told in ({"mechanism": "none"}, {"entropy": 7}):
        model = BayesianNetwork([("a", "b")], schema, budget=budget, **told).fit(rows).model
        found = private_score(model, rows, target="b", budget=budget)
        assert any(reason.startswith("the model: ") for reason in found.not_private)
        assert not found.certificate().private
        assert not together(found, release([30, 50, 20], budget=budget)).private


def test_persons_of_several_fits_are_said_to_be_the_same() -> None:
    budget = Budget(epsilon=1, delta=1e-6)
    rows = pa.table({"a": ["x", "y"] * 50, "who": [f"p{i // 2}" for i in range(100)]})
    fits = [
        release_distribution(
            rows,
            Schema.of(a=["x", "y"]),
            ["a"],
            budget=budget,
            person="who",
            rows_per_person=2,
            neighbours="add-remove",
        )
        for _ in range(2)
    ]
    assert SAME_PERSONS in together(*fits).declarations
    assert SAME_PERSONS not in together(fits[0]).declarations
