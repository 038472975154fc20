"""Public stand-ins for the rows of a model: populations that are known exactly, and what the fit loses on them."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from simplexdp import BayesianNetwork, Budget, Schema, plan, stand_ins
from simplexdp.errors import InvalidArgument
from simplexdp.forecast import smallest_total
from simplexdp.naive_bayes import NaiveBayesRecipe
from simplexdp.pipeline import fit_recipe
from simplexdp.private.counting import CellNumbers
from simplexdp.schema import Quantiles
from simplexdp.stand_ins import Designed, Population, cache_folder

SCHEMA = Schema.of(**{f"f{i}": [str(j) for j in range(2 + i)] for i in range(5)}, ill=["no", "yes"])
RECIPE = NaiveBayesRecipe.of(SCHEMA, "ill")
NETWORK = BayesianNetwork([("f0", "ill"), ("f1", "ill"), ("ill", "f3")], SCHEMA).recipe
BUDGET = Budget(epsilon=5.0, delta=1e-6)
SIGNIFICANCE = 1e-6


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "simplexdp" / "stand-ins"


@pytest.mark.parametrize("repeated", [0.0, 0.4, 0.8])
def test_the_probabilities_of_a_population_are_those_of_its_records(repeated: float) -> None:
    """They sum to one, and 20000 records agree with them by a χ² test that rejects another share of repeats."""
    sizes, classes = (2, 4, 3), 2
    known = Population.of(classes, sizes, repeated, seed=3)
    cells = np.array(list(itertools.product(*map(range, sizes))))
    joint = np.exp(known.log_joint(list(cells.T)))
    assert joint.sum() == pytest.approx(1)
    drawn, features = known.draw(20_000, np.random.default_rng(0))
    seen = np.bincount(np.ravel_multi_index([*features, drawn], (*sizes, classes)), minlength=joint.size)

    def chance(shares: np.ndarray) -> float:
        often = 20_000 * shares.ravel() > 5
        expected = np.append(20_000 * shares.ravel()[often], max(20_000 * shares.ravel()[~often].sum(), 1e-9))
        found = np.append(seen[often], seen[~often].sum())
        return float(stats.chi2.sf(((found - expected) ** 2 / expected).sum(), found.size - 1))

    assert chance(joint) > SIGNIFICANCE
    other = replace(known, repeated=repeated + 0.1)
    assert chance(np.exp(other.log_joint(list(cells.T)))) < SIGNIFICANCE


def test_what_the_plan_shows_is_what_is_fitted() -> None:
    design = plan(RECIPE, budget=BUDGET, total=3000, repeats=1).design
    assert {each.name for each in design.rounds} == {"second look", "round 0", "round 1", "round 2"}
    _, features = Population.of(2, [2, 3, 4, 5, 6], 0.4, seed=0).draw(3000, np.random.default_rng(0))
    rows = dict(zip(SCHEMA.names, [*features, features[0]], strict=True))
    model = fit_recipe(Designed(recipe=RECIPE, made=design), CellNumbers(rows), budget=BUDGET, entropy=1)
    assert model.guarantee == design.guarantee


@pytest.mark.slow
def test_the_loss_is_between_what_is_possible_and_knowing_nothing() -> None:
    alone = plan(RECIPE, budget=BUDGET, total=3000, repeats=1)
    assert alone.on_a_public_stand_in is None  # on request only
    asked = plan(RECIPE, budget=BUDGET, total=3000, repeats=1, stand_in=True)
    found = asked.on_a_public_stand_in
    assert found is not None
    assert (found.of, found.records, found.fits) == ("ill", 3000, 6)
    assert found.best < found.log_loss < found.shares
    assert 0 < found.error < 0.02
    assert asked.tables == alone.tables
    less = plan(RECIPE, budget=replace(BUDGET, epsilon=0.1), total=3000, repeats=1, stand_in=True)
    assert (
        less.on_a_public_stand_in.log_loss > found.log_loss + 5 * found.error
    )  # the control: a fiftieth of ε must show


@pytest.mark.slow
@pytest.mark.parametrize("unit", [{"neighbours": "add-remove"}, {"rows_per_person": 3}])
def test_it_is_there_for_every_unit(unit: dict[str, object]) -> None:
    found = plan(RECIPE, budget=BUDGET, total=3000, repeats=1, stand_in=True, **unit).on_a_public_stand_in
    assert found.best < found.log_loss < found.shares


def test_a_network_is_scored_by_whole_rows() -> None:
    found = plan(NETWORK, budget=BUDGET, total=3000, repeats=1, stand_in=True).on_a_public_stand_in
    assert (found.of, found.shares) == ("rows", None)
    assert found.best < found.log_loss < found.best + 2


@pytest.mark.slow
def test_more_records_than_are_simulated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("simplexdp.forecast.MOST_RECORDS", 2000)
    much = plan(RECIPE, budget=BUDGET, total=1_000_000, repeats=1, stand_in=True).on_a_public_stand_in
    assert much.records == 2000
    assert much == plan(RECIPE, budget=BUDGET, total=2000, repeats=1, stand_in=True).on_a_public_stand_in


@pytest.mark.slow
def test_it_is_kept_on_disk(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    facts = {"budget": BUDGET, "total": 1000, "repeats": 1, "stand_in": True}
    first = plan(RECIPE, **facts).on_a_public_stand_in
    (path,) = folder.iterdir()
    again = []
    fit = stand_ins.fit_recipe
    monkeypatch.setattr(stand_ins, "fit_recipe", lambda *given, **named: again.append(1) or fit(*given, **named))
    assert plan(RECIPE, **facts).on_a_public_stand_in == first
    assert not again
    path.write_text("{")  # damaged: computed again
    assert plan(RECIPE, **facts).on_a_public_stand_in == first
    assert len(again) == 6
    other = plan(RECIPE, **facts | {"total": 1001}).on_a_public_stand_in
    assert other != first
    assert len(again) == 12
    monkeypatch.setattr(stand_ins, "__version__", "another")
    assert plan(RECIPE, **facts).on_a_public_stand_in == first
    assert len(again) == 18
    assert not [each for each in folder.iterdir() if each.suffix == ".partial"]


@pytest.mark.slow
def test_a_folder_that_cannot_be_written_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    facts = {"budget": BUDGET, "total": 1000, "repeats": 1, "stand_in": True}
    first = plan(RECIPE, **facts).on_a_public_stand_in
    blocked = tmp_path / "file"
    blocked.write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(blocked))
    assert plan(RECIPE, **facts).on_a_public_stand_in == first
    monkeypatch.setattr(stand_ins, "cache_folder", lambda _: (_ for _ in ()).throw(RuntimeError))
    assert plan(RECIPE, **facts).on_a_public_stand_in == first


class Another(NaiveBayesRecipe):
    """A recipe of somebody else."""


def test_what_others_wrote_is_not_kept(folder: Path) -> None:
    own = Another(**{name: getattr(RECIPE, name) for name in ("schema", "target", "features")})
    plan(own, budget=BUDGET, total=1000, repeats=1, stand_in=True)
    assert not folder.exists()


def test_the_cache_is_where_each_platform_has_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert cache_folder("stand-ins") == tmp_path / "simplexdp" / "stand-ins"
    monkeypatch.setattr("sys.platform", "darwin")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_folder("uci") == tmp_path / "Library" / "Caches" / "simplexdp" / "uci"


def test_refusals() -> None:
    with pytest.raises(InvalidArgument, match="left out for tables"):
        plan([6], budget=BUDGET, stand_in=True)
    bins = Schema.of(age=Quantiles(4, lower=0, upper=100), ill=["no", "yes"])
    with pytest.raises(InvalidArgument, match="private quantiles"):
        plan(NaiveBayesRecipe.of(bins, "ill"), budget=BUDGET, total=1000, stand_in=True)
    with pytest.raises(InvalidArgument, match="progress"):
        plan([6], budget=BUDGET, progress=3)


@pytest.mark.slow
def test_progress_comes_to_its_end() -> None:
    facts = {"budget": BUDGET, "total": 1000, "repeats": 1}
    for asked, parts in (
        ({"tables": [6]}, 1),
        ({"tables": [6], "alternatives": ["laplace", "gaussian"]}, 3),
        ({"tables": RECIPE, "stand_in": True}, 7),
        ({"tables": RECIPE, "stand_in": True}, 7),  # from disk
    ):
        told: list[tuple[int, int]] = []
        plan(**asked, **facts, progress=lambda done, all_, told=told: told.append((done, all_)))
        assert told[-1] == (parts, parts)
        assert [done for done, _ in told] == sorted({done for done, _ in told})
    told = []
    small = {"budget": Budget(epsilon=1, delta=0), "mechanism": "laplace", "repeats": 1}
    smallest_total(0.25, [3], **small, progress=lambda *found: told.append(found))
    assert told[-1][0] == told[-1][1] == len(told)
