"""What the names of a statement are where it runs: tables, views, macros, functions, files. Views are written out.

DuckDB's own parser has a second look at what will run, under the same rule: each node and function must be known.
PostgreSQL's plan is looked at; there and in SQLite tables must be plain, and functions those that came with the engine.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...errors import PrivacyError
from .expressions import ROW_WISE, NotUnderstood, Verdict, refusal, shortened, words
from .statement import check, parse

Run = Callable[[str], list[tuple[Any, ...]]]
"""Runs a statement on the connection and gives its rows."""

_MOST_VIEWS = 50
_NAME = r'(?:"(?:[^"]|"")*"|\w+)'
_ARROW_SCAN = re.compile(
    rf"CREATE (?:TEMP(?:ORARY)? )?VIEW {_NAME}(?:\.{_NAME})* AS SELECT \* FROM (?:python_)?arrow_scan\w*\([\d, ]*\)"
    rf"(?: AS {_NAME})?;?\s*",
    re.IGNORECASE,
)
_PANDAS_SCAN = re.compile(r"\bAS SELECT \* FROM pandas_scan\(", re.IGNORECASE)
OBJECTS = (
    "DuckDB guesses the types of its columns of objects from all values. Register an Arrow table "
    "(pyarrow.Table.from_pandas(frame)), or count the frame itself."
)
_CLASSES = frozenset(
    words(
        "FUNCTION COLUMN_REF CONSTANT COMPARISON CONJUNCTION OPERATOR CAST CASE BETWEEN STAR LAMBDA LAMBDA_REF "
        "COLLATE TYPE"
    )
)
_TABLES = frozenset(words("BASE_TABLE SUBQUERY TABLE_FUNCTION EMPTY EXPRESSION_LIST EMPTY_FROM"))
_NODES = frozenset(words("SELECT_NODE SET_OPERATION_NODE CTE_NODE"))
_MODIFIERS = frozenset(words("LIMIT_MODIFIER ORDER_MODIFIER"))


def resolve(sql: str, run: Run, what: str, own: str = "") -> Verdict:
    """The verdict on a statement with its views written out, its functions and its files looked up.

    Args:
        sql: the statement.
        run: asks the connection.
        what: names the source in errors.
        own: the beginning of names that stand for Python objects inside a relation.

    Raises:
        PrivacyError: something is not understood.
    """
    verdict = understood(check(sql, "duckdb"), what)
    try:
        read_alike(sql, verdict, run)
        for _ in range(_MOST_VIEWS):
            views = {name: text for name in verdict.tables if (text := _view(name, run, own)) is not None}
            if not views:
                break
            verdict = check(_written_out(verdict.sql, views), "duckdb")
            if verdict.problem is not None:
                raise NotUnderstood(f"{verdict.problem} in the view {shortened(next(iter(views)))}", verdict.hint)
        else:
            raise NotUnderstood("too many views of views")
        names = verdict.called | _second_look(verdict.sql, run).called
        made = {
            str(row[0]).lower()
            for row in run("SELECT DISTINCT function_name FROM duckdb_functions() WHERE NOT internal")
        }
        # DuckDB calls more than a text shows: x[1], IN and || are functions to it, and so is 'rows.parquet'.
        own_names = {
            str(row[0]).lower() for row in run("SELECT DISTINCT function_name FROM duckdb_functions() WHERE internal")
        }
        if shadows := made & (names | own_names):
            raise NotUnderstood(f"the function or macro {sorted(shadows)[0]}, which was defined on the connection")
        for file in verdict.files:
            if run(
                "SELECT 1 FROM (SELECT table_name AS name FROM duckdb_tables() UNION ALL SELECT view_name "
                f"FROM duckdb_views()) WHERE lower(name) = lower({literal(file)})"
            ):
                raise NotUnderstood(f"the file {shortened(file)}, which is also the name of a table or view")
        if verdict.cuts and str(run("SELECT current_setting('preserve_insertion_order')")[0][0]).lower() != "true":
            raise NotUnderstood("a LIMIT or OFFSET where DuckDB does not keep the order (preserve_insertion_order)")
        types = {str(row[0]).lower() for row in run("SELECT DISTINCT type_name FROM duckdb_types() WHERE NOT internal")}
        if types & set(re.findall(r"\w+", verdict.sql.lower())):
            raise NotUnderstood("a type that was defined on the connection")
        check_files(verdict, lambda pattern: [row[0] for row in run(f"SELECT file FROM glob({literal(pattern)})")])
    except NotUnderstood as refused:
        raise refusal(what, refused) from None
    return verdict


def understood(verdict: Verdict, what: str) -> Verdict:
    """The verdict, or the refusal of what is not understood."""
    if verdict.problem is not None:
        raise refusal(what, NotUnderstood(verdict.problem, verdict.hint))
    return verdict


def literal(text: str) -> str:
    """A text as SQL writes it."""
    return "'" + text.replace("'", "''") + "'"


def check_files(verdict: Verdict, matches: Callable[[str], Sequence[str]]) -> None:
    """Refuse files that are read twice under two names, and folders whose columns get a guessed type."""
    seen: set[tuple[int, int]] = set()
    folders: set[tuple[str, ...]] = set()
    for pattern in verdict.files:
        if "://" in pattern:
            continue
        for path in matches(pattern):
            folders.add(tuple(part for part in Path(path).parts[:-1] if "=" in part))
            try:
                found = os.stat(path)  # noqa: PTH116
            except OSError:
                continue  # the engine tells
            if (found.st_dev, found.st_ino) in seen:
                raise NotUnderstood(f"the file {shortened(path)} under two names")
            seen.add((found.st_dev, found.st_ino))
    if verdict.guesses_folders and len(folders) > 1:
        raise NotUnderstood(
            "folders such as year=2024, whose columns get a type that is guessed from all of them",
            "Say read_parquet(..., hive_types_autocast=false) or hive_types={...}.",
        )


def _view(name: str, run: Run, own: str) -> str | None:
    """The statement of a view, or None for a table."""
    from sqlglot import exp

    table = exp.to_table(name, dialect="duckdb")
    where = f"lower(name) = {literal(table.name.lower())}"
    for part in (table.db, table.catalog):
        if part:
            where += f" AND {literal(part.lower())} IN (lower(schema_name), lower(o.database_name))"
    found = run(
        "SELECT o.sql, d.type FROM (SELECT database_name, schema_name, table_name AS name, NULL AS sql "
        "FROM duckdb_tables() UNION ALL SELECT database_name, schema_name, view_name, sql FROM duckdb_views()) AS o "
        f"JOIN duckdb_databases() AS d ON d.database_name = o.database_name WHERE {where}"
    )
    views = [sql for sql, _ in found if sql is not None]
    if not found and own and not table.db and table.name.startswith(own):
        return None
    if not found:
        raise PrivacyError(
            f"no table or view of the connection is called {shortened(name)}. A Python variable must be registered: "
            "connection.register(name, table)."
        )
    if any(kind != "duckdb" for _, kind in found):
        raise NotUnderstood(f"{shortened(name)} of another database, where it may be a view")
    if not views or all(_ARROW_SCAN.fullmatch(sql) for sql in views):
        return None
    if len(found) > 1:
        raise NotUnderstood(f"{shortened(name)}, which is the name of several tables and views")
    if _PANDAS_SCAN.search(views[0]):
        raise NotUnderstood(f"{shortened(name)}, a pandas frame", OBJECTS)
    return str(views[0])


def _written_out(sql: str, views: dict[str, str]) -> str:
    """The statement with views replaced by what they stand for."""
    from sqlglot import exp

    tree = parse(sql, "duckdb")
    common = {each.alias.lower() for each in tree.find_all(exp.CTE)}
    for table in list(tree.find_all(exp.Table)):
        text = views.get(".".join(part.sql(dialect="duckdb") for part in table.parts))
        if text is None:
            continue
        made = parse(text, "duckdb")
        body = made.expression if isinstance(made, exp.Create) else None
        if not isinstance(body, exp.Query):
            raise NotUnderstood(f"the view {shortened(table.name)}")
        inside = {each.name.lower() for each in body.find_all(exp.Table)}
        if common & (inside | {table.name.lower()}):
            raise NotUnderstood(f"the view {shortened(table.name)} beside a common table of the same name")
        alias = table.args.get("alias") or exp.TableAlias(this=exp.to_identifier(table.name, quoted=True))
        names = made.this.expressions if isinstance(made.this, exp.Schema) else []
        if names and not alias.args.get("columns"):
            alias.set("columns", [exp.to_identifier(each.name, quoted=True) for each in names])
        table.replace(exp.Subquery(this=body, alias=alias))
    return str(tree.sql(dialect="duckdb", comments=False))


@dataclass(frozen=True, kw_only=True)
class _Look:
    """A statement as DuckDB's own parser reads it."""

    called: frozenset[str]
    tables: tuple[str, ...]
    selects: bool
    cuts: bool


