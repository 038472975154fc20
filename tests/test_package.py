"""The package itself: its names, and what importing it costs."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import simplexdp


@pytest.mark.parametrize("name", simplexdp.__all__)
def test_every_public_name_is_there(name: str) -> None:
    assert getattr(simplexdp, name) is not None
    assert name in dir(simplexdp)


@pytest.mark.parametrize("name", sorted({*simplexdp.__all__} - {"__version__", "errors"}))
def test_every_public_name_is_documented(name: str) -> None:
    page = (Path(__file__).parents[1] / "docs" / "api.md").read_text(encoding="utf-8")
    assert f"`{name}`" in page, "the overview does not name it"
    assert re.search(rf"(auto\w+:: \S*\.|members:.*\b){name}\b", page), "no entry describes it"


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = simplexdp.nonsense


def test_importing_the_package_loads_nothing_heavy() -> None:
    heavy = [
        "numpy",
        "scipy",
        "pyarrow",
        "duckdb",
        "sklearn",
        "opendp",
        "pyspark",
        "pandas",
        "matplotlib",
        "pgmpy",
        "dp_accounting",
    ]
    code = f"import sys, simplexdp; print([m for m in {heavy} if m in sys.modules])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


@pytest.mark.slow
def test_python_dash_m_runs_the_command_line() -> None:
    done = subprocess.run([sys.executable, "-m", "simplexdp", "--version"], capture_output=True, text=True, check=False)
    assert done.returncode == 0
    assert done.stdout.strip() == f"simplexdp {simplexdp.__version__}"
