"""A ledger of what each data set has spent: append-only, charged before the draw, safe for any number of processes."""

from .chain import Entry, fingerprint
from .filter import Amount, filter_for
from .ledger import Charge, Ledger, Verified

__all__ = ["Amount", "Charge", "Entry", "Ledger", "Verified", "filter_for", "fingerprint"]
