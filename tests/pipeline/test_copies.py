"""One private copy of rows that are given once: what it holds, where, and that a fit over it is a fit over the rows."""

from __future__ import annotations

import copy
import os
import pickle
import sqlite3
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import simplexdp.private.copies as copies
from simplexdp import Budget, OneRecordPerRow, Quantiles, Query, Schema, fit_naive_bayes
from simplexdp.errors import PrivacyError, SimplexDPError, SourceError
from simplexdp.private.copies import PrivateCopy
from simplexdp.private.counting import Passes

NAMES = ("a", "b", "c", "d")
SCHEMA = Schema.of(**{name: [0, 1, 2] for name in NAMES}, age=Quantiles(4, lower=0, upper=100, share=0.1), ill=[0, 1])
PLAIN = Schema.of(**{name: [0, 1, 2] for name in NAMES}, ill=[0, 1])
BUDGET = Budget(epsilon=8, delta=1e-6)
N = 3000


def table(n: int = N) -> Any:
    rng = np.random.default_rng(5)
    columns: dict[str, Any] = {name: rng.integers(0, 3, n) for name in NAMES}
    columns |= {"age": rng.normal(50, 30, n), "ill": (rng.random(n) < 0.4).astype(int), "who": np.arange(n) // 3}
    return pa.table(columns)


def batches() -> Iterator[Any]:
    yield from table().to_batches(max_chunksize=256)


def cursor() -> Any:
    connection = sqlite3.connect(":memory:")
    names = table().column_names
    connection.execute(f"CREATE TABLE t ({', '.join(names)})")
    marks = ", ".join("?" * len(names))
    connection.executemany(f"INSERT INTO t VALUES ({marks})", zip(*table().to_pydict().values(), strict=True))
    return connection


SOURCES: dict[str, Callable[[], Any]] = {
    "a reader": lambda: table().to_reader(max_chunksize=300),
    "a generator": batches,
    "a cursor": lambda: OneRecordPerRow(cursor().execute("SELECT * FROM t"), public_size=True),
    "a query that cuts": lambda: Query(f"SELECT * FROM t LIMIT {N}", cursor()),
}


@pytest.fixture
def spilled(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """A limit of 4 KiB, and the files that were made."""
    monkeypatch.setattr(copies, "COPY_MEMORY", 4096)
    made: list[Any] = []

    class Watched(copies._Vault):
        def __init__(self) -> None:
            super().__init__()
            made.append(self)

    monkeypatch.setattr(copies, "_Vault", Watched)
    return made


@pytest.mark.parametrize("name", SOURCES)
@pytest.mark.parametrize("limit", ["in memory", "in a file"])
def test_a_source_that_gives_its_rows_once_is_fitted_like_a_table(
    name: str, limit: str, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    """Same seed, same bytes, second look and three rounds of sums included; private quantiles have no seed."""
    made = request.getfixturevalue("spilled") if limit == "in a file" else None
    read: list[Any] = []
    encode = simplexdp_passes().encode_rows
    monkeypatch.setattr(simplexdp_passes(), "encode_rows", lambda *a, **k: read.append(a) or encode(*a, **k))
    found = fitted(SOURCES[name]())
    assert len(read) == 1  # however many passes there were over the copy
    plain = fitted(SOURCES[name](), PLAIN, entropy=3)
    assert len(read) == 2
    if made is not None:
        assert len(made) == 2
        assert all(vault._file.closed and not vault._key.any() for vault in made)
    expected = fitted(table())
    assert found.guarantee == expected.guarantee
    assert {each.name for each in found.guarantee.mechanisms[5:]} == {"gaussian-tables", "noisy-sum"}
    expected = fitted(table(), PLAIN, entropy=3)
    for one, two in zip(plain.releases, expected.releases, strict=True):
        assert one.mechanism == two.mechanism
        assert (one.values == two.values).all()
    assert (plain.weights == expected.weights).all()


def simplexdp_passes() -> Any:
    import simplexdp.private.counting.passes as passes

    return passes


def fitted(source: Any, schema: Schema = SCHEMA, **how: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return fit_naive_bayes(source, schema, "ill", budget=BUDGET, records=N, **how)


@pytest.mark.parametrize("memory", [1 << 20, 4096, 0])
def test_counts_of_the_copy_are_those_of_the_rows(memory: int, monkeypatch: pytest.MonkeyPatch) -> None:
    from simplexdp import count
    from simplexdp.fitting import Facts

    monkeypatch.setattr(copies, "COPY_MEMORY", memory)
    tables = [("a", "b"), ("d",), ("ill", "c", "a")]
    expected = count(table(), PLAIN, tables)
    passes = Passes(table().to_reader(max_chunksize=500), Facts(records=N, is_public=True), copied=PLAIN)
    for _ in range(3):
        found = passes.count(PLAIN, tables)
        assert [(one.private_counts() == two.private_counts()).all() for one, two in zip(found, expected, strict=True)]
        assert [(each.columns, each.fingerprint, each.relations) for each in found] == [
            (each.columns, each.fingerprint, each.relations) for each in expected
        ]
    whole = [
        np.concatenate(parts) for parts in zip(*(b.values() for b in passes.blocks(PLAIN, ["a", "d"])), strict=True)
    ]
    assert (whole[0] == table()["a"].to_numpy()).all()
    passes.close()
    with pytest.raises(PrivacyError):
        passes.count(PLAIN, tables)


def test_memory_is_bounded_and_the_file_tells_nothing(spilled: list[Any]) -> None:
    kept = PrivateCopy(PLAIN)
    block = {name: np.zeros(500, dtype=np.int64) for name in PLAIN.names}
    for _ in range(40):
        kept.add(block)
    held = sum(frame.size for _, frame in kept._frames if frame is not None)
    assert 0 < held <= 4096
    (vault,) = spilled
    vault._file.seek(0)
    stored = vault._file.read()
    assert len(stored) + held == 40 * 500 * len(PLAIN.names)
    # All cells are 0, so the key stream is stored: evenly spread (χ², 255 degrees, 5 deviations), and no frame repeats.
    seen = np.bincount(np.frombuffer(stored, np.uint8), minlength=256)
    assert ((seen - len(stored) / 256) ** 2).sum() / (len(stored) / 256) < 255 + 5 * np.sqrt(2 * 255)
    frames = [stored[place : place + 2500] for place in range(0, len(stored), 2500)]
    assert len(set(frames)) == len(frames)
    plain = np.zeros(len(stored), np.uint8)  # the control: without a key the same test fails
    assert ((np.bincount(plain, minlength=256) - len(plain) / 256) ** 2).sum() / (len(plain) / 256) > 1e6
    if os.name == "posix":
        assert os.fstat(vault._file.fileno()).st_nlink == 0  # no name, so it goes with the process
        assert os.fstat(vault._file.fileno()).st_mode & 0o077 == 0
    kept.close()
    assert vault._file.closed


@pytest.mark.parametrize("damage", ["a byte", "the end", "two frames"])
def test_a_file_that_was_changed_is_refused(damage: str, spilled: list[Any]) -> None:
    kept = PrivateCopy(PLAIN, memory=0)
    for number in range(4):
        kept.add({name: np.full(100, number % 2, dtype=np.int64) for name in PLAIN.names})
    file = spilled[0]._file
    file.seek(0)
    stored = bytearray(file.read())
    if damage == "a byte":
        stored[700] ^= 1
    elif damage == "two frames":
        stored[:500], stored[500:1000] = stored[500:1000], stored[:500]
    else:
        stored = stored[:-3]
    file.seek(0)
    file.truncate()
    file.write(stored)
    with pytest.raises(SourceError, match="changed on disk"):
        list(kept.blocks(PLAIN))


def test_it_does_not_travel() -> None:
    kept = PrivateCopy(PLAIN)
    for travel in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(PrivacyError):
            travel(kept)
    assert "0x" in repr(kept)
    assert "array" not in repr(kept)


def test_a_disk_without_room_is_told_without_values(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any, **__: Any) -> Any:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(copies, "COPY_MEMORY", 0)
    monkeypatch.setattr(copies.tempfile, "TemporaryFile", full)
    with pytest.raises(SourceError, match="TMPDIR"):
        fitted(batches())


@pytest.mark.parametrize("outside", ["nearest", "cell", "refuse"])
def test_rules_for_what_lies_outside_hold_in_a_copy(outside: Any) -> None:
    """A grid cell goes to the bin, the cell or the refusal that the value itself would have got."""
    column = Quantiles(4, lower=0, upper=100, share=0.1, outside=outside, missing="refuse")
    schema = Schema.of(a=[0, 1, 2], age=column, ill=[0, 1])
    asked: dict[str, Any] = {"budget": BUDGET, "records": N}

    def shape(source: Any) -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                return [each.values.shape for each in fit_naive_bayes(source, schema, "ill", **asked).releases]
            except SimplexDPError as error:
                return type(error)

    rows = table().select(["a", "age", "ill"])
    assert shape(rows.to_reader(max_chunksize=500)) == shape(rows)
    assert (shape(rows) is SourceError) == (outside == "refuse")


def test_the_rows_of_a_person_are_chosen_once(spilled: list[Any]) -> None:
    """A database that promises no order is read once, so that every pass has the same rows of each person."""
    query = Query("SELECT * FROM t", cursor())
    made = fitted(query, rows_per_person=2, person="who")
    assert len(spilled) == 1
    assert made.guarantee.rows == 2
    assert any(each.name == "noisy-sum" for each in made.guarantee.mechanisms)


def test_what_is_read_again_by_itself_is_not_copied(spilled: list[Any]) -> None:
    fitted(table())
    fitted(table().to_pandas())
    assert not spilled
