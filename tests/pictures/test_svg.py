"""Pictures as SVG: every label whole, every number said in words, nothing outside of the canvas, no fixed ink."""

from __future__ import annotations

import itertools
import re
import xml.etree.ElementTree as ET

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simplexdp import plots
from simplexdp.models.sections import Bars, Curves, Diagram, Groups, HeatMap, Picture
from simplexdp.pictures import svg, words
from simplexdp.pictures.canvas import WIDTH, short, ticks, width_of, wrapped
from simplexdp.pictures.network import layout

NS = "{http://www.w3.org/2000/svg}"
LONG = ["internal medicine and geriatrics", "Donaudampfschifffahrtsgesellschaft", "<b>&\"'", "不明な部門の名前です", ""]
PICTURES: dict[str, Picture] = {
    "bars": Bars(labels=LONG, values=[0.4, 0.3, 0.15, 0.1, 0.05], lower=[0.3] * 5, upper=[0.5] * 5, title="P(ward)"),
    "one bar": Bars(labels=["x"], values=[0.0]),
    "many bars": Bars(labels=[f"c{i}" for i in range(90)], values=np.arange(90.0), cells=25),
    "map": HeatMap(values=np.arange(12.0).reshape(4, 3), axes=("a", "b"), rows=LONG[:4], columns=["x", "y", LONG[0]]),
    "wide map": HeatMap(
        values=np.ones((2, 45)) / 90, axes=("a", "b"), rows=["p", "q"], columns=[f"category {i}" for i in range(45)]
    ),
    "cut map": HeatMap(
        values=np.ones((70, 2)), axes=("a", "b"), rows=[f"r{i}" for i in range(70)], columns=["x", "y"], unit="records"
    ),
    "groups": Groups(labels=["no", "yes"], series={"f": [0.1, 0.9], "m": [0.4, 0.6]}, axes=("sex", "ill")),
    "many groups": Groups(labels=LONG[:4], series={f"g{i}": [0.1, 0.2, 0.3, 0.4] for i in range(8)}, title="P"),
    "graph": Diagram(
        nodes=["age", "smoker", LONG[1], "ill"], edges=[("age", "smoker"), ("smoker", "ill"), ("age", "ill")]
    ),
    "curves": Curves(
        x=[0.5, 1, 2, 4],
        series={"ours": [0.5, 0.6, 0.7, 0.8], "theirs": [0.1, 0.2, 0.3, 0.4]},
        errors={"ours": [0.01] * 4},
        levels={"no privacy": 0.9},
        marks=[0.5, 1, 2, 4],
        logarithmic=(True, False),
    ),
    "profile": Curves(x=[0, 1, 2], series={"": [0.1, 1e-6, 1e-12]}, logarithmic=(False, True), x_label="ε"),
}


@pytest.mark.parametrize("name", PICTURES)
def test_a_picture_is_whole_and_takes_the_colours_of_its_page(name: str) -> None:
    picture = PICTURES[name]
    text = svg(picture)
    root = ET.fromstring(text)
    assert root.get("role") == "img"
    assert root.get("aria-label") == words(picture)
    assert "currentColor" in text
    assert not re.search(r"#(000|111|222|fff|FFF)", text)  # ink and paper are those of the page
    _, _, width, height = map(float, str(root.get("viewBox")).split())
    for each in root.iter(f"{NS}text"):
        x, y = float(str(each.get("x"))), float(str(each.get("y")))
        room = width_of(each.text or "", float(each.get("font-size") or 12))
        if each.get("transform"):
            assert room <= y + 1  # read from below: it starts at y and ends above it
            continue
        start = {"end": x - room, "middle": x - room / 2}.get(str(each.get("text-anchor")), x)
        assert start >= -1, each.text
        assert start + room <= width + 2, each.text
        assert 0 < y <= height
    for each in root.iter(f"{NS}rect"):
        x, wide = float(str(each.get("x"))), float(str(each.get("width")))
        assert -0.1 <= x <= x + wide <= width + 0.1


@pytest.mark.parametrize("name", ["bars", "map", "many groups", "graph"])
def test_no_label_is_cut(name: str) -> None:
    picture = PICTURES[name]
    told = "".join(each.text or "" for each in ET.fromstring(svg(picture)).iter(f"{NS}text")).replace(" ", "")
    labels = picture.labels if isinstance(picture, Bars | Groups) else LONG[1:2]
    for label in labels:
        assert label.replace(" ", "") in told, label
    assert "…" not in told


def test_the_words_say_the_numbers_and_how_many_are_left_out() -> None:
    assert words(PICTURES["bars"]).startswith(
        "Bars: P(ward), probability. internal medicine and geriatrics: 0.4 (0.3 to 0.5); "
    )
    assert words(PICTURES["many bars"]).endswith("These are the 12 largest of 90.")
    assert "sex" not in words(PICTURES["graph"])
    assert "smoker from age; " in words(PICTURES["graph"])
    assert "ill from smoker, age." in words(PICTURES["graph"])
    assert "p and category 0: 0.01111" in words(PICTURES["wide map"])
    assert "g0: internal medicine and geriatrics 0.1" in words(PICTURES["many groups"])
    assert "no privacy 0.9" in words(PICTURES["curves"])


