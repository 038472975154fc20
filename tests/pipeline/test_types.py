"""What is private has a type of its own: misuse does not type-check."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import simplexdp

pytestmark = pytest.mark.slow
HEAD = """
from simplexdp import CountTable, Gaussian, Release
from simplexdp.models.guarantee import Guarantee
from simplexdp.private.session import draw_each
from simplexdp.private.tables import opened
from simplexdp.sampling import SecureEntropy

def use(table: CountTable, made: Release, mechanism: Gaussian, guarantee: Guarantee) -> None:
    source = SecureEntropy()
"""
FINE = ["mechanism.draw(opened(table.private_counts()), source)"]
MISUSE = [
    "Release(values=table.private_counts(), mechanism=mechanism, guarantee=guarantee)",
    "Release(values=table, mechanism=mechanism, guarantee=guarantee)",
    "mechanism.draw(table, source)",
    "mechanism.draw(table.private_counts(), source)",
    "mechanism.draw(made, source)",
    'draw_each([made], [mechanism], guarantee, None, "raw", source, "again")',
    "table.private_counts() + 1",
    "float(table.private_counts())",
    "table.private_counts().sum()",
    "list(table)",
]


def test_misuse_does_not_type_check(tmp_path: Path) -> None:
    """Each line that publishes, adds up or draws what it may not is an error, and what a session does is none."""
    snippet = tmp_path / "snippet.py"
    snippet.write_text(HEAD + "".join(f"    {line}\n" for line in (*FINE, *MISUSE)))
    root = Path(simplexdp.__file__).parents[2]
    command = [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", "--no-pretty", str(snippet)]
    told = subprocess.run(command, capture_output=True, text=True, check=False, cwd=root).stdout
    lines = {int(line.split(":")[1]) for line in told.splitlines() if ": error:" in line and "snippet.py" in line}
    first = len(HEAD.splitlines()) + 1
    assert lines == set(range(first + len(FINE), first + len(FINE) + len(MISUSE))), told
