"""No mechanism at all: the exact counts, for comparison with private releases. Nothing made from it is private."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..accounting.loss import PrivacyLoss
from ..accounting.person import RevealedTerm
from ..budget import Neighbours, check_neighbours
from ..sampling.entropy import Entropy
from .base import Draw, FloatArray, IntArray, describe, release_counts


@dataclass(frozen=True, kw_only=True)
class NoNoise:
    """Publishes the counts as they are. Its loss is infinite and every draw says "not private"."""

    __str__ = describe

    @property
    def name(self) -> str:
        """The name used in files."""
        return "none"

    @property
    def parameters(self) -> dict[str, Any]:
        """There are none."""
        return {}

    def loss(self, neighbours: Neighbours = "replace-one", *, rows: int = 1) -> PrivacyLoss:  # noqa: ARG002
        """Infinite."""
        bag = ((RevealedTerm(), 1),)
        return PrivacyLoss(neighbours, (bag,) if check_neighbours(neighbours) == "replace-one" else (bag, bag))

    def draw(self, counts: IntArray, entropy: Entropy) -> IntArray:  # noqa: ARG002
        """The counts."""
        return counts.copy()

    def release(
        self, counts: ArrayLike, *, neighbours: Neighbours = "replace-one", entropy: Entropy | int | None = None
    ) -> Draw:
        """The counts, marked as not private."""
        return release_counts(self, counts, neighbours, entropy)

    def unbiased(self, values: NDArray[Any], total: float | None) -> tuple[FloatArray, float, float]:  # noqa: ARG002
        """The counts; a variance too small to matter stands for none."""
        return values.astype(np.float64), 1e-6, 0.0
