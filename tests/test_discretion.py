"""No value of the data survives in an error: not in its text, not in what it came from, not in its frames."""

from __future__ import annotations

import datetime
import decimal
import doctest
import inspect
import json
import sqlite3
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import simplexdp
from public_numbers import callables
from simplexdp import (
    BayesianNetwork,
    Budget,
    Categories,
    CountTable,
    Dirichlet,
    Gaussian,
    Laplace,
    Ledger,
    NaiveBayes,
    Numeric,
    Polya,
    Quantiles,
    Query,
    Schema,
    count,
    release,
    release_distribution,
    release_tables,
)
from simplexdp.cli import run
from simplexdp.errors import SimplexDPError, SourceError, discreet
from simplexdp.naive_bayes import fit_naive_bayes, predict_batches
from simplexdp.quantiles import resolve_quantiles

LIBRARY = str(Path(simplexdp.__file__).parent)
CANARY = "Zaphod4711"
NUMBER = 471147114711
MARKS = (CANARY, str(NUMBER), f"{NUMBER:,}", str(float(NUMBER)), f"{float(NUMBER):g}", "4.711e")
BUDGET = Budget(epsilon=1.0, delta=1e-5)
TINY = Budget(epsilon=1.0, delta=1e-15)  # below 1/N for every N here: a warning would tell N, which is public
SCHEMA = Schema(
    [Categories(["x", "y"], name="text"), Numeric([0, 1, 2], name="number"), Categories([False, True], name="ill")]
)
NAMES = ("text", "number", "ill")


class Speaking:
    """An object that says its value whenever it is asked for anything."""

    def __repr__(self) -> str:
        return CANARY

    def __float__(self) -> float:
        raise ValueError(CANARY)

    __int__ = __index__ = __str__ = __len__ = __iter__ = __array__ = __bool__ = __hash__ = __eq__ = __float__  # type: ignore[assignment]


class Odd(str):
    """Text of a class of its own."""


POISON: dict[str, Any] = {
    "text": CANARY,
    "subclass": Odd(CANARY),
    "surrogate": CANARY + "\ud800",
    "bytes": CANARY.encode(),
    "whole": NUMBER,
    "huge": NUMBER * 10**40,
    "float": float(NUMBER),
    "decimal": decimal.Decimal(NUMBER),
    "complex": complex(NUMBER, 1),
    "list": [CANARY],
    "nested": {"a": [CANARY, NUMBER]},
    "none": None,
    "nan": float("nan"),
    "date": datetime.date(4711, 4, 7),
    "time": datetime.datetime(4711, 4, 7, 11, 47, tzinfo=datetime.UTC),
    "object": Speaking(),
    "bool": True,
}


def columns(poison: Any, column: str) -> dict[str, list[Any]]:
    """Three hundred harmless rows and, in the middle, one that is not; every other column of that row has a canary."""
    rows: dict[str, list[Any]] = {"text": ["x", "y"] * 150, "number": [0.5, 1.5] * 150, "ill": [False, True] * 150}
    rows[column][151] = poison
    return {**rows, "note": [CANARY] * 300}


# -- what an error may hold ------------------------------------------------------------------------------------------


def said(error: BaseException, seen: set[int] | None = None) -> Iterator[str]:
    """All text that an error and whatever it came from can show, and the variables of the library's frames."""
    seen = set() if seen is None else seen
    if id(error) in seen:
        return
    seen.add(id(error))
    yield "".join(traceback.format_exception(error))
    yield str(error)
    yield repr(error)
    yield repr(error.args)
    yield repr(getattr(error, "__notes__", []))
    yield repr(vars(error))
    for frame, _ in traceback.walk_tb(error.__traceback__):
        if frame.f_code.co_filename.startswith(LIBRARY):
            for value in frame.f_locals.values():
                yield from shown(value)
    for other in (error.__context__, error.__cause__):
        if other is not None:
            yield from said(other, seen)


def shown(value: Any, depth: int = 3) -> Iterator[str]:
    """What a debugger shows of a variable, and of what is in it."""
    yield repr(value)
    if isinstance(value, np.ndarray):
        yield repr(value.tolist())
    elif isinstance(value, pd.DataFrame | pd.Series):
        yield value.to_string()
    elif isinstance(value, pa.Table | pa.RecordBatch):
        yield repr(value.to_pydict())
    elif isinstance(value, dict | list | tuple) and depth:
        for item in value.values() if isinstance(value, dict) else value:
            yield from shown(item, depth - 1)


