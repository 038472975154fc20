"""Random SQL, and what must hold of every statement that is accepted: one record changes one row of the result.

Accepted statements run in DuckDB and SQLite on a table, on the table with one row replaced, and without that row. What
runs is what the checker wrote out; engines that refuse it (a wrong type, a name that is not there) say nothing.
"""

from __future__ import annotations

import random
import sqlite3
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import duckdb

from simplexdp.private.counting.expressions import Verdict
from simplexdp.private.counting.statement import check

PEOPLE = (
    ("id", "INTEGER", (1, 2, 3, 4, 5, 6)),
    ("age", "INTEGER", (31, 17, None, 64, 31, 90)),
    ("sex", "VARCHAR", ("f", "m", "m", None, "f", "x")),
    ("region", "VARCHAR", ("north", "south", "north", "east", "", "south")),
    ("income", "DOUBLE", (1000.0, 0.0, 250.5, None, 9e9, -1.0)),
    ("ill", "INTEGER", (0, 1, 1, 0, None, 1)),
    ("notes", "VARCHAR", ("a,b", "", None, "x y", "A", "nörd")),
    ("birth_date", "DATE", ("1990-01-01", "2005-06-30", "1971-12-31", None, "1990-01-01", "1931-02-28")),
)
OTHER: tuple[Any, ...] = (7, 55, "m", "west", 77.25, 1, "zz,top", "1968-08-08")
"""What takes the place of a row."""
_MOVING = ("now", "current_timestamp", "current_time", "localtime", "localtimestamp", "get_current_timestamp")

Rows = Sequence[tuple[Any, ...]]


def violation(verdict: Verdict, dialect: str, place: int) -> str | None:
    """What one record changes beyond one row of the result, or None; `place` is the row replaced or left out."""
    if any(name in verdict.sql.lower() for name in _MOVING):
        return None
    rows = [list(row) for row in zip(*(values for _, _, values in PEOPLE), strict=True)]
    replaced, fewer = [*rows], [*rows]
    replaced[place] = list(OTHER)
    del fewer[place]
    tables = (rows, replaced, fewer)
    if verdict.cuts:
        tables = (rows, replaced, [*rows])  # which rows come first is up to the engine
    results = [run(verdict.sql, dialect, table) for table in tables]
    if any(result is None for result in results):
        return None
    before, after, less = (Counter(map(repr, result or ())) for result in results)
    if (before - after).total() > 1 or (after - before).total() > 1:
        return "a replaced row changes more than one row"
    if not verdict.selects and before.total() != after.total():
        return "a replaced row changes the number of rows, and the statement is said not to select"
    if "add-remove" in verdict.relations and ((before - less).total() > 1 or (less - before).total()):
        return "without a row more than one row changes"
    return None


def run(sql: str, dialect: str, rows: Sequence[Sequence[Any]]) -> Rows | None:
    """The rows of the statement over these people, or None if the engine refuses it."""
    try:
        return list(_connection(dialect, tuple(map(tuple, rows))).execute(sql).fetchall())
    except (duckdb.Error, sqlite3.Error, OverflowError, ValueError):
        return None


@lru_cache(maxsize=64)
def _connection(dialect: str, rows: tuple[tuple[Any, ...], ...]) -> Any:
    connection: Any = sqlite3.connect(":memory:") if dialect == "sqlite" else duckdb.connect(config={"threads": 1})
    connection.execute(_create())
    connection.executemany(f"INSERT INTO people VALUES ({', '.join('?' * len(PEOPLE))})", rows)
    if dialect == "duckdb":
        connection.execute("SET enable_external_access = false")  # statements are hostile
    return connection


def _create() -> str:
    return f"CREATE TABLE people ({', '.join(f'{name} {kind}' for name, kind, _ in PEOPLE)})"


def try_statement(sql: str) -> tuple[int, str | None]:
    """In how many dialects it is accepted and runs, and the first violation."""
    accepted = 0
    for dialect in ("duckdb", "sqlite"):
        verdict = check(sql, dialect)
        if verdict.problem is not None:
            continue
        accepted += 1
        for place in (0, 3, 5):
            found = violation(verdict, dialect, place)
            if found is not None:
                return accepted, f"{dialect}: {found}: {verdict.sql}"
    return accepted, None


# -- statements of a grammar -------------------------------------------------------------------------------------------

