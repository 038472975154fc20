"""`simplexdp plan`: what a release would cost and lose, before anything is read or spent."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Annotated, Any

import typer

from ..budget import check_neighbours
from ..errors import Infeasible, InvalidArgument
from ..forecast import Forecast, smallest_epsilon, smallest_total
from ..forecast import plan as forecast
from ..naive_bayes import auto_split, coarse_schema
from ..network import BayesianNetwork
from ..schema import Schema
from ..summary import merged_note
from .fit import SPLITS, split_from
from .graphs import read_graph
from .options import (
    METHODS,
    Delta,
    Epsilon,
    EstimateOption,
    Json,
    MechanismOption,
    NeighboursOption,
    Order,
    budget_from,
    counted,
    names_from,
    number,
    print_json,
    print_table,
)

_SHOWN = 30


def plan(
    cells: Annotated[list[int] | None, typer.Option(help="Cells of a table; repeat for more tables.", min=2)] = None,
    schema: Annotated[Path | None, typer.Option(help="The declared columns, a .yaml or .json file.")] = None,
    columns: Annotated[list[str] | None, typer.Option(help="Columns a,b of a table; repeat for more tables.")] = None,
    target: Annotated[str | None, typer.Option(help="Plan a naive Bayes model for this class column.")] = None,
    graph: Annotated[str | None, typer.Option(help="Plan a network: 'a->b,b->c', a .json or a .bif file.")] = None,
    epsilon: Epsilon = None,
    delta: Delta = None,
    order: Order = None,
    total: Annotated[float | None, typer.Option(help="The number of records, or a guess; 1000 by default.")] = None,
    mechanism: MechanismOption = "auto",
    estimate: EstimateOption = "posterior-mean",
    neighbours: NeighboursOption = "replace-one",
    split: Annotated[
        str | None, typer.Option(help=f"Of the budget over the tables: {SPLITS}; as in fit by default.")
    ] = None,
    rows_per_person: Annotated[
        int | None, typer.Option(help="Protect persons with at most this many rows each.", min=1)
    ] = None,
    target_kl: Annotated[
        float | None, typer.Option(help="Find the smallest ε, and the smallest number of records, for this loss.")
    ] = None,
    merge_bins: Annotated[
        bool, typer.Option(help="With --target: merge bins that the noise would hide, as fit does.")
    ] = True,
    as_json: Json = False,
) -> None:
    """Forecast a release from public facts: sizes, noise, expected loss, and what other mechanisms would lose."""
    budget = budget_from(epsilon, delta, order)
    if estimate not in METHODS:
        raise InvalidArgument("--estimate", "one of " + ", ".join(METHODS), got=estimate)
    settings: dict[str, Any] = {
        "budget": budget,
        "mechanism": mechanism,
        "neighbours": check_neighbours(neighbours),
        "estimate": estimate,
        "rows_per_person": rows_per_person,
    }
    declared = None if schema is None else Schema.read(schema)
    released = declared
    if target is not None and declared is not None and merge_bins:
        released = _released(declared, target, total, settings)
    tables, shares = _tables(cells, released, columns, target, graph, total, settings)
    settings |= {"schema": released, "split": shares if split is None else split_from(split)}
    found = forecast(tables, total=total, **settings)
    goal = None
    if target_kl is not None:  # of all bins: what is merged changes with the budget, and merging has a loss of its own
        whole, parts = _tables(cells, declared, columns, target, graph, total, settings)
        all_bins = {"schema": declared, "split": parts if split is None else split_from(split)}
        goal = _goal(target_kl, whole, total, settings | all_bins)
    if as_json:
        print_json(_as_data(found, goal))
        return
    _show(found, goal)
    if released is not None and declared is not None and released != declared:
        sizes = {column.name: (released[column.name].size, column.size) for column in declared}
        typer.echo(merged_note({name: (few, all_) for name, (few, all_) in sizes.items() if few != all_}))
    if declared is not None and declared.unresolved:
        typer.echo(f"Private quantiles ({', '.join(declared.unresolved)}) also cost budget; the noise will be larger.")


def _released(schema: Schema, target: str, total: float | None, settings: dict[str, Any]) -> Schema:
    """The schema that a naive Bayes fit would release its tables in."""
    public = settings["neighbours"] == "replace-one" and settings["rows_per_person"] is None and not schema.unresolved
    if not public or settings["estimate"] != "posterior-mean" or settings["mechanism"] == "none":
        return schema
    features = [name for name in schema.names if name != target]
    return coarse_schema(schema, features, target, settings["budget"], total or 1000.0)


def _tables(
    cells: list[int] | None,
    schema: Schema | None,
    columns: list[str] | None,
    target: str | None,
    graph: str | None,
    total: float | None,
    settings: dict[str, Any],
) -> tuple[list[Any], Any]:
    """The tables of what is planned, and how a fit would split the budget over them."""
    given = [bool(cells), bool(columns), target is not None, graph is not None]
    if sum(given) != 1:
        raise InvalidArgument("--cells, --columns, --target or --graph", "given, one of the four")
    if cells:
        return list(cells), "equal"
    if schema is None:
        raise InvalidArgument("--schema", "given with --columns, --target and --graph")
    if columns:
        return [tuple(names_from("--columns", names)) for names in columns], "equal"
    if target is not None:
        features = [name for name in schema.names if name != target]
        return [(name, target) for name in features], auto_split(schema, features, target)
    assert graph is not None
    network = BayesianNetwork(
        read_graph(graph), schema, budget=settings["budget"], mechanism=settings["mechanism"], estimate="posterior-mean"
    )
    public = settings["neighbours"] == "replace-one" and settings["rows_per_person"] is None
    return list(network.tables.columns), network.shares((total or 1000.0) if public else None)


def _goal(target_kl: float, tables: list[Any], total: float | None, settings: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {"target_kl": target_kl, "epsilon": None, "total": None}
    with contextlib.suppress(Infeasible):
        found["epsilon"] = smallest_epsilon(target_kl, tables, total=total, **settings)
    with contextlib.suppress(Infeasible):
        found["total"] = smallest_total(target_kl, tables, **settings)
    return found


def _as_data(found: Forecast, goal: dict[str, Any] | None) -> dict[str, Any]:
    data: dict[str, Any] = {
        "budget": str(found.plan.guarantee.budget),
        "neighbours": found.plan.guarantee.neighbours,
        "unit": found.plan.guarantee.unit,
        "total": found.total,
        "cells": found.cells,
        "expected_kl": found.expected_kl,
        "tables": [table.__dict__ for table in found.tables],
        "alternatives": found.alternatives,
        "best": found.best,
        "theorem2": found.theorem2,
        "raw_dirichlet": found.raw_dirichlet,
    }
    return data if goal is None else data | {"goal": goal}


def _show(found: Forecast, goal: dict[str, Any] | None) -> None:
    guarantee = found.plan.guarantee
    more = f"; the first {_SHOWN} of {len(found.tables)} are shown" if len(found.tables) > _SHOWN else ""
    print_table(
        f"{guarantee.budget} for {counted(len(found.tables), 'table')}, {found.cells:,} cells, "
        f"about {found.total:g} records, {guarantee.neighbours}, unit {guarantee.unit}",
        ["table", "cells", "share", "mechanism", "noise", "expected KL"],
        [
            [
                " × ".join(table.columns),
                f"{table.cells:,}",
                f"{table.share:.1%}",
                table.mechanism,
                number(table.noise),
                f"{table.expected_kl:.4g}",
            ]
            for table in found.tables[:_SHOWN]
        ],
        note="noise: standard deviation at an empty cell, in records. KL: on a stand-in by Zipf's law, in nats" + more,
    )
    rows = [
        [name + (" (least)" if name == found.best else ""), f"{loss:.4g}"] for name, loss in found.alternatives.items()
    ]
    if found.raw_dirichlet is not None:
        rows.append(["dirichlet, the raw draw: exact expectation, first table", f"{found.raw_dirichlet:.4g}"])
        bound = "says nothing here" if found.theorem2 is None else f"{found.theorem2:.4g}"
        rows.append(["  the same draw: Theorem 2's bound, holds with probability 0.95", bound])
    print_table(
        "What other mechanisms would lose at this budget",
        ["mechanism", "expected KL a table"],
        rows,
        note="Means of a few simulated releases: a difference of a tenth may be chance.",
    )
    if goal is not None:
        print_table(
            f"For an expected KL of {goal['target_kl']:g}",
            ["", "smallest"],
            [
                ["ε, with this number of records", _or_none(goal["epsilon"])],
                ["number of records, with this budget", _or_none(goal["total"])],
            ],
            note="To about 3 %, with all bins released.",
        )


def _or_none(value: float | None) -> str:
    return "not reached" if value is None else f"{value:.4g}"
