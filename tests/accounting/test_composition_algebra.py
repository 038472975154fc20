"""Losses add: the algebra of `PrivacyLoss`, and compositions against the pessimistic PLD of dp-accounting."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import gammaln

from simplexdp import Dirichlet, Gaussian, Laplace, Polya, PrivacyLoss
from simplexdp.accounting import Sensitivity
from simplexdp.errors import Infeasible, InvalidArgument

RELATIONS = ("replace-one", "add-remove")
mechanisms = st.one_of(
    st.builds(Dirichlet, r=st.floats(0.1, 3), alpha=st.floats(20, 500)),
    st.builds(Gaussian, sigma=st.floats(2, 30)),
    st.builds(Laplace, scale=st.floats(1, 30)),
    st.builds(Polya, r=st.integers(1, 4), alpha=st.integers(20, 400), flips=st.integers(1, 2)),
)
quick = settings(max_examples=20, deadline=None, derandomize=True)


@quick
@given(st.lists(mechanisms, min_size=2, max_size=4), st.sampled_from(RELATIONS), st.floats(1.5, 6))
def test_order_and_grouping_do_not_matter(parts: list, neighbours: str, order: float) -> None:
    losses = [part.loss(neighbours) for part in parts]
    total, backwards = sum(losses), sum(reversed(losses))
    assert isinstance(total, PrivacyLoss)
    assert isinstance(backwards, PrivacyLoss)
    assert total.rdp(order) == pytest.approx(backwards.rdp(order), rel=1e-12)
    assert [set(bag) for bag in total.directions] == [set(bag) for bag in backwards.directions]
    assert losses[0] + (losses[1] + losses[0]) == (losses[0] + losses[1]) + losses[0]


@quick
@given(mechanisms, st.integers(0, 6), st.sampled_from(RELATIONS))
def test_a_multiple_is_a_sum(mechanism: object, times: int, neighbours: str) -> None:
    loss = mechanism.loss(neighbours)  # type: ignore[attr-defined]
    summed = sum([loss] * times, PrivacyLoss.nothing(neighbours))  # type: ignore[arg-type]
    assert times * loss == loss * times == summed
    assert hash(times * loss) == hash(summed)


@quick
@given(mechanisms, mechanisms, st.sampled_from(RELATIONS), st.floats(0.1, 4))
def test_log_mgfs_add_and_everything_grows(first: object, second: object, neighbours: str, w: float) -> None:
    a, b = first.loss(neighbours), second.loss(neighbours)  # type: ignore[attr-defined]
    both = a + b
    if neighbours == "replace-one":
        assert both.log_mgf(w) == pytest.approx(a.log_mgf(w) + b.log_mgf(w), rel=1e-10)
    assert both.log_mgf(w) <= (a.log_mgf(w) + b.log_mgf(w)) * (1 + 1e-10)
    assert both.rdp(1 + w) >= max(a.rdp(1 + w), b.rdp(1 + w))
    assert both.rdp(1 + w) <= both.rdp(1 + 1.5 * w) * (1 + 1e-10)


@settings(max_examples=10, deadline=None, derandomize=True)
@given(mechanisms, mechanisms, st.sampled_from(RELATIONS), st.floats(0.05, 1.5))
def test_profiles_grow_with_releases_and_fall_with_epsilon(
    first: object, second: object, neighbours: str, e: float
) -> None:
    a, b = first.loss(neighbours), second.loss(neighbours)  # type: ignore[attr-defined]
    both = a + b
    assert both.bounds(epsilon=e).upper >= a.bounds(epsilon=e).lower
    assert both.delta(e) >= both.bounds(epsilon=1.3 * e).lower
    assert both.bounds(epsilon=e).lower <= both.bounds(epsilon=e).upper


def test_relations_do_not_mix() -> None:
    dirichlet = Dirichlet(r=1, alpha=9)
    with pytest.raises(InvalidArgument, match="neighbours"):
        dirichlet.loss("replace-one") + dirichlet.loss("add-remove")
    with pytest.raises(TypeError):
        dirichlet.loss() + 1.5  # type: ignore[operator]
    with pytest.raises(InvalidArgument, match="times"):
        -1 * dirichlet.loss()
    with pytest.raises(InvalidArgument, match="times"):
        1.5 * dirichlet.loss()  # type: ignore[operator]


# -- persons with several rows ----------------------------------------------------------------------------------------


def test_spreading_a_persons_rows_over_cells_costs_less_than_one_cell() -> None:
    """2,000 spreads, seed 11: Σ K of m moved rows over random cells and counts ≤ the curve of `rows=m`, for α ≥ ½."""
    rng = np.random.default_rng(11)
    for _ in range(40):
        rows, r, alpha = int(rng.integers(2, 7)), 10 ** rng.uniform(-1, 0.5), 0.5 + 10 ** rng.uniform(-3, 1.5)
        w = alpha / (rows * r) * rng.uniform(0.05, 0.95)
        limit = Dirichlet(r=r, alpha=alpha).loss(rows=rows).log_mgf(w)
        assert limit == pytest.approx(Dirichlet(r=rows * r, alpha=alpha).loss().log_mgf(w), rel=1e-12)
        before = rng.multinomial(rows, rng.dirichlet(np.full(5, 0.4)), 50)
        after = rng.multinomial(rows, rng.dirichlet(np.full(5, 0.4)), 50)
        others = rng.integers(0, 4, (50, 5)) * (rng.random((50, 5)) < 0.5)
        u, v = r * (others + before) + alpha, r * (others + after) + alpha
        spent = (gammaln(u + w * (u - v)) - (1 + w) * gammaln(u) + w * gammaln(v)).sum(axis=1)
        assert (spent <= limit * (1 + 1e-10) + 1e-11).all()
        worst = gammaln(alpha + (1 + w) * rows * r) + gammaln(alpha - w * rows * r)
        worst -= gammaln(alpha + rows * r) + gammaln(alpha)
        assert worst == pytest.approx(limit, rel=1e-7)  # all rows from one empty cell to another reach it


def test_persons_have_a_renyi_curve_only() -> None:
    loss = Dirichlet(r=0.5, alpha=40.0).loss(rows=3)
    exact = Dirichlet(r=1.5, alpha=40.0).loss()
    bounds = loss.bounds(epsilon=1.0)
    assert bounds.lower == 0  # no claim
    assert bounds.upper > exact.delta(1.0)  # the conversion costs something over the profile of one cell
    assert loss.epsilon(1e-5) > exact.epsilon(1e-5)
    with pytest.raises(Infeasible) as error:
        Dirichlet(r=0.5, alpha=0.4).loss(rows=2)
    assert error.value.floor == 0.5
    for mechanism in (Polya(r=1, alpha=50), Gaussian(sigma=8.0), Laplace(scale=8.0)):
        assert mechanism.loss(rows=3).rdp(2) > mechanism.loss().rdp(2)


def test_theorem_1_bounds_the_exact_curve_of_counts() -> None:
    """200 cases, seed 12."""
    rng = np.random.default_rng(12)
    for _ in range(200):
        order, epsilon = 1 + 10 ** rng.uniform(-2, 2), 10 ** rng.uniform(-6, 3)
        mechanism = Dirichlet.algorithm1(order=order, epsilon=epsilon)
        bound = mechanism.bound(Sensitivity()).rdp(order)
        assert mechanism.loss().rdp(order) < bound
        assert bound < epsilon * (1 + 1e-10)


# -- the pessimistic PLD ----------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    ("parts", "delta"),
    [
        ([(1.0, 900.0, 24)], 1e-6),
        ([(0.5, 100.0, 10), (2.0, 2000.0, 5)], 1e-5),
    ],
)
def test_exact_composition_is_just_below_the_pessimistic_pld(parts: list, delta: float) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the peer's own imports
        from dp_accounting.pld import pld_pmf, privacy_loss_distribution

    step, composed, total = 1e-3, None, PrivacyLoss.nothing()
    for r, alpha, times in parts:
        loss = Dirichlet(r=r, alpha=alpha).loss()
        total = total + times * loss
        top = math.ceil(loss.epsilon(1e-13) / step)
        # The profile at −ε follows from the one at ε: δ(−ε) = 1 − e^−ε (1 − δ(ε)), the pair being symmetric.
        upper = np.array([loss.delta(step * i) for i in range(0, top + 1)])
        grid = step * np.arange(1, top + 1)
        lower = 1 - np.exp(-grid) * (1 - upper[1:])
        deltas = np.minimum.accumulate(np.concatenate([lower[::-1], upper]))
        pmf = pld_pmf.create_pmf_pessimistic_connect_dots_fixed_gap(step, -top, top, deltas)
        each = privacy_loss_distribution.PrivacyLossDistribution(pmf).self_compose(times)
        composed = each if composed is None else composed.compose(each)
    pessimistic = composed.get_epsilon_for_delta(delta)
    exact = total.epsilon(delta)
    assert exact < pessimistic
    assert pessimistic < exact * 1.001