_COLUMNS = [name for name, _, _ in PEOPLE]
_SCALARS = (
    "abs({n})", "upper({t})", "lower({t})", "coalesce({n}, 0)", "nullif({n}, {n})", "round({n}, 1)", "length({t})",
    "substr({t}, 1, 2)", "cast({n} as varchar)", "{n} + {n}", "{n} % 7", "-{n}", "{t} || {t}", "{t} like '%o%'",
    "case when {c} then {n} else {n} end", "{n} between 1 and 50", "{t} in ('f', 'north')", "{n} is null", "not ({c})",
    "max({n}, {n})", "min({n}, 3)", "iif({c}, 1, 2)", "strftime('%Y', birth_date)", "date_trunc('month', birth_date)",
    "extract(year from birth_date)", "typeof({t})", "hex({t})", "instr({t}, 'o')", "replace({t}, 'o', {t})",
    "list_sum([{n}, {n}])", "list_transform([{n}], x -> x + 1)", "greatest({n}, {n})", "{t}[1]", "({n}, {t})",
    "people.age", "struct_pack(a := {n}).a", "columns('a.*')", "round(random(), 0)", "sum({n})", "count(*)",
    "max({n})", "avg({n}) over ()", "row_number() over (order by id)", "rowid", "(select max(age) from people)",
    "lag({n}) over (order by id)", "unnest([{n}, {n}])", "first({n})", "list({n})", "total({n})", "any_value({t})",
    "exists (select 1 from people p where p.age > people.age)", "count({n}) filter (where {c})",
    "generate_series(1, {n})",
    "nextval('s')", "mode({t})", "string_agg({t}, ',')", "group_concat({t})", "{n} > all (select age from people)",
)  # fmt: skip
_CONDITIONS = (
    "{n} > 20", "{t} = 'f'", "{n} is not null", "{c} and {c}", "{c} or {c}", "{n} in (1, 31, 64)",
    "{n} in (select id from people)", "{t} glob '*o*'", "{t} is not {t}", "{n} = (select max(age) from people)",
    "age < random()", "ill in people", "true",
)  # fmt: skip
_TABLES = (
    "people", "people", "people", "people as people", "main.people", "({q})", "({q}) as people", "people, people p",
    "people join people p using (id)", "people cross join people p", "people tablesample 50%",
    "people natural join people p",
    "(values (1, 2)) people(age, id)", "range(3)", "people positional join people p", "query('{q}')", "people p",
)  # fmt: skip
_ENDS = (
    "", "", "", "", " order by id", " order by age, id limit 3", " limit 2", " order by id desc limit 2 offset 1",
    " limit (select 2)", " group by all", " having true", " order by id fetch first 2 rows only", " using sample 2",
    " union all select age, sex from people", " union select 1", " except select 1", " qualify true", " limit 50%",
    " order by random() limit 2", " offset 1", " limit all", " window w as (order by id)",
)  # fmt: skip


def statement(rng: random.Random, depth: int = 2) -> str:
    """A random SELECT; about one in three has only pieces of one row."""
    tame = rng.random() < 0.4
    items = ", ".join(
        f"{_expression(rng, depth, tame=tame)} as x{i}" if rng.random() < 0.6 else rng.choice([*_COLUMNS, "*"])
        for i in range(rng.randint(1, 3))
    )
    table = rng.choice(_TABLES[:5] if tame else _TABLES)
    if "{q}" in table:
        table = table.replace("{q}", statement(rng, depth - 1) if depth else "select * from people")
    where = f" where {_condition(rng, depth, tame=tame)}" if rng.random() < 0.5 else ""
    text = (
        f"select {'distinct ' if not tame and rng.random() < 0.1 else ''}{items} from {table}{where}{rng.choice(_ENDS)}"
    )
    if rng.random() < 0.15:
        text = (
            f"with people as (select * from people) {text}"
            if rng.random() < 0.5
            else f"with c as ({text}) select * from c"
        )
    if rng.random() < 0.15:
        text = text.replace(" ", rng.choice(["/**/", "\n", " -- x\n", "/* /* */ */", "\t"]), rng.randint(1, 3))
    return text


def _expression(rng: random.Random, depth: int, *, tame: bool) -> str:
    return _filled(rng, rng.choice(_SCALARS[:34] if tame else _SCALARS), depth, tame=tame)


def _condition(rng: random.Random, depth: int, *, tame: bool) -> str:
    return _filled(rng, rng.choice(_CONDITIONS[:6] if tame else _CONDITIONS), depth, tame=tame)


def _filled(rng: random.Random, text: str, depth: int, *, tame: bool) -> str:
    while (found := text.find("{")) >= 0 and text[found : found + 3] in ("{n}", "{t}", "{c}"):
        kind = text[found + 1]
        plain = {
            "n": rng.choice(["age", "income", "id", "ill", "3"]),
            "t": rng.choice(["sex", "region", "notes", "'o'"]),
        }
        if kind == "c":
            new = "age > 20" if not depth else _condition(rng, depth - 1, tame=tame)
        elif depth and rng.random() < 0.3:
            new = _expression(rng, depth - 1, tame=tame)
        else:
            new = plain[kind]
        text = text[:found] + new + text[found + 3 :]
    return text
