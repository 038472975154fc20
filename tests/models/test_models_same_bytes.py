"""Same seed, same bytes: what was fitted, predicted and drawn before the models moved is still what comes out.

Drawn numbers are compared to the last digit. Computed ones to nine digits, so that another processor passes.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from simplexdp import BayesianNetwork, Budget, Numeric, Schema, release_distribution
from simplexdp.naive_bayes import fit_naive_bayes, predict_batches
from simplexdp.synthetic import synthetic_records

SCHEMA = Schema.of(a=["x", "y", "z"], b=Numeric(range(9)), c=[1, 2], d=["no", "yes"], e=[False, True])
BUDGET = Budget(epsilon=1.0, delta=1e-5)


@cache
def rows() -> Any:
    """Made-up rows by arithmetic alone, so that no generator can change them."""
    i = np.arange(4000)
    ill = (i * 7919 + i // 3) % 10 < 3
    return pa.table(
        {
            "a": np.array(["x", "y", "z"])[(i * 31 + ill) % 3],
            "b": ((i * 104729) % 80) / 10,
            "c": (i // 2 + 2 * ill) % 2 + 1,
            "d": np.where((i % 5 < 3) ^ ill, "no", "yes"),
            "e": ill,
        }
    )


@cache
def fitted(name: str) -> Any:
    if name == "distribution":
        return release_distribution(rows(), SCHEMA, ["a", "b"], budget=BUDGET, entropy=1)
    if name == "network":
        graph = [("a", "d"), ("e", "d"), ("e", "b")]
        return BayesianNetwork(graph, SCHEMA, budget=BUDGET, entropy=3).fit(rows()).model
    budget = Budget(epsilon=0.05, delta=1e-5) if name == "merged bins" else Budget(epsilon=4.0, delta=1e-5)
    return fit_naive_bayes(rows(), SCHEMA, "e", budget=budget, entropy=2)


def without_time(body: Any) -> Any:
    if isinstance(body, dict):
        return {key: without_time(value) for key, value in body.items() if key not in ("created", "software")}
    if isinstance(body, list):
        return [without_time(item) for item in body]
    return f"{body:.9g}" if isinstance(body, float) else body


def digest(data: Any) -> str:
    return hashlib.sha256(json.dumps(without_time(data), sort_keys=True).encode()).hexdigest()[:16]


def file(name: str) -> Any:
    return fitted(name).to_body()


def predictions(name: str) -> Any:
    if name == "network":
        codes = {"a": np.arange(30) % 3, "e": np.arange(30) % 2, "b": np.arange(30) % 8}
        return fitted(name).predict("d", codes).tolist()
    (found,) = predict_batches(fitted(name), rows().slice(0, 100).combine_chunks().to_batches())
    return found.tolist()


def records(name: str) -> Any:
    return synthetic_records(fitted(name), 500, seed=4).read_all().to_pylist()


RECORDED = {
    ("distribution", file): "82483bffb01f4737",
    ("distribution", records): "f2f9d5b3a8b059b9",
    ("naive Bayes", file): "37e44e68c460f123",
    ("naive Bayes", predictions): "409ca3d69fb160e0",
    ("naive Bayes", records): "ff362cb99e70084d",
    ("merged bins", file): "60b453d475fbc758",
    ("merged bins", predictions): "ecb06326dc418b33",
    ("merged bins", records): "b9eecc73738602ff",
    ("network", file): "6e832d78e0d82525",
    ("network", predictions): "1a25efb91861d25a",
    ("network", records): "9e683688e040cd61",
}


@pytest.mark.parametrize(("name", "what"), RECORDED)
def test_the_same_comes_out(name: str, what: Callable[[str], Any]) -> None:
    assert digest(what(name)) == RECORDED[name, what]


def test_another_seed_gives_something_else() -> None:
    other = release_distribution(rows(), SCHEMA, ["a", "b"], budget=BUDGET, entropy=9)
    assert digest(other.to_body()) != digest(file("distribution"))
