"""The queue of a ledger, for programs that ask under keys: each request is charged once, whoever sends it again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ..errors import InvalidArgument, PrivacyError
from .amount import loss_to_body
from .chain import canonical
from .ledger import Charge, Ledger
from .registry import MAX_TEXT, check_hash, check_text, dataset_name
from .requests import MAX_SPEC, Asked

if TYPE_CHECKING:
    from ..accounting.loss import PrivacyLoss
    from ..budget import UnitKind

FAILED = (
    "this request is charged, and what it paid for failed on the data. As it may be seen that it failed, nothing is "
    "drawn again under its charge; a new request pays anew."
)


class Queue:
    """Requests of a ledger, in the order in which they were asked.

    >>> import tempfile
    >>> from pathlib import Path
    >>> from simplexdp import Budget
    >>> ledger = Ledger.open(Path(tempfile.mkdtemp()) / "ledger.db", budget=Budget(epsilon=1, delta=1e-6))
    >>> queue = Queue(ledger)
    >>> queue.ask("a" * 64, dataset="clinic", description="age", spec={"columns": ["age"]}, approval=True).status
    'waiting'
    >>> queue.decide("a" * 64, approved=True).status
    'free'
    """

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger

    def __iter__(self) -> Any:
        return iter(self.ledger._refresh().requests.by_key.values())

    def get(self, key: str) -> Asked | None:
        """The request with this key, if there is one."""
        return self.ledger._refresh().requests.by_key.get(check_hash("key", key))

    def ask(
        self, key: str, *, dataset: str, description: str, spec: Mapping[str, Any], approval: bool = False
    ) -> Asked:
        """Put a request into the ledger; the same one again changes nothing.

        Args:
            key: 64 hexadecimal digits that no other request has.
            dataset: whose budget is to pay.
            description: in words that are public.
            spec: what is asked, as plain data; without secrets, as everybody with the file can read it.
            approval: whether an officer has to approve it.
        """
        name, check = dataset_name(dataset), check_hash("key", key)
        check_text("description", description, MAX_TEXT, empty=True)
        if len(canonical(spec)) > MAX_SPEC:
            raise InvalidArgument("spec", f"at most {MAX_SPEC >> 10} KiB as JSON")
        body: dict[str, Any] = {"key": check, "dataset": name, "description": description, "spec": dict(spec)}
        with self.ledger._writing() as (connection, state):
            known = state.requests.by_key.get(key)
            if known is None:
                if not state.knows(name):
                    raise InvalidArgument("dataset", "one of the names the ledger was started with", got=name)
                signed = self.ledger._signed()
                self.ledger._append(connection, state, "request", {**body, "approval": approval, **signed})
                return state.requests.by_key[key]
        if (known.dataset, canonical(known.spec)) != (name, canonical(spec)) or known.approval != approval:
            raise InvalidArgument("key", "that of one request", hint="Another one was asked under this key.")
        return known

    def decide(self, key: str, *, approved: bool, reason: str = "") -> Asked:
        """Approve or refuse a request that waits: for the officer, once."""
        check_text("reason", reason, MAX_TEXT, empty=True)
        with self.ledger._writing() as (connection, state):
            known = state.requests.by_key.get(check_hash("key", key))
            if known is None or known.status != "waiting":
                raise InvalidArgument("key", "that of a request that waits for a decision")
            body = {"key": key, "approved": approved, "reason": reason, **self.ledger._signed()}
            self.ledger._append(connection, state, "decision", body)
            return state.requests.by_key[key]

    def paid(
        self, key: str, loss: PrivacyLoss, *, dataset: str, request_hash: str, unit: UnitKind = "row"
    ) -> Charge | None:
        """The charge of this request that was never sealed, to draw what was paid; None if it was not charged.

        Whoever takes it says that nothing of an earlier draw has left the program that made it.

        Raises:
            PrivacyError: it is sealed, its draw has failed, or it was charged for something else.
        """
        asked = self.get(key)
        if asked is None or asked.charge is None:
            return None
        if asked.status == "failed":
            raise PrivacyError(FAILED)
        charge, body = self.charge_of(asked)
        same = (body["request"], body["unit"], body["dataset"]) == (request_hash, unit, dataset_name(dataset))
        if asked.release is not None or not same or ("loss" in body and body["loss"] != loss_to_body(loss)):
            raise PrivacyError("this request was charged for another design, or was drawn already. Nothing was drawn.")
        return charge

    def charge_of(self, asked: Asked) -> tuple[Charge, Mapping[str, Any]]:
        """The receipt of a request that was charged, to seal what was drawn for it, and what its entry says."""
        if asked.charge is None:
            raise InvalidArgument("asked", "a request that was charged")
        entry = self.ledger.entries()[asked.charge]
        cost, slack = entry.body.get("cost", entry.body.get("epsilon")), entry.body.get("slack", 0.0)
        said: dict[str, Any] = {"dataset": asked.dataset, "cost": cost, "slack": slack, "number": entry.number}
        return Charge(**said, hash=entry.hash, _ledger=self.ledger), entry.body
