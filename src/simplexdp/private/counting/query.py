"""`Query`, a statement and where to run it, `OneRecordPerRow`, what a curator declares of any other source, and `seen`,
what is known of a source before it is read, which refuses what may mix records.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, get_args

from ...budget import Neighbours
from ...errors import InvalidArgument, PrivacyError, SourceError
from .expressions import QUERY, NotUnderstood, Verdict, refusal, relations, shortened
from .names import OBJECTS, Run, check_files, check_postgres, check_sqlite, resolve, understood
from .source import Tabled, engine_errors
from .statement import DIALECTS, check

ONE_RECORD = "the curator declares that each row of this {} comes from one record"
PUBLIC_SIZE = "the curator declares that the number of rows of this {} is public"
# Words that cannot be hidden: a letter or _ before or after makes another word, and nothing else does.
_CUTS = re.compile(
    r"(?<![a-z_])(?:(?:limit|offset|top|fetch|sample|tablesample)(?![a-z_])|distinct(?![a-z_]).*(?<![a-z_])on(?![a-z_]))",
    re.IGNORECASE | re.DOTALL,
)


@dataclass(frozen=True)
class Query:
    """A SELECT and where to run it. Each row of the result must be a function of one row of one table.

    Args:
        sql: the statement; select only the columns that are needed.
        connection: a PostgreSQL URI, an ADBC or other DB-API connection, a DuckDB connection, a Spark session, or
            None for DuckDB in memory (where `SELECT ... FROM 'rows/*.parquet'` reads files).
        public_size: declares that the number of rows it gives is public although it may select among them. Under
            replace-one that number is published, so a query that selects is refused without this.
        one_record_per_row: declares that each row comes from one record, for statements where that cannot be seen:
            whether a row is there, and what is in it, depends on that record alone.
        dialect: "duckdb", "postgres", "sqlite" or "spark", where the connection does not tell.

    >>> Query("SELECT * FROM 'rows.parquet' WHERE age < 90").may_select
    True
    """

    sql: str
    connection: Any = None
    public_size: bool = False
    one_record_per_row: bool = False
    dialect: str | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.sql, str):
            raise InvalidArgument("sql", "a text", got=type(self.sql).__name__)
        if self.dialect is not None and self.dialect not in DIALECTS:
            raise InvalidArgument("dialect", "one of " + ", ".join(DIALECTS), got=self.dialect)

    def __repr__(self) -> str:
        return f"Query({self.sql!r})"  # a URI may hold a password

    @property
    def language(self) -> str | None:
        """The dialect of the connection, or None for a driver that this library does not know."""
        root = type(self.connection).__module__.partition(".")[0]
        if self.connection is None or root in ("duckdb", "_duckdb"):
            return "duckdb"
        if isinstance(self.connection, str) or root in ("psycopg", "psycopg2"):
            return "postgres"
        if root == "adbc_driver_manager":
            return "postgres" if "postgres" in _vendor(self.connection) else self.dialect
        return {"sqlite3": "sqlite", "pyspark": "spark"}.get(root, self.dialect)

    @property
    def verdict(self) -> Verdict:
        """What the statement does, told from its text alone."""
        if self.language is None:
            return Verdict(problem="a connection whose tables cannot be told from views")
        return check(self.sql, self.language)

    @property
    def relations(self) -> frozenset[Neighbours]:
        """The neighbours that what it counts may be released under; none without the declaration that it needs."""
        if self.verdict.problem is not None and not self.one_record_per_row:
            return frozenset()
        return relations(self.may_select and not self.public_size, self.may_cut)

    @property
    def may_select(self) -> bool:
        """Whether one record may change the number of rows; so it is taken to be where that cannot be seen."""
        verdict = self.verdict
        return verdict.selects or verdict.problem is not None

    @property
    def may_cut(self) -> bool:
        """Whether it may end after a number of rows, so that without one record another moves up."""
        verdict = self.verdict
        return verdict.cuts if verdict.problem is None else _CUTS.search(self.sql) is not None

    @property
    def declarations(self) -> tuple[str, ...]:
        """What the curator declares, for the certificate."""
        return _declared("query", self.one_record_per_row, self.public_size)


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """A statement as it runs: written out from what was understood, or as it was declared."""

    sql: str
    connection: Any


@dataclass(frozen=True)
class OneRecordPerRow:
    """A source of which the curator declares that each row comes from one record.

    Whether a row is there, and what is in it, depends on that record alone: no aggregate, window, join, head or sample
    of fixed size made it. Needed for cursors, and for lazy frames and relations whose plan does not show it.

    Args:
        source: a source of `count`.
        public_size: declares that the number of rows is public, which replace-one needs here.
    """

    source: Any
    public_size: bool = False

    def __post_init__(self) -> None:
        if isinstance(self.source, (Query, OneRecordPerRow)):
            raise InvalidArgument("source", "no Query, which has one_record_per_row of its own")

    @property
    def declarations(self) -> tuple[str, ...]:
        """What the curator declares, for the certificate."""
        return _declared("source", True, self.public_size)


def _declared(what: str, one_record: bool, public_size: bool) -> tuple[str, ...]:
    said = [(ONE_RECORD, one_record), (PUBLIC_SIZE, public_size)]
    return tuple(text.format(what) for text, given in said if given)


def _vendor(connection: Any) -> str:
    try:
        return str(connection.adbc_get_info().get("vendor_name", "")).lower()
    except Exception:
        return ""


# -- what is known of a source -----------------------------------------------------------------------------------------


_OWN_NAMES = "__duckdb_source_"
EVERY: frozenset[Neighbours] = frozenset(get_args(Neighbours))


@dataclass(frozen=True, kw_only=True)
class Seen:
    """What is known of a source.

    Args:
        relations: the neighbours that what is counted may be released under.
        declarations: what the curator declares of it, for the certificate.
        source: what to read: a query as it was understood, a source without the declaration about it.
    """

    source: Any

    relations: frozenset[Neighbours] = EVERY
    declarations: tuple[str, ...] = ()


def seen(source: Any) -> Seen:
    """Look at a statement or a plan; no row is read.

    Raises:
        PrivacyError: a row may depend on more than one record, and nobody declares that it does not.
    """
    if isinstance(source, Query):
        return _seen_query(source)
    if isinstance(source, OneRecordPerRow):
        return _seen_declared(source)
    if isinstance(source, Tabled):
        return Seen(source=source, relations=source.relations, declarations=source.declarations)
    what, looked = _plan_of(source)
    if looked is None:
        return Seen(source=source)
    try:
        verdict = looked()
    except NotUnderstood as refused:
        raise refusal(what, refused) from None
    return Seen(source=source, relations=relations(verdict.selects, verdict.cuts))


def readable(source: Any) -> Any:
    """What to read. Rows that are only scored need no check, so a query that is not understood runs as it is."""
    if isinstance(source, OneRecordPerRow):
        return source.source
    if not isinstance(source, Query):
        return source
    try:
        return seen(source).source
    except PrivacyError:
        return _prepared(source, source.sql)


def _prepared(query: Query, sql: str) -> Any:
    if query.language == "spark" and hasattr(query.connection, "sql"):
        with engine_errors("the query could not be analysed", "Spark refused it."):
            return query.connection.sql(sql)
    return Prepared(sql=sql, connection=query.connection)


def _seen_declared(source: OneRecordPerRow) -> Seen:
    _, looked = _plan_of(source.source)
    verdict = Verdict()
    if looked is not None:
        try:
            verdict = looked()
        except (NotUnderstood, PrivacyError):
            verdict = Verdict(selects=True)
    return Seen(
        source=source.source,
        relations=relations(verdict.selects and not source.public_size, verdict.cuts),
        declarations=source.declarations,
    )


def _seen_query(query: Query) -> Seen:
    try:
        verdict = _on_connection(query)
    except (NotUnderstood, PrivacyError) as refused:
        if not query.one_record_per_row:
            if isinstance(refused, PrivacyError):
                raise
            raise refusal(QUERY, refused) from None
        # Nothing is known of a declared statement, so its number of rows may be private.
        verdict = Verdict(sql=query.sql, selects=True, cuts=query.may_cut)
    return Seen(
        source=_prepared(query, verdict.sql),
        relations=relations(verdict.selects and not query.public_size, verdict.cuts),
        declarations=query.declarations,
    )


def _on_connection(query: Query) -> Verdict:
    """The verdict on a statement with its names looked up where it will run."""
    connection, language = query.connection, query.language
    if not (connection is None or isinstance(connection, str) or hasattr(connection, "cursor") or language == "spark"):
        raise SourceError(
            f"the connection of a Query is of type {type(connection).__name__}; it must be "
            "a URI, a DB-API connection, a DuckDB connection or a Spark session."
        )
    verdict = understood(query.verdict, QUERY)
    root = type(connection).__module__.partition(".")[0]
    if language == "duckdb" and (connection is None or root in ("duckdb", "_duckdb")):
        if connection is not None:
            return resolve(query.sql, _asking(connection), QUERY)
        import duckdb

        with duckdb.connect() as own:
            return resolve(query.sql, _asking(own), QUERY)
    if root == "pyspark":
        from .spark import check_spark

        plan = check_spark(_prepared(query, verdict.sql))
        return replace(verdict, selects=plan.selects, cuts=plan.cuts)
    if isinstance(connection, str):
        from .database import connected

        with connected(connection) as opened:
            check_postgres(verdict, _cursor_run(opened))
    elif root == "sqlite3":
        return replace(verdict, sql=check_sqlite(verdict, _cursor_run(connection)))
    elif language == "postgres" and root in ("psycopg", "psycopg2", "adbc_driver_manager"):
        check_postgres(verdict, _cursor_run(connection))
    else:
        raise NotUnderstood("a connection whose tables cannot be told from views")
    return verdict


def _cursor_run(connection: Any) -> Run:
    def run(sql: str) -> list[tuple[Any, ...]]:
        with engine_errors("the database could not be asked about the names in the query"):
            cursor = connection.cursor()
            if type(cursor).__module__.partition(".")[0] == "sqlite3":
                cursor.row_factory = None
            if hasattr(cursor, "adbc_statement"):  # COPY, which is its way of reading, takes no EXPLAIN
                cursor.adbc_statement.set_options(**{"adbc.postgresql.use_copy": "false"})
            try:
                cursor.execute(sql)
                return [tuple(row) for row in cursor.fetchall()]
            finally:
                cursor.close()

    return run


def _asking(connection: Any) -> Run:
    def run(sql: str) -> list[tuple[Any, ...]]:
        with engine_errors("the connection could not be asked about the names in the query"):
            return list(connection.sql(sql).fetchall())

    return run


def _plan_of(source: Any) -> tuple[str, Callable[[], Verdict] | None]:
    """How to look at a source that is made of others, or None for rows as they are."""
    root = type(source).__module__.partition(".")[0]
    if root in ("duckdb", "_duckdb") and hasattr(source, "sql_query"):
        return "the DuckDB relation", lambda: _relation(source)
    if root == "polars" and hasattr(source, "collect_batches"):
        return "the lazy polars frame", lambda: check_lazy(source)
    if root == "pyspark":
        from .spark import check_spark

        frame = source.to_spark() if hasattr(source, "to_spark") else source
        return "the Spark frame", lambda: check_spark(frame)
    if root == "pyarrow" and getattr(source, "_scan_options", None):
        return "the Arrow dataset", lambda: Verdict(selects=source._scan_options.get("filter") is not None)
    if hasattr(source, "fetchmany") and hasattr(source, "description"):
        return "the cursor", _cursor
    return "", None


def _cursor() -> Verdict:
    raise NotUnderstood("a statement that is not known", "Give the statement: Query(sql, connection).")


def _relation(relation: Any) -> Verdict:
    try:
        text = str(relation.sql_query())
        plan = str(relation.explain())
    except Exception:
        raise NotUnderstood("a plan that DuckDB does not show") from None
    if "pandas" in plan.lower():
        raise NotUnderstood("a pandas frame in it", OBJECTS)
    name = "simplexdp_looks"
    return resolve(text, lambda sql: list(relation.query(name, sql).fetchall()), "the DuckDB relation", _OWN_NAMES)


# -- lazy polars frames ------------------------------------------------------------------------------------------------


_SAME = ("Eq", "NotEq", "EqValidity", "NotEqValidity", "And", "Or", "Xor")
"""Operators that look at no order."""
_SCAN_SETTINGS = ("row_index", "column_mapping", "default_values", "deletion_files")
_LINES = (
    *("DF [", "Parquet SCAN [", "IPC SCAN [", "PROJECT ", "SELECTION: ", "ESTIMATED ROWS", "SLICE[", "FILTER "),
    *("FROM", "SELECT [", "WITH_COLUMNS:", "[", "simple π"),
)
_BOOLEAN = ("IsNull", "IsNotNull", "IsNan", "IsNotNan", "IsFinite", "IsInfinite", "Not", "IsIn", "IsBetween")


def check_lazy(frame: Any) -> Verdict:
    """A LazyFrame over frames or Parquet files, with plain columns, comparisons and casts.

    Raises:
        NotUnderstood: anything else.
    """
    try:
        nodes = frame._ldf.visit()
    except Exception:  # what polars cannot show raises errors of many kinds
        raise NotUnderstood("a plan that polars does not show") from None
    try:
        verdict = _lazy(nodes)
        return replace(verdict, cuts=verdict.cuts or _is_cut(str(frame._ldf.describe_plan())))
    except NotUnderstood:
        raise
    except Exception as error:
        raise NotUnderstood(f"a plan that polars does not show ({type(error).__name__})") from None


def _is_cut(text: str) -> bool:
    """Whether the plan has a slice; polars cuts a frame in memory before its nodes can be seen.

    Every line of the plan must begin in a known way. A name of a column can add lines, but it hides none.
    """
    for line in map(str.strip, text.splitlines()):
        if line and not line.startswith(_LINES):
            raise NotUnderstood(f"what polars plans as {shortened(line)}")
    return "SLICE" in text


def _lazy(nodes: Any) -> Verdict:
    selects = cuts = False
    files: list[str] = []
    waiting = [nodes.get_node()]
    while waiting:
        nodes.set_node(waiting.pop())
        node = nodes.view_current_node()
        kind = type(node).__name__
        if kind == "DataFrameScan":
            if getattr(node, "selection", None) is not None:
                raise NotUnderstood("a selection inside a scan")
            continue
        if kind == "Scan":
            if node.scan_type[0] not in ("parquet", "ipc"):
                raise NotUnderstood(
                    f"a scan of {node.scan_type[0]}, whose types are guessed from its rows",
                    "Count the file itself, by its path: it is then read with the declared types.",
                )
            options = node.file_options
            given = [name for name in _SCAN_SETTINGS if getattr(options, name, None) is not None]
            if given or node.hive_parts is not None:
                raise NotUnderstood(f"{given[0] if given else 'columns of folder names'} in a scan")
            cuts |= options.n_rows is not None
            if node.predicate is not None:
                selects = True
                _lazy_expression(nodes, node.predicate.node, _categories(nodes))
            files += [str(path) for path in node.paths]
            continue
        coded = _categories(nodes, *nodes.get_inputs())
        if kind == "Filter":
            selects = True
            _lazy_expression(nodes, node.predicate.node, coded)
        elif kind == "Select":
            for each in node.expr:
                if not _lazy_expression(nodes, each.node, coded):
                    raise NotUnderstood("a selected expression without a column")
        elif kind == "HStack":
            for each in node.exprs:
                _lazy_expression(nodes, each.node, coded)
        elif kind == "Slice":
            cuts = True
        elif kind != "SimpleProjection":
            raise NotUnderstood(f"what polars calls {kind}")
        waiting += nodes.get_inputs()
    verdict = Verdict(selects=selects, cuts=cuts, files=tuple(files))
    check_files(verdict, lambda path: [path])
    return verdict


def _categories(nodes: Any, *inputs: int) -> frozenset[str]:
    """The columns of categories in the inputs of the current node, or in the node itself."""
    current, found = nodes.get_node(), set()
    for each in inputs or (current,):
        nodes.set_node(each)
        found |= {str(name) for name, kind in nodes.get_schema().items() if "Categorical" in str(kind)}
    nodes.set_node(current)
    return frozenset(found)


def _lazy_expression(nodes: Any, number: int, coded: frozenset[str], *, cast: bool = False) -> bool:
    """Whether it has a column; refuses what is not known to be of its row alone.

    Args:
        nodes: the plan, at the node of the expression.
        number: of the expression.
        coded: columns of categories, whose codes may tell the order of all rows.
        cast: whether the result is put in an order, or cast to something else than text.
    """
    each = nodes.view_expression(number)
    kind = type(each).__name__
    if kind == "Column":
        if cast and each.name in coded:
            raise NotUnderstood("an order or a cast of categories, whose codes may tell the order of all rows")
        return True
    if kind == "Literal":
        if type(each.value).__name__ not in ("int", "float", "str", "bool", "NoneType", "date", "datetime", "Decimal"):
            raise NotUnderstood("a literal of several values")
        return False
    if kind == "BinaryExpr":
        orders = str(each.op).rpartition(".")[2] not in _SAME
        return _columns(nodes, coded, orders, each.left, each.right)
    if kind == "Cast":
        if "Categorical" in str(each.dtype):
            raise NotUnderstood("a cast to categories, whose codes may tell the order of all rows")
        return _lazy_expression(nodes, each.expr, coded, cast=str(each.dtype) != "String")
    if kind == "Ternary":
        return _columns(nodes, coded, cast, each.predicate, each.truthy, each.falsy)
    name = str(each.function_data[0]).rpartition(".")[2] if kind == "Function" else ""
    if name in _BOOLEAN:
        return _columns(nodes, coded, name == "IsBetween", *each.input)
    raise NotUnderstood(f"what polars calls {kind}")


def _columns(nodes: Any, coded: frozenset[str], cast: bool, *parts: int) -> bool:
    """Whether one of several expressions has a column; all are checked."""
    return sum(_lazy_expression(nodes, part, coded, cast=cast) for part in parts) > 0
