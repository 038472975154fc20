"""The one table of the utility benchmark: a row is a method on a case at a budget."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Part = Literal["histograms", "naive-bayes", "networks"]
Origin = Literal["tuned", "fresh"]
OURS = "ours"
LEAST = 1e-9
"""Losses below this count as this in ratios."""


@dataclass(frozen=True, kw_only=True)
class Row:
    """Mean loss of one method over paired seeds.

    Args:
        part: which of the three benchmarks.
        case: the histogram, data set or network.
        origin: "tuned" where constants of the library were chosen on the case, else "fresh".
        budget: "(ε, 1e-5)-DP", "(ε, 1e-9)-DP" or "(5, ε)-RDP".
        epsilon: of the budget.
        method: its name in the table.
        loss: KL, cross-entropy or log-loss.
        error: standard error of the loss over the seeds.
        base: the loss of the non-private fit, 0 for histograms.
        draws: seeds.
        accuracy: of a classifier.
        paired: standard error of the difference to our loss over the same seeds.
    """

    part: Part
    case: str
    origin: Origin
    budget: str
    epsilon: float
    method: str
    loss: float
    error: float
    base: float = 0.0
    draws: int = 1
    accuracy: float = math.nan
    paired: float = math.nan

    @property
    def excess(self) -> float:
        """Loss above the non-private fit."""
        return self.loss - self.base


@dataclass(frozen=True)
class Losses:
    """Methods × cells of the table (a cell is a case at a budget); nan where a method does not apply."""

    methods: tuple[str, ...]
    cells: tuple[tuple[str, str, float], ...]
    values: NDArray[np.float64]

    @classmethod
    def of(cls, rows: Iterable[Row], value: str = "excess") -> Losses:
        """Arrange `value` of the rows."""
        found = {(row.method, (row.case, row.budget, row.epsilon)): float(getattr(row, value)) for row in rows}
        methods = tuple(dict.fromkeys(method for method, _ in found))
        cells = tuple(dict.fromkeys(cell for _, cell in found))
        values = np.array([[found.get((method, cell), math.nan) for cell in cells] for method in methods])
        return cls(methods, cells, values)

    def of_method(self, method: str) -> NDArray[np.float64]:
        """Its row."""
        return np.asarray(self.values[self.methods.index(method)])


def geometric_mean(ratios: NDArray[np.float64]) -> float:
    """Of the finite ratios."""
    return float(np.exp(np.log(ratios[np.isfinite(ratios)]).mean()))


def write(rows: Iterable[Row], path: Path) -> None:
    """As CSV, one line a row."""
    for _ in written(rows, path):
        pass


def written(rows: Iterable[Row], path: Path) -> Iterator[Row]:
    """The rows as they come, each one in the file before the next is waited for."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, [field.name for field in fields(Row)])
        writer.writeheader()
        for row in rows:
            writer.writerow(asdict(row))
            file.flush()
            yield row


def read(path: Path) -> Iterator[Row]:
    """What `write` wrote."""
    numbers = {field.name for field in fields(Row) if field.type == "float"}
    with path.open(newline="", encoding="utf-8") as file:
        for line in csv.DictReader(file):
            typed = {name: float(text) if name in numbers else text for name, text in line.items()}
            yield Row(**typed | {"draws": int(line["draws"])})  # type: ignore[arg-type]


def pivot(rows: Sequence[Row], value: str = "loss") -> Iterator[str]:
    """Lines of text: a line for each case and budget, a column for each method."""
    table = Losses.of(rows, value)
    width = max((len(case) for case, _, _ in table.cells), default=4)
    yield f"{'case':{width}} {'budget':>13} {'eps':>6} " + " ".join(f"{method:>11.11}" for method in table.methods)
    for (case, budget, epsilon), column in zip(table.cells, table.values.T, strict=True):
        yield f"{case:{width}} {budget:>13} {epsilon:6g} " + " ".join(f"{loss:11.3g}" for loss in column)
