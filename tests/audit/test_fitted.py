"""Audits of fits: all that a guarantee paid for together, and real pipelines run from rows to release.

Seeds are fixed. The bounds hold with 95 % confidence where nothing else is said, 99 % where a claim must be refuted.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from typer.testing import CliRunner

from simplexdp import (
    BayesianNetwork,
    Budget,
    Dirichlet,
    Gaussian,
    Laplace,
    Polya,
    PrivacyLoss,
    Schema,
    release_distribution,
)
from simplexdp.accounting.smooth import GaussianTerm
from simplexdp.audit import Audit, audit, audit_fit
from simplexdp.budget import Neighbours
from simplexdp.cli import app
from simplexdp.errors import InvalidArgument
from simplexdp.mechanisms import BalancedLaplace, Mechanism, NoNoise
from simplexdp.mechanisms.base import IntArray
from simplexdp.mechanisms.sums import GaussianTables, NoisySum
from simplexdp.models import Release
from simplexdp.models.guarantee import Guarantee
from simplexdp.naive_bayes import fit_naive_bayes
from simplexdp.sampling import Entropy

COMPOSITIONS: dict[str, tuple[Mechanism, ...]] = {
    "gaussian": (Gaussian(sigma=4.0),) * 6,
    "laplace": (Laplace(scale=4.0),) * 4,
    "polya": (Polya(r=2, alpha=30),) * 3,
    "dirichlet": (Dirichlet(r=1.0, alpha=12.0),) * 3,
    "mixed": (Gaussian(sigma=2.0), Laplace(scale=3.0), Polya(r=1, alpha=10)),
}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "neighbours"), [*((name, "replace-one") for name in COMPOSITIONS), ("mixed", "add-remove")]
)
def test_ninety_per_cent_of_a_composition_is_proved(name: str, neighbours: Neighbours) -> None:
    """2e5 draws for each of the two neighbours."""
    found = audit_fit(Guarantee(mechanisms=COMPOSITIONS[name], neighbours=neighbours), draws=200_000, entropy=3)
    assert 0.9 <= found.share <= 1.0
    assert found.claimed == pytest.approx(found.claim.epsilon(found.delta))  # type: ignore[operator]


@pytest.mark.slow
@pytest.mark.parametrize("neighbours", ["replace-one", "add-remove"])
@pytest.mark.parametrize("kind", ["vector", "matrix", "tables"])
def test_ninety_per_cent_of_what_sums_and_second_looks_can_lose(kind: Any, neighbours: Neighbours) -> None:
    """Their claim is that of one Gaussian, which a fine grid reaches; at σ = 1 the grid of counts is a coarse one."""
    mechanism = GaussianTables(sigma=1.0) if kind == "tables" else NoisySum.of(kind, 1.0)
    found = audit_fit(Guarantee(mechanisms=(mechanism,), neighbours=neighbours), draws=60_000, delta=0.05, entropy=3)
    curve = GaussianTerm(mechanism.loss(neighbours).rdp(2.0))  # D₂ = μ²
    fine = PrivacyLoss("replace-one", (((curve, 1),),))
    exact = (Gaussian(sigma=1.0).loss(neighbours) if kind == "tables" else fine).epsilon(0.05)
    assert 0.9 * exact <= found.lower <= exact <= found.claimed * (1 + 1e-9)
    assert found.share >= (0.8 if kind == "tables" else 0.9)


def test_persons_with_several_rows() -> None:
    found = audit_fit(Guarantee(mechanisms=(Laplace(scale=6.0),) * 2, unit="person", rows=3), draws=50_000, entropy=3)
    assert 0.7 < found.share <= 1.0


@pytest.mark.parametrize("kind", ["vector", "matrix"])
def test_a_sum_with_too_little_noise_is_found(kind: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Half of the variance, as if the shift of a replaced record were taken for that of an added one."""
    mechanism = NoisySum.of(kind, 2.0)
    fit = Guarantee(mechanisms=(mechanism,))
    less = NoisySum(sigma=2.0 / math.sqrt(8), bound=mechanism.bound, kind=kind)
    draw = less.draw
    assert not audit_fit(fit, draws=20_000, confidence=0.99, entropy=3).violated
    monkeypatch.setattr(NoisySum, "draw", lambda _, *args: draw.__func__(less, *args))  # type: ignore[attr-defined]
    assert audit_fit(fit, draws=20_000, confidence=0.99, entropy=3).violated


def test_exact_counts_cannot_be_audited() -> None:
    with pytest.raises(InvalidArgument, match="noise"):
        audit_fit(Guarantee(mechanisms=(NoNoise(),)))


