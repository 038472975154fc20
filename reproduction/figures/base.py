"""What a figure is: cells to compute, a drawing, and words on what the paper says and what was found."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from ..cells import Cell
from ..results import Row
from ..settings import Settings

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing


@dataclass(frozen=True, kw_only=True)
class Grid:
    """A table for the report."""

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


class Figure(ABC):
    """One figure or table of the paper."""

    name: ClassVar[str]
    title: ClassVar[str]
    paper_says: ClassVar[str]

    def cells(self, settings: Settings) -> list[Cell]:
        """The work, in parts; a single part unless there is data."""
        return [Cell(figure=self.name, settings=settings)]

    @abstractmethod
    def compute(self, cell: Cell) -> list[Row]:
        """The numbers of one part."""

    @abstractmethod
    def draw(self, rows: Sequence[Row]) -> dict[str, Drawing]:
        """Drawings by a suffix of the file name."""

    @abstractmethod
    def found(self, rows: Sequence[Row]) -> list[str]:
        """What the numbers say, in sentences."""

    def grids(self, rows: Sequence[Row]) -> list[Grid]:  # noqa: ARG002
        """Tables that belong to it."""
        return []
