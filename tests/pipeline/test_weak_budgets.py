"""An ε above 20 and a δ above 1/N are allowed, and said in words: once, at the line that asked for them."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import simplexdp.pipeline
from simplexdp import (
    BayesianNetwork,
    Budget,
    CountTable,
    NaiveBayes,
    Numeric,
    Schema,
    plan,
    release,
    release_distribution,
)
from simplexdp.cli import run
from simplexdp.errors import PrivacyWarning
from simplexdp.forecast import smallest_total
from simplexdp.planning import warn_of_weak_budget

SCHEMA = Schema.of(a=["x", "y"], b=Numeric([0, 1, 2, 3]), c=["u", "v"])
ROWS = pa.table({"a": ["x", "y"] * 50, "b": [0.5, 1.5] * 50, "c": ["u", "v"] * 50, "who": np.arange(100)})
COUNTS = [60, 30, 10]
LARGE, LIKELY = Budget(epsilon=25, delta=1e-9), Budget(epsilon=1, delta=0.02)
CALLS = {
    "release": lambda budget, **more: release(COUNTS, budget=budget, **more),
    "release of every mechanism": lambda budget, **more: release(COUNTS, budget=budget, mechanism="laplace", **more),
    "distribution": lambda budget, **more: release_distribution(ROWS, SCHEMA, ["a", "b"], budget=budget, **more),
    "naive Bayes": lambda budget, **more: NaiveBayes(schema=SCHEMA, target="a", budget=budget, **more).fit_source(
        ROWS.drop_columns("who")
    ),
    "network": lambda budget, **more: BayesianNetwork([("a", "b")], SCHEMA, budget=budget, **more).fit(ROWS),
    "plan": lambda budget, **more: plan([3, 5], budget=budget, total=100, mechanism="laplace", **more),
}

WEAK = ["--epsilon", "25", "--delta", "0.02"]


@pytest.fixture(autouse=True)
def _no_word_of_repeats(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if the one warning of a process about several fits had been given."""
    monkeypatch.setitem(simplexdp.private.door._FITTED, "", set())


def said(call: Any, *given: Any, **more: Any) -> list[warnings.WarningMessage]:
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        call(*given, **more)
    return found


@pytest.mark.slow
@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_said_once_in_words(call: Any) -> None:
    (large,) = said(call, LARGE)
    assert large.category is PrivacyWarning
    assert "epsilon = 25 is above 20" in str(large.message)
    assert "Take an epsilon of about 1" in str(large.message)
    (likely,) = said(call, LIKELY)
    assert "delta = 0.02 is above 1/N, for N = 100 records" in str(likely.message)
    assert "may publish a whole record" in str(likely.message)
    assert "Take a delta far below 1/N, such as 1e-04" in str(likely.message)
    assert {large.filename, likely.filename} == {__file__}, "the warning points into the library"
    assert len(said(call, Budget(epsilon=25, delta=0.02))) == 2
    assert not said(call, Budget(epsilon=20, delta=0.01))


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_a_private_number_of_records_is_not_spoken_of(call: Any) -> None:
    assert not said(call, LIKELY, neighbours="add-remove")


def test_persons_have_no_public_number_of_rows() -> None:
    table = CountTable([60, 40], ("a",), unit="person", rows_per_person=1)
    assert not said(release, table, budget=LIKELY)


def test_a_guess_of_the_number_is_not_taken_for_it() -> None:
    assert not said(plan, [3], budget=LIKELY, mechanism="laplace")
    (found,) = said(plan, [3], budget=LIKELY, mechanism="laplace", like=COUNTS)
    assert "N = 100" in str(found.message)


def test_searches_do_not_warn_of_what_they_try() -> None:
    assert not said(smallest_total, 0.1, [3], budget=LIKELY, mechanism="laplace", repeats=1)


def test_nothing_is_said_of_exact_counts() -> None:
    assert not said(release, COUNTS, budget=None, mechanism="none")
    assert not said(release, COUNTS, budget=Budget(epsilon=99, delta=0.5), mechanism="none")


def test_numbers_are_printed_by_the_one_function() -> None:
    """With at most six digits, and not below what they are: 20.0000004 is not shown as 20."""
    (large,) = said(warn_of_weak_budget, Budget(epsilon=20.0000004, delta=1e-9), None)
    assert "epsilon = 20.0001 is above 20: what is published may be e^20.0001 times" in str(large.message)
    (likely,) = said(warn_of_weak_budget, Budget(epsilon=1.0, delta=0.0123456789), 1000)
    assert "delta = 0.0123457 is above" in str(likely.message)


@given(st.floats(1e-12, 0.5), st.integers(1, 10**12))
def test_the_line_is_at_one_over_n(delta: float, total: int) -> None:
    found = said(warn_of_weak_budget, Budget(epsilon=1.0, delta=delta), total)
    assert bool(found) == (delta * total > 1)


@pytest.mark.slow
def test_the_command_line_says_it_in_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pq.write_table(ROWS, tmp_path / "rows.parquet")
    SCHEMA.write(tmp_path / "schema.yaml")
    files = ["--schema", str(tmp_path / "schema.yaml"), "--out", str(tmp_path / "out.json")]
    code = run(["fit", "distribution", str(tmp_path / "rows.parquet"), "--columns", "a", *files, *WEAK])
    assert code == 0
    lines = [line for line in capsys.readouterr().err.splitlines() if "warning" in line]
    assert [line.partition(" is above")[0] for line in lines] == [
        "simplexdp: warning: epsilon = 25",
        "simplexdp: warning: delta = 0.02",
    ]
    assert run(["plan", "--cells", "3", "--total", "100", "--epsilon", "1", "--delta", "0.02"]) == 0
    assert capsys.readouterr().err.count("warning") == 1
    assert run(["calibrate", "--epsilon", "25", "--delta", "0.02", "--mechanism", "laplace"]) == 0
    assert capsys.readouterr().err.count("warning") == 1
