"""Counting: contingency tables over a declared domain, from any source, in one pass."""

from .api import Progress, can_be_read_again, count, relations_of
from .codes import CellNumbers
from .database import Query
from .files import Files

__all__ = ["CellNumbers", "Files", "Progress", "Query", "can_be_read_again", "count", "relations_of"]
