"""How text files are written: said in an option or the schema, or read off the header, and never off a record."""

from __future__ import annotations

from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simplexdp.counting import Files, count
from simplexdp.errors import SchemaError, SourceError
from simplexdp.private.counting import text
from simplexdp.schema import Schema, draft
from simplexdp.schema.text import TextFile

SCHEMA = {"town": {"values": ["Köln", "Bonn"], "other": "cell"}, "n": [1, 2]}
EXPECTED = [[1, 1], [0, 1], [1, 0]]


def written(path, delimiter=",", encoding="utf-8", quote='"', header=None):
    lines = [header or f"town{delimiter}n", *(f"{quote}{town}{quote}{delimiter}{n}" for town, n in ROWS)]
    path.write_bytes(("\n".join(lines) + "\n").encode(encoding))
    return path


ROWS = [("Köln", 1), ("Köln", 2), ("Bonn", 2), ("x,y;z", 1)]


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "latin-1", "cp1252", "iso8859-15"])
def test_header_and_said_encoding(tmp_path, delimiter, encoding):
    path = written(tmp_path / "rows.csv", delimiter, encoding)
    plain = encoding.startswith("utf-8")
    layout = None if plain else encoding
    for source in (Files(path, encoding=layout), Files(path, delimiter=delimiter, encoding=layout)):
        assert count(source, SCHEMA, [("town", "n")])[0].private_counts().tolist() == EXPECTED
    in_schema = {"columns": SCHEMA, "file": {"encoding": layout or "utf-8"}}
    assert count(path, in_schema, [("town", "n")])[0].private_counts().tolist() == EXPECTED
    assert count([path], in_schema, [("town", "n")])[0].private_counts().tolist() == EXPECTED
    assert '"town": TODO' in draft(path, TextFile(encoding=layout))


def test_a_field_that_is_no_utf8_text_is_that_fields_affair(tmp_path):
    path = written(tmp_path / "rows.csv", encoding="latin-1")
    assert count(path, SCHEMA, [("town",)])[0].private_counts().tolist() == [0, 1, 3]


@pytest.mark.parametrize("quote", ["'", ""])
def test_other_quotes_and_none(tmp_path, quote):
    path = tmp_path / "rows.csv"
    path.write_text(f'town;n\n{quote}Köln{quote};1\n{quote}Bo"nn{quote};2\n', encoding="utf-8")
    found = count(Files(path, quote=quote), SCHEMA, [("town",)])[0].private_counts().tolist()
    assert found == [1, 0, 1]
    with pytest.raises(SourceError, match="has a quote inside"):
        count(path, SCHEMA, [("town",)])


@given(st.text("ab,;|\t\n\"'", max_size=30))
@settings(max_examples=60, deadline=None)
def test_no_record_decides_on_the_delimiter(tmp_path_factory, record):
    """Whatever follows the header, it is divided as it is alone."""
    header = b"one;two,too;three\n"
    assert (
        TextFile().columns(header + record.encode(), "f")
        == TextFile().columns(header, "f")
        == (
            ";",
            ["one", "two,too", "three"],
        )
    )


def test_quoted_names_do_not_decide(tmp_path):
    assert TextFile().columns(b'"a,b,c";d\n', "f") == (";", ["a,b,c", "d"])
    assert TextFile().columns(b'"a\nb",d\n1,2', "f") == (",", ["a\nb", "d"])
    assert TextFile(delimiter=",").columns(b"a;b;c,d\n", "f") == (",", ["a;b;c", "d"])


