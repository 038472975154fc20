"""`simplexdp schema`: draft, check and describe schema files."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..errors import InvalidArgument
from ..schema import Categories, Schema, draft
from ..schema.columns import Keep
from ..schema.drafting import read_public
from ..schema.templates import EXAMPLES, known
from ..schema.text import dump_json
from .files import print_or_write
from .options import Delimiter, Encoding, Names, Quote, layout_from

OutOption = Annotated[Path | None, typer.Option(help="Where to write; an existing file is kept.")]
UNUSED = "Never {}: no cell, as bins reach beyond the range or values are missing from it"

app = typer.Typer(help="Draft, check and describe schema files.", no_args_is_help=True)


@app.command("draft")
def draft_command(
    file: Annotated[Path, typer.Argument(help="A CSV, Parquet, Arrow, JSON or NDJSON file.")],
    out: OutOption = None,
    delimiter: Delimiter = None,
    encoding: Encoding = None,
    quote: Quote = None,
    names: Names = None,
) -> None:
    """Write a template from header and types alone, without looking at a value, for you to fill in."""
    print_or_write(draft(file, layout_from(delimiter, encoding, quote, names)), out)


@app.command("from-public")
def from_public_command(
    file: Annotated[Path, typer.Argument(help="A public CSV, Parquet, Arrow, JSON or NDJSON file.")],
    out: OutOption = None,
    bins: Annotated[int, typer.Option(help="Quantile bins of numbers with many values.", min=2)] = 10,
    max_distinct: Annotated[int, typer.Option(help="Numbers with at most so many values stay categories.")] = 30,
    other: Annotated[str, typer.Option(help="Values that the public file lacks: refuse, or cell.")] = "refuse",
    delimiter: Delimiter = None,
    encoding: Encoding = None,
    quote: Quote = None,
    names: Names = None,
) -> None:
    """Write the schema of a file that you state to be PUBLIC, such as a census sample or an older release.

    Its values and quantiles become the schema. Never give it the sensitive rows: what is read off them is published.
    """
    if other not in ("refuse", "cell"):
        raise InvalidArgument("--other", "refuse or cell", got=other)
    keep: Keep = "cell" if other == "cell" else "refuse"
    table = read_public(file, layout_from(delimiter, encoding, quote, names))
    print_or_write(Schema.from_public(table, bins, max_distinct=max_distinct, other=keep).to_yaml(), out)


@app.command("templates")
def templates_command() -> None:
    """List the templates of public facts that a column can name."""
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    table = Table("template", "cells", "labels")
    for name in known():
        column = Schema.given({"a": {"template": name, **EXAMPLES.get(name, {})}})["a"]
        example = "".join(f", {key}: {value}" for key, value in EXAMPLES.get(name, {}).items())
        some = ", ".join(column.labels[:5]) + ", ..."
        table.add_row(escape(f"{{template: {name}{example}}}" if example else name), str(column.size), escape(some))
    Console().print(table)


@app.command()
def check(file: Annotated[Path, typer.Argument(help="A .yaml, .yml or .json schema.")]) -> None:
    """Check a schema and show its columns and cells."""
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    schema = Schema.read(file)
    table = Table("column", "kind", "cells", "not declared", "missing", "labels")
    for column in schema:
        other = column.other if isinstance(column, Categories) else column.outside
        some = ", ".join(column.labels[:4]) + (", ..." if column.size > 4 else "")
        table.add_row(escape(column.name), column.kind, str(column.size), other, column.missing, escape(some))
    console = Console()
    console.print(table)
    console.print(f"{len(schema)} columns, {sum(schema.shape())} cells, origin: {schema.origin}")
    if schema.unresolved:
        console.print(f"Private quantiles are part of the budget: {escape(', '.join(schema.unresolved))}")
    for rule, mask in schema.excluded():
        said = ", ".join(f"{name}: {value}" for name, value in rule.items())
        console.print(f"Never {escape(said)}: {int(mask.sum())} cells" if mask.any() else UNUSED.format(escape(said)))
    for name in schema.undecided_whole():
        console.print(
            f"Is {escape(name)} whole by its meaning? Its edges are whole numbers. Say integer: true, and synthetic "
            "values are whole; integer: false, and they are not."
        )
    if schema.unfinished:
        console.print(f"Not filled in yet, and so not to be used: {escape(', '.join(schema.unfinished))}")
    if not schema.is_private:
        found = ", ".join(column.name for column in schema if not column.is_private)
        console.print(f"Read off the rows: {escape(found)}. What is made from such columns is NOT PRIVATE.")


@app.command("json-schema")
def json_schema_command() -> None:
    """Print the JSON Schema of schema files, for editors and other programs."""
    typer.echo(dump_json(Schema.json_schema()), nl=False)
