"""`simplexdp ledger`: start, show, register, reopen, verify and export the record of what each data set has spent."""

from __future__ import annotations

import json
import math
import os
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import Progress

from ..budget import check_fraction, check_neighbours
from ..errors import InvalidArgument, PrivacyError
from ..ledger import Entry, Ledger
from ..ledger.amount import loss_from_body
from ..ledger.registry import dataset_name
from ..models import check_document
from ..models.document import checksum, read_file, write_file
from ..models.sections import Bars, Section, Table
from ..numerics.printed import printed
from ..private.counting import Files
from ..report import page
from ..schema import Schema
from .files import check_output, print_or_write, source_options
from .options import (
    Force,
    Json,
    Names,
    NeighboursOption,
    Person,
    SchemaFile,
    budget_from,
    names_from,
    number,
    print_json,
    print_table,
    with_options,
)

app = typer.Typer(
    help="Start, show, verify and export a ledger of spent budgets, and register data sets.", no_args_is_help=True
)
File = Annotated[Path, typer.Argument(help="The ledger, an SQLite file.")]


@app.command()
def create(
    file: File,
    epsilon: Annotated[float | None, typer.Option(help="ε of the budget of each data set.")] = None,
    delta: Annotated[float | None, typer.Option(help="δ, for an (ε, δ)-DP budget.")] = None,
    order: Annotated[float | None, typer.Option(help="Rényi order, for an RDP budget.")] = None,
    neighbours: NeighboursOption = "replace-one",
    dataset: Annotated[
        list[str] | None, typer.Option(help="A data set that may be charged; repeat it. Any name if not given.")
    ] = None,
) -> None:
    """Start a ledger; an existing file is kept."""
    if os.path.lexists(file):
        raise InvalidArgument("file", "a new path", got=str(file), hint="A ledger is never overwritten.")
    ledger = Ledger.open(
        file,
        budget=budget_from(epsilon, delta, order),
        neighbours=check_neighbours(neighbours),
        datasets=dataset or None,
    )
    terms = ledger.terms
    typer.echo(
        f"{terms.budget} for each data set under {terms.neighbours}; the filter spends "
        f"{printed(terms.filter.total, up=False)} of {terms.filter}."
    )


@app.command()
def show(file: File, as_json: Json = False) -> None:
    """What each data set has spent and has left."""
    ledger = Ledger.open(file)
    terms = ledger.terms
    charges: dict[str, list[Entry]] = {dataset: [] for dataset in ledger.datasets}
    for entry in ledger.entries():
        if entry.kind == "charge":
            charges.setdefault(entry.body["dataset"], []).append(entry)
    failures = ledger.failures()
    rows = [_row(ledger, dataset, charged, failures) for dataset, charged in charges.items()]
    if as_json:
        print_json(
            {
                "budget": str(terms.budget),
                "neighbours": terms.neighbours,
                "filter": str(ledger.filter),
                "limit": ledger.filter.total,
                "slack": ledger.filter.slack,
                "datasets": rows,
            }
        )
        return
    print_table(
        f"{terms.budget} for each data set under {terms.neighbours}",
        ["data set", "charges", "spent", "left", "ε left at δ", "more like the last"],
        [
            [
                row["dataset"],
                str(row["charges"]),
                printed(ledger.spent(row["dataset"]).exact),
                printed(ledger.remaining(row["dataset"]).exact, up=False),
                printed(row["epsilon_left"], up=False),
                number(row["more_like_the_last"]),
            ]
            for row in rows
        ],
        note=f"spent and left: {ledger.filter}, of {printed(ledger.filter.total, up=False)}.",
    )
    for row in rows:
        if row["closed"] is not None:
            typer.echo(f"{row['dataset']} is CLOSED since a request failed: {row['closed']}")


def _row(ledger: Ledger, dataset: str, charged: list[Entry], failures: dict[str, Entry]) -> dict[str, Any]:
    registered, failure = ledger.registration(dataset), failures.get(dataset)
    spent, left = ledger.spent(dataset), ledger.remaining(dataset)
    return {
        "dataset": dataset,
        "charges": len(charged),
        "spent": spent.value,
        "left": left.value,
        "epsilon_spent": None if left.delta is None else spent.epsilon(),
        "epsilon_left": None if left.delta is None else left.epsilon(),
        "more_like_the_last": left.more_like(charged[-1].body) if charged else None,
        "registered": None if registered is None else registered.about,
        "closed": None if failure is None else failure.body["reason"],
    }


_DRAWN = 40
"""Amounts in a picture."""
_CHARGES = ["number", "when", "who", "data set", "what", "ε by itself", "release"]
_DeltaShown = Annotated[float | None, typer.Option(help="Show ε at this δ; that of the budget by default.")]


