"""Pictures of what was released and what it promises. matplotlib and altair are imported here only, when needed."""

from __future__ import annotations

import io
import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import fields
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .accounting import PrivacyLoss
from .budget import check_fraction, check_number, check_positive, check_whole
from .errors import InvalidArgument, MissingExtra
from .models.release import Release, cell_labels, distribution_picture
from .models.sections import Bars, Curves, Diagram, Groups, HeatMap
from .numerics.printed import printed

COLOURS = ("#0b5fa5", "#c4480c", "#5b7f2b", "#7a4f9e", "#8a8a8a")
FORMATS = ("png", "svg", "pdf")
_STYLE: dict[Any, Any] = {
    "font.size": 9,
    "axes.titlesize": 10,
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "axes.grid": True,
    "grid.color": "#e4e4e4",
    "grid.linewidth": 0.6,
    "legend.frameon": False,
    "svg.hashsalt": "simplexdp",
}
_MANY = 40
"""Bars in one picture, the most probable ones; and labels of groups."""
_WIDE = 24.0
"""Inches of the widest picture."""


def distribution(release: Release, *, level: float = 0.95, title: str | None = None, cells: int = _MANY) -> Any:
    """The published distribution with intervals: bars for one column, a map for two, the largest cells for more.

    Args:
        release: what was published.
        level: of the intervals.
        title: of the picture; the columns by default.
        cells: how many bars at most.
    """
    level, cells = check_fraction("level", level), check_whole("cells", cells)
    return figure(distribution_picture(release, level=level, title=title, cells=cells))


def figure(picture: Any) -> Any:
    """A picture of a section, drawn; a figure is left as it is."""
    if isinstance(picture, HeatMap):
        return _heat_map(picture)
    if isinstance(picture, Groups):
        return comparison(picture.labels, picture.series, title=picture.title)
    if isinstance(picture, Diagram):
        return _diagram(picture)
    if isinstance(picture, Curves):
        return _curves(picture)
    if isinstance(picture, Bars):
        found = {field.name: getattr(picture, field.name) for field in fields(picture) if field.name != "texts"}
        return bars(found.pop("labels"), found.pop("values"), **found)
    return picture


def bars(
    labels: Sequence[str],
    values: ArrayLike,
    *,
    lower: ArrayLike | None = None,
    upper: ArrayLike | None = None,
    title: str = "",
    note: str = "",
    unit: str = "probability",
    cells: int = _MANY,
) -> Any:
    """Horizontal bars with optional whiskers, the largest ones if there are too many."""
    heights, cells = np.asarray(values, dtype=np.float64), check_whole("cells", cells)
    kept = np.arange(heights.size)
    if heights.size > cells:
        kept = np.argsort(-heights)[:cells]
        note = f"the {cells} largest of {heights.size:,} cells; {note}".rstrip("; ")
    figure, axis = _figure(6.4, 0.9 + 0.24 * kept.size)
    place = np.arange(kept.size)
    axis.barh(place, heights[kept], color=COLOURS[0], alpha=0.75, height=0.7)
    if lower is not None and upper is not None:
        low, high = np.asarray(lower, dtype=np.float64)[kept], np.asarray(upper, dtype=np.float64)[kept]
        reach = np.maximum(0.0, np.vstack([heights[kept] - low, high - heights[kept]]))
        axis.errorbar(heights[kept], place, xerr=reach, fmt="none", ecolor="#222222", elinewidth=0.9, capsize=2)
    axis.set_yticks(place, [_short(labels[int(i)]) for i in kept])
    axis.set_ylim(kept.size - 0.4, -0.6)
    axis.set_xlim(left=0.0)
    axis.grid(axis="y", visible=False)
    axis.set_title(title, loc="left", fontsize=10)
    axis.set_xlabel(unit + (f"   ({note})" if note else ""))
    return figure


def comparison(
    labels: Sequence[str],
    series: Mapping[str, ArrayLike],
    *,
    errors: Mapping[str, ArrayLike] | None = None,
    title: str = "",
    unit: str = "",
) -> Any:
    """Groups of vertical bars, one colour for each series, with optional whiskers of ± the given errors."""
    figure, axis = _figure(min(_WIDE, max(4.5, 0.45 * len(labels) * max(1, len(series)) + 1.5)), 3.2)
    place, width = np.arange(len(labels)), 0.8 / max(1, len(series))
    for i, (name, values) in enumerate(series.items()):
        offset = (i - (len(series) - 1) / 2) * width
        spread = (errors or {}).get(name)
        axis.bar(
            place + offset,
            np.asarray(values, dtype=np.float64),
            width * 0.92,
            yerr=spread,
            color=COLOURS[i % len(COLOURS)],
            alpha=0.8,
            label=name,
            error_kw={"elinewidth": 0.9, "capsize": 2},
        )
    step = max(1, math.ceil(len(labels) / _MANY))
    axis.set_xticks(place[::step], [_short(label) for label in labels[::step]])
    axis.grid(axis="x", visible=False)
    axis.set_title(title, loc="left", fontsize=10)
    axis.set_ylabel(unit)
    if len(series) > 1:
        axis.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False)
    return figure


