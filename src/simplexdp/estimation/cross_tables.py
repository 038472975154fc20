"""Many tables of the same records: which to draw and how precisely, and estimates that agree on all that they share.

**What to draw.** A table S with noise of precision w_S in every cell tells the effect of columns A ⊆ S (the interaction
in the analysis of variance) with precision w_S n_A/n_S on the scale of the table over A, for n cells. The best linear
estimate of a wanted table T has summed variance Σ_{A ⊆ T} r_A (n_A/n_T) / p_A, with p_A = Σ_{S ⊇ A} w_S n_A/n_S and
r_A = Π (n_a − 1). The sum over wanted tables is convex in w, and a privacy budget fixes Σ w. So the tables to draw are
found among the wanted ones, all their margins and tables of a few binary columns by minimising it.

**What to say.** From few columns to many: the effects of fewer columns are taken from the estimates of fewer columns,
and only what all columns say together is noisy. A cell is a released value around m·ρ, for m as fewer columns would
have it (the fit without the interaction of all) and a ratio ρ whose law is learnt: from all tables of so many columns
first, and from each then. Estimates move onto the tables of fewer columns where their posterior variance is, and at
last by proportional fitting.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from ..errors import InvalidArgument
from .agreement import agreeing
from .joint import free_spread
from .network_tables import OverlappingTables
from .one_table import estimate
from .values import FloatArray, NoisyCounts

Columns = tuple[str, ...]
BoolArray = NDArray[np.bool_]

LEVELS = 2
"""Precisions are rounded to so many levels for each power of two: few different noises are quick to compose."""
NEGLIGIBLE = 1e-3
"""A table with less than this part of an equal share is not drawn."""
STEPS = 400
"""Of the search for precisions."""
LARGER, LARGER_MOST, PAYS = 16, 500, 0.97
"""Tables of three and four columns with at most so many cells, and not more than so many of them, are looked at beside
the margins of the wanted ones; they are drawn where they bring the summed variance below this part of it."""

RATIOS: FloatArray = np.concatenate([[0.0], np.geomspace(0.02, 64.0, 34)])
"""Centres of the law of a cell over what fewer columns would have it be."""
WIDTH = 0.13
"""Relative standard deviation around each centre: half the distance to the next, so that the law is smooth."""
LEARNT = 30.0
"""How many cells the law of all tables is worth in that of one table."""
SWEEPS_ALL, SWEEPS_ONE = 40, 25
"""Of expectation-maximisation for all tables and for one: more change nothing that matters."""
SAMPLED = 20_000
"""Cells from which the law of all tables is learnt, at most."""
BLOCK = 50_000
"""Cells of a large table that are looked at together."""
MOVES, FITS, FEW_FITS = 20, 30, 15
"""Sweeps of moving by posterior variance, and at most of proportional fitting of pairs and of larger tables."""
SHRINK = 0.2
"""In one move no cell falls below this part of itself."""
AGREED = 1e-13
"""Proportional fitting ends when no margin is off by more than this share of the total."""
MEETINGS, ROUNDS, MET = 5, 40, 1e-9
"""How often, and for how many rounds each, tables move towards the margins that they share; it ends where margins
differ by this share of the total."""
BLENDED = 1e-6
"""It also ends where so much of independent columns and equal cells makes what is left positive; so much is mixed in
where cells are impossible."""
USUAL, NORMAL = 0.95, 1.959964
"""The level at which bounds are made deviations, and that of a normal law."""
HEAVY_TAILS = 0.12
"""Posterior deviations are stretched by up to this part where little of the noise is left: real effects have heavier
tails than a law that is learnt from noise."""
LEAST_COUNT = 1e-9
"""No cell that can occur is taken for smaller than this share of an average cell."""


# -- what to draw ---------------------------------------------------------------------------------------------------


def margins_of(tables: Sequence[Columns]) -> list[Columns]:
    """The tables and all their margins, columns in one order, fewer columns first.

    >>> margins_of([("a", "b"), ("b", "c")])
    [('a',), ('b',), ('c',), ('a', 'b'), ('b', 'c')]
    """
    order = {name: i for i, name in enumerate(dict.fromkeys(name for names in tables for name in names))}
    found = {
        tuple(sorted(part, key=order.__getitem__))
        for names in tables
        for number in range(1, len(names) + 1)
        for part in combinations(names, number)
    }
    return sorted(found, key=lambda names: (len(names), [order[name] for name in names]))


def least_variance_tables(
    tables: Sequence[Columns], sizes: Mapping[str, int], weights: Sequence[float], *, total_is_public: bool
) -> tuple[tuple[Columns, ...], list[float]]:
    """The tables to draw for these wanted ones, and the share of the budget for each.

    Args:
        tables: the wanted ones.
        sizes: cells of each column.
        weights: what the squared error of each wanted table counts.
        total_is_public: whether the number of records need not be estimated as well.
    """
    candidates = margins_of(tables)
    share, loss = _least_variance(candidates, tables, sizes, weights, total_is_public)
    wider = [*candidates, *_larger(candidates, sizes)]
    if len(wider) > len(candidates):
        wide, least = _least_variance(wider, tables, sizes, weights, total_is_public)
        if least < PAYS * loss:
            candidates, share = wider, wide
    kept = np.flatnonzero(share > NEGLIGIBLE / len(candidates))
    rounded = 2.0 ** (np.round(LEVELS * np.log2(share[kept])) / LEVELS)
    return tuple(candidates[i] for i in kept), [float(part) for part in rounded / rounded.sum()]


def _larger(candidates: Sequence[Columns], sizes: Mapping[str, int]) -> list[Columns]:
    """Other tables of few cells: one of three binary columns tells their three pairs better than three tables do."""
    known = {frozenset(names) for names in candidates}
    small = [name for (name,) in (names for names in candidates if len(names) == 1) if 1 < sizes[name] <= LARGER // 4]
    found: list[Columns] = []
    for number in (3, 4):
        if math.comb(len(small), number) > LARGER_MOST:
            break
        tables = (names for names in combinations(small, number) if frozenset(names) not in known)
        found += [names for names in tables if math.prod(sizes[name] for name in names) <= LARGER]
    return found


def _least_variance(
    candidates: Sequence[Columns],
    tables: Sequence[Columns],
    sizes: Mapping[str, int],
    weights: Sequence[float],
    total_is_public: bool,
) -> tuple[FloatArray, float]:
    """The share of each candidate, and the summed variance at a budget of one."""
    from scipy.sparse import csr_matrix

    effects = margins_of(tables) if total_is_public else [(), *margins_of(tables)]
    place = {frozenset(names): i for i, names in enumerate(effects)}
    cells = {names: math.prod(sizes[name] for name in names) for names in (*effects, *candidates)}
    entries = [
        (place[part], j, cells[effects[place[part]]] / cells[names])
        for j, names in enumerate(candidates)
        for number in range(int(total_is_public), len(names) + 1)
        for part in map(frozenset, combinations(names, number))
        if part in place
    ]
    rows, columns, values = (np.array(each) for each in zip(*entries, strict=True))
    told = csr_matrix((values, (rows, columns)), shape=(len(effects), len(candidates)))
    wanted = np.zeros(len(effects))
    for names, weight in zip(tables, weights, strict=True):
        for number in range(int(total_is_public), len(names) + 1):
            for part in combinations(names, number):
                i = place[frozenset(part)]
                free = math.prod(sizes[name] - 1 for name in part)
                wanted[i] += weight * free * cells[effects[i]] / math.prod(sizes[name] for name in names)
    # A multiplicative step for an optimal design: p_A of each effect, the gain of each table, weights times its root.
    share = np.where([cells[names] > 1 for names in candidates], 1.0, 0.0)
    share /= share.sum()
    for _ in range(STEPS):
        precision = told @ share
        share *= np.sqrt(told.T @ (wanted / np.maximum(precision, 1e-300) ** 2))
        share /= share.sum()
    return share, float((wanted / np.maximum(told @ share, 1e-300))[wanted > 0].sum())


# -- what to say ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True, eq=False)
class Estimated:
    """One table.

    Args:
        counts: positive, up to impossible cells, and in agreement with all other tables.
        deviations: posterior standard deviation of each count.
        spread: variance of each count as if its margins were not known, for sums over cells.
        direct: the best linear unbiased estimate, of any sign.
    """

    counts: FloatArray
    deviations: FloatArray
    spread: FloatArray
    direct: FloatArray


def estimate_tables(
    drawn: Mapping[Columns, NoisyCounts],
    wanted: Sequence[Columns],
    impossible: Mapping[Columns, BoolArray] | None = None,
) -> dict[Columns, Estimated]:
    """The wanted tables and all their margins, from drawn ones that contain the wanted.

    Whatever two wanted tables share has the same counts in both, to the last digits; all are positive and add up to
    the total: the public one, or the best estimate of it.

    Args:
        drawn: released counts with their noise.
        wanted: each must be in a drawn table.
        impossible: cells that no record can be in, by the columns of a table of `margins_of(wanted)`.
    """
    check_wanted(wanted)
    for names in wanted:
        if not any(set(names) <= set(columns) for columns in drawn):
            raise InvalidArgument("wanted", "tables that were drawn, alone or inside of others", got=names)
    pooled = OverlappingTables(drawn)
    tables = _Levels(pooled, impossible or {})
    levels = margins_of(wanted)
    for number in sorted({len(names) for names in levels}):
        tables.add([names for names in levels if len(names) == number])
    tables.agree(wanted)
    found = {}
    for names in levels:
        counts, direct = tables.counts[names], pooled.marginal(names)
        variance = tables.deviations[names] ** 2 + pooled.total_variance / pooled.total**2 * counts**2
        kept = np.minimum(variance / (direct.variance + direct.slope * pooled.total / direct.size), 1.0)
        found[names] = Estimated(
            counts=counts,
            deviations=np.sqrt(variance) * (1 + HEAVY_TAILS * (1 - kept)),
            spread=tables.spreads[names] * (1 + HEAVY_TAILS * (1 - kept)) ** 2,
            direct=direct.values,
        )
    return found


def noise_of(pooled: OverlappingTables, names: Columns, weights: FloatArray) -> float:
    """The standard deviation of Σ weights · cells of the best linear estimate of a table: exact, effect by effect."""
    variance = pooled.total_variance * float(weights.mean()) ** 2
    for number in range(1, len(names) + 1):
        for part in combinations(names, number):
            effect, noise = pooled.effect(part)
            left = math.prod(1 - 1 / size for size in effect.shape)
            if left > 0:
                spread = weights.size / effect.size
                inner = centred(summed(weights, names, part)) / spread
                variance += noise / left * float((inner**2).sum())
    return math.sqrt(variance)


class _Levels:
    """Estimates that are made from few columns to many."""

    def __init__(self, pooled: OverlappingTables, impossible: Mapping[Columns, BoolArray]) -> None:
        self._pooled, self._impossible = pooled, impossible
        self.total = pooled.total
        self.counts: dict[Columns, FloatArray] = {(): np.array(self.total)}
        self.deviations: dict[Columns, FloatArray] = {}
        self.spreads: dict[Columns, FloatArray] = {}
        self._effects: dict[Columns, FloatArray] = {(): np.array(self.total)}
        self._single_shares: dict[str, FloatArray] = {}

    def add(self, level: Sequence[Columns]) -> None:
        """Tables of so many columns, after those of fewer."""
        if len(level[0]) == 1:
            for names in level:
                self._single(names)
                self._single_shares[names[0]] = self.counts[names] / self.total
        else:
            cells = [self._cells(names) for names in level]
            law = _learnt(np.concatenate(_sampled(cells)), SWEEPS_ALL, None)
            for names, each in zip(level, cells, strict=True):
                self._finish(names, each, law)
        for names in level:
            self._effects[names] = centred(self.counts[names])

    def _single(self, names: Columns) -> None:
        """One column: the posterior of its table, of the cells that can occur."""
        table, (_, left) = self._pooled.marginal(names), self._pooled.effect(names)
        # Independent noise in every cell that is this much once the total is known.
        noise = left / (1 - 1 / table.size) if table.size > 1 else table.variance
        possible = ~self._impossible.get(names, np.zeros(table.values.shape, dtype=np.bool_))
        found = estimate(NoisyCounts(values=table.values[possible], variance=noise, total=table.total))
        deviations = found.standard_errors
        if found.posterior is not None:  # its bounds trust less that all cells are alike than its mean does
            lower, upper = found.posterior.bounds(USUAL)
            deviations = np.maximum(deviations, (upper - lower) / self.total / (2 * NORMAL))
        self.counts[names], self.deviations[names] = np.zeros(table.values.shape), np.zeros(table.values.shape)
        self.counts[names][possible] = found.probabilities * self.total
        self.deviations[names][possible] = deviations * self.total
        # What cells have in common, such as a law that takes all empty ones for too large, adds up in sums: those get
        # all of the noise where single cells have less.
        self.spreads[names] = np.maximum(free_spread(self.deviations[names] ** 2), np.where(possible, noise, 0.0))

    def _cells(self, names: Columns) -> _Cells:
        """What fewer columns would have the cells be, and what was released around that."""
        margins = self._margins(names)
        values, variance = self._pooled.effect(names)
        for number in range(len(names)):
            for part in combinations(names, number):
                values = values + self._lifted(part, names)
        shape = values.shape
        expected = np.full(shape, self.total / math.prod(shape))
        if len(names) == 2:
            first, second = (self.counts[(name,)] for name in names)
            expected = np.multiply.outer(first, second) / self.total
        if names in self._impossible:
            expected = np.where(self._impossible[names], 0.0, expected)
        if len(names) > 2 or names in self._impossible:
            expected = fitted(expected, margins, FEW_FITS)
        least = LEAST_COUNT * self.total / math.prod(shape)
        expected = np.where(expected > 0, np.maximum(expected, least), expected)
        if names in self._impossible:
            expected = np.where(self._impossible[names], 0.0, expected)
        whole = self._pooled.marginal(names)
        around = max(0.0, whole.variance + whole.slope * self.total / whole.size - variance)
        return _Cells(expected=expected, values=values, variance=max(variance, 1e-9), around=around)

    def _lifted(self, part: Columns, names: Columns) -> FloatArray:
        """The effect of fewer columns on the cells of a table."""
        effect = self._effects[part]
        sizes = dict(zip(part, effect.shape, strict=True))
        spread = math.prod(self.counts[(name,)].size for name in names if name not in part)
        return effect.reshape([sizes.get(name, 1) for name in names]) / spread

    def _margins(self, names: Columns) -> list[FloatArray]:
        """The tables without one of the columns, that column's axis kept with one cell."""
        return [np.expand_dims(self.counts[names[:i] + names[i + 1 :]], i) for i in range(len(names))]

    def _finish(self, names: Columns, cells: _Cells, law: FloatArray) -> None:
        """Posterior means, moved onto the tables of fewer columns."""
        own = _learnt(_sampled([cells])[0], SWEEPS_ONE, law)
        mean, variance = cells.posterior(own)
        margins = self._margins(names)
        # The margins of larger tables, and of those with impossible cells, may contradict each other.
        sweeps = FITS if len(names) == 2 and names not in self._impossible else FEW_FITS
        self.counts[names] = fitted(moved(mean, variance, margins), margins, sweeps)
        self.deviations[names] = np.where(cells.expected > 0, np.sqrt(variance + cells.around), 0.0)
        # Of cells that vary independently the margins leave this part, if all vary alike.
        left = math.prod(1 - 1 / size for size in variance.shape)
        self.spreads[names] = np.where(cells.expected > 0, variance / max(left, 1e-9), 0.0)

    def agree(self, wanted: Sequence[Columns]) -> None:
        """Make shared margins the same: by proportional fitting, and the last digits by effects."""
        shared = _shared(wanted, list(self.counts))
        asked = {frozenset(names) for names in wanted}  # in any order of their columns
        kept = [names for names in self.counts if names in shared or frozenset(names) in asked]
        if self._impossible:
            self._agree_around_zeros([names for names in kept if names])
        else:
            for _ in range(MEETINGS):
                self._meet(kept)
                corrected = self._corrected(kept)
                part = self._too_low(corrected)
                if part <= BLENDED:
                    break
            self.counts |= {names: self._blended(names, counts, part) for names, counts in corrected.items()}
        for names in self.counts:
            if names and names not in kept:
                whole = next(each for each in wanted if set(names) <= set(each))
                self.counts[names] = summed(self.counts[_of(self.counts, whole)], _of(self.counts, whole), names)

    def _agree_around_zeros(self, kept: Sequence[Columns]) -> None:
        """What only proportional fitting respects: the nearest tables in agreement, and a little of independent ones.

        Tables of few columns need not know what is impossible for more, so that fitting to them empties cells that can
        occur: those get back what agreement takes from nobody.
        """
        bases = {names: self._base(names, self.counts[names].shape) for names in kept}
        for names in kept:
            if names in self._impossible:
                bases[names] = np.where(self._impossible[names], 0.0, bases[names])
        bases = agreeing(bases, self.total)
        mixed = {names: self.counts[names] + BLENDED * bases[names] for names in kept}
        found = agreeing(mixed, self.total)
        self.counts |= {names: (1 - BLENDED) * found[names] + BLENDED * bases[names] for names in kept}

    def _meet(self, kept: Sequence[Columns]) -> None:
        """Tables of several columns can have margins that no positive table has: both sides move, until they agree.

        So can two columns, where one determines the other. A margin that several tables share becomes the geometric
        mean of all its versions, and each table is fitted to it: these are projections in relative entropy, and
        independent columns are in agreement, so that they converge.
        """
        above = {names: [each for each in kept if set(names) < set(each)] for names in kept if names}
        above = {names: larger for names, larger in above.items() if larger}
        for _ in range(ROUNDS if above else 0):
            worst = 0.0
            for names, larger in above.items():
                own = self.counts[names]
                versions = [summed(self.counts[each], each, names) for each in larger]
                worst = max(worst, *(float(np.abs(version - own).max()) for version in versions))
                logs = np.mean([np.log(np.maximum(each, 1e-300)) for each in (own, *versions)], axis=0)
                mean = np.where(own > 0, np.exp(logs), 0.0)
                mean = fitted(mean, self._margins(names), 3) if len(names) > 1 else mean * (self.total / mean.sum())
                self.counts[names] = mean
                for each, version in zip(larger, versions, strict=True):
                    factor = along(mean / np.maximum(version, 1e-300), names, each)
                    self.counts[each] = self.counts[each] * factor
            if worst <= MET * self.total:
                break

    def _corrected(self, kept: Sequence[Columns]) -> dict[Columns, FloatArray]:
        """Every effect of fewer columns put to that of the table over just these: nothing is left of differences."""
        found: dict[Columns, FloatArray] = {}
        effects: dict[Columns, FloatArray] = {}
        for names in kept:
            if not names:
                continue
            counts = self.counts[names]
            counts = counts + (self.total - counts.sum()) / counts.size
            for number in range(1, len(names)):
                for part in combinations(names, number):
                    if part in effects:
                        away = effects[part] - centred(summed(counts, names, part))
                        counts = counts + along(away, part, names) * (away.size / counts.size)
            found[names], effects[names] = counts, centred(counts)
        return found

    def _base(self, names: Columns, shape: tuple[int, ...]) -> FloatArray:
        """Tables that agree and are positive: half of independent columns, half of equal cells."""
        return 0.5 * self._alone(names) + 0.5 * self.total / math.prod(shape)

    def _too_low(self, tables: Mapping[Columns, FloatArray]) -> float:
        """How much of the base makes every cell positive."""
        part = 0.0
        for names, counts in tables.items():
            base = self._base(names, counts.shape)
            short = LEAST_COUNT * base - counts
            if short.max() > 0:
                part = max(part, float((short / np.maximum(base - counts, 1e-300))[short > 0].max()))
        return min(1.0, part * (1 + 1e-9))

    def _blended(self, names: Columns, counts: FloatArray, part: float) -> FloatArray:
        return (1 - part) * counts + part * self._base(names, counts.shape) if part else counts

    def _alone(self, names: Columns) -> FloatArray:
        """The table of independent columns."""
        found = np.array(self.total)
        for name in names:
            found = np.multiply.outer(found, self._single_shares[name])
        return found


