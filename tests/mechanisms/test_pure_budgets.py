"""Budgets with δ = 0: exact for the Laplace kinds and what composes of them, refused in words by everything else."""

from __future__ import annotations

import json
import math
from fractions import Fraction
from pathlib import Path
from typing import Any

import mpmath as mp
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simplexdp import (
    BalancedLaplace,
    BayesianNetwork,
    Budget,
    CountTable,
    Dirichlet,
    Gaussian,
    Laplace,
    Ledger,
    Numeric,
    Polya,
    PrivacyLoss,
    Quantiles,
    Release,
    Schema,
    forecast,
    plan,
    release,
    release_distribution,
)
from simplexdp.audit import audit
from simplexdp.cli import run
from simplexdp.errors import Infeasible, InvalidArgument
from simplexdp.mechanisms.base import noise_scale
from simplexdp.models.guarantee import Guarantee, pure_loss
from simplexdp.naive_bayes import fit_naive_bayes
from simplexdp.numerics.printed import last_bit
from simplexdp.planning import plan_tables

PURE = Budget(epsilon=1.0, delta=0)
SCHEMA = Schema.of(a=["x", "y"], b=Numeric([0, 1, 2, 3]), c=["u", "v", "w"], d=[1, 2], e=[True, False])
ROWS = pa.table(
    {
        "a": ["x", "y", "x", "y"] * 250,
        "b": [0.5, 1.5, 2.5, 1.5] * 250,
        "c": ["u", "v", "w", "w"] * 250,
        "d": [1, 2, 2, 1] * 250,
        "e": [True, False, False, True] * 250,
        "who": np.arange(1000) // 2,
    }
)
epsilons = st.floats(1e-3, 50)


def test_a_pure_budget_is_printed_as_such() -> None:
    assert str(PURE) == "(1, 0)-DP"
    assert PURE.is_pure
    assert not Budget(epsilon=1.0, delta=1e-300).is_pure
    assert not Budget.rdp(order=2, epsilon=1).is_pure


# -- losses -----------------------------------------------------------------------------------------------------------


@given(st.lists(st.tuples(st.floats(0.05, 1e6), st.integers(1, 50)), min_size=1, max_size=5), st.sampled_from([1, 2]))
def test_composed_laplace_costs_the_sum(parts: list[tuple[float, int]], cells: int) -> None:
    """Σ ε in fractions; the float that is given is the next one above it, and a budget one float below is refused."""
    neighbours: Any = "replace-one" if cells == 2 else "add-remove"
    loss = sum((times * Laplace(scale=b).loss(neighbours) for b, times in parts), PrivacyLoss.nothing(neighbours))
    exact = sum(cells * times / Laplace(scale=b).rational_scale for b, times in parts)
    found = loss.epsilon(0)
    assert Fraction(found) >= exact
    assert Fraction(math.nextafter(found, 0.0)) < exact
    assert loss.rdp(math.inf) == found == loss.bounds(delta=0).upper
    assert loss.fits(Budget(epsilon=found, delta=0))
    below = Budget(epsilon=math.nextafter(found, 0.0), delta=0)
    assert not loss.fits(below)
    assert loss.excess(below) > 0
    assert loss.delta(found) == 0.0


@given(epsilons, epsilons, st.integers(1, 40))
def test_pure_steps_and_persons_add_up_exactly(step: float, scale: float, rows: int) -> None:
    laplace = Laplace(scale=scale)
    loss = pure_loss(step, "add-remove") + laplace.loss("add-remove", rows=rows)
    exact = Fraction(step) + rows / laplace.rational_scale
    assert Fraction(math.nextafter(loss.epsilon(0), 0.0)) < exact <= Fraction(loss.epsilon(0))


def test_the_largest_loss_is_where_the_profile_ends() -> None:
    """The atoms of the law at 40 digits: nothing lies above ε(0), and something lies just below it."""
    scale = Laplace(scale=3.0).rational_scale
    with mp.workdps(40):
        b = mp.mpf(scale.numerator) / scale.denominator
        largest = max(abs(x - 1) / b - abs(x) / b for x in range(-50, 50)) * 2
        assert mp.mpf(Laplace(scale=3.0).loss().epsilon(0)) >= largest
    loss = Laplace(scale=3.0).loss()
    assert loss.delta(loss.epsilon(0)) == 0.0
    assert loss.delta(loss.epsilon(0) * (1 - 1e-9)) > 0.0
    assert loss.epsilon(1e-300) <= loss.epsilon(0)


@pytest.mark.parametrize("neighbours", ["replace-one", "add-remove"])
def test_no_other_noise_is_pure(neighbours: Any) -> None:
    for mechanism in (Gaussian(sigma=1e6), Polya(r=1, alpha=10**6), Dirichlet(r=1e-3, alpha=1e6)):
        loss = mechanism.loss(neighbours)
        assert loss.epsilon(0) == math.inf
        assert not loss.fits(Budget(epsilon=1e6, delta=0))
        assert (loss + Laplace(scale=4.0).loss(neighbours)).epsilon(0) == math.inf
        several = mechanism.loss(neighbours, rows=3)
        assert several.epsilon(0) == math.inf


