"""Prices in the file: computed again by `verify`, stale ones computed anew, and ledgers of format 1, which go on."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from simplexdp import Budget, Gaussian, Laplace, Ledger, PrivacyLoss, release
from simplexdp.accounting.filters import GaussianFilter, RenyiFilter, filter_for, renyi_filter
from simplexdp.cli import app
from simplexdp.errors import BudgetExceeded, FormatError, InvalidArgument
from simplexdp.ledger import fingerprint
from simplexdp.ledger.amount import loss_from_body, loss_to_body
from simplexdp.ledger.chain import START, Entry, Store, _append

BUDGET = Budget(epsilon=1.0, delta=1e-6)
LAPLACE = Laplace(scale=60.0).loss()
SAID: dict[str, Any] = {"actor": "", "time": "now"}


def pay(ledger: Ledger, loss: PrivacyLoss, dataset: str = "d") -> Any:
    return ledger.charge(loss, dataset=dataset, description="", request_hash=fingerprint("q"))


def written(path: Path, *bodies: tuple[Any, dict[str, Any]]) -> Path:
    """A file whose hashes are right and whose entries are these."""
    entry = Entry.after(0, START, bodies[0][0], bodies[0][1])
    store = Store(path, 1.0)
    assert store.create(entry)
    with store.writing() as connection:
        for kind, body in bodies[1:]:
            entry = Entry.after(entry.number + 1, entry.hash, kind, body)
            _append(connection, entry)
    return path


def old(path: Path, spent: float, budget: Budget = BUDGET) -> Path:
    """A ledger of format 1 with one charge of this share of its limit."""
    found = renyi_filter(1.0, 1e-6) if budget.order is None else RenyiFilter(order=budget.order, total=budget.epsilon)
    opening = {"format": 1, "epsilon": budget.epsilon, "delta": budget.delta, "order": budget.order}
    opening |= {"filter_order": found.order, "limit": found.total, "neighbours": "replace-one", "datasets": None}
    charge = {"dataset": "d", "epsilon": spent * found.total, "unit": "row", "description": "", "request": START}
    return written(path, ("open", opening | SAID), ("charge", charge | SAID))


# -- prices ----------------------------------------------------------------------------------------------------------


def test_losses_read_back_from_entries() -> None:
    from simplexdp import Dirichlet, Polya

    for loss in (
        LAPLACE,
        Gaussian(sigma=9.5).loss(),
        Gaussian(sigma=0.5).loss(rows=2),
        Dirichlet(r=1.0, alpha=900.0).loss("add-remove", rows=2),
        3 * Polya(r=1, alpha=400).loss() + LAPLACE,
    ):
        body = loss_to_body(loss)
        assert body is not None
        assert loss_from_body(body, loss.neighbours) == loss


def test_verify_computes_each_different_price_once(tmp_path: Path) -> None:
    ledger = Ledger.open(tmp_path / "l.db", budget=BUDGET)
    small = Laplace(scale=3000.0).loss()
    for _ in range(6):
        pay(ledger, small)
    pay(ledger, Gaussian(sigma=50.0).loss())
    seen: list[tuple[int, int]] = []
    found = ledger.verify(progress=lambda done, of: seen.append((done, of)))
    assert (found.priced, found.unpriced) == (2, 0)
    assert seen == [(1, 2), (2, 2)]


@pytest.mark.parametrize("share", [0.98, 0.5, 1e-6])
def test_verify_finds_a_charge_below_its_price(tmp_path: Path, share: float) -> None:
    ledger = Ledger.open(tmp_path / "l.db", budget=BUDGET)
    pay(ledger, LAPLACE)
    first, charge = (entry.body for entry in ledger.entries())
    written(tmp_path / "same.db", ("open", dict(first)), ("charge", dict(charge)))
    assert Ledger.open(tmp_path / "same.db").verify().priced == 1
    written(tmp_path / "less.db", ("open", dict(first)), ("charge", {**charge, "cost": charge["cost"] * share}))
    with pytest.raises(FormatError, match=r"entry 1 .* less than its loss costs"):
        Ledger.open(tmp_path / "less.db").verify()


@pytest.mark.parametrize(
    "change",
    [
        {"cost": -0.1},
        {"cost": 1},
        {"cost": 0.06},
        {"slack": 2e-8},
        {"slack": -1e-9},
        {"at": 0.5},
        {"at": "0.01"},
        {"loss": "Laplace"},
        {"epsilon": 0.1},
    ],
)
def test_prices_that_no_ledger_would_write_are_refused(tmp_path: Path, change: dict[str, Any]) -> None:
    ledger = Ledger.open(tmp_path / "l.db", budget=BUDGET)
    pay(ledger, LAPLACE)
    first, charge = (entry.body for entry in ledger.entries())
    written(tmp_path / "x.db", ("open", dict(first)), ("charge", {**charge, **change}))
    with pytest.raises(FormatError):
        Ledger.open(tmp_path / "x.db")


@pytest.mark.parametrize("change", [{"total": 0.06}, {"slack": 1e-7}, {"total": 1}, {"slack": 0.0}])
def test_a_filter_above_the_budget_is_refused(tmp_path: Path, change: dict[str, Any]) -> None:
    first = Ledger.open(tmp_path / "l.db", budget=BUDGET).entries()[0].body
    written(tmp_path / "x.db", ("open", {**first, **change}))
    with pytest.raises(FormatError):
        Ledger.open(tmp_path / "x.db")


def test_a_price_that_others_made_stale_is_computed_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between the price and the lock another process spends almost all that is left."""
    ledger, other = Ledger.open(tmp_path / "l.db", budget=BUDGET), Ledger.open(tmp_path / "l.db")
    loss, asked = Laplace(scale=150.0).loss(), []
    price: Callable[..., Any] = GaussianFilter.price

    def slow(self: GaussianFilter, loss_: PrivacyLoss, left: Fraction | None = None) -> Any:
        found = price(self, loss_, left)
        if loss_ == loss and left is not None:
            asked.append(left)
            if len(asked) == 1:
                pay(other, PrivacyLoss.of_term(_gaussian(float(left) * 0.98)))
        return found

    monkeypatch.setattr(GaussianFilter, "price", slow)
    pay(ledger, loss)
    assert len(asked) == 2
    charge = ledger.entries()[-1].body
    assert charge["at"] <= asked[1] < asked[0]
    assert ledger.verify().priced == 2


