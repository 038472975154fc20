"""`check`: whether each row of a statement is a function of one row of one table, told from the parsed statement alone.

Everything is an allow-list: each clause, each node, each function and each reader of files must be known; files are
read with fixed types and once each. The statement is then written out from what was understood, read once more and
checked again; what is written out is what runs, so that nothing depends on this parser and an engine reading a text in
the same way.
"""

from __future__ import annotations

import fnmatch
import logging
import os
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from ...errors import InvalidArgument
from .expressions import (
    NotUnderstood,
    Verdict,
    called_names,
    check_names,
    check_row_wise,
    fields,
    is_like_any,
    shortened,
    text_of,
    without_comments,
    words,
)

# -- what is read ------------------------------------------------------------------------------------------------------


_PARQUET = (".parquet", ".parq", ".pq")
_TEXT = re.compile(
    r"\.(csv|tsv|txt|json|jsonl|ndjson|geojson|xlsx|avro|arrow|ipc|feather|orc|db|duckdb|sqlite)(\.\w+)?$", re.I
)
_SYSTEM = (
    "pg_",
    "sqlite_",
    "duckdb_",
    "pragma_",
    "information_schema",
    "dbstat",
    "sqlean_",
    "reject_errors",
    "reject_scans",
)
_SYSTEM_SCHEMAS = frozenset(words("information_schema pg_catalog pg_toast system sys mysql performance_schema"))
_READERS = {
    "read_parquet": "parquet",
    "parquet_scan": "parquet",
    "read_csv": "csv",
    "read_csv_auto": "csv",
    "read_json": "json",
    "read_json_auto": "json",
    "read_ndjson": "json",
}
_SETTINGS = {
    "parquet": frozenset(
        words(
            "filename union_by_name hive_partitioning hive_types hive_types_autocast binary_as_string compression "
            "file_row_number parquet_version encryption_config can_have_nan"
        )
    ),
    "csv": frozenset(
        words(
            "auto_detect header columns delim sep quote escape nullstr dateformat timestampformat decimal_separator "
            "skip compression encoding strict_mode comment allow_quoted_nulls force_not_null max_line_size buffer_size "
            "parallel filename new_line null_padding thousands hive_partitioning"
        )
    ),
    "json": frozenset(
        words(
            "auto_detect columns format records compression dateformat timestampformat maximum_object_size filename "
            "hive_partitioning"
        )
    ),
}
_SPARK_FORMATS = frozenset(words("parquet orc csv json text avro xml binaryfile delta iceberg"))
_SPARK_METADATA = frozenset(
    words("files snapshots history manifests partitions entries refs all_files position_deletes")
)
_FOLDER_WAY = "Say read_parquet(..., hive_types_autocast=false) or hive_types={...}."
_TEXT_WAY = (
    "Count the file itself, by its path or Files(path): it is then read with the declared types. In SQL, give read_csv "
    "auto_detect=false, header and columns, and read_json the columns and the format."
)


@dataclass(frozen=True, kw_only=True)
class Read:
    """A table, or files.

    Args:
        table: its name as SQL writes it.
        files: paths and globs.
        guesses_folders: whether columns of folder names (year=2024) get a type that is guessed from all of them.
    """

    table: str | None = None
    files: tuple[str, ...] = ()
    guesses_folders: bool = False


def read_table(node: Any, dialect: str) -> Read:
    """What an entry of FROM reads.

    Raises:
        NotUnderstood: it is a table function, a catalogue, or a file whose types are guessed from its rows.
    """
    from sqlglot import exp

    if not isinstance(node.this, exp.Identifier):
        return _read_function(node.this, dialect)
    name, schema = node.name, node.db
    lowered = name.lower()
    if lowered.startswith(_SYSTEM) or schema.lower() in _SYSTEM_SCHEMAS or node.catalog.lower() == "system":
        raise NotUnderstood(f"the catalogue {shortened(name)}, whose rows tell of whole tables")
    if dialect == "spark":
        if schema.lower() in _SPARK_FORMATS and not node.catalog:
            return _spark_files(schema.lower(), name)
        if node.catalog and lowered in _SPARK_METADATA:
            raise NotUnderstood(f"{shortened(name)} of a table, whose rows tell of the whole table")
        if lowered == "stream" and not node.this.quoted:
            raise NotUnderstood("a stream")
    if dialect == "duckdb" and node.this.quoted and not schema:
        if lowered.endswith(_PARQUET):
            return Read(files=(name,), guesses_folders=True)
        if _TEXT.search(name) or any(sign in name for sign in "/*?["):
            raise NotUnderstood(f"the file {shortened(name)}, whose types are guessed from its rows", _TEXT_WAY)
    return Read(table=".".join(part.sql(dialect=dialect) for part in node.parts))


