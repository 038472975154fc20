"""Cell numbers of synthetic records, drawn from published distributions with a given generator."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from ..budget import check_whole
from ..errors import Infeasible, InvalidArgument
from ..numerics.factors import Factor, sampling_order
from ..schema import Schema
from ..schema.never import breaks

IntArray = NDArray[np.int64]
_SLICES, _GUIDE = 256, 1 << 20
"""Slices of the unit interval, and all of a table: they change how fast records are drawn, and no record."""
_GUIDED = 1 << 12
"""Records, for fewer of which no guide is made."""
MOST_REDRAWS = 1000
"""Times that a record which breaks a rule of the schema is drawn again."""


class RowDraws:
    """Draws from the rows of a table, each row a distribution: one search serves all rows.

    Row r occupies (r, r + 1] of one increasing sequence, so the cell of row r at the uniform number u is where r + u
    falls. Probabilities are kept to about 1e-16 times the number of rows.

    Most of the search is a look into a table: u lies in one of a few hundred slices of the unit interval, and where
    both ends of a slice fall into one cell, so does everything between, since r + u is rounded in the order of u. Only
    in slices with a border is anything searched for. Cells are the same as by searching for each.
    """

    def __init__(self, table: NDArray[np.float64]) -> None:
        sums = np.cumsum(table.reshape(-1, table.shape[-1]), axis=1)
        sums /= sums[:, -1:].copy()
        sums[:, -1] = 1.0
        self._cells = table.shape[-1]
        self._line = (sums + np.arange(len(sums))[:, None]).ravel()
        self._slices, self._guide = 0, np.empty(0, np.int32)

    def draw(self, rows: IntArray, generator: np.random.Generator) -> IntArray:
        """One cell for each of these row numbers."""
        drawn = generator.random(rows.size)
        if self._slices == 0 and rows.size >= _GUIDED:
            self._make_guide()
        if self._slices < 2:
            return self._searched(rows, drawn)
        slices = np.multiply(drawn, self._slices).astype(np.int64)
        found: IntArray = self._guide.take(slices + rows * self._slices).astype(np.int64)
        unknown = np.flatnonzero(found < 0)
        found[unknown] = self._searched(rows[unknown], drawn[unknown])
        return found

    def _searched(self, rows: IntArray, drawn: NDArray[np.float64]) -> IntArray:
        place = np.searchsorted(self._line, rows + drawn, side="right")
        return np.asarray(np.minimum(place - rows * self._cells, self._cells - 1), dtype=np.int64)

    def _make_guide(self) -> None:
        """The cell of each slice of each row, -1 where a border is in it; slices are a power of two, so u is exact."""
        number = len(self._line) // self._cells
        slices = min(_SLICES, 1 << max(0, (_GUIDE // number).bit_length() - 1))
        if slices >= 2:
            rows = np.repeat(np.arange(number), slices + 1)
            ends = self._searched(rows, np.tile(np.arange(slices + 1) / slices, number)).reshape(number, -1)
            self._guide = np.where(ends[:, :-1] == ends[:, 1:], ends[:, :-1], -1).astype(np.int32).ravel()
        self._slices = max(slices, 1)


def draw_cells(probabilities: NDArray[np.float64], size: int, generator: np.random.Generator) -> IntArray:
    """Independent cells of one distribution."""
    return RowDraws(probabilities.reshape(1, -1)).draw(np.zeros(size, dtype=np.int64), generator)


def possible_records(
    schema: Schema | None, size: int, draw: Callable[[int], Mapping[str, IntArray]]
) -> dict[str, IntArray]:
    """Records of a sampler given that they break no rule of the schema: those that do are drawn again."""
    drawn = dict(draw(size))
    if schema is None or not schema.never or not drawn:
        return drawn
    drawn = {name: codes.copy() for name, codes in drawn.items()}
    for _ in range(MOST_REDRAWS):
        again = np.flatnonzero(breaks(schema, drawn))
        if not again.size:
            return drawn
        for name, codes in draw(again.size).items():
            drawn[name][again] = codes
    raise Infeasible("The model gives almost all of its mass to combinations that the schema says are impossible.")


def possible_shares(
    schema: Schema | None, variable: str, given: Mapping[str, IntArray], shares: NDArray[np.float64]
) -> NDArray[np.float64]:
    """P(variable | given), rows × cells, without what the rules of the schema exclude beside the given cells.

    Rows for which they exclude every cell stay as they are: such evidence says nothing.
    """
    rules = [] if schema is None else [rule for rule in schema.never if variable in dict(rule)]
    if schema is None or not any({name for name, _ in rule} <= {variable, *given} for rule in rules):
        return shares
    rows = len(shares)
    cells = [{**given, variable: np.full(rows, cell)} for cell in range(shares.shape[1])]
    kept = shares * ~np.column_stack([breaks(schema, one) for one in cells])
    sums = kept.sum(axis=1, keepdims=True)
    return np.where(sums > 0, kept / np.where(sums > 0, sums, 1.0), shares)


def check_cells(name: str, cells: Sequence[int], size: int) -> list[int]:
    """At least one cell of a column, each by its number."""
    found = [check_whole("given", cell, at_least=0) for cell in cells]
    if not found or max(found) >= size:
        raise InvalidArgument("given", f"cell numbers from 0 to {size - 1} for {name!r}", got=found)
    return found


def draw_given(
    families: Sequence[tuple[str, tuple[str, ...]]],
    tables: Mapping[str, NDArray[np.float64]],
    given: Mapping[str, Sequence[int]],
    size: int,
    generator: np.random.Generator,
    schema: Schema | None = None,
) -> dict[str, IntArray]:
    """Records of a network whose cells of some columns are among those given; exact.

    The given columns and all that they descend from are drawn together, by elimination and back; what is left follows
    its parents.

    Args:
        families: each node with its parents, parents before their children.
        tables: P(node | parents), parents first.
        given: cells by column.
        size: how many records.
        generator: of the draws.
        schema: whose rules no record breaks.
    """
    size, parents = check_whole("size", size, at_least=0), dict(families)
    given = {name: check_cells(name, cells, tables[name].shape[-1]) for name, cells in given.items()}
    above: set[str] = set()
    waiting = list(given)
    while waiting:
        name = waiting.pop()
        if name not in above:
            above.add(name)
            waiting += parents[name]
    factors = [Factor((*parents[name], name), tables[name]) for name in above]
    for name, cells in given.items():
        allowed = np.zeros(tables[name].shape[-1])
        allowed[list(cells)] = 1.0
        factors.append(Factor((name,), allowed))
    steps: list[tuple[str, Sequence[str], NDArray[np.float64]]] = []
    for name, factor in sampling_order(sorted(factors, key=lambda factor: factor.names)):
        sums = factor.values.sum(axis=-1, keepdims=True)
        if not factor.names[:-1] and not sums > 0:
            raise InvalidArgument("given", "possible in this model")
        # Rows of probability 0 are never drawn from.
        steps.append((name, factor.names[:-1], np.where(sums > 0, factor.values, 1.0)))
    steps += [(name, others, tables[name]) for name, others in families if name not in above]

    def draw(records: int) -> dict[str, IntArray]:
        drawn: dict[str, IntArray] = {}
        for name, others, table in steps:
            rows = np.zeros(records, dtype=np.int64)
            if others:
                rows = np.ravel_multi_index([drawn[each] for each in others], table.shape[:-1]).astype(np.int64)
            drawn[name] = RowDraws(table).draw(rows, generator)
        return drawn

    return possible_records(schema, size, draw)
