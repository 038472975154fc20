"""The steps of a request before its budget: data, columns, question, unit."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Any

from starlette.responses import Response

from ..budget import check_positive, check_relation
from ..errors import InvalidArgument, PrivacyError, SimplexDPError
from ..ledger import Queue
from ..ledger.registry import MAX_NAME
from ..models.document import write_file
from ..private.counting import number_of_records, relations_of
from ..private.counting.files import expand
from ..schema import Schema
from ..schema.drafting import TODO
from ..schema.templates import known
from . import columns as choosing
from .columns import Choice, columns_of, drafted, message, schema_file, text_of
from .drafts import Draft
from .questions import KINDS, edges_from, question_of, tables_from
from .spec import Source, Spec, budget_of, unit_of, whole_from
from .view import Ask, Refused, beside

FILES = (".csv", ".tsv", ".parquet", ".pq", ".json", ".ndjson", ".jsonl")
MOST_FILES = 200
EPSILON, DELTA = 1.0, 1e-6


# -- data --------------------------------------------------------------------------------------------------------------


def home(ask: Ask) -> Response:
    """The first page: what is there, and the choice of data."""
    return _home(ask, {}, {})


def _home(ask: Ask, said: dict[str, str], errors: dict[str, str]) -> Response:
    ledger = ask.studio.ledger
    asked = [] if ledger is None else list(Queue(ledger))
    begun = {each.key for each in asked}
    return ask.page(
        "data.html",
        status=422 if errors else 200,
        files=files_of(ask.studio.settings.folder),
        drafts=[draft for draft in ask.studio.drafts if draft.key not in begun][:8],
        done=asked[::-1][:8],
        said=said,
        errors=errors,
        database="SIMPLEXDP_DATABASE" in os.environ,
    )


def files_of(folder: Path) -> list[str]:
    """The names of the files of rows in the folder, and one step below it."""
    found = []
    for path in sorted([*folder.glob("*"), *folder.glob("[!._]*/*")]):
        ending = "".join(path.suffixes[-2:]).lower().removesuffix(".gz")
        relative = path.relative_to(folder)
        hidden = any(part.startswith((".", "_")) for part in relative.parts)
        if not hidden and relative.parts[0] != "releases" and f".{ending.rpartition('.')[2]}" in FILES:
            name = relative.as_posix()
            if path.is_file() and not name.endswith(".schema.json"):
                found.append(name)
    return found[:MOST_FILES]


def begin(ask: Ask) -> Response:
    """A source was chosen: look at names and types, and begin a draft."""
    form, folder = ask.form, ask.studio.settings.folder
    said = {name: form.text(name) for name in ("path", "sql", "dataset")}
    try:
        source = Source(
            files=(form.text("file") or form.text("path"),) if form.text("file") or form.text("path") else (),
            sql="" if form.text("file") or form.text("path") else form.text("sql"),
            database=form.has("database"),
            public_size=form.has("public_size"),
        )
        _check_inside(ask, "source", source)
        names = tuple(columns_of(source, folder))
        if len({name for name, _, _ in names}) < len(names):
            raise InvalidArgument("source", "rows whose columns have different names")
        if len(names) > choosing.MOST_COLUMNS:
            raise InvalidArgument("source", f"rows with at most {choosing.MOST_COLUMNS} columns")
        draft = _begun(ask, source, names, form.text("dataset"))
    except SimplexDPError as error:
        field = "sql" if said["sql"] and not said["path"] else "path"
        return _home(ask, said, beside(error, {"source": field, "database": "sql"}, field))
    return ask.go(f"/q/{draft.key}/columns")


def _check_inside(ask: Ask, name: str, source: Source) -> None:
    """Refuse an analyst's files that are not in the folder, by the path and by what it stands for."""
    if ask.studio.is_officer or not source.files:
        return
    for path in source.files:
        inside_of(ask, name, path)
    for file in expand([str(ask.studio.settings.folder / path) for path in source.files]):
        inside_of(ask, name, file)


def inside_of(ask: Ask, name: str, path: str) -> Path:
    """The file of this path, which for an analyst must be in the folder; names, links and .. are followed."""
    folder = ask.studio.settings.folder
    try:
        inside = (folder / path).resolve().is_relative_to(folder)
    except (OSError, ValueError, RuntimeError):  # too long, a zero byte, a loop of links
        inside = False
    if not inside and not ask.studio.is_officer:
        raise InvalidArgument(name, "in the folder of the studio", hint="Other files are for the officer.")
    return folder / path


