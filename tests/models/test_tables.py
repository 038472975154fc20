"""Many tables from one fit: what is drawn, what they say, files, answers and the command."""

from __future__ import annotations

import csv
import itertools
import json
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray

from simplexdp import Budget, CellNumbers, Ledger, Numeric, Schema, TablesModel, read, release_tables
from simplexdp.accounting import PrivacyLoss
from simplexdp.cli import run
from simplexdp.errors import FormatError, InvalidArgument
from simplexdp.estimation.cross_tables import disagreement
from simplexdp.estimation.joint import JointPosterior
from simplexdp.models import document_schema
from simplexdp.models.document import write_document
from simplexdp.pipeline import wanted_tables
from simplexdp.report import model_report

N = 4000
SCHEMA = Schema.of(
    region=["north", "east", "south"], sex=["f", "m"], age=Numeric([0, 20, 40, 60, 80]), ill=["no", "yes"]
)
NAMES = SCHEMA.names
BUDGET = Budget(epsilon=1.0, delta=1e-6)


def codes(seed: int = 0) -> dict[str, NDArray[np.int64]]:
    rng = np.random.default_rng(seed)
    region, sex, age = (
        rng.choice(3, N, p=[0.6, 0.3, 0.1]),
        rng.integers(0, 2, N),
        rng.choice(4, N, p=[0.1, 0.4, 0.3, 0.2]),
    )
    ill = (rng.random(N) < 0.05 + 0.2 * age).astype(np.int64)
    return {"region": region, "sex": sex, "age": age, "ill": ill}


def exact(*names: str) -> NDArray[np.int64]:
    data = codes()
    shape = SCHEMA.shape(names)
    cells = np.ravel_multi_index([data[name] for name in names], shape)
    return np.bincount(cells, minlength=int(np.prod(shape))).reshape(shape)


def fit(tables: Any = "all-2-way", entropy: int | None = 1, **settings: Any) -> TablesModel:
    return release_tables(CellNumbers(codes()), SCHEMA, tables, **{"budget": BUDGET, "entropy": entropy} | settings)


@pytest.fixture(scope="module")
def model() -> TablesModel:
    return fit(["all-2-way", ("region", "sex", "ill")])


# -- one guarantee ----------------------------------------------------------------------------------------------------


def test_one_guarantee_covers_everything_that_was_drawn(model: TablesModel) -> None:
    losses = [each.mechanism.loss("replace-one") for each in model.releases]
    together = sum(losses, PrivacyLoss.nothing("replace-one"))
    assert together.fits(BUDGET)
    assert not (together + losses[0]).fits(BUDGET)  # nothing is left over for one more
    assert model.guarantee.loss.delta(1.0) == together.delta(1.0)
    assert fit(entropy=None).private


def test_a_ledger_is_charged_once(tmp_path: Path) -> None:
    ledger = Ledger.open(tmp_path / "ledger", budget=Budget(epsilon=3, delta=1e-5), datasets=["people"])
    ledger.register("people", CellNumbers(codes()), SCHEMA)
    found = fit(entropy=None, ledger=ledger, dataset="people")
    found.write(tmp_path / "tables.json")
    assert run(["ledger", "verify", str(tmp_path / "ledger"), "--release", str(tmp_path / "tables.json")]) == 0


def test_what_is_drawn_follows_from_sizes_alone() -> None:
    columns = [each.columns for each in fit(entropy=1).releases]
    assert columns == [each.columns for each in fit(entropy=2).releases]
    assert {frozenset(names) for names in columns} >= {frozenset(p) for p in itertools.combinations(NAMES, 2)}
    with_margins = fit(neighbours="add-remove", budget=Budget(epsilon=1, delta=1e-9)).releases
    assert {each.columns for each in with_margins} != set()
    plain = fit(split="equal")
    assert [each.columns for each in plain.releases] == list(itertools.combinations(NAMES, 2))


@pytest.mark.parametrize("neighbours", ["replace-one", "add-remove"])
def test_tables_agree_and_keep_the_public_total(neighbours: Any) -> None:
    found = fit(["all-3-way", ("age",)], neighbours=neighbours)
    assert disagreement(found.tables) <= 1e-9 * found.total
    assert all((counts > 0).all() for counts in found.tables.values())
    if neighbours == "replace-one":
        assert found.total == pytest.approx(N, abs=1e-8)
    else:
        assert found.total != N
        assert abs(found.total - N) < 300


