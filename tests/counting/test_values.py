"""What a value counts as is a function of that value and the schema: no other record, batch or file has a say."""

from __future__ import annotations

import datetime as dt
import json
import sqlite3
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset
import pyarrow.fs
import pyarrow.parquet as pq
import pytest

from simplexdp import Budget, OneRecordPerRow, Query
from simplexdp.counting import Files, count
from simplexdp.errors import SourceError
from simplexdp.learn import NaiveBayes
from simplexdp.sampling import SeededEntropy
from simplexdp.schema import Categories, Numeric, Schema

DAY = dt.date(2024, 2, 29)
NOON = dt.datetime(2024, 2, 29, 12)
DAYS = Schema([Categories([DAY], name="c", other="cell", missing="cell")])
TEXT = Schema([Categories(["1", "a"], name="c", other="cell", missing="cell")])
WHOLE = Schema([Categories([1, 2], name="c", other="cell", missing="cell")])
NUMBER = Schema([Numeric([0, 1, 2], name="c", outside="cell", missing="cell")])
TRUTH = Schema([Categories([True, False], name="c", other="cell", missing="cell")])


def counts(source: Any, schema: Schema, **about: Any) -> list[int]:
    (table,) = count(source, schema, [("c",)], **about)
    return [int(number) for number in table.private_counts()]


class Cursor:
    """A DB-API cursor over rows of one column."""

    description = (("c", None),)

    def __init__(self, values: list[Any]) -> None:
        self._rows = [(value,) for value in values]

    def fetchmany(self, size: int) -> list[tuple[Any]]:
        given, self._rows = self._rows[:size], self._rows[size:]
        return given


HELD = {
    "pandas": lambda values: pd.DataFrame({"c": pd.Series(values, dtype=object)}),
    "a list of frames": lambda values: [pd.DataFrame({"c": pd.Series(values, dtype=object)})],
    "a subclass of frames": lambda values: Frame({"c": pd.Series(values, dtype=object)}),
    "pandas categorical": lambda values: pd.DataFrame({"c": pd.Categorical(values)}),
    "cursor": lambda values: OneRecordPerRow(Cursor(values)),
}


class Frame(pd.DataFrame):
    """As geopandas and others make them."""


@pytest.mark.parametrize("held", HELD)
@pytest.mark.parametrize("first", [DAY, dt.datetime(2024, 2, 29), NOON, "2024-02-29", None])
def test_the_first_value_does_not_say_what_the_others_are(held: str, first: Any) -> None:
    """With a date before them, 998 noons lost their time and became that date."""
    values = [first, *[NOON] * 998, DAY]
    if held == "pandas categorical":
        values = [first, NOON, DAY]
    at_midnight = 1 + (first in (DAY, dt.datetime(2024, 2, 29)))
    assert counts(HELD[held](values), DAYS) == [at_midnight, len(values) - at_midnight - (first is None), first is None]


@pytest.mark.parametrize("held", [held for held in HELD if held != "pandas categorical"])  # there 1 is True
@pytest.mark.parametrize(
    ("schema", "values", "expected"),
    [
        (WHOLE, [1, 1.0, True, "1", Decimal("2.00"), 1.5, None, float("nan"), 2**70], [2, 1, 4, 2]),
        (TEXT, ["1", 1, "a", b"a", 1.0, None, pd.NA], [1, 1, 3, 2]),
        (NUMBER, [0.5, 1, Decimal("1.5"), True, "0.5", 10**400, np.float32(0.5), None], [2, 2, 3, 1]),
        (TRUTH, [True, np.False_, 1, 0, "true", None], [1, 1, 3, 1]),
        # for NumPy a span of time is an integer, in some units one that is no number
        (WHOLE, [1, np.timedelta64(1, "ns"), np.timedelta64(1, "D"), np.timedelta64("NaT")], [1, 0, 2, 1]),
        (NUMBER, [0.5, np.timedelta64(1, "ns"), np.timedelta64(1, "D"), np.timedelta64("NaT")], [1, 0, 2, 1]),
        (
            DAYS,
            [DAY, pd.Timestamp("2024-02-29 00:00:00.000000001"), dt.datetime(2024, 2, 29, tzinfo=dt.UTC)],
            [1, 2, 0],
        ),
        (DAYS, [np.datetime64("2024-02-29"), np.datetime64("2024-02-29T12"), np.datetime64("NaT"), pd.NaT], [1, 1, 2]),
    ],
)
def test_values_of_several_types_in_one_column(
    held: str, schema: Schema, values: list[Any], expected: list[int]
) -> None:
    assert counts(HELD[held](values), schema) == expected


