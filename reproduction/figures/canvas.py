"""The only module that imports matplotlib: a canvas without a window, and styles by method."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from simplexdp.errors import MissingExtra

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing

STYLES = ("-", "--", "-.", ":")
MARKERS = "os^vDPX*<>ph8d"
NOT_PRIVATE = "as published, not private"


def canvas(rows: int, columns: int, *, width: float = 4.0, height: float = 3.0) -> tuple[Drawing, list[Any]]:
    """An empty drawing of panels."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingExtra("matplotlib", "plots") from None
    drawing = Figure(figsize=(width * columns, height * rows), layout="constrained")
    FigureCanvasAgg(drawing)
    panels = drawing.subplots(rows, columns, squeeze=False)
    return drawing, list(panels.ravel())


def style(index: int) -> dict[str, Any]:
    """A line that can be told from its neighbours, also in grey."""
    return {
        "linestyle": STYLES[(index // 10) % len(STYLES)],
        "marker": MARKERS[index % len(MARKERS)],
        "markersize": 3.5,
        "linewidth": 1.2,
        "color": f"C{index % 10}",
    }


def stamp(drawing: Drawing, settings: Sequence[str]) -> None:
    """Say across the picture that what it shows is not private, where that is so."""
    if NOT_PRIVATE in settings:
        drawing.text(
            0.5, 0.5, "contains NOT PRIVATE results", fontsize=26, color="red", alpha=0.12, rotation=20, ha="center"
        )
