"""What a request would lose and cost, before anything is spent: exact, or at once between points that are exact.

Nothing here reads a row: errors are those of the noise and of public stand-ins.
"""

from __future__ import annotations

import math
import threading
import warnings
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..accounting.filters import Filter
from ..errors import Infeasible, InvalidArgument, PrivacyWarning, SimplexDPError, UtilityWarning
from ..forecast import Forecast, plan
from ..ledger import Amount
from ..models.certificate import Risk, percent
from ..stand_ins import TableStandIn
from .spec import Spec

GRID = (1.0, 0.1, 5.0, 0.3, 2.5, 0.03, 10.0)
"""Values of ε that are computed in advance, in this order; between them is interpolated."""
LEAST, MOST = 0.01, 20.0
"""Of ε on the slider."""
HALF = 1.959963984540054
"""Half of a 95 % interval, in standard deviations."""
_BARS = 10
_TRIES = 6
_CLOSE, _OVER = 1.01, 1.003
"""How near the wanted error is to be met, and by how much a guess of ε is above what it aims at."""


@dataclass(frozen=True, kw_only=True)
class Point:
    """What is foreseen at one ε.

    Args:
        epsilon: of the request.
        noise: standard deviation of the noise of a cell, in records; the mean over tables of several.
        kl: expected loss of a table in nats.
        right: how often the best guess of an attacker is right, at most.
    """

    epsilon: float
    noise: float
    kl: float
    right: float

    @property
    def half(self) -> float:
        """Half the width of a 95 % interval, in records."""
        return HALF * self.noise


@dataclass(frozen=True, kw_only=True)
class Bar:
    """A cell of the stand-in with its interval, as parts of the widest."""

    count: int
    at: float
    low: float
    high: float


@dataclass(frozen=True, kw_only=True)
class Foreseen:
    """What the page of the budget shows.

    Args:
        point: the numbers.
        exact: whether they are; otherwise they are interpolated.
        size: the records that they are about.
        tables: columns, cells, mechanism, noise and loss of each table; empty where not exact.
        risk: in words.
        bars: of a public or invented stand-in.
        left: ε that the ledger has left.
        after: what it would have left then; None where it does not pay for it.
        more: how many more requests like this one it would pay.
        problem: why the ledger would not pay.
    """

    point: Point
    exact: bool
    size: int | None
    tables: tuple[tuple[str, int, str, float, float], ...] = ()
    risk: tuple[str, ...] = ()
    bars: tuple[Bar, ...] = ()
    left: float | None = None
    after: float | None = None
    more: int | None = None
    problem: str = ""

    @property
    def share(self) -> float | None:
        """Half the width of an interval as a part of all records."""
        return None if not self.size else self.point.half / self.size

    @property
    def right(self) -> str:
        """How often an attacker is right, in per cent."""
        return percent(min(1.0, math.ceil(self.point.right * 1e4) / 1e4))


