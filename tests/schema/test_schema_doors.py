"""Whatever takes a schema takes it in every form, and says what it expects of anything else."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from sklearn.base import clone

from simplexdp import BayesianNetwork, Budget, plan, release, release_distribution
from simplexdp.counting import count
from simplexdp.errors import InvalidArgument, PrivacyError, SchemaError
from simplexdp.learn import NaiveBayes
from simplexdp.naive_bayes import fit_naive_bayes
from simplexdp.quantiles import plan_quantiles, resolve_quantiles
from simplexdp.schema import Categories, Numeric, Quantiles, Schema

BUDGET = Budget(epsilon=1.0, delta=1e-5)
ROWS = pd.DataFrame({"age": [10, 20, 70, 30] * 25, "sex": ["f", "m"] * 50, "ill": [True, False] * 50})
SCHEMA = Schema.of(age=Numeric([0, 18, 65], outside="nearest"), sex=["f", "m"], ill=[False, True])
MAPPING = {"age": {"edges": [0, 18, 65], "outside": "nearest"}, "sex": ["f", "m"], "ill": Categories([False, True])}

DOORS: dict[str, Any] = {
    "count": lambda schema: count(ROWS, schema, [("age", "sex")])[0].shape,
    "release": lambda schema: release(ROWS["sex"].value_counts(), schema=schema, budget=BUDGET).schema,
    "release_distribution": lambda schema: release_distribution(ROWS, schema, ["sex"], budget=BUDGET).schema,
    "fit_naive_bayes": lambda schema: fit_naive_bayes(ROWS, schema, "ill", budget=BUDGET).schema,
    "NaiveBayes": lambda schema: clone(NaiveBayes(schema=schema)).fit(ROWS[["age", "sex"]], ROWS["ill"]).model_.schema,
    "NaiveBayes.fit_source": lambda schema: NaiveBayes(schema=schema, target="ill").fit_source(ROWS).model_.schema,
    "BayesianNetwork": lambda schema: BayesianNetwork([("sex", "ill")], schema).schema,
    "plan": lambda schema: plan([("sex", "ill")], schema=schema, budget=BUDGET, repeats=1).cells,
    "plan_quantiles": lambda schema: plan_quantiles(schema, epsilon=1.0, neighbours="add-remove").schema,
    "resolve_quantiles": lambda schema: resolve_quantiles(schema, ROWS, epsilon=1.0, neighbours="add-remove").schema,
}


@pytest.fixture(scope="module")
def forms(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("schemas")
    for name in ("s.yaml", "s.json"):
        SCHEMA.write(folder / name)
    return {
        "path": folder / "s.yaml",
        "text": str(folder / "s.json"),
        "file": json.loads(SCHEMA.to_json()),
        "dump": SCHEMA.model_dump(),
        "mapping": MAPPING,
    }


@pytest.mark.slow
@pytest.mark.parametrize("door", DOORS)
def test_every_door_takes_every_form(door: str, forms: dict[str, Any]) -> None:
    expected = DOORS[door](SCHEMA)
    for form, schema in forms.items():
        assert DOORS[door](schema) == expected, form


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("wrong", [5, [SCHEMA["sex"]], {1: ["f"]}, b"s.yaml", ROWS])
def test_every_door_says_what_it_expects(door: str, wrong: Any) -> None:
    with pytest.raises(
        InvalidArgument, match=r"`schema` must be a Schema, the path .*simplexdp schema draft"
    ) as caught:
        DOORS[door](wrong)
    assert type(wrong).__name__ in str(caught.value)


@pytest.mark.parametrize("door", DOORS)
def test_no_schema_is_told_in_words(door: str) -> None:
    with pytest.raises((InvalidArgument, PrivacyError), match=r"schema draft|schema=|`schema`"):
        DOORS[door](None)


def test_scikit_learn_sees_what_was_given(tmp_path: Path) -> None:
    path = tmp_path / "none.yaml"
    model = NaiveBayes(schema=path)  # not read yet
    assert clone(model).get_params()["schema"] == path
    with pytest.raises(SchemaError, match="can be read"):
        model.fit(ROWS[["age", "sex"]], ROWS["ill"])
    SCHEMA.write(path)
    fitted = model.fit(ROWS[["age", "sex"]], ROWS["ill"])
    assert fitted.get_params()["schema"] == path
    again = pickle.loads(pickle.dumps(fitted))  # noqa: S301
    assert again.predict(ROWS[["age", "sex"]]).shape == (100,)


def test_a_mapping_is_a_file_or_names() -> None:
    file = {"columns": [{"name": "a", "values": ["x"]}], "origin": "from-data"}
    assert Schema.given(file).origin == "from-data"
    assert Schema.given({"columns": [Categories(["x"], name="a")]}).names == ("a",)
    assert Schema.given({"columns": ["x", "y"]}).names == ("columns",)
    assert Schema.given({"columns": ["x"], "cls": ["y"], "version": [1, 2]}).names == ("columns", "cls", "version")
    derived = Schema.from_data(ROWS[["sex"]], i_accept_that_the_result_is_not_private=True)
    assert not Schema.given({"sex": derived["sex"], "ill": [False, True]}).is_private
    assert not Schema.given({"sex": derived["sex"].model_dump()}).is_private
    assert Schema.given(SCHEMA) is SCHEMA
    with pytest.raises(SchemaError, match=r"columns\[0\] \('a'\)"):
        Schema.given({"a": "x"})
    with pytest.raises(SchemaError, match=r"\.yaml"):
        Schema.given("columns: []")


def test_a_misspelt_name_is_guessed() -> None:
    with pytest.raises(SchemaError, match="Did you mean 'age'"):
        release_distribution(ROWS, SCHEMA, ["agee"], budget=BUDGET)
    with pytest.raises(SchemaError, match=r"one of the schema, got 'zzz'\. The columns are"):
        SCHEMA["zzz"]
    with pytest.raises(SchemaError, match="Did you mean 'values'"):
        Schema.given({"a": {"valeus": ["x"]}})
    with pytest.raises(SchemaError, match=r"one of categories, numeric, quantiles\. It follows"):
        Schema([{"name": "a"}])


def test_quantiles_by_mapping() -> None:
    found = resolve_quantiles(
        {"age": Quantiles(2, lower=0, upper=100)}, ROWS, epsilon=1.0, neighbours="replace-one"
    ).schema
    assert found["age"].kind == "numeric"
