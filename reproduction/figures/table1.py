"""Table 1: the data sets as they are read."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..cells import Cell
from ..datasets import CATALOGUE, PAPER_ORDER
from ..results import Row
from ..settings import Settings
from .base import Figure, Grid

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing

METRICS = ("instances", "attributes", "classes", "positive")


class TableOne(Figure):
    """Rows, attributes, classes and the positive share, counted in the files."""

    name = "table1"
    title = "The data sets"
    paper_says = "Table 1: eight UCI data sets; GermanCredit is credited to Grömping (2019), Adult has 13 attributes."

    def cells(self, settings: Settings) -> list[Cell]:
        """One for each data set."""
        names = settings.naive_bayes_data(published=False) if settings.quick else (*PAPER_ORDER, "SouthGermanCredit")
        return [Cell(figure=self.name, settings=settings, data=name) for name in names]

    def compute(self, cell: Cell) -> list[Row]:
        """Count."""
        table = cell.settings.table(cell.data)
        positive = table.data_set.positive
        share = math.nan if positive is None else float((table.labels == positive).mean())
        values = (table.rows, len(table.attributes), len(set(table.labels.tolist())), share)
        return [
            Row(figure=self.name, data=cell.data, metric=metric, value=float(value))
            for metric, value in zip(METRICS, values, strict=True)
        ]

    def draw(self, rows: Sequence[Row]) -> dict[str, Drawing]:  # noqa: ARG002
        """A table needs no drawing."""
        return {}

    def found(self, rows: Sequence[Row]) -> list[str]:
        """Whether all agree."""
        wrong = [
            data for data in dict.fromkeys(row.data for row in rows) if self._values(rows, data) != self._expected(data)
        ]
        if wrong:
            return ["These tables differ from Table 1 (generated data do): " + ", ".join(wrong) + "."]
        return [
            "All agree with Table 1.",
            "Adult has 13 attributes here without fnlwgt; the published numbers fit the file without education-num.",
            "The published GermanCredit file is the South German version; the published Shopper file is rounded "
            "to whole numbers.",
        ]

    def grids(self, rows: Sequence[Row]) -> list[Grid]:
        """Table 1."""
        lines = tuple((data, *self._values(rows, data)) for data in dict.fromkeys(row.data for row in rows))
        return [Grid(title="Table 1", header=("data set", *METRICS), rows=lines)]

    @staticmethod
    def _values(rows: Sequence[Row], data: str) -> tuple[str, ...]:
        found = {row.metric: row.value for row in rows if row.data == data}
        share = found["positive"]
        return (*(f"{found[m]:.0f}" for m in METRICS[:3]), "–" if math.isnan(share) else f"{100 * share:.0f} %")

    @staticmethod
    def _expected(data: str) -> tuple[str, ...]:
        entry = CATALOGUE[data]
        share = entry.positive_share
        counts = (entry.rows, entry.used_attributes, len(entry.classes))
        return (*map(str, counts), "–" if share is None else f"{100 * share:.0f} %")
