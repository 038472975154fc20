"""A lower bound on ε from two samples, valid at a stated confidence.

(ε, δ)-DP says Pr[E] ≤ e^ε Pr'[E] + δ for every event E, so ε ≥ ln((p − δ)/p') with p, p' the probabilities of one
event under two neighbours. The event is a threshold on a score, chosen on a fifth of the draws; on the others p is
bounded from below and p' from above (Clopper & Pearson 1934), each at half of the allowed error, so both hold at once
with the stated confidence, whatever the score is. If the score is the exact privacy loss, the best threshold
attains the exact ε in the limit (Neyman & Pearson).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincinv

from ..budget import check_fraction
from ..errors import InvalidArgument

FloatArray = NDArray[np.float64]
_CANDIDATES = 512  # thresholds that are tried on the first part
_LUCK = 1e-3  # the error allowed while choosing: of many candidates the luckiest is not the best


def at_least(hits: NDArray[np.int64], draws: int, error: float) -> FloatArray:
    """Clopper–Pearson: the true probability is above this but for a chance of `error`."""
    low = betaincinv(np.maximum(hits, 1), draws - np.maximum(hits, 1) + 1, error)
    return np.where(hits > 0, low, 0.0)


def at_most(hits: NDArray[np.int64], draws: int, error: float) -> FloatArray:
    """Clopper–Pearson: the true probability is below this but for a chance of `error`."""
    high = betaincinv(np.minimum(hits, draws - 1) + 1, draws - np.minimum(hits, draws - 1), 1 - error)
    return np.where(hits < draws, high, 1.0)


class Hits(NamedTuple):
    """How often each of some events happened in `draws` draws under the likely table and under the other."""

    likely: NDArray[np.int64]
    other: NDArray[np.int64]
    draws: int


@dataclass(frozen=True, kw_only=True)
class Event:
    """`score ≥ threshold` when `upper`, else `score ≤ threshold`; the first table is the likely one when upper."""

    threshold: float
    upper: bool

    def __str__(self) -> str:
        return f"score {'≥' if self.upper else '≤'} {self.threshold:.6g}"


@dataclass(frozen=True, kw_only=True)
class Finding:
    """What one event proves at one δ."""

    event: Event
    delta: float
    lower: float
    hits: tuple[int, int]
    draws: int


class Evidence:
    """Scores of draws under two neighbouring tables, the first fifth for choosing and the rest for proving."""

    def __init__(self, first: FloatArray, second: FloatArray, confidence: float = 0.95) -> None:
        draws = min(first.size, second.size)
        if draws < 20:
            raise InvalidArgument("draws", "20 or more", got=draws)
        if np.isnan(first).any() or np.isnan(second).any():
            raise InvalidArgument("score", "a number for every output, not nan")
        self.confidence = check_fraction("confidence", confidence)
        part = draws // 5
        self._tuning = np.sort(first[:part]), np.sort(second[:part])
        self._proof = np.sort(first[part:draws]), np.sort(second[part:draws])
        self.draws = draws - part

    def best(self, deltas: Sequence[float], gain: Callable[[float, FloatArray], FloatArray]) -> Finding:
        """Take the event and the δ with the largest gain(δ, bound) on the first part; prove it on the second."""
        found: tuple[float, float, Event] | None = None
        for upper in (True, False):
            thresholds = self._thresholds()
            hits = self._hits(self._tuning, thresholds, upper)
            for delta in deltas:
                gains = gain(delta, self._bounds(hits, delta, _LUCK))
                i = int(np.argmax(gains))
                if found is None or gains[i] > found[0]:
                    found = float(gains[i]), delta, Event(threshold=float(thresholds[i]), upper=upper)
        assert found is not None
        return self.prove(found[2], found[1])

    def prove(self, event: Event, delta: float) -> Finding:
        """The bound of one event on the second part."""
        hits = self._hits(self._proof, np.array([event.threshold]), event.upper)
        lower = float(self._bounds(hits, delta, 1 - self.confidence)[0])
        return Finding(
            event=event, delta=delta, lower=lower, hits=(int(hits.likely[0]), int(hits.other[0])), draws=self.draws
        )

    def delta_at(self, epsilon: float) -> float:
        """A lower bound on δ at ε: p − e^ε p' of the best event, valid for this ε by itself."""
        best, chosen = -math.inf, None
        thresholds = self._thresholds()
        for upper in (True, False):
            gaps = self._gaps(self._hits(self._tuning, thresholds, upper), epsilon, _LUCK)
            i = int(np.argmax(gaps))
            if gaps[i] > best:
                best, chosen = float(gaps[i]), Event(threshold=float(thresholds[i]), upper=upper)
        assert chosen is not None
        hits = self._hits(self._proof, np.array([chosen.threshold]), chosen.upper)
        return max(0.0, float(self._gaps(hits, epsilon, 1 - self.confidence)[0]))

    # -- parts ---------------------------------------------------------------------------------------------------

    def _thresholds(self) -> FloatArray:
        values = np.unique(np.concatenate(self._tuning))
        if values.size > _CANDIDATES:
            values = values[np.linspace(0, values.size - 1, _CANDIDATES).astype(np.int64)]
        return values

    @staticmethod
    def _hits(samples: tuple[FloatArray, FloatArray], thresholds: FloatArray, upper: bool) -> Hits:
        """How often each event happened under the table that makes it likely, and under the other."""
        if upper:
            likely, other = (s.size - np.searchsorted(s, thresholds, side="left") for s in samples)
        else:
            other, likely = (np.searchsorted(s, thresholds, side="right") for s in samples)
        return Hits(likely, other, samples[0].size)

    def _bounds(self, hits: Hits, delta: float, error: float) -> FloatArray:
        p, q = self._probabilities(hits, error)
        return np.log(np.maximum((p - delta) / q, 1.0))  # ε is never below 0

    def _gaps(self, hits: Hits, epsilon: float, error: float) -> FloatArray:
        p, q = self._probabilities(hits, error)
        return p - math.exp(epsilon) * q

    @staticmethod
    def _probabilities(hits: Hits, error: float) -> tuple[FloatArray, FloatArray]:
        return at_least(hits.likely, hits.draws, error / 2), at_most(hits.other, hits.draws, error / 2)
