"""Requests in a ledger: what is asked under a key, who approved it, and the one charge that a key can have.

What is asked stands in the entry, so that a program that was killed finds it there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from ..errors import FormatError, PrivacyError
from .registry import MAX_NAME, MAX_TEXT, check_hash, check_text

MAX_SPEC = 1 << 19
"""Characters of what is asked, as JSON; an entry of a ledger is at most twice as long."""
KEYS = {
    "request": {"key", "dataset", "description", "spec", "approval", "actor", "time"},
    "decision": {"key", "approved", "reason", "actor", "time"},
}
"""What entries of these kinds hold."""
Status = Literal["waiting", "refused", "free", "charged", "failed", "sealed"]


@dataclass(frozen=True, kw_only=True)
class Asked:
    """A request and what became of it.

    Args:
        key: 64 hexadecimal digits, chosen by who asks.
        number: its entry.
        dataset: whose budget is to pay.
        description: in words that are public.
        spec: what is asked, as plain data.
        approval: whether an officer has to approve it before it is charged.
        actor: who asked.
        time: when.
        approved: what the officer said, None where nobody has said anything.
        reason: of the officer.
        charge: the entry that paid for it.
        entry: the hash of that entry, and with it of all that the ledger held before.
        failed: whether the draw that it paid for failed.
        release: the checksum of what was drawn.
    """

    key: str
    number: int
    dataset: str
    description: str
    spec: Mapping[str, Any]
    approval: bool
    actor: str
    time: str
    approved: bool | None = None
    reason: str = ""
    charge: int | None = None
    entry: str = ""
    failed: bool = False
    release: str | None = None

    @property
    def status(self) -> Status:
        """How far it has come; "free" is what may be charged, and nothing more comes of what has failed."""
        if self.release is not None:
            return "sealed"
        if self.charge is not None:
            return "failed" if self.failed else "charged"
        if self.approved is None:
            return "waiting" if self.approval else "free"
        return "free" if self.approved else "refused"

    def check_free(self, dataset: str) -> None:
        """Refuse a charge for it unless it may be charged, and was not yet."""
        if dataset != self.dataset:
            raise PrivacyError(f"the request is about data set {self.dataset!r}, not about {dataset!r}.")
        if self.charge is not None:
            raise PrivacyError("this request was charged already, and each is charged once. Nothing was charged.")
        if self.status != "free":
            said = "has refused" if self.status == "refused" else "has not approved"
            raise PrivacyError(f"the officer {said} this request. Nothing was charged.")


class Requests:
    """All requests of a chain that was checked so far, by key."""

    def __init__(self) -> None:
        self.by_key: dict[str, Asked] = {}
        self._paid: dict[int, str] = {}

    def copy(self) -> Requests:
        """One that can be taken further and thrown away."""
        found = Requests()
        found.by_key, found._paid = dict(self.by_key), dict(self._paid)
        return found

    def take(self, kind: str, number: int, body: Mapping[str, Any]) -> None:
        """Check an entry about requests, and add it."""
        check_text("actor", body["actor"], MAX_NAME, empty=True)
        key = check_hash("key", body["key"])
        known = self.by_key.get(key)
        if kind == "decision":
            check_text("reason", body["reason"], MAX_TEXT, empty=True)
            if known is None or known.status != "waiting" or type(body["approved"]) is not bool:
                raise FormatError("the ledger holds a decision about no request that waits for one")
            self.by_key[key] = replace(known, approved=body["approved"], reason=body["reason"])
            return
        check_text("description", body["description"], MAX_TEXT, empty=True)
        if known is not None or type(body["approval"]) is not bool or not isinstance(body["spec"], dict):
            raise FormatError("the ledger holds a request that is damaged, or two with one key")
        dataset = check_text("dataset", body["dataset"], MAX_NAME)
        self.by_key[key] = Asked(number=number, **{**body, "dataset": dataset})

    def charged(self, number: int, body: Mapping[str, Any], entry: str) -> None:
        """Note the charge of a request, which must be free."""
        known = self.by_key.get(check_hash("key", body["key"]))
        try:
            if known is None:
                raise PrivacyError("no such request")
            known.check_free(body["dataset"])
        except PrivacyError:
            raise FormatError("the ledger holds a charge for a request that could not be charged") from None
        self.by_key[known.key] = replace(known, charge=number, entry=entry)
        self._paid[number] = known.key

    def sealed(self, charge: int, release: str) -> None:
        """Note what was drawn for the request that a charge paid for, if it was one."""
        key = self._paid.get(charge)
        if key is not None:
            self.by_key[key] = replace(self.by_key[key], release=release)

    def failed(self, charge: int) -> None:
        """Note that the draw for a request failed after its charge, if the charge was for one."""
        key = self._paid.get(charge)
        if key is not None:
            self.by_key[key] = replace(self.by_key[key], failed=True)
