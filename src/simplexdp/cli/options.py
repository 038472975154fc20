"""Options that several commands share, and how results are printed."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from ..budget import Budget
from ..errors import InvalidArgument

Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
Tables = Annotated[int, typer.Option(help="How many such tables are released.", min=1)]
NeighboursOption = Annotated[
    str, typer.Option(help="replace-one (the number of records is public) or add-remove (it is not).")
]


def budget_from(epsilon: float | None, delta: float | None, order: float | None) -> Budget:
    """The budget that the options describe."""
    if epsilon is None:
        raise InvalidArgument("--epsilon", "given", hint="Add --delta for (ε, δ)-DP or --order for Rényi DP.")
    if (delta is None) == (order is None):
        raise InvalidArgument("--delta", "given, or else --order", hint="Exactly one of the two makes a budget.")
    return Budget(epsilon=epsilon, delta=delta, order=order)


def number(value: float | None) -> str:
    """A number for people."""
    if value is None:
        return "–"
    if math.isinf(value):
        return "infinite"
    return f"{value:.6g}"


def plain(value: Any) -> Any:
    """JSON has no infinity: None stands for it, with the key saying what it is."""
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
    table = Table(title=title, title_justify="left", caption=note or None, caption_justify="left")
    for i, column in enumerate(columns):
        table.add_column(column, justify="left" if i == 0 else "right")
    for row in rows:
        table.add_row(*row)
    Console().print(table)
