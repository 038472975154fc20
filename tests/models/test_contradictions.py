"""No object and no file says two things about its privacy: the mark follows from the facts, and facts agree."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simplexdp import BayesianNetwork, Budget, Gaussian, NaiveBayes, Release, Schema, release, release_distribution
from simplexdp.errors import FormatError, InvalidArgument
from simplexdp.mechanisms import NoNoise
from simplexdp.models import Guarantee
from simplexdp.models.bayesian_network import BayesianNetworkModel
from simplexdp.models.certificate import certify
from simplexdp.models.document import checksum
from simplexdp.models.naive_bayes import NaiveBayesModel

BUDGET = Budget(epsilon=2.0, delta=1e-5)
SCHEMA = Schema.of(a=["x", "y", "z"], b=[0, 1], c=[False, True])
KINDS = {kind.kind: kind for kind in (Release, NaiveBayesModel, BayesianNetworkModel)}
Change = Callable[[dict[str, Any]], None]


@cache
def documents() -> dict[str, str]:
    """One document of each kind, private, under both relations and units."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {"a": rng.choice(["x", "y", "z"], 200), "b": rng.integers(0, 2, 200), "c": rng.integers(0, 2, 200) == 1}
    )
    person = frame.assign(who=np.arange(200) // 2)
    made = {
        mechanism: release_distribution(frame, SCHEMA, ["a", "b"], budget=BUDGET, mechanism=mechanism)
        for mechanism in ("balanced-laplace", "polya", "gaussian", "laplace", "dirichlet")
    }
    made["hidden"] = release_distribution(frame, SCHEMA, ["a"], budget=BUDGET, neighbours="add-remove")
    made["person"] = release_distribution(
        person, SCHEMA, ["a"], budget=BUDGET, mechanism="gaussian", rows_per_person=2, person="who"
    )
    made["plain"] = release([5, 3, 2], budget=BUDGET)
    bayes = NaiveBayes(schema=SCHEMA, target="c", reweight=False).fit(frame[["a", "b"]], frame["c"])
    network = BayesianNetwork({"b": ["a"], "c": ["a"]}, SCHEMA, budget=BUDGET).fit(frame)
    texts = {name: each.to_json() for name, each in made.items()}
    return texts | {"bayes": bayes.model_.to_json(), "network": network.to_json()}


def read(text: str) -> Any:
    document = json.loads(text)
    return KINDS[document["format"].removeprefix("simplexdp/")].from_json(text)


def guarantees(body: dict[str, Any]) -> list[dict[str, Any]]:
    """Every copy of the guarantee in a document."""
    return [each["guarantee"] for each in (body, *body.get("releases", [])) if "guarantee" in each]


def tables(body: dict[str, Any]) -> list[dict[str, Any]]:
    return body.get("releases", [body])


def edit(name: str, change: Change) -> str:
    document = copy.deepcopy(json.loads(documents()[name]))
    change(document["body"])
    document["sha256"] = checksum(document["body"])
    return json.dumps(document)


def seeded(body: dict[str, Any]) -> None:
    for table in tables(body):
        table["entropy"] = "seeded"


def one_seeded(body: dict[str, Any]) -> None:
    tables(body)[-1]["entropy"] = "seeded"


def without_noise(body: dict[str, Any]) -> None:
    for table in tables(body):
        table["mechanism"] = {"name": "none", "parameters": {}}
    for guarantee in guarantees(body):
        guarantee["mechanisms"] = [{"name": "none", "parameters": {}} for _ in guarantee["mechanisms"]]


def also_without_noise(body: dict[str, Any]) -> None:
    """Another table of the same guarantee was published as counted."""
    for guarantee in guarantees(body):
        guarantee["mechanisms"].append({"name": "none", "parameters": {}})


def from_data(origin: str) -> Change:
    def change(body: dict[str, Any]) -> None:
        for part in (body, *tables(body)):
            if part.get("schema"):
                part["schema"]["origin"] = origin

    return change


def other_relation(body: dict[str, Any]) -> None:
    for guarantee in guarantees(body):
        guarantee["neighbours"] = {"replace-one": "add-remove", "add-remove": "replace-one"}[guarantee["neighbours"]]


def other_unit(body: dict[str, Any]) -> None:
    for guarantee in guarantees(body):
        guarantee.update({"row": {"unit": "person", "rows": 2}, "person": {"unit": "row"}}[guarantee["unit"]])


def smaller_budget(body: dict[str, Any]) -> None:
    for guarantee in guarantees(body):
        guarantee["budget"]["epsilon"] /= 2


def other_mechanism(body: dict[str, Any]) -> None:
    tables(body)[0]["mechanism"] = {"name": "gaussian", "parameters": {"sigma": 123.0}}


def other_total(body: dict[str, Any]) -> None:
    table = tables(body)[0]
    table["total"] = 17 if table["total"] is None else None


def wrong_time(body: dict[str, Any]) -> None:
    tables(body)[0]["created"] = "yesterday"


def no_zone(body: dict[str, Any]) -> None:
    tables(body)[0]["created"] = "2026-01-31T12:00:00"


def half_values(body: dict[str, Any]) -> None:
    table = tables(body)[0]
    table["values"] = [value + 0.5 for value in table["values"]]


def other_shape(body: dict[str, Any]) -> None:
    table = tables(body)[0]
    table["shape"] = [size + 1 for size in table["shape"]]


def no_release(body: dict[str, Any]) -> None:
    if "releases" in body:
        del body["releases"][1:]
    else:
        body["guarantee"]["mechanisms"] = []


ANYWHERE: list[Change] = [
    *(seeded, one_seeded, without_noise, also_without_noise, other_unit, other_mechanism, other_total),
    *(wrong_time, smaller_budget, no_zone, half_values, other_shape, no_release),
]


@given(st.sampled_from(sorted(documents())), st.sampled_from(ANYWHERE))
def test_a_document_with_one_fact_that_contradicts_the_others_is_refused(name: str, change: Change) -> None:
    read(documents()[name])
    with pytest.raises(FormatError):
        read(edit(name, change))


@given(
    st.sampled_from([name for name in sorted(documents()) if name != "plain"]),
    st.sampled_from(["from-data", "paper-discretisation"]),
)
def test_a_schema_from_the_data_needs_its_mark(name: str, origin: str) -> None:
    with pytest.raises(FormatError, match="marked private"):
        read(edit(name, from_data(origin)))


@pytest.mark.parametrize("name", ["balanced-laplace", "polya", "gaussian", "hidden", "bayes", "network"])
def test_the_other_relation_needs_another_total_or_spends_more(name: str) -> None:
    with pytest.raises(FormatError):
        read(edit(name, other_relation))


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("balanced-laplace", lambda body: body["values"].__setitem__(0, body["values"][0] + 1)),
        ("polya", lambda body: body["values"].__setitem__(0, -1)),
        ("dirichlet", lambda body: body["values"].__setitem__(0, body["values"][0] + 0.1)),
        ("dirichlet", lambda body: body["values"].__setitem__(0, 0.0)),
        ("gaussian", lambda body: body["values"].__setitem__(0, True)),
        ("bayes", lambda body: body["weights"].__setitem__(0, body["weights"][0] + 0.1)),
        ("bayes", lambda body: body["biases"].__setitem__(0, 0.1)),
        ("bayes", lambda body: body["releases"][0].__setitem__("total", 201)),
        ("network", lambda body: body["releases"][0].__setitem__("total", 201)),
        ("network", lambda body: body.__setitem__("releases", [])),
        ("network", lambda body: body["releases"][0].__setitem__("schema", None)),
        ("network", lambda body: body["schema"].__setitem__("origin", "from-data")),
        ("bayes", lambda body: [each["guarantee"].__setitem__("unit", "person") for each in body["releases"][:1]]),
    ],
)
def test_values_that_the_mechanism_cannot_have_drawn(name: str, change: Change) -> None:
    with pytest.raises(FormatError):
        read(edit(name, change))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["gaussian", "bayes", "network"])
