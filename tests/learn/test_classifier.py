"""The scikit-learn classifier: its contract, its privacy refusals and the inputs it takes."""

from __future__ import annotations

import pickle
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import sklearn
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.estimator_checks import parametrize_with_checks

from simplexdp import Budget, Categories, Numeric, PrivacyLoss, Schema
from simplexdp.accounting.filters import filter_for
from simplexdp.errors import InvalidArgument, PrivacyError, SourceError
from simplexdp.learn import NaiveBayes

BUDGET = Budget.rdp(order=5, epsilon=2.0)
# scikit-learn's checks fit arbitrary arrays, whose bins and classes nobody declared: the opt-out that is marked not
# private. One check is skipped by scikit-learn itself: check_array_api_input, unless SCIPY_ARRAY_API is set.
CHECKED = [
    NaiveBayes(domain="from-data", budget=BUDGET, mechanism="gaussian", random_state=0),
    NaiveBayes(domain="from-data", budget=BUDGET, mechanism="polya", reweight=False, random_state=0),
]


@pytest.mark.filterwarnings("ignore:invalid value encountered in cast:RuntimeWarning")  # inside scikit-learn's checks
@parametrize_with_checks(CHECKED)
def test_scikit_learns_own_checks(estimator: Any, check: Any) -> None:
    check(estimator)


SCHEMA = Schema(
    [
        Categories(["no", "yes"], name="smoker"),
        Numeric([0, 30, 50, 120], name="age", outside="nearest", missing="cell"),
        Categories(["north", "south"], name="region", other="cell"),
        Categories(["well", "ill"], name="state"),
    ]
)


def people(n: int = 600, seed: int = 0) -> tuple[pd.DataFrame, pd.Series]:
    rng = np.random.default_rng(seed)
    smoker = rng.random(n) < 0.4
    age = rng.uniform(10, 90, n).round(1)
    ill = rng.random(n) < np.where(smoker, 0.8, 0.2)
    frame = pd.DataFrame(
        {
            "smoker": np.where(smoker, "yes", "no"),
            "age": np.where(rng.random(n) < 0.05, np.nan, age),
            "region": rng.choice(["north", "south", "east"], n),
        }
    )
    return frame, pd.Series(np.where(ill, "ill", "well"), name="state")


def private(**settings: Any) -> NaiveBayes:
    return NaiveBayes(**{"budget": BUDGET, "schema": SCHEMA, "random_state": 1} | settings)


def test_a_private_fit_says_so() -> None:
    X, y = people()
    model = private(random_state=None).fit(X, y)
    assert model.certificate_.private
    assert model.model_.private
    assert model.score(*people(seed=5)) > 0.7
    assert list(model.classes_) == ["ill", "well"]
    assert list(model.feature_names_in_) == ["smoker", "age", "region"]
    assert model.n_features_in_ == 3


def test_columns_of_probabilities_follow_the_sorted_classes() -> None:
    X, y = people()
    model = private().fit(X, y)
    smokers = model.predict_proba(pd.DataFrame({"smoker": ["yes", "no"], "age": [40.0, 40.0], "region": ["south"] * 2}))
    assert smokers[0, 0] > 0.6 > 0.4 > smokers[1, 0]  # "ill" comes first although the schema declares it last


@pytest.mark.parametrize("convert", [pd.DataFrame, pl.from_pandas, pa.Table.from_pandas])
def test_every_frame_gives_the_same_model(convert: Any) -> None:
    X, y = people()
    expected = private().fit(X, y).predict_log_proba(X)
    model = private().fit(convert(X), y)
    np.testing.assert_array_equal(model.predict_log_proba(convert(X)), expected)


def test_labels_from_polars_and_arrow() -> None:
    X, y = people()
    expected = private().fit(X, y).predict(X)
    np.testing.assert_array_equal(private(target="state").fit(X, pl.from_pandas(y)).predict(X), expected)
    np.testing.assert_array_equal(private(target="state").fit(X, pa.array(y)).predict(X), expected)


def test_arrays_take_the_columns_of_the_schema_in_order() -> None:
    X, y = people()
    named = private().fit(X, y).predict_log_proba(X)
    plain = private(target="state").fit(X.to_numpy(), y.to_numpy())
    np.testing.assert_array_equal(plain.predict_log_proba(X.to_numpy()), named)
    assert not hasattr(plain, "feature_names_in_")


