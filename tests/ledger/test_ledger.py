"""What a ledger admits, what it says is left, and what it refuses."""

from __future__ import annotations

import math
import pickle
import sqlite3
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from simplexdp import Budget, Dirichlet, Gaussian, Laplace, Polya, PrivacyLoss
from simplexdp.accounting import conversion_floor, rdp_to_epsilon
from simplexdp.accounting.filters import RenyiFilter, filter_for, renyi_filter
from simplexdp.accounting.smooth import GaussianTerm
from simplexdp.errors import BudgetExceeded, FormatError, Infeasible, InvalidArgument, LedgerUnavailable
from simplexdp.ledger import Ledger, fingerprint

BUDGET = Budget(epsilon=1.0, delta=1e-5)
LOSS = Gaussian(sigma=20.0).loss()
REQUEST = fingerprint("request")


def pay(ledger: Ledger, loss: PrivacyLoss = LOSS, dataset: str = "clinic") -> int:
    return ledger.charge(loss, dataset=dataset, description="a table", request_hash=REQUEST).number


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ledger.db"


@pytest.fixture
def ledger(path: Path) -> Ledger:
    return Ledger.open(path, budget=BUDGET)


# -- the filter --------------------------------------------------------------------------------------------------


@given(st.floats(0.01, 20), st.floats(1e-12, 1e-2))
def test_no_other_order_has_room_for_more_gaussian_releases(epsilon: float, delta: float) -> None:
    found = renyi_filter(epsilon, delta)
    order, limit = found.order, found.total
    assert limit > 0
    for factor in (0.5, 0.9, 1.1, 2.0):
        other = 1 + (order - 1) * factor
        assert (epsilon - conversion_floor(other, delta)) / other <= limit / order * (1 + 1e-6)
    assert rdp_to_epsilon(order, limit, delta) <= epsilon


def test_a_renyi_budget_keeps_its_order() -> None:
    assert filter_for(Budget.rdp(order=5, epsilon=0.3)) == RenyiFilter(order=5.0, total=0.3)
    with pytest.raises(InvalidArgument):
        filter_for(Budget.rdp(order=5, epsilon=0.3), order=6)


def test_an_order_whose_conversion_eats_the_budget_is_infeasible() -> None:
    with pytest.raises(Infeasible):
        filter_for(BUDGET, order=2)
    with pytest.raises(InvalidArgument):
        filter_for(BUDGET, order=1)


def test_everything_admitted_stays_within_the_budget(ledger: Ledger) -> None:
    """What the filter admits as a whole is within (ε, δ) by the exact accountant, too."""
    losses = [Gaussian(sigma=25.0).loss(), Polya(r=1, alpha=400).loss(), Dirichlet(r=1.0, alpha=900.0).loss()]
    total = PrivacyLoss.nothing()
    number = 0
    while ledger.remaining("clinic").times(losses[number % 3]):
        pay(ledger, losses[number % 3])
        total, number = total + losses[number % 3], number + 1
    with pytest.raises(BudgetExceeded) as refused:
        pay(ledger, losses[number % 3])
    assert refused.value.left <= ledger.remaining("clinic").value < (refused.value.requested or 0.0)
    assert number > 10
    assert 0.9e-5 < total.delta(1.0) <= 1e-5
    assert ledger.spent("clinic").epsilon() <= 1.0
    assert ledger.verify().priced > 5


# -- spent and left ----------------------------------------------------------------------------------------------


def test_spent_and_left_add_up_exactly(ledger: Ledger) -> None:
    for _ in range(3):
        pay(ledger)
    spent, left = ledger.spent("clinic"), ledger.remaining("clinic")
    assert spent.exact == 3 * Fraction(ledger.filter.price(LOSS).cost)
    assert spent.value == pytest.approx(6 / 400, rel=1e-3)  # two cells, 1/σ² each, three times
    assert spent.exact + left.exact == Fraction(ledger.filter.total)
    assert spent.slack == 0
    assert left.slack == Fraction(ledger.filter.slack)
    left_over = PrivacyLoss.of_term(GaussianTerm(left.value)).delta(left.epsilon())
    assert left_over + ledger.filter.slack == pytest.approx(1e-5, rel=1e-6)
    assert left.epsilon(1e-3) < left.epsilon()


