"""Rows in shards, keys and a request."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from simplexdp.schema import Schema
from simplexdp.shards import CountingKey, ReleaseKey, ShardRequest

SCHEMA = Schema.of(ill=["no", "yes"], town=["a", "b", "c"], smoker=[False, True])
TABLES = (("town", "ill"), ("smoker", "ill"))
NAMES = tuple(f"part-{i}.parquet" for i in range(3))


class Setting(NamedTuple):
    """A folder of shards, all rows, the keys and the request."""

    folder: Path
    rows: Any
    request: ShardRequest
    counting: CountingKey
    release: ReleaseKey


def rows_of(size: int, seed: int = 1) -> Any:
    draw = np.random.default_rng(seed)
    return pa.table(
        {
            "ill": pa.array(np.array(["no", "yes"])[draw.integers(0, 2, size)]),
            "town": pa.array(np.array(["a", "b", "c"])[draw.integers(0, 3, size)]),
            "smoker": draw.integers(0, 2, size).astype(bool),
            "who": draw.integers(0, size // 3, size),
        }
    )


def write_shards(folder: Path, rows: Any, names: tuple[str, ...]) -> None:
    """Shards by person, so that each lies in one."""
    for i, name in enumerate(names):
        pq.write_table(rows.filter(pa.array(np.asarray(rows["who"]) % len(names) == i)), folder / name)
