"""The columns of a table as choices that can be clicked, and the schema that they mean."""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from ..errors import InvalidArgument, SchemaError, SimplexDPError, SourceError
from ..private.counting import Files, Query, query_columns
from ..private.counting.files import expand
from ..schema import Schema
from ..schema.drafting import TODO, header
from ..schema.templates import EXAMPLES, known, suggested
from ..schema.text import dump_yaml, parse_yaml
from .spec import Source

OUT, VALUES, EDGES, BINS, WRITTEN = "out", "values", "edges", "bins", "written"
KINDS = {
    OUT: "leave out",
    VALUES: "these values",
    EDGES: "bins between these edges",
    BINS: "private quantile bins",
    WRITTEN: "as written in YAML",
}
"""What a column can be beside a template."""
TEMPLATE = "template:"
KEEPS = {"cell": "a cell of its own", "refuse": "refused", "nearest": "the nearest bin"}
HINTS = {
    VALUES: "yes, no, unknown",
    EDGES: "0, 18, 65, 120",
    BINS: "10 from 0 to 100",
    f"{TEMPLATE}year": "2015 to 2024",
    f"{TEMPLATE}iso-year": "2015 to 2024",
}
"""What to write beside a choice."""
MOST_COLUMNS = 500
SCHEMA_ENDINGS = (".yaml", ".yml", ".json")
_NUMBER = r"[-+]?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?"


@dataclass(frozen=True, kw_only=True)
class Choice:
    """What is said of a column.

    Args:
        kind: one of `KINDS`, or "template:" with its name.
        what: its values, edges, bins or years.
        other: what happens to values that are not listed.
        missing: what happens to missing ones.
    """

    kind: str = OUT
    what: str = ""
    other: str = "cell"
    missing: str = "cell"

    def fields(self, name: str, before: Any, declared: str) -> Any:
        """What a schema says of the column.

        Args:
            name: of the column, for errors.
            before: what it said, of which all that cannot be clicked is kept.
            declared: the type in the file.
        """
        if self.kind == OUT:
            return TODO
        if self.kind == WRITTEN:
            return TODO if before is None else before
        if self.kind.startswith(TEMPLATE):
            return self._template(name)
        rest = dict(before) if isinstance(before, Mapping) else {}
        kept = {key: rest[key] for key in ("transform", "integer", "dates", "own", "share") if key in rest}
        found: dict[str, Any] = {}
        if self.kind == VALUES:
            kept = {key: kept[key] for key in kept if key == "transform"}
            found = {"values": self._values(name, declared), "other": self.other}
        elif self.kind == EDGES:
            kept.pop("share", None)
            edges = [_number(part) for part in self._parts()]
            whole = declared.startswith(("int", "uint")) or (not declared and all(type(e) is int for e in edges))
            found = {"edges": edges, "outside": self.other}
            found |= {"integer": True} if whole and "integer" not in kept else {}
        elif self.kind == BINS:
            numbers = [_number(part) for part in re.findall(_NUMBER, self.what)]
            if len(numbers) != 3:
                raise SchemaError(name, "bins such as “10 from 0 to 100”")
            kept = {key: kept[key] for key in kept if key in ("transform", "share")}
            found = {"bins": numbers[0], "lower": numbers[1], "upper": numbers[2]}
            found |= {"outside": self.other} if self.other != "cell" else {}
        else:
            raise SchemaError(name, "one of the choices")
        return {**found, "missing": self.missing, **kept}

    def _template(self, name: str) -> Any:
        template = self.kind.removeprefix(TEMPLATE)
        if template not in known():
            raise SchemaError(name, "a known template")
        found: dict[str, Any] = {}
        if template in EXAMPLES:
            years = [_number(part) for part in re.findall(r"\d+", self.what)]
            if len(years) != 2:
                raise SchemaError(name, "years such as “2015 to 2024”")
            found = {"from": years[0], "to": years[1]}
        if self.other != "cell":
            found["outside" if template.startswith(("age-", "life", "money")) else "other"] = self.other
        if self.missing != "cell":
            found["missing"] = self.missing
        return {"template": template, **found} if found else template

    def _parts(self) -> list[str]:
        try:
            parts = [part.strip() for part in next(csv.reader([self.what], skipinitialspace=True), [])]
        except csv.Error:
            parts = []
        return [part for part in parts if part]

    def _values(self, name: str, declared: str) -> list[Any]:
        parts = self._parts()
        if not parts:
            raise SchemaError(name, "values with commas between them")
        numbers = declared.startswith(("int", "uint")) or not declared
        if numbers and all(re.fullmatch(r"-?\d{1,15}", part) for part in parts):
            return [int(part) for part in parts]
        if declared in ("bool", "") and {part.lower() for part in parts} <= {"true", "false"}:
            return [part.lower() == "true" for part in parts]
        return parts


def _number(text: str) -> int | float:
    try:
        return int(text)
    except ValueError:
        pass
    try:
        return float(text)
    except ValueError:
        raise InvalidArgument("edges", "numbers with commas between them") from None


