"""A data set in memory: columns of texts with the label last, read and checked."""

from __future__ import annotations

import csv
import io
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from simplexdp.errors import SourceError

from .catalogue import DataSet, known
from .files import find, read_text


@dataclass(frozen=True, kw_only=True, eq=False)
class Table:
    """Columns of texts; `numeric` says whether every value of a column is a number."""

    data_set: DataSet
    columns: dict[str, NDArray[np.str_]]
    numeric: dict[str, bool]
    generated: bool = False

    @property
    def rows(self) -> int:
        """How many records."""
        return len(self.columns[self.data_set.label])

    @property
    def attributes(self) -> list[str]:
        """The columns that are used, without the label."""
        return [name for name in self.columns if name != self.data_set.label and name not in self.data_set.unused]

    @property
    def labels(self) -> NDArray[np.str_]:
        """The label column."""
        return self.columns[self.data_set.label]

    def numbers(self, name: str) -> NDArray[np.float64]:
        """A numeric column as floats."""
        return self.columns[name].astype(np.float64)


def load(name: str, *, directory: Path | None = None) -> Table:
    """Find, check and read a data set.

    Raises:
        SourceError: when it is missing or differs from Table 1 in rows, columns, class balance or checksum.
    """
    data_set = known(name)
    text = read_text(data_set, find(name, directory=directory))
    rows = csv.reader(io.StringIO(text.decode()))
    header = next(rows)
    columns = {column: np.array(values) for column, values in zip(header, zip(*rows, strict=True), strict=True)}
    check(data_set, columns)
    return Table(data_set=data_set, columns=columns, numeric={name: _numeric(v) for name, v in columns.items()})


def check(data_set: DataSet, columns: dict[str, NDArray[np.str_]]) -> None:
    """Compare with Table 1: rows, columns, the label and how often each class occurs."""
    names = list(columns)
    if len(names) != data_set.attributes + 1 or names[-1] != data_set.label:
        raise SourceError(
            f"{data_set.file} must have {data_set.attributes} attributes and the label {data_set.label!r} last."
        )
    if len(columns[names[0]]) != data_set.rows:
        raise SourceError(f"{data_set.file} must have {data_set.rows} rows, got {len(columns[names[0]])}.")
    if Counter(columns[data_set.label].tolist()) != Counter(data_set.classes):
        raise SourceError(f"the labels of {data_set.file} are not distributed as in Table 1.")


def _numeric(values: NDArray[np.str_]) -> bool:
    try:
        return bool(np.isfinite(values.astype(np.float64)).all())
    except ValueError:
        return False
