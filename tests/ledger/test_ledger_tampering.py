"""A ledger that was changed, reordered or cut is refused, and the docs' limits of that are true."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from simplexdp import Budget, Gaussian
from simplexdp.errors import FormatError, InvalidArgument
from simplexdp.ledger import Ledger, fingerprint
from simplexdp.ledger.chain import _QUANTA, START, Entry, State, _hash, _quanta

LOSS = Gaussian(sigma=20.0).loss()


@pytest.fixture(scope="module")
def intact(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("ledger") / "ledger.db"
    ledger = Ledger.open(path, budget=Budget(epsilon=1.0, delta=1e-5))
    for number in range(4):
        charge = ledger.charge(LOSS, dataset="clinic", description=str(number), request_hash=fingerprint(number))
        charge.seal(fingerprint(["release", number]))
    return path


@pytest.fixture
def path(intact: Path, tmp_path: Path) -> Path:
    return Path(shutil.copy(intact, tmp_path / "ledger.db"))


def triggers(connection: sqlite3.Connection) -> list[tuple[str, str]]:
    return connection.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger' ORDER BY rowid").fetchall()


def by_hand(path: Path, change: Callable[[sqlite3.Connection], object], *, restore: bool = True) -> None:
    """What somebody who knows SQLite does: drop the triggers, change, put the triggers back."""
    connection = sqlite3.connect(path, isolation_level=None)
    kept = triggers(connection)
    for name, _ in kept:
        connection.execute(f"DROP TRIGGER {name}")
    change(connection)
    if restore:
        for _, sql in kept:
            connection.execute(sql)
    connection.close()


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE entries SET body = body WHERE number = 1",
        "DELETE FROM entries WHERE number = 8",
        "DELETE FROM entries",
        "INSERT INTO entries VALUES (20, 'seal', '{}', '', '')",
        "INSERT OR REPLACE INTO entries VALUES (8, 'seal', '{}', '', '')",
        "UPDATE head SET count = 3",
        "DELETE FROM head",
    ],
)
def test_the_triggers_forbid_it(path: Path, statement: str) -> None:
    connection = sqlite3.connect(path, isolation_level=None)
    with pytest.raises(sqlite3.IntegrityError, match="append-only"):
        connection.execute(statement)
    connection.close()
    assert Ledger.open(path).verify().entries == 9


@pytest.mark.parametrize(
    "statement",
    [
        """UPDATE entries SET body = replace(body, '"clinic"', '"school"') WHERE number = 3""",
        "UPDATE entries SET body = replace(body, '0', '1') WHERE number = 0",
        "UPDATE entries SET kind = 'seal' WHERE number = 3",
        "UPDATE entries SET number = CASE number WHEN 3 THEN -5 ELSE number END",
        "UPDATE entries SET hash = previous WHERE number = 3",
        "UPDATE entries SET previous = hash WHERE number = 3",
        "DELETE FROM entries WHERE number = 4",
        "DELETE FROM entries WHERE number = 8",
        "DELETE FROM entries WHERE number > 0",
        "DELETE FROM entries",
        "DELETE FROM head",
        "UPDATE head SET count = 8",
        "UPDATE head SET hash = 'x'",
        "CREATE TABLE more (x)",
        "CREATE VIEW more AS SELECT 1",
        "CREATE INDEX more ON entries (kind)",
        "PRAGMA application_id = 7",
    ],
)
def test_changes_by_hand_are_found(path: Path, statement: str) -> None:
    by_hand(path, lambda connection: connection.execute(statement))
    with pytest.raises(FormatError):
        Ledger.open(path)


def test_two_entries_that_change_places_are_found(path: Path) -> None:
    def swap(connection: sqlite3.Connection) -> None:
        for before, after in ((1, 100), (3, 1), (100, 3)):
            connection.execute("UPDATE entries SET number = ? WHERE number = ?", (after, before))

    by_hand(path, swap)
    with pytest.raises(FormatError, match="entry 1"):
        Ledger.open(path)


def test_a_dropped_trigger_is_found(path: Path) -> None:
    by_hand(path, lambda _: None, restore=False)
    with pytest.raises(FormatError, match="triggers"):
        Ledger.open(path)


def test_a_write_ahead_log_is_refused(path: Path) -> None:
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.close()
    with pytest.raises(FormatError, match="journal"):
        Ledger.open(path)


def rewrite(path: Path, drop: int) -> None:
    """The strongest forgery: the last entries removed and the head moved back to where the rest ends."""

    def change(connection: sqlite3.Connection) -> None:
        last = connection.execute("SELECT max(number) FROM entries").fetchone()[0] - drop
        connection.execute("DELETE FROM entries WHERE number > ?", (last,))
        digest = connection.execute("SELECT hash FROM entries WHERE number = ?", (last,)).fetchone()[0]
        connection.execute("UPDATE head SET count = ?, hash = ?", (last + 1, digest))

    by_hand(path, change)


def test_an_older_intact_prefix_needs_an_anchor_to_be_found(path: Path) -> None:
    anchor = Ledger.open(path).verify().anchor
    rewrite(path, drop=2)
    ledger = Ledger.open(path)  # nothing in the file itself can tell
    assert ledger.verify().entries == 7
    with pytest.raises(FormatError, match="anchor"):
        ledger.verify(anchor=anchor)


def test_the_receipt_of_a_release_is_an_anchor(path: Path, tmp_path: Path) -> None:
    shutil.copy(path, tmp_path / "old.db")
    ledger = Ledger.open(path)
    charge = ledger.charge(LOSS, dataset="clinic", description="", request_hash=fingerprint(9))
    ledger.verify(anchor=f"{charge.number}:{charge.hash}")
    shutil.copy(tmp_path / "old.db", path)
    with pytest.raises(FormatError, match="anchor"):
        Ledger.open(path).verify(anchor=f"{charge.number}:{charge.hash}")


def test_a_process_that_holds_the_ledger_sees_an_older_copy_put_in_its_place(path: Path, tmp_path: Path) -> None:
    shutil.copy(path, tmp_path / "old.db")
    ledger = Ledger.open(path)
    ledger.charge(LOSS, dataset="clinic", description="", request_hash=fingerprint(9))
    shutil.copy(tmp_path / "old.db", path)
    with pytest.raises(FormatError):
        ledger.charge(LOSS, dataset="clinic", description="", request_hash=fingerprint(10))
    with pytest.raises(FormatError):
        ledger.verify()
    with pytest.raises(FormatError):
        ledger.spent("clinic")


@pytest.mark.parametrize("anchor", ["", "3", "x:y", "-1:" + "0" * 64, "1:" + "0" * 63, "9" * 30 + ":" + "0" * 64])
def test_an_anchor_that_is_none(path: Path, anchor: str) -> None:
    with pytest.raises(InvalidArgument):
        Ledger.open(path).verify(anchor=anchor)


FIRST = {
    "format": 1,
    "epsilon": 1.0,
    "delta": 1e-5,
    "order": None,
    "filter_order": 18.0,
    "limit": 0.5,
    "neighbours": "replace-one",
    "datasets": None,
    "actor": "",
    "time": "now",
}
CHARGE = {
    "dataset": "clinic",
    "epsilon": 0.1,
    "unit": "row",
    "description": "",
    "request": START,
    "actor": "",
    "time": "now",
}


def forged(path: Path, *bodies: tuple[str, object]) -> None:
    """A file whose hashes are right and whose content is what we say."""
    from simplexdp.ledger.chain import Store, _append

    first = Entry.after(0, START, bodies[0][0], bodies[0][1])  # type: ignore[arg-type]
    store = Store(path, 1.0)
    assert store.create(first)
    previous = first
    with store.writing() as connection:
        for kind, body in bodies[1:]:
            entry = Entry.after(previous.number + 1, previous.hash, kind, body)  # type: ignore[arg-type]
            _append(connection, entry)
            previous = entry


def test_a_forgery_that_is_right_is_accepted(tmp_path: Path) -> None:
    forged(tmp_path / "x", ("open", FIRST), ("charge", CHARGE))
    assert Ledger.open(tmp_path / "x").spent("clinic").value == 0.1


@pytest.mark.parametrize(
    "bodies",
    [
        [("charge", CHARGE)],
        [("open", {**FIRST, "format": 3})],
        [("open", {**FIRST, "format": 2})],
        [("open", {**FIRST, "epsilon": -1.0})],
        [("open", {**FIRST, "limit": 1})],
        [("open", {**FIRST, "filter_order": 0.5})],
        [("open", {**FIRST, "neighbours": "both"})],
        [("open", {**FIRST, "datasets": []})],
        [("open", {**FIRST, "datasets": [1]})],
        [("open", {**FIRST, "more": 1})],
        [("open", [1, 2])],
        [("open", FIRST), ("open", FIRST)],
        [("open", FIRST), ("refund", CHARGE)],
        [("open", FIRST), ("charge", {**CHARGE, "epsilon": 0.6})],
        [("open", FIRST), ("charge", {**CHARGE, "epsilon": -0.1})],
        [("open", FIRST), ("charge", {**CHARGE, "unit": "house"})],
        [("open", FIRST), ("charge", CHARGE), ("charge", {**CHARGE, "unit": "person"})],
        [("open", FIRST), ("charge", {**CHARGE, "epsilon": "0.1"})],
        [("open", FIRST), ("charge", {**CHARGE, "dataset": 7})],
        [("open", FIRST), ("charge", {**CHARGE, "time": "\x1b[2J"})],
        [("open", {**FIRST, "datasets": ["school"]}), ("charge", CHARGE)],
        [("open", FIRST), ("seal", {"charge": 1, "release": START, "time": "now"})],
        [("open", FIRST), ("charge", CHARGE), *[("seal", {"charge": 1, "release": START, "time": "now"})] * 2],
        [("open", FIRST), ("charge", CHARGE), ("seal", {"charge": True, "release": START, "time": "now"})],
    ],
)
def test_content_that_no_ledger_would_write_is_refused(tmp_path: Path, bodies: list[tuple[str, object]]) -> None:
    forged(tmp_path / "x", *bodies)
    with pytest.raises(FormatError):
        Ledger.open(tmp_path / "x")


@pytest.mark.parametrize("share", [0.0, 0.3, 0.5, 0.9, 0.999])
def test_a_file_cut_short_is_refused(path: Path, share: float) -> None:
    content = path.read_bytes()
    path.write_bytes(content[: int(len(content) * share)])
    with pytest.raises(FormatError):
        Ledger.open(path)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.floats(0, 1e300), min_size=1, max_size=6))
@example([5e-324, 1.0, 1e300])
def test_what_is_left_is_added_up_without_rounding(amounts: list[float]) -> None:
    assert Fraction(sum(map(_quanta, amounts)), _QUANTA) == sum(map(Fraction, amounts))


@pytest.mark.parametrize("text", ["{}", '{"":1}', '{"time":"now"}'])
def test_a_kind_that_is_not_known_is_refused_whatever_it_holds(path: Path, text: str) -> None:
    first, state = Ledger.open(path).entries()[0], State()
    state.take(0, "open", first.text, START, first.hash)
    with pytest.raises(FormatError, match="not of a known format"):
        state.take(1, "gift", text, first.hash, _hash(1, "gift", first.hash, text))


def test_a_body_with_more_behind_it_is_refused(path: Path) -> None:
    """Whoever rewrites the chain may make all hashes right; the text must still be one object and no more."""
    first = Ledger.open(path).entries()[0]
    State().take(0, "open", first.text, START, first.hash)
    for text in (first.text + " ", first.text + "{}", " " + first.text, f"[{first.text}]"):
        with pytest.raises(FormatError):
            State().take(0, "open", text, START, _hash(0, "open", START, text))
