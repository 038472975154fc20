"""The command line: thin over the library."""

from __future__ import annotations

import io
import os
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from typing import Any

import typer
import typer.core

from .._version import __version__
from ..errors import InvalidArgument, PrivacyWarning, SimplexDPError, UtilityWarning

_PASSED_ON = {"allow_extra_args": True, "ignore_unknown_options": True}
"""All options of `reproduce`, `--help` among them, are those of the other package."""

COMMANDS: dict[str, tuple[str, str, str]] = {
    "schema": ("schema", "app", "Draft, check and describe schema files."),
    "plan": (
        "plan",
        "plan",
        "Forecast a release from public facts: sizes, noise, expected loss; with --rivals, that of other mechanisms.",
    ),
    "fit": (
        "fit",
        "app",
        "Fit privately from files or a query, and write what may be published.",
    ),
    "synthesize": (
        "synthesize",
        "synthesize",
        "Learn a model of all columns, and draw synthetic records from it into a .csv, .parquet or .arrow file.",
    ),
    "inspect": (
        "published",
        "inspect",
        "Show a release or model: its probabilities with intervals, and its certificate.",
    ),
    "predict": (
        "published",
        "predict",
        "Predict a column for the rows of files, into a .csv, .parquet or .arrow file.",
    ),
    "query": (
        "published",
        "query",
        "Ask a published release or model: estimates with intervals, and what they rest on.",
    ),
    "sample": (
        "published",
        "sample",
        "Draw synthetic records from a published model into a .csv, .parquet or .arrow file.",
    ),
    "export": ("export", "app", "Give what was published to databases and spreadsheets."),
    "bundle": (
        "bundle",
        "bundle",
        "Put release, certificate, report, registry entry and review answers into one folder or zip.",
    ),
    "ledger": (
        "ledger",
        "app",
        "Start, show, verify and export a ledger of spent budgets, and register data sets.",
    ),
    "shards": ("shards", "app", "Count shards where they lie, and release their sum in one place."),
    "studio": (
        "studio",
        "studio",
        "Serve local pages for everything, from choosing columns to a release, at an address that only you know.",
    ),
    "account": ("account", "account", "The exact guarantee of a mechanism with given parameters."),
    "calibrate": (
        "account",
        "calibrate",
        "The parameters that use the whole budget for a number of tables, and what the paper would choose.",
    ),
    "audit": (
        "account",
        "audit",
        "Draw on the worst-case neighbours and give a lower bound on ε beside the claim; exit code 1 if it is refuted.",
    ),
    "reproduce": (
        "demo",
        "reproduce",
        "The experiments of the paper, where the repository's package `reproduction` can be imported.",
    ),
    "demo": (
        "demo",
        "demo",
        "The main job on embedded data: private classifiers of handwritten digits at several budgets, with a report.",
    ),
}
"""Every command: its module, its function or group there, and what the list of commands says about it."""


class _Commands(typer.core.TyperGroup):
    """Commands that are loaded when they are run or asked for help: the list of them needs none."""

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002
        """In the order of the table."""
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ARG002
        """What the list shows."""
        if cmd_name not in COMMANDS:
            return None
        return typer.core.TyperCommand(cmd_name, help=COMMANDS[cmd_name][2])

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command itself."""
        if args and not args[0].startswith("-") and args[0] not in COMMANDS:
            raise InvalidArgument("COMMAND", f"one of {', '.join(COMMANDS)}", got=args[0])
        name, _, rest = super().resolve_command(ctx, args)
        return name, None if name is None else command(name), rest


@cache
def command(name: str) -> Any:
    """The command or group of this name, loaded."""
    module, attribute, _ = COMMANDS[name]
    found = getattr(import_module(f".{module}", __name__), attribute)
    if not isinstance(found, typer.Typer):
        more: dict[str, Any] = {"add_help_option": False, "context_settings": _PASSED_ON} if name == "reproduce" else {}
        alone = typer.Typer(add_completion=False)
        alone.command(name, **more)(found)
        found = alone
    made = typer.main.get_command(found)
    made.name = name
    return made


app = typer.Typer(
    cls=_Commands,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Release probability distributions and models from sensitive tables with exact differential privacy.",
)


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
