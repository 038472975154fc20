"""The numbers of a guarantee as text: the one place where an ε, a δ or a Rényi ε gets its digits.

What is promised is never printed below its value and what is left never above it, so that a reader is at worst told
less than holds. The text depends on the number alone, so that one guarantee looks the same wherever it is shown.
"""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from typing import Literal

from ..errors import NumericalError

Direction = Literal["nearest", "down", "up"]

BITS = 36
"""The significant bits that are kept, so that the sampler can work with small integers."""


def as_float(value: Fraction, direction: Direction = "nearest") -> float:
    """The float next to an exact number, on the side that is asked for; beyond the largest float, infinity or that.

    >>> as_float(Fraction(1, 10), "down") < Fraction(1, 10) < as_float(Fraction(1, 10), "up")
    True
    """
    try:
        nearest = float(value)
    except OverflowError:
        nearest = math.inf if value > 0 else -math.inf
    if direction == "down" and nearest > value:
        return math.nextafter(nearest, -math.inf)
    if direction == "up" and nearest < value:
        return math.nextafter(nearest, math.inf)
    return nearest


def short_fraction(value: float | Fraction) -> Fraction:
    """The smallest number of BITS significant bits that is not below a positive value.

    >>> short_fraction(0.75)
    Fraction(3, 4)
    >>> short_fraction(0.1) > 0.1
    True
    """
    # The power of two next above decides the unit; a value that rounds up to it is that power itself.
    exponent = math.frexp(as_float(Fraction(value), "down"))[1]
    unit = Fraction(2) ** (exponent - BITS)
    return math.ceil(Fraction(value) / unit) * unit


def last_bit(value: float) -> float:
    """The distance from a short fraction of this size to the next."""
    return 2.0 ** (math.frexp(value)[1] - BITS)


DIGITS = 6
"""The most significant digits of a printed amount."""
INFINITE, NONE = "infinite", "–"

_UP, _DOWN = (Context(prec=DIGITS, rounding=rounding) for rounding in (ROUND_CEILING, ROUND_FLOOR))
_WHOLE = Context(prec=20)  # more digits than the shortest spelling of any float has


def printed(value: float | Fraction | None, *, up: bool = True) -> str:
    """An amount of ε or δ for people, rounded up; with `up=False` one that is left, or a lower bound, rounded down.

    A float whose shortest spelling has at most six digits is printed so, and reads back as the same float. Of all
    others the exact value is rounded, once, to six digits.

    >>> printed(0.1), printed(1e-5), printed(1.0000024), printed(1.0000024, up=False)
    ('0.1', '1e-05', '1.00001', '1')
    >>> printed(math.inf), printed(None)
    ('infinite', '–')
    """
    if value is None:
        return NONE
    number = float(value)
    if math.isnan(number) or number == -math.inf:
        raise NumericalError("an amount of privacy came out as no number")
    if math.isinf(number):
        return INFINITE
    shortest = _shortest(number)
    if number == value and len(shortest.as_tuple().digits) <= DIGITS:
        return _text(shortest)
    numerator, denominator = value.as_integer_ratio() if isinstance(value, Fraction) else number.as_integer_ratio()
    rounded = (_UP if up else _DOWN).divide(Decimal(numerator), Decimal(denominator))
    return INFINITE if math.isinf(float(rounded)) else _text(_WHOLE.normalize(rounded))


def exact(value: float) -> str:
    """A public setting such as a Rényi order, with all digits that it takes to read it back.

    >>> exact(5.0), exact(17.823457)
    ('5', '17.823457')
    """
    number = float(value)
    return _text(_shortest(number)) if math.isfinite(number) else INFINITE


def _shortest(number: float) -> Decimal:
    """The shortest decimal that reads back as this float, without zeros at its end."""
    return _WHOLE.normalize(Decimal(repr(number)))


def _text(decimal: Decimal) -> str:
    """Plain digits, or a power of ten beyond four zeros in front or six places before the point."""
    if not decimal:
        return "0"
    if -5 < decimal.adjusted() < DIGITS:
        return f"{decimal:f}"
    sign, digits, _ = decimal.as_tuple()
    first, *others = map(str, digits)
    fraction = f".{''.join(others)}" if others else ""
    return f"{'-' if sign else ''}{first}{fraction}e{decimal.adjusted():+03d}"
