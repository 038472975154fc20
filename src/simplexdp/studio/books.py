"""The page of the ledger: what each data set has spent, who asked what, what waits, and what should be looked at."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from starlette.responses import Response

from ..errors import SimplexDPError
from ..ledger import Entry, Ledger, Queue
from ..numerics.printed import printed
from .view import Ask, Refused, beside

MOST_ENTRIES = 200
LARGE_EPSILON = 10.0
"""Above it a budget promises little; the page says so."""


def books(ask: Ask) -> Response:
    """The page."""
    return _books(ask, {})


def _books(ask: Ask, errors: dict[str, str]) -> Response:
    ledger = ask.studio.ledger
    if ledger is None:
        return ask.page("ledger.html", ledger=None, step="ledger")
    entries = ledger.entries()
    failures = ledger.failures()
    told: dict[str, Entry | None] = {name: each if ask.studio.is_officer else None for name, each in failures.items()}
    sets = [_row(ledger, name, entries, told) for name in ledger.datasets]
    asked = list(Queue(ledger))
    return ask.page(
        "ledger.html",
        status=422 if errors else 200,
        ledger=ledger,
        step="ledger",
        terms=ledger.terms,
        anchor=f"{entries[-1].number}:{entries[-1].hash}",
        sets=sets,
        waiting=[each for each in asked if each.status == "waiting"],
        unfinished=[each for each in asked if each.status in ("free", "charged")],
        events=[_event(entry, asked, ask.studio.is_officer) for entry in entries[::-1][:MOST_ENTRIES]],
        more=max(0, len(entries) - MOST_ENTRIES),
        warnings=_warnings(ledger, entries, asked),
        errors=errors,
    )


def _row(ledger: Ledger, name: str, entries: list[Entry], failures: Mapping[str, Entry | None]) -> dict[str, Any]:
    spent, left = ledger.spent(name), ledger.remaining(name)
    whole = float(spent.exact + left.exact)
    delta = ledger.terms.budget.delta
    failure = failures.get(name)
    made = ledger.registration(name)
    return {
        "name": name,
        "charges": sum(entry.kind == "charge" and entry.body["dataset"] == name for entry in entries),
        "spent": None if delta is None else spent.epsilon(),
        "left": None if delta is None else left.epsilon(),
        "part": 0.0 if whole == 0 else float(spent.exact) / whole,
        "closed": name in failures,
        "reason": "" if failure is None else failure.body["reason"],
        "about": "not registered" if made is None else made.about,
        "records": None if made is None else made.records,
    }


def _event(entry: Entry, asked: list[Any], officer: bool) -> dict[str, Any]:
    """An entry in words."""
    body, kind = entry.body, entry.kind
    keys = {each.charge: each.key for each in asked if each.charge is not None}
    key = body.get("key") or keys.get(entry.number) or keys.get(body.get("charge"))
    return {
        "number": entry.number,
        "time": body["time"],
        "actor": body.get("actor", ""),
        "kind": kind,
        "words": _words(kind, body, officer),
        "key": key,
    }


def _words(kind: str, body: Mapping[str, Any], officer: bool) -> str:
    if kind == "register":
        return f"“{body['dataset']}” was registered: {body['about']}."
    if kind == "request":
        return f"Asked of “{body['dataset']}”: {body['description']}{', for approval' if body['approval'] else ''}."
    if kind == "decision":
        return f"{'Approved' if body['approved'] else 'Refused'}{': ' if body['reason'] else '.'}{body['reason']}"
    if kind == "charge":
        return f"“{body['dataset']}” was charged for {body['description']}."
    if kind == "seal":
        return f"What entry {body['charge']} paid for was drawn: {body['release'][:12]}…"
    if kind == "failure":
        reason = f": {body['reason']}" if officer else "; the reason is for the officer."
        return f"The request of entry {body['charge']} failed{reason}"
    if kind == "reopen":
        return f"“{body['dataset']}” was opened again. {body['reason']}"
    return "The ledger was started." if kind == "open" else "The ledger was given a Gaussian filter."


def _warnings(ledger: Ledger, entries: list[Entry], asked: list[Any]) -> list[str]:
    """What should be looked at."""
    found, budget = [], ledger.terms.budget
    sealed = {entry.body["charge"] for entry in entries if entry.kind == "seal"}
    open_ones = [entry.number for entry in entries if entry.kind == "charge" and entry.number not in sealed]
    if open_ones:
        listed = ", ".join(map(str, open_ones[:10]))
        found.append(f"{len(open_ones)} charges have no recorded release (entries {listed}): they stay spent.")
    found += [f"“{name}” is closed: a request failed on its data after it was charged." for name in ledger.failures()]
    if budget.epsilon > LARGE_EPSILON:
        found.append(f"ε = {printed(budget.epsilon)} for each data set promises little.")
    waiting = sum(each.status == "waiting" for each in asked)
    if waiting:
        found.append(f"{waiting} {'request waits' if waiting == 1 else 'requests wait'} for a decision.")
    return found


def reopen(ask: Ask) -> Response:
    """Open a data set that a failed request has closed."""
    if not ask.studio.is_officer:
        raise Refused(403, "This is for the officer", "Only the officer opens a closed data set.")
    try:
        ask.studio.opened().reopen(ask.form.text("dataset"), ask.form.text("reason"))
    except SimplexDPError as error:
        return _books(ask, beside(error, {"dataset": "dataset", "reason": "reason"}))
    return ask.go("/ledger")


def verify(ask: Ask) -> Response:
    """Check every page, hash, sum and price."""
    found = ask.studio.opened().verify()
    return ask.page("verified.html", found=found, step="ledger")


ROUTES: list[tuple[str, Any, tuple[str, ...]]] = [
    ("/ledger", books, ("GET",)),
    ("/ledger/reopen", reopen, ("POST",)),
    ("/ledger/verify", verify, ("POST",)),
]
