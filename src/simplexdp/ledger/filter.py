"""The Rényi filter: one order, fixed in advance, under which requests may depend on earlier results.

Feldman & Zrnic 2021: if each request is admitted only while the sum of the Rényi divergences at one fixed order λ
stays within a limit B, everything released is together (λ, B)-RDP, however the requests were chosen. For a budget
(ε, δ) the limit is B(λ) = ε − floor(λ, δ) of the conversion. A release with the curve ρλ (Gaussian noise, and every
mechanism here while its loss is small) can be had B(λ)/(ρλ) times, so the order with the largest B(λ)/λ is taken.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from ..accounting.conversion import best_order, conversion_floor, rdp_for_epsilon, rdp_to_epsilon
from ..accounting.loss import PrivacyLoss
from ..budget import Budget, Neighbours, check_order
from ..errors import Infeasible, InvalidArgument

_MARGIN = 1e-12
"""The limit is rounded down by this share, far more than the error of its four operations."""


def filter_for(budget: Budget, order: float | None = None) -> tuple[float, float]:
    """The order of the filter and what may be spent at it.

    >>> order, limit = filter_for(Budget(epsilon=1.0, delta=1e-5))
    >>> round(order, 1), round(limit, 3)
    (17.8, 0.544)
    """
    if budget.order is not None:
        if order is not None and check_order(order) != budget.order:
            raise InvalidArgument("order", "that of the Rényi budget", got=order)
        return budget.order, budget.epsilon
    assert budget.delta is not None
    epsilon, delta = budget.epsilon, budget.delta
    if order is None:
        order, _ = best_order(lambda x: (conversion_floor(x, delta) - epsilon) / x)
        order = round(order, 6)  # any order is valid; a short one is easier to read
    order = check_order(order)
    if order == 1 or math.isinf(order):
        raise InvalidArgument("order", "above 1 and finite", got=order)
    limit = rdp_for_epsilon(order, epsilon, delta) * (1 - _MARGIN) - 1e-15
    if limit <= 0:
        raise Infeasible(f"nothing can be spent at order {order:g} within {budget}")
    return order, limit


@dataclass(frozen=True, kw_only=True)
class Amount:
    """An amount of Rényi ε at the order of a ledger: what a data set has spent, or has left.

    `delta` is the one of the ledger's budget, None for a Rényi budget.
    """

    order: float
    exact: Fraction
    delta: float | None
    neighbours: Neighbours

    @property
    def rdp(self) -> float:
        """Rényi ε at `order`, rounded to nearest."""
        return float(self.exact)

    def epsilon(self, delta: float | None = None) -> float:
        """ε at δ of everything that this amount covers, taken by itself; 0 for nothing.

        What is spent and what is left do not add up to the budget in this view, as each pays for the conversion.
        """
        delta = self.delta if delta is None else delta
        if delta is None:
            raise InvalidArgument("delta", "given", hint="The budget of this ledger is a Rényi budget without a δ.")
        return rdp_to_epsilon(self.order, self.rdp, delta) if self.exact else 0.0

    @property
    def budget(self) -> Budget:
        """The same as a Rényi budget that a mechanism can be calibrated to; rounded down."""
        epsilon = self.rdp if Fraction(self.rdp) <= self.exact else math.nextafter(self.rdp, 0.0)
        if epsilon <= 0:
            raise Infeasible("nothing is left to calibrate to")
        return Budget.rdp(order=self.order, epsilon=epsilon)

    def times(self, loss: PrivacyLoss) -> int:
        """How many releases of this loss the amount covers: "how many more of these"."""
        cost = cost_of(loss, self.order, self.neighbours)
        if cost == 0:
            raise InvalidArgument("loss", "above zero", hint="What costs nothing can be released without end.")
        return 0 if math.isinf(cost) else int(self.exact / Fraction(cost))


def cost_of(loss: PrivacyLoss, order: float, neighbours: Neighbours) -> float:
    """The Rényi divergence at the order of the ledger, rounded up."""
    if not isinstance(loss, PrivacyLoss):
        raise InvalidArgument("loss", "a PrivacyLoss", got=type(loss).__name__)
    if loss.neighbours != neighbours:
        raise InvalidArgument(
            "loss",
            f"under the relation of the ledger, {neighbours!r}",
            got=loss.neighbours,
            hint="A ledger adds up losses of one neighbouring relation only.",
        )
    return loss.rdp(order)
