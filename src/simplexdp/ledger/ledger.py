"""`Ledger`: a budget for each data set that any number of processes spend from, charged before the draw."""

from __future__ import annotations

import copy
import getpass
import math
import os
import sqlite3
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path
from typing import Any, get_args

from ..accounting.loss import PrivacyLoss
from ..budget import Budget, Neighbours, check_neighbours
from ..errors import BudgetExceeded, FormatError, InvalidArgument
from ..tables import Unit
from .chain import MAX_NAME, MAX_TEXT, START, Entry, Kind, State, Terms, check_hash, check_text
from .filter import Amount, cost_of, filter_for
from .store import Store, advance, append, check_pages


@dataclass(frozen=True, kw_only=True)
class Charge:
    """A receipt. Draw after you hold it, then `seal` it with the hash of what was drawn.

    `number` and `hash` are the entry in the chain: published with a release, they anchor the ledger up to here.
    A charge that is never sealed stays spent, as nobody can tell whether its draw was seen.
    """

    dataset: str
    epsilon: float
    order: float
    number: int
    hash: str
    _ledger: Ledger = field(repr=False, compare=False)

    def seal(self, release_hash: str) -> None:
        """Record what the charge paid for; once."""
        self._ledger._seal(self.number, check_hash("release_hash", release_hash))


@dataclass(frozen=True, kw_only=True)
class Verified:
    """What `verify` found: the whole chain is intact and ends at `head`."""

    entries: int
    head: str
    unsealed: tuple[int, ...]

    @property
    def anchor(self) -> str:
        """The head as text to keep elsewhere: `verify(anchor=...)` later proves that nothing before it is gone."""
        return f"{self.entries - 1}:{self.head}"


