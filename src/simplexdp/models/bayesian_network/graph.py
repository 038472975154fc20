"""Directed acyclic graphs over columns: from edges, parents, networkx or pgmpy graphs, or BIF files."""

from __future__ import annotations

import heapq
import itertools
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...errors import FormatError, InvalidArgument, SchemaError
from ...schema import Schema
from ...schema.never import did_you_mean
from ..document import read_file

MAX_NODES = 10_000


@dataclass(frozen=True)
class Graph:
    """Nodes in topological order (parents first), each with its parents in the order given.

    >>> Graph.of({"rain": [], "sprinkler": ["rain"], "wet": ["rain", "sprinkler"]}).parents("wet")
    ('rain', 'sprinkler')
    """

    families: tuple[tuple[str, tuple[str, ...]], ...]

    @classmethod
    def of(cls, source: Any) -> Graph:
        """A graph from edges (parent, child), a mapping of parents, a networkx or pgmpy graph, or a BIF file."""
        if isinstance(source, Graph):
            return source
        if isinstance(source, (str, os.PathLike)):
            return cls.from_bif(source)
        if isinstance(source, Mapping):
            return cls.from_parents(source)
        if hasattr(source, "nodes") and hasattr(source, "edges"):
            if hasattr(source, "is_directed") and not source.is_directed():
                raise InvalidArgument("graph", "directed", hint="Use a networkx.DiGraph.")
            nodes, edges = _call(source.nodes), _call(source.edges)
            return cls.from_edges([tuple(edge)[:2] for edge in edges], nodes=nodes)
        if isinstance(source, Iterable):
            return cls.from_edges(source)
        raise InvalidArgument(
            "graph",
            "edges, a mapping of parents, a networkx or pgmpy graph, or the path of a BIF file",
            got=type(source).__name__,
        )

    @classmethod
    def from_edges(cls, edges: Iterable[Any], *, nodes: Iterable[str] = ()) -> Graph:
        """A graph from (parent, child) pairs; `nodes` adds those without edges."""
        parents: dict[str, list[str]] = {_node(name): [] for name in nodes}
        for edge in edges:
            pair = None if isinstance(edge, str) or not isinstance(edge, Iterable) else tuple(edge)
            if pair is None or len(pair) != 2:
                raise InvalidArgument("graph", "edges that are pairs (parent, child)", got=edge)
            parent, child = _node(pair[0]), _node(pair[1])
            parents.setdefault(parent, [])
            if parent in parents.setdefault(child, []):
                raise InvalidArgument("graph", "without repeated edges", got=(parent, child))
            parents[child].append(parent)
        return cls._sorted(parents)

    @classmethod
    def from_parents(cls, parents: Mapping[str, Iterable[str]]) -> Graph:
        """A graph from the parents of each node; parents without an entry of their own are roots."""
        found: dict[str, list[str]] = {}
        for node, above in parents.items():
            if isinstance(above, str) or not isinstance(above, Iterable):
                raise InvalidArgument("graph", f"a list of parents for {node!r}", got=above)
            names = [_node(name) for name in above]
            if len(set(names)) < len(names):
                raise InvalidArgument("graph", f"without repeated parents of {node!r}", got=names)
            found[_node(node)] = names
        for name in [name for names in found.values() for name in names]:
            found.setdefault(name, [])
        return cls._sorted(found)

    @classmethod
    def from_bif(cls, path: str | os.PathLike[str]) -> Graph:
        """The structure of a BIF file; its probabilities and states are not read."""
        return cls.from_parents(read_structure(Path(path)))

    @classmethod
    def _sorted(cls, parents: Mapping[str, list[str]]) -> Graph:
        if not parents:
            raise InvalidArgument("graph", "with at least one node")
        if len(parents) > MAX_NODES:
            raise InvalidArgument("graph", f"of at most {MAX_NODES} nodes", got=len(parents))
        try:
            TopologicalSorter(parents).prepare()
        except CycleError as error:
            cycle = " -> ".join(str(name) for name in error.args[1])
            raise InvalidArgument(
                "graph", f"without cycles, but {cycle} is one", hint="Drop or turn one of these edges."
            ) from None
        return cls(tuple((name, tuple(parents[name])) for name in _order(parents)))

    @property
    def nodes(self) -> tuple[str, ...]:
        """In topological order: every node comes after its parents."""
        return tuple(name for name, _ in self.families)

    @property
    def edges(self) -> tuple[tuple[str, str], ...]:
        """(parent, child) pairs."""
        return tuple((parent, node) for node, parents in self.families for parent in parents)

    def parents(self, node: str) -> tuple[str, ...]:
        """The parents of a node."""
        return dict(self.families)[node]

    def family(self, node: str) -> tuple[str, ...]:
        """Parents, then the node: the axes of its table."""
        return (*self.parents(node), node)

    def ancestors(self, nodes: Iterable[str]) -> frozenset[str]:
        """These nodes and everything above them."""
        parents = dict(self.families)
        found: set[str] = set()
        left = list(nodes)
        while left:
            node = left.pop()
            if node not in found:
                found.add(node)
                left.extend(parents[node])
        return frozenset(found)

    def check_columns(self, schema: Schema) -> None:
        """Refuse nodes that the schema does not declare."""
        unknown = [node for node in self.nodes if node not in schema]
        if unknown:
            listed = ", ".join(repr(name) for name in unknown[:5]) + (", ..." if len(unknown) > 5 else "")
            raise SchemaError(
                "graph",
                f"over columns of the schema, which does not declare {listed}",
                hint=f"{_arrow(unknown[0], schema)}It declares {', '.join(schema.names[:20])}.",
            )


