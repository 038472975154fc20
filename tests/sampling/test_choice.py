"""Permute and flip at its edges; its law is tested beside the quantiles that are chosen with it."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from sampling_support import Counting

from simplexdp.sampling import SeededEntropy
from simplexdp.sampling.choice import permute_and_flip


def test_far_scores_and_extreme_scales() -> None:
    scores = np.array([2**62, 4, 2**62], dtype=np.int64)
    for scale in (Fraction(1, 2**44), Fraction(2**44), Fraction(2**44, 2**44 - 1)):
        assert permute_and_flip(scores, scale, SeededEntropy(1)) == 1
    same = [permute_and_flip(np.full(3, 2**40), Fraction(1), SeededEntropy(seed)) for seed in range(40)]
    assert set(same) == {0, 1, 2}


def test_the_work_of_a_choice_depends_on_the_scores() -> None:
    """As the threat model says: a coin of a far score fails at once, and each that is nearly as good is flipped on."""
    used = []
    for scores in (np.full(2000, 100), np.arange(2000) * 1000):
        entropy = Counting(1)
        permute_and_flip(scores, Fraction(50), entropy)
        used.append(sum(entropy.calls))
    assert used[0] != used[1]