def test_text_has_no_nearest_bin() -> None:
    schema = Schema([Numeric([0, 1], name="c", outside="nearest")])
    assert counts(HELD["pandas"]([-5, 0.5, 7]), schema) == [3]
    with pytest.raises(SourceError, match=r"'c' is declared with numbers and has entries that are not.*outside='cell'"):
        counts(HELD["pandas"]([-5, "low"]), schema)


def test_a_database_that_holds_several_types_in_one_column() -> None:
    connection = sqlite3.connect(":memory:")
    connection.execute("create table t (c integer)")
    connection.executemany("insert into t values (?)", [(1,), ("one",), (2,), (None,), (1.5,)])
    assert counts(Query("select c from t", connection), WHOLE) == [1, 1, 2, 1]
    assert counts(OneRecordPerRow(connection.execute("select c from t")), WHOLE) == [1, 1, 2, 1]
    connection.close()


def test_categories_that_no_row_has() -> None:
    frame = pd.DataFrame({"c": pd.Categorical([1, 2, 1], categories=[2, 1, "text", NOON])})
    assert counts(frame, Schema.of(c=[1, 2])) == [2, 1]


@pytest.mark.parametrize("first", [DAY, NOON])
def test_scikit_learn_takes_each_value_for_itself(first: Any) -> None:
    rows = [first, *[NOON] * 200, *[DAY] * 200]
    X = np.array([[value, "x"] for value in rows], dtype=object)
    schema = Schema([*DAYS, Categories(["x"], name="d"), Categories(["a", "b"], name="y")])
    model = NaiveBayes(mechanism="none", budget=None, schema=schema, target="y", estimate="raw", reweight=False)
    for held in (X, X.tolist(), pd.DataFrame(X, columns=["c", "d"])):
        model.fit(held, ["a", "b"] * 200 + ["a"])
        found = next(release for release in model.model_.releases if "c" in release.columns)
        table = np.asarray(found.values).sum(axis=found.columns.index("y"))
        assert table.tolist() == [200 + (first == DAY), 200 + (first == NOON), 0]


def test_a_number_in_words_does_not_change_the_other_features() -> None:
    """One text in a list of rows made text of all numbers; text that looks like a number was read as one."""
    schema = Schema([Numeric([0, 1, 2], name="c", outside="cell"), Categories([0, 1], name="y")])
    model = NaiveBayes(mechanism="none", budget=None, schema=schema, target="y", estimate="raw", reweight=False)
    model.fit([[0.5], [1.5], ["1.5"], ["many"], [Decimal("0.5")]], [0, 1, 0, 1, 0])
    (found,) = (release for release in model.model_.releases if "c" in release.columns)
    assert np.asarray(found.values).sum(axis=found.columns.index("y")).tolist() == [2, 1, 2]


def test_lists_in_rows_are_values_whatever_the_others_are() -> None:
    """Rows of lists of one length made an array of three axes, unless one of them had another length."""
    schema = Schema([Categories(["x"], name="c", other="cell"), Categories(["a", "b"], name="y")])
    model = NaiveBayes(mechanism="none", budget=None, schema=schema, target="y", estimate="raw", reweight=False)
    for last in (["x"], ["x", "y"], "z"):
        for rows in ([[["x"]], [last]], ([["x"]], (last,)), [[["x"]], np.array([last, None], dtype=object)[:1]]):
            model.fit(rows, ["a", "b"])
            (found,) = (release for release in model.model_.releases if "c" in release.columns)
            assert np.asarray(found.values).sum(axis=found.columns.index("y")).tolist() == [0, 2]