def test_a_reason_without_a_fact_is_kept(name: str) -> None:
    """A table may be not private for what no field of the file says, such as cells taken from the data."""

    def marked(body: dict[str, Any]) -> None:
        tables(body)[0]["not_private"] = ["the table was counted with cells taken from the data"]

    found = read(edit(name, marked))
    assert not found.private
    assert found.certificate().not_private == ("the table was counted with cells taken from the data",)


def test_a_mark_in_other_words_is_kept_beside_the_reason_that_the_fact_gives() -> None:
    def marked(body: dict[str, Any]) -> None:
        body.update(entropy="seeded", not_private=["an older wording"])

    assert read(edit("gaussian", marked)).not_private[1:] == ("an older wording",)


def build(**facts: Any) -> Release:
    given: dict[str, Any] = {"mechanism": Gaussian(sigma=5.0), "values": np.array([3, 4]), "total": 7.0}
    given |= facts
    return Release(guarantee=given.pop("guarantee", None) or Guarantee(mechanisms=(given["mechanism"],)), **given)


def test_an_object_made_by_hand_does_not_certify_what_its_facts_deny() -> None:
    derived = Schema.from_data(pd.DataFrame({"a": ["x", "y"]}), i_accept_that_the_result_is_not_private=True)
    assert build().certificate().private
    for facts in (
        {"entropy": "seeded"},
        {"mechanism": NoNoise()},
        {"guarantee": Guarantee(mechanisms=(Gaussian(sigma=5.0), NoNoise()))},
        {"schema": derived, "columns": ("a",)},
    ):
        made = build(**facts)
        assert not made.private
        assert not made.certificate().private
        assert "NOT PRIVATE" in repr(made)
        assert not replace(made, not_private=()).private  # a mark cannot be taken off


def test_the_certificate_decides_by_the_facts() -> None:
    fair: dict[str, Any] = {
        "guarantee": Guarantee(mechanisms=(Gaussian(sigma=5.0),)),
        "entropy": "operating-system",
        "schema_origin": None,
    }
    assert certify(**fair, not_private=()).private
    for facts in (
        {"entropy": "seeded"},
        {"schema_origin": "from-data"},
        {"guarantee": Guarantee(mechanisms=(NoNoise(),))},
    ):
        made = certify(**(fair | facts), not_private=())
        assert not made.private
        assert made.promise.startswith("No promise")


@pytest.mark.parametrize(
    "facts",
    [
        {"entropy": "dice"},
        {"total": None},
        {"values": np.array([3.0, 4.0])},
        {"created": "now"},
        {"created": ""},
        {"columns": ("a", "b")},
        {"schema": SCHEMA, "columns": ("a",)},
        {"mechanism": NoNoise(), "total": 9.0},
        {"guarantee": Guarantee(mechanisms=(Gaussian(sigma=5.0),), neighbours="add-remove")},
        {"guarantee": Guarantee(mechanisms=(Gaussian(sigma=5.0),), unit="person", rows=2)},
    ],
)
def test_an_object_whose_facts_contradict_each_other_is_not_made(facts: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgument):
        build(**facts)
