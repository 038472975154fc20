"""The model of a synthesis: its numbers, its records, its file, and what it does with columns of all kinds."""

from __future__ import annotations

import itertools
import json
import math
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
from scipy.stats import chi2
from typer.testing import CliRunner

from simplexdp import BayesianNetwork, BayesianNetworkModel, Budget, Categories, Numeric, Schema, Synthesizer, read
from simplexdp.cli import app
from simplexdp.errors import FormatError, InvalidArgument
from simplexdp.models import SynthesisModel
from simplexdp.synthesis import NO_STEPS

NAMES = ("a", "b", "c", "d")
SCHEMA = Schema.of(a=[0, 1, 2], b=[0, 1, 2], c=[0, 1], d=[0, 1, 2])


def rows(n: int, seed: int = 0) -> Any:
    """A chain a → b → c, and d by all of a and c: no forest holds it."""
    rng = np.random.default_rng(seed)
    a = rng.integers(0, 3, n)
    b = np.where(rng.random(n) < 0.7, a, rng.integers(0, 3, n))
    c = (rng.random(n) < 0.2 + 0.3 * b).astype(int)
    d = np.where(rng.random(n) < 0.8, np.minimum(a + c, 2), rng.integers(0, 3, n))
    return pa.table({"a": a, "b": b, "c": c, "d": d})


@cache
def made(epsilon: float = 2.0) -> Synthesizer:
    return Synthesizer(SCHEMA, epsilon=epsilon, delta=1e-6, entropy=3).fit(rows(20_000))


@cache
def raked() -> SynthesisModel:
    """A model with two factors, whatever a fit finds."""
    model = made().model
    rng = np.random.default_rng(0)
    factors = {("a", "d"): rng.uniform(0.5, 2, (3, 3)), ("b", "c"): rng.uniform(0.5, 2, (3, 2))}
    plain = SynthesisModel(graph=model.graph, schema=SCHEMA, releases=model.releases, tables=model.tables)
    every = grid()
    weights = np.ones(len(every["a"]))
    for (x, y), factor in factors.items():
        weights *= factor[every[x], every[y]]
    total = float((np.exp(plain.log_likelihoods(every)) * weights).sum())
    return SynthesisModel(
        graph=model.graph,
        schema=SCHEMA,
        releases=model.releases,
        tables=model.tables,
        factors=factors,
        log_scale=math.log(total),
    )


def grid() -> dict[str, Any]:
    cells = np.array(list(itertools.product(range(3), range(3), range(2), range(3))))
    return dict(zip(NAMES, cells.T, strict=True))


def test_probabilities_add_up_to_one() -> None:
    assert np.exp(raked().log_likelihoods(grid())).sum() == pytest.approx(1, abs=1e-12)
    assert np.exp(made().model.log_likelihoods(grid())).sum() == pytest.approx(1, abs=0.01)  # Z is simulated


@pytest.mark.parametrize("variable", NAMES)
@pytest.mark.parametrize("left_out", [(), ("a",), ("b", "d"), ("c",)], ids=str)
def test_predictions_are_conditional_probabilities(variable: str, left_out: tuple[str, ...]) -> None:
    model, every = raked(), grid()
    given = {name: every[name] for name in NAMES if name != variable and name not in left_out}
    joint = np.exp(model.log_likelihoods(every)).reshape(3, 3, 2, 3)
    away = tuple(i for i, name in enumerate(NAMES) if name != variable and name in left_out)
    whole = joint.sum(axis=away, keepdims=True)
    axis = NAMES.index(variable)
    shares = np.broadcast_to(whole / whole.sum(axis=axis, keepdims=True), joint.shape)
    expected = np.moveaxis(shares, axis, -1)
    index = tuple(every[name] for name in NAMES if name != variable)
    np.testing.assert_allclose(model.predict(variable, given), expected[index], atol=1e-10)


def test_a_marginal_is_that_of_the_joint_distribution() -> None:
    joint = np.exp(raked().log_likelihoods(grid())).reshape(3, 3, 2, 3)
    np.testing.assert_allclose(raked().marginal(["a", "c"]), joint.sum(axis=(1, 3)), atol=1e-12)


def test_records_follow_the_model() -> None:
    """χ² of 40,000 records over 54 cells below its 99.9 % quantile; records of the network alone are far above."""
    joint = np.exp(raked().log_likelihoods(grid()))
    found = []
    for model in (raked(), made().model):
        codes = model.sample_codes(40_000, np.random.default_rng(1))
        counts = np.bincount(np.ravel_multi_index([codes[n] for n in NAMES], (3, 3, 2, 3)), minlength=54)
        found.append(float(((counts - 40_000 * joint) ** 2 / (40_000 * joint)).sum()))
    assert found[0] < chi2.ppf(0.999, 53) < found[1]


