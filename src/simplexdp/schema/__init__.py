"""Public facts about the columns of a table: declared values, bins, and what happens to everything else."""

from .columns import Categories, Column, Numeric, Origin, Quantiles, Value, cell_map, merged
from .drafting import draft
from .model import Schema, SchemaLike

__all__ = [
    "Categories",
    "Column",
    "Numeric",
    "Origin",
    "Quantiles",
    "Schema",
    "SchemaLike",
    "Value",
    "cell_map",
    "draft",
    "merged",
]
