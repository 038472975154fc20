"""Hostile files and arguments: a few thousand cases here, a million in `python -m benchmarks.fuzz`."""

from __future__ import annotations

from collections.abc import Callable

import fuzz_targets as fuzz
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

settings.register_profile("fuzz", deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)

places = st.floats(0, 1, exclude_max=True)
pieces = st.one_of(st.sampled_from(fuzz.PIECES), st.binary(max_size=4))
edits = st.lists(st.tuples(places, st.integers(0, 6), pieces), min_size=1, max_size=4)
swaps = st.lists(st.tuples(places, st.sampled_from(fuzz.HOSTILE), st.booleans()), min_size=1, max_size=3)


def changed(target: str) -> st.SearchStrategy[bytes]:
    """Valid inputs with a few bytes changed, or cut short."""

    def build(seed: bytes, changes: list[tuple[float, int, bytes]], cut: float) -> bytes:
        for where, length, piece in changes:
            seed = fuzz.edit(seed, where, length, piece)
        return seed[: int(len(seed) * cut) + 1] if cut < 0.5 else seed

    return st.builds(build, st.sampled_from(fuzz.seeds(target)), edits, places)


def swapped(target: str) -> st.SearchStrategy[bytes]:
    """Valid JSON with a few values replaced or removed."""

    def build(seed: bytes, changes: list[tuple[float, object, bool]]) -> bytes:
        for where, value, remove in changes:
            seed = fuzz.swap(seed, where, value, remove=remove)
        return seed

    return st.builds(build, st.sampled_from(fuzz.seeds(target)), swaps)


def run(target: str, inputs: st.SearchStrategy[bytes], cases: int) -> None:
    @settings(settings.get_profile("fuzz"), max_examples=cases)
    @given(inputs)
    def check(data: bytes) -> None:
        fuzz.TARGETS[target](data)

    check()


CASES: dict[str, tuple[Callable[[str], st.SearchStrategy[bytes]], int]] = {
    "schema_yaml": (changed, 600),
    "schema_json": (changed, 400),
    "release_file": (changed, 300),
    "release_body": (swapped, 400),
    "model_body": (swapped, 300),
    "ledger": (changed, 250),
    "csv": (changed, 150),
    "parquet": (changed, 400),
    "command": (lambda _: st.binary(max_size=10), 250),
}


@pytest.mark.parametrize("target", CASES)
def test_changed_inputs(target: str) -> None:
    strategy, cases = CASES[target]
    run(target, strategy(target), cases)


def test_schema_json_with_other_values() -> None:
    run("schema_json", swapped("schema_json"), 500)


@pytest.mark.parametrize("target", [t for t in CASES if t != "command"])
def test_any_bytes(target: str) -> None:
    run(target, st.binary(max_size=60), 40)


@pytest.mark.parametrize("target", CASES)
def test_valid_inputs_pass(target: str) -> None:
    assert fuzz.seeds(target)
    for seed in fuzz.seeds(target):
        fuzz.TARGETS[target](seed)


def test_a_target_fails_on_a_foreign_error() -> None:
    """The control: an error that is not of this library, or one that shows a private value, is not quiet."""

    def foreign() -> None:
        raise KeyError("x")

    def leaking() -> None:
        raise fuzz.SimplexDPError(f"bad value {fuzz.SECRET}")

    with pytest.raises(KeyError):
        fuzz._quiet(foreign)
    with pytest.raises(AssertionError, match="private"):
        fuzz._quiet(leaking)
