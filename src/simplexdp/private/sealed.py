"""Files that one process writes and another opens: encrypted to its key, authenticated by a secret that both know.

The officer makes two key files. With the one for counting, a file can be written and none can be opened; with the one
for release, files can be opened. It is the mode of RFC 9180 (HPKE) with a pre-shared key, put together from X25519,
HKDF-SHA256 and ChaCha20-Poly1305 of the package `cryptography`: a new key pair for each file, whose shared secret with
the key for release is mixed with the secret for counting. So neither the public key alone nor an old file makes a file
that is accepted, and who has the secret for counting alone reads nothing.

A file is cut into frames, each with its number, and the last one is marked: none can be left out, changed, moved or
taken from another file.

Proof: docs/proofs/composition.md.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, NoReturn

from ..errors import FormatError, InvalidArgument, MissingExtra, PrivacyError

FIRST_LINE = b"simplexdp partial: PRIVATE DATA, encrypted exact counts. Keep it as you keep the rows.\n"
FRAME = 1 << 22
"""Bytes that are encrypted at once."""
_MOST_HEADER = 1 << 20
_KEY, _TAG = 32, 16
_PURPOSE = b"simplexdp partial 1"
_KINDS = {"counting": "simplexdp key for counting", "release": "simplexdp key for release"}


@dataclass(frozen=True)
class CountingKey:
    """What a counting process has: it writes partials and opens none.

    Args:
        public: the public key of the process that releases.
        secret: shared by all that count and the one that releases.
    """

    public: bytes = field(repr=False)
    secret: bytes = field(repr=False)

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> CountingKey:
        """The key in a file; the one for release does not belong on machines that count, and is refused."""
        body = _read_key(path, "counting")
        return cls(_bytes(body, "public", path), _bytes(body, "secret", path))

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise PrivacyError("A key is read from its file where it is needed, and is not pickled.")


@dataclass(frozen=True)
class ReleaseKey:
    """What the process that releases has: it opens partials.

    Args:
        private: its private key.
        secret: shared by all that count and the one that releases.
    """

    private: bytes = field(repr=False)
    secret: bytes = field(repr=False)

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> ReleaseKey:
        """The key in a file."""
        body = _read_key(path, "release")
        return cls(_bytes(body, "private", path), _bytes(body, "secret", path))

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise PrivacyError("A key is read from its file where it is needed, and is not pickled.")


def make_keys(release: str | os.PathLike[str], counting: str | os.PathLike[str]) -> None:
    """Make both key files, readable by their owner alone; existing files are kept and refused.

    The one for release stays with whoever releases. The one for counting goes to the machines that count.
    """
    for path in (release, counting):
        if Path(path).exists():
            raise InvalidArgument("key", "a new file", got=str(path), hint="Partials of a lost key cannot be opened.")
    private = _x25519().X25519PrivateKey.generate()
    secret = _text(os.urandom(_KEY))
    public = _text(private.public_key().public_bytes_raw())
    _write_key(release, {"kind": _KINDS["release"], "private": _text(private.private_bytes_raw()), "secret": secret})
    _write_key(counting, {"kind": _KINDS["counting"], "public": public, "secret": secret})


def seal(file: BinaryIO, header: dict[str, Any], parts: Iterable[bytes], key: CountingKey) -> None:
    """Write a file: its header in the clear, the parts, one after the other, encrypted.

    Raises:
        InvalidArgument: the header is longer than one that is read.
        FormatError: no shared secret can be made with the public key.
    """
    x25519 = _x25519()
    own = x25519.X25519PrivateKey.generate()
    public = own.public_key().public_bytes_raw()
    shared = _exchange(own, key.public, "the key for counting was changed.")
    about = json.dumps(header, sort_keys=True).encode()
    if len(about) > _MOST_HEADER:
        hint = "It holds the name of the shard and what its source declares."
        raise InvalidArgument("header", f"at most {_MOST_HEADER >> 10} KiB", got=len(about), hint=hint)
    start = FIRST_LINE + struct.pack("<I", len(about)) + about + public
    cipher = _cipher(shared, key.secret, public, key.public)
    file.write(start)
    bound = hashlib.sha256(start).digest()
    for number, (frame, last) in enumerate(_framed(parts)):
        sealed = cipher.encrypt(_nonce(number), frame, bound + bytes([last]))
        file.write(struct.pack("<I", len(sealed)) + sealed)


def header_of(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The header of a file, which nobody has vouched for until the file is opened."""
    with Path(path).open("rb") as file:
        return _start(file, path)[1]


