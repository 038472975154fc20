"""`simplexdp plan`: what a release would cost and lose, before anything is read or spent."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from ..budget import check_neighbours
from ..errors import Infeasible, InvalidArgument
from ..forecast import Forecast, smallest_epsilon, smallest_epsilon_for_cell, smallest_total, tables_recipe
from ..forecast import plan as forecast
from ..models.naive_bayes import merged_note
from ..models.synthesis import SynthesisModel
from ..naive_bayes import NaiveBayesRecipe
from ..network import LEARN, BayesianNetwork
from ..numerics.printed import printed
from ..schema import Schema
from ..stand_ins import StandInLoss
from ..synthesis import SynthesisRecipe
from .files import progress_bar, read_graph
from .fit import SPLITS, split_from
from .options import (
    METHODS,
    Delta,
    Epsilon,
    EstimateOption,
    Json,
    MechanismOption,
    NeighboursOption,
    Order,
    Rho,
    Said,
    budget_from,
    counted,
    names_from,
    number,
    print_json,
    print_table,
    recipe_from,
    with_options,
)

_SHOWN = 30
_WIDTH = 3.92
"""Standard deviations from end to end of an interval of 95 %."""


Asked = Callable[[dict[str, Any]], Any]
"""From the settings of a plan to the recipe of what a fit would carry out."""


def asked(
    cells: Annotated[list[int] | None, typer.Option(help="Cells of a table; repeat for more tables.", min=2)] = None,
    schema: Annotated[Path | None, typer.Option(help="The declared columns, a .yaml or .json file.")] = None,
    columns: Annotated[list[str] | None, typer.Option(help="Columns a,b of a table; repeat for more tables.")] = None,
    target: Annotated[str | None, typer.Option(help="Plan a naive Bayes model for this class column.")] = None,
    graph: Annotated[
        str | None, typer.Option(help="Plan a network: 'a->b,b->c', a .json or .bif file, or learn.")
    ] = None,
    model: Annotated[str | None, typer.Option(help="Plan a model of a registered kind, or synthesis.")] = None,
    said: Said = None,
    split: Annotated[
        str | None, typer.Option(help=f"Of the budget over the tables: {SPLITS}; as in fit by default.")
    ] = None,
    merge_bins: Annotated[
        bool, typer.Option(help="With --target: merge bins that the noise would hide, as fit does.")
    ] = True,
    for_analysis: Annotated[
        list[str] | None,
        typer.Option(help="With --graph or --columns: columns a,b,c that are to share a released table; repeatable."),
    ] = None,
) -> Asked:
    """What is planned: one of tables, naive Bayes, a network or a model of a registered kind."""
    given = [bool(cells), bool(columns), target is not None, graph is not None, model is not None]
    if sum(given) != 1:
        raise InvalidArgument("--cells, --columns, --target, --graph or --model", "given, one of them")
    rule = None if split is None else split_from(split)
    if for_analysis and (graph or LEARN) == LEARN and not columns:
        raise InvalidArgument("--for-analysis", "given with the --graph of a network, or with --columns")
    analyses = [names_from("--for-analysis", names) for names in for_analysis or ()]
    if cells:
        return lambda _: tables_recipe(list(cells), None, rule or "equal")
    if schema is None:
        raise InvalidArgument("--schema", "given with --columns, --target, --graph and --model")
    declared = Schema.read(schema)
    if columns:
        tables = [tuple(names_from("--columns", names)) for names in columns]
        return lambda _: tables_recipe(tables, declared, rule or "equal").for_analysis(analyses)
    if target is not None:
        return lambda _: NaiveBayesRecipe.of(declared, target, split=rule or "auto", merge_bins=merge_bins)
    if model == SynthesisModel.kind:
        wanted = dict(text.split("=", 1) for text in said or () if text.startswith("target="))
        if len(wanted) < len(said or ()):
            raise InvalidArgument("--set", "target=COLUMN for a synthesis")
        return lambda _: SynthesisRecipe(schema=declared, target=wanted.get("target"))
    if model is not None:
        return lambda _: recipe_from(model, declared, said)
    if graph == LEARN:
        return lambda _: SynthesisRecipe(schema=declared, raked=False)
    parents = read_graph(graph or "")

    def network(settings: dict[str, Any]) -> Any:
        chosen = {name: settings[name] for name in ("mechanism", "estimate")}
        return BayesianNetwork(parents, declared, split=rule or "auto", for_analysis=analyses, **chosen).recipe

    return network


@with_options(asked)
def plan(
    planned: Asked,
    epsilon: Epsilon = None,
    delta: Delta = None,
    order: Order = None,
    rho: Rho = None,
    total: Annotated[float | None, typer.Option(help="The number of records, or a guess; 1000 by default.")] = None,
    mechanism: MechanismOption = "auto",
    estimate: EstimateOption = "posterior-mean",
    neighbours: NeighboursOption = "replace-one",
    rows_per_person: Annotated[
        int | None, typer.Option(help="Protect persons with at most this many rows each.", min=1)
    ] = None,
    target_kl: Annotated[
        float | None, typer.Option(help="Find the smallest ε, and the smallest number of records, for this loss.")
    ] = None,
    target_error: Annotated[
        float | None,
        typer.Option(help="Find the smallest ε at which the noise of a cell has this standard deviation."),
    ] = None,
    target_width: Annotated[
        float | None, typer.Option(help="The same for the width of an interval of 95 % around a count.")
    ] = None,
    rivals: Annotated[
        bool, typer.Option("--rivals", help="Also forecast what other mechanisms would lose; takes longer.")
    ] = False,
    stand_in: Annotated[
        bool,
        typer.Option("--stand-in", help="Also run the fit of a model on public stand-ins, and show what it loses."),
    ] = False,
    as_json: Json = False,
) -> None:
    """Forecast a release from public facts: sizes, noise, expected loss; with --rivals, that of other mechanisms."""
    budget = budget_from(epsilon, delta, order, rho)
    if estimate not in METHODS:
        raise InvalidArgument("--estimate", "one of " + ", ".join(METHODS), got=estimate)
    settings: dict[str, Any] = {
        "budget": budget,
        "mechanism": mechanism,
        "neighbours": check_neighbours(neighbours),
        "estimate": estimate,
        "rows_per_person": rows_per_person,
    }
    recipe = planned(settings)
    chosen: dict[str, Any] = {"alternatives": "all" if rivals else (), "stand_in": stand_in}
    with progress_bar("forecasting", "parts", shown=not as_json) as progress:
        found = forecast(recipe, total=total, progress=progress, **chosen, **settings)
    goal = None
    if target_kl is not None:  # of all bins: what is merged changes with the budget, and merging has a loss of its own
        whole = replace(recipe, merge_bins=False) if isinstance(recipe, NaiveBayesRecipe) else recipe
        goal = _goal(target_kl, whole, total, settings, shown=not as_json)
    wanted = target_error if target_width is None else target_width / _WIDTH
    cell = None if wanted is None else smallest_epsilon_for_cell(wanted, recipe, total=total, **settings)
    if as_json:
        print_json(_as_data(found, goal) | ({} if cell is None else {"epsilon_for_cell": cell}))
        return
    if cell is not None:
        typer.echo(f"For a standard deviation of {wanted:.4g} in every cell: ε = {printed(cell)}, to 1 %.")
    _show(found, goal)
    released, source = found.design.released, found.design.schema
    if released is not None and source is not None and released != source:
        sizes = {column.name: (released[column.name].size, column.size) for column in source}
        typer.echo(merged_note({name: (few, all_) for name, (few, all_) in sizes.items() if few != all_}))


def _goal(
    target_kl: float, tables: Any, total: float | None, settings: dict[str, Any], *, shown: bool
) -> dict[str, Any]:
    found: dict[str, Any] = {"target_kl": target_kl, "epsilon": None, "total": None}
    with contextlib.suppress(Infeasible), progress_bar("the smallest ε", "parts", shown=shown) as progress:
        found["epsilon"] = smallest_epsilon(target_kl, tables, total=total, progress=progress, **settings)
    with contextlib.suppress(Infeasible), progress_bar("the fewest records", "parts", shown=shown) as progress:
        found["total"] = smallest_total(target_kl, tables, progress=progress, **settings)
    return found


def _as_data(found: Forecast, goal: dict[str, Any] | None) -> dict[str, Any]:
    lost = found.on_a_public_stand_in
    data: dict[str, Any] = {
        "budget": str(found.plan.guarantee.budget),
        "neighbours": found.plan.guarantee.neighbours,
        "unit": found.plan.guarantee.unit,
        "total": found.total,
        "cells": found.cells,
        "expected_kl": found.expected_kl,
        "steps": [step.as_dict() for step in found.steps],
        "tables": [table.__dict__ for table in found.tables],
        "alternatives": found.alternatives,
        "best": found.best,
        "theorem2": found.theorem2,
        "raw_dirichlet": found.raw_dirichlet,
        "on_a_public_stand_in": None if lost is None else lost.__dict__,
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
    if found.on_a_public_stand_in is not None:
        _show_stand_in(found.on_a_public_stand_in)
    if found.alternatives:
        _show_rivals(found)
    print_table(
        "What the budget is spent on",
        ["step", "times", "share"],
        [
            [f"{step.what} by {step.mechanism}", str(step.times), "–" if step.share is None else f"{step.share:.1%}"]
            for step in found.steps
        ],
    )
    if goal is not None:
        print_table(
            f"For an expected KL of {goal['target_kl']:g}",
            ["", "smallest"],
            [
                ["ε, with this number of records", _or_none(goal["epsilon"], printed)],
                ["number of records, with this budget", _or_none(goal["total"])],
            ],
            note="To about 1 %, with all bins released.",
        )


def _show_stand_in(found: StandInLoss) -> None:
    rows = [
        ["the fitted model", f"{found.log_loss:.4f} ± {found.error:.1g}"],
        ["the populations themselves: no model is below", f"{found.best:.4f}"],
    ]
    if found.shares is not None:
        rows.append(["knowing the shares of the classes only", f"{found.shares:.4f}"])
    what = "whole records" if found.shares is None else found.of
    print_table(
        f"On a public stand-in: log-loss of {what}, in nats a record",
        ["", "log-loss"],
        rows,
        note=f"Means of {found.fits} fits of {found.records:,} made-up records each, which say nothing of your data.",
    )


def _show_rivals(found: Forecast) -> None:
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


def _or_none(value: float | None, text: Callable[[float], str] = "{:.4g}".format) -> str:
    return "not reached" if value is None else text(value)
