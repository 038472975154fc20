"""The graph of a network as SVG: parents above their children, in rows that fit a telephone where that goes."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ..models.sections import Diagram
from .canvas import LINE, WIDTH, Canvas, at, width_of, wrapped
from .words import words

_ROOM = 96.0
"""The widest box of a name; longer names are wrapped."""
_GAP, _BETWEEN = 10.0, 44.0
"""From one box to the next in a row, and from one row to the next."""
_PASS = 14.0
"""The room of an arrow that passes a row."""
_WIDEST = 900.0
"""A picture that is wider than a telephone scrolls; rows beyond this are broken."""
_SWEEPS = 8
"""Passes that put nodes below their parents and above their children, so that fewer edges cross."""

Place = tuple[float, float, float, float]
"""x, y, width and height of a box."""


def draw_diagram(picture: Diagram) -> str:
    """Boxes and arrows."""
    found = layout(picture.nodes, picture.edges)
    canvas = Canvas(max(found.width, WIDTH))
    shift = (canvas.width - found.width) / 2
    lines = wrapped(picture.title, WIDTH - 4) if picture.title else []
    canvas.lines(0, 16, lines, bold=True)
    top = LINE * len(lines) + 14
    boxes = {node: (x + shift, y + top, w, h) for node, (x, y, w, h) in found.places.items()}
    for (parent, child), bends in found.bends.items():
        _arrow(canvas, boxes[parent], [(x + shift, y + top, end + top) for x, y, end in bends], boxes[child])
    for node, (x, y, w, h) in boxes.items():
        canvas.box(x, y, w, h, opacity=0.22, round_=6, framed=True)
        names = wrapped(node, _ROOM - 10)
        canvas.lines(x + w / 2, y + h / 2 + 4 - LINE * (len(names) - 1) / 2, names, side="middle")
    return canvas.drawn(found.height + top + 8, words(picture))


@dataclass(frozen=True, kw_only=True)
class Layout:
    """Where each box goes, and where arrows pass the rows between their ends: x, from y, to y."""

    places: Mapping[str, Place]
    bends: Mapping[tuple[str, str], Sequence[tuple[float, float, float]]]
    width: float
    height: float


def layout(nodes: Sequence[str], edges: Sequence[tuple[str, str]]) -> Layout:
    """A place for each box: no two overlap, and every arrow points down.

    >>> places = layout(["a", "b"], [("a", "b")]).places
    >>> places["a"][1] + places["a"][3] < places["b"][1]
    True
    """
    levels = _levels(nodes, edges)
    depth = {node: i for i, row in enumerate(levels) for node in row}
    joints = {(p, c): [_Joint(p, c, row) for row in range(depth[p] + 1, depth[c])] for p, c in edges}
    pieces: list[tuple[Stop, Stop]] = []
    for (parent, child), between in joints.items():
        chain: list[Stop] = [parent, *between, child]
        pieces += itertools.pairwise(chain)
    full: list[list[Stop]] = [list(row) for row in levels]
    for joint in (joint for between in joints.values() for joint in between):
        full[joint.row].append(joint)
    rows = _broken(_ordered(full, pieces))
    sizes = {stop: _size(stop) for row in rows for stop in row}
    widths = [sum(sizes[stop][0] + _GAP for stop in row) - _GAP for row in rows]
    whole, y = max(widths, default=0.0), 0.0
    found: dict[Stop, Place] = {}
    for row, wide in zip(rows, widths, strict=True):
        # Boxes are spread over the width of the widest row, so that arrows are steep.
        spare = (min(whole, WIDTH) - wide) / (len(row) + 1) if wide < min(whole, WIDTH) else 0.0
        x = (whole - wide) / 2 - spare * (len(row) - 1) / 2
        tall = max(sizes[stop][1] for stop in row)
        for stop in row:
            w, h = sizes[stop] if isinstance(stop, str) else (sizes[stop][0], tall)
            found[stop] = (x, y + (tall - h) / 2, w, h)
            x += w + _GAP + spare
        y += tall + _BETWEEN
    left = min((x for x, _, _, _ in found.values()), default=0.0)
    right = max((x + w for x, _, w, _ in found.values()), default=0.0)
    passed = {
        edge: [(x + w / 2 - left, top, top + h) for x, top, w, h in map(found.__getitem__, between)]
        for edge, between in joints.items()
    }
    places = {node: (found[node][0] - left, *found[node][1:]) for node in nodes}
    return Layout(places=places, bends=passed, width=right - left, height=max(y - _BETWEEN, 0.0))


@dataclass(frozen=True)
class _Joint:
    """Where an arrow passes a row between its ends."""

    parent: str
    child: str
    row: int


Stop = str | _Joint
"""What takes room in a row."""


def _size(stop: Stop) -> tuple[float, float]:
    if isinstance(stop, _Joint):
        return _PASS, LINE
    lines = wrapped(stop, _ROOM - 10)
    return max(34.0, max(map(width_of, lines)) + 12), LINE * len(lines) + 10


def _levels(nodes: Sequence[str], edges: Sequence[tuple[str, str]]) -> list[list[str]]:
    """Each node one row below the lowest of its parents."""
    parents: Mapping[str, list[str]] = {node: [p for p, c in edges if c == node] for node in nodes}
    depth: dict[str, int] = {}

    def of(node: str) -> int:
        todo = [node]
        while todo:
            last = todo[-1]
            missing = [parent for parent in parents[last] if parent not in depth]
            if missing:
                todo += missing
            else:
                depth[last] = max((depth[parent] + 1 for parent in parents[last]), default=0)
                todo.pop()
        return depth[node]

    rows: list[list[str]] = [[] for _ in range(max(map(of, nodes), default=0) + 1)]
    for node in nodes:
        rows[depth[node]].append(node)
    return rows


def _ordered(rows: list[list[Stop]], pieces: Sequence[tuple[Stop, Stop]]) -> list[list[Stop]]:
    """The rows with neighbours near each other: each stop at the mean place of what it is joined to."""
    joined: dict[Stop, list[Stop]] = {}
    for above, below in pieces:
        joined.setdefault(above, []).append(below)
        joined.setdefault(below, []).append(above)
    place = {stop: (i + 0.5) / len(row) for row in rows for i, stop in enumerate(row)}

    def middle(stop: Stop) -> float:
        near = [place[other] for other in joined.get(stop, ())]
        return sum(near) / len(near) if near else place[stop]

    for _ in range(_SWEEPS):
        for row in rows:
            row.sort(key=middle)
            place.update({stop: (i + 0.5) / len(row) for i, stop in enumerate(row)})
    return rows


def _broken(rows: list[list[Stop]]) -> list[list[Stop]]:
    """Rows that are too wide, in several; the widest row that there is decides how wide all may be."""
    found = []
    sizes = [sum(_size(stop)[0] + _GAP for stop in row) for row in rows]
    most = min(max([WIDTH, *(size / 2 for size in sizes)]), _WIDEST)
    for row, size in zip(rows, sizes, strict=True):
        parts = max(1, math.ceil(size / most))
        each = math.ceil(len(row) / parts)
        found += [row[i : i + each] for i in range(0, len(row), each)]
    return found


def _arrow(canvas: Canvas, above: Place, bends: Sequence[tuple[float, float, float]], below: Place) -> None:
    """From the lower edge of one box past the rows between to the upper edge of the other, with a head."""
    x, y = above[0] + above[2] / 2, above[1] + above[3]
    to_x, to_y = below[0] + below[2] / 2, below[1]
    # Arrows to one box come in side by side, by where they come from.
    last = bends[-1][0] if bends else x
    to_x += max(-below[2] / 3, min(below[2] / 3, (last - to_x) / 6))
    end = to_y - 5
    line = f"M{at(x, y)}"
    for at_x, start, stop in bends:
        line += f"C{at(x, (y + start) / 2)} {at(at_x, (y + start) / 2)} {at(at_x, start)}L{at(at_x, stop)}"
        x, y = at_x, stop
    line += f"C{at(x, (y + end) / 2)} {at(to_x, (y + end) / 2)} {at(to_x, end)}"
    canvas.path(line, width=1.3, opacity=0.6)
    canvas.head([(to_x - 3.6, end - 1), (to_x + 3.6, end - 1), (to_x, to_y)])
