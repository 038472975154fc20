"""`simplexdp ledger`: start, show, verify and export the record of what each data set has spent."""

from __future__ import annotations

import os
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any

import typer

from ..budget import check_neighbours
from ..errors import InvalidArgument, PrivacyError
from ..ledger import Ledger
from ..models.document import checksum, read_document, read_file
from .files import KINDS, print_or_write
from .options import Json, NeighboursOption, budget_from, number, print_json, print_table

app = typer.Typer(help="Start, show, verify and export a ledger of spent budgets.", no_args_is_help=True)
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
        f"{terms.budget} for each data set under {terms.neighbours}; the filter spends ε = {terms.limit:.6g} "
        f"at Rényi order {terms.order:g}."
    )


@app.command()
def show(file: File, as_json: Json = False) -> None:
    """What each data set has spent and has left."""
    ledger = Ledger.open(file)
    terms = ledger.terms
    charges: dict[str, list[float]] = {dataset: [] for dataset in ledger.datasets}
    for entry in ledger.entries():
        if entry.kind == "charge":
            charges.setdefault(entry.body["dataset"], []).append(entry.body["epsilon"])
    rows = [_row(ledger, dataset, costs) for dataset, costs in charges.items()]
    if as_json:
        print_json(
            {
                "budget": str(terms.budget),
                "neighbours": terms.neighbours,
                "order": terms.order,
                "limit": terms.limit,
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
                *(number(row[key]) for key in ("spent", "left", "epsilon_left", "more_like_the_last")),
            ]
            for row in rows
        ],
        note=f"spent and left: Rényi ε at order {terms.order:g}, of {terms.limit:.6g}.",
    )


def _row(ledger: Ledger, dataset: str, costs: list[float]) -> dict[str, Any]:
    spent, left = ledger.spent(dataset), ledger.remaining(dataset)
    last = Fraction(costs[-1]) if costs else Fraction(0)
    return {
        "dataset": dataset,
        "charges": len(costs),
        "spent": spent.rdp,
        "left": left.rdp,
        "epsilon_spent": None if left.delta is None else spent.epsilon(),
        "epsilon_left": None if left.delta is None else left.epsilon(),
        "more_like_the_last": int(left.exact / last) if last else None,
    }


@app.command()
def verify(
    file: File,
    anchor: Annotated[str | None, typer.Option(help="number:hash noted earlier, which must still be there.")] = None,
    release: Annotated[
        Path | None, typer.Option(help="A release or model file, which a charge must have paid for.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Check every page, hash and sum; the anchor it prints is worth keeping elsewhere."""
    ledger = Ledger.open(file)
    found = ledger.verify(anchor=anchor)
    paid = None if release is None else ledger.paid_for(_digest(release))
    if release is not None and paid is None:
        raise PrivacyError(f"{release}: no charge of this ledger paid for it")
    if as_json:
        facts = {"intact": True, "entries": found.entries, "anchor": found.anchor, "unsealed": found.unsealed}
        print_json(facts if paid is None else {**facts, "paid_by": paid.number})
        return
    typer.echo(f"intact: {found.entries} entries, {len(found.unsealed)} charge(s) without a recorded release")
    typer.echo(f"anchor: {found.anchor}")
    if paid is not None:
        typer.echo(
            f"{release} was paid for by entry {paid.number}: ε = {paid.body['epsilon']:.6g} of {paid.body['dataset']}"
        )


def _digest(path: Path) -> str:
    """The checksum of all that the file holds, fields that no document has included: it is what a charge seals."""
    kind, body = read_document(read_file(path), *KINDS)
    KINDS[kind].from_body(body)
    return checksum(body)


@app.command()
def export(
    file: File, out: Annotated[Path | None, typer.Option(help="Where to write; an existing file is kept.")] = None
) -> None:
    """All entries as JSON."""
    import json

    ledger = Ledger.open(file)
    document = {"anchor": ledger.verify().anchor, "entries": [entry.as_dict() for entry in ledger.entries()]}
    text = json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    print_or_write(text, out)
