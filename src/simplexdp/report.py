"""One self-contained HTML page: text, tables and pictures inline, nothing from the network."""

from __future__ import annotations

import base64
import contextlib
import html
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from . import plots
from ._version import __version__
from .errors import Infeasible
from .models.bayesian_network import BayesianNetworkModel
from .models.certificate import Certificate
from .models.naive_bayes import NaiveBayesModel
from .models.release import Release
from .summary import conditional_rows, information, nats, release_rows

_CSS = """
:root { color-scheme: light; }
body { font: 16px/1.55 system-ui, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif; color: #1c1c1c;
  max-width: 60rem; margin: 2.5rem auto; padding: 0 1.2rem; }
h1 { font-size: 1.7rem; line-height: 1.25; margin-bottom: .3rem; } h2 { font-size: 1.2rem; margin: 2.2rem 0 .6rem; }
p { max-width: 46rem; } .note { color: #5a5a5a; font-size: .9rem; }
table { border-collapse: collapse; margin: .8rem 0 1rem; font-variant-numeric: tabular-nums; font-size: .92rem; }
th, td { padding: .3rem .8rem; border-bottom: 1px solid #e2e2e2; text-align: right; }
th { background: #f5f7fa; font-weight: 600; } th:first-child, td:first-child { text-align: left; }
.wide { overflow-x: auto; } img { max-width: 100%; height: auto; display: block; margin: .8rem 0; }
.figures { display: flex; flex-wrap: wrap; gap: 1rem; align-items: flex-start; }
.figures img { max-width: min(100%, 29rem); } .figures img:only-child { max-width: min(100%, 46rem); }
.badge { display: inline-block; padding: .1rem .6rem; border-radius: .3rem; color: #fff; font-weight: 600; }
.yes { background: #2f6f3e; } .no { background: #b3261e; }
footer { margin: 3rem 0 1rem; color: #777; font-size: .85rem; }
@media print { body { margin: 0; max-width: none; } }
"""


@dataclass(frozen=True, kw_only=True)
class Table:
    """A table of texts; the first column is left-aligned."""

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    note: str = ""


@dataclass(frozen=True, kw_only=True)
class Section:
    """A heading with paragraphs, a table and pictures, in this order."""

    heading: str
    text: Sequence[str] = ()
    table: Table | None = None
    figures: Sequence[tuple[Any, str]] = ()
    """Pictures with what they show, for those who cannot see them."""
    items: Sequence[str] = ()
    badge: bool | None = field(default=None)
    """Whether a promise holds; None for no badge."""


def page(title: str, sections: Sequence[Section], *, lead: str = "") -> str:
    """The sections as one HTML document."""
    body = "\n".join(_section(section) for section in sections)
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{html.escape(title)}</title>\n<style>{_CSS}</style>\n</head>\n<body>\n"
        f"<h1>{html.escape(title)}</h1>\n"
        + (f"<p>{html.escape(lead)}</p>\n" if lead else "")
        + f"{body}\n<footer>Made with simplexdp {html.escape(__version__)}. This page holds everything it shows; "
        "nothing is loaded from the network.</footer>\n</body>\n</html>\n"
    )


def model_report(model: Release | NaiveBayesModel | BayesianNetworkModel, *, level: float = 0.95) -> str:
    """What a release or model says and promises, as one page."""
    if isinstance(model, Release):
        parts = [_release_section(model, level)]
        title = f"Distribution of {', '.join(model.columns)}" if model.columns else "A published distribution"
    elif isinstance(model, NaiveBayesModel):
        parts = _naive_bayes_sections(model)
        title = f"Naive Bayes for {model.target}"
    else:
        parts = _network_sections(model)
        title = f"A Bayesian network over {len(model.columns)} columns"
    profile = plots.privacy_profile({"": model.guarantee.loss})
    certificate = certificate_section(model.certificate(), [(profile, "The privacy profile: δ for every ε")])
    return page(title, [*parts, certificate])


def certificate_section(certificate: Certificate, figures: Sequence[tuple[Any, str]] = ()) -> Section:
    """What is promised, in words, with ε at several δ."""
    views = certificate.guarantee["epsilon_at_delta"]
    items = [f"Not private: {reason}." for reason in certificate.not_private]
    items += [f"Assumed to be public: {item}." for item in certificate.assumed_public]
    items += [f"Not covered: {item}." for item in certificate.not_covered]
    return Section(
        heading="What is promised",
        text=[certificate.promise],
        badge=certificate.private,
        table=Table(
            columns=["δ", "ε, exact or rounded up"],
            rows=[[delta, "infinite" if value is None else f"{value:.6g}"] for delta, value in views.items()],
        ),
        items=items,
        figures=figures,
    )


