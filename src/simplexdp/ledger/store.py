"""The SQLite file behind a ledger.

Choices that carry the promise "no release without a charge":

* Rollback journal with `synchronous=EXTRA`: a commit returns only after the data and the removal of the journal are
  on disk. There is no write-ahead log that a copy of the file could leave behind: at rest a ledger is one file.
* One `BEGIN IMMEDIATE` transaction reads what was spent and writes the charge, so no two processes can both see room
  for the last one.
* Each operation has its own connection, so threads and forks share nothing. The file is never opened by anything but
  SQLite: closing another descriptor would drop the POSIX locks of this process.
* A new ledger is built beside its place and linked into it, so an empty or half-written file is always damage.
"""

from __future__ import annotations

import os
import secrets
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ..errors import FormatError, InvalidArgument, LedgerUnavailable
from .chain import Entry, State

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
    " WHEN NEW.number <> (SELECT count(*) FROM entries) BEGIN SELECT RAISE(ABORT, 'a ledger is append-only'); END",
    "CREATE TRIGGER head_moves_on BEFORE UPDATE ON head WHEN NEW.count <> OLD.count + 1 BEGIN"
    " SELECT RAISE(ABORT, 'a ledger is append-only'); END",
    "CREATE TRIGGER head_is_not_removed BEFORE DELETE ON head BEGIN"
    " SELECT RAISE(ABORT, 'a ledger is append-only'); END",
)


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
            _sync_folder(self.path.parent)
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


def advance(connection: sqlite3.Connection, state: State) -> list[Entry]:
    """Check the entries after those the state has seen, and that those it has seen are still there."""
    if state.count:
        row = connection.execute("SELECT hash FROM entries WHERE number = ?", (state.count - 1,)).fetchone()
        if row != (state.head,):
            raise FormatError("the ledger was cut or changed since it was read")
    rows = connection.execute(
        "SELECT number, kind, body, previous, hash FROM entries WHERE number >= ? OR number < 0 ORDER BY number",
        (state.count,),
    )
    entries = [state.take(number, kind, text, previous, digest) for number, kind, text, previous, digest in rows]
    head = connection.execute("SELECT count, hash FROM head").fetchall()
    if head != [(state.count, state.head)] or state.terms is None:
        raise FormatError("the ledger does not end where its head says: entries were removed or added by hand")
    return entries


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
    if found != [(statement,) for statement in _SCHEMA]:
        raise FormatError("the tables or triggers of the ledger were changed")


def _sync_folder(folder: Path) -> None:
    if os.name != "posix":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
