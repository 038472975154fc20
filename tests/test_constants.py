"""The registry of tuned constants: each exists, is on its page with its value, and is changed where it is written."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from benchmarks.constants import CONSTANTS, Constant, at, edited, main, mean_ratio, value

PAGE = Path(__file__).resolve().parents[1] / "docs" / "constants.md"
SOURCE = """
FIRST, SECOND = 0.2, 10
PAIRS = ((2.0, 4), (10.0, 6))
NAMED = {"a": 1.0, "b": 3.0}
WEIGHTS = np.array([1.0, 4.0])
WEIGHTS /= WEIGHTS.sum()
MADE = 3 * FIRST
def of(x=SECOND): return x
"""


def ran(name: str, factor: float, *place: int | str, how: str = "times") -> dict[str, object]:
    found: dict[str, object] = {"np": np}
    tree = edited(ast.parse(SOURCE), Constant("m", name, "few", how, place), factor)  # type: ignore[arg-type]
    exec(compile(tree, "m", "exec"), found)  # noqa: S102 - our own source
    return found


def test_a_constant_is_changed_before_anything_is_made_of_it() -> None:
    assert ran("FIRST", 2)["MADE"] == pytest.approx(1.2)
    assert ran("SECOND", 0.5)["of"]() == 5  # type: ignore[operator]
    assert ran("FIRST", 0.5)["SECOND"] == 10
    assert ran("PAIRS", 2, 1, 0)["PAIRS"] == ((2.0, 4), (20.0, 6))
    assert ran("PAIRS", 2)["PAIRS"] == ((4.0, 8), (20.0, 12))
    assert ran("NAMED", 0.5, "b")["NAMED"] == {"a": 1.0, "b": 1.5}
    assert ran("FIRST", 2, how="odds")["FIRST"] == pytest.approx(1 / 3)
    np.testing.assert_allclose(ran("WEIGHTS", 2, how="power")["WEIGHTS"], [1 / 17, 16 / 17])  # type: ignore[arg-type]
    with pytest.raises(LookupError, match=r"m\.NOBODY"):
        ran("NOBODY", 2)


def test_ratios_are_geometric_and_leave_out_what_loses_nothing() -> None:
    assert mean_ratio({"a": 2.0, "b": 8.0, "c": 1.0}, {"a": 1.0, "b": 1.0, "c": 0.0}) == (pytest.approx(4.0), 8.0)


def test_each_constant_is_on_the_page_with_its_value() -> None:
    rows = re.findall(r"^\| `(\S+)` \| (.+?) \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert [name for name, _ in rows] == list(dict(rows))
    assert dict(rows) == {str(each): value(each) for each in CONSTANTS}


@pytest.mark.slow
def test_the_library_is_loaded_with_the_changed_constant() -> None:
    """In a process of its own, also what other modules made of it when they were loaded."""
    which = next(i for i, each in enumerate(CONSTANTS) if each.name == "NO_CHANGE")
    code = (
        "import sys; from benchmarks.constants import CONSTANTS, Finder;"
        f"sys.meta_path.insert(0, Finder(CONSTANTS[{which}], 0.5));"
        "from simplexdp.estimation import strata;"
        "print(strata.NO_CHANGE, strata.CUT_PRIOR[-1], strata.STRENGTH_PRIOR[-1])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    share, made, usual = map(float, done.stdout.split())
    assert share == pytest.approx(3 / 7)  # odds of 3/4, half of those of 0.6
    assert made == pytest.approx(share + (1 - share) * usual)


@pytest.mark.slow
def test_the_table_is_printed(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SIMPLEXDP_DATA", raising=False)
    main(["--quick", "--only", "few.LOG_SHAPE_SD"])
    printed = capsys.readouterr().out
    (line,) = [line for line in printed.splitlines() if line.startswith("estimation.few.LOG_SHAPE_SD")]
    ratios = [float(word) for word in line.split()[2:]]
    assert len(ratios) == 4
    assert all(0.5 < ratio < 2 and ratio != 1 for ratio in ratios)
    assert "left out" in printed


def test_a_value_that_the_library_cannot_use_is_an_error() -> None:
    with pytest.raises(RuntimeError, match=r"at nan"):
        at(CONSTANTS[0], float("nan"), "nonsense", quick=True)  # type: ignore[arg-type]