def _begun(ask: Ask, source: Source, names: tuple[tuple[str, str, str | None], ...], dataset: str) -> Draft:
    """The draft, with the columns that are known already: those that are registered, or of a schema file beside it."""
    folder, note = ask.studio.settings.folder, ""
    stem = Path(source.files[0]).name.partition(".")[0].strip("*?[]") if source.files else "query"
    dataset = (dataset or stem or "data")[:MAX_NAME]
    there = [name for name, _, _ in names]
    ledger, text = ask.studio.ledger, None
    if ledger is not None and (made := ledger.registration(dataset)) is not None:
        found = Schema.from_json(made.schema)
        if set(found.names) <= set(there):
            text, note = found.to_yaml(), f"The columns are those that “{dataset}” is registered with."
    if text is None and source.files:
        parent = (folder / source.files[0]).parent
        for name in (f"{stem}.schema.yaml", f"{stem}.yaml", f"{stem}.yml", "schema.yaml", "schema.yml"):
            text = schema_file(parent / name, there)
            if text is not None:
                note = f"The columns are those of {name}."
                break
    if text is None:
        text = drafted(names)
        note = "What the names suggest is filled in: look at each column. No value was looked at."
    with contextlib.suppress(SimplexDPError):
        said, top = choosing.said_of(text)
        text = text_of({**{name: said.get(name, TODO) for name in there}}, top)
    return ask.studio.drafts.new(source=source, dataset=dataset, names=names, columns=text, note=note)


def drop(ask: Ask) -> Response:
    """Forget a draft."""
    ask.studio.drafts.drop(ask.path["key"])
    return ask.go("/")


def draft_of(ask: Ask) -> Draft:
    """The draft of an address; one that is in the ledger is a draft no more."""
    found = ask.studio.drafts.get(ask.path["key"])
    ledger = ask.studio.ledger
    if found is None or (ledger is not None and Queue(ledger).get(found.key) is not None):
        raise Refused(
            409 if found else 404,
            "This request cannot be changed any more" if found else "There is no such request",
            "It is in the ledger. A new one can be made from it." if found else "It may have been removed.",
        )
    return found


# -- columns -----------------------------------------------------------------------------------------------------------


def columns(ask: Ask) -> Response:
    """The schema by clicking, with YAML beside it."""
    draft, form = draft_of(ask), ask.form
    if not ask.is_post:
        return _columns(ask, draft, {}, {})
    action = form.text("action", "next")
    errors: dict[str, str] = {}
    text, choices = draft.columns, {}
    try:
        if action == "load":
            text = _loaded(ask, draft)
        elif action == "yaml":
            text = form.text("yaml")
            choosing.said_of(text)
        else:
            choices = _choices(draft, ask)
            text, errors = choosing.chosen(draft.columns, [(n, k) for n, k, _ in draft.names], choices)
    except SimplexDPError as error:
        where = "path" if action == "load" else "yaml"
        return _columns(ask, draft, {where: message(error)}, choices, form.text("yaml") if action == "yaml" else None)
    dataset = form.text("dataset", draft.dataset)[:MAX_NAME]
    if ask.is_fragment:
        return _columns(ask, Draft(**{**vars(draft), "columns": text, "dataset": dataset}), errors, choices)
    draft = ask.studio.drafts.change(draft, columns=text, dataset=dataset, found=None)
    if not errors:
        errors = _problems(draft, action)
    if not errors and action == "save":
        return _saved(ask, draft)
    if errors or action in ("check", "load", "yaml"):
        return _columns(ask, draft, errors, choices)
    return ask.go(f"/q/{draft.key}/question")


def _problems(draft: Draft, action: str) -> dict[str, str]:
    """What is wrong with the columns as a whole."""
    try:
        schema = draft.schema
        absent = [name for name in schema.names if name not in {name for name, _, _ in draft.names}]
        if absent:
            return {"yaml": f"The rows have no column {absent[0]!r}."}
        Spec(
            source=draft.source,
            dataset=draft.dataset,
            columns="",
            question=question_of({"kind": "table", "columns": [schema.names[0]]}),
            unit=unit_of({"neighbours": "replace-one"}),
            budget=budget_of({"epsilon": EPSILON, "delta": DELTA}),
        )
    except SimplexDPError as error:
        return beside(error, {"dataset": "dataset"}, "yaml") if action != "check" else {"yaml": message(error)}
    return {}


def _choices(draft: Draft, ask: Ask) -> dict[str, Choice]:
    form, found = ask.form, {}
    for i, (name, _, _) in enumerate(draft.names):
        if form.has(f"kind-{i}"):
            keeps = {part: form.text(f"{part}-{i}", "cell") for part in ("other", "missing")}
            keeps = {part: keep if keep in choosing.KEEPS else "cell" for part, keep in keeps.items()}
            found[name] = Choice(kind=form.text(f"kind-{i}"), what=form.text(f"what-{i}"), **keeps)
    return found


