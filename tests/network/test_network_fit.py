"""`BayesianNetwork` from rows to a published model: guarantee, budget, estimates, errors."""

from __future__ import annotations

import json
import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray
from scipy.signal import fftconvolve

from simplexdp import Budget, Numeric, PrivacyLoss, Schema
from simplexdp.accounting.filters import filter_for
from simplexdp.errors import BudgetExceeded, InvalidArgument, SchemaError, SourceError
from simplexdp.models.bayesian_network import BayesianNetworkModel
from simplexdp.network import BayesianNetwork

EDGES = [("rain", "sprinkler"), ("rain", "wet"), ("sprinkler", "wet")]
SCHEMA = Schema.of(rain=["no", "yes"], sprinkler=["off", "on"], wet=["no", "yes"], unused=["x"])


def weather(rows: int, seed: int = 0) -> dict[str, NDArray[np.int64]]:
    rng = np.random.default_rng(seed)
    rain = (rng.random(rows) < 0.3).astype(np.int64)
    sprinkler = (rng.random(rows) < np.where(rain, 0.1, 0.5)).astype(np.int64)
    wet = (rng.random(rows) < 0.05 + 0.5 * rain + 0.4 * sprinkler).astype(np.int64)
    return {"rain": rain, "sprinkler": sprinkler, "wet": wet}


def network(**settings: Any) -> BayesianNetwork:
    settings.setdefault("budget", Budget.rdp(order=5, epsilon=1.0))
    return BayesianNetwork(EDGES, SCHEMA, **{"entropy": 1, **settings})


# -- before anything is spent -------------------------------------------------------------------------------------


def test_sizes_are_known_before_anything_is_read() -> None:
    summary = network().size_summary()
    assert [columns for columns, _ in summary.tables] == [
        ("rain",),
        ("rain", "sprinkler"),
        ("rain", "sprinkler", "wet"),
        ("sprinkler",),
        ("wet",),
        ("rain", "wet"),
        ("sprinkler", "wet"),
    ]
    assert (summary.cells, summary.parameters, summary.bytes) == (26, 1 + 2 + 4, 208)
    assert "7 tables, 26 cells" in str(summary)
    assert len(network(estimate="clip").size_summary().tables) == 3


def test_shares_add_up_and_turn_to_single_columns_when_little_can_be_learnt() -> None:
    fitted = network(budget=Budget.rdp(order=5, epsilon=0.01))
    groups = fitted.tables.groups
    for total in (None, 100.0, 1e4, 1e7):
        shares = fitted.recipe.shares(total, fitted.budget)
        assert math.fsum(shares) == pytest.approx(1, abs=1e-12)
        assert min(shares) > 0
    poor, rich = (
        sum(s for s, group in zip(fitted.recipe.shares(total, fitted.budget), groups, strict=True) if group == "single")
        for total in (100.0, 1e7)
    )
    assert poor > 0.5 > 0.2 > rich


# -- the guarantee ------------------------------------------------------------------------------------------------


def gaussian_losses(sigma: float, step: float, up: bool) -> tuple[NDArray[np.float64], int]:
    """Privacy losses of one cell moved by one under discrete Gaussian noise, on a grid, rounded up or down."""
    variance = sigma**2
    reach = math.ceil(12 * sigma)
    x = np.arange(-reach, reach + 2, dtype=np.float64)
    p = np.exp(-((x - 1) ** 2) / (2 * variance))
    p /= p.sum()
    loss = (2 * x - 1) / (2 * variance)
    index = (np.ceil(loss / step) if up else np.floor(loss / step)).astype(np.int64)
    return np.bincount(index - index.min(), weights=p), int(index.min())


def independent_delta(sigmas: list[float], epsilon: float, *, up: bool) -> float:
    """δ(ε) of all tables by convolving their losses; each table moves two cells."""
    step = 2e-5
    pmf, first = np.ones(1), 0
    for sigma in sigmas:
        one, start = gaussian_losses(sigma, step, up)
        for _ in range(2):
            pmf, first = np.maximum(fftconvolve(pmf, one), 0), first + start
    loss = (first + np.arange(pmf.size)) * step
    above = loss > epsilon
    return float((pmf[above] * -np.expm1(epsilon - loss[above])).sum())


@pytest.mark.slow
def test_the_guarantee_is_the_composition_of_what_the_file_says() -> None:
    """Recomputed from the JSON by code that shares nothing with the library."""
    fitted = network(budget=Budget(epsilon=1, delta=1e-5), mechanism="gaussian").fit(weather(2000))
    body = json.loads(fitted.to_json())["body"]
    sigmas = [math.sqrt(release["mechanism"]["parameters"]["sigma"] ** 2) for release in body["releases"]]
    stated = [m["parameters"]["sigma"] for m in body["guarantee"]["mechanisms"]]
    assert sigmas == stated
    assert len(sigmas) == 7
    lower, upper = (independent_delta(sigmas, 1.0, up=up) for up in (False, True))
    claimed = fitted.model.guarantee.loss.delta(1.0)
    assert lower <= claimed <= upper * (1 + 1e-6)
    assert upper < 1.01 * lower
    assert claimed <= 1e-5
    assert claimed > 0.98e-5  # and the budget is used
    smaller = independent_delta([0.97 * sigma for sigma in sigmas], 1.0, up=False)
    assert smaller > 1e-5  # less noise would be found out


