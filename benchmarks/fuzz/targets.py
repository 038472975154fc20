"""Fuzz targets: each takes bytes that pretend to be a file, and fails on anything but an error of this library.

Used by the tests with hypothesis and by `python -m benchmarks fuzz` with atheris.
"""

from __future__ import annotations

import gzip
import json
import os
import random
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from simplexdp import BalancedLaplace, Budget, Gaussian, Laplace, Release, Schema, count, release_distribution
from simplexdp.cli import run
from simplexdp.ledger import Ledger, fingerprint
from simplexdp.ledger.chain import START, Entry, State
from simplexdp.models.bayesian_network import BayesianNetworkModel
from simplexdp.models.bayesian_network.graph import Graph
from simplexdp.models.document import write_document
from simplexdp.models.naive_bayes import NaiveBayesModel
from simplexdp.naive_bayes import fit_naive_bayes
from simplexdp.network import BayesianNetwork

from .changes import HOSTILE
from .statements import statement, try_statement
from .watch import COUNT, SECRET, folder, quiet

RICH = """
origin: declared
columns:
  - {name: sex, values: [f, m]}
  - {name: region, values: [1, 2, 3], other: cell, missing: cell, origin: public}
  - {name: age, edges: [0, 18, 40, 65, 120], own: [-1], outside: nearest}
  - {name: income, bins: 10, lower: 0, upper: 200000, share: 0.1}
  - {name: admitted, values: [2024-01-30, 2024-01-31]}
"""
SCHEMA = Schema.of(smoker=["no", "yes"], region=["north", "south", "east"])


# -- schema files --------------------------------------------------------------------------------------------------


def schema_yaml(data: bytes) -> None:
    """A schema in YAML; what is accepted survives a round trip."""
    quiet(lambda: _same_schema(Schema.from_yaml(data.decode(errors="replace"))))


def schema_json(data: bytes) -> None:
    """A schema in JSON; what is accepted survives a round trip."""
    quiet(lambda: _same_schema(Schema.from_json(data.decode(errors="replace"))))


def _same_schema(schema: Schema) -> None:
    assert Schema.from_json(schema.to_json()) == schema
    assert Schema.from_yaml(schema.to_yaml()) == schema


# -- releases and models -------------------------------------------------------------------------------------------


def release_file(data: bytes) -> None:
    """A release whose bytes were changed: refused, or what it was."""
    quiet(lambda: _use(Release.from_json(data.decode(errors="replace"))))


def release_body(data: bytes) -> None:
    """A release whose body was changed and whose checksum fits: refused, or usable."""
    body = _object(data)
    if body is not None:
        quiet(lambda: _use(Release.from_json(write_document("release", body))))


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

    quiet(run)


def network_body(data: bytes) -> None:
    """A Bayesian network whose body was changed and whose checksum fits: refused, or usable."""
    body = _object(data)
    if body is None:
        return

    def run() -> None:
        network = BayesianNetworkModel.from_json(write_document("bayesian-network", body))
        network.certificate()
        codes = np.zeros((1, len(network.columns)), dtype=np.int64)
        assert np.isfinite(network.log_likelihoods(codes)).all()

    quiet(run)


def bif(data: bytes) -> None:
    """A graph in the format of Bayesian network programs."""
    path = folder() / "fuzzed.bif"
    path.write_bytes(data)
    quiet(lambda: Graph.of(path))


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
    path = folder() / "fuzzed.db"
    path.write_bytes(data)
    beside = [Path(f"{path}{ending}") for ending in ("-journal", "-wal", "-shm")]
    for leftover in beside:
        leftover.unlink(missing_ok=True)

    def run() -> None:
        found = Ledger.open(path, timeout=0.1)
        assert [entry.hash for entry in found.entries()] == entries, "a changed ledger was accepted"

    quiet(run)


def ledger_chain(data: bytes) -> None:
    """Entries whose bodies were changed and whose hashes fit: refused, or within the budget they state."""
    found = _object(data)
    bodies = found.get("entries") if found else None
    if not isinstance(bodies, list):
        return

    def run() -> None:
        state, previous = State(), START
        for number, body in enumerate(bodies):
            if not isinstance(body, dict):
                return
            kind = "open" if "filter_order" in body else "charge" if "dataset" in body else "seal"
            entry = Entry.after(number, previous, kind, body)  # type: ignore[arg-type]
            state.take(number, kind, entry.text, previous, entry.hash)
            previous = entry.hash
        assert all(state.left(dataset) >= 0 and state.slack_left(dataset) >= 0 for dataset in state.spent)

    quiet(run)


