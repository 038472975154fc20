"""`simplexdp account`: the guarantee of given parameters in every view."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from ..accounting import PrivacyLoss, Sensitivity
from ..budget import check_neighbours
from ..errors import InvalidArgument
from ..mechanisms import BalancedLaplace, Dirichlet, Gaussian, Laplace, Polya
from ..numerics.roots import rounded
from .options import Json, NeighboursOption, Tables, print_json, print_table


def account(
    mechanism: Annotated[str, typer.Argument(help="dirichlet, polya, gaussian, laplace or balanced-laplace.")],
    r: Annotated[float | None, typer.Option(help="Multiplier of the counts (dirichlet, polya).")] = None,
    alpha: Annotated[float | None, typer.Option(help="Prior of each cell (dirichlet, polya).")] = None,
    flips: Annotated[int, typer.Option(help="Heads have probability 2^-flips (polya).")] = 1,
    sigma: Annotated[float | None, typer.Option(help="Standard deviation (gaussian).")] = None,
    scale: Annotated[float | None, typer.Option(help="Scale (laplace, balanced-laplace).")] = None,
    cells: Annotated[int | None, typer.Option(help="Cells of the table (balanced-laplace).")] = None,
    tables: Tables = 1,
    neighbours: NeighboursOption = "replace-one",
    epsilon: Annotated[list[float] | None, typer.Option(help="Show δ here; may be repeated.")] = None,
    delta: Annotated[list[float] | None, typer.Option(help="Show ε here; may be repeated.")] = None,
    order: Annotated[list[float] | None, typer.Option(help="Show the Rényi ε here; may be repeated.")] = None,
    as_json: Json = False,
) -> None:
    """The exact guarantee of a mechanism with given parameters."""
    built = build(mechanism, r=r, alpha=alpha, flips=flips, sigma=sigma, scale=scale, cells=cells)
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
            rounded(view["lower"], up=False),
            rounded(view["upper"], up=True),
            rounded(view["paper"], up=True) if "paper" in view else "–",
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
    requests += [(f"ε at δ = {value:g}", {"delta": value}) for value in deltas]
    requests += [(f"δ at ε = {value:g}", {"epsilon": value}) for value in epsilons]
    requests += [(f"Rényi ε of order {value:g}", {"order": value}) for value in orders]
    views = []
    for label, request in requests:
        bounds = loss.bounds(**request)
        view: dict[str, Any] = {"view": label, **request, "lower": bounds.lower, "upper": bounds.upper}
        if bound is not None:
            view["paper"] = bound.bounds(**request).upper
        views.append(view)
    return views


def build(
    mechanism: str,
    *,
    r: float | None = None,
    alpha: float | None = None,
    flips: int = 1,
    sigma: float | None = None,
    scale: float | None = None,
    cells: int | None = None,
) -> Dirichlet | Polya | Gaussian | Laplace | BalancedLaplace:
    """The mechanism that the options describe."""

    def need(name: str, value: float | None) -> float:
        if value is None:
            raise InvalidArgument(f"--{name}", f"given for the {mechanism} mechanism")
        return value

    if mechanism == "dirichlet":
        return Dirichlet(r=need("r", r), alpha=need("alpha", alpha))
    if mechanism == "polya":
        return Polya(r=need("r", r), alpha=need("alpha", alpha), flips=flips)  # type: ignore[arg-type]  # checked there
    if mechanism == "gaussian":
        return Gaussian(sigma=need("sigma", sigma))
    if mechanism == "laplace":
        return Laplace(scale=need("scale", scale))
    if mechanism == "balanced-laplace":
        return BalancedLaplace(scale=need("scale", scale), cells=need("cells", cells))  # type: ignore[arg-type]  # checked there
    raise InvalidArgument("mechanism", "dirichlet, polya, gaussian, laplace or balanced-laplace", got=mechanism)