def check_silent(act: Callable[[], Any]) -> BaseException | None:
    """Run something that may fail, and look for the canaries in everything that the failure holds."""
    try:
        act()
    except Exception as error:
        failure = error
    else:
        return None
    told = "\n".join(said(failure))
    where = next((text for text in said(failure) if any(mark in text for mark in MARKS)), "")
    assert not [mark for mark in MARKS if mark in told], (type(failure), where[-1500:])
    if isinstance(failure, SimplexDPError):
        assert failure.__context__ is None
        assert failure.__cause__ is None
    return failure


# -- sources ---------------------------------------------------------------------------------------------------------


def frame(rows: dict[str, list[Any]], _: Path) -> Any:
    return pd.DataFrame({name: pd.Series(values, dtype=object) for name, values in rows.items()})


def plain_frame(rows: dict[str, list[Any]], _: Path) -> Any:
    return pd.DataFrame(rows)


def table(rows: dict[str, list[Any]], _: Path) -> Any:
    return pa.table(rows)


def batches(rows: dict[str, list[Any]], _: Path) -> Any:
    return iter(pa.table(rows).to_batches(max_chunksize=100))


def reader(rows: dict[str, list[Any]], _: Path) -> Any:
    return pa.table(rows).to_reader(max_chunksize=100)


def polars_frame(rows: dict[str, list[Any]], _: Path) -> Any:
    if any(isinstance(value, Speaking) for values in rows.values() for value in values):
        raise TypeError("polars panics")
    return pl.DataFrame({name: pl.Series(name, values, strict=False) for name, values in rows.items()})


def polars_objects(rows: dict[str, list[Any]], _: Path) -> Any:
    return pl.DataFrame({name: pl.Series(name, values, dtype=pl.Object) for name, values in rows.items()})


def lazy(rows: dict[str, list[Any]], path: Path) -> Any:
    return polars_frame(rows, path).lazy()


def relation(rows: dict[str, list[Any]], _: Path) -> Any:
    return duckdb.connect().from_arrow(pa.table(rows))


def parquet(rows: dict[str, list[Any]], path: Path) -> Any:
    pq.write_table(pa.table(rows), path / "rows.parquet")
    return str(path / "rows.parquet")


def csv(rows: dict[str, list[Any]], path: Path) -> Any:
    pd.DataFrame(rows).to_csv(path / "rows.csv", index=False)
    return str(path / "rows.csv")


def ndjson(rows: dict[str, list[Any]], path: Path) -> Any:
    lines = (json.dumps(dict(zip(rows, row, strict=True))) for row in zip(*rows.values(), strict=True))
    (path / "rows.json").write_text("\n".join(lines), encoding="utf-8")
    return str(path / "rows.json")


def query(rows: dict[str, list[Any]], path: Path) -> Any:
    return Query(f"select text, number, ill from '{csv(rows, path)}'")


def cast_query(rows: dict[str, list[Any]], path: Path) -> Any:
    return Query(f"select cast(note as int) as text, number, ill from '{csv(rows, path)}'")


def cursor(rows: dict[str, list[Any]], _: Path) -> Any:
    connection = sqlite3.connect(":memory:")
    connection.execute("create table t (text, number, ill, note)")
    connection.executemany("insert into t values (?, ?, ?, ?)", list(zip(*rows.values(), strict=True)))
    return connection.execute("select * from t")


def broken(rows: dict[str, list[Any]], _: Path) -> Any:
    def stream() -> Iterator[Any]:
        yield pa.record_batch({name: values[:100] for name, values in rows.items()})
        raise RuntimeError(f"{CANARY}: line 3 reads {NUMBER}")

    return stream()


def array(rows: dict[str, list[Any]], _: Path) -> Any:
    return np.array(list(zip(*(rows[name] for name in NAMES), strict=True)), dtype=object)


SOURCES = [
    *(frame, plain_frame, table, batches, reader, polars_frame, polars_objects, lazy, relation, parquet, csv, ndjson),
    *(query, cast_query, cursor, broken, array),
]

