"""Counting: contingency tables over a declared domain, from any source, in one pass."""

from .database import query_columns
from .files import Files, with_layout
from .frames import CellNumbers
from .passes import Passes, Progress, check_source, count, declarations_of, relations_of, stays_elsewhere, validated
from .plan import (
    Deferred,
    Identity,
    can_be_read_again,
    check_columns,
    check_names,
    check_size,
    identity_of,
    number_of_records,
)
from .query import OneRecordPerRow, Query, Seen, seen

__all__ = [
    "CellNumbers",
    "Deferred",
    "Files",
    "Identity",
    "OneRecordPerRow",
    "Passes",
    "Progress",
    "Query",
    "Seen",
    "can_be_read_again",
    "check_columns",
    "check_names",
    "check_size",
    "check_source",
    "count",
    "declarations_of",
    "identity_of",
    "number_of_records",
    "query_columns",
    "relations_of",
    "seen",
    "stays_elsewhere",
    "validated",
    "with_layout",
]
