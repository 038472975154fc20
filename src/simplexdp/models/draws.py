"""Random cells from published distributions; the generator is passed in."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .codes import IntArray


class RowDraws:
    """Draws from the rows of a table, each row a distribution: one search serves all rows.

    Row r occupies (r, r + 1] of one increasing sequence, so the cell of row r at the uniform number u is where r + u
    falls. Probabilities are kept to about 1e-16 times the number of rows.
    """

    def __init__(self, table: NDArray[np.float64]) -> None:
        sums = np.cumsum(table.reshape(-1, table.shape[-1]), axis=1)
        sums /= sums[:, -1:].copy()
        sums[:, -1] = 1.0
        self._cells = table.shape[-1]
        self._line = (sums + np.arange(len(sums))[:, None]).ravel()

    def draw(self, rows: IntArray, generator: np.random.Generator) -> IntArray:
        """One cell for each of these row numbers."""
        place = np.searchsorted(self._line, rows + generator.random(rows.size), side="right")
        return np.asarray(np.minimum(place - rows * self._cells, self._cells - 1), dtype=np.int64)


def draw_cells(probabilities: NDArray[np.float64], size: int, generator: np.random.Generator) -> IntArray:
    """Independent cells of one distribution."""
    return RowDraws(probabilities.reshape(1, -1)).draw(np.zeros(size, dtype=np.int64), generator)
