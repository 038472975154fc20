"""The Pólya mechanism: the Dirichlet mechanism in fair coin flips, exact integers from random bits."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..accounting.discrete import NegativeBinomialTerm
from ..accounting.loss import PrivacyLoss
from ..accounting.smooth import GammaTerm, gaussian_delta
from ..accounting.terms import RenyiOnly
from ..budget import Budget, Neighbours, check_neighbours, check_positive, check_whole, convert
from ..errors import InvalidArgument, discreet
from ..lazy import special
from ..noisy import FloatArray, NoiseLaw
from ..numerics.roots import smallest_integer_that_fits, smallest_that_fits
from ..sampling import Entropy
from ..sampling.polya import negative_binomial
from .base import (
    Draw,
    IntArray,
    Law,
    Limits,
    TableMechanism,
    check_not_below_zero,
    expected_kl,
    no_pure_guarantee,
    noise_scale,
    release_counts,
)

MOST_FLIPS = 1 << 17
"""Coin flips a cell that choosing r may cost; an r given by the caller is not limited."""


@dataclass(frozen=True, kw_only=True)
class Polya(TableMechanism):
    """For each cell the number of tails before the (r·count + α)-th head of a coin with heads probability 2^-flips.

    Given its total the release is a Pólya urn: records drawn from a Dirichlet(r f + α) draw. Accounted on its own
    lattice; r and α are whole numbers. Proof: docs/proofs/polya.md.
    """

    name: ClassVar[str] = "polya"
    limits: ClassVar[Mapping[str, Limits]] = {
        "r": Limits(1e-9, 1e12, "multiplier of the counts"),
        "alpha": Limits(1e-9, 1e15, "prior of each cell"),
        "flips": Limits(1, 16, "heads have probability 2^-flips"),
    }
    r: int
    alpha: int
    flips: int = 1

    def __post_init__(self) -> None:
        convert(self, r=check_whole, alpha=check_whole, flips=check_whole)

    @property
    def odds(self) -> int:
        """c = (1−p)/p, the expected number of tails a head."""
        return int(2**self.flips) - 1

    @property
    def variance(self) -> float:
        """Noise variance of an empty cell in count units, (1 + 1/c) α/r²."""
        return (1 + 1 / self.odds) * self.alpha / self.r**2

    @property
    def slope(self) -> float:
        """How the noise variance grows with the count, (1 + 1/c)/r."""
        return (1 + 1 / self.odds) / self.r

    @property
    def law(self) -> NoiseLaw:
        """Gamma-shaped; nearly normal."""
        return NoiseLaw(variance=self.variance, slope=self.slope)

    def loss(self, neighbours: Neighbours = "replace-one", *, rows: int = 1) -> PrivacyLoss:
        """The exact loss of one table on its lattice; persons with several rows through the gamma curve above it."""
        high, low, rows = self.alpha + self.r, self.alpha, check_whole("rows", rows)
        if rows == 1:
            remove: Any = ((NegativeBinomialTerm(shape_p=high, shape_q=low, flips=self.flips), 1),)
            add: Any = ((NegativeBinomialTerm(shape_p=low, shape_q=high, flips=self.flips), 1),)
        else:
            remove, add = (
                ((RenyiOnly(GammaTerm(float(rows * self.r), float(low), removing)), 1),) for removing in (True, False)
            )
        if check_neighbours(neighbours) == "replace-one":
            return PrivacyLoss(neighbours, (remove + add,))
        return PrivacyLoss(neighbours, (remove, add))

    def draw(self, counts: IntArray, entropy: Entropy, *, most: int | None = None) -> IntArray:
        """Tails before the (r·count + α)-th head, cell by cell; only random bits are read.

        The work grows with the count. With `most`, a public bound on every count, each cell does the work of the bound.
        """
        if self.r * int(counts.max(initial=0)) + self.alpha >= 1 << 62:
            raise InvalidArgument(
                "counts", "small enough for this r", hint="Use the Gaussian mechanism for tables with so large counts."
            )
        upper = None if most is None else self.r * check_whole("most", most, at_least=0) + self.alpha
        return negative_binomial(self.r * counts + self.alpha, self.flips, entropy, upper=upper)

    @discreet
    def release(
        self,
        counts: ArrayLike,
        *,
        neighbours: Neighbours = "replace-one",
        entropy: Entropy | int | None = None,
        most: int | None = None,
    ) -> Draw:
        """Draw once; `most` is a public bound on every count that makes the work independent of the counts."""
        if most is None:
            return release_counts(self, counts, neighbours, entropy)
        return release_counts(self, counts, neighbours, entropy, most=check_whole("most", most, at_least=0))

    def unbiased(self, values: NDArray[Any], total: float | None) -> tuple[FloatArray, float, float]:  # noqa: ARG002
        """(X/c − α)/r, its variance at an empty cell and the slope; the total is not needed."""
        return (values / self.odds - self.alpha) / self.r, self.variance, self.slope

    def check_values(self, values: NDArray[Any], total: float | None) -> None:
        """Whole numbers of at least 0."""
        super().check_values(values, total)
        check_not_below_zero(self, values)

    def cell_loss(self, values: NDArray[Any], rows: int = 1) -> FloatArray:
        """ln Γ(x + α + nr)/Γ(x + α) for n rows."""
        rows = check_whole("rows", rows)
        return np.asarray(special.gammaln(values + self.alpha + rows * self.r) - special.gammaln(values + self.alpha))

    def at(self, variance: float, cells: int) -> Polya:  # noqa: ARG002
        """Of the same r, with one coin flip a head."""
        return Polya(r=self.r, alpha=max(1, math.ceil(variance * self.r**2 / 2)))

    def expected_kl(self, counts: ArrayLike, *, constant: float | None = None) -> float:
        """E KL(f/N ‖ q) of q ∝ max(estimate, 0) + constant; half a standard deviation by default. Not private."""
        constant = math.sqrt(self.variance) / 2 if constant is None else check_positive("constant", constant)
        return expected_kl(counts, self._law, constant)

    def _law(self, count: int) -> Law:
        from scipy.stats import nbinom  # slow import, needed here only

        n, p = self.r * count + self.alpha, 2.0**-self.flips
        mean, sd = n * self.odds, math.sqrt(n * self.odds * (self.odds + 1))
        x = np.arange(max(0, math.floor(mean - 12 * sd)), math.ceil(mean + 14 * sd + 40))
        return Law(values=(x / self.odds - self.alpha) / self.r, probabilities=nbinom.pmf(x, n, p))

    @classmethod
    def calibrate(
        cls,
        budget: Budget,
        *,
        tables: int = 1,
        neighbours: Neighbours = "replace-one",
        r: int | None = None,
        flips: int = 1,
        total: float | None = None,
        cells: int | None = None,
        rows: int = 1,
    ) -> Polya:
        """The smallest α for which `tables` such releases fit the budget, at the given or a chosen r.

        A larger r lowers the noise that grows with the count but costs more coin flips: r is the smallest for which
        that noise is below 3 % at the public average count, within the limit of MOST_FLIPS a cell.
        """
        tables, flips, rows = check_whole("tables", tables), check_whole("flips", flips), check_whole("rows", rows)
        no_pure_guarantee(budget, "Pólya noise")
        total = None if total is None else check_positive("total", total)
        cells = None if cells is None else check_whole("cells", cells)
        if r is None:
            r = _choose_r(noise_scale(budget, tables) * rows, flips, total, cells)
        r = check_whole("r", r)

        def excess(alpha: int) -> float:
            return (tables * cls(r=r, alpha=alpha, flips=flips).loss(neighbours, rows=rows)).excess(budget)

        odds = 2**flips - 1
        sigma = _gaussian_scale(budget, tables) * rows
        if neighbours == "add-remove":
            sigma /= math.sqrt(2)
        start = math.ceil(r * r * sigma**2 * odds / (odds + 1))
        return cls(r=r, alpha=smallest_integer_that_fits(excess, start), flips=flips)


def _gaussian_scale(budget: Budget, tables: int) -> float:
    """The standard deviation that continuous Gaussian noise would need: within a per cent a start for any noise."""
    rough = noise_scale(budget, tables)
    if budget.delta is None:
        return rough

    def excess(variance: float) -> float:
        delta = gaussian_delta(budget.epsilon, 2 * tables / variance).upper
        return math.log(max(delta, 1e-300) / budget.delta)  # type: ignore[operator]  # not None, see above

    found = math.sqrt(smallest_that_fits(excess, rough**2, rtol=1e-4))
    return found if math.isfinite(found) else rough


def _choose_r(sigma: float, flips: int, total: float | None, cells: int | None) -> int:
    """The smallest r with N/(d r σ²) ≤ 0.03, as far as the flips allow; 3 when the size is not public."""
    wanted = 3 if total is None or cells is None else max(1, math.ceil(total / (cells * 0.03 * sigma**2)))
    per_head = 2**flips
    affordable = math.isqrt(max(1, int(MOST_FLIPS / (per_head * sigma**2 / 2 + 1))))
    return max(1, min(wanted, affordable))
