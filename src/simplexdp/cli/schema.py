"""`simplexdp schema`: draft, check and describe schema files."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..schema import Categories, Schema, draft
from ..schema.text import dump_json
from .files import print_or_write

app = typer.Typer(help="Draft, check and describe schema files.", no_args_is_help=True)


@app.command("draft")
def draft_command(
    file: Annotated[Path, typer.Argument(help="A CSV, Parquet, Arrow, JSON or NDJSON file.")],
    out: Annotated[Path | None, typer.Option(help="Where to write; an existing file is kept.")] = None,
) -> None:
    """Write a template from header and types alone, without looking at a value, for you to fill in."""
    print_or_write(draft(file), out)


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
    if not schema.is_private:
        console.print("This schema was read off the rows: what is made from it is NOT PRIVATE.")


@app.command("json-schema")
def json_schema_command() -> None:
    """Print the JSON Schema of schema files, for editors and other programs."""
    typer.echo(dump_json(Schema.json_schema()), nl=False)
