"""The command: `python -m reproduction`, and `simplexdp reproduce` where this package can be imported."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def reproduce(
    figure: Annotated[
        list[str] | None, typer.Option(help="A figure by name, more than once for several; all if not given.")
    ] = None,
    data: Annotated[
        Path | None, typer.Option(help="Folder of the data files; else SIMPLEXDP_DATA, cache, download.")
    ] = None,
    repeats: Annotated[int, typer.Option(help="Draws for each method and budget.", min=1)] = 10,
    jobs: Annotated[int, typer.Option(help="Processes; the numbers do not depend on it.", min=1)] = 2,
    out: Annotated[Path, typer.Option(help="Folder for results, figures and the report.")] = Path("reproduced"),
    seed: Annotated[int, typer.Option(help="All draws derive from it.", min=0)] = 1,
    quick: Annotated[
        bool, typer.Option("--quick", help="Few data sets, budgets and repeats: minutes instead of half an hour.")
    ] = False,
    as_published: Annotated[
        bool, typer.Option("--as-published", help="Also repeat the published slips, marked as not private.")
    ] = False,
    generated: Annotated[bool, typer.Option("--generated", help="Made-up tables instead of the data sets.")] = False,
    show: Annotated[bool, typer.Option("--list", help="List the figures and stop.")] = False,
) -> None:
    """Run the experiments, resuming what is unfinished in the folder, and write one HTML report."""
    from .figures.registry import FIGURES, chosen
    from .report import write_report
    from .runner import BarProgress, run
    from .settings import Settings

    if show:
        for each in FIGURES:
            typer.echo(f"{each.name:20} {each.title}")
        return
    settings = Settings(
        repeats=repeats, seed=seed, quick=quick, as_published=as_published, data=data, generated=generated
    )
    figures = chosen(tuple(figure or ()))
    progress = BarProgress()
    with progress.shown():
        rows = run(figures, settings, out, jobs=jobs, progress=progress)
    page = write_report(figures, rows, settings, out)
    if as_published:
        typer.echo("Results marked 'as published, not private' repeat published slips and guarantee nothing.")
    typer.echo(f"{len(rows)} results in {out / 'results.csv'} and {out / 'results.parquet'}; report: {page}")


_app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
_app.command()(reproduce)
program = typer.main.get_command(_app)
