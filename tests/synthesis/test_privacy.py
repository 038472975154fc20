"""What a synthesis is told, what it costs, and what it may ask for."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simplexdp import Budget, Categories, Ledger, Numeric, Schema, Synthesizer, plan
from simplexdp.audit import audit_fit
from simplexdp.budget import Unit
from simplexdp.errors import InvalidArgument, PrivacyError, SimplexDPError
from simplexdp.fitting import Terms
from simplexdp.fitting.design import Expected, Scores, Steps
from simplexdp.mechanisms.base import TableMechanism
from simplexdp.mechanisms.sums import GaussianTables, NoisySum
from simplexdp.models.certificate import steps_of
from simplexdp.models.document import checksum
from simplexdp.private.door import fit
from simplexdp.private.kernels import deviation_scores
from simplexdp.private.tables import CountTable
from simplexdp.synthesis import POOLED, SynthesisRecipe

SCHEMA = Schema(
    [
        Categories([0, 1, 2], name="a"),
        Categories([0, 1, 2], name="b"),
        Categories(["x", "y"], name="c", missing="cell"),
        Numeric(list(range(61)), name="age", integer=True),
        Categories([False, True], name="old"),
    ]
)
BUDGET = Budget(epsilon=2, delta=1e-6)
UNITS = [Unit(), Unit(neighbours="add-remove"), Unit(rows_per_person=2, person="who")]


def rows(n: int, seed: int = 0) -> Any:
    """b repeats a, old follows from age."""
    rng = np.random.default_rng(seed)
    a, age = rng.integers(0, 3, n), rng.integers(0, 60, n)
    b = np.where(rng.random(n) < 0.8, a, rng.integers(0, 3, n))
    c = [None if u < 0.1 else "x" if u < 0.5 else "y" for u in rng.random(n)]
    return pa.table({"a": a, "b": b, "c": c, "age": age, "old": age > 40, "who": np.arange(n) // 2})


def told(value: Any) -> Any:
    """All numbers in a request, comparable."""
    if isinstance(value, np.ndarray):
        return value.shape, value.tobytes()
    if dataclasses.is_dataclass(value):
        return type(value).__name__, tuple(told(getattr(value, each.name)) for each in dataclasses.fields(value))
    if isinstance(value, dict):
        return tuple((told(key), told(item)) for key, item in value.items())
    return tuple(map(told, value)) if isinstance(value, list | tuple) else repr(value)


class Watched(SynthesisRecipe):
    """What it asks for is kept."""

    asked: list[Any]

    def follow(self, design: Any) -> Steps[Any]:
        steps, answer = super().follow(design), None
        while True:
            try:
                request = steps.send(answer)
            except StopIteration as finished:
                return finished.value
            self.asked.append(request)
            answer = yield request


def watched() -> Any:
    recipe = Watched(schema=SCHEMA, target="old")
    object.__setattr__(recipe, "asked", [])
    return recipe


def without_times(body: Any) -> Any:
    if isinstance(body, dict):
        return {key: without_times(item) for key, item in body.items() if key != "created"}
    return [without_times(item) for item in body] if isinstance(body, list) else body


@pytest.mark.slow
@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: f"{unit.neighbours}-{unit.kind}")
def test_neighbours_get_the_same_model_if_the_noise_hides_them(unit: Unit, monkeypatch: pytest.MonkeyPatch) -> None:
    """Draws are replaced by fixed values: requests and model of two quite different tables are the same, bit by bit."""

    def fixed(self: Any, counts: Any, entropy: Any) -> Any:
        shape = np.shape(counts)
        if isinstance(self, NoisySum):  # scores: some far above their noise, some below
            return (np.arange(counts.size) % 3 - 1) * 40 * math.isqrt(self.variance)
        made = 9000 // math.prod(shape) + (np.arange(math.prod(shape)).reshape(shape) * 37) % 90
        made.flat[0] += 9000 - made.sum()
        return made

    for kind in (*TableMechanism.__subclasses__(), *_below(TableMechanism), NoisySum, GaussianTables):
        if "draw" in vars(kind):
            monkeypatch.setattr(kind, "draw", fixed)
    found = []
    for seed in (1, 2):
        recipe = watched()
        terms = Terms(budget=BUDGET, unit=unit, mechanism="gaussian")
        model = fit(recipe, rows(9000, seed), terms, records=9000)
        found.append((told(recipe.asked), without_times(model.to_body())))
    assert found[0] == found[1]
    names = [type(request).__name__ for request in recipe.asked]
    assert names == ["Tables", "Scores", "Further", "Scores", "Further", "Scores", "Further"]
    assert model.graph.edges
    assert set(model.pools) == {"age"}


def _below(kind: type) -> list[type]:
    return [each for sub in kind.__subclasses__() for each in (sub, *_below(sub))]


@pytest.mark.slow
def test_the_test_above_sees_what_depends_on_the_rows() -> None:
    asked = []
    for seed in (1, 2):
        recipe = watched()
        fit(recipe, rows(3000, seed), Terms(budget=BUDGET))
        asked.append(told(recipe.asked))
    assert asked[0] != asked[1]


@given(st.floats(0.05, 8), st.integers(200, 10**6), st.sampled_from(["replace-one", "add-remove"]), st.integers(1, 3))
@settings(max_examples=12, deadline=None)
@pytest.mark.slow
def test_the_budget_holds_and_shares_are_those_that_were_meant(
    epsilon: float, records: int, neighbours: Any, persons: int
) -> None:
    budget = Budget(epsilon=epsilon, delta=1e-7)
    made = plan(
        SynthesisRecipe(schema=SCHEMA),
        budget=budget,
        total=records,
        neighbours=neighbours,
        mechanism="gaussian",
        rows_per_person=persons if persons > 1 else None,
    )
    guarantee = made.design.guarantee
    assert guarantee.loss.fits(budget)
    steps = steps_of(guarantee)
    assert math.fsum(step.share or 0 for step in steps) == pytest.approx(1, abs=1e-6)
    shares = {step.what: step.share for step in steps}
    if "tables of the forest's edges" in shares:
        scores = [share for what, share in shares.items() if what.startswith("scores")]
        assert 0.03 < scores[0] / shares["tables of the forest's edges"] < 12  # type: ignore[operator]
    if not made.design.rounds:
        assert "single columns" in guarantee.left_out[0]


@pytest.mark.slow
def test_a_fit_is_what_was_planned_and_its_certificate_names_each_step() -> None:
    table = rows(8000)
    shown = plan(SynthesisRecipe(schema=SCHEMA), budget=BUDGET, total=8000)
    made = Synthesizer(SCHEMA, budget=BUDGET).fit(table)
    assert made.model.guarantee == shown.design.guarantee
    certificate = made.certificate()
    steps = "\n".join(certificate.steps)
    for what in ("scores of all pairs against independence", "tables of columns with their parents", "misses"):
        assert what in steps
    assert certificate.private
    assert made.model.guarantee.covers([release.mechanism for release in made.model.releases])


@pytest.mark.slow
def test_most_of_what_a_synthesis_pays_for_can_be_proved() -> None:
    """2e5 draws of each neighbour, at 95 %: no more than claimed, and more than four fifths of it."""
    guarantee = plan(SynthesisRecipe(schema=SCHEMA), budget=BUDGET, total=8000).design.guarantee
    found = audit_fit(guarantee, draws=200_000, entropy=3)
    assert 0.8 <= found.share <= 1.0
    cheaper = dataclasses.replace(
        guarantee,
        mechanisms=tuple(
            dataclasses.replace(each, sigma=each.sigma / 3) if isinstance(each, NoisySum | GaussianTables) else each
            for each in guarantee.mechanisms
        ),
    )
    assert cheaper.loss.epsilon(1e-6) > 1.5 * BUDGET.epsilon


# -- pools -------------------------------------------------------------------------------------------------------------


@given(
    st.lists(st.integers(0, 20), min_size=12, max_size=12),
    st.lists(st.integers(0, 2), min_size=6, max_size=6),
    st.integers(0, 11),
    st.floats(0.1, 3),
)
@settings(max_examples=60, deadline=None)
def test_a_record_moves_a_pooled_score_by_no_more_than_the_bound(
    counts: list[int], places: list[int], cell: int, clip: float
) -> None:
    places = list(np.unique(places, return_inverse=True)[1])
    pools = max(places) + 1
    vector = NoisySum(sigma=3.0, bound=1000, kind="vector")
    at = Expected(cells=(np.full((pools, 2), 2.5),), clip=clip)
    found = []
    for more in (0, 1):
        table = np.array(counts)
        table[cell] += more
        pooled = CountTable(table.reshape(6, 2), ["a", "b"]).merged("a", [int(place) for place in places])
        found.append(deviation_scores(at, [np.asarray(pooled.private_counts())], [vector])[0])
    assert abs(int(found[1][0] - found[0][0])) <= vector.bound


def test_pools_that_fit_no_column_are_refused() -> None:
    class First(SynthesisRecipe):
        def follow(self, design: Any) -> Steps[Any]:
            steps, answer = super().follow(design), None
            while True:
                request = steps.send(answer)
                if isinstance(request, Scores):
                    request = dataclasses.replace(request, pools={"a": (0, 2, 2)})
                answer = yield request

    with pytest.raises(InvalidArgument, match="without a gap"):
        fit(First(schema=SCHEMA), rows(2000), Terms(budget=BUDGET))


def test_long_columns_are_pooled_by_releases() -> None:
    made = Synthesizer(SCHEMA, budget=BUDGET, entropy=1).fit(rows(5000)).model
    assert made.coarse["age"].size == POOLED < SCHEMA["age"].size
    assert made.schema == SCHEMA


# -- refusals ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("said", "match"),
    [
        ({"delta": 0.0}, "delta|pure|Gaussian"),
        ({"target": "agee"}, "Did you mean 'age'"),
        ({"columns": ["a", "bb"]}, "bb|one of the schema"),
        ({"columns": "a"}, "a list of columns"),
        ({"mechanism": "none"}, "with noise"),
    ],
    ids=["pure", "target", "columns", "text", "no noise"],
)
def test_what_cannot_be_done_is_refused_before_a_row_is_read(said: dict[str, Any], match: str) -> None:
    with pytest.raises(SimplexDPError, match=match):
        Synthesizer(SCHEMA, **said).fit(rows(100))


def test_a_fit_that_was_not_made_has_no_model() -> None:
    with pytest.raises(InvalidArgument, match=r"Call fit\(source\) first"):
        _ = Synthesizer(SCHEMA).model


def test_a_ledger_is_charged_once(tmp_path: Any) -> None:
    ledger = Ledger.open(tmp_path / "book", budget=Budget(epsilon=2.2, delta=1e-6))
    ledger.register("people", rows(2000), SCHEMA)
    made = Synthesizer(SCHEMA, budget=BUDGET, ledger=ledger, dataset="people").fit(rows(2000))
    kinds = [entry.kind for entry in ledger.entries()]
    assert kinds.count("charge") == 1
    assert ledger.paid_for(checksum(made.model.to_body())) is not None
    with pytest.raises(PrivacyError):
        Synthesizer(SCHEMA, budget=BUDGET, ledger=ledger, dataset="people").fit(rows(2000))
