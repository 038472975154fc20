"""The same laws and profiles in arbitrary precision, by enumeration. Slow and plain on purpose."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import product

from mpmath import mp, mpf

from simplexdp.accounting.discrete import (
    DiscreteGaussianTerm,
    DiscreteLaplaceTerm,
    NegativeBinomialTerm,
    RandomisedResponseTerm,
)
from simplexdp.accounting.terms import LatticeTerm


@lru_cache(maxsize=64)
def laws(term: LatticeTerm, reach: int = 0) -> tuple[tuple[mpf, ...], tuple[mpf, ...]]:
    """P and Q as tuples of 40 digits, cut far beyond anything a test looks at."""
    with mp.workdps(40):
        if isinstance(term, NegativeBinomialTerm):
            p = mpf(2) ** -term.flips
            tables = []
            for shape in (term.shape_p, term.shape_q):
                far = 260 + 3 * max(term.shape_p, term.shape_q) + 60 * abs(term.shape_p - term.shape_q)
                size = reach or 2 * far * 2**term.flips
                value, table = p**shape, []
                for x in range(size):
                    table.append(value)
                    value = value * (x + shape) / (x + 1) * (1 - p)
                tables.append(tuple(table))
            return tables[0], tables[1]
        if isinstance(term, DiscreteGaussianTerm):
            variance = mpf(term.variance.numerator) / term.variance.denominator
            shift = abs(term.shift)
            size = reach or int(40 * mp.sqrt(variance)) + 60 * shift + 40
            everywhere = range(-size - shift, size + shift + 1)
            weights = {x: mp.exp(-(mpf(x) ** 2) / (2 * variance)) for x in everywhere}
            total = mp.fsum(weights.values())
            points = range(-size, size + 1)
            moved = tuple(weights[x - shift] / total for x in points)
            return moved, tuple(weights[x] / total for x in points)
        if isinstance(term, DiscreteLaplaceTerm):
            inverse = mpf(term.scale.denominator) / term.scale.numerator
            shift = abs(term.shift)
            size = reach or int(100 / inverse) + shift + 10
            points = range(-size, size + shift + 1)
            front = (1 - mp.exp(-inverse)) / (1 + mp.exp(-inverse))
            return (
                tuple(front * mp.exp(-abs(x - shift) * inverse) for x in points),
                tuple(front * mp.exp(-abs(x) * inverse) for x in points),
            )
        assert isinstance(term, RandomisedResponseTerm)
        high = 1 / (1 + mp.exp(-mpf(term.epsilon)))
        return (1 - high, high), (high, 1 - high)


def log_mgf(term: LatticeTerm, w: mpf) -> mpf:
    """ln Σ P (P/Q)^w."""
    p, q = laws(term)
    return mp.log(mp.fsum(a * (a / b) ** w for a, b in zip(p, q, strict=True) if a > 0 and b > 0))


def delta(terms: Sequence[LatticeTerm], epsilon: float, reach: int = 0) -> float:
    """Σ (P − e^ε Q)₊ over every combination of outputs."""
    with mp.workdps(40):
        front = mp.exp(mpf(epsilon))
        pairs = [tuple(zip(*laws(term, reach), strict=True)) for term in terms]
        total = mpf(0)
        for combination in product(*pairs):
            p = mp.fprod(a for a, _ in combination)
            q = front * mp.fprod(b for _, b in combination)
            if p > q:
                total += p - q
        return float(total)
