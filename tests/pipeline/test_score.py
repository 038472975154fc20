"""Private scores: right without noise, as noisy as they say, paid like everything else, and added up with the fits."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from simplexdp import (
    BayesianNetwork,
    Budget,
    CellNumbers,
    Ledger,
    Schema,
    fit_naive_bayes,
    private_score,
    release,
    together,
)
from simplexdp.errors import InvalidArgument
from simplexdp.fitting.design import Judged
from simplexdp.mechanisms.sums import NoisySum
from simplexdp.private.kernels import score_sums

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
                def predict(self, variable: str, evidence: Any, row: int = row) -> Any:
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
