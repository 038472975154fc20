"""Private quantile edges: the price is what OpenDP's maps say, too, it covers all choices, and the edges fit."""

import itertools
import math
from fractions import Fraction

import numpy as np
import opendp.prelude as dp
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from simplexdp import Budget, release_tables
from simplexdp.errors import InvalidArgument, SchemaError, SourceError
from simplexdp.fitting.edges import NoisyChoices
from simplexdp.quantiles import choose_points, plan_quantiles, resolve, resolve_quantiles
from simplexdp.sampling import SecureEntropy, SeededEntropy
from simplexdp.sampling.choice import permute_and_flip
from simplexdp.schema import Categories, Numeric, Quantiles, Schema

SCHEMA = Schema.of(x=Quantiles(10, lower=0, upper=100), sex=["f", "m"])
ROWS = pa.table({"x": np.random.default_rng(7).normal(50, 10, 100_000)})


def best(scores, sensitivity):
    return int(scores.argmin())


def choices(table, bins):
    """Every choice that can come up: the scores and their sensitivity, keyed by the choices before it."""
    found = {}

    def follow(script):
        steps = []

        def select(scores, sensitivity):
            step = len(steps)
            found[tuple(steps)] = scores, sensitivity
            steps.append(script[step] if step < len(script) else 0)
            if step >= len(script):
                options.append((*steps[:-1], len(scores)))
            return steps[-1]

        options = []
        points = choose_points(table, bins, select)
        return tuple(steps), points, options

    outcomes, todo, seen = {}, [()], set()
    while todo:
        script = todo.pop()
        steps, points, options = follow(script)
        outcomes[steps] = points
        for *prefix, size in options:
            for index in range(1, size):
                branch = (*prefix, index)
                if branch not in seen:
                    seen.add(branch)
                    todo.append(branch)
    return outcomes, found


def log_chosen(scores, scale):
    """Exact log-probability of each candidate under permute and flip: an average over who else has heads."""
    flips = np.exp(-(scores - scores.min()) / scale)
    chosen = []
    for place, own in enumerate(flips):
        law = np.ones(1)  # of the number of other heads
        for other in np.delete(flips, place):
            law = np.convolve(law, [1 - other, other])
        chosen.append(math.log(own * (law / np.arange(1, len(law) + 1)).sum()))
    return chosen


def log_probabilities(table, bins, level, shrink=1.0):
    """Exact log-probability of every outcome if each choice costs ε = `level`.

    `shrink` below 1 is a control that understates the sensitivity.
    """
    outcomes, found = choices(np.array(table), bins)
    chosen = {steps: log_chosen(s, 2 * sensitivity * shrink / level) for steps, (s, sensitivity) in found.items()}
    return {
        tuple(points): sum(chosen[steps[:i]][index] for i, index in enumerate(steps))
        for steps, points in outcomes.items()
    }


def worst_loss(bins, cells, replace, shrink=1.0):
    level, worst = 0.5, 0.0
    for table in itertools.product(range(3), repeat=cells):
        first = log_probabilities(table, bins, level, shrink)
        assert math.isclose(sum(map(math.exp, first.values())), 1)
        for i in range(cells):
            added = [count + (j == i) for j, count in enumerate(table)]
            others = [added]
            if replace:
                others = [[c - (j == k) for j, c in enumerate(added)] for k in range(cells) if table[k]]
            for other in others:
                second = log_probabilities(other, bins, level, shrink)
                worst = max(worst, *(abs(first[key] - second[key]) for key in first))
    return worst / level


@pytest.mark.slow
@pytest.mark.parametrize(("bins", "levels"), [(2, 1), (3, 2), (4, 2)])
def test_levels_times_the_price_of_a_choice_is_enough(bins, levels):
    assert worst_loss(bins, 5, replace=False) <= levels + 1e-9
    assert worst_loss(bins, 5, replace=False, shrink=0.25) > levels  # the control: scores move more than stated


def test_replacing_a_row_costs_at_most_twice():
    loss = worst_loss(3, 4, replace=True)
    assert worst_loss(3, 4, replace=False) < loss <= 4 + 1e-9