def test_errors_name_the_option(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_bytes("größe;n\n1;1\n".encode("latin-1"))
    with pytest.raises(SourceError, match=r"no UTF-8 text\. Say --encoding latin-1"):
        count(path, SCHEMA, [("n",)])
    path.write_bytes(b"town~n\nx~1\n")
    with pytest.raises(SourceError, match=r"column 'n' is missing. The header has 1 columns. .* say --delimiter"):
        count(path, SCHEMA, [("n",)])
    path.write_bytes(b"town;N\nx;1\n")
    with pytest.raises(SourceError, match="Did you mean 'N'"):
        count(path, SCHEMA, [("town", "n")])
    path.write_bytes(b"Towm;1\nx;1\n")  # without a header it is a record, and nothing of it is told
    with pytest.raises(SourceError) as caught:
        count(path, SCHEMA, [("town", "n")])
    assert "Towm" not in str(caught.value).replace(str(path), "")
    path.write_bytes("town,n\n".encode("utf-16"))
    with pytest.raises(SourceError, match="UTF-16"):
        count(path, SCHEMA, [("n",)])


@pytest.mark.parametrize(
    "bad", [{"delimiter": ";;"}, {"delimiter": '"'}, {"encoding": "utf-16"}, {"encoding": "shift_jis"},
            {"encoding": "klingon"}, {"quote": "ab"}, {"delimiter": "a"}]
)  # fmt: skip
def test_layouts_that_cannot_be_read_field_by_field(bad):
    with pytest.raises(SchemaError, match="|".join(bad)):
        TextFile(**bad)


@pytest.mark.parametrize("size", [1, 2, 3, 1000])
def test_without_a_quote_no_quote_is_looked_at(size):
    import io

    layout = TextFile(delimiter=",", quote="")
    with patch.object(text, "_BLOCK", size):
        blocks = list(text._blocks("f", io.BytesIO(b'a,b\n1"2,"\n'), layout))
    assert b"".join(blocks) == b'a,b\n1"2,"\n'
    assert not any(text._problem(block, layout) for block in blocks)


def test_what_the_source_says_goes_before_what_the_schema_says(tmp_path):
    path = written(tmp_path / "rows.csv", "|", header="town|n;m")
    schema = Schema.given({"columns": {"town": SCHEMA["town"]}, "file": {"delimiter": ";"}})
    with pytest.raises(SourceError, match="'town' is missing"):
        count(path, schema, [("town",)])
    assert count(Files(path, delimiter="|"), schema, [("town",)])[0].private_counts().sum() == 4


HEADLESS = "Köln,1\nBonn,2\nx,2\n"


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "latin-1"])
def test_a_file_without_a_header(tmp_path, encoding):
    """Names come by position: from the source, or from the columns of the schema; the first record counts."""
    path = tmp_path / "rows.csv"
    path.write_bytes(HEADLESS.encode(encoding))
    said = None if encoding.startswith("utf-8") else encoding
    expected = [[1, 0], [0, 1], [0, 1]]
    for source, file in (
        (Files(path, names=["town", "n"], encoding=said), None),
        (Files(path, header=False, encoding=said), None),
        (path, {"header": False} | ({"encoding": said} if said else {})),
        (Files(path, encoding=said), {"names": ["town", "n"]}),
        ([path], {"names": ["town", "n"], "header": False} | ({"encoding": said} if said else {})),
    ):
        schema = {"columns": SCHEMA} | ({"file": file} if file else {})
        assert count(source, schema, [("town", "n")])[0].private_counts().tolist() == expected
    # A column that the schema lacks has a name all the same, and one that is not filled in keeps its place.
    one = {"columns": {"n": [1, 2]}}
    assert count(Files(path, names=["town", "n"], encoding=said), one, [("n",)])[0].private_counts().tolist() == [1, 2]
    draft_file = tmp_path / "schema.yaml"
    draft_file.write_text("file: {header: false}\ntown: TODO\nn: [1, 2]\n", encoding="utf-8")
    assert count(path, Schema.read(draft_file), [("n",)])[0].private_counts().tolist() == [1, 2]
    # The control: with a header the first record would be one.
    with pytest.raises(SourceError, match="missing"):
        count(Files(path, encoding=said), one, [("n",)])


def test_no_record_names_a_column(tmp_path):
    """Neither the draft nor an error shows anything of the first record."""
    path = tmp_path / "rows.csv"
    path.write_text(HEADLESS, encoding="utf-8")
    with pytest.raises(SourceError, match=r"needs the names of all its columns, in order: --names"):
        draft(path, TextFile(header=False))
    text = draft(path, TextFile(names=("town", "n")))
    assert "file: {header: false}" in text
    assert "Köln" not in text
    filled = text.replace('"town": TODO', '"town": {values: [Köln, Bonn], other: cell}').replace(
        '"n": TODO', "n: [1, 2]"
    )
    schema = Schema.from_yaml("\n".join(line.split("  # ")[0] for line in filled.splitlines()))
    assert count(path, schema, [("town", "n")])[0].private_counts().tolist() == [[1, 0], [0, 1], [0, 1]]
    assert Schema.from_yaml(schema.to_yaml()) == schema
    assert schema.select(["n"]).file.names == ("town", "n")
    with pytest.raises(SourceError, match=r"column 'N' is missing among the 2 names .* Did you mean 'n'\?"):
        count(Files(path, names=["town", "n"]), {"N": [1, 2]}, [("N",)])
    with pytest.raises(SourceError) as caught:
        count(Files(path, names=["town", "n", "m"]), {"n": [1, 2]}, [("n",)])
    assert "Köln" not in str(caught.value)


@pytest.mark.parametrize(
    "bad", [{"names": []}, {"names": ["a", "a"]}, {"names": [""]}, {"names": ["a"], "header": True}]
)
def test_names_that_cannot_be(bad):
    with pytest.raises(SchemaError, match="names"):
        TextFile(**bad)
