"""A ledger of what each data set has spent: append-only, charged before the draw, safe for any number of processes."""

import os
from typing import TYPE_CHECKING

from ..accounting.filters import filter_for
from ..errors import InvalidArgument
from .amount import Amount
from .chain import Entry, fingerprint
from .ledger import Charge, Ledger, Verified
from .registry import Registration

if TYPE_CHECKING:
    from ..fitting import LedgerLike

__all__ = ["Amount", "Charge", "Entry", "Ledger", "Registration", "Verified", "filter_for", "fingerprint", "opened"]


def opened(ledger: "LedgerLike | str | os.PathLike[str] | None") -> "LedgerLike | None":
    """The ledger that an argument means; of a path, the one that is there."""
    if isinstance(ledger, (str, os.PathLike)):
        return Ledger.open(ledger)
    if ledger is not None and not hasattr(ledger, "charge"):
        hint = "Ledger.open(path, budget=...) starts one."
        raise InvalidArgument("ledger", "a Ledger or the path of one", got=type(ledger).__name__, hint=hint)
    return ledger
