"""Bars with intervals, heat maps, groups of distributions and curves as SVG."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ..models.sections import Bars, Curves, Groups, HeatMap
from .canvas import LINE, SIZE, TONES, WIDTH, Canvas, at, short, ticks, width_of, wrapped
from .words import words

_LABELS = 0.36
"""Share of the width that labels beside bars and rows may take; longer ones are wrapped, or stand above their bar."""
_CELL, _ROW = 17.0, 22.0
"""The least width of a column of a map, and the height of its rows."""
_MAP = 60
"""Rows and columns of a map that are drawn."""
_DARK = 0.72
"""Opacity of the largest cell of a map: text stays readable on it on a light and on a dark page."""
_GROUPS = 4
"""Series that are drawn as groups of bars; more of them are a map."""


def draw_bars(picture: Bars) -> str:
    """Horizontal bars with their numbers, and intervals as lines over them; the largest ones where there are many."""
    values = np.asarray(picture.values, dtype=np.float64)
    kept = list(range(values.size))
    if values.size > picture.cells:
        kept = [int(i) for i in np.argsort(-values, kind="stable")[: picture.cells]]
    lower = upper = None
    if picture.lower is not None and picture.upper is not None:
        lower, upper = (np.asarray(bound, dtype=np.float64) for bound in (picture.lower, picture.upper))
    ends = values if upper is None else np.maximum(values, upper)
    top = max((float(ends[i]) for i in kept if math.isfinite(ends[i])), default=0.0) or 1.0
    labels = [picture.labels[i] for i in kept]
    numbers = [_fixed(float(values[i]), top) if picture.texts is None else picture.texts[i] for i in kept]
    aside, above = _beside(labels)
    right = max(map(width_of, numbers), default=0.0) + 6
    room = WIDTH - aside - right - 4
    canvas, y = Canvas(), 4.0
    y = _headline(canvas, y, picture.title)
    start = y
    for i, label, number in zip(kept, labels, numbers, strict=True):
        lines = wrapped(label, WIDTH if above else aside - 6)
        height = 18.0 if above else max(18.0, LINE * len(lines))
        if above:
            canvas.lines(0, y + SIZE, lines)
            y += LINE * len(lines) + 2
        else:
            canvas.lines(aside - 6, y + height / 2 + 4 - LINE * (len(lines) - 1) / 2, lines, side="end")
        middle = y + height / 2
        canvas.box(aside, middle - 6.5, room * max(float(values[i]), 0.0) / top, 13, opacity=0.85)
        if lower is not None and upper is not None:
            low, high = (aside + room * min(max(float(each[i]), 0.0), top) / top for each in (lower, upper))
            canvas.path(f"M{at(low, middle)}H{high:.2f}M{at(low, middle - 4)}v8M{at(high, middle - 4)}v8", width=1.4)
        canvas.text(WIDTH - 2, middle + 4, number, side="end")
        y += height + 4
    y = _scale(canvas, aside, room, start, y, top)
    notes = [picture.unit] if picture.unit else []
    if len(kept) < values.size:
        notes.append(f"the {len(kept)} largest of {values.size:,} are shown")
    y = _notes(canvas, y, [*notes, picture.note])
    return canvas.drawn(y, words(picture))


def draw_map(picture: HeatMap, said: str | None = None) -> str:
    """A table as a map: the darker a cell the larger it is, with its number where there is room."""
    values = np.asarray(picture.values, dtype=np.float64)[:_MAP, :_MAP]
    rows, columns = list(picture.rows)[:_MAP], list(picture.columns)[:_MAP]
    top = float(values.max(initial=0.0)) or 1.0
    aside = min(max([width_of(label) for label in rows] + [30.0]) + 8, WIDTH * _LABELS)
    # Shares in per cent: that is short, so that it fits a cell.
    share = top <= 1 and picture.unit == "published probability"
    scale, unit = (100.0, f"{picture.unit}, %") if share else (1.0, picture.unit)
    numbers = [[_rounded(scale * value, scale * top) for value in row] for row in values.tolist()]
    wide = max((width_of(text, 10.5) for row in numbers for text in row), default=0.0) + 5
    cell = max((WIDTH - aside - 2) / max(1, len(columns)), _CELL)
    canvas = Canvas(aside + cell * len(columns) + 2)
    first, second = picture.axes
    y = _headline(canvas, 4.0, picture.title)
    y = _axis_names(canvas, y, first, second)
    flat = all(width_of(label) <= cell - 4 for label in columns)
    heads = [wrapped(label, max(cell - 4, 30) if flat else 130.0) for label in columns]
    across = flat or all(len(wrapped(label, cell - 4)) <= 3 and _whole(label, cell - 4) for label in columns)
    if across:
        heads = [wrapped(label, cell - 4) for label in columns]
        deep = LINE * max((len(lines) for lines in heads), default=1) + 3
    else:
        deep = max((width_of(line) for lines in heads for line in lines), default=0.0) + 6
        cell_lines = max((len(lines) for lines in heads), default=1)
        if cell_lines * LINE > cell:  # two lines side by side need their room
            heads = [[label] for label in columns]
            deep = max(width_of(label) for label in columns) + 6
    for j, lines in enumerate(heads):
        middle = aside + cell * (j + 0.5)
        if across:
            canvas.lines(middle, y + deep - 5 - LINE * (len(lines) - 1), lines, side="middle")
        else:
            for k, line in enumerate(lines):
                canvas.text(middle + 4 + LINE * (k - (len(lines) - 1) / 2), y + deep - 4, line, turned=True)
    y += deep
    for label, row, texts in zip(rows, values, numbers, strict=True):
        lines = wrapped(label, aside - 8)
        height = max(_ROW, LINE * len(lines) + 3)
        canvas.lines(aside - 6, y + height / 2 + 4 - LINE * (len(lines) - 1) / 2, lines, side="end")
        for j, (value, text) in enumerate(zip(row.tolist(), texts, strict=True)):
            canvas.box(aside + cell * j, y, cell - 1, height - 1, opacity=max(0.04, _DARK * max(value, 0.0) / top))
            if wide <= cell:
                canvas.text(aside + cell * (j + 0.5), y + height / 2 + 4, text, side="middle", size=10.5)
        y += height
    y = _legend(canvas, y + 6, scale * top)
    cut = [
        f"the first {_MAP} of {there:,} {what} are shown"
        for there, what in ((len(picture.rows), "rows"), (len(picture.columns), "columns"))
        if there > _MAP
    ]
    y = _notes(canvas, y, [unit, *cut])
    return canvas.drawn(y, said or words(picture))


def draw_groups(picture: Groups) -> str:
    """Several distributions over the same cells: groups of bars for a few, a map for more."""
    names = list(picture.series)
    values = np.array([np.asarray(each, dtype=np.float64) for each in picture.series.values()])
    if len(names) > _GROUPS or len(names) * len(picture.labels) > 4 * _GROUPS:
        drawn = HeatMap(values=values, axes=picture.axes, rows=names, columns=picture.labels, title=picture.title)
        return draw_map(drawn, words(picture))
    top = float(values.max(initial=0.0)) or 1.0
    aside, above = _beside(picture.labels)
    right = max(width_of(_fixed(float(v), top)) for v in values.ravel()) + 6
    room = WIDTH - aside - right - 4
    canvas = Canvas()
    y = _headline(canvas, 4.0, picture.title)
    if len(names) > 1:
        y = _key(canvas, _notes(canvas, y - 4, [f"{picture.axes[0]}:"] if picture.axes[0] else []) - 4, names)
    start = y
    for j, label in enumerate(picture.labels):
        lines = wrapped(label, WIDTH if above else aside - 6)
        if above:
            canvas.lines(0, y + SIZE, lines)
            y += LINE * len(lines) + 2
        height = max(15.0 * len(names), 0.0 if above else LINE * len(lines))
        if not above:
            canvas.lines(aside - 6, y + height / 2 + 4 - LINE * (len(lines) - 1) / 2, lines, side="end")
        for i in range(len(names)):
            value = float(values[i, j])
            canvas.box(aside, y + 15 * i + 1.5, room * value / top, 12, tone=TONES[i % len(TONES)], opacity=0.85)
            canvas.text(WIDTH - 2, y + 15 * i + 12, _fixed(value, top), side="end", size=11)
        y += height + 7
    y = _scale(canvas, aside, room, start, y, top)
    return canvas.drawn(y + 2, words(picture))


def draw_curves(picture: Curves) -> str:
    """Lines over a common axis, with spreads and levels; either axis may be logarithmic."""
    canvas, x = Canvas(), np.asarray(picture.x, dtype=np.float64)
    series = {name: np.asarray(values, dtype=np.float64) for name, values in picture.series.items()}
    y = _headline(canvas, 4.0, picture.title)
    names = [*series, *picture.levels]
    if len(names) > 1:
        y = _key(canvas, y, names, dashed=len(picture.levels))
    every = [*np.concatenate(list(series.values())).tolist(), *picture.levels.values()]
    y_marks, y_place = _axis(every, picture.logarithmic[1])
    x_marks, x_place = _axis(x.tolist(), picture.logarithmic[0], exact=picture.marks)
    aside = max(width_of(_mark(m)) for m in y_marks) + 8
    left, right, low, high = aside, WIDTH - 8, y + 200, y + 22
    canvas.text(0, y + SIZE, picture.y_label, faint=True)
    for mark in y_marks:
        place = low + (high - low) * y_place(mark)
        canvas.path(f"M{at(left, place)}H{right:.2f}", opacity=0.15)
        canvas.text(left - 5, place + 4, _mark(mark), side="end")
    free = -math.inf
    for mark in x_marks:
        place = left + (right - left) * x_place(mark)
        canvas.path(f"M{at(place, low)}v4", opacity=0.5)
        half = width_of(_mark(mark)) / 2
        if place - half > free:
            canvas.text(min(place, WIDTH - half), low + 17, _mark(mark), side="middle")
            free = place + half + 4
    canvas.path(f"M{at(left, low)}H{right:.2f}", opacity=0.5)
    for i, (name, values) in enumerate(series.items()):
        tone = TONES[i % len(TONES)]
        points = [
            (left + (right - left) * x_place(a), low + (high - low) * y_place(b))
            for a, b in zip(x, values, strict=True)
        ]
        canvas.path("M" + "L".join(at(*point) for point in points), tone=tone, width=2)
        for point, value, spread in zip(points, values, picture.errors.get(name, ()), strict=False):
            ends = [low + (high - low) * y_place(value + side * spread) for side in (-1, 1)]
            canvas.path(f"M{at(point[0], ends[0])}V{ends[1]:.2f}", width=1.2)
            canvas.dot(*point, tone=tone)
    for i, value in enumerate(picture.levels.values()):
        place = low + (high - low) * y_place(value)
        tone = TONES[(len(series) + i) % len(TONES)]
        canvas.path(f"M{at(left, place)}H{right:.2f}", tone=tone, width=1.6, dashed=True)
    canvas.text((left + right) / 2, low + 34, picture.x_label, side="middle", faint=True)
    y = _notes(canvas, low + 36, [picture.note])
    return canvas.drawn(y + 4, words(picture))


# -- parts of pictures -------------------------------------------------------------------------------------------------


def _beside(labels: Sequence[str]) -> tuple[float, bool]:
    """The room of labels beside their bars, and whether they are better above them: (0, True)."""
    widest = max(map(width_of, labels), default=0.0) + 8
    room = WIDTH * _LABELS
    if widest <= room:
        return max(widest, 16.0), False
    fits = all(len(wrapped(label, room - 8)) <= 2 and _whole(label, room - 8) for label in labels)
    return (room, False) if fits else (0.0, True)


def _whole(label: str, width: float) -> bool:
    """Whether no word has to be cut."""
    return all(width_of(word) <= width for word in label.split(" "))


def _headline(canvas: Canvas, y: float, title: str) -> float:
    lines = wrapped(title, (canvas.width - 4) * 0.94) if title else []
    canvas.lines(0, y + SIZE, lines, bold=True)
    return y + LINE * len(lines) + (6 if lines else 0)


def _scale(canvas: Canvas, left: float, room: float, start: float, end: float, top: float) -> float:
    """Lines behind bars, and what they stand for."""
    marks = ticks(top, 3)
    canvas.path("".join(f"M{at(left + room * m / top, start)}V{end:.2f}" for m in marks), opacity=0.18)
    for i, mark in enumerate(marks):
        side = "start" if i == 0 else "middle"
        canvas.text(left + room * mark / top, end + 13, short(mark), side=side, size=10.5, faint=True)
    return end + 18


def _notes(canvas: Canvas, y: float, notes: Sequence[str]) -> float:
    text = "; ".join(filter(None, notes))
    for line in wrapped(text, min(canvas.width, WIDTH) - 4) if text else []:
        canvas.text(0, y + SIZE, line, faint=True)
        y += LINE
    return y + 5


def _axis_names(canvas: Canvas, y: float, first: str, second: str) -> float:
    for line in wrapped(f"rows: {first}; columns: {second}", min(canvas.width, WIDTH) - 4):
        canvas.text(0, y + SIZE, line, faint=True)
        y += LINE
    return y + 5


def _legend(canvas: Canvas, y: float, top: float) -> float:
    canvas.text(0, y + 11, "0", size=10.5)
    for i in range(10):
        canvas.box(12 + 9 * i, y + 2, 9, 10, opacity=max(0.04, _DARK * i / 9))
    canvas.text(107, y + 11, short(top), size=10.5)
    return y + 16


def _key(canvas: Canvas, y: float, names: Sequence[str], dashed: int = 0) -> float:
    for i, name in enumerate(names):
        tone = TONES[i % len(TONES)]
        if i >= len(names) - dashed:
            canvas.path(f"M{at(0, y + 8)}h12", tone=tone, width=1.6, dashed=True)
        else:
            canvas.box(0, y + 3, 10, 10, tone=tone, opacity=0.85)
        lines = wrapped(name, WIDTH - 20)
        canvas.lines(17, y + SIZE, lines)
        y += LINE * len(lines)
    return y + 6


def _rounded(value: float, top: float) -> str:
    """With as many places as tell the cells of a map apart."""
    return f"{value:,.{min(9, max(0, 2 - math.floor(math.log10(top))))}f}"


def _fixed(value: float, top: float) -> str:
    """With the places that the largest number of a picture needs for four digits, so that numbers stand in a column."""
    return f"{value:,.{min(9, max(0, 3 - math.floor(math.log10(top))))}f}"


def _axis(values: Sequence[float], logarithmic: bool, exact: Sequence[float] | None = None):  # type: ignore[no-untyped-def]
    """The marks of an axis, and the function that places a value on it between 0 and 1."""
    known = [value for value in values if math.isfinite(value)]
    if logarithmic:
        known = [value for value in known if value > 0]
        low, high = math.log10(min(known)), math.log10(max(known))
        span = max(high - low, 1e-9)
        step = max(1, math.ceil((high - low) / 6))
        marks = [10.0**k for k in range(math.ceil(low - 1e-9), math.floor(high + 1e-9) + 1, step)]
        return list(exact or marks), lambda value: (math.log10(max(value, 10**low)) - low) / span
    top = max(known, default=1.0) or 1.0
    return list(exact or ticks(top, 5)), lambda value: min(max(value / top, 0.0), 1.0)


def _mark(value: float) -> str:
    return short(value)