@pytest.mark.parametrize(
    "X",
    [
        [["SECRET"], ["SECRET", 1]],
        ["SECRET", "b"],
        [["b"], {"SECRET": 1}],
        [["b"], np.array("SECRET")],
        np.array(["SECRET", "b"]),
        np.array(["SECRET", "b"], dtype=object),
        np.array([[["SECRET"]], [["b"]]]),
        pl.Series(["SECRET", "b"]),
        pd.Series(["SECRET", "b"]),
    ],
)
def test_rows_of_a_wrong_shape_are_refused_without_a_value(X: Any) -> None:
    """scikit-learn's error shows the whole array."""
    schema = Schema([Categories(["SECRET", "b"], name="c"), Categories(["a", "b"], name="y")])
    model = NaiveBayes(budget=Budget(epsilon=1, delta=1e-5), schema=schema, target="y", random_state=1)
    with pytest.raises(ValueError, match="Expected 2D array") as caught:
        model.fit(X, ["a", "b"])
    assert "SECRET" not in str(caught.value)
    model.fit([["SECRET"], ["b"]], ["a", "b"])
    with pytest.raises(ValueError, match="Expected 2D array") as caught:
        model.predict(X)
    assert "SECRET" not in str(caught.value)


def test_labels_of_several_types() -> None:
    """An undeclared label of another type is refused; before, it made text of every other label in a list."""
    schema = Schema([Categories(["a", "b"], name="c"), Categories([1, 2], name="y")])
    model = NaiveBayes(budget=Budget(epsilon=1, delta=1e-5), schema=schema, target="y", random_state=1)
    model.fit([["a"], ["b"], ["a"]], [1, 2.0, Decimal(1)])
    with pytest.raises(SourceError, match="y: some labels are not declared classes"):
        model.fit([["a"], ["b"], ["a"]], [1, 2, "one"])
    assert model.fit([["a"], ["b"]], pa.chunked_array([[1, 2]])).classes_.tolist() == [1, 2]


def test_decimals_are_the_floats_that_python_makes_of_them() -> None:
    """Arrow's cast is off in the last bit for one decimal in ten, which put values that are edges into other bins."""
    rng = np.random.default_rng(0)
    for kind in (pa.decimal128(12, 3), pa.decimal128(38, 15), pa.decimal256(60, 30), pa.decimal128(30, 25)):
        texts = [f"{rng.integers(0, 1000)}.{rng.integers(0, 1000):03}" for _ in range(300)]
        values = [Decimal(text) for text in dict.fromkeys(texts)]
        edges = sorted(map(float, values))
        schema = Schema([Numeric([*edges, 1001], name="c")])
        assert counts(pa.table({"c": pa.array(values, kind)}), schema) == [1] * len(edges)


# -- persons -------------------------------------------------------------------------------------------------------


def test_persons_are_told_apart_by_value_and_type() -> None:
    names = [1, "1", 1, "1", np.int64(1), b"1", Decimal(1), Decimal("1.0"), 2, DAY, "\ud800"]
    seen = [3, 2, 1, 2, 1, 1, 1]
    schema = Schema([Categories(["x"], name="c")])
    for bound in (1, 2, 3):
        about: dict[str, Any] = {"rows_per_person": bound, "person": "who", "entropy": SeededEntropy(1)}
        expected = [sum(min(bound, rows) for rows in seen)]
        frame = pd.DataFrame({"who": pd.Series(names, dtype=object), "c": "x"})
        assert counts(frame, schema, **about) == expected
        assert counts([frame.iloc[i : i + 1] for i in range(len(names))], schema, **about) == expected
        assert (
            counts({"who": np.array(names, dtype=object), "c": np.zeros(len(names), int)}, schema, **about) == expected
        )


@pytest.mark.parametrize("name", [None, 1.5, True, float("nan"), (1,), pd.NA, np.timedelta64(1, "ns")])
def test_what_names_nobody_is_refused_for_itself(name: Any) -> None:
    frame = pd.DataFrame({"who": pd.Series(["a", 1, name], dtype=object), "c": "x"})
    schema = Schema([Categories(["x"], name="c")])
    about: dict[str, Any] = {"rows_per_person": 1, "person": "who", "entropy": SeededEntropy(1)}
    with pytest.raises(SourceError, match=r"the person column 'who' has (missing entries|entries that are no names)"):
        counts(frame, schema, **about)
    assert counts(frame.iloc[:2], schema, **about) == [2]


