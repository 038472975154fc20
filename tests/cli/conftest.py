"""Rows, a schema and a way to run commands, for all tests of the command line."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from cli_support import BUDGET, FITS, write_rows

from simplexdp.cli import run


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


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with rows and a schema, which is the current one."""
    write_rows(tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(scope="session")
def _trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("trained")
    write_rows(folder)
    common = [f"{folder}/rows.parquet", "--schema", f"{folder}/schema.yaml", *BUDGET]
    for name, what in FITS.items():
        assert run(["fit", *what, *common, "--out", f"{folder}/{name}.json"]) == 0
        assert run(["fit", *what, *common, "--seed", "1", "--out", f"{folder}/{name}-seeded.json"]) == 0
    return folder


@pytest.fixture
def trained(_trained: Path, work: Path) -> Path:
    """The same folder with a fitted release and models, `dist`, `nb` and `bn`, each also `-seeded`."""
    for document in _trained.glob("*.json"):
        shutil.copy(document, work)
    return work
