"""One self-contained HTML page: text, tables and pictures inline, nothing from the network, light and dark."""

from __future__ import annotations

import base64
import html
import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, get_args

import numpy as np

from . import plots
from ._version import __version__
from .accounting import PrivacyLoss
from .budget import check_fraction
from .models.agreement import agreement_section
from .models.certificate import Certificate, steps_of
from .models.model import Model
from .models.plain import in_words, key_facts
from .models.sections import Bars, Curves, Picture, Section, Table
from .pictures import svg

__all__ = ["Section", "Table", "budget_split", "certificate_section", "model_report", "page", "profile"]

_CSS = """
:root { color-scheme: light dark; --ink: #1c1c1c; --page: #fff; --soft: #595959; --line: #d9dde3; --shade: #f3f5f8;
  --yes: #256a36; --no: #b3261e; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e6e6; --page: #16181c; --soft: #a9adb5; --line: #3a3f47;
  --shade: #22262c; --yes: #2f7d43; --no: #c43a31; } }
* { box-sizing: border-box; }
body { font: 16px/1.55 system-ui, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif; color: var(--ink);
  background: var(--page); max-width: 64rem; margin: 2.2rem auto; padding: 0 1.2rem; overflow-wrap: break-word; }
h1 { font-size: 1.7rem; line-height: 1.25; margin: 0 0 .8rem; }
h2 { font-size: 1.2rem; line-height: 1.3; margin: 2.4rem 0 .6rem; }
p, li { max-width: 46rem; } .note { color: var(--soft); font-size: .9rem; margin-top: .2rem; }
a { color: inherit; } :focus-visible { outline: 3px solid #3b82c4; outline-offset: 2px; }
.verdict { border: 1px solid var(--line); border-left: .4rem solid var(--yes); border-radius: .4rem;
  background: var(--shade); padding: .9rem 1.1rem; }
.verdict.broken { border-left-color: var(--no); } .verdict p { margin: .4rem 0; }
.badge { display: inline-block; padding: .1rem .6rem; border-radius: .3rem; color: #fff; font-weight: 600; }
.yes { background: var(--yes); } .no { background: var(--no); }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .25rem 1.2rem; margin: .9rem 0 0; }
dt { color: var(--soft); } dd { margin: 0; min-width: 0; }
summary { cursor: pointer; font-weight: 600; margin-top: 1.4rem; }
nav ul { columns: 14rem; padding-left: 1.2rem; font-size: .92rem; }
.wide { overflow-x: auto; margin: .8rem 0 1rem; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: .92rem; }
caption { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); white-space: nowrap; }
.wide { position: relative; }
th, td { padding: .3rem .8rem; border-bottom: 1px solid var(--line); text-align: right; vertical-align: top; }
thead th { background: var(--shade); } th { font-weight: 600; } tbody th { font-weight: 400; min-width: 5rem; }
td { white-space: nowrap; }
th:first-child, td:first-child { text-align: left; }
.words td, .words th { text-align: left; white-space: normal; min-width: 6.5rem; overflow-wrap: break-word; }
.words td:last-child { min-width: 13rem; overflow-wrap: anywhere; } .words th:first-child { min-width: 3rem; }
.figures { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 24rem), 1fr)); gap: 1.4rem 2rem;
  align-items: start; margin: .8rem 0 1rem; }
figure { margin: 0; min-width: 0; overflow-x: auto; } img { max-width: 100%; height: auto; display: block; }
figcaption { color: var(--soft); font-size: .88rem; margin-top: .3rem; }
footer { margin: 3rem 0 1rem; color: var(--soft); font-size: .85rem; }
@media (prefers-color-scheme: dark) { img { background: #fff; border-radius: .3rem; } }
@media (max-width: 32rem) { body { margin: 1rem auto; padding: 0 .7rem; } th, td { padding: .25rem .35rem; }
  table { font-size: .86rem; } h1 { font-size: 1.4rem; } dl { grid-template-columns: 1fr; gap: 0; }
  dd { margin-bottom: .45rem; } .verdict { padding: .7rem .8rem; } ul { padding-left: 1.2rem; } }
@media print { body { margin: 0; max-width: none; } section { break-inside: avoid; } }
"""
_CONTENTS, _OPENED = 8, 24
"""Sections from which on a page begins with a list of them, and up to which that list is open."""
_PARTS = 25
"""Parts of a budget that are drawn."""
_POINTS = 25
"""Points of a privacy profile."""


