"""The known attacks on floating-point noise: they break the floating-point Dirichlet draw, not the exact integers.

Two attacks are played:

* the support of the low bits (Mironov 2012): some outputs can be computed from one table only;
* the ulp of the result (Haney et al. 2022): the precision of an output tells the size of what was added on the way.

Both are checked first against the textbook Laplace noise they were published for. Against the Dirichlet draw they use
that a shape below 1 is drawn through its logarithm: the output is then exp of a double, of which there are fewer than
outputs, while a shape of 1 or more is drawn directly. So whether a cell is empty can be read off its low bits.

Each attack is the score of an audit: what it proves is a valid lower bound on ε. Seeds are fixed; 99 % confidence.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from simplexdp import Dirichlet, Gaussian, Laplace, Polya
from simplexdp.audit import Audit, Evidence, audit, judge
from simplexdp.mechanisms.base import IntArray
from simplexdp.sampling import Entropy, SeededEntropy

MANY = 9_000_000_000_000_000  # records in the other cell, which is known to the attacker
EMPTY_OR_NOT = ((1, MANY), (0, MANY + 1))
FLOATING = Dirichlet(r=0.5, alpha=0.9)  # shapes 1.4 and 0.9 in the cell that is attacked
Attack = Callable[[Any], float]


def neighbours_of(x: float, reach: int) -> list[float]:
    """A double and the doubles next to it."""
    found, up, down = [x], x, x
    for _ in range(reach):
        up, down = math.nextafter(up, math.inf), math.nextafter(down, -math.inf)
        found += [up, down]
    return found


def before_the_sum(small: float, large: float) -> list[float]:
    """The values a that give this output: it is computed as s = 1 + a, small = a/s, large = 1/s."""
    candidates = neighbours_of(small / large, 4)
    return [a for a in candidates if a / (1 + a) == small and 1 / (1 + a) == large]


def support_attack(output: Any) -> float:
    """1 if the smaller value cannot have come through a logarithm: no double is mapped to it by exp."""
    small, large = np.sort(np.asarray(output, dtype=np.float64))
    reachable = any(float(np.exp(d)) == a for a in before_the_sum(small, large) for d in neighbours_of(math.log(a), 2))
    return float(not reachable)


def ulp_attack(output: Any) -> float:
    """How many binary places the logarithm of the smaller value needs to give that value back."""
    small, large = np.sort(np.asarray(output, dtype=np.float64))
    for places in range(40, 60):
        for a in before_the_sum(small, large) or [small]:
            if a > 0 and float(np.exp(round(math.log(a) * 2**places) / 2**places)) == a:
                return float(places)
    return 60.0


def low_bits_attack(output: Any) -> float:
    """Which residues mod 8 the cells have, and which comes first."""
    first, second = (int(value) & 7 for value in np.asarray(output))
    return float(first - second)


def play(attack: Attack, run: Any, claimed: Any, tables: Any, draws: int = 1200) -> Audit:
    return audit(run, tables=tables, claimed=claimed, score=attack, draws=draws, confidence=0.99, entropy=17)


@pytest.mark.slow
@pytest.mark.parametrize("attack", [support_attack, ulp_attack])
def test_the_floating_point_draw_tells_an_empty_cell(attack: Attack) -> None:
    found = play(attack, FLOATING.draw, FLOATING.loss(), EMPTY_OR_NOT)
    assert found.violated
    assert found.lower > 3 > 2 * found.claimed  # far more than the exact law allows


@pytest.mark.slow
@pytest.mark.parametrize("attack", [support_attack, ulp_attack])
def test_the_attack_does_not_fire_between_tables_drawn_the_same_way(attack: Attack) -> None:
    """The control: two tables with that cell not empty are both drawn directly."""
    found = play(attack, FLOATING.draw, FLOATING.loss(), ((2, MANY), (1, MANY + 1)))
    assert not found.violated


def normalised(values: IntArray) -> Any:
    """Post-processing to floats: a function of the released integers, plus one so that nothing is zero."""
    positive = values - min(0, int(values.min())) + 1
    return positive / positive.sum()


EXACT = [Polya(r=1, alpha=2), Polya(r=2, alpha=9, flips=2), Gaussian(sigma=1.5), Laplace(scale=1.5)]
PAIRS = [((1, 0), (0, 1)), ((1, 40), (0, 41))]


@pytest.mark.slow
@pytest.mark.parametrize("tables", PAIRS, ids=["empty", "not-empty"])
@pytest.mark.parametrize("mechanism", EXACT, ids=str)
def test_the_exact_integers_tell_nothing_more_than_their_law(mechanism: Any, tables: Any) -> None:
    """2000 releases of each table; the floats are made from the integers alone, after the draw."""
    source = SeededEntropy(17)
    released = [mechanism.draw(np.tile(np.array(table), (2000, 1)), source) for table in tables]
    for attack, prepare in (
        (low_bits_attack, lambda values: values),
        (support_attack, normalised),
        (ulp_attack, normalised),
    ):
        scores = [np.array([attack(prepare(values)) for values in outputs]) for outputs in released]
        evidence = Evidence(scores[0], scores[1], 0.99)
        assert not judge("exact", "replace-one", mechanism.loss(), evidence, delta=0.02).violated


# -- the attacks as they were published ----------------------------------------------------------------------------


def textbook_laplace(counts: IntArray, entropy: Entropy) -> float:
    """f + sign·ln U with U a multiple of 2⁻⁵³, in doubles."""
    word, sign = (int(w) for w in entropy.words(2))
    noise = math.log(((word >> 11) + 1) * 2.0**-53)
    return float(counts[0]) + (noise if sign & 1 else -noise)


def mironov(output: float) -> float:
    """Whether the output can be 1 + noise, minus whether it can be 0 + noise."""

    def possible(f: float) -> bool:
        # y = fl(f + n) with n = ±ln U: all n that round to y, at U a multiple of 2⁻⁵³.
        for n in neighbours_of(output - f, 2):
            if f + n != output:
                continue
            centre = round(math.exp(-abs(n)) * 2**53)
            if any(0 < k <= 2**53 and abs(math.log(k * 2.0**-53)) == abs(n) for k in range(centre - 3, centre + 4)):
                return True
        return False

    return float(possible(1.0)) - float(possible(0.0))


def haney(output: float) -> float:
    """1 + noise is a multiple of 2⁻⁵³ where it is below 1; noise by itself has finer places."""
    if abs(output) >= 1:
        return 0.0
    return 1.0 if (output * 2**53).is_integer() else -1.0


@pytest.mark.parametrize("attack", [mironov, haney])
def test_both_attacks_break_the_textbook_noise(attack: Attack) -> None:
    from simplexdp.accounting.discrete import RandomisedResponseTerm
    from simplexdp.accounting.loss import PrivacyLoss

    bag = ((RandomisedResponseTerm(epsilon=1.0), 1),)
    found = play(attack, textbook_laplace, PrivacyLoss("add-remove", (bag, bag)), ((1, 0), (0, 0)))
    assert found.violated
    assert found.lower > 3
