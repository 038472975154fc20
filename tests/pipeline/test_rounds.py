"""Adaptive recipes: rounds that are chosen from releases, within shares and maxima that were fixed before."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simplexdp import Budget, Numeric, Quantiles, Schema
from simplexdp.budget import Unit
from simplexdp.errors import InvalidArgument, PrivacyError, SourceError
from simplexdp.fitting import Facts, Terms
from simplexdp.fitting.design import (
    Design,
    Expected,
    Further,
    Later,
    Request,
    Round,
    Scores,
    Steps,
    Tabulated,
    designed,
    first_tables,
)
from simplexdp.forecast import plan
from simplexdp.mechanisms.base import TableMechanism
from simplexdp.mechanisms.sums import GaussianTables, NoisySum
from simplexdp.models.release import Release
from simplexdp.naive_bayes import NaiveBayesRecipe
from simplexdp.private.counting import Passes
from simplexdp.private.door import fit
from simplexdp.private.kernels import deviation_scores

NAMES = ("a", "b", "c", "d")
SCHEMA = Schema.of(**{name: [0, 1, 2] for name in NAMES})
PAIRS = tuple(itertools.combinations(NAMES, 2))
BUDGET = Budget(epsilon=8, delta=1e-6)
UNITS = [Unit(), Unit(neighbours="add-remove"), Unit(rows_per_person=2, person="who")]


def rows(n: int, seed: int = 0) -> Any:
    """b repeats a, d repeats c, the rest is independent."""
    rng = np.random.default_rng(seed)
    a, c = rng.integers(0, 3, n), rng.integers(0, 3, n)
    b, d = np.where(rng.random(n) < 0.9, a, 2 - a), np.where(rng.random(n) < 0.8, c, rng.integers(0, 3, n))
    return pa.table({"a": a, "b": b, "c": c, "d": d, "who": np.arange(n) // 2})


@dataclass(frozen=True)
class Learned:
    """What the toy learned: which pairs it asked for, and what was released."""

    pairs: tuple[tuple[str, ...], ...]
    triple: tuple[str, ...]
    scores: dict[tuple[str, ...], float]
    releases: tuple[Release, ...]


@dataclass(frozen=True)
class Learner:
    """One-way tables; scores of all pairs; tables of the best two; one table of three columns that holds the best."""

    schema: Schema = SCHEMA
    what: str = "a toy that learns which tables to ask for"
    best: int = 2

    @property
    def tables(self) -> Tabulated:
        return Tabulated(columns=tuple((name,) for name in NAMES), schema=self.schema)

    def design(self, facts: Facts, terms: Terms) -> Design:
        size = max(column.size for column in self.schema)
        rounds = (
            Round(
                name="pairs", buys=(("vector", 0.2),), kernel="deviation", tables=len(PAIRS), cells=len(PAIRS) * size**2
            ),
            Round(name="best", buys=(("tables", 0.3),), tables=self.best, cells=self.best * size**2),
            Round(name="three", buys=(("tables", 0.2),), tables=1, cells=size**3),
        )
        return designed(self.tables, facts, terms, Later(rounds=rounds))

    def follow(self, design: Design) -> Steps[Learned]:
        _, releases = yield from first_tables(design)
        shares = {release.columns[0]: release.probabilities for release in releases}
        total = max(float(np.mean([release.values.sum() for release in releases])), 1.0)
        expected = Expected(cells=tuple(total * np.outer(shares[a], shares[b]) for a, b in PAIRS), clip=1.0)
        noisy = yield Scores(round="pairs", parameters=expected, tables=PAIRS)
        ranked = sorted(range(len(PAIRS)), key=lambda i: -int(noisy[i]))
        best = [PAIRS[i] for i in ranked[: self.best]]
        pairs = yield Further(round="best", weights={pair: 1.0 / (1 + i) for i, pair in enumerate(best)})
        loudest = max(pairs, key=lambda release: float(release.probabilities.max())).columns
        triple = (*loudest, next(name for name in NAMES if name not in loudest))
        more = yield Further(round="three", weights={triple: 1.0})
        unit = expected.unit(design.bought["pairs"][0].bound)  # type: ignore[attr-defined]
        scores = {pair: float(noisy[i]) * unit for i, pair in enumerate(PAIRS)}
        return Learned(pairs=tuple(best), triple=triple, scores=scores, releases=(*releases, *pairs, *more))


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: f"{unit.neighbours}-{unit.kind}")
def test_a_recipe_learns_which_tables_to_ask_for(unit: Unit) -> None:
    made = fit(Learner(), rows(6000), Terms(budget=BUDGET, unit=unit))
    assert set(made.pairs) == {("a", "b"), ("c", "d")}
    assert [release.columns for release in made.releases[4:]] == [*made.pairs, made.triple]
    assert made.releases[-1].values.shape == (3, 3, 3)
    guarantee = made.releases[0].guarantee
    assert {release.guarantee for release in made.releases} == {guarantee}
    assert guarantee.covers([release.mechanism for release in made.releases])
    assert guarantee.loss.fits(BUDGET)
    kinds = [type(each) for each in guarantee.mechanisms[4:]]
    assert kinds == [NoisySum, GaussianTables, GaussianTables]


def test_the_plan_of_an_adaptive_recipe_is_its_fit() -> None:
    shown = plan(Learner(), budget=BUDGET, total=6000, mechanism="gaussian")
    made = fit(Learner(), rows(6000), Terms(budget=BUDGET, mechanism="gaussian"))
    assert shown.design.guarantee == made.releases[0].guarantee
    assert [each.name for each in shown.design.rounds] == ["pairs", "best", "three"]
    precise = [sum(mechanism.loss().rdp(1) for mechanism in each) for each in shown.design.bought.values()]
    whole = shown.design.guarantee.loss.rdp(1)
    assert np.allclose([each / whole for each in precise], [0.2, 0.3, 0.2], rtol=1e-3)  # the shares that were asked for


# -- what the session refuses ------------------------------------------------------------------------------------------


class Insistent(Learner):
    """Asks for one more thing at the end."""

    asks: Any = None

    def follow(self, design: Design) -> Steps[Learned]:
        made = yield from super().follow(design)
        yield type(self).asks
        return made


class Impatient(Learner):
    """Asks for something in place of the first round."""

    asks: Any = None

    def follow(self, design: Design) -> Steps[Learned]:
        yield from first_tables(design)
        yield type(self).asks
        raise AssertionError("the session answered")


AT = Expected(cells=tuple(np.ones((3, 3)) for _ in PAIRS), clip=1.0)


@pytest.mark.parametrize(
    "request_",
    [
        Further(round="best", weights={("a", "b"): 1.0}),
        Further(round="pairs", weights={("a", "b"): 1.0}),
        Scores(round="pairs", parameters=AT, tables=PAIRS),
        Further(round="four", weights={("a", "b"): 1.0}),
    ],
    ids=["again", "of another kind", "scores again", "never designed"],
)
def test_each_round_is_answered_once(request_: Request, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Insistent, "asks", request_)
    with pytest.raises(PrivacyError, match="not designed and paid, or asks for it twice"):
        fit(Insistent(), rows(300), Terms(budget=BUDGET))


@pytest.mark.parametrize(
    ("request_", "error", "match"),
    [
        (Further(round="best", weights=dict.fromkeys(PAIRS, 1.0)), PrivacyError, "at most 2 tables of 18 cells"),
        (Further(round="best", weights={("a", "b", "c"): 1.0}), PrivacyError, "1 of 27 cells are asked for"),
        (Further(round="best", weights={("a", "who"): 1.0}), InvalidArgument, "among those of the design"),
        (Further(round="best", weights={("a", "b"): -1.0}), InvalidArgument, "weights"),
        (Further(round="best", weights={("a", "b"): math.nan}), InvalidArgument, "weights"),
        (Scores(round="best", parameters=AT, tables=PAIRS[:1]), PrivacyError, "not designed and paid"),
    ],
    ids=["too many", "too large", "another column", "negative", "no number", "scores of a round of tables"],
)
def test_maxima_are_kept(
    request_: Request, error: type[Exception], match: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All of it is refused before another look at a row."""
    monkeypatch.setattr(Impatient, "asks", request_)
    passes: list[Any] = []
    counted = Passes.count

    def spy(self: Passes, *how: Any) -> Any:
        passes.append(how)
        return counted(self, *how)

    monkeypatch.setattr(Passes, "count", spy)
    with pytest.raises(error, match=match):
        fit(Impatient(), rows(300), Terms(budget=BUDGET))
    assert len(passes) == 1


