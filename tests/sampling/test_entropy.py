"""Secure words never repeat across forks, copies and threads; seeded ones repeat exactly when they should."""

from __future__ import annotations

import copy
import os
import pickle
import threading
from collections.abc import Callable

import numpy as np
import pytest
from randomgen import ChaCha

from simplexdp.errors import InvalidArgument
from simplexdp.sampling import Entropy, SecureEntropy, SeededEntropy, entropy_from, secure_chacha

# Python 3.12 warns of forks beside threads, which test runners have; the children here only draw and leave.
pytestmark = pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")


def in_child(draw: Callable[[], bytes]) -> bytes:
    """What `draw` returns in a fork of this process."""
    out, into = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(into, draw())
        finally:
            os._exit(0)
    os.close(into)
    with os.fdopen(out, "rb") as pipe:
        answer = pipe.read()
    os.waitpid(child, 0)
    assert answer
    return answer


def test_children_of_a_fork_never_repeat_words() -> None:
    source = SecureEntropy()
    source.words(3)
    seen = [in_child(lambda: source.words(4).tobytes()) for _ in range(3)] + [source.words(4).tobytes()]
    assert len(set(seen)) == 4


def test_children_of_a_fork_never_repeat_a_generator_that_lived_before_it() -> None:
    generator = SecureEntropy().generator()

    def draw() -> bytes:
        # A draw of 32 bits may use the second half of a word of which the first was used before the fork.
        return generator.integers(0, 1 << 32, size=5, dtype=np.uint32).tobytes() + generator.random(4).tobytes()

    before = draw()
    seen = [before, *(in_child(draw) for _ in range(3)), in_child(lambda: in_child(draw)), draw()]
    assert len({part[:4] for part in seen}) == len({part[20:] for part in seen}) == len(seen)


def test_the_fork_test_can_fail() -> None:
    """A plain ChaCha, keyed just as well, is repeated by its children."""
    generator = np.random.Generator(ChaCha(key=np.frombuffer(os.urandom(32), dtype=np.uint64)))
    assert len({in_child(lambda: generator.random(4).tobytes()) for _ in range(2)}) == 1


@pytest.mark.parametrize("duplicate", [lambda g: pickle.loads(pickle.dumps(g)), copy.deepcopy])  # noqa: S301
def test_a_copy_of_a_secure_generator_has_its_own_key(
    duplicate: Callable[[np.random.Generator], np.random.Generator],
) -> None:
    generator = SecureEntropy().generator()
    twin = duplicate(generator)
    assert type(twin.bit_generator) is type(secure_chacha())
    assert not np.array_equal(generator.random(8), twin.random(8))


def test_a_pickled_secure_source_carries_nothing() -> None:
    source = SecureEntropy()
    source.words(10)
    twin = pickle.loads(pickle.dumps(source))  # noqa: S301
    assert twin.is_private
    assert twin.__dict__ == {}
    assert not np.array_equal(source.words(4), twin.words(4))


def test_chacha_is_the_published_cipher() -> None:
    """RFC 8439, appendix A.1, test vector 1: the key stream of the zero key."""
    stream = ChaCha(key=np.zeros(4, dtype=np.uint64), counter=0, rounds=20).random_raw(4)
    assert stream.astype("<u8").tobytes().hex().startswith("76b8e0ada0f13d90405d6ae55386bd28bdd219b8a08ded1a")
    assert secure_chacha().state["state"]["rounds"] == 20


@pytest.mark.parametrize("source", [SecureEntropy(), SeededEntropy(5)], ids=["secure", "seeded"])
def test_threads_never_share_words(source: Entropy) -> None:
    found: list[np.ndarray] = []

    def work() -> None:
        for _ in range(50):
            found.append(source.words(100))
            found.append(source.generator().integers(0, 1 << 63, size=20, dtype=np.uint64))
            found.append(source.child("table").words(20))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    words = np.concatenate(found)
    # 28,000 words of 63 or more bits: two alike by chance has probability 5e-11.
    assert len(words) == 4 * 50 * 140
    assert len(np.unique(words)) == len(words)


