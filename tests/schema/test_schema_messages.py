"""Wrong input: what is said of a schema file and of columns that are not there, with file, line and a guess."""

from __future__ import annotations

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from simplexdp import Budget, release_distribution
from simplexdp.errors import InvalidArgument, SchemaError, SourceError
from simplexdp.schema import Quantiles, Schema

GOOD = """\
version: 1
columns:
  - name: sex
    values: [f, m]
  - name: age
    edges:
      - 0
      - 18
      - 65
"""


@pytest.mark.parametrize(
    ("old", "new", "line", "words"),
    [
        ("- 18", "- 180", 9, "above the edge before it"),
        ("values: [f, m]", "valeus: [f, m]", 3, "Did you mean 'values'?"),
        ("values: [f, m]", "values: [f, 1]", 4, "values of one type"),
        ("values: [f, m]", "values: [f, m]\n    missing: drop", 5, "cell"),
        ("values: [f, m]", "template: sexx", 4, "Did you mean 'sex'?"),
        ("values: [f, m]", "values: [f, m]\n    transform: [trim, foldd]", 5, "a known step"),
        ("edges:", "edge:", 5, "Did you mean 'edges'?"),
        ("name: age", "name: sex", 5, "different from that of columns[0]"),
        ("version: 1", "version: 2", 1, "version"),
        ("version: 1", "never: [{sex: mm}]", 1, "declared value"),
        ("version: 1", "file: {delimiter: ';;'}", 1, "one ASCII character"),
        ("version: 1", "colour: red", 1, "no such field"),
    ],
)
def test_an_error_in_a_file_has_its_line(tmp_path, old, new, line, words):
    text = GOOD.replace(old, new)
    assert text != GOOD
    path = tmp_path / "people.yaml"
    path.write_text(text)
    with pytest.raises(SchemaError) as caught:
        Schema.read(path)
    assert words in str(caught.value)
    assert f"people.yaml, line {line})" in str(caught.value), str(caught.value)


def test_short_files_and_json_have_lines_too(tmp_path):
    (tmp_path / "s.yaml").write_text("sex: [f, m]\nage: {edges: [0, 0]}\n")
    with pytest.raises(SchemaError, match=r"columns\[1\] \('age'\)\.edges\[1\].*\(s.yaml, line 2\)"):
        Schema.read(tmp_path / "s.yaml")
    (tmp_path / "s.yaml").write_text("colums:\n  - {name: a, values: [x]}\n")
    with pytest.raises(SchemaError, match="Did you mean 'columns'"):
        Schema.read(tmp_path / "s.yaml")
    (tmp_path / "s.json").write_text('{\n "columns": [\n  {"name": "a",\n   "edges": [1]}]}')
    with pytest.raises(SchemaError, match=r"\(s.json, line 4\)"):
        Schema.read(tmp_path / "s.json")
    (tmp_path / "s.yaml").write_text("a: [1\nb: 2\n")
    with pytest.raises(SchemaError, match="line 2"):
        Schema.read(tmp_path / "s.yaml")


@pytest.mark.parametrize("make", [pa.table, pd.DataFrame, pl.DataFrame, "csv"])
def test_a_misspelt_column_gets_a_guess(tmp_path, make):
    rows = {"region": ["n", "s"], "age": [1, 2]}
    if make == "csv":
        pd.DataFrame(rows).to_csv(tmp_path / "rows.csv", index=False)
        source = tmp_path / "rows.csv"
    else:
        source = make(rows)
    misspelt = {"regoin": ["n", "s"], "age": [1, 2]}
    with pytest.raises(SourceError, match="Did you mean 'region'"):
        release_distribution(source, misspelt, ["regoin", "age"], budget=Budget(epsilon=1, delta=1e-6))
    with pytest.raises(InvalidArgument, match="Did you mean 'region'"):
        release_distribution(source, {"region": ["n", "s"]}, ["regiom"], budget=Budget(epsilon=1, delta=1e-6))


def test_quantiles_share_what_is_there():
    """Ten of them failed before: a tenth each left nothing for the tables."""
    for many, share in ((1, 0.1), (5, 0.1), (10, 0.05), (40, 0.0125)):
        schema = Schema([Quantiles(4, lower=0, upper=1, name=f"x{i}") for i in range(many)])
        assert schema.shares() == pytest.approx({f"x{i}": share for i in range(many)})
    mixed = Schema([Quantiles(4, lower=0, upper=1, share=0.6, name="a"), *schema])
    assert sum(mixed.shares().values()) == pytest.approx(0.6 + 0.2)
    with pytest.raises(SchemaError, match="less than 1"):
        Schema([Quantiles(4, lower=0, upper=1, share=0.5, name=name) for name in "ab"])
    rows = pa.table({f"x{i}": [j / 600 for j in range(600)] for i in range(10)})
    ten = Schema([Quantiles(3, lower=0, upper=1, name=f"x{i}") for i in range(10)])
    found = release_distribution(rows, ten, ["x0", "x1"], budget=Budget(epsilon=2, delta=1e-6))
    assert found.values.shape == (3, 3)
