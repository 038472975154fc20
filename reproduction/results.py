"""Results as tidy rows: one number a row, with everything that says where it comes from."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from statistics import stdev


@dataclass(frozen=True, kw_only=True)
class Row:
    """One number.

    Args:
        figure: the figure or table it belongs to.
        setting: "correct" or "as published, not private".
        data: the data set or curve family.
        method: the method or curve.
        x: the horizontal coordinate: ε, ε̂, r or γ.
        repeat: which draw, from 0.
        seed: of that cell, 0 where nothing is drawn.
        metric: what was measured.
        value: the number; missing where the budget is infeasible.
        note: "infeasible", or what else is to be known.
    """

    figure: str
    setting: str = "correct"
    data: str = ""
    method: str = ""
    x: float = 0.0
    repeat: int = 0
    seed: int = 0
    metric: str
    value: float
    note: str = ""


CORRECT = "correct"
PUBLISHED = "as published, not private"
COLUMNS = tuple(field.name for field in fields(Row))


def write_csv(path: Path, rows: Iterable[Row]) -> None:
    """Write to a neighbour first, so that an interruption leaves no half file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(path.suffix + ".partial")
    with partial.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        for row in rows:
            record = asdict(row)
            record["value"] = "" if math.isnan(row.value) else repr(float(row.value))
            writer.writerow(record)
    partial.replace(path)


def read_csv(path: Path) -> list[Row]:
    """What `write_csv` wrote."""
    with path.open(newline="", encoding="utf-8") as file:
        return [
            Row(
                figure=r["figure"],
                setting=r["setting"],
                data=r["data"],
                method=r["method"],
                x=float(r["x"]),
                repeat=int(r["repeat"]),
                seed=int(r["seed"]),
                metric=r["metric"],
                value=float(r["value"] or "nan"),
                note=r["note"],
            )
            for r in csv.DictReader(file)
        ]


def write_parquet(path: Path, rows: Sequence[Row]) -> None:
    """The same as Parquet."""
    import pyarrow as pa
    from pyarrow import parquet

    columns = {name: [getattr(row, name) for row in rows] for name in COLUMNS}
    columns["value"] = [None if math.isnan(value) else value for value in columns["value"]]
    parquet.write_table(pa.table(columns), path)


@dataclass(frozen=True, kw_only=True)
class Curve:
    """Means over the repeats along x, with their standard deviations."""

    x: tuple[float, ...]
    mean: tuple[float, ...]
    deviation: tuple[float, ...]
    times: tuple[int, ...]

    @property
    def error(self) -> tuple[float, ...]:
        """Standard errors of the means."""
        return tuple(d / math.sqrt(n) for d, n in zip(self.deviation, self.times, strict=True))

    def at(self, x: float) -> float:
        """The mean at the nearest x (on the logarithmic axis)."""
        if not self.x:
            return math.nan
        best = min(range(len(self.x)), key=lambda i: abs(math.log(max(self.x[i], 1e-300) / x)))
        return self.mean[best]


def curve(rows: Iterable[Row], **wanted: str) -> Curve:
    """The curve of the rows that have these values; infeasible points are left out."""
    groups: dict[float, list[float]] = {}
    for row in rows:
        if all(getattr(row, name) == value for name, value in wanted.items()) and not math.isnan(row.value):
            groups.setdefault(row.x, []).append(row.value)
    x = tuple(sorted(groups))
    means = tuple(sum(groups[at]) / len(groups[at]) for at in x)
    deviations = tuple(stdev(groups[at]) if len(groups[at]) > 1 else 0.0 for at in x)
    return Curve(x=x, mean=means, deviation=deviations, times=tuple(len(groups[at]) for at in x))


def distinct(rows: Iterable[Row], name: str) -> list[str]:
    """The values of a column in order of appearance."""
    return list(dict.fromkeys(getattr(row, name) for row in rows))
