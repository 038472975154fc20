"""`simplexdp audit`: what a mechanism or a fit claims beside what its own draws prove."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import Progress

from ..audit import audit_fit, audit_mechanism
from ..budget import Budget, Neighbours, check_neighbours
from ..errors import InvalidArgument
from ..mechanisms import BalancedLaplace, Dirichlet, Gaussian, Laplace, Mechanism, Polya
from .files import load
from .options import Json, NeighboursOption, Order, budget_from, number, print_json, print_table


def audit(
    file: Annotated[
        Path | None, typer.Argument(help="A release or model: all that its guarantee paid for is drawn together.")
    ] = None,
    epsilon: Annotated[float, typer.Option(help="ε of the budget that the mechanism is calibrated to.")] = 1.0,
    delta: Annotated[float | None, typer.Option(help="δ of the budget; 1e-5 if neither δ nor order is given.")] = None,
    order: Order = None,
    mechanism: Annotated[
        str, typer.Option(help="all, dirichlet, polya, gaussian, laplace or balanced-laplace.")
    ] = "all",
    neighbours: NeighboursOption = "replace-one",
    r: Annotated[int, typer.Option(help="Multiplier of dirichlet and polya.", min=1)] = 3,
    cells: Annotated[int, typer.Option(help="Cells of the table (balanced-laplace).", min=2)] = 3,
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
            guarantee = load(file)[1].guarantee
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
        from ..audit.plot import plot_audits

        plot_audits(found, plot)
    if as_json:
        print_json({"title": title, "audits": [one.as_dict() for one in found]})
    else:
        print_table(
            title,
            ["mechanism", "δ", "claimed ε", "proved: ε at least", "share"],
            [
                [one.name, number(one.delta), number(one.claimed), number(one.lower), f"{one.share:.1%}"]
                for one in found
            ],
            note=f"{draws:,} draws for each table; each bound holds with {confidence:.1%} confidence. "
            "More draws prove more; a share above 100 % refutes the claim.",
        )
    if any(one.violated for one in found):
        raise typer.Exit(1)


def _mechanisms(name: str, budget: Budget, relation: Neighbours, r: int, cells: int) -> list[Mechanism]:
    makers: dict[str, Callable[[], Mechanism]] = {
        "dirichlet": lambda: Dirichlet.calibrate(budget, neighbours=relation, r=r),
        "polya": lambda: Polya.calibrate(budget, neighbours=relation, r=r),
        "gaussian": lambda: Gaussian.calibrate(budget, neighbours=relation),
        "laplace": lambda: Laplace.calibrate(budget, neighbours=relation),
    }
    if relation == "replace-one" or name == "balanced-laplace":
        makers["balanced-laplace"] = lambda: BalancedLaplace.calibrate(budget, cells=cells, neighbours=relation)
    if name != "all" and name not in makers:
        raise InvalidArgument("--mechanism", "all, " + ", ".join(makers), got=name)
    return [make() for make in makers.values()] if name == "all" else [makers[name]()]