@dataclass(frozen=True, kw_only=True, eq=False)
class _Cells:
    """Cells of one table.

    Args:
        expected: as fewer columns would have them.
        values: released, as far as the columns say something together; the rest is estimated.
        variance: of the noise of those.
        around: variance of what is estimated from fewer columns.
    """

    expected: FloatArray
    values: FloatArray
    variance: float
    around: float

    def logs(self, start: int = 0, end: int | None = None, step: int = 1) -> FloatArray:
        """Log-likelihood of each cell at each ratio: normal noise around a narrow normal law."""
        part = slice(start, end, step)
        mean = self.expected.ravel()[part, None] * RATIOS
        variance = self.variance + (WIDTH * mean) ** 2
        return np.asarray(-0.5 * (self.values.ravel()[part, None] - mean) ** 2 / variance - 0.5 * np.log(variance))

    def posterior(self, law: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Mean and variance of each count."""
        means, variances = np.empty(self.expected.size), np.empty(self.expected.size)
        for start in range(0, self.expected.size, BLOCK):
            part = slice(start, start + BLOCK)
            weights = _shifted(self.logs(start, start + BLOCK)) * law
            weights /= weights.sum(axis=1, keepdims=True)
            centre = self.expected.ravel()[part, None] * RATIOS
            width = (WIDTH * centre) ** 2
            gain = width / (width + self.variance)
            inner = centre + gain * (self.values.ravel()[part, None] - centre)
            mean = (weights * inner).sum(axis=1)
            means[part] = mean
            variances[part] = (weights * (gain * self.variance + (inner - mean[:, None]) ** 2)).sum(axis=1)
        shape = self.expected.shape
        floor = LEAST_COUNT * self.expected
        return np.maximum(means.reshape(shape), floor), variances.reshape(shape)


def _sampled(tables: Sequence[_Cells]) -> list[FloatArray]:
    """Log-likelihoods of every so many-th cell, so that there are not more than needed to learn a law."""
    step = max(1, sum(each.expected.size for each in tables) // SAMPLED)
    return [each.logs(step=step) for each in tables]


def _shifted(logs: FloatArray) -> FloatArray:
    return np.asarray(np.exp(logs - logs.max(axis=1, keepdims=True)))


def _learnt(logs: FloatArray, sweeps: int, prior: FloatArray | None) -> FloatArray:
    """Weights of the ratios by expectation-maximisation, with a law from elsewhere or an even one as prior counts."""
    likelihoods = _shifted(logs)
    added = np.full(RATIOS.size, 0.5 / RATIOS.size) if prior is None else LEARNT * prior
    law = added / added.sum()
    for _ in range(sweeps):
        law = law * (likelihoods.T @ (1 / (likelihoods @ law))) + added
        law = law / law.sum()
    return np.asarray(law)


def centred(values: FloatArray) -> FloatArray:
    """What all axes say together: less the mean along every axis."""
    for axis in range(values.ndim):
        values = values - values.mean(axis=axis, keepdims=True)
    return np.asarray(values)


def summed(values: FloatArray, names: Columns, kept: Columns) -> FloatArray:
    """The margin over some of the columns, in their order."""
    left = values.sum(axis=tuple(i for i, name in enumerate(names) if name not in kept))
    order = [name for name in names if name in kept]
    return np.asarray(np.transpose(left, [order.index(name) for name in kept]))


def along(values: FloatArray, names: Columns, larger: Columns) -> FloatArray:
    """Values over some columns in the axes of a table of more columns, whose own axes come in the same order."""
    sizes = dict(zip(names, values.shape, strict=True))
    return np.asarray(values.reshape([sizes.get(name, 1) for name in larger]))


def _of(tables: Mapping[Columns, FloatArray], names: Columns) -> Columns:
    """The key of a table over these columns in any order."""
    return names if names in tables else next(key for key in tables if set(key) == set(names))


def _shared(wanted: Sequence[Columns], levels: Sequence[Columns]) -> set[Columns]:
    """Single columns, and what two of the wanted tables have in common with all its margins."""
    found = {names for names in levels if len(names) == 1}
    by_columns = [frozenset(names) for names in wanted]
    common = {one & other for one, other in combinations(by_columns, 2)}
    return found | {names for names in levels if names and any(set(names) <= each for each in common)}


def moved(counts: FloatArray, variance: FloatArray, margins: Sequence[FloatArray]) -> FloatArray:
    """Counts with about these margins: each difference is spread in proportion to the variance, nothing below zero."""
    variance = variance + 1e-12 * (counts > 0)
    for _ in range(MOVES):
        for axis, margin in enumerate(margins):
            short = margin - counts.sum(axis=axis, keepdims=True)
            step = variance * (short / np.maximum(variance.sum(axis=axis, keepdims=True), 1e-300))
            counts = np.maximum(counts + step, SHRINK * counts)
    return counts


def fitted(counts: FloatArray, margins: Sequence[FloatArray], sweeps: int) -> FloatArray:
    """Iterative proportional fitting: counts times factors of fewer columns, with these margins."""
    total = float(margins[0].sum())
    for _ in range(sweeps):
        worst = 0.0
        for axis, margin in enumerate(margins):
            sums = counts.sum(axis=axis, keepdims=True)
            worst = max(worst, float(np.abs(sums - margin).max()))
            counts = counts * (margin / np.maximum(sums, 1e-300))
        if worst <= AGREED * total:
            break
    return counts


def disagreement(tables: Mapping[Columns, FloatArray]) -> float:
    """The largest difference between two tables in a margin that both have, in counts."""
    worst = 0.0
    items = [(frozenset(names), names, counts) for names, counts in tables.items()]
    for (_, first, a), (other, second, b) in combinations(items, 2):
        shared = tuple(name for name in first if name in other)
        if shared:
            worst = max(worst, float(np.abs(summed(a, first, shared) - summed(b, second, shared)).max()))
    return worst


def check_wanted(wanted: Sequence[Columns]) -> None:
    """Refuse no table, and the same one twice."""
    if not wanted:
        raise InvalidArgument("tables", "at least one")
    seen: set[frozenset[str]] = set()
    for names in wanted:
        if frozenset(names) in seen:
            raise InvalidArgument("tables", "all different", got=names)
        seen.add(frozenset(names))
