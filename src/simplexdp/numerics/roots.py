"""Root finding that returns the safe end of its bracket, and intervals that say which end is which."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from ..errors import NumericalError


@dataclass(frozen=True)
class Interval:
    """A number known to lie between `lower` and `upper`."""

    lower: float
    upper: float

    def __post_init__(self) -> None:
        if not self.lower <= self.upper:
            raise NumericalError(f"an interval came out empty: [{self.lower!r}, {self.upper!r}]")


_LARGEST_LOG = 700.0
_UNUSED = 1e-7
"""Where the excess is steep, the search goes on below `rtol` until less than this is left."""


def smallest_that_fits(
    excess: Callable[[float], float], start: float, *, rtol: float = 1e-10, near: float = 0.5
) -> float:
    """The smallest x > 0 with excess(x) ≤ 0, for an excess that decreases in x, to `rtol` from above.

    The answer is always a point at which `excess` was evaluated and found not positive. Returns infinity when no
    finite x fits. `excess` may return inf where the quantity behind it is infinite. `near` is how far, in ln x, the
    answer is thought to be from the start.
    """
    return math.exp(_search(lambda t: excess(math.exp(t)), math.log(start), rtol, near))


def largest_that_fits(excess: Callable[[float], float], start: float, *, rtol: float = 1e-10) -> float:
    """The largest x > 0 with excess(x) ≤ 0, for an excess that increases in x, to `rtol` from below; 0 if none."""
    return math.exp(-_search(lambda t: excess(math.exp(-t)), -math.log(start), rtol))


def _search(excess: Callable[[float], float], start: float, rtol: float, near: float = 0.5) -> float:
    """The smallest t with excess(t) ≤ 0, found by bracketing and the ITP method on finite values."""
    step, t, value = near, start, excess(start)
    if value <= 0:
        high, f_high, low, f_low = t, value, -math.inf, math.inf
        while not low > -math.inf:
            t -= step
            step *= 2
            if t < -_LARGEST_LOG:
                return high
            value = excess(t)
            if value <= 0:
                high, f_high = t, value
            else:
                low, f_low = t, value
    else:
        low, f_low, high, f_high = t, value, math.inf, -math.inf
        while not high < math.inf:
            t += step
            step *= 2
            if t > _LARGEST_LOG:
                return math.inf
            value = excess(t)
            if value <= 0:
                high, f_high = t, value
            else:
                low, f_low = t, value
    side = 0
    while high - low > rtol or f_high < -_UNUSED:
        middle = 0.5 * (low + high)
        if math.isfinite(f_low) and math.isfinite(f_high) and f_low > f_high:
            # Illinois false position, kept off the ends so that both sides of the bracket shrink.
            guess = low + (high - low) * f_low / (f_low - f_high)
            margin = max(0.3 * rtol, 1e-3 * (high - low) ** 2) if high - low < 1 else 0.1
            t = min(max(guess, low + margin), high - margin) if high - low > 2 * margin else middle
        else:
            t = middle
        if not low < t < high:
            break  # the bracket is as narrow as floating point allows
        value = excess(t)
        if value <= 0:
            high, f_high = t, value
            if side == 1:
                f_low /= 2
            side = 1
        else:
            low, f_low = t, value
            if side == -1:
                f_high /= 2
            side = -1
    return high


def smallest_integer_that_fits(excess: Callable[[int], float], start: int, *, at_least: int = 1) -> int:
    """The smallest integer n ≥ `at_least` with excess(n) ≤ 0, for an excess that decreases in n.

    Both n and, unless it is the first allowed, n − 1 have been evaluated, so the answer is exactly the first that fits.
    """
    values: dict[int, float] = {}

    def at(n: int) -> float:
        if n not in values:
            values[n] = excess(n)
        return values[n]

    low, high = at_least - 1, max(start, at_least)
    step = max(1, high // 64)
    if at(high) <= 0:
        while high - step > low and at(high - step) <= 0:
            high -= step
            step *= 4
        low = max(low, high - step)
    else:
        low = high
        while at(low + step) > 0:
            low += step
            step *= 4
            if low > 1 << 62:
                raise NumericalError("no integer below 2^62 fits")
        high = low + step
    stalled = 0
    while high - low > 1:
        middle = (low + high) // 2
        if low in values and math.isfinite(at(low)) and math.isfinite(at(high)) and stalled < 2:
            # False position in ln n; after two steps that shrink the bracket little, bisect.
            share = at(low) / (at(low) - at(high))
            guess = math.exp(math.log(low) + share * (math.log(high) - math.log(low))) if low > 0 else middle
            middle = min(max(round(guess), low + 1), high - 1)
        width = high - low
        if at(middle) <= 0:
            # The neighbour below is very likely the end of the search when the guess was good.
            high = middle
            if middle - 1 > low and at(middle - 1) > 0:
                low = middle - 1
        else:
            low = middle
            if middle + 1 < high and at(middle + 1) <= 0:
                high = middle + 1
        stalled = stalled + 1 if high - low > 0.5 * width else 0
    return high
