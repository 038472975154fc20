"""Two roles on one ledger: analysts ask, the officer approves before the charge."""

from __future__ import annotations

from pathlib import Path

import pytest
from studios import browsing, errors, make

from simplexdp import Budget, Gaussian, Ledger
from simplexdp.errors import FormatError, InvalidArgument, PrivacyError
from simplexdp.ledger import Queue, fingerprint
from simplexdp.ledger.chain import Entry, State

KEY, OTHER = "ab" * 32, "cd" * 32
LOSS = Gaussian(sigma=50.0).loss()


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger.open(tmp_path / "ledger.db", budget=Budget(epsilon=1, delta=1e-6))


def charge(ledger: Ledger, key: str, dataset: str = "clinic") -> object:
    return ledger.charge(LOSS, dataset=dataset, description="q", request_hash=fingerprint("q"), key=key)


@pytest.mark.slow
def test_an_analyst_asks_and_the_officer_approves(tmp_path: Path) -> None:
    folder = make(tmp_path / "shared")
    with browsing(folder) as officer, browsing(folder, "analyst") as analyst:
        place = analyst.planned()
        found = analyst.spend(place)
        assert found.status_code == 422  # there is no ledger yet, and an analyst does not start one
        started = officer.planned()
        officer.spend(started)
        officer.finish(started)
        analyst.goes(f"{place}/unit", {"unit": "row"})
        assert analyst.spend(place).status_code == 303
        assert "waits for the officer" in analyst.get(place).text
        for deed in ("decide", "resume", "cancel"):
            assert analyst.post(f"{place}/{deed}", {"decision": "approve"}).status_code == 403
        assert analyst.post("/ledger/reopen", {"dataset": "clinic"}).status_code == 403
        ledger = Ledger.open(folder / "ledger.db")
        before = ledger.spent("clinic").exact
        assert "Waiting for your decision" in officer.get("/ledger").text
        assert "Waiting for the officer" in analyst.get("/ledger").text
        page = officer.get(place).text
        assert "Published: the joint distribution of smoker and ill" in page
        assert ledger.spent("clinic").exact == before
        officer.goes(f"{place}/decide", {"decision": "approve", "reason": "for the yearly report"})
        assert "PRIVATE" in officer.finish(place)
        assert "PRIVATE" in analyst.get(place).text
        refused = analyst.planned()
        analyst.spend(refused)
        officer.goes(f"{refused}/decide", {"decision": "refuse", "reason": "not again"})
        assert "not again" in analyst.get(refused).text
        officer.goes(f"{refused}/resume")
        after = ledger.spent("clinic").exact
        assert officer.get(refused).status_code == 200
    assert after > before
    assert [asked.status for asked in Queue(ledger)] == ["sealed", "sealed", "refused"]
    assert ledger.verify().unsealed == ()


@pytest.mark.slow
def test_the_officer_sees_a_source_that_is_not_registered_before_it_is_read(tmp_path: Path) -> None:
    folder = make(tmp_path / "shared")
    with browsing(folder) as officer, browsing(folder, "analyst") as analyst:
        started = officer.planned()
        officer.spend(started)
        officer.finish(started)
        (folder / "other.csv").write_bytes((folder / "clinic.csv").read_bytes())
        (folder / "other.schema.yaml").write_bytes((folder / "clinic.schema.yaml").read_bytes())
        place = analyst.planned(file="other.csv")
        analyst.spend(place)
        page = officer.get(place).text
        assert "is not registered" in page
        officer.goes(f"{place}/decide", {"decision": "approve"})
        assert "is not registered" in errors(officer.finish(place))[0]
        ledger = Ledger.open(folder / "ledger.db")
        assert ledger.registration("other") is None
        assert ledger.spent("other").exact == 0


def test_a_key_is_charged_once_and_only_when_it_may_be(ledger: Ledger) -> None:
    queue = Queue(ledger)
    with pytest.raises(InvalidArgument, match="request in the queue"):
        charge(ledger, KEY)
    queue.ask(KEY, dataset="clinic", description="q", spec={"a": 1}, approval=True)
    assert queue.ask(KEY, dataset="clinic", description="q", spec={"a": 1}, approval=True).number == 1
    with pytest.raises(InvalidArgument, match="one request"):
        queue.ask(KEY, dataset="clinic", description="q", spec={"a": 2}, approval=True)
    with pytest.raises(PrivacyError, match="has not approved"):
        charge(ledger, KEY)
    queue.decide(KEY, approved=True)
    with pytest.raises(InvalidArgument):
        queue.decide(KEY, approved=False)
    with pytest.raises(PrivacyError, match="is about data set"):
        charge(ledger, KEY, "school")
    charge(ledger, KEY)
    with pytest.raises(PrivacyError, match="charged already"):
        charge(ledger, KEY)
    queue.ask(OTHER, dataset="clinic", description="q", spec={}, approval=True)
    queue.decide(OTHER, approved=False, reason="no")
    with pytest.raises(PrivacyError, match="has refused"):
        charge(ledger, OTHER)
    assert [asked.status for asked in queue] == ["charged", "refused"]
    assert Ledger.open(ledger.path).verify().entries == 6
    assert [asked.status for asked in Queue(Ledger.open(ledger.path))] == ["charged", "refused"]


def test_what_was_paid_is_found_again_for_the_same_design_alone(ledger: Ledger) -> None:
    queue = Queue(ledger)
    queue.ask(KEY, dataset="clinic", description="q", spec={})
    said = {"dataset": "clinic", "request_hash": fingerprint("q")}
    assert queue.paid(KEY, LOSS, **said) is None
    first = charge(ledger, KEY)
    assert queue.paid(KEY, LOSS, **said) == first
    for loss, other in (
        (Gaussian(sigma=49.0).loss(), {}),
        (LOSS, {"request_hash": fingerprint("p")}),
        (LOSS, {"dataset": "x"}),
    ):
        with pytest.raises(PrivacyError, match="another design"):
            queue.paid(KEY, loss, **{**said, **other})
    found = queue.paid(KEY, LOSS, **said)
    assert found is not None
    found.seal(fingerprint("r"))
    with pytest.raises(PrivacyError, match="drawn already"):
        queue.paid(KEY, LOSS, **said)


def test_a_charge_that_nobody_approved_is_damage(ledger: Ledger) -> None:
    """Entries with right hashes that a careless program could write: the chain itself refuses them."""
    queue = Queue(ledger)
    queue.ask(KEY, dataset="clinic", description="q", spec={}, approval=True)
    queue.decide(KEY, approved=True)
    charge(ledger, KEY)
    entries = ledger.entries()

    def replayed(*kept: Entry) -> None:
        state = State()
        for entry in kept:
            moved = Entry.after(state.count, state.head, entry.kind, entry.body)
            state.take(moved.number, moved.kind, moved.text, moved.previous, moved.hash)

    start, asked, decided, charged = entries
    replayed(*entries)
    for wrong in (
        (start, charged),
        (start, asked, charged),
        (start, decided),
        (start, asked, asked),
        (start, asked, decided, decided),
        (*entries, charged),
        (*entries, decided),
    ):
        with pytest.raises(FormatError, match=r"could not be charged|no request that waits|two with one key"):
            replayed(*wrong)


def test_old_files_open_and_a_ledger_without_requests_is_written_as_before(ledger: Ledger) -> None:
    ledger.charge(LOSS, dataset="clinic", description="q", request_hash=fingerprint("q"))
    (body,) = (entry.body for entry in ledger.entries() if entry.kind == "charge")
    assert "key" not in body
    assert list(Queue(Ledger.open(ledger.path))) == []
