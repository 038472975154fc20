"""Ways to get more than was paid for, each found by reading the code, and each closed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import mpmath as mp
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from simplexdp import (
    Budget,
    CellNumbers,
    Dirichlet,
    Gaussian,
    Laplace,
    Ledger,
    Polya,
    Quantiles,
    Schema,
    count,
    release,
    release_distribution,
)
from simplexdp.errors import FormatError, Infeasible, InvalidArgument, PrivacyWarning
from simplexdp.models.guarantee import Guarantee
from simplexdp.models.naive_bayes import NaiveBayesModel
from simplexdp.pipeline import fit_tables
from simplexdp.private.tables import CountTable
from simplexdp.sampling import SecureEntropy, SeededEntropy

BUDGET = Budget(epsilon=1.0, delta=1e-5)
SCHEMA = Schema.of(a=["x", "y", "z"], b=[0, 1], c=[0, 1])


def frame(n: int = 300) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "a": rng.choice(["x", "y", "z"], n),
            "b": rng.integers(0, 2, n),
            "c": rng.integers(0, 2, n),
            "who": np.arange(n),
        }
    )


@pytest.mark.parametrize("entropy", [np.random.default_rng(0), SeededEntropy(0)], ids=["numpy", "seeded"])
def test_rows_of_persons_chosen_with_a_seed_are_not_private(entropy: Any) -> None:
    (table,) = count(frame(), SCHEMA, [("a",)], rows_per_person=1, person="who", entropy=entropy)
    made = release(table, budget=BUDGET)
    assert not made.private
    assert "seed" in " ".join(made.not_private)
    (safe,) = count(frame(), SCHEMA, [("a",)], rows_per_person=1, person="who", entropy=SecureEntropy())
    assert release(safe, budget=BUDGET).private


def test_a_ledger_does_not_add_up_rows_and_persons(tmp_path: Path) -> None:
    ledger = Ledger.open(tmp_path / "ledger.db", budget=Budget(epsilon=20.0, delta=1e-5))
    settings: dict[str, Any] = {"budget": BUDGET, "ledger": ledger, "dataset": "people"}
    ledger.register("people", frame(), SCHEMA)
    release_distribution(frame(), SCHEMA, ["a"], **settings)
    spent = ledger.spent("people")
    ledger.register("people", frame(), SCHEMA, person="who")
    with pytest.raises(InvalidArgument, match="rows and of persons"):
        release_distribution(frame(), SCHEMA, ["a"], rows_per_person=2, person="who", **settings)
    assert ledger.spent("people") == spent
    assert ledger.verify()


def test_releases_of_several_fits_are_not_one_model() -> None:
    fits = [fit_tables(frame(), SCHEMA, [("a", "c"), ("b", "c")], budget=BUDGET).releases for _ in range(3)]
    assert NaiveBayesModel.from_releases(fits[0], "c").certificate().private
    with pytest.raises(InvalidArgument, match="no others"):
        NaiveBayesModel.from_releases([one for fit in fits for one in fit], "c")


def test_a_release_needs_a_guarantee_that_covers_it() -> None:
    made = release([5, 6, 7], budget=BUDGET)
    with pytest.raises(InvalidArgument, match="covers"):
        replace(made, mechanism=Laplace(scale=0.01))


def test_printed_numbers_are_rounded_up() -> None:
    made = release([119, 74, 618, 272, 13, 187], budget=Budget(epsilon=0.7, delta=1e-7), mechanism="gaussian")
    text = made.certificate().promise
    for delta in (1e-5, 1e-6, 1e-9):
        exact = made.loss.epsilon(delta)
        printed = float(text.split(f", {delta:g})")[0].split("(")[-1])
        assert exact <= printed <= exact * (1 + 1e-5)
    assert "Asked for (0.7, 1e-07)-DP" in text


@pytest.mark.parametrize("rows", [1, 2, 3])
@pytest.mark.parametrize(
    ("order", "epsilon", "r"), [(7.7, 8.5, 0.31), (5.0, 8.0, 0.7), (5.0, 10.0, 0.7), (2.0, 30.0, 3.0)]
)
def test_the_renyi_value_next_to_the_last_finite_order(rows: int, order: float, epsilon: float, r: float) -> None:
    """Calibration may end where α − (order − 1)·m·r is a few last digits of α; 60 digits check the claim there."""
    budget = Budget.rdp(order=order, epsilon=epsilon)
    made = Dirichlet.calibrate(budget, r=r, rows=rows)
    with mp.workdps(60):
        a, s, w = mp.mpf(made.alpha), mp.mpf(rows * made.r), mp.mpf(order) - 1
        exact = (mp.loggamma(a + (1 + w) * s) + mp.loggamma(a - w * s) - mp.loggamma(a + s) - mp.loggamma(a)) / w
    claimed = made.loss(rows=rows).rdp(order)
    assert exact <= claimed <= min(epsilon, exact * (1 + 1e-9))
    smaller = Dirichlet(r=r, alpha=made.alpha * (1 - 1e-14)).loss(rows=rows)
    assert exact > epsilon * (1 - 1e-6) or smaller.rdp(order) > epsilon


def test_cell_numbers_keep_the_order_of_the_schema() -> None:
    codes = np.array([[0, 1, 1]] * 50 + [[2, 0, 1]] * 150)
    named = fit_tables(frame().iloc[:0], SCHEMA, [("a", "c")], budget=None, mechanism="none").releases
    assert named[0].values.sum() == 0
    made = fit_tables(CellNumbers(codes), SCHEMA, [("c", "a"), ("b",)], budget=None, mechanism="none").releases
    assert made[0].values.tolist() == [[0, 0, 0], [50, 0, 150]]
    assert made[1].values.tolist() == [150, 50]


def test_a_stream_with_quantiles_is_copied_once_and_paid_once(tmp_path: Path) -> None:
    schema = Schema.of(x=Quantiles(4, lower=0, upper=1))
    table = pa.table({"x": np.linspace(0, 1, 100)})
    ledger = Ledger.open(tmp_path / "ledger.db", budget=Budget(epsilon=20.0, delta=1e-5))
    ledger.register("d", table, schema)
    made = release_distribution(table.to_reader(), schema, ["x"], budget=BUDGET, ledger=ledger, dataset="d")
    assert made.total == 100
    assert len([entry for entry in ledger.entries() if entry.kind == "charge"]) == 1
    assert release_distribution(table, schema, ["x"], budget=BUDGET).total == 100


@pytest.mark.slow
def test_exact_and_renyi_losses_compose_with_the_polya_mechanism() -> None:
    persons = Gaussian(sigma=20.0).loss(rows=2)
    total = persons + Polya(r=3, alpha=1000).loss()
    assert 0 < total.delta(1.0) < 1
    assert total.epsilon(1e-5) >= persons.epsilon(1e-5)
    mixed = Dirichlet(r=1.0, alpha=400.0).loss("add-remove") + Polya(r=3, alpha=1000).loss("add-remove")
    assert 0 < mixed.delta(0.5) < 1
    smooth = Gaussian(sigma=20.0).continuous_loss() + Polya(r=3, alpha=1000).loss()
    assert 0 < smooth.delta(0.5) < 1


def test_small_things_that_were_wrong() -> None:
    assert Dirichlet(r=1.0, alpha=1.0).loss().log_mgf(-3.0) == np.inf
    with pytest.raises(InvalidArgument, match="counts"):
        Polya(r=4096, alpha=100).release([2**52, 2])
    assert Laplace(scale=3.0).loss().delta(np.nextafter(2 / 3, 0)) > 0
    for change in ({"unit": "banana"}, {"rows": 3}):
        body = Guarantee(mechanisms=()).to_body() | change
        with pytest.raises((FormatError, InvalidArgument)):
            Guarantee.from_body(body)
    array = np.array([1, 2, 3])
    table = CountTable(array, ("a",))
    array[0] = 99
    assert table.private_counts().tolist() == [1, 2, 3]


def test_what_cannot_be_drawn_is_refused_before_it_is_paid_for(tmp_path: Path) -> None:
    ledger = Ledger.open(tmp_path / "ledger.db", budget=Budget.rdp(order=2, epsilon=1e6))
    with pytest.raises(Infeasible, match="sampler"), pytest.warns(PrivacyWarning, match="epsilon = 5000"):
        release(
            [5, 6],
            budget=Budget.rdp(order=2, epsilon=5000.0),
            mechanism="laplace",
            ledger=ledger,
            dataset="d",
        )
    assert ledger.spent("d").value == 0


def test_a_misspelt_share_is_named() -> None:
    with pytest.raises(InvalidArgument, match="aa"):
        fit_tables(frame(), SCHEMA, [("a",), ("b",)], budget=BUDGET, split={"aa": 1.0, "b": 1.0})


def test_a_public_bound_makes_the_work_of_a_draw_the_same_for_all_counts() -> None:
    class Counting(SeededEntropy):
        taken = 0

        def words(self, size: int) -> Any:
            self.taken += size
            return super().words(size)

    def work(counts: list[int]) -> int:
        entropy = Counting(5)
        Polya(r=1, alpha=13).release(counts, entropy=entropy, most=50)
        return entropy.taken

    assert work([0] * 100) == work([50] * 100)
    plain = Counting(5)
    Polya(r=1, alpha=13).release([50] * 100, entropy=plain)
    other = Counting(5)
    Polya(r=1, alpha=13).release([0] * 100, entropy=other)
    assert plain.taken != other.taken  # without the bound the work tells the counts apart
    with pytest.raises(InvalidArgument, match="upper"):
        Polya(r=1, alpha=13).release([51, 0], most=50)
