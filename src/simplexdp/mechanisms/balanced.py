"""Balanced Laplace noise: integer noise that adds up to zero, for tables whose total is public."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ..accounting.balanced import BalancedLaplaceTerm, no_loss, odds
from ..accounting.loss import PrivacyLoss
from ..budget import Budget, Neighbours, check_neighbours, check_positive, check_whole
from ..errors import InvalidArgument
from ..numerics.rounding import short_fraction
from ..sampling.discrete import MOST_CELLS, balanced_laplace
from ..sampling.entropy import Entropy
from .base import FloatArray, IntArray, TableMechanism, calibrate_upwards, noise_scale


@dataclass(frozen=True, kw_only=True)
class BalancedLaplace(TableMechanism):
    """Counts plus integer noise, Pr[x] ∝ exp(−Σ|x_i|/scale) among the x that add up to zero.

    The noise leaves the total as it is, so it needs replace-one neighbours with rows as the unit, where the total is
    public. There Σ|x_i|/2 is the norm whose unit ball is the hull of what one record can change (the K-norm
    mechanism of Hardt and Talwar), and the noise is smaller than independent Laplace noise fitted to the total:
    half the variance with two cells, 1 − 3/(2(cells + 1)) of it with more.

    Proof: docs/proofs/balanced.md.

    Args:
        scale: b; the release is (2/b)-DP.
        cells: how many cells the table has; part of the mechanism, as the exact loss depends on it.
    """

    name: ClassVar[str] = "balanced-laplace"
    scale: float
    cells: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "scale", check_positive("scale", self.scale))
        object.__setattr__(self, "cells", check_whole("cells", self.cells))
        if self.cells > MOST_CELLS:
            raise InvalidArgument(
                "cells",
                f"at most {MOST_CELLS}",
                got=self.cells,
                hint="Use Laplace noise there: balanced noise would save less than 0.2 % of the variance.",
            )

    @property
    def rational_scale(self) -> Fraction:
        """The scale that is drawn, rounded up to a short binary fraction."""
        return short_fraction(self.scale)

    @property
    def noise_variance(self) -> float:
        """The variance of the noise of one cell, (d−1)/(d+1) · (sech²(1/b) + A_d)/tanh²(1/b)."""
        inverse, d = float(1 / self.rational_scale), self.cells
        if d == 1 or inverse > 300:
            return 0.0
        sum_ = 1 / math.cosh(inverse) ** 2 + odds(inverse, d, no_loss(inverse, d))
        return (d - 1) / (d + 1) * sum_ / math.tanh(inverse) ** 2

    @property
    def equivalent_variance(self) -> float:
        """The variance of independent noise that is as large as this once the public total is made use of."""
        return self.noise_variance / (1 - 1 / self.cells) if self.cells > 1 else 0.0

    def loss(self, neighbours: Neighbours = "replace-one", *, rows: int = 1) -> PrivacyLoss:
        """Exact: the loss is 2/scale, 0 or −2/scale. Refused where the total is not public."""
        if check_neighbours(neighbours) != "replace-one":
            raise InvalidArgument(
                "neighbours",
                "'replace-one' for balanced noise",
                got=neighbours,
                hint="It publishes the total, which add-remove protects. Use Laplace noise.",
            )
        if check_whole("rows", rows) > 1:
            raise InvalidArgument(
                "rows",
                "1 for balanced noise",
                got=rows,
                hint="It publishes the total, which changes with a person of several rows. Use Laplace noise.",
            )
        if self.cells == 1:
            return PrivacyLoss.nothing(neighbours)
        return PrivacyLoss.of_term(BalancedLaplaceTerm(scale=self.rational_scale, cells=self.cells), neighbours)

    def draw(self, counts: IntArray, entropy: Entropy) -> IntArray:
        """Counts plus noise, exact integers with the same total."""
        return self.draws(counts, 1, entropy).reshape(counts.shape)

    def draws(self, counts: IntArray, times: int, entropy: Entropy) -> IntArray:
        """Several independent draws for the same counts, one a row: each is a release of its own."""
        if counts.size != self.cells:
            raise InvalidArgument("counts", f"of {self.cells} cells, as the noise was made for", got=counts.size)
        noise = balanced_laplace(times, self.cells, self.rational_scale, entropy)
        return counts + noise.reshape(times, *counts.shape)

    def unbiased(self, values: NDArray[Any], total: float | None) -> tuple[FloatArray, float, float]:  # noqa: ARG002
        """The values themselves and 2b²: given the total, the likelihood is that of independent Laplace noise."""
        return values.astype(np.float64), 2 * float(self.rational_scale) ** 2, 0.0

    @classmethod
    def calibrate(
        cls,
        budget: Budget,
        *,
        cells: int,
        tables: int = 1,
        neighbours: Neighbours = "replace-one",
        rows: int = 1,
    ) -> BalancedLaplace:
        """The smallest scale for which `tables` releases of tables with this many cells fit the budget.

        >>> print(BalancedLaplace.calibrate(Budget(epsilon=1.0, delta=1e-5), cells=2))
        BalancedLaplace(scale=1.99997, cells=2)
        """
        tables, cells = check_whole("tables", tables), check_whole("cells", cells, at_least=2)
        scale = calibrate_upwards(
            lambda b: tables * cls(scale=b, cells=cells).loss(neighbours, rows=rows),
            budget,
            noise_scale(budget, tables),
        )
        return cls(scale=scale, cells=cells)
