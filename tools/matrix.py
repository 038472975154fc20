"""`make test-matrix`: the suite on the oldest dependencies that are supported, and on the newest there are.

The oldest run on the oldest Python (`requires-python`), the newest on that and on the newest Python at hand. Oldest
means the lower bounds of `pyproject.toml`, with their latest corrections; what has no bound there is taken as new as
fits. Environments are kept in `build/matrix`. Names of runs and, after `--`, arguments for pytest choose less:
`python -m tools.matrix oldest -- tests/cli`.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Sequence
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[1]
PLACE = ROOT / "build" / "matrix"
NEWEST_TRIED = 20
"""Python 3.x is looked for up to this x."""


def lower_bounds(requirements: Iterable[str]) -> list[str]:
    """Constraints that hold each package at its lower bound, with later corrections of that version.

    >>> lower_bounds(["numpy>=2.0", "pandas", "simplexdp[learn]", "psycopg[binary]>=3.2"])
    ['numpy==2.0.*', 'psycopg==3.2.*']
    """
    found = []
    for each in map(Requirement, requirements):
        found += [f"{each.name}=={bound.version}.*" for bound in each.specifier if bound.operator == ">="]
    return found


def pythons(least: int) -> list[str]:
    """The oldest supported Python, then the newest at hand if that is another."""
    at_hand = [f"python3.{minor}" for minor in range(least, NEWEST_TRIED) if shutil.which(f"python3.{minor}")]
    return at_hand[:1] + at_hand[1:][-1:]


def run(name: str, python: str, constraints: Sequence[str], arguments: Sequence[str]) -> int:
    """Make the environment of a run and test in it."""
    place = PLACE / name
    place.mkdir(parents=True, exist_ok=True)
    (place / "constraints.txt").write_text("".join(f"{line}\n" for line in constraints))
    subprocess.run([python, "-m", "venv", str(place)], check=True)
    inside = str(place / "bin" / "python")
    pip = [inside, "-m", "pip", "--quiet", "--disable-pip-version-check", "install", "--upgrade"]
    subprocess.run([*pip, "--constraint", str(place / "constraints.txt"), "--editable", ".[dev]"], cwd=ROOT, check=True)
    # A deprecation of a later version is not a fault of ours, which `make test` looks for with pinned ones.
    later = ["-W", "ignore::DeprecationWarning", "-W", "ignore::FutureWarning", "-p", "no:cacheprovider"]
    environment = os.environ | {"OPENBLAS_NUM_THREADS": "1", "PYTHONUTF8": "1"}
    return subprocess.run(
        [inside, "-m", "pytest", *later, *arguments], cwd=ROOT, env=environment, check=False
    ).returncode


def main(arguments: Sequence[str]) -> int:
    """Run all, say what ran, and return how many failed."""
    cut = arguments.index("--") if "--" in arguments else len(arguments)
    wanted, rest = arguments[:cut], list(arguments[cut + 1 :]) or ["-n", "2"]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    stated = [*project["dependencies"], *(one for many in project["optional-dependencies"].values() for one in many)]
    minor = re.search(r"3\.(\d+)", project["requires-python"])
    assert minor is not None
    found = pythons(int(minor[1]))
    runs = {"oldest": (found[0], lower_bounds(stated)), "newest": (found[0], list[str]())}
    if len(found) > 1:
        runs["newest-python"] = (found[1], [])
    results = {name: run(name, *runs[name], rest) for name in runs if not wanted or name in wanted}
    for name, code in results.items():
        print(f"{name:14} {runs[name][0]:12} {'passed' if code == 0 else 'FAILED'}")
    if len(found) == 1:
        print(f"no newer Python than {found[0]} at hand")
    return sum(code != 0 for code in results.values()) + (not results)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
