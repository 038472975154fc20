"""One private copy of the rows of a fit, as cell numbers: for sources that give their rows once.

A stream, a cursor, or a query that picks other rows each time is read once, with the rows of each person chosen in that
pass, and every pass of the fit goes over this copy. It is held in memory up to `COPY_MEMORY` bytes; the rest goes to a
temporary file that has no name where the system allows that, encrypted by a key that exists in this process alone.

Proof: docs/proofs/composition.md.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import tempfile
from collections.abc import Iterator, Mapping
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from ..errors import PrivacyError, SourceError
from ..schema import Numeric, Schema
from .counting.plan import column_spec

COPY_MEMORY = 256 << 20
"""Bytes of cell numbers that are held in memory; not tuned."""


class PrivateCopy:
    """Cell numbers of rows in blocks, written once and read as often as wanted. **Private**; it is not copied or sent.

    Args:
        schema: of the columns; quantile columns stand in it as their grids.
        memory: bytes held in memory; by default `COPY_MEMORY`.
    """

    def __init__(self, schema: Schema, memory: int | None = None) -> None:
        self._schema, self._room = schema, COPY_MEMORY if memory is None else memory
        self._types = {column.name: column_spec(column).dtype for column in schema}
        self._frames: list[tuple[int, NDArray[np.uint8] | None]] = []  # rows, and the bytes if they are in memory
        self._vault: _Vault | None = None

    def add(self, block: Mapping[str, NDArray[np.int64]]) -> None:
        """Keep a block of rows."""
        rows = len(block[self._schema.names[0]])
        parts = [np.frombuffer(block[name].astype(kind).tobytes(), np.uint8) for name, kind in self._types.items()]
        frame = np.concatenate(parts)
        if frame.size <= self._room:
            self._room -= frame.size
            self._frames.append((rows, frame))
            return
        if self._vault is None:
            self._vault = _Vault()
        self._vault.write(frame)
        self._frames.append((rows, None))

    def blocks(self, schema: Schema) -> Iterator[dict[str, NDArray[np.int64]]]:
        """The rows by the columns of a schema that has fewer of them, or bins in place of grids. **Private**."""
        places = {name: _places(self._schema[name], schema[name]) for name in schema.names}
        stored = iter(()) if self._vault is None else self._vault.frames()
        for rows, held in self._frames:
            frame = next(stored) if held is None else held
            found: dict[str, NDArray[np.int64]] = {}
            start = 0
            for name, kind in self._types.items():
                end = start + rows * kind.itemsize
                if name in places:
                    found[name] = _placed(name, frame[start:end].view(kind), places[name])
                start = end
            yield {name: found[name] for name in schema.names}

    def close(self) -> None:
        """Let go of the rows; the file goes with its key."""
        self._frames = []
        if self._vault is not None:
            self._vault.close()

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise PrivacyError("The private copy of the rows of a fit is not copied, pickled or sent to other processes.")


def _places(fine: Any, coarse: Any) -> NDArray[np.int64] | None:
    """Where the cells of a grid go among the bins that were made of it, -1 for what these refuse; None if equal."""
    if fine == coarse:
        return None
    assert isinstance(fine, Numeric)
    assert isinstance(coarse, Numeric)
    cells = np.full(fine.size, -1, dtype=np.int64)
    bins = fine.bins
    cells[:bins] = np.searchsorted(coarse.edges, np.asarray(fine.edges[:-1]), side="right") - 1 + len(coarse.own)
    for there, here in ((fine.other_code, coarse.other_code), (fine.missing_code, coarse.missing_code)):
        if there is not None and here is not None:
            cells[there] = here
    return cells


def _placed(name: str, codes: NDArray[Any], places: NDArray[np.int64] | None) -> NDArray[np.int64]:
    if places is None:
        return codes.astype(np.int64)
    found: NDArray[np.int64] = places[codes]
    if found.size and found.min() < 0:
        raise SourceError(
            f"the rows: column {name!r} has entries that are missing or outside its bounds, and its declaration "
            "refuses them. Declare missing='cell', and outside='cell' or 'nearest'."
        )
    return found


class _Vault:
    """Frames of bytes in a temporary file: encrypted by SHAKE-256, and told from any others by digests in memory.

    The key stream of a frame is SHAKE-256 (FIPS 202) of the key and the number of the frame.

    Key and digests never leave the process, so whoever has the file alone learns the number of bytes in it, and a
    changed, shortened or exchanged frame is refused.
    """

    def __init__(self) -> None:
        self._key = np.frombuffer(os.urandom(32), dtype=np.uint8)
        self._digests: list[tuple[int, bytes]] = []  # length and digest of each frame
        try:
            # Unlinked at once where the system can; readable by this user alone.
            self._file = tempfile.TemporaryFile(prefix="simplexdp-")  # noqa: SIM115  it lives as long as the copy
        except OSError as error:
            raise _unwritten(error) from None

    def write(self, frame: NDArray[np.uint8]) -> None:
        """Append a frame, encrypted by a key stream of its own."""
        sealed = self._mixed(frame, len(self._digests)).tobytes()
        try:
            self._file.seek(0, os.SEEK_END)
            self._file.write(sealed)
            self._file.flush()
        except OSError as error:
            raise _unwritten(error) from None
        self._digests.append((frame.size, hashlib.blake2b(sealed, digest_size=32).digest()))

    def frames(self) -> Iterator[NDArray[np.uint8]]:
        """All frames in their order, decrypted one at a time. **Private**."""
        place = 0
        for number, (size, digest) in enumerate(self._digests):
            try:
                self._file.seek(place)
                sealed = self._file.read(size)
            except OSError as error:
                raise SourceError(f"the private copy of the rows could not be read ({type(error).__name__}).") from None
            if not hmac.compare_digest(hashlib.blake2b(sealed, digest_size=32).digest(), digest):
                raise SourceError("the private copy of the rows was changed on disk while the fit was under way.")
            place += size
            yield self._mixed(np.frombuffer(sealed, np.uint8), number)

    def _mixed(self, frame: NDArray[np.uint8], number: int) -> NDArray[np.uint8]:
        """The exclusive or with the key stream of this frame, which encrypts and decrypts."""
        stream = hashlib.shake_256(self._key.tobytes() + number.to_bytes(8, "little")).digest(frame.size)
        return np.bitwise_xor(frame, np.frombuffer(stream, np.uint8))

    def close(self) -> None:
        """Forget the key and delete the file."""
        self._key, self._digests = np.zeros(32, dtype=np.uint8), []
        self._file.close()


def _unwritten(error: OSError) -> SourceError:
    return SourceError(
        f"the private copy of the rows could not be written ({type(error).__name__}). It needs room for the cell "
        "numbers of all rows in the folder for temporary files, which the variable TMPDIR names."
    )
