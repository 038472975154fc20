"""The privacy boundary as an import rule: a module imports only from layers before its own."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import simplexdp

ROOT = Path(simplexdp.__file__).parent

# Each layer may import the layers before it; the three of layer 2 do not know each other.
LAYERS: list[set[str]] = [
    {"errors", "numerics", "_version"},
    {"budget", "schema", "tables"},
    {"accounting", "sampling", "counting", "quantiles"},
    {"mechanisms"},
    {"estimation", "utility"},
    {"models"},
    {"planning", "drawing", "pipeline", "forecast", "ledger", "naive_bayes", "reweighting"},
    {"cli", "learn", "network", "pgmpy", "plots", "report", "summary", "synthetic", "__init__", "__main__"},
]
SEPARATE = [{"accounting", "sampling"}, {"accounting", "counting"}, {"sampling", "counting"}]
FORBIDDEN = [
    ("models", "counting"),
    ("models", "sampling"),
    ("estimation", "counting"),
    ("estimation", "sampling"),
]
BESIDE = {"experiments", "datasets", "audit"}  # they use everything, and nothing uses them but the surface


def modules() -> list[Path]:
    return sorted(ROOT.rglob("*.py"))


def top(path: Path) -> str:
    part = path.relative_to(ROOT).parts[0]
    return part.removesuffix(".py")


def imported(path: Path) -> set[str]:
    """The top-level names inside simplexdp that a module imports, wherever in the file."""
    package = ["simplexdp", *path.relative_to(ROOT).parts[:-1]]
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            target = [*base, *(node.module.split(".") if node.module else [])]
            names = [alias.name for alias in node.names] if target == ["simplexdp"] else []
            paths = [[*target, name] for name in names] or [target]
        elif isinstance(node, ast.Import):
            paths = [alias.name.split(".") for alias in node.names]
        else:
            continue
        found |= {parts[1] for parts in paths if parts[0] == "simplexdp" and len(parts) > 1}
    return found


def level(name: str) -> int:
    for i, layer in enumerate(LAYERS):
        if name in layer:
            return i
    raise AssertionError(f"{name} has no layer: add it to LAYERS")


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_point_to_earlier_layers(path: Path) -> None:
    name = top(path)
    if name in BESIDE:
        return
    for other in imported(path) - {name}:
        if other in BESIDE:
            assert level(name) == len(LAYERS) - 1, f"{name} imports {other}, which stands beside the layers"
            continue
        assert level(other) <= level(name), f"{name} imports {other} from a later layer"
        assert {name, other} not in SEPARATE, f"{name} and {other} must not know each other"
        assert (name, other) not in FORBIDDEN, f"{name} must not import {other}"


def test_the_rule_sees_a_violation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "models"
    package.mkdir()
    bad = package / "bad.py"
    bad.write_text("from ..counting.kernel import count\nfrom .. import sampling\nimport simplexdp.cli.demo\n")
    monkeypatch.setattr(f"{__name__}.ROOT", tmp_path)
    assert imported(bad) == {"counting", "sampling", "cli"}
    with pytest.raises(AssertionError):
        test_imports_point_to_earlier_layers(bad)


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(ROOT)))
def test_no_module_is_longer_than_600_lines(path: Path) -> None:
    assert len(path.read_text(encoding="utf-8").splitlines()) <= 600