def test_a_round_that_cannot_be_carried_out_is_refused_before_the_charge() -> None:
    with pytest.raises(SourceError, match="Nothing was charged"):
        Learner().design(Facts(records=100, is_public=True, again=False), Terms(budget=BUDGET))
    one = Round(name="x", buys=(("tables", 0.1),), tables=1, cells=3)
    with pytest.raises(InvalidArgument, match="a name of its own"):
        designed(Learner().tables, Facts(records=9, is_public=True), Terms(budget=BUDGET), Later(rounds=(one, one)))
    with pytest.raises(InvalidArgument, match="buys"):
        Round(name="x", buys=(("tables", 0.1),), kernel="deviation")


# -- what is asked depends on releases alone ---------------------------------------------------------------------------


def watched(recipe: Any, requests: list[Any]) -> Any:
    """The same recipe; what it asks for is kept."""

    class Watched(type(recipe)):  # type: ignore[misc]
        def follow(self, design: Design) -> Any:
            steps, answer = super().follow(design), None
            while True:
                try:
                    request = steps.send(answer)
                except StopIteration as finished:
                    return finished.value
                requests.append(request)
                answer = yield request

    return Watched(**{name: getattr(recipe, name) for name in recipe.__dataclass_fields__})


def told(value: Any) -> Any:
    """All numbers in a request, comparable."""
    if isinstance(value, np.ndarray):
        return value.shape, value.tobytes()
    if hasattr(value, "__dataclass_fields__"):
        return type(value).__name__, tuple(told(getattr(value, name)) for name in value.__dataclass_fields__)
    if isinstance(value, dict):
        return tuple((told(key), told(item)) for key, item in value.items())
    return tuple(map(told, value)) if isinstance(value, list | tuple) else repr(value)


