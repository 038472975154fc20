"""Shards: the sum of partials is the count of all rows; a partial is private, whole, of one request and one shard."""

from __future__ import annotations

import copy
import json
import os
import pickle
import shutil
import stat
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from shards_support import NAMES, SCHEMA, TABLES, Setting, rows_of, write_shards

from simplexdp import Budget, Ledger, fit_naive_bayes, release_distribution, release_tables
from simplexdp.counting import OneRecordPerRow, count
from simplexdp.errors import FormatError, InvalidArgument, MissingExtra, PrivacyError, SourceError
from simplexdp.network import BayesianNetwork
from simplexdp.private import sealed
from simplexdp.private.tables import opened
from simplexdp.sampling import SeededEntropy
from simplexdp.schema import Schema
from simplexdp.shards import CountingKey, Partials, ReleaseKey, ShardRequest, count_shard, make_keys

BUDGET = Budget(epsilon=1.0, delta=1e-4)
GRAPH = [("ill", "town"), ("ill", "smoker")]


def count_all(setting: Setting, request: ShardRequest | None = None, **how: Any) -> Partials:
    asked = request or setting.request
    for name in asked.shards:
        count_shard(setting.folder / name, asked, setting.counting, setting.folder / "out", **how)
    return Partials(setting.folder / "out", asked, setting.release)


def numbers(tables: Any) -> list[Any]:
    return [opened(table.private_counts()).tolist() for table in tables]


def test_partials_add_up_to_the_count_of_all_rows(setting: Setting) -> None:
    partials = count_all(setting)
    asked = [*TABLES, ("ill",), ("ill", "town")]
    whole = count(setting.rows, SCHEMA, asked)
    found = count(partials, SCHEMA, asked)
    assert numbers(found) == numbers(whole)
    assert [table.fingerprint for table in found] == [table.fingerprint for table in whole]
    assert all(table.is_private for table in found)
    assert "3 shards" in repr(partials)


def test_release_fit_tables_and_network_from_partials_by_one_call(setting: Setting) -> None:
    """With one seed each is, byte for byte, what it is from the rows, where no row is needed after the count."""
    partials = count_all(setting)

    def same(make: Any) -> None:
        ours, usual = (make(source).to_body() for source in (partials, setting.rows))
        assert _without(ours, {"created"}) == _without(usual, {"created"})

    same(lambda source: release_distribution(source, SCHEMA, ["town", "ill"], budget=BUDGET, entropy=1))
    same(lambda source: release_tables(source, SCHEMA, list(TABLES), budget=BUDGET, entropy=1))
    plain: dict[str, Any] = {"budget": BUDGET, "entropy": 1, "reweight": False}
    same(lambda source: fit_naive_bayes(source, SCHEMA, "ill", **plain))
    same(lambda source: BayesianNetwork(GRAPH, SCHEMA, budget=BUDGET, entropy=1).fit(source).model)


def _without(body: Any, names: set[str]) -> Any:
    if isinstance(body, dict):
        return {key: _without(value, names) for key, value in body.items() if key not in names}
    return [_without(each, names) for each in body] if isinstance(body, list) else body


def test_persons_are_bounded_in_their_shard(setting: Setting) -> None:
    asked = ShardRequest(
        schema=SCHEMA, tables=TABLES, shards=NAMES, rows_per_person=1, person="who", person_in_one_shard=True
    )
    partials = count_all(setting, asked)
    persons = len(set(setting.rows["who"].to_pylist()))
    unit: dict[str, Any] = {"rows_per_person": 1, "person": "who"}
    (table,) = count(partials, SCHEMA, [("ill",)], entropy=np.random.default_rng(), **unit)
    assert opened(table.private_counts()).sum() == persons
    assert table.unit == "person"
    assert table.rows_per_person == 1
    published = release_distribution(partials, SCHEMA, ["town", "ill"], budget=BUDGET, **unit)
    assert published.private
    assert "lie in one shard" in str(published.certificate())
    with pytest.raises(InvalidArgument, match="at most 1 rows of each person"):
        release_distribution(partials, SCHEMA, ["town", "ill"], budget=BUDGET, rows_per_person=2, person="who")
    with pytest.raises(InvalidArgument, match="rows_per_person"):
        release_distribution(partials, SCHEMA, ["town", "ill"], budget=BUDGET)


