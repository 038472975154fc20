"""Privacy losses of exact integer mechanisms: negative binomial, discrete Gaussian, discrete Laplace, balanced, pure ε.

Balanced Laplace noise is discrete Laplace noise on all cells, given that it adds up to zero. A replaced record moves
two cells by one in opposite directions, and the loss is 2/b, 0 or −2/b. With m_d = Pr[L = 0] for d cells,
s = sech²(1/b) and t = tanh²(1/b),

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

from ..errors import InvalidArgument, NumericalError
from ..numerics.printed import as_float
from .integer_law import LARGEST_INTEGER, MOST_ATOMS, FiniteLaw, IntegerLaw, log_negative_binomial, log_rising_ratio
from .smooth import gaussian_price
from .terms import FloatArray


@dataclass(frozen=True, kw_only=True)
class NegativeBinomialTerm(IntegerLaw):
    """P = NB(shape_p, 2^−flips) against Q = NB(shape_q, 2^−flips): one side of the Pólya mechanism.

    Removing a record from a cell is (α+r, α), adding one (α, α+r); replacing one is the sum of both terms.

    >>> remove = NegativeBinomialTerm(shape_p=14, shape_q=13, flips=1)
    >>> add = NegativeBinomialTerm(shape_p=13, shape_q=14, flips=1)
    >>> print(f"{remove.rate(1.0) + add.rate(1.0):.12f}")
    0.075372338548
    """

    shape_p: int
    shape_q: int
    flips: int = 1

    _first = 0.0

    def __post_init__(self) -> None:
        for name in ("shape_p", "shape_q", "flips"):
            value = getattr(self, name)
            if not isinstance(value, int) or value < 1:
                raise InvalidArgument(name, "an integer of at least 1", got=value)
        if self.shape_p == self.shape_q:
            raise InvalidArgument("shape_p", "different from shape_q", got=self.shape_p)
        if self.flips > 20:
            raise InvalidArgument("flips", "at most 20", got=self.flips, hint="The loss has about 2^flips atoms")

    @property
    def _p(self) -> float:
        return 2.0**-self.flips

    @property
    def _limit_log_ratio(self) -> float:
        return math.log1p(-self._p)

    @property
    def largest_loss(self) -> float:
        """The loss grows without end with x, or is largest at x = 0 where it is r·ln(1/p)."""
        return math.inf if self.shape_p > self.shape_q else (self.shape_q - self.shape_p) * -math.log(self._p)

    @property
    def spacing(self) -> Fraction | None:
        """The atoms are not equally spaced."""
        return None

    def _loss(self, x: FloatArray) -> FloatArray:
        low, high = sorted((self.shape_p, self.shape_q))
        value = log_rising_ratio(x, low, high - low, self._p)
        return value if self.shape_p > self.shape_q else -value

    def _log_q(self, x: FloatArray) -> FloatArray:
        return log_negative_binomial(x, self.shape_q, self._p)

    def _peak(self, tilt: float) -> tuple[float, float]:
        """The mode from ρ(x) = ln W(x+1)/W(x) = 0.

        The sign of ρ' is that of a function linear in x. Where ρ falls it has one zero at most; where it
        rises it rises towards ln(1−p) < 0 and has none: the tilted mass is unimodal for every tilt.
        """
        p, q = float(self.shape_p), float(self.shape_q)
        shift, log_rest = p - q, math.log1p(-self._p)

        def ratio(x: float) -> float:
            return math.log((x + p) / (x + 1)) + tilt * math.log1p(shift / (x + q)) + log_rest

        start = ratio(0.0)
        if start <= 0:
            return 0.0, 1 / max(-start, self._p)
        low, high = 0.0, max(p, q) / self._p
        while ratio(high) > 0 and high <= LARGEST_INTEGER:
            low, high = high, 2 * high
        if high > LARGEST_INTEGER:
            raise NumericalError(f"The tilted law of {self!r} lies beyond exact integers")
        while high - low > 0.5:
            middle = 0.5 * (low + high)
            low, high = (middle, high) if ratio(middle) > 0 else (low, middle)
        curvature = 1 / (low + 1) + (tilt * shift - (low + q)) / ((low + q) * (low + p))
        return low, 1 / math.sqrt(curvature) if curvature > 0 else low + 1


@dataclass(frozen=True, kw_only=True)
class DiscreteGaussianTerm(IntegerLaw):
    """Discrete Gaussian noise on the integers, shifted by an integer (Canonne, Kamath & Steinke 2020).

    Q(x) ∝ exp(−x²/2σ²), P(x) = Q(x − shift), ℓ(x) = shift·(2x − shift)/2σ².

    >>> round(DiscreteGaussianTerm(variance=Fraction(8), shift=2).rate(3.0), 12)
    1.0
    """

    variance: Fraction
    shift: int = 1

    def __post_init__(self) -> None:
        if not (self.variance > 0 and math.isfinite(self.variance)):
            raise InvalidArgument("variance", "a positive number", got=self.variance)
        if not isinstance(self.shift, int) or self.shift == 0:
            raise InvalidArgument("shift", "an integer other than 0", got=self.shift)
        object.__setattr__(self, "variance", Fraction(self.variance))

    @property
    def largest_loss(self) -> float:
        """The loss is unbounded."""
        return math.inf

    @property
    def spacing(self) -> Fraction | None:
        """Atoms are shift/σ² apart."""
        return abs(self.shift) / self.variance

    @property
    def mu_squared(self) -> float | None:
        """μ² of the Gaussian that dominates it, from σ² = 1 on; far less than 1e-3 above where σ is large."""
        if self.variance < 1:
            return None
        return math.nextafter(self.shift**2 * gaussian_price(self.variance), math.inf)

    def _loss(self, x: FloatArray) -> FloatArray:
        # x counts in the direction of the shift; the law is symmetric.
        shift = abs(self.shift)
        return (2 * x - shift) * float(Fraction(shift) / (2 * self.variance))

    def _log_q(self, x: FloatArray) -> FloatArray:
        variance = float(self.variance)
        reach = np.arange(1, 12)
        if variance > 1:  # Poisson summation of Σ exp(−x²/2σ²)
            tail = 2 * np.sum(np.exp(-2 * math.pi**2 * variance * reach**2))
            normaliser = 0.5 * math.log(2 * math.pi * variance) + math.log1p(tail)
        else:
            normaliser = math.log1p(2 * np.sum(np.exp(-(reach**2) / (2 * variance))))
        return -x * x / (2 * variance) - normaliser

    def _peak(self, tilt: float) -> tuple[float, float]:
        return round(abs(self.shift) * (1 + tilt)), math.sqrt(self.variance)


@dataclass(frozen=True, kw_only=True)
class DiscreteLaplaceTerm(FiniteLaw):
    """Discrete Laplace noise, Q(x) ∝ exp(−|x|/scale), shifted by an integer: the loss takes shift + 1 values.

    >>> DiscreteLaplaceTerm(scale=Fraction(2), shift=3).largest_loss
    1.5
    """

    scale: Fraction
    shift: int = 1

    def __post_init__(self) -> None:
        if not (self.scale > 0 and math.isfinite(self.scale)):
            raise InvalidArgument("scale", "a positive number", got=self.scale)
        if not isinstance(self.shift, int) or not 0 < abs(self.shift) <= MOST_ATOMS:
            raise InvalidArgument("shift", f"an integer other than 0, at most {MOST_ATOMS}", got=self.shift)
        object.__setattr__(self, "scale", Fraction(self.scale))

    @property
    def exact_largest_loss(self) -> Fraction:
        """|shift|/scale, not rounded."""
        return abs(self.shift) / self.scale

    @property
    def spacing(self) -> Fraction | None:
        """Atoms are 2/scale apart."""
        return 2 / self.scale

    @property
    def _size(self) -> int:
        return abs(self.shift) + 1

    def _loss(self, x: FloatArray) -> FloatArray:
        return (2 * x - abs(self.shift)) / float(self.scale)

    def _log_q(self, x: FloatArray) -> FloatArray:
        inverse = float(1 / self.scale)
        # The outer atoms collect the tails x ≤ 0 and x ≥ shift.
        inner = -x * inverse + math.log(-math.expm1(-inverse))
        log_q = np.where(x == 0, 0.0, np.where(x == self._size - 1, -x * inverse, inner))
        return log_q - math.log1p(math.exp(-inverse))


@dataclass(frozen=True, kw_only=True)
class RandomisedResponseTerm(FiniteLaw):
    """The pair that dominates every ε-DP mechanism: a bit told truly with odds e^ε (Kairouz et al. 2015).

    >>> RandomisedResponseTerm(epsilon=0.5).largest_loss
    0.5
    """

    epsilon: float | Fraction

    def __post_init__(self) -> None:
        if not (self.epsilon > 0 and math.isfinite(self.epsilon)):
            raise InvalidArgument("epsilon", "a positive number", got=self.epsilon)

    @property
    def exact_largest_loss(self) -> Fraction:
        """ε, not rounded."""
        return Fraction(self.epsilon)

    @property
    def spacing(self) -> Fraction | None:
        """Two atoms, 2ε apart."""
        return 2 * Fraction(self.epsilon)

    @property
    def _size(self) -> int:
        return 2

    def _loss(self, x: FloatArray) -> FloatArray:
        return (2 * x - 1) * as_float(Fraction(self.epsilon), "up")

    def _log_q(self, x: FloatArray) -> FloatArray:
        return -np.logaddexp(0.0, self._loss(x))


_DOWN = 1 - 2.0**-47
"""More than the rounding of one step: the probability of no loss is never overstated, so the loss never understated."""
_UNDERFLOW = 350.0
_NO_NOISE = 300.0
"""From this 1/scale on no draw differs from zero."""


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


def balanced_variance(scale: Fraction, cells: int) -> float:
    """The variance of the noise of one cell, (d−1)/(d+1) · (sech²(1/b) + A_d)/tanh²(1/b).

    >>> balanced_variance(Fraction(2), 1)
    0.0
    """
    inverse = float(1 / scale)
    if cells == 1 or inverse > _NO_NOISE:
        return 0.0
    sum_ = 1 / math.cosh(inverse) ** 2 + odds(inverse, cells, no_loss(inverse, cells))
    return (cells - 1) / (cells + 1) * sum_ / math.tanh(inverse) ** 2


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
