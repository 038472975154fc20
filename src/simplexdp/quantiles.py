"""Private bin edges: `Quantiles` columns become `Numeric` ones at a price in pure ε-differential privacy.

The bounds of a column span a public grid; only counts of grid cells are kept, so memory does not grow with
the rows. Edges are grid points, chosen by recursion: first the middle one, then the middle ones of both
halves, and so on (Kaplan, Schnapp and Stemmer, "Differentially private approximate quantiles", ICML 2022).
A choice between lo and hi that should split the rows there as a : b asks for the grid point x that minimises

    | b · #{rows in [lo, x)} - a · #{rows in [x, hi)} |,

which one more or one fewer row changes by at most max(a, b). OpenDP's noisy max chooses. On one level of the
recursion a row counts in one choice only, so a level costs as much as a choice, and there are ⌈log₂ bins⌉
levels. Replacing a row is removing one and adding one: it costs twice that.

The noise comes from OpenDP's own generator, which is seeded by the operating system and takes no seed.

Proof: docs/proofs/quantiles.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from .budget import Neighbours, check_neighbours, check_positive, check_whole
from .counting import count
from .errors import InvalidArgument, NumericalError, SchemaError
from .schema import Numeric, Quantiles, Schema
from .tables import CountTable, check_relation

Counts = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Select = Callable[[Counts, int], int]
"""Chooses the index of a small score, given the scores and their sensitivity to one row."""

MAX_CANDIDATES = 100_000
"""Finest grid; the error of a choice grows with its logarithm, and its time in proportion."""


@dataclass(frozen=True, kw_only=True)
class Resolution:
    """A schema whose quantile columns have edges, and what they cost."""

    schema: Schema
    """The schema with every `Quantiles` replaced by a `Numeric` of the same size."""
    epsilon_spent: float
    """Pure ε of all edges together; 0 if there was nothing to resolve."""
    epsilons: Mapping[str, float]
    """Pure ε of each column that was resolved."""
    neighbours: Neighbours
    """The relation that the ε speaks of."""


@dataclass(frozen=True, kw_only=True)
class QuantilePlan:
    """Choices ready to be drawn: their price is known before a row is read, so that it is charged first."""

    schema: Schema
    """The schema to resolve."""
    epsilon_spent: float
    """Pure ε that `resolve` spends, on all columns together."""
    epsilons: Mapping[str, float]
    """Pure ε of each quantile column."""
    neighbours: Neighbours
    """The relation that the ε speaks of."""
    _parts: tuple[tuple[Quantiles, Floats, _Mechanism], ...] = field(repr=False)

    def rows(self, source: object, **counting: Any) -> CountTable:
        """A table of one column that every row is in, so that their number is known before anything is paid."""
        column = self._parts[0][0].name
        return count(source, self._grids().select([column]), [(column,)], **counting)[0]

    def resolve(self, source: object, **counting: Any) -> Resolution:
        """Draw the edges, in one pass over any source that `count` takes, which gets the options `counting`.

        Every call spends anew.
        """
        resolved = []
        if self._parts:  # without quantile columns no row is read
            tables = count(source, self._grids(), [(column.name,) for column, _, _ in self._parts], **counting)
            for (column, grid, mechanism), table in zip(self._parts, tables, strict=True):
                check_relation(table.relations, self.neighbours, table.unit)
                inside = table.private_counts()[: len(grid) - 1]
                points = choose_points(inside, column.bins, mechanism.select)
                fields = {"name": column.name, "outside": column.outside, "missing": column.missing}
                resolved.append(Numeric(grid[points].tolist(), **fields))
        return Resolution(
            schema=self.schema.replace(*resolved),
            epsilon_spent=self.epsilon_spent,
            epsilons=self.epsilons,
            neighbours=self.neighbours,
        )

    def _grids(self) -> Schema:
        """The grid cells as a schema; what lies outside or is missing gets cells that are not looked at."""
        return Schema(
            [
                Numeric(
                    grid.tolist(),
                    name=column.name,
                    outside="nearest" if column.outside == "nearest" else "cell",
                    missing="cell",
                )
                for column, grid, _ in self._parts
            ]
        )


def plan_quantiles(
    schema: Schema,
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
        The plan, with its ε from OpenDP's privacy maps, rounded up and at most `epsilon`.
    """
    check_neighbours(neighbours)
    total = check_positive("epsilon", epsilon)
    rows = check_whole("rows_per_person", rows_per_person) * (2 if neighbours == "replace-one" else 1)
    cells = check_whole("candidates", candidates, at_least=2)
    if cells > MAX_CANDIDATES:
        raise InvalidArgument("candidates", f"at most {MAX_CANDIDATES}", got=candidates)
    columns = [column for column in schema if isinstance(column, Quantiles)]
    shares = math.fsum(column.share for column in columns)
    parts = []
    for column in columns:
        price = total * (column.share / shares) * (1 - 1e-12)  # room for rounding up what it adds up to
        parts.append((column, _grid(column, cells), _Mechanism(column.bins, price, rows)))
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
        _parts=tuple(parts),
    )


