"""`simplexdp fit`: a distribution, a naive Bayes classifier or a Bayesian network from sensitive rows.

Everything that can be refused is refused before a row is read, and everything that can be checked about the output is
checked before budget is spent: options, schema, graph, ledger, and that the file can be written.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from ..budget import check_neighbours
from ..errors import InvalidArgument
from ..ledger import Ledger
from ..models import Release
from ..models.document import write_file
from ..naive_bayes import fit_naive_bayes
from ..network import BayesianNetwork
from ..pipeline import release_distribution
from ..schema import Schema
from .files import Published, check_output, open_ledger, progress_bar, source_from
from .graphs import read_graph
from .options import (
    METHODS,
    Database,
    Dataset,
    Delimiter,
    Delta,
    Epsilon,
    EstimateOption,
    FileFormat,
    Force,
    Json,
    LedgerFile,
    MechanismOption,
    NeighboursOption,
    Order,
    OutFile,
    Person,
    PublicSize,
    RowsPerPerson,
    SchemaFile,
    Seed,
    Sources,
    Sql,
    budget_from,
    names_from,
    print_json,
    with_options,
)

app = typer.Typer(help="Fit privately from files or a query, and write what may be published.", no_args_is_help=True)
Columns = Annotated[str, typer.Option(help="The columns whose joint distribution is published: a,b.")]
Target = Annotated[str, typer.Option(help="The class column.")]
Features = Annotated[str | None, typer.Option(help="The feature columns a,b; all others of the schema by default.")]
GraphOption = Annotated[
    str, typer.Option("--graph", help="'a->b,b->c', a .json file of edges or parents, or a .bif file.")
]
Calibration = Annotated[str, typer.Option(help="exact, or algorithm1 for the paper's parameters.")]
SPLITS = "equal, cells, loss (the least predicted one), or one weight for each table with commas between them"


@dataclass(frozen=True, kw_only=True)
class Request:
    """What all fits are asked in the same way, checked as far as that goes without data."""

    rows: Any
    schema: Schema
    settings: dict[str, Any]
    persons: dict[str, Any]
    ledger: Ledger | None
    dataset: str | None
    out: Path
    force: bool
    as_json: bool


def request(
    schema: SchemaFile,
    out: OutFile,
    source: Sources = None,
    epsilon: Epsilon = None,
    delta: Delta = None,
    order: Order = None,
    mechanism: MechanismOption = "auto",
    calibration: Calibration = "exact",
    estimate: EstimateOption = "posterior-mean",
    neighbours: NeighboursOption = "replace-one",
    rows_per_person: RowsPerPerson = None,
    person: Person = None,
    sql: Sql = None,
    database: Database = None,
    public_size: PublicSize = False,
    file_format: FileFormat = None,
    delimiter: Delimiter = None,
    seed: Seed = None,
    ledger: LedgerFile = None,
    dataset: Dataset = None,
    force: Force = False,
    as_json: Json = False,
) -> Request:
    """The options that all fits share."""
    if estimate not in METHODS:
        raise InvalidArgument("--estimate", "one of " + ", ".join(METHODS), got=estimate)
    given = (epsilon, delta, order)
    no_budget = mechanism == "none" and given == (None, None, None)
    settings = {
        "budget": None if no_budget else budget_from(*given),
        "mechanism": mechanism,
        "calibration": calibration,
        "estimate": estimate,
        "neighbours": check_neighbours(neighbours),
        "entropy": seed,
    }
    return Request(
        rows=source_from(source, sql, database, file_format, delimiter, public_size=public_size),
        schema=Schema.read(schema),
        settings=settings,
        persons={"rows_per_person": rows_per_person, "person": person},
        ledger=open_ledger(ledger, dataset),
        dataset=dataset,
        out=out,
        force=force,
        as_json=as_json,
    )


@app.command()
@with_options(request)
def distribution(asked: Request, columns: Columns) -> None:
    """Publish the joint distribution of one or several columns."""
    names = names_from("--columns", columns)
    asked.schema.select(names)

    def fit(progress: Any) -> Published:
        paid: dict[str, Any] = {"ledger": asked.ledger, "dataset": asked.dataset, "progress": progress}
        return release_distribution(asked.rows, asked.schema, names, **asked.persons, **paid, **asked.settings)

    _run("release", fit, asked)


@app.command()
@with_options(request)
def nb(
    asked: Request,
    target: Target,
    features: Features = None,
    split: Annotated[str, typer.Option(help=f"Of the budget over the features: auto, {SPLITS}.")] = "auto",
    reweight: Annotated[
        bool, typer.Option(help="Spend part of the budget on feature weights where public facts say that it pays.")
    ] = True,
    second_look: Annotated[
        bool, typer.Option(help="Draw the tables twice, the second time with less noise where they say most.")
    ] = True,
    merge_bins: Annotated[
        bool, typer.Option(help="Draw neighbouring bins together where public facts say that the noise hides each.")
    ] = True,
) -> None:
    """Fit a naive Bayes classifier: one table of each feature and the class."""
    names = None if features is None else names_from("--features", features)
    asked.schema.select([target, *(names or ())])
    own: dict[str, Any] = {"split": split_from(split), "reweight": reweight}
    own |= {"second_look": second_look, "merge_bins": merge_bins}

    def fit(progress: Any) -> Published:
        paid: dict[str, Any] = {"ledger": asked.ledger, "dataset": asked.dataset, "progress": progress}
        return fit_naive_bayes(
            asked.rows, asked.schema, target, names, **own, **asked.persons, **paid, **asked.settings
        )

    _run("naive-bayes", fit, asked)


@app.command()
@with_options(request)
def bn(
    asked: Request,
    graph: GraphOption,
    split: Annotated[str, typer.Option(help=f"Of the budget over the tables: auto, {SPLITS}.")] = "auto",
) -> None:
    """Fit a Bayesian network with a known graph."""
    paid: dict[str, Any] = {"ledger": asked.ledger, "dataset": asked.dataset}
    network = BayesianNetwork(read_graph(graph), asked.schema, split=split_from(split), **paid, **asked.settings)
    _run("bayesian-network", lambda progress: network.fit(asked.rows, **asked.persons, progress=progress).model, asked)


def split_from(text: str) -> Any:
    """A rule by its name, or weights."""
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        return text.strip()


def _run(kind: str, fit: Callable[[Any], Published], asked: Request) -> None:
    out = check_output(asked.out, asked.force)
    with progress_bar("counting") as progress:
        found = fit(progress)
    text = found.to_json()
    try:
        write_file(out, text)
    except OSError as error:
        typer.echo(text)  # it is paid for, so it must not be lost
        raise InvalidArgument(
            "--out",
            f"a file that can be written ({error.strerror})",
            hint="The budget is spent; the document is on standard output instead.",
        ) from None
    certificate = found.certificate()
    if asked.as_json:
        print_json(
            {
                "out": str(out),
                "kind": kind,
                "private": certificate.private,
                "tables": 1 if isinstance(found, Release) else len(found.releases),
                "certificate": certificate.__dict__,
            }
        )
        return
    typer.echo(f"{found!r}")
    typer.echo(f"{'PRIVATE' if certificate.private else 'NOT PRIVATE'}: {certificate.promise}")
    for reason in certificate.not_private:
        typer.echo(f"  - {reason}")
    typer.echo(f"Written to {out}; `simplexdp inspect {out}` shows what it says.")