def test_persons_in_several_shards_are_refused_unless_declared() -> None:
    with pytest.raises(PrivacyError, match="PARTITION BY"):
        ShardRequest(schema=SCHEMA, tables=TABLES, shards=NAMES, rows_per_person=1, person="who")


def test_a_seeded_choice_of_rows_is_not_private(setting: Setting) -> None:
    asked = ShardRequest(
        schema=SCHEMA, tables=TABLES, shards=NAMES, rows_per_person=1, person="who", person_in_one_shard=True
    )
    partials = count_all(setting, asked, entropy=SeededEntropy(3))
    unit: dict[str, Any] = {"rows_per_person": 1, "person": "who"}
    assert not release_distribution(partials, SCHEMA, ["ill"], budget=BUDGET, **unit).private


# -- what is refused ---------------------------------------------------------------------------------------------------


def test_a_second_partial_of_a_shard_is_refused(setting: Setting) -> None:
    count_all(setting)
    count_shard(setting.folder / NAMES[0], setting.request, setting.counting, setting.folder / "out/again.partial")
    with pytest.raises(PrivacyError, match="count twice"):
        Partials(setting.folder / "out", setting.request, setting.release)


def test_a_repeated_shard_replaces_its_partial(setting: Setting) -> None:
    count_all(setting)
    partials = count_all(setting)
    assert numbers(count(partials, SCHEMA, TABLES)) == numbers(count(setting.rows, SCHEMA, TABLES))


def test_two_shards_from_one_file_are_refused(setting: Setting) -> None:
    count_all(setting)
    copied = setting.folder / "copied"
    copied.mkdir()
    shutil.copy(setting.folder / NAMES[0], copied / NAMES[1])
    count_shard(copied / NAMES[1], setting.request, setting.counting, setting.folder / "out")
    with pytest.raises(PrivacyError, match="the same file"):
        Partials(setting.folder / "out", setting.request, setting.release)


def test_empty_shards_are_no_second_copies(setting: Setting) -> None:
    for name in NAMES[:2]:
        pq.write_table(setting.rows.slice(0, 0), setting.folder / name)
    assert (
        numbers(count(count_all(setting), SCHEMA, [("ill",)]))[0]
        == numbers(count(setting.folder / NAMES[2], SCHEMA, [("ill",)]))[0]
    )


def test_a_missing_shard_is_named(setting: Setting) -> None:
    count_all(setting)
    (setting.folder / f"out/{NAMES[1]}.partial").unlink()
    with pytest.raises(InvalidArgument, match=r"Missing: part-1.parquet\."):
        Partials(setting.folder / "out", setting.request, setting.release)


def test_partials_of_another_request_are_refused(setting: Setting) -> None:
    """Also of one that says the same: an earlier count of older rows does not fit."""
    count_all(setting)
    for other in (
        replace(setting.request, id="another"),
        replace(setting.request, tables=TABLES[:1]),
        replace(setting.request, schema=Schema.of(ill=["yes", "no"], town=["a", "b", "c"], smoker=[False, True])),
    ):
        with pytest.raises(FormatError, match="another request"):
            Partials(setting.folder / "out", other, setting.release)


def test_a_shard_the_request_does_not_have(setting: Setting) -> None:
    with pytest.raises(InvalidArgument, match="a shard of the request"):
        count_shard(setting.rows, setting.request, setting.counting, setting.folder / "out", shard="part-9")
    with pytest.raises(InvalidArgument, match="a shard of the request"):
        count_shard(setting.rows, setting.request, setting.counting, setting.folder / "out")


@pytest.mark.parametrize("place", ["first line", "header", "public key", "frame", "length", "end", "longer"])
def test_a_changed_or_cut_partial_is_refused(setting: Setting, place: str) -> None:
    count_all(setting)
    path = setting.folder / f"out/{NAMES[0]}.partial"
    data = bytearray(path.read_bytes())
    start = len(sealed.FIRST_LINE)
    header = int.from_bytes(data[start : start + 4], "little")
    body = start + 4 + header + 32
    if place == "end":
        del data[-1]
    elif place == "longer":
        data += b"\0"
    else:
        at = {"first line": 3, "header": data.index(b'"software"') + 15, "public key": body - 5}
        data[at.get(place, body + 2 if place == "length" else body + 40)] ^= 1
    path.write_bytes(data)
    with pytest.raises(FormatError, match=r"cut|not a partial"):
        Partials(setting.folder / "out", setting.request, setting.release)


