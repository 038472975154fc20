"""After the draw everything is a function of what was released: made again from the file it is the same to the bit."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from simplexdp import BayesianNetwork, Budget, Release, Schema, release
from simplexdp.models.bayesian_network import BayesianNetworkModel
from simplexdp.models.naive_bayes import NaiveBayesModel
from simplexdp.naive_bayes import fit_naive_bayes

NAMES = ["c", "a", "b", "d", "e"]
SCHEMA = Schema.of(**{name: ["x", "y", "z"] for name in NAMES})
BUDGET = Budget(epsilon=1.0, delta=1e-5)


def rows(seed: int, size: int = 800) -> pa.Table:
    codes = np.random.default_rng(seed).integers(0, 3, (size, len(NAMES)))
    return pa.table({name: np.array(["x", "y", "z"])[codes[:, i]] for i, name in enumerate(NAMES)})


@pytest.mark.parametrize("mechanism", ["polya", "gaussian", "laplace"])
@pytest.mark.parametrize("method", ["posterior-mean", "raw"])
def test_a_distribution_is_estimated_again_from_its_file(mechanism: Any, method: Any, tmp_path: Path) -> None:
    made = release([119, 74, 618, 272, 13, 187, 0, 1], budget=BUDGET, mechanism=mechanism, estimate=method)
    made.write(tmp_path / "r.json")
    again = Release.read(tmp_path / "r.json")
    assert again.values.dtype == np.int64
    np.testing.assert_array_equal(made.probabilities, again.probabilities)
    assert "probabilities" not in made.to_body()  # they are not even stored


@pytest.mark.parametrize("mechanism", ["polya", "gaussian", "laplace"])
def test_the_private_counts_have_no_other_way_in(mechanism: Any) -> None:
    """Two tables with one total: where the integers agree, so does everything else."""
    one = release([500, 300, 200, 0], budget=BUDGET, mechanism=mechanism)
    other = release([0, 1, 499, 500], budget=BUDGET, mechanism=mechanism)
    assert one.mechanism == other.mechanism  # chosen from public facts
    forced = replace(other, values=one.values.copy(), created=one.created)
    np.testing.assert_array_equal(one.probabilities, forced.probabilities)
    assert one.to_json() == forced.to_json()


def test_a_classifier_is_estimated_again_from_its_releases(tmp_path: Path) -> None:
    made = fit_naive_bayes(rows(1), SCHEMA, "c", budget=BUDGET, reweight=False)
    made.write(tmp_path / "m.json")
    again = NaiveBayesModel.from_releases(NaiveBayesModel.read(tmp_path / "m.json").releases, "c")
    np.testing.assert_array_equal(made.class_probabilities, again.class_probabilities)
    for left, right in zip(made.conditionals, again.conditionals, strict=True):
        np.testing.assert_array_equal(left, right)
    np.testing.assert_array_equal(made.weights, again.weights)


def test_a_network_is_estimated_again_from_its_releases(tmp_path: Path) -> None:
    made = BayesianNetwork([("c", "a"), ("a", "b")], SCHEMA, budget=BUDGET).fit(rows(2)).model
    made.write(tmp_path / "m.json")
    read = BayesianNetworkModel.read(tmp_path / "m.json")
    again = BayesianNetworkModel.from_releases(read.graph, read.schema, read.releases)
    for node in made.graph.nodes:
        np.testing.assert_array_equal(made.tables[node], again.tables[node])