class Ledger:
    """The budget of each data set, append-only, in one SQLite file.

    >>> import tempfile
    >>> from simplexdp import Gaussian
    >>> from simplexdp.ledger import fingerprint
    >>> path = Path(tempfile.mkdtemp()) / "ledger.db"
    >>> ledger = Ledger.open(path, budget=Budget(epsilon=1.0, delta=1e-5))
    >>> loss = Gaussian(sigma=20.0).loss()
    >>> charge = ledger.charge(loss, dataset="clinic", description="age by sex", request_hash=fingerprint("q1"))
    >>> charge.seal(fingerprint([1, 2, 3]))
    >>> ledger.remaining("clinic").times(loss)
    11
    """

    def __init__(self, store: Store, actor: str) -> None:
        self._store, self._actor = store, actor
        self._state = State()
        self._lock = threading.Lock()

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        *,
        budget: Budget | None = None,
        neighbours: Neighbours | None = None,
        order: float | None = None,
        datasets: Sequence[str] | None = None,
        actor: str | None = None,
        timeout: float = 60.0,
    ) -> Ledger:
        """Open a ledger and check all of it, or start one if `budget` is given and there is no file.

        Args:
            path: the file; a lock on it must work, so a local disk rather than a network share.
            budget: what each data set may spend. For an existing ledger it must be the one it was started with.
            neighbours: the relation of every loss; `replace-one` for a new ledger unless given.
            order: the order of the filter; the best one for the budget unless given.
            datasets: the only names that may be charged, so that a misspelt name has no budget; any name if None.
            actor: who is charged, for the record; the login name by default.
            timeout: seconds to wait for another process that is writing.

        Raises:
            FormatError: the file is damaged, was changed or cut, or is no ledger.
            LedgerUnavailable: the file cannot be read or written now.
        """
        ledger = cls(Store(_path(path), timeout), _actor(actor))
        if budget is not None:
            if not isinstance(budget, Budget):
                raise InvalidArgument("budget", "a Budget", got=type(budget).__name__)
            filter_order, limit = filter_for(budget, order)
            names = None if datasets is None else tuple(check_text("datasets", name, MAX_NAME) for name in datasets)
            if names == () or isinstance(datasets, str):
                raise InvalidArgument("datasets", "one or more names, or None for any")
            terms = Terms(
                budget=budget,
                order=filter_order,
                limit=limit,
                neighbours=check_neighbours(neighbours or "replace-one"),
                datasets=names,
            )
            ledger._store.create(Entry.after(0, START, "open", terms.body(ledger._actor, _now())))
        ledger.verify()
        ledger._check_terms(budget, neighbours, order, datasets)
        return ledger

    def _check_terms(
        self, budget: Budget | None, neighbours: str | None, order: float | None, datasets: Sequence[str] | None
    ) -> None:
        terms, hint = self.terms, "What a ledger was started with cannot be changed; leave the argument out to use it."
        if budget is not None and budget != terms.budget:
            raise InvalidArgument("budget", f"that of the ledger, {terms.budget}", got=budget, hint=hint)
        if neighbours is not None and neighbours != terms.neighbours:
            raise InvalidArgument("neighbours", f"that of the ledger, {terms.neighbours!r}", got=neighbours, hint=hint)
        if order is not None and order != terms.order:
            raise InvalidArgument("order", f"that of the ledger, {terms.order:g}", got=order, hint=hint)
        if datasets is not None and tuple(datasets) != terms.datasets:
            raise InvalidArgument("datasets", "those of the ledger", hint=hint)

    # -- spending ------------------------------------------------------------------------------------------------

    def charge(
        self, loss: PrivacyLoss, *, dataset: str, description: str, request_hash: str, unit: Unit = "row"
    ) -> Charge:
        """Pay for a release in one transaction, before anything is drawn.

        When this returns, the charge is on disk. When it raises, draw nothing.

        Args:
            loss: the price; for a set of releases their sum.
            dataset: whose budget pays.
            description: what for, in words that are public.
            request_hash: `fingerprint` of the request.
            unit: whose loss it is; the first charge of a data set decides, since losses of rows and of persons do not
                add up.

        Raises:
            BudgetExceeded: with what is left; nothing was charged.
        """
        check_text("dataset", dataset, MAX_NAME)
        check_text("description", description, MAX_TEXT, empty=True)
        check_hash("request_hash", request_hash)
        terms = self.terms
        cost = cost_of(loss, terms.order, terms.neighbours)
        with self._lock:
            state = copy.deepcopy(self._state)  # kept only if the transaction is
            with self._store.writing() as connection:
                advance(connection, state)
                self._admit(state, dataset, cost, unit)
                entry = self._append(
                    connection,
                    state,
                    "charge",
                    {
                        "dataset": dataset,
                        "epsilon": cost,
                        "unit": unit,
                        "description": description,
                        "request": request_hash,
                        "actor": self._actor,
                        "time": _now(),
                    },
                )
            self._state = state
        return Charge(
            dataset=dataset, epsilon=cost, order=terms.order, number=entry.number, hash=entry.hash, _ledger=self
        )

    @staticmethod
    def _admit(state: State, dataset: str, cost: float, unit: Unit) -> None:
        terms = state.terms
        assert terms is not None
        known = state.units.get(dataset, unit)
        if unit not in get_args(Unit) or unit != known:
            raise InvalidArgument(
                "unit",
                f"{known!r}, the unit of what data set {dataset!r} was charged for before",
                got=unit,
                hint="Losses of rows and of persons do not add up; keep a ledger for each.",
            )
        if not state.knows(dataset):
            raise InvalidArgument("dataset", "one of the names the ledger was started with", got=dataset)
        left = Fraction(terms.limit) - state.spent.get(dataset, Fraction(0))
        if math.isinf(cost):
            raise BudgetExceeded(
                f"the request has no finite Rényi divergence at order {terms.order:g}, the order of the ledger. Take "
                f"a larger alpha for its r, or calibrate it to the Rényi budget of `remaining({dataset!r}).budget`.",
                left=float(left),
                requested=cost,
            )
        if Fraction(cost) > left:
            raise BudgetExceeded(
                f"data set {dataset!r} has ε = {float(left):.6g} left at Rényi order {terms.order:g}, the request "
                f"costs {cost:.6g}. Nothing was charged. Calibrate to `remaining({dataset!r}).budget` or less.",
                left=float(left),
                requested=cost,
            )

    def _seal(self, number: int, release_hash: str) -> None:
        with self._lock:
            state = copy.deepcopy(self._state)
            with self._store.writing() as connection:
                advance(connection, state)
                if number not in state.unsealed:
                    raise InvalidArgument("charge", "sealed once", hint="Each release needs a charge of its own.")
                self._append(connection, state, "seal", {"charge": number, "release": release_hash, "time": _now()})
            self._state = state

    @staticmethod
    def _append(connection: sqlite3.Connection, state: State, kind: Kind, body: Mapping[str, Any]) -> Entry:
        entry = Entry.after(state.count, state.head, kind, body)
        append(connection, state, entry)
        return entry

    # -- reading -------------------------------------------------------------------------------------------------

    @property
    def terms(self) -> Terms:
        """What was fixed when the ledger was started: budget, order, limit, relation and names."""
        assert self._state.terms is not None
        return self._state.terms

    @property
    def order(self) -> float:
        """The Rényi order at which every charge is made."""
        return self.terms.order

    @property
    def datasets(self) -> tuple[str, ...]:
        """The data sets that were declared or charged."""
        state = self._refresh()
        return tuple(dict.fromkeys([*(self.terms.datasets or ()), *state.spent]))

    def spent(self, dataset: str) -> Amount:
        """What the data set has spent, charges without a release included."""
        return self._amount(self._refresh().spent.get(check_text("dataset", dataset, MAX_NAME), Fraction(0)))

    def remaining(self, dataset: str) -> Amount:
        """What the data set has left: `.rdp` at `.order`, `.epsilon()` at δ, `.times(loss)`, `.budget`."""
        state = self._refresh()
        if not state.knows(check_text("dataset", dataset, MAX_NAME)):
            return self._amount(Fraction(0))
        return self._amount(Fraction(self.terms.limit) - state.spent.get(dataset, Fraction(0)))

    def entries(self) -> list[Entry]:
        """All entries, checked again from the first."""
        with self._store.reading() as connection:
            return advance(connection, State())

    def paid_for(self, release_hash: str) -> Entry | None:
        """The charge that paid for what has this hash, None if the ledger knows of none.

        For a file of this library the hash is its `sha256`.
        """
        check_hash("release_hash", release_hash)
        entries = self.entries()
        seals = (entry.body for entry in entries if entry.kind == "seal")
        return next((entries[body["charge"]] for body in seals if body["release"] == release_hash), None)

    def verify(self, *, anchor: str | None = None) -> Verified:
        """Check the whole file: pages, tables, every hash, every sum, and that it ends where its head says.

        Args:
            anchor: `number:hash` of an entry noted earlier (`Verified.anchor`, or number and hash of a charge in a
                certificate). Without one, a file that was replaced by an older intact copy of itself, or rewritten as
                a whole, cannot be told from the true one; with one, it can, up to that entry.

        Raises:
            FormatError: naming the first entry that is wrong.
        """
        state = State()
        with self._store.reading() as connection:
            check_pages(connection)
            entries = advance(connection, state)
        if anchor is not None:
            number, digest = _parse_anchor(anchor)
            if number >= len(entries) or entries[number].hash != digest:
                raise FormatError("the ledger does not hold the entry of the anchor: it was cut, replaced or rewritten")
        with self._lock:
            known = self._state
            if known.count and (state.count < known.count or entries[known.count - 1].hash != known.head):
                raise FormatError("the ledger was cut or replaced since it was opened")
            self._state = state
        return Verified(entries=state.count, head=state.head, unsealed=tuple(state.unsealed))

    def _refresh(self) -> State:
        with self._lock:
            state = copy.deepcopy(self._state)
            with self._store.reading() as connection:
                advance(connection, state)
            self._state = state
            return state

    def _amount(self, exact: Fraction) -> Amount:
        terms = self.terms
        return Amount(order=terms.order, exact=exact, delta=terms.budget.delta, neighbours=terms.neighbours)

    def __getstate__(self) -> dict[str, object]:
        return {key: value for key, value in self.__dict__.items() if key != "_lock"}

    def __setstate__(self, state: dict[str, object]) -> None:
        self.__dict__.update(state, _lock=threading.Lock())

    def __repr__(self) -> str:
        return f"Ledger({str(self._store.path)!r}, {self.terms.budget}, order={self.terms.order:g})"


def _path(path: str | os.PathLike[str]) -> Path:
    try:
        found = Path(path).resolve()
        found.exists()
    except (OSError, ValueError, TypeError, RuntimeError):  # too long, a zero byte, a loop of links, no path at all
        raise InvalidArgument("path", "a path that the file system can hold") from None
    return found


def _parse_anchor(anchor: str) -> tuple[int, str]:
    number, _, digest = str(anchor).partition(":")
    if not (number.isascii() and number.isdecimal() and len(number) < 16):
        raise InvalidArgument("anchor", "number:hash, as `verify` gives it")
    return int(number), check_hash("anchor", digest)


def _actor(actor: str | None) -> str:
    if actor is None:
        try:
            actor = getpass.getuser()
        except (OSError, KeyError, ImportError):  # a process without a login, as in some containers
            actor = ""
    return check_text("actor", actor, MAX_NAME, empty=True)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
