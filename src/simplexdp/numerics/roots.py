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


def smallest_that_fits(excess: Callable[[float], float], start: float, *, rtol: float = 1e-10) -> float:
    """The smallest x > 0 with excess(x) ≤ 0, for an excess that decreases in x, to `rtol` from above.

    The answer is always a point at which `excess` was evaluated and found not positive. Returns infinity when no
    finite x fits. `excess` may return inf where the quantity behind it is infinite.
    """
    return math.exp(_search(lambda t: excess(math.exp(t)), math.log(start), rtol))


def largest_that_fits(excess: Callable[[float], float], start: float, *, rtol: float = 1e-10) -> float:
    """The largest x > 0 with excess(x) ≤ 0, for an excess that increases in x, to `rtol` from below; 0 if none."""
    return math.exp(-_search(lambda t: excess(math.exp(-t)), -math.log(start), rtol))


def _search(excess: Callable[[float], float], start: float, rtol: float) -> float:
    """The smallest t with excess(t) ≤ 0, found by bracketing and the ITP method on finite values."""
    step, t, value = 0.5, start, excess(start)
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
    while high - low > rtol:
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


def smallest_integer_that_fits(fits: Callable[[int], bool], start: int, *, at_least: int = 1) -> int:
    """The smallest integer ≥ `at_least` that fits, for a condition that stays true once it is true."""
    low, high, step = at_least - 1, max(start, at_least), 1
    if fits(high):
        while high - step > low:
            if fits(high - step):
                high -= step
                step *= 2
            else:
                low = high - step
                break
    else:
        low = high
        while not fits(high := low + step):
            low = high
            step *= 2
            if high > 1 << 62:
                raise NumericalError("no integer below 2^62 fits")
    while high - low > 1:
        middle = (low + high) // 2
        if fits(middle):
            high = middle
        else:
            low = middle
    return high
