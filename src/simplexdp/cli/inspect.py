"""`simplexdp inspect`: what a release or model says and what it promises."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated, Any

import typer

from .. import plots
from ..budget import check_fraction
from ..errors import InvalidArgument
from ..models import Release
from ..models.document import write_file
from ..models.naive_bayes import NaiveBayesModel
from ..report import model_report
from ..summary import cell_labels, conditional_rows, information, merged_note, nats, release_rows
from .files import Published, check_output, load
from .options import Force, Json, print_json, print_table

ENDINGS = (".png", ".svg", ".pdf", ".html")


def inspect(
    file: Annotated[Path, typer.Argument(help="A release or model that `simplexdp fit` wrote.")],
    column: Annotated[str | None, typer.Option(help="A feature or node of a model: show its table.")] = None,
    level: Annotated[float, typer.Option(help="Of the intervals.")] = 0.95,
    cells: Annotated[int, typer.Option(help="Rows of a table to print; the most probable.", min=1)] = 20,
    plot: Annotated[
        Path | None, typer.Option(help="Write a picture (.png, .svg, .pdf) or a whole report (.html).")
    ] = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Show a release or model: its probabilities with intervals, and its certificate."""
    check_fraction("--level", level)
    if plot is not None:
        check_output(plot, force, ENDINGS)
    kind, found = load(file)
    if column is not None and isinstance(found, Release):
        raise InvalidArgument("--column", "left out for a release of one table")
    if as_json:
        print_json(_as_data(kind, found, level))
    else:
        _show(found, column, level, cells)
    if plot is not None:
        write_file(plot, _picture(found, column, level, plot.suffix.lower().removeprefix(".")))
        typer.echo(f"Written to {plot}.", err=as_json)


def _show(found: Published, column: str | None, level: float, cells: int) -> None:
    typer.echo(f"{found!r}")
    first = found if isinstance(found, Release) else found.releases[0]
    typer.echo(f"created {first.created} by {first.software}; estimate: {first.method}\n")
    if isinstance(found, Release):
        cut = f"the {cells} most probable of {found.values.size:,} cells" if found.values.size > cells else ""
        print_table(
            f"The distribution of {' × '.join(found.columns) or 'the cells'}",
            ["cell", "probability", f"{level:.0%} from", "to"],
            release_rows(found, level, cells),
            note=cut,
        )
    elif column is not None:
        header, rows = conditional_rows(found, column, cells)
        print_table(f"P({column} | {header[0]})" if header[0] != column else f"P({column})", header, rows)
    elif isinstance(found, NaiveBayesModel):
        labels = found.schema[found.target].labels if found.schema is not None else ()
        names = labels or [str(i + 1) for i in range(found.class_probabilities.size)]
        rows = [[name, f"{p:.5f}"] for name, p in zip(names, found.class_probabilities, strict=True)]
        print_table(f"P({found.target})", [found.target, "probability"], rows[:cells])
        gained = [[name, nats(value)] for name, value in information(found).items()]
        print_table(
            "What each feature says about the class",
            ["feature", "mutual information, nats"],
            gained[:cells],
            note="In the published model. --column NAME shows the table of a feature.",
        )
        if found.merged_bins:
            typer.echo(merged_note(found.merged_bins))
    else:
        gains = information(found)
        rows = [
            [node, ", ".join(parents) or "–", f"{found.tables[node].size:,}", nats(gains[node])]
            for node, parents in found.graph.families
        ]
        print_table(
            f"{len(rows)} columns, {len(found.graph.edges)} edges",
            ["column", "parents", "cells", "information from the parents, nats"],
            rows[:cells] if len(rows) > cells else rows,
            note="In the published model. --column NAME shows the table of a column.",
        )
    typer.echo(f"\n{found.certificate()}")


def _as_data(kind: str, found: Published, level: float) -> dict[str, Any]:
    """Everything that is shown, for programs."""
    data: dict[str, Any] = {"kind": kind, "certificate": found.certificate().__dict__}
    if isinstance(found, Release):
        lower, upper = found.intervals(level)
        return data | {
            "columns": list(found.columns),
            "shape": list(found.values.shape),
            "level": level,
            "cells": [
                {"cell": label, "probability": float(p), "lower": float(a), "upper": float(b)}
                for label, p, a, b in zip(
                    cell_labels(found), found.probabilities.ravel(), lower.ravel(), upper.ravel(), strict=True
                )
            ],
        }
    if isinstance(found, NaiveBayesModel):
        return data | {
            "target": found.target,
            "class_probabilities": found.class_probabilities.tolist(),
            "released_cells": {name: cells for name, (cells, _) in found.merged_bins.items()},
            "features": {
                name: {"information": value, "given_class": found.conditionals[found.features.index(name)].tolist()}
                for name, value in information(found).items()
            },
        }
    gains = information(found)
    return data | {
        "nodes": {
            node: {
                "parents": list(parents),
                "information": None if math.isnan(gains[node]) else gains[node],
                "table": found.tables[node].tolist(),
            }
            for node, parents in found.graph.families
        }
    }


def _picture(found: Published, column: str | None, level: float, form: str) -> bytes:
    if form == "html":
        return model_report(found, level=level).encode()
    if isinstance(found, Release):
        return plots.save(plots.distribution(found, level=level), form)
    if column is not None:
        header, rows = conditional_rows(found, column, 8)
        series = {row[0]: [float(cell) for cell in row[1:]] for row in rows}
        return plots.save(plots.comparison(header[1:], series, title=f"P({column} | {header[0]})"), form)
    known = {name: value for name, value in information(found).items() if not math.isnan(value)}
    gains = dict(sorted(known.items(), key=lambda item: -item[1]))
    of = found.target if isinstance(found, NaiveBayesModel) else "the parents"
    figure = plots.bars(list(gains), list(gains.values()), title=f"Information shared with {of}", unit="nats", cells=30)
    return plots.save(figure, form)