def _spark_files(form: str, name: str) -> Read:
    if form not in ("parquet", "orc"):
        raise NotUnderstood(f"files read as {form}, whose types are guessed from their rows", _TEXT_WAY)
    return Read(files=(name,))


def _read_function(call: Any, dialect: str) -> Read:
    from sqlglot import exp

    text = call.sql(dialect=dialect, comments=False)
    name = text.partition("(")[0].strip().strip('"').lower()
    form = _READERS.get(name) if dialect == "duckdb" else None
    if form is None:
        raise NotUnderstood(f"the table function {shortened(text)}")
    # sqlglot puts the first argument of some readers in a place of its own.
    given = [*([call.this] if isinstance(call.this, exp.Expression) else []), *call.expressions]
    paths = [_path(each) for each in (_items(given[0]) if given else ())]
    if not paths:
        raise NotUnderstood(f"no path in {shortened(text)}")
    settings = dict(_setting(each) for each in given[1:])
    unknown = [each for each in settings if each not in _SETTINGS[form]]
    if unknown:
        raise NotUnderstood(f"the setting {unknown[0]} of {name}")
    if form == "parquet":
        typed = {"hive_types", "hive_types_autocast"} & set(settings)
        if settings.get("hive_partitioning", "false") != "false" and not typed:
            raise NotUnderstood("hive_partitioning, which guesses types from the names of all folders", _FOLDER_WAY)
        if settings.get("file_row_number", "false") != "false":
            raise NotUnderstood("file_row_number, which tells the place of a row among the others")
    elif form == "csv":
        fixed = settings.get("auto_detect") == "false" and {"header", "columns"} <= set(settings)
        if not fixed or name == "read_csv_auto":
            raise NotUnderstood(f"{name}, which guesses types from the rows", _TEXT_WAY)
    else:
        kind = settings.get("format", "'newline_delimited'" if name == "read_ndjson" else "'auto'")
        if "columns" not in settings or kind == "'auto'" or settings.get("records", "true") == "'auto'":
            raise NotUnderstood(f"{name}, which guesses types from the rows", _TEXT_WAY)
    check_disjoint(paths)
    plain = settings.get("hive_partitioning") == "false" or settings.get("hive_types_autocast") in ("false", "0")
    return Read(files=tuple(paths), guesses_folders=not plain and "hive_types" not in settings)


def _items(node: Any) -> Sequence[Any]:
    from sqlglot import exp

    return node.expressions if isinstance(node, exp.Array) else [node]


def _path(node: Any) -> str:
    from sqlglot import exp

    if not (isinstance(node, exp.Literal) and node.is_string):
        raise NotUnderstood(f"a path that is no text: {shortened(node.sql())}")
    return str(node.this)


def _setting(node: Any) -> tuple[str, str]:
    """The name and the value of `name = value` in a call, both in lower case."""
    from sqlglot import exp

    if not isinstance(node, (exp.EQ, exp.PropertyEQ, exp.Kwarg)):
        raise NotUnderstood(f"an argument without a name: {shortened(node.sql(dialect='duckdb'))}")
    value = node.expression
    if any(isinstance(each, (exp.Query, exp.Anonymous, exp.Placeholder, exp.Parameter)) for each in value.walk()):
        raise NotUnderstood(f"a setting that is no constant: {shortened(node.sql(dialect='duckdb'))}")
    return node.this.name.lower(), value.sql(dialect="duckdb").lower()


def check_disjoint(paths: Sequence[str]) -> None:
    """Refuse paths and globs of which two may name one file; links are looked at when the files are there."""
    if len(paths) > 1 and any("://" in path for path in paths):
        raise NotUnderstood("several paths of which one is not in this file system, so that they may be the same")
    known = [os.path.normpath(os.path.join(os.getcwd(), os.path.expanduser(path))) for path in paths]  # noqa: PTH109, PTH111, PTH118
    seen: list[str] = []
    for path, full in zip(paths, known, strict=True):
        if any(_may_meet(full, other) for other in seen):
            raise NotUnderstood(f"the files {shortened(path)}, which may be among those it reads elsewhere")
        seen.append(full)