def test_the_renyi_budget_is_used_and_not_exceeded() -> None:
    fitted = network(mechanism="gaussian").fit(weather(500))
    order, total = 5.0, 0.0
    for mechanism in json.loads(fitted.to_json())["body"]["guarantee"]["mechanisms"]:
        variance = mechanism["parameters"]["sigma"] ** 2
        x = np.arange(-400, 402)
        logs = -((x - 1) ** 2) * order / (2 * variance) - x**2 * (1 - order) / (2 * variance)
        norm = np.log(np.exp(-(x**2) / (2 * variance)).sum())
        total += 2 * (np.log(np.exp(logs - logs.max()).sum()) + logs.max() - norm) / (order - 1)
    assert total == pytest.approx(fitted.model.guarantee.loss.rdp(order), rel=1e-9)
    assert 0.999 < total <= 1.0


@pytest.mark.slow
def test_the_certificate_speaks_of_all_tables() -> None:
    certificate = network(entropy=None).fit(weather(300)).certificate()
    assert certificate.private
    assert "7 tables together" in certificate.promise
    seeded = network().fit(weather(300)).certificate()
    assert not seeded.private
    assert "seed" in seeded.not_private[0]


class Ledger:
    filter = filter_for(Budget.rdp(order=5, epsilon=100))

    def __init__(self, *, full: bool = False) -> None:
        self.full, self.events = full, list[str]()

    def charge(self, loss: PrivacyLoss, *, dataset: str, description: str, request_hash: str, unit: str) -> Ledger:
        assert len(request_hash) == 64
        if self.full:
            raise BudgetExceeded("nothing left")
        self.events.append(f"{dataset}: {description}, {loss.rdp(5):.3f}")
        return self

    def admit(self, dataset: str, source: object, schema: Schema, *, person: str | None = None) -> Any:
        return SimpleNamespace(records=300)

    def seal(self, release_hash: str) -> None:
        assert len(release_hash) == 64
        self.events.append("sealed")

    def fail(self, reason: str) -> None:
        raise AssertionError(reason)


def test_the_ledger_is_charged_once_for_the_whole_model() -> None:
    ledger = Ledger()
    network(ledger=ledger, dataset="weather", entropy=None).fit(weather(300))
    assert ledger.events == ["weather: Bayesian network over 3 columns, 1.000", "sealed"]
    refused = network(ledger=Ledger(full=True), dataset="weather", entropy=None)
    with pytest.raises(BudgetExceeded):
        refused.fit(weather(300))
    with pytest.raises(InvalidArgument, match="fitted"):
        refused.certificate()


# -- the model ----------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    "settings",
    [
        {"mechanism": "gaussian"},
        {"mechanism": "laplace"},
        {"mechanism": "polya"},
        {"mechanism": "dirichlet"},
        {"mechanism": "dirichlet", "calibration": "algorithm1", "estimate": "raw", "split": "equal"},
        {"mechanism": "gaussian", "estimate": "clip-tiny"},
        {"mechanism": "gaussian", "estimate": "truncated-normal", "split": "cells"},
        {"neighbours": "add-remove"},
        {"split": [1, 2, 3, 4, 5, 6, 7]},
    ],
    ids=str,
)
@pytest.mark.parametrize("epsilon", [0.001, 1.0])
def test_every_parent_configuration_has_a_distribution(settings: dict[str, Any], epsilon: float) -> None:
    fitted = network(budget=Budget.rdp(order=5, epsilon=epsilon), **settings).fit(weather(20))
    for node in fitted.graph.nodes:
        table = fitted.model.tables[node]
        assert table.shape == SCHEMA.shape(fitted.graph.family(node))
        assert (table > 0).all()
        np.testing.assert_allclose(table.sum(axis=-1), 1, rtol=1e-12)
    loaded = BayesianNetworkModel.from_json(fitted.to_json())
    rows = weather(50, seed=3)
    assert loaded.log_likelihood(rows) == fitted.log_likelihood(rows)


def test_with_much_data_the_truth_is_found() -> None:
    fitted = network().fit(weather(200_000))
    wet = fitted.model.tables["wet"]
    np.testing.assert_allclose(wet[..., 1], [[0.05, 0.45], [0.55, 0.95]], atol=0.02)
    np.testing.assert_allclose(fitted.model.tables["sprinkler"][:, 1], [0.5, 0.1], atol=0.02)
    seen = fitted.model.predict("rain", {"wet": np.array([1])})
    assert seen[0, 1] == pytest.approx(0.177 / 0.3515, abs=0.03)


