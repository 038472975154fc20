"""Synthetic records: their law, their types, their files."""

from __future__ import annotations

import datetime
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
from network_support import brute_joint, hundred, model_with, schema_of
from numpy.typing import NDArray
from scipy import stats

from simplexdp import Budget, Categories, Numeric, Quantiles, Schema, count, release, release_distribution
from simplexdp.errors import InvalidArgument
from simplexdp.mechanisms import NoNoise
from simplexdp.models import Guarantee, Release
from simplexdp.models.bayesian_network import BayesianNetworkModel
from simplexdp.models.bayesian_network.graph import Graph
from simplexdp.models.naive_bayes import NaiveBayesModel
from simplexdp.models.records import RowDraws
from simplexdp.naive_bayes import fit_naive_bayes
from simplexdp.synthetic import decode, record_batches, synthetic_records, write_synthetic_records

SIGNIFICANCE = 1e-4
RECORDS = 100_000


def weather(seed: int = 5) -> BayesianNetworkModel:
    rng = np.random.default_rng(seed)
    graph = Graph.of([("a", "b"), ("a", "c"), ("b", "c")])
    schema = schema_of({"c": 4, "a": 3, "b": 2})
    tables = {n: rng.dirichlet(np.full(schema[n].size, 2.0), schema.shape(graph.parents(n))) for n in graph.nodes}
    return model_with(graph, schema, tables)


def chi_square(codes: dict[str, NDArray[np.int64]], joint: NDArray[np.float64], names: tuple[str, ...]) -> float:
    cells = np.ravel_multi_index([codes[name] for name in names], joint.shape)
    seen = np.bincount(cells, minlength=joint.size)
    expected = joint.ravel() * seen.sum()
    return float(stats.chisquare(seen[expected > 0], expected[expected > 0]).pvalue)


# -- law ----------------------------------------------------------------------------------------------------------


def test_records_of_a_network_follow_its_joint_distribution() -> None:
    """Chi-square at significance 1e-4 with 100,000 records; a slightly different network must be rejected."""
    model = weather()
    codes = dict(model.sample_codes(RECORDS, np.random.default_rng(11)))
    assert tuple(codes) == model.columns
    joint = brute_joint(model)
    assert chi_square(codes, joint, model.columns) > SIGNIFICANCE
    other = dict(model.tables)
    other["b"] = 0.9 * other["b"] + 0.1 / 2
    wrong = brute_joint(model_with(model.graph, model.schema, other))
    assert chi_square(codes, wrong, model.columns) < SIGNIFICANCE


def test_records_of_a_release_follow_its_estimate() -> None:
    """The same for a joint distribution; the uniform one must be rejected."""
    rows = pa.table({"x": ["u", "v", "v"] * 300, "y": [1, 2, 3] * 300})
    schema = Schema.of(x=["u", "v"], y=[1, 2, 3])
    published = release_distribution(rows, schema, ["y", "x"], budget=Budget(epsilon=1, delta=1e-5), entropy=4)
    codes = dict(published.sample_codes(RECORDS, np.random.default_rng(12)))
    assert chi_square(codes, published.probabilities, ("y", "x")) > SIGNIFICANCE
    assert chi_square(codes, np.full((3, 2), 1 / 6), ("y", "x")) < SIGNIFICANCE


def naive_with(
    schema: Schema, target: str, prior: NDArray[np.float64], tables: tuple[NDArray[np.float64], ...]
) -> NaiveBayesModel:
    """A naive Bayes model with these parameters; its releases are placeholders."""
    features = [name for name in schema.names if name != target]
    releases = tuple(
        Release(
            values=hundred(schema.shape((name, target))),
            mechanism=NoNoise(),
            guarantee=Guarantee(mechanisms=tuple(NoNoise() for _ in features)),
            total=100.0,
            columns=(name, target),
            schema=schema.select((name, target)),
        )
        for name in features
    )
    return NaiveBayesModel(
        releases=releases,
        target=target,
        class_probabilities=prior,
        conditionals=tables,
        weights=np.ones(len(features)),
        biases=np.zeros(prior.size),
    )


