"""What a picture shows, in words with its numbers: for screen readers, and for whoever cannot see it."""

from __future__ import annotations

import itertools

import numpy as np

from ..models.sections import Bars, Curves, Diagram, Groups, HeatMap, Picture
from ..numerics.printed import printed
from .canvas import short

_SAID = 12
"""Numbers in words; the table beside the picture has all of them."""


def words(picture: Picture) -> str:
    """The numbers of a picture as one text."""
    if isinstance(picture, Bars):
        return _bars(picture)
    if isinstance(picture, HeatMap):
        return _map(picture)
    if isinstance(picture, Groups):
        return _groups(picture)
    if isinstance(picture, Diagram):
        return _diagram(picture)
    return _curves(picture)


def _bars(picture: Bars) -> str:
    values = np.asarray(picture.values, dtype=np.float64)
    kept = np.arange(values.size) if values.size <= _SAID else np.argsort(-values, kind="stable")[:_SAID]
    told = []
    for i in map(int, kept):
        said = f"{picture.labels[i]}: {short(float(values[i])) if picture.texts is None else picture.texts[i]}"
        if picture.lower is not None and picture.upper is not None:
            low, high = np.asarray(picture.lower)[i], np.asarray(picture.upper)[i]
            said += f" ({short(float(low))} to {short(float(high))})"
        told.append(said)
    return f"{_head('Bars', picture.title)}, {picture.unit}. {_listed(told, values.size, 'largest')}"


def _map(picture: HeatMap) -> str:
    values = np.asarray(picture.values, dtype=np.float64)
    order = np.argsort(-values, axis=None, kind="stable")[:_SAID]
    told = []
    for place in order:
        i, j = divmod(int(place), values.shape[1])
        told.append(f"{picture.rows[i]} and {picture.columns[j]}: {short(values[i, j])}")
    first, second = picture.axes
    shape = f"{len(picture.rows)} rows by {len(picture.columns)} columns"
    head = f"{_head('Map', picture.title)}, {first} by {second}, {shape}, {picture.unit}"
    return f"{head}. {_listed(told, values.size, 'largest')}"


def _groups(picture: Groups) -> str:
    told = []
    for name, values in itertools.islice(picture.series.items(), _SAID):
        cells = zip(picture.labels, np.asarray(values, dtype=np.float64), strict=True)
        told.append(f"{name}: " + ", ".join(f"{label} {short(float(v))}" for label, v in itertools.islice(cells, 8)))
    return f"{_head('Distributions', picture.title)}. {_listed(told, len(picture.series), 'first')}"


def _diagram(picture: Diagram) -> str:
    parents: dict[str, list[str]] = {node: [] for node in picture.nodes}
    for parent, child in picture.edges:
        parents[child].append(parent)
    told = [f"{node} from {', '.join(above)}" for node, above in parents.items() if above]
    alone = [node for node, above in parents.items() if not above]
    return f"{_head('Graph', picture.title)}. Without parents: {', '.join(alone)}. {'; '.join(told)}."


def _curves(picture: Curves) -> str:
    told = []
    for name, values in picture.series.items():
        every = max(1, len(picture.x) // _SAID)
        points = list(zip(picture.x, values, strict=True))[::every]
        said = ", ".join(f"{printed(float(y))} at {printed(float(x))}" for x, y in points)  # never below what holds
        told.append(f"{name}: {said}" if name else said)
    told += [f"{name} {short(value)}" for name, value in picture.levels.items()]
    return f"{_head('Curve', picture.title)}, {picture.y_label} over {picture.x_label}. {'; '.join(told)}."


def _listed(told: list[str], there: int, which: str) -> str:
    more = f" These are the {len(told)} {which} of {there:,}." if len(told) < there else ""
    return "; ".join(told) + "." + more


def _head(kind: str, title: str) -> str:
    return f"{kind}: {title}" if title else kind