def test_a_table_of_one_cell_with_balanced_noise_shows_nothing() -> None:
    table, one = BalancedLaplace(scale=2.0, cells=3), BalancedLaplace(scale=2.0, cells=1)
    found = audit_fit(Guarantee(mechanisms=(one, table)), draws=2000, entropy=1)
    assert found.claimed == audit_fit(Guarantee(mechanisms=(table,)), draws=2000, entropy=1).claimed
    assert not found.violated


# -- from rows to release --------------------------------------------------------------------------------------------

NAMES = ["c", "a", "b", "d", "e"]
SCHEMA = Schema.of(**{name: ["x", "y"] for name in NAMES})
BUDGET = Budget.rdp(order=3, epsilon=1.0)


def rows(counts: IntArray) -> pa.Table:
    """One record that is x in all columns, or y: every table has it in one of two cells that are empty otherwise."""
    return pa.table({name: ["x"] * int(counts[0]) + ["y"] * int(counts[1]) for name in NAMES})


def corners(releases: tuple[Release, ...]) -> list[float]:
    """What was released at the two cells, table by table."""
    return [float(value) for release in releases for value in (release.values.flat[0], release.values.flat[-1])]


def linear(weights: list[float]) -> Callable[[Any], float]:
    """The privacy loss of Gaussian noise: each first cell less its second, over the variance."""
    return lambda found: sum(w * (found[2 * i] - found[2 * i + 1]) for i, w in enumerate(weights))


PIPELINES: dict[str, Callable[[pa.Table, Entropy, Any], tuple[Release, ...]]] = {
    "distribution": lambda table, entropy, more: (
        release_distribution(table, SCHEMA, ["c", "a"], budget=BUDGET, entropy=entropy, **more),
    ),
    "naive Bayes": lambda table, entropy, more: (
        fit_naive_bayes(table, SCHEMA, "c", budget=BUDGET, entropy=entropy, **more).releases
    ),
    "network": lambda table, entropy, more: (
        BayesianNetwork([("c", "a"), ("c", "b")], SCHEMA, budget=BUDGET, entropy=entropy, **more)
        .fit(table)
        .model.releases
    ),
}


def judged(pipeline: str, draws: int = 130, **more: Any) -> Audit:
    run = PIPELINES[pipeline]
    more = {"mechanism": "gaussian", "estimate": "raw", **more}
    guarantee = run(rows(np.array([1, 0])), _seeded(), more)[0].guarantee
    weights = [1 / float(mechanism.variance) for mechanism in guarantee.mechanisms]  # type: ignore[attr-defined]
    return audit(
        lambda counts, entropy: corners(run(rows(counts), entropy, more)),
        tables=((1, 0), (0, 1)),
        claimed=guarantee.loss,
        score=linear(weights),
        draws=draws,
        confidence=0.99,
        entropy=5,
    )


def _seeded() -> Entropy:
    from simplexdp.sampling import SeededEntropy

    return SeededEntropy(1)


@pytest.mark.slow
@pytest.mark.parametrize("pipeline", PIPELINES)
def test_a_real_fit_keeps_its_claim_and_one_with_a_quarter_of_the_noise_does_not(
    pipeline: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not judged(pipeline).violated
    draw = Gaussian.draw
    monkeypatch.setattr(Gaussian, "draw", lambda self, *args: draw(Gaussian(sigma=self.sigma / 4), *args))
    assert judged(pipeline).violated


@pytest.mark.slow
def test_a_real_fit_with_one_seed_for_all_runs_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    draw = Gaussian.draw
    monkeypatch.setattr(Gaussian, "draw", lambda self, counts, _: draw(self, counts, _seeded()))
    assert judged("naive Bayes").violated


# -- the command -----------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_command_audits_a_file(tmp_path: Path) -> None:
    network = BayesianNetwork([("c", "a")], SCHEMA, budget=BUDGET, entropy=1).fit(rows(np.array([30, 40])))
    network.model.write(tmp_path / "model.json")
    arguments = ["audit", str(tmp_path / "model.json"), "--draws", "50000", "--seed", "2"]
    done = CliRunner().invoke(app, [*arguments, "--json", "--plot", str(tmp_path / "audit.png")])
    assert done.exit_code == 0, done.output
    (report,) = json.loads(done.stdout)["audits"]
    assert report["name"] == "model.json"
    assert 0.9 < report["share"] <= 1
    assert (tmp_path / "audit.png").stat().st_size > 1000
    assert "model.json" in CliRunner().invoke(app, arguments).stdout
