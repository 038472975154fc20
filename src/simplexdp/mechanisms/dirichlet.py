"""The Dirichlet mechanism: release one draw from Dirichlet(r·counts + α)."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..accounting.loss import PrivacyLoss
from ..accounting.paper import Sensitivity, TheoremOneTerm, algorithm1, gohari_guarantee
from ..accounting.smooth import GammaTerm
from ..accounting.terms import RenyiOnly
from ..budget import (
    Budget,
    Neighbours,
    check_fraction,
    check_neighbours,
    check_not_negative,
    check_positive,
    check_whole,
    convert,
)
from ..errors import Infeasible, InvalidArgument, discreet
from ..labelled import check_unlabelled
from ..lazy import optimize, special
from ..noisy import FloatArray, NoiseLaw
from ..numerics import as_array
from ..numerics.printed import printed
from ..numerics.roots import largest_that_fits
from ..sampling import Entropy, entropy_from
from ..sampling.dirichlet import dirichlet
from .base import (
    Draw,
    IntArray,
    Limits,
    TableMechanism,
    calibrate_upwards,
    checked_counts,
    no_pure_guarantee,
    noise_scale,
    release_counts,
)

MOST = 1 << 37
"""The largest count and the largest α/r for which ROOM covers the rounding; larger counts are taken as this."""
ROOM = 2.0**-13
"""The draw uses r·(1 − ROOM): what is left of r is more than rounding can move two neighbouring shapes apart."""

_SUM = 1e-9
"""How far the sum of a draw may be from 1."""


@dataclass(frozen=True, kw_only=True)
class Dirichlet(TableMechanism):
    """One draw y ~ Dirichlet(r f + α); the paper's mechanism, drawn in floating point.

    The loss is that of r and α. The draw has a slightly smaller r, so that the shapes of neighbours differ by r at
    most also when they are rounded; α above 2³⁷·r is refused, because there they could not be told apart from noise of
    the rounding. Proof: docs/proofs/dirichlet.md.

    >>> Dirichlet.algorithm1(order=5, epsilon=1.0)
    Dirichlet(r=2.441..., alpha=40.05...)
    """

    name: ClassVar[str] = "dirichlet"
    limits: ClassVar[Mapping[str, Limits]] = {
        "r": Limits(1e-9, 1e12, "multiplier of the counts"),
        "alpha": Limits(1e-9, 1e15, "prior of each cell"),
    }
    draws_shares: ClassVar[bool] = True
    not_covered: ClassVar[str] = (
        "rounding: the Dirichlet draw is made in floating point, whose low bits can tell neighbours apart"
    )
    r: float
    alpha: float

    def __post_init__(self) -> None:
        convert(self, r=check_positive, alpha=check_positive)
        if self.alpha > MOST * self.r:
            raise InvalidArgument(
                "alpha",
                "at most 2^37 times r",
                got=self.alpha,
                hint="Beyond that one record moves the shapes by little more than the rounding of floating point.",
            )

    @property
    def drawn_r(self) -> float:
        """What the counts are multiplied by in the draw: r, less the room for rounding."""
        return self.r * (1 - ROOM)

    # -- privacy -------------------------------------------------------------------------------------------------

    def loss(self, neighbours: Neighbours = "replace-one", *, rows: int = 1, lower: float = 0.0) -> PrivacyLoss:
        """The exact loss of one count table, however many cells and strata it has.

        Args:
            neighbours: the relation the guarantee speaks of.
            rows: how many rows one person may have; above 1 the loss is known through its Rényi curve.
            lower: a public lower bound on every count; the loss is then that of α + r·lower.
        """
        lower = min(check_not_negative("lower", lower, rounded="down"), MOST)
        # The smallest shape that a count of `lower` is drawn with, rounded down.
        alpha = self.alpha + (self.drawn_r * lower * (1 - 2.0**-40) if lower else 0.0)
        return _loss(self.r, alpha, neighbours, check_whole("rows", rows))

    def bound(self, sensitivity: Sensitivity, neighbours: Neighbours = "replace-one") -> PrivacyLoss:
        """Theorem 1's bound, which holds for any vector-valued query with these sensitivities."""
        return PrivacyLoss.of_term(TheoremOneTerm(self.r, self.alpha, _drawn(sensitivity)), neighbours)

    # -- release -------------------------------------------------------------------------------------------------

    def draw(self, counts: IntArray, entropy: Entropy) -> FloatArray:
        """One draw over all cells; the cells may have any shape. Counts above 2³⁷ are taken as 2³⁷."""
        return dirichlet(self.shapes(counts.ravel()), entropy).reshape(counts.shape)

    def shapes(self, counts: NDArray[Any], most: float = MOST) -> FloatArray:
        """The rounded shapes of the draw, which tell the counts: nothing hands them out."""
        most = check_positive("most", most)
        shapes: FloatArray = self.drawn_r * np.minimum(counts, most).astype(np.float64) + self.alpha
        return shapes

    @discreet
    def release(
        self,
        counts: ArrayLike,
        *,
        neighbours: Neighbours = "replace-one",
        entropy: Entropy | int | None = None,
        sensitivity: Sensitivity | None = None,
    ) -> Draw:
        """Draw once. With `sensitivity` the counts may be any non-negative query and Theorem 1's bound holds."""
        if sensitivity is None:
            if neighbours == "replace-one" and checked_counts(counts).sum() > MOST:  # the total is public there
                raise InvalidArgument("counts", "of at most 2^37 records", hint="Use the Gaussian mechanism.")
            return release_counts(self, counts, neighbours, entropy)
        check_unlabelled(counts)
        query = as_array(counts)
        if query.dtype.kind not in "iuf" or query.size < 2 or not np.isfinite(query).all() or (query < 0).any():
            raise InvalidArgument("counts", "finite, zero or more, for two or more coordinates")
        query = query.astype(np.float64)
        source = entropy_from(entropy)
        loss = self.bound(sensitivity, neighbours)
        most = MOST * min(math.sqrt(sensitivity.l2_squared / query.size), sensitivity.linf)
        if max(self.alpha / self.r, sensitivity.lower) > most:
            raise InvalidArgument(
                "sensitivity",
                "larger for this r, alpha and number of coordinates",
                hint="One record would move the shapes by little more than the rounding of floating point.",
            )
        values = dirichlet(self.shapes(query.ravel(), most), source).reshape(query.shape)
        return Draw(
            mechanism=self,
            neighbours=neighbours,
            values=values,
            loss=loss,
            entropy=source.kind,
            private=source.is_private,
        )

    # -- utility -------------------------------------------------------------------------------------------------

    def expected_kl(self, counts: ArrayLike) -> float:
        """E KL(f/N ‖ y) = Σ p ln p − Σ p (ψ(r f + α) − ψ(rN + dα)); reads the counts, so it is not private."""
        f = checked_counts(counts).ravel().astype(np.float64)
        return _expected_kl(f, self.drawn_r, self.alpha)

    def expected_kl_of_profile(self, profile: FloatArray) -> float:
        """The same for a public stand-in of the counts, which need not be whole."""
        return _expected_kl(profile, self.drawn_r, self.alpha)

    def unbiased(self, values: NDArray[Any], total: float | None) -> tuple[FloatArray, float, float]:
        """Values in count units, their noise variance at an empty cell, and how it grows with the count."""
        if total is None:
            raise Infeasible(
                "a Dirichlet draw is normalised, so counts cannot be had from it when the total is private. "
                "Use the Pólya mechanism under add-remove, or state a public total."
            )
        r, total = self.drawn_r, check_not_negative("total", total)
        scaled = values * (total + values.size * self.alpha / r)
        return scaled - self.alpha / r, self.law.variance, self.law.slope

    @property
    def law(self) -> NoiseLaw:
        """Gamma-shaped, of the r that is drawn with."""
        return NoiseLaw(variance=self.alpha / self.drawn_r**2, slope=1 / self.drawn_r)

    def check_values(self, values: NDArray[Any], total: float | None) -> None:  # noqa: ARG002
        """Positive, and one in all."""
        if not (values.dtype.kind == "f" and (values > 0).all() and abs(values.sum() - 1) <= _SUM):
            raise InvalidArgument("values", "probabilities above 0 that add up to 1, as a Dirichlet draw does")

    # -- audit ---------------------------------------------------------------------------------------------------

    def worst_pair(self, neighbours: Neighbours, rows: int = 1) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Under add-remove beside a rest as large as a draw takes, which tells the total to about 2⁻¹⁸."""
        first, second = super().worst_pair(neighbours, rows)
        return (first, second) if neighbours == "replace-one" else ((first[0], MOST), (second[0], MOST))

    def cell_loss(self, values: NDArray[Any], rows: int = 1) -> FloatArray:
        """n r ln y for n rows."""
        return np.asarray(check_whole("rows", rows) * self.r * np.log(values))

    # -- calibration ---------------------------------------------------------------------------------------------

    @classmethod
    def algorithm1(
        cls,
        *,
        order: float,
        epsilon: float,
        l2_squared: float = 2.0,
        linf: float = 1.0,
        lower: float = 0.0,
        g: Callable[[float], float] | None = None,
    ) -> Dirichlet:
        """The paper's Algorithm 1 for (order, ε)-RDP; Remark 1 through `g`, Remark 2 through `lower`."""
        sensitivity = Sensitivity(l2_squared=l2_squared, linf=linf, lower=lower)
        r, alpha = algorithm1(order, epsilon, _drawn(sensitivity), g)
        return cls._within(r, alpha)

    @classmethod
    def _within(cls, r: float, alpha: float) -> Dirichlet:
        """What a calibration found, if it can be drawn."""
        if alpha > MOST * r:
            raise Infeasible("no parameters fit that can be drawn: alpha would be above 2^37 times r")
        return cls(r=r, alpha=alpha)

    @classmethod
    def gohari(
        cls,
        *,
        epsilon: float,
        delta: float,
        total: float,
        cells: int,
        alpha: float | Callable[[float], float],
    ) -> Dirichlet:
        """The largest r whose guarantee by Gohari et al. is (ε, δ), at a fixed α or one that depends on r."""
        epsilon = check_positive("epsilon", epsilon, rounded="down")
        delta = check_fraction("delta", delta, rounded="down")
        total, cells = check_positive("total", total), check_whole("cells", cells, at_least=2)
        fixed = 0.0 if callable(alpha) else check_positive("alpha", alpha)
        rule = alpha if callable(alpha) else (lambda _: fixed)

        def excess(r: float) -> float:
            try:
                spent = gohari_guarantee(r=r, alpha=rule(r), total=total, cells=cells, delta=delta)
            except Infeasible:
                return math.inf
            return math.log(max(spent, 1e-300) / epsilon)

        r = largest_that_fits(excess, 0.1)
        if r < 1e-200:
            raise Infeasible(
                f"no r gives ({printed(epsilon)}, {printed(delta)})-DP in Gohari's guarantee at this alpha"
            )
        return cls._within(r, rule(r))

    @classmethod
    def diffused(
        cls, budget: Budget, *, alpha: float, tables: int = 1, neighbours: Neighbours = "replace-one"
    ) -> Dirichlet:
        """Geumlek et al. 2017: keep the prior α, take the largest r ≤ 1 that the budget covers."""
        alpha, tables = check_positive("alpha", alpha), check_whole("tables", tables)
        no_pure_guarantee(budget, _NAME)

        def excess(r: float) -> float:
            return (tables * _loss(r, alpha, neighbours)).excess(budget)

        return cls._within(1.0 if excess(1.0) <= 0 else largest_that_fits(excess, 0.1), alpha)

    @classmethod
    def concentrated(
        cls, budget: Budget, *, alpha: float = 1.0, tables: int = 1, neighbours: Neighbours = "replace-one"
    ) -> Dirichlet:
        """Geumlek et al. 2017: keep r = 1, raise the prior from α to α/m, the smallest that the budget covers."""
        alpha = check_positive("alpha", alpha)
        needed = cls.calibrate(budget, tables=tables, neighbours=neighbours, r=1.0)
        return replace(needed, alpha=max(needed.alpha, alpha))

    @classmethod
    def check_total(cls, total: float | None) -> None:
        """Refuse more records than a draw takes."""
        if total is not None and total > MOST:
            raise Infeasible(f"the Dirichlet mechanism is drawn for up to {MOST:,} records. Use Gaussian noise.")

    @classmethod
    def check_table(cls, *, total_is_public: bool, total: float | None, cells: int) -> None:  # noqa: ARG003
        """A draw is shares: counts need a public total, of no more records than a draw takes."""
        cls.check_total(total)
        if total is None:
            raise Infeasible(
                "the Dirichlet mechanism publishes shares, so it needs a public total: replace-one with rows as the "
                "unit, and counts that can be added up (whole numbers of at most 2^53). Use the Pólya mechanism where "
                "the total is private."
            )

    def at(self, variance: float, cells: int) -> Dirichlet:  # noqa: ARG002
        """Of the same r."""
        return Dirichlet(r=self.r, alpha=variance * self.r**2)

    @classmethod
    def calibrate(
        cls,
        budget: Budget,
        *,
        tables: int = 1,
        neighbours: Neighbours = "replace-one",
        r: float | None = None,
        total: float | None = None,
        cells: int | None = None,
        rows: int = 1,
    ) -> Dirichlet:
        """The parameters for `tables` such releases that use the whole budget and never exceed it.

        The budget leaves a curve of (r, α). Give `r`, or a public `total` and number of `cells`: then the pair with the
        lowest expected KL on a table with Zipf-distributed counts of that size is taken.
        """
        tables, rows = check_whole("tables", tables), check_whole("rows", rows)
        total = None if total is None else check_positive("total", total)
        cells = None if cells is None else check_whole("cells", cells, at_least=2)
        no_pure_guarantee(budget, _NAME)

        def alpha_for(r: float, rtol: float, start: float | None = None) -> float:
            floor = 0.5 if rows > 1 else 0.0
            needed = calibrate_upwards(
                lambda a: tables * _loss(r, max(a, floor), neighbours, rows),
                budget,
                start or _first_alpha(budget, tables, rows * r),
                rtol=rtol,
            )
            return max(needed, floor)

        if r is not None:
            r = check_positive("r", r)
            return cls._within(r, alpha_for(r, 1e-10))
        if total is None or cells is None:
            raise InvalidArgument(
                "r",
                "given, or chosen from a public total and number of cells",
                hint="Pass r=, or total= and cells=.",
            )
        profile = zipf_profile(total, cells)

        def kl(log_r: float) -> float:
            return _expected_kl(profile, math.exp(log_r), alpha_for(math.exp(log_r), 1e-3))

        sigma = noise_scale(budget, tables)
        middle = math.log(max(total / (len(profile) * sigma**2), 1 / sigma))
        best = optimize.minimize_scalar(kl, bounds=(middle - 5, middle + 4), method="bounded", options={"xatol": 0.05})
        r = float(f"{math.exp(float(best.x)):.2g}")  # the minimum is flat, and a short number is easy to state
        return cls._within(r, alpha_for(r, 1e-10))