def test_parts_are_tables_of_their_own_at_no_further_price() -> None:
    """Regions partition the records: all their tables together cost what one set of tables costs."""
    found = fit([("sex", "ill"), ("age",)], parts="region", split="equal")
    assert list(found.tables) == [("region", "sex", "ill"), ("region", "age")]
    alone = fit([("sex", "ill"), ("age",)], split="equal", mechanism="gaussian")
    parted = fit([("sex", "ill"), ("age",)], parts="region", split="equal", mechanism="gaussian")
    assert [each.mechanism for each in parted.releases] == [each.mechanism for each in alone.releases]
    assert parted.guarantee.loss.rdp(4) == alone.guarantee.loss.rdp(4)
    assert "each part" in " ".join(parted.describe()[0].text)
    assert found.count("region").estimate.sum() == pytest.approx(N)


def test_persons_with_several_rows() -> None:
    data = {name: [SCHEMA[name].labels[i] for i in values] for name, values in codes().items() if name != "age"}
    rows = pa.table({**data, "who": (np.arange(N) // 2).tolist()})
    found = release_tables(
        rows, SCHEMA.select(["region", "sex", "ill"]), "all-2-way", budget=BUDGET, person="who", rows_per_person=2
    )
    assert found.guarantee.unit == "person"
    assert found.releases[0].total is None
    assert abs(found.total - N) < 400


# -- what they say ----------------------------------------------------------------------------------------------------


def test_the_request() -> None:
    assert wanted_tables(SCHEMA, "all-1-way") == [(name,) for name in NAMES]
    assert len(wanted_tables(SCHEMA, ["all-2-way", ("ill", "sex")])) == 6
    assert wanted_tables(SCHEMA, ["all-1-way"], "region")[0] == ("region", "sex")
    for wrong, message in (
        (["sex"], "For one column write"),
        ("all-4-way", "all-3-way"),
        ([("sex", "agee")], "Did you mean 'age'"),
        ([], "at least one"),
        ([("sex", "sex")], "each named once"),
    ):
        with pytest.raises(ValueError, match=message):
            wanted_tables(SCHEMA, wrong)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument, match="two or more cells"):
        wanted_tables(Schema.of(one=["only"], two=["a", "b"]), "all-1-way")
    for settings in ({"weights": [1.0]}, {"weights": {("sex",): 2.0}}, {"weights": [1, 2, 3, 4, 5, -6]}):
        with pytest.raises(InvalidArgument, match="weights"):
            fit(**settings)


def test_weights_by_columns() -> None:
    heavy = {("sex", "ill"): 1000.0}
    plain, weighted = fit(), fit(weights=heavy)

    def noise(found: TablesModel) -> float:
        return next(e.mechanism.noise_variance for e in found.releases if e.columns == ("sex", "ill"))

    assert noise(weighted) < 0.5 * noise(plain)


def test_answers_are_those_of_the_tables(model: TablesModel) -> None:
    table = model.tables["sex", "ill"]
    np.testing.assert_allclose(model.count(["sex", "ill"]).estimate, table.ravel())
    np.testing.assert_allclose(model.count(["ill", "sex"]).estimate, table.T.ravel())
    assert model.count().value == pytest.approx(N)
    assert model.count(where={"sex": "m", "ill": "yes"}).value == pytest.approx(table[1, 1])
    assert model.count(where={"sex": ["f", "m"]}).value == pytest.approx(N)
    np.testing.assert_allclose(model.share("ill", "sex").estimate, (table / table.sum(axis=1, keepdims=True)).ravel())
    by_age = model.tables["sex", "age"]
    np.testing.assert_allclose(
        model.mean("age", "sex").estimate, by_age @ [10, 30, 50, 70] / by_age.sum(axis=1), rtol=1e-12
    )
    median = model.quantile("age").value
    ages = model.count("age").estimate
    below = np.interp(median, [0, 20, 40, 60, 80], np.append(0, np.cumsum(ages)))
    assert below == pytest.approx(ages.sum() / 2)
    assert model.quantile("age", 0.25).value < median < model.quantile("age", 0.75).value
    whole = model.share("ill")
    assert whole.estimate.sum() == pytest.approx(1)
    assert "share of ill" in str(whole)
    assert list(whole.to_frame().columns) == ["ill", "estimate", "standard_error", "low", "high"]


def test_what_cannot_be_asked(model: TablesModel) -> None:
    for question, message in (
        (lambda: model.count(["age", "sex", "ill"]), "one published table"),
        (lambda: model.count(where={"sex": "x"}), "They are f, m"),
        (lambda: model.count("sex", {"sex": "m"}), "twice"),
        (lambda: model.mean("ill"), "numeric"),
        (lambda: model.quantile("sex"), "numeric"),
        (lambda: model.quantile("age", 1.5), "q"),
        (lambda: model.count("sex", kind="exact"), "posterior"),  # type: ignore[arg-type]
        (lambda: model.count("size"), "columns are"),
        (lambda: model.count("sex").value, "one number"),
    ):
        with pytest.raises(ValueError, match=message):
            question()


def other_records(seed: int) -> dict[str, NDArray[np.int64]]:
    """4,000 records of another population for every seed: four columns that depend on each other."""
    rng = np.random.default_rng(seed)
    age = rng.choice(6, 4000, p=rng.dirichlet(np.full(6, 3.0)))
    found = {"age": age}
    for name, size in (("sex", 2), ("ill", 2), ("region", 3)):
        flip = rng.random(4000) < 0.6
        found[name] = np.where(flip, rng.choice(size, 4000, p=rng.dirichlet(np.full(size, 3.0))), age % size)
    return found


@pytest.mark.slow
def test_intervals_of_sums_over_cells_hold_at_their_level() -> None:
    """40 fits of 40 populations, half of them under add-remove, 38 answers each that add up many cells, at 95 %.

    The mean share of a fit that holds is at most 4 standard errors (over fits, p < 1e-4) and 1 point below 95 %, or 3
    points above. Intervals of 0.7 times the width are rejected; and where cells were taken for independent, those of
    filtered counts were a tenth too wide.
    """
    schema = Schema.of(age=Numeric(range(0, 70, 10)), sex=["f", "m"], ill=["no", "yes"], region=["n", "s", "w"])
    few = ["[0, 10)", "[10, 20)", "[20, 30)"]
    right: list[float] = []
    narrow: list[float] = []
    alone: list[float] = []
    for seed in range(40):
        data = other_records(seed)
        found = release_tables(
            CellNumbers(data),
            schema,
            ["all-2-way", ("age", "sex", "ill")],
            budget=Budget(epsilon=1, delta=1e-6),
            neighbours="add-remove" if seed % 2 else "replace-one",
            entropy=seed,
        )

        def exact(*names: str, weights: Any = None, data: Any = data) -> Any:
            table = np.zeros([schema[name].size for name in names])
            np.add.at(table, tuple(data[name] for name in names), np.ones(4000) if weights is None else weights)
            return table

        years, young = 5 + 10 * data["age"], data["age"] < 3
        filtered = found.count("region", where={"age": few})
        answers = [
            (filtered, exact("region", weights=young)),
            (found.mean("age", "sex"), exact("sex", weights=years) / exact("sex")),
            (found.mean("age", ["sex", "ill"]), (exact("sex", "ill", weights=years) / exact("sex", "ill")).ravel()),
            (found.share("ill", "sex"), (exact("sex", "ill") / exact("sex")[:, None]).ravel()),
            (found.share("sex", "age"), (exact("age", "sex") / exact("age")[:, None]).ravel()),
            (found.count("sex", where={"age": few}), exact("sex", weights=young)),
            (found.count("ill", where={"age": few, "sex": "m"}), exact("ill", weights=young * (data["sex"] == 1))),
            (found.count("age"), exact("age")),
            (found.mean("age"), np.array([years.mean()])),
        ]
        away = np.concatenate([np.abs(true - (a.low + a.high) / 2) / ((a.high - a.low) / 2) for a, true in answers])
        right.append(float((away <= 1).mean()))
        narrow.append(float((away <= 0.7).mean()))
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(JointPosterior, "deviation", independent_cells(found))
            apart = found.count("region", where={"age": few})
        alone.append(float(((apart.high - apart.low) / (filtered.high - filtered.low)).mean()))
    error = np.std(right) / np.sqrt(40)
    assert -0.01 - 4 * error < np.mean(right) - 0.95 < 0.03, np.mean(right)
    assert np.mean(narrow) < 0.9, np.mean(narrow)
    assert np.mean(alone) > 1.1


def independent_cells(model: TablesModel) -> Any:
    """What was done before: the cells of a table vary each for itself, with the deviation that each has."""

    def deviation(_: Any, names: Any, weights: Any) -> float:
        return float(np.sqrt((weights**2 * model.estimated[names].deviations ** 2).sum()))

    return deviation


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["frequentist"])
def test_intervals_hold(kind: Any) -> None:
    """40 fits, 95 % intervals of five kinds of answers: each holds in 31 or more (p < 1e-5 if 95 % do).

    A third of each interval would not.
    """
    data = codes()
    age = np.array([10, 30, 50, 70])[data["age"]]
    truth: dict[str, Any] = {
        "count": exact("age", "ill").ravel(),
        "margin": exact("sex"),
        "where": [int(((data["sex"] == 1) & (data["ill"] == 1)).sum())],
        "share": (exact("age", "ill") / exact("age")[:, None]).ravel(),
        "mean": [age[data["sex"] == i].mean() for i in range(2)],
    }
    held: dict[str, list[float]] = {}
    narrow: dict[str, list[float]] = {}
    for seed in range(40):
        found = fit(entropy=seed, budget=Budget(epsilon=0.5, delta=1e-6))
        answers = {
            "count": found.count(["age", "ill"], kind=kind),
            "margin": found.count("sex", kind=kind),
            "where": found.count(where={"sex": "m", "ill": "yes"}, kind=kind),
            "share": found.share("ill", "age", kind=kind),
            "mean": found.mean("age", "sex", kind=kind),
        }
        for name, answer in answers.items():
            middle, half = (answer.low + answer.high) / 2, (answer.high - answer.low) / 2
            away = np.abs(middle - truth[name])
            held.setdefault(name, []).append(float((away <= half).mean()))
            narrow.setdefault(name, []).append(float((away <= half / 3).mean()))
    for name, each in held.items():
        assert np.mean(each) >= 31 / 40, (name, np.mean(each))
        assert np.mean(narrow[name]) < 0.7, name


def test_the_description(model: TablesModel) -> None:
    sections = model.describe()
    assert len(sections) == 1 + len(model.tables)
    table = next(each for each in sections if each.heading == "sex × ill").table
    assert table is not None
    assert [row[0] for row in table.rows] == ["f", "m", "all"]
    assert table.rows[-1][-1] == f"{N:,}"
    assert [each.heading for each in model.describe(column="age")] == ["region × age", "sex × age", "age × ill"]
    with pytest.raises(InvalidArgument):
        model.describe(column="size")
    data = model.as_data()
    assert np.asarray(data["tables"][0]["lower"]).shape == (3, 2)
    assert json.dumps(data)
    assert "sex × ill" in model_report(model)


def test_records_are_like_the_tables(model: TablesModel) -> None:
    """20,000 records: shares of a pair within .02 of the table; of a shuffled column they are not."""
    drawn = model.sample_codes(20_000, np.random.default_rng(1))
    assert set(drawn) == set(NAMES)
    seen = np.histogram2d(drawn["age"], drawn["ill"], bins=[range(5), range(3)])[0] / 20_000
    wanted = model.tables["age", "ill"] / N
    assert np.abs(seen - wanted).max() < 0.02
    alone = np.outer(wanted.sum(axis=1), wanted.sum(axis=0))
    assert np.abs(alone - wanted).max() > 0.02


# -- files ------------------------------------------------------------------------------------------------------------


def test_a_file_is_the_same_model(model: TablesModel, tmp_path: Path) -> None:
    model.write(tmp_path / "tables.json")
    found = read(tmp_path / "tables.json")
    assert isinstance(found, TablesModel)
    assert found.to_json() == model.to_json()
    np.testing.assert_array_equal(found.intervals(["sex", "age"])[1], model.intervals(["sex", "age"])[1])
    jsonschema.validate(json.loads(model.to_json()), document_schema("tables"))


def test_changed_files_are_refused(model: TablesModel, tmp_path: Path) -> None:
    def refused(change: Any) -> None:
        body = json.loads(json.dumps(model.to_body()))
        change(body)
        (tmp_path / "wrong.json").write_text(write_document("tables", body))
        with pytest.raises(FormatError):
            read(tmp_path / "wrong.json")

    def moved(body: Any) -> None:
        counts = body["tables"][0]["counts"]
        counts[0], counts[-1] = counts[0] + 1, counts[-1] - 1

    refused(moved)  # other tables share these margins
    refused(lambda body: body["tables"][0]["counts"].__setitem__(0, -1.0))
    refused(lambda body: body["tables"][0]["counts"].__setitem__(0, 1e6))
    refused(lambda body: body["releases"].pop())
    refused(lambda body: body["tables"].append(body["tables"][0]))
    refused(lambda body: body.__setitem__("parts", "planet"))
    refused(lambda body: body["tables"].clear())


def test_nobody_is_where_the_schema_says_that_nobody_is() -> None:
    """Rules of one and of several tables; everything else agrees, and the same tables without rules are not empty."""
    never = [{"sex": "m", "ill": "yes"}, {"age": {"below": 20}, "region": "south"}]
    ruled = Schema(SCHEMA.columns, never=never)
    data = codes()
    data["ill"] = np.where(data["sex"] == 1, 0, data["ill"])
    data["region"] = np.where((data["age"] == 0) & (data["region"] == 2), 1, data["region"])
    for tables in ("all-2-way", "all-3-way"):
        found = release_tables(CellNumbers(data), ruled, tables, budget=BUDGET, entropy=1)
        assert found.count(where={"sex": "m", "ill": "yes"}).value == 0
        assert found.count(["age", "region"]).estimate[2] == 0
        assert disagreement(found.tables) < 1e-9 * N
        assert TablesModel.from_body(found.to_body()).to_json() == found.to_json()
        plain = release_tables(CellNumbers(data), SCHEMA, tables, budget=BUDGET, entropy=1)
        assert plain.count(where={"sex": "m", "ill": "yes"}).value > 0


@pytest.mark.parametrize("kind", ["posterior", "frequentist"])
def test_answers_know_where_nobody_can_be(kind: Any) -> None:
    """Nothing is counted there, in no interval; a mean of nobody is no number. Without the rule there are intervals."""
    data = codes()
    data["ill"] = np.where(data["sex"] == 1, 0, data["ill"])
    tables = [("sex", "ill", "age")]
    settings: dict[str, Any] = {"budget": BUDGET, "entropy": 1}
    ruled = Schema(SCHEMA.columns, never=[{"sex": "m", "ill": "yes"}])
    found = release_tables(CellNumbers(data), ruled, tables, **settings)
    free = release_tables(CellNumbers(data), SCHEMA, tables, **settings)
    where = {"sex": "m", "ill": "yes"}
    for answer, other in (
        (found.count(["sex", "ill"], kind=kind), free.count(["sex", "ill"], kind=kind)),
        (found.count(where=where, kind=kind), free.count(where=where, kind=kind)),
        (found.share("ill", "sex", kind=kind), free.share("ill", "sex", kind=kind)),
    ):
        assert (answer.estimate[-1], answer.low[-1], answer.high[-1]) == (0, 0, 0)
        assert other.high[-1] > 0
    for answer in (found.mean("age", ["sex", "ill"], kind=kind), found.quantile("age", 0.5, ["sex", "ill"], kind=kind)):
        assert np.isnan([answer.estimate[-1], answer.low[-1], answer.high[-1]]).all()
        assert np.isfinite(answer.estimate[:-1]).all()
        assert "–" in str(answer)


# -- the command ------------------------------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    data = codes()
    ages = [5 + 20 * i for i in data["age"]]
    with Path("rows.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(NAMES)
        columns = [[SCHEMA[name].labels[i] for i in data[name]] if name != "age" else ages for name in NAMES]
        writer.writerows(zip(*columns, strict=True))
    Path("schema.json").write_text(SCHEMA.to_json())
    return tmp_path


OPTIONS = "--schema schema.json --epsilon 1 --delta 1e-6 --out t.json"
COMMAND = ["fit", "tables", "rows.csv", *OPTIONS.split()]


@pytest.mark.usefixtures("folder")
def test_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*COMMAND, "--table", "all-1-way", "--table", "sex,ill", "--weight", "1", "--seed", "3"]) == 2
    capsys.readouterr()
    assert run([*COMMAND, "--table", "all-1-way", "--table", "sex,ill"]) == 0
    found = read("t.json")
    assert isinstance(found, TablesModel)
    assert len(found.tables) == 5
    assert found.private
    assert "TablesModel(5 tables" in capsys.readouterr().out
    assert run(["inspect", "t.json", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["kind"] == "tables"
    assert run(["inspect", "t.json", "--plot", "t.html"]) == 0
    assert run(["sample", "t.json", "-n", "10", "--out", "s.csv"]) == 0
    assert run([*COMMAND, "--force", "--table", "sex,ill", "--parts", "region", "--split", "equal"]) == 0
    parted = read("t.json")
    assert isinstance(parted, TablesModel)
    assert parted.parts == "region"
    for wrong in (["--table", "sex,size"], ["--table", "sex,ill", "--estimate", "raw"], ["--table", "sexx"]):
        capsys.readouterr()
        assert run([*COMMAND, "--force", *wrong]) == 2
        assert "Error" in (text := capsys.readouterr().err) or "must be" in text


def test_without_a_budget_nothing_is_drawn() -> None:
    with pytest.raises(InvalidArgument):
        fit(budget=None)
    exactly = fit(budget=None, mechanism="none", split="equal")
    assert not exactly.private