# -- entries ---------------------------------------------------------------------------------------------------------


@cache
def bayes() -> NaiveBayes:
    good = pd.DataFrame({"text": ["x", "y"] * 20, "number": [0.5, 1.5] * 20})
    ill = pd.Series([False, True] * 20, name="ill")
    return NaiveBayes(schema=SCHEMA, target="ill", reweight=False).fit(good, ill)


@cache
def network() -> BayesianNetwork:
    good = pa.table({"text": ["x", "y"] * 20, "number": [0.5, 1.5] * 20, "ill": [False, True] * 20})
    return BayesianNetwork({"ill": ["text", "number"]}, SCHEMA, budget=BUDGET).fit(good)


def apart(rows: Any) -> tuple[Any, Any]:
    """Features and labels by scikit-learn's conventions, where the source has any."""
    if isinstance(rows, np.ndarray):
        return rows[:, :2], rows[:, 2]
    if isinstance(rows, pd.DataFrame | pl.DataFrame):
        return rows[["text", "number"]], rows["ill"]
    if isinstance(rows, pa.Table):
        return rows.select(["text", "number"]), rows["ill"]
    return rows, [False, True] * 150


def learn(rows: Any) -> Any:
    return NaiveBayes(schema=SCHEMA, target="ill").fit(*apart(rows))


def learn_from_data(rows: Any) -> Any:
    return NaiveBayes(domain="from-data").fit(*apart(rows))


def predict(rows: Any) -> Any:
    return bayes().predict(apart(rows)[0])


def predict_blocks(rows: Any) -> Any:
    batches = rows.to_batches() if isinstance(rows, pa.Table) else rows
    return list(predict_batches(bayes().model_, batches))


QUANTILES = Schema(
    [Categories(["x", "y"], name="text"), Quantiles(4, lower=0, upper=2, outside="refuse", name="number")]
)
ENTRIES: dict[str, Callable[[Any], Any]] = {
    "count": lambda rows: count(rows, SCHEMA, [NAMES]),
    "count persons": lambda rows: count(
        rows, SCHEMA, [("number",)], rows_per_person=1, person="text", entropy=np.random.default_rng(0)
    ),
    "release_distribution": lambda rows: release_distribution(rows, SCHEMA, NAMES, budget=BUDGET),
    "release_distribution of quantiles": lambda rows: release_distribution(
        rows, QUANTILES, ["text", "number"], budget=BUDGET
    ),
    "release_tables": lambda rows: release_tables(rows, SCHEMA, "all-2-way", budget=BUDGET),
    "fit_naive_bayes": lambda rows: fit_naive_bayes(rows, SCHEMA, "ill", budget=BUDGET),
    "NaiveBayes.fit": learn,
    "NaiveBayes.fit from data": learn_from_data,
    "NaiveBayes.fit_source": lambda rows: NaiveBayes(schema=SCHEMA, target="ill").fit_source(rows),
    "NaiveBayes.predict": predict,
    "predict_batches": predict_blocks,
    "BayesianNetwork.fit": lambda rows: BayesianNetwork({"ill": ["text"]}, SCHEMA, budget=BUDGET).fit(rows),
    "BayesianNetwork.predict": lambda rows: network().predict("ill", rows),
    "BayesianNetwork.log_likelihood": lambda rows: network().log_likelihood(rows),
    "resolve_quantiles": lambda rows: resolve_quantiles(QUANTILES, rows, epsilon=1.0, neighbours="replace-one"),
    "Ledger.register": lambda rows: opened().register("clinic", rows, SCHEMA),
    "NaiveBayes.score": lambda rows: bayes().score(*apart(rows)),
}


@cache
def opened() -> Ledger:
    return Ledger.open(Path(tempfile.mkdtemp()) / "ledger.db", budget=BUDGET)


def attempt(source: Callable[..., Any], entry: str, poison: str, column: str, folder: Path) -> BaseException | None:
    try:
        rows = source(columns(POISON[poison], column), folder)
    except Exception:  # this kind of source cannot hold the value
        return None
    return check_silent(lambda: ENTRIES[entry](rows))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("rows")


