"""`simplexdp query`: answers on the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pytest

from simplexdp import BayesianNetwork, Budget, Numeric, Schema
from simplexdp.cli import run

SCHEMA = Schema.of(age=Numeric([0, 18, 45, 120]), smoker=["no", "yes"], ill=["no", "yes"])
ROWS = pa.table(
    {
        "age": [(7 * i) % 120 for i in range(600)],
        "smoker": [("no", "no", "yes")[i % 3] for i in range(600)],
        "ill": [("no", "yes")[i % 5 == 0] for i in range(600)],
    }
)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("query") / "model.json"
    budget = Budget(epsilon=1, delta=1e-6)
    BayesianNetwork({"ill": ["smoker"], "age": ["smoker"]}, SCHEMA, budget=budget).fit(ROWS).model.write(path)
    return path


def asked(capsys: Any, *words: object) -> Any:
    assert run(["query", *map(str, words), "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_a_conditional_probability(model: Path, capsys: Any) -> None:
    found = asked(capsys, model, "ill=yes", "--given", "smoker=yes")
    assert found["ground"] == "released"
    (row,) = found["rows"]
    assert row["smoker"] == row["ill"] == "yes"
    assert 0 <= row["low"] < row["estimate"] < row["high"] <= 1


def test_means_quantiles_counts_and_edges(model: Path, capsys: Any) -> None:
    assert 30 < asked(capsys, model, "--mean", "age")["rows"][0]["estimate"] < 90
    assert asked(capsys, model, "--quantile", "age", "--q", "0.9")["rows"][0]["estimate"] > 60
    young = asked(capsys, model, "age=0..45", "--counts")["rows"][0]
    assert 150 < young["estimate"] < 350
    assert len(asked(capsys, model, "age=10|50", "smoker")["rows"]) == 2


def test_what_it_rests_on_is_said(model: Path, capsys: Any) -> None:
    assert run(["query", str(model), "ill", "--given", "age"]) == 0
    assert "no coverage" in " ".join(capsys.readouterr().out.split())
    assert run(["query", str(model), "ill", "--given", "age", "--strict"]) == 2
    assert "for_analysis" in capsys.readouterr().err


def test_an_answer_is_written(model: Path, tmp_path: Path) -> None:
    out = tmp_path / "cells.csv"
    assert run(["query", str(model), "smoker", "ill", "--out", str(out)]) == 0
    table = pa.csv.read_csv(out)
    assert table.column_names == ["smoker", "ill", "estimate", "standard_error", "low", "high"]
    assert run(["query", str(model), "smoker", "--out", str(out)]) == 2


@pytest.mark.parametrize(
    ("words", "message"),
    [(["colour"], "released"), (["ill=perhaps"], "no, yes"), (["ill", "--mean", "age"], "alone"), ([], "columns")],
)
def test_a_wrong_question_is_refused_in_one_line(model: Path, capsys: Any, words: list[str], message: str) -> None:
    assert run(["query", str(model), *words]) == 2
    err = capsys.readouterr().err
    assert message in err
    assert err.count("\n") == 1


def test_records_given_values(model: Path, tmp_path: Path) -> None:
    out = tmp_path / "records.csv"
    assert (
        run(["sample", str(model), "--out", str(out), "-n", "50", "--given", "ill=yes", "--given", "age=18..45"]) == 0
    )
    rows = pa.csv.read_csv(out)
    assert set(rows["ill"].to_pylist()) == {"yes"}
    assert all(18 <= age < 45 for age in rows["age"].to_pylist())