def _release_section(release: Release, level: float) -> Section:
    return Section(
        heading="The published distribution",
        text=[f"Drawn by {release.mechanism}; estimated by {release.method}; created {release.created}."],
        table=Table(
            columns=["cell", "probability", f"{level:.0%} from", "to"],
            rows=release_rows(release, level, 40),
            note=_cut(release.values.size, 40),
        ),
        figures=[(plots.distribution(release, level=level), "The published distribution with intervals")],
    )


def _naive_bayes_sections(model: NaiveBayesModel) -> list[Section]:
    gained = information(model)
    labels = model.schema[model.target].labels if model.schema is not None else ()
    classes = [str(label) for label in labels] or [str(i + 1) for i in range(model.class_probabilities.size)]
    top = plots.bars(
        list(gained),
        list(gained.values()),
        title="What each feature says about the class",
        unit="mutual information in the model, nats",
        cells=25,
    )
    prior = plots.bars(classes, model.class_probabilities, title=f"P({model.target})")
    best = list(gained)[:3]
    tables = [
        Section(heading=f"P({name} | {model.target})", table=Table(columns=columns, rows=rows))
        for name in best
        for columns, rows in [conditional_rows(model, name, 30)]
    ]
    return [
        Section(
            heading="The model",
            text=[f"{len(model.features)} features, {len(classes)} classes, estimated by {model.method}."],
            figures=[(prior, "Class probabilities"), (top, "Mutual information of each feature with the class")],
        ),
        *tables,
    ]


def _network_sections(model: BayesianNetworkModel) -> list[Section]:
    gained = information(model)
    rows = [
        [node, ", ".join(parents) or "–", f"{model.tables[node].size:,}", nats(gained[node])]
        for node, parents in model.graph.families
    ]
    pictures = []
    for node in model.graph.nodes[:8]:
        with contextlib.suppress(Infeasible):  # exact inference has its limits
            bars = plots.bars(model.schema[node].labels, model.marginal([node]), title=f"P({node})", cells=20)
            pictures.append((bars, f"P({node})"))
    return [
        Section(
            heading="The network",
            text=[f"{len(model.columns)} columns and {len(model.graph.edges)} edges."],
            table=Table(
                columns=["column", "parents", "cells", "information from the parents, nats"],
                rows=rows,
            ),
        ),
        Section(heading="Marginals", figures=pictures, text=["Computed from the published tables."]),
    ]


def _cut(cells: int, shown: int) -> str:
    return f"The {shown} most probable of {cells:,} cells." if cells > shown else ""


def _section(section: Section) -> str:
    parts = [f"<section>\n<h2>{html.escape(section.heading)}</h2>"]
    if section.badge is not None:
        word = "PRIVATE" if section.badge else "NOT PRIVATE"
        parts.append(f'<p><span class="badge {"yes" if section.badge else "no"}">{word}</span></p>')
    parts += [f"<p>{html.escape(text)}</p>" for text in section.text]
    if section.table is not None:
        parts.append(_table(section.table))
    if section.figures:
        pictures = "".join(_image(figure, text) for figure, text in section.figures)
        parts.append(f'<div class="figures">{pictures}</div>')
    if section.items:
        parts.append("<ul>" + "".join(f"<li>{html.escape(item)}</li>" for item in section.items) + "</ul>")
    parts.append("</section>")
    return "\n".join(parts)


def _table(table: Table) -> str:
    head = "".join(f"<th>{html.escape(column)}</th>" for column in table.columns)
    rows = "".join("<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>\n" for row in table.rows)
    note = f'<p class="note">{html.escape(table.note)}</p>' if table.note else ""
    return f'<div class="wide"><table><thead><tr>{head}</tr></thead>\n<tbody>{rows}</tbody></table></div>{note}'


def _image(figure: Any, text: str) -> str:
    """As an image with its own data: scripts and styles inside a picture cannot reach the page."""
    data = base64.b64encode(plots.save(figure, "svg")).decode()
    return f'<img alt="{html.escape(text, quote=True)}" src="data:image/svg+xml;base64,{data}">'
