"""Balanced Laplace noise: integer noise that adds up to zero, for tables whose total is public."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

from numpy.typing import NDArray

from ..accounting.discrete import BalancedLaplaceTerm, balanced_variance
from ..accounting.loss import PrivacyLoss
from ..budget import Budget, Neighbours, check_neighbours, check_positive, check_whole, convert
from ..errors import Infeasible, InvalidArgument
from ..noisy import FloatArray, NoiseLaw
from ..numerics.printed import short_fraction
from ..sampling import Entropy
from ..sampling.discrete import MOST_CELLS, balanced_laplace
from .base import IntArray, Limits, TableMechanism, calibrate_upwards, check_sum, noise_scale, pure_scale
from .noise import laplace_cell_loss


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
    limits: ClassVar[Mapping[str, Limits]] = {
        "scale": Limits(1e-3, 1e12, "scale"),
        "cells": Limits(1, MOST_CELLS, "cells of the table"),
    }
    publishes_total: ClassVar[bool] = True
    draws_alone: ClassVar[bool] = False
    scale: float
    cells: int

    def __post_init__(self) -> None:
        convert(self, scale=check_positive, cells=check_whole)
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
    def drawn_with(self) -> Fraction:
        """The scale."""
        return self.rational_scale

    @property
    def law(self) -> NoiseLaw:
        """2b²: given the total, the likelihood is that of independent Laplace noise."""
        return NoiseLaw(noise="laplace", variance=2 * float(self.rational_scale) ** 2, balanced=True)

    @property
    def noise_variance(self) -> float:
        """The variance of the noise of one cell, (d−1)/(d+1) · (sech²(1/b) + A_d)/tanh²(1/b)."""
        return balanced_variance(self.rational_scale, self.cells)

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
        times = check_whole("times", times)
        if counts.size != self.cells:
            raise InvalidArgument("counts", f"of {self.cells} cells, as the noise was made for", got=counts.size)
        noise = balanced_laplace(times, self.cells, self.rational_scale, entropy)
        return counts + noise.reshape(times, *counts.shape)

    def check_values(self, values: NDArray[Any], total: float | None) -> None:
        """Whole numbers that add up to the total, one for each cell."""
        super().check_values(values, total)
        if values.size != self.cells:
            raise InvalidArgument("values", "of as many cells as the mechanism is for", got=values.size)
        check_sum(self, values, total)

    def worst_pair(self, neighbours: Neighbours, rows: int = 1) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Two cells of a table of this size that is otherwise empty."""
        first, second = super().worst_pair(neighbours, rows)
        empty = (0,) * (self.cells - 2)
        return first + empty, second + empty

    def cell_loss(self, values: NDArray[Any], rows: int = 1) -> FloatArray:
        """That of independent noise of this scale: the last cell, which balances all, is another one."""
        return laplace_cell_loss(values, rows, self.rational_scale)

    @classmethod
    def check_table(cls, *, total_is_public: bool, total: float | None, cells: int) -> None:  # noqa: ARG003
        """It leaves the total as it is: only for a public total, and for tables that it is drawn for."""
        if not total_is_public:
            raise Infeasible(
                "balanced Laplace noise publishes the total, so it needs a public one: replace-one with rows as the "
                "unit. Use Laplace noise otherwise."
            )
        if cells > MOST_CELLS:
            raise Infeasible(
                f"balanced Laplace noise is drawn for up to {MOST_CELLS} cells. Use Laplace noise for larger tables: "
                "it is hardly more there."
            )

    def at(self, variance: float, cells: int) -> BalancedLaplace:
        """The one of the scale that independent Laplace noise of this variance has."""
        return BalancedLaplace(scale=math.sqrt(variance / 2), cells=cells)

    @classmethod
    def calibrate(
        cls,
        budget: Budget,
        *,
        tables: int = 1,
        neighbours: Neighbours = "replace-one",
        total: float | None = None,  # noqa: ARG003
        cells: int | None = None,
        rows: int = 1,
    ) -> BalancedLaplace:
        """The smallest scale for which `tables` releases of tables with this many cells fit the budget.

        >>> print(BalancedLaplace.calibrate(Budget(epsilon=1.0, delta=1e-5), cells=2))
        BalancedLaplace(scale=1.99997, cells=2)
        """
        tables = check_whole("tables", tables)
        if cells is None:
            raise InvalidArgument("cells", "given", hint="The loss depends on how many cells the table has.")
        cells = check_whole("cells", cells, at_least=2)
        if budget.is_pure:
            cls(scale=1.0, cells=cells).loss(neighbours, rows=rows)  # what it refuses, it refuses here too
            return cls(scale=pure_scale(budget, 2 * tables), cells=cells)
        scale = calibrate_upwards(
            lambda b: tables * cls(scale=b, cells=cells).loss(neighbours, rows=rows),
            budget,
            noise_scale(budget, tables),
        )
        return cls(scale=scale, cells=cells)
