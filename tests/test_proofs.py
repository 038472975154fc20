"""What turns private data into something published names its proof, and the proof names the code that carries it."""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
import re
from dataclasses import dataclass
from pathlib import Path

import pytest

import simplexdp
from simplexdp.mechanisms.noise import NoNoise

ROOT = Path(__file__).resolve().parents[1]
SOURCE = Path(simplexdp.__file__).parent
NAMED = re.compile(r"Proof: docs/proofs/(\w+\.md)\.")


def mechanisms() -> list[type]:
    """All classes of the library that have a loss and a draw, but for abstract ones and the one without noise."""
    found: set[type] = set()
    for module in pkgutil.walk_packages(simplexdp.__path__, "simplexdp."):
        if module.name.endswith("__main__"):
            continue
        for _, item in inspect.getmembers(importlib.import_module(module.name), inspect.isclass):
            own = item.__module__ == module.name and not inspect.isabstract(item)
            if own and item is not NoNoise and all(hasattr(item, name) for name in ("loss", "draw", "parameters")):
                found.add(item)
    return sorted(found, key=lambda item: item.__name__)


@dataclass(frozen=True)
class Reader:
    """A function or class whose code touches what is private."""

    name: str
    path: Path
    documentation: str


def readers(source: Path = SOURCE) -> list[Reader]:
    """All that look at private counts, hand out something **Private** or build a mechanism of OpenDP."""
    found = []
    for path in sorted(source.rglob("*.py")):
        module = ast.parse(path.read_text(encoding="utf-8"))
        for item in module.body:
            if not isinstance(item, ast.FunctionDef | ast.ClassDef) or _holds(item):
                continue
            if any(_touches(node) for node in ast.walk(item)):
                documentation = f"{ast.get_docstring(item)}\n{ast.get_docstring(module)}"
                found.append(Reader(item.name, path, documentation))
    return found


def _holds(item: ast.FunctionDef | ast.ClassDef) -> bool:
    """The class of private tables itself, which only keeps them."""
    return any(isinstance(node, ast.FunctionDef) and node.name == "private_counts" for node in item.body)


def _touches(node: ast.AST) -> bool:
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        return node.func.attr == "private_counts" or node.func.attr.startswith("make_")
    return isinstance(node, ast.FunctionDef) and "**Private**" in (ast.get_docstring(node) or "")


def check(named: str, *code: str) -> None:
    page = (ROOT / "docs" / "proofs" / named).read_text(encoding="utf-8")
    for part in ("**Preconditions.**", "**Claim", "**Proof.**", "*Code:*"):
        assert part in page, f"{named} has no {part}"
    assert any(name in page for name in code), f"{named} names none of {code}"


@pytest.mark.slow
def test_the_known_ones_are_found() -> None:
    known = {"BalancedLaplace", "Dirichlet", "Gaussian", "GaussianTables", "Laplace", "NoisySum", "Polya"}
    assert known <= {item.__name__ for item in mechanisms()}
    assert {"draw_edges", "NoisyChoices", "Passes", "Session", "_Counted", "newton_sums"} <= {
        item.name for item in readers()
    }


def test_a_reader_without_a_proof_would_be_found(tmp_path: Path) -> None:
    (tmp_path / "new.py").write_text("def leak(table):\n    return table.private_counts().max()\n")
    (found,) = readers(tmp_path)
    assert not NAMED.search(found.documentation)


@pytest.mark.parametrize("mechanism", mechanisms(), ids=lambda item: item.__name__)
def test_each_mechanism_has_a_proof_that_names_its_code(mechanism: type) -> None:
    named = NAMED.search(inspect.getdoc(mechanism) or "")
    assert named, f"{mechanism.__name__} names no proof"
    source = Path(inspect.getsourcefile(mechanism) or "").name
    check(named[1], f"`mechanisms/{source}`", f"`{source}`", f"`{mechanism.__name__}")


@pytest.mark.parametrize("reader", readers(), ids=lambda item: item.name)
def test_each_reader_of_private_data_has_a_proof_that_names_its_code(reader: Reader) -> None:
    named = NAMED.search(reader.documentation)
    assert named, f"{reader.name} in {reader.path.name} reads private data, and neither it nor its module names a proof"
    check(named[1], f"`{reader.path.name}`", f"`{reader.path.relative_to(SOURCE).as_posix()}`")


def test_every_page_is_in_the_list() -> None:
    pages = {path.stem for path in (ROOT / "docs" / "proofs").glob("*.md")} - {"index"}
    listed = re.search(r"```{toctree}(.*?)```", (ROOT / "docs" / "proofs" / "index.md").read_text("utf-8"), re.DOTALL)
    assert listed
    assert pages == set(listed[1].split()) - {":maxdepth:", "1"}
