"""What parameters promise: `simplexdp account`, `calibrate` and `audit`."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from dataclasses import MISSING, fields
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import Progress

from ..accounting import PrivacyLoss, Sensitivity
from ..audit import audit_fit, audit_mechanism
from ..budget import Budget, Neighbours, check_neighbours
from ..errors import Infeasible, InvalidArgument
from ..mechanisms import Dirichlet, private_mechanisms
from ..mechanisms.auto import choose
from ..mechanisms.base import TableMechanism
from ..models import read
from ..models.certificate import FALSE_POSITIVES, percent
from ..numerics.printed import exact, printed
from ..planning import plan_tables, warn_of_weak_budget
from .options import (
    Delta,
    Epsilon,
    Json,
    NeighboursOption,
    Order,
    Rho,
    Tables,
    budget_from,
    calibrated,
    counted,
    number,
    print_json,
    print_table,
    private_mechanism,
    with_options,
)


def parameters(**given: float | None) -> dict[str, float]:
    """The parameters of all mechanisms, as options: those that were given."""
    return {name: value for name, value in given.items() if value is not None}


def _options() -> list[inspect.Parameter]:
    meanings: dict[tuple[str, str], list[str]] = {}
    for name, cls in private_mechanisms().items():
        for key, limits in cls.limits.items():
            meanings.setdefault((key, limits.meaning), []).append(name)
    words: dict[str, list[str]] = {}
    for (key, meaning), names in meanings.items():
        words.setdefault(key, []).append(f"{meaning[0].upper()}{meaning[1:]} ({', '.join(names)}).")
    return [
        inspect.Parameter(
            key,
            inspect.Parameter.KEYWORD_ONLY,
            default=None,
            annotation=Annotated[float | None, typer.Option(help=" ".join(told))],
        )
        for key, told in words.items()
    ]


parameters.__signature__ = inspect.Signature(_options())  # type: ignore[attr-defined]


@with_options(parameters)
def account(
    given: dict[str, float],
    mechanism: Annotated[str, typer.Argument(help=", ".join(private_mechanisms()) + ".")],
    tables: Tables = 1,
    neighbours: NeighboursOption = "replace-one",
    epsilon: Annotated[list[float] | None, typer.Option(help="Show δ here; may be repeated.")] = None,
    delta: Annotated[list[float] | None, typer.Option(help="Show ε here; may be repeated.")] = None,
    order: Annotated[list[float] | None, typer.Option(help="Show the Rényi ε here; may be repeated.")] = None,
    as_json: Json = False,
) -> None:
    """The exact guarantee of a mechanism with given parameters."""
    built = build(mechanism, **given)
    relation = check_neighbours(neighbours)
    loss = tables * built.loss(relation)
    bound = tables * built.bound(Sensitivity(), relation) if isinstance(built, Dirichlet) else None
    views = _views(loss, bound, epsilon or [0.1, 1.0, 5.0], delta or [1e-5, 1e-9], order or [1, 2, 5, 20])
    if as_json:
        print_json(
            {
                "mechanism": built.name,
                "parameters": built.parameters,
                "tables": tables,
                "neighbours": relation,
                "largest_order": loss.largest_order,
                "views": views,
            }
        )
        return
    rows = [
        [
            view["view"],
            printed(view["lower"], up=False),
            printed(view["upper"]),
            printed(view.get("paper")),
        ]
        for view in views
    ]
    print_table(
        f"{tables} × {built} under {relation}",
        ["view", "at least", "guaranteed", "the paper's bound"],
        rows,
        note="“guaranteed” is the exact value rounded up; the paper's bound is Theorem 1 with the conversion.",
    )


def _views(
    loss: PrivacyLoss,
    bound: PrivacyLoss | None,
    epsilons: list[float],
    deltas: list[float],
    orders: list[float],
) -> list[dict[str, Any]]:
    """Every requested view as lower and upper bound, with the paper's bound where there is one."""
    requests: list[tuple[str, dict[str, float]]] = []
    requests += [(f"ε at δ = {printed(value)}", {"delta": value}) for value in deltas]
    requests += [(f"δ at ε = {printed(value)}", {"epsilon": value}) for value in epsilons]
    requests += [(f"Rényi ε of order {exact(value)}", {"order": value}) for value in orders]
    requests += [("largest advantage of any attacker", {"epsilon": 0.0})]
    views = []
    for label, request in requests:
        bounds = loss.bounds(**request)
        view: dict[str, Any] = {"view": label, **request, "lower": bounds.lower, "upper": bounds.upper}
        if bound is not None:
            view["paper"] = bound.bounds(**request).upper
        views.append(view)
    for rate in FALSE_POSITIVES:
        label = f"true positives at {percent(rate)} false positives"
        view = {"view": label, "false_positive_rate": rate, "lower": None, "upper": loss.power(rate)}
        if bound is not None:
            view["paper"] = bound.power(rate)
        views.append(view)
    return views