def _charges(ledger: Ledger, delta: float | None) -> list[dict[str, Any]]:
    """Every charge: who, when, what, on which data set, at which ε by itself, and the checksum of its release."""
    entries = ledger.entries()
    sealed = {entry.body["charge"]: entry.body["release"] for entry in entries if entry.kind == "seal"}
    failed = {entry.body["charge"]: entry.body["reason"] for entry in entries if entry.kind == "failure"}
    rows = []
    for entry in (entry for entry in entries if entry.kind == "charge"):
        body, loss = entry.body, entry.body.get("loss")
        known = None if loss is None or delta is None else loss_from_body(loss, ledger.terms.neighbours).epsilon(delta)
        told = {"number": entry.number, "time": body["time"], "actor": body["actor"], "dataset": body["dataset"]}
        rows.append(
            {
                **told,
                "description": body["description"],
                "epsilon": known,
                "release": sealed.get(entry.number),
                "failed": failed.get(entry.number),
            }
        )
    return rows


def _charge_texts(rows: list[dict[str, Any]], digits: int) -> list[list[str]]:
    names = ("number", "time", "actor", "dataset", "description")
    return [
        [
            *(str(row[name]) for name in names),
            printed(row["epsilon"]),
            (row["release"] or "")[:digits] or ("none: the request failed" if row["failed"] else "none recorded"),
        ]
        for row in rows
    ]


def _at(ledger: Ledger, delta: float | None) -> float | None:
    return ledger.terms.budget.delta if delta is None else check_fraction("--delta", delta, rounded="down")


@app.command("list")
def list_(file: File, delta: _DeltaShown = None, as_json: Json = False) -> None:
    """Every charge: who, when, what, on which data set, its ε by itself, and the checksum of its release."""
    ledger = Ledger.open(file)
    rows = _charges(ledger, _at(ledger, delta))
    if as_json:
        print_json({"charges": rows})
        return
    print_table(f"{len(rows)} charges", _CHARGES, _charge_texts(rows, 12))


@app.command()
def report(
    file: File,
    out: Annotated[Path, typer.Option(help="Where to write: .html or .json.")],
    delta: _DeltaShown = None,
    force: Force = False,
) -> None:
    """Who asked what, when, of which data set, and what each has spent and left: for the officer, as one page or JSON.

    Reasons of failed requests may tell about the data.
    """
    check_output(out, force, (".html", ".json"))
    ledger = Ledger.open(file)
    shown, terms = _at(ledger, delta), ledger.terms
    charges, failures, anchor = _charges(ledger, shown), ledger.failures(), ledger.verify().anchor
    state: list[dict[str, Any]] = []
    for name in ledger.datasets:
        spent, left = ledger.spent(name), ledger.remaining(name)
        epsilons = (None, None) if shown is None else (spent.epsilon(shown), left.epsilon(shown))
        closed = failures[name].body["reason"] if name in failures else None
        told = {"dataset": name, "charges": sum(row["dataset"] == name for row in charges), "closed": closed}
        state.append({**told, "epsilon_spent": epsilons[0], "epsilon_left": epsilons[1]})
    if out.suffix.lower() == ".json":
        facts = {"budget": str(terms.budget), "neighbours": terms.neighbours, "delta": shown, "anchor": anchor}
        write_file(out, json.dumps({**facts, "datasets": state, "charges": charges}, indent=1).encode())
    else:
        sections = _sections(state, charges, shown)
        lead = f"{terms.budget} for each data set under {terms.neighbours}. The chain is intact; anchor {anchor}."
        write_file(out, page(f"Ledger {file.name}", sections, lead=lead).encode())
    typer.echo(f"Written to {out}.")


def _sections(state: list[dict[str, Any]], charges: list[dict[str, Any]], delta: float | None) -> list[Section]:
    at = "" if delta is None else f" at δ = {printed(delta)}"
    rows = [
        [row["dataset"], str(row["charges"]), printed(row["epsilon_spent"]), printed(row["epsilon_left"], up=False)]
        for row in state
    ]
    note = "Each ε is of all that is spent, or left, by itself: the two do not add up to the budget."
    failed = [f"Entry {row['number']}, {row['dataset']}: {row['failed']}" for row in charges if row["failed"]]
    closed = [f"{row['dataset']} is closed." for row in state if row["closed"]]
    what = Table(columns=["data set", "charges", f"ε spent{at}", f"ε left{at}"], rows=rows, note=note)
    sections = [
        Section(heading="Data sets", table=what, items=closed, figures=_spent_picture(state, at)),
        Section(heading="Charges", table=Table(columns=_CHARGES, rows=_charge_texts(charges, 64), texts=True)),
    ]
    if failed:
        sections.append(Section(heading="Requests that failed after they were paid", items=failed))
    return sections


