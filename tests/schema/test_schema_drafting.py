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
        '"town": TODO  # string: values',
        '"coded": TODO  # string: values',
        '"age": TODO  # int64: {edges: [...], integer: true} or values; age-5',
        '"income": TODO  # double: {edges: [...]}, or bins with lower and upper; money',
        '"ok": [false, true]',
        '"day": TODO  # date32[day]: month, weekday, or {edges: [2020-01-01, 2021-01-01]}; ',
        '"when": TODO  # timestamp[us]: month, weekday, or {edges: [2020-01-01, 2021-01-01]}',
    ):
        assert f"\n  {line}" in text


def test_filled_in_draft_is_a_schema(parquet):
    text = draft(parquet)
    for name, said in {
        '"town"': "[a, b]",
        '"coded"': "{values: [a, b], transform: [trim, fold]}",
        '"age"': "age-10",
        '"income"': "{bins: 4, lower: 0, upper: 9}",
        '"day"': "weekday",
        '"when"': "{template: year, from: 2020, to: 2022}",
        "\\n": "[1, 2]",
    }.items():
        before, _, after = text.partition(name)
        text = before + name + after.replace("TODO", said, 1)
    schema = Schema.from_yaml(text)
    assert schema.names == tuple(TABLE.column_names)
    assert schema["income"] == Quantiles(4, lower=0, upper=9, name="income")
    assert schema["ok"].values == (False, True)
    assert schema["day"].values == (1, 2, 3, 4, 5, 6, 7)
    assert not schema.unfinished


def test_a_draft_blocks_its_unfinished_columns_only(parquet, tmp_path):
    path = tmp_path / "people.yaml"
    path.write_text(draft(parquet), encoding="utf-8")
    line = 1 + [text.startswith('  "town": TODO') for text in path.read_text().splitlines()].index(True)
    with pytest.raises(SchemaError, match=rf"got 'town'.* says TODO there \(people.yaml, line {line}\)"):
        Schema.read(path).select(["town"])
    schema = Schema.from_yaml(draft(parquet))
    assert schema.names == ("ok",)
    assert schema.unfinished[:2] == ("town", "coded")
    assert schema.select(["ok"]).shape() == (2,)
    with pytest.raises(SchemaError, match="one that is filled in, got 'town'"):
        schema.select(["ok", "town"])


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
    entries = [line for line in made.splitlines() if line.startswith("  ")]
    assert entries == ['  "town": TODO', '  "age": TODO  # age-5']
    with pytest.raises(SchemaError, match=r"columns\[0\] \('town'\)\.kind.*not filled in yet"):
        Schema.from_yaml(made)


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
    assert made.count(": TODO\n") == 5000


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
    Schema([schema["sex"].stamped("from-data"), schema["income"]]).write(tmp_path / "s.json")
    shown = run("check", tmp_path / "s.json").stdout
    assert "Read off the rows: sex. What" in shown
    assert "NOT PRIVATE" in shown
    (tmp_path / "s.yaml").write_text("columns: [{name: a, values: []}]")
    refused = run("check", tmp_path / "s.yaml")
    assert refused.exit_code == 2
    assert refused.stderr.startswith("simplexdp: `columns[0] ('a').values` must be")


def test_json_schema_command(run):
    assert json.loads(run("json-schema").stdout) == Schema.json_schema()


@pytest.mark.parametrize("form", ["parquet", "arrow", "csv", "csv.gz", "latin-1", "json", "ndjson", "quoted header"])
def test_from_public_reads_any_file_that_can_be_drafted(tmp_path, run, form):
    table = pa.table({"town": ["Köln", "Bonn", "Köln"] * 20, "age": list(range(60))})
    options = []
    path = tmp_path / f"t.{form if form not in ('latin-1', 'quoted header') else 'csv'}"
    lines = [f"{row['town']};{row['age']}" for row in table.to_pylist()]
    if form == "parquet":
        pa.parquet.write_table(table, path)
    elif form == "arrow":
        pa.feather.write_feather(table, path)
    elif form == "json":
        write(path, json.dumps(table.to_pylist()))
    elif form == "ndjson":
        write(path, "".join(json.dumps(row) + "\n" for row in table.to_pylist()))
    elif form == "latin-1":
        path.write_bytes("\n".join(["town;age", *lines, ""]).encode("latin-1"))
        options = ["--encoding", "latin-1"]
    else:
        header = '"to\nwn";age' if form == "quoted header" else "town;age"
        write(path, "\n".join([header, *lines, ""]))
    done = run("from-public", path, "--bins", 3, "--other", "cell", *options)
    assert done.exit_code == 0, done.stderr
    schema = Schema.from_yaml(done.stdout)
    assert schema.origin == "public"
    assert [column.size for column in schema] == [3, 3]
    assert schema.columns[0].values == ("Bonn", "Köln")
    assert schema["age"].edges == (0, 19, 39, 59)


@pytest.mark.parametrize("content", [b"", b"PAR1", b"a,b\n1,2,3\n"])
def test_a_public_file_that_cannot_be_read_says_so(tmp_path, run, content):
    for name in ("t.csv", "t.parquet", "none.csv", "t.xlsx"):
        if not name.startswith("none"):
            (tmp_path / name).write_bytes(content)
        done = run("from-public", tmp_path / name)
        assert done.exit_code == 2, name
        assert name in done.stderr
        assert "Traceback" not in done.stderr
