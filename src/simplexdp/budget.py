"""Budgets and units: what may be spent, and whose change a guarantee hides."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from numbers import Rational, Real
from typing import Any, Literal, Protocol, get_args

from .errors import InvalidArgument, PrivacyError
from .numerics.printed import Direction, as_float, exact, printed
from .shown import Shown

Neighbours = Literal["replace-one", "add-remove"]
"""`replace-one`: one record changes its value, the number of records is public.
`add-remove`: one record is added or removed, the number of records is private."""


def check_neighbours(neighbours: str) -> Neighbours:
    """The relation, if it is one of the two that exist."""
    for known in get_args(Neighbours):
        if neighbours == known:
            return known  # type: ignore[no-any-return]  # get_args is untyped
    raise InvalidArgument("neighbours", "'replace-one' or 'add-remove'", got=neighbours)


def check_number(name: str, value: float, *, rounded: Direction = "nearest") -> float:
    """Any number, infinities included, as a float."""
    number = _number(name, value, rounded)
    if math.isnan(number):
        raise InvalidArgument(name, "a number", got=number)
    return number


def check_positive(name: str, value: float, hint: str = "", *, rounded: Direction = "nearest") -> float:
    """A finite number above zero, as a float.

    `rounded` says to which side a Fraction, Decimal or long double goes that no float holds; where a mechanism is
    drawn and accounted with the float that comes out, the nearest is right.
    """
    number = _number(name, value, rounded)
    if not (math.isfinite(number) and number > 0):
        raise InvalidArgument(name, "a finite number above 0", got=number, hint=hint)
    return number


def check_not_negative(name: str, value: float, *, rounded: Direction = "nearest") -> float:
    """A finite number, zero or more, as a float."""
    number = _number(name, value, rounded)
    if not (math.isfinite(number) and number >= 0):
        raise InvalidArgument(name, "a finite number, 0 or more", got=number)
    return number


def check_fraction(name: str, value: float, hint: str = "", *, rounded: Direction = "nearest") -> float:
    """A number strictly between 0 and 1, as a float."""
    number = _number(name, value, rounded)
    if not 0 < number < 1:
        raise InvalidArgument(name, "strictly between 0 and 1", got=number, hint=hint)
    return number


def check_delta(name: str, value: float) -> float:
    """A δ, from 0 (pure differential privacy) to below 1, rounded down."""
    number = _number(name, value, "down")
    if not 0 <= number < 1:
        raise InvalidArgument(name, "0 or more and below 1", got=number)
    return number


def check_order(order: float, *, rounded: Direction = "up") -> float:
    """A Rényi order, 1 or more; 1 is the Kullback–Leibler divergence, infinity the largest loss.

    A divergence of a higher order is larger, so an order that no float holds is rounded up.
    """
    number = _number("order", order, rounded)
    if math.isnan(number) or number < 1:
        raise InvalidArgument("order", "1 or more", got=number)
    return number


MOST_WHOLE = (1 << 63) - 1
"""The largest whole number of a public argument: no table, row or count needs more than 64 bits."""


def check_whole(name: str, value: int, at_least: int = 1) -> int:
    """A whole number not below `at_least` and not above 2^63 − 1, as an int that is exact."""
    number = value if type(value) is int else _exact(name, value)
    if isinstance(number, float) or number.denominator != 1 or number < at_least:
        shown = number if isinstance(number, float) else as_float(Fraction(number))
        got = int(shown) if shown.is_integer() and abs(shown) <= MOST_WHOLE else shown
        raise InvalidArgument(name, f"a whole number, {at_least} or more", got=got)
    if number > MOST_WHOLE:
        raise InvalidArgument(name, "below 2^63")
    return number.numerator


def convert(value: object, **checks: Callable[[str, Any], object]) -> None:
    """Put what its check returns in the place of each field of a frozen value, so that none is checked and not stored.

    For `__post_init__`: `convert(self, scale=check_positive, cells=check_whole)`.
    """
    for name, check in checks.items():
        object.__setattr__(value, name, check(name, getattr(value, name)))


def _number(name: str, value: object, rounded: Direction = "nearest") -> float:
    if type(value) is float:
        return value
    exact = _exact(name, value)
    return as_float(exact, rounded) if isinstance(exact, Fraction) else exact


def _exact(name: str, value: object) -> Fraction | float:
    """The number itself; a float for infinities and nan, which no fraction is. Texts, truth values and arrays are none.

    Any width of NumPy's scalars counts; an array does not, not even one without axes.
    """
    span = getattr(getattr(value, "dtype", None), "kind", "") == "m"  # NumPy counts its time spans among the integers
    if isinstance(value, Real | Decimal) and not isinstance(value, bool) and not span:
        try:
            if isinstance(value, Rational):
                return Fraction(int(value.numerator), int(value.denominator))
            ratio: tuple[int, int] = value.as_integer_ratio()  # type: ignore[union-attr]  # caught below
            return Fraction(int(ratio[0]), int(ratio[1]))
        except (OverflowError, ValueError):  # infinite or nan
            return float(str(value).lower().replace("snan", "nan"))
        except AttributeError:
            pass
    raise InvalidArgument(name, "a number", got=value if isinstance(value, bool | str) else type(value).__name__)


class Ceiling(Protocol):
    """A condition on a privacy loss beside a budget."""

    def excess(self, loss: Any) -> float:
        """ln of what the loss comes to over what it may be: zero or less exactly when the condition holds."""


BudgetWord = Literal["remaining", "half"]
"""What is left of the ledger that pays, or half of that."""


@dataclass(frozen=True, kw_only=True)
class Budget(Shown):
    """What may be spent: (ε, δ)-DP, pure ε-DP, (order, ε)-Rényi-DP or ρ-zCDP.

    Numbers that no float holds are rounded down, the order up, so that no more is spent than was said.

    >>> Budget(epsilon=1.0, delta=1e-5)
    Budget(epsilon=1.0, delta=1e-05)
    >>> Budget.pure(1.0) == Budget(epsilon=1.0, delta=0)
    True
    >>> Budget.rdp(order=5, epsilon=0.1)
    Budget.rdp(order=5.0, epsilon=0.1)
    >>> Budget.zcdp(rho=0.02)
    Budget.zcdp(rho=0.02)
    """

    epsilon: float
    """ε; of a zCDP budget ρ."""
    delta: float | None = None
    order: float | None = None
    ceiling: Ceiling | None = None
    """A further condition on the loss, such as what it may cost a ledger."""
    concentrated: bool = False
    """Whether it bounds the Rényi divergence of every order α by ρα."""

    def __post_init__(self) -> None:
        convert(self, epsilon=lambda name, value: check_positive(name, value, rounded="down"))
        if [self.delta, self.order, self.concentrated or None].count(None) != 2:
            raise InvalidArgument("delta", "given together with epsilon", hint=HOW_TO_SAY)
        if self.delta is not None:
            convert(self, delta=check_delta)
        if self.order is not None:
            convert(self, order=lambda _, value: check_order(value))
            if math.isinf(self.order):
                raise InvalidArgument("order", "finite", got=self.order, hint="Use delta=0 for a pure budget.")

    @classmethod
    def rdp(cls, *, order: float, epsilon: float) -> Budget:
        """(order, ε)-Rényi differential privacy."""
        return cls(epsilon=epsilon, order=order)

    @classmethod
    def pure(cls, epsilon: float) -> Budget:
        """ε-differential privacy, without a δ."""
        return cls(epsilon=epsilon, delta=0.0)

    @classmethod
    def zcdp(cls, rho: float) -> Budget:
        """ρ-zero-concentrated differential privacy: Rényi divergence at most ρα at every order α."""
        return cls(epsilon=check_positive("rho", rho, rounded="down"), concentrated=True)

    @property
    def rho(self) -> float | None:
        """ρ of a zCDP budget."""
        return self.epsilon if self.concentrated else None

    @property
    def is_pure(self) -> bool:
        """Whether δ is 0: no event at all may be likelier by more than e^ε."""
        return self.delta == 0

    def __repr__(self) -> str:
        if self.order is not None:
            return f"Budget.rdp(order={self.order!r}, epsilon={self.epsilon!r})"
        if self.concentrated:
            return f"Budget.zcdp(rho={self.epsilon!r})"
        more = "" if self.ceiling is None else ", ceiling=..."
        return f"Budget(epsilon={self.epsilon!r}, delta={self.delta!r}{more})"

    def _columns(self) -> dict[str, list[Any]]:
        epsilon = None if self.concentrated else self.epsilon
        return {"epsilon": [epsilon], "delta": [self.delta], "order": [self.order], "rho": [self.rho]}

    def __str__(self) -> str:
        if self.order is not None:
            return f"({exact(self.order)}, {printed(self.epsilon)})-RDP"
        if self.concentrated:
            return f"{printed(self.epsilon)}-zCDP"
        return f"({printed(self.epsilon)}, {printed(self.delta)})-DP"


HOW_TO_SAY = (
    "Write Budget(epsilon=, delta=), Budget.pure(epsilon), Budget.rdp(order=, epsilon=) or Budget.zcdp(rho=); with a "
    "ledger also 'remaining' or 'half'."
)


def check_budget(budget: Budget | None) -> Budget | None:
    """A budget, or none where exact counts are asked for."""
    if budget is not None and not isinstance(budget, Budget):
        got = budget if isinstance(budget, str) else type(budget).__name__
        raise InvalidArgument("budget", "a Budget", got=got, hint=HOW_TO_SAY)
    return budget


def check_granted(budget: Budget | BudgetWord | None) -> Budget | BudgetWord | None:
    """The same, or a word that a ledger makes a budget of."""
    return budget if isinstance(budget, str) and budget in get_args(BudgetWord) else check_budget(budget)  # type: ignore[arg-type]


# -- unit -------------------------------------------------------------------------------------------------------------
#
# The unit of protection: whose change a guarantee hides, and so whether the number of records is public.

UnitKind = Literal["row", "person"]
"""One row, or all the rows of one person."""


@dataclass(frozen=True, kw_only=True)
class Unit:
    """Two tables are neighbours if they differ in one of these.

    Args:
        neighbours: whether it is replaced by another one, or added or removed.
        rows_per_person: how many rows a person may have; None where each row is a unit by itself.
        person: the column that names the person, where rows are still to be counted.
    """

    neighbours: Neighbours = "replace-one"
    rows_per_person: int | None = None
    person: str | None = None

    def __post_init__(self) -> None:
        check_neighbours(self.neighbours)
        if self.person is not None and self.rows_per_person is None:
            raise InvalidArgument("rows_per_person", "given with person", hint="It bounds what one person can change.")
        if self.rows_per_person is not None:
            convert(self, rows_per_person=check_whole)

    @property
    def kind(self) -> UnitKind:
        """Row or person."""
        return "row" if self.rows_per_person is None else "person"

    @property
    def rows(self) -> int:
        """How many rows it has at most."""
        return 1 if self.rows_per_person is None else self.rows_per_person

    @property
    def total_is_public(self) -> bool:
        """A replaced row leaves the number of rows as it is; persons have any number of rows each."""
        return self.neighbours == "replace-one" and self.kind == "row"

    def check(self, relations: frozenset[Neighbours]) -> None:
        """Refuse rows that may not be released under this unit; see `check_relation`."""
        check_relation(relations, self.neighbours, self.kind)


def check_kind(kind: object) -> None:
    """Refuse what is no unit."""
    if kind not in get_args(UnitKind):
        raise InvalidArgument("unit", "'row' or 'person'", got=kind)


def check_relation(relations: frozenset[Neighbours], neighbours: Neighbours, unit: UnitKind) -> None:
    """Replace-one of rows publishes their number, so nothing may select them; otherwise none may move up into a gap."""
    if neighbours == "replace-one" and unit == "row":
        if "replace-one" not in relations:
            raise PrivacyError(
                "Under replace-one the number of rows is public, but this source may select rows by their values (a "
                "query with WHERE, a filtered frame, or one that was declared and not understood), so that one record "
                "can change it. Use neighbours='add-remove' (--neighbours add-remove); or, if the number is public "
                "knowledge, declare it with Query(..., public_size=True) (--public-size) or "
                "OneRecordPerRow(..., public_size=True)."
            )
    elif "add-remove" not in relations:
        raise PrivacyError(
            "Under add-remove, and for persons, a source must not pick some rows in place of others (LIMIT, OFFSET, "
            "FETCH, head): without one record another moves up, and more rows change than the noise is for. Leave it "
            "out, or use neighbours='replace-one' with rows as the unit."
        )