def test_how_many_more_of_these_is_true_to_the_last(ledger: Ledger) -> None:
    more = ledger.remaining("clinic").times(LOSS)
    for _ in range(more):
        pay(ledger)
    assert ledger.remaining("clinic").times(LOSS) == 0
    with pytest.raises(BudgetExceeded):
        pay(ledger)
    assert ledger.verify().entries == 1 + more


def test_nothing_spent_is_the_whole_budget(ledger: Ledger) -> None:
    assert ledger.spent("clinic").epsilon() == 0
    assert ledger.remaining("clinic").epsilon() == pytest.approx(1.0, abs=1e-9)


def test_what_is_left_can_be_calibrated_to_and_then_paid(ledger: Ledger) -> None:
    pay(ledger)
    left = ledger.remaining("clinic").budget
    pay(ledger, Gaussian.calibrate(left).loss())
    assert ledger.remaining("clinic").value < 1e-6 * ledger.filter.total
    with pytest.raises(Infeasible):
        Ledger.open(ledger._store.path.with_name("b"), budget=BUDGET, datasets=["x"]).remaining("y").budget  # noqa: B018


def test_data_sets_have_budgets_of_their_own(ledger: Ledger) -> None:
    pay(ledger, dataset="clinic")
    assert ledger.spent("school").exact == 0
    pay(ledger, dataset="school")
    assert ledger.datasets == ("clinic", "school")


def test_only_declared_names_can_be_charged(path: Path) -> None:
    ledger = Ledger.open(path, budget=BUDGET, datasets=["clinic"])
    pay(ledger)
    with pytest.raises(InvalidArgument, match="dataset"):
        pay(ledger, dataset="clinics")
    assert ledger.remaining("clinics").times(LOSS) == 0
    assert Ledger.open(path).terms.datasets == ("clinic",)


@pytest.mark.parametrize("order", [None, 17.8])
def test_a_loss_without_a_price_is_refused(path: Path, order: float | None) -> None:
    ledger = Ledger.open(path, budget=BUDGET, order=order)
    infinite = Dirichlet(r=1.0, alpha=2.0).loss()
    assert math.isinf(ledger.filter.price(infinite).cost)
    assert ledger.remaining("clinic").times(infinite) == 0
    with pytest.raises(BudgetExceeded, match="order" if order else "more than"):
        pay(ledger, infinite)
    assert ledger.spent("clinic").exact == 0


def test_a_renyi_ledger_has_no_delta(path: Path) -> None:
    ledger = Ledger.open(path, budget=Budget.rdp(order=5, epsilon=1.0))
    pay(ledger, Dirichlet.algorithm1(order=5, epsilon=1.0).loss())
    assert ledger.spent("clinic").value <= 1.0
    with pytest.raises(InvalidArgument, match="delta"):
        ledger.spent("clinic").epsilon()
    assert ledger.spent("clinic").epsilon(1e-5) > 0


def test_the_relation_is_fixed(path: Path) -> None:
    ledger = Ledger.open(path, budget=BUDGET, neighbours="add-remove")
    with pytest.raises(InvalidArgument, match="relation"):
        pay(ledger)
    pay(ledger, Laplace(scale=40.0).loss("add-remove"))
    with pytest.raises(InvalidArgument):
        Ledger.open(path, neighbours="replace-one")


# -- charges and seals -------------------------------------------------------------------------------------------


def test_a_charge_is_sealed_once(ledger: Ledger) -> None:
    charge = ledger.charge(LOSS, dataset="clinic", description="ages", request_hash=REQUEST)
    assert ledger.verify().unsealed == (charge.number,)
    charge.seal(fingerprint("release"))
    assert ledger.verify().unsealed == ()
    with pytest.raises(InvalidArgument):
        charge.seal(fingerprint("another"))
    last = ledger.entries()[-1]
    assert (last.kind, last.body["charge"], last.body["release"]) == ("seal", charge.number, fingerprint("release"))