def _may_meet(a: str, b: str) -> bool:
    globs = [any(sign in path for sign in "*?[") for path in (a, b)]
    if not any(globs):  # a path may be a folder
        one, other = a.casefold(), b.casefold()
        return one == other or one.startswith(other + os.sep) or other.startswith(one + os.sep)
    if not all(globs):
        pattern, plain = (a, b) if globs[0] else (b, a)
        return fnmatch.fnmatch(plain.casefold(), pattern.casefold())  # wider than a glob: its * matches a slash
    begins = [re.split(r"[*?\[]", path.casefold(), maxsplit=1)[0] for path in (a, b)]
    return begins[0].startswith(begins[1]) or begins[1].startswith(begins[0])


# -- statements --------------------------------------------------------------------------------------------------------


DIALECTS = ("duckdb", "postgres", "sqlite", "spark")
_LONGEST_NAME = 63
SPARK_CUTS = "a LIMIT or OFFSET, of which Spark takes rows by how it splits all of them"
_CLAUSES = {
    "joins": "a join",
    "laterals": "LATERAL",
    "group": "GROUP BY",
    "having": "HAVING",
    "windows": "a window",
    "qualify": "QUALIFY",
    "distinct": "DISTINCT",
    "sample": "a sample of the rows",
    "pivots": "PIVOT",
    "match": "MATCH_RECOGNIZE",
    "connect": "CONNECT BY",
    "locks": "a lock of rows",
    "into": "INTO",
    "sort": "SORT BY",
    "cluster": "CLUSTER BY",
    "distribute": "DISTRIBUTE BY",
    "ordinality": "WITH ORDINALITY",
    "version": "a version of the table",
    "when": "a version of the table",
    "recursive": "WITH RECURSIVE",
    "prewhere": "PREWHERE",
    "kind": "SELECT AS",
}
_ALLOWED = {
    "Select": {"expressions", "from", "where", "order", "limit", "offset", "with", "hint"},
    "Subquery": {"this", "alias", "order", "limit", "offset", "with"},
    "Union": {"this", "expression", "distinct", "by_name", "with", "order", "limit", "offset"},
    "Table": {"this", "db", "catalog", "alias", "only"},
    "TableAlias": {"this", "columns"},
    "CTE": {"this", "alias", "materialized"},
    "With": {"expressions"},
    "From": {"this"},
    "Where": {"this"},
    "Order": {"expressions"},
    "Ordered": {"this", "desc", "nulls_first"},
    "Limit": {"expression", "offset", "limit_options"},
    "Fetch": {"direction", "count", "limit_options"},
    "LimitOptions": {"rows"},
    "Offset": {"expression"},
}


@dataclass(frozen=True, kw_only=True)
class _Part:
    """What a query inside the statement does."""

    selects: bool = False
    cuts: bool = False
    ordered: bool = False
    tables: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    guesses_folders: bool = False


_NOT_YET = _Part()


@lru_cache(maxsize=512)
def check(sql: str, dialect: str) -> Verdict:
    """What a statement does, or the piece of it that is not understood; it needs no connection.

    >>> check("SELECT upper(ward) AS ward FROM visits", "duckdb").problem is None
    True
    >>> check("SELECT max(age) FROM visits", "duckdb").problem
    'the aggregate MAX(age)'
    """
    if dialect not in DIALECTS:
        raise InvalidArgument("dialect", "one of " + ", ".join(DIALECTS), got=dialect)
    try:
        return _checked(sql, dialect)
    except NotUnderstood as refused:
        return Verdict(problem=refused.piece, hint=refused.hint)
    except RecursionError:
        return Verdict(problem="too many levels")


def _checked(sql: str, dialect: str) -> Verdict:
    plain = without_comments(sql, dialect)
    first = parse(plain, dialect)
    written = write(first, dialect, written_out=False)
    check_names(called_names(plain, dialect), dialect, _declared(first))
    # Read what was written: that is what runs, and all that is said of the statement is said of it.
    again = parse(written, dialect)
    final = write(again, dialect, written_out=True)
    if final != written and write(parse(final, dialect), dialect, written_out=True) != final:
        raise NotUnderstood("a part that cannot be written out and read again as the same")
    part = _Statement(dialect, written_out=True).query(parse(final, dialect), {})
    names = called_names(final, dialect)
    tree = parse(final, dialect)
    check_names(names, dialect, _declared(tree))
    return Verdict(
        sql=final,
        selects=part.selects,
        cuts=part.cuts,
        tables=tuple(sorted(set(part.tables))),
        files=part.files,
        guesses_folders=part.guesses_folders,
        called=frozenset(names),
        fields=fields(tree),
    )