def test_types_that_name_persons() -> None:
    """Equal names are one person in every type of the kind; types that Arrow cannot tell apart are refused."""
    schema = Schema([Categories(["x"], name="c")])
    about: dict[str, Any] = {"rows_per_person": 1, "person": "who", "entropy": SeededEntropy(1)}

    def held(*persons: Any) -> list[pa.Table]:
        return [pa.table({"who": each, "c": ["x"] * len(each)}) for each in persons]

    texts = [pa.array(["a", "b", "a"], kind) for kind in (pa.string(), pa.large_string(), pa.string_view())]
    whole = [pa.array([1, 2, 1], kind) for kind in (pa.int8(), pa.int64(), pa.uint32())]
    data = [pa.array([b"a", b"b", b"a"], kind) for kind in (pa.binary(), pa.large_binary(), pa.binary_view())]
    for same in (texts, whole, data):
        repeated = pa.DictionaryArray.from_arrays(pa.array([0, 1, 2], pa.int8()), same[0])
        assert counts(held(*same, repeated), schema, **about) == [2]
    for kind in (pa.decimal256(5, 2), pa.timestamp("s", "UTC"), pa.date32(), pa.uint64()):
        assert counts(held(pa.array([1, 2, 1], kind)), schema, **about) == [2]
    zones = [pd.Timestamp("2024-01-01", tz="UTC"), pd.Timestamp("2024-01-01 01:00", tz="Europe/Berlin")]
    assert counts(pd.DataFrame({"who": pd.Series(zones, dtype=object), "c": "x"}), schema, **about) == [1]
    runs = pa.RunEndEncodedArray.from_arrays(pa.array([1, 2], pa.int32()), pa.array(["a", "a"]))
    stored = pa.ExtensionArray.from_storage(pa.uuid(), pa.array([b"x" * 16] * 2, pa.binary(16)))
    for refused in (runs, stored, pa.array([[1], [1]]), pa.array([1.0, 1.0]), pa.array([True, True])):
        with pytest.raises(SourceError, match="'who' has the type"):
            counts(held(refused), schema, **about)


def test_python_objects_in_polars_are_not_told_apart_by_where_they_lie() -> None:
    """Each row of a person was taken for another person, so that a bound on the rows of each bounded nothing."""
    names = pl.Series(["".join(["a", str(row % 2)]) for row in range(10)], dtype=pl.Object)
    frame = pl.DataFrame({"who": names, "c": ["x"] * 10})
    schema = Schema([Categories(["x"], name="c")])
    about: dict[str, Any] = {"rows_per_person": 1, "person": "who", "entropy": SeededEntropy(1)}
    for held in (frame, frame.lazy(), [frame]):
        with pytest.raises(SourceError, match="'who' holds Python objects"):
            counts(held, schema, **about)
        assert counts(held, schema) == [10]  # it is not asked for
    assert counts(pd.DataFrame({"who": names.to_list(), "c": "x"}), schema, **about) == [2]


# -- text files ----------------------------------------------------------------------------------------------------


def written(path: Path, text: str | bytes) -> Path:
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


@pytest.mark.parametrize(
    ("schema", "fields", "expected"),
    [
        (NUMBER, ["0.5", "1e0", "many", "", "nan", " 1.5 ", "1,5", "0x1"], [1, 2, 3, 2]),
        (WHOLE, ["1", "2.0", "1.5", "one", "", "1e0"], [2, 1, 2, 1]),
        (TRUTH, ["true", "NO", "1", "2", "", "yes"], [3, 1, 1, 1]),
        (DAYS, ["2024-02-29", "2024-02-30", "", "2024-2-29 00:00", "2024-02-29 12:00:00", "29.2."], [2, 3, 1]),
        (TEXT, ["1", "a", "zebra", ""], [1, 1, 1, 1]),
    ],
)
def test_a_field_that_is_not_of_the_declared_type_is_other(
    schema: Schema, fields: list[str], expected: list[int], tmp_path: Path
) -> None:
    """One such field failed the whole file. A time of day was dropped from a date, an integer rounded."""
    lines = "\n".join(f'"{field}"' for field in fields)
    assert counts(written(tmp_path / "rows.csv", f"c\n{lines}\n"), schema) == expected
    records = [{"c": field or None} for field in fields]
    assert counts(written(tmp_path / "rows.json", json.dumps(records)), schema) == expected
    assert counts(written(tmp_path / "rows.jsonl", "\n".join(map(json.dumps, records))), schema) == expected


