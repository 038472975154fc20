"""The negative binomial law in fair coin flips: random words, popcounts and a bit select; no floating point.

The number of tails before the n-th head, when a head has probability 2⁻ᵏ, is `NegBin(n, 2⁻ᵏ)`. The
conjunction of k random words is a word of 64 such coins. A cell reads its words in order until it has seen
its n-th head; a cell whose words run out goes on with fresh ones, which is exact because coins have no
memory. So the law is exact whatever the number of words per pass, and that number is a matter of speed
alone.

Work and what it tells: a cell of shape n reads about `k 2ᵏ n / 64` words, so the time and the memory of a
call depend on the counts behind n. With `upper`, a public bound on n, each cell is given the words that n =
`upper` needs and passes through the same steps, so both depend on `upper` and the number of cells alone.
Only a cell that still waits for its last head after that (a chance below e⁻⁷² by Chernoff's bound) takes
more.
"""

from __future__ import annotations

from functools import lru_cache
from math import isqrt

import numpy as np
from numpy.typing import NDArray

from ..budget import check_whole
from ..errors import InvalidArgument
from . import Entropy

MOST_FLIPS = 16
"""A head of probability 2⁻¹⁶ is as good as the Dirichlet limit and costs 2²⁰ random bits."""

_BLOCK = 1 << 17  # words in memory at a time: 1 MiB, which stays in a core's cache
_WIDEST = 1 << 14  # words a cell reads in one pass
_SHORT = 64  # from here on it pays to go through the words of one cell rather than the cells of one word


def negative_binomial(
    n: NDArray[np.int64], flips: int, entropy: Entropy, *, upper: int | None = None
) -> NDArray[np.int64]:
    """Tails before the n-th head, for each cell independently, when a head has probability 2^−flips.

    Mean `n (2ᵏ − 1)`, variance `n (2ᵏ − 1) 2ᵏ` for k = flips.

    Args:
        n: the shapes, whole numbers from 1.
        flips: k; 1 is a fair coin.
        entropy: where the random words come from.
        upper: a public bound on n that makes the work the same for all n (see the module).

    >>> from simplexdp.sampling import SeededEntropy
    >>> negative_binomial(np.array([1, 50, 1000]), 1, SeededEntropy(1)).shape
    (3,)
    """
    flips = check_whole("flips", flips)
    if flips > MOST_FLIPS:
        raise InvalidArgument("flips", f"at most {MOST_FLIPS}", got=flips)
    shape = np.asarray(n)
    if shape.dtype.kind not in "iu":
        raise InvalidArgument("n", "an array of whole numbers", got=str(shape.dtype))
    most = (1 << 55) >> flips
    if shape.size and not (int(shape.min()) >= 1 and int(shape.max()) <= most):
        raise InvalidArgument("n", f"from 1 to {most} in every cell")
    need = shape.astype(np.int64).ravel()
    tails = np.zeros_like(need)
    if upper is not None:
        upper = check_whole("upper", upper)
        if need.size and int(need.max()) > upper:
            raise InvalidArgument("upper", "at least as large as every shape in `n`", got=upper)
        _read_evenly(need, tails, flips, entropy, upper)
    _read(need, tails, flips, entropy)
    return tails.reshape(shape.shape)


