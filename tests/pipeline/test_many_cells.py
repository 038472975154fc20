"""Tables of far more cells than records are asked about before anything is charged; large ones have compact files."""

from __future__ import annotations

import base64
import json
import zlib

import numpy as np
import pyarrow as pa
import pytest

from simplexdp import BayesianNetwork, Budget, Schema, TablesModel, release_distribution, release_tables
from simplexdp.errors import FormatError, InvalidArgument
from simplexdp.ledger import Ledger
from simplexdp.models import Release, read
from simplexdp.models.document import PACKED_FROM, packed, unpacked, write_document

SCHEMA = Schema.of(**{name: list(range(60)) for name in "abc"})
ROWS = pa.table({name: np.arange(400) % 60 for name in "abc"})
BUDGET = Budget(epsilon=1.0, delta=1e-6)


def test_many_cells_are_asked_about_and_nothing_is_charged(tmp_path):
    ledger = Ledger.open(tmp_path / "ledger.db", budget=BUDGET)
    ledger.register("rows", ROWS, SCHEMA)
    before = len(ledger.entries())
    with pytest.raises(InvalidArgument, match=r"\(a, b, c\) has 216,000 for 400 records") as caught:
        release_distribution(ROWS, SCHEMA, ["a", "b", "c"], budget=BUDGET, ledger=ledger, dataset="rows")
    for word in ("a cell holds 0.0019", "GiB of memory", "MiB", "--yes", "Nothing was charged"):
        assert word in str(caught.value)
    assert len(ledger.entries()) == before
    graph = {"c": ["a", "b"]}
    with pytest.raises(InvalidArgument, match="216,000"):
        BayesianNetwork(graph, SCHEMA, budget=BUDGET).fit(ROWS)
    for names in (["a", "b"], ["a"]):  # 3,600 cells are few, whatever the number of records
        release_distribution(ROWS, SCHEMA, names, budget=BUDGET, entropy=1)


def test_they_are_published_where_they_are_wanted_in_a_compact_file(tmp_path):
    found = release_distribution(ROWS, SCHEMA, ["a", "b", "c"], budget=BUDGET, entropy=1, many_cells=True)
    text = found.to_json()
    listed = json.dumps(found.values.ravel().tolist(), indent=1)
    assert len(text) < len(listed) / 3
    assert len(text) < 1.5 * found.values.size
    (tmp_path / "r.json").write_text(text)
    again = read(tmp_path / "r.json")
    assert isinstance(again, Release)
    assert again.values.dtype == found.values.dtype
    assert (again.values == found.values).all()


def test_estimated_tables_are_forecast_with_what_is_estimated_and_packed_too(tmp_path):
    """216,000 estimated cells: 10.1 bytes each and 1 of the draw in the file, which the forecast says to a tenth."""
    with pytest.raises(InvalidArgument, match=r"0\.043 GiB of memory and a file of about 2 MiB"):
        release_tables(ROWS, SCHEMA, [("a", "b", "c")], budget=BUDGET)
    found = release_tables(ROWS, SCHEMA, [("a", "b", "c")], budget=BUDGET, entropy=1, many_cells=True)
    text = found.to_json()
    assert 9 * 216_000 < len(text) < 12 * 216_000
    assert len(json.dumps(found.tables["a", "b", "c"].ravel().tolist())) > 1.5 * len(text)
    (tmp_path / "t.json").write_text(text)
    again = read(tmp_path / "t.json")
    assert isinstance(again, TablesModel)
    assert again.tables["a", "b", "c"].tobytes() == found.tables["a", "b", "c"].tobytes()


@pytest.mark.parametrize("mechanism", ["dirichlet", "polya"])
def test_packed_numbers_come_back_exactly(mechanism):
    schema = Schema.of(a=list(range(400)), b=list(range(300)))
    rows = pa.table({"a": np.arange(3000) % 400, "b": np.arange(3000) % 300})
    how = {"budget": Budget(epsilon=5.0, delta=1e-6), "mechanism": mechanism, "entropy": 1}
    found = release_distribution(rows, schema, ["a", "b"], **how)
    again = Release.from_body(json.loads(json.dumps(found.to_body())))
    assert again.values.tobytes() == found.values.tobytes()


@pytest.mark.parametrize("low, high", [(0, 1), (-128, 127), (-129, 0), (0, 2**15), (-(2**40), 2**40)])  # noqa: PT006
def test_the_smallest_type_that_holds_all(low, high):
    values = np.resize(np.array([low, high, 0]), PACKED_FROM)
    assert (unpacked(json.loads(json.dumps(packed(values))), PACKED_FROM) == values).all()
    assert packed(values[:10]) == values[:10].tolist()


def body():
    found = release_distribution(ROWS, SCHEMA, ["a", "b", "c"], budget=BUDGET, entropy=1, many_cells=True)
    return found.to_body()


@pytest.mark.parametrize(
    "values",
    [
        {"dtype": "int8", "zlib": "!"},
        {"dtype": "int8", "zlib": base64.b64encode(zlib.compress(b"\0" * 10)).decode()},
        {"dtype": "int8", "zlib": base64.b64encode(zlib.compress(b"\0" * 10**7)).decode()},  # more than it says
        {"dtype": "int8", "zlib": base64.b64encode(b"junk").decode()},
        {"dtype": "object", "zlib": ""},
        {"dtype": "float64", "zlib": base64.b64encode(zlib.compress(np.full(216_000, 0.5).tobytes())).decode()},
        {"dtype": "int8"},
        {"dtype": "int8", "zlib": 3},
    ],
    ids=str,
)
def test_damaged_packed_values_are_refused(values, tmp_path):
    (tmp_path / "r.json").write_text(write_document("release", BODY | {"values": values}))
    with pytest.raises(FormatError):
        read(tmp_path / "r.json")


BODY = body()


def test_a_plan_without_a_known_number_of_records_asks_from_a_million_cells_on():
    how = {"budget": BUDGET, "neighbours": "add-remove", "entropy": 1}
    release_distribution(ROWS, SCHEMA, ["a", "b", "c"], **how)
    wide = Schema.of(a=list(range(1200)), b=list(range(1000)))
    rows = pa.table({"a": [1], "b": [1]})
    with pytest.raises(InvalidArgument, match="an unknown number of records"):
        release_distribution(rows, wide, ["a", "b"], **how)


def test_the_command_asks_too(tmp_path, capsys):
    import pyarrow.parquet

    from simplexdp import cli

    pyarrow.parquet.write_table(ROWS, tmp_path / "rows.parquet")
    SCHEMA.write(tmp_path / "schema.yaml")
    wanted = ["fit", "distribution", tmp_path / "rows.parquet", "--schema", tmp_path / "schema.yaml"]
    wanted += ["--columns", "a,b,c", "--epsilon", 1, "--delta", 1e-6, "--out", tmp_path / "r.json"]
    assert cli.run(list(map(str, wanted))) == 2
    assert "--yes" in capsys.readouterr().err
    assert not (tmp_path / "r.json").exists()
    assert cli.run(list(map(str, [*wanted, "--yes"]))) == 0
    assert (tmp_path / "r.json").exists()