def test_records_of_naive_bayes_follow_classes_and_conditionals() -> None:
    """The same; classes in the wrong order must be rejected."""
    schema = schema_of({"x": 3, "y": 2, "label": 2})
    x = np.array([[0.2, 0.3, 0.5], [0.6, 0.3, 0.1]])
    y = np.array([[0.9, 0.1], [0.4, 0.6]])
    prior = np.array([0.3, 0.7])
    codes = dict(naive_with(schema, "label", prior, (x, y)).sample_codes(RECORDS, np.random.default_rng(13)))
    names = ("label", "x", "y")
    assert chi_square(codes, np.einsum("c,cx,cy->cxy", prior, x, y), names) > SIGNIFICANCE
    assert chi_square(codes, np.einsum("c,cx,cy->cxy", prior, x[::-1], y), names) < SIGNIFICANCE


def test_records_of_a_fitted_naive_bayes_model() -> None:
    schema = schema_of({"x": 3, "y": 2, "label": 2})
    rng = np.random.default_rng(3)
    rows = pa.table({c.name: [c.labels[i] for i in rng.integers(0, c.size, 300)] for c in schema})
    model = fit_naive_bayes(rows, schema, "label", budget=Budget.rdp(order=5, epsilon=1.0), entropy=1)
    records = synthetic_records(model, 100, seed=1).read_all()
    assert records.schema.names == ["x", "y", "label"]
    assert set(records["label"].to_pylist()) == {"label0", "label1"}


def test_cells_of_probability_zero_are_never_drawn() -> None:
    draws = RowDraws(np.array([[0.0, 1.0, 0.0], [0.5, 0.0, 0.5]]))
    rows = np.repeat([0, 1], 20_000)
    cells = draws.draw(rows, np.random.default_rng(0))
    assert set(cells[:20_000]) == {1}
    assert set(cells[20_000:]) == {0, 2}


# -- types --------------------------------------------------------------------------------------------------------


def mixed_schema() -> Schema:
    return Schema(
        [
            Categories(["b", "a"], name="text", other="cell", missing="cell"),
            Categories([7, -2], name="whole"),
            Categories([True, False], name="truth", missing="cell"),
            Categories([datetime.date(2024, 2, 29), datetime.date(1999, 12, 31)], name="day"),
            Numeric([0, 10, 1000], own=[-1.0], name="number", outside="cell", missing="cell"),
        ]
    )


def mixed_model() -> BayesianNetworkModel:
    schema = mixed_schema()
    graph = Graph.from_edges([], nodes=schema.names)
    return model_with(graph, schema, {c.name: np.full(c.size, 1 / c.size) for c in schema})


def test_values_have_the_declared_types_and_fall_into_their_cells() -> None:
    model = mixed_model()
    table = synthetic_records(model, 5000, seed=1).read_all()
    assert [str(kind) for kind in table.schema.types] == ["string", "int64", "bool", "date32[day]", "double"]
    assert set(table["text"].to_pylist()) == {"a", "b", None}
    assert set(table["whole"].to_pylist()) == {7, -2}
    assert set(table["truth"].to_pylist()) == {True, False, None}
    assert set(table["day"].to_pylist()) == {datetime.date(2024, 2, 29), datetime.date(1999, 12, 31)}
    numbers = np.array([x for x in table["number"].to_pylist() if x is not None])
    assert table["number"].null_count > 0
    assert (numbers == -1).any()
    inside = numbers[numbers != -1]
    assert ((inside >= 0) & (inside < 1000)).all()
    assert stats.kstest(inside[inside < 10] / 10, "uniform").pvalue > SIGNIFICANCE


def test_records_count_back_to_the_cells_they_came_from() -> None:
    schema = Schema([Numeric([0, 0.1, 0.3, 1e9], own=[5.0], name="x"), Categories(["u", "v"], name="y")])
    graph = Graph.of([("x", "y")])
    rng = np.random.default_rng(2)
    model = model_with(graph, schema, {"x": rng.dirichlet(np.ones(4)), "y": rng.dirichlet(np.ones(2), 4)})
    for bins in ("uniform", "midpoint"):
        codes = model.sample_codes(3000, np.random.default_rng(3))
        batch = pa.table(
            {c.name: decode(c, codes[c.name], np.random.default_rng(4), bins) for c in schema}  # type: ignore[arg-type]
        )
        (counted,) = count(batch, schema, [("x", "y")])
        expected = np.zeros((4, 2), dtype=int)
        np.add.at(expected, (codes["x"], codes["y"]), 1)
        np.testing.assert_array_equal(counted.private_counts(), expected)