class Foresight:
    """Forecasts of requests, the points of each kept.

    Args:
        spec: of the request; its ε does not matter.
        size: the number of records, where it is public or guessed.
        whole: what the ledger has left, or would have at first.
        like: public counts for the stand-in.
    """

    def __init__(self, spec: Spec, size: int | None, whole: Amount, like: Sequence[int] = ()) -> None:
        self._spec, self._size, self._whole, self._like = spec, size, whole, like
        self._points: dict[float, Point] = {}
        self._exact: dict[float, Foreseen] = {}
        self._lock = threading.Lock()

    def prepare(self, pool: ThreadPoolExecutor) -> None:
        """Compute points to interpolate between, one after the other, behind everything else."""
        for epsilon in GRID:
            pool.submit(self._prepare, epsilon)

    def _prepare(self, epsilon: float) -> None:
        if epsilon not in self._points:
            try:
                self.exact(epsilon)
            except SimplexDPError:
                return

    def exact(self, epsilon: float) -> Foreseen:
        """All numbers as they are."""
        known = self._exact.get(epsilon)
        if known is not None:
            return known
        spec = replace(self._spec, budget=replace(self._spec.budget, epsilon=epsilon))
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore", PrivacyWarning)
            warnings.simplefilter("ignore", UtilityWarning)
            found = self._forecast(spec)
        with self._lock:
            self._points[epsilon] = found.point
            self._exact[epsilon] = found
        return found

    def _forecast(self, spec: Spec) -> Foreseen:
        unit = spec.unit
        forecast: Forecast = plan(
            spec.recipe,
            budget=spec.budget,
            total=self._size or None,
            neighbours=unit.neighbours,
            rows_per_person=unit.rows_per_person,
            ledger=_Paying(self._whole),
        )
        guarantee = forecast.design.guarantee
        risk = Risk.of(guarantee.loss)
        noise = float(np.mean([table.noise for table in forecast.tables]))
        point = Point(epsilon=spec.budget.epsilon, noise=noise, kl=forecast.expected_kl, right=risk.posterior)
        found = Foreseen(
            point=point,
            exact=True,
            size=self._size,
            tables=tuple(
                (" × ".join(table.columns), table.cells, table.mechanism, table.noise, table.expected_kl)
                for table in forecast.tables
            ),
            risk=risk.words(guarantee.unit, guarantee.neighbours),
            bars=self._bars(forecast),
        )
        return self._paid(found, guarantee.loss)

    def _paid(self, found: Foreseen, loss: Any) -> Foreseen:
        amount = self._whole
        try:
            price = amount.filter.price(loss, amount.exact)
            after = replace(amount, exact=amount.exact - _fraction(price.cost)) if price.fits else None
        except (InvalidArgument, Infeasible):
            after = None
        left = None if amount.delta is None else amount.epsilon()
        if after is None or after.exact < 0:
            return replace(found, left=left, problem="This costs more than the ledger has left.")
        more = min(after.times(loss), 9_999)
        return replace(found, left=left, after=None if left is None else after.epsilon(), more=more)

    def _bars(self, forecast: Forecast) -> tuple[Bar, ...]:
        """The largest cells of the first table, on counts that are public or made up."""
        table = forecast.tables[0]
        counts = np.asarray(self._like, dtype=np.int64) if self._like else None
        total = float(self._size or 1000)
        stand_in = TableStandIn(counts=counts, total=total, method="posterior-mean", repeats=None)
        shown = np.sort(stand_in.of(table.cells))[::-1][:_BARS]
        half = HALF * table.noise
        widest = max(float(shown.max(initial=1)) + half, 1.0)
        return tuple(
            Bar(
                count=int(count),
                at=count / widest,
                low=max(0.0, (count - half) / widest),
                high=min(1.0, (count + half) / widest),
            )
            for count in shown
        )

    def between(self, epsilon: float) -> Foreseen | None:
        """Interpolated between the nearest points; None while there are none. Exact where that is known."""
        known = self._exact.get(epsilon)
        if known is not None:
            return known
        with self._lock:
            points = sorted(self._points.values(), key=lambda point: point.epsilon)
        if len(points) < 2:
            return None
        at = [math.log(point.epsilon) for point in points]
        x = math.log(epsilon)
        i = min(max(sum(each < x for each in at), 1), len(points) - 1)
        a, b, part = points[i - 1], points[i], (x - at[i - 1]) / (at[i] - at[i - 1])
        point = Point(
            epsilon=epsilon,
            noise=_line(a.noise, b.noise, part),
            kl=_line(a.kl, b.kl, part),
            right=min(1.0, max(0.5, a.right + part * (b.right - a.right))),
        )
        return Foreseen(point=point, exact=False, size=self._size)

    def epsilon_for(self, half: float) -> float:
        """About the smallest ε at which intervals are at most so many records wide to each side."""
        low, high = LEAST, MOST
        if self.exact(high).point.half > half:
            raise Infeasible("No ε of the slider makes the error that small.")
        guess = 1.0
        for _ in range(_TRIES):
            found = self.exact(_rounded(guess)).point
            if found.half <= half:
                high = min(high, found.epsilon)
            else:
                low = max(low, found.epsilon)
            if high / low < _CLOSE or (found.half <= half and found.half * _CLOSE > half):
                break
            guess = found.epsilon * found.half / half * _OVER
            if not low < guess < high:
                guess = math.sqrt(low * high)
        return high


@dataclass(frozen=True)
class _Paying:
    """As much of a ledger as a plan needs: one that is not started yet has a filter, too."""

    whole: Amount

    @property
    def filter(self) -> Filter:
        """What prices."""
        return self.whole.filter

    def remaining(self, _: str) -> Amount:
        """What is left."""
        return self.whole

    def charge(self, *_: Any, **__: Any) -> Any:
        """Plans charge nothing."""
        raise NotImplementedError

    admit = charge


def _line(a: float, b: float, part: float) -> float:
    """Between two positive numbers, straight on a logarithmic scale."""
    if not (a > 0 and b > 0):
        return max(0.0, a + part * (b - a))
    return math.exp(math.log(a) + part * (math.log(b) - math.log(a)))


def _rounded(number: float) -> float:
    return float(f"{number:.4g}")


def _fraction(value: float) -> Any:
    from fractions import Fraction

    return Fraction(value)
