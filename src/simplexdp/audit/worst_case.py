"""The neighbouring tables on which our mechanisms lose most, and their privacy loss as a function of the output.

Replace-one: one record in the first of two cells that are otherwise empty, or in the second. Add-remove: one record
in an otherwise empty cell, or none; a Dirichlet draw is normalised, so there the rest of the table is made so large
that the total tells nothing (docs/proofs/dirichlet.md).

One call of a mechanism's own `draw` on a table of many such pairs gives as many independent outputs: cells are
independent, and the ratios within pairs of a Dirichlet draw are, too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from ..budget import Neighbours, check_neighbours
from ..errors import InvalidArgument
from ..mechanisms import BalancedLaplace, Dirichlet, Gaussian, Laplace, Mechanism, Polya
from ..sampling.entropy import Entropy
from .evidence import FloatArray

REST = 1 << 50
"""Records in the rest of the table: the total of the draw is then known to 2⁻²⁵."""


@dataclass(frozen=True, kw_only=True)
class WorstCase:
    """Two neighbouring tables and the exact privacy loss between them, ln P(output)/Q(output)."""

    claimed: Mechanism
    neighbours: Neighbours

    @property
    def tables(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The pair; the last cell of the Dirichlet mechanism under add-remove stands for the rest."""
        if check_neighbours(self.neighbours) == "replace-one":
            empty = (0,) * (self.claimed.cells - 2) if isinstance(self.claimed, BalancedLaplace) else ()
            return (1, 0, *empty), (0, 1, *empty)
        return ((1, REST), (0, REST)) if isinstance(self.claimed, Dirichlet) else ((1, 0), (0, 0))

    def scores(self, drawn: Mechanism, table: int, draws: int, entropy: Entropy) -> FloatArray:
        """The loss, by the claimed mechanism, of outputs that `drawn` gives for the first (0) or second (1) table."""
        counts = np.array(self.tables[table], dtype=np.int64)
        if isinstance(self.claimed, Dirichlet) and self.neighbours == "add-remove":
            values = drawn.draw(np.append(np.full(draws, counts[0]), counts[1]), entropy)
            return np.asarray(self._gamma_loss(values), dtype=np.float64)
        if isinstance(self.claimed, BalancedLaplace):  # cells depend on each other: each table is drawn by itself
            many = getattr(drawn, "draws", None)
            values = (
                many(counts, draws, entropy) if many else np.stack([drawn.draw(counts, entropy) for _ in range(draws)])
            )
            return self.loss(values[:, 0], values[:, 1])
        values = drawn.draw(np.tile(counts, (draws, 1)), entropy)
        return self.loss(values[:, 0], values[:, 1])

    def loss(self, x: NDArray[Any], y: NDArray[Any]) -> FloatArray:
        """ln P/Q at the values of the two cells."""
        first = self._cell(x)
        return first - self._cell(y) if self.neighbours == "replace-one" else first

    def _cell(self, x: NDArray[Any]) -> FloatArray:
        """ln of the law with one record over the law with none, at the value of one cell, up to a constant."""
        m = self.claimed
        if isinstance(m, Dirichlet):
            return np.asarray(m.r * np.log(x))
        if isinstance(m, Polya):
            return np.asarray(gammaln(x + m.alpha + m.r) - gammaln(x + m.alpha))
        if isinstance(m, Gaussian):
            return np.asarray((2 * x - 1) / (2 * float(m.variance)))
        if isinstance(m, Laplace | BalancedLaplace):
            return np.asarray((np.abs(x) - np.abs(x - 1)) / float(m.rational_scale))
        raise InvalidArgument(
            "mechanism",
            "Dirichlet, Polya, Gaussian, Laplace or BalancedLaplace",
            got=type(m).__name__,
            hint="For anything else use `audit` with your own pair of tables.",
        )

    def _gamma_loss(self, values: FloatArray) -> FloatArray:
        # G = y · (total), up to the constant total; the spread of the largest cell cancels to 2⁻²⁵.
        return np.asarray(self._cell(values[:-1]) - self._cell(values[-1:]))
