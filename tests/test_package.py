"""The package itself: its names, and what importing it costs."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from tools.matrix import lower_bounds, pythons
from tools.size import weigh

import simplexdp

HEAVY = [
    "pandas",
    "pyarrow.dataset",
    "pyarrow",
    "scipy.optimize",
    "scipy.special",
    "scipy.sparse",
    "duckdb",
    "sqlglot",
    "mpmath",
    "randomgen",
    "opendp",
    "matplotlib",
    "sklearn",
]


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


def test_the_weight_of_an_installation_counts_its_own_files(tmp_path: Path) -> None:
    inside = tmp_path / "lib" / "site-packages"
    for name, size in (("one/a.py", 5000), ("one/b/c.so", 9000), ("two.so", 1)):
        (inside / name).parent.mkdir(parents=True, exist_ok=True)
        (inside / name).write_bytes(b"x" * size)
    (inside / "link").symlink_to(inside / "two.so")
    found = weigh(tmp_path)
    assert set(found) == {"one", "two.so"}
    assert found["one"] >= 14000 > found["two.so"] > 0


def test_the_matrix_of_versions_takes_every_lower_bound() -> None:
    project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    held = lower_bounds(project["dependencies"])
    assert len(held) == len(project["dependencies"])
    assert "numpy==2.0.*" in held
    assert pythons(99) == []


@pytest.mark.slow
def test_python_dash_m_runs_the_command_line() -> None:
    done = subprocess.run([sys.executable, "-m", "simplexdp", "--version"], capture_output=True, text=True, check=False)
    assert done.returncode == 0
    assert done.stdout.strip() == f"simplexdp {simplexdp.__version__}"


@pytest.mark.parametrize(
    ("code", "absent"),
    [
        ("import simplexdp.cli as c; c.run(['--help'])", [*HEAVY, "numpy", "pydantic", "yaml"]),
        (
            "from simplexdp import Budget, release; release([119, 74, 618], budget=Budget(epsilon=1, delta=1e-6))",
            [*HEAVY, "rich", "typer"],
        ),
    ],
    ids=["--help", "release"],
)
def test_a_small_job_loads_nothing_that_it_does_not_use(code: str, absent: list[str]) -> None:
    code += f"; import sys; sys.stderr.write(repr([m for m in {absent} if m in sys.modules]))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stderr == "[]"
