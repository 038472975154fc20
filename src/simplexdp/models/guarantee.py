"""What a set of releases promises together: one exact composition, and everything that breaks the promise."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any, get_args

from ..accounting import PrivacyLoss
from ..accounting.discrete import RandomisedResponseTerm
from ..budget import (
    Budget,
    Neighbours,
    UnitKind,
    check_delta,
    check_neighbours,
    check_order,
    check_positive,
    check_whole,
    convert,
)
from ..cores import granted, in_order
from ..errors import FormatError, InvalidArgument
from ..mechanisms import step_from
from ..mechanisms.base import Parametrised, TableMechanism
from ..mechanisms.sums import Step
from ..numerics.printed import exact, printed

_ARITHMETIC = 1e-6


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
        left_out: steps that public facts ruled out, in words.
        named: what each mechanism after the tables is for, where the model has words for it.
    """

    mechanisms: tuple[Parametrised, ...]
    neighbours: Neighbours = "replace-one"
    unit: UnitKind = "row"
    rows: int = 1
    pure: tuple[float, ...] = ()
    budget: Budget | None = None
    left_out: tuple[str, ...] = ()
    named: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check_neighbours(self.neighbours)
        if self.unit not in get_args(UnitKind):
            raise InvalidArgument("unit", "'row' or 'person'", got=self.unit)
        convert(self, rows=check_whole, pure=_pure, left_out=_texts, named=_texts)
        if self.named and len(self.named) != sum(isinstance(each, Step) for each in self.mechanisms):
            raise InvalidArgument("named", "one text for each mechanism after the tables", got=self.named)
        if self.rows > 1 and self.unit == "row":
            raise InvalidArgument("rows", "1 where the unit is the row", got=self.rows)
        tells = [m for m in self.mechanisms if isinstance(m, TableMechanism) and m.publishes_total]
        if tells and not self.total_is_public:
            raise InvalidArgument(
                "mechanisms",
                f"without the {tells[0].name} mechanism where the total is not public",
                hint="It publishes the total. Use Laplace noise for add-remove and for persons.",
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

    def covers(self, mechanisms: Sequence[TableMechanism]) -> bool:
        """Whether releases by these mechanisms, all from the same data, are what this guarantee paid for.

        Each must be one of the table mechanisms, used once; the tables of a second look share one precision.
        """
        left = Counter(m for m in self.mechanisms if isinstance(m, TableMechanism))
        shared = sum((m.precision for m in self.mechanisms if isinstance(m, Step)), Fraction(0))
        for mechanism in mechanisms:
            if left[mechanism] > 0:
                left[mechanism] -= 1
            elif 0 < mechanism.precision <= shared:
                shared -= mechanism.precision
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
        return _epsilon(self, check_delta("delta", delta))

    def views(
        self, deltas: Sequence[float] = (1e-5, 1e-6, 1e-9), orders: Sequence[float] = (2, 5, 20)
    ) -> dict[str, Any]:
        """The guarantee as numbers: ε at several δ, Rényi ε at several orders, pure ε, ρ; null where there is none."""
        loss, deltas = self.loss, [check_delta("deltas", delta) for delta in deltas]
        orders = [check_order(order) for order in orders]
        if self.budget is not None and self.budget.is_pure:
            deltas = [0.0, *(delta for delta in deltas if delta)]
        epsilons = in_order(self.epsilon, deltas, granted())
        return {
            "epsilon_at_delta": {printed(delta): _finite(e) for delta, e in zip(deltas, epsilons, strict=True)},
            "renyi_epsilon_at_order": {exact(order): _finite(loss.rdp(order)) for order in orders},
            "pure_epsilon": _finite(self.epsilon(0.0)),
            "zcdp_rho": _finite(loss.rho),
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
            else {
                "epsilon": self.budget.epsilon,
                "delta": self.budget.delta,
                "order": self.budget.order,
                **({"concentrated": True} if self.budget.concentrated else {}),
            },
            **({"left_out": list(self.left_out)} if self.left_out else {}),
            **({"named": list(self.named)} if self.named else {}),
        }

    @classmethod
    def from_body(cls, body: dict[str, Any]) -> Guarantee:
        """The inverse of `to_body`."""
        try:
            return cls(
                mechanisms=tuple(step_from(m["name"], m["parameters"]) for m in body["mechanisms"]),
                neighbours=check_neighbours(body["neighbours"]),
                unit=body["unit"],
                rows=body["rows"],
                pure=tuple(body["pure"]),
                budget=None if body["budget"] is None else Budget(**body["budget"]),
                left_out=tuple(body.get("left_out", ())),
                named=tuple(body.get("named", ())),
            )
        except (KeyError, TypeError, AttributeError):
            raise FormatError("the guarantee of the document is incomplete") from None


@lru_cache(maxsize=128)
def _epsilon(guarantee: Guarantee, delta: float) -> float:
    """Kept, because a report, a certificate and a ledger ask for the same ε, which takes seconds for many tables."""
    loss, asked = guarantee.loss, guarantee.budget
    found = loss.epsilon(delta)
    if asked is not None and asked.delta == delta and loss.fits(asked):
        return min(found, asked.epsilon)
    return found


@lru_cache(maxsize=16)
def overspent(guarantee: Guarantee) -> bool:
    """Whether more is spent than the budget that is stated, by more than the arithmetic of two machines may differ.

    Exact counts have no budget to keep, and their own mark.
    """
    if guarantee.budget is None or any(mechanism.not_private for mechanism in guarantee.mechanisms):
        return False
    return guarantee.loss.excess(guarantee.budget) > _ARITHMETIC


def _pure(name: str, values: Sequence[float]) -> tuple[float, ...]:
    return tuple(check_positive(name, epsilon, rounded="up") for epsilon in values)


def _texts(name: str, values: Sequence[str]) -> tuple[str, ...]:
    if isinstance(values, str) or not all(isinstance(text, str) and text for text in values):
        raise InvalidArgument(name, "a sequence of texts")
    return tuple(values)


def pure_loss(epsilon: float, neighbours: Neighbours) -> PrivacyLoss:
    """Any ε-DP step: randomised response with that ε dominates it in both directions."""
    epsilon = check_positive("epsilon", epsilon, rounded="up")
    return PrivacyLoss.of_term(RandomisedResponseTerm(epsilon=epsilon), neighbours)


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
