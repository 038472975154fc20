"""A scikit-learn classifier: differentially private naive Bayes."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping, Sequence
from typing import Any, Literal, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from scipy.sparse import issparse

from ..budget import Budget, BudgetWord, Neighbours
from ..errors import InvalidArgument, MissingExtra, PrivacyError, discreet
from ..estimation import Method
from ..fitting import LedgerLike
from ..models import Certificate
from ..models.naive_bayes import NaiveBayesModel
from ..naive_bayes import encode_batches, fit_naive_bayes
from ..planning import Calibration, MechanismName, Split
from ..private.counting import Deferred
from ..private.counting.frames import without_columns
from ..private.counting.source import MixedBatch
from ..sampling import Entropy
from ..schema import Categories, Schema, SchemaLike
from ..schema.drafting import derive_columns
from ..synthetic import Bins, synthetic_records
from .inputs import (
    class_column,
    declared_classes,
    feature_column,
    free_name,
    inferred,
    is_named,
    label_codes,
    plain_labels,
    rows_of,
    without,
)

try:
    from sklearn.base import BaseEstimator, ClassifierMixin
    from sklearn.utils import check_array, column_or_1d
    from sklearn.utils.multiclass import check_classification_targets
    from sklearn.utils.validation import check_consistent_length, check_is_fitted, validate_data
except ImportError:  # pragma: no cover - the tests have it
    raise MissingExtra("scikit-learn", "learn") from None

Domain = Literal["declared", "from-data"]


class NaiveBayes(ClassifierMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn is untyped
    """Naive Bayes whose tables are released with differential privacy.

    The guarantee needs to know which values can occur before it sees the rows, so categories, bins and classes are
    declared: `schema` names the features (and the class, or `classes` lists its values).

    >>> import pandas as pd
    >>> from simplexdp import Schema
    >>> from simplexdp.learn import NaiveBayes
    >>> rows = pd.DataFrame({"smoker": ["no", "yes"] * 200, "region": ["north", "south", "south", "north"] * 100})
    >>> ill = pd.Series([False, True] * 200, name="ill")
    >>> schema = Schema.of(smoker=["no", "yes"], region=["north", "south"], ill=[False, True])
    >>> model = NaiveBayes(epsilon=2.0, delta=1e-6, schema=schema, random_state=0).fit(rows, ill)
    >>> model.predict(pd.DataFrame({"smoker": ["yes", "no"], "region": ["north", "north"]}))
    array([ True, False])
    >>> model.certificate_.private  # a seeded draw is for tests only; leave random_state out
    False

    Args:
        epsilon: of the (ε, δ) budget for the whole fit.
        delta: of the same.
        budget: in place of both any other, such as `Budget.zcdp(rho=0.1)`, or "remaining" or "half" of a ledger.
        schema: the declared columns: a Schema, the path of its file or a mapping. For arrays without names its columns
            are taken in order.
        target: the class column of the schema; by default the name of `y`, or the one column that `X` lacks.
        classes: the class labels, if the schema has no class column.
        domain: "declared", or "from-data" to read categories, bins and classes off the rows. No budget covers that:
            everything made so is marked not private.
        bins: with "from-data", the quantile bins of numeric features.
        mechanism: "auto", or the name of one that is registered, such as "gaussian"; "none" is not private.
        calibration: "exact", or "algorithm1" for the paper's.
        estimate: "posterior-mean" or a simpler one; see `simplexdp.estimate`.
        neighbours: "replace-one" or "add-remove".
        split: of the budget over the features: "auto" (about √cells; equal for Algorithm 1), "equal", "cells", weights.
        reweight: buy feature weights and class biases with 30 % of the budget where public facts say that it pays.
        second_look: release the tables twice, the second time with noise by what the first said about the class.
        merge_bins: release neighbouring bins together where public facts say that the noise hides what single ones say.
        random_state: None draws from the operating system; anything else is repeatable and not private.
        ledger: a ledger or its path, charged before any value is looked at.
        dataset: the name that the ledger knows the data by.

    Attributes:
        classes_: the labels in increasing order; columns of `predict_proba` follow it.
        model_: the fitted `NaiveBayesModel`, which can be written to a file; also `model`.
        certificate_: what is promised; also `certificate()`.
        n_features_in_: number of features.
        feature_names_in_: their names, where `X` had names.
    """

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float = 1e-5,
        *,
        budget: Budget | BudgetWord | None = None,
        schema: SchemaLike | None = None,
        target: str | None = None,
        classes: Sequence[Any] | None = None,
        domain: Domain = "declared",
        bins: int = 10,
        mechanism: MechanismName = "auto",
        calibration: Calibration = "exact",
        estimate: Method = "posterior-mean",
        neighbours: Neighbours = "replace-one",
        split: Split | Literal["auto"] = "auto",
        reweight: bool = True,
        second_look: bool = True,
        merge_bins: bool = True,
        random_state: int | Entropy | np.random.RandomState | None = None,
        ledger: LedgerLike | str | os.PathLike[str] | None = None,
        dataset: str | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.budget = budget
        self.schema = schema
        self.target = target
        self.classes = classes
        self.domain = domain
        self.bins = bins
        self.mechanism = mechanism
        self.calibration = calibration
        self.estimate = estimate
        self.neighbours = neighbours
        self.split = split
        self.reweight = reweight
        self.second_look = second_look
        self.merge_bins = merge_bins
        self.random_state = random_state
        self.ledger = ledger
        self.dataset = dataset

    # -- fitting --------------------------------------------------------------------------------------------------

    @discreet
    def fit(self, X: Any, y: Any, **refused: Any) -> Self:
        """Count, charge, draw and estimate.

        Args:
            X: a pandas, polars or pyarrow table, or a two-dimensional array.
            y: the labels.
            refused: sample weights and the like; the message says why.
        """
        _refuse(refused)
        if self.domain not in ("declared", "from-data"):
            raise InvalidArgument("domain", "'declared' or 'from-data'", got=self.domain)
        if y is None:
            raise ValueError("requires y to be passed, but the target y is None")
        if self.domain == "declared":
            X = self._declared_shape(X, y)
        else:
            if not (hasattr(X, "column_names") or is_named(X)):
                X = rows_of(X)
            validate_data(self, X, reset=True, skip_check_array=True)
        if self.domain == "from-data":
            if self.ledger is not None:
                raise PrivacyError("a ledger pays for nothing whose categories are read off the rows. Leave it out.")
            self._check_values(X)
        records = self._records(X, y)
        features, label, values = self._domain(X, y)
        names = list(features.names)
        order = np.argsort(values)

        def make() -> MixedBatch:
            """The rows, from here on private: what is wrong with a value is found out after the charge."""
            self._check_values(X, finite=False)
            labels = np.asarray(column_or_1d(plain_labels(y)))
            table = self._table(X, names)
            check_consistent_length(table[0], labels)
            codes = label_codes(labels, values)[1]
            return MixedBatch([*names, label.name], [*table, pa.array(label.values).take(pa.array(codes))], "X")

        # Rules may join features and class, and the features' own schema has no class.
        declared = Schema.given(self.schema) if self.schema is not None else features
        rules = [rule for rule in declared.never if {name for name, _ in rule} <= {*names, label.name}]
        schema = Schema([*features, label], never=rules)
        model = self._fit(Deferred(records=records, make=make), schema, label.name, names)
        self._keep(model, values, order)
        return self

    @discreet
    def fit_source(
        self,
        source: Any,
        *,
        target: str | None = None,
        features: Sequence[str] | None = None,
        rows_per_person: int | None = None,
        person: str | None = None,
        records: int | None = None,
    ) -> Self:
        """Fit from files, a query, a Spark frame or any other source of `simplexdp.count`, in one pass.

        Args:
            source: the rows with features and class.
            target: the class column; the parameter of the same name by default.
            features: the feature columns; all others of the schema by default.
            rows_per_person: the guarantee is for persons with at most so many rows.
            person: the column that names the person.
            records: the public number of records, if the source is a stream; under add-remove and for persons a guess.
        """
        target = self.target if target is None else target
        schema = self._schema
        if schema is None or target is None:
            raise PrivacyError(_REFUSAL)
        names = [name for name in schema.names if name not in (target, person)]
        names = names if features is None else list(features)
        bound: dict[str, Any] = {"rows_per_person": rows_per_person, "person": person, "records": records}
        model = self._fit(source, schema, target, names, **bound)
        values = np.array(declared_classes(schema, target).values)
        self.n_features_in_ = len(names)
        self.feature_names_in_ = np.array(names, dtype=object)
        self._keep(model, values, np.argsort(values))
        return self

    def _fit(self, rows: Any, schema: Schema, target: str, names: Sequence[str], **person: Any) -> NaiveBayesModel:
        budget = self.budget
        if budget is None and self.mechanism != "none":
            budget = Budget(epsilon=self.epsilon, delta=self.delta)
        return fit_naive_bayes(
            rows,
            schema,
            target,
            names,
            budget=budget,
            mechanism=self.mechanism,
            calibration=self.calibration,
            estimate=self.estimate,
            neighbours=self.neighbours,
            split=self.split,
            reweight=self.reweight,
            second_look=self.second_look,
            merge_bins=self.merge_bins,
            entropy=_entropy(self.random_state),
            ledger=self.ledger,
            dataset=self.dataset,
            **person,
        )

    def _keep(self, model: NaiveBayesModel, values: NDArray[Any], order: NDArray[np.intp]) -> None:
        self.model_ = model
        self.classes_ = values[order]
        self._order = order

    @property
    def _schema(self) -> Schema | None:
        """What is declared, in whichever form; a path is read here and not before, as scikit-learn has it."""
        return None if self.schema is None else Schema.given(self.schema)

    @property
    def certificate_(self) -> Certificate:
        """What is promised, in words and as data."""
        check_is_fitted(self)
        return self.model_.certificate()

    @property
    def model(self) -> NaiveBayesModel:
        """The same as `model_`, by the name that `BayesianNetwork` has for it."""
        check_is_fitted(self)
        return self.model_

    def certificate(self) -> Certificate:
        """The same as `certificate_`, by the name that every other model has for it."""
        return self.certificate_

    def sample(self, size: int, *, bins: Bins = "auto", labels: bool = False, seed: int | None = None) -> Any:
        """Synthetic records as an Arrow table, at no further budget; see `simplexdp.synthetic_records`."""
        return synthetic_records(self.model, size, bins=bins, labels=labels, seed=seed).read_all()

    def _domain(self, X: Any, y: Any) -> tuple[Schema, Categories, NDArray[Any]]:
        """The schema of the features, the class column, and the labels in the order of its cells."""
        names = self._names(X)
        if self.domain == "from-data":
            values = np.unique(np.asarray(y) if isinstance(y, (list, tuple)) else self._labels(y))
            table = zip(names, self._table(X, names), strict=True)
            rows = pa.table({name: inferred(name, column) for name, column in table})
            found = derive_columns(rows, bins=self.bins, max_distinct=self.bins, other="cell", origin="from-data")
            schema = Schema([column.model_copy(update={"missing": "cell"}) for column in found])
            label = class_column(values, free_name(self.target or "class", names))
            return schema, label.stamped("from-data"), values
        declared = self._schema
        if declared is None:
            raise PrivacyError(_REFUSAL)
        wanted = self.target or getattr(y, "name", None)
        if self.classes is not None:
            schema = without(declared, wanted)
            values = np.asarray(self.classes)
            if values.ndim != 1 or len(np.unique(values)) != values.size or not values.size:
                raise InvalidArgument("classes", "labels that are all different")
            name = wanted if isinstance(wanted, str) else "class"
            column = class_column(values, free_name(name, schema.names))
        else:
            left = [name for name in declared.names if name not in names]
            if wanted not in declared and len(left) == 1 and len(declared) == len(names) + 1:
                wanted = left[0]
            column = declared_classes(declared, wanted)
            schema = without(declared, wanted)
            values = np.array(column.values)
        if is_named(X) or hasattr(X, "column_names"):
            absent, extra = sorted(set(schema.names) - set(names)), set(names) - set(schema.names)
            if absent or extra:  # names that only X has may have come from values
                hint = f"It lacks {', '.join(map(repr, absent[:10])) or 'none'} and has {len(extra)} others."
                raise InvalidArgument("X", "a table with the feature columns of the schema", hint=hint)
            schema = schema.select(names)
        elif len(schema) != self.n_features_in_:
            raise InvalidArgument(
                "X", f"an array with the {len(schema)} features of the schema", got=self.n_features_in_
            )
        return schema, column, values

    # -- prediction -----------------------------------------------------------------------------------------------

    @discreet
    def predict_log_proba(self, X: Any) -> NDArray[np.float64]:
        """ln P(class | row), rows × classes in the order of `classes_`."""
        check_is_fitted(self)
        self._check_features(X)
        schema, names = self.model_.schema, list(self.model_.features)
        assert schema is not None
        batch = MixedBatch(names, self._table(X, names), "X")
        (codes,) = encode_batches(self.model_, [batch], "X")
        return np.ascontiguousarray(self.model_.predict_log_proba(codes)[:, self._order])

    @discreet
    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """P(class | row), rows × classes in the order of `classes_`."""
        return np.asarray(np.exp(self.predict_log_proba(X)))

    @discreet
    def predict(self, X: Any) -> NDArray[Any]:
        """The most probable label of every row."""
        best = self.predict_log_proba(X).argmax(axis=1)
        return np.asarray(self.classes_[best])

    @discreet
    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """The share of rows whose class is predicted. Exact, so it tells of these rows, and no budget pays for it."""
        return float(super().score(X, y, sample_weight))

    # -- input ----------------------------------------------------------------------------------------------------

    def _check_features(self, X: Any) -> None:
        """Number and names of the features as in `fit`, by scikit-learn's rules."""
        if hasattr(X, "column_names") or is_named(X):
            validate_data(self, X, reset=False, skip_check_array=True)
        else:
            validate_data(self, rows_of(X), reset=False, dtype=None, ensure_all_finite=self._finite())

    def _check_values(self, X: Any, *, finite: bool = True) -> None:
        """An array by scikit-learn's rules; frames are left to the encoder, as is what is finite, where declared."""
        if not (hasattr(X, "column_names") or is_named(X)):
            rule = self._finite() if finite else False
            about: dict[str, Any] = {"estimator": self, "input_name": "X"}
            check_array(rows_of(X), dtype=None, ensure_all_finite=rule, ensure_min_samples=0, **about)

    def _records(self, X: Any, y: Any) -> int:
        """How many rows there are, from shapes alone."""
        count = _length(X)
        if _length(y) != count:
            raise ValueError("Found input variables with inconsistent numbers of samples: X and y differ in length.")
        if not count and (self.neighbours == "replace-one" or self.domain == "from-data"):
            raise ValueError("Found array with 0 sample(s) while a minimum of 1 is required.")
        return count

    def _declared_shape(self, X: Any, y: Any) -> Any:
        """X with as many features as are declared, where only its first record could say how many it has.

        What a list or an empty table does not tell without its records is not asked before the charge.
        """
        if isinstance(X, np.ndarray) and X.shape == (0,):
            X = []  # what it was made of
        if issparse(X) or len(getattr(X, "shape", (0, 0))) != 2:
            raise InvalidArgument("X", "a table or a dense array. Expected 2D array. Reshape your data")
        if len(getattr(y, "shape", (0,))) != 1 and getattr(y, "shape", ())[1:] != (1,):
            raise InvalidArgument("y", "one label for each row")
        schema = self._schema
        listed = isinstance(X, (list, tuple))
        if schema is None or not (listed or without_columns(X)):
            validate_data(self, X, reset=True, skip_check_array=True)
            return X
        wanted = self.target or getattr(y, "name", None)
        outside = self.classes is not None and wanted not in schema.names
        nothing = np.empty((0, len(schema) - (not outside)), dtype=object)
        validate_data(self, nothing, reset=True, skip_check_array=True)
        return X if len(X) else nothing

    @staticmethod
    def _labels(y: Any) -> NDArray[Any]:
        labels = column_or_1d(plain_labels(y), warn=True)
        if labels.dtype.kind == "f":  # scikit-learn refuses fractions; all others are looked up one by one
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # that there are many different labels is private
                check_classification_targets(labels)
        return np.asarray(labels)

    def _names(self, X: Any) -> list[str]:
        if hasattr(X, "column_names"):  # a pyarrow table
            return list(X.column_names)
        if is_named(X):
            return list(X.columns)
        if self._schema is not None and self.domain == "declared":
            known = [name for name in self._schema.names if name != self.target]
            return known[: self.n_features_in_]
        return [f"x{i}" for i in range(self.n_features_in_)]

    def _table(self, X: Any, names: list[str]) -> list[Any]:
        """The features as Arrow arrays or Python objects."""
        if hasattr(X, "column_names"):
            return [X[name].combine_chunks() for name in names]
        if is_named(X):
            return [feature_column(name, X[name]) for name in names]
        array = check_array(rows_of(X), dtype=None, ensure_all_finite=self._finite(), ensure_min_samples=0)
        if array.shape[1] != len(names):
            raise InvalidArgument("X", f"an array with the {len(names)} features of the schema", got=array.shape[1])
        return [feature_column(name, array[:, i]) for i, name in enumerate(names)]

    def _finite(self) -> bool | str:
        return "allow-nan" if self.__sklearn_tags__().input_tags.allow_nan else True

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        declared = self._schema is not None and any(column.has_missing for column in self._schema)
        tags.input_tags.allow_nan = self.domain == "from-data" or declared
        tags.input_tags.string = True
        tags.input_tags.categorical = True
        return tags


_REFUSAL = (
    "Categories, bins and classes read off sensitive rows reveal them: a rare value is there or not. Declare them with "
    "schema= (Schema.of, or a file begun with `simplexdp schema draft`) and target= or classes=, or take them from "
    "public data (Schema.from_public). For no privacy say domain='from-data'; all that is made is then marked so."
)


def _length(data: Any) -> int:
    shape = getattr(data, "shape", None)
    if isinstance(shape, tuple) and shape:
        return int(shape[0])
    return len(data) if hasattr(data, "__len__") else len(np.asarray(data))


def _refuse(refused: Mapping[str, Any]) -> None:
    given = sorted(name for name, value in refused.items() if value is not None)
    if "sample_weight" in given:
        raise InvalidArgument(
            "sample_weight",
            "left out",
            hint="A weight changes how much one record can move a count, and the noise is calibrated for one.",
        )
    if given:
        raise TypeError(f"fit() got unexpected arguments: {', '.join(given)}")


def _entropy(random_state: Any) -> Entropy | int | None:
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(2**31 - 1))
    return random_state  # type: ignore[no-any-return]  # checked by entropy_from


__all__ = ["NaiveBayes"]
