"""zCDP budgets: what they mean, what is calibrated to them, and what has no ρ."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from simplexdp import (
    Budget,
    CellNumbers,
    Gaussian,
    Laplace,
    Ledger,
    Polya,
    Schema,
    plan,
    read,
    release,
    release_distribution,
)
from simplexdp.errors import BudgetExceeded, Infeasible, InvalidArgument
from simplexdp.models.guarantee import pure_loss

COUNTS = [119, 74, 618, 272, 13, 187]


@pytest.mark.parametrize("neighbours", ["replace-one", "add-remove"])
@pytest.mark.parametrize("sigma", [1.0, 3.0, 40.0])
def test_rho_bounds_the_curve_at_every_order_and_is_close_to_it(neighbours: str, sigma: float) -> None:
    loss = 3 * Gaussian(sigma=sigma).loss(neighbours)  # type: ignore[arg-type]
    orders = 1 + np.geomspace(1e-6, 1e4, 60)
    assert all(loss.rdp(order) <= loss.rho * order * (1 + 1e-12) for order in orders)
    if sigma > 2:
        assert max(loss.rdp(order) / order for order in orders) > loss.rho * 0.99
    mixed = loss + 2 * Laplace(scale=4.0).loss(neighbours) + pure_loss(0.3, neighbours)  # type: ignore[arg-type]
    assert all(mixed.rdp(order) <= mixed.rho * order for order in orders)
    assert mixed.rho > loss.rho


def test_what_is_no_concentrated_mechanism_has_no_rho() -> None:
    assert math.isinf(Polya(r=1, alpha=40).loss().rho)
    with pytest.raises(Infeasible, match="not zCDP"):
        release(COUNTS, budget=Budget.zcdp(rho=0.1), mechanism="polya")
    with pytest.raises(Infeasible, match="not zCDP"):
        release(COUNTS, budget=Budget.zcdp(rho=0.1), mechanism="dirichlet")


@pytest.mark.parametrize("mechanism", ["gaussian", "laplace", "auto"])
def test_a_release_uses_the_rho_that_was_asked_for(mechanism: str, tmp_path: Path) -> None:
    budget = Budget.zcdp(rho=0.02)
    made = release(COUNTS, budget=budget, mechanism=mechanism)  # type: ignore[arg-type]
    rho = made.guarantee.loss.rho
    assert 0.999 * 0.02 < rho <= 0.02
    body = made.certificate().guarantee
    assert body["zcdp_rho"] == rho
    assert body["renyi_epsilon_at_order"]["5"] <= 5 * rho
    assert "Asked for 0.02-zCDP, spent 0.02-zCDP." in made.certificate().promise
    made.write(tmp_path / "r.json")
    assert read(tmp_path / "r.json").guarantee.budget == budget


def test_forecasts_and_two_steps() -> None:
    found = plan([6, 20], budget=Budget.zcdp(rho=0.02), total=1283, alternatives="all")
    assert found.design.guarantee.loss.rho <= 0.02
    assert found.expected_kl > 0


def test_how_budgets_are_said() -> None:
    assert Budget.pure(1.0).is_pure
    assert str(Budget.zcdp(rho=0.5)) == "0.5-zCDP"
    assert Budget.zcdp(rho=0.5).rho == 0.5
    assert Budget.pure(2).rho is None
    for wrong in ({}, {"delta": 1e-6, "concentrated": True}, {"order": 2, "delta": 0.0}):
        with pytest.raises(InvalidArgument, match="delta"):
            Budget(epsilon=1.0, **wrong)
    with pytest.raises(InvalidArgument, match="rho"):
        Budget.zcdp(rho=0)


# -- what a ledger has left -------------------------------------------------------------------------------------------


@pytest.fixture(params=["gaussian", "renyi"])
def ledger(request: pytest.FixtureRequest, tmp_path: Path) -> Ledger:
    budget = Budget(epsilon=1.0, delta=1e-6) if request.param == "gaussian" else Budget.rdp(order=8, epsilon=0.5)
    return Ledger.open(tmp_path / "ledger.db", budget=budget)


def test_half_and_the_rest_of_what_is_left(ledger: Ledger) -> None:
    schema, rows = Schema.of(x=["a", "b", "c"]), CellNumbers({"x": [0, 1, 2] * 300})
    ledger.register("clinic", rows, schema)
    whole = ledger.remaining("clinic").exact
    asked = {"ledger": ledger, "dataset": "clinic", "mechanism": "gaussian"}
    release_distribution(rows, schema, ["x"], budget="half", **asked)  # type: ignore[arg-type]
    left = ledger.remaining("clinic").exact
    assert 0.49 * whole < whole - left <= whole / 2
    release_distribution(rows, schema, ["x"], budget="half", **asked)  # type: ignore[arg-type]
    assert 0.74 * whole < whole - ledger.remaining("clinic").exact <= 0.75 * whole + (whole / 2 - (whole - left))
    release_distribution(rows, schema, ["x"], budget="remaining", **asked)  # type: ignore[arg-type]
    assert 0 <= ledger.remaining("clinic").exact < 0.01 * whole
    with pytest.raises((BudgetExceeded, Infeasible)):
        release_distribution(rows, schema, ["x"], budget=Budget(epsilon=1.0, delta=1e-6), **asked)  # type: ignore[arg-type]


def test_the_words_need_a_ledger() -> None:
    with pytest.raises(InvalidArgument, match="no ledger pays"):
        release(COUNTS, budget="half")
    with pytest.raises(InvalidArgument, match="remaining"):
        release(COUNTS, budget="all")  # type: ignore[arg-type]