def build(mechanism: str, **given: float) -> TableMechanism:
    """The mechanism of this name with those of the parameters that it has."""
    cls = private_mechanism("mechanism", mechanism)
    assert cls is not None
    for field in fields(cls):
        if field.name not in given and field.default is MISSING:
            raise InvalidArgument(f"--{field.name}", f"given for the {mechanism} mechanism")
    return cls(**{key: value for key, value in given.items() if key in cls.limits})


# -- calibrate --------------------------------------------------------------------------------------------------------
#
# `simplexdp calibrate`: parameters for a budget, with the paper's choice beside the exact one.

PAPER = "Algorithm 1"


def calibrate(
    epsilon: Epsilon = None,
    delta: Delta = None,
    order: Order = None,
    rho: Rho = None,
    mechanism: Annotated[str, typer.Option(help=", ".join(["all", "auto", *private_mechanisms()]) + ".")] = "all",
    tables: Tables = 1,
    neighbours: NeighboursOption = "replace-one",
    r: Annotated[
        float | None, typer.Option(help="Multiplier of the counts, for dirichlet and polya; chosen if not given.")
    ] = None,
    total: Annotated[float, typer.Option(help="Public number of records, for choosing r.")] = 1000,
    cells: Annotated[int, typer.Option(help="Cells of a table, for choosing r and for noise that depends on it.")] = 10,
    as_json: Json = False,
) -> None:
    """The parameters that use the whole budget for a number of tables, and what the paper would choose."""
    budget, relation = budget_from(epsilon, delta, order, rho), check_neighbours(neighbours)
    facts: dict[str, Any] = {"tables": tables, "neighbours": relation, "total": total, "cells": cells}
    chosen = private_mechanism("--mechanism", mechanism, "all", "auto")
    known: dict[str, type[TableMechanism] | None] = {mechanism: chosen}
    if mechanism == "all":
        known = {"auto": None, **{name: cls for name, cls in private_mechanisms().items() if _suits(cls, facts)}}
    warn_of_weak_budget(budget, None)
    results = []
    for name, cls in known.items():
        try:
            made = choose(budget, **facts) if cls is None else calibrated(cls, budget, r=r, **facts)
            results.append(_result(name, made, budget, tables, relation))
        except Infeasible as error:
            if mechanism != "all":
                raise
            results.append({"choice": name, "parameters": f"infeasible: {error}"})
    if mechanism in ("all", Dirichlet.name):
        results.append(_paper(budget, tables, relation, total, cells))
    if as_json:
        print_json({"budget": str(budget), "tables": tables, "neighbours": relation, "results": results})
        return
    rows = [
        [
            result["choice"],
            result["parameters"],
            number(result.get("noise")),
            f"{printed(100 * Fraction(result['spent']))}%" if "spent" in result else "–",
        ]
        for result in results
    ]
    print_table(
        f"{budget} for {counted(tables, 'table')} under {relation}",
        ["choice", "parameters", "noise", f"{'δ' if budget.delta else 'ε'} spent"],
        rows,
        note=f"r chosen for {total:g} records in {cells} cells where it was not given. "
        "noise: standard deviation at an empty cell, in records. Algorithm 1: the paper's choice.",
    )


def _suits(cls: type[TableMechanism], facts: dict[str, Any]) -> bool:
    public = facts["neighbours"] == "replace-one"
    try:
        cls.check_table(total_is_public=public, total=facts["total"], cells=facts["cells"])
    except Infeasible:
        return False
    return True


def _result(name: str, made: TableMechanism, budget: Budget, tables: int, neighbours: Neighbours) -> dict[str, Any]:
    loss = tables * made.loss(neighbours)
    spent = math.exp(loss.excess(budget))
    return {"choice": name, "parameters": str(made), "noise": math.sqrt(made.noise_variance), "spent": spent}


def _paper(budget: Budget, tables: int, neighbours: Neighbours, total: float, cells: int) -> dict[str, Any]:
    """Algorithm 1 with the budget divided over the tables, at the best order where the order is free."""
    if neighbours != "replace-one":
        return {"choice": PAPER, "parameters": "states replace-one only"}
    try:
        found = best_algorithm1(budget, tables, total, cells)
    except Infeasible as error:
        return {"choice": PAPER, "parameters": f"infeasible: {error}"}
    return _result(PAPER, found, budget, tables, neighbours)