def choice_of(said: Any) -> Choice:
    """The choice that a schema's words about a column mean; those that cannot be clicked stay as written."""
    if said is None or said == TODO:
        return Choice()
    if isinstance(said, str):
        said = {"template": said}
    if isinstance(said, list):
        said = {"values": said}
    if not isinstance(said, Mapping):
        return Choice(kind=WRITTEN)
    missing = said.get("missing", "cell" if "template" in said else "refuse")
    other = said.get("other", said.get("outside", "cell" if "template" in said else "refuse"))
    if missing not in KEEPS or other not in KEEPS:
        return Choice(kind=WRITTEN)
    keeps = {"other": other, "missing": missing}
    if set(said) - {"template", "from", "to", "other", "outside", "missing"} == set() and "template" in said:
        what = f"{said['from']} to {said['to']}" if {"from", "to"} <= set(said) else ""
        return Choice(kind=f"{TEMPLATE}{said['template']}", what=what, **keeps)
    if isinstance(said.get("values"), list) and all(type(v) in (str, int, bool) for v in said["values"]):
        return Choice(kind=VALUES, what=_joined(said["values"]), **keeps)
    if isinstance(said.get("edges"), list):
        return Choice(kind=EDGES, what=_joined(said["edges"]), **keeps)
    if {"bins", "lower", "upper"} <= set(said):
        return Choice(kind=BINS, what=f"{said['bins']} from {said['lower']} to {said['upper']}", **keeps)
    return Choice(kind=WRITTEN)


def _joined(values: Sequence[Any]) -> str:
    from .questions import joined

    return joined([_shown(value) for value in values]).replace(",", ", ")


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


# -- schemas as text ---------------------------------------------------------------------------------------------------


def said_of(text: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """What a schema text says of each column, and what it says beside them."""
    plain = parse_yaml(text)
    if not isinstance(plain, Mapping):
        raise SchemaError("schema", "columns with what is public about them")
    top = {str(key): value for key, value in plain.items()}
    columns = top.pop("columns") if "columns" in top else None
    if columns is None:
        columns, top = top, {key: top[key] for key in ("never", "file") if key in top}
        columns = {key: value for key, value in columns.items() if key not in top}
    if isinstance(columns, list):
        columns = {
            str(each.get("name", "")): {key: value for key, value in each.items() if key != "name"}
            for each in columns
            if isinstance(each, Mapping)
        }
    if not isinstance(columns, Mapping):
        raise SchemaError("columns", "a mapping of names to columns")
    return {str(name): each for name, each in columns.items()}, top


def text_of(said: Mapping[str, Any], top: Mapping[str, Any]) -> str:
    """The schema text again: one line a column."""
    lines = [dump_yaml({key: value}, width=10**6) for key, value in top.items()]
    lines.append("columns:\n")
    lines += [f"  {_line({name: each})}\n" for name, each in said.items()]
    return "".join(lines)


def _line(entry: Mapping[str, Any]) -> str:
    shown = dump_yaml(dict(entry), width=10**6, flow=True).strip()
    return shown[1:-1] if shown.startswith("{") else shown


def chosen(text: str, names: Sequence[tuple[str, str]], choices: Mapping[str, Choice]) -> tuple[str, dict[str, str]]:
    """The schema text with other choices, and what is wrong with some of them.

    Args:
        text: before.
        names: the columns of the file with their types.
        choices: by name.
    """
    said, top = said_of(text)
    types, errors = dict(names), {}
    for name, choice in choices.items():
        try:
            made = choice.fields(name, said.get(name), types.get(name, ""))
            if made != TODO and choice.kind != WRITTEN:
                Schema.given({"columns": {name: made}})
            said[name] = made
        except SimplexDPError as error:
            errors[name] = message(error)
    return text_of(said, top), errors


def message(error: SimplexDPError) -> str:
    """What to show beside a field: the expectation, without the name of an argument that the page does not have."""
    if isinstance(error, InvalidArgument):
        return f"Must be {error.expectation}. {error.hint}".strip()
    return str(error)


def finished(text: str) -> Schema:
    """The schema of the columns that are decided."""
    return Schema.from_yaml(text)


def drafted(columns: Sequence[tuple[str, str, str | None]]) -> str:
    """A schema text with what names and types suggest, for people to look at; the rest is to be filled in."""
    said: dict[str, Any] = {}
    for name, kind, template in columns[:MOST_COLUMNS]:
        said[name] = TODO
        if kind == "bool":
            said[name] = {"values": [False, True], "missing": "cell"}
        elif template is not None and not template.startswith("{"):
            said[name] = template
    return text_of(said, {})


# -- files -------------------------------------------------------------------------------------------------------------


def columns_of(source: Source, folder: Path) -> list[tuple[str, str, str | None]]:
    """Names, types and suggested templates of the columns of a source; no value is looked at."""
    rows = source.rows(folder)
    if isinstance(rows, Query):
        return [(name, "", suggested(name)) for name in query_columns(rows)]
    assert isinstance(rows, Files)
    paths = expand(rows.paths)
    if not paths:
        raise SourceError("there is no file of rows there.")
    return header(paths[0])


def schema_file(path: Path, names: Sequence[str]) -> str | None:
    """The text of a schema file whose columns the rows have; None for another one."""
    try:
        text = path.read_text(encoding="utf-8")
        schema = Schema.read(path)
        said_of(text)
    except (OSError, UnicodeError, SimplexDPError, yaml.YAMLError):
        return None
    return text if set(schema.names) <= set(names) else None
