"""`simplexdp sample`: synthetic records from anything published, at no further budget."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..errors import InvalidArgument
from ..models.synthetic import Bins
from ..synthetic import synthetic_records
from .files import check_output, load, progress_bar
from .options import Force, Json, OutFile, print_json
from .tables import ENDINGS, table_writer

BINS: dict[str, Bins] = {"uniform": "uniform", "midpoint": "midpoint"}


def sample(
    model: Annotated[Path, typer.Argument(help="A release or model that `simplexdp fit` wrote.")],
    out: OutFile,
    size: Annotated[int, typer.Option("--size", "-n", help="How many records.", min=1)],
    bins: Annotated[str, typer.Option(help="Numbers inside a bin: uniform draws, or its midpoint.")] = "uniform",
    labels: Annotated[bool, typer.Option("--labels", help="Labels as text; other and missing stay apart.")] = False,
    seed: Annotated[
        int | None, typer.Option(help="Repeatable records; as private as the model, whatever the seed.", min=0)
    ] = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Draw synthetic records from a published model into a .csv, .parquet or .arrow file."""
    if bins not in BINS:
        raise InvalidArgument("--bins", " or ".join(BINS), got=bins)
    check_output(out, force, ENDINGS)
    _, found = load(model)
    reader = synthetic_records(found, size, bins=BINS[bins], labels=labels, seed=seed)
    done = 0
    with progress_bar("drawing") as progress, table_writer(out, reader.schema) as writer:
        for batch in reader:
            writer.write_batch(batch)
            done += batch.num_rows
            progress(done, size)
    private = found.certificate().private
    if as_json:
        print_json({"out": str(out), "records": done, "columns": reader.schema.names, "private": private})
        return
    typer.echo(f"{done:,} synthetic records of {len(reader.schema)} columns written to {out}.")
    if not private:
        typer.echo("NOT PRIVATE: the model that they come from is not.")
