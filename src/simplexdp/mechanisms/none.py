"""No mechanism at all: the exact counts, for comparison with private releases. Nothing made from it is private."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ..accounting.loss import PrivacyLoss
from ..accounting.person import RevealedTerm
from ..budget import Neighbours
from ..sampling.entropy import Entropy
from .base import FloatArray, IntArray, TableMechanism


@dataclass(frozen=True, kw_only=True)
class NoNoise(TableMechanism):
    """Publishes the counts as they are. Its loss is infinite and every draw says "not private"."""

    name: ClassVar[str] = "none"

    def loss(self, neighbours: Neighbours = "replace-one", *, rows: int = 1) -> PrivacyLoss:  # noqa: ARG002
        """Infinite."""
        return PrivacyLoss.of_term(RevealedTerm(), neighbours)

    def draw(self, counts: IntArray, entropy: Entropy) -> IntArray:  # noqa: ARG002
        """The counts."""
        return counts.copy()

    def unbiased(self, values: NDArray[Any], total: float | None) -> tuple[FloatArray, float, float]:  # noqa: ARG002
        """The counts; a variance too small to matter stands for none."""
        return values.astype(np.float64), 1e-6, 0.0
