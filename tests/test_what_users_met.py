"""Rows of what stopped people who tried it as a new user would: errors that say what to do, and one way to read."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from simplexdp import (
    BayesianNetwork,
    Budget,
    CellNumbers,
    Gaussian,
    Ledger,
    Query,
    Schema,
    fit_naive_bayes,
    plan,
    read,
    release,
    release_distribution,
)
from simplexdp.bundle import Answers, bundle
from simplexdp.cli import run
from simplexdp.errors import FormatError, Infeasible, SimplexDPError
from simplexdp.forecast import smallest_epsilon_for_cell

BUDGET = Budget(epsilon=1, delta=1e-6)
SCHEMA = Schema.of(Sex=["f", "m"], age=["young", "old"])
ROWS = pa.table({"Sex": ["f", "m"] * 50, "age": ["young", "old"] * 50})


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (lambda: release_distribution(ROWS, SCHEMA, ["Sx"], budget=BUDGET), "Did you mean 'Sex'"),
        (lambda: fit_naive_bayes(ROWS, SCHEMA, "agee", budget=BUDGET), "Did you mean 'age'"),
        (lambda: release([1, 2], budget=BUDGET, mechanism="gausian"), "Did you mean 'gaussian'"),  # type: ignore[arg-type]
        (lambda: Schema.given({"columns": [{"name": "a", "valeus": ["x"]}]}), "Did you mean 'values'"),
        (lambda: BayesianNetwork([("Sex", "aeg")], SCHEMA), "Did you mean 'age'"),
        (lambda: release_distribution(ROWS, 3, ["Sex"], budget=BUDGET), "got 'int'"),  # type: ignore[arg-type]
        (lambda: release_distribution(ROWS, None, ["Sex"], budget=BUDGET), "Write Schema.of"),  # type: ignore[arg-type]
        (lambda: release([1, 2], budget=1.0), "got 'float'"),  # type: ignore[arg-type]
        (lambda: release([1, 2], budget=BUDGET, ledger=3, dataset="x"), "got 'int'"),  # type: ignore[arg-type]
        (lambda: release([1, 2], budget=BUDGET, ledger="none.db", dataset="x"), "ledger create"),
    ],
)
def test_errors_say_what_was_probably_meant(call: Any, told: str) -> None:
    with pytest.raises(SimplexDPError) as caught:
        call()
    assert told in str(caught.value)


def test_the_place_of_an_error_in_sql_without_its_words() -> None:
    sql = "SELECT Sex\nFROM people WHERE (age = 'secret word'"
    with pytest.raises(SimplexDPError, match=r"line 2, column \d+") as caught:
        release_distribution(Query(sql, duckdb.connect()), SCHEMA, ["Sex"], budget=BUDGET, neighbours="add-remove")
    assert "secret" not in str(caught.value)


def test_half_an_arrow_and_unknown_commands(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    SCHEMA.write(tmp_path / "schema.yaml")
    asked = ["fit", "bn", "rows.csv", "--schema", str(tmp_path / "schema.yaml"), "--epsilon", "1", "--delta", "1e-6"]
    assert run([*asked, "--graph", "Sex>age", "--out", str(tmp_path / "bn.json")]) == 2
    assert "Write an edge with an arrow: Sex->age." in capsys.readouterr().err
    assert run(["plam"]) == 2
    assert "Did you mean 'plan'" in capsys.readouterr().err
    assert run(["fit", "bn", "--epsilonn", "1"]) == 2
    assert "--epsilon" in capsys.readouterr().err


def test_read_takes_anything_that_was_written(tmp_path: Path) -> None:
    made = release_distribution(CellNumbers({"Sex": [0, 1] * 60, "age": [0, 1] * 60}), SCHEMA, ["Sex"], budget=BUDGET)
    made.write(tmp_path / "release.json")
    SCHEMA.write(tmp_path / "schema.yaml")
    (tmp_path / "schema.json").write_text(SCHEMA.to_json())
    Ledger.open(tmp_path / "ledger.db", budget=BUDGET)
    bundle(made, tmp_path / "b.zip", Answers(given={}))
    bundle(made, tmp_path / "folder", Answers(given={}))
    for name in ("release.json", "b.zip", "folder"):
        assert (read(tmp_path / name).values == made.values).all()
    assert read(tmp_path / "schema.yaml") == read(tmp_path / "schema.json") == SCHEMA
    assert read(str(tmp_path / "ledger.db")).remaining("x").budget.delta == 1e-6
    (tmp_path / "other.zip").write_bytes(b"PK\x03\x04 nothing")
    for name in ("other.zip", "absent.json"):
        with pytest.raises(FormatError):
            read(tmp_path / name)


@pytest.mark.parametrize("neighbours", ["replace-one", "add-remove"])
@pytest.mark.parametrize("error", [2.0, 15.0])
def test_from_a_wanted_error_to_the_smallest_epsilon(neighbours: Any, error: float) -> None:
    settings = {"total": 5000.0, "mechanism": "gaussian", "neighbours": neighbours}
    found = smallest_epsilon_for_cell(error, [6, 12], budget=BUDGET, **settings)

    def reached(epsilon: float) -> float:
        made = plan([6, 12], budget=Budget(epsilon=epsilon, delta=1e-6), **settings).design.mechanisms  # type: ignore[arg-type]
        return max(math.sqrt(each.noise_variance) for each in made)

    assert reached(found) <= error < reached(found / 1.01) * (1 + 1e-9)
    assert isinstance(plan([6], budget=BUDGET, **settings).design.mechanisms[0], Gaussian)  # type: ignore[arg-type]
    with pytest.raises(Infeasible):
        smallest_epsilon_for_cell(1e-6, [6], budget=BUDGET, **settings)


def test_the_command_for_a_wanted_width(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["plan", "--help"]
    assert run(asked) == 0
    assert "--target-width" in capsys.readouterr().out
