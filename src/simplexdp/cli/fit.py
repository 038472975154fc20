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
from ..models import Model
from ..models.document import write_file
from ..naive_bayes import fit_naive_bayes
from ..network import LEARN, BayesianNetwork
from ..pipeline import ALL_TABLES, fit_recipe, release_distribution, release_tables, wanted_tables
from ..schema import Schema
from .files import check_output, open_ledger, progress_bar, read_graph, source_from
from .options import (
    METHODS,
    BudgetOption,
    Database,
    Dataset,
    Delimiter,
    Delta,
    Encoding,
    Epsilon,
    EstimateOption,
    FileFormat,
    Force,
    Json,
    LedgerFile,
    MechanismOption,
    Names,
    NeighboursOption,
    OneRecord,
    Order,
    OutFile,
    PartialsFolder,
    Person,
    PublicSize,
    Quote,
    Records,
    Rho,
    RowsPerPerson,
    Said,
    SchemaFile,
    Seed,
    ShardsKey,
    ShardsRequest,
    Sources,
    Sql,
    Threads,
    Yes,
    budget_from,
    layout_from,
    names_from,
    print_json,
    recipe_from,
    with_options,
)
from .shards import partials_from

app = typer.Typer(help="Fit privately from files or a query, and write what may be published.", no_args_is_help=True)
Columns = Annotated[
    list[str], typer.Option(help="The columns whose joint distribution is published: a,b, or the option for each.")
]
Target = Annotated[str, typer.Option(help="The class column.")]
Features = Annotated[
    list[str] | None, typer.Option(help="The feature columns a,b; all others of the schema by default.")
]
GraphOption = Annotated[
    str, typer.Option("--graph", help="'a->b,b->c', a .json file of edges or parents, a .bif file, or learn.")
]
Calibration = Annotated[str, typer.Option(help="exact, or algorithm1 for the paper's parameters.")]
SPLITS = "equal, cells, loss (the least predicted one), or one weight for each table with commas between them"