def test_midpoints_and_labels() -> None:
    model = mixed_model()
    table = synthetic_records(model, 2000, bins="midpoint", seed=1).read_all()
    assert set(table["number"].to_pylist()) == {-1.0, 5.0, 505.0, None}
    labelled = synthetic_records(model, 2000, labels=True, seed=1).read_all()
    assert set(labelled["text"].to_pylist()) == {"a", "b", "(other)", "(missing)"}
    assert set(labelled["number"].to_pylist()) == {"-1", "[0, 10)", "[10, 1000]", "(other)", "(missing)"}


# -- as many as wanted --------------------------------------------------------------------------------------------


def test_blocks_add_up_and_are_made_when_asked_for() -> None:
    model = weather()
    batches = record_batches(model, 250, np.random.default_rng(0), block=100)
    assert [batch.num_rows for batch in batches] == [100, 100, 50]
    reader = synthetic_records(model, 10**12, seed=0)  # nothing is drawn before it is read
    assert reader.read_next_batch().num_rows == 1 << 16
    assert synthetic_records(model, 0).read_all().num_rows == 0


def test_a_seed_repeats_the_records() -> None:
    model = weather()
    first, again, other = (synthetic_records(model, 500, seed=s).read_all() for s in (1, 1, 2))
    assert first.equals(again)
    assert not first.equals(other)


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_files_hold_the_same_records(tmp_path: Path, suffix: str) -> None:
    model = weather()
    path = tmp_path / f"records{suffix}"
    write_synthetic_records(model, 70_000, path, seed=9)
    read = pyarrow.csv.read_csv(path) if suffix == ".csv" else pyarrow.parquet.read_table(path)
    assert read.equals(synthetic_records(model, 70_000, seed=9).read_all())
    assert [p.name for p in tmp_path.iterdir()] == [path.name]


def test_a_failed_write_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = weather()
    monkeypatch.setattr(BayesianNetworkModel, "sample_codes", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        write_synthetic_records(model, 10, tmp_path / "records.csv")
    assert not list(tmp_path.iterdir())


# -- errors -------------------------------------------------------------------------------------------------------


def test_wrong_requests_are_refused(tmp_path: Path) -> None:
    model = weather()
    for size in (-1, 2.5, True):
        with pytest.raises(InvalidArgument, match=r"`size` must be a (whole )?number"):
            synthetic_records(model, size)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument, match="one of auto, uniform, midpoint, neighbours"):
        synthetic_records(model, 5, bins="centre")  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument, match=r"\.csv or \.parquet"):
        write_synthetic_records(model, 5, tmp_path / "records.xlsx")
    bare = release([5, 3, 2], budget=Budget(epsilon=1, delta=1e-5), entropy=1)
    with pytest.raises(InvalidArgument, match="fitted with a schema"):
        synthetic_records(bare, 5)
    with pytest.raises(InvalidArgument, match="unresolved quantiles"):
        decode(Quantiles(4, lower=0, upper=1, name="q"), np.array([0]), np.random.default_rng(0))


class _Given:
    """A generator whose next numbers are known."""

    def __init__(self, numbers):
        self._numbers = numbers

    def random(self, size):
        return self._numbers[:size]


@pytest.mark.parametrize("rows", [1, 3, 700, 9000, 300_000])
@pytest.mark.parametrize("cells", [1, 2, 7, 40])
def test_the_guide_gives_the_cells_of_the_search(rows, cells):
    """The same cell for every number: random ones, the ends of slices, the borders of cells, and their neighbours."""
    if rows * cells > 1_000_000:
        pytest.skip("large")
    draw = np.random.default_rng(rows * cells)
    table = draw.dirichlet(np.full(cells, 0.3), size=rows)
    table[draw.random(table.shape) < 0.2] = 0.0
    table[:, 0] += table.sum(axis=1) == 0
    draws = RowDraws(table)
    borders = np.cumsum(table, axis=1).ravel()[:3000]
    exact = np.concatenate([np.arange(256) / 256, borders / np.maximum(borders.max(), 1)])
    near = np.concatenate([np.nextafter(exact, 0), np.nextafter(exact, 1), exact, draw.random(5000)])
    numbers = np.clip(near, 0, np.nextafter(1.0, 0))
    which = draw.integers(0, rows, numbers.size)
    found = draws.draw(which, _Given(numbers))
    assert found.tolist() == draws._searched(which, numbers).tolist()
    assert (draws._slices > 1) == (rows <= 1 << 19)
