"""Losses that are known through their Rényi curve only."""

from __future__ import annotations

import math
from dataclasses import dataclass

from .terms import Term


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