def test_rows_in_values_and_in_cell_numbers_score_alike() -> None:
    fitted = network().fit(weather(300))
    codes = weather(40, seed=8)
    values = pa.table({name: [SCHEMA[name].labels[c] for c in array] for name, array in codes.items()})
    assert fitted.log_likelihood(values) == pytest.approx(fitted.model.log_likelihood(codes), rel=1e-13)
    assert fitted.log_likelihood(codes) == fitted.log_likelihood(values)
    np.testing.assert_array_equal(fitted.predict("wet", values), fitted.predict("wet", codes))
    some = fitted.predict("wet", values.select(["rain"]), given=["rain"])
    np.testing.assert_array_equal(some, fitted.model.predict("wet", {"rain": codes["rain"]}))
    assert fitted.predict("wet", values.slice(0, 0)).shape == (0, 2)
    with pytest.raises(SourceError, match="'sprinkler' is missing"):
        fitted.predict("wet", values.select(["rain"]))
    with pytest.raises(SourceError, match="'rain'"):
        fitted.predict("wet", pa.table({"rain": ["fog"]}), given=["rain"])


def test_the_estimate_loses_less_than_the_papers() -> None:
    """Mean log-loss above the true network over 8 draws; the default must be well below Algorithm 1's raw draw."""
    test = weather(20_000, seed=99)
    best = network(budget=Budget.rdp(order=5, epsilon=20.0)).fit(weather(200_000, seed=98)).log_likelihood(test)
    paper = {"mechanism": "dirichlet", "calibration": "algorithm1", "estimate": "raw", "split": "equal"}
    ours_loss, paper_loss = 0.0, 0.0
    for seed in range(8):
        rows = weather(500, seed)
        budget = Budget.rdp(order=5, epsilon=0.1)
        ours_loss += best - network(budget=budget, entropy=seed).fit(rows).log_likelihood(test)
        paper_loss += best - network(budget=budget, entropy=seed, **paper).fit(rows).log_likelihood(test)
    assert ours_loss < 0.6 * paper_loss


def test_persons_with_several_rows() -> None:
    rows = weather(400)
    table = pa.table({name: [SCHEMA[name].labels[c] for c in codes] for name, codes in rows.items()})
    table = table.append_column("who", pa.array(np.arange(400) // 4))
    fitted = network().fit(table, rows_per_person=2, person="who")
    assert fitted.model.guarantee.unit == "person"
    assert fitted.model.guarantee.rows == 2
    assert all(release.total is None for release in fitted.model.releases)


def test_any_source_and_numeric_columns() -> None:
    schema = Schema.of(age=Numeric([0, 18, 65, 120]), ill=[False, True])
    rows = pa.table({"ill": [True, False] * 50, "age": [3.5, 40.0] * 50})
    fitted = BayesianNetwork({"ill": ["age"]}, schema, entropy=2, epsilon=4.0).fit(rows)
    records = fitted.sample(200, seed=1)
    assert records.schema.names == ["age", "ill"]
    assert records.num_rows == 200
    assert fitted.to_pgmpy().get_cpds("ill").values.shape == (2, 3)
    assert "probability ( ill | age )" in fitted.to_bif()


def test_a_seed_repeats_the_fit_and_the_operating_system_does_not() -> None:
    rows = weather(200)
    first, again = (network(entropy=5).fit(rows).model.tables["wet"] for _ in range(2))
    np.testing.assert_array_equal(first, again)
    fresh, other = (network(entropy=None).fit(rows).model.tables["wet"] for _ in range(2))
    assert (fresh != other).any()


# -- errors -------------------------------------------------------------------------------------------------------


def test_what_is_refused_before_anything_is_read() -> None:
    with pytest.raises(SchemaError, match="does not declare 'fog'"):
        BayesianNetwork([("fog", "rain")], SCHEMA)
    with pytest.raises(InvalidArgument, match="without cycles"):
        BayesianNetwork([("rain", "wet"), ("wet", "rain")], SCHEMA)
    with pytest.raises(InvalidArgument, match="epsilon"):
        BayesianNetwork(EDGES, SCHEMA, epsilon=-1)
    with pytest.raises(InvalidArgument, match="split"):
        BayesianNetwork(EDGES, SCHEMA, split={"rain": 1.0})
    for question in ("to_bif", "to_json", "certificate", "to_pgmpy"):
        with pytest.raises(InvalidArgument, match=r"fitted.*fit\(source\) first"):
            getattr(network(), question)()


def test_what_is_refused_when_fitting() -> None:
    rows = weather(50)
    with pytest.raises(InvalidArgument, match="split"):
        network(split="evenly").fit(rows)
    with pytest.raises(InvalidArgument, match=r"split.*7 finite weights"):
        network(split=[1.0, 2.0]).fit(rows)
    with pytest.raises(InvalidArgument, match="mechanism"):
        network(mechanism="magic").fit(rows)
    with pytest.raises(InvalidArgument, match="estimate"):
        network(estimate="magic").fit(rows)
    with pytest.raises(SourceError, match="'wet' is missing"):
        network().fit({name: rows[name] for name in ("rain", "sprinkler")})
