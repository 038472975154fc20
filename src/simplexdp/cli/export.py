"""`simplexdp export`: what was published, for other programs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..errors import InvalidArgument
from ..models import NaiveBayesModel, read
from ..models.document import write_file
from ..models.scoring_sql import prediction_sql
from ..spreadsheet import ENDINGS, export_table
from .files import check_output
from .options import Force, OutFile, names_from

app = typer.Typer(help="Give what was published to databases and spreadsheets.", no_args_is_help=True)
Published = Annotated[Path, typer.Argument(help="What `simplexdp fit` wrote.")]
Out = Annotated[Path | None, typer.Option("--out", help="Where to write; standard output if not given.")]


@app.command()
def sql(
    model: Published,
    table: Annotated[str, typer.Option(help="The table or view to predict for, as schema.table.")],
    keep: Annotated[list[str] | None, typer.Option(help="Columns a,b of the table to show beside.")] = None,
    dialect: Annotated[str, typer.Option(help="duckdb or postgres.")] = "duckdb",
    unknown: Annotated[
        str, typer.Option(help="Values that the model does not know: refuse gives NULL, ignore uses the others.")
    ] = "refuse",
    out: Out = None,
    force: Force = False,
) -> None:
    """Naive Bayes as one SELECT that predicts inside of a database."""
    found = read(model)
    if not isinstance(found, NaiveBayesModel):
        raise InvalidArgument("MODEL", "a naive Bayes model", got=found.kind)
    text = prediction_sql(
        found,
        table,
        keep=names_from("--keep", keep) if keep else (),
        dialect=dialect,  # type: ignore[arg-type]  # checked there
        unknown=unknown,  # type: ignore[arg-type]  # checked there
    )
    if out is None:
        typer.echo(text, nl=False)
        return
    write_file(check_output(out, force), text)
    typer.echo(f"Written to {out}; run it in {dialect}.")


@app.command()
def table(
    published: Published,
    out: OutFile,
    force: Force = False,
) -> None:
    """The numbers of a release or model as .csv or .xlsx; of two columns also the cross table with its margins."""
    export_table(read(published), check_output(out, force, ENDINGS))
    typer.echo(f"Written to {out}.")
