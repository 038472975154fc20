"""`PrivacyLoss`: what releasing something costs, as an exact value that adds up."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property

from ..budget import Budget, Neighbours, check_fraction, check_neighbours, check_not_negative, check_order, check_whole
from ..errors import InvalidArgument
from ..numerics.roots import Interval, largest_that_fits, smallest_that_fits
from .composition import Bag, Composition, merge
from .terms import Term


@dataclass(frozen=True)
class PrivacyLoss:
    """The privacy loss of one release or of a set of releases fixed in advance.

    `directions` holds one bag of terms for `replace-one`, whose worst case is symmetric, and two for `add-remove`:
    a record removed and a record added. Every view is the worst direction, rounded up.

    >>> from simplexdp import Dirichlet
    >>> loss = Dirichlet(r=1.0, alpha=900.0).loss()
    >>> f"{(24 * loss).delta(1.0):.6e}"
    '5.957333e-07'
    """

    neighbours: Neighbours
    directions: tuple[Bag, ...]
    _compositions: tuple[Composition, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        check_neighbours(self.neighbours)
        expected = 1 if self.neighbours == "replace-one" else 2
        if len(self.directions) != expected:
            raise InvalidArgument("directions", f"{expected} for {self.neighbours}", got=len(self.directions))
        object.__setattr__(self, "_compositions", tuple(Composition(bag) for bag in self.directions))

    @classmethod
    def nothing(cls, neighbours: Neighbours = "replace-one") -> PrivacyLoss:
        """The loss of releasing nothing."""
        return cls(neighbours, ((),) * (1 if check_neighbours(neighbours) == "replace-one" else 2))

    @classmethod
    def of_term(cls, term: Term, neighbours: Neighbours = "replace-one") -> PrivacyLoss:
        """The loss of one term that is the same in all directions."""
        return cls(neighbours, (((term, 1),),) * (1 if check_neighbours(neighbours) == "replace-one" else 2))

    # -- composition ---------------------------------------------------------------------------------------------

    def __add__(self, other: object) -> PrivacyLoss:
        if other == 0:  # so that sum() works
            return self
        if not isinstance(other, PrivacyLoss):
            return NotImplemented
        if other.neighbours != self.neighbours:
            raise InvalidArgument(
                "neighbours",
                f"the same for all releases that are composed, {self.neighbours!r}",
                got=other.neighbours,
                hint="Compute every loss under one neighbouring relation.",
            )
        pairs = zip(self.directions, other.directions, strict=True)
        return PrivacyLoss(self.neighbours, tuple(merge(mine, theirs) for mine, theirs in pairs))

    __radd__ = __add__

    def __mul__(self, times: int) -> PrivacyLoss:
        times = check_whole("times", times, at_least=0)
        if times == 0:
            return PrivacyLoss.nothing(self.neighbours)
        return PrivacyLoss(
            self.neighbours, tuple(tuple((term, times * n) for term, n in bag) for bag in self.directions)
        )

    __rmul__ = __mul__

    # -- views ---------------------------------------------------------------------------------------------------

    def log_mgf(self, w: float) -> float:
        """K(w) = ln E exp(wL) for real w, in the worst direction; infinite outside the domain."""
        rates = [c.rate(w) for c in self._compositions]
        return max(math.inf if math.isinf(rate) else w * rate for rate in rates)

    def rdp(self, order: float) -> float:
        """The Rényi divergence of this order, rounded up; infinity where it does not exist."""
        return self.bounds(order=order).upper

    def delta(self, epsilon: float) -> float:
        """The smallest δ for which (ε, δ)-DP holds, rounded up."""
        return self.bounds(epsilon=epsilon).upper

    def epsilon(self, delta: float) -> float:
        """The smallest ε for which (ε, δ)-DP holds, rounded up; infinity if there is none."""
        return self.bounds(delta=delta).upper

    def bounds(
        self, *, epsilon: float | None = None, delta: float | None = None, order: float | None = None
    ) -> Interval:
        """Lower and upper bounds of δ at `epsilon`, of ε at `delta`, or of the Rényi divergence at `order`."""
        if [epsilon, delta, order].count(None) != 2:
            raise InvalidArgument("bounds", "asked for one of epsilon, delta and order")
        if order is not None:
            intervals = [c.rate_bounds(check_order(order) - 1) for c in self._compositions]
            return Interval(max(i.lower for i in intervals), max(i.upper for i in intervals))
        if epsilon is not None:
            epsilon = check_not_negative("epsilon", epsilon)
            intervals = [c.delta(epsilon) for c in self._compositions]
            return Interval(max(i.lower for i in intervals), max(i.upper for i in intervals))
        return self._epsilon_bounds(check_fraction("delta", delta or 0.0))

    def _epsilon_bounds(self, delta: float) -> Interval:
        at_zero = self.bounds(epsilon=0.0)
        if at_zero.upper <= delta:
            return Interval(0.0, 0.0)
        target = math.log(delta)
        start = max(self._guess(delta), 1e-9)
        upper = smallest_that_fits(lambda epsilon: _log(self.bounds(epsilon=epsilon).upper) - target, start, rtol=1e-11)
        if math.isinf(upper) or at_zero.lower <= delta:
            return Interval(0.0, upper)
        lower = largest_that_fits(lambda epsilon: target - _log(self.bounds(epsilon=epsilon).lower), upper, rtol=1e-11)
        return Interval(min(lower, upper), upper)

    def _guess(self, delta: float) -> float:
        """A starting point: the loss as if it were normal."""
        guess = 0.0
        for c in self._compositions:
            mean = _rate(c, 0.0)
            guess = max(guess, mean + math.sqrt(4 * mean * -math.log(delta)))
        return guess if math.isfinite(guess) else 1.0

    # -- budgets -------------------------------------------------------------------------------------------------

    def excess(self, budget: Budget) -> float:
        """ln of what is spent over what is allowed: zero or less exactly when the budget covers this loss."""
        if budget.order is not None:
            return _log(self.rdp(budget.order)) - math.log(budget.epsilon)
        assert budget.delta is not None
        return _log(self.delta(budget.epsilon)) - math.log(budget.delta)

    def fits(self, budget: Budget) -> bool:
        """Whether the budget covers this loss."""
        return self.excess(budget) <= 0

    @cached_property
    def largest_order(self) -> float:
        """The order from which on the Rényi divergence is infinite."""
        # Finite ends are rounded up by one unit in the last place, see GammaTerm.domain.
        end = min(c.domain[1] for c in self._compositions)
        return end if math.isinf(end) else 1 + math.nextafter(end, 0.0)


def _rate(composition: Composition, w: float) -> float:
    return composition.rate(w) if composition.bag else 0.0


def _log(value: float) -> float:
    return math.log(value) if value > 0 else -math.inf