def best_algorithm1(budget: Budget, tables: int, total: float, cells: int) -> Dirichlet:
    """Algorithm 1 as `calibration="algorithm1"` plans it, at the best order for a Zipf table where it is free."""
    planned = plan_tables(
        [(f"table {i + 1}",) for i in range(tables)],
        [(cells,)] * tables,
        budget,
        calibration="algorithm1",
        total=total,
        quiet=True,  # the number of records is an example
    )
    found = planned.mechanisms[0]
    assert isinstance(found, Dirichlet)
    return found


# -- audit ------------------------------------------------------------------------------------------------------------
#
# `simplexdp audit`: what a mechanism or a fit claims beside what its own draws prove.


def audit(
    file: Annotated[
        Path | None, typer.Argument(help="A release or model: all that its guarantee paid for is drawn together.")
    ] = None,
    epsilon: Annotated[float, typer.Option(help="ε of the budget that the mechanism is calibrated to.")] = 1.0,
    delta: Annotated[float | None, typer.Option(help="δ of the budget; 1e-5 if neither δ nor order is given.")] = None,
    order: Order = None,
    mechanism: Annotated[str, typer.Option(help=", ".join(["all", *private_mechanisms()]) + ".")] = "all",
    neighbours: NeighboursOption = "replace-one",
    r: Annotated[int, typer.Option(help="Multiplier of the counts, where a mechanism has one.", min=1)] = 3,
    cells: Annotated[int, typer.Option(help="Cells of the table, where the noise depends on it.", min=2)] = 3,
    draws: Annotated[int, typer.Option(help="Draws for each of the two tables.", min=1000)] = 1_000_000,
    at: Annotated[float | None, typer.Option(help="δ of the bound; by default where the draws prove most.")] = None,
    confidence: Annotated[float, typer.Option(help="Of each bound.")] = 0.95,
    seed: Annotated[int | None, typer.Option(help="For a run that can be repeated.", min=0)] = None,
    plot: Annotated[Path | None, typer.Option(help="Write a picture; the ending names the format.")] = None,
    as_json: Json = False,
) -> None:
    """Draw on the worst-case neighbours and give a lower bound on ε beside the claim; exit code 1 if it is refuted."""
    console = Console(stderr=True)
    settings: dict[str, Any] = {"draws": draws, "delta": at, "confidence": confidence, "entropy": seed}
    with Progress(console=console, transient=True, disable=not console.is_terminal) as bar:

        def advance(name: str) -> Callable[[int], None]:
            task = bar.add_task(name, total=2 * draws)
            return lambda done: bar.advance(task, done)

        if file is not None:
            guarantee = read(file).guarantee
            title = f"Audit of {file} under {guarantee.neighbours}"
            found = [audit_fit(guarantee, name=file.name, progress=advance(file.name), **settings)]
        else:
            budget = budget_from(epsilon, 1e-5 if delta is None and order is None else delta, order)
            relation = check_neighbours(neighbours)
            title = f"Audit of mechanisms for {budget} under {relation}"
            found = [
                audit_mechanism(one, neighbours=relation, progress=advance(one.name), **settings)
                for one in _mechanisms(mechanism, budget, relation, r, cells)
            ]
    if plot is not None:
        from ..audit import plot_audits

        plot_audits(found, plot)
    if as_json:
        print_json({"title": title, "audits": [one.as_dict() for one in found]})
    else:
        print_table(
            title,
            ["mechanism", "δ", "claimed ε", "proved: ε at least", "share"],
            [
                [one.name, printed(one.delta), printed(one.claimed), printed(one.lower, up=False), f"{one.share:.1%}"]
                for one in found
            ],
            note=f"{draws:,} draws for each table; each bound holds with {confidence:.1%} confidence. "
            "More draws prove more; a share above 100 % refutes the claim.",
        )
    if any(one.violated for one in found):
        raise typer.Exit(1)


def _mechanisms(name: str, budget: Budget, relation: Neighbours, r: int, cells: int) -> list[TableMechanism]:
    facts: dict[str, Any] = {"neighbours": relation, "r": r, "cells": cells}
    chosen = private_mechanism("--mechanism", name, "all")
    if chosen is not None:
        return [calibrated(chosen, budget, **facts)]
    found = []
    for cls in private_mechanisms().values():
        if cls.publishes_total and relation != "replace-one":
            continue
        try:
            found.append(calibrated(cls, budget, **facts))
        except Infeasible:
            if not budget.is_pure:  # the others say that they have no pure guarantee
                raise
    return found
