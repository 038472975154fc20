"""From one way of saying a loss to another: Rényi to (ε, δ), with the floor of an order, and profiles to attackers.

An (λ, ε)-RDP mechanism is (ε̂, δ)-DP with ε̂ = ε + ln((λ−1)/λ) − (ln δ + ln λ)/(λ−1)
(Canonne, Kamath & Steinke 2020, Proposition 12; the paper's appendix).
"""

from __future__ import annotations

import math
from collections.abc import Callable

from ..budget import check_fraction, check_number, check_order, check_positive
from ..errors import Infeasible, InvalidArgument
from ..lazy import optimize
from ..numerics.printed import exact, printed

_TOP = 700.0
"""The largest ε that is looked at: e^ε is still a float."""


def conversion_floor(order: float, delta: float) -> float:
    """The ε̂ that a mechanism with no loss at all would get at this order: no parameters go below it.

    >>> [round(conversion_floor(order, 1e-5), 3) for order in (2, 20, 200)]
    [10.127, 0.397, 0.026]
    """
    # What holds at an order holds below it.
    order, delta = check_order(order, rounded="down"), check_fraction("delta", delta, rounded="down")
    if order == 1:
        return math.inf
    if math.isinf(order):
        return 0.0
    return math.log1p(-1 / order) - (math.log(delta) + math.log(order)) / (order - 1)


def rdp_to_epsilon(order: float, rdp: float, delta: float) -> float:
    """ε̂ at the given δ from ε at one order; never below zero.

    >>> round(rdp_to_epsilon(20, 1.0, 1e-5), 6)
    1.39698
    """
    return max(0.0, check_number("rdp", rdp, rounded="up") + conversion_floor(order, delta))


def rdp_to_log_delta(order: float, rdp: float, epsilon: float) -> float:
    """ln δ at the given ε̂ from ε at one order; never above zero."""
    order, rdp = check_order(order, rounded="down"), check_number("rdp", rdp, rounded="up")
    epsilon = check_number("epsilon", epsilon, rounded="down")
    if order == 1 or math.isinf(rdp):
        return 0.0
    if math.isinf(order):
        return 0.0 if rdp > epsilon else -math.inf
    w = order - 1
    return min(0.0, w * (rdp - epsilon) + w * math.log1p(-1 / order) - math.log(order))


def rdp_for_epsilon(order: float, epsilon: float, delta: float) -> float:
    """The Rényi ε that may be spent at this order so that the conversion gives (epsilon, delta)-DP.

    Raises:
        Infeasible: when epsilon is below the floor of this order; the error carries the floor.
    """
    order, delta = check_order(order, rounded="down"), check_fraction("delta", delta, rounded="down")
    floor = conversion_floor(order, delta)
    left = check_positive("epsilon", epsilon, rounded="down") - floor
    if left <= 0:
        raise Infeasible(
            f"no parameters reach epsilon = {printed(epsilon)} at order {exact(order)} and delta = {printed(delta)}: "
            f"the conversion from Rényi privacy alone costs {printed(floor)}. Take a larger order, a larger epsilon or "
            "exact accounting.",
            floor=floor,
        )
    return left


def best_order(value: Callable[[float], float], upper: float = math.inf) -> tuple[float, float]:
    """The order in (1, upper) with the smallest `value(order)`, and that value, by search on ln(order − 1).

    Any order gives a valid guarantee, so a search that stops short is loose, never wrong.
    """
    upper = check_number("upper", upper)
    top = math.log(min(upper - 1, 1e15)) if upper > 1 else -40.0
    grid = [-18 + (top + 18) * i / 48 for i in range(49)]
    values = [value(1 + math.exp(t)) for t in grid]
    best = min(range(49), key=values.__getitem__)
    low, high = grid[max(best - 1, 0)], grid[min(best + 1, 48)]

    def finite(t: float) -> float:
        return min(value(1 + math.exp(t)), 1e100)  # orders that are not feasible are ∞, which the search cannot take

    found = optimize.minimize_scalar(finite, bounds=(low, high), method="bounded", options={"xatol": 1e-9})
    if found.fun < min(values[best], 1e100):
        return 1 + math.exp(float(found.x)), float(found.fun)
    return 1 + math.exp(grid[best]), values[best]


SURE = 40.0
"""−ε at which a profile is one within a rounding: no attacker is told apart there from one who is always right."""
_ROUNDED = 1 + 1e-15


def largest_power(rate: float, above: Callable[[float], float], below: Callable[[float], float]) -> float:
    """The largest true-positive rate at a false-positive rate, over all tests of Q against P.

    It is the least of e^ε·rate + δ(ε) over all real ε, where δ at −ε is 1 − e^−ε + e^−ε·δ of the pair turned round. Any
    ε gives a bound, so a search that stops short is loose, never wrong. Proof: docs/proofs/composition.md.

    Args:
        rate: of false positives: the probability under Q.
        above: δ of P against Q for ε ≥ 0.
        below: δ of Q against P for ε ≥ 0.
    """
    rate = check_number("rate", rate, rounded="up")
    if not 0 <= rate <= 1:
        raise InvalidArgument("rate", "between 0 and 1", got=rate)
    if rate == 1:
        return 1.0

    def at(epsilon: float) -> float:
        if epsilon >= 0:
            return math.exp(epsilon) * rate + above(epsilon)
        return -math.expm1(epsilon) + math.exp(epsilon) * (rate + below(-epsilon))

    best = min(1.0, at(0.0))
    top = -math.log(rate) if rate > 0 else _TOP  # beyond it, e^ε·rate is above one
    for low, high in ((0.0, top), (-SURE, 0.0)):
        found = optimize.minimize_scalar(at, bounds=(low, high), method="bounded", options={"xatol": 1e-9})
        best = min(best, float(found.fun), at(high) if high > 0 else 1.0)
        if found.x > 1e-6:  # e^ε·rate + δ(ε) is convex in e^ε: the least is not on the other side
            break
    return min(1.0, best * _ROUNDED)
