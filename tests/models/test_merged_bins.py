"""Naive Bayes with bins that are merged before the noise: who decides, what is released, and what the model says."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray

from simplexdp import Budget, Categories, CellNumbers, NaiveBayes, Numeric, Schema
from simplexdp.audit import audit_fit
from simplexdp.errors import FormatError, InvalidArgument
from simplexdp.estimation import NoisyCounts
from simplexdp.estimation.reweight import Scores
from simplexdp.estimation.strata import estimate_strata, information
from simplexdp.fitting import Terms
from simplexdp.fitting.design import Later, Tabulated, designed
from simplexdp.models.document import checksum
from simplexdp.models.naive_bayes import NaiveBayesModel
from simplexdp.naive_bayes import coarse_schema, fit_naive_bayes
from simplexdp.pipeline import TablesRecipe, fit_tables
from simplexdp.private.door import fit as private_fit

FEATURES = 5
BUDGET = Budget.rdp(order=5, epsilon=0.05)
COLUMNS = [Numeric(range(11), name=f"x{k}") for k in range(FEATURES - 1)]
SCHEMA = Schema([*COLUMNS, Categories(["a", "b", "c"], name=f"x{FEATURES - 1}"), Categories(["no", "yes"], name="y")])


def rows(n: int = 600, seed: int = 1) -> dict[str, NDArray[np.int64]]:
    rng = np.random.default_rng(seed)
    labels = (rng.random(n) < 0.4).astype(np.int64)
    found = {f"x{k}": np.clip(rng.integers(0, 10, n) + 3 * labels, 0, 9) for k in range(FEATURES - 1)}
    return found | {f"x{FEATURES - 1}": rng.integers(0, 3, n), "y": labels}


def fit(n: int = 600, seed: int = 1, **settings: Any) -> NaiveBayesModel:
    settings = {"budget": BUDGET, "entropy": 3} | settings
    return fit_naive_bayes(CellNumbers(rows(n, seed)), SCHEMA, "y", **settings)


def codes(data: dict[str, NDArray[np.int64]]) -> NDArray[np.int64]:
    return np.stack([data[f"x{k}"] for k in range(FEATURES)], axis=1)


def shapes(model: NaiveBayesModel) -> list[tuple[int, ...]]:
    return [release.values.shape for release in model.releases]


def test_the_model_is_over_the_declared_bins() -> None:
    model = fit()
    assert shapes(model)[:FEATURES] == [(4, 2)] * (FEATURES - 1) + [(3, 2)]
    assert model.schema == SCHEMA
    assert model.merged_bins == {f"x{k}": (4, 10) for k in range(FEATURES - 1)}
    for table in model.conditionals[:-1]:
        assert table.shape == (2, 10)
        np.testing.assert_allclose(table.sum(axis=1), 1, rtol=0, atol=1e-12)
        for first, last in ((1, 4), (5, 8)):
            np.testing.assert_array_equal(table[:, first], table[:, last])
    x = codes(rows(50, seed=2))
    assert model.predict_log_proba(x).shape == (50, 2)
    drawn = model.sample_codes(1000, np.random.default_rng(1))
    assert set(drawn["x0"].tolist()) == set(range(10))


def over(released: Schema, source: Any, tables: Any) -> Any:
    """Exact counts of the source, released over another schema."""

    class Coarse(TablesRecipe):
        def design(self, facts: Any, terms: Any) -> Any:
            return designed(self.tables, facts, terms, Later(released=released))

    recipe = Coarse(tables=Tabulated(columns=tuple(tables), schema=SCHEMA))
    return private_fit(recipe, source, Terms(budget=None, mechanism="none")).releases


def test_tables_hold_the_sums_of_their_bins() -> None:
    coarse = coarse_schema(SCHEMA, SCHEMA.names[:-1], "y", BUDGET, 600)
    tables = [(name, "y") for name in SCHEMA.names[:-1]]
    source = CellNumbers(rows())
    full = fit_tables(source, SCHEMA, tables, budget=None, mechanism="none").releases
    few = over(coarse, source, tables)
    expected = np.add.reduceat(full[0].values, [0, 1, 5, 9], axis=0)
    np.testing.assert_array_equal(few[0].values, expected)
    np.testing.assert_array_equal(few[-1].values, full[-1].values)
    other = Schema([Numeric([0, 5, 11], name="x0"), *SCHEMA.columns[1:]])
    with pytest.raises(InvalidArgument, match="merges bins"):
        over(other, source, tables)


@pytest.mark.parametrize(
    "settings",
    [
        {"merge_bins": False},
        {"neighbours": "add-remove"},
        {"estimate": "clip"},
        {"calibration": "algorithm1"},
        {"budget": None, "mechanism": "none"},
        {"budget": Budget.rdp(order=5, epsilon=20.0)},
    ],
)
def test_where_bins_stay_as_declared(settings: dict[str, Any]) -> None:
    model = fit(**settings)
    assert model.declared is None
    assert model.merged_bins == {}
    assert shapes(model)[0] == (10, 2)


def test_only_public_facts_decide() -> None:
    fits = [fit(seed=seed, second_look=False) for seed in (1, 2, 3)]
    rng = np.random.default_rng(4)
    anything = {name: rng.integers(0, SCHEMA[name].size, 600) for name in SCHEMA.names}
    fits.append(fit_naive_bayes(CellNumbers(anything), SCHEMA, "y", budget=BUDGET, entropy=9, second_look=False))
    assert len({tuple(shapes(model)) for model in fits}) == 1
    assert len({model.guarantee for model in fits}) == 1


def test_the_fewer_records_the_fewer_bins() -> None:
    cells = [
        coarse_schema(SCHEMA, SCHEMA.names[:-1], "y", BUDGET, total)["x0"].size for total in (500, 2e3, 3e3, 2e4, 2e5)
    ]
    assert cells == sorted(cells)
    assert set(cells) == {4, 6, 10}
    assert coarse_schema(SCHEMA, SCHEMA.names[:-1], "y", BUDGET, None) == SCHEMA


@pytest.mark.slow
def test_merging_costs_nothing_and_the_guarantee_holds() -> None:
    merged, full = fit(), fit(merge_bins=False)
    assert merged.guarantee.loss.fits(BUDGET)
    assert merged.guarantee.covers([release.mechanism for release in merged.releases])
    assert merged.guarantee.loss.rdp(5) == pytest.approx(full.guarantee.loss.rdp(5), rel=1e-5)
    found = audit_fit(merged.guarantee, draws=20_000, entropy=1)
    assert not found.violated


def test_files_both_ways() -> None:
    model = fit()
    again = NaiveBayesModel.from_json(model.to_json())
    x = codes(rows(50, seed=2))
    np.testing.assert_array_equal(again.predict_log_proba(x), model.predict_log_proba(x))
    assert again.schema == SCHEMA
    assert again.merged_bins == model.merged_bins


def _edited(model: NaiveBayesModel, **changes: Any) -> str:
    document = json.loads(model.to_json())
    document["body"] |= changes
    document["sha256"] = checksum(document["body"])
    return json.dumps(document)


def test_files_without_their_declaration_are_refused() -> None:
    model = fit()
    wrong = Schema([Numeric(np.arange(11) + 0.5, name="x0"), *SCHEMA.columns[1:]])
    public = SCHEMA.model_copy(update={"origin": "public"})
    for schema in (None, json.loads(wrong.to_json()), json.loads(public.to_json())):
        with pytest.raises(FormatError):
            NaiveBayesModel.from_json(_edited(model, schema=schema))
    plain = fit(merge_bins=False)
    body = json.loads(plain.to_json())["body"]
    del body["schema"]  # as written before bins were merged
    assert NaiveBayesModel.from_body(body).schema == SCHEMA
    with pytest.raises(InvalidArgument, match="declared"):
        NaiveBayesModel.from_releases(model.releases, "y", method="clip", declared=SCHEMA)


def test_looks_at_other_bins_of_one_feature_are_refused() -> None:
    model = fit()
    releases = json.loads(model.to_json())["body"]["releases"]
    second = next(each for each in releases[FEATURES:] if each["columns"][0] == "x0")
    second["schema"]["columns"][0]["edges"] = [0.0, 2.0, 5.0, 9.0, 10.0]  # also bins of the declared ones, and as many
    with pytest.raises(FormatError, match="same cells of 'x0'"):
        NaiveBayesModel.from_json(_edited(model, releases=releases))


def test_rounds_see_the_same_scores_over_either_cells() -> None:
    counts = np.array([[50.0, 10.0], [120.0, 60.0], [80.0, 140.0], [20.0, 90.0]])
    table = NoisyCounts(values=counts, variance=25.0, total=570)
    strata = estimate_strata([table], counts.sum(axis=0), np.full(2, 30.0), [np.arange(4)])
    places = np.array([0, 1, 1, 1, 2, 2, 3])
    classes = np.array([0.5, 0.5])
    finer = strata.over([places])
    np.testing.assert_allclose(information(finer, classes), information(strata, classes), rtol=1e-12)
    few, many = Scores.of(strata, classes, 570.0), Scores.of(finer, classes, 570.0)
    np.testing.assert_allclose(many.ratios[0], few.ratios[0][:, places], rtol=1e-12)
    np.testing.assert_allclose(many.without[0], few.without[0][:, places], rtol=1e-12)
    assert many.gradient_size == pytest.approx(few.gradient_size, rel=1e-12)


def test_feature_weights_with_merged_bins() -> None:
    budget = Budget.rdp(order=5, epsilon=1.0)
    model = fit(n=720, budget=budget)
    assert model.merged_bins
    assert any(mechanism.name == "noisy-sum" for mechanism in model.guarantee.mechanisms)
    assert len(set(model.weights.tolist())) > 1
    data = rows(5000, seed=8)
    loss = -model.predict_log_proba(codes(data))[np.arange(5000), data["y"]].mean()
    assert loss < 0.6  # that of the class shares is 0.673


def halves(n: int, seed: int) -> dict[str, NDArray[np.int64]]:
    """Twelve features of which the class moves the half, and nothing inside it."""
    rng = np.random.default_rng(seed)
    labels = (rng.random(n) < 0.4).astype(np.int64)
    moved = {f"x{k}": rng.integers(0, 5, n) + 5 * (rng.random(n) < 0.3 + 0.4 * labels) for k in range(12)}
    return moved | {"y": labels}


@pytest.mark.slow
def test_merging_pays_for_trends_at_small_budgets() -> None:
    # 20 fixed seeds, paired; the mean difference is below zero by two of its standard errors (one-sided 2.3 %).
    schema = Schema([*(Numeric(range(11), name=f"x{k}") for k in range(12)), Categories(["no", "yes"], name="y")])
    data = halves(4000, 99)
    x = np.stack([data[f"x{k}"] for k in range(12)], axis=1)

    def loss(seed: int, epsilon: float, merge: bool) -> float:
        budget = Budget.rdp(order=5, epsilon=epsilon)
        made = fit_naive_bayes(
            CellNumbers(halves(1500, seed)), schema, "y", budget=budget, entropy=seed, merge_bins=merge
        )
        return -float(made.predict_log_proba(x)[np.arange(4000), data["y"]].mean())

    differences = [loss(seed, 0.02, True) - loss(seed, 0.02, False) for seed in range(20)]
    assert np.mean(differences) < -2 * np.std(differences) / np.sqrt(20)
    assert loss(1, 20.0, True) == loss(1, 20.0, False)


def test_the_classifier_takes_the_option() -> None:
    data = rows()
    x = {name: data[name] + 0.5 for name in SCHEMA.names[:-2]}
    frame = pd.DataFrame(x | {"x4": np.array(list("abc"))[data["x4"]]})
    labels = np.array(["no", "yes"])[data["y"]]
    for merge in (True, False):
        made = NaiveBayes(budget=BUDGET, schema=SCHEMA, target="y", merge_bins=merge, random_state=1).fit(frame, labels)
        assert bool(made.model_.merged_bins) is merge
        assert made.predict_proba(frame).shape == (600, 2)


def test_a_model_refuses_bins_that_are_not_its_own() -> None:
    model = fit()
    with pytest.raises(InvalidArgument, match="merged bins"):
        replace(model, declared=Schema([Numeric(range(1, 12), name="x0"), *SCHEMA.columns[1:]]))
