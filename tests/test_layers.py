"""The privacy boundary as an import rule: a module imports only from layers before its own."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import reproduction
import simplexdp

ROOT = Path(simplexdp.__file__).parent

# Each layer may import the layers before it; accounting and sampling do not know each other.
LAYERS: list[set[str]] = [
    {"errors", "lazy", "numerics", "_version", "labelled", "shown"},
    {"budget", "cores", "schema"},
    {"accounting", "sampling"},
    {"noisy"},
    {"mechanisms"},
    {"estimation", "utility"},
    {"models", "plots", "pictures"},
    {"planning", "fitting"},
    {"private"},
    {"pipeline", "forecast", "stand_ins", "ledger", "naive_bayes", "score", "synthesis", "counting", "quantiles"}
    | {"shards"},
    {
        "cli",
        "learn",
        "network",
        "bundle",
        "reading",
        "report",
        "spreadsheet",
        "synthesizer",
        "synthetic",
        "studio",
        "__init__",
        "__main__",
    },
]
SEPARATE = [{"accounting", "sampling"}]
FORBIDDEN = [("models", "sampling"), ("estimation", "sampling")]
BESIDE = {"audit"}  # it uses everything, and nothing uses it but the surface


def modules() -> list[Path]:
    return sorted(ROOT.rglob("*.py"))


def beside() -> list[Path]:
    return sorted(Path(reproduction.__file__).parent.rglob("*.py"))


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
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith(("import_module", "__import__")):
            texts = [each.value for each in node.args if isinstance(each, ast.Constant)]
            paths = [str(text).split(".") for text in texts]
        else:
            continue
        found |= {parts[1] for parts in paths if parts[0] == "simplexdp" and len(parts) > 1}
    return found


def level(name: str) -> int:
    for i, layer in enumerate(LAYERS):
        if name in layer:
            return i
    raise AssertionError(f"{name} has no layer: add it to LAYERS")


@pytest.mark.slow
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
    bad.write_text("from ..private.tables import CountTable\nfrom .. import sampling\nimport simplexdp.cli.demo\n")
    monkeypatch.setattr(f"{__name__}.ROOT", tmp_path)
    assert imported(bad) == {"private", "sampling", "cli"}
    with pytest.raises(AssertionError):
        test_imports_point_to_earlier_layers(bad)


TRIES = {
    "the table": "from ..private.tables import CountTable",
    "the folder": "from .. import private",
    "by its full name": "import simplexdp.private.session",
    "the name of the package": "from simplexdp import CountTable",
    "a door that shows it": "from ..counting import count",
    "a door with rows": "from ..pipeline import CountTable",
    "quantiles": "from ..quantiles import draw_edges",
    "late": "def f():\n    from ..private.door import fit",
    "by a text": "import importlib\nimportlib.import_module('simplexdp.private.tables')",
}


@pytest.mark.parametrize("room", ["models", "estimation"])
@pytest.mark.parametrize("text", TRIES.values(), ids=TRIES)
def test_models_and_estimates_cannot_get_at_private_tables(
    text: str, room: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not by the folder, and not through another module that has the name."""
    (tmp_path / room).mkdir()
    bad = tmp_path / room / "bad.py"
    bad.write_text(text)
    monkeypatch.setattr(f"{__name__}.ROOT", tmp_path)
    with pytest.raises(AssertionError):
        test_imports_point_to_earlier_layers(bad)


def test_nothing_that_models_load_loads_private_tables() -> None:
    """In a fresh interpreter: whatever is imported on the way."""
    code = (
        "import sys, simplexdp.models, simplexdp.estimation, simplexdp.fitting.design\n"
        "print([name for name in sys.modules if name.startswith('simplexdp.private')])"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


@pytest.mark.parametrize("path", [*modules(), *beside()], ids=lambda path: "/".join(path.parts[-3:]))
def test_no_module_is_longer_than_600_lines(path: Path) -> None:
    assert len(path.read_text(encoding="utf-8").splitlines()) <= 600