def _gaussian(mu_squared: float) -> Any:
    from simplexdp.accounting.smooth import GaussianTerm

    return GaussianTerm(mu_squared)


@pytest.mark.parametrize("mechanism", ["auto", "gaussian", "laplace", "polya", "balanced-laplace"])
def test_what_is_left_buys_any_mechanism(tmp_path: Path, mechanism: str) -> None:
    """Calibrated to what is left it can be paid, and nothing of use is left after that."""
    ledger = Ledger.open(tmp_path / "l.db", budget=BUDGET)
    release([90, 80, 70], budget=Budget(epsilon=0.5, delta=1e-7), ledger=ledger, dataset="d")
    left = ledger.remaining("d")
    made = release([90, 80, 70], budget=left.budget, mechanism=mechanism, ledger=ledger, dataset="d")
    assert made.guarantee.budget == Budget(epsilon=left.epsilon(), delta=1e-6)
    assert ledger.remaining("d").value < 0.1 * left.value
    assert made.guarantee.loss.fits(made.guarantee.budget)


# -- format 1 ----------------------------------------------------------------------------------------------------------


def test_an_old_ledger_is_read_and_goes_on_as_it_was(tmp_path: Path) -> None:
    ledger = Ledger.open(old(tmp_path / "l.db", 0.5))
    assert isinstance(ledger.filter, RenyiFilter)
    before = ledger.remaining("d").exact
    charge = pay(ledger, LAPLACE)
    assert charge.cost == LAPLACE.rdp(ledger.filter.order)
    assert ledger.remaining("d").exact == before - Fraction(charge.cost)
    assert ledger.entries()[-1].body.keys() >= {"epsilon"}
    assert ledger.verify().unpriced == 2


@pytest.mark.slow
def test_a_converted_ledger_has_more_left_and_keeps_the_budget(tmp_path: Path) -> None:
    ledger = Ledger.open(old(tmp_path / "l.db", 0.9))
    loss = Gaussian(sigma=100.0).loss()
    before, fresh = ledger.remaining("d").times(loss), ledger.remaining("new").times(loss)
    ledger.convert()
    assert 1.5 * before < ledger.remaining("d").times(loss) < 1.9 * before
    assert ledger.remaining("new").times(loss) > 1.1 * fresh
    assert ledger.filter == filter_for(BUDGET)
    pay(ledger, LAPLACE)
    pay(ledger, LAPLACE, "new")
    again = Ledger.open(tmp_path / "l.db")
    assert again.remaining("d").exact == ledger.remaining("d").exact
    found = again.verify()
    assert (found.entries, found.priced, found.unpriced) == (5, 2, 1)
    while again.remaining("d").times(LAPLACE):
        pay(again, LAPLACE)
    with pytest.raises(BudgetExceeded):
        pay(again, LAPLACE)
    with pytest.raises(InvalidArgument):
        again.convert()


@pytest.mark.slow
def test_a_conversion_to_more_than_was_left_is_refused(tmp_path: Path) -> None:
    ledger = Ledger.open(old(tmp_path / "l.db", 0.5))
    ledger.convert()
    first, charge, convert = (entry.body for entry in ledger.entries())
    for change in (
        {"totals": {"d": convert["totals"]["d"] * 1.0001}},
        {"totals": {}},
        {"totals": {"d": convert["total"], "e": 0.01}},
        {"total": convert["total"] * 1.01},
        {"slack": 1e-9},
    ):
        name = tmp_path / f"{fingerprint(change)}.db"
        written(name, ("open", dict(first)), ("charge", dict(charge)), ("convert", {**convert, **change}))
        if change == {"slack": 1e-9}:  # less slack is the ledger's own affair
            assert Ledger.open(name).remaining("d").slack == Fraction(1e-9)
            continue
        with pytest.raises(FormatError):
            Ledger.open(name)
    written(tmp_path / "twice.db", ("open", dict(first)), ("charge", dict(charge)), *[("convert", dict(convert))] * 2)
    with pytest.raises(FormatError):
        Ledger.open(tmp_path / "twice.db")


def test_a_renyi_budget_has_nothing_to_convert(tmp_path: Path) -> None:
    ledger = Ledger.open(old(tmp_path / "l.db", 0.5, Budget.rdp(order=5, epsilon=1.0)))
    with pytest.raises(InvalidArgument):
        ledger.convert()
    with pytest.raises(InvalidArgument):
        Ledger.open(tmp_path / "new.db", budget=BUDGET).convert()


@pytest.mark.slow
def test_the_command_converts(tmp_path: Path) -> None:
    path = old(tmp_path / "l.db", 0.5)
    done = CliRunner().invoke(app, ["ledger", "convert", str(path)], catch_exceptions=False)
    assert done.exit_code == 0
    assert "is left now" in done.output
    shown = CliRunner().invoke(app, ["ledger", "show", str(path)], catch_exceptions=False)
    assert "Gaussian" in shown.output
    assert "priced" in CliRunner().invoke(app, ["ledger", "verify", str(path), "--json"]).output
