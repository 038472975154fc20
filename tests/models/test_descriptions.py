"""What a model says: the same sections everywhere, and names that siblings share."""

from __future__ import annotations

import html
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError
from test_models_same_bytes import BUDGET, SCHEMA, fitted, rows

from simplexdp import BayesianNetwork, Budget, Model, NaiveBayes, plots, release
from simplexdp.errors import InvalidArgument
from simplexdp.models.agreement import agreement_section, compared
from simplexdp.models.sections import Bars, Diagram, Groups, HeatMap, conditional_section
from simplexdp.naive_bayes import encode_batches, predict_batches
from simplexdp.report import budget_split, model_report

NAMES = ("distribution", "naive Bayes", "merged bins", "network")


@pytest.mark.parametrize("name", NAMES)
def test_the_report_holds_every_section_of_the_description(name: str) -> None:
    model = fitted(name)
    assert isinstance(model, Model)
    text = html.unescape(model_report(model))
    parts = [*model.describe(), *(part for each in model.details for part in model.describe(column=each))]
    agreement = agreement_section(model)
    assert agreement is not None
    parts.append(agreement)
    for part in parts:
        assert f"<h2>{part.heading}</h2>" in text
        for name, *cells in part.table.rows if part.table else ():
            assert f'<th scope="row">{name}</th>' + "".join(f"<td>{cell}</td>" for cell in cells) in text
        for said in [*part.text, *part.items, *(label for _, label in part.figures)]:
            assert said in text
    split = budget_split(model) is not None
    assert text.count("<svg ") == sum(len(part.figures) for part in parts) + 1 + split  # the privacy profile
    assert "<img " not in text


def test_merged_bins_are_named_in_the_report() -> None:
    assert "b (4 of 8 cells)" in model_report(fitted("merged bins"))
    assert "merged before" not in model_report(fitted("naive Bayes"))


@pytest.mark.parametrize("name", NAMES)
def test_most_cuts_every_table(name: str) -> None:
    model = fitted(name)
    for part in model.describe(most=2):
        assert part.table is None or len(part.table.rows) == 2
    for wrong in ({"most": 0}, {"level": 1.0}, {"level": True}):
        with pytest.raises(InvalidArgument):
            model.describe(**wrong)


@pytest.mark.parametrize("name", NAMES)
def test_one_column_of_a_model(name: str) -> None:
    model = fitted(name)
    if name == "distribution":
        with pytest.raises(InvalidArgument, match="left out for a release"):
            model.describe(column="a")
        return
    (part,) = model.describe(column="d")
    assert part.heading == ("P(d | a × e)" if name == "network" else "P(d | e)")
    table = model.tables["d"] if name == "network" else model.conditionals[model.features.index("d")]
    shown = np.array([[float(cell.split()[0]) for cell in row[1:]] for row in part.table.rows])
    np.testing.assert_allclose(shown, table.reshape(-1, 2), atol=5.1e-5)
    picture = model.picture(column="d")
    assert isinstance(picture, Groups)
    np.testing.assert_array_equal(list(picture.series.values()), table.reshape(-1, 2))
    with pytest.raises(InvalidArgument, match="column"):
        model.describe(column="nothing")


def test_pictures_are_drawn_from_what_they_hold() -> None:
    table, network = fitted("distribution").picture(), fitted("network").picture()
    assert isinstance(table, HeatMap)
    np.testing.assert_array_equal(plots.figure(table).axes[0].images[0].get_array(), table.values)
    assert isinstance(network, Diagram)
    (axis,) = plots.figure(network).axes
    assert [text.get_text() for text in axis.texts if text.get_text()] == list(network.nodes)
    assert plots.figure(axis.figure) is axis.figure
    assert isinstance(release([5, 6, 7], budget=BUDGET).picture(), Bars)


def test_a_column_of_many_cells_has_a_picture_that_fits_a_page() -> None:
    groups = Groups(labels=[f"c{i}" for i in range(2000)], series={f"s{i}": np.ones(2000) for i in range(3)})
    figure = plots.figure(groups)
    assert figure.get_size_inches()[0] <= 24
    (axis,) = figure.axes
    assert len(axis.patches) == 6000
    assert [label.get_text() for label in axis.get_xticklabels()] == [f"c{i}" for i in range(0, 2000, 50)]