_NAME = "the Dirichlet mechanism"


def _loss(r: float, alpha: float, neighbours: Neighbours, rows: int = 1) -> PrivacyLoss:
    """The loss of one table whose smallest shape is α and in which a row moves a shape by r at most."""
    remove, add = (GammaTerm(rows * r, alpha, removing) for removing in (True, False))
    if rows == 1:
        bags: tuple[Any, ...] = (((remove, 1),), ((add, 1),))
    else:
        if alpha < 0.5:
            raise Infeasible("a guarantee for persons with several rows needs alpha of at least 1/2", floor=0.5)
        bags = (((RenyiOnly(remove), 1),), ((RenyiOnly(add), 1),))
    if check_neighbours(neighbours) == "replace-one":
        return PrivacyLoss(neighbours, (bags[0] + bags[1],))
    return PrivacyLoss(neighbours, bags)


def _drawn(sensitivity: Sensitivity) -> Sensitivity:
    """The sensitivities with the lower bound that r times it is drawn with."""
    return replace(sensitivity, lower=sensitivity.lower * (1 - 2 * ROOM))


def zipf_profile(total: float, cells: int) -> FloatArray:
    """Counts proportional to 1, 1/2, 1/3, ...: the public stand-in for a table that is not known."""
    total, cells = check_positive("total", total), check_whole("cells", cells)
    weights = 1 / np.arange(1, min(cells, 100_000) + 1)
    profile: FloatArray = total * weights / weights.sum()
    return profile


def _expected_kl(f: FloatArray, r: float, alpha: float) -> float:
    total = float(f.sum())
    if total <= 0:
        raise InvalidArgument("counts", "not all zero", hint="An empty table has no distribution.")
    p = f / total
    inner = special.digamma(r * f + alpha) - special.digamma(r * total + f.size * alpha)
    return float(np.sum(special.xlogy(p, p)) - np.sum(p * inner))


def _first_alpha(budget: Budget, tables: int, r: float) -> float:
    """About the α that is needed: in the limit of large r it is r²σ² of the Gaussian."""
    order = budget.order if budget.order is not None else 1.0
    return r * r * noise_scale(budget, tables) ** 2 + (order - 1) * r + 0.1
