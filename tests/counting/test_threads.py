"""Several threads: the same tables, the same choice of rows, the same first error, whatever their number."""

from __future__ import annotations

import contextlib
import itertools
import threading
import time
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from simplexdp import cores
from simplexdp.cores import granted, in_order, threads_from
from simplexdp.counting import CellNumbers, count
from simplexdp.errors import InvalidArgument, SourceError
from simplexdp.private.counting import kernel, text
from simplexdp.private.counting.passes import encode_rows
from simplexdp.private.counting.plan import make_plan
from simplexdp.private.counting.spread import Tallies
from simplexdp.private.tables import opened
from simplexdp.schema import Numeric, Schema

ROWS = 3000
DRAW = np.random.default_rng(5)
TABLE = pa.table(
    {
        "town": pa.array(np.array(["Köln", "Bonn", 'a "b", c', "x\ny"])[DRAW.integers(0, 4, ROWS)]),
        "n": DRAW.integers(0, 5, ROWS),
        "age": DRAW.normal(40, 20, ROWS),
        "who": DRAW.integers(0, 400, ROWS),
    }
)
SCHEMA = Schema.given(
    {
        "town": {"values": ["Köln", "Bonn", "x\ny"], "other": "cell"},
        "n": [0, 1, 2, 3, 4],
        "age": Numeric([0, 20, 40, 60], outside="cell", name="age"),
    }
)
TABLES = [("town", "n"), ("age",), ("n", "age", "town")]


def sources(folder: Path) -> dict[str, Any]:
    pq.write_table(TABLE, folder / "rows.parquet", row_group_size=170)
    pq.write_table(TABLE.slice(0, 100), folder / "one.parquet")
    pyarrow.csv.write_csv(TABLE, folder / "rows.csv")
    frame = TABLE.to_pandas()
    frame.to_json(folder / "rows.jsonl", orient="records", lines=True)
    return {
        "parquet": folder / "rows.parquet",
        "one row group": folder / "one.parquet",
        "two files": [folder / "rows.parquet", folder / "one.parquet"],
        "csv": folder / "rows.csv",
        "json": folder / "rows.jsonl",
        "arrow": TABLE,
        "batches": TABLE.to_batches(max_chunksize=77),
        "pandas": frame,
    }


@pytest.fixture(autouse=True)
def small_blocks() -> Any:
    """So few rows and bytes that every source has work for all threads."""
    with patch.object(text, "_BLOCK", 1000), patch.object(kernel.Layout, "block_rows", lambda _: 64):
        yield


def numbers(tables: Any) -> list[list[Any]]:
    return [opened(table.private_counts()).tolist() for table in tables]


@pytest.mark.parametrize("name", ["parquet", "one row group", "two files", "csv", "json", "arrow", "batches", "pandas"])
def test_tables_are_the_same_for_any_number_of_threads(name: str, tmp_path: Path) -> None:
    source = sources(tmp_path)[name]
    one = numbers(count(source, SCHEMA, TABLES, threads=1))
    for threads in (2, 3, 8):
        assert numbers(count(source, SCHEMA, TABLES, threads=threads)) == one
    rows = {"one row group": 100, "two files": ROWS + 100}.get(name, ROWS)
    assert sum(one[1]) == rows


@pytest.mark.parametrize("name", ["parquet", "csv", "arrow", "pandas"])
def test_persons_keep_the_same_rows(name: str, tmp_path: Path) -> None:
    source = sources(tmp_path)[name]

    def bounded(threads: int, seed: int = 3) -> list[Any]:
        entropy = np.random.default_rng(seed)
        return numbers(count(source, SCHEMA, TABLES, person="who", rows_per_person=2, entropy=entropy, threads=threads))

    one = bounded(1)
    assert bounded(2) == bounded(5) == one
    assert bounded(1, seed=4) != one  # the choice matters here


def test_cell_numbers_and_rows_in_order() -> None:
    codes = {"n": DRAW.integers(0, 5, ROWS), "age": DRAW.integers(0, 4, ROWS)}
    tables = [("n", "age")]
    assert numbers(count(CellNumbers(codes), SCHEMA, tables, threads=4)) == numbers(
        count(CellNumbers(codes), SCHEMA, tables, threads=1)
    )
    with patch("simplexdp.private.counting.passes.ROWS", 50):
        blocks = list(encode_rows(CellNumbers(codes), SCHEMA, ["n"], threads=4))
    assert len(blocks) == ROWS // 50
    assert np.concatenate([block["n"] for block in blocks]).tolist() == codes["n"].tolist()


@pytest.mark.parametrize("form", ["parquet", "csv", "batches"])
def test_the_first_broken_rule_is_told(form: str, tmp_path: Path) -> None:
    """Rules are broken in many rows; one thread and several name the same one, that of the first row."""
    strict = Schema.of(town=["Köln", "Bonn", 'a "b", c', "x\ny"], n=[0, 1, 2, 3, 4], who=list(range(400)))
    broken = TABLE.slice(0, 2000).set_column(1, "n", pa.array([0] * 900 + [9] * 1100))
    broken = broken.set_column(3, "who", pa.array([0] * 650 + [-1] + [0] * 1349))
    pq.write_table(broken, tmp_path / "rows.parquet", row_group_size=50)
    pyarrow.csv.write_csv(broken, tmp_path / "rows.csv")
    source = broken.to_batches(max_chunksize=50) if form == "batches" else tmp_path / f"rows.{form}"
    for threads in (1, 2, 6):
        with pytest.raises(SourceError, match="column 'who' has values that are not declared"):
            count(source, strict, [("n", "who")], threads=threads)


