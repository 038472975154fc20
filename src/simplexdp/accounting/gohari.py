"""The (ε, δ) guarantee of Gohari et al. (2021) for the Dirichlet mechanism, computed stably.

With k = rN + dα and any γ in (0, 1/2), for a table of d cells with public total N:

    ε = ln B(α, rN+α) − ln B(α+r, rN+α−r) + r ln((1−γ)/γ)
    δ = 1 − min Pr[Y_i ≥ γ and Y_j ≥ γ] = 2 I_γ(α, k−α) − Pr[Y_i < γ, Y_j < γ]   (d ≥ 3)
    δ = I_γ(α, k−α) + I_γ(k−α, α)                                                  (d = 2)

δ is computed as it stands, never as one minus a probability close to one; that subtraction is why the published figure
stops at 2.1e-4.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import betainc, betaln

from ..budget import check_fraction, check_positive, check_whole
from ..errors import Infeasible, InvalidArgument
from ..numerics.roots import largest_that_fits

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(80)


def gohari_delta(gamma: float, *, concentration: float, alpha: float, cells: int) -> float:
    """δ(γ) for k = `concentration`, both changed cells at their smallest share α/k.

    >>> f"{gohari_delta(1e-3, concentration=171.87, alpha=4.88, cells=6):.3e}"
    '3.031e-06'
    """
    gamma = check_fraction("gamma", gamma)
    if gamma >= 0.5:
        raise InvalidArgument("gamma", "below 1/2", got=gamma)
    a, rest = alpha, concentration - 2 * alpha
    if cells == 2:
        return float(betainc(a, concentration - a, gamma) + betainc(concentration - a, a, gamma))
    single = float(betainc(a, concentration - a, gamma))
    # y = γ t^{1/a} takes the power out of the integrand of Pr[both < γ].
    t = (_NODES + 1) / 2
    y = gamma * t ** (1 / a)
    front = a * math.log(gamma) - math.log(a) - betaln(a, a + rest)  # may be huge where the rest is tiny: stay in logs
    inner = np.exp(front + (a + rest - 1) * np.log1p(-y)) * betainc(a, rest, np.minimum(gamma / (1 - y), 1.0))
    both = float(_WEIGHTS @ inner) / 2
    return 2 * single - both * (1 - 1e-9)


def gohari_epsilon(gamma: float, *, r: float, alpha: float, total: float) -> float:
    """ε(γ), rounded up by more than the error of the two log-beta functions."""
    first = float(betaln(alpha, r * total + alpha))
    second = float(betaln(alpha + r, r * total + alpha - r))
    value = first - second + r * (math.log1p(-gamma) - math.log(gamma))
    return value * (1 + 1e-12) + 1e-14 * (abs(first) + abs(second))


def gohari_guarantee(*, r: float, alpha: float, total: float, cells: int, delta: float) -> float:
    """The smallest ε that Gohari's theorem gives at this δ: γ as large as δ allows.

    >>> round(gohari_guarantee(r=0.11, alpha=4.881108, total=1283, cells=6, delta=1e-5), 2) > 0
    True
    """
    r, alpha, total = check_positive("r", r), check_positive("alpha", alpha), check_positive("total", total)
    cells, delta = check_whole("cells", cells, at_least=2), check_fraction("delta", delta)
    k = r * total + cells * alpha

    def excess(gamma: float) -> float:
        if gamma >= 0.5:
            return math.inf
        value = gohari_delta(gamma, concentration=k, alpha=alpha, cells=cells)
        return math.log(value / delta) if value > 0 else -math.inf

    gamma = largest_that_fits(excess, 1e-3)
    if gamma <= 0:
        raise Infeasible(f"no gamma reaches delta = {delta:g} in Gohari's guarantee. Take a larger alpha.")
    return gohari_epsilon(gamma, r=r, alpha=alpha, total=total)
