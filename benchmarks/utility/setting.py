"""What the parts compare at: the Rényi budgets of the paper, (ε, δ) budgets, and 70/30 splits of the records."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from simplexdp import Budget

ORDER = 5.0
RENYI = f"({ORDER:g}, ε)-RDP"
"""The name of these budgets in the table."""
RENYI_EPSILONS = (0.001, 0.01, 0.1, 1.0, 10.0)
EPSILONS = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
DELTAS = (1e-5, 1e-9)


def renyi_budgets(epsilons: tuple[float, ...] = RENYI_EPSILONS) -> list[Budget]:
    """(5, ε)-RDP."""
    return [Budget.rdp(order=ORDER, epsilon=epsilon) for epsilon in epsilons]


def approximate_budgets(epsilons: tuple[float, ...] = EPSILONS, deltas: tuple[float, ...] = DELTAS) -> list[Budget]:
    """(ε, δ)-DP."""
    return [Budget(epsilon=epsilon, delta=delta) for delta in deltas for epsilon in epsilons]


def kind(budget: Budget) -> str:
    """The name of such budgets in the table."""
    return RENYI if budget.order is not None else f"(ε, {budget.delta:.0e})-DP".replace("e-0", "e-")


def split(rows: int, seed: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Training and test rows."""
    order = np.random.default_rng(seed).permutation(rows)
    cut = int(0.7 * rows)
    return order[:cut], order[cut:]