def resolve_quantiles(
    schema: Schema,
    source: object,
    *,
    epsilon: float,
    neighbours: Neighbours,
    candidates: int = 1000,
    rows_per_person: int = 1,
) -> Resolution:
    """Find private edges for all `Quantiles` columns: `plan_quantiles` and its `resolve` in one call."""
    plan = plan_quantiles(
        schema,
        epsilon=epsilon,
        neighbours=neighbours,
        candidates=candidates,
        rows_per_person=rows_per_person,
    )
    return plan.resolve(source)


def choose_points(table: Counts, bins: int, select: Select) -> list[int]:
    """Indices of `bins` + 1 strictly increasing grid points, the first and last of the grid among them.

    A candidate leaves room for the edges still to come on both sides, so that edges never coincide; where
    they may lie follows from the edges chosen before, never from the rows.

    >>> choose_points(np.array([0, 3, 0, 3, 0, 3]), 3, lambda scores, _: int(scores.argmin()))
    [0, 2, 4, 6]
    """
    below = np.concatenate([[0], np.cumsum(table, dtype=np.int64)])
    points = {0: 0, bins: len(table)}

    def split(low: int, high: int) -> None:
        if high - low < 2:
            return
        middle = (low + high) // 2
        left, right = middle - low, high - middle
        first, last = points[low], points[high]
        candidates = np.arange(first + left, last - right + 1)
        scores = np.abs(right * (below[candidates] - below[first]) - left * (below[last] - below[candidates]))
        points[middle] = int(candidates[select(scores, max(left, right))])
        split(low, middle)
        split(middle, high)

    split(0, bins)
    return [points[i] for i in range(bins + 1)]


class _Mechanism:
    """The noisy choices for one column: their scale, and what all of them cost."""

    def __init__(self, bins: int, epsilon: float, rows: int) -> None:
        import opendp.prelude as dp

        dp.enable_features("contrib")
        space = dp.vector_domain(dp.atom_domain(T="u64")), dp.linf_distance(T="u64")
        levels = (bins - 1).bit_length()
        self._choices: dict[int, Any] = {}
        costs = []
        # Intervals are split as a : b with a and b at most ⌈bins / 2⌉; each choice gets the scale it needs.
        for sensitivity in range(1, (bins + 1) // 2 + 1):
            scale = 2 * sensitivity * levels * rows / epsilon * (1 + 2**-40) if epsilon else math.inf
            if not math.isfinite(scale):
                raise InvalidArgument("epsilon", "large enough for finite noise")
            choice: Any = dp.m.make_noisy_max(*space, dp.max_divergence(), scale=scale, negate=True)
            self._choices[sensitivity] = choice
            costs.append(float(choice.map(sensitivity)))
        # Each of the `rows` rows is in at most one choice of every level.
        self.epsilon = math.nextafter(max(costs) * (levels * rows), math.inf)

    def select(self, scores: Counts, sensitivity: int) -> int:
        return int(self._choices[sensitivity](scores.tolist()))


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
