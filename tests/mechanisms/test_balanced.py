"""Balanced Laplace noise as a mechanism: calibration, refusals, audits, files, plans and the automatic choice."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import mpmath as mp
import numpy as np
import pytest

from simplexdp import (
    BalancedLaplace,
    Budget,
    CountTable,
    Gaussian,
    Laplace,
    Ledger,
    NoisyCounts,
    Release,
    estimate,
    plan,
    release,
)
from simplexdp.audit import audit_mechanism
from simplexdp.errors import FormatError, Infeasible, InvalidArgument
from simplexdp.estimation.values import balanced_reach, noise_intervals
from simplexdp.mechanisms.auto import FEW_CELLS, choose
from simplexdp.models.document import checksum
from simplexdp.models.guarantee import Guarantee
from simplexdp.planning import plan_tables
from simplexdp.private.session import draw_tables
from simplexdp.sampling import SeededEntropy
from simplexdp.sampling.discrete import MOST_CELLS

BUDGET = Budget(epsilon=1.0, delta=1e-5)
COUNTS = [119, 74, 618, 272, 13, 187]


def exact_delta(mechanism: BalancedLaplace, epsilon: float) -> mp.mpf:
    """p₊ (1 − e^{ε − 2/b})₊ with p₊ from Legendre polynomials."""
    h, d = 1 / (mp.mpf(mechanism.rational_scale.numerator) / mechanism.rational_scale.denominator), mechanism.cells
    most = mp.legendre(d - 2, mp.coth(h)) / (-mp.expm1(-2 * h) * mp.legendre(d - 1, mp.coth(h)))
    return most * max(mp.mpf(0), -mp.expm1(epsilon - 2 * h))


def exact_rdp(mechanism: BalancedLaplace, order: float) -> mp.mpf:
    h, w = 1 / (mp.mpf(mechanism.rational_scale.numerator) / mechanism.rational_scale.denominator), mp.mpf(order) - 1
    most = exact_delta(mechanism, 0.0) / -mp.expm1(-2 * h)
    return mp.log(most * (mp.exp(2 * w * h) + mp.exp(-2 * h * (1 + w))) + 1 - most * (1 + mp.exp(-2 * h))) / w


def test_calibration_uses_the_budget_and_never_exceeds_it() -> None:
    """40 random budgets, seed 41, verified at 40 digits: less than 1e-5 of it is left, or one step of b."""
    rng = np.random.default_rng(41)
    for case in range(40):
        cells = int(rng.integers(2, 40))
        with mp.workdps(40):
            if case % 2:
                budget = Budget(epsilon=10 ** rng.uniform(-2, 1), delta=10 ** rng.uniform(-9, -2))
                found = BalancedLaplace.calibrate(budget, cells=cells)
                less = BalancedLaplace(scale=float(found.rational_scale) * (1 - 2.0**-34), cells=cells)
                assert exact_delta(found, budget.epsilon) <= budget.delta
                assert exact_delta(less, budget.epsilon) > budget.delta * (1 - 1e-5)
            else:
                order, tables = 1 + 10 ** rng.uniform(-1, 2), int(rng.integers(1, 50))
                budget = Budget.rdp(order=order, epsilon=10 ** rng.uniform(-3, 1))
                found = BalancedLaplace.calibrate(budget, cells=cells, tables=tables)
                assert budget.epsilon * (1 - 1e-5) < tables * exact_rdp(found, order) <= budget.epsilon


def test_pure_differential_privacy() -> None:
    """δ is zero from ε = 2/b on and not before; the Rényi divergence grows towards 2/b."""
    loss = BalancedLaplace(scale=4.0, cells=5).loss()
    assert loss.delta(0.5) == 0
    assert loss.delta(math.nextafter(0.5, 0)) > 0
    assert 0.49 < loss.rdp(200) <= 0.5 * (1 + 1e-9)


@pytest.mark.slow
@pytest.mark.parametrize(("cells", "draws"), [(2, 60_000), (3, 60_000), (8, 40_000)])
def test_audits_prove_ninety_per_cent_of_the_exact_epsilon(cells: int, draws: int) -> None:
    """At 95 % confidence, fixed seed; noise a tenth too small is found out."""
    mechanism = BalancedLaplace.calibrate(Budget(epsilon=3.0, delta=1e-5), cells=cells)
    found = audit_mechanism(mechanism, draws=draws, entropy=11)
    assert 0.9 <= found.share <= 1.0
    short = BalancedLaplace(scale=0.9 * mechanism.scale, cells=cells)
    assert audit_mechanism(mechanism, drawn=short, draws=draws, entropy=12).violated
    independent = Laplace(scale=mechanism.scale)
    assert not audit_mechanism(mechanism, drawn=independent, draws=1_000, entropy=13).violated


@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("neighbours", lambda: BalancedLaplace(scale=2.0, cells=3).loss("add-remove")),
        ("neighbours", lambda: BalancedLaplace(scale=2.0, cells=3).release([1, 2, 3], neighbours="add-remove")),
        ("neighbours", lambda: BalancedLaplace.calibrate(BUDGET, cells=3, neighbours="add-remove")),
        ("rows", lambda: BalancedLaplace(scale=2.0, cells=3).loss(rows=2)),
        ("cells", lambda: BalancedLaplace(scale=2.0, cells=0)),
        ("cells", lambda: BalancedLaplace(scale=2.0, cells=2.5)),  # type: ignore[arg-type]
        ("cells", lambda: BalancedLaplace(scale=2.0, cells=MOST_CELLS + 1)),
        ("scale", lambda: BalancedLaplace(scale=0.0, cells=3)),
        ("counts", lambda: BalancedLaplace(scale=2.0, cells=3).release([1, 2])),
        ("mechanisms", lambda: Guarantee(mechanisms=(BalancedLaplace(scale=2.0, cells=3),), neighbours="add-remove")),
        ("mechanisms", lambda: Guarantee(mechanisms=(BalancedLaplace(scale=2.0, cells=3),), unit="person")),
    ],
)
def test_refusals_name_the_argument(name: str, call: Any) -> None:
    with pytest.raises(InvalidArgument) as caught:
        call()
    assert caught.value.args[0].startswith(f"`{name}`")


def test_one_cell_needs_no_noise() -> None:
    """Its count is the public total."""
    mechanism = BalancedLaplace(scale=2.0, cells=1)
    assert mechanism.loss().delta(0.0) == 0
    assert mechanism.noise_variance == 0


def test_plans_refuse_persons_and_tables_too_large() -> None:
    settings: dict[str, Any] = {"mechanism": "balanced-laplace"}
    with pytest.raises(Infeasible, match="publishes the total"):
        plan_tables([("a",)], [(3,)], BUDGET, unit="person", rows=1, **settings)
    with pytest.raises(Infeasible, match="up to 1024 cells"):
        plan_tables([("a",)], [(MOST_CELLS + 1,)], BUDGET, **settings)
    table = CountTable.from_array(np.array([5, 6, 7]), columns=["a"], unit="person", rows_per_person=1)
    with pytest.raises(Infeasible, match="publishes the total"):
        release(table, budget=BUDGET, mechanism="balanced-laplace")
    assert not isinstance(release(table, budget=BUDGET).mechanism, BalancedLaplace)


def test_the_automatic_choice_for_persons_has_no_use_for_a_total() -> None:
    """The number of rows of all persons is private, whatever a caller takes it for."""
    known = plan_tables([["a"]], [[4]], BUDGET, unit="person", rows=1, total=100.0, split="loss")
    assert known == plan_tables([["a"]], [[4]], BUDGET, unit="person", rows=1, split="loss")
    assert isinstance(known.mechanisms[0], Laplace)


@pytest.mark.parametrize("mechanism", ["balanced-laplace", "gaussian"])
def test_tables_with_different_totals_are_not_drawn(mechanism: Any) -> None:
    """Rows that one table leaves out would tell who is left out: the total would not be public."""
    tables = [CountTable.from_array(counts, columns=[name]) for name, counts in (("a", [3, 4]), ("b", [3, 3]))]
    made = plan_tables([["a"], ["b"]], [[2], [2]], BUDGET, mechanism=mechanism, total=7.0)
    with pytest.raises(InvalidArgument, match="same records") as raised:
        draw_tables(tables, made, entropy=1)
    assert not set("3467") & set(str(raised.value))
    assert len(draw_tables(tables[:1] * 2, made, entropy=1)) == 2
    hidden = plan_tables([["a"], ["b"]], [[2], [2]], BUDGET, neighbours="add-remove")
    assert [each.total for each in draw_tables(tables, hidden, entropy=1)] == [None, None]


def test_a_release_keeps_the_total_and_goes_through_a_file(tmp_path: Path) -> None:
    made = release(COUNTS, budget=BUDGET, mechanism="balanced-laplace")
    assert made.values.sum() == sum(COUNTS) == made.total
    assert made.noisy.noise == "laplace"
    made.write(tmp_path / "release.json")
    back = Release.read(tmp_path / "release.json")
    assert back.mechanism == made.mechanism
    assert back.probabilities.tolist() == made.probabilities.tolist()
    assert back.loss.epsilon(1e-5) == made.loss.epsilon(1e-5) <= 1.0
    assert "balanced-laplace" in made.certificate().to_json() or "BalancedLaplace" in str(made.certificate())


@pytest.mark.parametrize(
    "change",
    [
        {"total": 7},
        {"mechanism": {"name": "balanced-laplace", "parameters": {"scale": 2.0, "cells": 5}}},
        {"guarantee": "add-remove"},
        {"guarantee": "person"},
    ],
    ids=str,
)
def test_a_file_that_claims_what_cannot_be_is_refused(change: dict[str, Any]) -> None:
    document = json.loads(release(COUNTS, budget=BUDGET, mechanism="balanced-laplace").to_json())
    body = document["body"]
    if change.get("guarantee") == "add-remove":
        body["guarantee"]["neighbours"] = "add-remove"
    elif change.get("guarantee") == "person":
        body["guarantee"]["unit"] = "person"
    else:
        body.update(change)
        body["guarantee"]["mechanisms"] = [body["mechanism"]]
    document["sha256"] = checksum(body)
    with pytest.raises(FormatError):
        Release.from_json(json.dumps(document))


def test_tables_of_different_sizes_share_one_scale_and_the_budget() -> None:
    made = plan_tables([("a",), ("b",)], [(2,), (9,)], BUDGET, mechanism="balanced-laplace", total=500.0)
    first, second = made.mechanisms
    assert isinstance(first, BalancedLaplace)
    assert isinstance(second, BalancedLaplace)
    assert (first.cells, second.cells) == (2, 9)
    assert first.scale == second.scale
    assert -0.01 < made.guarantee.loss.excess(BUDGET) <= 0


def test_a_ledger_charges_it(tmp_path: Path) -> None:
    ledger = Ledger.open(tmp_path / "ledger.db", budget=Budget(epsilon=5.0, delta=1e-6))
    made = release(COUNTS, budget=BUDGET, mechanism="balanced-laplace", ledger=ledger, dataset="clinic")
    spent = ledger.spent("clinic")
    assert spent.value == ledger.filter.price(made.loss).cost > 0


def test_the_automatic_choice_has_the_smallest_variance() -> None:
    """Few tables of few cells with a public total; never where the total is not public."""
    assert isinstance(choose(BUDGET, total=1000.0, cells=2), BalancedLaplace)
    assert isinstance(choose(BUDGET, total=1000.0, cells=FEW_CELLS), BalancedLaplace)
    assert isinstance(choose(BUDGET, total=1e9, cells=FEW_CELLS + 1), Laplace)
    assert isinstance(choose(BUDGET, total=1e9, cells=4, tables=50), Gaussian)
    for settings in ({"neighbours": "add-remove"}, {"rows": 2}, {"total": None}):
        found = choose(BUDGET, **{"total": 1e9, "cells": 4, **settings})  # type: ignore[arg-type]
        assert not isinstance(found, BalancedLaplace)
    assert plan([4], budget=BUDGET, total=1000).tables[0].mechanism.startswith("BalancedLaplace")


@pytest.mark.parametrize(("cells", "ratio"), [(2, 1 / 2), (3, 5 / 8), (4, 7 / 10), (10, 19 / 22), (30, 59 / 62)])
def test_the_variance_beside_that_of_independent_noise(cells: int, ratio: float) -> None:
    """At a large scale (2d − 1)/(2(d + 1)) of the variance of Laplace noise projected on the total."""
    scale = 1e4
    found = BalancedLaplace(scale=scale, cells=cells)
    assert found.equivalent_variance / Laplace(scale=scale).noise_variance == pytest.approx(ratio, rel=1e-6)
    assert found.noise_variance == pytest.approx(found.equivalent_variance * (1 - 1 / cells))


def test_the_variance_by_enumeration() -> None:
    for scale, cells in ((0.6, 2), (2.0, 3), (0.9, 4)):
        grids = np.meshgrid(*[np.arange(-40, 41)] * (cells - 1), indexing="ij")
        free = np.stack([grid.ravel() for grid in grids])
        weights = np.exp(-(np.abs(free).sum(axis=0) + np.abs(free.sum(axis=0))) / scale)
        variance = weights @ free[0] ** 2 / weights.sum()
        assert BalancedLaplace(scale=scale, cells=cells).noise_variance == pytest.approx(variance, rel=1e-9)


@pytest.mark.parametrize(("scale", "cells"), [(0.3, 2), (4.0, 2), (0.8, 3), (6.0, 3), (2.0, 9), (3.0, 40)])
def test_frequentist_intervals_reach_as_far_as_the_noise(scale: float, cells: int) -> None:
    """Against the marginal law by repeated convolution: the least whole number that errs at most 10, 5 and 0.1 %."""
    x = np.arange(-600, 601)
    weights = np.exp(-np.abs(x) / scale)
    others = np.array([1.0])
    for _ in range(cells - 1):
        others = np.convolve(others, weights / weights.sum())
    middle = others.size // 2
    law = weights * others[middle - 600 : middle + 601]
    law /= law.sum()
    for error in (0.1, 0.05, 0.001):
        reach = balanced_reach(scale, cells, error)
        assert law[np.abs(x) > reach].sum() <= error
        assert reach == 0 or law[np.abs(x) > reach - 1].sum() > error
    wide = balanced_reach(4e3 * scale, cells, 0.05)
    assert balanced_reach(1e6 * scale, cells, 0.05) == pytest.approx(250 * wide, rel=0.01)


def test_intervals_and_standard_errors_are_those_of_the_smaller_noise() -> None:
    made = release([400, 600], budget=BUDGET, mechanism="balanced-laplace", estimate="projection", entropy=3)
    plain = NoisyCounts(values=made.noisy.values, variance=made.noisy.variance, total=1000, noise="laplace")
    wide = estimate(plain, "projection")
    assert made.standard_errors == pytest.approx(wide.standard_errors / 2, rel=0.1)
    widths = np.ptp(made.intervals(0.95, "frequentist"), axis=0)
    assert (widths < 0.7 * np.ptp(wide.intervals(0.95), axis=0)).all()
    hits = 0
    for values in BalancedLaplace(scale=2.0, cells=2).draws(np.array([400, 600]), 400, SeededEntropy(9)):
        noisy = NoisyCounts(values=values, variance=8.0, total=1000, noise="laplace", balanced=True)
        low, high = noise_intervals(noisy, 0.9)
        hits += bool(low[0] <= 0.4 <= high[0])
    assert 336 <= hits < 400  # 400 draws at 90 % or a little more (whole numbers): four standard errors below
    with pytest.raises(InvalidArgument, match="balanced"):
        NoisyCounts(values=np.ones(2), variance=1.0, balanced=True)
