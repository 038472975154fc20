"""Kill -9, a full disk, a lost journal and a race: no release without a charge, no budget overspent."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import simplexdp

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="forks and signals of POSIX")


def run(scenario: str, folder: Path) -> dict[str, int]:
    # One program a scenario, which forks: a fork of the test process itself would copy its threads.
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(Path(simplexdp.__file__).parents[1]), *filter(None, sys.path)]),
        "OPENBLAS_NUM_THREADS": "1",
    }
    program = Path(__file__).with_name("ledger_crashes.py")
    done = subprocess.run(
        [sys.executable, str(program), scenario, str(folder)], capture_output=True, text=True, env=environment
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, int] = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.mark.slow
def test_killed_at_every_statement(tmp_path: Path) -> None:
    found = run("at_every_statement", tmp_path)
    assert found["uncharged"] == 0
    assert found["deaths"] > 20
    assert found["releases"] < found["charges"]  # some died between the charge and the draw


@pytest.mark.slow
def test_killed_at_random_times(tmp_path: Path) -> None:
    found = run("at_random", tmp_path)
    assert found["uncharged"] == 0
    assert found["deaths"] == 40
    assert found["charges"] >= found["releases"] >= found["finished"] > 1


@pytest.mark.slow
def test_racing_processes_spend_the_budget_and_no_more(tmp_path: Path) -> None:
    found = run("race", tmp_path)
    assert found == {"charges": 10, "releases": 10, "uncharged": 0, "room": 10}


@pytest.mark.slow
def test_a_full_disk_refuses_and_loses_nothing(tmp_path: Path) -> None:
    found = run("full_disk", tmp_path)
    assert found["uncharged"] == 0
    assert found["refused"] > 3
    assert found["releases"] > 0


@pytest.mark.slow
def test_power_loss_with_a_cut_journal_loses_no_charge(tmp_path: Path) -> None:
    """Cut at any length, the ledger is either refused or holds all that was committed; whole, it is recovered."""
    found = run("power_loss", tmp_path)
    assert found["spilled"] > 0  # the file on disk was ahead of the last commit
    assert found["lost"] == 0
    assert found["refused"] > 0
    assert found["recovered"] == found["committed"]
    assert found["cases"] > 20
