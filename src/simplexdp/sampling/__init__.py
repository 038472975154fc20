"""Layer 2: where randomness comes from, and the laws that are drawn with it."""

from __future__ import annotations

import hashlib
import os
import threading
import weakref
from abc import ABC, abstractmethod
from functools import cache
from numbers import Real
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ..budget import check_whole
from ..errors import InvalidArgument


class Entropy(ABC):
    """Random words for the exact samplers, NumPy generators for the floating-point ones."""

    @property
    @abstractmethod
    def kind(self) -> Literal["operating-system", "seeded"]:
        """What a certificate says about the source."""

    @property
    def is_private(self) -> bool:
        """Whether a release drawn with it may claim its guarantee."""
        return self.kind == "operating-system"

    @abstractmethod
    def words(self, size: int) -> NDArray[np.uint64]:
        """`size` independent uniform 64-bit words; the array may be read-only. No floating point is
        involved."""

    @abstractmethod
    def generator(self) -> np.random.Generator:
        """A NumPy generator, independent of every other one and of all words. Draw and drop it; do not keep
        it."""

    @abstractmethod
    def child(self, name: str) -> Entropy:
        """A source for the table `name`, independent of this one and of every other child."""


class SecureEntropy(Entropy):
    """Cryptographically secure: the operating system's generator (`os.urandom`).

    >>> source = SecureEntropy()
    >>> source.is_private, source.kind, len(source.words(3))
    (True, 'operating-system', 3)
    """

    @property
    def kind(self) -> Literal["operating-system"]:
        """Always `operating-system`."""
        return "operating-system"

    def words(self, size: int) -> NDArray[np.uint64]:
        """Words read from the operating system at this moment; they are kept nowhere."""
        return np.frombuffer(os.urandom(8 * _size(size)), dtype=np.uint64)

    def generator(self) -> np.random.Generator:
        """ChaCha20 under a fresh 256-bit key of the operating system; re-keyed in the children of a fork."""
        return np.random.Generator(secure_chacha())

    def child(self, name: str) -> SecureEntropy:
        """This source itself: it has no state, so all its draws are independent already."""
        _name(name)
        return self

    def __repr__(self) -> str:
        return "SecureEntropy()"


def secure_chacha() -> Any:
    """ChaCha20 keyed by the operating system, as a NumPy bit generator that neither a fork nor a copy can repeat.

    A bit generator lives in C and buffers a block of its key stream, so unlike `os.urandom` it has a state. A forked
    child would go on with its parent's; a pickle or a deep copy would carry it. Here each gets a new key.
    """
    return _chacha()()


@cache
def _chacha() -> Any:
    """ChaCha with 20 rounds (RFC 8439) and a 256-bit key of the operating system; `randomgen` is loaded when needed."""
    from randomgen import ChaCha

    alive: weakref.WeakSet[Any] = weakref.WeakSet()

    class SecureChaCha(ChaCha):  # type: ignore[misc]  # randomgen is untyped for us
        def __init__(self) -> None:
            super().__init__(key=np.frombuffer(os.urandom(32), dtype=np.uint64), counter=0, rounds=20)
            alive.add(self)

        def __reduce__(self) -> tuple[Any, tuple[()]]:  # for copies too
            return secure_chacha, ()

    def rekey() -> None:
        for generator in list(alive):
            generator.state = SecureChaCha().state

    os.register_at_fork(after_in_child=rekey)
    return SecureChaCha


class SeededEntropy(Entropy):
    """Reproducible and **not private**: for tests, experiments and documentation.

    The children depend on the seed and their names only, not on what was drawn before, so that adding a
    table to a release leaves the other tables as they were. Asking again for the same name gives a new
    independent child.

    >>> a, b = SeededEntropy(7), SeededEntropy(7)
    >>> a.is_private, (a.words(2) == b.words(2)).all(), a.child("age").words(1) == b.child("age").words(1)
    (False, np.True_, array([ True]))
    """

    def __init__(self, seed: int) -> None:
        self._start((_seed("seed", seed),))

    def _start(self, path: tuple[int, ...]) -> None:
        self._path = path
        self._names: dict[str, int] = {}
        self._generators = 0
        self._bits = np.random.SFC64(_sequence(path))
        self._lock = threading.Lock()

    @property
    def kind(self) -> Literal["seeded"]:
        """Always `seeded`."""
        return "seeded"

    def words(self, size: int) -> NDArray[np.uint64]:
        """The next words of the stream."""
        # The bit generator takes its own lock for the whole array.
        return self._bits.random_raw(_size(size)).astype(np.uint64, copy=False)

    def generator(self) -> np.random.Generator:
        """The next of a sequence of independent generators."""
        with self._lock:
            number, self._generators = self._generators, self._generators + 1
        return np.random.Generator(np.random.SFC64(_sequence((*self._path, 1, number))))

    def child(self, name: str) -> SeededEntropy:
        """An independent source that depends on the seed, the name and how often the name was asked for."""
        _name(name)
        with self._lock:
            number = self._names.get(name, 0)
            self._names[name] = number + 1
        digest = int.from_bytes(hashlib.sha256(name.encode()).digest(), "little")
        child = SeededEntropy.__new__(SeededEntropy)
        child._start((*self._path, 2, number, digest))
        return child

    def __getstate__(self) -> dict[str, object]:
        return {key: value for key, value in self.__dict__.items() if key != "_lock"}

    def __setstate__(self, state: dict[str, object]) -> None:
        self.__dict__.update(state, _lock=threading.Lock())

    def __repr__(self) -> str:
        return "SeededEntropy(...)  # not private"


def entropy_from(value: Entropy | int | None) -> Entropy:
    """The source that an `entropy=` or `random_state=` argument means: none is secure, a whole number is a
    seed.

    >>> entropy_from(None), entropy_from(3)
    (SecureEntropy(), SeededEntropy(...)  # not private)
    """
    if value is None:
        return SecureEntropy()
    if isinstance(value, Entropy):
        return value
    if isinstance(value, Real) and not isinstance(value, bool):
        return SeededEntropy(_seed("entropy", value))
    raise InvalidArgument(
        "entropy",
        "None (secure), a whole number (seeded, not private) or an Entropy",
        got=type(value).__name__,
        hint="NumPy generators are not accepted: their state can be guessed from what they release.",
    )


def _sequence(path: tuple[int, ...]) -> np.random.SeedSequence:
    # A hash of an unambiguous text, so that no two paths can meet in one seed.
    digest = hashlib.sha256(repr(path).encode()).digest()
    return np.random.SeedSequence(int.from_bytes(digest, "little"))


def _size(size: int) -> int:
    return check_whole("size", size, at_least=0)


def _seed(name: str, value: Any) -> int:
    """A whole number of any length."""
    return value if type(value) is int and value >= 0 else check_whole(name, value, at_least=0)


def _name(name: str) -> None:
    if not isinstance(name, str):
        raise InvalidArgument("name", "a text that names the table", got=type(name).__name__)
