"""A mechanism that only this file knows goes all the way, and no part of the library has to be told of it.

The toy is two-sided geometric noise on the cells and on one cell more, which is nobody's and is not published. What it
is in the rest of the library it says itself, and `register` is all that makes it known.
"""

from __future__ import annotations

import ast
import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, ClassVar

import jsonschema
import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest
from numpy.typing import NDArray

import simplexdp
from simplexdp import Budget, PrivacyLoss, Release, Schema, plan, release_distribution, synthetic_records
from simplexdp.accounting.discrete import DiscreteLaplaceTerm
from simplexdp.audit import audit_fit, audit_mechanism
from simplexdp.budget import Neighbours, check_positive, convert
from simplexdp.cli import run
from simplexdp.errors import FormatError, InvalidArgument
from simplexdp.mechanisms import (
    Laplace,
    mechanism_from,
    private_mechanisms,
    register,
    steps,
    table_mechanisms,
    unregister,
)
from simplexdp.mechanisms.base import IntArray, Limits, TableMechanism, calibrate_upwards, noise_scale
from simplexdp.models import document_schema
from simplexdp.noisy import FloatArray, NoiseLaw
from simplexdp.numerics.printed import short_fraction
from simplexdp.planning import plan_tables
from simplexdp.report import model_report
from simplexdp.sampling import Entropy
from simplexdp.sampling.discrete import discrete_laplace

BUDGET = Budget(epsilon=1.0, delta=1e-5)
SCHEMA = Schema.of(a=["x", "y", "z"], b=[0, 1])
ROWS = pa.table({"a": ["x", "y", "x", "z"] * 50, "b": [0, 1, 1, 0, 1] * 40})


@dataclass(frozen=True, kw_only=True)
class Toy(TableMechanism):
    """Counts plus discrete Laplace noise, of one cell more than there are."""

    name: ClassVar[str] = "toy"
    limits: ClassVar[Mapping[str, Limits]] = {"scale": Limits(1e-3, 1e9, "scale")}
    not_covered: ClassVar[str] = "the cell that is nobody's"
    scale: float

    def __post_init__(self) -> None:
        convert(self, scale=check_positive)

    @property
    def drawn_with(self) -> Fraction:
        return short_fraction(self.scale)

    @property
    def law(self) -> NoiseLaw:
        return NoiseLaw(noise="laplace", variance=2 * float(self.drawn_with) ** 2)

    def loss(self, neighbours: Neighbours = "replace-one", *, rows: int = 1) -> PrivacyLoss:
        cells = 2 if neighbours == "replace-one" else 1
        return cells * PrivacyLoss.of_term(DiscreteLaplaceTerm(scale=self.drawn_with, shift=rows), neighbours)

    def draw(self, counts: IntArray, entropy: Entropy) -> IntArray:
        return counts + discrete_laplace(counts.size + 1, self.drawn_with, entropy)[:-1].reshape(counts.shape)

    def cell_loss(self, values: NDArray[Any], rows: int = 1) -> FloatArray:
        return np.asarray((np.abs(values) - np.abs(values - rows)) / float(self.drawn_with))

    def at(self, variance: float, cells: int) -> Toy:
        return Toy(scale=math.sqrt(variance / 2))

    @classmethod
    def calibrate(
        cls,
        budget: Budget,
        *,
        tables: int = 1,
        neighbours: Neighbours = "replace-one",
        total: float | None = None,  # noqa: ARG003
        cells: int | None = None,  # noqa: ARG003
        rows: int = 1,
    ) -> Toy:
        def loss(scale: float) -> PrivacyLoss:
            return tables * cls(scale=scale).loss(neighbours, rows=rows)

        return cls(scale=calibrate_upwards(loss, budget, noise_scale(budget, tables) * rows))


@pytest.fixture
def _toy() -> Iterator[None]:
    register(Toy)
    yield
    unregister(Toy)


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    pyarrow.csv.write_csv(ROWS, tmp_path / "rows.csv")
    SCHEMA.write(tmp_path / "schema.json")
    return tmp_path


