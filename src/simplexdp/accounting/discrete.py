"""Privacy losses of exact integer mechanisms: negative binomial, discrete Gaussian, discrete Laplace, pure ε.

Each law lives on the integers (or on a few of them) and gives ln Q(x), the loss ℓ(x) = ln P(x)/Q(x) and where
its tilted mass P(x)·exp(wℓ(x)) lies; the log-MGF K, its rate and the atoms follow in one place.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from simplexdp.accounting.stable import (
    log_convexity_gap,
    log_negative_binomial,
    log_rising_ratio,
    log_sum_exp,
)
from simplexdp.accounting.terms import Atoms, ComplexArray, FloatArray
from simplexdp.errors import InvalidArgument, NumericalError

_DEPTH = 45.0
"""A window ends where the tilted mass has fallen by exp(−45) from its peak."""
_MOST_ATOMS = 1 << 23
_CHUNK = 1 << 21
_LARGEST_INTEGER = 2.0**50
_FEWER = "Take noise of a smaller standard deviation or fewer flips."


class _IntegerLaw(ABC):
    """A pair of laws on the integers from `_first` on, with every tilted mass unimodal and ℓ monotone."""

    _first: float = -math.inf

    @property
    def _limit_log_ratio(self) -> float:
        """Past its mode a tilted mass falls by its ratio at any point or by this one (as logarithms)."""
        return -math.inf

    @abstractmethod
    def _loss(self, x: FloatArray) -> FloatArray: ...

    @abstractmethod
    def _log_q(self, x: FloatArray) -> FloatArray: ...

    @abstractmethod
    def _peak(self, tilt: float) -> tuple[float, float]:
        """The mode of P·exp(tilt·ℓ) and its width, about one standard deviation."""

    @property
    def domain(self) -> tuple[float, float]:
        """K is finite everywhere."""
        return (-math.inf, math.inf)

    def _log_weight(self, x: FloatArray, tilt: float) -> FloatArray:
        return self._log_q(x) + (1 + tilt) * self._loss(x)

    def _window(self, tilt: float) -> tuple[float, float]:
        """The first and last integer that carry the tilted law."""
        mode, width = self._peak(tilt)
        mode = math.floor(mode)
        start = math.ceil(9.4 * max(width, 1.0))
        while True:
            steps = np.ceil(start * 1.15 ** np.arange(36))
            left, right = mode - steps, mode + steps
            if self._first > -math.inf:
                left = np.where(left <= self._first + 1, self._first, left)
            weights = self._log_weight(np.concatenate([[mode], left, right]), tilt)
            deep = weights[1:] < weights[0] - _DEPTH
            deep_left, deep_right = deep[:36] | (left <= self._first), deep[36:]
            if deep_left.any() and deep_right.any():
                return float(left[np.argmax(deep_left)]), float(right[np.argmax(deep_right)])
            start = int(steps[-1])

    def _grid(self, *tilts: float, frequency: float = 0.0) -> tuple[FloatArray, float]:
        """Integers that sum the masses of these tilts, and how many integers each stands for.

        A sum over every h-th integer of a mass that is smooth on the scale of its width σ differs from 1/h of
        the full sum by about exp(−2πy/h), y ~ 2σ a shift into the complex plane (Poisson summation): h ≤ σ/4
        leaves less than 1e-20. A factor exp(i·frequency·ℓ) turns by |ℓ'| at each integer, which tightens h.
        At the edge of the support the mass is not smooth and h = 1.
        """
        windows = [self._window(tilt) for tilt in set(tilts)]
        low, high = min(a for a, _ in windows), max(b for _, b in windows)
        width = min(b - a for a, b in windows) / 20
        step = 1
        if low > self._first and width > 4:
            steepest = np.abs(np.diff(self._loss(np.array([low, low + 1, high - 1, high]))))[[0, 2]].max()
            step = max(1, int(2 * math.pi / (25 / width + frequency * float(steepest))))
        if (high - low) / step > _MOST_ATOMS:
            raise NumericalError(f"The loss of {self!r} has too many atoms to sum. {_FEWER}")
        return np.arange(low, high + step, step), float(step)

    def cumulants(self, tilt: float) -> tuple[float, float, float]:
        """K, K' and K'' at a real tilt."""
        x, step = self._grid(tilt)
        loss = self._loss(x)
        log_weight = self._log_q(x) + (1 + tilt) * loss
        top = float(log_weight.max())
        weight = np.exp(log_weight - top)
        total = float(weight.sum())
        mean = float(weight @ loss) / total
        return top + math.log(total * step), mean, float(weight @ (loss - mean) ** 2) / total

    def rate(self, w: float) -> float:
        """K(w)/w, and K'(0) at 0.

        Because Q and P have mass 1, e^K − 1 = Σ Q·(e^{(1+w)ℓ} − 1 − (1+w)(e^ℓ − 1)): all terms have one sign,
        so nothing cancels however small K is.
        """
        if w != 0:
            K = self.cumulants(w)[0]
            if abs(K) > 0.5:
                return K / w
        x, step = self._grid(w, 0.0, -1.0)
        loss = self._loss(x)
        top, gap = log_convexity_gap(loss, w)
        second = step * float(np.sum(np.sort(np.exp(self._log_q(x) + top) * gap * loss * loss)))
        if w == 0:
            return second
        return math.log1p(w * (1 + w) * second) / w

    def log_mgf(self, w: ComplexArray) -> ComplexArray:
        """K on complex w."""
        flat = np.atleast_1d(np.asarray(w, dtype=np.complex128)).ravel()
        real, frequency = flat.real, float(np.abs(flat.imag).max())
        x, step = self._grid(float(real.min()), float(real.max()), frequency=frequency)
        loss, log_p = self._loss(x), self._log_weight(x, 0.0)
        result = np.empty_like(flat)
        rows = max(1, _CHUNK // len(x))
        for i in range(0, len(flat), rows):
            exponent = log_p + flat[i : i + rows, None] * loss
            top = exponent.real.max(axis=1)
            total = np.exp(exponent - top[:, None]).sum(axis=1) * step
            with np.errstate(divide="ignore"):
                result[i : i + rows] = top + np.log(total)
        return result.reshape(np.shape(w))

    def atoms(self, tilt: float = 0.0) -> Atoms:
        """The atoms that carry the law tilted by exp(tilt·loss)."""
        low, high = self._window(tilt)
        if high - low > _MOST_ATOMS:
            raise NumericalError(f"The loss of {self!r} has too many atoms to list. {_FEWER}")
        x = np.arange(low, high + 1)
        loss = self._loss(x)
        log_p = self._log_q(x) + loss
        # Unimodal masses fall at least geometrically beyond the window.
        outside = np.array([high + 1, high + 2, *([low - 1, low - 2] if low > self._first else [])])
        ends = self._log_weight(outside, tilt) - log_sum_exp(log_p + tilt * loss)
        falls = np.maximum(ends[1::2] - ends[::2], self._limit_log_ratio)
        cut = float(np.sum(np.exp(ends[::2]) / -np.expm1(falls)))
        if loss[0] > loss[-1]:
            loss, log_p = loss[::-1], log_p[::-1]
        return Atoms(loss, log_p, cut)


@dataclass(frozen=True, kw_only=True)
class NegativeBinomialTerm(_IntegerLaw):
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
        while ratio(high) > 0 and high <= _LARGEST_INTEGER:
            low, high = high, 2 * high
        if high > _LARGEST_INTEGER:
            raise NumericalError(f"The tilted law of {self!r} lies beyond exact integers")
        while high - low > 0.5:
            middle = 0.5 * (low + high)
            low, high = (middle, high) if ratio(middle) > 0 else (low, middle)
        curvature = 1 / (low + 1) + (tilt * shift - (low + q)) / ((low + q) * (low + p))
        return low, 1 / math.sqrt(curvature) if curvature > 0 else low + 1


@dataclass(frozen=True, kw_only=True)
class DiscreteGaussianTerm(_IntegerLaw):
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


class _FiniteLaw(_IntegerLaw):
    """A law with few atoms, listed in full."""

    @property
    @abstractmethod
    def _size(self) -> int: ...

    def _peak(self, tilt: float) -> tuple[float, float]:  # noqa: ARG002
        return 0.0, float(self._size)

    def _grid(self, *tilts: float, frequency: float = 0.0) -> tuple[FloatArray, float]:  # noqa: ARG002
        return np.arange(float(self._size)), 1.0

    def atoms(self, tilt: float = 0.0) -> Atoms:  # noqa: ARG002
        """All atoms."""
        x, _ = self._grid()
        loss = self._loss(x)
        return Atoms(loss, self._log_q(x) + loss)


@dataclass(frozen=True, kw_only=True)
class DiscreteLaplaceTerm(_FiniteLaw):
    """Discrete Laplace noise, Q(x) ∝ exp(−|x|/scale), shifted by an integer: the loss takes shift + 1 values.

    >>> DiscreteLaplaceTerm(scale=Fraction(2), shift=3).largest_loss
    1.5
    """

    scale: Fraction
    shift: int = 1

    def __post_init__(self) -> None:
        if not (self.scale > 0 and math.isfinite(self.scale)):
            raise InvalidArgument("scale", "a positive number", got=self.scale)
        if not isinstance(self.shift, int) or not 0 < abs(self.shift) <= _MOST_ATOMS:
            raise InvalidArgument("shift", f"an integer other than 0, at most {_MOST_ATOMS}", got=self.shift)
        object.__setattr__(self, "scale", Fraction(self.scale))

    @property
    def largest_loss(self) -> float:
        """|shift|/scale."""
        return float(self.exact_largest_loss)

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
class RandomisedResponseTerm(_FiniteLaw):
    """The pair that dominates every ε-DP mechanism: a bit told truly with odds e^ε (Kairouz et al. 2015).

    >>> RandomisedResponseTerm(epsilon=0.5).largest_loss
    0.5
    """

    epsilon: float

    def __post_init__(self) -> None:
        if not (self.epsilon > 0 and math.isfinite(self.epsilon)):
            raise InvalidArgument("epsilon", "a positive number", got=self.epsilon)

    @property
    def largest_loss(self) -> float:
        """ε itself."""
        return self.epsilon

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
        return (2 * x - 1) * self.epsilon

    def _log_q(self, x: FloatArray) -> FloatArray:
        return -np.logaddexp(0.0, (2 * x - 1) * self.epsilon)