def read_alike(sql: str, verdict: Verdict, run: Run) -> None:
    """Refuse a text that DuckDB reads as another statement: relations run as they are, queries mean what they say."""
    looks = [_second_look(text, run) for text in (sql, verdict.sql)]
    if len({(look.tables, look.selects, look.cuts) for look in looks}) > 1:
        raise NotUnderstood("a part that DuckDB reads in another way than this library")


def _second_look(sql: str, run: Run) -> _Look:
    """DuckDB's reading of a statement; refuses what is not in the allow-list there either."""
    found = json.loads(run(f"SELECT json_serialize_sql({literal(sql)})")[0][0])
    if found.get("error") or len(found.get("statements", [])) != 1:
        raise NotUnderstood("a part that DuckDB's parser does not read as one SELECT")
    names, tables, selects, cuts = set(), [], False, False
    for each in _objects(found["statements"][0]["node"]):
        kind = str(each.get("type", ""))
        known = (
            each["class"] in _CLASSES
            if "class" in each
            else kind in _NODES | _TABLES | _MODIFIERS
            or not kind.endswith(("_NODE", "_MODIFIER", "_TABLE", "_FUNCTION"))
        )
        known &= all(not each.get(name) for name in ("sample", "qualify", "having", "group_expressions", "filter"))
        known &= not (
            kind == "SET_OPERATION_NODE"
            and (each.get("setop_type") not in ("UNION", "UNION_BY_NAME") or not each.get("setop_all"))
        )
        known &= kind not in ("JOIN", "PIVOT", "SHOW_REF", "DELIM_GET", "RECURSIVE_CTE_NODE")
        if not known:
            raise NotUnderstood(f"what DuckDB's parser calls {each.get('class') or kind}")
        tables += [str(each["table_name"])] if kind == "BASE_TABLE" else []
        selects |= bool(each.get("where_clause"))
        cuts |= kind == "LIMIT_MODIFIER"
        if each.get("class") == "FUNCTION":
            names.add(str(each["function_name"]).lower())
    for name in names:
        if name not in ROW_WISE["duckdb"] and any(letter.isalnum() for letter in name):
            raise NotUnderstood(f"the function {shortened(name)}, which is not known to be one of its row alone")
    return _Look(called=frozenset(names), tables=tuple(sorted(tables)), selects=selects, cuts=cuts)


