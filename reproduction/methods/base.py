"""What every method is, and how a pure ε is had from any budget."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from functools import lru_cache
from typing import ClassVar, Literal

from simplexdp.accounting.discrete import RandomisedResponseTerm
from simplexdp.accounting.loss import PrivacyLoss
from simplexdp.budget import Budget
from simplexdp.numerics.roots import largest_that_fits
from simplexdp.sampling import SeededEntropy

from ..encode import FloatArray
from ..problems import Tables

Regime = Literal["rdp", "dp"]


class Method(ABC):
    """A way to probabilities. `regimes` says for which budgets it is defined; `heavy` methods get fewer repeats."""

    name: ClassVar[str]
    label: ClassVar[str]
    regimes: ClassVar[tuple[Regime, ...]] = ("rdp", "dp")
    heavy: ClassVar[bool] = False

    @abstractmethod
    def fit(self, tables: Tables, budget: Budget, entropy: SeededEntropy, repeats: int) -> FloatArray:
        """Row-normalised probabilities, one row of the result for each repeat. May raise `Infeasible`."""


@lru_cache(maxsize=256)
def pure_epsilon(budget: Budget, tables: int) -> float:
    """The largest ε₀ such that `tables` releases, each ε₀-DP, stay within the budget: exact composition of pure DP.

    Every ε₀-DP mechanism is dominated by randomised response (Kairouz, Oh & Viswanath 2015).
    """

    def excess(epsilon: float) -> float:
        loss = PrivacyLoss("replace-one", (((RandomisedResponseTerm(epsilon=epsilon), tables),),))
        return loss.excess(budget)

    return largest_that_fits(excess, budget.epsilon / math.sqrt(tables), rtol=1e-6)
