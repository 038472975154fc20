"""`Ledger`: a budget for each data set that any number of processes spend from, charged before the draw."""

from __future__ import annotations

import getpass
import os
import sqlite3
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from ..accounting.filters import Filter, Price, RenyiFilter, converted, filter_for
from ..accounting.loss import PrivacyLoss
from ..budget import Budget, Neighbours, UnitKind, check_neighbours, check_not_negative, check_order, check_relation
from ..errors import BudgetExceeded, FormatError, InvalidArgument, PrivacyError, discreet
from ..numerics.printed import as_float, exact, printed
from ..schema import Schema
from ..shown import Shown
from .amount import Amount, check_relation_of, loss_from_body, loss_to_body, price_of
from .chain import START, Entry, Kind, Opening, State, Store, advance, append, canonical, check_pages, walk
from .registry import MAX_NAME, MAX_TEXT, Registration, check_hash, check_near, check_text, dataset_name, printable
from .requests import Asked

if TYPE_CHECKING:
    from ..private.counting import Identity


@dataclass(frozen=True, kw_only=True)
class Charge:
    """A receipt. Draw after you hold it, then `seal` it with the hash of what was drawn.

    `cost` is in the unit of the ledger's filter, `slack` of δ. `number` and `hash` are the entry in the chain:
    published with a release, they anchor the ledger up to here.
    A charge that is never sealed stays spent, as nobody can tell whether its draw was seen.
    """

    dataset: str
    cost: float
    slack: float
    number: int
    hash: str
    _ledger: Ledger = field(repr=False, compare=False)

    def seal(self, release_hash: str) -> None:
        """Record what the charge paid for; once."""
        self._ledger._seal(self.number, check_hash("release_hash", release_hash))

    def fail(self, reason: str) -> None:
        """Record for the officer why nothing came of the charge; the data set is closed until it is opened again."""
        self._ledger._fail(self.number, printable(reason))


@dataclass(frozen=True, kw_only=True)
class Verified:
    """What `verify` found: the whole chain is intact and ends at `head`."""

    entries: int
    head: str
    unsealed: tuple[int, ...]
    priced: int = 0
    """Different prices that were computed again."""
    unpriced: int = 0
    """Charges for losses of a kind that this program does not know, or that format 1 did not keep."""

    @property
    def anchor(self) -> str:
        """The head as text to keep elsewhere: `verify(anchor=...)` later proves that nothing before it is gone."""
        return f"{self.entries - 1}:{self.head}"


