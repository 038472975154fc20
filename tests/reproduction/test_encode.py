"""The published discretisation to the letter, and the one that reads public rows only."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from reproduction.datasets import Table, generate
from reproduction.encode import public_columns, published_columns, split
from reproduction.graphs import GRAPHS
from reproduction.problems import NaiveBayes, naive_bayes, network


def test_the_split_is_that_of_scikit_learn() -> None:
    selection = pytest.importorskip("sklearn.model_selection")
    for rows in (10, 101, 1000):
        train, test = selection.train_test_split(np.arange(rows), test_size=0.3, random_state=1)
        mine = split(rows)
        assert np.array_equal(mine[0], train)
        assert np.array_equal(mine[1], test)


def table_of(values: list[str], *, numeric: bool) -> Table:
    table = generate("GermanCredit", rows=len(values))
    return replace(table, columns=table.columns | {"age": np.array(values)}, numeric=table.numeric | {"age": numeric})


def test_published_bins_keep_frequent_values_and_lose_the_lowest_bin() -> None:
    # 60 zeros are more than a third of the training rows; 1 ... 40 are binned by deciles.
    train_values = [0.0] * 60 + [float(i) for i in range(1, 41)]
    test_values = [0.0, 1.0, 4.0, 5.0, 40.0, 40.5]
    table = table_of([str(v) for v in train_values + test_values], numeric=True)
    train, test = np.arange(100), np.arange(100, 106)
    (column,) = published_columns(table, ["age"], train, test)
    assert column.size == 11
    assert column.train[:60].tolist() == [0] * 60
    assert np.bincount(column.train).tolist() == [60] + [4] * 10
    assert column.train[60:64].tolist() == [1] * 4
    # The zero is found, 1 and 4 are in the misnamed lowest bin, 5 and 40 are found, 40.5 was never seen.
    assert column.test.tolist() == [0, -1, -1, 2, 10, -1]


def test_published_categories_are_those_of_the_training_rows() -> None:
    table = table_of(["a", "b", "a", "c"] * 3, numeric=False)
    (column,) = published_columns(table, ["age"], np.array([0, 1, 2]), np.array([3, 4]))
    assert (column.size, column.test.tolist()) == (2, [-1, 0])
    assert published_columns(table, ["age"], np.array([0, 2]), np.array([1])) == []


def test_public_cells_do_not_depend_on_private_rows() -> None:
    values = ["a", "b", "a", "b", "x", "y", "a", "z", "b", "a"]
    public, train, test = np.arange(4), np.arange(4, 8), np.arange(8, 10)
    (column,) = public_columns(table_of(values, numeric=False), ["age"], public, train, test)
    assert column.size == 3
    assert column.train.tolist() == [2, 2, 0, 2]  # x, y and z share the cell "other"
    changed = [*values[:4], "new", "b", "a", "b", *values[8:]]
    (other,) = public_columns(table_of(changed, numeric=False), ["age"], public, train, test)
    assert other.size == column.size
    assert np.array_equal(other.test, column.test)


def test_naive_bayes_counts_every_training_record_once_a_table() -> None:
    problem = naive_bayes(generate("Thyroid", rows=200), published=False)
    sums = problem.tables.table_sums(problem.tables.counts)
    assert np.all(sums == problem.tables.total)
    assert problem.tables.shares == len(sums) == 22
    assert problem.tables.total == 126  # 140 training rows, a tenth of them public


def test_the_published_class_counts_are_k_times_too_large() -> None:
    problem = naive_bayes(generate("Thyroid", rows=200), published=True)
    sums = problem.tables.table_sums(problem.tables.counts)
    assert sums[-1] == (len(sums) - 1) * sums[0]


def test_networks_have_a_table_a_node_and_the_published_slip() -> None:
    table = generate("SouthGermanCredit", rows=200)
    correct = network(table, GRAPHS["SouthGermanCredit"], published=False)
    slipped = network(table, GRAPHS["SouthGermanCredit"], published=True)
    assert correct.tables.shares == len(correct.tables.table_starts) == 14
    assert slipped.tables.shares == 3
    assert np.all(slipped.tables.counts > 0)
    assert np.all(correct.tables.table_sums(correct.tables.counts) == correct.tables.total)
    assert correct.test_counts.sum() == 14 * 60


def brute_force(problem: NaiveBayes, probabilities: np.ndarray) -> float:
    """Cross-entropy by loops over records and attributes."""
    tables, total = problem.tables, 0.0
    sizes = tables.table_sizes[:-1] // problem.classes
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    dense = problem.test.toarray()
    for record, label in zip(dense, problem.labels, strict=True):
        scores = np.log(probabilities[-problem.classes :]).copy()
        for k, start in enumerate(tables.table_starts[:-1]):
            hit = np.flatnonzero(record[offsets[k] : offsets[k + 1]])
            for j in range(problem.classes):
                if len(hit):
                    scores[j] += np.log(probabilities[start + j * sizes[k] + hit[0]])
        chances = np.exp(scores - scores.max())
        total -= np.log(chances[label] / chances.sum() + 1e-20)
    return total / len(problem.labels)


@pytest.mark.parametrize("published", [False, True])
def test_evaluation_agrees_with_brute_force(published: bool) -> None:
    problem = naive_bayes(generate("Thyroid", rows=120), published=published)
    probabilities = problem.tables.normalise(np.random.default_rng(1).random(problem.tables.cells) + 0.01)
    found = problem.evaluate(probabilities[None])
    assert found["cross-entropy"][0] == pytest.approx(brute_force(problem, probabilities), rel=1e-12)


def test_ties_count_as_a_random_choice() -> None:
    problem = naive_bayes(generate("Digit", rows=200), published=False)
    uniform = problem.tables.normalise(np.ones((1, problem.tables.cells)))
    found = problem.evaluate(uniform)
    assert found["accuracy"][0] == pytest.approx(0.1)
    assert found["cross-entropy"][0] == pytest.approx(np.log(10))
