"""`simplexdp calibrate`: parameters for a budget, with the paper's choice beside the exact one."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Annotated, Any

import typer

from ..budget import Budget, Neighbours, check_neighbours
from ..errors import Infeasible, InvalidArgument
from ..forecast import noise_at_empty_cell
from ..mechanisms import BalancedLaplace, Dirichlet, Gaussian, Laplace, Polya
from ..mechanisms.auto import choose
from ..mechanisms.registry import AnyMechanism
from ..planning import plan_tables
from ..sampling.discrete import MOST_CELLS
from .options import (
    Delta,
    Epsilon,
    Json,
    NeighboursOption,
    Order,
    Tables,
    budget_from,
    counted,
    number,
    print_json,
    print_table,
)

PAPER = "Algorithm 1"


def calibrate(
    epsilon: Epsilon = None,
    delta: Delta = None,
    order: Order = None,
    mechanism: Annotated[
        str, typer.Option(help="all, auto, polya, dirichlet, gaussian, laplace or balanced-laplace.")
    ] = "all",
    tables: Tables = 1,
    neighbours: NeighboursOption = "replace-one",
    r: Annotated[float | None, typer.Option(help="Multiplier (dirichlet, polya); chosen if not given.")] = None,
    total: Annotated[float, typer.Option(help="Public number of records, for choosing r.")] = 1000,
    cells: Annotated[int, typer.Option(help="Cells of a table, for choosing r and for balanced-laplace.")] = 10,
    as_json: Json = False,
) -> None:
    """The parameters that use the whole budget for a number of tables, and what the paper would choose."""
    budget, relation = budget_from(epsilon, delta, order), check_neighbours(neighbours)
    makers: dict[str, Callable[[], AnyMechanism]] = {
        "auto": lambda: choose(budget, tables=tables, neighbours=relation, total=total, cells=cells),
        "polya": lambda: Polya.calibrate(
            budget, tables=tables, neighbours=relation, r=_whole(r), total=total, cells=cells
        ),
        "gaussian": lambda: Gaussian.calibrate(budget, tables=tables, neighbours=relation),
        "laplace": lambda: Laplace.calibrate(budget, tables=tables, neighbours=relation),
        "balanced-laplace": lambda: BalancedLaplace.calibrate(budget, cells=cells, tables=tables, neighbours=relation),
        "dirichlet": lambda: Dirichlet.calibrate(
            budget, tables=tables, neighbours=relation, r=r, total=total, cells=cells
        ),
    }
    possible = set(makers)
    if relation != "replace-one" or not 2 <= cells <= MOST_CELLS:
        possible.remove("balanced-laplace")
    if mechanism != "all" and mechanism not in makers:
        raise InvalidArgument("--mechanism", "all, " + ", ".join(makers), got=mechanism)
    names = [mechanism] if mechanism != "all" else [name for name in makers if name in possible]
    results = [_result(name, makers[name](), budget, tables, relation) for name in names]
    if "dirichlet" in names or mechanism == "all":
        results.append(_paper(budget, tables, relation, total, cells))
    if as_json:
        print_json({"budget": str(budget), "tables": tables, "neighbours": relation, "results": results})
        return
    rows = [
        [
            result["choice"],
            result["parameters"],
            number(result.get("noise")),
            f"{result['spent']:.4%}" if "spent" in result else "–",
        ]
        for result in results
    ]
    print_table(
        f"{budget} for {counted(tables, 'table')} under {relation}",
        ["choice", "parameters", "noise", f"{'ε' if budget.delta is None else 'δ'} spent"],
        rows,
        note=f"r chosen for {total:g} records in {cells} cells where it was not given. "
        "noise: standard deviation at an empty cell, in records. Algorithm 1: the paper's choice.",
    )


def _whole(r: float | None) -> int | None:
    if r is None:
        return None
    if not r.is_integer():
        raise InvalidArgument("--r", "a whole number for the Pólya mechanism", got=r)
    return int(r)


def _result(name: str, mechanism: AnyMechanism, budget: Budget, tables: int, neighbours: Neighbours) -> dict[str, Any]:
    loss = tables * mechanism.loss(neighbours)
    spent = math.exp(loss.excess(budget))
    return {"choice": name, "parameters": str(mechanism), "noise": noise_at_empty_cell(mechanism), "spent": spent}


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
        [(f"table {i + 1}",) for i in range(tables)], [(cells,)] * tables, budget, calibration="algorithm1", total=total
    )
    found = planned.mechanisms[0]
    assert isinstance(found, Dirichlet)
    return found
