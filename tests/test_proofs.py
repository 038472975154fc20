"""Every mechanism that claims a finite loss names its proof, and the proof names the code that carries it."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
from pathlib import Path

import pytest

import simplexdp.mechanisms
from simplexdp.mechanisms.none import NoNoise

ROOT = Path(__file__).resolve().parents[1]


def mechanisms() -> list[type]:
    """All classes of the package that have a loss and a draw, but for protocols and the one without noise."""
    found: set[type] = set()
    for module in pkgutil.iter_modules(simplexdp.mechanisms.__path__, "simplexdp.mechanisms."):
        for _, item in inspect.getmembers(importlib.import_module(module.name), inspect.isclass):
            if item.__module__ == module.name and not getattr(item, "_is_protocol", False) and item is not NoNoise:
                found |= (
                    {item} if hasattr(item, "loss") and hasattr(item, "draw") and hasattr(item, "parameters") else set()
                )
    return sorted(found, key=lambda item: item.__name__)


def test_the_known_mechanisms_are_found() -> None:
    assert {"BalancedLaplace", "Dirichlet", "Gaussian", "Laplace", "Polya"} <= {item.__name__ for item in mechanisms()}


@pytest.mark.parametrize("mechanism", mechanisms(), ids=lambda item: item.__name__)
def test_each_mechanism_has_a_proof_that_names_its_code(mechanism: type) -> None:
    named = re.search(r"Proof: (docs/proofs/\w+\.md)\.", inspect.getdoc(mechanism) or "")
    assert named, f"{mechanism.__name__} names no proof"
    page = (ROOT / named[1]).read_text(encoding="utf-8")
    for part in ("**Preconditions.**", "**Claim", "**Proof.**", "*Code:*"):
        assert part in page, f"{named[1]} has no {part}"
    source = Path(inspect.getsourcefile(mechanism) or "").name
    assert re.search(rf"`(mechanisms/)?{source}`", page) or f"`{mechanism.__name__}" in page
