"""The package stands beside the library: not in the wheel, imported by one lazy line, and found by both commands."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import reproduction
import simplexdp

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "simplexdp"


def imports_of_it(text: str) -> list[str]:
    """Where code imports the package: "lazily" within functions, or "at once"."""
    tree = ast.parse(text)
    lazy = {id(node) for item in ast.walk(tree) if isinstance(item, ast.FunctionDef) for node in ast.walk(item)}
    found = []
    for node in ast.walk(tree):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom) and not node.level:
            names = [node.module or ""]
        if any(name.partition(".")[0] == "reproduction" for name in names):
            found.append("lazily" if id(node) in lazy else "at once")
    return found


def command(*arguments: str, folder: Path, path: str) -> subprocess.CompletedProcess[str]:
    """A run of Python that finds this library, and else only what `path` holds."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join((str(SOURCE.parent), path))}
    return subprocess.run(
        [sys.executable, "-m", *arguments], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )


def test_the_wheel_has_the_library_and_nothing_of_the_experiments() -> None:
    setuptools = pytest.importorskip("setuptools")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    where = project["tool"]["setuptools"]["packages"]["find"]["where"]
    packages = {name for folder in where for name in setuptools.find_namespace_packages(str(ROOT / folder))}
    assert {"simplexdp", "simplexdp.accounting", "simplexdp.cli", "simplexdp.mechanisms"} <= packages
    parts = {part for name in packages if not name.startswith("simplexdp.egg") for part in name.split(".")}
    assert not parts & {"reproduction", "experiments", "datasets", "figures", "methods", "tests", "benchmarks"}
    assert "reproduction" in setuptools.find_namespace_packages(str(ROOT))  # the search would have found it
    assert Path(simplexdp.__file__).parent == SOURCE
    assert Path(reproduction.__file__).parent == ROOT / "reproduction"


def test_the_library_imports_it_in_one_lazy_line() -> None:
    found = {
        path.relative_to(SOURCE).as_posix(): imports_of_it(path.read_text("utf-8")) for path in SOURCE.rglob("*.py")
    }
    assert {name: kinds for name, kinds in found.items() if kinds} == {"cli/demo.py": ["lazily"]}


def test_the_search_sees_every_import() -> None:
    text = "import os, reproduction.cells\nfrom reproduction import x\nfrom .reproduction import y\n"
    assert imports_of_it(text) == ["at once", "at once"]
    assert imports_of_it("def f():\n    if 1:\n        import reproduction\n") == ["lazily"]


def test_both_commands_list_the_same_figures(tmp_path: Path) -> None:
    runs = [
        command(*arguments, "--list", folder=tmp_path, path=str(ROOT))
        for arguments in (("reproduction",), ("simplexdp", "reproduce"))
    ]
    assert [run.returncode for run in runs] == [0, 0]
    assert "naive-bayes-rdp" in runs[0].stdout
    assert runs[0].stdout == runs[1].stdout


@pytest.mark.parametrize(("module", "name"), [("reproduction", "python -m reproduction"), ("simplexdp", "simplexdp")])
def test_both_commands_refuse_in_one_line(module: str, name: str, tmp_path: Path) -> None:
    called = [module] if module == "reproduction" else [module, "reproduce"]
    spoken = " ".join([name, *called[1:]])
    wrong = command(*called, "--nothing", folder=tmp_path, path=str(ROOT))
    assert (wrong.returncode, wrong.stdout) == (2, "")
    assert wrong.stderr == f"simplexdp: No such option: --nothing See `{spoken} --help`.\n"
    unknown = command(*called, "--figure", "nothing", folder=tmp_path, path=str(ROOT))
    assert unknown.returncode == 2
    assert unknown.stderr.startswith("simplexdp: `--figure` must be one of trigamma, ")


@pytest.mark.parametrize("arguments", [["--quick"], ["--help"]])
@pytest.mark.parametrize("unrelated", [False, True], ids=["none", "a folder of that name"])
def test_without_the_package_the_command_says_where_it_is(
    arguments: list[str], unrelated: bool, tmp_path: Path
) -> None:
    if unrelated:
        (tmp_path / "reproduction").mkdir()
        (tmp_path / "reproduction" / "results.csv").touch()
    done = command("simplexdp", "reproduce", *arguments, folder=tmp_path, path="")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("simplexdp: the experiments of the paper are in the package `reproduction`")
    assert "`make reproduce`" in done.stderr
    assert "`python -m reproduction`" in done.stderr
    assert done.stderr.count("\n") == 1


def test_what_is_missing_inside_of_the_package_is_another_error(tmp_path: Path) -> None:
    (tmp_path / "reproduction").mkdir()
    (tmp_path / "reproduction" / "__init__.py").touch()
    (tmp_path / "reproduction" / "command.py").write_text("import a_module_that_is_not_there\n", encoding="utf-8")
    done = command("simplexdp", "reproduce", folder=tmp_path, path="")
    assert done.returncode == 1
    assert "unexpected ModuleNotFoundError" in done.stderr
