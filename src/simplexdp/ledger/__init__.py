"""A ledger of what each data set has spent: append-only, charged before the draw, safe for any number of processes."""

import os
from importlib import import_module
from typing import TYPE_CHECKING, Any

from ..errors import InvalidArgument

if TYPE_CHECKING:
    from ..accounting.filters import filter_for
    from ..fitting import LedgerLike
    from .amount import Amount
    from .chain import Entry, fingerprint
    from .ledger import Charge, Ledger, Verified
    from .queue import Queue
    from .registry import Registration
    from .requests import Asked

# Every door knows how to open a ledger, and few are given one.
_HOMES = {
    "Amount": ".amount",
    "Asked": ".requests",
    "Charge": ".ledger",
    "Entry": ".chain",
    "Ledger": ".ledger",
    "Queue": ".queue",
    "Registration": ".registry",
    "Verified": ".ledger",
    "filter_for": "..accounting.filters",
    "fingerprint": ".chain",
}
__all__ = [
    "Amount",
    "Asked",
    "Charge",
    "Entry",
    "Ledger",
    "Queue",
    "Registration",
    "Verified",
    "filter_for",
    "fingerprint",
    "opened",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name], __name__), name)


def opened(ledger: "LedgerLike | str | os.PathLike[str] | None") -> "LedgerLike | None":
    """The ledger that an argument means; of a path, the one that is there."""
    if isinstance(ledger, (str, os.PathLike)):
        from .ledger import Ledger

        return Ledger.open(ledger)
    if ledger is not None and not hasattr(ledger, "charge"):
        hint = "Ledger.open(path, budget=...) starts one."
        raise InvalidArgument("ledger", "a Ledger or the path of one", got=type(ledger).__name__, hint=hint)
    return ledger
