"""The paper's own accounting: Theorem 1's Rényi bound and the parameters of Algorithm 1 with Remarks 1 and 2.

    ε = ½ λ r² Δ₂² ψ'(1 + g(r) + r b),   α = 1 + g(r) + (λ−1) r Δ∞,   g(r) = 3(λ−1) r Δ∞ unless given.

It holds for any vector-valued query with sensitivities Δ₂ and Δ∞ whose coordinates all exceed b. For count tables the
exact loss (accounting.smooth) is smaller.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from scipy.special import zeta

from ..budget import check_order, check_positive
from ..errors import InvalidArgument
from ..numerics.roots import largest_that_fits


@dataclass(frozen=True, kw_only=True)
class Sensitivity:
    """How far one record can move a vector-valued query: Δ₂² and Δ∞, and a known lower bound b of every coordinate."""

    l2_squared: float = 2.0
    linf: float = 1.0
    lower: float = 0.0

    def __post_init__(self) -> None:
        check_positive("l2_squared", self.l2_squared)
        check_positive("linf", self.linf)
        if not (math.isfinite(self.lower) and self.lower >= 0):
            raise InvalidArgument("lower", "a finite number, 0 or more", got=self.lower)
        if self.linf**2 > self.l2_squared:
            raise InvalidArgument(
                "linf", "at most the square root of l2_squared", got=self.linf, hint="Δ∞ cannot exceed Δ₂."
            )


def trigamma(x: float) -> float:
    """ψ'(x) = Σ_{k≥0} 1/(x+k)²."""
    return float(zeta(2.0, x))


@dataclass(frozen=True)
class TheoremOneTerm:
    """Theorem 1's bound as a loss: known through its Rényi curve only, for one direction or the other."""

    r: float
    alpha: float
    sensitivity: Sensitivity

    @property
    def domain(self) -> tuple[float, float]:
        """The theorem needs α ≥ 1 + g + (λ−1) r Δ∞ for some g ≥ 0; the last order itself is included."""
        return -1.0, math.nextafter((self.alpha - 1) / (self.r * self.sensitivity.linf), math.inf)

    def rate(self, w: float) -> float:
        """½ (1+w) r² Δ₂² ψ'(1 + g + r b) with the largest g that α leaves."""
        s = self.sensitivity
        argument = max(self.alpha - w * self.r * s.linf, 1.0) + self.r * s.lower
        return 0.5 * (1 + w) * self.r**2 * s.l2_squared * trigamma(argument)


def algorithm1(
    order: float,
    epsilon: float,
    sensitivity: Sensitivity | None = None,
    g: Callable[[float], float] | None = None,
) -> tuple[float, float]:
    """(r, α) of Algorithm 1 for (order, ε)-RDP, r rounded down and α up.

    Args:
        order: the Rényi order λ ≥ 1.
        epsilon: the Rényi ε.
        sensitivity: of the query; by default a count table under replace-one.
        g: Remark 1's function of r, non-negative; the bound must increase in r. Default 3(λ−1) r Δ∞.
    """
    order, epsilon = check_order(order), check_positive("epsilon", epsilon)
    if math.isinf(order):
        raise InvalidArgument("order", "finite", got=order, hint="The Dirichlet mechanism is never pure DP.")
    s = sensitivity or Sensitivity()
    slope = (order - 1) * s.linf
    if g is None:
        # Rounded well inside, so that the bound at these r, α holds at any precision; costs 1e-12 of ε.
        r = _newton(order, epsilon * (1 - 1e-12), s, 3 * slope)
        return r, math.nextafter(1 + 4 * slope * r * (1 + 1e-15), math.inf)

    def spent(r: float) -> float:
        extra = g(r)
        if not extra >= 0:
            raise InvalidArgument("g", "a function with values of 0 or more", hint="See Remark 1.")
        return 0.5 * order * r * r * s.l2_squared * trigamma(1 + extra + r * s.lower)

    target = epsilon * (1 - 1e-12)
    r = largest_that_fits(lambda x: math.log(spent(x)) - math.log(target), 1.0, rtol=1e-13)
    return r, (1 + g(r) + slope * r) * (1 + 1e-15)


def _newton(order: float, epsilon: float, s: Sensitivity, g_slope: float) -> float:
    """r with ½ λ r² Δ₂² ψ'(1 + q r) = ε, q = g_slope + b, by Newton's method on logarithms.

    ln of the left side has slope between 1 and 2 in ln r, so the iteration converges from anywhere.
    """
    q = g_slope + s.lower
    front = 0.5 * order * s.l2_squared
    r = max(math.sqrt(epsilon / (front * 1.6449340668482264)), epsilon * q / front if q else 0.0)
    for _ in range(60):
        x = 1 + q * r
        second = float(zeta(2.0, x))
        miss = math.log(front * r * r * second / epsilon)
        r *= math.exp(-miss / (2 - 2 * q * r * float(zeta(3.0, x)) / second))
        if abs(miss) < 1e-14:
            break
    return r
