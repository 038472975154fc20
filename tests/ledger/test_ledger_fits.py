"""Ledgers under real fits: charged before the first draw, sealed with the file's checksum, planned at their order."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import simplexdp.naive_bayes
from simplexdp import BayesianNetwork, Budget, Gaussian, Ledger, Schema, release, release_distribution
from simplexdp.accounting.filters import filter_for
from simplexdp.errors import BudgetExceeded
from simplexdp.mechanisms.noise import Laplace
from simplexdp.mechanisms.sums import NoisySum
from simplexdp.naive_bayes import fit_naive_bayes
from simplexdp.planning import plan_tables

NAMES = ["c", "a0", "a1", "a2", "a3"]
SCHEMA = Schema.of(**{name: ["no", "yes"] for name in NAMES})
LARGE = Budget(epsilon=40, delta=1e-5)


def rows(size: int = 3000) -> pa.Table:
    rng = np.random.default_rng(1)
    target = rng.random(size) < 0.4
    columns = [target, *(rng.random(size) < 0.3 + 0.4 * target for _ in NAMES[1:])]
    words = np.array(["no", "yes"])
    return pa.table({name: words[column.astype(int)] for name, column in zip(NAMES, columns, strict=True)})


def fits(ledger: Ledger) -> dict[str, Callable[[], Any]]:
    paid: dict[str, Any] = {"budget": Budget(epsilon=5, delta=1e-5), "ledger": ledger, "dataset": "d"}
    return {
        "counts": lambda: release([5, 6, 7], **paid),
        "distribution": lambda: release_distribution(rows(), SCHEMA, ["a0", "c"], **paid),
        "naive Bayes": lambda: fit_naive_bayes(rows(), SCHEMA, "c", **paid),
        "network": lambda: BayesianNetwork([("c", "a0"), ("c", "a1")], SCHEMA, **paid).fit(rows()).model,
    }


KINDS = ["counts", "distribution", "naive Bayes", "network"]


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    opened = Ledger.open(tmp_path / "ledger.db", budget=LARGE)
    opened.register("d", rows(), SCHEMA)
    return opened


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_the_seal_is_the_checksum_of_the_file(ledger: Ledger, kind: str, tmp_path: Path) -> None:
    published = fits(ledger)[kind]()
    published.write(tmp_path / "out.json")
    charge, seal = ledger.entries()[2:]
    assert seal.body["charge"] == charge.number
    assert seal.body["release"] == json.loads((tmp_path / "out.json").read_text())["sha256"]
    assert ledger.paid_for(seal.body["release"]) == charge
    if kind == "naive Bayes":
        assert any(isinstance(mechanism, NoisySum) for mechanism in published.guarantee.mechanisms)


@pytest.mark.parametrize("kind", KINDS)
def test_every_draw_finds_its_charge_on_disk(ledger: Ledger, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    draws = []
    for mechanism in (Gaussian, Laplace, NoisySum):

        def draw(self: Any, *args: Any, original: Any = mechanism.draw) -> Any:
            draws.append([entry.kind for entry in Ledger.open(ledger._store.path).entries()])
            return original(self, *args)

        monkeypatch.setattr(mechanism, "draw", draw)
    fits(ledger)[kind]()
    assert draws
    assert all(found == ["open", "register", "charge"] for found in draws)
    assert [entry.kind for entry in ledger.entries()] == ["open", "register", "charge", "seal"]


def test_a_fit_that_stops_after_its_tables_stays_paid_and_unsealed(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rounds of naive Bayes follow the tables: until they are done nothing is recorded as published."""

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(simplexdp.naive_bayes, "newton_rounds", stop)
    with pytest.raises(KeyboardInterrupt):
        fits(ledger)["naive Bayes"]()
    assert ledger.verify().unsealed == (2,)
    assert ledger.spent("d").value > 0


# -- planning at the order of the ledger -----------------------------------------------------------------------------


@pytest.mark.parametrize("tables", [1, 4])
@pytest.mark.parametrize("epsilon", [0.1, 0.5, 1.0])
@pytest.mark.parametrize("order", [None, 17.8])
def test_no_request_is_charged_more_than_gaussian_noise_for_it(
    epsilon: float, tables: int, order: float | None
) -> None:
    budget = Budget(epsilon=epsilon, delta=1e-6)
    prices = filter_for(Budget(epsilon=2, delta=1e-5), order)
    facts: Any = ([("a",)] * tables, [(10,)] * tables, budget)
    plan = plan_tables(*facts, total=1000.0, prices=prices)
    gaussian = plan_tables(*facts, total=1000.0, mechanism="gaussian")
    assert prices.price(plan.guarantee.loss).cost <= prices.price(gaussian.guarantee.loss).cost * (1 + 1e-9)
    assert plan.guarantee.loss.fits(budget)
    assert plan.guarantee.budget == budget
    noise = [mechanism.noise_variance for mechanism in (*plan.mechanisms, *gaussian.mechanisms)]  # type: ignore[union-attr]
    assert noise[0] <= noise[-1]


def test_a_renyi_budget_at_the_order_of_the_ledger_changes_nothing() -> None:
    facts: Any = ([("a",)], [(10,)], Budget.rdp(order=17.8, epsilon=0.3))
    prices = filter_for(Budget(epsilon=2, delta=1e-5), 17.8)
    assert plan_tables(*facts, total=1000.0, prices=prices) == plan_tables(*facts, total=1000.0)


def test_more_requests_fit_than_by_the_least_noise_alone(tmp_path: Path) -> None:
    """The whole budget in one request: Laplace noise for it would be refused, the plan at equal charge is not."""
    request = Budget(epsilon=1, delta=1e-6)
    ledger = Ledger.open(tmp_path / "ledger.db", budget=Budget(epsilon=1, delta=1e-5))
    paid: dict[str, Any] = {"budget": request, "ledger": ledger, "dataset": "d"}
    with pytest.raises(BudgetExceeded):
        release([119, 74, 618], mechanism="laplace", **paid)
    assert release([119, 74, 618], **paid).private
