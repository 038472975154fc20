"""Schemas as text: exact round trips, types included, and limits on what is read."""

import datetime
import json
import struct

import jsonschema
import pytest
from hypothesis import given, settings
from schema_strategies import schemas

from simplexdp.errors import SchemaError
from simplexdp.schema import Categories, Numeric, Schema
from simplexdp.schema import text as text_module


def bits(schema):
    """Everything in a schema with types and bits, so that 1, True and 1.0 or 0.0 and -0.0 differ."""

    def spell(value):
        if isinstance(value, dict):
            return {key: spell(item) for key, item in value.items()}
        if isinstance(value, (tuple, list)):
            return [spell(item) for item in value]
        return type(value).__name__, struct.pack(">d", value) if type(value) is float else value

    return spell(schema.model_dump())


@given(schemas())
def test_yaml_round_trip_is_exact(schema):
    again = Schema.from_yaml(schema.to_yaml())
    assert bits(again) == bits(schema)
    assert again == schema


@given(schemas())
def test_json_round_trip_is_exact(schema):
    again = Schema.from_json(schema.to_json())
    assert bits(again) == bits(schema)
    assert again == schema


@pytest.mark.slow
@settings(max_examples=50)
@given(schemas())
def test_published_json_schema_accepts_what_is_written(schema):
    jsonschema.validate(json.loads(schema.to_json()), Schema.json_schema())


@pytest.mark.parametrize("suffix", [".yaml", ".yml", ".json", ".YAML"])
def test_files(tmp_path, suffix):
    schema = Schema.of(a=["é", "no"], d=[datetime.date(2024, 2, 29)])
    path = tmp_path / f"s{suffix}"
    schema.write(path)
    assert Schema.read(path) == schema
    assert Schema.read(str(path)) == schema
    assert "é" in path.read_text(encoding="utf-8")
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())  # as some editors on Windows save it
    assert Schema.read(path) == schema


def test_short_yaml():
    schema = Schema.from_yaml("""
columns:
  - {name: sex, values: [f, m], missing: cell}
  - name: age
    edges: [0, 18, 65, 120]
    outside: nearest
  - {name: income, quantiles: 10, lower: 0, upper: 1.0e+5}
  - {name: rent, bins: 4, lower: 0, upper: 5000, share: 0.2}
  - {name: visits, own: [0, 1, 2], outside: cell}
  - {name: smoker, values: [yes, no]}
  - {name: answer, values: ["yes", "no"]}
  - {name: day, values: [2024-01-31]}
""")
    assert [column.kind[0] for column in schema] == ["c", "n", "q", "q", "n", "c", "c", "c"]
    assert schema.shape() == (3, 3, 10, 4, 4, 2, 2, 1)
    assert [type(value) for value in schema["age"].edges] == [float] * 4
    assert schema["smoker"].values == (True, False)  # YAML 1.1: unquoted yes and no are booleans
    assert schema["answer"].values == ("yes", "no")
    assert schema["day"].values == (datetime.date(2024, 1, 31),)
    assert schema.shares() == {"income": 0.1, "rent": 0.2}
    assert schema.origin == "declared"


