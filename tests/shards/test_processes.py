"""Eight processes count eight shards; two are killed on the way, repeated, and the sum is the count of all rows."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from shards_support import SCHEMA, TABLES, rows_of, write_shards

from simplexdp.counting import count
from simplexdp.errors import InvalidArgument
from simplexdp.private.tables import opened
from simplexdp.shards import Partials, ShardRequest, make_keys

pytestmark = pytest.mark.slow

SHARDS = tuple(f"part-{i}.parquet" for i in range(8))
KILLED = SHARDS[2], SHARDS[5]
JOB = """
import sys, time
from simplexdp.shards import CountingKey, ShardRequest, count_shard
folder, name, hangs = sys.argv[1], sys.argv[2], sys.argv[3] == "hangs"

def progress(done, total):
    if hangs:  # in the middle of the count
        print("counting", flush=True)
        time.sleep(600)

count_shard(f"{folder}/{name}", ShardRequest.read(f"{folder}/request.json"),
            CountingKey.read(f"{folder}/count.key"), f"{folder}/out", progress=progress, threads=1)
"""


def start(folder: Path, name: str, how: str) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, "-c", JOB, str(folder), name, how], stdout=subprocess.PIPE, text=True)


def test_eight_processes_two_of_them_killed_and_repeated(tmp_path: Path) -> None:
    rows = rows_of(4000)
    write_shards(tmp_path, rows, SHARDS)
    make_keys(tmp_path / "release.key", tmp_path / "count.key")
    request = ShardRequest(schema=SCHEMA, tables=TABLES, shards=SHARDS)
    request.write(tmp_path / "request.json")
    out = tmp_path / "out"
    out.mkdir()
    jobs = {name: start(tmp_path, name, "hangs" if name in KILLED else "runs") for name in SHARDS}
    for name in KILLED:
        assert jobs[name].stdout is not None
        assert jobs[name].stdout.readline() == "counting\n"
        os.kill(jobs[name].pid, signal.SIGKILL)
    codes = {name: job.wait(timeout=120) for name, job in jobs.items()}
    for job in jobs.values():
        job.communicate()
    assert {name for name, code in codes.items() if code} == set(KILLED)
    with pytest.raises(InvalidArgument, match=r"Missing: part-2\.parquet, part-5\.parquet\."):
        Partials(out, request, tmp_path / "release.key")
    for name in KILLED:
        again = start(tmp_path, name, "runs")
        again.communicate(timeout=120)
        assert again.returncode == 0
    partials = Partials(out, tmp_path / "request.json", tmp_path / "release.key")
    found, whole = count(partials, SCHEMA, TABLES), count(rows, SCHEMA, TABLES)
    for ours, all_rows in zip(found, whole, strict=True):
        assert (opened(ours.private_counts()) == opened(all_rows.private_counts())).all()