class Ledger(Shown):
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
    13
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
            order: a Rényi order, for a filter that adds up divergences of this order; unless given, an (ε, δ) budget
                has a Gaussian filter, which admits more.
            datasets: the only names that may be charged, so that a misspelt name has no budget; any name if None.
            actor: who is charged, for the record; the login name by default.
            timeout: seconds to wait for another process that is writing.

        Raises:
            FormatError: the file is damaged, was changed or cut, or is no ledger.
            LedgerUnavailable: the file cannot be read or written now.
        """
        order = None if order is None else check_order(order)
        ledger = cls(Store(_path(path), check_not_negative("timeout", timeout)), _actor(actor))
        if budget is not None:
            if not isinstance(budget, Budget):
                raise InvalidArgument("budget", "a Budget", got=type(budget).__name__)
            found = filter_for(budget, order)
            if isinstance(datasets, str) or (datasets is not None and not list(datasets)):
                raise InvalidArgument("datasets", "one or more names, or None for any")
            names = _names(datasets)
            terms = Opening(
                budget=budget,
                filter=found,
                neighbours=check_neighbours(neighbours or "replace-one"),
                datasets=names,
            )
            ledger._store.create(Entry.after(0, START, "open", terms.body(ledger._actor, _now())))
        ledger._check()
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
        known = terms.filter.order if isinstance(terms.filter, RenyiFilter) else None
        if order is not None and order != known:
            said = "left out, as the ledger has a Gaussian filter" if known is None else f"{exact(known)}, the ledger's"
            raise InvalidArgument("order", said, got=order, hint=hint)
        if datasets is not None and _names(datasets) != terms.datasets:
            raise InvalidArgument("datasets", "those of the ledger", hint=hint)

    # -- spending ------------------------------------------------------------------------------------------------

    def charge(
        self,
        loss: PrivacyLoss,
        *,
        dataset: str,
        description: str,
        request_hash: str,
        unit: UnitKind = "row",
        key: str | None = None,
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
            key: of the request in the queue that this pays, once; see `Queue`.

        Raises:
            BudgetExceeded: with what is left; nothing was charged.
        """
        dataset = dataset_name(dataset)
        check_text("description", description, MAX_TEXT, empty=True)
        check_hash("request_hash", request_hash)
        check_relation_of(loss, self.terms.neighbours)
        state, body = self._refresh(), loss_to_body(loss)
        while True:  # until the price holds: another process may spend while this one computes
            guard = state.filter_of(dataset)
            price = guard.price(loss, state.left(dataset))
            with self._writing() as (connection, state):
                if state.filter_of(dataset) != guard or (price.fits and _stale(price, state.left(dataset))):
                    continue
                self._admit(state, dataset, price, unit)
                if key is not None:
                    _asked(state, key).check_free(dataset)
                said = {"dataset": dataset, "unit": unit, "description": description, "request": request_hash}
                paid: dict[str, Any] = {"cost": price.cost, "slack": price.slack, "at": price.at, "loss": body}
                paid = {"epsilon": price.cost} if state.format == 1 else paid
                paid |= {} if key is None else {"key": key}
                entry = self._append(connection, state, "charge", {**said, **paid, **self._signed()})
            return Charge(
                dataset=dataset,
                cost=price.cost,
                slack=price.slack,
                number=entry.number,
                hash=entry.hash,
                _ledger=self,
            )

    @contextmanager
    def _writing(self) -> Iterator[tuple[sqlite3.Connection, State]]:
        """The only writer, with the state as it is on disk; what it makes of that state is kept when it is on disk."""
        with self._lock:
            state = self._state.copy()
            with self._store.writing() as connection:
                advance(connection, state)
                yield connection, state
            self._state = state

    def _signed(self) -> dict[str, str]:
        return {"actor": self._actor, "time": _now()}

    @staticmethod
    def _admit(state: State, dataset: str, price: Price, unit: UnitKind) -> None:
        known = state.units.get(dataset, unit)
        if unit not in get_args(UnitKind) or unit != known:
            raise InvalidArgument(
                "unit",
                f"{known!r}, the unit of what data set {dataset!r} was charged for before",
                got=unit,
                hint="Losses of rows and of persons do not add up; keep a ledger for each.",
            )
        _check_name(state, dataset)
        if dataset in state.closed:
            raise PrivacyError(_CLOSED.format(dataset=dataset))
        guard, left = state.filter_of(dataset), state.left(dataset)
        if not price.fits:
            why = (
                f"the request has no finite Rényi divergence at order {exact(guard.order)}, the order of the ledger. "
                "Take a larger alpha for its r, or calibrate it to"
                if isinstance(guard, RenyiFilter)
                else f"the request costs more than data set {dataset!r} has left, {printed(left, up=False)} of {guard},"
                " or is known by too little to be priced. Nothing was charged. Calibrate to"
            )
            raise BudgetExceeded(
                f"{why} `remaining({dataset!r}).budget`.", left=as_float(left, "down"), requested=price.cost
            )
        if Fraction(price.cost) > left or Fraction(price.slack) > state.slack_left(dataset):
            raise BudgetExceeded(
                f"data set {dataset!r} has {printed(left, up=False)} of {printed(guard.total, up=False)} left "
                f"({guard}), the request costs {printed(price.cost)}. Nothing was charged. Calibrate to "
                f"`remaining({dataset!r}).budget` or less.",
                left=as_float(left, "down"),
                requested=price.cost,
            )

    def _seal(self, number: int, release_hash: str) -> None:
        with self._writing() as (connection, state):
            if number not in state.unsealed:
                raise InvalidArgument("charge", "sealed once", hint="Each release needs a charge of its own.")
            self._append(connection, state, "seal", {"charge": number, "release": release_hash, "time": _now()})

    def _fail(self, number: int, reason: str) -> None:
        with self._writing() as (connection, state):
            self._append(connection, state, "failure", {"charge": number, "reason": reason, "time": _now()})

    # -- registered sources --------------------------------------------------------------------------------------

    @discreet
    def register(self, dataset: str, source: Any, schema: Any, *, person: str | None = None) -> Registration:
        """Check a source against a schema, all of it, and record both: for the officer, before analysts ask.

        Requests for the data set then use this source and columns that refuse nothing which these accept, so that none
        of them can fail on a value. What this method refuses is about the data: it is for eyes that may see them.
        Registering again replaces what was known, as after the files have changed.

        Args:
            dataset: the name that the data set has in this ledger.
            source: the rows; see `simplexdp.count`. Sources in memory are known by their columns only.
            schema: of all columns that may be asked about; declared or public.
            person: the column that names the person, if the guarantee is for persons.

        Raises:
            SourceError: a record breaks a rule of the schema; nothing was recorded.
        """
        from ..private.counting import identity_of, relations_of, validated

        name, schema = dataset_name(dataset), Schema.given(schema)
        identity = identity_of(source)
        _check_new(self._refresh(), name, identity)
        check_relation(relations_of(source), self.terms.neighbours, "row" if person is None else "person")
        rows = validated(source, schema, person)
        public = self.terms.neighbours == "replace-one" and person is None
        made = Registration.of(identity, schema, rows if public else None, person)
        body = {"dataset": name, **made.to_body(), **self._signed()}
        with self._writing() as (connection, state):
            _check_new(state, name, identity)
            self._append(connection, state, "register", body)
        return made

    @discreet
    def admit(self, dataset: str, source: Any, schema: Any, *, person: str | None = None) -> Registration:
        """The registration of a data set, if a request for these columns of this source may be made; reads no value.

        Raises:
            PrivacyError: the data set is not registered or closed, or the source is another or has changed.
            SchemaError: a column could refuse what the registered one accepts.
        """
        from ..private.counting import identity_of

        name = dataset_name(dataset)
        state = self._refresh()
        _check_name(state, name)
        found = state.registered.get(name)
        if found is None:
            raise PrivacyError(
                f"data set {name!r} is not registered. The officer registers source and schema once, with "
                f"`ledger.register({name!r}, source, schema)` or `simplexdp ledger register`; what is refused because "
                "of a value is then refused there, and not to analysts, whom it would tell that the value occurs."
            )
        if name in state.closed:
            raise PrivacyError(_CLOSED.format(dataset=name))
        found.check(name, identity_of(source), schema, person)
        return found

    def reopen(self, dataset: str, reason: str = "") -> None:
        """Open a data set that a failed request has closed: for the officer, who has read why it failed."""
        name = dataset_name(dataset)
        body = {"dataset": name, "reason": check_text("reason", reason, MAX_TEXT, empty=True)}
        with self._writing() as (connection, state):
            if name not in state.closed:
                raise InvalidArgument("dataset", "a data set that is closed", got=name)
            self._append(connection, state, "reopen", {**body, **self._signed()})

    def convert(self) -> None:
        """Give a ledger with a Rényi filter a Gaussian one for what is left, which admits more; for good.

        For ledgers of format 1, and for those that were started with an order. Versions before format 2 cannot read it
        any more.
        """
        with self._writing() as (connection, state):
            terms, old = self.terms, state.filter
            if not isinstance(old, RenyiFilter) or terms.budget.order is not None:
                raise InvalidArgument("ledger", "one with an (ε, δ) budget that a Rényi filter guards")
            new = filter_for(terms.budget)
            totals = {name: converted(terms.budget, old.order, s, new.slack) for name, s in state.spent.items()}
            body = {"total": new.total, "slack": new.slack, "totals": totals, **self._signed()}
            self._append(connection, state, "convert", body)

    def registration(self, dataset: str) -> Registration | None:
        """What the data set is registered as, None if it is not."""
        return self._refresh().registered.get(dataset_name(dataset))

    def failures(self) -> dict[str, Entry]:
        """Data sets that are closed, with the entry of the failure. **For the officer**: it tells about the data."""
        state = self._refresh()
        entries = self.entries() if state.closed else []
        return {dataset: entries[number] for dataset, number in state.closed.items()}

    @staticmethod
    def _append(connection: sqlite3.Connection, state: State, kind: Kind, body: Mapping[str, Any]) -> Entry:
        entry = Entry.after(state.count, state.head, kind, body)
        append(connection, state, entry)
        return entry

    # -- reading -------------------------------------------------------------------------------------------------

    @property
    def path(self) -> Path:
        """The file."""
        return self._store.path

    @property
    def terms(self) -> Opening:
        """What was fixed when the ledger was started: budget, filter, relation and names."""
        assert self._state.terms
        return self._state.terms

    @property
    def filter(self) -> Filter:
        """What a charge is priced by: `filter.price(loss)` where nothing is spent yet."""
        return self._state.filter

    @property
    def datasets(self) -> tuple[str, ...]:
        """The data sets that were declared, registered or charged."""
        return self._refresh().names

    def _columns(self) -> dict[str, list[Any]]:
        """A row for each data set: what it has spent and has left, and ε of each by itself at the δ of the budget."""
        names, delta = self.datasets, self.terms.budget.delta
        told: dict[str, list[Any]] = {"dataset": list(names)}
        for what, amounts in (("spent", map(self.spent, names)), ("left", map(self.remaining, names))):
            found = list(amounts)
            told[what] = [amount.value for amount in found]
            told[f"epsilon_{what}"] = [None if delta is None else amount.epsilon() for amount in found]
        return told

    def spent(self, dataset: str) -> Amount:
        """What the data set has spent, charges without a release included."""
        state, dataset = self._refresh(), dataset_name(dataset)
        guard = state.filter_of(dataset)
        spent = Fraction(guard.total) - state.left(dataset)
        return self._amount(guard, spent, Fraction(guard.slack) - state.slack_left(dataset))

    def remaining(self, dataset: str) -> Amount:
        """What the data set has left: `.epsilon()` at δ, `.times(loss)`, `.budget` to calibrate to."""
        state, dataset = self._refresh(), dataset_name(dataset)
        guard = state.filter_of(dataset)
        if not state.knows(dataset):
            return self._amount(guard, Fraction(0), Fraction(0))
        return self._amount(guard, state.left(dataset), state.slack_left(dataset))

    def entries(self) -> list[Entry]:
        """All entries, checked again from the first."""
        with self._store.reading() as connection:
            return list(walk(connection, State()))

    def paid_for(self, release_hash: str) -> Entry | None:
        """The charge that paid for what has this hash, None if the ledger knows of none.

        For a file of this library the hash is its `sha256`.
        """
        check_hash("release_hash", release_hash)
        entries = self.entries()
        seals = (entry.body for entry in entries if entry.kind == "seal")
        return next((entries[body["charge"]] for body in seals if body["release"] == release_hash), None)

    def verify(self, *, anchor: str | None = None, progress: Callable[[int, int], None] | None = None) -> Verified:
        """Check the whole file: pages, tables, every hash, sum and price, and that it ends where its head says.

        Args:
            anchor: `number:hash` of an entry noted earlier (`Verified.anchor`, or number and hash of a charge in a
                certificate). Without one, a file that was replaced by an older intact copy of itself, or rewritten as
                a whole, cannot be told from the true one; with one, it can, up to that entry.
            progress: called with the different prices computed again and how many there are.

        Raises:
            FormatError: naming the first entry that is wrong.
        """
        entries: list[Entry] = []
        self._check(anchor, entries.append)
        for entry in entries:
            if Entry.after(entry.number, entry.previous, entry.kind, entry.body) != entry:
                raise FormatError(f"entry {entry.number} of the ledger is not in the one spelling of its content")
        state = self._state
        priced, unpriced = _priced_again(entries, state, progress)
        return Verified(
            entries=len(entries),
            head=entries[-1].hash,
            unsealed=tuple(state.unsealed),
            priced=priced,
            unpriced=unpriced,
        )

    def _check(self, anchor: str | None = None, told: Callable[[Entry], None] | None = None) -> None:
        """Everything but the prices; `told` of each entry."""
        state = State()
        hashes: list[str] = []
        with self._store.reading() as connection:
            check_pages(connection)
            for entry in walk(connection, state):  # entries are not kept: their bodies take longer than the checks
                hashes.append(entry.hash)
                if told is not None:
                    told(entry)
        if anchor is not None:
            number, digest = _parse_anchor(anchor)
            if number >= len(hashes) or hashes[number] != digest:
                raise FormatError("the ledger does not hold the entry of the anchor: it was cut, replaced or rewritten")
        with self._lock:
            known = self._state
            if known.count and (state.count < known.count or hashes[known.count - 1] != known.head):
                raise FormatError("the ledger was cut or replaced since it was opened")
            self._state = state

    def _refresh(self) -> State:
        with self._lock:
            state = self._state.copy()
            with self._store.reading() as connection:
                advance(connection, state)
            self._state = state
            return state

    def _amount(self, guard: Filter, amount: Fraction, slack: Fraction) -> Amount:
        terms = self.terms
        return Amount(filter=guard, exact=amount, slack=slack, whole=terms.budget, neighbours=terms.neighbours)

    def __getstate__(self) -> dict[str, object]:
        return {key: value for key, value in self.__dict__.items() if key != "_lock"}

    def __setstate__(self, state: dict[str, object]) -> None:
        self.__dict__.update(state, _lock=threading.Lock())

    def __repr__(self) -> str:
        return f"Ledger({str(self._store.path)!r}, {self.terms.budget})"