def _objects(value: Any) -> Iterator[dict[str, Any]]:
    waiting = [value]
    while waiting:
        each = waiting.pop()
        if isinstance(each, dict):
            yield each
            waiting += each.values()
        elif isinstance(each, list):
            waiting += each


# -- PostgreSQL and SQLite ---------------------------------------------------------------------------------------------


_SCANS = [
    "Result",
    "Append",
    "Merge Append",
    "Seq Scan",
    "Index Scan",
    "Index Only Scan",
    "Bitmap Index Scan",
    "Bitmap Heap Scan",
    "BitmapAnd",
    "BitmapOr",
    "Subquery Scan",
    "Values Scan",
    "CTE Scan",
    "Sort",
    "Incremental Sort",
    "Limit",
    "Gather",
    "Gather Merge",
    "Materialize",
]
_SCANS_IN_PLACE = ("Result", "Append", "Seq Scan", "Subquery Scan", "Values Scan", "CTE Scan", "Limit")
"""What gives rows in the order of the table whatever is in them, so that a LIMIT takes the same places."""
_UNSEEN = frozenset(["=", "<>", "<", ">", "<=", ">=", "~~", "!~~", "~~*", "!~~*", "~", "!~", "~*", "!~*"])
"""Operators that IN, BETWEEN, CASE, LIKE, IS DISTINCT FROM, NULLIF and others call."""
_CLOCK = frozenset(["date", "time", "datetime", "julianday", "unixepoch", "strftime", "timediff"])
_OWN = "NOT EXISTS (SELECT 1 FROM pg_catalog.pg_depend d WHERE d.objid = {} AND d.deptype = 'e')"


