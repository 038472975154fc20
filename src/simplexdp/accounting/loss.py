"""`PrivacyLoss`: what releasing something costs, as an exact value that adds up.

`to_pld` is a bridge to dp-accounting, which is optional: our exact losses as privacy loss distributions, for
composition with other mechanisms. The distribution is pessimistic (connect the dots, Doroshenko et al. 2022), so what
it gives is never below the exact value.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from ..budget import (
    Budget,
    Neighbours,
    check_delta,
    check_fraction,
    check_neighbours,
    check_not_negative,
    check_number,
    check_order,
    check_positive,
    check_whole,
)
from ..errors import InvalidArgument, MissingExtra
from ..numerics.printed import printed
from ..numerics.roots import Interval, largest_that_fits, smallest_that_fits
from ..shown import Shown
from .composition import Bag, Composition, merge
from .conversion import largest_power
from .terms import Term


@dataclass(frozen=True, repr=False)
class PrivacyLoss(Shown):
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
        w = check_number("w", w)
        rates = [c.rate(w) for c in self._compositions]
        return max(math.inf if math.isinf(rate) else w * rate for rate in rates)

    def rdp(self, order: float) -> float:
        """The Rényi divergence of this order, rounded up; infinity where it does not exist."""
        return self.bounds(order=order).upper

    def delta(self, epsilon: float) -> float:
        """The smallest δ for which (ε, δ)-DP holds, rounded up."""
        return self.bounds(epsilon=epsilon).upper

    def epsilon(self, delta: float) -> float:
        """The smallest ε for which (ε, δ)-DP holds, rounded up; infinity if there is none.

        With δ = 0 that is the largest loss: infinite for the Dirichlet, Pólya and Gaussian mechanisms, exact for
        Laplace noise.
        """
        return self._epsilon(check_delta("delta", delta)).upper

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
            epsilon = check_not_negative("epsilon", epsilon, rounded="down")  # δ falls in ε
            intervals = [c.delta(epsilon) for c in self._compositions]
            return Interval(max(i.lower for i in intervals), max(i.upper for i in intervals))
        return self._epsilon(check_delta("delta", delta or 0.0), both=True)

    def _epsilon(self, delta: float, *, both: bool = False) -> Interval:
        """Bounds of ε at δ; without `both`, the lower one is left at 0."""
        largest = [c.largest_loss for c in self._compositions]
        top = Interval(max(i.lower for i in largest), max(i.upper for i in largest))
        if delta == 0:
            return top
        at_zero = self.bounds(epsilon=0.0)
        if at_zero.upper <= delta:
            return Interval(0.0, 0.0)
        target = math.log(delta)
        start = max(self._guess(delta), 1e-9)
        upper = smallest_that_fits(lambda epsilon: _log(self.bounds(epsilon=epsilon).upper) - target, start, rtol=1e-11)
        upper = min(upper, top.upper)  # no δ is needed there
        if not both or math.isinf(upper) or at_zero.lower <= delta:
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

    # -- risk ----------------------------------------------------------------------------------------------------

    def advantage(self) -> float:
        """The largest advantage of any attacker who must say which of two neighbours it was: δ(0), rounded up.

        The advantage is the true-positive rate less the false-positive rate.
        """
        return self.delta(0.0)

    def power(self, false_positive_rate: float) -> float:
        """The largest true-positive rate of any attacker whose false-positive rate is at most this, rounded up.

        It comes from the profile in both directions: the trade-off curve of the worst pair where there is one, and
        never below that of any. Proof: docs/proofs/composition.md.

        >>> from simplexdp import Laplace
        >>> f"{Laplace(scale=2.0).loss('add-remove').power(0.01):.6f}"
        '0.016487'
        """
        profiles = [_profile(c) for c in self._compositions]
        return max(largest_power(false_positive_rate, p, q) for p, q in zip(profiles, profiles[::-1], strict=True))

    def posterior(self, prior: float = 0.5) -> float:
        """How often the best guess of which of two neighbours it was is right, at most, if it starts at `prior`.

        An average over what may be released; rounded up. At 1/2 it is (1 + advantage)/2. Proof:
        docs/proofs/composition.md.

        >>> from simplexdp import Laplace
        >>> f"{Laplace(scale=1.0).loss('add-remove').posterior():.6f}"
        '0.731059'
        """
        less = check_fraction("prior", prior)
        less = min(less, 1 - less)
        epsilon = max(0.0, math.log1p(-less) - math.log(less)) * (1 - 1e-15)  # δ falls in ε
        return min(1.0, (1 - less + less * self.delta(epsilon)) * (1 + 1e-15))

    def _columns(self) -> dict[str, list[float]]:
        """ε at δ = 10⁻³ … 10⁻⁹, each exact or rounded up."""
        deltas = [10.0**-k for k in range(3, 10)]
        return {"delta": deltas, "epsilon": [self.epsilon(delta) for delta in deltas]}

    def _facts(self) -> list[str]:
        return [f"largest advantage of any attacker: {printed(self.advantage())}"]

    def __repr__(self) -> str:
        kinds = {type(term).__name__ for bag in self.directions for term, _ in bag}
        terms = max(sum(times for _, times in bag) for bag in self.directions)
        return f"PrivacyLoss({self.neighbours}, {terms} × {' + '.join(sorted(kinds)) or 'nothing'})"

    # -- budgets -------------------------------------------------------------------------------------------------

    def excess(self, budget: Budget) -> float:
        """ln of what is spent over what is allowed: zero or less exactly when the budget covers this loss."""
        over = self._excess(budget)
        return over if budget.ceiling is None else max(over, budget.ceiling.excess(self))

    def _excess(self, budget: Budget) -> float:
        if budget.order is not None:
            return _log(self.rdp(budget.order)) - math.log(budget.epsilon)
        if budget.concentrated:
            return _log(self.rho / budget.epsilon)
        assert budget.delta is not None
        if budget.delta == 0:
            # Two different floats have a ratio that does not round to one, so the sign is that of the difference.
            return _log(self.epsilon(0.0) / budget.epsilon)
        return _log(self.delta(budget.epsilon)) - math.log(budget.delta)

    def fits(self, budget: Budget) -> bool:
        """Whether the budget covers this loss."""
        return self.excess(budget) <= 0

    @cached_property
    def mu_squared(self) -> float | None:
        """μ² for which the loss is μ-Gaussian-DP, rounded up; None where no such μ is known.

        Exact for Gaussian noise, the claim of docs/proofs/discrete-gaussian.md for discrete Gaussian noise of σ² ≥ 1.

        >>> from simplexdp import Gaussian, Laplace
        >>> print(f"{Gaussian(sigma=10.0).loss().mu_squared:.6f}", Laplace(scale=2.0).loss().mu_squared)
        0.020017 None
        """
        known = [c.mu_squared for c in self._compositions]
        return None if None in known else max(one for one in known if one is not None)

    @cached_property
    def rho(self) -> float:
        """ρ for which the loss is ρ-zCDP, rounded up; infinite where none is known. Proof: docs/proofs/composition.md.

        >>> from simplexdp import Gaussian
        >>> f"{Gaussian(sigma=10.0).loss().rho:.6f}"
        '0.010008'
        """
        return max(c.rho for c in self._compositions)

    @cached_property
    def largest_order(self) -> float:
        """The order from which on the Rényi divergence is infinite."""
        # Finite ends are rounded up by one unit in the last place, see GammaTerm.domain.
        end = min(c.domain[1] for c in self._compositions)
        return end if math.isinf(end) else 1 + math.nextafter(end, 0.0)


def _rate(composition: Composition, w: float) -> float:
    return composition.rate(w) if composition.bag else 0.0


def _profile(composition: Composition) -> Callable[[float], float]:
    """Upper bounds of δ at each ε ≥ 0."""
    return lambda epsilon: composition.delta(epsilon).upper


def _log(value: float) -> float:
    return math.log(value) if value > 0 else -math.inf


def to_pld(loss: PrivacyLoss, interval: float = 1e-3) -> Any:
    """`loss` as a `dp_accounting.pld.privacy_loss_distribution.PrivacyLossDistribution` on a grid of this interval.

    >>> from simplexdp import Dirichlet
    >>> loss = Dirichlet(r=1.0, alpha=100.0).loss()
    >>> pld = to_pld(loss, 2e-2)
    >>> 0 <= pld.get_epsilon_for_delta(1e-5) - loss.epsilon(1e-5) < 2e-2
    True
    """
    try:
        from dp_accounting.pld import pld_pmf, privacy_loss_distribution
    except ImportError:
        raise MissingExtra("dp-accounting", "pld") from None
    interval = check_positive("interval", interval)
    pmfs = []
    for direction in range(len(loss.directions)):
        one = PrivacyLoss("replace-one", (loss.directions[direction],))
        top = math.ceil(one.epsilon(1e-14) / interval) + 1
        # δ at a negative ε follows from the other side of the pair: δ_{P|Q}(−ε) = 1 − e^{−ε} + e^{−ε} δ_{Q|P}(ε).
        other = one if len(loss.directions) == 1 else PrivacyLoss("replace-one", (loss.directions[1 - direction],))
        deltas = [one.delta(index * interval) for index in range(top + 1)]
        below = [
            -math.expm1(-index * interval) + math.exp(-index * interval) * other.delta(index * interval)
            for index in range(1, top + 1)
        ]
        grid = np.array(below[::-1] + deltas)
        pmfs.append(pld_pmf.create_pmf_pessimistic_connect_dots_fixed_gap(interval, -top, top, grid))
    if len(pmfs) == 1:
        return privacy_loss_distribution.PrivacyLossDistribution(pmfs[0])
    return privacy_loss_distribution.PrivacyLossDistribution(pmfs[0], pmfs[1])