@pytest.mark.slow
@pytest.mark.parametrize("entry", ENTRIES)
@pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.__name__)
def test_a_value_that_is_refused_stays_untold(source: Callable[..., Any], entry: str, folder: Path) -> None:
    bayes(), network()
    failures = [
        attempt(source, entry, poison, column, folder)
        for poison, column in (("text", "text"), ("object", "text"), ("float", "number"), ("huge", "number"))
    ]
    never = entry.endswith(("from data", "resolve_quantiles")) or source is array  # nothing is refused there
    assert any(failures) or never


@pytest.mark.slow
@settings(
    deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(
    st.sampled_from(SOURCES), st.sampled_from(sorted(ENTRIES)), st.sampled_from(sorted(POISON)), st.sampled_from(NAMES)
)
def test_any_value_through_any_source_and_entry(
    folder: Path, source: Callable[..., Any], entry: str, poison: str, column: str
) -> None:
    attempt(source, entry, poison, column, folder)


COUNTS = {
    "text": [CANARY, CANARY],
    "negative": [NUMBER, -NUMBER],
    "fraction": [NUMBER + 0.5, 1.0],
    "too large": [NUMBER * 10**8, 1],
    "huge": [NUMBER * 10**40, 1],
    "ragged": [[NUMBER], [NUMBER, NUMBER]],
    "objects": [Speaking(), 1],
    "one": [NUMBER],
    "complex": [complex(NUMBER), 1j],
    "decimal": [decimal.Decimal(NUMBER), decimal.Decimal("0.5")],
    "not a number": [float("nan"), float(NUMBER)],
}
USES: dict[str, Callable[[Any], Any]] = {
    "release": lambda counts: release(counts, budget=BUDGET),
    "release of a table": lambda counts: release(  # the total is public under replace-one
        CountTable.from_array(counts, columns=["a"]), budget=BUDGET, neighbours="add-remove"
    ),
    "Polya": lambda counts: Polya(r=1, alpha=5).release(counts),
    "Gaussian": lambda counts: Gaussian(sigma=5).release(counts),
    "Laplace": lambda counts: Laplace(scale=5).release(counts),
    "Dirichlet": lambda counts: Dirichlet(r=1, alpha=5).release(counts),
    "CountTable": lambda counts: CountTable.from_array(counts, columns=["a"]),
    "CountTable itself": lambda counts: CountTable(counts, ["a"]),
    "predict_log_proba": lambda counts: bayes().model_.predict_log_proba(counts),
    "log_likelihoods": lambda counts: network().model.log_likelihoods(
        {"text": counts, "number": counts, "ill": counts}
    ),
    "model.predict": lambda counts: network().model.predict("ill", {"text": counts}),
}


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("counts", COUNTS)
def test_counts_and_codes_that_are_refused_stay_untold(use: str, counts: str) -> None:
    fits = counts == "one" and use in (
        "CountTable",
        "CountTable itself",
        "release of a table",
    )  # a table may have one cell
    assert (check_silent(lambda: USES[use](COUNTS[counts])) is None) == fits


@pytest.mark.slow
@pytest.mark.parametrize("ending", ["csv", "json", "parquet"])
@pytest.mark.parametrize("poison", ["text", "whole", "list", "surrogate", "date"])
@pytest.mark.parametrize("column", NAMES)
def test_the_command_line_tells_no_value(
    ending: str, poison: str, column: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = columns(POISON[poison], column)
    try:
        source = {"csv": csv, "json": ndjson, "parquet": parquet}[ending](rows, tmp_path)
    except Exception:  # this kind of file cannot hold the value
        return
    SCHEMA.write(tmp_path / "schema.yaml")
    bayes().model_.write(tmp_path / "model.json")
    budget = (
        "--epsilon",
        "1",
        "--delta",
        "1e-6",
        "--schema",
        str(tmp_path / "schema.yaml"),
        "--out",
        str(tmp_path / "o"),
    )
    codes = [
        run(["fit", "distribution", "--columns", "text,number,ill", *budget, source]),
        run(["fit", "nb", "--target", "ill", *budget, source]),
        run(["fit", "bn", "--graph", "text->ill,number->ill", *budget, source]),
        run(["predict", str(tmp_path / "model.json"), source, "--keep", "", "--out", str(tmp_path / "out.csv")]),
    ]
    told = "".join(capsys.readouterr())
    assert not [mark for mark in MARKS if mark in told]
    assert 2 in codes
    assert 1 not in codes


TAKES = {"source", "X", "frame", "counts"}
"""What arguments are called that hold values of records."""
OTHERWISE = {
    "private.counting.query.OneRecordPerRow": "only keeps its source",
    "schema.model.Schema.from_public": "its rows are public",
    "noisy.NoisyCounts.noise_variance": "its counts are released ones",
    **dict.fromkeys(
        (
            f"models.{name}.query"
            for name in (
                "bayesian_network.BayesianNetworkModel",
                "naive_bayes.NaiveBayesModel",
                "release.Release",
                "synthesis.SynthesisModel",
                "tables.TablesModel",
                "model.Model",
                "model.ModelOfReleases",
            )
        ),
        "`counts` says whether released counts are wanted",
    ),
}
BEHIND = ("draw", "draws", "expected_kl", "shapes")
"""Methods of mechanisms, for counts that `release` has checked, or that somebody makes up to plan with."""


def doors() -> dict[str, Any]:
    """What users import from the package, with its methods, where it takes values of records."""
    public = (getattr(simplexdp, name) for name in simplexdp.__all__)
    homes = {f"{item.__module__}.{item.__qualname__}" for item in public if hasattr(item, "__qualname__")}
    found = {}
    for name, item in callables().items():
        owner = name.rpartition(".")[0]
        if {f"simplexdp.{name}", f"simplexdp.{owner}"} & homes and TAKES & set(inspect.signature(item).parameters):
            found[name] = item
    return found


def test_whoever_takes_private_values_is_discreet() -> None:
    for name, item in doors().items():
        if name not in OTHERWISE and name.rpartition(".")[2] not in BEHIND:
            door = item.__init__ if inspect.isclass(item) else item
            assert hasattr(door, "__wrapped__"), f"{name} lets its frames out with an error: make it discreet"
    assert {
        "pipeline.release",
        "private.counting.passes.count",
        "ledger.ledger.Ledger.register",
        "private.tables.CountTable",
    } <= {*doors()}


# -- the helper itself -----------------------------------------------------------------------------------------------


@discreet
def refuses(rows: list[str]) -> None:
    """Refuses.

    >>> refuses.__name__
    'refuses'
    """
    try:
        int(rows[0])
    except ValueError as error:
        failure = SourceError("the rows could not be read")
        failure.add_note(f"the row is {rows[0]}")
        raise failure from error


@discreet
def refuses_later(rows: list[str]) -> Iterator[str]:
    yield "first"
    refuses(rows)


def test_nothing_but_the_message_leaves() -> None:
    for act in (lambda: refuses([CANARY]), lambda: list(refuses_later([CANARY]))):
        with pytest.raises(SourceError, match="could not be read") as caught:
            act()
        error = caught.value
        assert (error.__context__, error.__cause__, getattr(error, "__notes__", [])) == (None, None, [])
        frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)][2:]
        assert frames
        assert not [value for frame in frames for value in frame.f_locals.values() if CANARY in repr(value)]


def test_the_error_of_the_caller_stays_its_context() -> None:
    def in_a_handler() -> None:
        try:
            raise KeyError("mine")
        except KeyError:
            refuses([CANARY])

    with pytest.raises(SourceError) as caught:
        in_a_handler()
    assert isinstance(caught.value.__context__, KeyError)
    assert not caught.value.__suppress_context__


def test_who_may_see_the_data_can_see_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SIMPLEXDP_DEBUG", "1")
    with pytest.raises(SourceError) as caught:
        refuses([CANARY])
    assert isinstance(caught.value.__cause__, ValueError)
    assert CANARY in "".join(said(caught.value))


def test_examples_of_discreet_functions_are_still_found() -> None:
    found = {
        test.name: len(test.examples)
        for test in doctest.DocTestFinder().find(sys.modules["simplexdp.private.counting.passes"])
    }
    assert found["simplexdp.private.counting.passes.count"] > 3
    assert inspect.signature(count).parameters["rows_per_person"].default is None