def test_polya_is_bounded_one_way_only() -> None:
    """A record more gives at most r·ln(1/p), at zero tails; a record less gives any loss, so no pure guarantee."""
    add = Polya(r=3, alpha=20).loss("add-remove").directions[1]
    assert PrivacyLoss("replace-one", (add,)).epsilon(0) == pytest.approx(3 * math.log(2), rel=1e-10)
    assert PrivacyLoss("replace-one", (add,)).epsilon(0) >= 3 * math.log(2)


# -- calibration ------------------------------------------------------------------------------------------------------


@given(epsilons, st.integers(1, 1000), st.integers(1, 20), st.sampled_from(["replace-one", "add-remove"]))
def test_laplace_is_calibrated_exactly(epsilon: float, tables: int, rows: int, neighbours: Any) -> None:
    """The budget is met, and the next smaller scale that can be drawn breaks it."""
    budget = Budget(epsilon=epsilon, delta=0)
    found = Laplace.calibrate(budget, tables=tables, rows=rows, neighbours=neighbours)
    assert (tables * found.loss(neighbours, rows=rows)).fits(budget)
    assert found.rational_scale == Fraction(found.scale)
    smaller = Laplace(scale=float(found.rational_scale - Fraction(last_bit(math.nextafter(found.scale, 0.0)))))
    assert smaller.rational_scale < found.rational_scale
    assert not (tables * smaller.loss(neighbours, rows=rows)).fits(budget)


@given(epsilons, st.integers(1, 1000), st.integers(2, 1000))
def test_balanced_laplace_is_calibrated_exactly(epsilon: float, tables: int, cells: int) -> None:
    budget = Budget(epsilon=epsilon, delta=0)
    found = BalancedLaplace.calibrate(budget, tables=tables, cells=cells)
    assert (tables * found.loss()).fits(budget)
    assert found.scale == Laplace.calibrate(budget, tables=tables).scale


def test_a_wrong_constant_would_be_seen() -> None:
    """Half of the scale, the mistake of forgetting the second cell, is twice the loss."""
    wrong = Laplace(scale=Laplace.calibrate(PURE).scale / 2)
    assert wrong.loss().epsilon(0) == 2.0
    assert not wrong.loss().fits(PURE)


@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("Gaussian noise", lambda: Gaussian.calibrate(PURE)),
        ("Pólya noise", lambda: Polya.calibrate(PURE, r=1)),
        ("the Dirichlet mechanism", lambda: Dirichlet.calibrate(PURE, r=1.0)),
        ("the Dirichlet mechanism", lambda: Dirichlet.calibrate(PURE, total=100, cells=5)),
        ("the Dirichlet mechanism", lambda: Dirichlet.diffused(PURE, alpha=1.0)),
        ("the Dirichlet mechanism", lambda: Dirichlet.concentrated(PURE)),
        ("Gaussian noise", lambda: release([5, 9], budget=PURE, mechanism="gaussian")),
        ("Pólya noise", lambda: release([5, 9], budget=PURE, mechanism="polya")),
        ("the Dirichlet mechanism", lambda: release([5, 9], budget=PURE, mechanism="dirichlet")),
        ("the Dirichlet mechanism", lambda: release([5, 9], budget=PURE, calibration="algorithm1")),
        ("Gaussian noise", lambda: plan([4, 9], budget=PURE, mechanism="gaussian", split=[1, 2])),
        (
            "the Gaussian noise of second looks",
            lambda: plan_tables([("a",)], [(4,)], PURE, extras=[("tables", 0.5)]),
        ),
    ],
)
def test_refusals_say_what_to_do(name: str, call: Any) -> None:
    with pytest.raises(Infeasible, match=f"{name}.*has no pure guarantee.*Give a delta above 0, or use mechanism="):
        call()


def test_noise_scale_is_that_of_laplace_noise() -> None:
    assert noise_scale(PURE, 3) == pytest.approx(math.sqrt(2) * Laplace.calibrate(PURE, tables=3).scale)


# -- releases and models ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("neighbours", ["replace-one", "add-remove"])
def test_auto_takes_pure_noise(neighbours: Any) -> None:
    found = release([100, 50, 7, 3], budget=PURE, neighbours=neighbours)
    kind, epsilon = (BalancedLaplace, "2.0") if neighbours == "replace-one" else (Laplace, "1.0")
    assert isinstance(found.mechanism, kind)
    assert str(found.mechanism.scale) == epsilon
    assert found.loss.epsilon(0) == 1.0
    text = str(found.certificate())
    assert "Asked for (1, 0)-DP, spent (1, 0)-DP" in text
    again = Release.from_json(found.to_json())
    assert again.guarantee == found.guarantee
    assert json.loads(again.certificate().to_json())["guarantee"]["epsilon_at_delta"]["0"] == 1.0


def test_many_cells_and_persons_take_independent_noise() -> None:
    assert isinstance(release([5] * 200, budget=PURE).mechanism, Laplace)
    persons = CountTable([5, 9], ("a",), unit="person", rows_per_person=3)
    found = release(persons, budget=PURE).mechanism
    assert found == Laplace(scale=6.0)


