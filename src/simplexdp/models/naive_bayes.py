"""Naive Bayes from releases."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ..budget import check_whole
from ..errors import InvalidArgument, discreet
from ..estimation import Method, NoisyCounts, estimate
from ..estimation.strata import Strata, class_estimate, estimate_strata, pooled, temperature
from ..mechanisms.sums import Step
from ..numerics import as_array
from ..numerics.lookup import Lookup, log_shares
from ..schema import Column, Schema, cell_map
from .document import NUMBERS, SCHEMA, object_schema, reading_body, release_schema
from .model import ModelOfReleases, Predictor, cell_order
from .records import IntArray, RowDraws, draw_cells, draw_given, possible_records, possible_shares
from .release import Release
from .sections import Bars, Section, Table, View, conditional_section, mutual_information, nats

FloatArray = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True, eq=False)
class Tables:
    """What the releases say: class shares, the number of records, and the conditional tables."""

    classes: FloatArray
    total: float
    strata: Strata

    @classmethod
    def of(cls, releases: Sequence[Release], target: str, schema: Schema | None = None) -> Tables:
        """Estimated from (feature, target) and (target,) tables together, at no budget.

        With a schema the conditional tables are over its cells, also where bins were released together.
        """
        by_feature = _by_feature(releases)
        tables = list(by_feature.values())
        found = class_estimate(tables, [release.noisy for release in releases if release.columns == (target,)])
        total = found.noisy.likely_total
        counts, variances = found.probabilities * total, (found.standard_errors * total) ** 2
        strata = estimate_strata(tables, counts, variances, [_order(name, releases) for name in by_feature])
        if schema is not None:
            strata = strata.over([_places(name, releases, schema) for name in by_feature])
        return cls(classes=found.probabilities, total=total, strata=strata)


def simple_tables(
    features: Sequence[Release], alone: Sequence[Release], method: Method
) -> tuple[FloatArray, tuple[FloatArray, ...]]:
    """Class probabilities and conditionals by a method that takes each table alone."""
    if all(_raw_draw(release, method) for release in features):
        joints = [release.values for release in features]
    else:
        joints = [estimate(table, method).probabilities for table in _by_feature(features).values()]
    return _simple_classes(features, alone, method), tuple((joint / joint.sum(axis=0)).T.copy() for joint in joints)


def _by_feature(releases: Sequence[Release]) -> dict[str, NoisyCounts]:
    """What was released of each feature's table, several looks as one."""
    looks: dict[str, list[NoisyCounts]] = {}
    for release in releases:
        if len(release.columns) == 2:
            looks.setdefault(release.columns[0], []).append(release.noisy)
    return {name: pooled(found) for name, found in looks.items()}


def _order(feature: str, releases: Sequence[Release]) -> NDArray[np.intp] | None:
    """The order of the feature's cells, where its values have one."""
    schema = next(release.schema for release in releases if release.columns[0] == feature)
    return None if schema is None else cell_order(schema[feature])


def _places(feature: str, releases: Sequence[Release], schema: Schema) -> NDArray[np.intp] | None:
    """For each declared cell of a feature the released one that it is part of; None where they are the same."""
    released = next(release.schema for release in releases if release.columns[0] == feature)
    if released is None or released[feature] == schema[feature]:
        return None
    found = cell_map(schema[feature], released[feature])
    if found is None:
        raise InvalidArgument("releases", f"over the declared cells of {feature!r}, or over merged bins of it")
    return np.array(found, dtype=np.intp)


def _simple_classes(features: Sequence[Release], alone: Sequence[Release], method: Method) -> FloatArray:
    """Class probabilities without a prior: from the class table if there is one, else from all tables together."""
    draws = list(alone) or list(features)
    if all(_raw_draw(release, method) for release in draws):
        # Each table's class marginal is a draw of its own; the one with the fewest cells has the smallest prior.
        smallest = min(draws, key=lambda release: release.values.size)
        return np.asarray(smallest.values.reshape(-1, smallest.values.shape[-1]).sum(axis=0))
    if alone:
        return class_estimate([], [release.noisy for release in alone], method).probabilities
    return class_estimate(list(_by_feature(features).values()), method=method).probabilities