def curves(
    x: ArrayLike,
    series: Mapping[str, ArrayLike],
    *,
    errors: Mapping[str, ArrayLike] | None = None,
    level_lines: Mapping[str, float] | None = None,
    title: str = "",
    x_label: str = "",
    y_label: str = "",
) -> Any:
    """Lines over a logarithmic axis, with optional whiskers and dashed levels."""
    figure, axis = _figure(5.2, 3.4)
    points = np.asarray(x, dtype=np.float64)
    level_lines = {name: check_number("level_lines", value) for name, value in (level_lines or {}).items()}
    for i, (name, values) in enumerate(series.items()):
        spread = (errors or {}).get(name)
        colour = COLOURS[i % len(COLOURS)]
        axis.errorbar(points, np.asarray(values), yerr=spread, fmt="o-", color=colour, label=name, ms=4, capsize=2)
    for name, value in level_lines.items():
        axis.axhline(value, color="#555555", linestyle="--", linewidth=1, label=name)
    axis.set_xscale("log")
    axis.set_xticks(points, [printed(float(value)) for value in points])
    axis.minorticks_off()
    axis.set_title(title, loc="left", fontsize=10)
    axis.set_xlabel(x_label)
    axis.set_ylabel(y_label)
    axis.legend(frameon=False)
    return figure


def privacy_profile(losses: Mapping[str, PrivacyLoss], *, title: str = "δ for every ε", points: int = 25) -> Any:
    """δ(ε) of one or several losses: the whole trade-off that a release promises, each point exact or rounded up.

    The axis ends where δ falls below 1e-12.
    """
    if not losses:
        raise InvalidArgument("losses", "at least one")
    points = check_whole("points", points, at_least=2)
    figure, axis = _figure(5.2, 3.4)
    drawn = False
    for i, (name, loss) in enumerate(losses.items()):
        top = loss.epsilon(1e-12)
        if not math.isfinite(top):
            continue
        top = max(top, 1e-6)
        # A pure guarantee ends in a cliff: δ is 0 from some ε on, which a logarithmic axis shows as its bottom.
        near = top * (1 - np.geomspace(1 / points, 1e-6, 6))
        epsilons = np.sort(np.concatenate([np.linspace(0.0, top, points), near, [top * (1 + 1e-9)]]))
        deltas = np.maximum([loss.delta(float(epsilon)) for epsilon in epsilons], 1e-13)
        axis.plot(epsilons, deltas, color=COLOURS[i % len(COLOURS)], label=name)
        drawn = True
    axis.set_title(title, loc="left", fontsize=10)
    if not drawn:
        axis.text(0.5, 0.5, "no guarantee: exact counts were published", ha="center", transform=axis.transAxes)
        return figure
    axis.set_yscale("log")
    axis.set_ylim(1e-12, 1.0)
    axis.set_xlim(left=0.0)
    axis.set_xlabel("ε")
    axis.set_ylabel("δ")
    if len(losses) > 1:
        axis.legend(frameon=False)
    return figure


def image_rows(rows: Mapping[str, Sequence[NDArray[Any]]], *, title: str = "", top: float = 1.0) -> Any:
    """Rows of small grey pictures, one row for each label."""
    top = check_positive("top", top)
    columns = max(len(pictures) for pictures in rows.values())
    figure, _ = _figure(0.62 * columns + 1.6, 0.66 * len(rows) + 0.4, empty=True)
    axes = figure.subplots(len(rows), columns, squeeze=False)
    for line, (label, pictures) in zip(axes, rows.items(), strict=True):
        for axis, picture in itertools.zip_longest(line, pictures):
            axis.set_axis_off()
            if picture is not None:
                axis.imshow(picture, cmap="Greys", vmin=0.0, vmax=top, interpolation="nearest")
        line[0].text(-0.15, 0.5, label, ha="right", va="center", transform=line[0].transAxes)
    if title:
        figure.suptitle(title, x=0.01, ha="left", fontsize=10)
    return figure


def save(figure: Any, form: str) -> bytes:
    """The picture as the bytes of a "png", "svg" or "pdf" file."""
    if form not in FORMATS:
        raise InvalidArgument("format", "one of " + ", ".join(FORMATS), got=form)
    import matplotlib as mpl

    buffer = io.BytesIO()
    about = {"Date": None} if form == "svg" else {}
    with mpl.rc_context(_STYLE):
        figure.savefig(buffer, format=form, dpi=160, metadata=about)
    return buffer.getvalue()


