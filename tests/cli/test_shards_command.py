"""`simplexdp shards` and `fit --partials`: keys, a request, partials, a release."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from cli_support import BUDGET, make_rows

from simplexdp.models import read

PARTIALS = ("--partials", "partials", "--request", "request.json", "--key", "release.key", "--schema", "schema.yaml")
PERSON = ("--rows-per-person", "3", "--person", "person")


@pytest.fixture
def shards(work, simplexdp):
    """What makes keys, a request and all partials of three shards."""
    rows = make_rows(1500)
    Path("shards").mkdir()
    Path("partials").mkdir()
    for i in range(3):
        pq.write_table(rows.slice(600 * i, 600), f"shards/{i}.parquet")

    def ask(*more):
        request = ("shards", "request", "--schema", "schema.yaml", "--shard", "shards", *more, "--out", "request.json")
        assert simplexdp("shards", "keys", "--release", "release.key", "--counting", "count.key").code == 0
        assert simplexdp(*request).code == 0
        for i in range(3):
            key = ("--request", "request.json", "--key", "count.key", "--out", "partials")
            made = simplexdp("shards", "count", f"shards/{i}.parquet", *key)
            assert (made.code, made.err) == (0, "")
            assert "PRIVATE" in made.out

    return ask


def test_from_keys_to_a_classifier(shards, simplexdp):
    shards("--target", "ill")
    fit = ("fit", "nb", *PARTIALS, *BUDGET, "--target", "ill")
    assert simplexdp(*fit, "--out", "model.json").code == 0
    found = read("model.json")
    assert found.certificate().private
    assert found.releases[0].total == 1500
    refused = simplexdp(*fit, "shards", "--out", "other.json")
    assert refused.code != 0
    assert "--partials" in refused.err


def test_networks_tables_and_persons(shards, simplexdp):
    graph = ("--graph", "smoker->ill,ill->region")
    shards(*graph, "--table", "all-1-way", *PERSON, "--person-in-one-shard")
    assert simplexdp("fit", "bn", *PARTIALS, *BUDGET, *PERSON, *graph, "--out", "bn.json").code == 0
    tables = ("fit", "tables", *PARTIALS, *BUDGET, *PERSON, "--table", "all-1-way", "--out", "tables.json")
    assert simplexdp(*tables).code == 0
    assert "one shard" in str(read("tables.json").certificate())
    assert json.loads(Path("request.json").read_text())["shards"] == ["0.parquet", "1.parquet", "2.parquet"]


def test_refusals_are_one_line(shards, simplexdp):
    shards("--table", "smoker,ill")
    count = ("shards", "count", "shards/0.parquet", "--request", "request.json")
    for wrong in (
        ("shards", "request", "--schema", "schema.yaml", "--shard", "shards", "--out", "r.json"),
        (*count, "--key", "release.key", "--out", "partials"),
        (*count, "--key", "count.key", "--name", "x", "--out", "p"),
        ("fit", "distribution", *BUDGET, "--schema", "schema.yaml", "--columns", "ill", "--partials", "partials",
         "--out", "d.json"),
        ("fit", "distribution", *PARTIALS, *BUDGET, "--columns", "ill,region", "--out", "d.json"),
    ):  # fmt: skip
        refused = simplexdp(*wrong)
        assert refused.code == 2
        assert len(refused.err.strip().splitlines()) <= 2, refused.err
        assert "Traceback" not in refused.err
    assert not Path("d.json").exists()
