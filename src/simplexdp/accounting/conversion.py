"""From Rényi differential privacy to (ε, δ), with the floor below which an order cannot go.

An (λ, ε)-RDP mechanism is (ε̂, δ)-DP with ε̂ = ε + ln((λ−1)/λ) − (ln δ + ln λ)/(λ−1)
(Canonne, Kamath & Steinke 2020, Proposition 12; the paper's appendix).
"""

from __future__ import annotations

import math
from collections.abc import Callable

from scipy.optimize import minimize_scalar

from ..budget import check_fraction, check_order, check_positive
from ..errors import Infeasible


def conversion_floor(order: float, delta: float) -> float:
    """The ε̂ that a mechanism with no loss at all would get at this order: no parameters go below it.

    >>> [round(conversion_floor(order, 1e-5), 3) for order in (2, 20, 200)]
    [10.127, 0.397, 0.026]
    """
    order, delta = check_order(order), check_fraction("delta", delta)
    if order == 1:
        return math.inf
    return math.log1p(-1 / order) - (math.log(delta) + math.log(order)) / (order - 1)


def rdp_to_epsilon(order: float, rdp: float, delta: float) -> float:
    """ε̂ at the given δ from ε at one order; never below zero.

    >>> round(rdp_to_epsilon(20, 1.0, 1e-5), 6)
    1.39698
    """
    return max(0.0, rdp + conversion_floor(order, delta))


def rdp_to_log_delta(order: float, rdp: float, epsilon: float) -> float:
    """ln δ at the given ε̂ from ε at one order; never above zero."""
    if order == 1 or math.isinf(rdp):
        return 0.0
    w = order - 1
    return min(0.0, w * (rdp - epsilon) + w * math.log1p(-1 / order) - math.log(order))


def rdp_for_epsilon(order: float, epsilon: float, delta: float) -> float:
    """The Rényi ε that may be spent at this order so that the conversion gives (epsilon, delta)-DP.

    Raises:
        Infeasible: when epsilon is below the floor of this order; the error carries the floor.
    """
    floor = conversion_floor(order, check_fraction("delta", delta))
    left = check_positive("epsilon", epsilon) - floor
    if left <= 0:
        raise Infeasible(
            f"no parameters reach epsilon = {epsilon:g} at order {order:g} and delta = {delta:g}: the conversion "
            f"from Rényi privacy alone costs {floor:.4g}. Take a larger order, a larger epsilon or exact accounting.",
            floor=floor,
        )
    return left


def best_order(value: Callable[[float], float], upper: float = math.inf) -> tuple[float, float]:
    """The order in (1, upper) with the smallest `value(order)`, and that value, by search on ln(order − 1).

    Any order gives a valid guarantee, so a search that stops short is loose, never wrong.
    """
    top = math.log(min(upper - 1, 1e15)) if upper > 1 else -40.0
    grid = [-18 + (top + 18) * i / 48 for i in range(49)]
    values = [value(1 + math.exp(t)) for t in grid]
    best = min(range(49), key=values.__getitem__)
    low, high = grid[max(best - 1, 0)], grid[min(best + 1, 48)]

    def finite(t: float) -> float:
        return min(value(1 + math.exp(t)), 1e100)  # orders that are not feasible are ∞, which the search cannot take

    found = minimize_scalar(finite, bounds=(low, high), method="bounded", options={"xatol": 1e-9})
    if found.fun < min(values[best], 1e100):
        return 1 + math.exp(float(found.x)), float(found.fun)
    return 1 + math.exp(grid[best]), values[best]
