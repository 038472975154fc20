"""The price of private bin edges: `Quantiles` columns become `Numeric` ones at a price in pure ε-differential privacy.

The bounds of a column span a public grid; only counts of grid cells are kept, so memory does not grow with
the rows. Edges are grid points, chosen by recursion: first the middle one, then the middle ones of both
halves, and so on (Kaplan, Schnapp and Stemmer, "Differentially private approximate quantiles", ICML 2022).
A choice between lo and hi that should split the rows there as a : b asks for the grid point x that minimises

    | b · #{rows in [lo, x)} - a · #{rows in [x, hi)} |,

which one more or one fewer row changes by at most max(a, b). Permute and flip chooses, in integers. On one level of
the recursion a row counts in one choice only, so a level costs as much as a choice, and there are ⌈log₂ bins⌉
levels. Replacing a row is removing one and adding one: it costs twice that.

Proof: docs/proofs/quantiles.md.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from types import MappingProxyType

import numpy as np
import numpy.typing as npt

from ..budget import Neighbours, check_neighbours, check_positive, check_whole
from ..errors import InvalidArgument, NumericalError, SchemaError
from ..numerics.printed import as_float
from ..sampling import Entropy
from ..sampling.choice import permute_and_flip
from ..sampling.discrete import MOST
from ..schema import Numeric, Quantiles, Schema, SchemaLike

Counts = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

MAX_CANDIDATES = 100_000
"""Finest grid; the error of a choice grows with its logarithm, and its time in proportion."""


@dataclass(frozen=True, kw_only=True)
class QuantilePlan:
    """Choices ready to be drawn: their price is known before a row is read, so that it is charged first."""

    schema: Schema
    """The schema to resolve."""
    epsilon_spent: float
    """Pure ε that is spent on all columns together."""
    epsilons: Mapping[str, float]
    """Pure ε of each quantile column."""
    neighbours: Neighbours
    """The relation that the ε speaks of."""
    rows_per_person: int = 1
    """The most rows of one unit of protection that the price is for."""
    parts: tuple[tuple[Quantiles, Floats, NoisyChoices], ...] = field(repr=False, compare=False)

    @property
    def tables(self) -> list[tuple[str]]:
        """What is counted over the `grids`: one column each."""
        return [(column.name,) for column, _, _ in self.parts]

    @property
    def grids(self) -> Schema:
        """The grid cells as a schema; what lies outside or is missing gets cells that are not looked at."""
        return Schema(
            [
                Numeric(
                    grid.tolist(),
                    name=column.name,
                    outside="nearest" if column.outside == "nearest" else "cell",
                    missing="cell",
                    origin=column.origin,
                    transform=column.transform,
                )
                for column, grid, _ in self.parts
            ],
            file=self.schema.file,
        )


def plan_quantiles(
    schema: SchemaLike,
    *,
    epsilon: float,
    neighbours: Neighbours,
    candidates: int = 1000,
    rows_per_person: int = 1,
) -> QuantilePlan:
    """Prepare private edges for all `Quantiles` columns; everything that can be refused without rows is.

    Args:
        schema: the schema; without quantile columns the price is 0.
        epsilon: pure ε for all these columns together, divided in proportion to their shares.
        neighbours: `replace-one` or `add-remove`.
        candidates: number of cells of the grid between the bounds; edges are as fine as this.
        rows_per_person: the most rows that one unit of protection has in the source.

    Returns:
        The plan, with its ε, rounded up and at most `epsilon`.
    """
    schema = Schema.given(schema)
    check_neighbours(neighbours)
    total = check_positive("epsilon", epsilon, rounded="down")
    most = check_whole("rows_per_person", rows_per_person)
    rows = most * (2 if neighbours == "replace-one" else 1)
    cells = check_whole("candidates", candidates, at_least=2)
    if cells > MAX_CANDIDATES:
        raise InvalidArgument("candidates", f"at most {MAX_CANDIDATES}", got=candidates)
    columns = [column for column in schema if isinstance(column, Quantiles)]
    asked = schema.shares()
    shares = math.fsum(asked.values())
    parts = []
    for column in columns:
        price = total * (asked[column.name] / shares) * (1 - 1e-12)  # room for rounding up what it adds up to
        parts.append((column, _grid(column, cells), NoisyChoices.within(column.bins, price, rows)))
    epsilons = {column.name: mechanism.epsilon for column, _, mechanism in parts}
    # A correctly rounded sum, and the next float above it: not below the exact sum.
    spent = math.nextafter(math.fsum(epsilons.values()), math.inf) if epsilons else 0.0
    if spent > total:
        raise NumericalError("The edges would cost more than `epsilon`: it is too close to the smallest floats.")
    return QuantilePlan(
        schema=schema,
        epsilon_spent=spent,
        epsilons=MappingProxyType(epsilons),
        neighbours=neighbours,
        rows_per_person=most,
        parts=tuple(parts),
    )


@dataclass(frozen=True)
class NoisyChoices:
    """The noisy choices for one column: their scale, and what all of them cost. Proof: docs/proofs/quantiles.md.

    A choice of sensitivity Δ has scale Δ·`unit`, so that each costs 2/`unit`.
    """

    unit: Fraction
    """The scale of a choice that one row moves by one."""
    times: int
    """Levels of the recursion, for each row that a unit of protection can change."""

    @classmethod
    def within(cls, bins: int, epsilon: float, rows: int) -> NoisyChoices:
        """The least scale of few digits with which all edges cost at most `epsilon`."""
        times = (bins - 1).bit_length() * rows
        most = MOST // (bins - bins // 2)  # the largest scale has to fit, too
        least = Fraction(2 * times) / Fraction(epsilon) if epsilon else Fraction(most + 1)
        # A power of two for the denominator; the numerator is rounded up, so the price is not above what is asked for.
        denominator = 1 << max(min(most.bit_length() - 1 - math.ceil(least).bit_length(), MOST.bit_length() - 1), 0)
        unit = Fraction(math.ceil(least * denominator), denominator)
        if unit.numerator > most:
            raise InvalidArgument("epsilon", "large enough for finite noise")
        return cls(unit, times)

    @property
    def epsilon(self) -> float:
        """Pure ε of all edges, rounded up. Each row is in at most one choice of every level."""
        return as_float(2 * self.times / self.unit, "up")

    def select(self, scores: Counts, sensitivity: int, entropy: Entropy) -> int:
        """The index of a small score. **Private** scores in, a public index out."""
        return permute_and_flip(scores, sensitivity * self.unit, entropy)


def _grid(column: Quantiles, cells: int) -> Floats:
    """The public points between the bounds among which edges are chosen."""
    if cells < column.bins:
        raise InvalidArgument("candidates", f"at least the {column.bins} bins of {column.name!r}", got=cells)
    share = np.arange(cells + 1) / cells
    grid: Floats = column.lower * (1 - share) + column.upper * share
    grid[0], grid[-1] = column.lower, column.upper
    if not (np.diff(grid) > 0).all():
        hint = f"The grid has {cells} cells; use wider bounds or fewer candidates."
        raise SchemaError(f"{column.name}.upper", "far enough above lower for the grid", hint=hint)
    return grid