@lru_cache
def _ledger() -> tuple[bytes, list[str]]:
    path = folder() / "intact.db"
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


def packed(data: bytes) -> None:
    """A compressed CSV file whose bytes were changed."""
    _count("fuzzed.csv.gz", data)


def rows_json(data: bytes) -> None:
    """A JSON file of rows."""
    _count("fuzzed.json", data)


def parquet(data: bytes) -> None:
    """A Parquet file of rows."""
    _count("fuzzed.parquet", data)


def _count(name: str, data: bytes) -> None:
    path = folder() / name
    path.write_bytes(data)
    quiet(lambda: count(str(path), SCHEMA, [("smoker", "region")]))


def counts(data: bytes) -> None:
    """A table of counts that is none: other values, other shapes, beside a count that no message may tell."""
    values: list[object] = [COUNT, *(HOSTILE[byte % len(HOSTILE)] for byte in data[1:6])]
    kinds = (Gaussian(sigma=3.0), Laplace(scale=2.0), BalancedLaplace(scale=2.0, cells=6))
    mechanism = kinds[data[0] % 3] if data else kinds[0]
    nested = [values, values[:2]] if data[:1] > b"\xc0" else values
    quiet(lambda: mechanism.release(nested, entropy=1))  # type: ignore[arg-type]


def rows(data: bytes) -> None:
    """A random table through one of all sources, counted as a second implementation counts it."""
    from . import rows as tables

    here = folder() / "rows"
    here.mkdir(exist_ok=True)
    tables.one(data, here)


# -- statements ----------------------------------------------------------------------------------------------------


def sql(data: bytes) -> None:
    """A statement, and another from the grammar with the bytes as its seed: refused, or one record changes one row."""
    texts = [data.decode(errors="replace"), statement(random.Random(data))]

    def run() -> None:
        for text in texts:
            found = try_statement(text)[1]
            assert found is None, found

    quiet(run)


# -- the command line ----------------------------------------------------------------------------------------------

WORDS = (
    "account calibrate ledger schema show verify export create check draft json-schema --epsilon --delta --order "
    "--mechanism --tables --neighbours --r --alpha --json --total --cells --anchor --out --dataset --help --version "
    "1 0 -1 0.5 1e-5 5 nan inf 1e309 1e-320 true polya gaussian dirichlet laplace balanced-laplace all "
    "replace-one add-remove "
    "L S.yaml . /nowhere/x ../x /dev/null \x1b[2J [red] é 🙂 fit distribution nb bn plan inspect predict sample "
    "--schema --columns --target --graph --ledger --person --rows-per-person --sql --format --delimiter --seed "
    "--force --estimate --size smoker region name smoker,region smoker->region O R.parquet R.csv P d raw ; '; --"
)
VOCABULARY = (*WORDS.split(" "), "", " ", "x" * 300, f"SELECT * FROM '{SECRET}'")
_GIVEN = ("L", "S.yaml", "R.parquet", "R.csv", "P")


def command(data: bytes) -> None:
    """Arguments, one byte each; nothing is written but files named by the arguments, nothing private told."""
    here = folder() / "cli"
    _prepare(here)
    arguments = [VOCABULARY[byte % len(VOCABULARY)] for byte in data[:24]]
    private = not any(SECRET in word for word in arguments)
    before = Path.cwd()
    os.chdir(here)
    try:
        asked = [here / word for word in arguments if word]
        ledgers = [Path(f"{path}-journal") for path in asked]
        if private:
            quiet(lambda: _run(arguments), *asked, *ledgers)
        for made in here.iterdir():
            if made.name in _GIVEN:
                continue
            assert made.name in arguments, "a file was written that nobody asked for"
            assert SECRET.encode() not in made.read_bytes(), "a file shows a private value"
            made.unlink()
        (here.parent / "x").unlink(missing_ok=True)
    finally:
        os.chdir(before)


def _run(arguments: list[str]) -> None:
    with patch.dict(os.environ, {"SIMPLEXDP_DEBUG": "1"}):  # an unexpected error is raised, not told
        assert run(arguments) in (0, 1, 2)


def _prepare(here: Path) -> None:
    """The files that arguments can name, as they were: a ledger, a schema, rows and a release."""
    here.mkdir(exist_ok=True)
    for name, content in _files().items():
        path = here / name
        if not path.exists() or path.stat().st_size != len(content) or name == "L":
            path.write_bytes(content)


