"""Fuzz targets: each takes bytes that pretend to be a file, and fails on anything but an error of this library.

Used by the tests with hypothesis and by `python -m benchmarks.fuzz` with atheris.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from typer.testing import CliRunner

from simplexdp import Budget, Gaussian, Release, Schema, count, release_distribution
from simplexdp.cli import app
from simplexdp.errors import SimplexDPError
from simplexdp.ledger import Ledger, fingerprint
from simplexdp.models.document import write_document
from simplexdp.naive_bayes import NaiveBayesModel, fit_naive_bayes

SECRET = "Qx7391vZ"
"""A value of the private rows: no message may hold it, nor a piece of it that could be told."""

RICH = """
origin: declared
columns:
  - {name: sex, values: [f, m]}
  - {name: region, values: [1, 2, 3], other: cell, missing: cell}
  - {name: age, edges: [0, 18, 40, 65, 120], own: [-1], outside: nearest}
  - {name: income, bins: 10, lower: 0, upper: 200000, share: 0.1}
  - {name: admitted, values: [2024-01-30, 2024-01-31]}
"""
SCHEMA = Schema.of(smoker=["no", "yes"], region=["north", "south", "east"])


def _quiet(run: Callable[[], object]) -> None:
    """Only errors of this library, and none that shows a private value."""
    try:
        run()
    except SimplexDPError as error:
        shown: BaseException | None = error
        while shown is not None:
            assert SECRET not in str(shown), "a message shows a private value"
            shown = shown.__cause__ or (None if shown.__suppress_context__ else shown.__context__)


# -- schema files --------------------------------------------------------------------------------------------------


def schema_yaml(data: bytes) -> None:
    """A schema in YAML; what is accepted survives a round trip."""
    _quiet(lambda: _same_schema(Schema.from_yaml(data.decode(errors="replace"))))


def schema_json(data: bytes) -> None:
    """A schema in JSON; what is accepted survives a round trip."""
    _quiet(lambda: _same_schema(Schema.from_json(data.decode(errors="replace"))))


def _same_schema(schema: Schema) -> None:
    assert Schema.from_json(schema.to_json()) == schema
    assert Schema.from_yaml(schema.to_yaml()) == schema


# -- releases and models -------------------------------------------------------------------------------------------


def release_file(data: bytes) -> None:
    """A release whose bytes were changed: refused, or what it was."""
    _quiet(lambda: _use(Release.from_json(data.decode(errors="replace"))))


def release_body(data: bytes) -> None:
    """A release whose body was changed and whose checksum fits: refused, or usable."""
    body = _object(data)
    if body is not None:
        _quiet(lambda: _use(Release.from_json(write_document("release", body))))


def model_body(data: bytes) -> None:
    """A naive Bayes model whose body was changed and whose checksum fits: refused, or usable."""
    body = _object(data)
    if body is None:
        return

    def run() -> None:
        model = NaiveBayesModel.from_json(write_document("naive-bayes", body))
        model.certificate()
        codes = np.zeros((1, len(model.features)), dtype=np.int64)
        assert np.isfinite(model.predict_log_proba(codes)).all()

    _quiet(run)


def _object(data: bytes) -> dict[str, object] | None:
    try:
        body = json.loads(data)
        json.dumps(body, allow_nan=False)
    except (ValueError, RecursionError):
        return None
    return body if isinstance(body, dict) else None


def _use(release: Release) -> None:
    if release.values.size > 1000:
        return  # as large as it says, which is not what is tested here
    str(release.certificate())
    repr(release)
    assert abs(float(release.probabilities.sum()) - 1) < 1e-6


# -- ledgers -------------------------------------------------------------------------------------------------------


def ledger(data: bytes) -> None:
    """A ledger whose bytes were changed: refused, or every entry is what it was."""
    _, entries = _ledger()
    path = _folder() / "fuzzed.db"
    path.write_bytes(data)
    for leftover in ("-journal", "-wal", "-shm"):
        Path(f"{path}{leftover}").unlink(missing_ok=True)

    def run() -> None:
        found = Ledger.open(path, timeout=0.1)
        assert [entry.hash for entry in found.entries()] == entries, "a changed ledger was accepted"

    _quiet(run)


@lru_cache
def _ledger() -> tuple[bytes, list[str]]:
    path = _folder() / "intact.db"
    path.unlink(missing_ok=True)
    made = Ledger.open(path, budget=Budget(epsilon=1.0, delta=1e-5))
    for number in range(3):
        charge = made.charge(
            Gaussian(sigma=30.0).loss(), dataset="d", description="x", request_hash=fingerprint(number)
        )
        charge.seal(fingerprint(-number))
    return path.read_bytes(), [entry.hash for entry in made.entries()]


# -- tables of rows ------------------------------------------------------------------------------------------------


def csv(data: bytes) -> None:
    """A CSV file of rows."""
    _count("fuzzed.csv", data)


def parquet(data: bytes) -> None:
    """A Parquet file of rows."""
    _count("fuzzed.parquet", data)


def _count(name: str, data: bytes) -> None:
    path = _folder() / name
    path.write_bytes(data)
    _quiet(lambda: count(str(path), SCHEMA, [("smoker", "region")]))


# -- the command line ----------------------------------------------------------------------------------------------

WORDS = (
    "account calibrate ledger schema show verify export create check draft json-schema --epsilon --delta --order "
    "--mechanism --tables --neighbours --r --alpha --json --total --cells --anchor --out --dataset --help --version "
    "1 0 -1 0.5 1e-5 5 nan inf 1e309 1e-320 true polya gaussian dirichlet laplace balanced-laplace all "
    "replace-one add-remove "
    "L S . / ../x /dev/null \x1b[2J [red] é 🙂"
)
VOCABULARY = (*WORDS.split(" "), "", " ", "x" * 300)


def command(data: bytes) -> None:
    """Arguments, one byte each; nothing is written but files named by the arguments, in an empty folder."""
    folder = _folder() / "cli"
    folder.mkdir(exist_ok=True)
    (folder / "L").write_bytes(_ledger()[0])
    (folder / "S").write_text(SCHEMA.to_yaml())
    here = Path.cwd()
    os.chdir(folder)
    try:
        arguments = [VOCABULARY[byte % len(VOCABULARY)] for byte in data[:12]]
        result = CliRunner().invoke(app, arguments)
        assert result.exception is None or isinstance(result.exception, SystemExit | SimplexDPError), result.exception
        assert result.exit_code in (0, 1, 2)
        assert SECRET not in result.output
        for made in folder.iterdir():
            assert made.name in ("L", "S") or made.name in arguments, "a file was written that nobody asked for"
            if made.name not in ("L", "S"):
                made.unlink()
        assert not (folder.parent / "x").exists() or "../x" in arguments
        (folder.parent / "x").unlink(missing_ok=True)
    finally:
        os.chdir(here)


# -- what fuzzing starts from --------------------------------------------------------------------------------------


@lru_cache
def _folder() -> Path:
    return Path(tempfile.mkdtemp(prefix="simplexdp-fuzz-"))


@lru_cache
def _rows() -> pa.Table:
    return pa.table(
        {
            "smoker": ["no", "yes", "no", "no"],
            "region": ["north", "south", "east", "east"],
            "name": [SECRET, SECRET + "a", "b" + SECRET, SECRET],
        }
    )


@lru_cache
def _published() -> Release:
    return release_distribution(_rows(), SCHEMA, ["smoker", "region"], budget=Budget(epsilon=1, delta=1e-5), entropy=1)


@lru_cache
def seeds(target: str) -> tuple[bytes, ...]:
    """Valid inputs of a target."""
    if target.startswith("schema"):
        rich = Schema.from_yaml(RICH)
        return tuple((s.to_json() if target.endswith("json") else s.to_yaml()).encode() for s in (SCHEMA, rich))
    if target == "release_file":
        return (_published().to_json().encode(),)
    if target == "release_body":
        return (json.dumps(_published().to_body()).encode(),)
    if target == "model_body":
        model = fit_naive_bayes(_rows(), SCHEMA, "smoker", budget=Budget(epsilon=1, delta=1e-5), entropy=1)
        return (json.dumps(model.to_body()).encode(),)
    if target == "ledger":
        return (_ledger()[0],)
    if target == "csv":
        lines = [",".join(_rows().column_names), *(",".join(map(str, row.values())) for row in _rows().to_pylist())]
        # The secret is a value of a column that is counted, too, where the schema does not know it.
        unknown = "smoker,region\n" + "\n".join(f"{SECRET},north" for _ in range(3))
        return ("\n".join(lines).encode() + b"\n", unknown.encode())
    if target == "parquet":
        sink = pa.BufferOutputStream()
        pq.write_table(_rows(), sink)
        other = pa.BufferOutputStream()
        pq.write_table(pa.table({"smoker": [SECRET] * 3, "region": ["north"] * 3}), other)
        return (sink.getvalue().to_pybytes(), other.getvalue().to_pybytes())
    return tuple(
        bytes(VOCABULARY.index(word) for word in line.split())
        for line in (
            "ledger show L",
            "ledger verify L --json",
            "schema check S",
            "account --mechanism gaussian --json",
            "calibrate --epsilon 1 --delta 1e-5 --mechanism polya",
            "ledger export L --out /dev/null",
        )
    )


TARGETS: dict[str, Callable[[bytes], None]] = {
    "schema_yaml": schema_yaml,
    "schema_json": schema_json,
    "release_file": release_file,
    "release_body": release_body,
    "model_body": model_body,
    "ledger": ledger,
    "csv": csv,
    "parquet": parquet,
    "command": command,
}


# -- changing them -------------------------------------------------------------------------------------------------

HOSTILE: tuple[object, ...] = (
    None, True, 0, -1, 1, 2**63, 10**400, 0.5, 1e308, 5e-324, "", "x", "nan", "\x00", "\ud800", [], {}, [[]], [None],
    "no", "laplace", "balanced-laplace", "dirichlet", "none", "add-remove", "person", "posterior-mean", "raw", 3, 7,
    [1, 2], {"a": 1},
)  # fmt: skip
PIECES = (b"", b"\x00", b"\xff", b"-", b"0", b"9" * 25, b"e308", b"nan", b"[", b"]", b"{", b"}", b'"', b"'", b":", b",",
          b"\n", b"\r", b"  ", b"&a ", b"*a", b"!!python/object:os.system ", b"<<: ", b"null", b"true",
          b"\xc3\x28", b"[" * 2000,
          b"#", b"---\n", b"\x1b[2J")  # fmt: skip


def edit(data: bytes, where: float, length: int, piece: bytes) -> bytes:
    """Replace `length` bytes at a relative place by a piece."""
    at = int(where * (len(data) + 1))
    return data[:at] + piece + data[at + length :]


def swap(data: bytes, where: float, value: object, *, remove: bool = False) -> bytes:
    """Put a hostile value in the place of one value somewhere in a JSON document, or take it away."""
    body = json.loads(data)
    places: list[tuple[Any, Any]] = []
    waiting: list[Any] = [body]
    while waiting:
        holder = waiting.pop()
        for key in list(holder) if isinstance(holder, dict) else range(len(holder)):
            places.append((holder, key))
            if isinstance(holder[key], dict | list):
                waiting.append(holder[key])
    if not places:
        return data
    holder, key = places[min(int(where * len(places)), len(places) - 1)]
    if remove:
        del holder[key]
    else:
        holder[key] = value
    return json.dumps(body).encode()
