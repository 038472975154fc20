"""Which columns belong together: from noisy scores of pairs to a forest, further parents and pairs that are missed.

Columns are numbers 0, 1, …; a pair is (a, b) with a < b. A score says by how much a table differs from what was
expected, in units of N times information. Everything here is post-processing of releases and public facts.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import lru_cache

import numpy as np

from ..lazy import special, stats
from .values import FloatArray

Pair = tuple[int, int]
Family = tuple[int, tuple[int, ...]]
DUPLICATE = 0.9
"""No second parent shares more of its entropy than this with a parent."""
TARGET_WORTH = 2.0
"""Scores of pairs with the target count so many times as much once the forest stands."""
_GRID = np.concatenate([[0.0], np.geomspace(1e-4, 200.0, 160)])
_MOST = 480


@dataclass(frozen=True, kw_only=True)
class Shares:
    """How a budget is spread over the steps, as parts of Σ 1/σ², and what goes with it.

    Args:
        one: tables of single columns.
        pairs: a score of every pair against independence.
        tree: tables of the forest's edges.
        links: a score of every pair against that forest.
        families: tables of each column with its parents.
        misses: a score of every pair against the network.
        raking: tables of pairs that the network misses.
        clip: the most that a record counts in a score.
        cut: scores below so many deviations are left alone.
        raked: the most raked pairs for each column.
        parents: the most parents of a column.
    """

    one: float
    pairs: float
    tree: float
    links: float
    families: float
    misses: float
    raking: float
    clip: float
    cut: float
    raked: float
    parents: float

    @classmethod
    def at(cls, ratio: float) -> Shares:
        """Between the anchors in proportion to the logarithm of the ratio: nothing jumps with N or ε.

        >>> Shares.at(10).one, round(Shares.at(0.02).pairs, 3) > Shares.at(0.01).pairs
        (1.0, True)
        """
        places = [math.log(place) for place, _ in ANCHORS]
        at = math.log(max(ratio, 1e-12))
        return cls(
            **{
                part.name: float(np.interp(at, places, [getattr(shares, part.name) for _, shares in ANCHORS]))
                for part in fields(cls)
            }
        )


_PLENTY = Shares(
    one=0.05, pairs=0.03, tree=0.10, links=0.05, families=0.43, misses=0.04, raking=0.30,
    clip=1.0, cut=2.5, raked=5.0, parents=5.0,
)  # fmt: skip
_MIDDLE = Shares(
    one=0.10, pairs=0.08, tree=0.22, links=0.10, families=0.21, misses=0.04, raking=0.25,
    clip=0.5, cut=2.5, raked=2.0, parents=3.0,
)  # fmt: skip
_LITTLE = Shares(
    one=0.25, pairs=0.15, tree=0.0, links=0.0, families=0.43, misses=0.05, raking=0.12,
    clip=0.25, cut=1.5, raked=0.4, parents=1.0,
)  # fmt: skip
_NOTHING = Shares(
    one=1.0, pairs=0.0, tree=0.0, links=0.0, families=0.0, misses=0.0, raking=0.0,
    clip=0.25, cut=1.5, raked=0.0, parents=1.0,
)  # fmt: skip
ANCHORS: tuple[tuple[float, Shares], ...] = (
    (0.0015, _PLENTY), (0.004, _MIDDLE), (0.015, _MIDDLE), (0.045, _LITTLE), (0.3, _NOTHING),
)  # fmt: skip
"""Shares by the deviation of one pair's score, at the clip 1 and the share 0.1, over the number of records."""


# -- scores -----------------------------------------------------------------------------------------------------------


def unexplained(scores: FloatArray, cells: Sequence[FloatArray], clip: float, simulated: float = 0.0) -> FloatArray:
    """Scores less what a right model would show, about N times the information that the model misses.

    Args:
        scores: Σ over the cells of the slopes from 0 to the count, in natural units; see `Expected`.
        cells: the expected counts of each table.
        clip: of the scores.
        simulated: N over the number of simulated records that the expected counts come from; 0 for exact ones.
    """
    lowest = -math.expm1(-clip)
    return np.array(
        [
            score + lowest * float(m.sum()) - (1 + simulated) * float(_by_chance(m, clip).sum())
            for score, m in zip(scores, cells, strict=True)
        ]
    )


def _by_chance(expected: FloatArray, clip: float) -> FloatArray:
    """The mean of φ at a Poisson count of this mean, which is about ½ where the clip is far away."""
    return np.interp(expected, _GRID, _chance_grid(clip))