def _loaded(ask: Ask, draft: Draft) -> str:
    path = ask.form.text("schema_path")
    if not path or "\0" in path:
        raise InvalidArgument("path", "the name of a schema file")
    file = inside_of(ask, "path", path)
    schema = Schema.read(file)
    said, top = choosing.said_of(schema.to_yaml() if file.suffix == ".json" else file.read_text(encoding="utf-8"))
    names = [name for name, _, _ in draft.names]
    return text_of({**{name: said.get(name, TODO) for name in names}, **said}, top)


def _saved(ask: Ask, draft: Draft) -> Response:
    """Write the schema where the user says."""
    try:
        name = ask.form.text("save_as")
        if not name.endswith((".yaml", ".yml")) or "\0" in name:
            raise InvalidArgument("save_as", "a file name that ends in .yaml")
        path = inside_of(ask, "save_as", name)
        if os.path.lexists(path) and not (ask.form.has("replace") and ask.studio.is_officer):
            raise InvalidArgument("save_as", "a new file, or one that may be replaced")
        write_file(path, draft.schema.to_yaml())
    except SimplexDPError as error:
        return _columns(ask, draft, {"save_as": message(error)}, {})
    except OSError as error:
        return _columns(ask, draft, {"save_as": f"It cannot be written: {error.strerror}."}, {})
    return _columns(ask, ask.studio.drafts.change(draft, note=f"Saved as {name}."), {}, {})


def _columns(
    ask: Ask, draft: Draft, errors: dict[str, str], choices: dict[str, Choice], yaml: str | None = None
) -> Response:
    try:
        said, _ = choosing.said_of(draft.columns)
    except SimplexDPError:
        said = {}
    rows = []
    for i, (name, kind, template) in enumerate(draft.names):
        choice = choices.get(name) or choosing.choice_of(said.get(name))
        rows.append(
            {
                "i": i,
                "name": name,
                "type": kind,
                "choice": choice,
                "suggested": template,
                "error": errors.get(name, ""),
                "cells": "" if name in errors else _cells(said.get(name)),
                "hint": choosing.HINTS.get(choice.kind, ""),
            }
        )
    status, problem, size = "", errors.get("yaml", ""), 0
    try:
        schema = draft.schema
        size = len(schema.names)
        status = f"{size} of {len(draft.names)} columns can be used."
    except SimplexDPError as error:
        problem = problem or message(error)
    return ask.page(
        "checked.html" if ask.is_fragment else "columns.html",
        status=422 if errors and ask.is_post and not ask.is_fragment else 200,
        draft=draft,
        step="columns",
        rows=rows,
        kinds=choosing.KINDS,
        templates=known(),
        keeps=choosing.KEEPS,
        hints=choosing.HINTS,
        errors=errors,
        status_text=status,
        problem=problem,
        yaml=draft.columns if yaml is None else yaml,
        save_as=f"{Path(draft.dataset).name}.schema.yaml",
        schemas=[p.name for p in sorted(ask.studio.settings.folder.glob("*.y*ml"))][:50],
    )


def _cells(said: Any) -> str:
    """The cells of a column in a few words."""
    if said is None or said == TODO:
        return ""
    try:
        column = Schema.given({"columns": {"a": said}})["a"]
        if column.kind == "quantiles":
            return f"{column.bins} bins, whose edges cost a part of the budget"
        labels = list(column.labels)
    except SimplexDPError as error:
        return message(error)
    more = f", … {len(labels)} cells" if len(labels) > 6 else f" ({len(labels)} cells)"
    return ", ".join(labels[:6]) + more


# -- question ----------------------------------------------------------------------------------------------------------


def question(ask: Ask) -> Response:
    """What to publish."""
    draft, form = draft_of(ask), ask.form
    try:
        schema = draft.schema
    except SimplexDPError:
        return ask.go(f"/q/{draft.key}/columns")
    if not ask.is_post:
        return _question(ask, draft, schema, dict(draft.question), {})
    kind = form.text("kind")
    said: dict[str, Any] = {"kind": kind}
    try:
        if kind == "table":
            said["columns"] = form.texts("columns")
        elif kind == "tables":
            said["tables"] = [*form.texts("all"), *tables_from(form.text("tables"))]
        elif kind == "classifier":
            said |= {"target": form.text("target"), "features": form.texts("features")}
        elif kind == "network":
            said["learned"] = form.has("learned")
            edges = edges_from(form.text("edges"))
            said |= {"edges": edges, "columns": form.texts("nodes") or list(schema.names)}
        elif kind == "synthetic":
            said["target"] = form.text("goal")
        asked = question_of(said)
        prepared = asked.prepared(schema)
        asked.recipe(prepared, None)
    except SimplexDPError as error:
        fields = {name: name for name in ("columns", "tables", "target", "features", "edges", "kind")}
        fields |= {"graph": "edges"}
        default = {
            "table": "columns",
            "tables": "tables",
            "classifier": "target",
            "network": "edges",
            "synthetic": "goal",
        }.get(kind, "kind")
        if kind == "network":
            fields["columns"] = "edges"
        if kind == "synthetic":
            fields["target"] = "goal"
        return _question(ask, draft, schema, said, beside(error, fields, default))
    note = ""
    if prepared != schema:
        note = f"Rows whose {said['target']} is missing or not listed will be refused: a class has no cell for them."
    draft = ask.studio.drafts.change(draft, question=asked.to_body(), note=note)
    return ask.go(f"/q/{draft.key}/unit")


