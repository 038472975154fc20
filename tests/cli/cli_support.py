"""Rows, a schema, and the folders that tests of the command line look into."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

SCHEMA = """\
columns:
  - {name: smoker, values: ["no", "yes"]}
  - {name: age, edges: [0, 18, 40, 65, 100]}
  - {name: region, values: [1, 2, 3], other: cell}
  - {name: ill, values: [false, true]}
"""
BUDGET = ("--epsilon", "2", "--delta", "1e-6")
SECRET = "Xylophone77"
FITS = {
    "dist": ("distribution", "--columns", "smoker,age"),
    "nb": ("nb", "--target", "ill"),
    "bn": ("bn", "--graph", "smoker->ill,ill->region"),
}


def make_rows(size: int = 1500) -> Any:
    rng = np.random.default_rng(7)
    smoker = rng.choice(["no", "yes"], size, p=[0.7, 0.3])
    return pa.table(
        {
            "id": np.arange(size),
            "person": np.arange(size) // 3,
            "smoker": smoker,
            "age": rng.integers(0, 100, size),
            "region": rng.integers(1, 4, size),
            "ill": rng.random(size) < np.where(smoker == "yes", 0.6, 0.1),
            "note": np.where(np.arange(size) == 11, SECRET, "fine, thanks"),
        }
    )


def write_rows(folder: Path) -> None:
    """The same rows as Parquet and CSV, and their schema."""
    rows = make_rows()
    pq.write_table(rows, folder / "rows.parquet", row_group_size=400)
    pyarrow.csv.write_csv(rows, folder / "rows.csv")
    (folder / "schema.yaml").write_text(SCHEMA)


def contents(folder: Path) -> set[str]:
    """The names in a folder, hidden ones too."""
    return {path.name for path in folder.iterdir()}
