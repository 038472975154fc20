"""Privacy losses with a density: the gamma pairs behind the Dirichlet mechanism, and the Gaussian.

Proofs: docs/proofs (one record moves or changes stratum, one record is added or removed).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..numerics.gamma import gap_rate
from .terms import ComplexArray, FloatArray


@dataclass(frozen=True)
class GammaTerm:
    """Gamma(α+r) against Gamma(α) when `removing`, the other way round otherwise (math: one record's cell).

    K(w) is lnΓ(α+(1+w)r) − (1+w) lnΓ(α+r) + w lnΓ(α) when removing and
    lnΓ(α−wr) − (1+w) lnΓ(α) + w lnΓ(α+r) when adding. One of each is the Beta pair of replace-one.
    """

    r: float
    alpha: float
    removing: bool

    @property
    def domain(self) -> tuple[float, float]:
        """The gamma functions need positive arguments. The quotient is rounded up; `rate` looks at α − wr itself."""
        edge = math.nextafter(self.alpha / self.r, math.inf)
        return (-1 - edge, math.inf) if self.removing else (-math.inf, edge)

    def rate(self, w: float) -> float:
        """K(w)/w."""
        one = np.array([self.alpha]), np.array([self.r]), np.array([self.removing])
        with np.errstate(divide="ignore", invalid="ignore"):  # at the very end of the domain
            value = float(gap_rate(*one, np.array([w]))[0])
        return math.inf if math.isnan(value) else value

    def log_mgf(self, w: ComplexArray) -> ComplexArray:
        """K on complex w."""
        return w * gap_rate(np.array([self.alpha]), np.array([self.r]), np.array([self.removing]), w)


@dataclass(frozen=True)
class GaussianTerm:
    """N(μ, 1) against N(0, 1): K(w) = μ² w(w+1)/2, with μ = Δ₂/σ."""

    mu_squared: float

    @property
    def domain(self) -> tuple[float, float]:
        """All of the line."""
        return (-math.inf, math.inf)

    def rate(self, w: float) -> float:
        """K(w)/w."""
        return self.mu_squared * (w + 1) / 2

    def log_mgf(self, w: ComplexArray) -> ComplexArray:
        """K on complex w."""
        return self.mu_squared * w * (w + 1) / 2


class GammaGroup:
    """Many gamma terms evaluated at once, so that a mixed composition costs one vectorised call."""

    def __init__(self, terms: Sequence[tuple[GammaTerm, int]]) -> None:
        self._alpha = np.array([term.alpha for term, _ in terms])
        self._r = np.array([term.r for term, _ in terms])
        self._removing = np.array([term.removing for term, _ in terms])
        self._times: FloatArray = np.array([float(times) for _, times in terms])

    def rates(self, w: FloatArray) -> FloatArray:
        """Σ times · K(w)/w on a vector of real w."""
        total: FloatArray = gap_rate(self._alpha, self._r, self._removing, w[:, None]) @ self._times
        return total

    def log_mgf(self, w: ComplexArray) -> ComplexArray:
        """Σ times · K(w) on a vector of complex w."""
        column = w[:, None]
        total: ComplexArray = (column * gap_rate(self._alpha, self._r, self._removing, column)) @ self._times
        return total
