"""The paper's eight data sets and the South German one: found, checked and read."""

from .catalogue import CATALOGUE, PAPER_ORDER, DataSet
from .files import find
from .generated import generate
from .table import Table, load

__all__ = ["CATALOGUE", "PAPER_ORDER", "DataSet", "Table", "find", "generate", "load"]
