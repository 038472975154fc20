"""Impossible combinations: no release shows mass there, estimates use the knowledge, and samples never break it.
A record that does is protected and refused by nothing.

Where chance decides, 5 standard errors (about 1e-6) are allowed; controls are the same fits without the rules.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simplexdp import BayesianNetwork, Budget, Schema, release_distribution
from simplexdp.errors import Infeasible, SchemaError
from simplexdp.estimation import estimate
from simplexdp.models import read
from simplexdp.models.records import possible_records
from simplexdp.naive_bayes import fit_naive_bayes
from simplexdp.noisy import NoisyCounts
from simplexdp.pipeline import release_tables
from simplexdp.schema import Categories, Numeric
from simplexdp.schema.never import breaks
from simplexdp.synthetic import synthetic_records

RULES = [
    {"sex": "male", "pregnant": True},
    {"age": {"below": 12}, "pregnant": True},
    {"age": {"below": 15}, "status": ["married", "widowed"]},
    {"status": "(missing)", "sex": "female", "age": {"from": 65}},
]
SCHEMA = Schema(
    Schema.of(
        sex=["female", "male"],
        pregnant=[False, True],
        age=Numeric([0, 12, 15, 40, 65, 100], integer=True, outside="nearest"),
        status=Categories(["single", "married", "widowed"], missing="cell"),
    ).columns,
    never=RULES,
)
FREE = Schema(SCHEMA.columns)
BUDGET = Budget(epsilon=3.0, delta=1e-6)
MECHANISMS = ["polya", "dirichlet", "gaussian", "laplace", "balanced-laplace"]


def rows(size=600, *, keep=False, seed=1):
    draw = np.random.default_rng(seed)
    table = {
        "sex": draw.choice(["female", "male"], size),
        "pregnant": draw.random(size) < 0.3,
        "age": draw.integers(0, 100, size),
        "status": draw.choice(["single", "married", "widowed", None], size),
    }
    if not keep:
        codes = coded(table)
        table = {name: values[~breaks(SCHEMA, codes)] for name, values in table.items()}
    return pa.table({name: pa.array(values) for name, values in table.items()})


def coded(table):
    status = {"single": 0, "married": 1, "widowed": 2, None: 3}
    return {
        "sex": (np.asarray(table["sex"]) == "male").astype(int),
        "pregnant": np.asarray(table["pregnant"]).astype(int),
        "age": np.clip(np.searchsorted(SCHEMA["age"].edges, np.asarray(table["age"]), side="right") - 1, 0, 4),
        "status": np.array([status[value] for value in table["status"]]),
    }


def broken(records):
    table = {name: records[name].to_pylist() for name in SCHEMA.names if name in records.column_names}
    found = np.zeros(records.num_rows, bool)
    for i in range(records.num_rows):
        sex, pregnant, age, status = (table[name][i] for name in SCHEMA.names)
        found[i] = (
            (sex == "male" and pregnant)
            or (age < 12 and pregnant)
            or (age < 15 and status in ("married", "widowed"))
            or (status is None and sex == "female" and age >= 65)
        )
    return found


def fits(source, schema, entropy=1):
    settings = {"budget": BUDGET, "entropy": entropy}
    yield release_distribution(source, schema, list(SCHEMA.names), **settings)
    yield fit_naive_bayes(source, schema, "pregnant", **settings)
    graph = {"pregnant": ["sex"], "age": ["pregnant"], "status": ["sex", "age"]}
    yield BayesianNetwork(graph, schema, **settings).fit(source).model
    yield release_tables(source, schema, [("sex", "pregnant"), ("age", "status")], **settings)


def test_samples_of_every_model_break_no_rule_also_after_files(tmp_path):
    source = rows()
    for model, free in zip(fits(source, SCHEMA), fits(source, FREE), strict=True):
        records = synthetic_records(model, 3000, seed=1).read_all()
        assert not broken(records).any(), model
        path = tmp_path / "model.json"
        path.write_text(model.to_json())
        again = read(path)
        assert synthetic_records(again, 500, seed=2).read_all().equals(synthetic_records(model, 500, seed=2).read_all())
        assert broken(synthetic_records(free, 3000, seed=1).read_all()).any()  # the control


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("method", ["posterior-mean", "truncated-normal", "projection", "clip", "raw"])
def test_no_release_shows_mass_or_an_interval_there(mechanism, method):
    names = ["sex", "pregnant", "age"]
    found = release_distribution(rows(), SCHEMA, names, budget=BUDGET, mechanism=mechanism, estimate=method, entropy=1)
    excluded = SCHEMA.impossible(names)
    assert excluded is not None
    assert excluded.sum() == 5 + 1
    assert not found.probabilities[excluded].any()
    assert found.probabilities.sum() == pytest.approx(1)
    lower, upper = found.intervals()
    assert not upper[excluded].any()
    assert (lower <= upper).all()
    assert found.values[excluded].any() or mechanism != "gaussian"  # what was drawn is shown as it was drawn


@pytest.mark.parametrize("cells", [8, 40])
def test_the_knowledge_lowers_the_loss(cells):
    """Mean KL over 60 draws at σ = 20, half of the cells impossible. The control: with false knowledge it rises."""
    draw = np.random.default_rng(5)
    never = np.arange(cells) % 2 == 1
    counts = np.where(never, 0, draw.integers(20, 120, cells)).astype(float)
    total = counts.sum()
    losses = {"with": [], "without": [], "false": []}
    for _ in range(60):
        noisy = NoisyCounts(values=np.rint(counts + draw.normal(0, 20, cells)), variance=400.0, total=total)
        for name, mask in {
            "with": never,
            "without": None,
            "false": np.roll(never, 2) ^ (np.arange(cells) == 0),
        }.items():
            q = np.maximum(estimate(noisy, impossible=mask).probabilities, 1e-6)
            f = counts / total
            losses[name].append(float((f[f > 0] * np.log(f[f > 0] / q[f > 0])).sum()))
    gain = np.subtract(losses["without"], losses["with"])
    assert gain.mean() > 5 * gain.std() / np.sqrt(60)
    assert np.mean(losses["false"]) > np.mean(losses["without"])


def test_a_record_that_breaks_a_rule_is_counted_in_its_cell_and_refuses_nothing():
    """Neighbours, of which one has such a record, differ in one cell by one, in every table and with no error."""
    from simplexdp.counting import count

    clean = rows()
    worst = pa.table({"sex": ["male"], "pregnant": [True], "age": [5], "status": ["widowed"]})
    other = pa.concat_tables([clean.slice(1), worst.cast(clean.schema)])
    for names in (["sex", "pregnant"], ["age", "status"], list(SCHEMA.names)):
        for schema in (SCHEMA, FREE):
            one, two = (count(source, schema, [names])[0].private_counts() for source in (clean, other))
            assert one.sum() == two.sum() == clean.num_rows
            assert np.abs(one - two).sum() == 2
    for model in fits(other, SCHEMA):
        assert model.private is False  # seeded; nothing else stands against it
        assert not broken(synthetic_records(model, 500, seed=1).read_all()).any()


def test_what_is_drawn_does_not_know_the_rules():
    """The same seed draws the same values with and without rules: the guarantee is that of the table."""
    for one, two in zip(fits(rows(), SCHEMA), fits(rows(), FREE), strict=True):
        assert one.guarantee == two.guarantee
        for with_rules, free in zip(one.releases, two.releases, strict=True):
            assert (with_rules.values == free.values).all()


def test_predictions_use_the_rules():
    source = rows()
    _, bayes, network, _ = fits(source, SCHEMA)
    given = {"sex": np.array([0, 1, 0]), "age": np.array([4, 2, 0]), "status": np.array([0, 1, 0])}
    for model in (bayes, network):
        found = model.predict("pregnant", given)
        assert found.sum(axis=1) == pytest.approx([1, 1, 1])
        assert found[:, 1].tolist()[1:] == [0, 0]  # a man, and a girl younger than 12
        assert found[0].all()
    found = network.predict("status", {"sex": np.array([0, 1]), "age": np.array([0, 4])})
    assert not found[0, 1:3].any()  # younger than 15: neither married nor widowed
    assert found[1].all()


def test_counts_that_are_given_and_estimators_keep_the_rules():
    import pandas as pd

    from simplexdp import release
    from simplexdp.learn import NaiveBayes

    source = rows()
    counts = pd.crosstab(source["sex"].to_pandas(), source["pregnant"].to_pandas())
    pair = SCHEMA.select(["sex", "pregnant"])
    for table in (counts, np.array([[10, 20], [30, 1]])):
        found = release(table, schema=pair, budget=BUDGET, entropy=1)
        assert found.probabilities[1, 1] == 0
        assert release(table, schema=FREE.select(["sex", "pregnant"]), budget=BUDGET, entropy=1).probabilities.all()
    frame = source.to_pandas()
    features = frame.drop(columns="pregnant")
    fitted = NaiveBayes(schema=SCHEMA, target="pregnant", epsilon=3.0, delta=1e-6, random_state=1)
    fitted.fit(features, frame["pregnant"])
    shares = fitted.predict_proba(features)
    assert not shares[(features["sex"] == "male").to_numpy(), 1].any()


@given(st.data())
@settings(max_examples=40, deadline=None)
def test_masks_are_those_of_the_cells_one_by_one(data):
    names = data.draw(st.lists(st.sampled_from(SCHEMA.names), min_size=1, max_size=4, unique=True))
    mask = SCHEMA.impossible(names)
    shape = SCHEMA.shape(names)
    cells = np.indices(shape).reshape(len(shape), -1)
    told = breaks(SCHEMA, dict(zip(names, cells, strict=True))).reshape(shape)
    assert (told == (np.zeros(shape, bool) if mask is None else mask)).all()


def test_rules_survive_files_selection_and_merged_bins():
    assert Schema.from_yaml(SCHEMA.to_yaml()) == SCHEMA == Schema.from_json(SCHEMA.to_json())
    assert SCHEMA.select(["sex", "pregnant"]).never == (SCHEMA.never[0],)
    coarse = SCHEMA.replace(SCHEMA["age"].model_copy(update={"edges": (0, 15, 100)}))
    assert coarse.impossible(["age", "status"])[0].tolist() == [False, True, True, False]
    assert coarse.impossible(["age", "pregnant"]) is None  # the bin reaches beyond 12
    assert SCHEMA.impossible(["sex", "status"]) is None


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        ({"sexe": "male"}, "Did you mean 'sex'?"),
        ({"sex": "mal"}, "Did you mean 'male'?"),
        ({"pregnant": "yes"}, "a declared value"),
        ({"age": 5}, "a range such as"),
        ({"age": {"under": 5}}, "from, below or both"),
        ({"sex": {"below": 5}}, "only a numeric one has ranges"),
        ({}, "a mapping of columns to values"),
        ("male", "a mapping of columns to values"),
    ],
)
def test_wrong_rules(rule, message):
    with pytest.raises(SchemaError, match="never") as caught:
        Schema(SCHEMA.columns, never=[rule])
    assert message in str(caught.value)


def test_rules_that_leave_nothing_are_refused_and_do_not_loop():
    with pytest.raises(SchemaError, match="would leave no cell"):
        Schema(SCHEMA.columns, never=[{"sex": ["female", "male"]}])
    schema = Schema(Schema.of(a=[1, 2], b=[1, 2]).columns, never=[{"a": 1, "b": 2}, {"a": 1, "b": 1}])
    assert schema.select(["a"]).never == ()

    def draw(size):
        return {"a": np.zeros(size, np.int64), "b": np.zeros(size, np.int64)}

    with pytest.raises(Infeasible, match="almost all of its mass"):
        possible_records(schema, 10, draw)