def _read(need: NDArray[np.int64], tails: NDArray[np.int64], flips: int, entropy: Entropy) -> None:
    """Bring every cell to its last head: `need` to zero, `tails` to the draw. Cells of like size go
    together."""
    widths, limits = _widths(flips)
    waiting = np.flatnonzero(need)
    while waiting.size:
        size = np.searchsorted(limits, need[waiting]).astype(np.uint16)  # sorted by radix
        order = np.argsort(size, kind="stable")
        waiting, ends = waiting[order], np.cumsum(np.bincount(size, minlength=len(widths)))
        start = 0
        for width, end in zip(widths, ends.tolist(), strict=True):
            step = max(1, _BLOCK // width)
            for at in range(start, end, step):
                cells = waiting[at : min(at + step, end)]
                need[cells], tails[cells] = _pass(need[cells], tails[cells], width, flips, entropy)
            start = end
        waiting = waiting[need[waiting] > 0]


def _read_evenly(need: NDArray[np.int64], tails: NDArray[np.int64], flips: int, entropy: Entropy, upper: int) -> None:
    """Give every cell the words that `upper` heads need, in the same steps."""
    # b coins hold upper heads but for 12 deviations: b/2ᵏ − 12 √(b/2ᵏ) ≥ upper, solved with heads = b/2ᵏ.
    heads = upper + 144 + 12 * isqrt(upper + 144)
    words = ((heads << flips) + 63) // 64
    step = max(1, _BLOCK // min(words, _WIDEST))
    for at in range(0, need.size, step):
        cells = slice(at, at + step)
        for start in range(0, words, _WIDEST):
            width = min(_WIDEST, words - start)
            need[cells], tails[cells] = _pass(need[cells], tails[cells], width, flips, entropy)


def _pass(
    need: NDArray[np.int64], tails: NDArray[np.int64], width: int, flips: int, entropy: Entropy
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Each cell reads `width` words of coins: the heads it still needs after them, the tails it has seen."""
    words = entropy.words(flips * width * need.size).reshape(flips, -1)
    coins = np.bitwise_and.reduce(words, axis=0) if flips > 1 else words[0]
    capped = np.minimum(need, 64 * width + 1).astype(np.int32)
    scan = _scan_short if width <= _SHORT else _scan_long
    index, before, last, heads = scan(coins, capped, width)
    done = heads >= capped
    position = 64 * index.astype(np.int64) + _select(last, capped - before) + 1
    read = np.where(done, position - need, 64 * width - heads.astype(np.int64))
    return np.where(done, 0, need - heads), tails + np.where(need > 0, read, 0)


_Scan = tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.uint64], NDArray[np.int32]]
"""For each cell: the word that holds the last head it needs (the final word if none does) as its index, the
heads before it and itself; and the heads of all words."""


def _scan_short(coins: NDArray[np.uint64], need: NDArray[np.int32], width: int) -> _Scan:
    """Word by word, many cells at a time."""
    coins = coins.reshape(width, -1)
    heads, before, index = (np.zeros(need.size, dtype=np.int32) for _ in range(3))
    last = coins[0]
    for word in range(width):
        more = heads < need
        before, last = np.where(more, heads, before), np.where(more, coins[word], last)
        index += more
        heads += np.bitwise_count(coins[word])
    return index - np.int32(1), before, last, heads


def _scan_long(coins: NDArray[np.uint64], need: NDArray[np.int32], width: int) -> _Scan:
    """Cell by cell, many words at a time."""
    coins = coins.reshape(-1, width)
    ends = np.cumsum(np.bitwise_count(coins), axis=1, dtype=np.int32)
    index = np.minimum(np.count_nonzero(ends < need[:, None], axis=1), width - 1).astype(np.int32)
    cells = np.arange(need.size)
    last = coins[cells, index]
    before = ends[cells, index] - np.bitwise_count(last).astype(np.int32)
    return index, before, last, ends[:, -1]


def _select(word: NDArray[np.uint64], rank: NDArray[np.int32]) -> NDArray[np.int64]:
    """The position of the rank-th set bit of a word, by six halvings."""
    at = np.zeros(word.size, dtype=np.int64)
    for bits in (32, 16, 8, 4, 2, 1):
        low = word & np.uint64((1 << bits) - 1)
        count = np.bitwise_count(low).astype(np.int32)
        above = rank > count
        rank = np.where(above, rank - count, rank)
        word = np.where(above, word >> np.uint64(bits), low)
        at += np.where(above, bits, 0)
    return at


@lru_cache(maxsize=MOST_FLIPS)
def _widths(flips: int) -> tuple[list[int], NDArray[np.int64]]:
    """Words per pass, and the largest shape that each of them serves but for three standard deviations."""
    widths = [1]
    while widths[-1] < _WIDEST:
        widths.append(min(_WIDEST, max(widths[-1] + 1, widths[-1] * 33 // 32)))
    limits = []
    for width in widths[:-1]:
        heads, variance = (64 * width) >> flips, (64 * width * ((1 << flips) - 1)) >> (2 * flips)
        limits.append(max(0, heads - 3 * isqrt(variance) - 1))
    return widths, np.maximum.accumulate(np.array(limits, dtype=np.int64))
