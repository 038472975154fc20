"""The quick loop and the hooks check what CI checks, and the page for contributors names commands that exist."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml
from tools.lint_changed import changed, commands

ROOT = Path(__file__).resolve().parents[1]
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
EVERYTHING = [["ruff", "check", "."], ["ruff", "format", "--check", "."], ["mypy"]]


def linted() -> list[list[str]]:
    """What `make lint` runs."""
    (recipe,) = re.findall(r"^lint:.*\n((?:\t.*\n)+)", MAKEFILE, re.MULTILINE)
    return [line.removeprefix("$(BIN)/python -m ").split() for line in recipe.replace("\t", "").splitlines()]


def test_the_hooks_are_what_lint_runs_and_fetch_nothing() -> None:
    hooks = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8"))
    (place,) = hooks["repos"]
    assert place["repo"] == "local"
    assert {hook["language"] for hook in place["hooks"]} == {"system"}
    ran = [hook["entry"].removeprefix(".venv/bin/python -m ").split() for hook in place["hooks"]]
    assert ran == linted() == EVERYTHING


def git(folder: Path, *command: str) -> None:
    who = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false"]
    subprocess.run(["git", *who, *command], cwd=folder, check=True, capture_output=True)


@pytest.mark.skipif(shutil.which("git") is None, reason="no git")
def test_what_changed_since_main(tmp_path: Path) -> None:
    assert changed(tmp_path) is None
    git(tmp_path, "init", "--initial-branch", "main")
    for name in ("same", "committed", "edited", "removed", "moved"):
        (tmp_path / f"{name}.py").write_text(f"{name} = 1\n", encoding="utf-8")
    (tmp_path / ".gitignore").write_text("ignored.py\n", encoding="utf-8")
    git(tmp_path, "add", "--all")
    git(tmp_path, "commit", "--message", "first")
    assert changed(tmp_path) == []
    git(tmp_path, "checkout", "-b", "work")
    (tmp_path / "committed.py").write_text("committed = 2\n", encoding="utf-8")
    git(tmp_path, "mv", "moved.py", "a moved ü.py")
    git(tmp_path, "commit", "--all", "--message", "second")
    (tmp_path / "edited.py").write_text("edited = 2\n", encoding="utf-8")
    (tmp_path / "removed.py").unlink()
    (tmp_path / "new.py").touch()
    (tmp_path / "ignored.py").touch()
    assert changed(tmp_path) == ["a moved ü.py", "committed.py", "edited.py", "moved.py", "new.py", "removed.py"]
    there = ["a moved ü.py", "committed.py", "edited.py", "new.py"]
    assert commands(changed(tmp_path), tmp_path) == [["ruff", "check", *there], ["ruff", "format", "--check", *there]]
    assert changed(tmp_path, "elsewhere") is None


def test_what_a_change_asks_for(tmp_path: Path) -> None:
    assert commands(None) == commands(["README.md", "pyproject.toml"]) == EVERYTHING
    assert commands([]) == commands(["README.md"]) == []
    assert commands(["src/simplexdp/gone.py"], tmp_path) == [["mypy"]]
    assert [command[0] for command in commands(["tools/house.py"])] == ["ruff", "ruff", "mypy"]


def test_contributors_are_told_of_commands_and_files_that_exist() -> None:
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    told = set(re.findall(r"^make ([\w-]+)|`make ([\w-]+)", page, re.MULTILINE))
    targets = set(re.findall(r"^([\w-]+):", MAKEFILE, re.MULTILINE))
    assert {one or other for one, other in told} <= targets
    assert len(told) > 8
    files = set(re.findall(r"`((?:docs|tests|tools|src)/[\w/.-]+\.(?:md|py))`", page))
    files |= set(re.findall(r"\]\(([\w/.-]+)\)", page))
    assert len(files) > 6
    assert [name for name in files - {"docs/architecture.md"} if not (ROOT / name).exists()] == []
