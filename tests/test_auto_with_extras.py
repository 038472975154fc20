"""`auto` where steps follow the tables: whole plans are compared, and no named one is predicted to be better.

The predictions are deterministic: there is no chance in these tests.
"""

from __future__ import annotations

import itertools
import math
from typing import Any

import pytest

from simplexdp import Budget
from simplexdp.accounting.filters import filter_for
from simplexdp.errors import Infeasible, InvalidArgument
from simplexdp.mechanisms import Gaussian
from simplexdp.planning import RIVALS, Asked, Plan, _carried_out, _predicted_plan_loss, plan_tables

AFTER: tuple[Any, ...] = ((("tables", 0.3), ("vector", 0.1)), (("vector", 0.02),))
SIZES = [(0.1, (16, 16, 16)), (1.0, (4,)), (1.0, (8, 60))]
PUBLIC = [(5000.0, "replace-one"), (None, "add-remove")]
GRID = list(itertools.product(SIZES, AFTER, PUBLIC))


def planned(name: str, sizes: tuple[int, ...], budget: Budget, **settings: Any) -> Plan:
    columns = [(f"x{i}",) for i in range(len(sizes))]
    return plan_tables(columns, [(size,) for size in sizes], budget, mechanism=name, quiet=True, **settings)


@pytest.mark.parametrize("priced", [False, True], ids=["without a ledger", "with a ledger"])
@pytest.mark.parametrize("case", GRID, ids=str)
def test_auto_is_not_predicted_to_be_worse_than_what_could_be_named(case: Any, priced: bool) -> None:
    """With a ledger, than what costs no more than Gaussian noise."""
    (epsilon, sizes), after, (total, relation) = case
    budget, ledger = Budget(epsilon=epsilon, delta=1e-6), filter_for(Budget(epsilon=2.0, delta=1e-5))
    settings: dict[str, Any] = {"extras": after, "total": total, "neighbours": relation}
    auto = planned("auto", sizes, budget, prices=ledger if priced else None, **settings)
    assert auto.guarantee.loss.fits(budget)
    gaussian = planned("gaussian", sizes, budget, **settings).guarantee.loss
    charge = ledger.price(gaussian).cost * (1 + 1e-6) if priced else math.inf
    if priced:
        assert ledger.price(auto.guarantee.loss).cost <= charge
    compared = 0
    for name in RIVALS if total else RIVALS[:2]:
        try:
            plan = planned(name, sizes, budget, **settings)
        except (Infeasible, InvalidArgument):
            continue
        if not priced or ledger.price(plan.guarantee.loss).cost <= charge:
            compared += 1
            assert _predicted_plan_loss(auto, total) <= _predicted_plan_loss(plan, total) * (1 + 1e-9), name
    assert compared


def test_what_is_best_for_tables_alone_is_not_taken_for_all() -> None:
    """Balanced noise is best for three tables of 16 cells alone, and loses a seventh more with what follows them."""
    settings: dict[str, Any] = {"extras": AFTER[0], "total": 5000.0}
    sizes, budget = (16, 16, 16), Budget(epsilon=0.1, delta=1e-6)
    asked = Asked(columns=[("a",), ("b",), ("c",)], shapes=[(16,)] * 3, budget=budget, **settings)
    before, now = _carried_out(asked), planned("auto", sizes, budget, **settings)
    assert all(each.name == "balanced-laplace" for each in before.mechanisms)
    assert all(isinstance(each, Gaussian) for each in now.mechanisms)
    assert _predicted_plan_loss(now, 5000.0) < 0.9 * _predicted_plan_loss(before, 5000.0)