@pytest.mark.parametrize("source", [SecureEntropy(), SeededEntropy(5)], ids=["secure", "seeded"])
def test_words_are_uniform(source: Entropy) -> None:
    words = source.words(20_000)
    assert words.dtype == np.uint64
    ones = np.array([np.count_nonzero(words & np.uint64(1 << bit)) for bit in range(64)])
    # Binomial(20000, 1/2) per bit: 7 standard deviations, probability 2e-10 in all.
    assert np.abs(ones - 10_000).max() < 7 * np.sqrt(5_000)


def test_seeded_is_reproducible_and_marked() -> None:
    a, b = SeededEntropy(3), SeededEntropy(3)
    assert not a.is_private
    assert a.kind == "seeded"
    assert np.array_equal(a.words(5), b.words(5))
    assert np.array_equal(a.generator().random(5), b.generator().random(5))
    assert np.array_equal(a.child("x").child("y").words(5), b.child("x").child("y").words(5))
    assert not np.array_equal(a.words(5), SeededEntropy(4).words(5))


def test_seeded_streams_are_all_different() -> None:
    source = SeededEntropy(0)
    streams = [
        source.words(4),
        source.words(4),
        source.generator().bit_generator.random_raw(4),
        source.generator().bit_generator.random_raw(4),
        source.child("a").words(4),
        source.child("a").words(4),
        source.child("b").words(4),
        source.child("a").child("b").words(4),
        source.child("b").child("a").words(4),
        source.child("").words(4),
    ]
    assert len({stream.tobytes() for stream in streams}) == len(streams)


def test_a_seeded_child_does_not_depend_on_what_was_drawn_before() -> None:
    a, b = SeededEntropy(3), SeededEntropy(3)
    a.words(100), a.child("other"), a.generator()
    assert np.array_equal(a.child("x").words(5), b.child("x").words(5))


def test_children_are_uncorrelated() -> None:
    """Signs of 40,000 words of each of 6 children: pairwise correlations within 5 standard deviations (p =
    9e-6)."""
    source = SeededEntropy(1)
    signs = np.array([(source.child(f"table {i}").words(40_000) >> np.uint64(63)).astype(float) for i in range(6)])
    off = np.corrcoef(signs) - np.eye(6)
    assert np.abs(off).max() < 5 / np.sqrt(40_000)


def test_pickling_a_seeded_source_keeps_its_place() -> None:
    source = SeededEntropy(9)
    source.words(7), source.child("a")
    twin = pickle.loads(pickle.dumps(source))  # noqa: S301
    assert np.array_equal(source.words(4), twin.words(4))
    assert np.array_equal(source.child("a").words(4), twin.child("a").words(4))


def test_entropy_from() -> None:
    assert entropy_from(None).is_private
    assert np.array_equal(entropy_from(np.int64(4)).words(2), SeededEntropy(4).words(2))
    source = SeededEntropy(1)
    assert entropy_from(source) is source


@pytest.mark.parametrize("value", [-1, 1.5, True, "os", np.random.default_rng(1)])
def test_entropy_from_refuses(value: object) -> None:
    with pytest.raises(InvalidArgument, match="entropy"):
        entropy_from(value)  # type: ignore[arg-type]


@pytest.mark.parametrize("source", [SecureEntropy(), SeededEntropy(5)], ids=["secure", "seeded"])
def test_bad_sizes_and_names(source: Entropy) -> None:
    assert source.words(0).size == 0
    for size in (-1, 1.5, True):
        with pytest.raises(InvalidArgument, match="size"):
            source.words(size)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument, match="name"):
        source.child(3)  # type: ignore[arg-type]


def test_the_representation_shows_no_state() -> None:
    assert "123456789" not in repr(SeededEntropy(123456789))
    assert repr(SecureEntropy()) == "SecureEntropy()"