def _raw_draw(release: Release, method: Method) -> bool:
    """Whether the published values are shares already, as a Dirichlet draw's are."""
    return method == "raw" and release.mechanism.draws_shares


# -- model ------------------------------------------------------------------------------------------------------------
#
# Naive Bayes from releases: class probabilities, conditional tables and a temperature, nothing private in it.

BLOCK = 1 << 13
"""Rows predicted at once: what they need stays in the cache."""


@dataclass(frozen=True, kw_only=True, eq=False)
class NaiveBayesModel(ModelOfReleases, Predictor):
    """ln P(class | x) = ln π_class + bias_class + Σ_k w_k ln θ_k,class(x_k) + constant.

    Everything in it follows from the releases, so predicting, sampling and publishing cost no further budget. The
    estimated parameters are stored beside the releases, so that a loaded model predicts bit for bit the same.

    Args:
        releases: one (feature, class) table for each feature, or two, and possibly one of the class alone.
        target: the class column.
        class_probabilities: π, in the order of the cells of the target column.
        conditionals: for each feature classes × values, rows summing to 1.
        weights: w, one for each feature.
        biases: one for each class.
        method: how the parameters were estimated.
        declared: the schema that codes and conditionals are in, where tables were released over merged bins of it;
            None where it is that of the releases.
    """

    kind: ClassVar[str] = "naive-bayes"

    releases: tuple[Release, ...]
    target: str
    class_probabilities: FloatArray
    conditionals: tuple[FloatArray, ...]
    weights: FloatArray
    biases: FloatArray
    method: Method = "posterior-mean"
    declared: Schema | None = None

    def __post_init__(self) -> None:
        tables = {r.columns[0]: r for r in self.releases if len(r.columns) == 2}
        if not tables or any(r.columns[-1] != self.target for r in self.releases):
            raise InvalidArgument("releases", f"tables of one feature and {self.target!r}, in this order")
        super().__post_init__()
        _check_columns(self.releases)
        classes = next(iter(tables.values())).values.shape[-1]
        cells = {name: r.values.shape[0] for name, r in tables.items()}
        if self.declared is not None:
            _check_merged(self.releases, self.declared)
            cells = {name: self.declared[name].size for name in tables}
        shapes = [(classes, cells[name]) for name in tables]
        if any(
            r.values.shape[::-1] != (classes, tables[r.columns[0]].values.shape[0])[: r.values.ndim]
            for r in self.releases
            if len(r.columns) == 2
        ):
            raise InvalidArgument("releases", "of one shape for each feature")
        if [c.shape for c in self.conditionals] != shapes or self.class_probabilities.shape != (classes,):
            raise InvalidArgument("conditionals", "classes × values for each released table")
        if self.weights.shape != (len(tables),) or self.biases.shape != (classes,):
            raise InvalidArgument("weights", "one for each feature, and one bias for each class")
        bought = any(isinstance(each, Step) and not each.precision for each in self.guarantee.mechanisms)  # sums
        if not bought and (self.biases.any() or (self.weights != self.weights[0]).any()):
            raise InvalidArgument("weights", "all the same, and biases 0, where the guarantee paid for no others")
        for array in (self.class_probabilities, self.weights, self.biases, *self.conditionals):
            if not np.isfinite(array).all():
                raise InvalidArgument("parameters", "finite")
            array.setflags(write=False)
        if min(float(a.min()) for a in (self.class_probabilities, *self.conditionals)) <= 0:
            raise InvalidArgument("probabilities", "above 0")

    @classmethod
    def from_releases(
        cls,
        releases: Sequence[Release],
        target: str,
        *,
        method: Method = "posterior-mean",
        calibrated: bool = True,
        declared: Schema | None = None,
    ) -> NaiveBayesModel:
        """Estimate the parameters from the releases, at no budget.

        Args:
            releases: one or two (feature, target) tables a feature; optionally one (target,) table.
            target: the class column.
            method: "posterior-mean" shrinks every class towards the pooled marginal; the others act on each table
                alone (see `simplexdp.estimate`).
            calibrated: with "posterior-mean", temper the scores by the data-free rule.
            declared: with "posterior-mean", the schema of the model, where tables are over merged bins of it.
        """
        features = [r for r in releases if len(r.columns) == 2 and r.columns[1] == target]
        alone = [r for r in releases if r.columns == (target,)]
        if not features or len(features) + len(alone) != len(releases):
            raise InvalidArgument("releases", f"tables of one feature and {target!r}, in this order")
        beta = 1.0
        merged = declared is not None and any(
            column.size != declared[column.name].size for release in releases for column in release.schema or ()
        )
        if merged and method != "posterior-mean":
            raise InvalidArgument("declared", "left out without the estimate 'posterior-mean'")
        if method == "posterior-mean":
            tables = Tables.of(releases, target, declared)
            probabilities, conditionals = tables.classes, tables.strata.conditionals
            if calibrated:
                beta = temperature(tables.strata, probabilities)
        else:
            probabilities, conditionals = simple_tables(features, alone, method)
        return cls(
            releases=tuple(releases),
            target=target,
            class_probabilities=probabilities,
            conditionals=conditionals,
            weights=np.full(len(conditionals), beta),
            biases=np.zeros(probabilities.size),
            method=method,
            declared=declared,
        )

    # -- what it says ---------------------------------------------------------------------------------------------

    @property
    def features(self) -> tuple[str, ...]:
        """The feature columns, in the order of the codes."""
        return tuple(dict.fromkeys(r.columns[0] for r in self.releases if len(r.columns) == 2))

    @cached_property
    def schema(self) -> Schema | None:
        """Of the features and the class, where the releases have one."""
        if self.declared is not None:
            return self.declared.select([*self.features, self.target])
        columns: dict[str, Any] = {}
        for release in self.releases:
            if release.schema is None:
                return None
            columns.update((column.name, column) for column in release.schema)
        target = columns.pop(self.target)
        return Schema([*columns.values(), target])

    @property
    def merged_bins(self) -> dict[str, tuple[int, int]]:
        """Features whose bins were merged before the noise: how many cells were released, and how many are declared."""
        if self.declared is None:
            return {}
        released = {r.columns[0]: r.values.shape[0] for r in self.releases if len(r.columns) == 2}
        return {n: (cells, self.declared[n].size) for n, cells in released.items() if cells != self.declared[n].size}

    def __repr__(self) -> str:
        mark = "" if self.private else ", NOT PRIVATE"
        return f"NaiveBayesModel({self.target!r} from {len(self.features)} features, {self.guarantee.neighbours}{mark})"

    @property
    def title(self) -> str:
        """Of its report."""
        return f"Naive Bayes for {self.target}"

    def sections(self, view: View) -> list[Section]:
        """Class probabilities and what each feature says about the class; or P(column | class)."""
        if view.column is not None:
            column = view.column
            if column not in self.features:
                raise InvalidArgument("column", "a feature of the model", got=column)
            table = self.conditionals[self.features.index(column)]
            bounds = None if column in self.merged_bins else self._bounds(column, [self.target], view.level)
            return [conditional_section(column, [self.target], table, self.schema, view.most, bounds)]
        names = self._class_names
        gained = [[name, nats(value)] for name, value in self.information.items()]
        classes = Bars(labels=names, values=self.class_probabilities, title=f"P({self.target})")
        told = Bars(
            labels=list(self.information),
            values=list(self.information.values()),
            title="What each feature says about the class",
            unit="mutual information in the model, nats",
            cells=25,
        )
        return [
            Section(
                heading=f"P({self.target})",
                text=[f"{len(self.features)} features, {len(names)} classes, estimated by {self.method}."],
                table=Table(
                    columns=[self.target, "probability"],
                    rows=[[n, f"{p:.5f}"] for n, p in zip(names, self.class_probabilities, strict=True)][: view.most],
                ),
            ),
            Section(
                heading="What each feature says about the class",
                table=Table(
                    columns=["feature", "mutual information, nats"],
                    rows=gained[: view.most],
                    note="In the published model.",
                ),
                figures=[
                    (told, "Mutual information of each feature with the class"),
                    (classes, "Class probabilities"),
                ],
                items=[*([merged_note(self.merged_bins)] if self.merged_bins else []), *filter(None, [self.voices])],
            ),
        ]

    @property
    def details(self) -> Sequence[str]:
        """The features that say most."""
        return list(self.information)[:3]

    def data(self, view: View) -> dict[str, Any]:  # noqa: ARG002  # it has no intervals
        """The parameters, features in decreasing order of what they say."""
        tables = dict(zip(self.features, self.conditionals, strict=True))
        return {
            "target": self.target,
            "class_probabilities": self.class_probabilities.tolist(),
            "released_cells": {name: cells for name, (cells, _) in self.merged_bins.items()},
            "features": {
                name: {"information": value, "given_class": tables[name].tolist()}
                for name, value in self.information.items()
            },
        }

    @cached_property
    def information(self) -> dict[str, float]:
        """Mutual information of each feature with the class in the model, in nats; the largest first."""
        found = {
            name: mutual_information(self.class_probabilities, table)
            for name, table in zip(self.features, self.conditionals, strict=True)
        }
        return dict(sorted(found.items(), key=lambda item: -item[1]))

    @property
    def _class_names(self) -> Sequence[str]:
        labels = self.schema[self.target].labels if self.schema is not None else ()
        return labels or [str(i + 1) for i in range(self.class_probabilities.size)]

    @property
    def voices(self) -> str:
        """Answers and records follow the tables, predictions weigh what they say: in words, where weights are not 1."""
        if not self.biases.any() and (self.weights == 1).all():
            return ""
        low, high = float(self.weights.min()), float(self.weights.max())
        by = f"{low:.3g}" if low == high else f"{low:.3g} to {high:.3g}"
        return (
            f"This model has two voices: answers and records follow its tables, taken for independent given "
            f"{self.target}; predictions weigh the logarithms of the same tables by {by}, which predicts better. "
            f"P({self.target} | features) of the two differs: `predict` for decisions, `query` for what the tables say."
        )

    @property
    def families(self) -> Sequence[tuple[str, tuple[str, ...]]]:
        """The class, and each feature given the class."""
        return [(self.target, ()), *((name, (self.target,)) for name in self.features)]

    def conditional(self, node: str) -> FloatArray:
        """P(class), or P(feature | class) over the released cells."""
        if node == self.target:
            return self.class_probabilities
        table = self.conditionals[self.features.index(node)]
        released = next(r for r in self.releases if r.columns[0] == node)
        if self.declared is None or released.schema is None or node not in self.merged_bins:
            return table
        places = cell_map(self.declared[node], released.schema[node])
        summed = np.zeros((table.shape[0], released.values.shape[0]))
        np.add.at(summed.T, np.asarray(places), table.T)
        return summed

    # -- prediction -----------------------------------------------------------------------------------------------

    @cached_property
    def _start(self) -> FloatArray:
        return np.asarray(np.log(self.class_probabilities) + self.biases)

    @cached_property
    def _lookups(self) -> list[Lookup]:
        scores = [w * np.log(table) for w, table in zip(self.weights, self.conditionals, strict=True)]
        return Lookup.of(scores)

    def question(
        self,
        target: str | None,
        given: Sequence[str] | None,
        there: Sequence[str],  # noqa: ARG002  # it needs all features
    ) -> tuple[str, tuple[str, ...]]:
        """The class and all features, which is what this model predicts from; nothing else may be asked for."""
        if self.schema is None or target not in (None, self.target):
            raise InvalidArgument("target", f"{self.target!r} for this model, or left out", got=target)
        if given is not None:
            raise InvalidArgument("given", "left out", hint="Naive Bayes predicts from all its features.")
        return self.target, self.features

    @discreet
    def predict(self, variable: str, evidence: Any) -> FloatArray:
        """P(class | evidence) for each row, rows × classes, with the weights; the tables without them are `query`'s.

        Args:
            variable: the class column.
            evidence: cell numbers of all features by name, arrays of one length; or rows × features.
        """
        if variable != self.target:
            raise InvalidArgument("variable", f"{self.target!r}, the class of this model", got=variable)
        if isinstance(evidence, Mapping):
            absent = [name for name in self.features if name not in evidence]
            if absent:
                raise InvalidArgument("evidence", f"codes of every feature, also of {absent[0]!r}")
            evidence = [evidence[name] for name in self.features]
        return np.asarray(np.exp(self.predict_log_proba(evidence)))

    @discreet
    def predict_some(self, variable: str, evidence: Mapping[str, IntArray], rows: int) -> FloatArray:
        """P(class | known features): what is not known is summed over, which takes its score away."""
        if variable != self.target:
            raise InvalidArgument("variable", f"{self.target!r}, the class of this model", got=variable)
        scores = np.tile(self._start, (check_whole("rows", rows, at_least=0), 1))
        for name, table, weight in zip(self.features, self.conditionals, self.weights, strict=True):
            if name in evidence:
                scores += weight * np.log(table[:, evidence[name]]).T
        shares = np.exp(scores - scores.max(axis=1, keepdims=True))
        return possible_shares(self.schema, variable, evidence, shares / shares.sum(axis=1, keepdims=True))

    @discreet
    def predict_log_proba(self, codes: NDArray[Any] | Sequence[NDArray[Any]]) -> FloatArray:
        """ln P(class | x) for cell numbers: rows × features, or one array for each feature; rows × classes back."""
        columns: Any = codes.T if isinstance(codes, np.ndarray) and codes.ndim == 2 else codes
        if not isinstance(columns, np.ndarray):
            columns = [as_array(column, "codes") for column in columns]
        shapes = {column.shape for column in columns}
        if len(columns) != len(self.features) or len(shapes) != 1 or len(next(iter(shapes))) != 1:
            raise InvalidArgument("codes", f"rows × {len(self.features)} cell numbers, one column for each feature")
        if any(column.dtype.kind not in "iu" for column in columns):
            raise InvalidArgument("codes", "cell numbers of an integer type")
        rows, classes = len(columns[0]), self._start.size
        out = np.empty((rows, classes))
        for start in range(0, rows, BLOCK):
            stop = min(start + BLOCK, rows)
            if isinstance(columns, np.ndarray):
                block = columns[:, start:stop].astype(np.intp, order="C")
            else:
                block = np.array([column[start:stop] for column in columns], dtype=np.intp)
            self._check(block)
            out[start:stop] = log_shares(self._lookups, block, self._start)
            if self.schema is not None and self.schema.never:
                given = {name: codes.astype(np.int64) for name, codes in zip(self.features, block, strict=True)}
                kept = possible_shares(self.schema, self.target, given, np.exp(out[start:stop]))
                with np.errstate(divide="ignore"):
                    out[start:stop] = np.log(kept)
        return out

    def _check(self, block: NDArray[np.intp]) -> None:
        # Negative numbers are very large ones when read as unsigned.
        largest = block.view(np.uintp).max(axis=1)
        for name, found, table in zip(self.features, largest, self.conditionals, strict=True):
            if found >= table.shape[1]:
                raise InvalidArgument("codes", f"0 to {table.shape[1] - 1} for {name!r}")

    # -- records ---------------------------------------------------------------------------------------------------

    def sample_codes(self, size: int, generator: np.random.Generator) -> Mapping[str, IntArray]:
        """Cell numbers of so many synthetic records: a class, then each feature given the class."""
        size = check_whole("size", size, at_least=0)

        def draw(records: int) -> Mapping[str, IntArray]:
            classes = draw_cells(self.class_probabilities, records, generator)
            drawn = {name: draws.draw(classes, generator) for name, draws in self._draws.items()}
            return {**drawn, self.target: classes}

        return possible_records(self.schema, size, draw)

    def sample_codes_given(
        self, size: int, generator: np.random.Generator, given: Mapping[str, Sequence[int]]
    ) -> dict[str, IntArray]:
        """The same for records whose cells of some columns are among those given, by the published tables."""
        tables = {self.target: self.class_probabilities, **dict(zip(self.features, self.conditionals, strict=True))}
        drawn = draw_given(self.families, tables, given, size, generator, self.schema)
        return {name: drawn[name] for name in (*self.features, self.target)}

    @cached_property
    def _draws(self) -> dict[str, RowDraws]:
        return {name: RowDraws(table) for name, table in zip(self.features, self.conditionals, strict=True)}

    # -- files ----------------------------------------------------------------------------------------------------

    def to_body(self) -> dict[str, Any]:
        """As plain data."""
        return {
            "target": self.target,
            "method": self.method,
            "releases": [release.to_body() for release in self.releases],
            "class_probabilities": self.class_probabilities.tolist(),
            "conditionals": [conditional.tolist() for conditional in self.conditionals],
            "weights": self.weights.tolist(),
            "biases": self.biases.tolist(),
            "schema": None if self.declared is None else json.loads(self.declared.to_json()),
        }

    @classmethod
    def from_body(cls, body: dict[str, Any]) -> NaiveBayesModel:
        """The inverse of `to_body`."""
        with reading_body("model"):
            return cls(
                releases=tuple(Release.from_body(release) for release in body["releases"]),
                target=body["target"],
                class_probabilities=np.array(body["class_probabilities"], dtype=np.float64),
                conditionals=tuple(np.array(c, dtype=np.float64) for c in body["conditionals"]),
                weights=np.array(body["weights"], dtype=np.float64),
                biases=np.array(body["biases"], dtype=np.float64),
                method=body["method"],
                declared=None if body.get("schema") is None else Schema.from_json(json.dumps(body["schema"])),
            )

    @classmethod
    def body_schema(cls) -> dict[str, Any]:
        """The JSON Schema of what `to_body` writes."""
        return object_schema(
            {
                "target": {"type": "string"},
                "method": {"type": "string"},
                "releases": {"type": "array", "items": release_schema(), "minItems": 1},
                "class_probabilities": NUMBERS,
                "conditionals": {"type": "array", "items": {"type": "array", "items": NUMBERS}},
                "weights": NUMBERS,
                "biases": NUMBERS,
                "schema": {
                    "oneOf": [{"type": "null"}, SCHEMA],
                    "description": "of the model, where tables were released over merged bins of it",
                },
            },
            optional=("schema",),
        )


def merged_note(merged: Mapping[str, tuple[int, int]]) -> str:
    """Which features were released with fewer cells than declared, in one line."""
    names = ", ".join(f"{name} ({cells} of {declared} cells)" for name, (cells, declared) in merged.items())
    return f"Bins that the noise would hide were merged before it: {names}."


def _check_columns(releases: Sequence[Release]) -> None:
    """Releases that are pooled are over the same cells, and so are the classes of all tables."""
    seen: dict[str, Column] = {}
    for column in (column for release in releases for column in release.schema or ()):
        if seen.setdefault(column.name, column) != column:
            raise InvalidArgument("releases", f"over the same cells of {column.name!r}")


def _check_merged(releases: Sequence[Release], declared: Schema) -> None:
    """Each release is over the declared columns, or over merged bins of them."""
    for release in releases:
        if release.schema is None or any(column.origin != declared[column.name].origin for column in release.schema):
            raise InvalidArgument("releases", "with a schema of the same origin as the declared one")
        for column in release.schema:
            if cell_map(declared[column.name], column) is None:
                raise InvalidArgument(
                    "releases", f"over the declared cells of {column.name!r}, or over merged bins of it"
                )


__all__ = ["NaiveBayesModel", "Tables", "merged_note"]
