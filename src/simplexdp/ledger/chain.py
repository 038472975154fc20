"""The entries of a ledger as a hash chain, and the SQLite file that holds it.

An entry's hash covers its number, its kind, the hash of the entry before and its body, so an entry that is changed,
moved or removed breaks every hash after it.

Choices of the file that carry the promise "no release without a charge":

* Rollback journal with `synchronous=EXTRA`: a commit returns only after the data and the removal of the journal are
  on disk. There is no write-ahead log that a copy of the file could leave behind: at rest a ledger is one file.
* One `BEGIN IMMEDIATE` transaction reads what was spent and writes the charge, so no two processes can both see room
  for the last one.
* Each operation has its own connection, so threads and forks share nothing. The file is never opened by anything but
  SQLite: closing another descriptor would drop the POSIX locks of this process.
* A new ledger is built beside its place and linked into it, so an empty or half-written file is always damage.
"""

from __future__ import annotations

import copy
import hashlib
import json
import math
import os
import secrets
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path
from typing import Any, Literal, get_args

from ..accounting.filters import Filter, GaussianFilter, RenyiFilter, converts, covers
from ..budget import Budget, Neighbours, UnitKind, check_neighbours
from ..errors import FormatError, InvalidArgument, LedgerUnavailable, SimplexDPError
from .registry import MAX_NAME, MAX_TEXT, Registration, check_hash, check_text
from .requests import KEYS as _REQUESTS
from .requests import Requests

FORMAT = 2
"""What new ledgers are written in. Those of format 1 are read and go on, with their Rényi filter or converted."""
_UNITS = get_args(UnitKind)
START = "0" * 64
"""What stands for the hash before the first entry."""

_DECODER = json.JSONDecoder()
_ENCODER = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
Kind = Literal["open", "register", "charge", "seal", "failure", "reopen", "convert", "request", "decision"]
_SAID = {"actor", "time"}
_OPENING = {"format", "epsilon", "delta", "order", "neighbours", "datasets"} | _SAID
_OPENINGS = {1: _OPENING | {"filter_order", "limit"}, 2: _OPENING | {"filter_order", "total", "slack"}}
_CHARGE = {"dataset", "unit", "description", "request"} | _SAID
_CHARGES = {1: _CHARGE | {"epsilon"}, 2: _CHARGE | {"cost", "slack", "at", "loss"}}
_KEYS = {
    "seal": {"charge", "release", "time"},
    "register": {"dataset", "about", "place", "state", "parts", "schema", "records", "person"} | _SAID,
    "failure": {"charge", "reason", "time"},
    "reopen": {"dataset", "reason"} | _SAID,
    "convert": {"total", "slack", "totals"} | _SAID,
    **_REQUESTS,
}


def fingerprint(value: object) -> str:
    """SHA-256 of a value in canonical JSON: sorted keys, no spaces; for requests and releases.

    >>> fingerprint({"b": 1, "a": [2]}) == fingerprint({"a": [2], "b": 1})
    True
    """
    return hashlib.sha256(canonical(value).encode("ascii")).hexdigest()


