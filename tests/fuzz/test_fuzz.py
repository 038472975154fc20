"""Hostile files and arguments: a few thousand cases here, a million in `python -m benchmarks fuzz`."""

from __future__ import annotations

import logging
import pickle
from collections.abc import Callable

import pytest
from benchmarks.fuzz import SHARES, watch
from benchmarks.fuzz import targets as fuzz
from benchmarks.fuzz.changes import HOSTILE, PIECES, edit, swap
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from simplexdp.errors import SimplexDPError

settings.register_profile("fuzz", deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)

places = st.floats(0, 1, exclude_max=True)
pieces = st.one_of(st.sampled_from(PIECES), st.binary(max_size=4))
edits = st.lists(st.tuples(places, st.integers(0, 6), pieces), min_size=1, max_size=4)
swaps = st.lists(st.tuples(places, st.sampled_from(HOSTILE), st.booleans()), min_size=1, max_size=3)


def changed(target: str) -> st.SearchStrategy[bytes]:
    """Valid inputs with a few bytes changed, or cut short."""

    def build(seed: bytes, changes: list[tuple[float, int, bytes]], cut: float) -> bytes:
        for where, length, piece in changes:
            seed = edit(seed, where, length, piece)
        return seed[: int(len(seed) * cut) + 1] if cut < 0.5 else seed

    return st.builds(build, st.sampled_from(fuzz.seeds(target)), edits, places)


def swapped(target: str) -> st.SearchStrategy[bytes]:
    """Valid JSON with a few values replaced or removed."""

    def build(seed: bytes, changes: list[tuple[float, object, bool]]) -> bytes:
        for where, value, remove in changes:
            seed = swap(seed, where, value, remove=remove)
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
    "network_body": (swapped, 100),
    "bif": (changed, 300),
    "ledger": (changed, 250),
    "ledger_chain": (swapped, 400),
    "csv": (changed, 80),
    "packed": (changed, 40),
    "rows_json": (changed, 40),
    "parquet": (changed, 400),
    "sql": (changed, 80),
    "counts": (lambda _: st.binary(max_size=6), 300),
    "rows": (lambda _: st.binary(min_size=1, max_size=8), 300),
    "command": (lambda _: st.binary(max_size=10), 250),
}


@pytest.mark.slow
@pytest.mark.parametrize("target", CASES)
def test_changed_inputs(target: str) -> None:
    strategy, cases = CASES[target]
    run(target, strategy(target), cases)


@pytest.mark.slow
def test_schema_json_with_other_values() -> None:
    run("schema_json", swapped("schema_json"), 500)


@pytest.mark.parametrize("target", [t for t in CASES if t != "command"])
def test_any_bytes(target: str) -> None:
    run(target, st.binary(max_size=60), 40)


@pytest.mark.slow
@pytest.mark.parametrize("target", CASES)
def test_valid_inputs_pass(target: str) -> None:
    assert fuzz.seeds(target)
    for seed in fuzz.seeds(target):
        fuzz.TARGETS[target](seed)


def test_the_benchmark_runs_every_target() -> None:
    assert set(SHARES) == set(fuzz.TARGETS) == set(CASES)
    assert sum(SHARES.values()) == pytest.approx(1)


# -- the controls: what must not be quiet ----------------------------------------------------------------------------


def _foreign() -> None:
    raise KeyError("x")


def _leaking() -> None:
    raise SimplexDPError(f"bad value {watch.SECRET}")


def _leaking_context() -> None:
    try:
        int(watch.SECRET)
    except ValueError:
        raise SimplexDPError("bad value")  # noqa: B904 - the point


def _printing() -> None:
    print(watch.COUNT)


def _logging() -> None:
    logging.getLogger("some.engine").warning("read %s", watch.SECRET)


def _writing() -> None:
    (watch.folder() / "stray").write_text("x")


def _unpickling() -> None:
    pickle.loads(pickle.dumps(SimplexDPError))  # noqa: S301 - the point


@pytest.mark.parametrize(
    ("case", "found"),
    [
        (_foreign, KeyError),
        (_leaking, "private"),
        (_leaking_context, "private"),
        (_printing, "private"),
        (_logging, "private"),
        (_writing, "written"),
        (_unpickling, "pickle"),
    ],
)
def test_what_a_target_fails_on(case: Callable[[], None], found: str | type[Exception]) -> None:
    if isinstance(found, str):
        with pytest.raises(AssertionError, match=found):
            watch.quiet(case)
    else:
        with pytest.raises(found):
            watch.quiet(case)


def test_a_file_that_was_asked_for_may_be_written() -> None:
    watch.quiet(_writing, watch.folder() / "stray")
