"""Whether synthetic records say what was released: their counts beside each released table and its intervals."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ..budget import check_fraction, check_whole
from ..errors import Infeasible
from ..schema import Column, cell_map
from .records import IntArray
from .sections import Bars, Groups, Section, Table

if TYPE_CHECKING:
    from .model import Model
    from .release import Release

FloatArray = NDArray[np.float64]
SIZE = 20_000
"""Records that a report draws."""
MOST_CELLS = 10_000
"""Of a table that is compared."""
MOST_TABLES = 30
"""Tables that a report compares: each takes the time of a question."""
_ROWS, _PICTURES, _CELLS = 30, 2, 30
"""Tables on a page, those with a picture, and cells in one."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Compared:
    """One released table beside the synthetic records.

    Args:
        columns: of the table.
        labels: of its cells.
        released: probabilities from all releases, with `low` and `high` for the population.
        sampled: the shares of the synthetic records.
        size: how many those are.
    """

    columns: tuple[str, ...]
    labels: tuple[str, ...]
    released: FloatArray
    low: FloatArray
    high: FloatArray
    sampled: FloatArray
    size: int

    @property
    def distance(self) -> float:
        """Total variation: the share of the records that would have to lie in other cells."""
        return float(np.abs(self.sampled - self.released).sum() / 2)

    @property
    def by_chance(self) -> float:
        """What so few records from the released distribution itself would have on average."""
        return float(np.sqrt(2 * self.released * (1 - self.released) / (math.pi * self.size)).sum() / 2)

    @cached_property
    def inside(self) -> float:
        """The share of the cells in whose interval the sampled share lies, give or take three standard errors of it."""
        reach = 3 * np.sqrt(self.released * (1 - self.released) / self.size) + 1 / self.size
        return float(np.mean((self.sampled >= self.low - reach) & (self.sampled <= self.high + reach)))


def compared(
    model: Model, *, size: int = SIZE, level: float = 0.95, seed: int = 0, most: int | None = None
) -> list[Compared]:
    """Every released table of up to 10,000 cells beside records that the model draws, at no further budget.

    With `most`, so many of them, spread evenly over all. Nothing where the model has no schema or draws no records.
    """
    size, level = check_whole("size", size), check_fraction("level", level)
    schema = model.schema
    if schema is None:
        return []
    try:
        codes = model.sample_codes(size, np.random.default_rng(check_whole("seed", seed, at_least=0)))
    except Infeasible:
        return []
    found = []
    tables = dict.fromkeys(release.columns for release in model.releases if release.values.size <= MOST_CELLS)
    if most is not None and len(tables) > check_whole("most", most, at_least=1):
        order = list(tables)
        tables = dict.fromkeys(order[i * len(order) // most] for i in range(most))
    for columns in tables:
        released = next(release for release in model.releases if release.columns == columns)
        found_places = [_released_codes(codes[name], schema[name], released, name) for name in columns]
        places = [place for place in found_places if place is not None]
        if len(places) < len(columns):
            continue
        flat = np.ravel_multi_index(places, released.values.shape)
        answer = model.query(list(columns), level=level)
        found.append(
            Compared(
                columns=columns,
                labels=tuple(map(", ".join, answer.labels)),
                released=answer.estimate,
                low=answer.low,
                high=answer.high,
                sampled=np.bincount(flat, minlength=released.values.size) / size,
                size=size,
            )
        )
    return found


def _released_codes(codes: IntArray, column: Column, released: Release, name: str) -> IntArray | None:
    """The released cells of declared ones; None where neither is part of the other."""
    own = None if released.schema is None else released.schema[name]
    if own is None or own == column:
        return codes
    merged = cell_map(column, own)
    return None if merged is None else np.asarray(merged)[codes]


def agreement_section(model: Model, *, level: float = 0.95) -> Section | None:
    """For a report: how far synthetic records are from each released table, with the tables that they miss most."""
    tables = compared(model, level=level, most=MOST_TABLES)
    if not tables:
        return None
    cells = sum(each.sampled.size for each in tables)
    inside = sum(each.inside * each.sampled.size for each in tables) / cells
    worst = sorted(tables, key=lambda each: each.by_chance - each.distance)
    names = {each.columns: " × ".join(each.columns) for each in tables}
    verdict = "The sample agrees with the release" if inside >= level - 0.05 else "The sample departs from the release"
    bars = Bars(
        labels=[names[each.columns] for each in worst],
        values=[each.distance for each in worst],
        title="How far synthetic records are from each released table",
        unit="total variation distance",
        cells=20,
    )
    figures: list[tuple[Bars | Groups, str]] = [
        (bars, "The distance between synthetic records and each released table")
    ]
    for each in [each for each in worst if each.sampled.size <= _CELLS][:_PICTURES]:
        groups = Groups(
            labels=each.labels,
            series={"released": each.released, "synthetic": each.sampled},
            title=names[each.columns],
            axes=("", names[each.columns]),
        )
        figures.append((groups, f"{names[each.columns]}: released and synthetic"))
    return Section(
        heading=verdict,
        text=[
            f"{SIZE:,} synthetic records were drawn and counted{_some(len(tables), model)}. "
            f"Of {cells:,} released cells, {inside:.0%} have a "
            f"share inside the {level:.0%} interval for the population, up to the chance of so many records. This says "
            "that the model kept what was released, not that what was not released is right."
        ],
        table=Table(
            columns=["released table", "cells", "distance", "by chance alone", "cells inside their interval"],
            rows=[
                [
                    names[each.columns],
                    f"{each.sampled.size:,}",
                    f"{each.distance:.4f}",
                    f"{each.by_chance:.4f}",
                    f"{each.inside:.0%}",
                ]
                for each in itertools.islice(worst, _ROWS)
            ],
            note="distance: half the sum of the differences, the share of records that would have to lie elsewhere"
            + (f"; the {_ROWS} farthest of {len(tables):,} tables" if len(tables) > _ROWS else ""),
        ),
        figures=figures,
    )


def _some(shown: int, model: Model) -> str:
    there = len({release.columns for release in model.releases if release.values.size <= MOST_CELLS})
    return f", in {shown} of {there:,} tables" if shown < there else ""