def _order(parents: Mapping[str, list[str]]) -> list[str]:
    """Parents before children, otherwise in the order given, so that a sorted graph stays as it is."""
    place = {name: i for i, name in enumerate(parents)}
    names, waiting = list(parents), {name: len(above) for name, above in parents.items()}
    children: dict[str, list[str]] = {name: [] for name in parents}
    for name, above in parents.items():
        for parent in above:
            children[parent].append(name)
    ready = [place[name] for name in names if not waiting[name]]
    order: list[str] = []
    while ready:
        name = names[heapq.heappop(ready)]
        order.append(name)
        for child in children[name]:
            waiting[child] -= 1
            if not waiting[child]:
                heapq.heappush(ready, place[child])
    return order


def _call(view: Any) -> Iterable[Any]:
    """Nodes and edges are views in networkx, which can be iterated, and methods elsewhere."""
    found = view if isinstance(view, Iterable) else view()
    return list(found)


def _node(name: object) -> str:
    if not isinstance(name, str) or not name:
        raise InvalidArgument("graph", "over names of columns, which are strings", got=name)
    return name


# -- bif --------------------------------------------------------------------------------------------------------------
#
# The interchange format for Bayesian networks (BIF): structure in, whole networks out.

MAX_BYTES = 64 << 20
MAX_TOKENS = 5_000_000

_TOKEN = re.compile(r'"[^"\n]*"|[{}()\[\]|,;=]|[^\s{}()\[\]|,;="]+')
_COMMENT = re.compile(
    r"//[^\n]*|/\*.*?(?:\*/|\Z)", re.DOTALL
)  # up to the end if open, so that no text takes quadratic time


def read_structure(path: Path) -> dict[str, list[str]]:
    """The parents of every variable of a BIF file. Probabilities and states are skipped."""
    text = read_file(path, MAX_BYTES).removeprefix("\ufeff")
    return parse_structure(text, str(path))


def parse_structure(text: str, label: str = "the BIF text") -> dict[str, list[str]]:
    """The same from text.

    >>> parse_structure("variable a { } variable b { } probability ( b | a ) { } probability ( a ) { }")
    {'a': [], 'b': ['a']}
    """
    matches = _TOKEN.finditer(_COMMENT.sub(" ", text))
    tokens = [match.group() for match in itertools.islice(matches, MAX_TOKENS + 1)]
    if len(tokens) > MAX_TOKENS:
        raise FormatError(f"{label}: too long, more than {MAX_TOKENS} words")
    parents: dict[str, list[str]] = {}
    given: set[str] = set()
    at = 0
    while at < len(tokens):
        word = tokens[at].lower()
        if word == "variable":
            name, at = _name(tokens, at + 1, label)
            if name in parents:
                raise FormatError(f"{label}: variable {name!r} is declared twice")
            parents[name] = []
        elif word == "probability":
            family, at = _family(tokens, at + 1, label)
            node = family[0]
            if node in given:
                raise FormatError(f"{label}: the probabilities of {node!r} are given twice")
            unknown = [name for name in family if name not in parents]
            if unknown:
                raise FormatError(f"{label}: {unknown[0]!r} has probabilities but is not declared as a variable")
            given.add(node)
            parents[node] = family[1:]
        elif word == "network":
            at += 1
            while at < len(tokens) and tokens[at] != "{":
                at += 1
        else:
            raise FormatError(f"{label}: expected network, variable or probability, found {tokens[at][:40]!r}")
        at = _skip_block(tokens, at, label)
    absent = sorted(set(parents) - given)
    if absent:
        raise FormatError(f"{label}: variable {absent[0]!r} has no probabilities, so its parents are not known")
    if not parents:
        raise FormatError(f"{label}: no variables; it may not be a BIF file")
    return parents


