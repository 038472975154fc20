"""Private-PGM (McKenna, Sheldon & Miklau 2019) through the package `mbi`: a joint fit of overlapping noisy tables."""

from __future__ import annotations

import importlib.util
import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simplexdp.estimation import NoisyCounts

FloatArray = NDArray[np.float64]
Tables = dict[str, FloatArray]
STEPS, BLOCK = 1000, 10
"""Mirror-descent steps, and after how many of them the fit is looked at."""


def available() -> bool:
    """Whether `mbi` and the jax that it needs are installed."""
    return all(importlib.util.find_spec(name) is not None for name in ("mbi", "jax"))


def fit(
    families: Mapping[str, tuple[str, ...]], noisy: Mapping[tuple[str, ...], NoisyCounts]
) -> tuple[dict[str, FloatArray], dict[str, FloatArray]]:
    """Expected counts of every family (node last): after 1000 steps, and when the loss first is cells/2 or less.

    Half of the squared residuals over the noise variance is cells/2 in expectation at the exact counts: a fit below
    that follows the noise. Where 1000 steps do not get there, the second is the first.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about single precision, which is switched off here
        import jax

        jax.config.update("jax_enable_x64", True)
        import mbi
        import mbi.estimation as estimation

        estimation.CALLBACK_EVERY = BLOCK
    sizes = {name: size for names, table in noisy.items() for name, size in zip(names, table.values.shape, strict=True)}
    domain = mbi.Domain(tuple(sizes), tuple(sizes.values()))
    measured = [
        mbi.LinearMeasurement(table.values.ravel(), columns, stddev=table.scale) for columns, table in noisy.items()
    ]
    total = next(iter(noisy.values())).likely_total
    enough = sum(table.size for table in noisy.values()) / 2
    first: dict[str, FloatArray] = {}

    def look(marginals: Any) -> None:
        if not first and _loss(marginals, noisy) <= enough:
            first.update(_counts(marginals, families, sizes))

    model = estimation.MirrorDescent().estimate(domain, measured, known_total=total, iters=STEPS, callback_fn=look)
    last = _counts(model, families, sizes)
    return last, first or last


def _loss(marginals: Any, noisy: Mapping[tuple[str, ...], NoisyCounts]) -> float:
    residuals = (
        (np.asarray(marginals.project(columns).datavector()) - table.values.ravel()) / table.scale
        for columns, table in noisy.items()
    )
    return sum(float(each @ each) for each in residuals) / 2


def _counts(model: Any, families: Mapping[str, tuple[str, ...]], sizes: Mapping[str, int]) -> dict[str, FloatArray]:
    return {
        node: np.asarray(model.project(family).datavector(), dtype=np.float64).reshape([sizes[n] for n in family])
        for node, family in families.items()
    }
