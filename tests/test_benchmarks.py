"""The utility benchmark's table: what is written can be read, and one cell of it can be computed."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from benchmarks.utility import main
from benchmarks.utility.histogram_cases import cases
from benchmarks.utility.histograms import cell
from benchmarks.utility.table import OURS, Losses, Row, geometric_mean, read, write

from simplexdp import Budget


def one_cell(name: str = "paper") -> list[Row]:
    case = next(case for case in cases(quick=True) if case.name.startswith(name))
    return list(cell(case, Budget(epsilon=1.0, delta=1e-5), 8))


def test_a_cell_of_the_table_survives_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = one_cell()
    path = tmp_path / "table.csv"
    write(rows, path)
    again = list(read(path))
    assert [row.method for row in again] == [row.method for row in rows]
    np.testing.assert_array_equal([row.loss for row in again], [row.loss for row in rows])
    main(["--read", str(path), "--part", "histograms"])
    assert OURS in capsys.readouterr().out


def test_every_method_of_the_issue_is_in_a_cell_and_the_paper_is_far_behind() -> None:
    """8 paired draws; Algorithm 1 loses .02 here and the default .0003, so that chance cannot turn it round."""
    losses = {row.method: row.loss for row in one_cell()}
    wanted = {"Algorithm 1", "exact Dir", "Foulds", "Bernstein", "Ye", OURS}
    wanted |= {f"{noise} {estimate}" for noise in "GL" for estimate in ("1e-6", "+s/2", "project", "truncN")}
    assert wanted <= set(losses)
    assert all(math.isfinite(loss) and loss > 0 for loss in losses.values())
    assert losses[OURS] < losses["Algorithm 1"] / 10


def test_losses_are_arranged_by_method_and_cell() -> None:
    common = {"part": "networks", "case": "a", "origin": "fresh", "budget": "(5, ε)-RDP", "epsilon": 1.0, "error": 0.1}
    rows = [Row(method="x", loss=3.0, base=1.0, **common), Row(method="y", loss=2.0, base=1.0, **common)]  # type: ignore[arg-type]
    table = Losses.of(rows)
    assert table.of_method("x").tolist() == [2.0]
    assert geometric_mean(table.of_method("x") / table.of_method("y")) == pytest.approx(2.0)
    assert geometric_mean(np.array([4.0, 1.0, math.nan])) == pytest.approx(2.0)


def test_the_tables_of_the_docs_come_from_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "table.csv"
    both = one_cell(), one_cell("Mendel")
    write([row for rows in both for row in rows], path)
    main(["--read", str(path), "--markdown"])
    lines = capsys.readouterr().out.splitlines()
    (line,) = [line for line in lines if line.startswith("| Algorithm 1 of the paper")]
    ratios = [found[OURS] / found["Algorithm 1"] for found in ({row.method: row.loss for row in rows} for rows in both)]
    assert float(line.split("|")[2]) == pytest.approx(math.prod(ratios) ** 0.5, rel=0.05)
    assert float(line.split("|")[4]) == pytest.approx(ratios[1], rel=0.05)  # Mendel's peas are fresh
