"""Balanced noise: the law of whole rows against enumeration, by chi-square with controls that must be rejected."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray
from sampling_support import SIGNIFICANCE, p_value

from simplexdp import BalancedLaplace
from simplexdp.errors import InvalidArgument
from simplexdp.sampling import SeededEntropy
from simplexdp.sampling.discrete import MOST, MOST_CELLS, balanced_laplace

CASES = [(2, Fraction(1, 2)), (2, Fraction(9, 2)), (3, Fraction(4, 5)), (3, Fraction(3)), (4, Fraction(1))]
CASES += [(5, Fraction(2, 3))]


def rows(cells: int, reach: int) -> NDArray[np.int64]:
    """All free parts within reach, as rows that add up to zero."""
    grids = np.meshgrid(*[np.arange(-reach, reach + 1)] * (cells - 1), indexing="ij")
    free = np.stack([grid.ravel() for grid in grids], axis=1)
    return np.column_stack([free, -free.sum(axis=1)])


@pytest.mark.parametrize(("cells", "scale"), CASES, ids=str)
def test_goodness_of_fit_of_whole_rows(cells: int, scale: Fraction) -> None:
    """Chi-square at 1e-4 over every row of probability above 1e-4, 60,000 draws; scales 10 % off are rejected."""
    reach = math.ceil(12 * scale)
    support = rows(cells, reach)
    drawn = balanced_laplace(60_000, cells, scale, SeededEntropy(21))
    assert (drawn.sum(axis=1) == 0).all()
    inside = (np.abs(drawn[:, :-1]) <= reach).all(axis=1)
    powers = (2 * reach + 1) ** np.arange(cells - 1)[::-1]
    codes = np.where(inside, (drawn[:, :-1] + reach) @ powers, 0)

    def p(assumed: float) -> float:
        weights = np.exp(-np.abs(support).sum(axis=1) / assumed)
        probabilities = weights / weights.sum()
        order = np.argsort(-probabilities, kind="stable")  # rare rows are pooled at the end
        place = np.empty_like(order)
        place[order] = np.arange(order.size)
        return p_value(place[codes], np.arange(order.size), probabilities[order])

    assert p(float(scale)) > SIGNIFICANCE
    assert p(1.1 * float(scale)) < SIGNIFICANCE
    assert p(0.9 * float(scale)) < SIGNIFICANCE


@pytest.mark.parametrize(("cells", "scale"), [(2, 3.0), (6, 2.0), (30, 5.0), (200, 0.6)])
def test_variance_and_symmetry(cells: int, scale: float) -> None:
    """The closed form within 5 standard errors (batch means) of about 1e5 cells, and not that of independent noise."""
    draws = max(400, 100_000 // cells)
    drawn = balanced_laplace(draws, cells, Fraction(scale).limit_denominator(100), SeededEntropy(22))
    squares = (drawn**2).mean(axis=1)
    error = squares.std() / math.sqrt(draws)
    expected = BalancedLaplace(scale=scale, cells=cells).noise_variance
    assert abs(squares.mean() - expected) < 5 * error
    assert abs(drawn[:, -1].mean()) < 5 * math.sqrt(expected / draws)  # the last cell is like the others
    assert abs((drawn[:, -1] ** 2).mean() - expected) < 5 * (drawn[:, -1] ** 2).std() / math.sqrt(draws)
    if cells < 100:
        independent = 0.5 / math.sinh(0.5 / scale) ** 2 * (1 - 1 / cells)
        assert abs(squares.mean() - independent) > 5 * error


def test_the_largest_table_and_one_cell() -> None:
    drawn = balanced_laplace(1, MOST_CELLS, Fraction(10**6), SeededEntropy(23))
    assert drawn.shape == (1, MOST_CELLS)
    assert drawn.sum() == 0
    assert np.abs(drawn).mean() == pytest.approx(10**6, rel=0.2)
    assert balanced_laplace(1, MOST_CELLS, Fraction(MOST), SeededEntropy(24)).sum() == 0
    assert balanced_laplace(3, 1, Fraction(5), SeededEntropy(1)).tolist() == [[0], [0], [0]]
    assert balanced_laplace(0, 4, Fraction(5), SeededEntropy(1)).shape == (0, 4)


@pytest.mark.parametrize(
    ("cells", "scale"), [(MOST_CELLS + 1, Fraction(1)), (0, Fraction(1)), (2, Fraction(0)), (3, Fraction(1 << 45))]
)
def test_refusals(cells: int, scale: Fraction) -> None:
    with pytest.raises(InvalidArgument):
        balanced_laplace(1, cells, scale, SeededEntropy(1))