def test_integers_that_floats_confuse(tmp_path: Path) -> None:
    schema = Schema([Categories([2**53 + 1, 15], name="c", other="cell", missing="cell")])
    path = written(tmp_path / "rows.csv", "c\n9007199254740993\n9007199254740992\n14.5\n15.0\nnan\n1e999999999999\n")
    assert counts(path, schema) == [1, 1, 3, 1]


def test_the_type_of_the_first_records_of_a_json_file_does_not_matter(tmp_path: Path) -> None:
    path = tmp_path / "rows.json"
    for first in ({"c": "one"}, {"c": {"deep": 1}}, {}, {"d": 5}, {"c": [1]}, {"c": True}):
        written(path, json.dumps([first, *[{"c": 1}] * 20, {"c": "2"}]))
        lost = "c" not in first
        assert counts(path, WHOLE) == [20, 1, 1 - lost, int(lost)]


def test_the_columns_of_a_json_file_are_not_those_of_its_first_records(tmp_path: Path) -> None:
    """A column that the first records lack was said to be missing, so that one of them decided over the file."""
    path = written(tmp_path / "rows.ndjson", '{"d": 1}\n' * 30_000 + '{"c": 1}\n')
    assert counts(path, WHOLE) == [1, 0, 0, 30_000]
    assert counts(written(path, '{"d": 1}\n'), WHOLE) == [0, 0, 0, 1]


def test_line_breaks_inside_quotes_do_not_end_a_record(tmp_path: Path) -> None:
    """Threads that began inside of quotes misread what follows, or failed, by where in the file a record lay."""
    text = '"' + "1,2\n" * 300_000 + '"'
    path = written(tmp_path / "rows.csv", "c,d\n" + f"1,{text}\n2,x\n" * 15)
    assert counts(path, WHOLE) == [15, 15, 0, 0]


@pytest.mark.parametrize("row", ['1,"open\n', '1,a"b\n', '1,"a"b\n', '1,"a\n2,"b"\n'])
@pytest.mark.parametrize("after", ["", '2,x\n1,"y"\n2,z\n', '2,x\n1,""\n2,z\n'])
def test_a_quote_that_hides_other_records_is_refused(row: str, after: str, tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="could not be read"):
        counts(written(tmp_path / "rows.csv", f"c,d\n{row}{after}"), WHOLE)


def test_ends_of_lines_may_differ(tmp_path: Path) -> None:
    path = written(tmp_path / "rows.csv", 'c,d\r\n1,2\n2,3\r\n1,4\r2,"a\r\nb"\n1,5')
    assert counts(path, WHOLE) == [3, 2, 0, 0]


def test_bytes_that_are_no_text_are_other(tmp_path: Path) -> None:
    path = written(tmp_path / "rows.csv", b"c,d\na,x\n\xff,y\n1,\xff\n")
    assert counts(path, TEXT) == [1, 1, 1, 0]


def test_a_record_that_is_too_long_is_refused_wherever_it_lies(tmp_path: Path) -> None:
    for before in (0, 1, 100_000):
        path = written(tmp_path / "rows.csv", "c,d\n" + "1,x\n" * before + "2," + "y" * (2 << 20) + "\n1,x\n")
        with pytest.raises(SourceError, match="longer than 2 MiB"):
            counts(path, WHOLE)
        path = written(path, "c,d\n" + "1,x\n" * before + "2," + "y" * ((2 << 20) - 10) + "\n1,x\n")
        assert counts(path, WHOLE) == [before + 1, 1, 0, 0]


def test_a_dataset_of_text_files_has_guessed_types(tmp_path: Path) -> None:
    path = written(tmp_path / "rows.csv", "c\n1\na\n")
    dataset = pyarrow.dataset.dataset(path, format="csv")
    with pytest.raises(SourceError, match="Arrow guesses from the first records"):
        counts(dataset, TEXT)
    with pytest.raises(SourceError, match="Arrow guesses"):
        counts(pyarrow.dataset.dataset([dataset, dataset]), TEXT)
    assert counts(path, TEXT) == [1, 1, 0, 0]


# -- files that are named several times ----------------------------------------------------------------------------