@given(st.lists(st.integers(0, 5), min_size=2, max_size=12), st.integers(2, 12), st.data())
def test_scores_move_by_no_more_than_the_sensitivity(table, bins, data):
    bins = min(bins, len(table))
    fewer = np.array(table)
    more = fewer.copy()
    more[data.draw(st.integers(0, len(table) - 1))] += 1
    queries = []

    def choose(scores, sensitivity):
        index = data.draw(st.integers(0, len(scores) - 1))
        queries.append((scores, sensitivity, index))
        return index

    points = choose_points(fewer, bins, choose)
    assert points[0] == 0
    assert points[-1] == len(table)
    assert len(points) == bins + 1
    assert all(low < high for low, high in itertools.pairwise(points))
    script = iter(queries)
    touched = []

    def follow(scores, sensitivity):
        before, same, index = next(script)
        assert same == sensitivity
        moved = np.abs(scores - before).max()
        assert moved <= sensitivity
        touched.append(moved > 0)
        return index

    assert choose_points(more, bins, follow) == points
    assert sum(touched) <= (bins - 1).bit_length()


def test_without_noise_the_edges_are_the_quantiles():
    table = np.random.default_rng(3).integers(0, 20, 500)
    points = choose_points(table, 8, best)
    counts = [table[low:high].sum() for low, high in itertools.pairwise(points)]
    assert max(counts) - min(counts) <= 60  # a cell has at most 19 rows, and a choice can be off by one cell
    assert choose_points(np.zeros(5, dtype=int), 5, best) == [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize(("neighbours", "factor"), [("add-remove", 1), ("replace-one", 2)])
@pytest.mark.parametrize("rows", [1, 3])
@pytest.mark.parametrize("bins", [2, 5, 10])
def test_price_is_what_opendp_says(neighbours, factor, rows, bins):
    epsilon = 0.7
    schema = Schema.of(x=Quantiles(bins, lower=0, upper=100))
    found = resolve_quantiles(schema, ROWS, epsilon=epsilon, neighbours=neighbours, rows_per_person=rows)
    levels, sensitivity = math.ceil(math.log2(bins)), bins - bins // 2
    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T="u64")), dp.linf_distance(T="u64")
    scale = 2 * sensitivity * levels * rows * factor / epsilon
    choice = dp.m.make_noisy_max(*space, dp.max_divergence(), scale=scale, negate=True)
    expected = levels * choice.map(sensitivity * rows * factor)
    assert math.isclose(found.epsilon_spent, expected, rel_tol=1e-8)
    assert found.epsilon_spent <= epsilon
    assert found.neighbours == neighbours


def test_shares_divide_the_price():
    schema = Schema.of(x=Quantiles(4, lower=0, upper=1, share=0.1), y=Quantiles(9, lower=0, upper=1, share=0.3), z=[1])
    rows = pa.table({"x": [0.5], "y": [0.5]})
    found = resolve_quantiles(schema, rows, epsilon=1.0, neighbours="add-remove")
    assert found.epsilons == pytest.approx({"x": 0.25, "y": 0.75}, rel=1e-9)
    assert sum(found.epsilons.values()) <= found.epsilon_spent <= 1.0
    assert found.schema.names == schema.names
    assert found.schema.shape() == schema.shape()
    assert found.schema.unresolved == ()
    assert found.schema["z"] == Categories([1], name="z")


@pytest.mark.parametrize("convert", [lambda t: t, pa.Table.to_pandas, pl.from_arrow, pa.Table.to_reader])
def test_edges_are_close_to_the_quantiles(convert):
    # ε = 2 over 4 levels is a scale of at most 2 · 5 · 4 / 2 = 20 in score, and a row off is at least 1 in
    # score: among 1000 candidates, any of 9 choices is more than 20 (ln 1000 + 25) < 650 rows off with
    # probability below 9 e⁻²⁵ < 2e-10, and the errors of 4 levels add up to less than 2600.
    found = resolve_quantiles(SCHEMA, convert(ROWS), epsilon=2.0, neighbours="add-remove")
    column = found.schema["x"]
    assert isinstance(column, Numeric)
    assert (column.edges[0], column.edges[-1], column.bins) == (0, 100, 10)
    assert (column.outside, column.missing) == ("nearest", "refuse")
    below = np.searchsorted(np.sort(ROWS["x"].to_numpy()), column.edges[1:-1])
    wanted = np.arange(1, 10) * 10_000
    # A grid cell of 0.1 holds at most 400 rows or so.
    assert np.abs(below - wanted).max() < 2600 + 400