@dataclass(frozen=True, kw_only=True)
class Request:
    """What all fits are asked in the same way, checked as far as that goes without data."""

    rows: Any
    schema: Schema
    settings: dict[str, Any]
    counting: dict[str, Any]
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
    rho: Rho = None,
    budget: BudgetOption = None,
    mechanism: MechanismOption = "auto",
    calibration: Calibration = "exact",
    estimate: EstimateOption = "posterior-mean",
    neighbours: NeighboursOption = "replace-one",
    rows_per_person: RowsPerPerson = None,
    person: Person = None,
    records: Records = None,
    sql: Sql = None,
    database: Database = None,
    public_size: PublicSize = False,
    one_record_per_row: OneRecord = False,
    file_format: FileFormat = None,
    delimiter: Delimiter = None,
    encoding: Encoding = None,
    quote: Quote = None,
    names: Names = None,
    seed: Seed = None,
    ledger: LedgerFile = None,
    dataset: Dataset = None,
    partials: PartialsFolder = None,
    shards: ShardsRequest = None,
    key: ShardsKey = None,
    threads: Threads = None,
    force: Force = False,
    yes: Yes = False,
    as_json: Json = False,
) -> Request:
    """The options that all fits share."""
    if estimate not in METHODS:
        raise InvalidArgument("--estimate", "one of " + ", ".join(METHODS), got=estimate)
    given = (epsilon, delta, order, rho)
    no_budget = mechanism == "none" and given == (None,) * 4
    if budget is not None and given != (None,) * 4:
        raise InvalidArgument("--budget", "given without --epsilon, --delta, --order and --rho")
    settings = {
        "budget": budget or (None if no_budget else budget_from(*given)),
        "mechanism": mechanism,
        "calibration": calibration,
        "estimate": estimate,
        "neighbours": check_neighbours(neighbours),
        "entropy": seed,
    }
    return Request(
        rows=partials_from(partials, shards, key, source, sql)
        or source_from(
            source,
            sql,
            database,
            file_format,
            layout_from(delimiter, encoding, quote, names),
            public_size=public_size,
            one_record=one_record_per_row,
        ),
        schema=Schema.read(schema),
        settings=settings,
        counting={
            "rows_per_person": rows_per_person,
            "person": person,
            "records": records,
            "threads": threads,
            "many_cells": yes,
        },
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
    names = names_from("--columns", columns, asked.schema.names)
    asked.schema.select(names)

    def fit(progress: Any) -> Model:
        paid: dict[str, Any] = {"ledger": asked.ledger, "dataset": asked.dataset, "progress": progress}
        return release_distribution(asked.rows, asked.schema, names, **asked.counting, **paid, **asked.settings)

    _run(fit, asked)


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
    names = names_from("--features", features, asked.schema.names) if features else None
    asked.schema.select([target, *(names or ())])
    own: dict[str, Any] = {"split": split_from(split), "reweight": reweight}
    own |= {"second_look": second_look, "merge_bins": merge_bins}

    def fit(progress: Any) -> Model:
        paid: dict[str, Any] = {"ledger": asked.ledger, "dataset": asked.dataset, "progress": progress}
        return fit_naive_bayes(
            asked.rows, asked.schema, target, names, **own, **asked.counting, **paid, **asked.settings
        )

    _run(fit, asked)


@app.command()
@with_options(request)
def bn(
    asked: Request,
    graph: GraphOption,
    split: Annotated[str, typer.Option(help=f"Of the budget over the tables: auto, {SPLITS}.")] = "auto",
    for_analysis: Annotated[
        list[str] | None, typer.Option(help="Columns a,b,c that are to share a released table; repeatable.")
    ] = None,
) -> None:
    """Fit a Bayesian network with a known graph, or learn one."""
    paid: dict[str, Any] = {"ledger": asked.ledger, "dataset": asked.dataset}
    paid["for_analysis"] = [names_from("--for-analysis", each, asked.schema.names) for each in for_analysis or ()]
    known = LEARN if graph.strip() == LEARN else read_graph(graph)
    network = BayesianNetwork(known, asked.schema, split=split_from(split), **paid, **asked.settings)
    _run(lambda progress: network.fit(asked.rows, **asked.counting, progress=progress).model, asked)


@app.command()
@with_options(request)
def model(
    asked: Request,
    kind: Annotated[str, typer.Argument(help="A kind of model that was registered, with a recipe of its own.")],
    said: Said = None,
) -> None:
    """Fit a model of a registered kind by its recipe."""
    recipe = recipe_from(kind, asked.schema, said)

    def fit(progress: Any) -> Model:
        paid: dict[str, Any] = {"ledger": asked.ledger, "dataset": asked.dataset, "progress": progress}
        found: Model = fit_recipe(recipe, asked.rows, **asked.counting, **paid, **asked.settings)
        return found

    _run(fit, asked)


@app.command()
@with_options(request)
def tables(
    asked: Request,
    table: Annotated[
        list[str],
        typer.Option(help="Columns of a table, a,b, or all-1-way, all-2-way, all-3-way; once for each table."),
    ],
    weight: Annotated[
        list[float] | None, typer.Option(help="What the error of each table counts, in their order; 1 by default.")
    ] = None,
    split: Annotated[str, typer.Option(help=f"Of the budget over the tables: {SPLITS}.")] = "loss",
    parts: Annotated[
        str | None, typer.Option(help="A column by which every table is given: each part has tables of its own.")
    ] = None,
) -> None:
    """Publish many tables that agree with each other, under one guarantee."""
    wanted = [each.strip() if each.strip() in ALL_TABLES else names_from("--table", each) for each in table]
    wanted_tables(asked.schema, wanted, parts)
    settings = {key: value for key, value in asked.settings.items() if key not in ("calibration", "estimate")}
    if asked.settings["calibration"] != "exact":
        raise InvalidArgument("--calibration", "exact for many tables", got=asked.settings["calibration"])
    if asked.settings["estimate"] != "posterior-mean":
        raise InvalidArgument("--estimate", "posterior-mean for many tables", got=asked.settings["estimate"])
    own: dict[str, Any] = {"weights": weight or None, "split": split_from(split), "parts": parts}

    def fit(progress: Any) -> Model:
        paid: dict[str, Any] = {"ledger": asked.ledger, "dataset": asked.dataset, "progress": progress}
        return release_tables(asked.rows, asked.schema, wanted, **own, **asked.counting, **paid, **settings)

    _run(fit, asked)


def split_from(text: str) -> Any:
    """A rule by its name, or weights."""
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        return text.strip()


def _run(fit: Callable[[Any], Model], asked: Request) -> None:
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
                "kind": found.kind,
                "private": certificate.private,
                "tables": len(found.releases),
                "certificate": certificate.__dict__,
            }
        )
        return
    typer.echo(f"{found!r}")
    typer.echo(f"{'PRIVATE' if certificate.private else 'NOT PRIVATE'}: {certificate.promise}")
    for reason in certificate.not_private:
        typer.echo(f"  - {reason}")
    typer.echo(f"Written to {out}; `simplexdp inspect {out}` shows what it says.")
