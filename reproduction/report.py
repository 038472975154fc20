"""Figures as files, and one HTML page that holds them all beside what the paper says and what was found."""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from simplexdp import __version__

from .figures.base import Figure, Grid
from .results import PUBLISHED, Row
from .settings import Settings

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing

_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 75rem; padding: 0 1rem; color: #222 }
section { border-top: 1px solid #ccc; margin-top: 2rem }
.pair { display: grid; grid-template-columns: 1fr 1fr; gap: 2rem }
.warning { background: #fdecea; border-left: 4px solid #c00; padding: .5rem 1rem }
img { max-width: 100%; height: auto }
table { border-collapse: collapse; font-size: 14px }
td, th { border: 1px solid #ccc; padding: .15rem .5rem; text-align: right }
td:first-child, th:first-child, td:nth-child(2) { text-align: left }
@media (max-width: 50rem) { .pair { grid-template-columns: 1fr } }
"""


def write_report(figures: Sequence[Figure], rows: Sequence[Row], settings: Settings, out: Path) -> Path:
    """Draw every figure as PNG and SVG, write the page, and return its path."""
    folder = out / "figures"
    folder.mkdir(parents=True, exist_ok=True)
    sections = []
    for figure in figures:
        own = [row for row in rows if row.figure == figure.name]
        pictures = {f"{figure.name}{'-' if suffix else ''}{suffix}": d for suffix, d in figure.draw(own).items()}
        images = [_save(drawing, folder, name) for name, drawing in pictures.items()]
        sections.append(_section(figure, own, images))
    page = out / "report.html"
    page.write_text(_page(settings, sections, any(row.setting == PUBLISHED for row in rows)), encoding="utf-8")
    return page


def _save(drawing: Drawing, folder: Path, name: str) -> str:
    """PNG and SVG files, and the SVG as an image element."""
    drawing.savefig(folder / f"{name}.png", dpi=130)
    memory = io.BytesIO()
    drawing.savefig(memory, format="svg", metadata={"Date": None})
    (folder / f"{name}.svg").write_bytes(memory.getvalue())
    code = base64.b64encode(memory.getvalue()).decode()
    return f'<img alt="{escape(name)}" src="data:image/svg+xml;base64,{code}">'


def _section(figure: Figure, rows: Sequence[Row], images: Sequence[str]) -> str:
    warning = ""
    if any(row.setting == PUBLISHED for row in rows):
        warning = (
            f'<p class="warning">Rows marked "{PUBLISHED}" repeat the slips of the published code. They are not '
            "private and stand here for comparison only.</p>"
        )
    found = "".join(f"<li>{escape(sentence)}</li>" for sentence in figure.found(rows))
    return (
        f'<section id="{figure.name}"><h2>{escape(figure.title)}</h2>{warning}{"".join(images)}'
        f'<div class="pair"><div><h3>The paper says</h3><p>{escape(figure.paper_says)}</p></div>'
        f"<div><h3>Found</h3><ul>{found}</ul></div></div>"
        f"{''.join(map(_grid, figure.grids(rows)))}</section>"
    )


def _grid(grid: Grid) -> str:
    head = "".join(f"<th>{escape(cell)}</th>" for cell in grid.header)
    body = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in grid.rows)
    return f"<details open><summary>{escape(grid.title)}</summary><table><tr>{head}</tr>{body}</table></details>"


def _page(settings: Settings, sections: Sequence[str], published: bool) -> str:
    data = "generated tables (not the data sets)" if settings.generated else "the UCI data sets"
    kind = "quick run: few data sets, budgets and repeats" if settings.quick else "full run"
    notes = [
        f"simplexdp {__version__}, {kind}, {settings.repeats} repeats, seed {settings.seed}, {data}.",
        "All draws are seeded, so nothing on this page is a private release; it compares methods on public data.",
        "Correct settings: budgets divided over all tables, counts of sensitivity one, and categories and bins from a "
        "tenth of the training rows that is declared public and counted nowhere.",
    ]
    if published:
        notes.append(f'Results marked "{PUBLISHED}" follow the published code with its slips; see the errata.')
    items = "".join(f"<li>{escape(note)}</li>" for note in notes)
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>The Dirichlet mechanism, reproduced</title><style>{_STYLE}</style></head><body>"
        f"<h1>The Dirichlet mechanism, reproduced</h1><ul>{items}</ul>{''.join(sections)}</body></html>\n"
    )