@pytest.mark.parametrize("split", ["equal", "cells", "loss", [1, 5, 2]])
def test_splits_use_the_whole_pure_budget(split: Any) -> None:
    for mechanism in ("auto", "laplace"):
        found = plan_tables(
            [("a",), ("b",), ("c",)], [(3,), (40,), (7,)], PURE, split=split, total=1000, mechanism=mechanism
        )
        assert 1 - 1e-5 < found.guarantee.loss.epsilon(0) <= 1.0


def test_naive_bayes_leaves_out_what_is_gaussian() -> None:
    model = fit_naive_bayes(ROWS, SCHEMA, "e", budget=PURE)
    assert {mechanism.name for mechanism in model.guarantee.mechanisms} <= {"laplace", "balanced-laplace"}
    assert model.guarantee.loss.fits(PURE)
    assert model.guarantee.loss.epsilon(0) > 0.9999
    gaussian = fit_naive_bayes(ROWS, SCHEMA, "e", budget=Budget(epsilon=1, delta=1e-5))
    assert "gaussian-tables" in {mechanism.name for mechanism in gaussian.guarantee.mechanisms}


def test_networks_and_quantiles() -> None:
    network = BayesianNetwork([("a", "b"), ("a", "c")], SCHEMA, epsilon=2.0, delta=0).fit(ROWS)
    assert network.model.guarantee.loss.fits(Budget(epsilon=2.0, delta=0))
    schema = Schema.of(a=["x", "y"], b=Quantiles(3, lower=0, upper=4, share=0.25))
    found = release_distribution(ROWS, schema, ["a", "b"], budget=PURE)
    assert found.guarantee.pure[0] <= 0.25
    assert 1 - 1e-5 < found.loss.epsilon(0) <= 1.0
    person = release_distribution(
        ROWS, schema.select(["a"]), ["a"], budget=PURE, rows_per_person=2, person="who", neighbours="add-remove"
    )
    assert person.mechanism == Laplace(scale=2.0)


@pytest.mark.slow
def test_plans() -> None:
    made = plan([6, 12], budget=PURE, total=1000, alternatives="all")
    assert set(made.alternatives) == {"balanced-laplace", "laplace"}
    assert made.raw_dirichlet is None
    small = forecast.smallest_epsilon(0.05, [6], budget=PURE, total=1000, mechanism="laplace", repeats=2)
    assert 0 < small < 5


def test_audits_of_pure_claims() -> None:
    found = audit(
        lambda counts, entropy: Laplace(scale=2.0).draw(counts, entropy)[0],
        tables=([1, 0], [0, 1]),
        claimed=Budget(epsilon=1.0, delta=0),
        score=float,
        draws=200,
        entropy=1,
    )
    assert not found.violated
    assert found.claimed == 1.0


def test_a_ledger_keeps_no_pure_budget_and_takes_pure_releases(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="`budget` must be one with a delta above 0") as error:
        Ledger.open(tmp_path / "pure.db", budget=PURE)
    assert "\n" not in str(error.value)
    ledger = Ledger.open(tmp_path / "l.db", budget=Budget(epsilon=3.0, delta=1e-5))
    found = release([100, 50], budget=Budget(epsilon=0.3, delta=0), ledger=ledger, dataset="d")
    assert ledger.spent("d").value == ledger.filter.price(found.loss).cost
    assert ledger.spent("d").value > 0


def test_a_guarantee_shows_the_pure_epsilon() -> None:
    made = Guarantee(mechanisms=(Laplace(scale=2.0),), budget=PURE)
    assert made.views()["epsilon_at_delta"]["0"] == made.epsilon(0) == 1.0
    other = Guarantee(mechanisms=(Gaussian(sigma=2.0),), budget=Budget(epsilon=9, delta=1e-5))
    assert "0" not in other.views()["epsilon_at_delta"]


def test_the_command_line(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert run(["calibrate", "--epsilon", "1", "--delta", "0", "--json"]) == 0
    results = {each["choice"]: each for each in json.loads(capsys.readouterr().out)["results"]}
    assert results["laplace"]["parameters"] == "Laplace(scale=2)"
    assert results["laplace"]["spent"] == 1.0
    assert "has no pure guarantee" in results["gaussian"]["parameters"]
    assert run(["calibrate", "--epsilon", "1", "--delta", "0"]) == 0
    assert run(["calibrate", "--epsilon", "1", "--delta", "0", "--mechanism", "gaussian"]) == 2
    assert "Give a delta above 0" in capsys.readouterr().err
    assert run(["account", "laplace", "--scale", "2", "--delta", "0", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["views"][0]["upper"] == 1.0
    assert run(["plan", "--cells", "6", "--epsilon", "1", "--delta", "0", "--total", "1000"]) == 0
    assert "(1, 0)-DP" in capsys.readouterr().out
    assert run(["audit", "--epsilon", "1", "--delta", "0", "--draws", "1000", "--seed", "1", "--json"]) == 0
    audits = json.loads(capsys.readouterr().out)["audits"]
    assert {each["name"].partition("(")[0] for each in audits} == {"Laplace", "BalancedLaplace"}
