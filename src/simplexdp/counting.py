"""Counting: contingency tables over a declared domain, from any source, in one pass.

What users name; it lives behind the door, in `private/counting`.
"""

from .private.counting import (
    CellNumbers,
    Files,
    OneRecordPerRow,
    Progress,
    Query,
    count,
    declarations_of,
    relations_of,
)

__all__ = [
    "CellNumbers",
    "Files",
    "OneRecordPerRow",
    "Progress",
    "Query",
    "count",
    "declarations_of",
    "relations_of",
]
