"""The interchange format for Bayesian networks (BIF): structure in, whole networks out."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ..errors import FormatError
from .document import read_file

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