def unseal(path: str | os.PathLike[str], key: ReleaseKey) -> tuple[dict[str, Any], bytearray]:
    """The header of a file and what was encrypted. **Private**.

    Raises:
        FormatError: the file is cut, was changed, or was written with other keys.
    """
    from cryptography.exceptions import InvalidTag

    x25519 = _x25519()
    private = x25519.X25519PrivateKey.from_private_bytes(key.private)
    found = bytearray()
    with Path(path).open("rb") as file:
        start, header, public = _start(file, path)
        shared = _exchange(private, public, f"{path}: not a partial that simplexdp wrote, or changed.")
        cipher = _cipher(shared, key.secret, public, private.public_key().public_bytes_raw())
        bound, number, last = hashlib.sha256(start).digest(), 0, False
        while not last:
            size = file.read(4)
            length = struct.unpack("<I", size)[0] if len(size) == 4 else 0
            sealed = file.read(length) if length <= FRAME + _TAG else b""
            if len(sealed) != length:
                raise FormatError(f"{path}: cut or changed. Count the shard again.")
            ahead = file.read(1)
            if ahead:
                file.seek(-1, os.SEEK_CUR)
            last = not ahead
            try:
                found += cipher.decrypt(_nonce(number), sealed, bound + bytes([last]))
            except (InvalidTag, ValueError):
                raise FormatError(f"{path}: cut, changed, or written with other keys. Count the shard again.") from None
            number += 1
    return header, found


def _start(file: BinaryIO, path: str | os.PathLike[str]) -> tuple[bytes, dict[str, Any], bytes]:
    first, size = file.read(len(FIRST_LINE)), file.read(4)
    length = struct.unpack("<I", size)[0] if len(size) == 4 else 0
    about, public = file.read(min(length, _MOST_HEADER)), file.read(_KEY)
    try:
        header = json.loads(about)
    except (ValueError, RecursionError):
        header = None
    if first != FIRST_LINE or length > _MOST_HEADER or len(public) != _KEY or not isinstance(header, dict):
        raise FormatError(f"{path}: not a partial that simplexdp wrote, or cut.")
    return first + size + about + public, header, public


def _framed(parts: Iterable[bytes]) -> Iterator[tuple[bytes, bool]]:
    """Frames of one length, the last one with a mark; there is at least one."""
    held = bytearray()
    for part in parts:
        view = memoryview(part)
        for start in range(0, len(view), FRAME):
            held += view[start : start + FRAME]
            while len(held) > FRAME:
                yield bytes(held[:FRAME]), False
                del held[:FRAME]
    yield bytes(held), True


def _nonce(number: int) -> bytes:
    """Numbers of frames: each file has a key of its own, so none is used twice."""
    return number.to_bytes(12, "little")


def _cipher(shared: bytes, secret: bytes, own: bytes, public: bytes) -> Any:
    from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF

    made = HKDF(algorithm=SHA256(), length=_KEY, salt=secret, info=_PURPOSE + own + public).derive(shared)
    return ChaCha20Poly1305(made)


def _exchange(own: Any, public: bytes, refusal: str) -> bytes:
    """The shared secret; a public key of small order, such as zeros, has none."""
    try:
        return bytes(own.exchange(_x25519().X25519PublicKey.from_public_bytes(public)))
    except ValueError:
        raise FormatError(refusal) from None


def _x25519() -> Any:
    try:
        from cryptography.hazmat.primitives.asymmetric import x25519
    except ImportError:
        raise MissingExtra("cryptography", "shards") from None
    return x25519


def _write_key(path: str | os.PathLike[str], body: dict[str, str]) -> None:
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        json.dump(body, file)


def _read_key(path: str | os.PathLike[str], kind: str) -> dict[str, Any]:
    failure = ""
    try:
        body = json.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        failure = f"{path}: the key could not be read ({type(error).__name__})."
    except (ValueError, RecursionError):
        failure = f"{path}: not a key file of simplexdp."
    if failure:
        raise FormatError(failure)
    if not isinstance(body, dict) or body.get("kind") != _KINDS[kind]:
        raise FormatError(f"{path}: not a key for {kind}. `simplexdp shards keys` makes both.")
    return body


def _bytes(body: dict[str, Any], name: str, path: str | os.PathLike[str]) -> bytes:
    try:
        found = base64.b64decode(body[name], validate=True)
    except (KeyError, TypeError, ValueError):
        found = b""
    if len(found) != _KEY:
        raise FormatError(f"{path}: a key file that was changed or cut.")
    return found


def _text(key: bytes) -> str:
    return base64.b64encode(key).decode()
