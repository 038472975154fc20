"""The command line: thin over the library, one module a command."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from functools import cache
from typing import Any

import typer

from .._version import __version__
from ..errors import InvalidArgument, SimplexDPError
from . import account, audit, calibrate, demo, fit, inspect, ledger, plan, predict, reproduce, sample, schema

app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Release probability distributions and models from sensitive tables with exact differential privacy.",
)
app.add_typer(schema.app, name="schema")
app.command("plan")(plan.plan)
app.add_typer(fit.app, name="fit")
app.command("inspect")(inspect.inspect)
app.command("predict")(predict.predict)
app.command("sample")(sample.sample)
app.add_typer(ledger.app, name="ledger")
app.command("account")(account.account)
app.command("calibrate")(calibrate.calibrate)
app.command("audit")(audit.audit)
app.command("reproduce")(reproduce.reproduce)
app.command("demo")(demo.demo)


def _version(show: bool) -> None:
    if show:
        typer.echo(f"simplexdp {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    _show: bool = typer.Option(False, "--version", callback=_version, is_eager=True, help="Print the version."),
) -> None:
    """Options of every command."""


@cache
def _program() -> Any:
    """All commands, built once."""
    return typer.main.get_command(app)


def run(arguments: Sequence[str] | None = None) -> int:
    """Run one command line and return its exit code: 0 done, 2 refused with one line, 1 unexpected, 130 interrupted.

    An unexpected error is told without its message, which may quote the data; SIMPLEXDP_DEBUG=1 shows all of it.
    """
    try:
        code = _program()(None if arguments is None else list(arguments), prog_name="simplexdp", standalone_mode=False)
    except SimplexDPError as error:
        return _fail(_in_options(error, sys.argv[1:] if arguments is None else arguments), 2)
    except (KeyboardInterrupt, typer.Abort):
        code = 130
    except Exception as error:
        if hasattr(error, "format_message"):  # wrong options or arguments; typer has its own copy of click
            if not error.format_message():
                return 2  # the help was shown
            return _fail(f"{error.format_message()} See `simplexdp{_command(error)} --help`.", 2)
        if os.environ.get("SIMPLEXDP_DEBUG"):
            raise
        name = type(error).__name__
        return _fail(
            f"unexpected {name}; no output was written. SIMPLEXDP_DEBUG=1 shows the traceback, which may hold data.", 1
        )
    if code == 130:
        return _fail("interrupted; no output was written.", 130)
    return code if isinstance(code, int) else 0


def _in_options(error: SimplexDPError, arguments: Sequence[str]) -> str:
    """The message with an argument of the library under the name of the option that gave it."""
    name = error.name if isinstance(error, InvalidArgument) else ""
    option = "--" + name.replace("_", "-")
    given = any(argument.partition("=")[0] == option for argument in arguments)
    return str(error).replace(f"`{name}`", f"`{option}`", 1) if given else str(error)


def _command(error: object) -> str:
    path = getattr(getattr(error, "ctx", None), "command_path", "")
    return str(path).removeprefix("simplexdp")


def _fail(text: str, code: int) -> int:
    typer.echo(f"simplexdp: {' '.join(text.split())}", err=True)
    return code


def main() -> None:
    """The script `simplexdp`."""
    sys.exit(run())
