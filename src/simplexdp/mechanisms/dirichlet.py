"""The Dirichlet mechanism: release one draw from Dirichlet(r·counts + α)."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import minimize_scalar
from scipy.special import digamma, xlogy

from ..accounting.gohari import gohari_guarantee
from ..accounting.loss import PrivacyLoss
from ..accounting.paper import Sensitivity, TheoremOneTerm, algorithm1
from ..accounting.person import RenyiOnly
from ..accounting.smooth import GammaTerm
from ..budget import Budget, Neighbours, check_neighbours, check_positive, check_whole
from ..errors import Infeasible, InvalidArgument
from ..numerics.roots import largest_that_fits
from ..sampling.dirichlet import dirichlet
from ..sampling.entropy import Entropy, entropy_from
from .base import (
    Draw,
    FloatArray,
    IntArray,
    Parametrised,
    as_array,
    calibrate_upwards,
    checked_counts,
    noise_scale,
    release_counts,
)


@dataclass(frozen=True, kw_only=True)
class Dirichlet(Parametrised):
    """One draw y ~ Dirichlet(r f + α); the paper's mechanism, drawn in floating point.

    Proof: docs/proofs/dirichlet.md.

    >>> Dirichlet.algorithm1(order=5, epsilon=1.0)
    Dirichlet(r=2.441..., alpha=40.05...)
    """

    name: ClassVar[str] = "dirichlet"
    r: float
    alpha: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "r", check_positive("r", self.r))
        object.__setattr__(self, "alpha", check_positive("alpha", self.alpha))

    # -- privacy -------------------------------------------------------------------------------------------------

    def loss(self, neighbours: Neighbours = "replace-one", *, rows: int = 1, lower: float = 0.0) -> PrivacyLoss:
        """The exact loss of one count table, however many cells and strata it has.

        Args:
            neighbours: the relation the guarantee speaks of.
            rows: how many rows one person may have; above 1 the loss is known through its Rényi curve.
            lower: a public lower bound on every count; the loss is then that of α + r·lower.
        """
        if not (math.isfinite(lower) and lower >= 0):
            raise InvalidArgument("lower", "a finite number, 0 or more", got=lower)
        alpha, rows = self.alpha + self.r * lower, check_whole("rows", rows)
        remove, add = (GammaTerm(rows * self.r, alpha, removing) for removing in (True, False))
        if rows == 1:
            bags: tuple[Any, ...] = (((remove, 1),), ((add, 1),))
        else:
            if alpha < 0.5:
                raise Infeasible("a guarantee for persons with several rows needs alpha of at least 1/2", floor=0.5)
            bags = (((RenyiOnly(remove), 1),), ((RenyiOnly(add), 1),))
        if check_neighbours(neighbours) == "replace-one":
            return PrivacyLoss(neighbours, (bags[0] + bags[1],))
        return PrivacyLoss(neighbours, bags)

    def bound(self, sensitivity: Sensitivity, neighbours: Neighbours = "replace-one") -> PrivacyLoss:
        """Theorem 1's bound, which holds for any vector-valued query with these sensitivities."""
        return PrivacyLoss.of_term(TheoremOneTerm(self.r, self.alpha, sensitivity), neighbours)

    # -- release -------------------------------------------------------------------------------------------------

    def draw(self, counts: IntArray, entropy: Entropy) -> FloatArray:
        """One draw over all cells; the cells may have any shape."""
        shapes = self.r * counts.ravel().astype(np.float64) + self.alpha
        return dirichlet(shapes, entropy).reshape(counts.shape)

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
            return release_counts(self, counts, neighbours, entropy)
        query = as_array(counts)
        if query.dtype.kind not in "iuf" or query.size < 2 or not np.isfinite(query).all() or (query < 0).any():
            raise InvalidArgument("counts", "finite, zero or more, for two or more coordinates")
        query = query.astype(np.float64)
        source = entropy_from(entropy)
        loss = self.bound(sensitivity, neighbours)
        values = dirichlet(self.r * query.ravel() + self.alpha, source).reshape(query.shape)
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
        return _expected_kl(f, self.r, self.alpha)

    def expected_kl_of_profile(self, profile: FloatArray) -> float:
        """The same for a public stand-in of the counts, which need not be whole."""
        return _expected_kl(profile, self.r, self.alpha)

    def unbiased(self, values: NDArray[Any], total: float | None) -> tuple[FloatArray, float, float]:
        """Values in count units, their noise variance at an empty cell, and how it grows with the count."""
        if total is None:
            raise Infeasible(
                "a Dirichlet draw is normalised, so counts cannot be had from it when the total is private. "
                "Use the Pólya mechanism under add-remove, or state a public total."
            )
        scaled = values * (total + values.size * self.alpha / self.r)
        return scaled - self.alpha / self.r, self.alpha / self.r**2, 1 / self.r

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
        r, alpha = algorithm1(order, epsilon, sensitivity, g)
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
        epsilon = check_positive("epsilon", epsilon)
        rule = alpha if callable(alpha) else (lambda _: alpha)

        def excess(r: float) -> float:
            try:
                spent = gohari_guarantee(r=r, alpha=rule(r), total=total, cells=cells, delta=delta)
            except Infeasible:
                return math.inf
            return math.log(max(spent, 1e-300) / epsilon)

        r = largest_that_fits(excess, 0.1)
        if r < 1e-200:
            raise Infeasible(f"no r gives ({epsilon:g}, {delta:g})-DP in Gohari's guarantee at this alpha")
        return cls(r=r, alpha=rule(r))

    @classmethod
    def diffused(
        cls, budget: Budget, *, alpha: float, tables: int = 1, neighbours: Neighbours = "replace-one"
    ) -> Dirichlet:
        """Geumlek et al. 2017: keep the prior α, take the largest r ≤ 1 that the budget covers."""
        alpha, tables = check_positive("alpha", alpha), check_whole("tables", tables)

        def excess(r: float) -> float:
            return (tables * cls(r=r, alpha=alpha).loss(neighbours)).excess(budget)

        return cls(r=1.0 if excess(1.0) <= 0 else largest_that_fits(excess, 0.1), alpha=alpha)

    @classmethod
    def concentrated(
        cls, budget: Budget, *, alpha: float = 1.0, tables: int = 1, neighbours: Neighbours = "replace-one"
    ) -> Dirichlet:
        """Geumlek et al. 2017: keep r = 1, raise the prior from α to α/m, the smallest that the budget covers."""
        needed = cls.calibrate(budget, tables=tables, neighbours=neighbours, r=1.0)
        return replace(needed, alpha=max(needed.alpha, check_positive("alpha", alpha)))

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
        tables = check_whole("tables", tables)

        def alpha_for(r: float, rtol: float, start: float | None = None) -> float:
            floor = 0.5 if rows > 1 else 0.0
            needed = calibrate_upwards(
                lambda a: tables * cls(r=r, alpha=max(a, floor)).loss(neighbours, rows=rows),
                budget,
                start or _first_alpha(budget, tables, rows * r),
                rtol=rtol,
            )
            return max(needed, floor)

        if r is not None:
            r = check_positive("r", r)
            return cls(r=r, alpha=alpha_for(r, 1e-10))
        if total is None or cells is None:
            raise InvalidArgument(
                "r",
                "given, or chosen from a public total and number of cells",
                hint="Pass r=, or total= and cells=.",
            )
        profile = zipf_profile(check_positive("total", total), check_whole("cells", cells, at_least=2))

        def kl(log_r: float) -> float:
            return _expected_kl(profile, math.exp(log_r), alpha_for(math.exp(log_r), 1e-3))

        sigma = noise_scale(budget, tables)
        middle = math.log(max(total / (len(profile) * sigma**2), 1 / sigma))
        best = minimize_scalar(kl, bounds=(middle - 5, middle + 4), method="bounded", options={"xatol": 0.05})
        r = float(f"{math.exp(float(best.x)):.2g}")  # the minimum is flat, and a short number is easy to state
        return cls(r=r, alpha=alpha_for(r, 1e-10))


def zipf_profile(total: float, cells: int) -> FloatArray:
    """Counts proportional to 1, 1/2, 1/3, ...: the public stand-in for a table that is not known."""
    weights = 1 / np.arange(1, min(cells, 100_000) + 1)
    profile: FloatArray = total * weights / weights.sum()
    return profile


def _expected_kl(f: FloatArray, r: float, alpha: float) -> float:
    total = float(f.sum())
    if total <= 0:
        raise InvalidArgument("counts", "not all zero", hint="An empty table has no distribution.")
    p = f / total
    inner = digamma(r * f + alpha) - digamma(r * total + f.size * alpha)
    return float(np.sum(xlogy(p, p)) - np.sum(p * inner))


def _first_alpha(budget: Budget, tables: int, r: float) -> float:
    """About the α that is needed: in the limit of large r it is r²σ² of the Gaussian."""
    order = budget.order if budget.order is not None else 1.0
    return r * r * noise_scale(budget, tables) ** 2 + (order - 1) * r + 0.1
