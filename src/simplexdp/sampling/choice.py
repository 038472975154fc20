"""An exact choice of a small score: permute and flip, from random words in integer arithmetic.

Each candidate gets a coin of probability exp(−(s − min s)/τ), and one of those with heads is taken at random. That is
the law of McKenna and Sheldon (Permute-and-flip, 2020): going through the candidates in random order, the first
with heads is as likely to be any of them. It is also the law of the smallest score less exponential noise of mean τ
(Ding et al. 2021), and never worse on average than the exponential mechanism of the same guarantee.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from . import Entropy
from .discrete import exp_coins, rational, uniform_below

_FARTHEST = 128
"""Scores that are more scales than this above the smallest count as that far, so that numbers stay in 64 bits."""


def permute_and_flip(scores: NDArray[np.int64], scale: Fraction, entropy: Entropy) -> int:
    """The index of a small score: 2Δ/scale-DP where no score moves by more than Δ. Proof: docs/proofs/quantiles.md.

    >>> from simplexdp.sampling import SeededEntropy
    >>> permute_and_flip(np.array([900, 7, 900]), Fraction(3, 2), SeededEntropy(1))
    1
    """
    scale = rational("scale", scale)
    a, b = scale.numerator, scale.denominator
    farthest = -(-_FARTHEST * a // b)
    above = np.minimum(scores - scores.min(), farthest)
    # Less than 128 a + b, which is below 2⁵².
    heads = np.flatnonzero(exp_coins(above.astype(np.uint64) * np.uint64(b), a, entropy))
    return int(heads[uniform_below(heads.size, entropy)])