def canonical(value: object) -> str:
    """One spelling of a JSON value."""
    return _ENCODER.encode(value)


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One row: its number from 0, its kind, its body and the two hashes."""

    number: int
    kind: Kind
    body: Mapping[str, Any]
    previous: str
    hash: str

    @classmethod
    def after(cls, number: int, previous: str, kind: Kind, body: Mapping[str, Any]) -> Entry:
        """The next entry of a chain whose last hash is `previous`."""
        return cls(
            number=number, kind=kind, body=body, previous=previous, hash=_hash(number, kind, previous, canonical(body))
        )

    @property
    def text(self) -> str:
        """The body as it is stored and hashed."""
        return canonical(self.body)

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {
            "number": self.number,
            "kind": self.kind,
            **self.body,
            "previous": self.previous,
            "hash": self.hash,
        }


def _hash(number: int, kind: str, previous: str, text: str) -> str:
    return hashlib.sha256(f"{number}\n{kind}\n{previous}\n{text}".encode()).hexdigest()


@dataclass(frozen=True, kw_only=True)
class Opening:
    """What is fixed when a ledger is opened: the budget of each data set and the filter that guards it."""

    budget: Budget
    filter: Filter
    neighbours: Neighbours
    datasets: tuple[str, ...] | None = None
    format: int = FORMAT

    def body(self, actor: str, time: str) -> dict[str, Any]:
        """The body of the first entry. Its floats are binary fractions, which are added up exactly."""
        return {
            "format": FORMAT,
            "epsilon": self.budget.epsilon,
            "delta": self.budget.delta,
            "order": self.budget.order,
            "filter_order": self.filter.order if isinstance(self.filter, RenyiFilter) else None,
            "total": self.filter.total,
            "slack": self.filter.slack,
            "neighbours": self.neighbours,
            "datasets": None if self.datasets is None else list(self.datasets),
            "actor": actor,
            "time": time,
        }

    @classmethod
    def from_body(cls, body: Mapping[str, Any]) -> Opening:
        """The terms that a first entry states."""
        version = body.get("format")
        if type(version) is not int or version not in _OPENINGS:
            raise FormatError(f"the ledger has format {version!r}, this version reads 1 and {FORMAT}")
        if body.keys() != _OPENINGS[version]:
            raise FormatError("the first entry of the ledger is not of a known format")
        datasets = body["datasets"]
        if datasets is not None:
            if not isinstance(datasets, list) or not datasets:
                raise InvalidArgument("datasets", "a list of names")
            datasets = tuple(check_text("datasets", name, MAX_NAME) for name in datasets)
        budget = Budget(epsilon=body["epsilon"], delta=body["delta"], order=body["order"])
        order, total = body["filter_order"], _amount(body["limit" if version == 1 else "total"])
        found: Filter
        if order is None and version > 1 and budget.order is None:
            found = GaussianFilter(total=total, slack=_amount(body["slack"]))
        else:
            found = RenyiFilter(order=_amount(order, least=1.0), total=total)
        if version > 1 and not covers(found, budget):
            raise FormatError("the filter of the ledger admits more than its budget")
        return cls(
            budget=budget,
            filter=found,
            neighbours=check_neighbours(body["neighbours"]),
            datasets=datasets,
            format=version,
        )


def _amount(value: object, least: float = 0.0) -> float:
    if not isinstance(value, float) or not (math.isfinite(value) and value >= least):
        raise InvalidArgument("amount", "a finite number, not below 0")
    return value


_QUANTA = 1 << 1074
"""Quanta in 1: each finite double is a whole number of them."""


def _quanta(value: float) -> int:
    numerator, denominator = value.as_integer_ratio()
    return numerator << (1075 - denominator.bit_length())


@dataclass(kw_only=True)
class State:
    """What a chain that was checked up to its entry `count − 1` says; `take` checks one entry more."""

    count: int = 0
    head: str = START
    terms: Opening | None = None
    converted: GaussianFilter | None = None
    totals: dict[str, float] = field(default_factory=dict)
    """Limits of data sets that had spent something before the ledger was converted."""
    rest: dict[str, int] = field(default_factory=dict)
    """What data sets that were charged have left of their limits, in quanta: exact, and faster than fractions."""
    slack: dict[str, int] = field(default_factory=dict)
    """What they have spent of their slack, in quanta."""
    unsealed: dict[int, str] = field(default_factory=dict)
    units: dict[str, str] = field(default_factory=dict)
    registered: dict[str, Registration] = field(default_factory=dict)
    closed: dict[str, int] = field(default_factory=dict)
    """Data sets that a request failed on, by the entry that says so."""
    requests: Requests = field(default_factory=Requests)

    def copy(self) -> State:
        """One that can be taken further and thrown away."""
        found = copy.copy(self)
        found.__dict__.update({name: dict(value) for name, value in vars(self).items() if isinstance(value, dict)})
        found.requests = self.requests.copy()
        return found

    def take(self, number: object, kind: object, text: object, previous: object, digest: object) -> Entry:
        """Check the next stored row and add it up.

        Raises:
            FormatError: when it is not the row that belongs here; the state is then of no use.
        """
        where = f"entry {self.count} of the ledger"
        if number != self.count or previous != self.head:
            raise FormatError(f"{where} is missing or out of place")
        if not (isinstance(kind, str) and isinstance(text, str) and isinstance(digest, str)):
            raise FormatError(f"{where} is damaged")
        try:
            if _hash(self.count, kind, self.head, text) != digest:
                raise FormatError(f"{where} was changed after it was written")
            body, end = _DECODER.raw_decode(text)
            if end != len(text) or not isinstance(body, dict):
                raise FormatError(f"{where} is not of a known format")
            self._add(kind, body)
            if kind == "charge" and "key" in body:
                self.requests.charged(self.count, body, digest)
        except (SimplexDPError, ValueError, TypeError, RecursionError, OverflowError) as error:
            if isinstance(error, FormatError):
                raise
            raise FormatError(f"{where} is damaged") from None
        entry = Entry(number=self.count, kind=kind, body=body, previous=self.head, hash=digest)  # type: ignore[arg-type]
        self.count, self.head = self.count + 1, digest
        return entry

    def _add(self, kind: str, body: Mapping[str, Any]) -> None:
        if (kind == "open") != (self.count == 0):
            raise FormatError("a ledger is opened by its first entry and by no other")
        known = _CHARGES[self.format] if kind == "charge" else _KEYS.get(kind)
        if kind == "open":
            self.terms = Opening.from_body(body)
            check_text("actor", body["actor"], MAX_NAME, empty=True)
        elif known is None or body.keys() - ({"key"} if kind == "charge" else set()) != known:
            raise FormatError(f"entry {self.count} of the ledger is not of a known format")
        check_text("time", body["time"], MAX_NAME)
        if kind == "charge":
            self._charge(body)
        elif kind == "seal":
            check_hash("release", body["release"])
            if type(body["charge"]) is not int or self.unsealed.pop(body["charge"], None) is None:
                raise FormatError("the ledger holds a release that no charge paid for")
            self.requests.sealed(body["charge"], body["release"])
        elif kind == "failure":
            check_text("reason", body["reason"], MAX_TEXT, empty=True)
            if type(body["charge"]) is not int or body["charge"] not in self.unsealed:
                raise FormatError("the ledger holds a failure of a request that it does not know")
            self.closed[self.unsealed[body["charge"]]] = self.count
            self.requests.failed(body["charge"])
        elif kind == "convert":
            self._convert(body)
        elif kind in _REQUESTS:
            self.requests.take(kind, self.count, body)
        elif kind != "open":
            self._about(kind, body)

    def _charge(self, body: Mapping[str, Any]) -> None:
        dataset = check_text("dataset", body["dataset"], MAX_NAME)
        check_text("description", body["description"], MAX_TEXT, empty=True)
        check_text("actor", body["actor"], MAX_NAME, empty=True)
        check_hash("request", body["request"])
        old, left = self.format == 1, self.rest.get(dataset)
        left = _quanta(self.filter_of(dataset).total) if left is None else left
        cost, slack = _quanta(_amount(body["epsilon" if old else "cost"])), 0.0
        if not old:
            slack, at = _amount(body["slack"]), body["at"]
            if body["loss"] is not None and not isinstance(body["loss"], list):
                raise FormatError("a loss in the ledger is damaged")
            if at is not None and _quanta(_amount(at)) > left:
                raise FormatError("the ledger holds a charge at a price that did not hold")
        if cost > left or not self.knows(dataset):
            raise FormatError("the ledger holds a charge that it could not have admitted")
        if slack:
            self.slack[dataset] = spent = self.slack.get(dataset, 0) + _quanta(slack)
            if spent > _quanta(self.filter.slack):
                raise FormatError("the ledger holds a charge that it could not have admitted")
        if body["unit"] not in _UNITS or self.units.setdefault(dataset, body["unit"]) != body["unit"]:
            raise FormatError("the ledger adds up guarantees for rows and for persons")
        self.rest[dataset] = left - cost
        self.unsealed[self.count] = dataset

    def _about(self, kind: str, body: Mapping[str, Any]) -> None:
        dataset = check_text("dataset", body["dataset"], MAX_NAME)
        check_text("actor", body["actor"], MAX_NAME, empty=True)
        if not self.knows(dataset):
            raise FormatError("the ledger speaks of a data set that it was not started with")
        if kind == "register":
            self.registered[dataset] = Registration.from_body(body)
        else:
            check_text("reason", body["reason"], MAX_TEXT, empty=True)
            if self.closed.pop(dataset, None) is None:
                raise FormatError("the ledger opens a data set that is not closed")

    def _convert(self, body: Mapping[str, Any]) -> None:
        """From here on a Gaussian filter guards what a Rényi filter has left; once."""
        terms, old = self.terms, self.filter
        assert terms is not None
        if not isinstance(old, RenyiFilter) or terms.budget.order is not None:
            raise FormatError("the ledger was converted, and could not be")
        new = GaussianFilter(total=_amount(body["total"]), slack=_amount(body["slack"]))
        totals, spent = body["totals"], self.spent
        if not covers(new, terms.budget) or not isinstance(totals, dict) or totals.keys() != spent.keys():
            raise FormatError("the ledger was converted to more than its budget")
        for dataset, total in totals.items():
            if _amount(total) and not converts(terms.budget, old.order, spent[dataset], new.slack, total):
                raise FormatError("the ledger was converted to more than was left")
        self.converted, self.totals = new, {dataset: total for dataset, total in totals.items() if total}
        self.rest = {dataset: _quanta(total) for dataset, total in totals.items()}

    @property
    def format(self) -> int:
        """The format of the next entry."""
        assert self.terms is not None
        return FORMAT if self.converted is not None else self.terms.format

    @property
    def filter(self) -> Filter:
        """What guards a data set that has spent nothing."""
        assert self.terms is not None
        return self.converted or self.terms.filter

    def filter_of(self, dataset: str) -> Filter:
        """What guards a data set."""
        total = self.totals.get(dataset)
        return self.filter if total is None else replace(self.filter, total=total)

    def left(self, dataset: str) -> Fraction:
        """What a data set may still spend of its limit."""
        rest = self.rest.get(dataset)
        return Fraction(self.filter_of(dataset).total) if rest is None else Fraction(rest, _QUANTA)

    @property
    def spent(self) -> dict[str, Fraction]:
        """What data sets have spent of their limits."""
        return {dataset: Fraction(self.filter_of(dataset).total) - self.left(dataset) for dataset in self.rest}

    def slack_left(self, dataset: str) -> Fraction:
        """What a data set may still spend of its slack."""
        return Fraction(self.filter.slack) - Fraction(self.slack.get(dataset, 0), _QUANTA)

    @property
    def names(self) -> tuple[str, ...]:
        """All data sets that were declared, registered or charged."""
        assert self.terms is not None
        return tuple(dict.fromkeys([*(self.terms.datasets or ()), *self.registered, *self.rest]))

    def knows(self, dataset: str) -> bool:
        """Whether the data set may be charged at all."""
        assert self.terms is not None
        return self.terms.datasets is None or dataset in self.terms.datasets


# -- the file ------------------------------------------------------------------------------------------------------

APPLICATION = 0x53445031  # "SDP1" in the header of the file
MAX_ENTRY = 1 << 20
_UNAVAILABLE = (
    sqlite3.SQLITE_BUSY,
    sqlite3.SQLITE_LOCKED,
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_READONLY,
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_PERM,
    sqlite3.SQLITE_NOMEM,
    sqlite3.SQLITE_NOLFS,
)

_SCHEMA = (
    "CREATE TABLE entries (number INTEGER PRIMARY KEY, kind TEXT NOT NULL, body TEXT NOT NULL,"
    " previous TEXT NOT NULL, hash TEXT NOT NULL) STRICT",
    "CREATE TABLE head (only INTEGER PRIMARY KEY CHECK (only = 0), count INTEGER NOT NULL, hash TEXT NOT NULL) STRICT",
    "CREATE TRIGGER entries_are_not_changed BEFORE UPDATE ON entries BEGIN"
    " SELECT RAISE(ABORT, 'a ledger is append-only'); END",
    "CREATE TRIGGER entries_are_not_removed BEFORE DELETE ON entries BEGIN"
    " SELECT RAISE(ABORT, 'a ledger is append-only'); END",
    "CREATE TRIGGER entries_are_added_at_the_end BEFORE INSERT ON entries"
    " WHEN NEW.number <> (SELECT coalesce(max(number), -1) + 1 FROM entries) BEGIN"
    " SELECT RAISE(ABORT, 'a ledger is append-only'); END",
    "CREATE TRIGGER head_moves_on BEFORE UPDATE ON head WHEN NEW.count <> OLD.count + 1 BEGIN"
    " SELECT RAISE(ABORT, 'a ledger is append-only'); END",
    "CREATE TRIGGER head_is_not_removed BEFORE DELETE ON head BEGIN"
    " SELECT RAISE(ABORT, 'a ledger is append-only'); END",
)
_OLD_SCHEMA = tuple(statement.replace("coalesce(max(number), -1) + 1", "count(*)") for statement in _SCHEMA)
"""Of files of format 1, where each charge counted all entries."""


class Store:
    """A ledger file; every method is one transaction on a connection of its own."""

    def __init__(self, path: Path, timeout: float) -> None:
        self.path, self.timeout = path, timeout

    def create(self, first: Entry) -> bool:
        """Make a new file with its first entry; False when there is a file already, which is left alone."""
        if self.path.exists():
            return False
        beside = self.path.with_name(f".{self.path.name}.{secrets.token_hex(8)}.new")
        try:
            with self._connection(beside, "rwc") as connection:
                connection.execute(f"PRAGMA application_id={APPLICATION}")
                connection.execute("BEGIN IMMEDIATE")
                for statement in _SCHEMA:
                    connection.execute(statement)
                connection.execute("INSERT INTO head VALUES (0, 0, ?)", (first.previous,))
                _append(connection, first)
                connection.execute("COMMIT")
            try:
                os.link(beside, self.path)
            except FileExistsError:
                return False
            sync_folder(self.path.parent)
        except OSError as error:
            if isinstance(error, LedgerUnavailable):
                raise
            raise LedgerUnavailable(f"the ledger cannot be created: {error.strerror}") from None
        finally:
            beside.unlink(missing_ok=True)
        return True

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """A consistent view; nothing is written."""
        with self._connection(self.path, "rw") as connection:
            connection.execute("BEGIN")
            _check_layout(connection)
            yield connection
            connection.execute("ROLLBACK")

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """The only writer from begin to commit; whatever raises inside undoes everything."""
        with self._connection(self.path, "rw") as connection:
            connection.execute("BEGIN IMMEDIATE")
            _check_layout(connection)
            yield connection
            connection.execute("COMMIT")

    @contextmanager
    def _connection(self, path: Path, mode: str) -> Iterator[sqlite3.Connection]:
        if mode == "rw" and not path.is_file():
            raise InvalidArgument("path", "an existing ledger", hint="Give budget= (or `ledger create`) to start one.")
        try:
            uri = f"{path.as_uri()}?mode={mode}"
            connection = sqlite3.connect(uri, uri=True, timeout=self.timeout, isolation_level=None)
            try:
                connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MAX_ENTRY)
                connection.execute("PRAGMA trusted_schema=OFF")
                connection.execute("PRAGMA cell_size_check=ON")
                connection.execute("PRAGMA synchronous=EXTRA")
                if connection.execute("PRAGMA journal_mode").fetchone() != ("delete",):
                    raise FormatError("the ledger was switched to another journal than its own")
                yield connection
            finally:
                connection.close()  # rolls back what was not committed
        except sqlite3.Error as error:
            code = getattr(error, "sqlite_errorcode", None)
            if isinstance(code, int) and (code & 0xFF) in _UNAVAILABLE:
                # The text of SQLite names no value: "database is locked", "database or disk is full", ...
                raise LedgerUnavailable(f"the ledger cannot be used now: {error}. Nothing more was recorded.") from None
            raise FormatError("the ledger is damaged or is no ledger") from None
        except (UnicodeError, MemoryError):
            raise FormatError("the ledger is damaged or is no ledger") from None


def advance(connection: sqlite3.Connection, state: State) -> None:
    """Check the entries after those the state has seen, and that those it has seen are still there."""
    for _ in walk(connection, state):
        pass


def walk(connection: sqlite3.Connection, state: State) -> Iterator[Entry]:
    """The same, with each entry when it is checked; that nothing is gone is known at the end."""
    if state.count:
        row = connection.execute("SELECT hash FROM entries WHERE number = ?", (state.count - 1,)).fetchone()
        if row != (state.head,):
            raise FormatError("the ledger was cut or changed since it was read")
    rows = connection.execute(
        "SELECT number, kind, body, previous, hash FROM entries WHERE number >= ? ORDER BY number",
        (state.count,),
    )
    for row in rows:
        yield state.take(*row)
    head = connection.execute("SELECT count, hash FROM head").fetchall()
    first = connection.execute("SELECT min(number) FROM entries").fetchall()
    if head != [(state.count, state.head)] or first != [(0,)] or state.terms is None:
        raise FormatError("the ledger does not end where its head says: entries were removed or added by hand")


def check_pages(connection: sqlite3.Connection) -> None:
    """SQLite's own check of the whole file."""
    if connection.execute("PRAGMA integrity_check(1)").fetchone() != ("ok",):
        raise FormatError("the ledger is damaged")


