"""Noisy sums over the records: whole-number vectors or positive matrices of bounded size, plus discrete Gaussian noise.

Each record adds one vector v with ‖v‖₂ ≤ bound, or one positive semidefinite matrix M with tr M ≤ bound, all entries
whole. A replaced record moves a sum of vectors by at most 2·bound. Positive matrices have tr MM' ≥ 0 and ‖M‖_F ≤ tr
M, so theirs moves by at most √2·bound in the Frobenius norm. For a shift Δ and noise variances V_i the discrete
Gaussian has Rényi divergence at most λ/2 Σ Δ_i²/V_i (Canonne, Kamath and Steinke 2020); the entries off the diagonal
of a symmetric matrix occur twice in its norm and are published once, so they carry half the variance.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, Literal, get_args

import numpy as np

from ..accounting.loss import PrivacyLoss
from ..accounting.person import RenyiOnly
from ..accounting.smooth import GaussianTerm
from ..budget import Neighbours, check_neighbours, check_positive, check_whole
from ..errors import InvalidArgument, NumericalError
from ..sampling.discrete import discrete_gaussian
from ..sampling.entropy import Entropy
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


@dataclass(frozen=True, kw_only=True)
class GaussianTables(Parametrised):
    """Discrete Gaussian noise on several tables of the same records whose precisions 1/σ_k² add up to at most 1/σ².

    How the precision is spread may depend on what was released before: whatever the spread, the Rényi divergence is at
    most λ/2 Σ_k 2/σ_k² ≤ λ/σ² under replace-one, so the loss is known before the spread is. Proof: docs/proofs/sums.md.
    """

    name: ClassVar[str] = "gaussian-tables"
    sigma: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "sigma", check_positive("sigma", self.sigma))

    def loss(self, neighbours: Neighbours = "replace-one", *, rows: int = 1) -> PrivacyLoss:
        """Through the Rényi curve; a replaced record moves two cells of every table, an added one moves one."""
        cells = 2 if check_neighbours(neighbours) == "replace-one" else 1
        mu_squared = float(cells * check_whole("rows", rows) ** 2 / Fraction(self.sigma) ** 2) * (1 + 1e-15)
        return PrivacyLoss.of_term(RenyiOnly(GaussianTerm(mu_squared)), neighbours)

    def spread(self, weights: Sequence[float]) -> list[Gaussian]:
        """One mechanism for each table, with precision in proportion to its weight."""
        total = math.fsum(weights)
        made = [Gaussian(sigma=self.sigma * math.sqrt(total / weight) * (1 + 1e-12)) for weight in weights]
        if sum(1 / mechanism.variance for mechanism in made) > 1 / Fraction(self.sigma) ** 2:
            raise NumericalError("the precisions of the tables add up to more than what was paid for")
        return made

    def draw(self, counts: IntArray, entropy: Entropy) -> IntArray:
        """All of the precision for one table."""
        return self.spread([1.0])[0].draw(counts, entropy)


@dataclass(frozen=True, kw_only=True)
class NoisySum(Parametrised):
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
        object.__setattr__(self, "sigma", check_positive("sigma", self.sigma))
        object.__setattr__(self, "bound", check_whole("bound", self.bound))
        if self.kind not in get_args(SumKind):
            raise InvalidArgument("kind", "'vector' or 'matrix'", got=self.kind)

    def __str__(self) -> str:
        return f"NoisySum({self.kind}, sigma={self.sigma:.6g}, bound={self.bound})"

    @classmethod
    def of(cls, kind: SumKind, sigma: float) -> NoisySum:
        """With the finest grid that the sampler takes."""
        return cls(sigma=sigma, bound=max(1, min(_MOST_BOUND, math.floor(_MOST_NOISE / sigma))), kind=kind)

    @property
    def variance(self) -> int:
        """The parameter σ² of the discrete Gaussian in grid units, an even number (matrices: on the diagonal)."""
        return 2 * math.ceil(Fraction(self.sigma) ** 2 * self.bound**2 * _SHIFT[self.kind] / 4)

    def loss(self, neighbours: Neighbours = "replace-one", *, rows: int = 1) -> PrivacyLoss:
        """Through the Rényi curve, whatever the direction in which a record moves the sum."""
        shift = (_SHIFT[self.kind] if check_neighbours(neighbours) == "replace-one" else 1) * self.bound**2
        mu_squared = float(Fraction(shift * check_whole("rows", rows) ** 2, self.variance)) * (1 + 1e-15)
        return PrivacyLoss.of_term(RenyiOnly(GaussianTerm(mu_squared)), neighbours)

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


def extra(kind: ExtraKind, sigma: float) -> NoisySum | GaussianTables:
    """The mechanism of this kind that costs what one count table with noise `sigma` costs."""
    return GaussianTables(sigma=sigma) if kind == "tables" else NoisySum.of(kind, sigma)
