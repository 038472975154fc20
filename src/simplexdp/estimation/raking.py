"""Pairs that a network misses: its records are weighted by one factor a pair until they agree with what was released.

q(x) = network(x) · Π ψ_ab(x_a, x_b) / Z. The factors come from iterative proportional fitting on simulated records of
the network, towards targets that know the noise. They are kept as far as fresh records, which they were not fitted to,
say that they help; otherwise the network stays as it is. Everything is post-processing of released values.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from .network_tables import OverlappingTables
from .structure import Family, Pair
from .values import FloatArray, NoisyCounts

IntArray = NDArray[np.int64]
SWEEPS, LEAST_EFFECTIVE, CAP = 4, 0.25, math.exp(4)
"""Sweeps over the pairs; the part of the records that weights leave effective at least; the largest factor."""
LITTLE = 20.0
"""Simulated records that are added to each cell before a ratio is taken."""
FIRST_STEP, LATER_STEP = 20.0, 5.0
"""The most that a cell's factor moves in the first sweep, and in a later one."""
POWERS = (1.0, 0.75, 0.5, 0.25)
"""Of the factors, tried on fresh records."""
_WIDTHS = np.geomspace(1e-4, 10, 26)


def stratified(
    families: Sequence[Family], tables: Mapping[int, FloatArray], size: int, generator: np.random.Generator
) -> list[NDArray[np.int32]]:
    """Records of a network by column: ancestral, and stratified inside every configuration of the parents."""
    drawn: dict[int, NDArray[np.int32]] = {}
    for node, parents in families:
        cells = tables[node].shape[-1]
        rows = tables[node].reshape(-1, cells)
        number = rows_at([drawn[each] for each in parents], tables[node].shape[:-1], size)
        shuffled = generator.permutation(size)
        order = shuffled[np.argsort(number[shuffled], kind="stable")]
        found, each = number[order], np.bincount(number, minlength=len(rows))
        level = (np.arange(size) - (np.cumsum(each) - each)[found] + generator.random(size)) / each[found]
        sums = np.cumsum(rows, axis=1) / rows.sum(axis=1, keepdims=True)
        line = (sums + np.arange(len(rows))[:, None]).ravel()
        place = np.searchsorted(line, found + np.minimum(level, 1 - 1e-12), side="right")
        codes = np.empty(size, dtype=np.int32)
        codes[order] = np.clip(place - found * cells, 0, cells - 1)
        drawn[node] = codes
    return [drawn[node] for node in sorted(drawn)]


def rows_at(codes: Sequence[NDArray[np.integer]], shape: Sequence[int], size: int) -> IntArray:
    """The number of each record's cell in a table over these columns."""
    found = np.zeros(size, dtype=np.int64)
    for column, cells in zip(codes, shape, strict=True):
        found = found * cells + column
    return found


def pair_counts(records: Sequence[NDArray[np.integer]], pair: Pair, sizes: Sequence[int]) -> FloatArray:
    """How many records are in each cell of a pair."""
    a, b = pair
    number = rows_at([records[a], records[b]], [sizes[a], sizes[b]], len(records[a]))
    return np.bincount(number, minlength=sizes[a] * sizes[b]).reshape(sizes[a], sizes[b]).astype(float)


def target(values: FloatArray, expected: FloatArray, variance: float, total: float) -> FloatArray:
    """The posterior mean of a pair's table around the model's, adding up to the total.

    Deviations from the model are N(0, t m^1.5) a priori, with t by maximum likelihood; the noise and the sampling of
    records come on top.
    """
    residual, best, found = values - expected, -math.inf, expected
    for width in _WIDTHS:
        prior = width * expected**1.5 + 1e-9
        spread = prior + variance + expected
        likelihood = -0.5 * float((np.log(spread) + residual**2 / spread).sum())
        if likelihood > best:
            best, found = likelihood, expected + residual * prior / spread
    found = np.maximum(found, 0.1 * expected)
    return np.asarray(found * (total / found.sum()))


@dataclass(eq=False)
class _Margin:
    """One pair while it is raked: each record's cell, its target, and its factor so far."""

    pair: Pair
    cell: IntArray
    target: FloatArray
    allowed: NDArray[np.bool_]
    factor: FloatArray = field(init=False)

    def __post_init__(self) -> None:
        self.factor = np.asarray(self.allowed, dtype=np.float64)

    def of(self, weights: FloatArray, scale: float) -> FloatArray:
        """The weighted records, in counts."""
        sums = np.bincount(self.cell, weights, minlength=self.target.size)
        return np.asarray(sums.reshape(self.target.shape) * scale)

    def miss(self, weights: FloatArray, scale: float) -> float:
        """How far they are from the target."""
        return float(np.abs(self.of(weights, scale) - self.target).sum())


@dataclass(frozen=True, kw_only=True, eq=False)
class Raked:
    """One factor for each raked pair, and what they come to.

    Args:
        factors: by pair.
        power: which they were taken to; 0 where fresh records say that they do not help, and then there are none.
        gain: by how much the log-loss of a record falls, as far as the releases can say.
        log_scale: ln Z.
    """

    factors: dict[Pair, FloatArray]
    power: float
    gain: float
    log_scale: float