def check_postgres(verdict: Verdict, run: Run) -> None:
    """Refuse views, foreign tables, row security, and functions, operators and casts that users made."""
    if run("SELECT pg_catalog.current_setting('standard_conforming_strings')")[0][0] != "on":
        raise NotUnderstood("a connection that reads backslashes in texts (standard_conforming_strings is off)")
    for table in verdict.tables:
        found = run(
            "SELECT c.relkind::text, c.relrowsecurity, n.nspname::text, EXISTS (WITH RECURSIVE below(id) AS ("
            "SELECT c.oid UNION SELECT i.inhrelid FROM pg_catalog.pg_inherits i JOIN below ON i.inhparent = below.id) "
            "SELECT 1 FROM below JOIN pg_catalog.pg_class f ON f.oid = below.id WHERE f.relkind NOT IN ('r', 'p')) "
            "FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace "
            f"WHERE c.oid = pg_catalog.to_regclass({literal(table)})"
        )
        if not found:
            raise NotUnderstood(f"{shortened(table)}, which the database does not know")
        kind, secured, schema, foreign = found[0]
        if kind not in ("r", "p") or foreign:
            raise NotUnderstood(f"{shortened(table)}, which is no plain table (a view, or rows of elsewhere)")
        if secured:
            raise NotUnderstood(f"{shortened(table)}, whose row security may look at other rows")
        if schema in ("pg_catalog", "information_schema"):
            raise NotUnderstood(f"the catalogue {shortened(table)}, whose rows tell of whole tables")
    user = f"pronamespace <> 'pg_catalog'::pg_catalog.regnamespace AND {_OWN.format('p.oid')}"
    made = {str(row[0]) for row in run(f"SELECT proname::text FROM pg_catalog.pg_proc p WHERE {user}")}
    # A name after a dot may be a call with the row; an extension's function too.
    outside = {
        str(row[0])
        for row in run(
            "SELECT proname::text FROM pg_catalog.pg_proc WHERE pronamespace <> 'pg_catalog'::pg_catalog.regnamespace"
        )
    }
    own = ({name.lower() for name in made} & verdict.called) | (
        {name.lower() for name in outside} & {name.lower() for name in verdict.fields}
    )
    if own:
        raise NotUnderstood(f"the function {sorted(own)[0]}, which was defined in the database")
    operators = {
        str(row[0])
        for row in run(
            "SELECT oprname::text FROM pg_catalog.pg_operator o "
            f"WHERE oprnamespace <> 'pg_catalog'::pg_catalog.regnamespace AND {_OWN.format('o.oid')}"
        )
    }
    if any(each in verdict.sql or each in _UNSEEN for each in operators):
        raise NotUnderstood("an operator that was defined in the database")
    casts = run(
        "SELECT 1 FROM pg_catalog.pg_cast k JOIN pg_catalog.pg_proc p ON p.oid = k.castfunc "
        f"WHERE {user} AND {_OWN.format('k.oid')}"
    )
    if casts:
        raise NotUnderstood("casts that were defined in the database")
    plan = run(f"EXPLAIN (FORMAT JSON, COSTS FALSE) {verdict.sql}")[0][0]
    _check_plan(plan, _SCANS_IN_PLACE if verdict.cuts else _SCANS)


def _check_plan(plan: Any, known: Sequence[str]) -> None:
    """PostgreSQL's own plan, as a second look."""
    import json

    waiting = [json.loads(plan) if isinstance(plan, str) else plan]
    while waiting:
        each = waiting.pop()
        if isinstance(each, list):
            waiting += each
        elif isinstance(each, dict):
            waiting += each.values()
            kind = each.get("Node Type")
            if kind is not None and (kind not in known or each.get("Parent Relationship") in ("SubPlan",)):
                raise NotUnderstood(f"what PostgreSQL plans as {kind}")


def check_sqlite(verdict: Verdict, run: Run) -> str:
    """Refuse views, virtual tables, functions and collations that a program defined; give what is to run.

    SQLite looks at the clock again for each row that it gives ('now' may also come out of a column). A common table
    that is filled first gives all rows at once, so that no row can delay those after it.
    """
    from sqlglot import exp

    known = run("PRAGMA table_list")
    functions = {str(row[0]).lower() for row in run("PRAGMA function_list") if not row[1]}
    collations = {str(row[1]).lower() for row in run("PRAGMA collation_list")} - {"binary", "nocase", "rtrim"}
    for text in verdict.tables:
        table = exp.to_table(text, dialect="sqlite")
        found = [
            row
            for row in known
            if str(row[1]).lower() == table.name.lower() and table.db.lower() in ("", str(row[0]).lower())
        ]
        if not found or any(row[2] != "table" for row in found):
            raise NotUnderstood(f"{shortened(text)}, which is no plain table")
        mine = [name for name in collations if name in _text_of_table(found, run)]
        if mine:
            raise NotUnderstood(f"the collation {shortened(mine[0])}, which was defined on the connection")
        generated = any(row[6] in (2, 3) for row in run(f"PRAGMA table_xinfo({literal(table.name)})"))
        if functions and generated:
            raise NotUnderstood(f"{shortened(text)}, which has computed columns beside functions of the program")
    own = functions & (verdict.called | {"like", "glob", "->", "->>"})
    if own:
        raise NotUnderstood(f"the function {sorted(own)[0]}, which was defined on the connection")
    if verdict.called & _CLOCK:
        return f"WITH simplexdp_once AS MATERIALIZED ({verdict.sql}) SELECT * FROM simplexdp_once"
    return verdict.sql


def _text_of_table(found: list[tuple[Any, ...]], run: Run) -> str:
    """The statements that made the tables, in lower case."""
    texts = [
        str(text).lower()
        for schema, name, *_ in found
        for (text,) in run(
            f'SELECT sql FROM "{str(schema).replace(chr(34), chr(34) * 2)}".sqlite_master '
            f"WHERE lower(name) = lower({literal(str(name))})"
        )
    ]
    return " ".join(texts)
