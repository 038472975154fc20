"""One self-contained HTML page: text, tables and pictures inline, nothing from the network."""

from __future__ import annotations

import base64
import html
from collections.abc import Sequence
from typing import Any

from . import plots
from ._version import __version__
from .budget import check_fraction
from .models.certificate import Certificate
from .models.model import Model
from .models.sections import Section, Table

__all__ = ["Section", "Table", "certificate_section", "model_report", "page"]

_CSS = """
:root { color-scheme: light dark; }
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
@media (prefers-color-scheme: dark) { body { color: #e6e6e6; background: #16181c; } .note, footer { color: #a8a8a8; }
  th { background: #24282f; } th, td { border-color: #3a3f47; } img { background: #fff; border-radius: .3rem; } }
@media (max-width: 30rem) { body { margin: 1rem auto; padding: 0 .7rem; } th, td { padding: .25rem .4rem; } }
@media print { body { margin: 0; max-width: none; } }
"""


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


def model_report(model: Model, *, level: float = 0.95) -> str:
    """What a release or model says and promises, as one page."""
    level = check_fraction("level", level)
    parts = [*model.describe(level=level)]
    parts += [section for name in model.details for section in model.describe(level=level, column=name)]
    profile = plots.privacy_profile({"": model.guarantee.loss})
    certificate = certificate_section(model.certificate(), [(profile, "The privacy profile: δ for every ε")])
    return page(model.title, [*parts, certificate], lead=". ".join(model._facts()) + ".")


def certificate_section(certificate: Certificate, figures: Sequence[tuple[Any, str]] = ()) -> Section:
    """What is promised, in words, with ε at several δ."""
    items = [f"Not private: {reason}." for reason in certificate.not_private]
    items += [f"Risk: {item}." for item in certificate.risk]
    items += [f"Spent on: {step}." for step in certificate.steps]
    items += [f"Declared: {item}." for item in certificate.declarations]
    items += [f"Assumed to be public: {item}." for item in certificate.assumed_public]
    items += [f"Not covered: {item}." for item in certificate.not_covered]
    return Section(
        heading="What is promised",
        text=[certificate.promise],
        badge=certificate.private,
        table=Table(
            columns=["δ", "ε, exact or rounded up"],
            rows=[[delta, epsilon] for delta, epsilon in certificate.epsilons.items()],
        ),
        items=items,
        figures=figures,
    )


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
    data = base64.b64encode(plots.save(plots.figure(figure), "svg")).decode()
    return f'<img alt="{html.escape(text, quote=True)}" src="data:image/svg+xml;base64,{data}">'
