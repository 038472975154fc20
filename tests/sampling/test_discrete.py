"""Exact discrete noise: its law, against closed forms and against OpenDP's."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray
from sampling_support import SIGNIFICANCE, Replay, p_value
from scipy import stats

from simplexdp.errors import InvalidArgument, NumericalError
from simplexdp.sampling import SecureEntropy, SeededEntropy, discrete
from simplexdp.sampling.discrete import MOST, discrete_gaussian, discrete_laplace

Law = tuple[NDArray[np.int64], NDArray[np.float64]]


def laplace_law(scale: float) -> Law:
    support = np.arange(-math.ceil(25 * scale) - 1, math.ceil(25 * scale) + 2)
    return support, np.tanh(0.5 / scale) * np.exp(-np.abs(support) / scale)


def gaussian_law(variance: float) -> Law:
    reach = math.ceil(8 * math.sqrt(variance)) + 1
    support = np.arange(-reach, reach + 1)
    weights = np.exp(-(support**2) / (2 * variance))
    return support, weights / weights.sum()


SCALES = [
    Fraction(1, 7),
    Fraction(1),
    Fraction(3, 2),
    Fraction(5276, 1000),
    Fraction(40),
    Fraction(MOST - 1, MOST // 9),
]
VARIANCES = [
    Fraction(1, 10),
    Fraction(1, 4),
    Fraction(1),
    Fraction(7, 3),
    Fraction(2784, 100),
    Fraction(900),
    Fraction(MOST - 1, MOST // 9),  # as large as the fractions may be
]


@pytest.mark.parametrize("scale", SCALES, ids=str)
def test_laplace_goodness_of_fit(scale: Fraction) -> None:
    """Chi-square at 1e-4 with 100,000 draws; a scale 10 % off is rejected."""
    draws = discrete_laplace(100_000, scale, SeededEntropy(1))
    assert p_value(draws, *laplace_law(float(scale))) > SIGNIFICANCE
    assert p_value(draws, *laplace_law(1.1 * float(scale))) < SIGNIFICANCE
    assert p_value(draws, *laplace_law(0.9 * float(scale))) < SIGNIFICANCE


@pytest.mark.parametrize("variance", VARIANCES, ids=str)
def test_gaussian_goodness_of_fit(variance: Fraction) -> None:
    """Chi-square at 1e-4 with 100,000 draws; a variance 10 % off is rejected."""
    draws = discrete_gaussian(100_000, variance, SeededEntropy(2))
    assert p_value(draws, *gaussian_law(float(variance))) > SIGNIFICANCE
    assert p_value(draws, *gaussian_law(1.1 * float(variance))) < SIGNIFICANCE
    assert p_value(draws, *gaussian_law(0.9 * float(variance))) < SIGNIFICANCE


@pytest.mark.parametrize("deviation", [10**3, 10**5, 4 * 10**6])
def test_wide_laws(deviation: int) -> None:
    """Kolmogorov–Smirnov at 1e-4 with 50,000 draws against the continuous law (a lattice step is below 1e-3
    of it)."""
    gaussian = discrete_gaussian(50_000, Fraction(deviation**2), SeededEntropy(3)) / deviation
    laplace = discrete_laplace(50_000, Fraction(deviation), SeededEntropy(4)) / deviation
    assert stats.kstest(gaussian, "norm").pvalue > SIGNIFICANCE
    assert stats.kstest(1.1 * gaussian, "norm").pvalue < SIGNIFICANCE
    assert stats.kstest(laplace, "laplace").pvalue > SIGNIFICANCE
    assert stats.kstest(1.1 * laplace, "laplace").pvalue < SIGNIFICANCE


@pytest.mark.slow
def test_the_law_is_that_of_opendp() -> None:
    """Both samples against each other in a contingency table of 30,000 draws each, with the operating
    system's entropy on both sides, so at significance 1e-9; 20 % more scale is rejected far beyond chance."""
    import opendp.prelude as dp

    dp.enable_features("contrib")
    size = 30_000
    vector = dp.vector_domain(dp.atom_domain(T="i64"))
    theirs = {
        "laplace": dp.m.make_laplace(vector, dp.l1_distance(T="i64"), scale=2.5),
        "gaussian": dp.m.make_gaussian(vector, dp.l2_distance(T="i64"), scale=2.5),
    }

    def ours(law: str, scale: Fraction) -> NDArray[np.int64]:
        if law == "laplace":
            return discrete_laplace(size, scale, SecureEntropy())
        return discrete_gaussian(size, scale**2, SecureEntropy())

    for law, measurement in theirs.items():
        reference = np.asarray(measurement(np.zeros(size, dtype=np.int64)))
        agreement = []
        for scale in (Fraction(5, 2), Fraction(3)):
            reach = 12 if law == "laplace" else 7
            table = [
                np.bincount(np.clip(draws, -reach, reach) + reach, minlength=2 * reach + 1)
                for draws in (reference, ours(law, scale))
            ]
            agreement.append(stats.chi2_contingency(table).pvalue)
        assert agreement[0] > 1e-9
        assert agreement[1] < 1e-9