@pytest.mark.parametrize(
    "bad",
    [
        {"dataset": ""},
        {"dataset": "a\x1b[2J"},
        {"dataset": "x" * 201},
        {"dataset": "\ud800"},
        {"description": "line\nbreak"},
        {"description": "x" * 2001},
        {"request_hash": "ABC"},
        {"request_hash": "A" * 64},
    ],
)
def test_bad_words_are_refused_before_anything_is_written(ledger: Ledger, bad: dict[str, str]) -> None:
    words = {"dataset": "clinic", "description": "", "request_hash": REQUEST, **bad}
    with pytest.raises(InvalidArgument, match=next(iter(bad))):
        ledger.charge(LOSS, **words)
    assert ledger.verify().entries == 1


def test_a_loss_is_a_loss(ledger: Ledger) -> None:
    with pytest.raises(InvalidArgument, match="loss"):
        pay(ledger, 0.1)  # type: ignore[arg-type]


# -- opening -----------------------------------------------------------------------------------------------------


def test_without_a_budget_the_file_must_exist(path: Path) -> None:
    with pytest.raises(InvalidArgument, match="path"):
        Ledger.open(path)
    assert not path.exists()


def test_an_existing_ledger_keeps_its_terms(path: Path, ledger: Ledger) -> None:
    pay(ledger)
    assert Ledger.open(path, budget=BUDGET).spent("clinic").exact == ledger.spent("clinic").exact > 0
    for other in (
        {"budget": Budget(epsilon=2.0, delta=1e-5)},
        {"order": 5.0},
        {"datasets": ["clinic"]},
    ):
        with pytest.raises((InvalidArgument, Infeasible)):
            Ledger.open(path, **other)  # type: ignore[arg-type]


def test_a_ledger_is_one_file_and_leaves_nothing_beside_it(path: Path, ledger: Ledger) -> None:
    pay(ledger)
    assert [p.name for p in path.parent.iterdir()] == ["ledger.db"]


@pytest.mark.parametrize("content", [b"", b"not a ledger", b"SQLite format 3\x00" + bytes(100)])
def test_an_empty_or_foreign_file_is_refused_and_left_alone(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    with pytest.raises(FormatError):
        Ledger.open(path, budget=BUDGET)
    assert path.read_bytes() == content


def test_another_sqlite_file_is_refused(path: Path) -> None:
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE t (x)")
    connection.commit()
    connection.close()
    with pytest.raises(FormatError):
        Ledger.open(path, budget=BUDGET)


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(LedgerUnavailable):
        Ledger.open(tmp_path / "missing" / "ledger.db", budget=BUDGET)


def test_a_locked_ledger_waits_and_then_says_so(path: Path, ledger: Ledger) -> None:
    impatient = Ledger.open(path, timeout=0.05)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    with pytest.raises(LedgerUnavailable, match="locked"):
        pay(impatient)
    other.execute("ROLLBACK")
    other.close()
    pay(impatient)
    assert ledger.verify().entries == 2


def test_a_ledger_survives_a_pickle(ledger: Ledger) -> None:
    again = pickle.loads(pickle.dumps(ledger))  # noqa: S301
    pay(again)
    assert ledger.verify().entries == 2
    assert "ledger.db" in repr(again)


# -- against a model ---------------------------------------------------------------------------------------------


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(st.sampled_from("abc"), st.floats(3.0, 60.0)), max_size=12))
def test_any_sequence_adds_up(tmp_path_factory: pytest.TempPathFactory, requests: list[tuple[str, float]]) -> None:
    ledger = Ledger.open(tmp_path_factory.mktemp("x") / "l.db", budget=BUDGET)
    limit = Fraction(ledger.filter.total)
    spent: dict[str, Fraction] = {}
    for dataset, sigma in requests:
        loss = Gaussian(sigma=sigma).loss()
        cost = Fraction(ledger.filter.price(loss).cost)
        if spent.get(dataset, Fraction(0)) + cost <= limit:
            pay(ledger, loss, dataset)
            spent[dataset] = spent.get(dataset, Fraction(0)) + cost
        else:
            with pytest.raises(BudgetExceeded):
                pay(ledger, loss, dataset)
    again = Ledger.open(ledger._store.path)
    assert {name: again.spent(name).exact for name in again.datasets} == spent
