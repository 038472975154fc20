"""Sums of one score for each feature, for many rows at once: few look-ups in tables of several features."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
MOST_CELLS = 1 << 11
"""Cells of a look-up table for several features."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Lookup:
    """Scores of several features in one table, two classes in one complex number: few look-ups for each row.

    Args:
        features: positions of the features.
        sizes: their numbers of cells.
        pairs: for each two classes the scores of every combination of cells; a missing second class is 0.
    """

    features: tuple[int, ...]
    sizes: tuple[int, ...]
    pairs: list[NDArray[np.complex128]]

    @classmethod
    def of(cls, scores: Sequence[FloatArray]) -> list[Lookup]:
        """Tables of at most MOST_CELLS combinations of neighbouring features, from classes × values each."""
        groups: list[list[int]] = []
        cells = MOST_CELLS + 1
        for k, score in enumerate(scores):
            cells *= score.shape[1]
            if cells > MOST_CELLS:
                groups.append([])
                cells = score.shape[1]
            groups[-1].append(k)
        return [cls._joined(group, [scores[k] for k in group]) for group in groups]

    @classmethod
    def _joined(cls, group: list[int], scores: list[FloatArray]) -> Lookup:
        joined = scores[0]
        for score in scores[1:]:
            joined = (joined[:, :, None] + score[:, None, :]).reshape(len(score), -1)
        if len(joined) % 2:
            joined = np.concatenate([joined, np.zeros((1, joined.shape[1]))])
        pairs = [joined[j] + 1j * joined[j + 1] for j in range(0, len(joined), 2)]
        return cls(features=tuple(group), sizes=tuple(score.shape[1] for score in scores), pairs=pairs)

    def cells(self, block: NDArray[np.intp]) -> NDArray[np.intp]:
        """The combined cell of every row of a block of features × rows."""
        cells = block[self.features[0]]
        for k, size in zip(self.features[1:], self.sizes[1:], strict=True):
            cells = cells * size + block[k]
        return np.asarray(cells)


def log_shares(lookups: Sequence[Lookup], block: NDArray[np.intp], start: FloatArray) -> FloatArray:
    """ln of the shares of the classes, rows × classes: e to the sum of `start` and the scores, normalised.

    Args:
        lookups: the scores.
        block: cell numbers, features × rows.
        start: one score for each class.
    """
    classes, rows = start.size, block.shape[1]
    pairs = (classes + 1) // 2
    total = np.zeros((pairs, rows), dtype=np.complex128)
    work = np.empty(rows, dtype=np.complex128)
    for lookup in lookups:
        cells = lookup.cells(block)
        for pair in range(pairs):
            total[pair] += np.take(lookup.pairs[pair], cells, out=work, mode="clip")
    scores = np.empty((classes, rows))
    scores[::2] = total.real
    scores[1::2] = total.imag[: classes // 2]
    scores += start[:, None]
    scores -= scores.max(axis=0)
    sums = np.zeros(rows)
    for share in np.exp(scores):  # in this order for any number of rows, so that no row depends on others
        sums += share
    scores -= np.log(sums)
    return scores.T
