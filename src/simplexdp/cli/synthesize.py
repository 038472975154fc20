"""`simplexdp synthesize`: from a sensitive table to synthetic records, and the model that they come from."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from ..errors import InvalidArgument
from ..models.document import write_file
from ..synthesizer import Synthesizer
from ..synthetic import synthetic_records
from .files import ENDINGS, check_output, progress_bar, table_writer
from .fit import Request, request
from .options import names_from, print_json, with_options


@with_options(request)
def synthesize(
    asked: Request,
    model: Annotated[
        Path | None, typer.Option(help="Also write the model, from which more records can be drawn at no budget.")
    ] = None,
    size: Annotated[
        int | None, typer.Option("--size", "-n", help="How many records; about as many as there are by default.", min=1)
    ] = None,
    target: Annotated[str | None, typer.Option(help="A column to predict: its relations count more.")] = None,
    columns: Annotated[list[str] | None, typer.Option(help="Columns a,b of the schema; all by default.")] = None,
) -> None:
    """Learn a model of all columns, and draw synthetic records from it into a .csv, .parquet or .arrow file."""
    for option, usual in (("calibration", "exact"), ("estimate", "posterior-mean")):
        if asked.settings[option] != usual:
            raise InvalidArgument(f"--{option}", f"{usual} for a synthesis", got=asked.settings[option])
    if asked.settings["budget"] is None:
        raise InvalidArgument("--mechanism", "one with noise for a synthesis", got="none")
    settings = {key: value for key, value in asked.settings.items() if key not in ("calibration", "estimate")}
    names = names_from("--columns", columns, asked.schema.names) if columns else None
    paid: dict[str, Any] = {"ledger": asked.ledger, "dataset": asked.dataset}
    made = Synthesizer(asked.schema, target=target, columns=names, **paid, **settings)
    check_output(asked.out, asked.force, ENDINGS)
    kept = None if model is None else check_output(model, asked.force)
    persons = {key: value for key, value in asked.counting.items() if key != "many_cells"}
    with progress_bar("learning") as progress:
        made.fit(asked.rows, progress=progress, **persons)
    if kept is not None:
        _keep(made, kept)
    size = made.model.records if size is None else size
    reader = synthetic_records(made.model, size)
    done = 0
    with progress_bar("drawing") as progress, table_writer(asked.out, reader.schema) as writer:
        for batch in reader:
            writer.write_batch(batch)
            done += batch.num_rows
            progress(done, size)
    certificate = made.certificate()
    if asked.as_json:
        about = {"kind": made.model.kind, "edges": [list(edge) for edge in made.graph.edges]}
        raked = [list(pair) for pair in made.model.factors]
        print_json(
            {
                "out": str(asked.out),
                "records": done,
                "model": None if kept is None else str(kept),
                "private": certificate.private,
                **about,
                "raked": raked,
                "certificate": certificate.__dict__,
            }
        )
        return
    typer.echo(f"{made.model!r}")
    typer.echo(f"{'PRIVATE' if certificate.private else 'NOT PRIVATE'}: {certificate.promise}")
    for reason in certificate.not_private:
        typer.echo(f"  - {reason}")
    typer.echo(f"{done:,} synthetic records of {len(reader.schema)} columns written to {asked.out}.")
    if kept is not None:
        typer.echo(f"The model is in {kept}; `simplexdp sample {kept}` draws more, at no further budget.")


def _keep(made: Synthesizer, path: Path) -> None:
    """Write the model, which is paid for and must not be lost."""
    text = made.to_json()
    try:
        write_file(path, text)
    except OSError as error:
        typer.echo(text)  # it is paid for, so it must not be lost
        raise InvalidArgument(
            "--model",
            f"a file that can be written ({error.strerror})",
            hint="The budget is spent; the document is on standard output instead.",
        ) from None
