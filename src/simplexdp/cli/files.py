"""What commands read and write: sources of rows, ledgers, documents, and outputs that appear whole or not at all."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from ..counting import Files, Query
from ..counting import Progress as Report
from ..errors import InvalidArgument
from ..ledger import Ledger
from ..models import Release
from ..models.bayesian_network import BayesianNetworkModel
from ..models.document import open_document
from ..models.naive_bayes import NaiveBayesModel

Published = Release | NaiveBayesModel | BayesianNetworkModel
KINDS: dict[str, type[Release] | type[NaiveBayesModel] | type[BayesianNetworkModel]] = {
    published.kind: published for published in (Release, NaiveBayesModel, BayesianNetworkModel)
}


def load(path: Path) -> tuple[str, Published]:
    """The kind of a document and what it holds; files that were changed or are newer are refused."""
    kind, body = open_document(path, *KINDS)
    return kind, KINDS[kind].from_body(body)


def source_from(
    files: Sequence[str] | None,
    sql: str | None = None,
    database: str | None = None,
    form: str | None = None,
    delimiter: str | None = None,
    *,
    public_size: bool = False,
) -> Any:
    """The source that arguments and options name: files, or a query."""
    if bool(files) == (sql is not None):
        raise InvalidArgument("SOURCE", "files, or else a query with --sql", hint="Give exactly one of the two.")
    if sql is not None:
        if form or delimiter:
            raise InvalidArgument("--format and --delimiter", "left out with --sql")
        return Query(sql, database, public_size)
    if public_size:
        raise InvalidArgument("--public-size", "left out without --sql", hint="The number of rows of files is public.")
    return Files(list(files or ()), form, delimiter)


def check_output(path: Path, force: bool, endings: Sequence[str] = ()) -> Path:
    """The path, if a file can be put there: found out before anything is spent, by making one beside it."""
    if endings and path.suffix.lower() not in endings:
        raise InvalidArgument("--out", f"a file name that ends in {', '.join(endings)}", got=str(path))
    if path.is_dir():
        raise InvalidArgument("--out", "the name of a file, not of a folder", got=str(path))
    if path.exists() and not force:
        raise InvalidArgument("--out", "a new file", got=str(path), hint="Add --force to replace it.")
    try:
        with tempfile.TemporaryFile(dir=path.parent):
            pass
    except OSError as error:
        reason = error.strerror or "it cannot be written"
        raise InvalidArgument("--out", f"in a folder that can be written ({reason})", got=str(path)) from None
    return path


def print_or_write(text: str, out: Path | None) -> None:
    """To standard output, or into a new file."""
    if out is None:
        typer.echo(text, nl=False)
        return
    try:
        with out.open("x", encoding="utf-8", newline="\n") as target:
            target.write(text)
    except OSError as error:
        raise InvalidArgument("--out", f"a new file that can be written ({error.strerror})", got=str(out)) from None


def open_ledger(path: Path | None, dataset: str | None) -> Ledger | None:
    """The ledger to charge; it exists already, so that a misspelt path does not start a new budget."""
    if (path is None) != (dataset is None):
        raise InvalidArgument("--ledger", "given together with --dataset")
    if path is None:
        return None
    if not path.exists():
        raise InvalidArgument(
            "--ledger", "an existing ledger", got=str(path), hint="`simplexdp ledger create` starts one."
        )
    return Ledger.open(path)


@contextmanager
def progress_bar(what: str) -> Iterator[Report]:
    """A bar with the rows done, on standard error and only if that is a terminal."""
    console = Console(stderr=True)
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("rows"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(what, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)
