"""Forecasts: from public facts only, and close to what a release then loses."""

from __future__ import annotations

import numpy as np
import pytest

from simplexdp import Budget, Schema, plan, release
from simplexdp.errors import Infeasible, InvalidArgument
from simplexdp.forecast import smallest_epsilon, smallest_total

BUDGET = Budget(epsilon=1.0, delta=1e-5)
COUNTS = np.array([119, 74, 618, 272, 13, 187])


@pytest.mark.slow
def test_the_forecast_is_near_the_loss_of_real_releases() -> None:
    """Mean KL of 40 seeded releases of the same counts; both means have a relative error of about 15 %."""
    forecast = plan([6], budget=BUDGET, like=COUNTS, repeats=40, mechanism="laplace")
    p = COUNTS / COUNTS.sum()
    losses = [
        float(
            np.sum(p * np.log(p / release(COUNTS, budget=BUDGET, mechanism="laplace", entropy=1000 + i).probabilities))
        )
        for i in range(40)
    ]
    assert forecast.expected_kl == pytest.approx(np.mean(losses), rel=0.6)
    less = Budget(epsilon=0.1, delta=1e-5)
    worse = plan([6], budget=less, like=COUNTS, repeats=40, mechanism="laplace")
    assert worse.expected_kl > 5 * forecast.expected_kl  # the control: a tenth of ε must show


@pytest.mark.slow
def test_the_best_mechanism_is_the_smallest_alternative() -> None:
    forecast = plan([50] * 20, budget=BUDGET, total=5000, alternatives="all")
    assert set(forecast.alternatives) == {"balanced-laplace", "laplace", "gaussian", "polya", "dirichlet"}
    assert forecast.alternatives[forecast.best] == min(forecast.alternatives.values())
    assert forecast.best in ("gaussian", "polya")  # many tables: not Laplace
    assert forecast.raw_dirichlet is not None
    assert forecast.theorem2 is not None
    assert forecast.theorem2 > forecast.raw_dirichlet  # a bound beside the exact expectation


def test_rivals_are_forecast_on_request() -> None:
    alone = plan([6], budget=BUDGET, total=500, repeats=2)
    assert alone.alternatives == {}
    assert alone.best is None
    assert alone.raw_dirichlet is None
    some = plan([6], budget=BUDGET, total=500, repeats=2, alternatives=["laplace", "gaussian"])
    assert set(some.alternatives) == {"laplace", "gaussian"}
    assert some.best == "laplace"
    assert some.raw_dirichlet is not None
    assert some.tables == alone.tables


@pytest.mark.slow
def test_many_different_tables_share_the_releases() -> None:
    """Of 60 different tables few releases each: their mean is that of many releases of each, within chance.

    The mean of 60 figures from 3 releases each has a relative error of about 6 %, one from 12 of 3 %.
    """
    sizes, weights = list(range(4, 64)), [1.0 + i / 30 for i in range(60)]
    facts = {"budget": Budget(epsilon=5.0, delta=1e-5), "total": 5000, "split": weights}
    few, many = plan(sizes, **facts), plan(sizes, repeats=12, **facts)
    assert few.expected_kl == pytest.approx(many.expected_kl, rel=0.3)
    less = plan(sizes, **facts | {"budget": Budget(epsilon=2.5, delta=1e-5)})
    assert less.expected_kl > 1.5 * few.expected_kl  # the control: half of ε must show


def test_tables_by_columns_and_sizes() -> None:
    schema = Schema.of(a=["x", "y", "z"], b=[0, 1])
    forecast = plan([("a", "b"), ("b",)], schema=schema, budget=BUDGET, total=300, split="cells")
    assert [table.cells for table in forecast.tables] == [6, 2]
    assert forecast.cells == 8
    assert sum(table.share for table in forecast.tables) == pytest.approx(1)
    assert forecast.raw_dirichlet is None


@pytest.mark.slow
def test_smallest_epsilon_and_total_reach_the_target() -> None:
    epsilon = smallest_epsilon(0.01, [6], budget=BUDGET, total=1283)
    assert plan([6], budget=Budget(epsilon=epsilon, delta=1e-5), total=1283).expected_kl <= 0.01
    total = smallest_total(0.01, [6], budget=BUDGET)
    assert plan([6], budget=BUDGET, total=total).expected_kl <= 0.0101
    with pytest.raises(Infeasible, match="not reached"):
        smallest_epsilon(1e-30, [6] * 40, budget=BUDGET, total=50, mechanism="laplace")


def test_bad_requests() -> None:
    with pytest.raises(InvalidArgument, match="schema"):
        plan([("a",)], budget=BUDGET)
    with pytest.raises(InvalidArgument, match="tables"):
        plan([], budget=BUDGET)
    with pytest.raises(InvalidArgument, match="total"):
        plan([6], budget=BUDGET, total=-1)
