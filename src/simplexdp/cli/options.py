"""Options that several commands share, and how results are printed."""

from __future__ import annotations

import inspect
import json
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any, get_args

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from ..budget import Budget
from ..errors import InvalidArgument
from ..estimation import Method

METHODS: tuple[str, ...] = get_args(Method)
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
Tables = Annotated[int, typer.Option(help="How many such tables are released.", min=1)]
NeighboursOption = Annotated[
    str, typer.Option(help="replace-one (the number of records is public) or add-remove (it is not).")
]
Epsilon = Annotated[float | None, typer.Option(help="ε of the budget.")]
Delta = Annotated[float | None, typer.Option(help="δ, for an (ε, δ)-DP budget.")]
Order = Annotated[float | None, typer.Option(help="Rényi order, for an RDP budget.")]
MechanismOption = Annotated[
    str, typer.Option(help="auto, polya, dirichlet, gaussian, laplace, balanced-laplace or none (not private).")
]
EstimateOption = Annotated[
    str, typer.Option(help="How probabilities are made from the draw: " + ", ".join(METHODS) + ".")
]
RowsPerPerson = Annotated[
    int | None, typer.Option(help="Protect persons, keeping at most this many rows of each; needs --person.", min=1)
]
Person = Annotated[str | None, typer.Option(help="The column that names the person.")]
SchemaFile = Annotated[Path, typer.Option("--schema", help="The declared columns, a .yaml or .json file.")]
OutFile = Annotated[Path, typer.Option("--out", help="Where to write; an existing file is kept without --force.")]
Force = Annotated[bool, typer.Option("--force", help="Replace an existing file.")]
Sources = Annotated[
    list[str] | None, typer.Argument(help="Files, folders or globs: Parquet, CSV or JSON.", show_default=False)
]
Sql = Annotated[str | None, typer.Option(help="A SELECT in place of files; DuckDB runs it unless --database is given.")]
Database = Annotated[
    str | None,
    typer.Option(help="A PostgreSQL URI for --sql.", envvar="SIMPLEXDP_DATABASE", show_envvar=True),
]
PublicSize = Annotated[
    bool, typer.Option("--public-size", help="The number of rows that --sql selects is public knowledge.")
]
FileFormat = Annotated[str | None, typer.Option("--format", help="parquet, csv or json, if the ending does not tell.")]
Delimiter = Annotated[str | None, typer.Option(help="Of CSV files; a comma by default.")]
Seed = Annotated[
    int | None, typer.Option(help="A repeatable draw, for tests. The result is NOT PRIVATE and says so.", min=0)
]
LedgerFile = Annotated[Path | None, typer.Option("--ledger", help="Charge this ledger before anything is drawn.")]
Dataset = Annotated[str | None, typer.Option(help="The name that the ledger knows the data by.")]


def with_options(shared: Callable[..., Any]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command the options of `shared` after its own; what `shared` makes of them is its first argument."""

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        common, own = _parameters(shared), _parameters(command)[1:]

        def run(**given: Any) -> None:
            made = shared(**{option.name: given.pop(option.name) for option in common})
            command(made, **given)

        run.__name__, run.__doc__ = command.__name__, command.__doc__
        run.__signature__ = inspect.Signature([*own, *common])  # type: ignore[attr-defined]
        run.__annotations__ = {option.name: option.annotation for option in (*common, *own)}
        return run

    return decorate


def _parameters(function: Callable[..., Any]) -> list[inspect.Parameter]:
    found = inspect.signature(function, eval_str=True).parameters.values()
    return [option.replace(kind=inspect.Parameter.KEYWORD_ONLY) for option in found]


def budget_from(epsilon: float | None, delta: float | None, order: float | None) -> Budget:
    """The budget that the options describe."""
    if epsilon is None:
        raise InvalidArgument("--epsilon", "given", hint="Add --delta for (ε, δ)-DP or --order for Rényi DP.")
    if (delta is None) == (order is None):
        raise InvalidArgument("--delta", "given, or else --order", hint="Exactly one of the two makes a budget.")
    return Budget(epsilon=epsilon, delta=delta, order=order)


def names_from(option: str, text: str | None) -> list[str]:
    """The names in a comma-separated option."""
    names = [name.strip() for name in (text or "").split(",")]
    if not all(names):
        raise InvalidArgument(option, "names with commas between them")
    return names


def counted(number: int, noun: str) -> str:
    """So many of something: "1 table", "2 tables"."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def number(value: float | None) -> str:
    """A number for people."""
    if value is None:
        return "–"
    if math.isinf(value):
        return "infinite"
    return f"{value:.6g}"


def plain(value: Any) -> Any:
    """JSON has no infinity and no nan: the text "infinite" stands for both."""
    if isinstance(value, float) and not math.isfinite(value):
        return "infinite"
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return value


def print_json(value: Any) -> None:
    """One JSON document on standard output."""
    typer.echo(json.dumps(plain(value), indent=2, ensure_ascii=False))


def print_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]], note: str = "") -> None:
    """A table for people."""
    table = Table(title=escape(title), title_justify="left", caption=escape(note) or None, caption_justify="left")
    for i, column in enumerate(columns):
        table.add_column(escape(column), justify="left" if i == 0 else "right", overflow="fold")
    for row in rows:
        table.add_row(*map(escape, row))
    Console().print(table)
