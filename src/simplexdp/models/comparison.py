"""Two groups of records compared: differences and ratios of conditional probabilities, with intervals."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ..errors import InvalidArgument
from ..estimation.posterior import Normal, Ratios
from ..lazy import sparse
from .answer import Answer, Axis, Ground, How
from .query import Evidence, check_apart, notes_of, product_of

FloatArray = NDArray[np.float64]


def compare(
    evidence: Evidence,
    columns: Any,
    first: Mapping[str, Any],
    second: Mapping[str, Any],
    how: How | None = None,
    *,
    by: Literal["difference", "ratio"] = "difference",
) -> Answer:
    """P(columns | first) less, or over, P(columns | second), by linearisation (of the logarithm, for the ratio)."""
    how = how or How()
    if by not in ("difference", "ratio"):
        raise InvalidArgument("by", "'difference' or 'ratio'", got=by)
    asked = evidence.axes(columns, "columns")
    sides = [evidence.axes(first, "first"), evidence.axes(second, "second")]
    names = tuple(dict.fromkeys(axis.name for axis in (*sides[0], *sides[1], *asked)))
    for side in sides:
        check_apart(asked, side)
    size = {axis.name: axis.size for axis in (*sides[0], *sides[1], *asked)}
    parts = [_conditional(names, size, asked, side) for side in sides]
    top = sparse.hstack([part.top for part in parts], format="csr")
    bottom = sparse.hstack([part.bottom for part in parts], format="csr")
    answers = parts[0].top.shape[1]
    if evidence.pooled.holds(names):
        ground: Ground = "released"
        law = (evidence.pooled.noise if how.kind == "frequentist" else evidence.pooled.posterior)(names, how.about)
        made, error, low, high = _linearised(law, top, bottom, answers, how.quantile, by)
    else:
        how.refuse_if_strict(names)
        ground = "given the graph"
        joint = evidence.joint(names, how.about)
        shares = [(joint @ part.top) / (joint @ part.bottom) for part in parts]
        drawn = shares[0] - shares[1] if by == "difference" else shares[0] / shares[1]
        made, error = drawn[0], drawn[1:].std(axis=0)
        tail = (1 - how.level) / 2
        low, high = np.quantile(drawn[1:], [tail, 1 - tail], axis=0)
    return Answer(
        names=tuple(axis.name for axis in asked),
        labels=tuple(itertools.product(*(axis.labels for axis in asked))),
        measure=by,
        estimate=made,
        standard_error=error,
        low=low,
        high=high,
        about=how.about,
        kind=how.kind,
        level=how.level,
        ground=ground,
        notes=notes_of(evidence, how, ground),
    )


def _conditional(names: Sequence[str], size: Mapping[str, int], asked: Sequence[Axis], side: Sequence[Axis]) -> Ratios:
    """P(asked | side) over all of these columns, those that are in neither summed over."""
    at = {axis.name: axis.matrix for axis in (*asked, *side)}
    free = {axis.name: np.ones((axis.size, 1)) for axis in asked}
    everything = {name: sparse.csr_array(np.ones((size[name], 1))) for name in names}
    order = [at.get(name, everything[name]) for name in names]
    top = product_of(order)
    bottom = product_of(
        [sparse.csr_array(free[name]) if name in free else at.get(name, everything[name]) for name in names]
    )
    if bottom.shape[1] != 1:
        raise InvalidArgument("first", "one group of records: values for each column", got=[axis.name for axis in side])
    # The Kronecker product runs through the groups in the order of the names, the answer in that of what was asked.
    inside = [axis.name for axis in sorted(asked, key=lambda axis: list(names).index(axis.name))]
    shape = [len(next(a for a in asked if a.name == name).groups) for name in inside]
    turned = np.arange(math.prod(shape)).reshape(shape).transpose([inside.index(axis.name) for axis in asked]).ravel()
    return Ratios(top=top[:, turned], bottom=bottom, group=np.zeros(top.shape[1], dtype=np.intp))


def _linearised(
    law: Normal, top: Any, bottom: Any, answers: int, q: float, by: str
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    a = np.maximum(top.T @ law.mean, 1e-9)
    b = np.repeat(np.maximum(bottom.T @ law.mean, 1e-9), answers)
    shares = np.clip(a / b, 0, 1)
    slopes = (top.toarray() - np.repeat(bottom.toarray(), answers, axis=1) * shares[None]) / b[None]
    one, two = shares[:answers], shares[answers:]
    if by == "difference":
        error = np.sqrt(np.maximum(np.diag(law.of(slopes[:, :answers] - slopes[:, answers:])), 0.0))
        made = one - two
        return made, error, np.maximum(made - q * error, -1.0), np.minimum(made + q * error, 1.0)
    relative = slopes / np.maximum(shares, 1e-12)[None]
    log_error = np.sqrt(np.maximum(np.diag(law.of(relative[:, :answers] - relative[:, answers:])), 0.0))
    made = one / np.maximum(two, 1e-12)
    with np.errstate(over="ignore"):
        return made, made * log_error, made * np.exp(-q * log_error), made * np.exp(q * log_error)
