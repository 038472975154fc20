"""`make wheel`: build the wheel, install it in an environment of its own, and use it there as somebody else would.

The dependencies come from the index, or with `--link` as links to those of this environment: only to what the wheel
asks for, and what that asks for in turn, so that one which was not declared is missed.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import venv
import zipfile
from collections.abc import Iterator
from email.parser import HeaderParser
from importlib.metadata import distribution
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[1]
NEEDED = ("pyproject.toml", "README.md", "LICENSE", "src/simplexdp")
SMOKE = ROOT / "tools" / "wheel_smoke.py"
PIP = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet")


def build(folder: Path, root: Path = ROOT) -> Path:
    """The wheel, in this folder. It is built from a copy, since setuptools also packs what an earlier build left."""
    with tempfile.TemporaryDirectory() as place:
        for name in NEEDED:
            source, copy = root / name, Path(place, name)
            copy.parent.mkdir(parents=True, exist_ok=True)
            if source.is_dir():
                shutil.copytree(source, copy, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy(source, copy)
        command = [*PIP, "wheel", ".", "--no-deps", "--no-build-isolation", "--wheel-dir", str(folder)]
        subprocess.run(command, cwd=place, check=True)
    (wheel,) = folder.glob("simplexdp-*.whl")
    return wheel


def names(wheel: Path) -> list[str]:
    """The files in it."""
    with zipfile.ZipFile(wheel) as archive:
        return archive.namelist()


def requirements(wheel: Path, extras: str = "") -> list[str]:
    """What it says that it needs, with these extras."""
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        said = HeaderParser().parsestr(archive.read(name).decode()).get_all("Requires-Dist", [])
    return [str(each) for each in said if any(_applies(Requirement(each), name) for name in extras.split(","))]


def environment(place: Path, wheel: Path, extras: str = "", *, link: bool) -> Path:
    """The Python of a new environment with the wheel, what it needs with these extras, and nothing else."""
    venv.create(place, symlinks=os.name == "posix")
    python = place / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    install = [*PIP, "--python", str(python), "install"]
    if link:
        asked = subprocess.run(
            [python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"],
            capture_output=True,
            text=True,
            check=True,
        )
        _link(requirements(wheel, extras), Path(asked.stdout.strip()))
        install.append("--no-deps")
    subprocess.run(
        [*install, "--constraint", str(ROOT / "constraints.txt"), f"{wheel}[{extras}]" if extras else str(wheel)],
        check=True,
    )
    subprocess.run([*PIP, "--python", str(python), "check"], check=True)
    return python


def use(wheel: Path, place: Path, *, link: bool) -> None:
    """Install and use it in this folder, from which the repository cannot be seen: the smoke test, and the whole demo.

    The demo has a rival from scikit-learn and a report with pictures, so it needs those extras.
    """
    outside = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    for extras, command in ("", [str(SMOKE)]), ("learn,plots", ["-m", "simplexdp", "demo", "--quick"]):
        here = place / (extras or "plain")
        here.mkdir()
        python = environment(here / "environment", wheel, extras, link=link)
        subprocess.run([python, "-I", *command], cwd=here, env=outside, check=True)
    if not (here / "demo-report.html").exists():
        raise SystemExit("the demo wrote no report")


def _applies(requirement: Requirement, extra: str) -> bool:
    return requirement.marker is None or requirement.marker.evaluate({"extra": extra})


def _needed(asked: list[str]) -> Iterator[str]:
    """The distributions that these requirements come to, each once."""
    todo, seen = [Requirement(each) for each in asked], set()
    while todo:
        requirement = todo.pop()
        for extra in ("", *requirement.extras):
            if (requirement.name, extra) in seen:
                continue
            seen.add((requirement.name, extra))
            if not extra:
                yield requirement.name
            further = map(Requirement, distribution(requirement.name).requires or [])
            todo += [each for each in further if _applies(each, extra)]


def _link(asked: list[str], site: Path) -> None:
    """Links to the files and folders that those distributions have in the environment that runs this."""
    for name in _needed(asked):
        found = distribution(name)
        for top in {file.parts[0] for file in found.files or []} - {"..", "__pycache__"}:
            if not (site / top).exists():
                (site / top).symlink_to(Path(str(found.locate_file(top))))


def main() -> None:
    """Build into dist/, install, use."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--link", action="store_true", help="take the dependencies from this environment")
    chosen = parser.parse_args()
    dist = ROOT / "dist"
    shutil.rmtree(dist, ignore_errors=True)
    wheel = build(dist)
    with tempfile.TemporaryDirectory() as place:
        use(wheel, Path(place), link=chosen.link)
    print(f"dist/{wheel.name}: {len(names(wheel))} files, installed and used")


if __name__ == "__main__":
    main()
