"""Pictures as inline SVG without any package: for reports, notebooks and the documentation, light and dark."""

from __future__ import annotations

from ..models.sections import Bars, Curves, Diagram, Groups, HeatMap, Picture
from .charts import draw_bars, draw_curves, draw_groups, draw_map
from .network import draw_diagram
from .words import words

__all__ = ["svg", "words"]


def svg(picture: Picture) -> str:
    """The picture as an `<svg>` that stands in a page and takes its colours, with its numbers in words.

    >>> from simplexdp.models.sections import Bars
    >>> svg(Bars(labels=["a", "b"], values=[0.25, 0.75], title="shares")).count("<rect")
    2
    """
    if isinstance(picture, Bars):
        return draw_bars(picture)
    if isinstance(picture, HeatMap):
        return draw_map(picture)
    if isinstance(picture, Groups):
        return draw_groups(picture)
    if isinstance(picture, Diagram):
        return draw_diagram(picture)
    assert isinstance(picture, Curves)
    return draw_curves(picture)
