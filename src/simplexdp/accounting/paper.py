"""Published guarantees of the Dirichlet mechanism: Theorem 1 and Algorithm 1 of the paper, and Gohari et al. (2021).

Theorem 1's Rényi bound and the parameters of Algorithm 1 with Remarks 1 and 2:

    ε = ½ λ r² Δ₂² ψ'(1 + g(r) + r b),   α = 1 + g(r) + (λ−1) r Δ∞,   g(r) = 3(λ−1) r Δ∞ unless given.

It holds for any vector-valued query with sensitivities Δ₂ and Δ∞ whose coordinates all exceed b. For count tables the
exact loss (accounting.smooth) is smaller.

Gohari's (ε, δ) guarantee, computed stably. With k = rN + dα and any γ in (0, 1/2), for a table of d cells with public
total N:

    ε = ln B(α, rN+α) − ln B(α+r, rN+α−r) + r ln((1−γ)/γ)
    δ = 1 − min Pr[Y_i ≥ γ and Y_j ≥ γ] = 2 I_γ(α, k−α) − Pr[Y_i < γ, Y_j < γ]   (d ≥ 3)
    δ = I_γ(α, k−α) + I_γ(k−α, α)                                                  (d = 2)

δ is computed as it stands, never as one minus a probability close to one; that subtraction is why the published figure
stops at 2.1e-4.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ..budget import check_fraction, check_not_negative, check_order, check_positive, check_whole, convert
from ..errors import Infeasible, InvalidArgument
from ..lazy import special
from ..numerics.printed import printed
from ..numerics.roots import largest_that_fits


@dataclass(frozen=True, kw_only=True)
class Sensitivity:
    """How far one record can move a vector-valued query: Δ₂² and Δ∞, and a known lower bound b of every coordinate."""

    l2_squared: float = 2.0
    linf: float = 1.0
    lower: float = 0.0

    def __post_init__(self) -> None:
        convert(
            self,
            l2_squared=lambda name, value: check_positive(name, value, rounded="up"),
            linf=lambda name, value: check_positive(name, value, rounded="up"),
            lower=lambda name, value: check_not_negative(name, value, rounded="down"),
        )
        if self.linf**2 > self.l2_squared * (1 + 1e-15):
            raise InvalidArgument(
                "linf", "at most the square root of l2_squared", got=self.linf, hint="Δ∞ cannot exceed Δ₂."
            )


def trigamma(x: float) -> float:
    """ψ'(x) = Σ_{k≥0} 1/(x+k)²."""
    return float(special.zeta(2.0, check_positive("x", x)))


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
    order, epsilon = check_order(order), check_positive("epsilon", epsilon, rounded="down")
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
        second = float(special.zeta(2.0, x))
        miss = math.log(front * r * r * second / epsilon)
        r *= math.exp(-miss / (2 - 2 * q * r * float(special.zeta(3.0, x)) / second))
        if abs(miss) < 1e-14:
            break
    return r


_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(80)


def gohari_delta(gamma: float, *, concentration: float, alpha: float, cells: int) -> float:
    """δ(γ) for k = `concentration`, both changed cells at their smallest share α/k.

    >>> f"{gohari_delta(1e-3, concentration=171.87, alpha=4.88, cells=6):.3e}"
    '3.031e-06'
    """
    gamma, alpha = check_fraction("gamma", gamma), check_positive("alpha", alpha)
    concentration, cells = check_positive("concentration", concentration), check_whole("cells", cells, at_least=2)
    if gamma >= 0.5:
        raise InvalidArgument("gamma", "below 1/2", got=gamma)
    a, rest = alpha, concentration - 2 * alpha
    if cells == 2:
        return float(special.betainc(a, concentration - a, gamma) + special.betainc(concentration - a, a, gamma))
    single = float(special.betainc(a, concentration - a, gamma))
    # y = γ t^{1/a} takes the power out of the integrand of Pr[both < γ].
    t = (_NODES + 1) / 2
    y = gamma * t ** (1 / a)
    front = (
        a * math.log(gamma) - math.log(a) - special.betaln(a, a + rest)
    )  # may be huge where the rest is tiny: stay in logs
    inner = np.exp(front + (a + rest - 1) * np.log1p(-y)) * special.betainc(a, rest, np.minimum(gamma / (1 - y), 1.0))
    both = float(_WEIGHTS @ inner) / 2
    return 2 * single - both * (1 - 1e-9)


def gohari_epsilon(gamma: float, *, r: float, alpha: float, total: float) -> float:
    """ε(γ), rounded up by more than the error of the two log-beta functions."""
    gamma, r = check_fraction("gamma", gamma), check_positive("r", r)
    alpha, total = check_positive("alpha", alpha), check_positive("total", total)
    first = float(special.betaln(alpha, r * total + alpha))
    second = float(special.betaln(alpha + r, r * total + alpha - r))
    value = first - second + r * (math.log1p(-gamma) - math.log(gamma))
    return value * (1 + 1e-12) + 1e-14 * (abs(first) + abs(second))


def gohari_guarantee(*, r: float, alpha: float, total: float, cells: int, delta: float) -> float:
    """The smallest ε that Gohari's theorem gives at this δ: γ as large as δ allows.

    >>> round(gohari_guarantee(r=0.11, alpha=4.881108, total=1283, cells=6, delta=1e-5), 2) > 0
    True
    """
    r, alpha, total = check_positive("r", r), check_positive("alpha", alpha), check_positive("total", total)
    cells, delta = check_whole("cells", cells, at_least=2), check_fraction("delta", delta, rounded="down")
    k = r * total + cells * alpha

    def excess(gamma: float) -> float:
        if gamma >= 0.5:
            return math.inf
        value = gohari_delta(gamma, concentration=k, alpha=alpha, cells=cells)
        return math.log(value / delta) if value > 0 else -math.inf

    gamma = largest_that_fits(excess, 1e-3)
    if gamma <= 0:
        raise Infeasible(f"no gamma reaches delta = {printed(delta)} in Gohari's guarantee. Take a larger alpha.")
    return gohari_epsilon(gamma, r=r, alpha=alpha, total=total)
