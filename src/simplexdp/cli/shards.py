"""`simplexdp shards`: keys, requests and partials of rows that lie in many places."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from ..errors import InvalidArgument
from ..naive_bayes import NaiveBayesRecipe
from ..network import BayesianNetwork
from ..pipeline import ALL_TABLES, wanted_tables
from ..schema import Schema
from ..shards import CountingKey, Partials, ShardRequest, count_shard, make_keys
from .files import check_output, progress_bar, read_graph, source_from
from .options import (
    Delimiter,
    Encoding,
    FileFormat,
    Force,
    Json,
    Names,
    OutFile,
    Person,
    Quote,
    RowsPerPerson,
    SchemaFile,
    Threads,
    layout_from,
    names_from,
    print_json,
)

app = typer.Typer(help="Count shards where they lie, and release their sum in one place.", no_args_is_help=True)
RequestFile = Annotated[Path, typer.Option("--request", help="What is counted: a file that `shards request` made.")]


@app.command()
def keys(
    release: Annotated[Path, typer.Option(help="The key that opens partials; it stays with whoever releases.")],
    counting: Annotated[Path, typer.Option(help="The key that writes partials; it goes to the machines that count.")],
) -> None:
    """Make both key files, readable by their owner alone."""
    make_keys(release, counting)
    typer.echo(f"{release} opens partials: keep it where the release is made. {counting} writes them and opens none.")


@app.command()
def request(
    schema: SchemaFile,
    out: OutFile,
    shard: Annotated[list[str], typer.Option(help="A shard by its file name, or a folder of them; repeatable.")],
    table: Annotated[
        list[str] | None, typer.Option(help="Columns a,b of a table, or all-1-way, all-2-way, all-3-way; repeatable.")
    ] = None,
    target: Annotated[str | None, typer.Option(help="Count what a classifier of this column needs.")] = None,
    graph: Annotated[str | None, typer.Option(help="Count what a Bayesian network with this graph needs.")] = None,
    rows_per_person: RowsPerPerson = None,
    person: Person = None,
    person_in_one_shard: Annotated[
        bool, typer.Option("--person-in-one-shard", help="Declare that no person has rows in two shards.")
    ] = False,
    force: Force = False,
) -> None:
    """Write down what is counted, of which shards: public, and the same file for every shard and the release."""
    check_output(out, force)
    declared = Schema.read(schema)
    rows = declared.select([name for name in declared.names if name != person]) if person in declared else declared
    tables: list[tuple[str, ...]] = []
    if table:
        wanted = [each.strip() if each.strip() in ALL_TABLES else names_from("--table", each) for each in table]
        tables += wanted_tables(rows, wanted)
    if target is not None:
        tables += NaiveBayesRecipe.of(rows, target).tables.columns
    if graph is not None:
        tables += BayesianNetwork(read_graph(graph), rows, budget=None, mechanism="none").recipe.tables.columns
    if not tables:
        raise InvalidArgument("--table", "given, or --target or --graph")
    made = ShardRequest(
        schema=rows,
        tables=tuple(dict.fromkeys(tables)),
        shards=tuple(_names(shard)),
        rows_per_person=rows_per_person,
        person=person,
        person_in_one_shard=person_in_one_shard,
    )
    made.write(out)
    typer.echo(f"{len(made.tables)} tables of {len(made.shards)} shards, request {made.digest[:12]}, written to {out}.")


def _names(shards: list[str]) -> list[str]:
    """File names, those of folders in their place."""
    found: list[str] = []
    for each in shards:
        path = Path(each)
        inside = sorted(file.name for file in path.iterdir()) if path.is_dir() else [path.name]
        found += [name for name in inside if name[0] not in "._"]
    return found


@app.command()
def count(
    source: Annotated[list[str], typer.Argument(metavar="SHARD...", help="The files of one shard.")],
    asked: RequestFile,
    key: Annotated[Path, typer.Option(help="The key for counting.")],
    out: Annotated[Path, typer.Option(help="The partial, or the folder that it is put into.")],
    name: Annotated[str | None, typer.Option(help="The shard in the request; by default the file name.")] = None,
    threads: Threads = None,
    file_format: FileFormat = None,
    delimiter: Delimiter = None,
    encoding: Encoding = None,
    quote: Quote = None,
    names: Names = None,
    as_json: Json = False,
) -> None:
    """Count one shard, and write its partial: encrypted, whole or not at all; a repeated shard replaces it."""
    rows: Any = source_from(source, None, None, file_format, layout_from(delimiter, encoding, quote, names))
    named = Path(source[0]).name if name is None and len(source) == 1 else name
    with progress_bar("counting") as progress:
        made = count_shard(
            rows,
            ShardRequest.read(asked),
            CountingKey.read(key),
            out,
            shard=named,
            progress=progress,
            threads=threads,
        )
    if as_json:
        print_json({"out": str(made), "shard": named, "private": True})
        return
    typer.echo(f"{named!r} counted. {made} is encrypted and PRIVATE: keep it as you keep the rows.")


def partials_from(
    partials: Path | None, request: Path | None, key: Path | None, others: list[str] | None, sql: str | None
) -> Partials | None:
    """The source that --partials, --request and --key name together."""
    if (partials, request, key) == (None, None, None):
        return None
    if partials is None or request is None or key is None or others or sql is not None:
        raise InvalidArgument("--partials", "given with --request and --key, and without files or --sql")
    return Partials(partials, request, key)