def _question(ask: Ask, draft: Draft, schema: Schema, said: dict[str, Any], errors: dict[str, str]) -> Response:
    form = ask.form
    lines = [", ".join(t) if isinstance(t, list) else t for t in said.get("tables", [])]
    return ask.page(
        "question.html",
        status=422 if errors else 200,
        draft=draft,
        step="question",
        kinds=KINDS,
        said={"kind": "table", **{k: v for k, v in said.items() if v or k == "kind"}},
        names=schema.names,
        sizes={column.name: column.size for column in schema},
        classes=[c.name for c in schema if c.kind == "categories"],
        tables="\n".join(line for line in lines if not line.startswith("all-")),
        alls=[line for line in lines if line.startswith("all-")],
        edges=form.text("edges")
        if ask.is_post
        else "\n".join(f"{a} -> {b}" for a, b in said.get("edges", []) if said.get("kind") == "network"),
        errors=errors,
    )


# -- unit --------------------------------------------------------------------------------------------------------------


def unit(ask: Ask) -> Response:
    """Whose change is hidden."""
    draft, form = draft_of(ask), ask.form
    if not draft.question:
        return ask.go(f"/q/{draft.key}/question")
    ledger = ask.studio.ledger
    fixed = None if ledger is None else ledger.terms.neighbours
    said = {
        "neighbours": fixed or draft.unit.get("neighbours", "replace-one"),
        "unit": "person" if draft.unit.get("person") else "row",
        "person": draft.unit.get("person") or "",
        "rows_per_person": draft.unit.get("rows_per_person") or 1,
        "records": draft.records or "",
    }
    errors: dict[str, str] = {}
    if ask.is_post:
        said |= {name: form.text(name, str(said[name])) for name in said}
        said["neighbours"] = fixed or said["neighbours"]
        try:
            made: dict[str, Any] = {"neighbours": said["neighbours"]}
            if said["unit"] == "person":
                if said["person"] not in {name for name, _, _ in draft.names}:
                    raise InvalidArgument("person", "the column that names the person")
                made |= {
                    "person": said["person"],
                    "rows_per_person": whole_from("rows_per_person", str(said["rows_per_person"])),
                }
            whose = unit_of(made)
            records = None
            if not whose.total_is_public and str(said["records"]):
                records = whole_from("records", str(said["records"]))
                check_positive("records", records)
            found = _records(ask, draft) if whose.total_is_public else None
            changed = ask.studio.drafts.change(draft, unit=made, records=records, found=found, note=draft.note)
            _ = changed.spec(epsilon=EPSILON, delta=DELTA).recipe
            return ask.go(f"/q/{draft.key}/budget")
        except SimplexDPError as error:
            errors = beside(error, {name: name for name in said} | {"features": "person", "source": ""})
    schema = draft.schema
    return ask.page(
        "unit.html",
        status=422 if errors else 200,
        draft=draft,
        step="unit",
        said=said,
        fixed=fixed,
        names=[name for name, _, _ in draft.names],
        shown=", ".join(schema.names[:4]) + (" …" if len(schema.names) > 4 else ""),
        errors=errors,
    )


def _records(ask: Ask, draft: Draft) -> int | None:
    """The number of records where it is public: the registered one, or for the officer what is counted.

    Nothing is counted for an analyst. A query that may select rows by their values is counted for nobody: its number of
    rows would be an exact answer that nobody has paid for.
    """
    ledger = ask.studio.ledger
    if ledger is not None and (made := ledger.registration(draft.dataset)) is not None:
        return made.records
    if not ask.studio.is_officer:
        return None
    rows = draft.source.rows(ask.studio.settings.folder)
    try:
        check_relation(relations_of(rows), "replace-one", "row")
    except PrivacyError:
        return None
    return number_of_records(rows)


ROUTES: list[tuple[str, Any, tuple[str, ...]]] = [
    ("/", home, ("GET",)),
    ("/new", begin, ("POST",)),
    ("/q/{key}/drop", drop, ("POST",)),
    ("/q/{key}/columns", columns, ("GET", "POST")),
    ("/q/{key}/question", question, ("GET", "POST")),
    ("/q/{key}/unit", unit, ("GET", "POST")),
]
