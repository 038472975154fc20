"""Reports: what stands first, structure for keyboards and screen readers, and each complaint of users about them."""

from __future__ import annotations

import itertools
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from simplexdp import BayesianNetwork, Budget, Ledger, Model, Numeric, Release, Schema, release, release_tables
from simplexdp.cli import run
from simplexdp.models.plain import chance, in_words, key_facts
from simplexdp.models.sections import Bars
from simplexdp.numerics.printed import printed
from simplexdp.report import budget_split, model_report, page, profile

BUDGET = Budget(epsilon=1.0, delta=1e-5)
SCHEMA = Schema.of(age=Numeric([0, 30, 60, 100]), smoker=["no", "yes"], ill=["no", "yes"], ward=["a", "b", "c"])
VOID = {"meta", "br", "img"}


class Outline(HTMLParser):
    """The elements of a page: it fails where one is not closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.seen.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: Any) -> None:
        self.seen.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attrs for each, attrs in self.seen if each == tag]


def rows(count: int = 400) -> pa.Table:
    rng = np.random.default_rng(3)
    smoker = rng.random(count) < 0.4
    return pa.table(
        {
            "age": rng.random(count) * 100,
            "smoker": np.where(smoker, "yes", "no"),
            "ill": np.where(rng.random(count) < 0.2 + 0.3 * smoker, "yes", "no"),
            "ward": rng.choice(["a", "b", "c"], count),
        }
    )


def network() -> Model:
    graph = {"smoker": ["age"], "ill": ["age", "smoker"], "ward": ["ill"]}
    return BayesianNetwork(graph, SCHEMA, budget=BUDGET).fit(rows()).model


@pytest.mark.slow
def test_a_report_is_for_keyboards_and_screen_readers() -> None:
    outline = Outline(model_report(network()))
    assert outline.all("html")[0]["lang"] == "en"
    assert len(outline.all("h1")) == len(outline.all("main")) == 1
    headings = [tag for tag, _ in outline.seen if tag in ("h1", "h2", "h3")]
    assert headings[0] == "h1"
    assert all(each["scope"] in ("col", "row") for each in outline.all("th"))
    assert len(outline.all("caption")) == len(outline.all("table")) > 0
    assert all(each["aria-label"] for each in outline.all("svg"))
    for region in [each for each in outline.all("div") if each.get("class") == "wide"] + outline.all("figure"):
        assert region["tabindex"] == "0"
        assert region["aria-label"]  # a region that scrolls can be reached and has a name
    ids = [each["id"] for _, each in outline.seen if "id" in each]
    assert len(ids) == len(set(ids))
    assert {each["href"] for each in outline.all("a")} <= {f"#{name}" for name in ids}


@pytest.mark.slow
def test_the_graph_of_a_network_is_drawn_and_conditional_rows_have_intervals() -> None:
    model = network()
    text = model_report(model)
    assert "Graph: The graph. Without parents: age. smoker from age; ill from age, smoker; ward from ill." in text
    (part,) = model.describe(column="ill")
    assert part.table is not None
    assert all(re.fullmatch(r"0\.\d{4} \(\d\.\d{4}–\d\.\d{4}\)", cell) for row in part.table.rows for cell in row[1:])
    answer = model.query("ill", ["age", "smoker"])
    assert part.table.rows[0][1].endswith(f"({answer.low[0]:.4f}–{answer.high[0]:.4f})")


def test_verdict_words_unit_and_size_come_before_any_section() -> None:
    made = release([119, 74, 618], budget=BUDGET)
    top = model_report(made, dataset="clinic", entry="3 of l.db").split("<h2>")[0]
    for said in ("PRIVATE", in_words(made.guarantee), "one row (one record of the table)", "811, which is public"):
        assert said in top
    assert "<dd>clinic</dd>" in top
    assert "<dd>3 of l.db</dd>" in top
    assert top.index("PRIVATE") < top.index("<dt>ε</dt>")
    assert "--ledger LEDGER" in model_report(made)
    hidden = release([119, 74, 618], budget=BUDGET, neighbours="add-remove")
    facts = dict(key_facts(hidden))
    assert facts["Records (N)"] == "private"
    assert facts["Unit"].endswith("added or removed")


def test_a_broken_promise_is_said_first_and_has_no_words_for_epsilon() -> None:
    text = model_report(release([119, 74, 618], budget=BUDGET, entropy=4))
    top = text.split("<h2>")[0]
    assert 'class="badge no">NOT PRIVATE' in top
    assert "the draw was made with a seed" in top
    assert "Whatever anyone concludes" not in text
    assert "<dt>ε</dt>" not in top


@pytest.mark.parametrize(("epsilon", "delta"), [(1.0, 1e-5), (0.1, 1e-6), (3.0, 3e-7)])
def test_words_are_never_better_than_the_guarantee(epsilon: float, delta: float) -> None:
    made = release([50, 60, 70], budget=Budget(epsilon=epsilon, delta=delta))
    said = in_words(made.guarantee)
    found = re.search(r"at most ([\d.e+]+) times", said)
    assert found is not None
    assert float(found[1]) >= np.exp(made.guarantee.epsilon(delta))
    number = int(chance(delta).removeprefix("one in ").replace(",", ""))
    assert 1 / number >= delta
    assert chance(delta) in said
    assert printed(made.guarantee.epsilon(delta)) in dict(key_facts(made))["ε"]


def test_the_split_of_the_budget_is_whole() -> None:
    model = release_tables(rows(), SCHEMA, [("age", "smoker"), ("ill",), ("ward", "ill")], budget=BUDGET)
    split = budget_split(model)
    assert isinstance(split, Bars)
    assert sum(split.values) == pytest.approx(100)  # type: ignore[arg-type]
    assert list(split.labels) == [" × ".join(each.columns) for each in model.releases]
    assert "Where the budget went" in model_report(model)
    assert budget_split(release([5, 6], budget=BUDGET)) is None


def test_the_profile_of_exact_counts_is_not_drawn() -> None:
    exact = release([5, 6], budget=None, mechanism="none")
    assert profile({"": exact.loss}) is None
    assert "δ for every ε" not in model_report(exact)
    drawn = profile({"": release([5, 6], budget=BUDGET).loss})
    assert drawn is not None
    loss = release([5, 6], budget=BUDGET).loss
    for epsilon, delta in zip(drawn.x, drawn.series[""], strict=True):
        assert delta >= loss.delta(float(epsilon))


@pytest.mark.slow
def test_many_tables_are_one_page_with_contents_and_pictures_without_matplotlib(monkeypatch: Any) -> None:
    """The same ε is not searched again and again, and no picture is one of matplotlib."""
    monkeypatch.setattr("simplexdp.plots._figure", None)
    names = [f"q{i}" for i in range(15)]
    rng = np.random.default_rng(0)
    table = pa.table({name: rng.choice(["x", "y", "z"], 300) for name in names})
    schema = Schema.of(**{name: ["x", "y", "z"] for name in names})
    model = release_tables(table, schema, list(itertools.combinations(names, 2)), budget=BUDGET)
    searched: list[float] = []
    from simplexdp.accounting import PrivacyLoss

    honest = PrivacyLoss.epsilon
    monkeypatch.setattr(PrivacyLoss, "epsilon", lambda loss, delta: searched.append(delta) or honest(loss, delta))
    text = model_report(model)
    # Each δ once: those of the certificate, 0 for what is pure, and the end of the profile.
    assert len(searched) == len(set(searched)) <= 5
    assert text.count("<section id=") == 105 + 4
    assert "Contents: 109 sections" in text
    assert "drawn and counted, in 30 of 105 tables" in text
    assert text.count("<svg ") == 6 + 3 + 2
    Outline(text)


def test_a_page_of_people_who_are_hostile_is_text() -> None:
    evil = "<b>&\"'"
    text = page(evil, [], lead=f"PRIVATE: {evil}", facts=[(evil, evil)], words=evil)
    assert "<b>" not in text
    assert text.count("&lt;b&gt;") == 6


def test_notebooks_show_the_verdict_and_a_picture() -> None:
    made = release([119, 74, 618], budget=BUDGET)
    text = made._repr_html_()
    outline = Outline(text)
    assert len(outline.all("svg")) == 1
    assert text.index("PRIVATE") < text.index(in_words(made.guarantee)) < text.index("<svg ") < text.index("<table")
    assert {each["scope"] for each in outline.all("th")} == {"col", "row"}


def test_inspect_says_which_entry_of_a_ledger_paid(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    ledger = Ledger.open("l.db", budget=BUDGET)
    made = release([119, 74, 618], budget=Budget(epsilon=0.5, delta=1e-6), ledger=ledger, dataset="clinic 2026")
    made.write("r.json")
    assert isinstance(made, Release)
    assert run(["inspect", "r.json", "--ledger", "l.db", "--plot", "r.html"]) == 0
    text = Path("r.html").read_text(encoding="utf-8")
    assert "<dd>clinic 2026</dd>" in text
    assert re.search(r"<dd>1 of l\.db, 20\d\d-", text)
