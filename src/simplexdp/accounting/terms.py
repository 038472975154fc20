"""What a mechanism supplies to accounting: the log-MGF of its privacy loss, split into independent terms.

With P and Q the two laws of the output and L = ln dP/dQ at an output drawn from P, a term gives
K(w) = ln E_P exp(wL). Losses of independent outputs add, so their K add: everything else follows from K.

Losses that are known through their Rényi curve only are terms too.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
ComplexArray = NDArray[np.complex128]


class Term(Protocol):
    """One independent summand of a privacy loss. Terms are frozen, hashable values."""

    @property
    def domain(self) -> tuple[float, float]:
        """The open interval of real w on which K(w) is finite."""

    def rate(self, w: float) -> float:
        """K(w)/w for real w inside the domain, and K'(0) at w = 0, to about 1e-13 relative."""


@runtime_checkable
class SmoothTerm(Term, Protocol):
    """A term whose loss has a density: |exp K(c + it)| decreases in |t|, so the contour integral converges."""

    def log_mgf(self, w: ComplexArray) -> ComplexArray:
        """K on complex w with real part inside the domain."""


@dataclass(frozen=True)
class Atoms:
    """A discrete loss: increasing values and their log-probabilities under P.

    `cut` bounds what is left out of the list, as a share of what is in it, both weighed by exp(tilt·loss)
    with the tilt the list was asked for.
    """

    losses: FloatArray
    log_probabilities: FloatArray
    cut: float = 0.0


@runtime_checkable
class LatticeTerm(Term, Protocol):
    """A term whose loss is discrete."""

    @property
    def largest_loss(self) -> float:
        """The least upper bound of the loss, possibly infinite."""

    @property
    def spacing(self) -> Fraction | None:
        """The distance between neighbouring atoms if it is the same everywhere, else None."""

    def log_mgf(self, w: ComplexArray) -> ComplexArray:
        """K on complex w with real part inside the domain."""

    def cumulants(self, tilt: float) -> tuple[float, float, float]:
        """K, K' and K'' at a real tilt."""

    def atoms(self, tilt: float = 0.0) -> Atoms:
        """The atoms that carry the law tilted by exp(tilt·loss)."""


@dataclass(frozen=True)
class RenyiOnly:
    """A bound on the Rényi curve with no claim on the profile: δ then comes from the conversion.

    A person with up to m rows may spread them over many cells. Each coordinate's K is convex in its shift and zero at
    zero, hence superadditive, so the curve of one cell shifted by m·r bounds every spread (α ≥ ½). The profile has no
    such proof, which is why this type hides it.
    """

    curve: Term

    @property
    def domain(self) -> tuple[float, float]:
        """That of the curve."""
        return self.curve.domain

    def rate(self, w: float) -> float:
        """K(w)/w of the curve."""
        return self.curve.rate(w)


@dataclass(frozen=True)
class RevealedTerm:
    """The loss of publishing exact counts: infinite at every order, δ = 1."""

    @property
    def domain(self) -> tuple[float, float]:
        """No order above 1 has a finite divergence."""
        return -1.0, 0.0

    def rate(self, w: float) -> float:  # noqa: ARG002
        """Infinite."""
        return math.inf
