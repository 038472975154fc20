"""The wheel holds the library and nothing else, and works where nothing but its dependencies is installed."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest
from tools.wheel import NEEDED, ROOT, build, names, requirements, use

pytestmark = pytest.mark.slow

SOURCE = ROOT / "src" / "simplexdp"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("dist"))


def test_it_holds_the_library_and_nothing_else(wheel: Path) -> None:
    inside = [name for name in names(wheel) if ".dist-info/" not in name]
    modules = {path.relative_to(SOURCE.parent).as_posix() for path in SOURCE.rglob("*.py")}
    pages = {
        path.relative_to(SOURCE.parent).as_posix()
        for folder in ("templates", "static")
        for path in (SOURCE / "studio" / folder).iterdir()
    }
    assert len(pages) > 15
    assert set(inside) == modules | pages | {"simplexdp/py.typed", "simplexdp/schema/public_facts.yaml"}
    assert any(name.endswith("licenses/LICENSE") for name in names(wheel))


def test_what_an_earlier_build_left_is_not_in_it(tmp_path: Path) -> None:
    """setuptools packs all of build/lib."""
    root = tmp_path / "project"
    for name in NEEDED:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, root / name) if (ROOT / name).is_file() else (root / name).mkdir()
    (root / "src" / "simplexdp" / "__init__.py").touch()
    stale = root / "build" / "lib" / "simplexdp" / "gone.py"
    stale.parent.mkdir(parents=True)
    stale.touch()
    assert "simplexdp/gone.py" not in names(build(tmp_path / "dist", root))


def test_it_asks_for_what_the_project_declares(wheel: Path) -> None:
    plain, learn = requirements(wheel), requirements(wheel, "learn")
    assert any(each.startswith("numpy") for each in plain)
    assert not any(each.startswith(("scikit-learn", "pytest")) for each in plain)
    (further,) = set(learn) - set(plain)
    assert further.startswith("scikit-learn")
    assert {*plain, further} < set(requirements(wheel, "learn,plots"))


@pytest.mark.skipif(sys.platform == "win32", reason="links need a privilege there")
def test_it_is_installed_and_used_in_an_environment_of_its_own(wheel: Path, tmp_path: Path) -> None:
    use(wheel, tmp_path, link=True)