def test_noise_depends_on_epsilon():
    # With ε = 1e-6 all grid points are about as likely; all nine edges come close with probability < 1e-6.
    found = resolve_quantiles(SCHEMA, ROWS, epsilon=1e-6, neighbours="replace-one")
    below = np.searchsorted(np.sort(ROWS["x"].to_numpy()), found.schema["x"].edges[1:-1])
    assert np.abs(below - np.arange(1, 10) * 10_000).max() > 3000


def test_missing_and_outside_values_do_not_count():
    numbers = [float("nan"), None, *([1e9] * 5000), *np.linspace(0, 10, 2000)]
    for outside, expected in (("cell", 5.0), ("nearest", 10.0)):
        schema = Schema.of(x=Quantiles(2, lower=0, upper=10, outside=outside, missing="cell"))
        rows = pa.table({"x": pa.array(numbers, pa.float64())})
        # Scale 2 · 1 / 20 = 0.1: a choice more than 10 rows off has probability below 1000 e⁻¹⁰⁰.
        column = resolve_quantiles(schema, rows, epsilon=20, neighbours="add-remove").schema["x"]
        assert abs(column.edges[1] - expected) < 0.2
        assert (column.outside, column.missing) == (outside, "cell")


@pytest.mark.parametrize("kind", [pa.int8(), pa.uint64(), pa.float32(), pa.float64(), pa.decimal128(5, 2)])
def test_numeric_types(kind):
    rows = pa.table({"x": pa.array([*range(100), None], pa.float64()).cast(kind)})
    schema = Schema.of(x=Quantiles(2, lower=0, upper=100))
    edge = resolve_quantiles(schema, rows, epsilon=50, neighbours="add-remove").schema["x"].edges[1]
    assert abs(edge - 49.5) < 5  # scale 0.04: five rows off has probability below 1000 e⁻¹²⁵


def test_price_is_known_before_a_row_is_read():
    plan = plan_quantiles(SCHEMA, epsilon=0.3, neighbours="replace-one")
    found = resolve(plan, ROWS)
    assert 0.29 < plan.epsilon_spent == found.epsilon_spent <= 0.3
    assert plan.epsilons == found.epsilons
    assert found.schema.shape() == SCHEMA.shape()


def test_nothing_to_resolve():
    schema = Schema.of(a=[1])
    found = resolve_quantiles(schema, None, epsilon=1, neighbours="add-remove")
    assert (found.schema, found.epsilon_spent, dict(found.epsilons)) == (schema, 0.0, {})


def test_no_rows_at_all():
    rows = pd.DataFrame({"x": np.array([], dtype=float)})
    edges = resolve_quantiles(SCHEMA, rows, epsilon=1, neighbours="add-remove").schema["x"].edges
    assert len(edges) == 11


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"epsilon": 0}, InvalidArgument, "epsilon"),
        ({"epsilon": float("nan")}, InvalidArgument, "epsilon"),
        ({"epsilon": float("inf")}, InvalidArgument, "epsilon"),
        ({"epsilon": 5e-324}, InvalidArgument, "epsilon"),
        ({"neighbours": "both"}, InvalidArgument, "neighbours"),
        ({"candidates": 9}, InvalidArgument, "at least the 10 bins of 'x'"),
        ({"candidates": 10**6}, InvalidArgument, "at most 100000"),
        ({"candidates": 100.5}, InvalidArgument, "candidates"),
        ({"rows_per_person": 0}, InvalidArgument, "rows_per_person"),
        ({"source": [1, 2]}, SourceError, "batch"),
        ({"source": pa.table({"y": [1]})}, SourceError, "x"),
        ({"source": pa.table([[1], [1]], names=["x", "x"])}, SourceError, "x"),
        ({"source": pa.table({"x": ["a"]})}, SourceError, "declared with numbers"),
        ({"source": pa.table({"x": [True]})}, SourceError, "declared with numbers"),
        (
            {"schema": Schema.of(x=Quantiles(10, lower=1, upper=1 + 1e-14))},
            SchemaError,
            "far enough above lower",
        ),
    ],
)
def test_refusals(change, error, message):
    arguments = {"schema": SCHEMA, "source": ROWS, "epsilon": 1, "neighbours": "add-remove"} | change
    with pytest.raises(error, match=message):
        resolve_quantiles(arguments.pop("schema"), arguments.pop("source"), **arguments)


