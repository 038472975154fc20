"""Drafts: header and types in, a template out, and never a value."""

import datetime
import gzip
import json
from types import SimpleNamespace

import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet
import pytest

from simplexdp import cli
from simplexdp.errors import SchemaError, SourceError
from simplexdp.schema import Quantiles, Schema, draft

SECRET = "Grimsby"
TABLE = pa.table(
    {
        "town": [SECRET],
        "coded": pa.array([SECRET]).dictionary_encode(),
        "age": [4711],
        "income": [4711.5],
        "ok": [True],
        "day": [datetime.date(1947, 11, 4)],
        "when": [datetime.datetime(1947, 11, 4)],
        'no: "x" #é\n': [1],
    }
)
SECRETS = (SECRET, "4711", "1947")


@pytest.fixture
def parquet(tmp_path):
    pa.parquet.write_table(TABLE, tmp_path / "t.parquet")
    return tmp_path / "t.parquet"


def write(path, text):
    data = text.encode()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


def test_types_of_parquet_and_arrow(parquet, tmp_path):
    pa.feather.write_feather(TABLE, tmp_path / "t.arrow")
    text = draft(parquet)
    assert draft(str(tmp_path / "t.arrow")).replace("t.arrow", "t.parquet") == text
    assert not [secret for secret in SECRETS if secret in text]
    for line in (
        'name: "town"\n    values: []  # string',
        'name: "coded"\n    values: []  # string',
        'name: "age"\n    edges: []  # int64',
        'name: "income"\n    edges: []  # double',
        'name: "ok"\n    values: [false, true]',
        'name: "day"\n    values: []  # date32[day]',
        'name: "when"\n    kind: TODO  # timestamp[us]',
    ):
        assert line in text


def test_filled_in_draft_is_a_schema(parquet):
    text = draft(parquet)
    for old, new in (
        ("values: []", "values: [a, b]"),
        ("edges: []  # int64", "edges: [0, 10]  #"),
        ("edges: []  # double", "bins: 4\n    lower: 0\n    upper: 9  #"),
        ("kind: TODO", "values: [x]"),
    ):
        text = text.replace(old, new)
    schema = Schema.from_yaml(text)
    assert schema.names == tuple(TABLE.column_names)
    assert schema["income"] == Quantiles(4, lower=0, upper=9, name="income")
    assert schema["ok"].values == (False, True)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("t.csv", f"town,age\n{SECRET},4711\n"),
        ("t.csv", f'"town";"age"\n{SECRET};4711\n'),
        ("t.csv", "town,age"),
        ("t.csv", f"\ufefftown,age\r\n{SECRET},4711\r\n"),
        ("t.csv.gz", f"town,age\n{SECRET},4711\n"),
        ("t.tsv", f"town\tage\n{SECRET}\t4711\n"),
        ("t.json", json.dumps([{"town": SECRET, "age": 4711}] * 2)),
        ("t.ndjson", f'{{"town": "{SECRET}", "age": 4711}}\n' * 2),
        ("t.jsonl.gz", f'{{"town": "{SECRET}", "age": 4711}}\n' * 2),
    ],
)
def test_text_files_give_names_only(tmp_path, name, text):
    made = draft(write(tmp_path / name, text))
    assert not [secret for secret in SECRETS if secret in made]
    assert [line for line in made.splitlines() if "name:" in line] == ['  - name: "town"', '  - name: "age"']
    with pytest.raises(SchemaError, match=r"columns\[0\] \('town'\)\.kind.*not filled in yet"):
        Schema.from_yaml(made)


def test_unfilled_draft_names_the_column(parquet):
    with pytest.raises(SchemaError, match=r"columns\[0\] \('town'\)\.values"):
        Schema.from_yaml(draft(parquet))


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("t.csv", b""),
        ("t.csv", b"\xff\xfe"),
        ("t.csv.gz", b"plain"),
        ("t.csv.gz", gzip.compress(b"a,b\n" * 1000, mtime=0)[:20]),
        ("t.json", SECRET.encode()),
        ("t.json", b'[{"Grimsby": '),
        ("t.json", b"[" * 100_000),
        ("t.parquet", SECRET.encode()),
        ("t.arrow", SECRET.encode()),
        ("t.xlsx", b""),
        ("t", b""),
    ],
)
def test_bad_files(tmp_path, name, content):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(SourceError) as caught:
        draft(tmp_path / name)
    assert name in str(caught.value)
    assert SECRET not in str(caught.value).replace(str(tmp_path), "")


def test_no_file(tmp_path):
    with pytest.raises(SourceError, match=r"none\.csv cannot be read"):
        draft(tmp_path / "none.csv")


def test_very_wide_header(tmp_path):
    names = [f"column {i}" for i in range(5000)]
    made = draft(write(tmp_path / "t.csv", ",".join(names) + "\n" + "x" * 100))
    assert made.count("kind: TODO") == 5000


@pytest.fixture
def run(capsys):
    def call(*arguments):
        code = cli.run(["schema", *map(str, arguments)])
        return SimpleNamespace(exit_code=code, **dict(zip(("stdout", "stderr"), capsys.readouterr(), strict=True)))

    return call


def test_draft_command(parquet, tmp_path, run):
    assert run("draft", parquet).stdout == draft(parquet)
    out = tmp_path / "s.yaml"
    assert run("draft", parquet, "--out", out).exit_code == 0
    assert out.read_text(encoding="utf-8") == draft(parquet)
    again = run("draft", parquet, "--out", out)  # what was filled in is never overwritten
    assert again.exit_code == 2
    assert "exists" in again.stderr
    assert run("draft", tmp_path / "none.csv").exit_code == 2


def test_check_command(tmp_path, run):
    schema = Schema.of(sex=["f", "[bold]m"], income=Quantiles(10, lower=0, upper=1))
    schema.write(tmp_path / "s.yaml")
    shown = run("check", tmp_path / "s.yaml")
    assert shown.exit_code == 0
    assert "[bold]m" in shown.stdout
    assert "2 columns, 12 cells, origin: declared" in shown.stdout
    assert "part of the budget: income" in shown.stdout
    assert "NOT PRIVATE" not in shown.stdout
    Schema(schema.columns, origin="from-data").write(tmp_path / "s.json")
    assert "NOT PRIVATE" in run("check", tmp_path / "s.json").stdout
    (tmp_path / "s.yaml").write_text("columns: [{name: a, values: []}]")
    refused = run("check", tmp_path / "s.yaml")
    assert refused.exit_code == 2
    assert refused.stderr.startswith("simplexdp: `columns[0] ('a').values` must be")


def test_json_schema_command(run):
    assert json.loads(run("json-schema").stdout) == Schema.json_schema()
