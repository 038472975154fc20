"""Short binary fractions: what a noise parameter is rounded up to before it is drawn and accounted."""

from __future__ import annotations

import math
from fractions import Fraction

BITS = 36
"""The significant bits that are kept, so that the sampler can work with small integers."""


def short_fraction(value: float) -> Fraction:
    """The smallest number of BITS significant bits that is not below a positive value.

    >>> short_fraction(0.75)
    Fraction(3, 4)
    >>> short_fraction(0.1) > 0.1
    True
    """
    mantissa, exponent = math.frexp(value)
    return Fraction(math.ceil(mantissa * 2**BITS)) * Fraction(2) ** (exponent - BITS)


def last_bit(value: float) -> float:
    """The distance from a short fraction of this size to the next."""
    return 2.0 ** (math.frexp(value)[1] - BITS)
