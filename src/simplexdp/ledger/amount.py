"""Amounts of a ledger's limit, what is spent or left, and losses as an entry holds them to be priced again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from fractions import Fraction
from typing import Any

from ..accounting import discrete, paper, smooth, terms
from ..accounting.conversion import rdp_to_epsilon
from ..accounting.filters import Filter, GaussianFilter, Price, epsilon_of
from ..accounting.loss import PrivacyLoss
from ..accounting.terms import Term
from ..budget import Budget, Neighbours, check_fraction, check_neighbours, check_not_negative, check_positive, convert
from ..errors import FormatError, Infeasible, InvalidArgument, SimplexDPError
from ..numerics.printed import as_float, printed
from ..shown import Shown


@dataclass(frozen=True, kw_only=True, repr=False)
class Amount(Shown):
    """What a data set has spent, or has left, of the limit of its filter.

    Args:
        filter: of the data set.
        exact: of the limit: Gaussian μ², or Rényi ε at the order of the filter.
        slack: of the slack in δ.
        whole: the budget of the data set.
        neighbours: the relation of the ledger.
    """

    filter: Filter
    exact: Fraction
    slack: Fraction
    whole: Budget
    neighbours: Neighbours

    def __post_init__(self) -> None:
        convert(self, exact=_fraction, slack=_fraction)

    @property
    def delta(self) -> float | None:
        """The δ of the ledger's budget, None for a Rényi budget."""
        return self.whole.delta

    @property
    def value(self) -> float:
        """The exact amount, rounded to nearest."""
        return float(self.exact)

    def epsilon(self, delta: float | None = None) -> float:
        """ε at δ of everything that this amount covers, taken by itself; 0 for nothing.

        What is spent and what is left do not add up to the budget in this view, as each has all of δ.
        """
        delta = self.delta if delta is None else check_fraction("delta", delta, rounded="down")
        if delta is None:
            raise InvalidArgument("delta", "given", hint="The budget of this ledger is a Rényi budget without a δ.")
        if isinstance(self.filter, GaussianFilter):
            found = epsilon_of(self.exact, self.slack, delta)
        else:
            found = rdp_to_epsilon(self.filter.order, as_float(self.exact, "up"), delta) if self.exact else 0.0
        return min(found, self.whole.epsilon) if delta == self.delta else found

    def _columns(self) -> dict[str, list[Any]]:
        epsilon = None if self.delta is None else self.epsilon()
        return {"amount": [self.value], "epsilon": [epsilon], "delta": [self.delta]}

    def __repr__(self) -> str:
        at = "" if self.delta is None else f", by itself ε = {printed(self.epsilon())} at δ = {printed(self.delta)}"
        return f"Amount({printed(self.exact)} of {self.filter}{at})"

    @property
    def budget(self) -> Budget:
        """The same as a budget that everything can be calibrated to; what is calibrated to it can be paid.

        In a Rényi ledger it is a Rényi budget. Otherwise it is (ε, δ) with the condition that the price is not above
        what is left.
        """
        return self.part(1)

    def part(self, share: float) -> Budget:
        """A budget for this share of the amount, as it is now: `part(0.5)` leaves about half."""
        share = check_positive("share", share, rounded="down")
        if share > 1:
            raise InvalidArgument("share", "at most 1", got=share)
        exact = self.exact * Fraction(share)
        most = as_float(exact, "down")
        if not most > 0:
            raise Infeasible("nothing is left to calibrate to")
        if not isinstance(self.filter, GaussianFilter):
            return Budget.rdp(order=self.filter.order, epsilon=most)
        assert self.delta is not None
        epsilon = replace(self, exact=exact).epsilon()
        if not epsilon > 0:
            raise Infeasible("nothing is left to calibrate to")
        return self.filter.at_most(Budget(epsilon=epsilon, delta=self.delta), most, self.exact)

    def times(self, loss: PrivacyLoss) -> int:
        """How many releases of this loss the amount covers, one after the other: "how many more of these"."""
        return self.filter.times(check_relation_of(loss, self.neighbours), self.exact)

    def more_like(self, body: Mapping[str, Any]) -> int | None:
        """How many more of what an entry charged; None if that is not known."""
        if body.get("loss") is not None:
            return self.times(loss_from_body(body["loss"], self.neighbours))
        known = body.get("epsilon") and not isinstance(self.filter, GaussianFilter)
        return int(self.exact / Fraction(body["epsilon"])) if known else None


def _fraction(name: str, value: Any) -> Fraction:
    return value if type(value) is Fraction else Fraction(check_not_negative(name, value, rounded="down"))


def check_relation_of(loss: PrivacyLoss, neighbours: Neighbours) -> PrivacyLoss:
    """A loss under the relation of the ledger."""
    if not isinstance(loss, PrivacyLoss):
        raise InvalidArgument("loss", "a PrivacyLoss", got=type(loss).__name__)
    if loss.neighbours != neighbours:
        raise InvalidArgument(
            "loss",
            f"under the relation of the ledger, {neighbours!r}",
            got=loss.neighbours,
            hint="A ledger adds up losses of one neighbouring relation only.",
        )
    return loss


# -- losses as data -----------------------------------------------------------------------------------------------

_KINDS: dict[str, type[Any]] = {
    name: kind
    for module in (discrete, paper, smooth, terms)
    for name, kind in vars(module).items()
    if is_dataclass(kind) and isinstance(kind, type) and kind.__module__ == module.__name__
}
"""What a loss may be made of so that an entry can hold it."""


def loss_to_body(loss: PrivacyLoss) -> list[Any] | None:
    """The loss as plain data, None if a term is of a kind that only another program knows."""
    try:
        return [[[_encoded(term), times] for term, times in bag] for bag in loss.directions]
    except KeyError:
        return None


def loss_from_body(body: object, neighbours: Neighbours) -> PrivacyLoss:
    """The inverse of `loss_to_body`."""
    try:
        directions = tuple(tuple((_decoded(term), _times(n)) for term, n in bag) for bag in body)  # type: ignore[attr-defined]
        return PrivacyLoss(check_neighbours(neighbours), directions)
    except (SimplexDPError, TypeError, ValueError, KeyError, AttributeError, IndexError, ZeroDivisionError):
        raise FormatError("a loss in the ledger is damaged") from None


def _times(value: object) -> int:
    if type(value) is not int or value < 1:
        raise ValueError
    return value


def _encoded(term: Term) -> list[Any]:
    if _KINDS[type(term).__name__] is not type(term):
        raise KeyError
    values = [getattr(term, each.name) for each in fields(term)]  # type: ignore[arg-type]
    return [type(term).__name__, *(_value(value) for value in values)]


def _value(value: Any) -> Any:
    if isinstance(value, Fraction):
        return f"{value.numerator}/{value.denominator}"
    if type(value) in (int, float, bool) or value is None:
        return value
    return _encoded(value)


def _decoded(body: list[Any]) -> Any:
    kind = _KINDS[body[0]]
    names = [each.name for each in fields(kind)]
    values = [
        Fraction(value) if isinstance(value, str) else _decoded(value) if isinstance(value, list) else value
        for value in body[1:]
    ]
    return kind(**dict(zip(names, values, strict=True)))


def price_of(body: Any) -> Price:
    """What an entry says that was charged."""
    return Price(cost=body["cost"], slack=body["slack"], at=body["at"])
