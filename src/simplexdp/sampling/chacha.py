"""ChaCha20 keyed by the operating system, as a NumPy bit generator that neither a fork nor a copy can repeat.

A bit generator lives in C and buffers a block of its key stream, so unlike `os.urandom` it has a state. A
forked child would go on with its parent's; a pickle or a deep copy would carry it. Here each of them gets a
new key instead.
"""

from __future__ import annotations

import os
import weakref
from typing import Any

import numpy as np
from randomgen import ChaCha

_alive: weakref.WeakSet[SecureChaCha] = weakref.WeakSet()


class SecureChaCha(ChaCha):  # type: ignore[misc]  # randomgen is untyped for us
    """ChaCha with 20 rounds (RFC 8439) and a 256-bit key of the operating system."""

    def __init__(self) -> None:
        super().__init__(key=np.frombuffer(os.urandom(32), dtype=np.uint64), counter=0, rounds=20)
        _alive.add(self)

    def __reduce__(self) -> tuple[type[SecureChaCha], tuple[()]]:
        return SecureChaCha, ()

    def __copy__(self) -> SecureChaCha:
        return SecureChaCha()

    def __deepcopy__(self, memo: dict[int, Any]) -> SecureChaCha:
        return SecureChaCha()


def _rekey() -> None:
    for generator in list(_alive):
        generator.state = SecureChaCha().state


os.register_at_fork(after_in_child=_rekey)
