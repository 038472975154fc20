"""`simplexdp audit`: what a mechanism claims beside what its own draws prove."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import Progress

from ..audit import audit_mechanism
from ..budget import check_neighbours
from ..errors import InvalidArgument
from ..mechanisms import BalancedLaplace, Dirichlet, Gaussian, Laplace, Mechanism, Polya
from .options import Json, NeighboursOption, budget_from, number, print_json, print_table


def audit(
    epsilon: Annotated[float, typer.Option(help="ε of the budget that the mechanism is calibrated to.")] = 1.0,
    delta: Annotated[float | None, typer.Option(help="δ of the budget; 1e-5 if neither δ nor order is given.")] = None,
    order: Annotated[float | None, typer.Option(help="Rényi order, for an RDP budget.")] = None,
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
    if delta is None and order is None:
        delta = 1e-5
    budget, relation = budget_from(epsilon, delta, order), check_neighbours(neighbours)
    makers: dict[str, Callable[[], Mechanism]] = {
        "dirichlet": lambda: Dirichlet.calibrate(budget, neighbours=relation, r=r),
        "polya": lambda: Polya.calibrate(budget, neighbours=relation, r=r),
        "gaussian": lambda: Gaussian.calibrate(budget, neighbours=relation),
        "laplace": lambda: Laplace.calibrate(budget, neighbours=relation),
    }
    if relation == "replace-one" or mechanism == "balanced-laplace":
        makers["balanced-laplace"] = lambda: BalancedLaplace.calibrate(budget, cells=cells, neighbours=relation)
    if mechanism != "all" and mechanism not in makers:
        raise InvalidArgument("--mechanism", "all, " + ", ".join(makers), got=mechanism)
    names = list(makers) if mechanism == "all" else [mechanism]
    found = []
    console = Console(stderr=True)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as bar:
        for name in names:
            task = bar.add_task(name, total=2 * draws)
            found.append(
                audit_mechanism(
                    makers[name](),
                    neighbours=relation,
                    draws=draws,
                    delta=at,
                    confidence=confidence,
                    entropy=seed,
                    progress=lambda done, task=task: bar.advance(task, done),  # type: ignore[misc]
                )
            )
    if plot is not None:
        from ..audit.plot import plot_audits

        plot_audits(found, plot)
    if as_json:
        print_json({"budget": str(budget), "audits": [one.as_dict() for one in found]})
    else:
        print_table(
            f"Audit of mechanisms for {budget} under {relation}",
            ["mechanism", "δ", "claimed ε", "proved: ε at least", "share"],
            [
                [one.name, number(one.delta), number(one.claimed), number(one.lower), f"{one.share:.1%}"]
                for one in found
            ],
            note=f"{draws:,} draws for each table; each bound holds with {confidence:.1%} confidence. "
            "A share above 100 % refutes the claim.",
        )
    if any(one.violated for one in found):
        raise typer.Exit(1)
