"""Many cells as a few hundred weighted centroids, and back."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .grid import thin
from .values import FloatArray, NoisyCounts

MAX_CENTROIDS = 400
"""Tables up to this size are not compressed."""
FAR = 8
"""Deviations of the noise beyond which a value is large."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Compressed:
    """Values grouped by size: a centroid stands for `counts` cells; `values` is None if none were."""

    centroids: FloatArray
    counts: FloatArray
    spread: FloatArray
    values: FloatArray | None

    def expand(self, at_centroids: FloatArray, alone: FloatArray) -> FloatArray:
        """Interpolate between centroids; isolated ones have nothing to learn from others: use `alone`."""
        if self.values is None:
            return at_centroids
        return np.interp(self.values, self.centroids, np.where(self._isolated(), alone, at_centroids))

    def expand_shift(self, at_centroids: FloatArray, alone: FloatArray) -> FloatArray:
        """The same for a shift relative to the value itself."""
        if self.values is None:
            return at_centroids
        return self.values + self.expand(at_centroids - self.centroids, alone)

    def _isolated(self) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        gaps = np.diff(self.centroids)
        around = np.maximum(np.append(0.0, gaps), np.append(gaps, 0.0))
        # Under little noise neighbouring whole numbers are far apart too, but near 0 they still learn from each other.
        large = self.centroids > FAR * self.spread
        return np.asarray((around > 3 * self.spread) & (self.counts <= 1) & large)


def compress(noisy: NoisyCounts, ordered: FloatArray) -> Compressed:
    """Group values at a spacing of at least 0.08 noise deviations, denser where there are more of them.

    `ordered` are the sorted values.
    """
    values, scale = noisy.values.ravel(), noisy.scale
    if values.size <= MAX_CENTROIDS:
        spread = np.sqrt(noisy.noise_variance(values))
        return Compressed(centroids=values, counts=np.ones(values.size), spread=spread, values=None)
    ranks = np.linspace(0, values.size - 1, MAX_CENTROIDS // 2 + 1).astype(np.int64)
    least, most = float(ordered[0]), float(ordered[-1])
    far = np.geomspace(FAR * scale, max(most, (FAR + 1) * scale), 60)
    cuts = np.sort(np.concatenate([ordered[ranks], np.arange(-5, 8, 0.1) * scale, far]))
    cuts = thin(cuts[(cuts > least) & (cuts < most)], 0.08 * scale)
    group = np.searchsorted(cuts, values)
    counts = np.bincount(group).astype(np.float64)
    sums = np.bincount(group, weights=values)
    full = counts > 0
    centroids = sums[full] / counts[full]
    spread = np.sqrt(noisy.noise_variance(centroids))
    return Compressed(centroids=centroids, counts=counts[full], spread=spread, values=values)
