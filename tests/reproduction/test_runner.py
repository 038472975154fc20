"""Seeds, jobs, resuming, files and the command."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from reproduction import runner
from reproduction.cells import Cell
from reproduction.figures.base import Figure
from reproduction.figures.models import ModelFigure
from reproduction.figures.naive_bayes import NaiveBayesRdp
from reproduction.figures.registry import figure_named
from reproduction.results import COLUMNS, Row, read_csv, write_csv, write_parquet
from reproduction.settings import Settings
from simplexdp.cli import app

pytestmark = pytest.mark.slow

SETTINGS = Settings(quick=True, repeats=2, generated=True)
FEW = ("algorithm1", "gaussian-exact", "foulds")


class Small(NaiveBayesRdp):
    """Three methods on one data set."""

    def cells(self, settings: Settings) -> list[Cell]:
        return [c for c in super().cells(settings) if c.method in FEW and c.data == "GermanCredit"]


def test_one_and_two_jobs_give_the_same_rows(tmp_path: Path) -> None:
    figures: list[Figure] = [figure_named("trigamma"), Small()]
    one = runner.run(figures, SETTINGS, tmp_path / "one", jobs=1)
    two = runner.run(figures, SETTINGS, tmp_path / "two", jobs=2)
    assert one == two
    for file in ("results.csv", "results.parquet"):
        assert (tmp_path / "one" / file).read_bytes() == (tmp_path / "two" / file).read_bytes()


def test_finished_cells_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    computed: list[str] = []
    original = runner.work

    def counting(cell: Cell) -> tuple[Cell, list[Row]]:
        if len(computed) == 2:
            raise KeyboardInterrupt
        computed.append(cell.method)
        return original(cell)

    monkeypatch.setattr(runner, "work", counting)
    with pytest.raises(KeyboardInterrupt):
        runner.run([Small()], SETTINGS, tmp_path)
    kept = list((tmp_path / "cells").glob("*.csv"))
    assert len(kept) == 2
    stamps = {path: path.stat().st_mtime_ns for path in kept}
    monkeypatch.setattr(runner, "work", original)
    rows = runner.run([Small()], SETTINGS, tmp_path)
    assert {path: path.stat().st_mtime_ns for path in kept} == stamps
    monkeypatch.undo()
    assert rows == runner.run([Small()], SETTINGS, tmp_path / "fresh")


def test_other_settings_are_other_cells() -> None:
    cell = Cell(figure="naive-bayes-rdp", settings=SETTINGS, data="Thyroid", method="foulds")
    files = {
        replace(cell, settings=replace(SETTINGS, **change)).file  # type: ignore[arg-type]
        for change in ({}, {"seed": 2}, {"repeats": 1}, {"generated": False})
    }
    assert len(files) == 4
    assert cell.file == replace(cell, settings=replace(SETTINGS, data=Path("elsewhere"))).file


def test_seeds_are_recorded_and_differ_between_cells() -> None:
    rows = [row for cell in Small().cells(SETTINGS) for row in runner.work(cell)[1]]
    seeds = {(row.method, row.x): row.seed for row in rows}
    assert len(set(seeds.values())) == len(seeds) == 3 * len(FEW)
    again = [row for cell in Small().cells(SETTINGS) for row in runner.work(cell)[1]]
    assert rows == again
    other = [row for cell in Small().cells(replace(SETTINGS, seed=5)) for row in runner.work(cell)[1]]
    assert [row.value for row in rows] != [row.value for row in other]


def test_rows_survive_the_files(tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    rows = [
        Row(figure="f", data="ä, ö", method="m", x=0.1, repeat=1, seed=2**40, metric="v", value=1 / 3),
        Row(figure="f", metric="v", value=math.nan, note="infeasible"),
    ]
    write_csv(tmp_path / "r.csv", rows)
    back = read_csv(tmp_path / "r.csv")
    assert back[0] == rows[0]
    assert math.isnan(back[1].value)
    write_parquet(tmp_path / "r.parquet", rows)
    table = parquet.read_table(tmp_path / "r.parquet")
    assert tuple(table.column_names) == COLUMNS
    assert table["value"].to_pylist() == [1 / 3, None]


def test_the_command_writes_results_figures_and_a_report(tmp_path: Path) -> None:
    out = tmp_path / "out"
    arguments = ["reproduce", "--quick", "--generated", "--jobs", "1", "--out", str(out), "--figure", "networks"]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    assert "report.html" in result.output.replace("\n", "")
    manifest = json.loads((out / "manifest.json").read_text(encoding="utf-8"))
    assert manifest["private"] is False
    assert manifest["settings"]["seed"] == 1
    assert {path.name for path in (out / "figures").iterdir()} == {"networks.png", "networks.svg"}


def test_the_command_lists_figures_and_refuses_unknown_ones(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["reproduce", "--list"])
    assert "naive-bayes-rdp" in result.output
    result = CliRunner().invoke(app, ["reproduce", "--figure", "nothing", "--out", str(tmp_path)])
    assert "naive-bayes-rdp" in str(result.exception)


def test_every_model_figure_divides_into_cells_by_data_and_method() -> None:
    figure = figure_named("naive-bayes-dp")
    assert isinstance(figure, ModelFigure)
    cells = figure.cells(Settings(as_published=True))
    assert len({cell.file for cell in cells}) == len(cells)
    assert {cell.data for cell in cells if cell.published} >= {"SouthGermanCredit", "Adult"}
    assert "GermanCredit" in {cell.data for cell in cells if not cell.published}
