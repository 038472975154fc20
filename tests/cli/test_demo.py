from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from simplexdp.cli.demo import BUDGETS, NON_PRIVATE, OURS, digits_schema, load_digits_table


@pytest.mark.slow
def test_the_quick_demo_fits_and_writes_a_report(work, simplexdp):
    ran = simplexdp("demo", "--quick", "--out", "report.html", "--json")
    assert (ran.code, ran.err) == (0, "")
    fits = {fit["kind"]: fit for fit in ran.data["fits"]}
    assert len(fits) == 3
    assert fits[OURS]["private"] is True
    assert fits[NON_PRIVATE]["private"] is False
    # Chance is 10 %; at this budget fits are above 80 % and vary by less than 2 %.
    assert fits[OURS]["epsilon"] == BUDGETS[-2]
    assert fits[OURS]["accuracy"][0] > 0.7
    assert fits[NON_PRIVATE]["accuracy"][0] > 0.85
    text = Path("report.html").read_text()
    assert text.startswith("<!doctype html>")
    assert text.count('src="data:image/svg+xml;base64,') == len(re.findall(r"src=", text)) >= 4
    assert "<script" not in text


@pytest.mark.slow
def test_the_histogram_alone_writes_nothing(work, simplexdp):
    before = set(work.iterdir())
    ran = simplexdp("demo", "--histogram-only")
    assert (ran.code, ran.err) == (0, "")
    assert "Gohari" in ran.out
    assert set(work.iterdir()) == before


@pytest.mark.parametrize("out", ["nowhere/report.html", "report.txt"])
def test_a_report_that_cannot_be_written_is_refused_at_once(work, simplexdp, out):
    ran = simplexdp("demo", "--out", out)
    assert ran.code == 2
    assert ran.out == ""


def test_the_declared_schema_holds_every_image():
    table, schema = load_digits_table(), digits_schema()
    assert table.num_rows == 1797
    assert set(table.column_names) == set(schema.names)
    pixels = np.column_stack([table[name].to_numpy() for name in schema.names if name != "digit"])
    assert pixels.min() == 0
    assert pixels.max() == 16


def test_no_command_shows_the_help(simplexdp):
    ran = simplexdp()
    assert ran.code == 2
    assert "Usage" in ran.out + ran.err
