"""Naive Bayes as SQL gives what the model gives, in DuckDB and in PostgreSQL."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest
import sqlglot

from simplexdp import Budget, Schema, fit_naive_bayes
from simplexdp.cli import run
from simplexdp.errors import InvalidArgument, SchemaError
from simplexdp.models.scoring_sql import prediction_sql
from simplexdp.naive_bayes import predict_batches

DAY = datetime.date
SCHEMA = Schema.given(
    {
        "columns": [
            {"name": 'it\'s "sex"', "values": ["f", "m", "o'x"], "other": "cell", "missing": "cell"},
            {"name": "age", "edges": [0, 18.1, 40, 65], "own": [-1], "outside": "nearest", "missing": "cell"},
            {"name": "amount", "edges": [0.1, 0.2, 5], "outside": "cell", "missing": "cell"},
            {"name": "smoker", "values": [False, True]},
            {"name": "visits", "values": [0, 1, 2], "other": "cell"},
            {"name": "born", "edges": [DAY(1950, 1, 1), DAY(1980, 6, 1), DAY(2020, 1, 1)], "outside": "cell"},
            {"name": "ill", "values": ["no", "yes"]},
        ]
    }
)


def rows(size: int = 900) -> Any:
    rng = np.random.default_rng(3)

    def draw(values: list[Any], kind: Any = None) -> Any:
        return pa.array([values[i] for i in rng.integers(0, len(values), size)], kind)

    return pa.table(
        {
            "id": pa.array(np.arange(size)),
            'it\'s "sex"': draw(["f", "m", "o'x", "?", None]),
            "age": draw([-1.0, -2.0, 0.0, 18.1, 18.0999, 39.9, 40.0, 65.0, 99.0, float("nan"), None]),
            "amount": draw([0.1, 0.2, 0.19999999999999998, 5.0, 5.1, 0.0, None]),
            "smoker": draw([False, True]),
            "visits": draw([0, 1, 2, 7], pa.int64()),
            "born": draw([DAY(1950, 1, 1), DAY(1980, 5, 31), DAY(1980, 6, 1), DAY(2020, 1, 1), DAY(2021, 1, 1)]),
            "ill": draw(["no", "yes"]),
        }
    )


@pytest.fixture(scope="module")
def model() -> Any:
    return fit_naive_bayes(rows(), SCHEMA, "ill", budget=Budget(epsilon=2, delta=1e-6), entropy=1)


def expected(model: Any, table: Any) -> Any:
    return np.concatenate(list(predict_batches(model, table.to_batches())))


def test_duckdb_gives_the_same_probabilities(model: Any) -> None:
    table = rows()
    connection = duckdb.connect()
    connection.register("patients", table)
    text = prediction_sql(model, "patients", keep=["id"])
    found = connection.execute(text.rstrip(";\n") + " ORDER BY id").fetchall()
    shares = np.array([row[2:] for row in found])
    np.testing.assert_allclose(shares, expected(model, table), rtol=0, atol=1e-9)
    assert [row[1] for row in found] == [("no", "yes")[i] for i in shares.argmax(axis=1)]
    assert len(np.unique(shares.round(6))) > 100


def test_postgresql_gives_the_same_probabilities(model: Any, postgres: str) -> None:
    import psycopg

    table = rows()
    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute("DROP TABLE IF EXISTS scored")
        connection.execute(
            'CREATE TABLE scored (id int, "it\'s ""sex""" text, age float8, amount float8, smoker boolean, '
            "visits int, born date, ill text)"
        )
        with connection.cursor() as cursor:
            marks = ", ".join(["%s"] * table.num_columns)
            cursor.executemany(
                f"INSERT INTO scored VALUES ({marks})", list(zip(*table.to_pydict().values(), strict=True))
            )
        text = prediction_sql(model, "public.scored", keep=["id"], dialect="postgres")
        found = connection.execute(text.rstrip(";\n") + " ORDER BY id").fetchall()
    np.testing.assert_allclose(np.array([row[2:] for row in found]), expected(model, table), rtol=0, atol=1e-9)


@pytest.mark.parametrize("dialect", ["duckdb", "postgres"])
def test_the_syntax_is_that_of_both(model: Any, dialect: Any) -> None:
    text = prediction_sql(model, "a.b", keep=["id"], dialect=dialect, unknown="ignore")
    (statement,) = sqlglot.parse(text, dialect=dialect, error_level=sqlglot.ErrorLevel.RAISE)
    assert [item.alias_or_name for item in statement.selects] == [
        "id",
        "prediction",
        "probability_no",
        "probability_yes",
    ]


def test_unknown_values_are_null_or_summed_out(model: Any) -> None:
    table = rows(2).set_column(5, "visits", pa.array([0, None])).set_column(4, "smoker", pa.array([True, None]))
    connection = duckdb.connect()
    connection.register("patients", table)
    null = connection.execute(prediction_sql(model, "patients")).fetchall()[1]
    assert null == (None, None, None)
    shares = connection.execute(prediction_sql(model, "patients", unknown="ignore")).fetchall()[1][1:]
    known = [name for name in model.features if name not in ("visits", "smoker")]
    codes = {name: [code] for name, code in zip(known, _codes(model, table.slice(1), known), strict=True)}
    codes = {name: np.array(code) for name, code in codes.items()}
    np.testing.assert_allclose(shares, model.predict_some("ill", codes, 1)[0], rtol=0, atol=1e-9)


def _codes(model: Any, table: Any, names: list[str]) -> list[int]:
    from simplexdp.private.counting import count

    return [int(count(table, model.schema, [(name,)])[0].private_counts().argmax()) for name in names]


def test_what_has_no_sql_is_refused(model: Any) -> None:
    with pytest.raises(InvalidArgument, match="dialect"):
        prediction_sql(model, "t", dialect="oracle")  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument, match="unknown"):
        prediction_sql(model, "t", unknown="drop")  # type: ignore[arg-type]
    trimmed = Schema.of(x=["a", "b"], y=["n", "j"]).replace(
        Schema.given({"columns": [{"name": "x", "values": ["a", "b"], "transform": ["trim"]}]})["x"]
    )
    table = pa.table({"x": ["a", "b"] * 50, "y": ["n", "j"] * 50})
    other = fit_naive_bayes(table, trimmed, "y", budget=Budget(epsilon=1, delta=1e-6), entropy=1)
    with pytest.raises(SchemaError, match="transform"):
        prediction_sql(other, "t")


def test_the_command_writes_it(model: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model.write(tmp_path / "nb.json")
    asked = ["export", "sql", str(tmp_path / "nb.json"), "--table", "patients", "--keep", "id"]
    assert run(asked) == 0
    assert capsys.readouterr().out == prediction_sql(model, "patients", keep=["id"])
    assert run([*asked, "--out", str(tmp_path / "nb.sql")]) == 0
    assert (tmp_path / "nb.sql").read_text() == prediction_sql(model, "patients", keep=["id"])
    assert run([*asked, "--dialect", "oracle"]) == 2
