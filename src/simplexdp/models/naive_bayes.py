"""Naive Bayes from releases: class probabilities, conditional tables and a temperature, nothing private in it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ..errors import InvalidArgument
from ..estimation import Method, NoisyCounts, estimate
from ..estimation.classes import class_estimate, pooled
from ..estimation.strata import Strata, estimate_strata, temperature
from ..schema import Column, Schema, cell_map
from .certificate import Certificate, certify
from .codes import cell_order
from .document import Document, reading_body
from .guarantee import Guarantee
from .lookup import Lookup, log_shares
from .release import Release

FloatArray = NDArray[np.float64]

BLOCK = 1 << 13
"""Rows predicted at once: what they need stays in the cache."""


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


@dataclass(frozen=True, kw_only=True, eq=False)
class NaiveBayesModel(Document):
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
        if any(r.guarantee != self.releases[0].guarantee for r in self.releases):
            raise InvalidArgument("releases", "made together, under one guarantee")
        if self.releases and not self.releases[0].guarantee.covers([release.mechanism for release in self.releases]):
            raise InvalidArgument("releases", "those that the guarantee paid for, and no others")
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
        if declared is not None and method != "posterior-mean":
            raise InvalidArgument("declared", "left out without the estimate 'posterior-mean'")
        if method == "posterior-mean":
            tables = Tables.of(releases, target, declared)
            probabilities, conditionals = tables.classes, tables.strata.conditionals
            if calibrated:
                beta = temperature(tables.strata, probabilities)
        else:
            if all(_raw_draw(release, method) for release in features):
                joints = [release.values for release in features]
            else:
                joints = [estimate(table, method).probabilities for table in _by_feature(releases).values()]
            conditionals = tuple((joint / joint.sum(axis=0)).T.copy() for joint in joints)
            probabilities = _simple_classes(features, alone, method)
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

    @property
    def guarantee(self) -> Guarantee:
        """Of all releases together."""
        return self.releases[0].guarantee

    @property
    def private(self) -> bool:
        """Whether the promise holds."""
        return not self.not_private

    @property
    def not_private(self) -> tuple[str, ...]:
        """Why it does not; empty when it does."""
        return tuple(dict.fromkeys(reason for release in self.releases for reason in release.not_private))

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
        first = self.releases[0].schema
        return Schema([*columns.values(), target], origin=first.origin if first else "declared")

    @property
    def merged_bins(self) -> dict[str, tuple[int, int]]:
        """Features whose bins were merged before the noise: how many cells were released, and how many are declared."""
        if self.declared is None:
            return {}
        released = {r.columns[0]: r.values.shape[0] for r in self.releases if len(r.columns) == 2}
        return {n: (cells, self.declared[n].size) for n, cells in released.items() if cells != self.declared[n].size}

    def certificate(self) -> Certificate:
        """What is promised, in words and as data."""
        first = self.releases[0]
        return certify(
            self.guarantee,
            schema_origin=first.schema.origin if first.schema is not None else None,
            entropy=first.entropy,
            not_private=self.not_private,
        )

    def __repr__(self) -> str:
        mark = "" if self.private else ", NOT PRIVATE"
        return f"NaiveBayesModel({self.target!r} from {len(self.features)} features, {self.guarantee.neighbours}{mark})"

    # -- prediction -----------------------------------------------------------------------------------------------

    @cached_property
    def _start(self) -> FloatArray:
        return np.asarray(np.log(self.class_probabilities) + self.biases)

    @cached_property
    def _lookups(self) -> list[Lookup]:
        scores = [w * np.log(table) for w, table in zip(self.weights, self.conditionals, strict=True)]
        return Lookup.of(scores)

    def predict_log_proba(self, codes: NDArray[Any] | Sequence[NDArray[Any]]) -> FloatArray:
        """ln P(class | x) for cell numbers: rows × features, or one array for each feature; rows × classes back."""
        columns = codes.T if isinstance(codes, np.ndarray) and codes.ndim == 2 else codes
        shapes = {np.shape(column) for column in columns}
        if len(columns) != len(self.features) or len(shapes) != 1 or len(next(iter(shapes))) != 1:
            raise InvalidArgument("codes", f"rows × {len(self.features)} cell numbers, one column for each feature")
        if any(np.asarray(column).dtype.kind not in "iu" for column in columns):
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
        return out

    def _check(self, block: NDArray[np.intp]) -> None:
        # Negative numbers are very large ones when read as unsigned.
        largest = block.view(np.uintp).max(axis=1)
        for name, found, table in zip(self.features, largest, self.conditionals, strict=True):
            if found >= table.shape[1]:
                raise InvalidArgument("codes", f"0 to {table.shape[1] - 1} for {name!r}")

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


def _check_columns(releases: Sequence[Release]) -> None:
    """Releases that are pooled are over the same cells, and so are the classes of all tables."""
    seen: dict[str, Column] = {}
    for column in (column for release in releases for column in release.schema or ()):
        if seen.setdefault(column.name, column) != column:
            raise InvalidArgument("releases", f"over the same cells of {column.name!r}")


def _check_merged(releases: Sequence[Release], declared: Schema) -> None:
    """Each release is over the declared columns, or over merged bins of them."""
    for release in releases:
        if release.schema is None or release.schema.origin != declared.origin:
            raise InvalidArgument("releases", "with a schema of the same origin as the declared one")
        for column in release.schema:
            if cell_map(declared[column.name], column) is None:
                raise InvalidArgument(
                    "releases", f"over the declared cells of {column.name!r}, or over merged bins of it"
                )


def _raw_draw(release: Release, method: Method) -> bool:
    """Whether the published values are shares already, as a Dirichlet draw's are."""
    return method == "raw" and release.mechanism.name == "dirichlet"


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
