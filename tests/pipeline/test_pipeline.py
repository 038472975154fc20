"""Planning and drawing: budgets are used and never exceeded, tables are independent, the ledger pays first."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from simplexdp import Budget, CountTable, Quantiles, Schema, release, release_distribution
from simplexdp.accounting import PrivacyLoss
from simplexdp.accounting.filters import RenyiFilter
from simplexdp.errors import BudgetExceeded, Infeasible, InvalidArgument, PrivacyError
from simplexdp.pipeline import fit_tables
from simplexdp.planning import plan_tables

BUDGETS = [Budget(epsilon=1.0, delta=1e-5), Budget.rdp(order=5, epsilon=0.1)]
COLUMNS = [("a", "b"), ("a",), ("b", "c")]
SHAPES = [(3, 2), (3,), (2, 8)]
SCHEMA = Schema.of(a=["x", "y", "z"], b=[0, 1])


def frame(n: int = 400) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    return pd.DataFrame({"a": rng.choice(["x", "y", "z"], n), "b": rng.integers(0, 2, n), "who": np.arange(n) // 4})


@pytest.mark.parametrize("budget", BUDGETS, ids=str)
@pytest.mark.parametrize("neighbours", ["replace-one", "add-remove"])
@pytest.mark.parametrize("split", ["equal", "cells", [3.0, 1.0, 2.0]], ids=str)
@pytest.mark.parametrize("mechanism", ["auto", "gaussian", "laplace", "balanced-laplace"])
def test_plans_use_the_budget_and_never_exceed_it(budget: Budget, neighbours: Any, split: Any, mechanism: Any) -> None:
    if mechanism == "balanced-laplace" and neighbours == "add-remove":
        with pytest.raises(Infeasible, match="publishes the total"):
            plan_tables(COLUMNS, SHAPES, budget, neighbours=neighbours, mechanism=mechanism, total=1000.0)
        return
    made = plan_tables(COLUMNS, SHAPES, budget, neighbours=neighbours, split=split, mechanism=mechanism, total=1000.0)
    excess = made.guarantee.loss.excess(budget)
    assert excess <= 0
    assert excess > -0.02  # unequal Laplace scales have few losses, so δ falls in steps


def test_a_larger_share_has_less_noise() -> None:
    made = plan_tables(COLUMNS, SHAPES, BUDGETS[0], split=[4.0, 1.0, 1.0], mechanism="gaussian")
    sigmas = [m.parameters["sigma"] for m in made.mechanisms]
    assert sigmas[1] / sigmas[0] == pytest.approx(2.0, rel=1e-6)
    assert sigmas[1] == pytest.approx(sigmas[2], rel=1e-9)


def test_algorithm1_divides_the_renyi_budget() -> None:
    made = plan_tables(COLUMNS, SHAPES, BUDGETS[1], calibration="algorithm1")
    assert {m.name for m in made.mechanisms} == {"dirichlet"}
    assert made.guarantee.loss.rdp(5) < 0.1
    converted = plan_tables(COLUMNS, SHAPES, BUDGETS[0], calibration="algorithm1")
    assert converted.guarantee.loss.delta(1.0) < 1e-5


@pytest.mark.parametrize(
    ("change", "error", "match"),
    [
        ({"mechanism": "magic"}, InvalidArgument, "mechanism"),
        ({"calibration": "guess"}, InvalidArgument, "calibration"),
        ({"split": "half"}, InvalidArgument, "split"),
        ({"split": [1.0]}, InvalidArgument, "3 finite weights"),
        ({"split": [1.0, 0.0, 1.0]}, InvalidArgument, "3 finite weights"),
        ({"neighbours": "both"}, InvalidArgument, "neighbours"),
        ({"calibration": "algorithm1", "neighbours": "add-remove"}, InvalidArgument, "Algorithm 1"),
        ({"mechanism": "dirichlet"}, Infeasible, "public total"),
        ({"pure": (5.0,)}, Infeasible, "leave nothing"),
    ],
    ids=str,
)
def test_bad_plans_are_refused(change: dict[str, Any], error: type[Exception], match: str) -> None:
    with pytest.raises(error, match=match):
        plan_tables(COLUMNS, SHAPES, BUDGETS[0], **change)


def test_a_budget_is_needed() -> None:
    with pytest.raises(InvalidArgument, match="Budget"):
        release([1, 2, 3], budget=None)


def test_draws_of_different_tables_are_independent() -> None:
    table = frame()
    first, second = fit_tables(table, SCHEMA, [("a",), ("a",)], budget=BUDGETS[0], entropy=7).releases
    assert first.mechanism == second.mechanism
    assert first.values.tolist() != second.values.tolist()
    again = fit_tables(table, SCHEMA, [("a",), ("a",)], budget=BUDGETS[0], entropy=7).releases
    assert again[0].values.tolist() == first.values.tolist()


def test_persons_are_the_unit_when_rows_are_bounded() -> None:
    made = release_distribution(
        frame(), SCHEMA, ["a"], budget=BUDGETS[0], rows_per_person=2, person="who", mechanism="gaussian"
    )
    assert made.unit == "person"
    assert made.total is None  # how many rows are left is not public
    assert made.loss.fits(BUDGETS[0])
    single = release_distribution(frame(), SCHEMA, ["a"], budget=BUDGETS[0], mechanism="gaussian")
    assert made.mechanism.parameters["sigma"] > 1.9 * single.mechanism.parameters["sigma"]
    with pytest.raises(InvalidArgument, match="rows_per_person"):
        release_distribution(frame(), SCHEMA, ["a"], budget=BUDGETS[0], person="who")


@pytest.mark.parametrize("budget", BUDGETS, ids=str)
def test_private_quantiles_are_inside_the_budget(budget: Budget) -> None:
    schema = Schema.of(x=Quantiles(4, lower=0, upper=100, share=0.2), a=["x", "y", "z"])
    table = frame().assign(x=np.random.default_rng(1).exponential(20, 400))
    made = release_distribution(table, schema, ["x", "a"], budget=budget)
    assert len(made.guarantee.pure) == 1
    assert made.guarantee.pure[0] > 0
    assert -0.01 < made.loss.excess(budget) <= 0
    assert made.schema is not None
    assert not made.schema.unresolved
    without = PrivacyLoss.nothing() + made.mechanism.loss()
    assert without.excess(budget) < made.loss.excess(budget)


class _Book:
    """A ledger that writes down the order of events."""

    filter = RenyiFilter(order=5.0, total=1.0)

    def __init__(self, allow: bool = True, records: int | None = 400) -> None:
        self.records = records
        self.events: list[str] = []
        self.allow = allow

    def charge(self, loss: PrivacyLoss, *, dataset: str, description: str, request_hash: str, unit: str) -> _Book:
        assert loss.rdp(2) > 0
        assert description
        assert len(request_hash) == 64
        self.events.append(f"charge {dataset}")
        if not self.allow:
            raise BudgetExceeded("nothing left")
        return self

    def admit(self, dataset: str, source: object, schema: Schema, *, person: str | None = None) -> Any:
        self.events.append(f"admit {dataset}")
        return SimpleNamespace(records=self.records)

    def fail(self, reason: str) -> None:
        self.events.append("fail")

    def seal(self, release_hash: str) -> None:
        assert len(release_hash) == 64
        self.events.append("seal")


def test_the_ledger_pays_before_the_draw(monkeypatch: pytest.MonkeyPatch) -> None:
    book = _Book()
    from simplexdp.mechanisms.noise import Laplace

    draw = Laplace.draw
    monkeypatch.setattr(Laplace, "draw", lambda *args: book.events.append("draw") or draw(*args))
    release([5, 6, 7], budget=BUDGETS[0], mechanism="laplace", ledger=book, dataset="people")
    assert book.events == ["charge people", "draw", "seal"]


def test_nothing_is_drawn_when_the_ledger_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    from simplexdp.mechanisms.noise import Laplace

    def forbidden(*_: object) -> None:
        raise AssertionError("drawn without payment")

    monkeypatch.setattr(Laplace, "draw", forbidden)
    with pytest.raises(BudgetExceeded):
        release([5, 6, 7], budget=BUDGETS[0], mechanism="laplace", ledger=_Book(allow=False), dataset="people")


def test_a_ledger_needs_the_name_of_the_data_and_a_finite_loss() -> None:
    with pytest.raises(InvalidArgument, match="dataset"):
        release([5, 6, 7], budget=BUDGETS[0], ledger=_Book())
    with pytest.raises(PrivacyError, match="exact counts"):
        release([5, 6, 7], budget=None, mechanism="none", ledger=_Book(), dataset="people")


def test_a_failed_count_is_paid_and_recorded_and_says_nothing() -> None:
    """A refusal by a value tells of it: whoever asks pays first, and learns that it failed, not why."""
    book = _Book()
    with pytest.raises(PrivacyError, match="recorded for the officer alone") as caught:
        release_distribution(frame().assign(a="other"), SCHEMA, ["a"], budget=BUDGETS[0], ledger=book, dataset="people")
    assert book.events == ["admit people", "charge people", "fail"]
    assert caught.value.__context__ is None


def test_a_count_table_from_the_data_marks_the_release() -> None:
    table = CountTable.from_array([3, 4, 5], columns=("a",), is_private=False)
    made = release(table, budget=BUDGETS[0])
    assert not made.private


@pytest.mark.parametrize("counts", [[1], [], [1.5, 2], [-1, 2], [float("nan"), 1], ["a", "b"], [2**60, 1]])
def test_bad_counts_name_no_count(counts: list[Any]) -> None:
    with pytest.raises(InvalidArgument, match="counts") as caught:
        release(counts, budget=BUDGETS[0])
    assert not any(str(c) in str(caught.value).split("2^53")[0] for c in counts if isinstance(c, float) and c == c)