def parse(sql: str, dialect: str) -> Any:
    """The one statement in a text."""
    import sqlglot
    from sqlglot import exp
    from sqlglot.errors import SqlglotError

    if dialect == "spark" and "${" in sql:
        raise NotUnderstood("a variable, ${...}, in its text")
    if "\0" in sql:
        raise NotUnderstood("a zero character")
    log = logging.getLogger("sqlglot")
    silent, log.disabled = log.disabled, True  # it would print statements that it does not know
    try:
        found = [each for each in sqlglot.parse(sql, read=dialect) if each is not None]
    except (SqlglotError, ValueError, AttributeError, TypeError, KeyError, IndexError) as error:
        raise NotUnderstood(f"no syntax of {dialect} that this library can read{_place(error)}") from None
    finally:
        log.disabled = silent
    found = [each for each in found if not isinstance(each, exp.Semicolon)]
    if len(found) != 1:
        raise NotUnderstood(f"{len(found)} statements" if found else "no statement")
    return found[0]


def write(tree: Any, dialect: str, *, written_out: bool) -> str:
    """Check the structure and write the statement out, without comments and hints."""
    from sqlglot import ErrorLevel, exp
    from sqlglot.errors import SqlglotError

    for select in tree.find_all(exp.Select):
        select.set("hint", None)  # a hint says how, not what
    _Statement(dialect, written_out=written_out).query(tree, {})
    try:
        return str(tree.sql(dialect=dialect, comments=False, unsupported_level=ErrorLevel.RAISE))
    except (SqlglotError, ValueError, AttributeError, TypeError, KeyError):
        raise NotUnderstood(f"a part that cannot be written in {dialect}") from None


