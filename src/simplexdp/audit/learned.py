"""A score for outputs of which nothing is known: learned on draws that are not used for the bound.

Any score gives a valid bound, a poor one a low bound. This one adds two logarithms of likelihood ratios: of the shape
of the output with the places of its gaps, which tells categories that come from the data; and of its values and zeros
as if they were normal with one covariance (Fisher's linear discriminant), which tells noise that is too small, shared
or reused.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .evidence import FloatArray

_RIDGE = 1e-9
_MOST = 1e6  # a score, so that outputs without any noise stay comparable


def learn_score(first: Sequence[Any], second: Sequence[Any]) -> Callable[[Any], float]:
    """A function of one output that is larger where the first table is the likelier one."""
    samples = [[_vector(output) for output in outputs] for outputs in (first, second)]
    patterns = [Counter(_pattern(vector) for vector in sample) for sample in samples]
    common = (patterns[0] + patterns[1]).most_common(1)[0][0]
    discriminant = _discriminant(*([v for v in sample if _pattern(v) == common] for sample in samples))

    def score(output: Any) -> float:
        vector = _vector(output)
        pattern = _pattern(vector)
        # One added to each count: what was never seen says nothing.
        told = math.log((patterns[0][pattern] + 1) / (patterns[1][pattern] + 1))
        return told + discriminant(vector) if pattern == common else told

    return score


def _vector(output: Any) -> FloatArray:
    return np.asarray(output, dtype=np.float64).ravel()


def _pattern(vector: FloatArray) -> tuple[int, bytes]:
    return vector.size, np.isfinite(vector).tobytes()


def _features(vector: FloatArray) -> FloatArray:
    return np.concatenate([np.where(np.isfinite(vector), vector, 0.0), vector == 0])


def _discriminant(first: list[FloatArray], second: list[FloatArray]) -> Callable[[FloatArray], float]:
    if len(first) < 2 or len(second) < 2:
        return lambda _: 0.0
    x, y = (np.array([_features(vector) for vector in sample]) for sample in (first, second))
    centre, gap = (x.mean(axis=0) + y.mean(axis=0)) / 2, x.mean(axis=0) - y.mean(axis=0)
    within = np.concatenate([x - x.mean(axis=0), y - y.mean(axis=0)])
    # The covariance at the scale of the values, so that noise which cancels exactly is seen as no noise at all.
    scale = np.sqrt(np.mean(np.concatenate([x, y]) ** 2, axis=0)) + 1e-300
    within, gap = within / scale, gap / scale
    covariance = within.T @ within / len(within)
    weights = np.linalg.solve(covariance + _RIDGE * np.eye(len(gap)), gap)

    def score(vector: FloatArray) -> float:
        value = float((_features(vector) - centre) / scale @ weights)
        return min(max(value, -_MOST), _MOST)

    return score
