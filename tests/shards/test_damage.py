"""Damaged and forged partials: refused as such, before anything is charged."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pytest
from shards_support import NAMES, SCHEMA, TABLES, Setting

from simplexdp import Budget, Ledger, release_distribution
from simplexdp.counting import OneRecordPerRow, count
from simplexdp.errors import FormatError, InvalidArgument
from simplexdp.private import partials as code
from simplexdp.private import sealed
from simplexdp.private.tables import opened
from simplexdp.schema import Schema
from simplexdp.shards import CountingKey, Partials, ShardRequest, count_shard

BUDGET = Budget(epsilon=1.0, delta=1e-4)


def count_shards(setting: Setting, request: ShardRequest | None = None) -> Path:
    for name in NAMES:
        count_shard(setting.folder / name, request or setting.request, setting.counting, setting.folder / "out")
    return setting.folder / f"out/{NAMES[0]}.partial"


def opened_all(setting: Setting) -> Partials:
    return Partials(setting.folder / "out", setting.request, setting.release)


def with_header(data: bytes, change: Callable[[dict[str, Any]], None]) -> bytes:
    """The same file with another header."""
    start = len(sealed.FIRST_LINE)
    size = int.from_bytes(data[start : start + 4], "little")
    header = json.loads(data[start + 4 : start + 4 + size])
    change(header)
    about = json.dumps(header, sort_keys=True).encode()
    return data[:start] + struct.pack("<I", len(about)) + about + data[start + 4 + size :]


@pytest.mark.parametrize(
    "facts",
    [
        {"relations": ["add-remove"]},
        {"declarations": ["All is well."]},
        {"is_private": False},
        {"software": "other"},
        {},
    ],
)
def test_facts_are_those_of_the_authenticated_header(setting: Setting, facts: dict[str, Any]) -> None:
    """A header that is exchanged for the true one after it was read leaves none of its facts; {} is the control."""
    path = count_shards(setting)
    data = path.read_bytes()
    path.write_bytes(with_header(data, lambda header: header.update(facts)))
    plain = code.header_of

    def exchanged(file: Path) -> dict[str, Any]:
        found = plain(file)
        path.write_bytes(data)
        return found

    with patch.object(code, "header_of", exchanged):
        if not facts:
            assert opened_all(setting).relations == {"add-remove", "replace-one"}
            return
        with pytest.raises(FormatError, match="not the partial that it was"):
            opened_all(setting)


def test_damage_is_found_before_the_charge_under_add_remove(setting: Setting) -> None:
    path = count_shards(setting)
    ledger = Ledger.open(setting.folder / "ledger.db", budget=BUDGET, neighbours="add-remove")
    ledger.register("people", opened_all(setting), SCHEMA)
    cost = Budget(epsilon=0.1, delta=1e-6)
    how: dict[str, Any] = {"budget": cost, "neighbours": "add-remove", "ledger": ledger, "dataset": "people"}
    before, data = ledger.remaining("people"), bytearray(path.read_bytes())
    whole = opened_all(setting)
    data[-1] ^= 1
    path.write_bytes(data)
    with pytest.raises(FormatError, match="cut, changed"):
        release_distribution(opened_all(setting), SCHEMA, ["ill"], **how)
    assert ledger.remaining("people") == before
    assert release_distribution(whole, SCHEMA, ["ill"], **how).private  # which reads no file again
    assert ledger.remaining("people") != before


def test_partials_are_registered_under_one_name(setting: Setting) -> None:
    count_shards(setting)
    ledger = Ledger.open(setting.folder / "ledger.db", budget=BUDGET)
    ledger.register("people", opened_all(setting), SCHEMA)
    with pytest.raises(InvalidArgument, match="registered already"):
        ledger.register("others", opened_all(setting), SCHEMA)
    ledger.register("people", opened_all(setting), SCHEMA)
    another = replace(setting.request, id="another")
    count_shards(setting, another)
    ledger.register("others", Partials(setting.folder / "out", another, setting.release), SCHEMA)


def test_a_public_key_of_zeros_is_refused_as_damage(setting: Setting) -> None:
    path = count_shards(setting)
    data = path.read_bytes()
    start = len(sealed.FIRST_LINE)
    end = start + 4 + int.from_bytes(data[start : start + 4], "little")
    path.write_bytes(data[:end] + bytes(32) + data[end + 32 :])
    with pytest.raises(FormatError, match="not a partial"):
        opened_all(setting)
    key = CountingKey(bytes(32), setting.counting.secret)
    with pytest.raises(FormatError, match="key for counting"):
        count_shard(setting.folder / NAMES[0], setting.request, key, setting.folder / "out")


@pytest.mark.parametrize(
    "wrong",
    [
        {"relations": [["x"]]},
        {"relations": ["x"]},
        {"relations": None},
        {"declarations": [1]},
        {"is_private": 1},
        {"shard": ["part-0.parquet"]},
        {"schema": ["x"]},
    ],
)
def test_headers_of_other_forms_are_refused_as_such(setting: Setting, wrong: dict[str, Any]) -> None:
    path = count_shards(setting)
    path.write_bytes(with_header(path.read_bytes(), lambda header: header.update(wrong)))
    with pytest.raises(FormatError, match=r"did not write|another schema"):
        opened_all(setting)
    (name,) = wrong
    path.write_bytes(with_header(path.read_bytes(), lambda header: header.pop(name)))
    with pytest.raises(FormatError, match=r"did not write|another schema"):
        opened_all(setting)


@pytest.mark.slow
def test_headers_stay_short_whatever_the_number_of_tables(setting: Setting) -> None:
    """19,600 tables are all triples of 50 columns."""
    names = [f"c{i}" for i in range(50)]
    schema = Schema.of(**{name: [False, True] for name in names})
    rows = pa.table({name: [False, True] for name in names})
    request = ShardRequest(schema=schema, tables=tuple(combinations(names, 3)), shards=("only",))
    path = count_shard(rows, request, setting.counting, setting.folder / "out", shard="only")
    assert len(json.dumps(sealed.header_of(path))) < 1000
    (table,) = count(Partials([path], request, setting.release), schema, [("c3", "c7")])
    assert opened(table.private_counts()).tolist() == [[1, 0], [0, 1]]


def test_tables_that_are_declared_otherwise_have_another_header(setting: Setting) -> None:
    headers = []
    for tables in (TABLES, TABLES[:1], TABLES[::-1]):
        asked = replace(setting.request, tables=tables)
        path = count_shard(setting.folder / NAMES[0], asked, setting.counting, setting.folder / "out")
        headers.append(sealed.header_of(path)["schema"])
    assert len(set(headers)) == 3


def test_a_header_that_would_not_be_read_is_not_written(setting: Setting) -> None:
    place = setting.folder / "out"
    with patch.object(sealed, "_MOST_HEADER", 300), pytest.raises(InvalidArgument, match="`header` must be at most"):
        count_shard(OneRecordPerRow(setting.rows), setting.request, setting.counting, place, shard=NAMES[0])
    assert not list((setting.folder / "out").iterdir())