def test_classes_can_be_declared_beside_the_schema() -> None:
    X, y = people()
    features = SCHEMA.select(["smoker", "age", "region"])
    model = private(schema=features, classes=["well", "ill"]).fit(X, y)
    assert list(model.classes_) == ["ill", "well"]
    assert model.model_.target == "state"
    numbers = private(schema=features, classes=[2.0, 7.0]).fit(X, np.where(y == "ill", 7.0, 2.0))
    assert numbers.classes_.tolist() == [2.0, 7.0]
    assert set(numbers.predict(X)) <= {2.0, 7.0}


@pytest.mark.slow
def test_nothing_is_read_off_the_rows_without_being_asked() -> None:
    X, y = people()
    with pytest.raises(PrivacyError, match="domain='from-data'"):
        NaiveBayes().fit(X, y)
    with pytest.raises(InvalidArgument, match="classes="):
        private(schema=SCHEMA.select(["smoker", "age", "region"])).fit(X, y)
    accepted = NaiveBayes(domain="from-data", budget=BUDGET).fit(X, y)
    assert not accepted.certificate_.private
    assert any("taken from the sensitive data" in reason for reason in accepted.certificate_.not_private)


def test_a_label_outside_the_declared_classes_is_refused_without_naming_it() -> None:
    X, y = people()
    y = y.where(y.index != 3, "hidden")
    with pytest.raises(SourceError, match="not declared classes") as caught:
        private().fit(X, y)
    assert "hidden" not in str(caught.value)


def test_an_unseen_category_follows_the_schemas_rule() -> None:
    X, y = people()
    model = private().fit(X, y)
    new = pd.DataFrame({"smoker": ["no"], "age": [30.0], "region": ["moon"]})
    assert np.isfinite(model.predict_log_proba(new)).all()  # region has a cell for others
    with pytest.raises(SourceError, match="smoker") as caught:  # smoker refuses others
        model.predict(pd.DataFrame({"smoker": ["secret"], "age": [30.0], "region": ["north"]}))
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("frame", "match"),
    [
        (lambda X: X.drop(columns="age"), "feature columns"),
        (lambda X: X.assign(more=1), "feature columns"),
        (lambda X: X.to_numpy()[:, :2], "array with the 3 features"),
    ],
)
def test_a_table_that_is_not_the_schemas_is_refused(frame: Any, match: str) -> None:
    X, y = people()
    with pytest.raises(InvalidArgument, match=match):
        private(target="state").fit(frame(X), y)


def test_sample_weights_are_refused_with_the_reason() -> None:
    X, y = people()
    with pytest.raises(InvalidArgument, match="noise is calibrated for one"):
        private().fit(X, y, sample_weight=np.ones(len(y)))
    with pytest.raises(TypeError, match="groups"):
        private().fit(X, y, groups=y)


def test_bad_settings_are_named() -> None:
    X, y = people()
    with pytest.raises(InvalidArgument, match="domain"):
        private(domain="guess").fit(X, y)
    with pytest.raises(InvalidArgument, match="mechanism"):
        private(mechanism="magic").fit(X, y)
    with pytest.raises(InvalidArgument, match="epsilon"):
        private(budget=None, epsilon=-1).fit(X, y)
    with pytest.raises(InvalidArgument, match="entropy"):
        private(random_state="x").fit(X, y)


def test_it_works_inside_scikit_learn() -> None:
    X, y = people()
    search = GridSearchCV(private(), {"estimate": ["posterior-mean", "clip"], "mechanism": ["gaussian"]}, cv=2)
    assert search.fit(X, y).best_score_ > 0.6
    chain = make_pipeline(FunctionTransformer(), private(mechanism="gaussian"))
    chain.set_output(transform="pandas")
    assert cross_val_score(chain, X, y, cv=2, scoring="neg_log_loss").min() > -0.69
    assert clone(private()).get_params()["schema"] == SCHEMA
    with sklearn.config_context(enable_metadata_routing=True):
        assert chain.fit(X, y).score(X, y) > 0.7


def test_a_fitted_classifier_can_be_pickled() -> None:
    X, y = people()
    model = private().fit(X, y)
    again = pickle.loads(pickle.dumps(model))  # noqa: S301
    np.testing.assert_array_equal(again.predict_log_proba(X), model.predict_log_proba(X))


