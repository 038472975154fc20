"""Public facts about the columns of a table: declared values, bins, and what happens to everything else."""

from .columns import Categories, Column, Numeric, Quantiles, Value
from .drafting import draft
from .merging import cell_map, merged
from .model import Origin, Schema

__all__ = [
    "Categories",
    "Column",
    "Numeric",
    "Origin",
    "Quantiles",
    "Schema",
    "Value",
    "cell_map",
    "draft",
    "merged",
]
