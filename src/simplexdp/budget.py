"""Privacy budgets and neighbouring relations: the public vocabulary of every guarantee."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, get_args

from .errors import InvalidArgument

Neighbours = Literal["replace-one", "add-remove"]
"""`replace-one`: one record changes its value, the number of records is public.
`add-remove`: one record is added or removed, the number of records is private."""


def check_neighbours(neighbours: str) -> Neighbours:
    """The relation, if it is one of the two that exist."""
    for known in get_args(Neighbours):
        if neighbours == known:
            return known  # type: ignore[no-any-return]  # get_args is untyped
    raise InvalidArgument("neighbours", "'replace-one' or 'add-remove'", got=neighbours)


def check_positive(name: str, value: float, hint: str = "") -> float:
    """A finite number above zero, as a float."""
    number = _number(name, value)
    if not (math.isfinite(number) and number > 0):
        raise InvalidArgument(name, "a finite number above 0", got=value, hint=hint)
    return number


def check_not_negative(name: str, value: float) -> float:
    """A finite number, zero or more, as a float."""
    number = _number(name, value)
    if not (math.isfinite(number) and number >= 0):
        raise InvalidArgument(name, "a finite number, 0 or more", got=value)
    return number


def check_fraction(name: str, value: float, hint: str = "") -> float:
    """A number strictly between 0 and 1, as a float."""
    number = _number(name, value)
    if not 0 < number < 1:
        raise InvalidArgument(name, "strictly between 0 and 1", got=value, hint=hint)
    return number


def check_order(order: float) -> float:
    """A Rényi order, 1 or more; 1 is the Kullback–Leibler divergence, infinity the largest loss."""
    number = _number("order", order)
    if math.isnan(number) or number < 1:
        raise InvalidArgument("order", "1 or more", got=order)
    return number


def check_whole(name: str, value: int, at_least: int = 1) -> int:
    """A whole number not below `at_least`, as an int."""
    number = _number(name, value)
    if not math.isfinite(number) or number != int(number) or number < at_least:
        raise InvalidArgument(name, f"a whole number, {at_least} or more", got=value)
    return int(value)


def _number(name: str, value: float) -> float:
    if isinstance(value, (bool, str)):
        raise InvalidArgument(name, "a number", got=value)
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        raise InvalidArgument(name, "a number", got=type(value).__name__) from None


@dataclass(frozen=True, kw_only=True)
class Budget:
    """What may be spent: (ε, δ)-DP, or (order, ε)-Rényi-DP through `Budget.rdp`.

    >>> Budget(epsilon=1.0, delta=1e-5)
    Budget(epsilon=1.0, delta=1e-05)
    >>> Budget.rdp(order=5, epsilon=0.1)
    Budget.rdp(order=5.0, epsilon=0.1)
    """

    epsilon: float
    delta: float | None = None
    order: float | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", check_positive("epsilon", self.epsilon))
        if (self.delta is None) == (self.order is None):
            raise InvalidArgument(
                "delta",
                "given together with epsilon",
                hint="Use Budget(epsilon=, delta=) or Budget.rdp(order=, epsilon=).",
            )
        if self.delta is not None:
            object.__setattr__(self, "delta", check_fraction("delta", self.delta))
        if self.order is not None:
            order = check_order(self.order)
            if math.isinf(order):
                raise InvalidArgument("order", "finite", got=order)
            object.__setattr__(self, "order", order)

    @classmethod
    def rdp(cls, *, order: float, epsilon: float) -> Budget:
        """(order, ε)-Rényi differential privacy."""
        return cls(epsilon=epsilon, order=order)

    def __repr__(self) -> str:
        if self.order is not None:
            return f"Budget.rdp(order={self.order}, epsilon={self.epsilon})"
        return f"Budget(epsilon={self.epsilon}, delta={self.delta})"

    def __str__(self) -> str:
        if self.order is not None:
            return f"({self.order:g}, {self.epsilon:g})-RDP"
        return f"({self.epsilon:g}, {self.delta:g})-DP"
