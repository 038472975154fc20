"""Rows, a schema and a way to run commands, for all tests of the command line."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from simplexdp.cli import run

SCHEMA = """\
columns:
  - {name: smoker, values: ["no", "yes"]}
  - {name: age, edges: [0, 18, 40, 65, 100]}
  - {name: region, values: [1, 2, 3], other: cell}
  - {name: ill, values: [false, true]}
"""
BUDGET = ("--epsilon", "2", "--delta", "1e-6")
SECRET = "Xylophone77"


@dataclass(frozen=True)
class Ran:
    """What a command did."""

    code: int
    out: str
    err: str

    @property
    def data(self) -> Any:
        return json.loads(self.out)


@pytest.fixture
def simplexdp(capsys: pytest.CaptureFixture[str]) -> Callable[..., Ran]:
    """Run a command in this process."""

    def command(*arguments: object) -> Ran:
        capsys.readouterr()
        code = run([str(argument) for argument in arguments])
        out, err = capsys.readouterr()
        return Ran(code, out, err)

    return command


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


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with rows and a schema, which is the current one."""
    rows = make_rows()
    pq.write_table(rows, tmp_path / "rows.parquet", row_group_size=400)
    pyarrow.csv.write_csv(rows, tmp_path / "rows.csv")
    (tmp_path / "schema.yaml").write_text(SCHEMA)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def contents(folder: Path) -> set[str]:
    """The names in a folder, hidden ones too."""
    return {path.name for path in folder.iterdir()}