def test_records_given_values_have_them() -> None:
    codes = raked().sample_codes_given(20_000, np.random.default_rng(1), {"d": [1, 2]})
    joint = np.exp(raked().log_likelihoods(grid())).reshape(3, 3, 2, 3)
    assert set(codes["d"].tolist()) == {1, 2}
    expected = joint[..., 1:].sum(axis=(1, 2, 3))
    shares = np.bincount(codes["a"], minlength=3) / 20_000
    assert np.abs(shares - expected / expected.sum()).max() < 0.02


def test_a_file_gives_the_same_model(tmp_path: Path) -> None:
    path = tmp_path / "model.json"
    made().write(path)
    found = read(path)
    assert isinstance(found, SynthesisModel)
    assert found.to_body() == made().model.to_body()
    np.testing.assert_array_equal(found.log_likelihoods(grid()), made().model.log_likelihoods(grid()))
    assert json.loads(path.read_text("utf-8"))["format"] == "simplexdp/synthesis"


def test_what_a_file_says_wrongly_is_refused() -> None:
    body = raked().to_body()
    for change in ({"log_scale": math.inf}, {"factors": [[["a", "d"], [-1.0] * 9]]}, {"inside": {"a": [1.0, 0, 0]}}):
        with pytest.raises(FormatError):
            SynthesisModel.from_body(body | change)


def test_a_structure_beyond_a_forest_is_found_and_the_loss_is_near_the_least() -> None:
    test = {name: rows(20_000, 9)[name].to_numpy() for name in NAMES}
    loss = -made().model.log_likelihoods(test).mean()
    true = rows(1_000_000, 5)
    counts = np.bincount(np.ravel_multi_index([true[n].to_numpy() for n in NAMES], (3, 3, 2, 3)), minlength=54)
    least = -np.log(counts / counts.sum())[np.ravel_multi_index([test[n] for n in NAMES], (3, 3, 2, 3))].mean()
    assert loss - least < 0.01
    assert made().model.describe()
    answer = made().model.query("a", {"d": 1})
    assert len(answer) == 3


@pytest.mark.slow
@pytest.mark.parametrize("neighbours", ["replace-one", "add-remove"])
@pytest.mark.parametrize("epsilon", [0.003, 0.05, 1.0])
def test_never_much_worse_than_independent_columns(epsilon: float, neighbours: Any) -> None:
    """Mean held-out log-loss of three seeds on 5,000 records, at most 0.02 nats above that of independent columns."""
    test = {name: rows(20_000, 9)[name].to_numpy() for name in NAMES}
    found = []
    for seed in range(3):
        settings: dict[str, Any] = {
            "epsilon": epsilon,
            "delta": 1e-6,
            "neighbours": neighbours,
            "mechanism": "gaussian",
            "entropy": seed,
        }
        ours = Synthesizer(SCHEMA, **settings).fit(rows(5000), records=5000)
        alone = BayesianNetwork({name: [] for name in NAMES}, SCHEMA, **settings).fit(rows(5000), records=5000)
        found.append(alone.model.log_likelihoods(test).mean() - ours.model.log_likelihoods(test).mean())
        if epsilon < 0.01:
            assert ours.certificate().left_out == (NO_STEPS,)
    assert np.mean(found) < 0.02


