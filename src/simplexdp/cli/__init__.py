"""The command line: thin over the library."""

from __future__ import annotations

import io
import os
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any

import typer

from .._version import __version__
from ..errors import InvalidArgument, PrivacyWarning, SimplexDPError, UtilityWarning
from . import account, demo, fit, ledger, plan, published, schema

app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Release probability distributions and models from sensitive tables with exact differential privacy.",
)
app.add_typer(schema.app, name="schema")
app.command("plan")(plan.plan)
app.add_typer(fit.app, name="fit")
app.command("inspect")(published.inspect)
app.command("predict")(published.predict)
app.command("query")(published.query)
app.command("sample")(published.sample)
app.add_typer(ledger.app, name="ledger")
app.command("account")(account.account)
app.command("calibrate")(account.calibrate)
app.command("audit")(account.audit)
app.command("reproduce", add_help_option=False, context_settings=demo.PASSED_ON)(demo.reproduce)
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


def run(arguments: Sequence[str] | None = None, *, program: Any = None, name: str = "simplexdp") -> int:
    """Run one command line and return its exit code: 0 done, 2 refused with one line, 1 unexpected, 130 interrupted.

    `program` is another than ours that is to end and complain as ours does, and `name` how it is called.

    An unexpected error is told without its message, which may quote the data; SIMPLEXDP_DEBUG=1 shows all of it.
    """
    try:
        with _warnings_in_one_line():
            code = (program or _program())(
                None if arguments is None else list(arguments), prog_name=name, standalone_mode=False
            )
    except SimplexDPError as error:
        return _fail(_in_options(error, sys.argv[1:] if arguments is None else arguments), 2)
    except (KeyboardInterrupt, typer.Abort):
        code = 130
    except Exception as error:
        if hasattr(error, "format_message"):  # wrong options or arguments; typer has its own copy of click
            if not error.format_message():
                return 2  # the help was shown
            return _fail(f"{error.format_message()} See `{_command(error) or name} --help`.", 2)
        if os.environ.get("SIMPLEXDP_DEBUG"):
            raise
        kind = type(error).__name__
        return _fail(
            f"unexpected {kind}; no output was written. SIMPLEXDP_DEBUG=1 shows the traceback, which may hold data.", 1
        )
    if code == 130:
        return _fail("interrupted; no output was written.", 130)
    return code if isinstance(code, int) else 0


@contextmanager
def _warnings_in_one_line() -> Iterator[None]:
    """What the library warns of, each thing once, as one line on standard error."""
    said: set[str] = set()

    def show(message: Warning | str, *about: Any, **more: Any) -> None:
        if not isinstance(message, PrivacyWarning | UtilityWarning):
            usual(message, *about, **more)
        elif str(message) not in said:
            said.add(str(message))
            typer.echo(f"simplexdp: warning: {' '.join(str(message).split())}", err=True)

    with warnings.catch_warnings():
        for ours in (PrivacyWarning, UtilityWarning):
            warnings.simplefilter("always", ours)
        usual, warnings.showwarning = warnings.showwarning, show
        yield


def _in_options(error: SimplexDPError, arguments: Sequence[str]) -> str:
    """The message with an argument of the library under the name of the option that gave it."""
    name = error.name if isinstance(error, InvalidArgument) else ""
    option = "--" + name.replace("_", "-")
    given = any(argument.partition("=")[0] == option for argument in arguments)
    return str(error).replace(f"`{name}`", f"`{option}`", 1) if given else str(error)


def _command(error: object) -> str:
    return str(getattr(getattr(error, "ctx", None), "command_path", ""))


def _fail(text: str, code: int) -> int:
    typer.echo(f"simplexdp: {' '.join(text.split())}", err=True)
    return code


def _write_any_letter() -> None:
    """Files and pipes get UTF-8 whatever the locale is; a terminal without a letter shows its number instead."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            chosen = stream.isatty() or "PYTHONIOENCODING" in os.environ
            stream.reconfigure(encoding=None if chosen else "utf-8", errors="backslashreplace")


def main(program: Any = None, name: str = "simplexdp") -> None:
    """The script `simplexdp`, or another program that speaks and ends as it does."""
    _write_any_letter()
    sys.exit(run(program=program, name=name))