def _spent_picture(state: list[dict[str, Any]], at: str) -> list[tuple[Any, str]]:
    labels, values, texts = [], [], []
    for row in state:
        for what, up in (("spent", True), ("left", False)):
            value = row[f"epsilon_{what}"]
            if value is not None and math.isfinite(value):
                labels.append(f"{row['dataset']}: {what}")
                values.append(value)
                texts.append(printed(value, up=up))
    drawn = Bars(labels=labels, values=values, texts=texts, title=f"ε spent and left{at}", unit="ε", cells=_DRAWN)
    return [(drawn, "What each data set has spent and has left")] if labels else []


@app.command()
@with_options(source_options)
def register(
    rows: Any,
    file: File,
    dataset: Annotated[str, typer.Argument(help="The name that the data set has in the ledger.")],
    schema: SchemaFile,
    person: Person = None,
    names: Names = None,
) -> None:
    """Check all rows of a source against a schema and record both: for the officer, before analysts ask.

    Fits that charge the ledger then use this source and these columns, or coarser bins of them, and cannot fail on a
    value.
    """
    if names and isinstance(rows, Files):
        rows = replace(rows, names=names_from("--names", names))
    made = Ledger.open(file).register(dataset, rows, Schema.read(schema), person=person)
    size = "" if made.records is None else f", {made.records:,} records (public)"
    unit = "rows" if person is None else f"persons by {person!r}"
    typer.echo(f"{dataset}: {made.about}{size}, {unit}. Every row obeys the schema.")


@app.command()
def reopen(
    file: File,
    dataset: Annotated[str, typer.Argument(help="The closed data set.")],
    reason: Annotated[str, typer.Option(help="Why it may be asked about again, for the record.")] = "",
) -> None:
    """Open a data set that a failed request has closed; `show` says why it failed."""
    ledger = Ledger.open(file)
    if dataset_name(dataset) not in ledger.failures():
        typer.echo(f"{dataset} is not closed: nothing was done.")
        return
    ledger.reopen(dataset, reason)
    typer.echo(f"{dataset} is open again.")


@app.command()
def convert(file: File) -> None:
    """Give a ledger with a Rényi filter a Gaussian one for what is left, which admits more; for good.

    Ledgers that were started before format 2 have a Rényi filter.
    """
    ledger = Ledger.open(file)
    before = {dataset: ledger.remaining(dataset) for dataset in ledger.datasets}
    ledger.convert()
    typer.echo(f"From here on charges are {ledger.filter}, {printed(ledger.filter.total, up=False)} of it at first.")
    for dataset, left in before.items():
        after = ledger.remaining(dataset)
        typer.echo(
            f"{dataset}: ε = {printed(left.epsilon(), up=False)} was left by itself, "
            f"{printed(after.epsilon(), up=False)} is left now."
        )


@app.command()
def verify(
    file: File,
    anchor: Annotated[str | None, typer.Option(help="number:hash noted earlier, which must still be there.")] = None,
    release: Annotated[
        Path | None, typer.Option(help="A release or model file, which a charge must have paid for.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Check every page, hash, sum and price; the anchor it prints is worth keeping elsewhere."""
    ledger = Ledger.open(file)
    console = Console(stderr=True)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("prices", total=None)
        found = ledger.verify(anchor=anchor, progress=lambda done, all_: bar.update(task, completed=done, total=all_))
    paid = None if release is None else ledger.paid_for(_digest(release))
    if release is not None and paid is None:
        raise PrivacyError(f"{release}: no charge of this ledger paid for it")
    if as_json:
        facts = {"intact": True, "entries": found.entries, "anchor": found.anchor, "unsealed": found.unsealed}
        facts |= {"priced": found.priced, "unpriced": found.unpriced}
        print_json(facts if paid is None else {**facts, "paid_by": paid.number})
        return
    typer.echo(f"intact: {found.entries} entries, {len(found.unsealed)} charge(s) without a recorded release")
    unpriced = f"; {found.unpriced} charge(s) could not be, as their loss is not known" if found.unpriced else ""
    typer.echo(f"{found.priced} different price(s) computed again{unpriced}")
    typer.echo(f"anchor: {found.anchor}")
    if paid is not None:
        cost = printed(paid.body.get("cost", paid.body.get("epsilon")))
        typer.echo(f"{release} was paid for by entry {paid.number}: {cost} of {paid.body['dataset']}, {ledger.filter}")


def _digest(path: Path) -> str:
    """The checksum of all that the file holds, fields that no document has included: it is what a charge seals."""
    return checksum(check_document(read_file(path)))


@app.command()
def export(
    file: File, out: Annotated[Path | None, typer.Option(help="Where to write; an existing file is kept.")] = None
) -> None:
    """All entries as JSON."""
    ledger = Ledger.open(file)
    document = {"anchor": ledger.verify().anchor, "entries": [entry.as_dict() for entry in ledger.entries()]}
    text = json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    print_or_write(text, out)