@lru_cache(maxsize=16)
def _chance_grid(clip: float) -> FloatArray:

    k = np.arange(_MOST)
    found = [0.0]
    for mean in _GRID[1:]:
        slopes = np.clip(np.log((k[:-1] + 0.5) / mean), -clip, clip)
        score = np.concatenate([[0.0], np.cumsum(slopes)])
        found.append(float(stats.poisson.pmf(k, mean) @ score) - math.expm1(-clip) * mean)
    return np.array(found)


# -- forests ----------------------------------------------------------------------------------------------------------


def forest(columns: int, score: Mapping[Pair, float], cut: float) -> list[Pair]:
    """The edges of the maximum spanning forest over pairs whose score is at least the cut."""
    part, edges = list(range(columns)), []
    for a, b in sorted(score, key=lambda pair: (-score[pair], pair)):
        if score[a, b] < cut:
            break
        if part[a] != part[b]:
            old = part[b]
            part = [part[a] if each == old else each for each in part]
            edges.append((a, b))
    return edges


def rooted(columns: int, edges: Sequence[Pair], score: Mapping[Pair, float], target: int | None = None) -> list[Family]:
    """Families of a forest, each tree from the target, or else from its column with the highest scores, downwards."""
    near: dict[int, list[int]] = {i: [] for i in range(columns)}
    for a, b in edges:
        near[a].append(b)
        near[b].append(a)

    def weight(i: int, j: int) -> float:
        return score[min(i, j), max(i, j)]

    def first(i: int) -> tuple[bool, float]:
        return i != target, -math.fsum(weight(i, j) for j in near[i])

    families: list[Family] = []
    seen: set[int] = set()
    for root in sorted(range(columns), key=first):
        if root in seen:
            continue
        seen.add(root)
        families.append((root, ()))
        queue = [root]
        while queue:
            i = queue.pop(0)
            for j in sorted(near[i], key=lambda j: -weight(i, j)):
                if j not in seen:
                    seen.add(j)
                    families.append((j, (i,)))
                    queue.append(j)
    return families


def forest_pairs(families: Sequence[Family], tables: Mapping[int, FloatArray]) -> dict[Pair, FloatArray]:
    """The joint distribution of every pair of columns in a forest; exact."""
    singles: dict[int, FloatArray] = {}
    near: dict[int, list[tuple[int, FloatArray]]] = {}
    for node, parents in families:
        near[node] = []
        if not parents:
            singles[node] = np.asarray(tables[node])
            continue
        (parent,) = parents
        joint = singles[parent][:, None] * tables[node]
        singles[node] = joint.sum(axis=0)
        near[parent].append((node, tables[node]))
        near[node].append((parent, joint.T / np.maximum(singles[node], 1e-300)[:, None]))
    found: dict[Pair, FloatArray] = {}
    for start in singles:
        reached = {start: np.diag(singles[start])}
        queue = [start]
        while queue:
            i = queue.pop()
            for j, given in near[i]:
                if j not in reached:
                    reached[j] = reached[i] @ given
                    queue.append(j)
        for other in singles:
            if other > start:
                found[start, other] = reached.get(other, np.outer(singles[start], singles[other]))
    return found


def forest_triples(
    families: Sequence[Family], tables: Mapping[int, FloatArray], pairs: Mapping[Pair, FloatArray]
) -> dict[tuple[int, ...], FloatArray]:
    """The joint distribution of (a, p, b) for every column b with a parent p and every other a that comes before b.

    The path from a to b goes through p, so a and b are independent given p.
    """
    found: dict[tuple[int, ...], FloatArray] = {}
    before: list[int] = []
    for node, parents in families:
        for parent in parents:
            for other in before:
                if other != parent:
                    joint = pairs[other, parent] if other < parent else pairs[parent, other].T
                    found[other, parent, node] = joint[:, :, None] * tables[node][None]
        before.append(node)
    return found


def beyond_the_forest(families: Sequence[Family], scores: Mapping[tuple[int, ...], float]) -> dict[Pair, float]:
    """What each earlier column says of a later one beyond its parent, N times the conditional information.

    Of a pair with a triple that is its score less those of the two pairs that the forest may have wrong; of others the
    pair's.
    """
    pair: dict[Pair, float] = {(key[0], key[1]): score for key, score in scores.items() if len(key) == 2}
    found, parents = pair.copy(), dict(families)
    for key, score in scores.items():
        if len(key) == 3:
            other, parent, node = key
            assert parents[node] == (parent,)
            known = pair[min(other, parent), max(other, parent)] + pair[min(parent, node), max(parent, node)]
            found[min(other, node), max(other, node)] = score - known
    return found


