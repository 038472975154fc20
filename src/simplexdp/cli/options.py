"""Options that several commands share, and how results are printed."""

from __future__ import annotations

import csv
import inspect
import json
import math
import types
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from ..budget import Budget
from ..errors import InvalidArgument
from ..estimation import Method
from ..mechanisms import private_mechanisms, table_mechanisms
from ..mechanisms.base import TableMechanism
from ..models import model_of
from ..schema import Schema
from ..schema.text import TextFile

METHODS: tuple[str, ...] = get_args(Method)
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
Tables = Annotated[int, typer.Option(help="How many such tables are released.", min=1)]
NeighboursOption = Annotated[
    str, typer.Option(help="replace-one (the number of records is public) or add-remove (it is not).")
]
Epsilon = Annotated[float | None, typer.Option(help="ε of the budget.")]
Delta = Annotated[float | None, typer.Option(help="δ, for an (ε, δ)-DP budget; 0 for pure DP.")]
Order = Annotated[float | None, typer.Option(help="Rényi order, for an RDP budget.")]
Rho = Annotated[float | None, typer.Option(help="ρ, for a zCDP budget, in place of all three.")]
BudgetOption = Annotated[
    str | None,
    typer.Option("--budget", help="'remaining' or 'half' of what the ledger has left for the data set."),
]
_EXACT = [name for name, cls in table_mechanisms().items() if cls.not_private]
MechanismOption = Annotated[
    str, typer.Option(help=", ".join(["auto", *private_mechanisms()]) + f" or {', '.join(_EXACT)} (not private).")
]
EstimateOption = Annotated[
    str, typer.Option(help="How probabilities are made from the draw: " + ", ".join(METHODS) + ".")
]
RowsPerPerson = Annotated[
    int | None, typer.Option(help="Protect persons, keeping at most this many rows of each; needs --person.", min=1)
]
Person = Annotated[str | None, typer.Option(help="The column that names the person.")]
Records = Annotated[
    int | None,
    typer.Option(
        help="The public number of records, to save counting them; with add-remove or --person a guess.", min=0
    ),
]
SchemaFile = Annotated[Path, typer.Option("--schema", help="The declared columns, a .yaml or .json file.")]
OutFile = Annotated[Path, typer.Option("--out", help="Where to write; an existing file is kept without --force.")]
Threads = Annotated[
    int | None, typer.Option(help="Threads that work; by default as many as the machine grants.", min=1)
]
PartialsFolder = Annotated[
    Path | None, typer.Option("--partials", help="A folder of partials that `shards count` wrote, in place of files.")
]
ShardsRequest = Annotated[Path | None, typer.Option("--request", help="With --partials: what was counted.")]
ShardsKey = Annotated[Path | None, typer.Option("--key", help="With --partials: the key for release.")]
Yes = Annotated[bool, typer.Option("--yes", help="Publish a table of far more cells than records all the same.")]
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
OneRecord = Annotated[
    bool,
    typer.Option(
        "--one-record-per-row",
        help="Declare that each row of --sql comes from one record; the certificate says so.",
    ),
]
FileFormat = Annotated[str | None, typer.Option("--format", help="parquet, csv or json, if the ending does not tell.")]
Delimiter = Annotated[
    str | None, typer.Option(help="Of CSV files: one character or tab; by default the one that their header has most.")
]
Encoding = Annotated[str | None, typer.Option(help="Of CSV files: utf-8 by default, latin-1, cp1252, ...")]
Names = Annotated[
    list[str] | None,
    typer.Option(help="Of CSV files without a header: the names of all columns a,b,c in order; may be repeated."),
]
Quote = Annotated[str | None, typer.Option(help="Of CSV files: one character, a double quote by default, or none.")]
Seed = Annotated[
    int | None, typer.Option(help="A repeatable draw, for tests. The result is NOT PRIVATE and says so.", min=0)
]
Said = Annotated[
    list[str] | None, typer.Option("--set", help="NAME=VALUE, what the recipe of the model asks; may be repeated.")
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


def budget_from(epsilon: float | None, delta: float | None, order: float | None, rho: float | None = None) -> Budget:
    """The budget that the options describe."""
    if rho is not None:
        if (epsilon, delta, order) != (None, None, None):
            raise InvalidArgument("--rho", "given without --epsilon, --delta and --order")
        return Budget.zcdp(rho)
    if epsilon is None:
        raise InvalidArgument(
            "--epsilon", "given", hint="Add --delta for (ε, δ)-DP or --order for Rényi DP; or give --rho."
        )
    if (delta is None) == (order is None):
        raise InvalidArgument("--delta", "given, or else --order", hint="Exactly one of the two makes a budget.")
    return Budget(epsilon=epsilon, delta=delta, order=order)


def private_mechanism(option: str, name: str, *others: str) -> type[TableMechanism] | None:
    """The mechanism that an option names; None for one of the other words that it may be."""
    known = private_mechanisms()
    if name not in (*others, *known):
        raise InvalidArgument(option, ", ".join((*others, *known)), got=name)
    return known.get(name)


def calibrated(cls: type[TableMechanism], budget: Budget, **facts: Any) -> TableMechanism:
    """Calibrated with those of the facts that are given and that this mechanism asks for."""
    asked = inspect.signature(cls.calibrate).parameters
    return cls.calibrate(budget, **{key: fact for key, fact in facts.items() if key in asked and fact is not None})


def names_from(option: str, texts: str | Sequence[str] | None, known: Iterable[str] = ()) -> list[str]:
    """The names in an option that may be repeated: a known name each, or names with commas between them.

    A name that has a comma itself is known, or in double quotes.

    >>> names_from("--columns", ['age,"region, of birth"', "sex"])
    ['age', 'region, of birth', 'sex']
    """
    given, whole = [texts] if isinstance(texts, str) else list(texts or ()), set(known)
    names: list[str] = []
    for text in given:
        names += [text] if text in whole else map(str.strip, next(csv.reader([text], skipinitialspace=True), [""]))
    if not names or not all(names):
        raise InvalidArgument(option, "names with commas between them")
    return names


def recipe_from(kind: str, schema: Schema, said: Sequence[str] | None) -> Any:
    """The recipe of a registered kind of model, with `name=value` for keywords of it, by their types."""
    make = model_of(kind).recipe
    known = {
        name: known
        for name, known in list(inspect.signature(make, eval_str=True).parameters.items())[1:]
        if known.kind is not inspect.Parameter.VAR_KEYWORD
    }
    given = {}
    for text in said or ():
        name, given_value, value = (part.strip() for part in text.partition("="))
        if not given_value or name not in known:
            raise InvalidArgument("--set", " or ".join(f"{each}=..." for each in known) or "left out", got=text)
        given[name] = _of_type(known[name].annotation, name, value)
    return make(schema, **given)


def _of_type(annotation: Any, name: str, text: str) -> Any:
    """The value that a text stands for: names with commas where several are asked for."""
    kinds = get_args(annotation) if isinstance(annotation, types.UnionType) else (annotation,)
    if any(isinstance(get_origin(kind), type) and issubclass(get_origin(kind), Sequence) for kind in kinds):
        return names_from("--set", text)
    try:
        if bool in kinds:
            return {"true": True, "false": False}[text.lower()]
        number = next((kind for kind in (int, float) if kind in kinds), str)
        return number(text)
    except (KeyError, ValueError):
        raise InvalidArgument("--set", f"{name}= with a value of its type", got=text) from None


def layout_from(
    delimiter: str | None, encoding: str | None, quote: str | None, names: Sequence[str] | None = None
) -> TextFile:
    """How text files are written, as options say it."""
    return TextFile(
        delimiter="\t" if delimiter in ("tab", "\\t") else delimiter,
        encoding=encoding,
        quote="" if quote == "none" else quote,
        names=tuple(names_from("--names", names)) if names else None,
    )


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
