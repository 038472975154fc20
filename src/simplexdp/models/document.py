"""Documents: JSON with a format name, a version and a checksum, read with limits and written in one step."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import stat
import tempfile
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from ..errors import FormatError, SimplexDPError
from ..mechanisms import steps, table_mechanisms

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


# -- published --------------------------------------------------------------------------------------------------------
#
# Parts of the published JSON Schemas of files, from which each model makes that of its body.

DIALECT = "https://json-schema.org/draft/2020-12/schema"
NUMBERS = {"type": "array", "items": {"type": "number"}}
PACKED_FROM = 100_000
"""Cells from which on the values of a table are packed."""
_DTYPES = ("int8", "int16", "int32", "int64", "float64")
PACKED = {
    "type": "object",
    "properties": {"dtype": {"enum": list(_DTYPES)}, "zlib": {"type": "string"}},
    "required": ["dtype", "zlib"],
    "additionalProperties": False,
    "description": "little-endian numbers in C order, compressed by zlib, in base64",
}


def packed(values: NDArray[Any]) -> list[Any] | dict[str, str]:
    """Numbers as a list, or packed where they are many: the smallest type that holds all, exactly.

    >>> unpacked(packed(np.arange(PACKED_FROM)), PACKED_FROM)[-3:]
    array([99997, 99998, 99999])
    """
    if values.size < PACKED_FROM:
        return values.ravel().tolist()
    if values.dtype.kind in "iu":
        low, high = int(values.min()), int(values.max())
        small = next(name for name in _DTYPES if np.iinfo(name).min <= low and high <= np.iinfo(name).max)
    else:
        small = "float64"
    raw = np.ascontiguousarray(values, np.dtype(small).newbyteorder("<")).tobytes()
    return {"dtype": small, "zlib": base64.b64encode(zlib.compress(raw, 6)).decode()}


def unpacked(found: Any, cells: int) -> NDArray[Any]:
    """What `packed` wrote, of so many numbers: more than these are not made, whatever the text holds."""
    if not isinstance(found, dict):
        return np.array(found)
    if set(found) != {"dtype", "zlib"} or found["dtype"] not in _DTYPES or not isinstance(found["zlib"], str):
        raise TypeError
    kind = np.dtype(found["dtype"]).newbyteorder("<")
    try:
        raw = base64.b64decode(found["zlib"], validate=True)
        reader = zlib.decompressobj()
        plain = reader.decompress(raw, cells * kind.itemsize + 1)
    except (ValueError, zlib.error):
        raise ValueError("packed values that are damaged") from None
    if len(plain) != cells * kind.itemsize or not reader.eof:
        raise ValueError("packed values of another number")
    values = np.frombuffer(plain, kind).astype(np.float64 if found["dtype"] == "float64" else np.int64)
    if not np.isfinite(values).all():
        raise ValueError("packed values that are no numbers")
    return values


TEXTS = {"type": "array", "items": {"type": "string"}}
SCHEMA = {"$ref": "#/$defs/schema"}
"""Columns as in a schema file."""


def object_schema(properties: dict[str, Any], optional: tuple[str, ...] = ()) -> dict[str, Any]:
    """An object with these fields and no others."""
    return {
        "type": "object",
        "properties": properties,
        "required": [name for name in properties if name not in optional],
        "additionalProperties": False,
    }


def _mechanism(names: Iterable[str], parameter: str | list[str]) -> dict[str, Any]:
    return object_schema(
        {
            "name": {"enum": list(names)},
            "parameters": {"type": "object", "additionalProperties": {"type": parameter}},
        }
    )


def _table() -> dict[str, Any]:
    return _mechanism(table_mechanisms(), "number")


def guarantee_schema() -> dict[str, Any]:
    """Of the guarantee of a release or model."""
    after_tables = _mechanism(steps(), ["number", "string"])
    return object_schema(
        {
            "mechanisms": {
                "type": "array",
                "items": {"oneOf": [_table(), after_tables]},
                "description": "one for each table released together, then those that follow the tables",
            },
            "neighbours": {"enum": ["replace-one", "add-remove"]},
            "unit": {"enum": ["row", "person"]},
            "rows": {"type": "integer", "minimum": 1, "description": "rows that one unit may have"},
            "pure": {**NUMBERS, "description": "ε of pure-DP steps before the tables"},
            "budget": {
                "oneOf": [
                    {"type": "null"},
                    object_schema(
                        {
                            "epsilon": {"type": "number", "exclusiveMinimum": 0},
                            "delta": {"type": ["number", "null"]},
                            "order": {"type": ["number", "null"]},
                            "concentrated": {"const": True, "description": "a zCDP budget; epsilon is its ρ"},
                        },
                        optional=("concentrated",),
                    ),
                ]
            },
            "left_out": {
                **TEXTS,
                "description": "steps that public facts ruled out; left out is the same as empty",
            },
            "named": {
                **TEXTS,
                "description": "what each mechanism after the tables is for; left out is the same as empty",
            },
        },
        optional=("left_out", "named"),
    )


def release_schema(guarantee_is_shared: bool = False) -> dict[str, Any]:
    """Of a release, alone or inside a model that has the guarantee of all its releases."""
    properties = {
        "columns": TEXTS,
        "shape": {"type": "array", "items": {"type": "integer", "minimum": 1}},
        "values": {
            "oneOf": [NUMBERS, PACKED],
            "description": "what was drawn, in C order; whole numbers unless a Dirichlet draw",
        },
        "mechanism": _table(),
        "guarantee": guarantee_schema(),
        "total": {"type": ["number", "null"], "description": "the number of records where it is public"},
        "schema": {"oneOf": [{"type": "null"}, SCHEMA]},
        "method": {"type": "string"},
        "entropy": {"enum": ["operating-system", "seeded"]},
        "not_private": {**TEXTS, "description": "reasons why no promise is made; empty when it is"},
        "declarations": {
            **TEXTS,
            "description": "what the curator declared of the rows; left out is the same as empty",
        },
        "created": {"type": "string"},
        "software": {"type": "string"},
    }
    if guarantee_is_shared:
        del properties["guarantee"]
    return object_schema(properties, optional=("declarations",))