# -- names --------------------------------------------------------------------------------------------------------


@cache
def estimators() -> tuple[Any, Any]:
    bayes = NaiveBayes(schema=SCHEMA, target="e", random_state=1).fit_source(rows())
    return bayes, BayesianNetwork([("e", "d")], SCHEMA, entropy=1).fit(rows())


def test_siblings_say_the_same_by_the_same_names() -> None:
    for fit in estimators():
        assert isinstance(fit.model, Model)
        assert fit.certificate() == fit.model.certificate()
        assert fit.sample(5, seed=1).num_rows == 5
        assert fit.sample(5, seed=1).equals(fit.sample(5, seed=1))
    bayes, _ = estimators()
    assert bayes.model is bayes.model_
    assert bayes.certificate() == bayes.certificate_
    for ask in (lambda new: new.model, lambda new: new.certificate(), lambda new: new.sample(5)):
        with pytest.raises(NotFittedError):
            ask(NaiveBayes(schema=SCHEMA))


def test_naive_bayes_predicts_by_the_name_that_networks_have() -> None:
    model, batches = fitted("naive Bayes"), rows().slice(0, 200).combine_chunks().to_batches()
    (codes,), (expected,) = encode_batches(model, batches), predict_batches(model, batches)
    named = dict(zip(model.features, codes, strict=True))
    np.testing.assert_array_equal(model.predict("e", named), expected)
    np.testing.assert_array_equal(model.predict("e", dict(reversed(named.items()))), expected)
    np.testing.assert_array_equal(model.predict("e", np.column_stack(codes)), expected)
    with pytest.raises(InvalidArgument, match="the class of this model"):
        model.predict("a", named)
    with pytest.raises(InvalidArgument, match="also of 'a'"):
        model.predict("e", {name: code for name, code in named.items() if name != "a"})


def test_the_report_begins_with_the_verdict_and_says_what_it_leaves_out() -> None:
    made = release([119, 74, 618], budget=Budget(epsilon=1.0, delta=1e-5))
    page = model_report(made)
    assert 0 < page.index("(1, 1e-05)-DP for one row, replace-one. N = 811 (public).") < page.index("<h2>")
    assert "prefers-color-scheme: dark" in page
    section = conditional_section("c", ("p",), np.full((40, 3), 1 / 3), None, None)
    assert section.table is not None
    assert section.table.note == "30 of 40 are shown"
    assert section.figures[0][0].title.endswith(": 8 of 40 are shown")
    assert "are shown" not in str(conditional_section("c", ("p",), np.full((5, 3), 1 / 3), None, None))


# -- intervals and what they say -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["naive Bayes", "network"])
def test_conditional_tables_have_the_intervals_of_the_answers(name: str) -> None:
    model = fitted(name)
    (part,) = model.describe(column="d", level=0.8)
    answer = model.query("d", given=["a", "e"] if name == "network" else ["e"], level=0.8)
    assert part.table is not None
    shown = [cell.split()[1] for row in part.table.rows for cell in row[1:]]
    expected = [f"({low:.4f}–{high:.4f})" for low, high in zip(answer.low, answer.high, strict=True)]
    assert shown == expected[: len(shown)]


def test_rows_that_hardly_anything_is_known_of_are_marked() -> None:
    bounds = np.array([[0.4, 0.3], [0.1, 0.0]]), np.array([[0.6, 0.6], [0.7, 0.9]])
    part = conditional_section("c", ("p",), np.full((2, 2), 0.5), None, None, bounds)
    assert part.table is not None
    assert [row[0] for row in part.table.rows] == ["1", "2 ?"]
    assert "1 of 2" in part.table.note


def test_records_of_the_model_agree_with_the_release_and_others_do_not() -> None:
    model = fitted("network")
    for each in compared(model, size=5000):
        assert each.sampled.sum() == pytest.approx(1)
        assert each.inside > 0.8
    section = agreement_section(model)
    assert section is not None
    assert section.heading == "The sample agrees with the release"
    wrong = replace(model, tables={node: np.full_like(t, 1 / t.shape[-1]) for node, t in model.tables.items()})
    other = agreement_section(wrong)
    assert other is not None
    assert other.heading == "The sample departs from the release"
    assert agreement_section(release([5, 6, 7], budget=BUDGET)) is None
