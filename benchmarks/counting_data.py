"""Data for the counting benchmark, written once into a folder and read by every contender."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

FEATURES, VALUES, CLASSES = 20, 10, 2
NAMES = [f"f{i}" for i in range(FEATURES)]
NETWORK = {"a": (), "b": (), "c": ("a",), "d": ("a", "b"), "e": ("c", "d"), "f": ("e",), "g": ("b", "f")}
STATES = 3


def codes(rows: int) -> dict[str, np.ndarray]:
    """Twenty features of ten values and a class of two, as bytes."""
    draw = np.random.default_rng(1)
    columns = {name: draw.integers(0, VALUES, rows, dtype=np.uint8) for name in NAMES}
    return {**columns, "y": draw.integers(0, CLASSES, rows, dtype=np.uint8)}


def codes_file(folder: Path, rows: int) -> Path:
    path = folder / f"codes-{rows}.parquet"
    if not path.exists():
        pq.write_table(pa.table(codes(rows)), path)
    return path


def strings_file(folder: Path, rows: int) -> Path:
    path = folder / f"strings-{rows}.parquet"
    if not path.exists():
        words = {name: [f"{name}-value-{v}" for v in range(VALUES)] for name in NAMES} | {"y": ["no", "yes"]}
        columns = {
            name: pa.DictionaryArray.from_arrays(column.astype(np.int32), pa.array(words[name])).cast(pa.string())
            for name, column in codes(rows).items()
        }
        pq.write_table(pa.table(columns), path)
    return path


def network_rows(rows: int) -> dict[str, np.ndarray]:
    draw = np.random.default_rng(2)
    return {name: draw.integers(0, STATES, rows) for name in NETWORK}
