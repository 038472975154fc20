"""The setting of the tests of shards."""

from __future__ import annotations

from pathlib import Path

import pytest
from shards_support import NAMES, SCHEMA, TABLES, Setting, rows_of, write_shards

from simplexdp.shards import CountingKey, ReleaseKey, ShardRequest, make_keys


@pytest.fixture
def setting(tmp_path: Path) -> Setting:
    rows = rows_of(900)
    write_shards(tmp_path, rows, NAMES)
    make_keys(tmp_path / "release.key", tmp_path / "count.key")
    request = ShardRequest(schema=SCHEMA, tables=TABLES, shards=NAMES)
    (tmp_path / "out").mkdir()
    return Setting(
        tmp_path,
        rows,
        request,
        CountingKey.read(tmp_path / "count.key"),
        ReleaseKey.read(tmp_path / "release.key"),
    )
