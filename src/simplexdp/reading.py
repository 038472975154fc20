"""`read`: anything that this library wrote, whatever it is."""

from __future__ import annotations

import os
import tempfile
import zipfile
from pathlib import Path
from typing import Any

from .errors import FormatError, InvalidArgument
from .ledger import opened
from .models import read as read_model
from .models.document import MAX_BYTES, read_file
from .schema import Schema

_DATABASE, _ARCHIVE = b"SQLite format 3\0", b"PK\x03\x04"
_INSIDE = "release.json"


def read(path: str | os.PathLike[str]) -> Any:
    """A release or model, a schema, a ledger, or the release in a bundle: from the file or folder it was written to.

    Files that were changed, are damaged or are newer than this software are refused with the reason.

    >>> import os, tempfile
    >>> from simplexdp import Budget, Schema, read, release
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "published.json")
    ...     release([119, 74, 618], budget=Budget(epsilon=1, delta=1e-5), entropy=1).write(path)
    ...     read(path).kind
    'release'
    """
    if not isinstance(path, (str, os.PathLike)):
        raise InvalidArgument("path", "the path of a file", got=type(path).__name__)
    place = Path(path)
    if place.is_dir():
        return read_model(place / _INSIDE)
    try:
        with place.open("rb") as file:
            head = file.read(16)
    except OSError as error:
        raise FormatError(f"{place}: {error.strerror or 'cannot be read'}") from None
    if head.startswith(_DATABASE):
        return opened(place)
    if head.startswith(_ARCHIVE):
        return _bundled(place)
    if place.suffix.lower() in (".yaml", ".yml"):
        return Schema.read(place)
    # A schema as JSON has columns or names at its top, and every document of ours its format.
    return read_model(place) if '"format"' in read_file(place)[:200] or not _is_schema(place) else Schema.read(place)


def _is_schema(place: Path) -> bool:
    return '"columns"' in read_file(place)


def _bundled(place: Path) -> Any:
    try:
        with zipfile.ZipFile(place) as archive:
            if archive.getinfo(_INSIDE).file_size > MAX_BYTES:
                raise FormatError(f"{place}: {_INSIDE} is larger than {MAX_BYTES >> 20} MiB")
            data = archive.read(_INSIDE)
    except (KeyError, zipfile.BadZipFile, OSError):
        raise FormatError(f"{place}: not a bundle of simplexdp; it has no {_INSIDE}") from None
    with tempfile.TemporaryDirectory() as folder:
        inside = Path(folder, _INSIDE)
        inside.write_bytes(data)
        return read_model(inside)
