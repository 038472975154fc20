"""Documents: JSON with a format name, a version and a checksum, read with limits and written in one step."""

from __future__ import annotations

import hashlib
import json
import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar, Self

from ..errors import FormatError, SimplexDPError

VERSION = 1
MAX_BYTES = 1 << 31


def checksum(body: dict[str, Any]) -> str:
    """SHA-256 of the canonical form; it finds accidents and edits, it does not prove who wrote the file."""
    text = json.dumps(body, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def write_document(kind: str, body: dict[str, Any]) -> str:
    """The document as JSON text."""
    envelope = {"format": f"simplexdp/{kind}", "version": VERSION, "sha256": checksum(body), "body": body}
    return json.dumps(envelope, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def read_document(text: str, *kinds: str) -> tuple[str, dict[str, Any]]:
    """The kind and the body of a document of one of these kinds; refused with the reason otherwise."""
    if len(text) > MAX_BYTES:
        raise FormatError(f"the document is larger than {MAX_BYTES >> 20} MiB")
    try:
        envelope = json.loads(text, parse_constant=_refuse_constant, object_pairs_hook=_refuse_repeated)
    except (ValueError, RecursionError):
        raise FormatError("the document is not JSON or nested too deeply; it may be truncated") from None
    if not isinstance(envelope, dict) or set(envelope) != {"format", "version", "sha256", "body"}:
        raise FormatError("the document is not one of simplexdp: it needs format, version, sha256 and body")
    name = envelope["format"]
    if name not in [f"simplexdp/{kind}" for kind in kinds]:
        raise FormatError(f"the document is not a {' or '.join(kinds)} of simplexdp")
    version = envelope["version"]
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise FormatError("the document has no valid format version")
    if version > VERSION:
        raise FormatError(
            f"the document has format version {version}; this software reads up to {VERSION}. Update simplexdp."
        )
    body = envelope["body"]
    try:
        intact = isinstance(body, dict) and checksum(body) == envelope["sha256"]
    except (ValueError, RecursionError):  # 1e999 is read as infinity, which is never written
        intact = False
    if not intact:
        raise FormatError("the document was changed after it was written: its checksum does not fit its body")
    return name.removeprefix("simplexdp/"), body


@contextmanager
def reading_body(what: str) -> Iterator[None]:
    """Whatever a body of the wrong shape causes becomes one error."""
    try:
        yield
    except FormatError:
        raise
    except SimplexDPError as error:
        raise FormatError(f"the {what} is not valid: {error}") from None
    except (LookupError, TypeError, ValueError, OverflowError, AttributeError, RecursionError):
        raise FormatError(f"the {what} is incomplete or has a field of the wrong type") from None


def _refuse_constant(name: str) -> float:
    raise ValueError(name)


def _refuse_repeated(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Of a name given twice only the last value would be read, and the checksum would know nothing of the first."""
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a name is given twice")
    return found


@contextmanager
def whole_file(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A temporary file beside the path, which takes its name when all is written and goes away if that fails."""
    target = Path(path)
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    os.close(handle)
    made = Path(name)
    try:
        yield made
        with made.open("rb") as file:
            os.fsync(file.fileno())
        made.chmod(0o666 & ~_umask())  # a temporary file is its owner's alone; this one may be published
        made.replace(target)
    except BaseException:
        made.unlink(missing_ok=True)
        raise


def _umask() -> int:
    """What is kept from others by default; the system tells it only while setting it."""
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


def write_file(path: str | os.PathLike[str], content: str | bytes) -> None:
    """Write a whole file or nothing."""
    with whole_file(path) as made:
        made.write_bytes(content.encode() if isinstance(content, str) else content)


def read_file(path: str | os.PathLike[str], most: int = MAX_BYTES) -> str:
    """The text of a file of at most so many bytes."""
    target = Path(path)
    try:
        found = target.stat()
        if not stat.S_ISREG(found.st_mode):  # a device or a pipe has no size to check, and may have no end
            raise FormatError(f"{target}: not a file")
        if found.st_size > most:
            raise FormatError(f"{target}: larger than {most >> 20} MiB")
        return target.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise FormatError(f"{target}: not a text file") from None
    except OSError as error:
        raise FormatError(f"{target}: {error.strerror or 'cannot be read'}") from None


def open_document(path: str | os.PathLike[str], *kinds: str) -> tuple[str, dict[str, Any]]:
    """The kind and the body of a document in a file, which errors name."""
    text = read_file(path)
    try:
        return read_document(text, *kinds)
    except FormatError as error:
        raise FormatError(f"{path}: {error}") from None


class Document:
    """What can be written to a file and read back: `kind` names it there, `to_body` and `from_body` are its data."""

    kind: ClassVar[str]

    def to_body(self) -> dict[str, Any]:
        """As plain data."""
        raise NotImplementedError

    @classmethod
    def from_body(cls, body: dict[str, Any]) -> Self:
        """The inverse of `to_body`."""
        raise NotImplementedError

    def to_json(self) -> str:
        """The JSON document."""
        return write_document(self.kind, self.to_body())

    @classmethod
    def from_json(cls, text: str) -> Self:
        """From its JSON document; refused with the reason if it was changed or is newer."""
        return cls.from_body(read_document(text, cls.kind)[1])

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write the document in one step."""
        write_file(path, self.to_json())

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Self:
        """Read a document."""
        return cls.from_body(open_document(path, cls.kind)[1])
