"""Answers of models: what they say, what they rest on, and how often their intervals hold."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from functools import reduce
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom

from simplexdp import BayesianNetwork, Budget, Numeric, Schema, plan, release, release_distribution
from simplexdp.errors import Infeasible, InvalidArgument
from simplexdp.estimation import NoisyCounts
from simplexdp.estimation.posterior import EFFECT_GRID, FLAT, SINGLE_COLUMN, PooledPosteriors, _cost
from simplexdp.models import SynthesisModel
from simplexdp.models.regression import combine
from simplexdp.naive_bayes import NaiveBayesRecipe, fit_naive_bayes
from simplexdp.report import model_report

SCHEMA = Schema.of(age=Numeric([0, 18, 30, 45, 65, 120]), smoker=["no", "yes"], ill=["no", "yes"], sex=["f", "m"])
BUDGET = Budget(epsilon=1.0, delta=1e-6)
NAMES = ("a", "b", "c", "d")
SHAPE = (3, 2, 4, 2)


def people(rows: int, seed: int) -> pa.Table:
    rng = np.random.default_rng(seed)
    age, smoker = rng.integers(0, 120, rows), rng.random(rows) < 0.3
    ill = rng.random(rows) < np.where(smoker, 0.25, 0.08) + age / 500
    return pa.table(
        {
            "age": age,
            "smoker": np.where(smoker, "yes", "no"),
            "ill": np.where(ill, "yes", "no"),
            "sex": np.where(rng.random(rows) < 0.5, "f", "m"),
            "who": np.arange(rows) // 2,
        }
    )


ROWS = people(4000, 1)


@pytest.fixture(scope="module")
def network() -> Any:
    return BayesianNetwork({"ill": ["age", "smoker"], "sex": ["age"]}, SCHEMA, budget=BUDGET, entropy=3).fit(ROWS).model


def noisy_tables(seed: int, total: float | None = 2000.0, deviation: float = 6.0) -> dict[tuple[str, ...], NoisyCounts]:
    rng = np.random.default_rng(seed)
    counts = rng.multinomial(2000, rng.dirichlet(np.full(math.prod(SHAPE), 0.5))).reshape(SHAPE)
    found = {}
    for names in (("a", "b"), ("b", "c", "d"), ("a",)):
        table = counts.sum(axis=tuple(i for i, name in enumerate(NAMES) if name not in names)).astype(float)
        values = np.rint(table + rng.normal(0, deviation, table.shape))
        found[names] = NoisyCounts(values=values, variance=deviation**2, total=total)
    return found


# -- the structured matrices against dense ones ------------------------------------------------------------------


def dense_posterior(known: PooledPosteriors, columns: tuple[str, ...], about: str) -> tuple[np.ndarray, np.ndarray]:
    """The same law by matrices of all cells × all cells, which cost their cube."""
    from simplexdp.estimation import estimate

    def product(names: tuple[str, ...], inside: Any, outside: Any) -> np.ndarray:
        return reduce(np.kron, ((inside if n in names else outside)(known.sizes[n]) for n in columns))

    total, pooled = known.known.total, known.known
    values = pooled.marginal(columns).values.ravel()
    m = np.ones(1)
    for name in columns:
        m = np.outer(m, estimate(pooled.marginal([name])).probabilities).ravel()
    m = total * np.maximum(m, 1e-6)
    scale = m**0.75 * math.sqrt((m @ m) / (m**0.75 @ m**0.75))
    noise, others = np.zeros((m.size, m.size)), np.zeros((m.size, m.size))
    for names in (s for k in range(1, len(columns) + 1) for s in itertools.combinations(columns, k)):
        effect = pooled.noisy_effect(names)
        cells = math.prod(known.sizes[name] for name in names)
        variance = effect.variance / (m.size / cells)
        noise += variance * product(names, lambda n: np.eye(n) - 1 / n, lambda n: np.full((n, n), 1 / n))
        if len(names) < len(columns):
            deviation = SINGLE_COLUMN * m
            if len(names) > 1:
                deviation = np.sqrt(known.indicator(columns, names) @ known._strength(names)) * scale
            same = product(names, np.eye, lambda n: np.ones((n, n)))
            others += deviation[:, None] * same * deviation
    own, grid = (scale**2, EFFECT_GRID) if len(columns) > 1 else (m**2, (SINGLE_COLUMN,))
    sampled = m
    for _ in range(2):
        sampling = np.diag(sampled) - np.outer(sampled, sampled) / total
        least = noise.copy()
        cut = others.diagonal()
        flat = FLAT * (float((_noise_diagonal(known, columns) + sampled + cut).sum()) + 1.0) / m.size
        small = 1e-6 * (1 + _noise_diagonal(known, columns).min())
        logs, means, covariances = [], [], []
        for a in grid:
            wide = known._widths(columns, values - m, a * a * own, sampled) if len(columns) > 1 else np.ones(1)
            prior = others + np.diag(a * a * own * wide)
            whole = prior + sampling + least + small * np.eye(m.size) + flat
            law = prior + (sampling if about == "records" else 0)
            records = prior + sampling
            z = np.linalg.solve(whole, values - m)
            logs.append(-0.5 * (values - m) @ z - 0.5 * np.linalg.slogdet(whole)[1] - _cost(wide))
            for each, kept in ((records, []), (law, covariances)):
                mean, covariance = m + each @ z, each - each @ np.linalg.solve(whole, each)
                along = covariance.sum(axis=1)
                mean = mean + along * (total - mean.sum()) / along.sum()
                kept.append((mean, covariance - np.outer(along, along) / along.sum()))
                if each is records:
                    means.append(mean)
        weights = np.exp(np.array(logs) - max(logs))
        weights /= weights.sum()
        centre = sum(w * mean for w, mean in zip(weights, means, strict=True))
        sampled = np.maximum(centre, 0.1 * np.sqrt(m))
        sampled = sampled * (total / sampled.sum())
    mean = sum(w * each for w, (each, _) in zip(weights, covariances, strict=True))
    spread = sum(
        w * (c + np.outer(each - mean, each - mean)) for w, (each, c) in zip(weights, covariances, strict=True)
    )
    return mean, spread


def _noise_diagonal(known: PooledPosteriors, columns: tuple[str, ...]) -> np.ndarray:
    return known._noise(columns, np.zeros(math.prod(known.shape(columns))))[0]


@pytest.mark.parametrize("columns", [("a",), ("a", "b"), ("d", "c"), ("b", "c", "d")])
@pytest.mark.parametrize("about", ["records", "population"])
def test_structured_and_dense_matrices_give_one_posterior(columns: tuple[str, ...], about: Any) -> None:
    known = PooledPosteriors(noisy_tables(1))
    law = known.posterior(columns, about)
    mean, covariance = dense_posterior(known, columns, about)
    size = float(np.diag(covariance).max())
    np.testing.assert_allclose(law.mean, mean, atol=1e-4 * math.sqrt(size))
    np.testing.assert_allclose(law.times(np.eye(mean.size)), covariance, atol=1e-4 * size)
    np.testing.assert_allclose(law.variance, np.diag(law.times(np.eye(mean.size))), atol=1e-7 * size)


def test_the_noise_of_pooled_tables_is_that_of_many_draws() -> None:
    """4,000 draws of the noise: each variance within 12 % (5.3 standard errors); noise of 1.2 times the size is not."""
    rng, draws = np.random.default_rng(5), 4000
    start = noisy_tables(2)
    known = PooledPosteriors(start)
    law = known.noise(("b", "c"), "records")
    found = []
    for _ in range(draws):
        again = {
            names: NoisyCounts(values=rng.normal(0, 6.0, t.values.shape) + 100, variance=36.0, total=2000.0)
            for names, t in start.items()
        }
        found.append(PooledPosteriors(again).pooled(("b", "c")).values.ravel())
    seen = np.var(found, axis=0)
    assert np.all(np.abs(seen / law.variance - 1) < 0.12)
    assert not np.all(np.abs(1.44 * seen / law.variance - 1) < 0.12)


# -- what answers say --------------------------------------------------------------------------------------------


def test_a_marginal_adds_up_and_a_frame_has_its_names(network: Any) -> None:
    answer = network.query(["age", "ill"])
    assert answer.ground == "released"
    assert list(answer.to_frame().columns) == ["age", "ill", "estimate", "standard_error", "low", "high"]
    assert len(answer) == 10
    assert answer.estimate.sum() == pytest.approx(1, abs=1e-6)
    assert np.all((answer.low <= answer.estimate) & (answer.estimate <= answer.high))
    assert pa.table(answer).num_rows == 10
    assert "records" not in str(answer).split("\n")[0]


def test_conditionals_of_each_group_add_up(network: Any) -> None:
    answer = network.query("ill", given=["age", "smoker"])
    assert answer.names == ("age", "smoker", "ill")
    np.testing.assert_allclose(answer.estimate.reshape(-1, 2).sum(axis=1), 1, atol=1e-6)
    one = network.query({"ill": "yes"}, given={"age": (18, 45), "smoker": "yes"})
    assert one.labels == (("[18, 30) or [30, 45)", "yes", "yes"),)
    assert 0 < one.low[0] < one.estimate[0] < one.high[0] < 1


def test_a_set_of_cells_is_the_sum_of_its_cells(network: Any) -> None:
    each = network.query("age", about="records")
    both = network.query({"age": ["[0, 18)", "[65, 120]"]}, about="records")
    assert both.estimate[0] == pytest.approx(each.estimate[0] + each.estimate[4], abs=1e-9)
    assert network.query({"age": 20}).labels == (("[18, 30)",),)
    assert network.query({"age": (65, 120)}, counts=True).estimate[0] == pytest.approx(
        4000 * each.estimate[4], rel=0.01
    )


def test_columns_without_a_common_table_are_answered_given_the_graph(network: Any) -> None:
    answer = network.query("ill", given=["sex"])
    assert answer.ground == "given the graph"
    assert "no coverage" in str(answer)
    np.testing.assert_allclose(answer.estimate.reshape(2, 2), [network.marginal(["ill"], {"sex": i}) for i in (0, 1)])
    assert np.all((answer.low <= answer.estimate) & (answer.estimate <= answer.high))
    with pytest.raises(Infeasible, match="for_analysis"):
        network.query("ill", given=["sex"], strict=True)


def test_records_are_known_better_than_the_population(network: Any) -> None:
    width = {about: network.query("age", about=about) for about in ("records", "population")}
    assert np.all(width["records"].standard_error < width["population"].standard_error)


@pytest.mark.parametrize("mechanism", ["gaussian", "laplace", "balanced-laplace", "polya", "dirichlet"])
@pytest.mark.parametrize("neighbours", ["replace-one", "add-remove"])
def test_every_noise_has_answers(mechanism: str, neighbours: Any) -> None:
    if neighbours == "add-remove" and mechanism in ("dirichlet", "balanced-laplace"):
        pytest.skip("publishes the total")
    settings = {"budget": BUDGET, "mechanism": mechanism, "neighbours": neighbours, "entropy": 1}
    published = release_distribution(ROWS, SCHEMA, ["age", "ill"], **settings)
    for kind, about in itertools.product(("posterior", "frequentist"), ("records", "population")):
        answer = published.query(about=about, kind=kind)
        assert np.all(answer.low <= answer.high)
        assert np.all((answer.low >= 0) & (answer.high <= 1))
        assert answer.standard_error.max() < 0.05


def test_persons_vary_more_than_rows() -> None:
    settings: dict[str, Any] = {"budget": Budget(epsilon=50.0, delta=1e-5), "entropy": 1, "neighbours": "add-remove"}
    with pytest.warns(match="epsilon"):
        persons = release_distribution(ROWS, SCHEMA, ["age"], rows_per_person=2, person="who", **settings)
    answer = persons.query()
    assert any("2 rows" in note for note in answer.notes)
    p = answer.estimate
    assert np.all(answer.standard_error > 1.3 * np.sqrt(p * (1 - p) / 4000))


def test_counts_without_a_schema_have_numbers_for_names() -> None:
    published = release([[10, 20, 30], [5, 8, 2]], budget=BUDGET, entropy=1)
    assert published.query(about="records").names == ("axis 1", "axis 2")
    assert published.query({"axis 2": 3}).labels == (("3",),)


# -- means, quantiles, comparisons -------------------------------------------------------------------------------


def test_a_mean_is_that_of_the_published_cells(network: Any) -> None:
    shares, middles = network.query("age").estimate, np.array([9, 24, 37.5, 55, 92.5])
    answer = network.mean("age")
    assert answer.estimate[0] == pytest.approx(shares @ middles, rel=1e-6)
    assert answer.low[0] < answer.estimate[0] < answer.high[0]
    by_label = network.mean("smoker", values={"no": 0.0, "yes": 1.0})
    assert by_label.estimate[0] == pytest.approx(network.query({"smoker": "yes"}).estimate[0], abs=1e-9)
    with pytest.raises(InvalidArgument, match="of numbers"):
        network.mean("smoker")


def test_a_quantile_lies_where_the_distribution_function_does(network: Any) -> None:
    answer = network.quantile("age", 0.5, given=["smoker"])
    assert len(answer) == 2
    assert np.all((answer.low <= answer.estimate) & (answer.estimate <= answer.high))
    assert np.all((answer.low > 40) & (answer.high < 80))  # the rows are even between 0 and 120
    low, high = (network.quantile("age", share).estimate[0] for share in (0.1, 0.9))
    assert low < answer.estimate.min() < answer.estimate.max() < high


def test_differences_and_ratios_are_those_of_the_conditionals(network: Any) -> None:
    rates = network.query({"ill": "yes"}, given=["smoker"]).estimate
    sides = {"smoker": "yes"}, {"smoker": "no"}
    difference = network.compare({"ill": "yes"}, *sides)
    assert difference.estimate[0] == pytest.approx(rates[1] - rates[0], abs=1e-9)
    assert difference.low[0] > 0  # 25 % and 8 % with 4,000 records
    ratio = network.compare({"ill": "yes"}, *sides, by="ratio")
    assert ratio.estimate[0] == pytest.approx(rates[1] / rates[0], rel=1e-9)
    assert ratio.low[0] > 1
    graph = network.compare({"ill": "yes"}, {"sex": "f"}, {"sex": "m"})
    assert graph.ground == "given the graph"


def test_naive_bayes_answers_from_its_tables() -> None:
    model = fit_naive_bayes(ROWS, SCHEMA, "ill", ["age", "smoker", "sex"], budget=BUDGET, entropy=1)
    assert model.query("age", given=["ill"]).ground == "released"
    answer = model.query("ill", given={"age": 70, "smoker": "yes"})
    assert answer.ground == "given the graph"
    assert answer.estimate.sum() == pytest.approx(1)
    # Predictions weigh the tables, and everything that follows the tables says so.
    cell = {"age": np.array([4]), "smoker": np.array([1])}
    weighed = model.predict_some("ill", cell, 1)[0]
    assert np.abs(weighed - answer.estimate).max() > 1e-3
    assert "two voices" in str(answer)
    assert "two voices" in model_report(model)
    assert "two voices" not in str(model.query("age", given=["ill"]))  # a released table
    plain = replace(model, weights=np.ones(3), biases=np.zeros(2))
    alike = plain.query("ill", given={"age": 70, "smoker": "yes"})
    assert plain.voices == ""
    assert "two voices" not in str(alike)
    np.testing.assert_allclose(plain.predict_some("ill", cell, 1)[0], alike.estimate, atol=1e-9)


# -- refusals ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("question", "message"),
    [
        ({"columns": ["agee"]}, "released"),
        ({"columns": ["ill"], "given": ["ill"]}, "other columns"),
        ({"columns": {"ill": "maybe"}}, "one of no, yes"),
        ({"columns": {"age": (18, 40)}}, "edges"),
        ({"columns": ["ill"], "about": "people"}, "records"),
        ({"columns": ["ill"], "kind": "bayes"}, "posterior"),
        ({"columns": ["ill"], "level": 1.5}, "level"),
        ({"columns": ["ill", "ill"]}, "once"),
        ({"columns": 3}, "names"),
        ({}, "columns"),
    ],
)
def test_a_wrong_question_says_what_is_expected(network: Any, question: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        network.query(**question)


# -- regressions -------------------------------------------------------------------------------------------------


def test_without_noise_a_regression_is_the_ordinary_one() -> None:
    from sklearn.linear_model import LinearRegression, LogisticRegression

    huge = Budget(epsilon=1000.0, delta=1e-5)
    with pytest.warns(match="epsilon"):
        published = release_distribution(ROWS, SCHEMA, ["age", "smoker", "ill"], budget=huge, entropy=1)
    middles = np.array([9, 24, 37.5, 55, 92.5])
    codes = np.searchsorted([18, 30, 45, 65], ROWS["age"].to_numpy(), side="right")
    x = np.column_stack([middles[codes], ROWS["smoker"].to_numpy(zero_copy_only=False) == "yes"]).astype(float)
    y = ROWS["ill"].to_numpy(zero_copy_only=False) == "yes"
    ours = published.regression("ill", ["age", "smoker"], about="records", kind="frequentist")
    theirs = LogisticRegression(C=np.inf, tol=1e-10, max_iter=1000).fit(x, y)
    np.testing.assert_allclose(ours.estimate, [theirs.intercept_[0], *theirs.coef_[0]], rtol=2e-3)
    linear = published.regression("age", ["smoker", "ill"], family="linear", about="records", kind="frequentist")
    both = LinearRegression().fit(np.column_stack([x[:, 1], y]), x[:, 0])
    np.testing.assert_allclose(linear.estimate, [both.intercept_, *both.coef_], rtol=2e-3)
    population = published.regression("ill", ["age", "smoker"])
    p = theirs.predict_proba(x)[:, 1]
    full = np.column_stack([np.ones(len(x)), x])
    errors = np.sqrt(np.diag(np.linalg.inv((full * (p * (1 - p))[:, None]).T @ full)))
    np.testing.assert_allclose(population.standard_error, errors, rtol=0.1)
    np.testing.assert_allclose(population.high - population.low, 2 * 1.96 * errors, rtol=0.15)


def test_noise_that_says_nothing_of_a_regression_gives_no_certainty() -> None:
    budget = Budget(epsilon=0.02, delta=1e-6)
    published = release_distribution(ROWS, SCHEMA, ["age", "smoker", "ill"], budget=budget, entropy=1)
    answer = published.regression("ill", ["age", "smoker"])
    assert np.all(answer.high - answer.low > [1.0, 0.01, 1.0])  # 1 in the log-odds, for age over a hundred years
    assert not np.isfinite(answer.high - answer.low).all()
    assert "∞" in str(answer)


def test_a_regression_across_tables_is_refused(network: Any) -> None:
    with pytest.raises(Infeasible, match="across tables"):
        network.regression("ill", ["sex", "smoker"])
    with pytest.raises(InvalidArgument, match="two cells"):
        network.regression("age", ["smoker"])


def test_one_step_of_a_linear_statistic_is_exact(network: Any) -> None:
    middles = np.array([9, 24, 37.5, 55, 92.5])
    answer = network.one_step(lambda p: middles @ p, lambda _: middles, ["age"], kind="posterior")
    mean = network.mean("age")
    assert answer.estimate[0] == pytest.approx(mean.estimate[0], rel=1e-3)
    assert answer.standard_error[0] == pytest.approx(mean.standard_error[0], rel=1e-2)


@given(st.lists(st.floats(-100, 100), min_size=2, max_size=20))
def test_combining_keeps_the_middle(estimates: list[float]) -> None:
    centre, error, low, high = combine(estimates)
    assert centre == pytest.approx(np.mean(estimates), abs=1e-9)
    assert error >= np.std(estimates, ddof=1)
    assert low <= centre <= high


# -- coverage ----------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("about", ["records", "population"])
def test_intervals_hold_as_often_as_they_say(about: Any) -> None:
    """60 fits of 26 answers: at least 90 % and, at significance 1e-3, not with intervals of 0.4 times the length."""
    truth_of = people(400_000, 7)
    truth = {names: shares(truth_of, names) for names in (("age", "ill"), ("age", "smoker", "ill"))}
    held, short, of = 0, 0, 0
    for seed in range(60):
        rows = people(1500, 100 + seed)
        model = BayesianNetwork({"ill": ["age", "smoker"]}, SCHEMA, budget=BUDGET, entropy=seed).fit(rows).model
        for names, population in truth.items():
            answer = model.query(list(names), about=about)
            wanted = population if about == "population" else shares(rows, names)
            middle, half = (answer.low + answer.high) / 2, (answer.high - answer.low) / 2
            held += int(np.sum(np.abs(wanted - middle) <= half + 1e-12))
            short += int(np.sum(np.abs(wanted - middle) <= 0.4 * half))
            of += wanted.size
    assert held / of >= 0.9
    assert binom.cdf(short, of, 0.9) < 1e-3


def shares(rows: pa.Table, names: tuple[str, ...]) -> np.ndarray:
    codes = {
        "age": np.searchsorted([18, 30, 45, 65], rows["age"].to_numpy(), side="right"),
        "smoker": (rows["smoker"].to_numpy(zero_copy_only=False) == "yes").astype(int),
        "ill": (rows["ill"].to_numpy(zero_copy_only=False) == "yes").astype(int),
    }
    shape = tuple({"age": 5, "smoker": 2, "ill": 2}[name] for name in names)
    flat = np.ravel_multi_index([codes[name] for name in names], shape)
    return np.bincount(flat, minlength=math.prod(shape)) / len(flat)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10_000), st.sampled_from([("a", "b"), ("b", "c", "d"), ("c",)]), st.booleans())
def test_posteriors_are_laws(seed: int, columns: tuple[str, ...], public: bool) -> None:
    known = PooledPosteriors(noisy_tables(seed, 2000.0 if public else None))
    for about in ("records", "population"):
        law = known.posterior(columns, about)  # type: ignore[arg-type]
        covariance = law.times(np.eye(law.mean.size))
        assert np.linalg.eigvalsh((covariance + covariance.T) / 2).min() > -1e-6 * covariance.max()
        if public:
            assert law.mean.sum() == pytest.approx(2000, rel=1e-6)
            assert abs(covariance.sum()) < 1e-4 * covariance.max() * law.mean.size
    assert np.all(
        known.posterior(columns, "records").variance <= known.noise(columns, "records").variance * 1.01 + 1e-6
    )


# -- records -----------------------------------------------------------------------------------------------------


def test_records_given_values_follow_the_conditional_law(network: Any) -> None:
    """20,000 records: every share within 5 standard errors of the exact conditional; those of all records are not."""
    size, rng = 20_000, np.random.default_rng(1)
    codes = network.sample_codes_given(size, rng, {"ill": [1], "sex": [0]})
    assert set(codes["ill"]) == {1}
    assert set(codes["sex"]) == {0}
    exact = network.marginal(["age"], {"ill": 1, "sex": 0})
    seen = np.bincount(codes["age"], minlength=5) / size
    errors = np.sqrt(exact * (1 - exact) / size)
    assert np.all(np.abs(seen - exact) < 5 * errors)
    assert not np.all(np.abs(network.marginal(["age"]) - exact) < 5 * errors)


@pytest.mark.parametrize("kind", ["network", "naive Bayes", "release"])
def test_every_model_draws_given_labels_and_edges(network: Any, kind: str) -> None:
    from simplexdp.synthetic import synthetic_records

    model = {
        "network": lambda: network,
        "naive Bayes": lambda: fit_naive_bayes(ROWS, SCHEMA, "ill", ["age", "smoker"], budget=BUDGET, entropy=1),
        "release": lambda: release_distribution(ROWS, SCHEMA, ["age", "ill"], budget=BUDGET, entropy=1),
    }[kind]()
    rows = synthetic_records(model, 500, seed=1, given={"age": (18, 45), "ill": "yes"}).read_all()
    assert set(rows["ill"].to_pylist()) == {"yes"}
    assert 18 <= min(rows["age"].to_pylist()) <= max(rows["age"].to_pylist()) < 45
    with pytest.raises(InvalidArgument, match="columns of the model"):
        synthetic_records(model, 5, given={"nobody": 1})


def test_records_given_nothing_or_everything_are_those_of_the_network(network: Any) -> None:
    rng = np.random.default_rng(2)
    everything = {"age": [2], "smoker": [0], "ill": [1], "sex": [1]}
    codes = network.sample_codes_given(3, rng, everything)
    assert {name: set(cells) for name, cells in codes.items()} == {name: set(c) for name, c in everything.items()}
    free = network.sample_codes_given(20_000, rng, {})
    assert np.abs(np.bincount(free["age"]) / 20_000 - network.marginal(["age"])).max() < 0.02


def test_replicates_differ_by_noise_and_sampling() -> None:
    """The spread of 40 sets is about the standard error of the answer (between half and twice: p < 1e-5)."""
    fitted = BayesianNetwork({"ill": ["smoker"]}, SCHEMA, budget=Budget(epsilon=0.2, delta=1e-6), entropy=3).fit(ROWS)
    sets = fitted.sample(20_000, replicates=40, seed=1)
    assert len(sets) == 40
    shares_of = [np.mean(rows["ill"].to_numpy(zero_copy_only=False) == "yes") for rows in sets]
    _, error, low, high = combine(shares_of)
    answer = fitted.model.query({"ill": "yes"})
    assert 0.5 < error / answer.standard_error[0] < 2
    assert low < answer.estimate[0] < high


def test_a_table_for_an_analysis_is_bought() -> None:
    settings: dict[str, Any] = {"budget": BUDGET, "entropy": 1}
    fitted = BayesianNetwork({"ill": ["smoker"], "sex": ["age"]}, SCHEMA, for_analysis=[("ill", "age")], **settings)
    assert ("age", "ill") in fitted.tables.columns
    answer = fitted.fit(ROWS).model.query("ill", given=["age"], strict=True)
    assert answer.ground == "released"
    with pytest.raises(InvalidArgument, match="columns of the model"):
        BayesianNetwork({"ill": ["smoker"]}, SCHEMA, for_analysis=[("ill", "agee")])


def test_what_is_planned_for_an_analysis_is_what_a_fit_buys() -> None:
    graph, wanted = {"ill": ["smoker"], "sex": ["age"]}, [("ill", "age", "smoker"), ("sex", "age")]
    fitted = BayesianNetwork(graph, SCHEMA, budget=BUDGET, for_analysis=wanted, entropy=1)
    planned = plan(BayesianNetwork(graph, SCHEMA, budget=BUDGET).recipe, budget=BUDGET, for_analysis=wanted, total=4000)
    bought = [release.columns for release in fitted.fit(ROWS).model.releases]
    assert [table.columns for table in planned.tables] == bought
    assert ("age", "smoker", "ill") in bought
    assert bought.count(("age", "sex")) == 1  # a family has it already
    tables = plan([["ill"], ["age", "sex"]], schema=SCHEMA, budget=BUDGET, for_analysis=[["sex", "ill"], ["sex"]])
    assert [table.columns for table in tables.tables] == [("ill",), ("age", "sex"), ("ill", "sex")]
    with pytest.raises(InvalidArgument, match="for_analysis"):
        plan([2, 3], budget=BUDGET, for_analysis=[["a"]])
    with pytest.raises(InvalidArgument, match="for_analysis"):
        plan(NaiveBayesRecipe.of(SCHEMA, "ill"), budget=BUDGET, for_analysis=[["age", "sex"]])


def test_a_learned_model_is_asked_as_it_is_drawn_from() -> None:
    """Answers given the graph have the factors of raked pairs in them; strict refuses them as those of networks."""
    chain = BayesianNetwork({"smoker": ["age"], "ill": ["smoker"], "sex": ["ill"]}, SCHEMA, budget=BUDGET, entropy=3)
    plain = chain.fit(ROWS).model
    factors = {("age", "sex"): np.random.default_rng(1).uniform(0.5, 2, (5, 2))}
    parts: dict[str, Any] = {"graph": plain.graph, "schema": SCHEMA, "releases": plain.releases, "tables": plain.tables}
    scale = math.log(float((plain.marginal(["age", "sex"]) * factors["age", "sex"]).sum()))
    model = SynthesisModel(factors=factors, log_scale=scale, **parts)
    answer = model.query(["age", "sex"])
    assert answer.ground == "given the graph"
    np.testing.assert_allclose(answer.estimate, model.marginal(["age", "sex"]).ravel(), atol=1e-12)
    assert np.abs(answer.estimate - plain.query(["age", "sex"]).estimate).max() > 0.01
    assert model.query(["age", "smoker"]).ground == "released"
    with pytest.raises(Infeasible, match="for_analysis"):
        model.query(["age", "sex"], strict=True)


def test_impossible_cells_have_no_mass_in_answers_and_records() -> None:
    schema = Schema(SCHEMA.columns, never=[{"smoker": "yes", "ill": "yes"}])
    model = BayesianNetwork({"ill": ["smoker"]}, schema, budget=BUDGET, entropy=3).fit(ROWS).model
    answer = model.query(["smoker", "ill"])
    assert (answer.estimate[3], answer.low[3], answer.high[3]) == (0, 0, 0)
    assert model.query("ill", given={"smoker": "yes"}).estimate.tolist() == pytest.approx([1, 0])
    codes = model.sample_codes_given(2000, np.random.default_rng(1), {"smoker": [1]})
    assert not codes["ill"].any()