@pytest.mark.parametrize(
    "recipe",
    [
        Learner(),
        NaiveBayesRecipe.of(
            Schema.of(
                **{name: [0, 1, 2] for name in NAMES[:3]}, e=Quantiles(3, lower=0, upper=9, share=0.1), d=[0, 1, 2]
            ),
            "d",
        ),
    ],
    ids=["learner", "naive Bayes with quantiles"],
)
@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: f"{unit.neighbours}-{unit.kind}")
def test_neighbours_are_asked_the_same_if_the_noise_hides_them(
    recipe: Any, unit: Unit, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where draws are replaced by fixed values, requests of two quite different tables are the same, bit by bit."""

    def fixed(self: Any, counts: Any, entropy: Any) -> Any:
        shape = np.shape(counts)
        made = 700 + (np.arange(math.prod(shape)).reshape(shape) * 37) % 90
        return made + made.T if getattr(self, "kind", "") == "matrix" else made

    for kind in _with_draws():
        monkeypatch.setattr(kind, "draw", fixed)
    monkeypatch.setattr("simplexdp.fitting.edges.permute_and_flip", lambda scores, *_: len(scores) // 2)
    found = []
    for seed in (1, 2):
        table = rows(3000, seed).append_column("e", pa.array(np.random.default_rng(seed).uniform(0, 9, 3000)))
        requests: list[Any] = []
        terms = Terms(budget=BUDGET, unit=unit, mechanism="gaussian")
        fit(watched(recipe, requests), table, terms, records=3000)
        found.append(told(requests))
    assert found[0] == found[1]
    names = [type(request).__name__ for request in requests]
    assert "Further" in names
    assert ("Scores" in names) if isinstance(recipe, Learner) else names[:2] == ["Edges", "Tables"] and "Sums" in names


def test_the_test_above_sees_a_recipe_that_is_told_more() -> None:
    """With the noise itself, the requests of two tables differ."""
    found = []
    for seed in (1, 2):
        requests: list[Any] = []
        fit(watched(Learner(), requests), rows(3000, seed), Terms(budget=BUDGET))
        found.append(told(requests))
    assert found[0] != found[1]


def _with_draws() -> list[type]:
    found, todo = [], [TableMechanism, NoisySum, GaussianTables]
    while todo:
        kind = todo.pop()
        todo += kind.__subclasses__()
        if "draw" in vars(kind) and not getattr(kind.draw, "__isabstractmethod__", False):
            found.append(kind)
    return found


ODD = [math.nan, math.inf, -1.0, 5e-324]


# -- scores ------------------------------------------------------------------------------------------------------------


def phi(x: int, m: float, clip: float) -> float:
    """The score in real numbers: Σ of the slopes."""
    return sum(max(-clip, min(clip, math.log((k + 0.5) / m) if m > 0 else math.inf)) for k in range(x))


@given(
    counts=st.lists(st.integers(0, 60), min_size=2, max_size=6),
    means=st.lists(st.floats(0, 80), min_size=6, max_size=6),
    clip=st.floats(0.1, 3),
    tables=st.integers(1, 4),
)
@settings(max_examples=60, deadline=None)
def test_scores_are_what_they_say(counts: list[int], means: list[float], clip: float, tables: int) -> None:
    vector = NoisySum.of("vector", 3.0)
    at = Expected(cells=(np.array(means[: len(counts)]),) * tables, clip=clip)
    (found,) = deviation_scores(at, [np.array(counts)] * tables, [vector])
    exact = sum(phi(x, m, clip) for x, m in zip(counts, means, strict=False))
    assert found[0] * at.unit(vector.bound) == pytest.approx(exact, abs=sum(counts) * at.unit(vector.bound) / 2 + 1e-9)


@given(
    counts=st.lists(st.integers(0, 30), min_size=3, max_size=3),
    means=st.lists(
        st.one_of(st.floats(0, 1e6), st.sampled_from([math.nan, math.inf, -1.0, 5e-324])), min_size=3, max_size=3
    ),
    clip=st.floats(1e-3, 50),
    tables=st.integers(1, 20),
    bound=st.integers(1, 2000),
    cell=st.integers(0, 2),
)
@settings(max_examples=200, deadline=None)
def test_a_record_moves_scores_by_no_more_than_the_bound(
    counts: list[int], means: list[float], clip: float, tables: int, bound: int, cell: int
) -> None:
    """Whatever the parameters are: the sensitivity is one of whole numbers."""
    vector = NoisySum(sigma=3.0, bound=bound, kind="vector")
    at = Expected(cells=(np.array(means),) * tables, clip=clip)
    more = [count + (i == cell) for i, count in enumerate(counts)]
    with np.errstate(all="ignore"):
        (one,) = deviation_scores(at, [np.array(counts)] * tables, [vector])
        (two,) = deviation_scores(at, [np.array(more)] * tables, [vector])
    assert int(((two - one) ** 2).sum()) <= bound**2


@given(count=st.integers(0, 3_000_000), mean=st.floats(1e-3, 3e6), clip=st.floats(0.1, 2))
@settings(max_examples=100, deadline=None)
def test_scores_of_large_counts_are_near_the_integral_and_move_by_one_slope(
    count: int, mean: float, clip: float
) -> None:
    """Within 2e-4 of a nat a record of ∫ clip(ln(x/m)), and wherever a count is, one more moves it by one slope."""
    bound = 1 << 20
    vector, at = NoisySum(sigma=1.0, bound=bound, kind="vector"), Expected(cells=(np.array([mean]),), clip=clip)
    (one,), (two,) = (deviation_scores(at, [np.array([each])], [vector])[0] for each in (count, count + 1))
    assert abs(int(two) - int(one)) <= bound

    def integral(x: float) -> float:
        low, high = mean * math.exp(-clip), mean * math.exp(clip)
        inside = min(max(x, low), high)
        middle = inside * (math.log(inside / mean) - 1) - low * (-clip - 1) if x > low else 0.0
        return -clip * min(x, low) + middle + clip * max(x - high, 0.0)

    assert int(one) * at.unit(bound) == pytest.approx(integral(count), abs=2e-4 * count + 3)


def test_a_kernel_without_the_bound_would_be_seen() -> None:
    """The same test on scores that are too steep fails: it can."""
    vector, at = NoisySum(sigma=3.0, bound=10, kind="vector"), Expected(cells=(np.ones(2),) * 4, clip=1.0)
    counts = [np.array([5, 0])] * 4
    one = 2 * deviation_scores(at, counts, [vector])[0]
    two = 2 * deviation_scores(at, [np.array([6, 0])] * 4, [vector])[0]
    assert int(((two - one) ** 2).sum()) > 10**2


def test_scores_do_not_depend_on_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    vector, at = NoisySum.of("vector", 3.0), Expected(cells=(np.array([3.0, 40.0, 0.0, 9.0]),), clip=1.0)
    whole = deviation_scores(at, [np.array([50, 0, 2, 11])], [vector])[0]
    monkeypatch.setattr("simplexdp.private.kernels.BLOCK_CELLS", 7)
    assert deviation_scores(at, [np.array([50, 0, 2, 11])], [vector])[0] == whole
    with pytest.raises(InvalidArgument, match="shapes of the tables"):
        deviation_scores(at, [np.array([[50, 0, 2, 11]])], [vector])
    assert replace(at, clip=2).clip == 2.0


def test_the_cells_of_a_round_are_limited_before_bins_are_merged() -> None:
    """Twelve bins are released as two: a round that goes again counts all twelve of each column."""
    fine = Schema.of(**{name: Numeric(list(range(13))) for name in NAMES})
    coarse = Schema.of(**{name: Numeric([0, 6, 12]) for name in NAMES})
    table = Tabulated(columns=tuple((name,) for name in NAMES), schema=fine)

    def made(**settings: Any) -> Design:
        step = Round(name="more", buys=(("tables", 0.5),), tables=1, **settings)
        later = Later(rounds=(step,), released=coarse)
        return designed(table, Facts(records=1000, is_public=True), Terms(budget=BUDGET), later)

    for cells, most in ((2, 12 * 6), (4, 12**2 * 6), (16, 12**4), (32, 2 * 12**4)):
        design = made(cells=cells)
        assert cells * 6 ** min(4, math.log2(cells)) <= design.counted(design.rounds[0]) <= most
    kept = made(cells=16, again=False)  # margins of what was counted
    assert kept.counted(kept.rounds[0]) == 16


def test_what_a_round_counts_is_refused_before_it_is_paid(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from simplexdp import Ledger
    from simplexdp.private import door

    monkeypatch.setattr(Design, "counted", lambda *_: door.MEMORY_LIMIT // 8 + 1)
    ledger = Ledger.open(tmp_path / "ledger.db", budget=BUDGET)
    ledger.register("d", rows(300), SCHEMA)
    with pytest.raises(InvalidArgument, match="counted cells each"):
        fit(Learner(), rows(300), Terms(budget=Budget(epsilon=1, delta=1e-7), ledger=ledger, dataset="d"))
    assert [entry.kind for entry in ledger.entries()] == ["open", "register"]


def test_a_forecast_knows_of_every_look_at_the_same_tables() -> None:
    """Two rounds of 0.2 are worth one of 0.4; one that goes again may be of other tables and is not counted."""

    @dataclass(frozen=True)
    class Looks(Learner):
        shares: tuple[float, ...] = ()
        again: bool = False

        def design(self, facts: Facts, terms: Terms) -> Design:
            rounds = [
                Round(name=f"look {i}", buys=(("tables", share),), tables=4, cells=12, again=self.again)
                for i, share in enumerate(self.shares)
            ]
            return designed(self.tables, facts, terms, Later(rounds=rounds))

    settings: dict[str, Any] = {"budget": BUDGET, "total": 6000, "mechanism": "gaussian"}
    two, one = (plan(Looks(shares=shares), **settings).tables[0].noise for shares in ((0.2, 0.2), (0.4,)))
    away = plan(Looks(shares=(0.2, 0.2), again=True), **settings).tables[0].noise
    assert two == pytest.approx(one, rel=0.02)
    assert away == pytest.approx(one / math.sqrt(0.6), rel=0.02)
