"""A kind of model that the library has never heard of goes everywhere that its own go: it is one class and one line."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import jsonschema
import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from numpy.typing import NDArray
from scipy import stats

from simplexdp import (
    Budget,
    Ledger,
    Numeric,
    Release,
    Schema,
    plan,
    read,
    release,
    release_distribution,
    synthetic_records,
)
from simplexdp.cli import run
from simplexdp.errors import FormatError, InvalidArgument
from simplexdp.fitting import Facts, Terms
from simplexdp.fitting.design import Design, Later, Steps, Tabulated, designed, first_tables
from simplexdp.models import Model, ModelOfReleases, Predictor, document_schema, kinds, register, unregister
from simplexdp.models.document import checksum, object_schema, reading_body, release_schema, write_document
from simplexdp.models.records import draw_cells
from simplexdp.models.sections import Bars, Section, Table, View
from simplexdp.pipeline import fit_recipe
from simplexdp.report import model_report

SCHEMA = Schema.of(colour=["red", "green"], size=Numeric([0, 1, 5, 9]), ill=[False, True])
BUDGET = Budget(epsilon=1.0, delta=1e-5)
SIGNIFICANCE = 1e-4


@dataclass(frozen=True, kw_only=True, eq=False)
class Independent(ModelOfReleases, Predictor):
    """Independent columns: one released table for each."""

    kind: ClassVar[str] = "independent"

    releases: tuple[Release, ...]

    @property
    def schema(self) -> Schema:
        return Schema([column for each in self.releases for column in each.schema or ()])

    @classmethod
    def recipe(cls, schema: Schema, columns: Sequence[str] | None = None, split: str = "equal") -> IndependentRecipe:
        return IndependentRecipe.of(schema, columns, split=split)

    @property
    def shares(self) -> dict[str, NDArray[np.float64]]:
        return {each.columns[0]: each.probabilities for each in self.releases}

    def sections(self, view: View) -> list[Section]:
        names = list(self.shares) if view.column is None else [view.column]
        if not set(names) <= set(self.shares):
            raise InvalidArgument("column", "a column of the model", got=view.column)
        return [
            Section(
                heading=f"P({name})",
                table=Table(
                    columns=[name, "probability"],
                    rows=[
                        [label, f"{share:.5f}"]
                        for label, share in zip(self.schema[name].labels, self.shares[name], strict=True)
                    ][: view.most],
                ),
                figures=[(Bars(labels=self.schema[name].labels, values=self.shares[name], title=name), f"P({name})")],
            )
            for name in names
        ]

    def sample_codes(self, size: int, generator: np.random.Generator) -> Mapping[str, NDArray[np.int64]]:
        return {name: draw_cells(share, size, generator) for name, share in self.shares.items()}

    def predict(self, variable: str, evidence: Any) -> NDArray[np.float64]:
        rows = len(next(iter(evidence.values())))
        return np.repeat(self.shares[variable][None], rows, axis=0)

    def to_body(self) -> dict[str, Any]:
        return {"releases": [each.to_body() for each in self.releases]}

    @classmethod
    def from_body(cls, body: dict[str, Any]) -> Independent:
        with reading_body("model"):
            return cls(releases=tuple(Release.from_body(each) for each in body["releases"]))

    @classmethod
    def body_schema(cls) -> dict[str, Any]:
        return object_schema({"releases": {"type": "array", "items": release_schema(), "minItems": 1}})


@dataclass(frozen=True, kw_only=True)
class IndependentRecipe:
    """How independent columns are fitted."""

    tables: Tabulated
    split: str = "equal"
    what: str = "independent columns"

    @classmethod
    def of(cls, schema: Schema, columns: Sequence[str] | None = None, *, split: str = "equal") -> IndependentRecipe:
        names = schema.names if columns is None else columns
        return cls(tables=Tabulated(columns=tuple((name,) for name in names), schema=schema), split=split)

    def design(self, facts: Facts, terms: Terms) -> Design:
        return designed(self.tables, facts, terms, Later(split=self.split))  # type: ignore[arg-type]

    def follow(self, design: Design) -> Steps[Independent]:
        _, releases = yield from first_tables(design)
        return Independent(releases=releases)


def rows(size: int = 900) -> Any:
    i = np.arange(size)
    return pa.table(
        {"colour": np.where(i % 3, "red", "green"), "size": (i % 9).astype(float), "ill": (i % 10) < 3, "id": i}
    )


def fitted(entropy: int | None = None) -> Independent:
    return fit_recipe(IndependentRecipe.of(SCHEMA), rows(), budget=BUDGET, entropy=entropy)


@pytest.fixture
def known() -> Iterator[None]:
    register(Independent)
    yield
    unregister(Independent)


@pytest.fixture
def model() -> Independent:
    return fitted()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, model: Independent) -> Path:
    monkeypatch.chdir(tmp_path)
    model.write("toy.json")
    pq.write_table(rows(), "rows.parquet")
    return tmp_path


def command(capsys: pytest.CaptureFixture[str], *arguments: object, code: int = 0) -> str:
    capsys.readouterr()
    found = run([str(argument) for argument in arguments])
    out, err = capsys.readouterr()
    assert found == code, err
    return out if code == 0 else err


# -- files --------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("known")
def test_its_file_is_read_by_its_kind(folder: Path, model: Independent) -> None:
    found = read("toy.json")
    assert isinstance(found, Independent)
    assert found.to_json() == model.to_json() == Path("toy.json").read_text()
    assert found.certificate() == model.certificate()
    jsonschema.validate(json.loads(found.to_json()), document_schema("independent"))
    wrong = {**json.loads(found.to_json()), "body": {"releases": []}}
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(wrong, document_schema("independent"))


def test_without_the_line_it_is_not_known(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(FormatError, match="not a release or naive-bayes or bayesian-network"):
        read("toy.json")
    assert "independent" not in kinds()
    with pytest.raises(InvalidArgument, match="one of release"):
        document_schema("independent")
    command(capsys, "inspect", "toy.json", code=2)


@pytest.mark.usefixtures("known")
def test_releases_of_other_fits_are_no_model(folder: Path, model: Independent) -> None:
    """Nothing that the class wrote checks this: what it derives from does."""
    other = release_distribution(rows(), SCHEMA, ["ill"], budget=BUDGET)
    with pytest.raises(InvalidArgument, match="under one guarantee"):
        Independent(releases=(*model.releases[:2], other))
    with pytest.raises(InvalidArgument, match="paid for"):
        Independent(releases=(*model.releases, model.releases[0]))
    body = model.to_body()
    body["releases"][0] = release_distribution(rows(), SCHEMA, ["colour"], budget=BUDGET).to_body()
    Path("mixed.json").write_text(write_document("independent", body))
    with pytest.raises(FormatError, match="under one guarantee"):
        read("mixed.json")


def test_a_kind_is_registered_once_and_by_a_class_of_ours(known: None) -> None:
    assert register(Independent) is Independent
    other = type("Other", (Independent,), {})
    with pytest.raises(InvalidArgument, match="new kind: 'independent' is Independent"):
        register(other)
    unregister(other)
    assert "independent" in kinds()
    for kind in ("release", "naive-bayes"):
        with pytest.raises(InvalidArgument, match="new kind"):
            register(type("Other", (Independent,), {"kind": kind}))
    for kind in ("Two Words", "../x", "", None, "a--b"):
        with pytest.raises(InvalidArgument, match="small letters"):
            register(type("Other", (Independent,), {"kind": kind}))
    with pytest.raises(InvalidArgument, match="derives from"):
        register(dict)  # type: ignore[type-var]


def test_what_a_model_must_have_is_asked_for_when_it_is_made(model: Independent) -> None:
    class Bare(ModelOfReleases):
        kind = "bare"
        releases = model.releases

    with pytest.raises(TypeError, match="abstract"):
        Bare()  # type: ignore[abstract]


# -- what it promises and says ------------------------------------------------------------------------------------


def test_its_certificate_is_that_of_all_releases_together(model: Independent) -> None:
    assert isinstance(model, Model)
    assert model.private
    assert model.certificate().guarantee == model.releases[0].certificate().guarantee
    assert len(model.guarantee.mechanisms) == 3
    assert "3 tables together" in model.certificate().promise
    seeded = fitted(entropy=1)
    assert not seeded.private
    assert "seed" in seeded.certificate().not_private[0]


@pytest.mark.usefixtures("known", "folder")
def test_inspect_shows_it(capsys: pytest.CaptureFixture[str], model: Independent) -> None:
    text = command(capsys, "inspect", "toy.json")
    for name, share in model.shares.items():
        assert f"P({name})" in text
        assert f"{share[0]:.5f}" in text
    assert "\nPRIVATE\n" in text
    one = command(capsys, "inspect", "toy.json", "--column", "ill", "--cells", 1)
    assert "P(ill)" in one
    assert "P(size)" not in one
    assert "True" not in one
    assert "a column of the model" in command(capsys, "inspect", "toy.json", "--column", "shape", code=2)
    data = json.loads(command(capsys, "inspect", "toy.json", "--json"))
    assert data["kind"] == "independent"
    assert data["certificate"]["private"] is True
    assert [section["heading"] for section in data["sections"]] == ["P(colour)", "P(size)", "P(ill)"]
    for form in ("png", "svg", "html"):
        command(capsys, "inspect", "toy.json", "--plot", f"toy.{form}")
    assert Path("toy.png").read_bytes().startswith(b"\x89PNG")
    assert "P(size)" in Path("toy.html").read_text()


def test_the_report_shows_it(model: Independent) -> None:
    text = model_report(model)
    assert "<h1>Independent</h1>" in text
    assert text.count('<figure tabindex="0" aria-label="P(') == 3
    assert "What is promised" in text


# -- what it will cost --------------------------------------------------------------------------------------------


def test_its_plan_is_what_a_fit_carries_out() -> None:
    planned = plan(IndependentRecipe.of(SCHEMA), budget=BUDGET, total=900, repeats=1)
    assert planned.design.mechanisms == tuple(each.mechanism for each in fitted(entropy=1).releases)
    assert [table.columns for table in planned.tables] == [(name,) for name in SCHEMA.names]
    uneven = plan(IndependentRecipe.of(SCHEMA, split="cells"), budget=BUDGET, total=900, repeats=1)
    assert uneven.design.mechanisms != planned.design.mechanisms


@pytest.mark.usefixtures("known", "folder")
def test_the_command_line_plans_and_fits_it(capsys: pytest.CaptureFixture[str]) -> None:
    SCHEMA.write("schema.json")
    budget = ("--schema", "schema.json", "--epsilon", 1, "--delta", 1e-5)
    said = ("--set", "columns=colour,ill", "--set", "split=cells")
    planned = json.loads(command(capsys, "plan", "--model", "independent", *budget, *said, "--total", 900, "--json"))
    command(capsys, "fit", "model", "independent", "rows.parquet", *budget, *said, "--out", "fitted.json")
    made = read("fitted.json")
    assert isinstance(made, Independent)
    assert made.private
    assert made.schema.names == ("colour", "ill")
    assert [table["mechanism"] for table in planned["tables"]] == [str(each.mechanism) for each in made.releases]
    out = ("--out", "other.json")
    for wrong in ("columns", "colour=ill", "seed=1"):
        told = command(capsys, "fit", "model", "independent", "rows.parquet", *budget, "--set", wrong, *out, code=2)
        assert "columns=... or split=..." in told
    for kind, hint in (("naive-bayes", "has a recipe"), ("unheard-of", "independent")):
        assert hint in command(capsys, "fit", "model", kind, "rows.parquet", *budget, *out, code=2)
    assert "given, one of them" in command(capsys, "plan", *budget, code=2)
    assert not Path("other.json").exists()


# -- records, predictions, audits ---------------------------------------------------------------------------------


@pytest.mark.usefixtures("known", "folder")
def test_records_are_drawn_from_it(capsys: pytest.CaptureFixture[str], model: Independent) -> None:
    """Chi-square at significance 1e-4 with 50,000 records; shares in the wrong order must be rejected."""
    table = synthetic_records(model, 50_000, seed=1, labels=True).read_all()
    seen = [table["size"].to_pylist().count(label) for label in SCHEMA["size"].labels]
    share = model.shares["size"]
    assert stats.chisquare(seen, share * 50_000).pvalue > SIGNIFICANCE
    assert stats.chisquare(seen, share[::-1] * 50_000).pvalue < SIGNIFICANCE
    command(capsys, "sample", "toy.json", "-n", 200, "--seed", 3, "--out", "s.csv")
    expected = synthetic_records(model, 200, seed=3).read_all()
    assert pyarrow.csv.read_csv("s.csv")["colour"].to_pylist() == expected["colour"].to_pylist()


@pytest.mark.usefixtures("known", "folder")
def test_it_predicts(capsys: pytest.CaptureFixture[str], model: Independent) -> None:
    said = ("predict", "toy.json", "rows.parquet", "--out")
    command(capsys, *said, "p.parquet", "--target", "ill", "--keep", "id")
    found = pq.read_table("p.parquet")
    assert found.column_names == ["id", "prediction", "probability_False", "probability_True"]
    assert set(found["probability_True"].to_pylist()) == {model.shares["ill"][1]}
    assert "column of the model" in command(capsys, *said, "q.csv", code=2)
    assert "column of the model" in command(capsys, *said, "q.csv", "--target", "shape", code=2)
    command(capsys, *said, "q.csv", "--target", "ill", "--given", "shape", code=2)


@pytest.mark.usefixtures("known", "folder")
def test_it_is_audited(capsys: pytest.CaptureFixture[str]) -> None:
    text = command(capsys, "audit", "toy.json", "--draws", 2000, "--seed", 1)
    assert re.search(r"Audit of\s+toy.json", text)


@pytest.mark.usefixtures("known")
def test_a_ledger_knows_it_by_its_checksum(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ledger = Ledger.open(tmp_path / "ledger", budget=Budget(epsilon=5.0, delta=1e-5), datasets=["people"])
    ledger.register("people", rows(), SCHEMA)
    recipe = IndependentRecipe.of(SCHEMA)
    model = fit_recipe(recipe, rows(), budget=BUDGET, ledger=ledger, dataset="people")
    model.write(tmp_path / "toy.json")
    said = command(capsys, "ledger", "verify", tmp_path / "ledger", "--release", tmp_path / "toy.json", "--json")
    assert json.loads(said)["paid_by"] > 0
    assert checksum(read(tmp_path / "toy.json").to_body()) == checksum(model.to_body())


def test_what_does_not_predict_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pq.write_table(rows(), tmp_path / "rows.parquet")
    release([5, 3], budget=BUDGET).write(tmp_path / "one.json")
    out = tmp_path / "p.csv"
    text = command(capsys, "predict", tmp_path / "one.json", tmp_path / "rows.parquet", "--out", out, code=2)
    assert "one that predicts" in text
    assert not out.exists()


def test_the_question_of_a_prediction(model: Independent) -> None:
    def asked(target: str | None, given: Sequence[str] | None = None, there: Sequence[str] = ("id", "size")) -> Any:
        return model.question(target, given, there)

    assert asked("ill") == ("ill", ("size",))
    assert asked("ill", ["colour"]) == ("ill", ("colour",))
    for wrong in ((None,), ("shape",), ("ill", ["shape"]), ("ill", None, ["id", "ill"]), ("ill", []), ("ill", ["ill"])):
        with pytest.raises(ValueError, match="must be"):
            asked(*wrong)  # type: ignore[arg-type]
