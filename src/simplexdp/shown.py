"""How public values show themselves: as a frame, as an Arrow stream and as a piece of a page."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

from .errors import MissingExtra

Columns = Mapping[str, Sequence[Any]]
ROWS = 20
"""Rows of a table in a notebook."""
_BOX = "color-scheme:light dark;color:inherit;font:14px/1.5 system-ui,sans-serif;max-width:100%;overflow-x:auto"
_LINE = "1px solid color-mix(in srgb,currentColor 25%,transparent)"
_CELL = f"white-space:nowrap;padding:.15rem .6rem;border-bottom:{_LINE};text-align:"


def frame(columns: Columns) -> Any:
    """As a pandas frame, or a polars one where there is no pandas."""
    for package in ("pandas", "polars"):
        try:
            found = import_module(package)
        except ImportError:
            continue
        return found.DataFrame(dict(columns))
    raise MissingExtra("pandas", "frames")


def arrow(columns: Columns) -> Any:
    """As a `pyarrow.Table`."""
    import pyarrow as pa

    return pa.table({name: list(values) for name, values in columns.items()})


def card(title: str, facts: Sequence[str], columns: Columns, most: int = ROWS, drawn: str = "") -> str:
    """Title, facts, a picture and a table as HTML that needs nothing else, in the colours of the page it stands on."""
    there = max((len(values) for values in columns.values()), default=0)
    rows = list(zip(*(values[:most] for values in columns.values()), strict=True))
    head = "".join(f'<th scope="col" style="{_CELL}{_side(v)}">{html.escape(n)}</th>' for n, v in columns.items())
    body = "".join(f"<tr>{''.join(map(_cell, range(len(row)), row))}</tr>" for row in rows)
    told = "".join(f"<div>{html.escape(fact)}</div>" for fact in facts)
    table = f'<table style="border-collapse:collapse"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'
    left = f"<div>{len(rows)} of {there:,} rows are shown.</div>" if there > len(rows) else ""
    shown = f"{table}{left}" if rows else ""
    return f'<div style="{_BOX}"><strong>{html.escape(title)}</strong>{told}{drawn}{shown}</div>'


class Shown:
    """What has numbers in columns; a class says which in `_columns`, and in `_facts` what should be said of them."""

    def _columns(self) -> Columns:
        raise NotImplementedError

    def _facts(self) -> Sequence[str]:
        return ()

    def to_frame(self) -> Any:
        """As a pandas frame, or a polars one where there is no pandas."""
        return frame(self._columns())

    def to_arrow(self) -> Any:
        """As a `pyarrow.Table`."""
        return arrow(self._columns())

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """For everything that reads Arrow streams."""
        return self.to_arrow().__arrow_c_stream__(requested_schema)

    def _repr_html_(self) -> str:
        """For notebooks, light and dark."""
        return card(repr(self), self._facts(), self._columns())


def _cell(place: int, value: Any) -> str:
    tag, more = ("th", ' scope="row"') if place == 0 else ("td", "")
    return f'<{tag}{more} style="font-weight:normal;{_CELL}{_side([value])}">{html.escape(_text(value))}</{tag}>'


def _side(values: Sequence[Any]) -> str:
    return "left" if not values or isinstance(values[0], str) else "right"


def _text(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else "–" if value is None else str(value)