_CLOSED = (
    "data set {dataset!r} is closed: a request failed on its data after it was charged. The officer sees why with "
    "`simplexdp ledger show` and opens it again with `simplexdp ledger reopen`."
)


def _stale(price: Price, left: Fraction) -> bool:
    return price.at is not None and Fraction(price.at) > left


def _priced_again(
    entries: Sequence[Entry], state: State, progress: Callable[[int, int], None] | None
) -> tuple[int, int]:
    """How many different prices were computed again, and how many charges had none that could be."""
    assert state.terms is not None
    guard, unpriced = state.terms.filter, 0
    asked: dict[tuple[object, ...], tuple[Filter, Entry]] = {}
    for entry in entries:
        body = entry.body
        if entry.kind == "convert":
            guard = state.filter
        elif entry.kind == "charge" and body.get("loss") is None:
            unpriced += 1
        elif entry.kind == "charge":
            key = (canonical(body["loss"]), body["cost"], body["slack"], body["at"], guard)
            asked.setdefault(key, (guard, entry))
    for done, (by, entry) in enumerate(asked.values()):
        if not by.holds(loss_from_body(entry.body["loss"], state.terms.neighbours), price_of(entry.body)):
            raise FormatError(f"entry {entry.number} of the ledger was charged less than its loss costs")
        if progress is not None:
            progress(done + 1, len(asked))
    return len(asked), unpriced


def _check_name(state: State, dataset: str) -> None:
    check_near(dataset, state.names)
    if not state.knows(dataset):
        raise InvalidArgument("dataset", "one of the names the ledger was started with", got=dataset)


def _asked(state: State, key: str) -> Asked:
    found = state.requests.by_key.get(check_hash("key", key))
    if found is None:
        raise InvalidArgument("key", "that of a request in the queue of the ledger")
    return found


def _check_new(state: State, dataset: str, identity: Identity) -> None:
    """Refuse to register under a second name what has one: the same people would have two budgets."""
    _check_name(state, dataset)
    for other, known in state.registered.items():
        same = identity.place == known.place and (identity.parts or identity.about == "a query")
        if other != dataset and (same or set(identity.parts) & set(known.parts)):
            raise InvalidArgument(
                "source",
                f"one that is not registered already; it is, at least in part, as {other!r}",
                hint="Two names have two budgets for the same people.",
            )


def _names(datasets: Sequence[str] | None) -> tuple[str, ...] | None:
    if datasets is None:
        return None
    names: list[str] = []
    for name in map(dataset_name, datasets):
        check_near(name, names)
        names.append(name)
    return tuple(names)


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
