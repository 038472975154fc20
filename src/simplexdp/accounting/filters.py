"""Filters: what may be spent where each request may depend on what was released before.

The Rényi filter adds up divergences at one order (Feldman & Zrnic 2021). The Gaussian filter holds a variance t: all
that is still to come is dominated by N(√t, 1) against N(0, 1) up to a slack in δ. Gaussian steps cost their μ² and no
slack, others their residue, about the variance of their loss while t is large against it. A price that was found at
t' ≤ t holds at t.

Proof: docs/proofs/filter.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache

from ..budget import Budget, check_fraction, check_order, check_positive, convert
from ..errors import Infeasible, InvalidArgument
from ..lazy import mp
from ..numerics.printed import as_float, exact
from ..numerics.roots import largest_that_fits
from .conversion import best_order, conversion_floor, rdp_for_epsilon
from .loss import PrivacyLoss
from .residue import SMALLEST, certified, parts, residue, size_of
from .smooth import GaussianTerm

SLACK = 0.01
"""Share of δ that a ledger keeps for the slack of steps that are not Gaussian; it costs 0.05 % of noise."""
_MARGIN = 1e-12
"""Limits are rounded down by this share, far more than the error of their few operations."""
_FAR = 1024.0
"""A step is priced at no more than this many times its own size: its residue falls by less than 0.1 % beyond."""
_NEAR = 16.0
"""Down to this many times its size a step is priced on a geometric grid of t, so that equal steps share a price."""
_GRID = 16
"""Points of that grid to an octave."""


@dataclass(frozen=True, kw_only=True)
class Price:
    """What a step is charged: of the limit and of the slack, and with how much of the limit left.

    `at` is None where that does not matter.
    """

    cost: float
    slack: float = 0.0
    at: float | None = None

    @property
    def fits(self) -> bool:
        """Whether there is a finite price."""
        return math.isfinite(self.cost)


@dataclass(frozen=True, kw_only=True)
class RenyiFilter:
    """Divergences at one order, fixed in advance, add up to at most the limit."""

    order: float
    total: float
    slack: float = 0.0

    def __post_init__(self) -> None:
        convert(self, order=lambda _, order: check_order(order), total=check_positive)

    def price(self, loss: PrivacyLoss, left: Fraction | None = None) -> Price:  # noqa: ARG002
        """The Rényi divergence of the loss, rounded up, whatever is left."""
        return Price(cost=_loss(loss).rdp(self.order))

    def holds(self, loss: PrivacyLoss, price: Price) -> bool:
        """Whether the price covers the loss, up to what two machines may round differently."""
        return _loss(loss).bounds(order=self.order).lower <= price.cost

    def times(self, loss: PrivacyLoss, left: Fraction) -> int:
        """How many of these can be paid one after the other."""
        cost = self.price(loss).cost
        return int(left / _some(cost)) if math.isfinite(cost) else 0

    def at_most(self, budget: Budget, cost: float) -> Budget:  # noqa: ARG002
        """What costs no more; the caller checks that it fits the budget too."""
        return Budget.rdp(order=self.order, epsilon=cost)

    def charges_as_asked(self, budget: Budget) -> bool:
        """Whether all that is calibrated to the budget costs the same."""
        return budget.order == self.order

    def __str__(self) -> str:
        return f"Rényi ε at order {exact(self.order)}"


@dataclass(frozen=True, kw_only=True)
class GaussianFilter:
    """Residues add up to at most `total`, the slacks of steps to at most `slack`.

    Everything admitted together has the profile δ_G(e; √total) + slack at most.
    """

    total: float
    slack: float

    def __post_init__(self) -> None:
        convert(self, total=check_positive, slack=lambda name, slack: check_fraction(name, slack, rounded="down"))

    def price(self, loss: PrivacyLoss, left: Fraction | None = None) -> Price:
        """The residue of the loss where so much is left, the whole unless given; infinite where it has no room.

        Slack is given out in proportion, so that it lasts as long as the limit does.
        """
        left = Fraction(self.total) if left is None else left
        mu_squared, rests = parts(_loss(loss).directions)
        if not any(rests):
            return Price(cost=mu_squared)
        size = size_of(rests)
        slack = min(size / self.total, 1.0) * self.slack * (1 - _MARGIN)
        place = _place(left, size)
        if not (math.isfinite(size) and size <= place and slack > 0):
            return Price(cost=math.inf)
        cost = max(residue(rests, place, slack), size)
        return Price(cost=_sum_up(mu_squared, cost), slack=slack, at=place)

    def holds(self, loss: PrivacyLoss, price: Price) -> bool:
        """Whether a price covers the loss: the certificate, computed again."""
        mu_squared, rests = parts(_loss(loss).directions)
        if not any(rests):
            return mu_squared <= price.cost
        if price.at is None or not 0 < price.slack < 1:
            return False
        cost = as_float(Fraction(price.cost) - Fraction(mu_squared), "down")
        return 0 < cost < price.at and certified(rests, price.at, price.slack, cost)

    def times(self, loss: PrivacyLoss, left: Fraction) -> int:
        """How many of these can be paid one after the other: as many as share a price at a time."""
        count = 0
        while (price := self.price(loss, left)).fits and Fraction(price.cost) <= left:
            cost = _some(price.cost)
            alike = int((left if price.at is None else left - Fraction(price.at)) / cost)
            alike = max(1, alike if price.at is None else min(alike + 1, int(left / cost)))
            count, left = count + alike, left - alike * cost
        return count

    def charges_as_asked(self, budget: Budget) -> bool:
        """Whether all that is calibrated to the budget costs the same, as what is left of a ledger does."""
        return budget.ceiling is not None

    def at_most(self, budget: Budget, cost: float, left: Fraction | None = None) -> Budget:
        """The budget, with the further condition that the price where so much is left is no more than this."""
        left = Fraction(self.total) if left is None else left
        return replace(budget, ceiling=Ceiling(filter=self, left=left, cost=cost))

    def __str__(self) -> str:
        return "Gaussian μ²"


Filter = RenyiFilter | GaussianFilter


@dataclass(frozen=True)
class Ceiling:
    """A condition on a loss beside a budget: its price in a Gaussian filter where so much is left."""

    filter: GaussianFilter
    left: Fraction
    cost: float

    def excess(self, loss: PrivacyLoss) -> float:
        """ln of the price over what it may be; infinite where there is no room for the loss."""
        price = self.filter.price(loss, self.left)
        if not price.fits or Fraction(price.cost) > self.left:
            return math.inf
        return math.log(price.cost / self.cost) if price.cost > 0 else -math.inf


def filter_for(budget: Budget, order: float | None = None, share: float = SLACK) -> Filter:
    """The filter that guards a budget: Gaussian for (ε, δ), Rényi for a Rényi budget or where an order is given.

    >>> found = filter_for(Budget(epsilon=1.0, delta=1e-6))
    >>> round(found.total, 6), round(found.slack, 12)
    (0.055974, 1e-08)
    >>> filter_for(Budget.rdp(order=5, epsilon=0.3))
    RenyiFilter(order=5.0, total=0.3, slack=0.0)
    """
    share = check_fraction("share", share)
    if budget.order is not None:
        if order is not None and check_order(order) != budget.order:
            raise InvalidArgument("order", "that of the Rényi budget", got=order)
        return RenyiFilter(order=budget.order, total=budget.epsilon)
    if budget.is_pure or budget.concentrated or budget.delta is None:
        raise InvalidArgument(
            "budget",
            "one with a delta above 0, or a Rényi budget",
            got=budget,
            hint="A ledger adds up what is like Gaussian noise; pure and zCDP releases can be charged to it.",
        )
    if order is not None:
        return renyi_filter(budget.epsilon, budget.delta, order)
    slack = as_float(Fraction(share) * Fraction(budget.delta), "down")
    rest = as_float(Fraction(budget.delta) - Fraction(slack), "down")
    return GaussianFilter(total=_total(budget.epsilon, rest), slack=slack)


def renyi_filter(epsilon: float, delta: float, order: float | None = None) -> RenyiFilter:
    """What may be spent at one order, that at which the most Gaussian-like releases fit unless given.

    >>> found = renyi_filter(1.0, 1e-5)
    >>> round(found.order, 1), round(found.total, 3)
    (17.8, 0.544)
    """
    if order is None:
        order, _ = best_order(lambda x: (conversion_floor(x, delta) - epsilon) / x)
        order = round(order, 6)  # any order is valid; a short one is easier to read
    order = check_order(order)
    if order == 1 or math.isinf(order):
        raise InvalidArgument("order", "above 1 and finite", got=order)
    total = rdp_for_epsilon(order, epsilon, delta) * (1 - _MARGIN) - 1e-15
    if total <= 0:
        raise Infeasible(f"nothing can be spent at order {exact(order)} within ({exact(epsilon)}, {exact(delta)})-DP")
    return RenyiFilter(order=order, total=total)


@lru_cache(maxsize=64)
def _total(epsilon: float, delta: float) -> float:
    """The largest μ² with δ_G(ε; μ) ≤ δ, rounded down."""
    target = math.log(delta) - 1e-9  # more than two machines may differ by

    def excess(total: float) -> float:
        found = PrivacyLoss.of_term(GaussianTerm(total)).delta(epsilon)
        return (math.log(found) if found > 0 else -math.inf) - target

    total = largest_that_fits(excess, (math.sqrt(2 * epsilon - 2 * target) - math.sqrt(-2 * target)) ** 2, rtol=1e-12)
    if not (total > SMALLEST and excess(total) <= 0):
        raise Infeasible(f"nothing can be spent within ({exact(epsilon)}, {exact(delta)})-DP")
    return total


def covers(found: Filter, budget: Budget) -> bool:
    """Whether all that the filter admits stays within the budget."""
    if isinstance(found, RenyiFilter):
        if budget.order is not None:
            return (found.order, found.total) == (budget.order, budget.epsilon)
        floor = conversion_floor(found.order, budget.delta or 0.0)
        return found.total + floor <= budget.epsilon
    delta = PrivacyLoss.of_term(GaussianTerm(found.total)).delta(budget.epsilon)
    return Fraction(delta) + Fraction(found.slack) <= Fraction(budget.delta or 0)


def epsilon_of(total: Fraction, slack: Fraction, delta: float) -> float:
    """The ε at δ of G(total) with this slack, rounded up; 0 for nothing."""
    rest = as_float(Fraction(delta) - slack, "down")
    if total == 0 and rest >= 0:
        return 0.0
    return PrivacyLoss.of_term(GaussianTerm(as_float(total, "up"))).epsilon(rest) if rest > 0 else math.inf


def converts(budget: Budget, order: float, spent: Fraction, slack: float, total: float) -> bool:
    """Whether a Gaussian filter with so much may follow a Rényi one of this order that has spent something.

    The condition is e^{we} δ_G(e; √total) ≤ (δ − τ) e^{w(ε − spent)} for all e, w = order − 1.

    Proof: docs/proofs/filter.md.
    """
    assert budget.delta is not None
    with mp.workdps(40):
        w, gone = mp.mpf(order) - 1, mp.mpf(spent.numerator) / spent.denominator
        bound = mp.log(mp.mpf(budget.delta) - mp.mpf(slack)) + w * (mp.mpf(budget.epsilon) - gone)
        return bool(_peak(w, total) <= bound)


def converted(budget: Budget, order: float, spent: Fraction, slack: float) -> float:
    """The largest total found that `converts`, 0 if there is none: an old ledger goes on with it."""
    low, high = 0.0, 1.0
    while converts(budget, order, spent, slack, high):
        low, high = high, 2 * high
    while high - low > 1e-9 * high and high > SMALLEST:
        middle = 0.5 * (low + high)
        low, high = (middle, high) if converts(budget, order, spent, slack, middle) else (low, middle)
    return low * (1 - _MARGIN)


def _peak(w: mp.mpf, total: float) -> mp.mpf:
    """An upper bound of max over e of we + ln δ_G(e; √total), a concave function: a tangent from left of the peak."""
    m = mp.sqrt(mp.mpf(total))

    def value(e: mp.mpf) -> tuple[mp.mpf, mp.mpf]:
        with mp.workdps(60):
            upper, lower = mp.ncdf(m / 2 - e / m), mp.exp(e) * mp.ncdf(-m / 2 - e / m)
            return w * e + mp.log(upper - lower), w - lower / (upper - lower)

    left, right = -mp.mpf(1), m * m * (w + 1) + m + 1
    while value(left)[1] <= 0:
        left *= 2
    while value(right)[1] >= 0:
        right *= 2
    while right - left > mp.mpf(10) ** -9 * (1 + abs(left)):
        middle = (left + right) / 2
        left, right = (middle, right) if value(middle)[1] > 0 else (left, middle)
    at, slope = value(left)
    return at + slope * (right - left)


def _some(cost: float) -> Fraction:
    if cost == 0:
        raise InvalidArgument("loss", "above zero", hint="What costs nothing can be released without end.")
    return Fraction(cost)


def _loss(loss: PrivacyLoss) -> PrivacyLoss:
    if not isinstance(loss, PrivacyLoss):
        raise InvalidArgument("loss", "a PrivacyLoss", got=type(loss).__name__)
    return loss


def _place(left: Fraction, size: float) -> float:
    """Where a step of this size is priced: at most what is left, and mostly the same for many steps in a row."""
    here = as_float(left, "down")
    far = _FAR * size
    if here < _NEAR * size or not math.isfinite(far):
        return here
    here = min(here, far)
    step = math.floor(_GRID * math.log2(here))
    while math.exp2(step / _GRID) > here:
        step -= 1
    return math.exp2(step / _GRID)


def _sum_up(first: float, second: float) -> float:
    return as_float(Fraction(first) + Fraction(second), "up") if math.isfinite(second) else math.inf
