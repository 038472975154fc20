"""The negative binomial sampler: its law, its bits, its work."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from sampling_support import SIGNIFICANCE, Counting, Replay, p_value
from scipy import stats

from simplexdp.errors import InvalidArgument
from simplexdp.sampling import SecureEntropy, SeededEntropy
from simplexdp.sampling.polya import negative_binomial


def law(n: int, flips: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    head = 2.0**-flips
    low, high = stats.nbinom.ppf([1e-9, 1 - 1e-9], n, head)
    support = np.arange(int(low), int(high) + 1)
    probabilities = stats.nbinom.pmf(support, n, head)
    probabilities[0] = stats.nbinom.cdf(support[0], n, head)
    return support, probabilities


# Shapes on both sides of each border: one word, several, the long scan, more than one pass.
@pytest.mark.slow
@pytest.mark.parametrize(
    ("n", "flips"),
    [
        (1, 1),
        (1, 2),
        (1, 3),
        (1, 7),
        (13, 1),
        (19, 1),
        (20, 1),
        (48, 1),
        (49, 1),
        (124, 1),
        (21, 2),
        (219, 3),
        (1387, 1),
        (2100, 1),
    ],
)
@pytest.mark.parametrize("mode", ["plain", "upper"])
def test_goodness_of_fit(n: int, flips: int, mode: str) -> None:
    """Chi-square at 1e-4 with 40,000 draws; a shape that is off by 3 % (or one) is rejected."""
    size = 40_000
    upper = n if mode == "upper" else None
    draws = negative_binomial(np.full(size, n), flips, SeededEntropy(n + flips), upper=upper)
    assert p_value(draws, *law(n, flips)) > SIGNIFICANCE
    assert p_value(draws, *law(n + max(1, n * 3 // 100), flips)) < SIGNIFICANCE


def test_secure_entropy_gives_the_same_law() -> None:
    """Mean and variance of 100,000 draws within 7 standard errors (p = 5e-12)."""
    draws = negative_binomial(np.full(100_000, 30), 2, SecureEntropy())
    mean, variance, kurtosis = 30 * 3, 30 * 3 * 4, 6 / 30 + 1 / (30 * 3 * 4)
    assert abs(draws.mean() - mean) < 7 * np.sqrt(variance / 1e5)
    assert abs(draws.var() / variance - 1) < 7 * np.sqrt((2 + kurtosis) / 1e5)


def test_a_mixture_of_sizes_keeps_every_cell_in_its_place() -> None:
    """Each draw near its own shape; 500 standardised large draws normal by Kolmogorov–Smirnov at 1e-4, a
    scale that is half as large again rejected."""
    shapes = np.array([1, 10**6, 3, 40_000, 50, 10**7, 7, 20_000, 1, 600_000] * 100)
    draws = negative_binomial(shapes, 1, SeededEntropy(2))
    assert np.all(np.abs(draws - shapes) < 8 * np.sqrt(2 * shapes) + 30)
    large = shapes >= 20_000
    scores = (draws - shapes)[large] / np.sqrt(2 * shapes[large])
    assert stats.kstest(scores, "norm").pvalue > SIGNIFICANCE
    assert stats.kstest(1.5 * scores, "norm").pvalue < SIGNIFICANCE


def test_a_billion_heads() -> None:
    n = 10**9
    draw = int(negative_binomial(np.array([n]), 1, SeededEntropy(1))[0])
    assert abs(draw - n) < 6 * np.sqrt(2 * n)
    assert draw != n


def test_the_sum_of_two_shapes_is_the_law_of_their_sum() -> None:
    """Chi-square at 1e-4, 40,000 draws of NB(5) + NB(9) against NB(14)."""
    entropy = SeededEntropy(8)
    draws = negative_binomial(np.full((40_000, 2), [5, 9]), 1, entropy).sum(axis=1)
    assert p_value(draws, *law(14, 1)) > SIGNIFICANCE
    assert p_value(draws, *law(15, 1)) < SIGNIFICANCE


def test_cells_and_tables_are_independent() -> None:
    """Correlations of 20,000 draws between cells and between named tables within 5 standard errors (p =
    6e-7)."""
    root = SeededEntropy(4)
    first = negative_binomial(np.full((20_000, 3), 13), 1, root.child("a"))
    second = negative_binomial(np.full((20_000, 3), 13), 1, root.child("b"))
    off = np.corrcoef(np.hstack([first, second]).T) - np.eye(6)
    assert np.abs(off).max() < 5 / np.sqrt(20_000)


def reference(n: int, flips: int, words: list[int], width: int) -> int:
    """Tails before the n-th head, bit by bit, for one cell and one pass."""
    coins = words[:width]
    for flip in range(1, flips):
        coins = [a & b for a, b in zip(coins, words[flip * width : (flip + 1) * width], strict=True)]
    bits = [(word >> bit) & 1 for word in coins for bit in range(64)]
    position = [index for index, bit in enumerate(bits) if bit][n - 1]
    return position + 1 - n


@pytest.mark.slow
@settings(max_examples=100, deadline=None)
@given(
    words=st.lists(st.integers(0, 2**64 - 1), min_size=200, max_size=200),
    n=st.integers(1, 19),
)
def test_one_word_is_read_bit_by_bit(words: list[int], n: int) -> None:
    """Also when the word runs out: the cell goes on with the next one."""
    bits = [(word >> bit) & 1 for word in words for bit in range(64)]
    ones = [index for index, bit in enumerate(bits) if bit]
    if len(ones) < 40:
        return
    assert negative_binomial(np.array([n]), 1, Replay(words))[0] == ones[n - 1] + 1 - n


@pytest.mark.parametrize(("n", "flips", "seed"), [(100, 1, 1), (5, 2, 2), (30, 3, 3), (3000, 1, 4)])
def test_words_are_read_bit_by_bit(n: int, flips: int, seed: int) -> None:
    source = Counting(seed)
    drawn = int(negative_binomial(np.array([n]), flips, source)[0])
    (taken,) = source.calls
    words = [int(word) for word in SeededEntropy(seed).words(taken)]
    assert drawn == reference(n, flips, words, taken // flips)


def test_no_head_is_ever_dropped() -> None:
    """Words without heads: the cell keeps waiting and all its tails are counted."""
    assert negative_binomial(np.array([1]), 1, Replay([0, 0, 0, 0b1000]))[0] == 3 * 64 + 3


def test_constant_work_does_not_depend_on_the_shapes() -> None:
    small, large = Counting(1), Counting(1)
    negative_binomial(np.full(500, 1), 1, small, upper=3000)
    negative_binomial(np.full(500, 3000), 1, large, upper=3000)
    assert small.calls == large.calls
    # Without the bound the work tells the shapes apart.
    small, large = Counting(1), Counting(1)
    negative_binomial(np.full(500, 1), 1, small)
    negative_binomial(np.full(500, 3000), 1, large)
    assert sum(small.calls) < sum(large.calls) / 50


def test_constant_work_in_several_passes() -> None:
    """A bound beyond one pass of words; mean of 40 draws within 6 standard errors."""
    n = 1_200_000
    draws = negative_binomial(np.array([n] * 40 + [1]), 1, SeededEntropy(3), upper=n)
    assert abs(draws[:40].mean() - n) < 6 * np.sqrt(2 * n / 40)
    assert draws[40] < 60


def test_memory_is_bounded() -> None:
    source = Counting(1)
    negative_binomial(np.full(300_000, 124), 1, source)
    negative_binomial(np.array([10**7]), 3, source)
    assert max(source.calls) <= 3 << 17


def test_shapes_and_types() -> None:
    assert negative_binomial(np.empty((0, 3), dtype=np.int64), 1, SeededEntropy(1)).shape == (0, 3)
    assert negative_binomial(np.ones((2, 3, 4), dtype=np.uint8), 1, SeededEntropy(1)).shape == (2, 3, 4)
    shapes = np.array([4, 5])
    negative_binomial(shapes, 1, SeededEntropy(1))
    assert shapes.tolist() == [4, 5]


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        ({"n": np.array([77, 0])}, "n"),
        ({"n": np.array([77, -5])}, "n"),
        ({"n": np.array([77.0])}, "n"),
        ({"n": np.array([2**60 + 77])}, "n"),
        ({"n": np.array([77, 2**63 + 77], dtype=np.uint64)}, "n"),
        ({"n": np.array(["77"])}, "n"),
        ({"flips": 0}, "flips"),
        ({"flips": 17}, "flips"),
        ({"flips": 1.5}, "flips"),
        ({"upper": 76}, "upper"),
        ({"upper": 0}, "upper"),
    ],
)
def test_bad_arguments_are_named_and_no_count_is_shown(arguments: dict[str, object], name: str) -> None:
    full: dict[str, object] = {"n": np.array([77]), "flips": 1, **arguments}
    with pytest.raises(InvalidArgument) as caught:
        negative_binomial(entropy=SeededEntropy(1), **full)  # type: ignore[arg-type]
    assert caught.value.name == name
    assert "77" not in str(caught.value)