def page(
    title: str, sections: Sequence[Section], *, lead: str = "", facts: Sequence[tuple[str, str]] = (), words: str = ""
) -> str:
    """The sections as one HTML document.

    Args:
        title: the heading of the page.
        sections: what it holds.
        lead: the first paragraph; a verdict where it starts with PRIVATE or NOT PRIVATE.
        facts: names and texts that stand first.
        words: the promise for people, below the lead.
    """
    body = "\n".join(_section(section, i) for i, section in enumerate(sections))
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{html.escape(title)}</title>\n<style>{_CSS}</style>\n</head>\n<body>\n<header>\n"
        f"<h1>{html.escape(title)}</h1>\n{_top(lead, facts, words)}</header>\n"
        f"{_contents(sections)}<main>\n{body}\n</main>\n"
        f"<footer>Made with simplexdp {html.escape(__version__)}. This page holds everything it shows; "
        "nothing is loaded from the network.</footer>\n</body>\n</html>\n"
    )


def model_report(model: Model, *, level: float = 0.95, dataset: str | None = None, entry: str | None = None) -> str:
    """What a release or model says and promises, as one page: the verdict first, then pictures, then the details.

    Args:
        model: what was published.
        level: of the intervals.
        dataset: what the data set is called, where that is known.
        entry: the entry of the ledger that paid for it, where that is known.
    """
    level = check_fraction("level", level)
    certificate, guarantee = model.certificate(), model.guarantee
    parts = [*model.describe(level=level)]
    parts += [section for name in model.details for section in model.describe(level=level, column=name)]
    agreement = None if model.says_agreement else agreement_section(model, level=level)
    parts += [] if agreement is None else [agreement]
    split = budget_split(model)
    pictures = [(profile({"": guarantee.loss}), "The privacy profile: δ for every ε"), (split, "The budget by step")]
    drawn = [(picture, text) for picture, text in pictures if picture is not None]
    return page(
        model.title,
        [_protection(certificate), *parts, _promise(certificate, drawn)],
        lead=". ".join(model._facts()) + ".",
        facts=key_facts(model, dataset=dataset, entry=entry),
        words=in_words(guarantee) if model.private else "",
    )


def certificate_section(certificate: Certificate, figures: Sequence[tuple[Any, str]] = ()) -> Section:
    """What is promised, in words, with ε at several δ."""
    return replace(_promise(certificate, figures), items=[*_protection(certificate).items, *_steps(certificate)])


def _promise(certificate: Certificate, figures: Sequence[tuple[Any, str]]) -> Section:
    """The guarantee in full, without what the first section of a report says."""
    return Section(
        heading="What is promised",
        text=[certificate.promise],
        badge=certificate.private,
        table=Table(
            columns=["δ", "ε, exact or rounded up"],
            rows=[[delta, epsilon] for delta, epsilon in certificate.epsilons.items()],
        ),
        items=_steps(certificate),
        figures=figures,
    )


def profile(losses: dict[str, PrivacyLoss], *, title: str = "δ for every ε") -> Curves | None:
    """δ(ε) of one or several losses down to 1e-12, each point exact or rounded up; None where no ε holds."""
    ends = {name: loss.epsilon(1e-12) for name, loss in losses.items()}
    top = max((end for end in ends.values() if math.isfinite(end)), default=0.0)
    if not top:
        return None
    # A pure guarantee ends in a cliff: points near it show where.
    near = [top * (1 - 0.04 * part) for part in (0.5, 0.2, 0.05)]
    epsilons = sorted([*np.linspace(0.0, top, _POINTS).tolist(), *near])
    series = {
        name: [max(loss.delta(each), 1e-12) for each in epsilons]
        for name, loss in losses.items()
        if math.isfinite(ends[name])
    }
    return Curves(x=epsilons, series=series, logarithmic=(False, True), title=title, x_label="ε", y_label="δ")


def budget_split(model: Model) -> Bars | None:
    """The share of the whole loss that each table and each later step takes; None for a single step or without bound.

    As in `steps_of`: the part of each in the mean of the privacy loss, which adds up exactly.
    """
    guarantee = model.guarantee
    known = {(step.what, step.mechanism): step for step in steps_of(guarantee)}
    if any(step.share is None for step in known.values()) or sum(step.times for step in known.values()) < 2:
        return None
    tables = {step.mechanism: step.share / step.times for step in known.values() if step.share and step.what == "table"}
    labels, shares = [], []
    for release in model.releases:
        share = tables.get(str(release.mechanism))
        if share is not None:
            labels.append(" × ".join(release.columns) or "table")
            shares.append(100 * share)
    for step in known.values():
        if step.what != "table":
            labels.append(f"{step.what}, {step.times} times" if step.times > 1 else step.what)
            shares.append(100 * (step.share or 0.0))
    return Bars(labels=labels, values=shares, title="Where the budget went", unit="% of the budget", cells=_PARTS)