def test_progress_grows_to_the_end(tmp_path: Path) -> None:
    seen: list[tuple[int, int | None]] = []
    count(
        sources(tmp_path)["parquet"],
        SCHEMA,
        TABLES,
        threads=3,
        progress=lambda done, total: seen.append((done, total)),
    )
    assert seen[-1] == (ROWS, ROWS)
    assert len(seen) > 10
    assert all(a < b for (a, _), (b, _) in itertools.pairwise(seen))


def test_an_interruption_ends_all_work(tmp_path: Path) -> None:
    def stop(done: int, total: int | None) -> None:
        raise KeyboardInterrupt

    before = threading.active_count()
    with pytest.raises(KeyboardInterrupt):
        count(sources(tmp_path)["csv"], SCHEMA, TABLES, threads=4, progress=stop)
    assert threading.active_count() == before


def test_tallies_stay_within_the_memory_for_tables() -> None:
    plan = make_plan(SCHEMA, TABLES, 3 * 8 * 110)
    assert plan.layout.cells() == 104
    assert Tallies(plan, 16)._free.qsize() == 3
    assert Tallies(plan, 2)._free.qsize() == 2
    tight = make_plan(SCHEMA, TABLES, 8 * plan.layout.cells())
    assert Tallies(tight, 16)._free.qsize() == 1
    limit = 8 * plan.layout.cells()
    assert numbers(count(TABLE, SCHEMA, TABLES, threads=4, memory_limit=limit)) == numbers(
        count(TABLE, SCHEMA, TABLES, threads=1)
    )


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.uint32])
def test_sparse_products_count_as_numpy_does(dtype: Any) -> None:
    keys = DRAW.integers(0, 250, 4000).astype(dtype)
    tally = kernel.Tally(kernel.Layout(sizes=(250,), tables=((0,),)))
    usual = tally._histogram(keys, 250)
    with patch.object(kernel, "_FEW_KEYS", 0):
        assert tally._histogram(keys, 250).tolist() == usual.tolist() == np.bincount(keys, minlength=250).tolist()
        with patch.dict("sys.modules", {"scipy.sparse": None}):  # as on a Spark executor without SciPy
            assert tally._histogram(keys, 250).tolist() == usual.tolist()


# -- in order ----------------------------------------------------------------------------------------------------------


def test_results_keep_their_order_when_later_ones_are_faster() -> None:
    def work(item: int) -> int:
        time.sleep(0.002 * (item % 3 == 0))
        return item * item

    assert list(in_order(work, range(40), 4)) == [item * item for item in range(40)]
    assert list(in_order(work, [], 4)) == []


def test_one_item_alone_needs_no_thread() -> None:
    assert list(in_order(lambda _: threading.current_thread().name, [1], 8)) == [threading.current_thread().name]


@pytest.mark.parametrize("threads", [1, 4])
def test_the_first_failure_in_the_order_of_the_items_is_raised(threads: int) -> None:
    def work(item: int) -> int:
        if item >= 5:
            time.sleep(0.01 if item == 5 else 0)
            raise ValueError(item)
        return item

    def items() -> Any:
        yield from range(8)
        raise OSError("of the items")

    done: list[int] = []
    with pytest.raises(ValueError, match=r"^5$"):
        done.extend(in_order(work, items(), threads))
    late: list[Any] = []
    with pytest.raises(OSError, match="of the items"):
        list(in_order(late.append, items(), threads))
    assert sorted(late) == list(range(8))


def test_items_are_asked_for_a_few_ahead_and_no_more() -> None:
    asked, held = [], threading.Event()

    def items() -> Any:
        for item in range(1000):
            asked.append(item)
            yield item

    results = in_order(lambda _: held.wait(0.05), items(), 2)
    next(results)
    assert len(asked) <= cores.AHEAD * 2 + 3
    held.set()
    with contextlib.closing(results):
        pass


def test_threads_are_a_number_or_what_is_granted(tmp_path: Path) -> None:
    assert threads_from(None) == granted() >= 1
    for wrong in (0, -1, 1.5):
        with pytest.raises(InvalidArgument, match="threads"):
            threads_from(wrong)  # type: ignore[arg-type]
    (tmp_path / "cpu.max").write_text("150000 100000\n")
    assert cores._quota(tmp_path) == 1.5
    (tmp_path / "cpu.max").write_text("max 100000\n")
    assert cores._quota(tmp_path) is None
    (tmp_path / "cpu.max").unlink()
    (tmp_path / "cpu").mkdir()
    (tmp_path / "cpu/cpu.cfs_quota_us").write_text("400000")
    (tmp_path / "cpu/cpu.cfs_period_us").write_text("100000")
    assert cores._quota(tmp_path) == 4
    assert cores._quota(tmp_path / "nowhere") is None


@pytest.mark.parametrize("threads", [1, 2])
def test_ahead_gives_the_same_items_and_failures(threads: int) -> None:
    def items() -> Any:
        yield from range(5)
        raise OSError("late")

    assert list(cores.ahead(range(7), threads)) == list(range(7))
    found: list[int] = []
    with pytest.raises(OSError, match="late"):
        found += cores.ahead(items(), threads)
    before = threading.active_count()
    for item in cores.ahead(range(100), threads):
        found.append(item)
        if item == 3:
            break
    assert found[-4:] == [0, 1, 2, 3]
    assert threading.active_count() <= before + 1