def append(connection: sqlite3.Connection, state: State, entry: Entry) -> None:
    """Write the next entry and let the state take it, so that nothing is written which could not be read back."""
    state.take(entry.number, entry.kind, entry.text, entry.previous, entry.hash)
    _append(connection, entry)


def _append(connection: sqlite3.Connection, entry: Entry) -> None:
    connection.execute(
        "INSERT INTO entries VALUES (?, ?, ?, ?, ?)",
        (entry.number, entry.kind, entry.text, entry.previous, entry.hash),
    )
    connection.execute("UPDATE head SET count = ?, hash = ?", (entry.number + 1, entry.hash))


def _check_layout(connection: sqlite3.Connection) -> None:
    """Exactly our tables and triggers: a dropped trigger or a planted view is damage."""
    if connection.execute("PRAGMA application_id").fetchone() != (APPLICATION,):
        raise FormatError("the file is no ledger of simplexdp, or its header was changed")
    found = connection.execute("SELECT sql FROM sqlite_master ORDER BY rowid").fetchall()
    if found not in ([(statement,) for statement in schema] for schema in (_SCHEMA, _OLD_SCHEMA)):
        raise FormatError("the tables or triggers of the ledger were changed")


def sync_folder(folder: Path) -> None:
    """Return when new and renamed files of a folder are on disk."""
    if os.name != "posix":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