def _protection(certificate: Certificate) -> Section:
    """What a reader wants to know first: who is protected how far, and what is not."""
    items = [f"Not private: {reason}." for reason in certificate.not_private]
    items += [f"Risk: {item}." for item in certificate.risk if certificate.private]
    items += [f"Declared: {item}." for item in certificate.declarations]
    items += [f"Assumed to be public: {item}." for item in certificate.assumed_public]
    items += [f"Not covered: {item}." for item in certificate.not_covered]
    return Section(heading="What is protected, and what is not", items=items)


def _steps(certificate: Certificate) -> list[str]:
    return [f"Spent on: {step}." for step in certificate.steps] + [f"Left out: {x}." for x in certificate.left_out]


# -- HTML --------------------------------------------------------------------------------------------------------------


def _top(lead: str, facts: Sequence[tuple[str, str]], words: str) -> str:
    if not lead:
        return ""
    told = "".join(f"<dt>{html.escape(name)}</dt><dd>{html.escape(text)}</dd>" for name, text in facts)
    listed = f"<dl>{told}</dl>\n" if told else ""
    verdict = next((word for word in ("NOT PRIVATE", "PRIVATE") if lead.startswith(word)), None)
    if verdict is None:
        return f"<p>{html.escape(lead)}</p>\n{listed}"
    kind = "yes" if verdict == "PRIVATE" else "no"
    said = f'<span class="badge {kind}">{verdict}</span> {html.escape(lead.removeprefix(verdict).lstrip(":. "))}'
    more = f"<p>{html.escape(words)}</p>" if words else ""
    return f'<div class="verdict{"" if kind == "yes" else " broken"}"><p>{said}</p>{more}{listed}</div>\n'


def _contents(sections: Sequence[Section]) -> str:
    if len(sections) < _CONTENTS:
        return ""
    links = "".join(f'<li><a href="#s{i}">{html.escape(each.heading)}</a></li>' for i, each in enumerate(sections))
    opened = " open" if len(sections) <= _OPENED else ""
    head = f"<summary>Contents: {len(sections)} sections</summary>"
    return f'<nav aria-label="Contents"><details{opened}>{head}<ul>{links}</ul></details></nav>\n'


def _section(section: Section, number: int) -> str:
    parts = [f'<section id="s{number}">\n<h2>{html.escape(section.heading)}</h2>']
    if section.badge is not None:
        word = "PRIVATE" if section.badge else "NOT PRIVATE"
        parts.append(f'<p><span class="badge {"yes" if section.badge else "no"}">{word}</span></p>')
    parts += [f"<p>{html.escape(text)}</p>" for text in section.text]
    # Pictures come first: the table beside them is for those who want the numbers.
    if section.figures:
        pictures = "".join(_figure(figure, text, section.heading) for figure, text in section.figures)
        parts.append(f'<div class="figures">{pictures}</div>')
    if section.table is not None:
        parts.append(_table(section.table, section.heading))
    if section.items:
        parts.append("<ul>" + "".join(f"<li>{html.escape(item)}</li>" for item in section.items) + "</ul>")
    parts.append("</section>")
    return "\n".join(parts)


def _table(table: Table, caption: str) -> str:
    head = "".join(f'<th scope="col">{html.escape(column)}</th>' for column in table.columns)
    rows = "".join(f"<tr>{_row(row)}</tr>\n" for row in table.rows)
    note = f'<p class="note">{html.escape(table.note)}</p>' if table.note else ""
    name = html.escape(caption, quote=True)
    texts = ' class="words"' if table.texts else ""
    return (
        f'<div class="wide" tabindex="0" role="region" aria-label="Table: {name}">'
        f"<table{texts}><caption>{html.escape(caption)}</caption><thead><tr>{head}</tr></thead>\n"
        f"<tbody>{rows}</tbody></table></div>{note}"
    )


def _row(row: Sequence[str]) -> str:
    first, *others = row
    return f'<th scope="row">{html.escape(first)}</th>' + "".join(f"<td>{html.escape(cell)}</td>" for cell in others)


def _figure(figure: Any, text: str, heading: str) -> str:
    """A picture as SVG in the page; a figure of matplotlib as an image with its own data."""
    if isinstance(figure, get_args(Picture)):
        drawn = svg(replace(figure, title="") if figure.title == heading else figure)
    else:
        data = base64.b64encode(plots.save(plots.figure(figure), "svg")).decode()
        drawn = f'<img alt="{html.escape(text, quote=True)}" src="data:image/svg+xml;base64,{data}">'
    name = html.escape(text, quote=True)
    return f'<figure tabindex="0" aria-label="{name}">{drawn}<figcaption>{html.escape(text)}</figcaption></figure>'
