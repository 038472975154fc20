"""The published JSON Schemas are up to date and accept what is written."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import numpy as np
import pandas as pd
import pytest

from simplexdp import BayesianNetwork, Budget, NaiveBayes, Schema, Synthesizer, release_distribution
from simplexdp.models import document_schema, kinds

PUBLISHED = Path(__file__).parents[2] / "docs" / "_static"
SCHEMA = Schema.of(a=["x", "y", "z"], b=[0, 1], c=[False, True])
BUDGET = Budget(epsilon=1.0, delta=1e-5)


def rows() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    return pd.DataFrame(
        {"a": rng.choice(["x", "y", "z"], 200), "b": rng.integers(0, 2, 200), "c": rng.integers(0, 2, 200) == 1}
    )


def documents() -> list[tuple[str, str]]:
    frame = rows()
    bayes = NaiveBayes(schema=SCHEMA, target="c").fit(frame[["a", "b"]], frame["c"])
    many = pd.concat([frame] * 300)
    rounds = NaiveBayes(schema=SCHEMA, target="c", epsilon=5.0).fit(many[["a", "b"]], many["c"])
    assert any(m.name == "noisy-sum" for m in rounds.model_.guarantee.mechanisms)
    network = BayesianNetwork({"b": ["a"], "c": ["a", "b"]}, SCHEMA, budget=BUDGET).fit(frame)
    return [
        ("release", release_distribution(frame, SCHEMA, ["a", "b"], budget=BUDGET).to_json()),
        ("naive-bayes", bayes.model_.to_json()),
        ("naive-bayes", rounds.model_.to_json()),
        ("bayesian-network", network.to_json()),
        ("synthesis", Synthesizer(SCHEMA, budget=BUDGET).fit(frame).to_json()),
    ]


@pytest.mark.parametrize("kind", kinds())
def test_the_published_file_is_up_to_date(kind: str) -> None:
    text = (PUBLISHED / f"{kind}.schema.json").read_text(encoding="utf-8")
    assert json.loads(text) == document_schema(kind)


@pytest.mark.slow
def test_what_is_written_is_accepted_and_a_change_is_not() -> None:
    for kind, text in documents():
        document = json.loads(text)
        schema = document_schema(kind)
        jsonschema.Draft202012Validator.check_schema(schema)
        jsonschema.validate(document, schema)
        for broken in ({**document, "version": 99}, {**document, "body": {**document["body"], "extra": 1}}):
            with pytest.raises(jsonschema.ValidationError):
                jsonschema.validate(broken, schema)