def test_files_give_the_same_model_as_frames(tmp_path: Path) -> None:
    X, y = people()
    X.assign(state=y).to_parquet(tmp_path / "rows.parquet")
    expected = private().fit(X, y).predict_log_proba(X)
    model = private().fit_source(tmp_path / "rows.parquet", target="state")
    np.testing.assert_array_equal(model.predict_log_proba(X), expected)
    assert list(model.classes_) == ["ill", "well"]


def test_persons_with_several_rows(tmp_path: Path) -> None:
    X, y = people()
    rows = X.assign(state=y, who=np.arange(len(y)) // 3)
    model = private().fit_source(pa.Table.from_pandas(rows), target="state", rows_per_person=2, person="who")
    assert model.model_.guarantee.unit == "person"
    assert model.model_.guarantee.rows == 2
    with pytest.raises(PrivacyError):
        NaiveBayes().fit_source(pa.Table.from_pandas(rows), target="state")


class Ledger:
    """Remembers what was charged and sealed."""

    filter = filter_for(Budget.rdp(order=5, epsilon=100))

    def __init__(self) -> None:
        self.charged: list[PrivacyLoss] = []
        self.sealed: list[str] = []

    def charge(self, loss: PrivacyLoss, **_: str) -> Ledger:
        self.charged.append(loss)
        return self

    def admit(self, dataset: str, source: object, schema: Schema, **_: Any) -> Any:
        return SimpleNamespace(records=20_000)

    def seal(self, release_hash: str) -> None:
        self.sealed.append(release_hash)

    def fail(self, reason: str) -> None:
        raise AssertionError(reason)


def test_the_ledger_pays_for_everything_before_the_draw() -> None:
    X, y = people(n=20_000)
    ledger = Ledger()
    model = private(ledger=ledger, dataset="people", random_state=None).fit(X, y)
    (loss,) = ledger.charged
    assert any(mechanism.name == "noisy-sum" for mechanism in model.model_.guarantee.mechanisms)
    assert loss == model.model_.guarantee.loss
    assert 1.99 < loss.rdp(5) <= 2.0
    assert len(ledger.sealed) == 1


ONE = [{"a": "x", "b": 0.5}]
SMALL = Schema.of(a=["x", "y"], b=Numeric([0, 1, 2]), ill=[False, True])
EMPTY: dict[str, Any] = {
    "pandas": lambda rows: pd.DataFrame(rows),
    "pandas with columns": lambda rows: pd.DataFrame(rows, columns=["a", "b"]),
    "polars": lambda rows: pl.DataFrame(rows),
    "pyarrow": lambda rows: pa.Table.from_pylist(rows),
    "lists": lambda rows: [list(row.values()) for row in rows],
    "array": lambda rows: np.array([[*row.values()] for row in rows], dtype=object).reshape(-1, 2),
    "array of a list": lambda rows: np.array([[*row.values()] for row in rows], dtype=object),
    "columns of lists": lambda rows: pd.DataFrame({name: [row[name] for row in rows] for name in ("a", "b")}),
    "typed columns": lambda rows: pd.DataFrame(rows, columns=["a", "b"], dtype=None if rows else float),
}


@pytest.mark.parametrize("kind", EMPTY)
@pytest.mark.parametrize("labels", [list, np.array, lambda y: pd.Series(y, dtype=object), pa.array])
def test_one_record_against_none_looks_alike_under_add_remove(kind: str, labels: Any) -> None:
    """The number of records is private there, so it may not show in whether a fit succeeds."""
    for settings in ({"target": "ill"}, {"classes": [False, True], "schema": SMALL.select(["a", "b"])}):
        for size in (1, 0):
            model = NaiveBayes(**{"budget": BUDGET, "schema": SMALL, "neighbours": "add-remove"} | settings)
            model.fit(EMPTY[kind](ONE[:size]), labels([True][:size]))
            assert model.n_features_in_ == 2
            assert model.model_.schema is not None
            assert set(model.model_.features) == {"a", "b"}


def test_a_public_number_of_records_is_above_zero() -> None:
    for kind in EMPTY.values():
        with pytest.raises(ValueError, match="0 sample"):
            NaiveBayes(budget=BUDGET, schema=SMALL, target="ill").fit(kind([]), [])