@lru_cache
def _files() -> dict[str, bytes]:
    return {
        "L": _ledger()[0],
        "S.yaml": SCHEMA.to_yaml().encode(),
        "R.parquet": seeds("parquet")[0],
        "R.csv": seeds("csv")[0],
        "P": _published().to_json().encode(),
    }


# -- what fuzzing starts from --------------------------------------------------------------------------------------


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


def _large_model() -> NaiveBayesModel:
    """One with everything: second looks and noisy sums."""
    schema = Schema.of(c=["x", "y"], **{f"a{i}": ["x", "y"] for i in range(4)})
    codes = np.random.default_rng(1).integers(0, 2, (2000, 5))
    rows = pa.table({name: np.array(["x", "y"])[codes[:, i]] for i, name in enumerate(schema.names)})
    model = fit_naive_bayes(rows, schema, "c", budget=Budget(epsilon=5, delta=1e-5), entropy=1)
    assert {"noisy-sum", "gaussian-tables"} <= {mechanism.name for mechanism in model.guarantee.mechanisms}
    return model


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
        small = fit_naive_bayes(_rows(), SCHEMA, "smoker", budget=Budget(epsilon=1, delta=1e-5), entropy=1)
        return tuple(json.dumps(model.to_body()).encode() for model in (small, _large_model()))
    if target == "network_body":
        network = BayesianNetwork([("smoker", "region")], SCHEMA, entropy=1).fit(_rows())
        return (json.dumps(network.model.to_body()).encode(),)
    if target == "bif":
        network = BayesianNetwork([("smoker", "region")], SCHEMA, entropy=1).fit(_rows())
        return (network.to_bif().encode(),)
    if target == "ledger":
        return (_ledger()[0],)
    if target == "ledger_chain":
        bodies = [entry.body for entry in Ledger.open(folder() / "intact.db").entries()] if _ledger() else []
        return (json.dumps({"entries": bodies}).encode(),)
    if target == "packed":
        return tuple(gzip.compress(plain, mtime=0) for plain in seeds("csv"))
    if target == "rows_json":
        rows = [{key: value for key, value in row.items() if key != "name"} for row in _rows().to_pylist()]
        return (json.dumps(_rows().to_pylist()).encode(), "\n".join(map(json.dumps, rows)).encode())
    if target == "rows":
        return (b"0", b"1")
    if target == "sql":
        return tuple(statement(random.Random(seed)).encode() for seed in range(40))
    if target == "counts":
        return (bytes(6), bytes([1, 2, 2, 2, 2, 2]), bytes([255, 7, 8, 9]))
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
    budget = "--epsilon 1 --delta 1e-5"
    return tuple(
        bytes(VOCABULARY.index(word) for word in line.split())
        for line in (
            "ledger show L",
            "ledger verify L --json",
            "schema check S.yaml",
            "schema draft R.csv",
            "account --mechanism gaussian --json",
            "calibrate --epsilon 1 --delta 1e-5 --mechanism polya",
            "ledger export L --out /dev/null",
            "inspect P --json",
            "sample P --size 5 --out R.csv --force",
            f"plan --schema S.yaml --columns smoker,region {budget} --mechanism gaussian",
            f"fit distribution R.parquet --schema S.yaml --columns smoker,region --out O {budget} --mechanism gaussian",
            "fit distribution R.csv --schema S.yaml --columns smoker --out O --epsilon 0.5 --order 5",
            f"fit nb R.parquet --schema S.yaml --target smoker --out O {budget} --estimate raw",
            f"fit bn R.parquet --schema S.yaml --graph smoker->region --out O {budget} --estimate raw",
            f"fit distribution R.parquet --schema S.yaml --columns name --out O {budget} --ledger L --dataset d",
            f"fit distribution --sql '; --schema S.yaml --columns name --out O {budget}",
        )
    )


TARGETS: dict[str, Callable[[bytes], None]] = {
    "schema_yaml": schema_yaml,
    "schema_json": schema_json,
    "release_file": release_file,
    "release_body": release_body,
    "model_body": model_body,
    "network_body": network_body,
    "bif": bif,
    "ledger": ledger,
    "ledger_chain": ledger_chain,
    "csv": csv,
    "packed": packed,
    "rows_json": rows_json,
    "parquet": parquet,
    "counts": counts,
    "rows": rows,
    "sql": sql,
    "command": command,
}
