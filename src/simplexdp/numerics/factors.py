"""Products of tables over named axes, summed down to the axes that are wanted: exact variable elimination."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..errors import Infeasible

FloatArray = NDArray[np.float64]
ROWS = ""
"""The axis of the rows of evidence; columns have names of at least one character."""
MAX_CELLS = 1 << 26
"""Largest intermediate table."""


@dataclass(frozen=True, eq=False)
class Factor:
    """A non-negative table with one named axis each; `ROWS` comes first where it is there."""

    names: tuple[str, ...]
    values: FloatArray

    def at(self, evidence: Mapping[str, NDArray[np.int64]]) -> Factor:
        """The factor at the codes of each row, with the rows as its first axis; itself if nothing applies."""
        if not any(name in evidence for name in self.names):
            return self
        free = tuple(name for name in self.names if name not in evidence)
        order = [i for i, name in enumerate(self.names) if name in evidence]
        order += [i for i, name in enumerate(self.names) if name not in evidence]
        index = tuple(evidence[name] for name in self.names if name in evidence)
        return Factor((ROWS, *free), self.values.transpose(order)[index])


def multiply(factors: Sequence[Factor], drop: str | None) -> tuple[Factor, FloatArray]:
    """The product over the union of the axes, summed over `drop`, scaled to a largest entry of 1; and its log-scale."""
    names = _union(factors)
    made, scale = Factor(names, np.ones([1] * len(names))), np.zeros(1)
    for i, factor in enumerate(factors, start=1):
        made = Factor(names, made.values * _aligned(factor, names))
        if i % 8 == 0:  # eight numbers above 1e-38 do not underflow
            made, log = _scaled(made)
            scale = scale + log
    if drop is not None:
        axis = names.index(drop)
        made = Factor(names[:axis] + names[axis + 1 :], made.values.sum(axis=axis))
    made, log = _scaled(made)
    return made, scale + log


def eliminate(factors: Iterable[Factor], keep: Sequence[str], *, limit: int = MAX_CELLS) -> tuple[Factor, FloatArray]:
    """The product of all factors summed down to the axes `keep`, in that order, and the logarithm of its scale.

    The axis that makes the smallest intermediate table goes first. Each intermediate table is divided by its
    largest entry (of each row of evidence), so that nothing underflows.
    """
    left = list(factors)
    sizes = {name: size for factor in left for name, size in zip(factor.names, factor.values.shape, strict=True)}
    scale: FloatArray = np.zeros(1)
    hidden = set(sizes) - set(keep) - {ROWS}
    while hidden:
        name = min(sorted(hidden), key=lambda name: _cells([f for f in left if name in f.names], sizes))
        touched = [factor for factor in left if name in factor.names]
        _check(_cells(touched, sizes), limit)
        made, log = multiply(touched, name)
        left = [factor for factor in left if name not in factor.names] + [made]
        scale = scale + log
        hidden.remove(name)
    _check(_cells(left, sizes), limit)
    made, log = multiply(left, None)
    order = ((ROWS,) if ROWS in made.names else ()) + tuple(keep)
    shape = [sizes[name] for name in order]
    values = np.broadcast_to(_aligned(made, order), shape)
    return Factor(order, values), scale + log


def sampling_order(factors: Iterable[Factor], *, limit: int = MAX_CELLS) -> list[tuple[str, Factor]]:
    """Each axis with a table of it (last) and of axes that come before it in the list: joint draws are made one by one.

    Eliminating the axes one after the other leaves, for each, the product that it was summed over; backwards, every
    axis is drawn given those that are drawn already.
    """
    left = list(factors)
    sizes = {name: size for factor in left for name, size in zip(factor.names, factor.values.shape, strict=True)}
    hidden, found = set(sizes), []
    while hidden:
        name = min(sorted(hidden), key=lambda name: _cells([f for f in left if name in f.names], sizes))
        touched = [factor for factor in left if name in factor.names]
        _check(_cells(touched, sizes), limit)
        whole, _ = multiply(touched, None)
        names = tuple(each for each in whole.names if each != name)
        shape = [sizes[each] for each in (*names, name)]
        found.append((name, Factor((*names, name), np.broadcast_to(_aligned(whole, (*names, name)), shape))))
        made, _ = multiply([whole], name)
        left = [factor for factor in left if name not in factor.names] + [made]
        hidden.remove(name)
    return found[::-1]


def largest_table(axes: Iterable[Sequence[str]], sizes: Mapping[str, int], keep: Sequence[str]) -> int:
    """Cells of the largest intermediate table of `eliminate`, found without any arithmetic on tables."""
    left = [frozenset(names) for names in axes]
    hidden = frozenset().union(*left) - set(keep)
    largest = 1
    while hidden:
        unions = {name: frozenset().union(*(f for f in left if name in f)) for name in sorted(hidden)}
        name = min(unions, key=lambda name: math.prod(sizes[n] for n in unions[name]))
        largest = max(largest, math.prod(sizes[n] for n in unions[name]))
        left = [f for f in left if name not in f] + [unions[name] - {name}]
        hidden -= {name}
    return max(largest, math.prod(sizes[name] for name in keep))


def _union(factors: Sequence[Factor]) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(name for factor in factors for name in factor.names))
    return (ROWS, *(name for name in names if name != ROWS)) if ROWS in names else names


def _aligned(factor: Factor, names: Sequence[str]) -> FloatArray:
    """The values with their axes where `names` has them, length one elsewhere."""
    order = sorted(range(len(factor.names)), key=lambda i: names.index(factor.names[i]))
    shape = dict(zip(factor.names, factor.values.shape, strict=True))
    return factor.values.transpose(order).reshape([shape.get(name, 1) for name in names])


def _cells(factors: Sequence[Factor], sizes: Mapping[str, int]) -> int:
    return math.prod(sizes[name] for name in _union(factors))


def _check(cells: int, limit: int) -> None:
    if cells > limit:
        raise Infeasible(
            f"exact inference needs a table of {cells} cells, above the limit of {limit}. "
            "Give evidence for more columns, or estimate from synthetic records."
        )


def _scaled(factor: Factor) -> tuple[Factor, FloatArray]:
    axes = tuple(i for i, name in enumerate(factor.names) if name != ROWS)
    top = factor.values.max(axis=axes, keepdims=True) if axes else factor.values
    safe = np.where(top > 0, top, 1.0)
    with np.errstate(divide="ignore"):
        log = np.log(top).ravel()
    return Factor(factor.names, factor.values / safe), log
