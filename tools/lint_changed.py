"""`make quick`, its first half: the checks of `make lint` on what differs from the branch `main`, committed or not.

mypy looks at everything once a typed file has changed, since a changed signature is noticed where it is called; its
cache makes that quick. Without git, or without `main`, what is checked is more and never less.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TYPED = ("src", "benchmarks", "reproduction", "tools", "pyproject.toml", "constraints.txt")


def changed(root: Path = ROOT, main: str = "main") -> list[str] | None:
    """The files that differ from where this branch left `main`, new ones too; None where git cannot say."""
    base = _git(root, "merge-base", "HEAD", main)
    if not base:
        return None
    differ = _git(root, "diff", "--name-only", "--no-renames", "-z", base[0])
    new = _git(root, "ls-files", "--others", "--exclude-standard", "-z")
    return None if differ is None or new is None else sorted({*differ, *new})


def commands(files: list[str] | None, root: Path = ROOT) -> list[list[str]]:
    """What to run for these files; all that `make lint` runs for None and for changed settings."""
    if files is None or "pyproject.toml" in files:
        return [["ruff", "check", "."], ["ruff", "format", "--check", "."], ["mypy"]]
    there = [name for name in files if name.endswith(".py") and (root / name).exists()]
    linted = [["ruff", "check", *there], ["ruff", "format", "--check", *there]] if there else []
    return [*linted, *([["mypy"]] if any(Path(name).parts[0] in TYPED for name in files) else [])]


def _git(root: Path, *command: str) -> list[str] | None:
    try:
        done = subprocess.run(["git", *command], cwd=root, capture_output=True, text=True, check=False)
    except OSError:
        return None
    return None if done.returncode else [name for name in done.stdout.strip("\n").split("\0") if name]


def main() -> None:
    """Run them all; the exit code is that of the worst."""
    codes = [
        subprocess.run([sys.executable, "-m", *command], cwd=ROOT, check=False).returncode
        for command in commands(changed())
    ]
    sys.exit(max(codes, default=0))


if __name__ == "__main__":
    main()