def chart(release: Release, *, level: float = 0.95) -> Any:
    """An altair chart of the distribution with intervals, for notebooks."""
    try:
        import altair
    except ImportError:
        raise MissingExtra("altair", "plots") from None
    level = check_fraction("level", level)
    lower, upper = release.intervals(level)
    labels = cell_labels(release)
    numbers = zip(labels, release.probabilities.ravel(), lower.ravel(), upper.ravel(), strict=True)
    rows = [{"cell": c, "probability": float(p), "lower": float(a), "upper": float(b)} for c, p, a, b in numbers]
    data: Any = altair.Data
    base = altair.Chart(data(values=rows)).encode(y=altair.Y("cell:N", sort=labels, title=None))
    bars_ = base.mark_bar(color=COLOURS[0], opacity=0.75).encode(
        x="probability:Q", tooltip=["cell:N", "probability:Q", "lower:Q", "upper:Q"]
    )
    return bars_ + base.mark_rule(color="#222222").encode(x="lower:Q", x2="upper:Q")


def _heat_map(picture: HeatMap) -> Any:
    values, rows, columns = picture.values, picture.rows, picture.columns
    figure, axis = _figure(min(11.0, 2.6 + 0.42 * values.shape[1]), min(11.0, 1.5 + max(0.28 * values.shape[0], 1.0)))
    image = axis.imshow(values, cmap="Blues", vmin=0.0, aspect="auto")
    axis.grid(visible=False)
    for ticks, labels, size in ((axis.set_yticks, rows, 0), (axis.set_xticks, columns, 1)):
        step = max(1, math.ceil(len(labels) / 30))
        shown = range(0, len(labels), step)
        turn = {"rotation": 45, "ha": "right"} if size == 1 and max(map(len, labels)) > 3 else {}
        ticks(list(shown), [_short(labels[i]) for i in shown], **turn)
    axis.set_ylabel(picture.axes[0])
    axis.set_xlabel(picture.axes[1])
    axis.set_title(picture.title, loc="left", fontsize=10)
    figure.colorbar(image, ax=axis, label="published probability", shrink=0.9)
    return figure


def _diagram(picture: Diagram) -> Any:
    """The same layout as in reports."""
    from .pictures.network import layout

    found = layout(picture.nodes, picture.edges)
    places, width, height = found.places, found.width, found.height
    figure, axis = _figure(max(3.0, width / 72), max(1.5, height / 72))
    axis.set_axis_off()
    axis.set_xlim(-5, width + 5)
    axis.set_ylim(height + 5, -5)
    axis.set_title(picture.title, loc="left", fontsize=10)
    arrow = {"arrowstyle": "-|>", "color": "#666666", "linewidth": 0.8}
    for parent, child in picture.edges:
        (x, y, w, h), (to_x, to_y, to_w, _) = places[parent], places[child]
        start = (x + w / 2, y + h)
        for bend, top, end in found.bends[parent, child]:
            axis.plot([start[0], bend, bend], [start[1], top, end], color="#666666", linewidth=0.8)
            start = (bend, end)
        axis.annotate("", xy=(to_x + to_w / 2, to_y), xytext=start, arrowprops=arrow)
    box = {"boxstyle": "round", "facecolor": "#dbe8f5", "edgecolor": "#555555"}
    for node, (x, y, w, h) in places.items():
        axis.text(x + w / 2, y + h / 2, _short(node), ha="center", va="center", fontsize=8, bbox=box)
    return figure


def _curves(picture: Curves) -> Any:
    figure, axis = _figure(5.2, 3.4)
    for i, (name, values) in enumerate(picture.series.items()):
        spread = picture.errors.get(name)
        axis.errorbar(picture.x, values, yerr=spread, color=COLOURS[i % len(COLOURS)], label=name, capsize=2)
    for name, value in picture.levels.items():
        axis.axhline(value, color="#555555", linestyle="--", linewidth=1, label=name)
    for set_scale, logarithmic in zip((axis.set_xscale, axis.set_yscale), picture.logarithmic, strict=True):
        if logarithmic:
            set_scale("log")
    axis.set_title(picture.title, loc="left", fontsize=10)
    axis.set_xlabel(picture.x_label)
    axis.set_ylabel(picture.y_label)
    if len(picture.series) + len(picture.levels) > 1:
        axis.legend(frameon=False)
    return figure


def _figure(width: float, height: float, *, empty: bool = False) -> Any:
    try:
        import matplotlib as mpl
    except ImportError:
        raise MissingExtra("matplotlib", "plots") from None
    Figure = _notebook_figure()
    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=(width, height), layout="constrained")
        return figure, None if empty else figure.subplots()


@cache
def _notebook_figure() -> Any:
    """Figures of matplotlib that show themselves in a notebook."""
    from matplotlib.figure import Figure

    class Picture(Figure):
        def _repr_svg_(self) -> str:
            return save(self, "svg").decode()

    return Picture


def _short(text: str, most: int = 34) -> str:
    plain = text.replace("$", r"\$")  # matplotlib would take it for a formula
    return plain if len(plain) <= most else plain[: most - 1] + "…"
