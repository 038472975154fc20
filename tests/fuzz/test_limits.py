"""Inputs that would be expensive: each is refused by a limit, or read within bounded memory."""

from __future__ import annotations

import gzip
import json
import re
import resource
import sys
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from benchmarks.fuzz import targets as fuzz

import reproduction
import simplexdp
from simplexdp import Release, Schema, count
from simplexdp.errors import FormatError, SchemaError, SimplexDPError, SourceError
from simplexdp.ledger.chain import START, State
from simplexdp.models import document
from simplexdp.models.bayesian_network import graph
from simplexdp.models.naive_bayes import NaiveBayesModel

MILLION = "9" * 1_000_000
DEEP = "[" * 100_000 + "]" * 100_000
HOSTILE = [MILLION, f"-{MILLION}", DEEP, '{"a":' * 100_000, "NaN", "-Infinity", "1e999", "1" + "0" * 400, '"\\ud800"']


@pytest.mark.parametrize("value", HOSTILE, ids=range(len(HOSTILE)))
@pytest.mark.parametrize(
    "read",
    [
        lambda value: Schema.from_json(f'{{"columns": [{{"name": "a", "values": [{value}, 2]}}]}}'),
        lambda value: Schema.from_yaml(f"columns:\n  - {{name: a, edges: [0, {value}]}}\n"),
        lambda value: Release.from_json(
            f'{{"format": "simplexdp/release", "version": 1, "sha256": "", "body": {{"values": [{value}]}}}}'
        ),
        lambda value: Release.from_json(value),
        lambda value: State().take(0, "open", value, START, "0" * 64),
    ],
    ids=["schema json", "schema yaml", "release body", "release", "ledger entry"],
)
def test_values_that_no_file_of_ours_holds(read: Callable[[str], object], value: str) -> None:
    with pytest.raises(SimplexDPError):
        read(value)


def test_a_number_beyond_floats_in_a_document_is_refused() -> None:
    """Found by fuzzing: 1e999 is read as infinity, which the checksum cannot be taken of."""
    text = fuzz.seeds("release_file")[0].decode()
    with pytest.raises(FormatError, match="changed"):
        Release.from_json(re.sub(r'"total": [\d.]+', '"total": 1e999', text))


def test_an_integer_beyond_floats_in_a_model_is_refused() -> None:
    """Found by fuzzing: 10^400 has no float."""
    body = json.loads(fuzz.seeds("model_body")[0])
    body["weights"][0] = 10**400
    with pytest.raises(FormatError, match="wrong type"):
        NaiveBayesModel.from_body(body)


def test_a_folder_that_cannot_be_searched(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Found by fuzzing: a source such as / holds files that may not be looked at."""
    (tmp_path / "x.csv").write_text("a\nx\n")

    def refuse(_: Path) -> bool:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "is_file", refuse)
    with pytest.raises(SourceError, match="looked through"):
        count(str(tmp_path), Schema.of(a=["x", "y"]), [("a",)])


@pytest.mark.parametrize("name", ["zero", "full"])
def test_a_device_is_no_document(name: str) -> None:
    if not Path("/dev", name).exists():
        pytest.skip("no such device")
    with pytest.raises(FormatError, match="not a file"):
        Release.read(f"/dev/{name}")


def test_a_document_beyond_its_limit(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    path.write_bytes(fuzz.seeds("release_file")[0])
    Release.read(path)
    monkeypatch.setattr(document, "MAX_BYTES", 100)
    with pytest.raises(FormatError, match="larger"):
        Release.from_json(path.read_text())
    with pytest.raises(FormatError, match="larger"):
        document.read_file(path, 100)


def test_a_schema_beyond_its_limit() -> None:
    with pytest.raises(SchemaError, match="long"):
        Schema.from_json(" " * (17 << 20))


def test_many_open_comments_take_linear_time() -> None:
    """A million comments that never end; each would be searched to the end of the text."""
    with pytest.raises(FormatError, match="'a' has no probabilities"):
        graph.parse_structure("variable a { type discrete [ 2 ] { x, y }; }\n" + "/* " * 1_000_000)


def _peak(path: Path) -> int:
    """Bytes that Python and Arrow hold at the most while the file is counted."""
    pa.default_memory_pool().release_unused()
    tracemalloc.start()
    try:
        (table,) = count(str(path), Schema.of(a=["x", "y"]), [("a",)])
        assert table.private_counts().sum() > 0
        return max(tracemalloc.get_traced_memory()[1], pa.default_memory_pool().max_memory())
    finally:
        tracemalloc.stop()


def test_a_parquet_file_that_unpacks_to_a_thousand_times_its_size(tmp_path: Path) -> None:
    """Equal values are stored once; rows are read in batches, so memory does not grow with what they unpack to."""
    path = tmp_path / "bomb.parquet"
    writer = pq.ParquetWriter(path, pa.schema([("a", pa.string())]), compression="zstd")
    for _ in range(20):
        writer.write_table(pa.table({"a": pa.array(["x"] * 500_000)}))
    writer.close()
    unpacked = 20 * 500_000 * len("x\0\0\0\0")
    assert path.stat().st_size * 1000 < unpacked
    assert _peak(path) < unpacked


def test_a_compressed_line_that_does_not_end(tmp_path: Path) -> None:
    path = tmp_path / "bomb.csv.gz"
    with gzip.open(path, "wb") as file:
        file.write(b"a\nx\n" + b"x" * (3 << 20) + b"\nx\n")
    assert path.stat().st_size < 1 << 20
    with pytest.raises(SourceError, match="could not be read") as refused:
        count(str(path), Schema.of(a=["x", "y"]), [("a",)])
    assert len(str(refused.value)) < 1000


def test_no_unsafe_loader_is_imported_or_named() -> None:
    """No module of the library reads pickles or YAML tags, or runs text as code."""
    unsafe = r"(pickle|marshal|shelve|joblib)\.(loads?|Unpickler)|yaml\.(load|unsafe_load|full_load)\(|\b(eval|exec)\("
    for path in [path for package in (simplexdp, reproduction) for path in Path(package.__file__).parent.rglob("*.py")]:
        assert not re.search(unsafe, path.read_text(encoding="utf-8")), path
    assert re.search(unsafe, "yaml.load(text)")
    assert re.search(unsafe, "pickle.loads(data)")


@pytest.fixture(autouse=True)
def _memory_limit() -> object:
    """A case that asks for more than this fails instead of taking the machine with it."""
    if sys.platform != "linux":
        yield
        return
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (12 << 30, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_AS, before)
