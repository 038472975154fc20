"""`make size`: what a base installation weighs, in a fresh environment without pip and without bytecode.

The wheel is built and installed with what it declares; every file below `site-packages` and in the folder of scripts
counts with the disk blocks it takes. More than `MOST` MiB is an error.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import venv
from collections import Counter
from pathlib import Path

from .wheel import PIP, ROOT, build

MOST = 500
"""MiB that a base installation may have."""
_SHOWN, _BLOCK = 12, 512


def weigh(place: Path) -> Counter[str]:
    """Bytes of each top-level name below the packages of an environment; one that is linked to is not its own."""
    found: Counter[str] = Counter()
    for file in place.rglob("*"):
        if not file.is_symlink() and file.is_file():
            inside = file.relative_to(place).parts
            name = inside[inside.index("site-packages") + 1] if "site-packages" in inside else inside[0]
            found[name] += file.stat().st_blocks * _BLOCK
    return found


def _without_path() -> dict[str, str]:
    """The environment variables, without packages from elsewhere."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}


def main() -> int:
    """Build, install, weigh, print; 1 if it is too much."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder, "environment")
        venv.create(place, with_pip=False)
        python = place / ("Scripts" if sys.platform == "win32" else "bin") / "python"
        wheel = build(Path(folder))
        pip = [PIP[0], "-m", "pip", "--python", str(python), *PIP[3:]]
        constraints = ["--constraint", str(ROOT / "constraints.txt")]
        subprocess.run([*pip, "install", "--no-compile", *constraints, str(wheel)], check=True, env=_without_path())
        found = weigh(place)
    for name, size in found.most_common(_SHOWN):
        print(f"{size / 2**20:7.1f} MiB  {name}")
    total = found.total() / 2**20
    print(f"{total:7.1f} MiB  altogether, of at most {MOST}")
    return int(total > MOST)


if __name__ == "__main__":
    sys.exit(main())
