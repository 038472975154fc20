"""Expected KL of counts with independent noise, clipped at zero with a constant added, without simulation.

    E KL(p ‖ q) = Σ p ln p − Σ p E ln(X_i + s) + E ln Σ_i (X_i + s),   X_i the noisy count clipped at zero.

The last term is E ln S = ∫₀^∞ (e^-u − E e^-uS)/u du (Frullani), and E e^-uS is a product over independent cells.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import xlogy

from ..errors import InvalidArgument
from .base import FloatArray, checked_counts


@dataclass(frozen=True, kw_only=True)
class Law:
    """The distribution of one noisy count."""

    values: FloatArray
    probabilities: FloatArray


def expected_kl(counts: ArrayLike, law: Callable[[int], Law], constant: float) -> float:
    """E KL(f/N ‖ q), q ∝ max(noisy, 0) + constant; reads the counts, so it is not private."""
    f = checked_counts(counts).ravel()
    total = int(f.sum())
    if total == 0:
        raise InvalidArgument("counts", "not all zero", hint="An empty table has no distribution.")
    distinct, times = np.unique(f, return_counts=True)
    laws = [law(int(count)) for count in distinct]
    shifted = [np.maximum(each.values, 0.0) + constant for each in laws]
    means = [float(each.probabilities @ value) for each, value in zip(laws, shifted, strict=True)]
    scale = float(times @ np.array(means))
    # u = e^x / scale; the integrand falls off exponentially to the left and doubly so to the right.
    x = np.linspace(-34, 6, 801)
    u = np.exp(x)
    log_transform = np.zeros_like(u)
    logs = 0.0
    for count, n, each, value in zip(distinct, times, laws, shifted, strict=True):
        mgf = np.exp(-np.outer(u / scale, value)) @ each.probabilities
        log_transform += n * np.log(np.maximum(mgf, 1e-300))
        logs += n * count / total * float(each.probabilities @ np.log(value))
    log_sum = np.log(scale) + float(np.trapezoid(np.exp(-u) - np.exp(log_transform), x))
    p = f / total
    return float(np.sum(xlogy(p, p))) - logs + float(log_sum)
