"""`plan` and `fit` are one decision: for equal facts the design that is shown is the one that is carried out."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import simplexdp.private.door
from simplexdp import BayesianNetwork, Budget, Numeric, Quantiles, Schema
from simplexdp.budget import Unit
from simplexdp.errors import Infeasible, InvalidArgument, PrivacyError
from simplexdp.fitting import Facts, Terms
from simplexdp.fitting.design import (
    Design,
    Edges,
    Expected,
    Further,
    Scores,
    Steps,
    Sums,
    Tables,
    Tabulated,
    first_tables,
)
from simplexdp.forecast import plan
from simplexdp.models.certificate import steps_of
from simplexdp.naive_bayes import NaiveBayesRecipe
from simplexdp.pipeline import CrossTablesRecipe, DistributionRecipe, Fit, TablesRecipe, wanted_tables
from simplexdp.private.door import fit

COLUMNS = tuple(f"x{k}" for k in range(5))


def rows(n: int) -> Any:
    rng = np.random.default_rng(n)
    y = rng.integers(0, 2, n)
    columns: dict[str, Any] = {name: (y * (rng.random(n) < 0.6) + rng.integers(0, 3, n)) for name in COLUMNS}
    return pa.table({**columns, "age": rng.uniform(0, 100, n), "y": y, "who": rng.integers(0, max(1, n // 2), n)})


def schema(age: str) -> Schema:
    kinds: dict[str, Any] = {
        "none": {},
        "bins": {"age": Numeric(list(range(0, 101, 5)), outside="nearest")},
        "quantiles": {"age": Quantiles(4, lower=0, upper=100, share=0.1)},
    }
    return Schema.of(**{name: [0, 1, 2, 3] for name in COLUMNS}, **kinds[age], y=[0, 1])


@st.composite
def recipes(draw: st.DrawFn) -> Any:
    declared = schema(draw(st.sampled_from(["none", "bins", "quantiles"])))
    kind = draw(st.sampled_from(["distribution", "tables", "many tables", "naive Bayes", "network"]))
    split = draw(st.sampled_from(["equal", "cells"]))
    if kind == "distribution":
        return DistributionRecipe(tables=Tabulated(columns=(("x0", "y"),), schema=declared))
    if kind == "tables":
        columns = draw(st.lists(st.sampled_from(declared.names), min_size=1, max_size=4))
        return TablesRecipe(tables=Tabulated(columns=tuple((name,) for name in columns), schema=declared), split=split)
    if kind == "many tables":
        wanted = tuple(wanted_tables(declared, draw(st.sampled_from(["all-1-way", "all-2-way", [("x0", "x1", "y")]]))))
        how = draw(st.sampled_from(["loss", split]))
        return CrossTablesRecipe(schema=declared, wanted=wanted, weights=(1.0,) * len(wanted), split=how)
    if kind == "naive Bayes":
        names = ("split", "reweight", "second_look", "merge_bins")
        chosen = (draw(st.sampled_from(["auto", split])), *(draw(st.booleans()) for _ in names[1:]))
        return NaiveBayesRecipe.of(declared, "y", **dict(zip(names, chosen, strict=True)))
    edges = [("y", name) for name in declared.names if name != "y"][: draw(st.integers(1, 6))]
    estimate = draw(st.sampled_from(["posterior-mean", "clip"]))
    return BayesianNetwork(edges, declared, split=draw(st.sampled_from(["auto", split])), estimate=estimate).recipe


MECHANISMS = ["auto", "auto", "gaussian", "laplace", "polya", "dirichlet", "balanced-laplace"]
BUDGETS = [
    Budget(epsilon=1, delta=1e-7),
    Budget(epsilon=8, delta=1e-6),
    Budget.rdp(order=5, epsilon=0.5),
    Budget(epsilon=2, delta=0),
]
UNITS = [
    Unit(),
    Unit(neighbours="add-remove"),
    Unit(rows_per_person=2, person="who"),
    Unit(neighbours="add-remove", rows_per_person=3, person="who"),
]
terms = st.builds(
    Terms,
    budget=st.sampled_from(BUDGETS),
    mechanism=st.sampled_from(MECHANISMS),
    estimate=st.sampled_from(["posterior-mean", "clip"]),
    unit=st.sampled_from(UNITS),
)


SOURCES = st.sampled_from([lambda made: made, lambda made: made.to_reader(max_chunksize=500)])
"""A table, and a stream, which gives its rows once."""


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(recipe=recipes(), terms=terms, n=st.sampled_from([80, 700, 9000]), said=st.booleans(), given_as=SOURCES)
def test_a_fit_carries_out_the_design_of_its_plan(
    recipe: Any, terms: Terms, n: int, said: bool, given_as: Callable[[Any], Any]
) -> None:
    if given_as(rows(1)).__class__ is not pa.Table:
        said = True  # a stream does not tell its number of records
    public = terms.unit.total_is_public
    facts = Facts(records=n if said or public else None, is_public=public)
    carried_out: list[Design] = []

    class Spy(simplexdp.private.door.Session):
        def __init__(self, rows: Any, design: Design, *rest: Any) -> None:
            carried_out.append(design)
            super().__init__(rows, design, *rest)

    with warnings.catch_warnings(), pytest.MonkeyPatch.context() as patch:
        warnings.simplefilter("ignore")
        patch.setattr(simplexdp.private.door, "Session", Spy)
        try:
            planned = recipe.design(facts, terms)
        except Infeasible:
            with pytest.raises(Infeasible):
                fit(recipe, given_as(rows(n)), terms, records=n if said else None)
            return
        made = fit(recipe, given_as(rows(n)), terms, records=n if said else None)
    assert carried_out == [planned]
    releases = getattr(made, "releases", (made,))
    assert releases[0].guarantee == planned.guarantee
    assert [release.columns for release in releases[: len(planned.plan.columns)]] == list(planned.plan.columns)
    steps = steps_of(planned.guarantee)
    assert sum(step.share or 0 for step in steps) == pytest.approx(1)
    assert releases[0].certificate().steps == tuple(map(str, steps))


def test_plan_shows_the_design_of_a_fit() -> None:
    """The case that was wrong once: a plan without the second look and the sums promised half of the noise."""
    recipe = NaiveBayesRecipe.of(schema("none"), "y")
    budget = Budget(epsilon=1, delta=1e-5)
    shown = plan(recipe, budget=budget, total=9000)
    made = fit(recipe, rows(9000), Terms(budget=budget))
    assert shown.design.guarantee == made.guarantee
    assert {step.what for step in shown.steps} == {"table", "second look", "noisy sum"}
    fewer = fit(replace(recipe, second_look=False, reweight=False), rows(9000), Terms(budget=budget))
    assert fewer.guarantee.mechanisms[0].sigma < 0.75 * made.guarantee.mechanisms[0].sigma


# -- the session -------------------------------------------------------------------------------------------------------


class Greedy(TablesRecipe):
    """Asks for whatever it is made to ask for."""

    asks: Any = ()

    def follow(self, design: Design) -> Steps[Fit]:
        schema, releases = yield from first_tables(design)
        for request in type(self).asks:
            releases += yield request
        return Fit(releases=releases, schema=schema)


@pytest.mark.parametrize(
    "request_",
    [
        Edges(),
        Tables(schema=schema("none")),
        Further(round="second look", weights={("x0",): 1.0}),
        Sums(round="round 0", parameters=None, columns=("x0",)),
        Scores(round="pairs", parameters=Expected(cells=(), clip=1.0), tables=()),
        "all rows, please",
    ],
    ids=lambda request: type(request).__name__,
)
def test_what_was_not_designed_is_not_drawn(request_: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Greedy, "asks", (request_,))
    recipe = Greedy(tables=Tabulated(columns=(("x0",),), schema=schema("none")))
    with pytest.raises(PrivacyError, match="not designed and paid"):
        fit(recipe, rows(50), Terms(budget=BUDGETS[0]))


def test_a_second_look_is_given_once_and_over_what_was_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    class Twice(NaiveBayesRecipe):
        weights: Any = ({("x0", "y"): 1.0}, {("x0", "y"): 1.0})

        def follow(self, design: Design) -> Any:
            yield from first_tables(design)
            for weights in type(self).weights:
                yield Further(round="second look", weights=weights)

    recipe = Twice.of(schema("none"), "y")
    twice = Twice(schema=recipe.schema, target="y", features=recipe.features)
    with pytest.raises(PrivacyError, match=r"\(further\) that was not designed and paid, or asks for it twice"):
        fit(twice, rows(900), Terms(budget=BUDGETS[0]))
    monkeypatch.setattr(Twice, "weights", ({("x0", "x1"): 1.0},))
    with pytest.raises(InvalidArgument, match="one of the tables of the design"):
        fit(twice, rows(900), Terms(budget=BUDGETS[0]))


def test_sums_are_given_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """One pair more than the design holds is refused, after all that were paid for."""
    recipe = NaiveBayesRecipe.of(schema("none"), "y", second_look=False)
    terms = Terms(budget=Budget(epsilon=8, delta=1e-6))
    followed = NaiveBayesRecipe.follow
    asked: list[Any] = []

    def more(self: NaiveBayesRecipe, design: Design) -> Any:
        steps, answer = followed(self, design), None
        while True:
            try:
                request = steps.send(answer)
            except StopIteration:
                break
            asked.append(request)
            answer = yield request
        yield asked[-1]

    assert len(recipe.design(Facts(records=9000, is_public=True), terms).sums) == 6
    monkeypatch.setattr(NaiveBayesRecipe, "follow", more)
    with pytest.raises(PrivacyError, match=r"\(sums\)"):
        fit(recipe, rows(9000), terms)
    assert sum(isinstance(request, Sums) for request in asked) == 3
