"""Exact discrete Laplace and Gaussian noise over arrays, from random words in integer arithmetic.

The samplers are those of Canonne, Kamath and Steinke (The discrete Gaussian for differential privacy,
2020), made of coins with rational probabilities only, and vectorised: each step draws for many candidates and
keeps those that pass it. The first `size` survivors are the sample; which step a candidate fails at depends
on its own coins alone, so they are independent and exactly distributed.

One thing differs from the paper: the Laplace proposal of the Gaussian has scale 2σ²/j with a whole number
j ≈ 2σ instead of ⌊σ⌋ + 1. The acceptance probability is then exp(−(y² − jy + ⌊j²/4⌋)/2σ²), whose numerator
stays small enough for 64-bit integers at every variance a/b with a, b ≤ 2⁴⁴.

The work does not depend on any count, as the noise does not; it varies with the noise by the number of
candidates that are rejected in a whole block, not cell by cell.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from math import factorial, isqrt
from numbers import Rational

import numpy as np
from numpy.typing import NDArray

from ..budget import check_whole
from ..errors import InvalidArgument, NumericalError
from . import Entropy

Words = NDArray[np.uint64]
Flags = NDArray[np.bool_]

MOST = 1 << 44
"""The largest numerator and denominator of a scale or variance."""

MOST_CELLS = 1 << 10
"""The most cells that balanced noise is drawn for; the work grows with their number to the power 3/2."""

_BLOCK = 1 << 15  # candidates at a time: what they need stays in a core's cache
_MOST_SUCCESSES = 1 << 8  # in a row, of probability 1/e each: passed with probability e⁻²⁵⁶, and then refused
_ALL = (1 << 64) - 1
_KNOWN = 20  # 20! is the last factorial within 64 bits


def discrete_laplace(size: int, scale: Fraction, entropy: Entropy) -> NDArray[np.int64]:
    """`size` independent integers of probability ∝ exp(−|x| / scale).

    >>> from simplexdp.sampling import SeededEntropy
    >>> discrete_laplace(4, Fraction(3, 2), SeededEntropy(1)).dtype
    dtype('int64')
    """
    scale = rational("scale", scale)

    def magnitudes(candidates: int) -> Words:
        return _geometric(candidates, scale, entropy)

    return _two_sided(check_whole("size", size, at_least=0), magnitudes, entropy)


def discrete_gaussian(size: int, variance: Fraction, entropy: Entropy) -> NDArray[np.int64]:
    """`size` independent integers of probability ∝ exp(−x² / (2 variance)).

    By rejection from the discrete Laplace law of scale 2σ²/j:
    exp(−y²/2σ²) = exp(−jy/2σ²) · exp(−(y² − jy + ⌊j²/4⌋)/2σ²) · constant, for y = |x| and any whole j ≥ 1;
    the second factor is a probability because jy − y² ≤ ⌊j²/4⌋ for whole y. It is large on average if j ≈
    2σ.

    >>> from simplexdp.sampling import SeededEntropy
    >>> discrete_gaussian(4, Fraction(25), SeededEntropy(1)).dtype
    dtype('int64')
    """
    variance = rational("variance", variance)
    a, b = variance.numerator, variance.denominator
    j = max(1, isqrt(4 * a // b))

    def magnitudes(candidates: int) -> Words:
        # y ≤ 512σ as there are less than 2⁸ successes in a row, so b (y² − jy + ⌊j²/4⌋) < 2¹⁸ a + a < 2⁶³.
        y = _geometric(candidates, Fraction(2 * a, b * j), entropy).astype(np.int64)
        exponents = (np.int64(b) * (y * (y - j) + j * j // 4)).astype(np.uint64)
        return y.astype(np.uint64)[exp_coins(exponents, 2 * a, entropy)]

    return _two_sided(check_whole("size", size, at_least=0), magnitudes, entropy)


def balanced_laplace(size: int, cells: int, scale: Fraction, entropy: Entropy) -> NDArray[np.int64]:
    """`size` independent rows of `cells` integers of probability ∝ exp(−Σ|x_i| / scale) that add up to zero.

    By rejection: all cells but the last are independent discrete Laplace, the last is what balances them, and the row
    is kept with probability exp(−|last| / scale). About one in 1.8 √cells rows is kept.

    >>> from simplexdp.sampling import SeededEntropy
    >>> balanced_laplace(3, 4, Fraction(3, 2), SeededEntropy(1)).sum(axis=1)
    array([0, 0, 0])
    """
    scale = rational("scale", scale)
    size, cells = check_whole("size", size, at_least=0), check_whole("cells", cells)
    if cells > MOST_CELLS:
        raise InvalidArgument("cells", f"at most {MOST_CELLS}", got=cells)
    t, s = scale.numerator, scale.denominator
    sample = np.zeros((size, cells), dtype=np.int64)
    filled = 0 if cells > 1 else size
    while filled < size:
        wanted = 2 * (size - filled) * (isqrt(cells) + 1) + 8
        rows = min(wanted, max(_BLOCK // cells, 1))
        free = discrete_laplace(rows * (cells - 1), scale, entropy).reshape(rows, cells - 1)
        last = -free.sum(axis=1)
        # |x_i| s < 2⁸ t as there are less than 2⁸ successes in a row, so |last| s < 2¹⁰ 2⁸ 2⁴⁴.
        kept = exp_coins(np.abs(last).astype(np.uint64) * np.uint64(s), t, entropy)
        taken = np.column_stack([free[kept], last[kept]])[: size - filled]
        sample[filled : filled + len(taken)] = taken
        filled += len(taken)
    return sample


def _two_sided(size: int, magnitudes: Callable[[int], Words], entropy: Entropy) -> NDArray[np.int64]:
    """Random signs for the magnitudes; a negative zero is rejected, or else zero would count twice."""
    sample = np.empty(size, dtype=np.int64)
    filled = 0
    while filled < size:
        values = magnitudes(min(_BLOCK, 3 * (size - filled) + 64)).astype(np.int64)
        signs = entropy.words((values.size + 63) // 64).view(np.uint8)
        negative = np.unpackbits(signs, count=values.size).view(np.bool_)
        values = np.where(negative, -values, values)[~(negative & (values == 0))]
        taken = values[: size - filled]
        sample[filled : filled + taken.size] = taken
        filled += taken.size
    return sample


def _geometric(candidates: int, scale: Fraction, entropy: Entropy) -> Words:
    """Whole numbers of probability ∝ exp(−y / scale), as many as survive of the candidates.

    For scale t/s: U uniform below t and kept with probability exp(−U/t), V the number of successes in a row
    of probability 1/e; then U + tV has probability ∝ exp(−x/t), and ⌊(U + tV)/s⌋ has the law.
    """
    t, s = scale.numerator, scale.denominator
    share, words = _shares(candidates, t, entropy)
    u = words // np.uint64(share)
    u = u[_small_exp_coins(u, t, entropy)]
    v = np.zeros(u.size, dtype=np.uint64)
    running = np.arange(u.size)
    for successes in range(1, _MOST_SUCCESSES):
        running = running[_inverse_e_coins(running.size, entropy)]
        if not running.size:
            return (u + np.uint64(t) * v) // np.uint64(s)
        v[running] = successes
    raise NumericalError("A draw lies beyond the range of 64-bit integers; its probability is below 1e-111.")


def _shares(size: int, parts: int, entropy: Entropy) -> tuple[int, Words]:
    """Words uniform below `share · parts`: the word's share of the range, numbered from 0, is uniform below
    `parts`."""
    share = _ALL // parts
    words = entropy.words(size)
    limit = np.uint64(share * parts)
    outside = np.flatnonzero(words >= limit)
    if outside.size:
        words = words.copy()
        while outside.size:
            words[outside] = entropy.words(outside.size)
            outside = outside[words[outside] >= limit]
    return share, words


def exp_coins(numerators: Words, denominator: int, entropy: Entropy) -> Flags:
    """True with probability exp(−a/m) for each numerator a: ⌊a/m⌋ coins of 1/e and one of the rest."""
    whole = numerators // np.uint64(denominator)
    rest = numerators - whole * np.uint64(denominator)
    heads = _small_exp_coins(rest, denominator, entropy)
    waiting = np.flatnonzero(heads & (whole > 0))
    while waiting.size:
        again = _inverse_e_coins(waiting.size, entropy)
        heads[waiting[~again]] = False
        waiting = waiting[again]
        whole[waiting] -= np.uint64(1)
        waiting = waiting[whole[waiting] > 0]
    return heads


def _small_exp_coins(numerators: Words, denominator: int, entropy: Entropy, *, first: int = 1) -> Flags:
    """True with probability exp(−a/m) for each numerator a ≤ m.

    Coins of a/(mk), k = 1, 2, …, until the first tails, at k = K: P(K > k) = (a/m)ᵏ/k!, so
    P(K odd) = 1 − a/m + (a/m)²/2 − … = exp(−a/m) (von Neumann 1951). `first` continues such a run.
    """
    odd = np.zeros(numerators.size, dtype=np.bool_)
    running = np.arange(numerators.size)
    k = first
    while running.size:
        share, words = _shares(running.size, denominator * k, entropy)
        heads = words < numerators * np.uint64(share)  # a · share ≤ m k · share ≤ 2⁶⁴ − 1
        if k % 2:
            odd[running[~heads]] = True
        running, numerators = running[heads], numerators[heads]
        k += 1
    return odd


def _inverse_e_coins(size: int, entropy: Entropy) -> Flags:
    """True with probability 1/e: the run above for a = m in one word, as P(K > k) = 1/k! = (20!/k!)/20!."""
    total = factorial(_KNOWN)
    share, words = _shares(size, total, entropy)
    bounds = [share * (total // factorial(k)) for k in range(_KNOWN, 0, -1)]
    # Below the bound of k but not of k + 1 means K = k + 1: K = 20 at place 1, 19 at place 2, …, 2 at place
    # 19.
    place = np.searchsorted(np.array(bounds, dtype=np.uint64), words, side="right")
    heads = (place % 2).astype(np.bool_) ^ (_KNOWN % 2 == 0)
    longer = np.flatnonzero(place == 0)
    if longer.size:
        heads[longer] = _small_exp_coins(np.ones(longer.size, np.uint64), 1, entropy, first=_KNOWN + 1)
    return heads


def uniform_below(parts: int, entropy: Entropy) -> int:
    """A whole number below `parts`, each equally likely."""
    share, words = _shares(1, parts, entropy)
    return int(words[0]) // share


def rational(name: str, value: Fraction) -> Fraction:
    """A positive scale or variance, exact and of few enough digits."""
    if isinstance(value, Decimal) and value.is_finite():
        value = Fraction(value)
    if isinstance(value, bool) or not isinstance(value, Rational) or value <= 0:
        raise InvalidArgument(
            name, "a Fraction above 0", got=value, hint="A float is not exact; give fractions.Fraction(...)."
        )
    value = Fraction(int(value.numerator), int(value.denominator))
    if max(value.numerator, value.denominator) > MOST:
        raise InvalidArgument(
            name,
            "a Fraction of a numerator and a denominator of at most 2**44",
            got=value,
            hint="Round it up to a simpler fraction; more noise is still private.",
        )
    return value