def test_every_bit_of_a_small_partial_matters(setting: Setting) -> None:
    """The control is the file as it was."""
    path = count_shard(setting.folder / NAMES[0], setting.request, setting.counting, setting.folder / "out")
    data = path.read_bytes()
    assert sealed.unseal(path, setting.release)[0]["shard"] == NAMES[0]
    for bit in range(0, 8 * len(data), 37):
        changed = bytearray(data)
        changed[bit // 8] ^= 1 << bit % 8
        path.write_bytes(changed)
        with pytest.raises(FormatError):
            sealed.unseal(path, setting.release)


def test_frames_cannot_be_left_out_or_exchanged(setting: Setting) -> None:
    path = setting.folder / "frames"

    def write() -> bytes:
        with path.open("wb") as file:
            sealed.seal(file, {}, [b"a" * 8, b"b" * 8, b"c" * 8], setting.counting)
        return path.read_bytes()

    with patch.object(sealed, "FRAME", 8):
        data = write()
        start, frame = len(sealed.FIRST_LINE) + 4 + 2 + 32, 4 + 8 + 16
        assert sealed.unseal(path, setting.release)[1] == b"a" * 8 + b"b" * 8 + b"c" * 8
        first, second, last = (data[start + i * frame : start + (i + 1) * frame] for i in range(3))
        other = write()[start : start + frame]
        moved, less, cut = [second, first, last], [first, last], [first, second]
        for wrong in (moved, less, cut, [first, last, last], [other, second, last]):
            path.write_bytes(data[:start] + b"".join(wrong))
            with pytest.raises(FormatError, match="cut, changed"):
                sealed.unseal(path, setting.release)


# -- who can read and write --------------------------------------------------------------------------------------------


def test_a_partial_tells_nothing_without_the_key_for_release(setting: Setting) -> None:
    """Its length is that of the request, whatever the counts; none of its parts is a count or the key."""
    pq.write_table(setting.rows.slice(0, 0), setting.folder / NAMES[1])
    count_all(setting)
    files = [(setting.folder / f"out/{name}.partial").read_bytes() for name in NAMES]
    assert len({len(data) for data in files}) == 1
    secret = (setting.counting.secret, setting.release.private)
    exact = [np.array(counts, "<i8").tobytes() for counts in numbers(count(setting.folder / NAMES[0], SCHEMA, TABLES))]
    assert not any(part in files[0] for part in (*secret, *exact))
    assert files[0].startswith(b"simplexdp partial: PRIVATE DATA, encrypted")
    assert stat.S_IMODE((setting.folder / f"out/{NAMES[0]}.partial").stat().st_mode) == 0o600
    again = count_shard(setting.folder / NAMES[0], setting.request, setting.counting, setting.folder / "out")
    assert again.read_bytes()[-64:] != files[0][-64:]  # a new key for each file


def test_other_keys_neither_open_nor_write(setting: Setting) -> None:
    count_all(setting)
    make_keys(setting.folder / "other.release", setting.folder / "other.count")
    stranger = ReleaseKey.read(setting.folder / "other.release")
    for key in (stranger, ReleaseKey(setting.release.private, stranger.secret)):
        with pytest.raises(FormatError, match="other keys"):
            Partials(setting.folder / "out", setting.request, key)
    forger = CountingKey(setting.counting.public, os.urandom(32))  # the public key alone
    count_shard(setting.folder / NAMES[0], setting.request, forger, setting.folder / "out")
    with pytest.raises(FormatError, match="other keys"):
        Partials(setting.folder / "out", setting.request, setting.release)


def test_keys_are_kept_apart(setting: Setting) -> None:
    for name in ("release.key", "count.key"):
        assert stat.S_IMODE((setting.folder / name).stat().st_mode) == 0o600
    with pytest.raises(FormatError, match="not a key for counting"):
        CountingKey.read(setting.folder / "release.key")
    with pytest.raises(FormatError, match="not a key for release"):
        ReleaseKey.read(setting.folder / "count.key")
    assert "private" not in json.loads((setting.folder / "count.key").read_text())
    with pytest.raises(InvalidArgument, match="a new file"):
        make_keys(setting.folder / "release.key", setting.folder / "more.key")
    for key in (setting.counting, setting.release, Partials.__new__(Partials)):
        with pytest.raises(PrivacyError):
            pickle.dumps(key)
        with pytest.raises(PrivacyError):
            copy.copy(key)
    assert setting.counting.secret.hex() not in repr(setting.counting)


def test_without_the_package_the_extra_is_named(setting: Setting) -> None:
    with (
        patch.dict("sys.modules", {"cryptography.hazmat.primitives.asymmetric": None}),
        pytest.raises(MissingExtra, match=r"simplexdp\[shards\]"),
    ):
        make_keys(setting.folder / "a", setting.folder / "b")


# -- the door ----------------------------------------------------------------------------------------------------------


def test_what_was_not_counted_is_refused_before_the_charge(setting: Setting) -> None:
    partials = count_all(setting)
    ledger = Ledger.open(setting.folder / "ledger.db", budget=BUDGET)
    ledger.register("people", partials, SCHEMA)
    for columns, schema, what in (
        (["town", "smoker"], SCHEMA, "margins of them"),
        (["town"], Schema.of(town=["a", "b", "c", "d"]), "another column"),
    ):
        with pytest.raises((InvalidArgument, PrivacyError), match=f"{what}|registered"):
            release_distribution(partials, schema, columns, budget=BUDGET, ledger=ledger, dataset="people")
    left = ledger.remaining("people")
    published = release_distribution(
        partials, SCHEMA, ["town", "ill"], budget=Budget(epsilon=0.1, delta=1e-6), ledger=ledger, dataset="people"
    )
    assert published.private
    assert ledger.remaining("people") != left


def test_a_partial_of_a_selection_rules_out_replace_one(setting: Setting) -> None:
    duckdb = pytest.importorskip("duckdb")
    from simplexdp.counting import Query

    assert duckdb
    for name in NAMES:
        sql = f"SELECT * FROM '{setting.folder / name}' WHERE smoker"
        count_shard(Query(sql), setting.request, setting.counting, setting.folder / "out", shard=name)
    partials = Partials(setting.folder / "out", setting.request, setting.release)
    with pytest.raises(PrivacyError):
        release_distribution(partials, SCHEMA, ["ill"], budget=BUDGET)
    assert release_distribution(partials, SCHEMA, ["ill"], budget=BUDGET, neighbours="add-remove").private


def test_declarations_of_a_shard_reach_the_certificate(setting: Setting) -> None:
    for name in NAMES:
        source = OneRecordPerRow(pq.read_table(setting.folder / name))
        count_shard(source, setting.request, setting.counting, setting.folder / "out", shard=name)
    partials = Partials(setting.folder / "out", setting.request, setting.release)
    assert partials.declarations == OneRecordPerRow(setting.rows).declarations


def test_a_broken_rule_leaves_no_partial(setting: Setting) -> None:
    bad = rows_of(30).set_column(1, "town", pa.array(["Zaphod4711"] * 30))
    with pytest.raises(SourceError) as caught:
        count_shard(bad, setting.request, setting.counting, setting.folder / "out", shard=NAMES[0])
    assert "Zaphod" not in str(caught.value)
    assert not list((setting.folder / "out").iterdir())


def test_requests_are_read_as_they_were_written(setting: Setting) -> None:
    path = setting.folder / "request.json"
    setting.request.write(path)
    assert ShardRequest.read(path) == setting.request
    assert ShardRequest.read(path).digest == setting.request.digest
    body = json.loads(path.read_text())
    for wrong in ({}, {**body, "version": 9}, {**body, "shards": "part"}, {**body, "tables": [["nobody"]]}, [1]):
        path.write_text(json.dumps(wrong))
        with pytest.raises((FormatError, InvalidArgument)):
            ShardRequest.read(path)


@pytest.mark.parametrize("name", ["../a", "", ".hidden", "a/b", "x" * 300])
def test_names_of_shards_stay_in_their_folder(name: str) -> None:
    with pytest.raises(InvalidArgument, match="names without a slash"):
        ShardRequest(schema=SCHEMA, tables=TABLES, shards=(name,))


def test_shards_write_themselves(tmp_path: Path) -> None:
    """The helper of these tests puts every row into one shard."""
    rows = rows_of(100)
    write_shards(tmp_path, rows, NAMES)
    assert sum(pq.read_metadata(tmp_path / name).num_rows for name in NAMES) == rows.num_rows