class _Statement:
    """One walk over a parsed statement."""

    def __init__(self, dialect: str, *, written_out: bool) -> None:
        self._dialect, self._written_out = dialect, written_out

    def query(self, node: Any, known: Mapping[str, _Part]) -> _Part:
        """A SELECT or a UNION ALL, in parentheses or not."""
        kind = type(node).__name__
        if kind not in ("Select", "Subquery", "Union"):
            raise NotUnderstood(f"{_words(node)}, which is no SELECT")
        args = self._args(node)
        known = self._with(args.get("with"), known)
        if kind == "Select":
            for each in node.expressions:
                self._scalar(each)
            part = self._from(args["from"].this, known) if args.get("from") else _Part()
            if args.get("from"):
                self._args(args["from"])
        elif kind == "Subquery":
            self._alias(args.get("alias"))
            part = self.query(node.this, known)
        else:
            part = self._union(node, known)
        if args.get("where"):
            self._args(args["where"])
            self._scalar(args["where"].this)
            part = replace(part, selects=True)
        if args.get("order"):
            for each in self._args(args["order"])["expressions"]:
                self._scalar(each)
            part = replace(part, ordered=True)
        if self._cut(args):
            part = replace(part, cuts=True)
            if part.ordered:
                raise NotUnderstood(
                    "a LIMIT or OFFSET of rows in an order: which of those that are equal in it are taken may "
                    "depend on all rows",
                    "Leave out the ORDER BY or the LIMIT.",
                )
            if self._dialect == "spark":
                raise NotUnderstood(SPARK_CUTS)
        return part

    def _union(self, node: Any, known: Mapping[str, _Part]) -> _Part:
        if node.args.get("distinct"):
            raise NotUnderstood("UNION without ALL, which drops equal rows")
        parts = [self.query(side, known) for side in (node.this, node.expression)]
        tables = [table for part in parts for table in part.tables]
        if tables and all(part.tables or part.files for part in parts):  # constants share no record with a table
            raise NotUnderstood(
                f"UNION ALL with the table {shortened(tables[0])}: one record may be in both parts",
                "Count the parts apart, each with a query, and add the tables up if they share no record.",
            )
        files = [file for part in parts for file in part.files]
        check_disjoint(files)
        return _Part(
            selects=any(part.selects for part in parts),
            cuts=any(part.cuts for part in parts),
            ordered=any(part.ordered for part in parts),
            tables=tuple(tables),
            files=tuple(files),
            guesses_folders=any(part.guesses_folders for part in parts),
        )

    def _with(self, node: Any, known: Mapping[str, _Part]) -> Mapping[str, _Part]:
        if node is None:
            return known
        found = dict(known)
        commons = self._args(node)["expressions"]
        if self._dialect == "sqlite":  # each of them sees itself and those that follow
            found |= dict.fromkeys((self._key(each.args["alias"].this) for each in commons), _NOT_YET)
        for each in commons:
            self._args(each)
            self._alias(each.args.get("alias"))
            found[self._key(each.args["alias"].this)] = self.query(each.this, found)
        return found

    def _from(self, node: Any, known: Mapping[str, _Part]) -> _Part:
        if type(node).__name__ != "Table":
            return self.query(node, known)
        args = self._args(node)
        self._alias(args.get("alias"))
        if type(node.this).__name__ == "Identifier" and not node.db:
            key = self._key(node.this)
            common = known.get(key)
            if common is _NOT_YET:
                raise NotUnderstood(f"the common table {shortened(node.name)}, used before it is defined")
            if common is not None:
                return common
            if any(each.casefold() == key.casefold() and not (each + key).isascii() for each in known):
                raise NotUnderstood(f"the table {shortened(node.name)} beside a common table of nearly that name")
        read = read_table(node, self._dialect)
        tables = () if read.table is None else (read.table,)
        return _Part(tables=tables, files=read.files, guesses_folders=read.guesses_folders)

    def _cut(self, args: Mapping[str, Any]) -> bool:
        """Whether there is a LIMIT, FETCH or OFFSET; each must be of a fixed number."""
        limit, offset = args.get("limit"), args.get("offset")
        numbers = []
        if limit is not None:
            inside = self._args(limit)
            if inside.get("limit_options"):
                self._args(inside["limit_options"])
            numbers += [inside[name] for name in ("expression", "count", "offset") if inside.get(name) is not None]
            if [each.name for each in numbers if type(each).__name__ in ("Var", "Null")] == ["ALL"]:
                numbers = []
            elif not numbers:
                raise NotUnderstood("a LIMIT without a number")
        if offset is not None:
            numbers.append(self._args(offset)["expression"])
        for number in numbers:
            if not _is_whole(number):
                raise NotUnderstood(f"a LIMIT or OFFSET that is no plain number: {self._text(number)}")
        return bool(numbers)

    def _scalar(self, node: Any) -> None:
        check_row_wise(node, self._dialect, written_out=self._written_out)

    def _alias(self, node: Any) -> None:
        if node is not None and type(node).__name__ == "TableAlias":
            self._args(node)

    def _args(self, node: Any) -> dict[str, Any]:
        """The arguments of a node that are set, all of them known. Newer sqlglot ends some names with _."""
        kind = type(node).__name__
        allowed = _ALLOWED.get(kind)
        if allowed is None:
            raise NotUnderstood(_words(node))
        found = {name.rstrip("_"): value for name, value in node.args.items() if value not in (None, False, [], ())}
        for name, value in found.items():
            if name not in allowed:
                first = value[0] if isinstance(value, list) else value
                what = _CLAUSES.get(name, name.replace("_", " ").upper())
                text = f": {self._text(first)}" if hasattr(first, "sql") else ""
                raise NotUnderstood(f"{what}{text}")
        return found

    def _key(self, name: Any) -> str:
        """How engines compare names: letters of ASCII without case, in PostgreSQL only those without quotes."""
        text = str(name.name)
        if self._dialect == "postgres":
            if len(text.encode()) > _LONGEST_NAME:
                raise NotUnderstood(f"the name {shortened(text)}, which PostgreSQL cuts off")
            if name.args.get("quoted"):
                return text
        return "".join(letter.lower() if letter.isascii() else letter for letter in text)

    def _text(self, node: Any) -> str:
        return text_of(node, self._dialect)


def _is_whole(node: Any) -> bool:
    from sqlglot import exp

    while isinstance(node, (exp.Paren, exp.Neg)):
        node = node.this
    return isinstance(node, exp.Literal) and not node.is_string and str(node.this).isdigit()


def _declared(tree: Any) -> Counter[str]:
    """Names that may stand before parentheses and call nothing: aliases with columns, and ANY after LIKE."""
    from sqlglot import exp

    found = Counter(
        alias.this.name.lower() for alias in tree.find_all(exp.TableAlias) if alias.this and alias.args.get("columns")
    )
    found.update(type(each).__name__.lower() for each in tree.find_all(exp.Any, exp.All) if is_like_any(each))
    return found


def _words(node: Any) -> str:
    """A node of the parser by the words of SQL it comes from."""
    name = type(node).__name__
    known = {"Except": "EXCEPT", "Intersect": "INTERSECT", "Lateral": "LATERAL", "Unnest": "UNNEST", "Join": "a join"}
    return known.get(name, f"{name.upper()} ")[:40].strip()


def _place(error: Exception) -> str:
    """Where a statement stops being understood; the statement is the analyst's own, and its words are not repeated."""
    first: dict[str, Any] = next(iter(getattr(error, "errors", ())), {})
    line, column = first.get("line"), first.get("col")
    return f", from line {line}, column {column} on" if line and column else ""