def test_a_picture_says_when_it_leaves_something_out() -> None:
    assert "the 25 largest of 90 are shown" in svg(PICTURES["many bars"])
    assert "the first 60 of 70 rows are shown" in svg(PICTURES["cut map"])
    assert "are shown" not in svg(PICTURES["bars"])
    assert svg(PICTURES["many bars"]).count("<rect") == 25


def test_bars_are_as_long_as_their_numbers_and_whiskers_as_their_intervals() -> None:
    root = ET.fromstring(svg(PICTURES["bars"]))
    wide = [float(str(each.get("width"))) for each in root.iter(f"{NS}rect")]
    np.testing.assert_allclose(np.array(wide) / wide[0], np.array([0.4, 0.3, 0.15, 0.1, 0.05]) / 0.4, rtol=2e-3)
    whiskers = [str(each.get("d")) for each in root.iter(f"{NS}path")][:5]
    left, right = (float(found) for found in re.findall(r"^M([\d.]+) [\d.]+H([\d.]+)", whiskers[0])[0])
    start = float(str(next(root.iter(f"{NS}rect")).get("x")))
    assert (left - start) / (right - start) == pytest.approx(0.3 / 0.5, rel=2e-3)


def test_numbers_of_a_privacy_curve_are_never_below_what_holds() -> None:
    picture = Curves(x=[0.123456789], series={"": [1.23456789e-6]}, x_label="ε", y_label="δ")
    assert "1.23457e-06 at 0.123457" in words(picture)
    texts = Bars(labels=["left"], values=[1.0000024], texts=["1"])
    assert ">1</text>" in svg(texts)
    assert "left: 1" in words(texts)


GRAPHS = st.integers(1, 14).flatmap(
    lambda n: st.lists(
        st.sampled_from([(f"n{i}", f"n{j}") for i, j in itertools.combinations(range(n), 2)] or [("", "")]),
        unique=True,
        max_size=30,
    ).map(lambda edges: ([f"n{i}" for i in range(n)], [edge for edge in edges if edge[0]]))
)


@given(GRAPHS)
def test_boxes_of_a_graph_never_overlap_and_arrows_point_down(graph: tuple[list[str], list[tuple[str, str]]]) -> None:
    nodes, edges = graph
    found = layout(nodes, edges)
    assert set(found.places) == set(nodes)
    for parent, child in edges:
        stops = [found.places[parent][1] + found.places[parent][3]]
        stops += [y for _, *ends in found.bends[parent, child] for y in ends]
        stops.append(found.places[child][1])
        assert stops == sorted(stops)
    for (x, y, w, h), (a, b, c, d) in itertools.combinations(found.places.values(), 2):
        assert x + w <= a or a + c <= x or y + h <= b or b + d <= y
    for x, y, w, h in found.places.values():
        assert -0.01 <= x <= x + w <= found.width + 0.01
        assert 0 <= y <= y + h <= found.height + 0.01


@given(st.text(st.characters(exclude_categories=["C", "Z"]), max_size=60), st.floats(30, 300))
def test_lines_hold_all_of_a_text_and_fit(text: str, width: float) -> None:
    lines = wrapped(text, width)
    assert "".join(lines) == text
    assert all(width_of(line) <= width or len(line) == 1 for line in lines)


@given(st.floats(1e-9, 1e9))
def test_marks_of_an_axis_are_few_and_inside(top: float) -> None:
    marks = ticks(top)
    assert marks[0] == 0
    assert 2 <= len(marks) <= 6
    assert marks[-1] <= top * (1 + 1e-9)


def test_numbers_are_written_as_short_as_they_can_be() -> None:
    assert [short(x) for x in (2.7119999999999997, 0.1 + 0.2, 1e-12, 1234567.8)] == [
        "2.712",
        "0.3",
        "1e-12",
        "1,234,568",
    ]


@pytest.mark.parametrize("name", ["graph", "curves", "profile"])
def test_the_same_pictures_are_figures_of_matplotlib(name: str) -> None:
    (axis,) = plots.figure(PICTURES[name]).axes
    if name == "graph":
        assert {text.get_text() for text in axis.texts} >= {"age", "smoker", "ill"}
    else:
        assert len(axis.containers) == len(PICTURES[name].series)  # type: ignore[union-attr]


def test_pictures_are_drawn_for_a_telephone() -> None:
    narrow = [
        name for name in PICTURES if ET.fromstring(svg(PICTURES[name])).get("viewBox", "").split()[2] == f"{WIDTH:.0f}"
    ]
    assert set(PICTURES) - set(narrow) <= {"wide map"}  # this one scrolls in its frame
