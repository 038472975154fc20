"""What the parts compare at: the Rényi budgets of the paper, and 70/30 splits of the records."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from simplexdp import Budget

ORDER = 5.0
RENYI = f"({ORDER:g}, ε)-RDP"
"""The name of these budgets in the table."""
RENYI_EPSILONS = (0.001, 0.01, 0.1, 1.0, 10.0)


def renyi(epsilon: float) -> Budget:
    """(5, ε)-RDP."""
    return Budget.rdp(order=ORDER, epsilon=epsilon)


def split(rows: int, seed: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Training and test rows."""
    order = np.random.default_rng(seed).permutation(rows)
    cut = int(0.7 * rows)
    return order[:cut], order[cut:]
