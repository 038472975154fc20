"""Graphs on the command line: edges in an option, in a JSON file or in a BIF file."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

from ..errors import InvalidArgument
from ..models.bif import MAX_BYTES
from ..models.document import read_file
from ..models.graph import Graph

FORMS = "edges such as 'a->b,b->c', a .json file of edges or parents, or a .bif file"


def read_graph(text: str) -> Graph:
    """The graph that the option describes; single names are nodes without edges.

    >>> read_graph("rain->wet, sprinkler->wet, wind").families
    (('rain', ()), ('sprinkler', ()), ('wet', ('rain', 'sprinkler')), ('wind', ()))
    """
    path = Path(text)
    suffix = path.suffix.lower()
    if "->" not in text and suffix == ".bif":
        return Graph.of(path)
    if "->" not in text and suffix == ".json":
        return Graph.of(_json(path))
    parents: dict[str, list[str]] = {}
    for part in text.split(","):
        names = [name.strip() for name in part.split("->")]
        if not all(names):
            raise InvalidArgument("--graph", FORMS, got=text)
        for name in names:
            parents.setdefault(name, [])
        for parent, child in itertools.pairwise(names):
            parents[child].append(parent)
    return Graph.of(parents)


def _json(path: Path) -> Any:
    """`[["a", "b"], ...]`, `{"child": ["parent", ...]}`, or either of them under "edges" or "parents"."""
    try:
        found = json.loads(read_file(path, MAX_BYTES))
    except (ValueError, RecursionError):
        raise InvalidArgument("--graph", "a JSON file that can be read", got=str(path)) from None
    if isinstance(found, dict) and set(found) in ({"edges"}, {"parents"}):
        (found,) = found.values()
    if isinstance(found, dict) and all(isinstance(item, list) for item in found.values()):
        return found
    if isinstance(found, list) and all(isinstance(item, list) and len(item) == 2 for item in found):
        return [tuple(item) for item in found]
    raise InvalidArgument("--graph", 'a JSON file of edges [["a", "b"]] or parents {"b": ["a"]}', got=str(path))
