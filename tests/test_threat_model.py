"""Every row of the threat model names tests that exist; what no other test shows is shown here."""

from __future__ import annotations

import ast
import json
import re
from datetime import datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from simplexdp import BalancedLaplace, Budget, Gaussian, Laplace, Release, release
from simplexdp.models.document import checksum
from simplexdp.sampling import SeededEntropy

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "threat-model.md"
LAST = "tests that would fail"
NOTHING_TO_TEST = "by definition"
BUDGET = Budget(epsilon=1.0, delta=1e-5)


def tables(text: str) -> list[list[list[str]]]:
    """The tables of a page: for each its rows of cells, the head first."""
    blocks = re.findall(r"(?:^\|.*\|\n)+", text, flags=re.MULTILINE)
    return [[[cell.strip() for cell in line.strip("|").split("|")] for line in block.splitlines()] for block in blocks]


@cache
def exists(test: str) -> bool:
    """Whether `tests/path/test_file.py::test_name` is a function of that file."""
    path, _, name = test.partition("::")
    file = ROOT / path
    if not (path.startswith("tests/") and name.startswith("test_") and file.is_file()):
        return False
    body = ast.parse(file.read_text(encoding="utf-8")).body
    return any(isinstance(item, ast.FunctionDef) and item.name == name for item in body)


def faults(text: str) -> list[str]:
    """What is wrong with the rows of a page, each by its first cell."""
    found = []
    roles, *others = tables(text)
    if LAST in roles[0]:
        found.append("the first table is of roles")
    for head, _, *rows in others:
        if head[-1] != LAST:
            found.append(f"{head[0]}: the last column must be {LAST!r}")
        for row in rows:
            names = re.findall(r"`([^`]+)`", row[-1])
            if len(row) != len(head) or (not names and row[-1] != NOTHING_TO_TEST):
                found.append(f"{row[0]}: no test is named")
            found += [f"{row[0]}: there is no {name}" for name in names if not exists(name)]
    return found


def test_every_row_names_tests_that_exist() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert faults(text) == []
    rows = [row for table in tables(text)[1:] for row in table[2:]]
    assert len(rows) > 25
    assert sum(row[-1] == NOTHING_TO_TEST for row in rows) <= 5


def test_nothing_is_promised_outside_the_rows() -> None:
    """A promise in bold is a row, or it would have no test."""
    loose = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if "**" in line and line[0] != "|"]
    assert loose == []


@pytest.mark.parametrize(
    ("row", "fault"),
    [
        ("| x | y | |", "no test is named"),
        ("| x | y | many |", "no test is named"),
        ("| x | y |", "no test is named"),
        ("| x | y | `tests/test_threat_model.py::test_gone` |", "there is no"),
        ("| x | y | `tests/test_gone.py::test_every_row_names_tests_that_exist` |", "there is no"),
        ("| x | y | `tests/test_threat_model.py` |", "there is no"),
        ("| x | y | `tests/test_threat_model.py::faults` |", "there is no"),
    ],
)
def test_the_reading_can_fail(row: str, fault: str) -> None:
    page = f"| role |\n|---|\n| curator |\n\n| what | how | {LAST} |\n|---|---|---|\n{{}}\n"
    assert faults(page.format("| x | y | `tests/test_threat_model.py::test_the_reading_can_fail` |")) == []
    assert faults(page.format(f"| x | y | {NOTHING_TO_TEST} |")) == []
    (found,) = faults(page.format(row))
    assert fault in found
    assert "last column" in faults(page.replace(LAST, "remarks").format(f"| x | y | {NOTHING_TO_TEST} |"))[0]


# -- statements of the page that no other test shows ------------------------------------------------------------------


def test_a_forged_release_with_a_fitting_checksum_looks_like_a_release() -> None:
    made = release([119, 74, 618], budget=BUDGET, mechanism="gaussian")
    document = json.loads(made.to_json())
    document["body"]["values"][0] += 50
    document["sha256"] = checksum(document["body"])
    forged = Release.from_json(json.dumps(document))
    assert forged.private
    assert forged.values[0] == made.values[0] + 50


@pytest.mark.parametrize(
    "mechanism", [Gaussian(sigma=5.0), Laplace(scale=3.0), BalancedLaplace(scale=3.0, cells=30)], ids=str
)
def test_the_work_of_added_noise_does_not_depend_on_the_counts(mechanism: Any) -> None:
    class Counting(SeededEntropy):
        def __init__(self) -> None:
            super().__init__(5)
            self.taken: list[int] = []

        def words(self, size: int) -> Any:
            self.taken.append(size)
            return super().words(size)

    def work(counts: list[int]) -> list[int]:
        entropy = Counting()
        mechanism.release(counts, entropy=entropy)
        return entropy.taken

    assert sum(work([0] * 30)) > 0
    assert work([0] * 30) == work([10**6] * 30) == work([10**9, *[0] * 29])


def test_a_release_tells_the_second_of_its_draw_and_no_more() -> None:
    created = release([119, 74, 618], budget=BUDGET).created
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00", created)
    assert datetime.fromisoformat(created).utcoffset() == timedelta(0)