def shared_entropy(pairs: Mapping[Pair, FloatArray], columns: int) -> FloatArray:
    """Mutual information over the smaller entropy, for all pairs."""

    found = np.zeros((columns, columns))
    for (a, b), joint in pairs.items():
        rows, cols = joint.sum(axis=1), joint.sum(axis=0)
        entropies = [-float(special.xlogy(p, p).sum()) for p in (rows, cols, joint)]
        part = (entropies[0] + entropies[1] - entropies[2]) / max(min(entropies[:2]), 1e-9)
        found[a, b] = found[b, a] = min(max(part, 0.0), 1.0)
    return found


# -- more than a forest -----------------------------------------------------------------------------------------------


def favoured(scores: FloatArray, pairs: Sequence[Pair], target: int | None) -> FloatArray:
    """Scores above 0 of pairs with the target count more."""
    with_target = np.array([target is not None and target in pair for pair in pairs], dtype=bool)
    return np.where(with_target & (scores > 0), TARGET_WORTH * scores, scores)


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What further parents are held to.

    Args:
        cut: the least score, in the units of the scores.
        parents: the most of one column.
        cells: the most of one family's table.
        whole: the most of it before pooling.
    """

    cut: float
    parents: int
    cells: float
    whole: float


def more_parents(
    families: Sequence[Family],
    scores: Mapping[Pair, float],
    shared: FloatArray,
    sizes: Sequence[int],
    whole: Sequence[int],
    limits: Limits,
) -> list[Family]:
    """Further parents, greedily by score, each discounted for what it shares with those that came with it.

    Arrows follow the order of the families, so that no cycle arises.
    """
    place = {node: i for i, (node, _) in enumerate(families)}
    parents = {node: list(above) for node, above in families}
    new: dict[int, list[int]] = {node: [] for node, _ in families}
    left = {(a, b) if place[a] < place[b] else (b, a): score for (a, b), score in scores.items() if score > 0}
    while left:
        worth = {(a, b): score * math.prod(1 - float(shared[a, q]) for q in new[b]) for (a, b), score in left.items()}
        a, b = max(worth, key=lambda arrow: (worth[arrow], arrow))
        if worth[a, b] < limits.cut:
            break
        del left[a, b]
        family = (a, b, *parents[b])
        if (
            a not in parents[b]
            and len(parents[b]) < limits.parents
            and math.prod(sizes[c] for c in family) <= limits.cells
            and math.prod(whole[c] for c in family) <= limits.whole
            and all(shared[a, q] <= DUPLICATE for q in parents[b])
        ):
            parents[b].append(a)
            new[b].append(a)
    return [(node, tuple(parents[node])) for node, _ in families]


def all_pairs(columns: int) -> list[Pair]:
    """Every pair once."""
    return list(itertools.combinations(range(columns), 2))


# -- pools ------------------------------------------------------------------------------------------------------------


def pool(shares: FloatArray, order: FloatArray | None, most: int) -> list[int]:
    """Where each cell of a long column goes, so that at most so many pools are left; by released shares alone.

    Common cells keep to themselves. Where cells have an order, the others go with their neighbours, otherwise the rare
    ones together.

    >>> pool(np.array([0.5, 0.02, 0.3, 0.01, 0.17]), None, 4)
    [0, 3, 1, 3, 2]

    Args:
        shares: of the cells.
        order: the place of each cell, ∞ for other and missing ones, which stay alone; None for names.
        most: pools.
    """
    cells = len(shares)
    if cells <= most:
        return list(range(cells))
    if order is None:
        common = np.sort(np.argsort(-shares, kind="stable")[: most - 1])
        found = np.full(cells, most - 1)
        found[common] = np.arange(most - 1)
        return [int(each) for each in found]
    apart = np.flatnonzero(~np.isfinite(order))
    inside = np.argsort(order, kind="stable")[: cells - len(apart)]
    pools = most - len(apart)
    ends = np.cumsum(shares[inside]) - shares[inside] / 2
    levels = np.minimum((ends / max(float(shares[inside].sum()), 1e-300) * pools).astype(int), pools - 1)
    found = np.zeros(cells, dtype=int)
    found[inside] = np.unique(levels, return_inverse=True)[1]
    found[apart] = found[inside].max() + 1 + np.arange(len(apart))
    return [int(each) for each in found]
