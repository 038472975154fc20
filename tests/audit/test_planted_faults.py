"""The audit refutes claims that are false, and none of the true ones beside them.

Each fault is run as its author would run it, with the claim that he would make; the control is the same code without
the fault. Seeds are fixed; the confidence is 99 %.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from simplexdp import Budget, Dirichlet, Gaussian, Laplace, Polya, PrivacyLoss
from simplexdp.audit import Audit, audit, audit_mechanism
from simplexdp.mechanisms import Mechanism
from simplexdp.mechanisms.base import IntArray
from simplexdp.sampling import Entropy, SeededEntropy

Run = Callable[[IntArray, Entropy], Any]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("claimed", "drawn"),
    [
        (Gaussian(sigma=3.0), Gaussian(sigma=1.5)),  # the sensitivity of a replaced record taken for half of it
        (Laplace(scale=2.0), Laplace(scale=1.0)),  # one cell counted instead of two
        (Laplace(scale=2.0), Laplace(scale=1.8)),
        (Polya(r=2, alpha=40), Polya(r=2, alpha=20)),
        (Polya(r=2, alpha=20), Polya(r=3, alpha=20)),
        (Dirichlet(r=2.0, alpha=60.0), Dirichlet(r=2.0, alpha=30.0)),
    ],
    ids=["half-sigma", "half-scale", "scale-10%-short", "polya-alpha", "polya-r", "dirichlet-alpha"],
)
@pytest.mark.parametrize("neighbours", ["replace-one", "add-remove"])
def test_parameters_that_are_not_the_claimed_ones(claimed: Mechanism, drawn: Mechanism, neighbours: Any) -> None:
    settings = {"neighbours": neighbours, "draws": 20_000, "confidence": 0.99, "entropy": 8}
    assert audit_mechanism(claimed, drawn=drawn, **settings).violated  # type: ignore[arg-type]
    assert not audit_mechanism(claimed, **settings).violated  # type: ignore[arg-type]


ONE, OTHER = (1, 0), (0, 1)


def judged(run: Run, claimed: PrivacyLoss | Budget, **more: Any) -> Audit:
    settings: dict[str, Any] = {"tables": (ONE, OTHER), "draws": 600, "confidence": 0.99, "entropy": 21, **more}
    return audit(run, claimed=claimed, **settings)


@pytest.mark.slow
def test_a_seed_that_is_used_again() -> None:
    mechanism = Gaussian(sigma=5.0)
    found = judged(lambda counts, _: mechanism.draw(counts, SeededEntropy(1)), mechanism.loss())
    assert found.violated
    assert found.lower > 3
    assert not judged(mechanism.draw, mechanism.loss()).violated


@pytest.mark.slow
def test_noise_that_is_used_again_for_a_second_table() -> None:
    """Two releases with one noise: their difference is the data. The tables are a count and its double."""
    mechanism = Gaussian(sigma=5.0)

    def twice(counts: IntArray, entropy: Entropy, *, again: bool) -> IntArray:
        first = mechanism.draw(counts, entropy.child("a"))
        if again:
            return np.concatenate([first, 2 * counts + (first - counts)])
        return np.concatenate([first, 2 * mechanism.draw(counts, entropy.child("b"))])

    claimed = 2 * mechanism.loss()
    assert judged(lambda counts, entropy: twice(counts, entropy, again=True), claimed).violated
    assert not judged(lambda counts, entropy: twice(counts, entropy, again=False), claimed).violated


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", [Gaussian(sigma=5.0), Dirichlet(r=1.0, alpha=20.0)], ids=["noise", "dirichlet"])
def test_categories_read_off_the_data(mechanism: Gaussian | Dirichlet) -> None:
    """Slip 5 of the published code: only cells that occur in the data are released."""

    def observed(counts: IntArray, entropy: Entropy) -> Any:
        seen = counts > 0
        released = np.full(counts.shape, np.nan)
        released[seen] = mechanism.draw(counts[seen], entropy)
        return released

    tables = ((4, 3, 1, 0), (4, 3, 0, 1))
    found = judged(observed, mechanism.loss(), tables=tables)
    assert found.violated
    assert not judged(mechanism.draw, mechanism.loss(), tables=tables).violated


def test_bins_read_off_the_data() -> None:
    """Slip 5 again: the edge of a bin is the largest value of the data, which one record moves."""
    mechanism = Gaussian(sigma=5.0)

    def binned(counts: IntArray, entropy: Entropy) -> Any:
        top = int(np.flatnonzero(counts)[-1])
        return np.append(mechanism.draw(np.array([counts.sum(), 0]), entropy), top)

    assert judged(binned, mechanism.loss(), tables=((9, 0, 1, 0), (9, 0, 0, 1))).violated


def test_a_shape_that_tells() -> None:
    """An output whose length depends on the data."""
    mechanism = Gaussian(sigma=5.0)
    found = judged(
        lambda counts, entropy: mechanism.draw(counts[: 2 + counts[2]], entropy),
        mechanism.loss(),
        tables=((1, 1, 0), (1, 0, 1)),
    )
    assert found.violated


# -- slips of the published code (design notes, section 7) ---------------------------------------------------------


def pair_score(r: float) -> Callable[[Any], float]:
    """The loss of Dirichlet pairs that are laid one after the other."""

    def score(values: Any) -> float:
        logs = np.log(np.asarray(values))
        return r * float(np.sum(logs[::2] - logs[1::2]))

    return score


@pytest.mark.slow
@pytest.mark.parametrize(("times", "false"), [(6, True), (1, False)])
def test_slip_1_class_counts_that_are_multiplied_by_the_features(times: int, false: bool) -> None:
    """The class prior of naive Bayes is made of K·N_j: its sensitivity is K, the claim is for 1."""
    mechanism = Dirichlet.calibrate(Budget.rdp(order=5, epsilon=0.5), r=1.0)
    found = judged(
        lambda counts, entropy: mechanism.draw(times * counts, entropy),
        mechanism.loss(),
        score=pair_score(1.0),
        draws=2000,
    )
    assert found.violated is false


@pytest.mark.slow
@pytest.mark.parametrize(("nodes", "false"), [(12, True), (3, False)])
def test_slip_2_a_budget_divided_by_the_number_of_data_sets(nodes: int, false: bool) -> None:
    """Each node of a network gets a third of the budget, however many nodes there are."""
    node = Dirichlet.calibrate(Budget.rdp(order=5, epsilon=1.0 / 3), r=1.0)
    claimed = 3 * node.loss()
    assert claimed.rdp(5) <= 1.0

    def network(counts: IntArray, entropy: Entropy) -> Any:
        return node.draw(np.tile(counts, nodes), entropy)  # pairs of one Dirichlet draw are independent

    assert judged(network, claimed, score=pair_score(1.0), draws=2000).violated is false


@pytest.mark.slow
@pytest.mark.parametrize(("factor", "false"), [(1, True), (4, False)])
def test_slip_3_alpha_without_the_factor_of_four(factor: int, false: bool) -> None:
    """The (ε̂, δ) experiments use α = 1 + (λ−1)r where the paper has 1 + 4(λ−1)r."""
    order, r = 5, 2.0
    claimed = Dirichlet(r=r, alpha=1 + 4 * (order - 1) * r)
    drawn = Dirichlet(r=r, alpha=1 + factor * (order - 1) * r)
    found = judged(drawn.draw, claimed.loss(), score=pair_score(r), draws=2000)
    assert found.violated is false


@pytest.mark.slow
@pytest.mark.parametrize(("order", "delta", "false"), [(5.0, 2.0, True), (40.0, 1e-5, False)])
def test_slip_4_a_delta_of_two(order: float, delta: float, false: bool) -> None:
    """Figure 2, bottom: δ = 2 in the conversion to (1, 1e-5)-DP, so that orders below its floor seem to be enough."""
    epsilon = 1.0 - math.log1p(-1 / order) + math.log(order * delta) / (order - 1)
    drawn = Dirichlet.algorithm1(order=order, epsilon=epsilon)
    claimed = Dirichlet.calibrate(Budget(epsilon=1.0, delta=1e-5), r=drawn.r)
    found = judged(drawn.draw, claimed.loss(), score=pair_score(drawn.r), draws=2000)
    assert found.violated is false