def test_each_file_is_counted_once_however_it_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    for name, value in (("a", 1), ("b", 2)):
        pq.write_table(pa.table({"c": [value]}), folder / f"{name}.parquet")
    (tmp_path / "link").symlink_to(folder)
    (folder / "soft.parquet").symlink_to(folder / "a.parquet")
    (folder / "hard.parquet").hardlink_to(folder / "b.parquet")
    monkeypatch.chdir(folder)
    for paths in (
        [folder, folder / "a.parquet"],
        [folder, folder],
        ["a.parquet", "./a.parquet", "../data/b.parquet", str(folder / "a.parquet"), "b.parquet"],
        [str(folder / "*.parquet"), tmp_path / "link", "."],
        [tmp_path / "link" / "a.parquet", folder / "hard.parquet", folder / "soft.parquet"],
        [tmp_path],
    ):
        assert counts(paths, WHOLE) == [1, 1, 0, 0], paths
        assert counts(Files(paths), WHOLE) == [1, 1, 0, 0]


def test_an_arrow_dataset_reads_each_file_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Links, other spellings, and datasets made of datasets counted its records twice."""
    of = pyarrow.dataset.dataset
    path, folder = tmp_path / "a.parquet", tmp_path / "folder"
    folder.mkdir()
    pq.write_table(pa.table({"c": [1]}), path)
    pq.write_table(pa.table({"c": [2]}), folder / "b.parquet")
    (tmp_path / "soft.parquet").symlink_to(path)
    (tmp_path / "hard.parquet").hardlink_to(path)
    monkeypatch.chdir(tmp_path)
    below = pyarrow.fs.SubTreeFileSystem(str(tmp_path), pyarrow.fs.LocalFileSystem())
    for other in ("a.parquet", "folder/../a.parquet", "soft.parquet", "hard.parquet"):
        again = str(tmp_path / other)
        for twice in (
            of([str(path), again]),
            of([str(path), other]),
            of([of(str(path)), of(again)]),
            of([of(folder), of([of(again)]), of(path)]),
            of([of(other, filesystem=below), of(str(path))]),
        ):
            with pytest.raises(SourceError, match="reads a file more than once"):
                counts(twice, WHOLE)
    assert counts(of([of(folder), of(path)]), WHOLE) == [1, 1, 0, 0]
    assert counts(of([of(folder), of("a.parquet", filesystem=below)]), WHOLE) == [1, 1, 0, 0]


def test_types_of_folder_names_are_not_guessed_from_all_folders(tmp_path: Path) -> None:
    """One record in a folder `c=one` made text of the years of all others."""
    of = pyarrow.dataset.dataset
    for name in ("1", "2"):
        (tmp_path / f"c={name}").mkdir()
        pq.write_table(pa.table({"d": [3]}), tmp_path / f"c={name}" / "a.parquet")
    for guessing in ("hive", pyarrow.dataset.HivePartitioning.discover(infer_dictionary=True)):
        found = of(tmp_path, partitioning=guessing)
        for made in (found, of([found])):
            with pytest.raises(SourceError, match="'c' from the names of folders, and its type is guessed"):
                counts(made, WHOLE)
        assert count(found, Schema.of(d=[3]), [("d",)])[0].private_counts().tolist() == [2]
    said = pyarrow.dataset.partitioning(pa.schema([("c", pa.int16())]), flavor="hive")
    assert counts(of(tmp_path, partitioning=said), WHOLE) == [1, 1, 0, 0]


@pytest.mark.parametrize("ending", ["csv", "json"])
def test_a_name_that_looks_like_a_pattern_is_that_file(ending: str, tmp_path: Path) -> None:
    """DuckDB took the name of a file for a pattern, and read its neighbours too."""
    for name in ("rows*", "rows[1]", "rows1", "rows2", "row?"):
        written(tmp_path / f"{name}.{ending}", "c\n1\n" if ending == "csv" else '[{"c": 1}]')
    for name in ("rows*", "rows[1]", "row?"):
        assert counts(tmp_path / f"{name}.{ending}", WHOLE) == [1, 0, 0, 0]


def test_the_layout_of_a_json_file_is_not_guessed_from_its_records(tmp_path: Path) -> None:
    """A guess takes this file for one record a line, and then a record over two lines for none."""
    path = tmp_path / "rows.json"
    path.write_text('{"c":"a"}\n{"c":"a"}\n{"c":\n"a"}', encoding="utf-8")
    (table,) = count(path, Schema.of(c=["a", "b"]), [("c",)])
    assert table.private_counts().tolist() == [3, 0]
