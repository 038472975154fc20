"""What commands read and write: rows, ledgers, graphs, documents, and outputs that appear whole or not at all."""

from __future__ import annotations

import itertools
import json
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from ..errors import InvalidArgument
from ..ledger import Ledger
from ..models.bayesian_network.graph import MAX_BYTES, Graph
from ..models.document import read_file, whole_file
from ..private.counting import Files, Query
from ..private.counting import Progress as Report
from ..schema.text import TextFile
from .options import Database, Delimiter, Encoding, FileFormat, PublicSize, Quote, Sources, Sql, layout_from


def source_from(
    files: Sequence[str] | None,
    sql: str | None = None,
    database: str | None = None,
    form: str | None = None,
    layout: TextFile | None = None,
    *,
    public_size: bool = False,
    one_record: bool = False,
) -> Any:
    """The source that arguments and options name: files, or a query."""
    if bool(files) == (sql is not None):
        raise InvalidArgument("SOURCE", "files, or else a query with --sql", hint="Give exactly one of the two.")
    if sql is not None:
        if form or layout not in (None, TextFile()):
            raise InvalidArgument("--format, --delimiter, --encoding, --quote and --names", "left out with --sql")
        return Query(sql, database, public_size, one_record)
    if public_size:
        raise InvalidArgument("--public-size", "left out without --sql", hint="The number of rows of files is public.")
    if one_record:
        raise InvalidArgument("--one-record-per-row", "left out without --sql", hint="Each row of a file is a record.")
    return Files(list(files or ()), form, **(layout or TextFile()).model_dump())


def source_options(
    source: Sources = None,
    sql: Sql = None,
    database: Database = None,
    public_size: PublicSize = False,
    file_format: FileFormat = None,
    delimiter: Delimiter = None,
    encoding: Encoding = None,
    quote: Quote = None,
) -> Any:
    """The source, from the options that name one."""
    return source_from(
        source, sql, database, file_format, layout_from(delimiter, encoding, quote), public_size=public_size
    )


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
def progress_bar(what: str, of: str = "rows", *, shown: bool = True) -> Iterator[Report]:
    """A bar with the rows done, or parts of another kind, on standard error and only if that is a terminal."""
    console = Console(stderr=True)
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn(of),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console, transient=True, disable=not (shown and console.is_terminal)) as bar:
        task = bar.add_task(what, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


# -- tables -----------------------------------------------------------------------------------------------------------
#
# Rows in and out: record batches of files, and files of record batches that appear whole or not at all.

ENDINGS = (".csv", ".parquet", ".arrow")


@contextmanager
def table_writer(path: Path, schema: Any) -> Iterator[Any]:
    """A writer with `write_batch` for a .csv, .parquet or .arrow file."""
    suffix = path.suffix.lower()
    if suffix not in ENDINGS:
        raise InvalidArgument("--out", f"a file name that ends in {', '.join(ENDINGS)}", got=str(path))
    with whole_file(path) as made, _writer(str(made), schema, suffix) as writer:
        yield writer


def _writer(name: str, schema: Any, suffix: str) -> Any:
    if suffix == ".csv":
        import pyarrow.csv

        return pyarrow.csv.CSVWriter(name, schema)
    if suffix == ".parquet":
        import pyarrow.parquet

        return pyarrow.parquet.ParquetWriter(name, schema)
    return pa.ipc.new_file(name, schema)


# -- graphs -----------------------------------------------------------------------------------------------------------
#
# Graphs on the command line: edges in an option, in a JSON file or in a BIF file.

FORMS = "edges such as 'a->b,b->c', a .json file of edges or parents, or a .bif file"


def read_graph(text: str) -> Graph:
    """The graph that the option describes; single names are nodes without edges.

    >>> read_graph("rain->wet, sprinkler->wet, wind").families
    (('rain', ()), ('sprinkler', ()), ('wet', ('rain', 'sprinkler')), ('wind', ()))
    """
    path = Path(text)
    suffix = path.suffix.lower()
    if "->" not in text and suffix == ".bif":
        return Graph.of(path)
    if "->" not in text and suffix == ".json":
        return Graph.of(_json(path))
    parents: dict[str, list[str]] = {}
    for part in text.split(","):
        names = [name.strip() for name in part.split("->")]
        if not all(names):
            raise InvalidArgument("--graph", FORMS, got=text)
        for name in names:
            parents.setdefault(name, [])
        for parent, child in itertools.pairwise(names):
            parents[child].append(parent)
    return Graph.of(parents)


def _json(path: Path) -> Any:
    """`[["a", "b"], ...]`, `{"child": ["parent", ...]}`, or either of them under "edges" or "parents"."""
    try:
        found = json.loads(read_file(path, MAX_BYTES))
    except (ValueError, RecursionError):
        raise InvalidArgument("--graph", "a JSON file that can be read", got=str(path)) from None
    if isinstance(found, dict) and set(found) in ({"edges"}, {"parents"}):
        (found,) = found.values()
    if isinstance(found, dict) and all(isinstance(item, list) for item in found.values()):
        return found
    if isinstance(found, list) and all(isinstance(item, list) and len(item) == 2 for item in found):
        return [tuple(item) for item in found]
    raise InvalidArgument("--graph", 'a JSON file of edges [["a", "b"]] or parents {"b": ["a"]}', got=str(path))
