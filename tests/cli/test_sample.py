from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from cli_support import contents


def test_records_follow_the_model_in_every_format(trained, simplexdp):
    for out in ("s.csv", "s.parquet", "s.arrow"):
        ran = simplexdp("sample", "nb.json", "-n", 4000, "--seed", 2, "--out", out)
        assert (ran.code, ran.err) == (0, "")
        assert "4,000" in ran.out
    table = pq.read_table("s.parquet")
    assert table.num_rows == 4000
    assert set(table.column_names) == {"smoker", "age", "region", "ill"}
    assert table["ill"].type == pa.bool_()
    with pa.ipc.open_file("s.arrow") as reader:
        assert reader.read_all().equals(table)
    assert pyarrow.csv.read_csv("s.csv")["smoker"].to_pylist() == table["smoker"].to_pylist()
    # 4,000 records at p = 0.25 ± 0.03: four standard deviations of the draw and the noise of the model.
    assert abs(sum(table["ill"].to_pylist()) / 4000 - 0.25) < 0.06


@pytest.mark.slow
def test_a_seed_repeats_and_no_seed_does_not(trained, simplexdp):
    for out, seed in (("a.csv", ["--seed", 3]), ("b.csv", ["--seed", 3]), ("c.csv", []), ("d.csv", [])):
        assert simplexdp("sample", "nb.json", "--size", 200, *seed, "--out", out).code == 0
    assert Path("a.csv").read_bytes() == Path("b.csv").read_bytes()
    assert Path("c.csv").read_bytes() != Path("d.csv").read_bytes()


def test_json_says_what_was_written_and_whether_it_is_private(trained, simplexdp):
    seeded = simplexdp("sample", "nb-seeded.json", "-n", 10, "--out", "n.csv")
    assert "NOT PRIVATE" in seeded.out
    ran = simplexdp("sample", "nb.json", "-n", 10, "--labels", "--out", "s.csv", "--json", "--seed", 1)
    assert ran.data["records"] == 10
    assert ran.data["private"] is True  # the seed is that of the records, not that of the model
    assert "[" in Path("s.csv").read_text()  # labels of bins


@pytest.mark.parametrize(
    "arguments",
    [
        ("none.json", "-n", 10, "--out", "s.csv"),
        ("nb.json", "-n", 0, "--out", "s.csv"),
        ("nb.json", "--out", "s.csv"),
        ("nb.json", "-n", 10, "--out", "s.xlsx"),
        ("nb.json", "-n", 10, "--out", "nowhere/s.csv"),
        ("nb.json", "-n", 10, "--bins", "middle", "--out", "s.csv"),
        ("rows.parquet", "-n", 10, "--out", "s.csv"),
    ],
)
def test_refusals(trained, simplexdp, arguments):
    before = contents(trained)
    ran = simplexdp("sample", *arguments)
    assert ran.code == 2
    assert ran.err.count("\n") == 1
    assert contents(trained) == before