NOT_RAKED = Raked(factors={}, power=0.0, gain=0.0, log_scale=0.0)


def rake(
    records: Sequence[NDArray[np.integer]],
    fresh: Sequence[NDArray[np.integer]],
    known: OverlappingTables,
    pairs: Sequence[Pair],
    names: Sequence[str],
    sizes: Sequence[int],
    impossible: Mapping[Pair, NDArray[np.bool_]],
) -> Raked:
    """Factors for these pairs.

    Args:
        records: of the network, by column.
        fresh: others, which decide how far the factors are kept.
        known: all releases together.
        pairs: to be raked, the most important one first.
        names: of the columns.
        sizes: of the columns.
        impossible: cells that no record can be in, by pair.
    """
    margins = []
    weights, scale = np.ones(len(records[0])), known.total / len(records[0])
    for a, b in pairs:
        noisy = known.marginal((names[a], names[b]))
        allowed = ~impossible.get((a, b), np.zeros(noisy.values.shape, dtype=bool))
        cell = rows_at([records[a], records[b]], [sizes[a], sizes[b]], len(weights))
        margin = _Margin((a, b), cell, noisy.values, allowed)
        margin.target = _aimed(noisy, np.maximum(margin.of(weights, scale), 1e-6), allowed, known.total)
        weights = _moved(margin, weights, scale, FIRST_STEP)
        margins.append(margin)
    none = [np.asarray(each.allowed, dtype=np.float64) for each in margins]
    best = (math.fsum(each.miss(np.ones(len(weights)), scale) for each in margins), none)
    for sweep in range(SWEEPS + 1):
        for margin in margins if sweep else ():
            weights = _moved(margin, weights, scale, LATER_STEP)
        miss = math.fsum(each.miss(weights, scale) for each in margins)
        if miss < best[0]:
            best = (miss, [each.factor for each in margins])
    for margin, factor in zip(margins, best[1], strict=True):
        margin.factor = factor
    return _tempered(margins, fresh, sizes, known.total)


def _aimed(noisy: NoisyCounts, expected: FloatArray, allowed: NDArray[np.bool_], total: float) -> FloatArray:
    found = target(noisy.values, expected, noisy.variance + noisy.slope * total / noisy.size, total) * allowed
    return np.asarray(found * (total / max(float(found.sum()), 1e-300)))


def _moved(margin: _Margin, weights: FloatArray, scale: float, most: float) -> FloatArray:
    """The weights with one pair nearer to its target, and its factor changed; nothing where they run away."""
    now, little = margin.of(weights, scale), LITTLE * scale
    ratio = np.clip((margin.target + little) / (now + little), 1 / most, most)
    size = len(weights)
    safe = np.where(margin.factor > 0, margin.factor, 1.0)
    for power in (1.0, 0.5, 0.25, 0.1):
        change = np.where(margin.allowed, np.clip(safe * ratio**power, 1 / CAP, CAP) / safe, 0.0)
        moved = weights * change.ravel()[margin.cell]
        moved *= size / max(float(moved.sum()), 1e-300)
        if size * size / max(float(moved @ moved), 1e-300) >= LEAST_EFFECTIVE * size:
            margin.factor = margin.factor * change
            return np.asarray(moved)
    return weights


def _tempered(
    margins: Sequence[_Margin], fresh: Sequence[NDArray[np.integer]], sizes: Sequence[int], total: float
) -> Raked:
    """The factors to the power that helps most by the targets and by records that they were not fitted to."""
    logs = [np.log(np.where(each.factor > 0, each.factor, 1.0)) for each in margins]
    said = math.fsum(float((each.target * log).sum()) for each, log in zip(margins, logs, strict=True)) / total
    size = len(fresh[0])
    again = []
    log_weight, possible = np.zeros(size), np.ones(size, dtype=bool)
    for each, log in zip(margins, logs, strict=True):
        a, b = each.pair
        cell = rows_at([fresh[a], fresh[b]], [sizes[a], sizes[b]], size)
        again.append(_Margin(each.pair, cell, each.target, each.allowed))
        log_weight += log.ravel()[cell]
        possible &= each.allowed.ravel()[cell]
    plain = math.fsum(each.miss(np.ones(size), total / size) for each in again)
    best = NOT_RAKED
    for power in POWERS:
        weights = np.exp(power * (log_weight - log_weight.max())) * possible
        mean = float(weights.mean())
        log_scale = math.log(max(mean, 1e-300)) + power * float(log_weight.max())
        effective = float(weights.sum()) ** 2 / max(float(weights @ weights), 1e-300)
        gain = power * said - log_scale
        weights /= max(mean, 1e-300)
        agrees = math.fsum(each.miss(weights, total / size) for each in again) < plain
        if gain > best.gain and agrees and effective >= LEAST_EFFECTIVE / 2 * size:
            factors = {m.pair: np.exp(power * log) * m.allowed for m, log in zip(margins, logs, strict=True)}
            best = Raked(factors=factors, power=power, gain=gain, log_scale=log_scale)
    return best
