"""`simplexdp account` and `simplexdp calibrate`: text, JSON and wrong arguments."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from simplexdp import BalancedLaplace, Budget, Dirichlet, Polya
from simplexdp.cli import app, main
from simplexdp.errors import SimplexDPError

SOURCE = Path(__file__).parents[2] / "src"


def run(*arguments: str) -> str:
    result = CliRunner().invoke(app, list(arguments), env={"COLUMNS": "200"})
    if result.exception is not None:
        raise result.exception
    return result.stdout


def test_account_as_text() -> None:
    text = run("account", "dirichlet", "--r", "0.5", "--alpha", "8", "--epsilon", "1")
    assert "1.16422e-05" in text
    assert "replace-one" in text
    assert "the paper's bound" in text


def test_account_as_json() -> None:
    arguments = ["account", "dirichlet", "--r", "1", "--alpha", "900", "--tables", "24", "--json"]
    found = json.loads(run(*arguments, "--epsilon", "1", "--delta", "1e-6", "--order", "2", "--order", "5000"))
    loss = 24 * Dirichlet(r=1, alpha=900).loss()
    assert found["parameters"] == {"r": 1.0, "alpha": 900.0}
    assert (found["tables"], found["neighbours"], found["largest_order"]) == (24, "replace-one", 901.0)
    views = {view["view"]: view for view in found["views"]}
    assert views["δ at ε = 1"]["upper"] == loss.delta(1.0)
    assert views["ε at δ = 1e-06"]["upper"] == loss.epsilon(1e-6)
    assert views["Rényi ε of order 2"]["upper"] == loss.rdp(2)
    assert views["Rényi ε of order 5000"]["upper"] == "infinite"
    assert views["largest advantage of any attacker"]["upper"] == loss.advantage()
    assert views["true positives at 1 % false positives"]["upper"] == loss.power(0.01)
    known = [view for view in views.values() if view["upper"] != "infinite" and view["lower"] is not None]
    assert all(view["lower"] <= view["upper"] for view in known)


@pytest.mark.parametrize(
    "arguments",
    [["polya", "--r", "1", "--alpha", "13"], ["gaussian", "--sigma", "5"], ["laplace", "--scale", "5"]],
)
def test_account_of_every_mechanism(arguments: list[str]) -> None:
    found = json.loads(run("account", *arguments, "--neighbours", "add-remove", "--json"))
    assert found["mechanism"] == arguments[0]
    assert found["neighbours"] == "add-remove"
    assert len(found["views"]) == 13
    assert "guaranteed" in run("account", *arguments)


def test_account_of_balanced_noise() -> None:
    arguments = ["account", "balanced-laplace", "--scale", "5", "--cells", "3"]
    found = json.loads(run(*arguments, "--json"))
    assert found["parameters"] == {"scale": 5.0, "cells": 3}
    views = {view["view"]: view for view in found["views"]}
    assert views["δ at ε = 0.1"]["upper"] == BalancedLaplace(scale=5.0, cells=3).loss().delta(0.1)


@pytest.mark.slow
def test_calibrate_as_json() -> None:
    found = json.loads(run("calibrate", "--epsilon", "1", "--delta", "1e-5", "--r", "3", "--json"))
    results = {result["choice"]: result for result in found["results"]}
    names = {"auto", "polya", "gaussian", "laplace", "balanced-laplace", "dirichlet", "Algorithm 1"}
    assert set(results) == names
    assert results["auto"]["parameters"] == results["balanced-laplace"]["parameters"]
    other = json.loads(run("calibrate", "--epsilon", "1", "--delta", "1e-5", "--neighbours", "add-remove", "--json"))
    assert {result["choice"] for result in other["results"]} == names - {"balanced-laplace"}
    assert results["polya"]["parameters"] == str(Polya(r=3, alpha=124))
    assert all(0 < result["spent"] <= 1 for result in results.values())
    assert results["dirichlet"]["spent"] > 1 - 1e-6
    assert results["Algorithm 1"]["spent"] < 0.9


def test_calibrate_as_text_and_for_a_renyi_budget() -> None:
    text = run("calibrate", "--epsilon", "1", "--order", "5", "--mechanism", "dirichlet", "--r", "2")
    assert str(Budget.rdp(order=5, epsilon=1)) in text
    assert "Algorithm 1" in text
    assert "100%" in text
    for mechanism in ("auto", "polya", "gaussian", "laplace", "balanced-laplace"):
        assert "100" in run("calibrate", "--epsilon", "1", "--delta", "1e-5", "--mechanism", mechanism, "--tables", "3")


@pytest.mark.slow
def test_calibrate_says_where_the_paper_is_silent() -> None:
    text = run(
        "calibrate", "--epsilon", "1", "--delta", "1e-5", "--mechanism", "dirichlet", "--neighbours", "add-remove"
    )
    assert "replace-one only" in text


WRONG = [
    ["account", "dirichlet", "--r", "1"],
    ["account", "dirichlet", "--r", "-1", "--alpha", "2"],
    ["account", "nothing"],
    ["account", "polya", "--r", "1.5", "--alpha", "3"],
    ["account", "laplace", "--scale", "3", "--neighbours", "swap"],
    ["account", "balanced-laplace", "--scale", "3"],
    ["account", "balanced-laplace", "--scale", "3", "--cells", "4", "--neighbours", "add-remove"],
    ["calibrate", "--epsilon", "1", "--delta", "1e-5", "--mechanism", "balanced-laplace", "--neighbours", "add-remove"],
    ["audit", "--mechanism", "balanced-laplace", "--neighbours", "add-remove"],
    ["account", "laplace", "--scale", "3", "--epsilon", "-1"],
    ["calibrate"],
    ["calibrate", "--epsilon", "1"],
    ["calibrate", "--epsilon", "1", "--delta", "1e-5", "--order", "2"],
    ["calibrate", "--epsilon", "1", "--delta", "2"],
    ["calibrate", "--epsilon", "1", "--delta", "1e-5", "--mechanism", "magic"],
    ["calibrate", "--epsilon", "1", "--delta", "1e-5", "--mechanism", "polya", "--r", "1.5"],
    ["calibrate", "--epsilon", "1", "--delta", "1e-5", "--mechanism", "polya", "--r", "inf"],
    ["calibrate", "--epsilon", "1", "--delta", "1e-5", "--cells", "1"],
]


@pytest.mark.slow
@pytest.mark.parametrize("arguments", WRONG, ids=" ".join)
def test_wrong_arguments_are_one_line_and_exit_code_2(
    arguments: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SimplexDPError):
        run(*arguments)
    monkeypatch.setattr(sys, "argv", ["simplexdp", *arguments])
    with pytest.raises(SystemExit) as stop:
        main()
    assert stop.value.code == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("simplexdp: `")
    assert captured.err.count("\n") == 1


def program(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", "from simplexdp.cli import main; main()", *arguments]
    variables = {**os.environ, "PYTHONPATH": os.pathsep.join([str(SOURCE), *filter(None, sys.path)]), **environment}
    return subprocess.run(command, capture_output=True, encoding="utf-8", env=variables, check=False)


@pytest.mark.slow
def test_the_program_itself() -> None:
    right = program("account", "gaussian", "--sigma", "5", "--json")
    assert right.returncode == 0
    assert json.loads(right.stdout)["mechanism"] == "gaussian"
    wrong = program("account", "gaussian", "--sigma", "0")
    assert wrong.returncode == 2
    assert wrong.stdout == ""
    assert wrong.stderr == "simplexdp: `--sigma` must be a finite number above 0, got 0.0.\n"
    assert program("account", "gaussian", "--sigma", "five").returncode == 2


ASCII = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}


@pytest.mark.slow
def test_what_is_written_does_not_depend_on_the_locale() -> None:
    arguments = ("account", "gaussian", "--sigma", "5")
    here, elsewhere = program(*arguments), program(*arguments, **ASCII)
    assert "ε" in here.stdout
    assert (here.returncode, elsewhere.returncode) == (0, 0)
    assert here.stdout == elsewhere.stdout
    told = program(*arguments, **ASCII, PYTHONIOENCODING="ascii")
    assert told.returncode == 0
    assert r"\u03b5" in told.stdout
    assert program("account", "größe", **ASCII).stderr.startswith("simplexdp: `mechanism` must be")
