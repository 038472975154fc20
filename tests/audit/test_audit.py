"""Audits reach the exact ε of our mechanisms and are valid at the confidence they state."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom, binomtest
from typer.testing import CliRunner

from simplexdp import Budget, Dirichlet, Gaussian, Laplace, Polya
from simplexdp.audit import Evidence, WorstCase, at_least, at_most, audit, audit_mechanism, claimed_epsilon
from simplexdp.budget import Neighbours
from simplexdp.cli import app
from simplexdp.errors import InvalidArgument
from simplexdp.mechanisms import Mechanism
from simplexdp.sampling import SeededEntropy

BUDGET = Budget(epsilon=3.0, delta=1e-5)


def calibrated(name: str, neighbours: Neighbours) -> Mechanism:
    if name == "dirichlet":
        return Dirichlet.calibrate(BUDGET, neighbours=neighbours, r=2.0)
    if name == "polya":
        return Polya.calibrate(BUDGET, neighbours=neighbours, r=2)
    return (Gaussian if name == "gaussian" else Laplace).calibrate(BUDGET, neighbours=neighbours)


@pytest.mark.slow
@pytest.mark.parametrize("neighbours", ["replace-one", "add-remove"])
@pytest.mark.parametrize("name", ["dirichlet", "polya", "gaussian", "laplace"])
def test_ninety_per_cent_of_the_exact_epsilon_is_proved(name: str, neighbours: Neighbours) -> None:
    """2e5 draws a table at 95 % confidence; fixed seed."""
    mechanism = calibrated(name, neighbours)
    found = audit_mechanism(mechanism, neighbours=neighbours, draws=200_000, entropy=11)
    assert found.claimed == pytest.approx(mechanism.loss(neighbours).epsilon(found.delta))
    assert 0.9 <= found.share <= 1.0
    assert not found.violated


@pytest.mark.parametrize("name", ["dirichlet", "polya", "gaussian", "laplace"])
def test_the_score_is_the_privacy_loss(name: str) -> None:
    """E_P exp(−L) = 1 for the loss of a pair with one support (1e5 draws, six standard errors), and not for L/2."""
    mechanism = calibrated(name, "replace-one")
    case = WorstCase(claimed=mechanism, neighbours="replace-one")
    loss = case.scores(mechanism, 0, 100_000, SeededEntropy(5))
    for scale, holds in ((1.0, True), (0.5, False)):
        ratios = np.exp(-scale * loss)
        error = 6 * float(ratios.std()) / math.sqrt(ratios.size)
        assert (abs(float(ratios.mean()) - 1) < error) is holds


@pytest.mark.slow
def test_the_bound_is_valid_at_its_confidence() -> None:
    """150 audits of 4000 draws at 80 %: no more false refutations than the 99.9 % quantile of Binomial(150, 0.2)."""
    mechanism = Gaussian(sigma=1.2)
    case, exact = WorstCase(claimed=mechanism, neighbours="replace-one"), mechanism.loss().epsilon(0.05)
    wrong = 0
    for seed in range(150):
        source = SeededEntropy(seed)
        scores = [case.scores(mechanism, table, 4000, source) for table in (0, 1)]
        found = Evidence(scores[0], scores[1], 0.8).best((0.05,), lambda _, bound: bound)
        wrong += found.lower > exact
    assert wrong <= binom.ppf(0.999, 150, 0.2)


@given(st.integers(1, 3000), st.floats(0, 1), st.floats(1e-6, 0.2))
def test_clopper_pearson_is_that_of_scipy(draws: int, share: float, error: float) -> None:
    hits = round(share * draws)
    exact = binomtest(hits, draws).proportion_ci(1 - 2 * error, method="exact")
    assert at_least(np.array([hits]), draws, error)[0] == pytest.approx(exact.low, rel=1e-6, abs=1e-12)
    assert at_most(np.array([hits]), draws, error)[0] == pytest.approx(exact.high, rel=1e-6)


def test_the_profile_is_bounded_from_below_too() -> None:
    mechanism = Gaussian(sigma=1.0)
    found = audit_mechanism(mechanism, draws=100_000, entropy=3, confidence=0.999)
    for epsilon in (0.0, 0.5, 1.0, 2.0):
        exact = mechanism.loss().delta(epsilon)
        assert 0.9 * exact < found.evidence.delta_at(epsilon) <= exact


@pytest.mark.slow
def test_a_generic_audit_learns_most_of_the_loss() -> None:
    """The learned discriminant on six cells of Gaussian noise, of which two tell: 3000 draws."""
    mechanism = Gaussian(sigma=1.2)
    first, second = [1, 0, 5, 0, 9, 2], [0, 1, 5, 0, 9, 2]
    found = audit(mechanism.draw, tables=(first, second), claimed=mechanism.loss(), draws=3000, entropy=2)
    assert 0.7 < found.share <= 1
    assert found.neighbours == "replace-one"
    assert "not refuted" in str(found)


def test_progress_counts_every_draw() -> None:
    done: list[int] = []
    audit_mechanism(Gaussian(sigma=1.0), draws=1000, entropy=1, progress=done.append)
    assert sum(done) == 2000


@pytest.mark.parametrize("delta", [1e-3, 0.05])
def test_the_delta_can_be_given(delta: float) -> None:
    found = audit_mechanism(Laplace(scale=1.0), draws=5000, entropy=1, delta=delta)
    assert found.delta == delta
    assert json.loads(json.dumps(found.as_dict()))["delta"] == delta


def test_what_budgets_claim() -> None:
    assert claimed_epsilon(Budget(epsilon=1.0, delta=1e-5), 1e-3) == 1.0
    assert claimed_epsilon(Budget(epsilon=1.0, delta=1e-5), 1e-6) == math.inf
    assert claimed_epsilon(Budget.rdp(order=20, epsilon=1.0), 1e-5) == pytest.approx(1.39698, rel=1e-6)


def test_bad_arguments() -> None:
    with pytest.raises(InvalidArgument, match="draws"):
        audit_mechanism(Gaussian(sigma=1.0), draws=10)
    with pytest.raises(InvalidArgument, match="nan"):
        Evidence(np.full(100, np.nan), np.zeros(100))
    with pytest.raises(InvalidArgument, match="finite"):
        audit(
            Gaussian(sigma=1.0).draw,
            tables=([1, 0], [0, 1]),
            claimed=Budget(epsilon=1.0, delta=1e-2),
            delta=1e-3,
            draws=100,
            entropy=1,
        )
    with pytest.raises(InvalidArgument, match="mechanism"):
        WorstCase(claimed=object(), neighbours="replace-one").loss(np.zeros(2), np.zeros(2))  # type: ignore[arg-type]


@pytest.mark.slow
def test_the_command(tmp_path: Path) -> None:
    picture = tmp_path / "audit.svg"
    arguments = ["audit", "--epsilon", "2", "--draws", "20000", "--seed", "4", "--mechanism", "gaussian"]
    done = CliRunner().invoke(app, [*arguments, "--json", "--plot", str(picture)])
    assert done.exit_code == 0, done.output
    (report,) = json.loads(done.stdout)["audits"]
    assert 0.5 < report["share"] < 1
    assert picture.read_text().startswith("<?xml")
    assert "not" not in CliRunner().invoke(app, arguments).stdout.split("refutes")[0]
