"""`simplexdp bundle`: what institutions ask for beside a release, in one folder or zip."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from ..bundle import QUESTIONS, Answers
from ..bundle import bundle as write_bundle
from ..models import read
from ..models.document import write_file
from .options import Json, print_json


def bundle(
    release: Annotated[Path, typer.Argument(help="What `simplexdp fit` wrote.")],
    out: Annotated[Path, typer.Option("--out", help="A new folder, or a new file that ends in .zip.")],
    answers: Annotated[
        Path | None,
        typer.Option(help="A file of answers; it is made when it is not there, and holds them for the next time."),
    ] = None,
    records: Annotated[
        Path | None, typer.Option(help="Synthetic records, .csv or .parquet: with Croissant metadata.")
    ] = None,
    sign_key: Annotated[Path | None, typer.Option(help="A private ECDSA key (PEM) that signs the checksums.")] = None,
    as_json: Json = False,
) -> None:
    """Put release, certificate, report, registry entry and review answers into one folder or zip."""
    known = Answers.read(answers) if answers is not None and answers.exists() else Answers(given={})
    if known.missing and sys.stdin.isatty() and not as_json:
        asked = {name: typer.prompt(QUESTIONS[name], default="", show_default=False) for name in known.missing}
        known = Answers(given={**known.given, **asked})
    names = write_bundle(read(release), out, known, records=records, key=sign_key)
    if answers is not None and (not answers.exists() or Answers.read(answers) != known):
        write_file(answers, known.to_yaml())
    if as_json:
        print_json({"out": str(out), "files": names, "not_answered": known.missing})
        return
    typer.echo(f"{len(names)} files written to {out}.")
    if known.missing:
        typer.echo(f"Not answered yet, and said so in the files: {', '.join(known.missing)}.")
