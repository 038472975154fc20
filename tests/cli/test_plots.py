"""Pictures show the numbers they are made of, and reports hold everything they show."""

from __future__ import annotations

import math
import sys

import numpy as np
import pytest

from simplexdp import Budget, Gaussian, Laplace, Release, plots, release
from simplexdp.errors import InvalidArgument, MissingExtra
from simplexdp.models.bayesian_network import BayesianNetworkModel
from simplexdp.models.naive_bayes import NaiveBayesModel
from simplexdp.report import Section, Table, page

COUNTS = [119, 74, 618, 272, 13, 187]


@pytest.fixture
def published() -> Release:
    return release(COUNTS, budget=Budget(epsilon=1, delta=1e-5), entropy=1)


def test_bars_are_the_probabilities_and_whiskers_the_intervals(published):
    (axis,) = plots.distribution(published, level=0.9).axes
    assert [bar.get_width() for bar in axis.patches] == published.probabilities.tolist()
    lower, upper = published.intervals(0.9)
    segments = np.array(axis.collections[0].get_segments())
    np.testing.assert_allclose(segments[:, 0, 0], np.minimum(lower, published.probabilities))
    np.testing.assert_allclose(segments[:, 1, 0], np.maximum(upper, published.probabilities))


def test_only_the_largest_of_many_cells_are_drawn():
    figure = plots.bars([f"c{i}" for i in range(100)], np.arange(100.0), cells=7)
    (axis,) = figure.axes
    assert [label.get_text() for label in axis.get_yticklabels()] == [f"c{i}" for i in range(99, 92, -1)]
    assert "7 largest of 100" in axis.get_xlabel()


def test_two_columns_are_a_map(published):
    table = release(np.arange(20).reshape(4, 5), budget=Budget(epsilon=1, delta=1e-5), entropy=1)
    figure = plots.distribution(table)
    np.testing.assert_array_equal(figure.axes[0].images[0].get_array(), table.probabilities)


def test_the_profile_is_the_exact_one():
    gaussian, laplace = Gaussian(sigma=5.0).loss(), Laplace(scale=2.0).loss()
    (axis,) = plots.privacy_profile({"gaussian": gaussian, "laplace": laplace}, points=9).axes
    for line, loss in zip(axis.lines, (gaussian, laplace), strict=True):
        for epsilon, delta in zip(*line.get_data(), strict=True):
            assert delta == max(loss.delta(float(epsilon)), 1e-13)
    assert axis.lines[1].get_ydata()[-1] == 1e-13  # the pure guarantee ends in a cliff
    assert axis.lines[1].get_xdata()[-1] == pytest.approx(1.0, rel=1e-6)


def test_exact_counts_have_no_profile():
    table = release(COUNTS, budget=None, mechanism="none")
    (axis,) = plots.privacy_profile({"none": table.loss}).axes
    assert not axis.lines
    assert "no guarantee" in axis.texts[0].get_text()


def test_comparisons_and_curves_hold_their_numbers():
    (axis,) = plots.comparison(["a", "b"], {"x": [1, 2], "y": [3, 4]}, errors={"x": [0.1, 0.1]}).axes
    assert [bar.get_height() for bar in axis.patches] == [1, 2, 3, 4]
    (axis,) = plots.curves([1, 2], {"x": [5, 6]}, level_lines={"none": 7}).axes
    assert axis.lines[0].get_ydata().tolist() == [5, 6]
    assert any(list(line.get_ydata()) == [7, 7] for line in axis.lines)


def test_pictures_are_the_same_each_time(published):
    one, other = (plots.save(plots.distribution(published), "svg") for _ in range(2))
    assert one == other
    with pytest.raises(InvalidArgument, match="png, svg, pdf"):
        plots.save(plots.distribution(published), "gif")


def test_the_chart_for_notebooks_has_every_cell(published):
    found = plots.chart(published).to_dict()
    values = found["data"]["values"]
    assert [row["probability"] for row in values] == published.probabilities.tolist()
    assert all(row["lower"] <= row["upper"] for row in values)


@pytest.mark.parametrize(("package", "draw"), [("matplotlib", plots.distribution), ("altair", plots.chart)])
def test_a_missing_package_is_named_with_its_extra(published, monkeypatch, package, draw):
    for name in [name for name in sys.modules if name.split(".")[0] == package]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingExtra, match=r"simplexdp\[plots\]"):
        draw(published)


def test_a_page_escapes_everything():
    evil = "<b>&\"'"
    section = Section(
        heading=evil,
        text=[evil],
        items=[evil],
        table=Table(columns=[evil], rows=[[evil]], note=evil),
        figures=[(plots.bars([evil], [1.0], title=evil), evil)],
        badge=False,
    )
    text = page(evil, [section], lead=evil)
    assert "<b>" not in text
    assert "&lt;b&gt;&amp;" in text
    assert "NOT PRIVATE" in text


def test_information_is_mutual_information(trained):
    naive, network = NaiveBayesModel.read("nb.json"), BayesianNetworkModel.read("bn.json")
    joint = naive.class_probabilities[:, None] * naive.conditionals[0]
    expected = np.sum(joint * np.log(joint / np.outer(joint.sum(axis=1), joint.sum(axis=0))))
    assert naive.information[naive.features[0]] == pytest.approx(expected, rel=1e-9)
    found = network.information
    joint = network.marginal(["smoker", "ill"])
    expected = np.sum(joint * np.log(joint / np.outer(joint.sum(axis=1), joint.sum(axis=0))))
    assert found["ill"] == pytest.approx(expected, rel=1e-9)
    assert found["smoker"] == 0.0
    assert all(math.isfinite(value) for value in found.values())
