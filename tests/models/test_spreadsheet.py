"""CSV and XLSX of what was published: the same numbers, margins that add up, and a workbook that can be read."""

from __future__ import annotations

import csv
import xml.etree.ElementTree as ET
import zipfile
from pathlib import Path

import numpy as np
import pytest

from simplexdp import Budget, CellNumbers, Schema, fit_naive_bayes, release
from simplexdp.cli import run
from simplexdp.errors import InvalidArgument
from simplexdp.spreadsheet import cross_table, export_table

SCHEMA = Schema.of(**{"se<x": ["f&m", "=1+1"], "ill": ["no", "yes", "total"]})
BUDGET = Budget(epsilon=1, delta=1e-6)
SPACE = "{http://schemas.openxmlformats.org/spreadsheetml/2006/main}"


def made() -> object:
    return release([[30, 10, 5], [20, 40, 7]], budget=BUDGET, schema=SCHEMA, entropy=1)


def sheet(path: Path, number: int) -> list[list[object]]:
    with zipfile.ZipFile(path) as archive:
        tree = ET.fromstring(archive.read(f"xl/worksheets/sheet{number}.xml"))
    space = SPACE
    found: list[list[object]] = []
    for row in tree.iter(f"{space}row"):
        found.append([])
        for cell in row:
            value, text = cell.find(f"{space}v"), cell.find(f"{space}is/{space}t")
            found[-1].append(float(value.text) if value is not None else None if text is None else text.text)  # type: ignore[arg-type]
    return found


def test_csv_is_the_frame(tmp_path: Path) -> None:
    published = made()
    export_table(published, tmp_path / "r.csv")  # type: ignore[arg-type]
    rows = list(csv.reader((tmp_path / "r.csv").read_text("utf-8").splitlines()))
    frame = published.to_frame()  # type: ignore[attr-defined]
    assert rows[0] == list(frame.columns)
    place = rows[0].index("probability")
    assert [float(row[place]) for row in rows[1:]] == frame["probability"].tolist()
    assert [row[0] for row in rows[1:4]] == ["f&m"] * 3


def test_xlsx_holds_the_same_and_a_cross_table_with_margins(tmp_path: Path) -> None:
    published = made()
    export_table(published, tmp_path / "r.xlsx")  # type: ignore[arg-type]
    cells = sheet(tmp_path / "r.xlsx", 1)
    frame = published.to_frame()  # type: ignore[attr-defined]
    assert cells[0] == list(frame.columns)
    assert [row[2] for row in cells[1:]] == frame.iloc[:, 2].tolist()
    table = sheet(tmp_path / "r.xlsx", 2)
    assert table[0] == ["se<x", "no", "yes", "total", "total "]
    assert [row[0] for row in table[1:]] == ["f&m", "=1+1", "total"]
    numbers = np.array([row[1:] for row in table[1:]], dtype=float)
    np.testing.assert_allclose(numbers[:, -1], numbers[:, :-1].sum(axis=1))
    np.testing.assert_allclose(numbers[-1], numbers[:-1].sum(axis=0))
    assert numbers[-1, -1] == pytest.approx(112)  # N is public under replace-one
    export_table(published, tmp_path / "again.xlsx")  # type: ignore[arg-type]
    assert (tmp_path / "again.xlsx").read_bytes() == (tmp_path / "r.xlsx").read_bytes()


def test_without_a_public_number_a_cross_table_has_probabilities() -> None:
    found = cross_table(release([[30, 10], [20, 40]], budget=BUDGET, neighbours="add-remove", entropy=1))
    assert found["total"][-1] == pytest.approx(1)
    with pytest.raises(InvalidArgument, match="two columns"):
        cross_table(release([30, 10], budget=BUDGET, entropy=1))


def test_models_and_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = CellNumbers({"se<x": [0, 1] * 60, "ill": [0, 1, 2] * 40})
    model = fit_naive_bayes(rows, SCHEMA, "ill", budget=BUDGET, entropy=1)
    model.write(tmp_path / "nb.json")
    assert run(["export", "table", str(tmp_path / "nb.json"), "--out", str(tmp_path / "nb.xlsx")]) == 0
    assert len(sheet(tmp_path / "nb.xlsx", 1)) == 1 + len(model.to_frame())
    assert run(["export", "table", str(tmp_path / "nb.json"), "--out", str(tmp_path / "nb.ods")]) == 2
    assert ".csv, .xlsx" in capsys.readouterr().err
    with pytest.raises(InvalidArgument, match=r"\.csv or \.xlsx"):
        export_table(model, tmp_path / "x.ods")
