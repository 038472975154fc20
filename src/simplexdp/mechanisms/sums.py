"""Noisy sums over the records: whole-number vectors or positive matrices of bounded size, plus discrete Gaussian noise.

Each record adds one vector v with ‖v‖₂ ≤ bound, or one positive semidefinite matrix M with tr M ≤ bound, all entries
whole. A replaced record moves a sum of vectors by at most 2·bound. Positive matrices have tr MM' ≥ 0 and ‖M‖_F ≤ tr
M, so theirs moves by at most √2·bound in the Frobenius norm. A shift Δ under discrete
Gaussian noise of variances V_i is μ-Gaussian-DP with μ² = Σ Δ_i² f(1/V_i), f(x) = 6(1 − √(1 − x/3)) ≈ x; the entries
off the diagonal of a symmetric matrix occur twice in its norm and are published once, so they carry half the variance.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, Literal, get_args

import numpy as np

from ..accounting.loss import PrivacyLoss
from ..accounting.smooth import vector_term
from ..budget import Neighbours, check_neighbours, check_positive, check_whole, convert
from ..errors import InvalidArgument, NumericalError
from ..noisy import FloatArray
from ..sampling import Entropy
from ..sampling.discrete import discrete_gaussian
from .base import IntArray, Parametrised
from .noise import Gaussian

SumKind = Literal["vector", "matrix"]
ExtraKind = Literal["tables", "vector", "matrix"]
"""What a budget may pay for besides tables that are fixed in advance."""
_SHIFT = {"vector": 4, "matrix": 2}
"""The squared shift that a replaced record can cause, in squared bounds."""
_MOST_NOISE = 2.0**21
"""Largest standard deviation in grid units, within what the exact sampler takes."""
_MOST_BOUND = 1 << 20
_LARGE, _SMALL = 64, 24
"""Rows of the matrices that an audit draws, where the entries off the diagonal count and where those on it."""


@dataclass(frozen=True, kw_only=True)
class Step(Parametrised):
    """What follows the tables of a fit, by Gaussian noise: drawn together with them, and paid for before."""

    drawn_by: ClassVar[str] = ""
    """The mechanism that a certificate names for it, where that is one of tables."""

    @staticmethod
    @abstractmethod
    def phrase(times: int) -> str:
        """What so many of them are, after the tables, in the words of a certificate."""

    @abstractmethod
    def worst_scores(self, neighbours: Neighbours, rows: int) -> Callable[[int, int, Entropy], FloatArray]:
        """For an audit: from one of the worst-case neighbours (0 or 1) and a number of draws to as many losses."""


@dataclass(frozen=True, kw_only=True)
class GaussianTables(Step):
    """Discrete Gaussian noise on several tables of the same records whose precisions 1/σ_k² add up to at most 1/σ².

    How the precision is spread may depend on what was released before: whatever the spread, the price is at most that
    of all of it for one table, so the loss is known before the spread is. Proof: docs/proofs/sums.md.
    """

    name: ClassVar[str] = "gaussian-tables"
    drawn_by: ClassVar[str] = Gaussian.name
    sigma: float

    def __post_init__(self) -> None:
        convert(self, sigma=check_positive)

    def loss(self, neighbours: Neighbours = "replace-one", *, rows: int = 1) -> PrivacyLoss:
        """That of one table; a replaced record moves two cells of every table, an added one moves one."""
        cells = 2 if check_neighbours(neighbours) == "replace-one" else 1
        return PrivacyLoss.of_term(
            vector_term(cells * check_whole("rows", rows) ** 2, Fraction(self.sigma) ** 2), neighbours
        )

    @property
    def precision(self) -> Fraction:
        """1/σ², which the tables share."""
        return 1 / Fraction(self.sigma) ** 2

    def spread(self, weights: Sequence[float]) -> list[Gaussian]:
        """One mechanism for each table, with precision in proportion to its weight."""
        weights = [check_positive("weights", weight) for weight in weights]
        total = math.fsum(weights)
        made = [Gaussian(sigma=self.sigma * math.sqrt(total / weight) * (1 + 1e-12)) for weight in weights]
        if sum(1 / mechanism.variance for mechanism in made) > self.precision:
            raise NumericalError("the precisions of the tables add up to more than what was paid for")
        return made

    def draw(self, counts: IntArray, entropy: Entropy) -> IntArray:
        """All of the precision for one table."""
        return self.spread([1.0])[0].draw(counts, entropy)

    @staticmethod
    def phrase(times: int) -> str:  # noqa: ARG004
        """However often, each table is looked at once more."""
        return ", a second look at each of them"

    def worst_scores(self, neighbours: Neighbours, rows: int) -> Callable[[int, int, Entropy], FloatArray]:
        """All of the precision for one table."""
        one = self.spread([1.0])[0]
        pair = one.worst_pair(neighbours, rows)

        def scores(table: int, draws: int, entropy: Entropy) -> FloatArray:
            values = one.draw(np.tile(np.array(pair[table], dtype=np.int64), (draws, 1)), entropy)
            loss = one.cell_loss(values[:, 0], rows)
            return loss - one.cell_loss(values[:, 1], rows) if neighbours == "replace-one" else loss

        return scores


@dataclass(frozen=True, kw_only=True)
class NoisySum(Step):
    """A sum with noise; it costs what one count table with Gaussian noise of standard deviation `sigma` costs.

    Proof: docs/proofs/sums.md.

    Args:
        sigma: the noise, in units in which a replaced record moves two entries by one.
        bound: the size of one record's part, in grid units.
        kind: "vector" (Euclidean norm) or "matrix" (trace).
    """

    name: ClassVar[str] = "noisy-sum"
    sigma: float
    bound: int
    kind: SumKind

    def __post_init__(self) -> None:
        convert(self, sigma=check_positive, bound=check_whole)
        if self.kind not in get_args(SumKind):
            raise InvalidArgument("kind", "'vector' or 'matrix'", got=self.kind)

    def __str__(self) -> str:
        return f"NoisySum({self.kind}, sigma={self.sigma:.6g}, bound={self.bound})"

    @classmethod
    def of(cls, kind: SumKind, sigma: float) -> NoisySum:
        """With the finest grid that the sampler takes."""
        sigma = check_positive("sigma", sigma)
        return cls(sigma=sigma, bound=max(1, min(_MOST_BOUND, math.floor(_MOST_NOISE / sigma))), kind=kind)

    @property
    def variance(self) -> int:
        """The parameter σ² of the discrete Gaussian in grid units, an even number (matrices: on the diagonal)."""
        return 2 * math.ceil(Fraction(self.sigma) ** 2 * self.bound**2 * _SHIFT[self.kind] / 4)

    def loss(self, neighbours: Neighbours = "replace-one", *, rows: int = 1) -> PrivacyLoss:
        """Whatever the direction in which a record moves the sum; off the diagonal a matrix has half the variance."""
        shift = (_SHIFT[self.kind] if check_neighbours(neighbours) == "replace-one" else 1) * self.bound**2
        shift, parts = shift * check_whole("rows", rows) ** 2, 1 if self.kind == "vector" else 2
        return PrivacyLoss.of_term(vector_term(Fraction(shift, parts), Fraction(self.variance, parts)), neighbours)

    def draw(self, counts: IntArray, entropy: Entropy) -> IntArray:
        """The sum plus noise; a matrix stays symmetric."""
        variance = Fraction(self.variance)
        if self.kind == "vector":
            return counts + discrete_gaussian(counts.size, variance, entropy).reshape(counts.shape)
        size = len(counts)
        upper = np.zeros_like(counts)
        upper[np.triu_indices(size, 1)] = discrete_gaussian(size * (size - 1) // 2, variance / 2, entropy)
        on_diagonal = np.diag(discrete_gaussian(size, variance, entropy))
        return counts + upper + upper.T + on_diagonal

    @property
    def drawn_with(self) -> Fraction:
        """The variance."""
        return Fraction(self.variance)

    @staticmethod
    def phrase(times: int) -> str:
        """So many sums."""
        return f" and {times} noisy sums"

    def worst_scores(self, neighbours: Neighbours, rows: int) -> Callable[[int, int, Entropy], FloatArray]:
        """One entry of the sum that the neighbours move as far as a record can: from 0 to `shift`, or back."""
        replaced, size = neighbours == "replace-one", rows * self.bound
        if self.kind == "vector":
            # v against −v, which is a shift by 2·bound; against nothing it is one by the bound.
            shift, variance = (2 * size if replaced else size), self.variance
        else:
            # (e+f)(e+f)ᵀ/2 against (e−f)(e−f)ᵀ/2 of equal trace differ off the diagonal only, where noise has half the
            # variance; eeᵀ against nothing differs in one diagonal entry.
            shift, variance = size, (self.variance // 2 if replaced else self.variance)

        def scores(table: int, draws: int, entropy: Entropy) -> FloatArray:
            start = shift if table == 0 else 0
            if self.kind == "vector":
                values = self.draw(np.full(draws, start, dtype=np.int64), entropy)
            else:
                places = np.triu_indices(_LARGE, 1) if replaced else np.diag_indices(_SMALL)
                entries = np.full((_LARGE, _LARGE) if replaced else (_SMALL, _SMALL), start, dtype=np.int64)
                times = -(-draws // len(places[0]))
                values = np.concatenate([self.draw(entries, entropy)[places] for _ in range(times)])[:draws]
            return np.asarray((2.0 * values - shift) * (shift / (2.0 * variance)))

        return scores


def extra(kind: ExtraKind, sigma: float) -> NoisySum | GaussianTables:
    """The mechanism of this kind that costs what one count table with noise `sigma` costs."""
    return GaussianTables(sigma=sigma) if kind == "tables" else NoisySum.of(kind, sigma)