def command(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    capsys.readouterr()
    code = run([str(argument) for argument in arguments])
    said = capsys.readouterr()
    assert code == 0, said.err
    return said.out


def released(**settings: Any) -> Release:
    return release_distribution(ROWS, SCHEMA, ["a", "b"], budget=BUDGET, mechanism="toy", **settings)


@pytest.mark.usefixtures("_toy")
@pytest.mark.parametrize("neighbours", ["replace-one", "add-remove"])
def test_it_is_planned_like_the_noise_that_it_is(neighbours: Neighbours) -> None:
    tables: dict[str, Any] = {"columns": [("a",), ("b",)], "shapes": [(3,), (2,)], "neighbours": neighbours}
    for split in ("equal", "cells", [1.0, 5.0]):
        toy = plan_tables(budget=BUDGET, mechanism="toy", split=split, **tables)
        known = plan_tables(budget=BUDGET, mechanism="laplace", split=split, **tables)
        assert [each.law for each in toy.mechanisms] == [each.law for each in known.mechanisms]
        assert toy.guarantee.loss.fits(BUDGET)
    facts: dict[str, Any] = {"budget": BUDGET, "total": 1000, "neighbours": neighbours, "repeats": 1}
    found = plan([6], mechanism="toy", alternatives="all", **facts)
    assert found.tables[0].noise == math.sqrt(found.plan.mechanisms[0].law.variance)
    assert found.alternatives["toy"] == max(found.expected_kl, 0.0) > 0
    assert set(found.alternatives) >= {"toy", "laplace", "gaussian", "polya"}


@pytest.mark.usefixtures("_toy")
def test_it_is_released_saved_read_reported_and_sampled(tmp_path: Path) -> None:
    made = released()
    assert made.private
    assert isinstance(made.mechanism, Toy)
    assert made.probabilities.sum() == pytest.approx(1)
    made.write(tmp_path / "made.json")
    again = Release.read(tmp_path / "made.json")
    assert again.mechanism == made.mechanism
    assert again.probabilities.tolist() == made.probabilities.tolist()
    jsonschema.validate(json.loads(made.to_json()), document_schema("release"))
    said = str(made.certificate())
    assert "by the toy mechanism" in said
    assert Toy.not_covered in said
    assert "toy" in model_report(again)
    assert synthetic_records(again, 50, seed=1).read_all().num_rows == 50


@pytest.mark.usefixtures("_toy")
def test_files_are_held_to_what_it_says_of_itself() -> None:
    body = released(entropy=1).to_body()
    for change in ({"parameters": {"scale": 1e10}}, {"parameters": {"width": 2.0}}, {"name": "tay"}):
        with pytest.raises(FormatError):
            Release.from_body(body | {"mechanism": body["mechanism"] | change})
    with pytest.raises(FormatError):
        Release.from_body(body | {"values": [0.5 for _ in body["values"]]})


@pytest.mark.usefixtures("_toy")
@pytest.mark.parametrize("neighbours", ["replace-one", "add-remove"])
def test_it_is_audited(neighbours: Neighbours) -> None:
    """2e4 draws for each of two tables at 95 %, and half of its noise at 99 %; the seeds are fixed."""
    toy = Toy(scale=2.0)
    found = audit_mechanism(toy, neighbours=neighbours, draws=20_000, entropy=1)
    assert 0.8 < found.share <= 1
    faulty = audit_mechanism(toy, drawn=Toy(scale=1.0), neighbours=neighbours, draws=20_000, confidence=0.99, entropy=1)
    assert faulty.violated
    assert not audit_fit(released(neighbours=neighbours).guarantee, draws=5000, entropy=1).violated


@pytest.mark.usefixtures("_toy", "work")
def test_it_is_on_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    budget = ("--epsilon", 1, "--delta", 1e-5)
    command(
        capsys, "fit", "distribution", "rows.csv", "--schema", "schema.json", "--columns", "a,b", *budget,
        "--mechanism", "toy", "--out", "made.json",
    )  # fmt: skip
    assert "Toy(scale=" in command(capsys, "inspect", "made.json")
    command(capsys, "inspect", "made.json", "--plot", "made.html")
    assert "Toy(scale=" in Path("made.html").read_text(encoding="utf-8")
    command(capsys, "sample", "made.json", "--size", 20, "--out", "sample.csv")
    planned = json.loads(command(capsys, "plan", "--cells", 6, *budget, "--mechanism", "toy", "--rivals", "--json"))
    assert planned["tables"][0]["mechanism"].startswith("Toy(")
    assert "toy" in planned["alternatives"]
    calibrated = json.loads(command(capsys, "calibrate", *budget, "--mechanism", "toy", "--json"))
    assert [result["choice"] for result in calibrated["results"]] == ["toy"]
    everything = json.loads(command(capsys, "calibrate", *budget, "--json"))
    assert "toy" in [result["choice"] for result in everything["results"]]
    accounted = json.loads(command(capsys, "account", "toy", "--scale", 5, "--json"))
    assert accounted["parameters"] == {"scale": 5.0}
    draws = ("--draws", 1000, "--seed", 1, "--json")
    assert json.loads(command(capsys, "audit", "made.json", *draws))["audits"][0]["name"] == "made.json"
    audited = json.loads(command(capsys, "audit", "--mechanism", "toy", *draws))
    assert audited["audits"][0]["name"].startswith("Toy(")


@pytest.mark.usefixtures("work", "_toy")
def test_errors_name_what_is_registered_when_they_are_made(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(InvalidArgument, match="toy"):
        plan_tables([("a",)], [(3,)], BUDGET, mechanism="tay")
    with pytest.raises(InvalidArgument, match="toy"):
        mechanism_from("tay", {})
    for options in (["account", "tay"], ["audit", "--mechanism", "tay"], ["calibrate", "--mechanism", "tay"]):
        assert run([*options, *(["--epsilon", "1", "--delta", "1e-5"] if options[0] == "calibrate" else [])]) == 2
        assert "toy" in capsys.readouterr().err
    unregister(Toy)
    with pytest.raises(InvalidArgument, match="laplace") as error:
        plan_tables([("a",)], [(3,)], BUDGET, mechanism="toy")
    assert "toy," not in str(error.value)
    assert "toy" not in str(document_schema("release"))


def test_what_register_refuses() -> None:
    known = set(table_mechanisms()) | set(steps())
    with pytest.raises(InvalidArgument, match="name"):
        register(Laplace)

    class Named(Toy):
        name: ClassVar[str] = "auto"

    class Unlimited(Toy):
        name: ClassVar[str] = "unlimited"
        limits: ClassVar[Mapping[str, Limits]] = {}

    for wrong in (Named, Unlimited):
        with pytest.raises(InvalidArgument):
            register(wrong)
    assert set(table_mechanisms()) | set(steps()) == known
    assert "toy" not in private_mechanisms()


# -- the house -------------------------------------------------------------------------------------------------------

LIBRARY = Path(simplexdp.__file__).parent
BESIDE = {"experiments"}  # the figures of the paper compare mechanisms by name
MOST = {"BalancedLaplace": 5, "NoNoise": 3, "Polya": 6, "Laplace": 7, "Gaussian": 8, "GaussianTables": 4, "NoisySum": 6}
"""The session draws sums and second looks. `Polya`, `Laplace` and `Gaussian` are in the demonstration too; sums and the
start of a search are Gaussian, and the least share of a pure budget is Laplace's."""


def names(path: Path) -> set[str]:
    """Every name that a module's code says, as a name or as a text of its own; documentation is none."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        match node:
            case ast.Name(id=name) | ast.ClassDef(name=name) | ast.Attribute(attr=name) | ast.alias(name=name):
                found.add(name)
            case ast.Constant(value=str() as name):
                found.add(name)
    return found


def test_few_files_name_a_mechanism() -> None:
    said = {path.relative_to(LIBRARY): names(path) for path in LIBRARY.rglob("*.py")}
    for name, most in MOST.items():
        found = sorted(str(path) for path, known in said.items() if name in known and path.parts[0] not in BESIDE)
        assert 1 < len(found) <= most, (name, found)
    switches = [str(path) for path, known in said.items() if "balanced-laplace" in known]
    assert switches == ["mechanisms/balanced.py"]
