"""The command line: thin over the library, one module a command."""

from __future__ import annotations

import sys

import click
import typer

from .._version import __version__
from ..errors import SimplexDPError
from . import account, audit, calibrate, demo, ledger, reproduce, schema

app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Release probability distributions and models from sensitive tables with exact differential privacy.",
)
app.command("account")(account.account)
app.command("audit")(audit.audit)
app.command("calibrate")(calibrate.calibrate)
app.command("demo")(demo.demo)
app.command("reproduce")(reproduce.reproduce)
app.add_typer(ledger.app, name="ledger")
app.add_typer(schema.app, name="schema")


def _version(show: bool) -> None:
    if show:
        typer.echo(f"simplexdp {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    _show: bool = typer.Option(False, "--version", callback=_version, is_eager=True, help="Print the version."),
) -> None:
    """Options of every command."""


def main() -> None:
    """Run the command line; errors of the library become one line and exit code 2."""
    try:
        app()
    except SimplexDPError as error:
        click.echo(f"simplexdp: {error}", err=True)
        sys.exit(2)
