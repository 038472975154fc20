"""Graphs: every way in, the order, and what is refused."""

from __future__ import annotations

import re
import warnings
from pathlib import Path

import networkx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simplexdp import Schema
from simplexdp.errors import FormatError, InvalidArgument, SchemaError
from simplexdp.models.bayesian_network.graph import Graph, parse_structure
from simplexdp.models.bayesian_network.graph import words as plain_words

PARENTS = {"wet": ["rain", "sprinkler"], "sprinkler": ["rain"], "rain": []}
EDGES = [("rain", "wet"), ("sprinkler", "wet"), ("rain", "sprinkler")]
BIF = """
network "weather" { property author someone; } // a comment with } and {
variable rain { type discrete [ 2 ] { no, yes }; }
variable "sprinkler" { type discrete [ 2 ] { off, on }; property position = (1, 2); }
variable wet { type discrete [ 2 ] { no, yes }; }
/* probability ( rain | wet ) { } */
probability ( rain ) { table 0.7, 0.3; }
probability ( sprinkler | rain ) { (no) 0.5, 0.5; (yes) 0.9, 0.1; }
probability ( wet | rain, "sprinkler" ) { default 0.5, 0.5; }
"""


def pgmpy_graph() -> object:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from pgmpy.models import DiscreteBayesianNetwork
    return DiscreteBayesianNetwork(EDGES)


def test_all_sources_give_the_same_graph(tmp_path: Path) -> None:
    path = tmp_path / "weather.bif"
    path.write_text(BIF)
    sources = [PARENTS, EDGES, iter(EDGES), networkx.DiGraph(EDGES), pgmpy_graph(), path, str(path), Graph.of(EDGES)]
    for source in sources:
        graph = Graph.of(source)
        assert graph.nodes == ("rain", "sprinkler", "wet")
        assert graph.parents("wet") == ("rain", "sprinkler")
        assert set(graph.edges) == set(EDGES)


def test_nodes_without_edges_are_kept() -> None:
    graph = networkx.DiGraph([("a", "b")])
    graph.add_node("c")
    assert set(Graph.of(graph).nodes) == {"a", "b", "c"}
    assert Graph.from_edges([], nodes=["x"]).nodes == ("x",)
    assert set(Graph.of({"b": ["a"]}).nodes) == {"a", "b"}


@given(st.permutations([f"n{i}" for i in range(7)]), st.sets(st.tuples(st.integers(0, 6), st.integers(0, 6))))
def test_parents_come_first_and_sorting_again_changes_nothing(names: list[str], pairs: set[tuple[int, int]]) -> None:
    edges = [(f"n{i}", f"n{j}") for i, j in sorted(pairs) if i < j]
    graph = Graph.from_edges(edges, nodes=names)
    place = {name: i for i, name in enumerate(graph.nodes)}
    assert sorted(graph.nodes) == sorted(names)
    assert all(place[parent] < place[child] for parent, child in edges)
    assert Graph.from_parents(dict(graph.families)).families == graph.families


def test_ancestors() -> None:
    graph = Graph.of([("a", "b"), ("b", "c"), ("x", "c"), ("c", "d")])
    assert graph.ancestors(["c"]) == {"a", "b", "x", "c"}
    assert graph.ancestors([]) == frozenset()


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ([("a", "b"), ("b", "c"), ("c", "a")], "without cycles"),
        ([("a", "a")], "without cycles"),
        ({"a": ["b"], "b": ["a"]}, "Drop or turn"),
        ([("a", "b"), ("a", "b")], "repeated edges"),
        ({"a": ["b", "b"]}, "repeated parents"),
        ({"a": "bc"}, "a list of parents"),
        (["ab", "cd"], r"pairs \(parent, child\)"),
        ([("a", "b", "c")], "pairs"),
        ([(1, 2)], "which are strings"),
        ({}, "at least one node"),
        ([], "at least one node"),
        (networkx.Graph([("a", "b")]), "directed"),
        (3, "edges, a mapping of parents"),
    ],
)
def test_what_is_refused(source: object, words: str) -> None:
    with pytest.raises(InvalidArgument, match=words):
        Graph.of(source)


def test_a_cycle_is_named() -> None:
    with pytest.raises(InvalidArgument) as caught:
        Graph.of([("rain", "wet"), ("wet", "mood"), ("mood", "rain")])
    assert all(name in str(caught.value) for name in ("rain", "wet", "mood"))


def test_unknown_columns_are_named() -> None:
    schema = Schema.of(rain=["no", "yes"], wet=["no", "yes"])
    with pytest.raises(SchemaError, match=r"'sprinkler'.*declares rain, wet"):
        Graph.of(PARENTS).check_columns(schema)
    Graph.of([("rain", "wet")]).check_columns(schema)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "no variables"),
        ("variable a {", "not closed"),
        ("variable { }", "name is missing"),
        ("variable a { } variable a { }", "declared twice"),
        ("variable a { }", "no probabilities"),
        ("variable a { } probability ( a | b ) { }", "not declared"),
        ("variable a { } probability ( a ) { } probability ( a ) { }", "given twice"),
        ("variable a { } probability ( a, a ) { }", "each named once"),
        ("variable a { } probability a { }", "probability needs"),
        ("variable a { } probability ( a", "probability needs"),
        ("variable a x", "block"),
        ("<?xml version='1.0'?>", "expected network"),
    ],
)
def test_broken_bif_is_refused_with_the_reason(text: str, words: str) -> None:
    with pytest.raises(FormatError, match=words):
        parse_structure(text)


def test_bif_files_have_limits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "net.bif"
    path.write_text(BIF)
    with pytest.raises(FormatError, match="No such file"):
        Graph.of(tmp_path / "other.bif")
    monkeypatch.setattr("simplexdp.models.bayesian_network.graph.MAX_TOKENS", 20)
    with pytest.raises(FormatError, match="too long"):
        Graph.of(path)
    monkeypatch.setattr("simplexdp.models.bayesian_network.graph.MAX_BYTES", 20)
    with pytest.raises(FormatError, match="larger than"):
        Graph.of(path)
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(FormatError, match="not a text file"):
        Graph.of(path)


@given(
    st.lists(st.sampled_from(["variable", "probability", "network", "{", "}", "(", ")", "|", ",", '"', "a", "b", "//"]))
)
def test_no_text_breaks_the_parser(words: list[str]) -> None:
    try:
        found = parse_structure(" ".join(words))
    except FormatError:
        return
    assert found


@pytest.mark.slow
@given(st.lists(st.text(max_size=6), max_size=8))
def test_words_are_different_and_plain(labels: list[str]) -> None:
    found = plain_words(labels)
    assert len({word.lower() for word in found}) == len(labels)
    assert all(re.fullmatch(r"[A-Za-z0-9_.-]+", word) for word in found)
