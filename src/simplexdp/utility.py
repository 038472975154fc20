"""How far a Dirichlet draw is from the counts: bias, variance, tails, sample sizes, and two facts of the paper.

y ~ Dirichlet(r f + α) with the r of the draw (`Dirichlet.drawn_r`), p = f/N, β = rN. Theorem 2 of the paper: for
β ≥ dα/(e^{η/2} − 1),

    Pr[KL(p ‖ y) > η] ≤ exp(−β η² / (2(2+η)(4+3η))).

The paper states it for every α > 0, but its proof needs α ≥ ½ and below that it is false (docs/proofs/paper).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .budget import check_fraction, check_positive, check_whole
from .errors import Infeasible, InvalidArgument
from .lazy import special
from .mechanisms.base import checked_counts
from .mechanisms.dirichlet import Dirichlet

FloatArray = NDArray[np.float64]


def bias(mechanism: Dirichlet, counts: ArrayLike) -> FloatArray:
    """E y − f/N = α (N − d f) / (N (rN + dα)), cell by cell. Reads the counts: not private."""
    f, total = _profile(counts)
    r, alpha = mechanism.drawn_r, mechanism.alpha
    out: FloatArray = alpha * (total - f.size * f) / (total * (r * total + f.size * alpha))
    return out


def variance(mechanism: Dirichlet, counts: ArrayLike) -> FloatArray:
    """Var y = u (u₀ − u) / (u₀² (u₀ + 1)) with u = r f + α and u₀ their sum. Reads the counts: not private."""
    f, total = _profile(counts)
    u = mechanism.drawn_r * f + mechanism.alpha
    u0 = mechanism.drawn_r * total + f.size * mechanism.alpha
    out: FloatArray = u * (u0 - u) / (u0**2 * (u0 + 1))
    return out


def tail_bound(mechanism: Dirichlet, *, total: float, cells: int, eta: float) -> float:
    """Theorem 2's bound on Pr[KL > η]; 1 where α < ½ or its condition on β = rN fails, since it then says nothing."""
    total, eta = check_positive("total", total), check_positive("eta", eta)
    cells = check_whole("cells", cells, at_least=2)
    beta = mechanism.drawn_r * total
    if mechanism.alpha < 0.5 or beta < cells * mechanism.alpha / math.expm1(eta / 2):
        return 1.0
    return math.exp(-beta * _tail_rate(eta))


def smallest_total(mechanism: Dirichlet, *, cells: int, eta: float, probability: float) -> int:
    """The smallest N for which Theorem 2 gives Pr[KL > η] ≤ probability."""
    eta, probability = check_positive("eta", eta), check_fraction("probability", probability)
    cells = check_whole("cells", cells, at_least=2)
    if mechanism.alpha < 0.5:
        raise Infeasible("Theorem 2 needs alpha of at least 1/2; no number of records makes it hold below", floor=0.5)
    for_tail = -math.log(probability) / _tail_rate(eta)
    for_condition = cells * mechanism.alpha / math.expm1(eta / 2)
    total = max(1, math.ceil(max(for_tail, for_condition) / mechanism.drawn_r))
    while tail_bound(mechanism, total=total, cells=cells, eta=eta) > probability:
        total += 1  # the division above may round the wrong way
    return total


def _tail_rate(eta: float) -> float:
    return eta**2 / (2 * (2 + eta) * (4 + 3 * eta))


def exponential_mechanism_log_density(mechanism: Dirichlet, counts: ArrayLike, y: ArrayLike) -> float:
    """ln of the exponential mechanism's density with loss KL(f/N ‖ y): −rN·KL(f/N ‖ y) + Σ (α−1) ln y, normalised.

    It equals the Dirichlet(r f + α) log-density at y, which is how the paper finds the mechanism.
    """
    f, total = _profile(counts)
    point = np.asarray(y, dtype=np.float64).ravel()
    if point.shape != f.shape or (point <= 0).any():
        raise InvalidArgument("y", "a positive probability for each cell")
    p = f / total
    kl = float(np.sum(special.xlogy(p, p) - special.xlogy(p, point)))
    u = mechanism.r * f + mechanism.alpha
    normaliser = mechanism.r * float(np.sum(special.xlogy(f, p)))  # what KL adds to Σ r f ln y
    log_beta = float(np.sum(special.gammaln(u)) - special.gammaln(np.sum(u)))
    return -mechanism.r * total * kl + (mechanism.alpha - 1) * float(np.sum(np.log(point))) + normaliser - log_beta


@dataclass(frozen=True, kw_only=True)
class PureDPRefutation:
    """An event on which neighbouring tables differ by more than e^ε: proof that (ε, 0)-DP fails."""

    epsilon: float
    event: str
    threshold: float
    excess: float


def refute_pure_dp(mechanism: Dirichlet, epsilon: float) -> PureDPRefutation:
    """Exhibit that the mechanism is not ε-DP, whatever its parameters.

    With the moved record in one of two otherwise empty cells, the privacy loss at y is r·ln(y_i/y_j), which exceeds ε
    on {y_i/y_j > e^{ε/r}}; `excess` is δ(ε) > 0, the probability mass by which that event breaks ε-DP.
    """
    epsilon = check_positive("epsilon", epsilon, rounded="up")
    excess = mechanism.loss().bounds(epsilon=epsilon).lower
    if excess <= 0:
        # Too small for a double, yet positive: report the logarithm's exponent as the smallest positive number.
        excess = 5e-324
    return PureDPRefutation(
        epsilon=epsilon,
        event="y_i / y_j > exp(epsilon / r)",
        threshold=math.exp(min(epsilon / mechanism.r, 709.0)),
        excess=excess,
    )


def _profile(counts: ArrayLike) -> tuple[FloatArray, float]:
    f = checked_counts(counts).ravel().astype(np.float64)
    total = float(f.sum())
    if total <= 0:
        raise InvalidArgument("counts", "not all zero", hint="An empty table has no distribution.")
    return f, total