@pytest.mark.parametrize(
    ("numerator", "denominator"),
    [(0, 1), (1, 1), (1, 3), (7, 2), (40, 10), (MOST, 2 * MOST), (3 * MOST, 2 * MOST)],
)
def test_exponential_coins(numerator: int, denominator: int) -> None:
    """Binomial test at 1e-4 with 200,000 coins; probabilities 2 points away are rejected."""
    coins = np.full(200_000, numerator, dtype=np.uint64)
    heads = int(np.count_nonzero(discrete.exp_coins(coins, denominator, SeededEntropy(numerator))))
    due = math.exp(-numerator / denominator)
    wrong = due - 0.02 if due > 0.5 else due + 0.02
    assert stats.binomtest(heads, coins.size, due).pvalue > SIGNIFICANCE
    assert stats.binomtest(heads, coins.size, wrong).pvalue < SIGNIFICANCE


def test_coins_of_one_over_e() -> None:
    """Binomial test at 1e-4 with 1,000,000 coins; 0.3 points away is rejected."""
    heads = int(np.count_nonzero(discrete._inverse_e_coins(1_000_000, SeededEntropy(1))))
    assert stats.binomtest(heads, 1_000_000, math.exp(-1)).pvalue > SIGNIFICANCE
    assert stats.binomtest(heads, 1_000_000, math.exp(-1) + 0.003).pvalue < SIGNIFICANCE


def test_the_word_of_a_coin_of_one_over_e_is_cut_at_the_factorials() -> None:
    """The share of the words that are heads is 1/3! · (3 − 1) + … = Σ (1/k! − 1/(k+1)!) over even k,
    exactly."""
    total = math.factorial(20)
    share = (2**64 - 1) // total
    edges = [share * total // math.factorial(k) for k in range(1, 21)]
    for k in range(1, 20):
        first, last = edges[k], edges[k - 1] - 1  # the words of K = k + 1
        flags = discrete._inverse_e_coins(2, Replay([first, last]))
        assert flags.tolist() == [k % 2 == 0] * 2
    # K > 20, of probability 4e-19: the run goes on with coins of 1/21, 1/22, …
    tails = 2**63
    assert discrete._inverse_e_coins(1, Replay([0, tails])).tolist() == [True]
    assert discrete._inverse_e_coins(1, Replay([0, 0, tails])).tolist() == [False]


def test_words_outside_the_shares_are_drawn_again() -> None:
    share, words = discrete._shares(3, 10**18, Replay([5, 2**64 - 1, 7, 2**64 - 2, 11]))
    assert share == 18
    assert words.tolist() == [5, 11, 7]


def test_uniform_shares() -> None:
    """Chi-square at 1e-4 with 70,000 words over 7 shares."""
    share, words = discrete._shares(70_000, 7, SeededEntropy(3))
    numbers = (words // np.uint64(share)).astype(np.int64)
    assert stats.chisquare(np.bincount(numbers, minlength=7)).pvalue > SIGNIFICANCE
    numbers[:700] = 0
    assert stats.chisquare(np.bincount(numbers, minlength=7)).pvalue < SIGNIFICANCE


def test_an_endless_run_of_luck_is_refused() -> None:
    class Lucky(SeededEntropy):
        def words(self, size: int) -> NDArray[np.uint64]:
            # In the interval of K = 3, which is heads for every coin of 1/e, and below every share of the
            # others.
            return np.full(size, (2**64 - 1) // 4, dtype=np.uint64)

    with pytest.raises(NumericalError):
        discrete_laplace(1, Fraction(1), Lucky(1))


@pytest.mark.parametrize("draw", [discrete_laplace, discrete_gaussian])
def test_sizes(draw: object) -> None:
    assert draw(0, Fraction(1), SeededEntropy(1)).shape == (0,)  # type: ignore[operator]
    assert draw(1, 4, SeededEntropy(1)).shape == (1,)  # type: ignore[operator]
    large = draw(100_001, Fraction(9), SeededEntropy(1))  # type: ignore[operator]
    assert large.shape == (100_001,)
    assert large.dtype == np.int64


@pytest.mark.parametrize("draw", [discrete_laplace, discrete_gaussian])
def test_cells_and_tables_are_independent(draw: object) -> None:
    """Correlations of 20,000 draws within 5 standard errors (p = 6e-7): neighbours in a table, and between
    tables."""
    root = SeededEntropy(4)
    first = draw(40_000, Fraction(9), root.child("a")).reshape(-1, 2)  # type: ignore[operator]
    second = draw(40_000, Fraction(9), root.child("b")).reshape(-1, 2)  # type: ignore[operator]
    off = np.corrcoef(np.hstack([first, second]).T) - np.eye(4)
    assert np.abs(off).max() < 5 / np.sqrt(20_000)
    assert not np.array_equal(first, second)


@pytest.mark.parametrize("value", [0, -1, Fraction(-1, 2), 1.5, True, "1", Fraction(MOST + 1), Fraction(1, 2 * MOST)])
@pytest.mark.parametrize(("draw", "name"), [(discrete_laplace, "scale"), (discrete_gaussian, "variance")])
def test_bad_scales(draw: object, name: str, value: object) -> None:
    with pytest.raises(InvalidArgument) as caught:
        draw(3, value, SeededEntropy(1))  # type: ignore[operator]
    assert caught.value.name == name


@pytest.mark.parametrize("size", [-1, 1.5, True, "3"])
def test_bad_sizes(size: object) -> None:
    with pytest.raises(InvalidArgument, match="size"):
        discrete_gaussian(size, Fraction(1), SeededEntropy(1))  # type: ignore[arg-type]
