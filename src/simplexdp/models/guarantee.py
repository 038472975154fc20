"""What a set of releases promises together: one exact composition, and everything that breaks the promise."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, get_args

from ..accounting import PrivacyLoss
from ..accounting.discrete import RandomisedResponseTerm
from ..budget import Budget, Neighbours, check_neighbours, check_whole
from ..errors import FormatError, InvalidArgument
from ..mechanisms.balanced import BalancedLaplace
from ..mechanisms.base import Mechanism
from ..mechanisms.noise import Gaussian
from ..mechanisms.registry import mechanism_from
from ..mechanisms.sums import GaussianTables, NoisySum
from ..tables import Unit


@dataclass(frozen=True, kw_only=True)
class Guarantee:
    """The mechanisms of all tables of one model, under one neighbouring relation and one unit.

    Args:
        mechanisms: one for each released table, then those that follow the tables: second looks, noisy sums.
        neighbours: the relation.
        unit: "row" or "person".
        rows: how many rows one unit may have.
        pure: ε of pure-DP steps outside the tables, such as private quantiles.
        budget: what was asked for, where it is known.
    """

    mechanisms: tuple[Mechanism, ...]
    neighbours: Neighbours = "replace-one"
    unit: Unit = "row"
    rows: int = 1
    pure: tuple[float, ...] = ()
    budget: Budget | None = None

    def __post_init__(self) -> None:
        check_neighbours(self.neighbours)
        if self.unit not in get_args(Unit):
            raise InvalidArgument("unit", "'row' or 'person'", got=self.unit)
        if check_whole("rows", self.rows) > 1 and self.unit == "row":
            raise InvalidArgument("rows", "1 where the unit is the row", got=self.rows)
        if not self.total_is_public and any(isinstance(mechanism, BalancedLaplace) for mechanism in self.mechanisms):
            raise InvalidArgument(
                "mechanisms",
                "without balanced noise where the total is not public",
                hint="Balanced noise publishes the total. Use Laplace noise for add-remove and for persons.",
            )

    @property
    def loss(self) -> PrivacyLoss:
        """The exact composed loss."""
        total = PrivacyLoss.nothing(self.neighbours)
        for mechanism in self.mechanisms:
            total = total + mechanism.loss(self.neighbours, rows=self.rows)
        for epsilon in self.pure:
            total = total + pure_loss(epsilon, self.neighbours)
        return total

    def covers(self, mechanisms: Sequence[Mechanism]) -> bool:
        """Whether releases by these mechanisms, all from the same data, are what this guarantee paid for.

        Each must be one of the table mechanisms, used once; the tables of a second look share one precision.
        """
        left = Counter(m for m in self.mechanisms if not isinstance(m, NoisySum | GaussianTables))
        looks = sum((1 / Fraction(m.sigma) ** 2 for m in self.mechanisms if isinstance(m, GaussianTables)), Fraction(0))
        for mechanism in mechanisms:
            if left[mechanism] > 0:
                left[mechanism] -= 1
            elif isinstance(mechanism, Gaussian):
                looks -= 1 / mechanism.variance
                if looks < 0:
                    return False
            else:
                return False
        return True

    @property
    def total_is_public(self) -> bool:
        """Under replace-one with rows as the unit the number of rows is public; otherwise it is not."""
        return self.neighbours == "replace-one" and self.unit == "row"

    def epsilon(self, delta: float) -> float:
        """The ε at this δ, rounded up, but not above that of a budget that is known to hold.

        The search for ε ends a little above it, and what was asked for would look overspent.
        """
        loss, asked = self.loss, self.budget
        found = loss.epsilon(delta)
        if asked is not None and asked.delta == delta and loss.fits(asked):
            return min(found, asked.epsilon)
        return found

    def views(
        self, deltas: Sequence[float] = (1e-5, 1e-6, 1e-9), orders: Sequence[float] = (2, 5, 20)
    ) -> dict[str, Any]:
        """The guarantee as numbers: ε at several δ, Rényi ε at several orders; null where there is none."""
        loss = self.loss
        return {
            "epsilon_at_delta": {f"{delta:g}": _finite(self.epsilon(delta)) for delta in deltas},
            "renyi_epsilon_at_order": {f"{order:g}": _finite(loss.rdp(order)) for order in orders},
        }

    def to_body(self) -> dict[str, Any]:
        """As plain data."""
        return {
            "mechanisms": [{"name": m.name, "parameters": m.parameters} for m in self.mechanisms],
            "neighbours": self.neighbours,
            "unit": self.unit,
            "rows": self.rows,
            "pure": list(self.pure),
            "budget": None
            if self.budget is None
            else {"epsilon": self.budget.epsilon, "delta": self.budget.delta, "order": self.budget.order},
        }

    @classmethod
    def from_body(cls, body: dict[str, Any]) -> Guarantee:
        """The inverse of `to_body`."""
        try:
            return cls(
                mechanisms=tuple(_mechanism(m["name"], m["parameters"]) for m in body["mechanisms"]),
                neighbours=check_neighbours(body["neighbours"]),
                unit=body["unit"],
                rows=body["rows"],
                pure=tuple(float(epsilon) for epsilon in body["pure"]),
                budget=None if body["budget"] is None else Budget(**body["budget"]),
            )
        except (KeyError, TypeError, AttributeError):
            raise FormatError("the guarantee of the document is incomplete") from None


def _mechanism(name: str, parameters: dict[str, Any]) -> Mechanism:
    if name == "noisy-sum":
        return NoisySum(**parameters)
    return GaussianTables(**parameters) if name == "gaussian-tables" else mechanism_from(name, parameters)


def pure_loss(epsilon: float, neighbours: Neighbours) -> PrivacyLoss:
    """Any ε-DP step: randomised response with that ε dominates it in both directions."""
    return PrivacyLoss.of_term(RandomisedResponseTerm(epsilon=epsilon), neighbours)


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