@pytest.mark.slow
@pytest.mark.parametrize("scale", [Fraction(3), Fraction(40, 7)])
def test_choices_follow_the_law_of_permute_and_flip_and_of_opendp(scale):
    """χ² at 1e-9 with 20,000 choices on either side; twice the scale is rejected."""
    scores = np.array([5, 0, 3, 3, 11, 900], dtype=np.int64)
    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T="u64")), dp.linf_distance(T="u64")
    theirs = dp.m.make_noisy_max(*space, dp.max_divergence(), scale=float(scale), negate=True)
    drawn = np.bincount([theirs(scores.tolist()) for _ in range(20_000)], minlength=6)
    exact = np.exp(log_chosen(scores, float(scale)))
    assert math.isclose(exact.sum(), 1, rel_tol=1e-12)
    for factor, agrees in ((1, True), (2, False)):
        entropy = SeededEntropy(5)
        ours = np.bincount([permute_and_flip(scores, factor * scale, entropy) for _ in range(20_000)], minlength=6)
        assert ours[5] == 0  # its probability is below e⁻¹⁵⁰ with the first scale and e⁻⁷⁵ with twice that
        expected = 20_000 * exact[:5]
        assert (stats.chisquare(ours[:5], expected * ours[:5].sum() / expected.sum()).pvalue > 1e-9) == agrees
        assert (stats.chi2_contingency([ours[:5], drawn[:5]]).pvalue > 1e-9) == agrees


@given(st.integers(2, 5000), st.floats(1e-6, 1e6), st.integers(1, 50))
def test_the_price_is_close_below_what_was_asked(bins, epsilon, rows):
    choices = NoisyChoices.within(bins, epsilon, rows)
    exact_price = 2 * choices.times / choices.unit
    assert exact_price <= Fraction(epsilon)
    assert choices.epsilon >= exact_price
    if epsilon < 1000 and bins < 100:
        assert choices.epsilon > epsilon * (1 - 1e-7)
    assert max((bins - bins // 2) * choices.unit.numerator, choices.unit.denominator) <= 2**44


def test_a_seed_gives_the_same_edges():
    def edges(seed):
        schema = Schema.of(x=Quantiles(4, lower=0, upper=100, share=0.5))
        source = pa.table({"x": np.arange(100.0)})
        made = release_tables(
            source, schema, [["x"]], budget=Budget(epsilon=1, delta=1e-6), neighbours="add-remove", entropy=seed
        )
        return made.releases[0].schema["x"].edges

    assert edges(1) == edges(1) != edges(2)


def test_edges_are_refused_for_more_rows_of_a_person_than_they_are_priced_for():
    schema = Schema.of(v=Quantiles(4, lower=0, upper=100))
    rows = pa.table({"v": [1.0, 40.0, 80.0, 99.0] * 10, "who": [f"p{i // 4}" for i in range(40)]})
    plan = plan_quantiles(schema, epsilon=1, neighbours="add-remove")
    with pytest.raises(InvalidArgument, match="rows_per_person"):
        resolve(plan, rows, rows_per_person=4, person="who", entropy=SecureEntropy())
    dearer = plan_quantiles(schema, epsilon=1, neighbours="add-remove", rows_per_person=4)
    assert resolve(dearer, rows, rows_per_person=4, person="who", entropy=SecureEntropy()).schema.names == ("v",)
    with pytest.raises(InvalidArgument, match="entropy"):
        resolve(dearer, rows, rows_per_person=2, person="who", entropy=SeededEntropy(1))
