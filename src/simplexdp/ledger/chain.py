"""The entries of a ledger as a hash chain: what is written, how it is hashed, and what a valid chain is.

Nothing here touches a file. An entry's hash covers its number, its kind, the hash of the entry before and its body,
so an entry that is changed, moved or removed breaks every hash after it.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Literal, get_args

from ..budget import Budget, Neighbours, check_neighbours
from ..errors import FormatError, InvalidArgument, SimplexDPError
from ..tables import Unit

FORMAT = 1
START = "0" * 64
"""What stands for the hash before the first entry."""
MAX_NAME, MAX_TEXT = 200, 2000

Kind = Literal["open", "charge", "seal"]
_HASH = re.compile(r"[0-9a-f]{64}")
_KEYS = {
    "open": {"format", "epsilon", "delta", "order", "filter_order", "limit", "neighbours", "datasets", "actor", "time"},
    "charge": {"dataset", "epsilon", "unit", "description", "request", "actor", "time"},
    "seal": {"charge", "release", "time"},
}


def fingerprint(value: object) -> str:
    """SHA-256 of a value in canonical JSON: sorted keys, no spaces; for requests and releases.

    >>> fingerprint({"b": 1, "a": [2]}) == fingerprint({"a": [2], "b": 1})
    True
    """
    return hashlib.sha256(canonical(value).encode("ascii")).hexdigest()


def canonical(value: object) -> str:
    """One spelling of a JSON value."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)


def check_hash(name: str, value: str) -> str:
    """64 lower-case hexadecimal digits."""
    if not (isinstance(value, str) and _HASH.fullmatch(value)):
        raise InvalidArgument(name, "64 lower-case hexadecimal digits", hint="Use simplexdp.ledger.fingerprint.")
    return value


def check_text(name: str, value: str, most: int, *, empty: bool = False) -> str:
    """Printable text of limited length, so that a ledger shown on a terminal is nothing but text."""
    if not (isinstance(value, str) and value.isprintable() and len(value) <= most and (value or empty)):
        raise InvalidArgument(name, f"printable text of {0 if empty else 1} to {most} characters")
    return value


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
class Terms:
    """What is fixed when a ledger is opened: the budget of each data set and the filter that guards it."""

    budget: Budget
    order: float
    limit: float
    neighbours: Neighbours
    datasets: tuple[str, ...] | None = None

    def body(self, actor: str, time: str) -> dict[str, Any]:
        """The body of the first entry."""
        return {
            "format": FORMAT,
            "epsilon": self.budget.epsilon,
            "delta": self.budget.delta,
            "order": self.budget.order,
            "filter_order": self.order,
            "limit": self.limit,
            "neighbours": self.neighbours,
            "datasets": None if self.datasets is None else list(self.datasets),
            "actor": actor,
            "time": time,
        }

    @classmethod
    def from_body(cls, body: Mapping[str, Any]) -> Terms:
        """The terms that a first entry states."""
        datasets = body["datasets"]
        if datasets is not None:
            if not isinstance(datasets, list) or not datasets:
                raise InvalidArgument("datasets", "a list of names")
            datasets = tuple(check_text("datasets", name, MAX_NAME) for name in datasets)
        return cls(
            budget=Budget(epsilon=body["epsilon"], delta=body["delta"], order=body["order"]),
            order=_amount(body["filter_order"], least=1.0),
            limit=_amount(body["limit"]),
            neighbours=check_neighbours(body["neighbours"]),
            datasets=datasets,
        )


def _amount(value: object, least: float = 0.0) -> float:
    if not isinstance(value, float) or not (math.isfinite(value) and value >= least):
        raise InvalidArgument("epsilon", "a finite number, not below 0")
    return value


@dataclass(kw_only=True)
class State:
    """What a chain that was checked up to its entry `count − 1` says; `take` checks one entry more."""

    count: int = 0
    head: str = START
    terms: Terms | None = None
    spent: dict[str, Fraction] = field(default_factory=dict)
    unsealed: dict[int, str] = field(default_factory=dict)
    units: dict[str, str] = field(default_factory=dict)

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
            body = json.loads(text)
            if kind not in _KEYS or not isinstance(body, dict) or body.keys() != _KEYS[kind] or canonical(body) != text:
                raise FormatError(f"{where} is not of a known format")
            self._add(kind, body)
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
        check_text("time", body["time"], MAX_NAME)
        if kind == "open":
            if body["format"] != FORMAT:
                raise FormatError(f"the ledger has format {body['format']!r}, this version reads {FORMAT}")
            check_text("actor", body["actor"], MAX_NAME, empty=True)
            self.terms = Terms.from_body(body)
        elif kind == "charge":
            assert self.terms is not None
            dataset = check_text("dataset", body["dataset"], MAX_NAME)
            check_text("description", body["description"], MAX_TEXT, empty=True)
            check_text("actor", body["actor"], MAX_NAME, empty=True)
            check_hash("request", body["request"])
            total = self.spent.get(dataset, Fraction(0)) + Fraction(_amount(body["epsilon"]))
            if total > Fraction(self.terms.limit) or not self.knows(dataset):
                raise FormatError("the ledger holds a charge that it could not have admitted")
            if body["unit"] not in get_args(Unit) or self.units.setdefault(dataset, body["unit"]) != body["unit"]:
                raise FormatError("the ledger adds up guarantees for rows and for persons")
            self.spent[dataset] = total
            self.unsealed[self.count] = dataset
        else:
            check_hash("release", body["release"])
            if type(body["charge"]) is not int or self.unsealed.pop(body["charge"], None) is None:
                raise FormatError("the ledger holds a release that no charge paid for")

    def knows(self, dataset: str) -> bool:
        """Whether the data set may be charged at all."""
        assert self.terms is not None
        return self.terms.datasets is None or dataset in self.terms.datasets
