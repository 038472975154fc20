"""Run cells on one or more processes, keep what is finished, and go on where a run was interrupted."""

from __future__ import annotations

import json
import multiprocessing
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

from simplexdp import __version__

from .cells import Cell
from .figures.base import Figure
from .figures.registry import figure_named
from .results import Row, read_csv, write_csv, write_parquet
from .settings import Settings


class Progress:
    """What the runner tells while it works; this one says nothing."""

    def start(self, total: int, done: int) -> None:
        """So many cells, of which so many were found finished."""

    def step(self, cell: Cell) -> None:
        """One more is finished."""


class BarProgress(Progress):
    """A bar with the time left; cells found finished count in the bar, not in the speed."""

    def __init__(self) -> None:
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
        from rich.progress import Progress as Bar

        self._bar = Bar(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
        )

    def start(self, total: int, done: int) -> None:
        """Show the bar."""
        self._task = self._bar.add_task("reproducing", total=total, completed=done)

    def step(self, cell: Cell) -> None:
        """Move it."""
        self._bar.update(
            self._task, advance=1, description=" ".join(w for w in (cell.figure, cell.data, cell.method) if w)
        )

    @contextmanager
    def shown(self) -> Iterator[BarProgress]:
        """While the run lasts."""
        with self._bar:
            yield self


def work(cell: Cell) -> tuple[Cell, list[Row]]:
    """Compute one cell; runs in a worker."""
    return cell, figure_named(cell.figure).compute(cell)


def run(
    figures: Sequence[Figure], settings: Settings, out: Path, *, jobs: int = 1, progress: Progress | None = None
) -> list[Row]:
    """All rows of the figures. Finished cells are read from `out/cells`, the others are computed and kept there.

    The numbers depend on the settings only: each cell derives its seeds from what it is, so neither the number of
    jobs nor the order of work changes them.
    """
    progress = progress or Progress()
    store = out / "cells"
    cells = [cell for figure in figures for cell in figure.cells(settings)]
    missing = [cell for cell in cells if not (store / cell.file).is_file()]
    progress.start(len(cells), len(cells) - len(missing))
    for cell, rows in _results(missing, jobs):
        write_csv(store / cell.file, rows)
        progress.step(cell)
    found = [row for cell in cells for row in read_csv(store / cell.file)]
    write_csv(out / "results.csv", found)
    write_parquet(out / "results.parquet", found)
    described = {name: str(value) if isinstance(value, Path) else value for name, value in asdict(settings).items()}
    manifest = {
        "simplexdp": __version__,
        "settings": described,
        "figures": [figure.name for figure in figures],
        "private": False,
        "why": "seeded draws on public data, for comparison only",
    }
    (out / "manifest.json").write_text(json.dumps(manifest, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    return found


def _results(cells: Sequence[Cell], jobs: int) -> Iterator[tuple[Cell, list[Row]]]:
    if jobs <= 1 or len(cells) <= 1:
        yield from map(work, cells)
        return
    context = multiprocessing.get_context("spawn")
    with context.Pool(min(jobs, len(cells))) as pool:
        yield from pool.imap_unordered(work, cells)