def _name(tokens: Sequence[str], at: int, label: str) -> tuple[str, int]:
    if at >= len(tokens) or tokens[at] in "{}()[]|,;=":
        raise FormatError(f"{label}: a name is missing")
    return tokens[at].strip('"'), at + 1


def _family(tokens: Sequence[str], at: int, label: str) -> tuple[list[str], int]:
    """`( node | parent, parent )`; old files separate by spaces alone."""
    if at >= len(tokens) or tokens[at] != "(":
        raise FormatError(f"{label}: probability needs ( variable | parents )")
    family: list[str] = []
    at += 1
    while at < len(tokens) and tokens[at] != ")":
        if tokens[at] not in ("|", ","):
            name, at = _name(tokens, at, label)
            family.append(name)
        else:
            at += 1
    if at >= len(tokens) or not family or len(set(family)) < len(family):
        raise FormatError(f"{label}: probability needs ( variable | parents ), each named once")
    return family, at + 1


def _skip_block(tokens: Sequence[str], at: int, label: str) -> int:
    if at >= len(tokens) or tokens[at] != "{":
        raise FormatError(f"{label}: a block {{ ... }} is missing")
    depth = 0
    while at < len(tokens):
        depth += (tokens[at] == "{") - (tokens[at] == "}")
        at += 1
        if depth == 0:
            return at
    raise FormatError(f"{label}: a block is not closed; the file may be truncated")


def write_network(
    families: Iterable[tuple[str, tuple[str, ...]]],
    labels: Mapping[str, Sequence[str]],
    tables: Mapping[str, NDArray[np.float64]],
) -> str:
    """A network as BIF text; characters that BIF names cannot hold become underscores.

    Args:
        families: each node with its parents.
        labels: of the cells of each node.
        tables: P(node | parents), parents on the first axes; written to the last digit.
    """
    families = list(families)
    names = dict(zip([node for node, _ in families], words([node for node, _ in families]), strict=True))
    states = {node: words(labels[node]) for node, _ in families}
    lines = ["network simplexdp {", "}"]
    for node, _ in families:
        lines += [
            f"variable {names[node]} {{",
            f"  type discrete [ {len(states[node])} ] {{ {', '.join(states[node])} }};",
            "}",
        ]
    for node, above in families:
        table = tables[node].reshape(-1, len(states[node]))
        if above:
            lines.append(f"probability ( {names[node]} | {', '.join(names[name] for name in above)} ) {{")
            for key, row in zip(itertools.product(*(states[name] for name in above)), table, strict=True):
                lines.append(f"  ({', '.join(key)}) {_numbers(row)};")
        else:
            lines += [f"probability ( {names[node]} ) {{", f"  table {_numbers(table[0])};"]
        lines.append("}")
    return "\n".join(lines) + "\n"


def _numbers(row: NDArray[np.float64]) -> str:
    return ", ".join(repr(float(value)) for value in row)


def words(labels: Sequence[str]) -> list[str]:
    """Labels as words that every BIF reader takes, different from each other also without their case.

    >>> words(["<=50K", ">50K", "a b", "A_b"])
    ['50K', '50K_2', 'a_b', 'A_b_2']
    """
    found: list[str] = []
    seen: set[str] = set()
    for label in labels:
        base = re.sub(r"[^A-Za-z0-9_.-]+", "_", label).strip("_") or "x"
        word, number = base, 1
        while word.lower() in seen:
            number += 1
            word = f"{base}_{number}"
        seen.add(word.lower())
        found.append(word)
    return found


def _arrow(node: str, schema: Schema) -> str:
    """What was probably meant by a node that is no column: an edge with half an arrow, or a name much like it."""
    for sign in ("=>", "-->", ">", "→", "-"):
        parts = [part.strip() for part in str(node).split(sign)]
        if len(parts) == 2 and all(part in schema for part in parts):
            return f"Write an edge with an arrow: {parts[0]}->{parts[1]}. "
    return did_you_mean(node, schema.names)