@pytest.mark.slow
def test_columns_of_all_kinds() -> None:
    """One that repeats another, one with a single cell, hundreds of names, whole numbers, missing values, and rules."""
    rng = np.random.default_rng(0)
    n = 20_000
    sex, code = rng.integers(0, 2, n), np.minimum(rng.geometric(0.05, n), 299)
    age = rng.integers(0, 90, n)
    table = pa.table(
        {
            "sex": np.array(["f", "m"])[sex],
            "again": np.array(["f", "m"])[sex],
            "pregnant": (sex == 0) & (rng.random(n) < 0.2),
            "one": np.zeros(n, dtype=int),
            "code": np.array([f"k{i}" for i in range(300)])[code],
            "age": [None if u < 0.05 else int(x) for u, x in zip(rng.random(n), age, strict=True)],
            "ward": np.where(code < 10, "x", "y"),
        }
    )
    schema = Schema(
        [
            Categories(["f", "m"], name="sex"),
            Categories(["f", "m"], name="again"),
            Categories([False, True], name="pregnant"),
            Categories([0], name="one"),
            Categories([f"k{i}" for i in range(300)], name="code"),
            Numeric(list(range(91)), name="age", integer=True, missing="cell"),
            Categories(["x", "y"], name="ward"),
        ],
        never=[{"sex": "m", "pregnant": True}],
    )
    found = Synthesizer(schema, epsilon=1, delta=1e-6, entropy=1, target="ward").fit(table)
    drawn = found.sample(20_000, seed=1).to_pydict()
    assert not any(s == "m" and p for s, p in zip(drawn["sex"], drawn["pregnant"], strict=True))
    same = np.mean([x == y for x, y in zip(drawn["sex"], drawn["again"], strict=True)])
    assert same > 0.97
    assert 0.02 < np.mean([x is None for x in drawn["age"]]) < 0.1
    assert set(found.model.pools) == {"code", "age"}
    wards = [(int(c[1:]) < 10, w == "x") for c, w in zip(drawn["code"], drawn["ward"], strict=True)]
    assert np.mean([x == y for x, y in wards]) > 0.9
    assert found.model.target == "ward"
    parents = dict(found.graph.families)
    assert parents["ward"] == ()
    shares = found.predict("ward", table.slice(0, 500), given=["code"])
    assert np.mean((shares[:, 0] > 0.5) == (code[:500] < 10)) > 0.9
    assert found.log_likelihood(table.slice(0, 100)) < 0
    again = read_back(found.model)
    assert again.to_body() == found.model.to_body()
    given = found.sample(50, given={"code": "k3"}, seed=1).to_pydict()
    assert set(given["code"]) == {"k3"}


def read_back(model: SynthesisModel) -> SynthesisModel:
    return SynthesisModel.from_body(json.loads(json.dumps(model.to_body())))


@pytest.mark.parametrize("columns", [1, 2])
def test_few_columns(columns: int) -> None:
    found = Synthesizer(SCHEMA, columns=NAMES[:columns], epsilon=1, delta=1e-6).fit(rows(3000))
    assert found.sample(10).num_columns == columns
    assert found.model.columns == NAMES[:columns]


def test_no_record_at_all() -> None:
    with pytest.raises(InvalidArgument, match="at least one record"):
        Synthesizer(SCHEMA).fit(rows(0))


def test_a_network_learns_its_graph() -> None:
    network = BayesianNetwork("learn", SCHEMA, epsilon=2, delta=1e-6, entropy=1)
    with pytest.raises(InvalidArgument, match="plan"):
        network.size_summary()
    network.fit(rows(20_000))
    assert isinstance(network.model, BayesianNetworkModel)
    assert network.graph == network.model.graph
    assert len(network.graph.edges) >= 3
    steps = "\n".join(network.certificate().steps)
    assert "scores of all pairs" in steps
    assert "misses" not in steps
    with pytest.raises(InvalidArgument, match="without split"):
        BayesianNetwork("learn", SCHEMA, split="equal")


@pytest.mark.slow
def test_one_command_from_table_to_records_and_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pyarrow.parquet.write_table(rows(5000), tmp_path / "rows.parquet")
    SCHEMA.write(tmp_path / "schema.yaml")
    common = [str(tmp_path / "rows.parquet"), "--schema", str(tmp_path / "schema.yaml"), "--epsilon", "1"]
    common += ["--delta", "1e-6"]
    out, model = tmp_path / "synthetic.parquet", tmp_path / "model.json"
    asked = ["synthesize", *common, "--out", str(out), "--model", str(model), "--target", "d"]
    done = CliRunner().invoke(app, asked)
    assert done.exit_code == 0, done.output
    assert pyarrow.parquet.read_table(out).shape == (5000, 4)
    found = read(model)
    assert isinstance(found, SynthesisModel)
    assert found.private
    monkeypatch.setattr("simplexdp.private.door._FITTED", {"": set()})  # each command is a process of its own
    small = CliRunner().invoke(app, [*asked, "-n", "7", "--force", "--json"])
    assert json.loads(small.stdout)["records"] == 7
    learnt = tmp_path / "network.json"
    assert CliRunner().invoke(app, ["fit", "bn", *common, "--graph", "learn", "--out", str(learnt)]).exit_code == 0
    assert read(learnt).kind == "bayesian-network"
    planned = CliRunner().invoke(app, ["plan", *common[1:], "--model", "synthesis", "--total", "5000", "--json"])
    assert planned.exit_code == 0, planned.output
    told = Budget(epsilon=1, delta=1e-6)
    assert found.guarantee.loss.fits(told)
