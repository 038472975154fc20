"""The privacy loss of balanced Laplace noise: discrete Laplace noise on all cells, given that it adds up to zero.

A replaced record moves two cells by one in opposite directions, and the loss is 2/b, 0 or −2/b. With
m_d = Pr[L = 0] for d cells, s = sech²(1/b) and t = tanh²(1/b),

    m₂ = 0,   A_d = (1 − 1/d)(s + t·m_d),   m_{d+1} = A_d / (1 + A_d),

which is the recurrence of the Legendre polynomials divided through so that nothing is subtracted
(docs/proofs/balanced.md). All that is left falls on ±2/b in the proportion 1 : e^{−2/b}.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np

from ..errors import InvalidArgument
from .integer_law import FiniteLaw
from .terms import FloatArray

_DOWN = 1 - 2.0**-47
"""More than the rounding of one step: the probability of no loss is never overstated, so the loss never understated."""
_UNDERFLOW = 350.0


@lru_cache(maxsize=4096)
def no_loss(inverse_scale: float, cells: int) -> float:
    """Pr[L = 0] for this 1/b and number of cells, rounded down.

    >>> no_loss(0.5, 2)
    0.0
    >>> print(f"{no_loss(1e-9, 3):.12f}")  # a replaced record hardly shows: (d − 2)/(2d − 3)
    0.333333333333
    """
    found = 0.0
    for d in range(2, cells):
        step = odds(inverse_scale, d, found) * _DOWN
        found = step / (1 + step)
    return found


def odds(inverse_scale: float, cells: int, no_loss_here: float) -> float:
    """A_d, the odds of no loss with one cell more."""
    up = math.nextafter(inverse_scale, math.inf)  # sech falls: its argument is rounded up
    sech_squared = 1 / math.cosh(up) ** 2 if up < _UNDERFLOW else 0.0
    return (1 - 1 / cells) * (sech_squared + math.tanh(inverse_scale) ** 2 * no_loss_here)


@dataclass(frozen=True, kw_only=True)
class BalancedLaplaceTerm(FiniteLaw):
    """Discrete Laplace noise of this scale on `cells` cells given that it adds up to zero; a record is replaced.

    With two cells it is randomised response with ε = 2/scale, with many the two moved cells of independent noise.

    >>> BalancedLaplaceTerm(scale=Fraction(4), cells=3).largest_loss
    0.5
    """

    scale: Fraction
    cells: int

    def __post_init__(self) -> None:
        if not (self.scale > 0 and math.isfinite(self.scale)):
            raise InvalidArgument("scale", "a positive number", got=self.scale)
        if not isinstance(self.cells, int) or self.cells < 2:
            raise InvalidArgument("cells", "a whole number of at least 2", got=self.cells)
        object.__setattr__(self, "scale", Fraction(self.scale))

    @property
    def exact_largest_loss(self) -> Fraction:
        """2/scale, not rounded."""
        return 2 / self.scale

    @property
    def spacing(self) -> Fraction | None:
        """Atoms are 2/scale apart."""
        return 2 / self.scale

    @property
    def _size(self) -> int:
        return 3

    def _loss(self, x: FloatArray) -> FloatArray:
        return (x - 1) * float(2 / self.scale)

    def _log_q(self, x: FloatArray) -> FloatArray:
        middle, loss = no_loss(float(1 / self.scale), self.cells), float(2 / self.scale)
        most = math.log1p(-middle) - math.log1p(math.exp(-loss))
        inner = math.log(middle) if middle > 0 else -math.inf
        return np.where(x == 1, inner, np.where(x == 0, most, most - loss))