def test_strings_are_quoted_for_every_reader():
    text = Schema([Categories(["1e3", "no"], name="off")]).to_yaml()
    assert 'name: "off"' in text
    assert 'values: ["1e3", "no"]' in text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("columns: [&a {name: x, values: [1]}]", "anchors and aliases (line 1)"),
        ("a: &a [1]\nb: *a", "anchors and aliases"),
        ("[" * 50 + "]" * 50, "nested at most"),
        ("columns: [{name: a, values: [1], values: [2]}]", "`values` must be given once"),
        ("columns: [", "YAML (line 2"),
        ("columns: [{name: a, values: [2024-02-30]}]", "YAML: day"),
        ("columns: !!python/object:os.system []", "YAML (line 1"),
        ("columns: []\n---\ncolumns: []", "another document"),
        ("", "a mapping with the key columns"),
        ("- 1", "a mapping with the key columns"),
        ("1: 2", "a mapping with the key columns"),
        ("columns: [{1: 2}]", "`columns[0]` must be a column"),
        ("columns: [{? [1, 2] : 3}]", "YAML"),
        ("columns: [{name: a, values: [!!binary aGk=]}]", "`columns[0] ('a').values[0]` must be a string"),
        ("columns: [{name: a, values: [2024-01-31T10:00:00]}]", "not datetime"),
        ("columns: [{name: a, values: [yes, no, maybe]}]", "quote what is meant as text"),
        ("columns: [{name: a, edges: [0, 1e3]}]", "`columns[0] ('a').edges[1]` must be a number, not str"),
        ("columns: [{name: a, edges: [0, .inf]}]", "`columns[0] ('a').edges[1]` must be a finite number"),
        ("columns: [{name: a, edges: [0, true]}]", "`columns[0] ('a').edges[1]` must be a number, not bool"),
        (
            "columns: [{name: no, values: [1]}]",
            "`columns[0].name` must be a string, not bool. Quote the name.",
        ),
        ("columns: [{name: a, kind: TODO}]", "`columns[0] ('a').kind` must be one of"),
        ("columns: [{name: a, values: [1]}]\nversion: 2", "`version` must be 1"),
        ("columns: [{name: a, values: [" + "9" * 5000 + "]}]", "YAML"),
        ("columns: [{name: a, values: [\x00]}]", "YAML"),
    ],
)
def test_bad_yaml(text, message):
    with pytest.raises(SchemaError) as caught:
        Schema.from_yaml(text)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "JSON (line 1, column 2)"),
        ("[1]", "a mapping with the key columns"),
        ('{"date": "2024-01-31"}', "a mapping with the key columns"),
        ('{"columns": [], "columns": []}', "`columns` must be given once"),
        ('{"columns": [{"name": "a", "values": [{"date": "2024-02-30"}]}]}', "a day that exists"),
        ('{"columns": [{"name": "a", "values": [{"date": "20240131"}]}]}', "YYYY-MM-DD"),
        ('{"columns": [{"name": "a", "values": [{"date": 20240131}]}]}', "YYYY-MM-DD"),
        ('{"columns": [{"name": "a", "edges": [0, Infinity]}]}', "JSON without Infinity"),
        ('{"columns": [{"name": "a", "values": [1.0]}]}', "not float"),
        ('{"columns": [{"name": "a", "values": [1, null]}]}', "missing: cell"),
        ("[" * 100_000, "JSON"),
        ('{"columns": [{"name": "a", "values": [' + "9" * 5000 + "]}]}", "JSON"),
        ('{"columns": [{"name": "\\ud800", "values": [1]}]}', "lone surrogates"),
    ],
)
def test_bad_json(text, message):
    with pytest.raises(SchemaError) as caught:
        Schema.from_json(text)
    assert message in str(caught.value)


def test_limits_of_length(tmp_path, monkeypatch):
    schema = Schema.of(a=["x" * 100])
    schema.write(tmp_path / "s.yaml")
    monkeypatch.setattr(text_module, "MAX_BYTES", 90)
    calls = [
        schema.to_yaml,
        schema.to_json,
        lambda: Schema.read(tmp_path / "s.yaml"),
        lambda: Schema.from_yaml("é" * 50),
        lambda: Schema.from_json(" " * 91),
    ]
    for call in calls:
        with pytest.raises(SchemaError, match="MiB long"):
            call()


def test_bad_files(tmp_path):
    with pytest.raises(SchemaError, match=r"\.yaml, \.yml or \.json"):
        Schema.read(tmp_path / "s.txt")
    with pytest.raises(SchemaError, match="can be read"):
        Schema.read(tmp_path / "none.yaml")
    (tmp_path / "s.json").write_bytes(b"\xff\xfe")
    with pytest.raises(SchemaError, match="UTF-8"):
        Schema.read(tmp_path / "s.json")
    with pytest.raises(SchemaError, match="not bytes"):
        Schema.from_yaml(b"columns: []")


@pytest.mark.slow
def test_five_thousand_columns():
    columns = [Categories([f"v{j}" for j in range(10)], name=f"c{i}") for i in range(2500)]
    columns += [Numeric(range(11), name=f"n{i}", outside="cell") for i in range(2500)]
    schema = Schema(columns)
    assert Schema.from_yaml(schema.to_yaml()) == schema
    assert Schema.from_json(schema.to_json()) == schema
    assert schema.shape()[-1] == 11
    assert len(schema.select(schema.names[::2])) == 2500
