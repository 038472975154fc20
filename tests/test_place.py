"""Nothing depends on where the project lies: CI tests a clone in an awkward place, and the Makefile runs there."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
MAKEFILE = """
test:
	@echo "$(CURDIR)" > "$(TOLD)"
	@echo "$$HOME" >> "$(TOLD)"
	@echo "$$TMPDIR" >> "$(TOLD)"
	@echo "$$SIMPLEXDP_DATA" >> "$(TOLD)"
	@find "$$HOME" "$$TMPDIR" -mindepth 1 >> "$(TOLD)"
	@cat committed
	@exit $(CODE)
"""

posix = pytest.mark.skipif(
    sys.platform == "win32" or not all(map(shutil.which, ("bash", "git", "make"))), reason="no bash, git or make"
)


def checkout(folder: Path, *, repository: bool) -> Path:
    """A project with the script of CI, whose `make test` tells where it runs."""
    (folder / ".ci").mkdir(parents=True)
    shutil.copy(ROOT / ".ci" / "run", folder / ".ci")
    (folder / "Makefile").write_text(MAKEFILE, encoding="utf-8")
    (folder / "committed").write_text("as committed\n", encoding="utf-8")
    if repository:
        who = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false"]
        for command in (["init", "--quiet"], ["add", "--all"], [*who, "commit", "--quiet", "--message", "all"]):
            subprocess.run(["git", *command], cwd=folder, check=True)
        (folder / "committed").write_text("changed since\n", encoding="utf-8")
    return folder


@posix
@pytest.mark.parametrize("repository", [True, False], ids=["clone", "archive"])
@pytest.mark.parametrize("code", [0, 1])
def test_ci_tests_a_copy_below_a_folder_with_a_space(repository: bool, code: int, tmp_path: Path) -> None:
    here = checkout(tmp_path / "elsewhere", repository=repository)
    (tmp_path / "shared" / "uci").mkdir(parents=True)
    (tmp_path / "tmp").mkdir()
    told = tmp_path / "told"
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith(("SIMPLEXDP", "MAKE", "GIT"))
    }
    environment |= {"TOLD": str(told), "CODE": str(code), "TMPDIR": str(tmp_path / "tmp")}
    done = subprocess.run(
        [here / ".ci" / "run"], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert (done.returncode == 0) == (code == 0)
    place, home, temporary, data, *inside = told.read_text(encoding="utf-8").splitlines()
    assert Path(place).name == "simplexdp"
    assert " " in Path(place).parent.name
    assert Path(place).is_relative_to(tmp_path / "tmp")
    assert Path(home).parent == Path(temporary).parent == Path(place).parent
    assert inside == []  # of HOME and the folder for temporary files
    assert Path(data) == tmp_path / "shared" / "uci"
    assert done.stdout.splitlines()[-1] == "as committed"  # the last line is that of the tests
    assert list((tmp_path / "tmp").iterdir()) == []


def test_programs_of_the_environment_run_as_modules() -> None:
    """Their own first lines hold the path of the environment, which may have spaces or be too long."""
    text = (ROOT / "Makefile").read_text(encoding="utf-8")
    programs = re.findall(r"\$\((?:BIN|VENV|TOOLS)\)/(?:bin/)?(\w[\w-]*)", text)
    assert len(programs) > 10
    assert set(programs) <= {"python", "bin", "tools"}
