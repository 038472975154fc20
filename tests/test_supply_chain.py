"""The hashed list pins the same versions as the plain one, and nothing else is installed by it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


def pins(name: str) -> dict[str, str]:
    lines = [line for line in (ROOT / name).read_text(encoding="utf-8").splitlines() if line and line[0] != "#"]
    parts = [re.fullmatch(r"([A-Za-z0-9._-]+)==(\S+)( --hash=sha256:[0-9a-f]{64})?", line) for line in lines]
    assert all(parts), "a line is not a pin"
    if "hashed" in name:
        assert all(part and part[3] for part in parts), "a pin has no hash"
    return {re.sub(r"[._-]+", "-", part[1]).lower(): part[2] for part in parts if part}


def test_both_lists_pin_the_same() -> None:
    plain = pins("constraints.txt")
    assert len(plain) > 50
    assert pins("constraints-hashed.txt") == plain


def test_no_file_names_a_place_that_packages_come_from() -> None:
    for name in ("constraints.txt", "constraints-hashed.txt", "pyproject.toml", "Makefile"):
        assert not re.search(r"index-url|find-links|@ (https?|file):", (ROOT / name).read_text(encoding="utf-8")), name


UNSAFE = r"^\s*(?:import|from) (?:pickle|marshal|shelve|dill|cloudpickle|joblib)\b|\byaml\.(?:unsafe_|full_)?load\("


@pytest.mark.parametrize("line", ["import pickle", "    from joblib import load", "x = yaml.load(text)"])
def test_the_reading_can_fail(line: str) -> None:
    assert re.search(UNSAFE, line, re.MULTILINE)


def test_no_unsafe_loader_in_the_library() -> None:
    paths = [path for folder in ("src", "reproduction") for path in (ROOT / folder).rglob("*.py")]
    assert len(paths) > 100
    assert [path.name for path in paths if re.search(UNSAFE, path.read_text("utf-8"), re.MULTILINE)] == []
