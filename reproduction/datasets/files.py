"""Where the files are: a given folder, SIMPLEXDP_DATA, the cache, and last the UCI repository."""

from __future__ import annotations

import gzip
import hashlib
import os
from pathlib import Path

from simplexdp.errors import SourceError
from simplexdp.stand_ins import cache_folder as folder_for

from .catalogue import DataSet, known
from .download import Fetch, download, fetch_from_uci

VARIABLE = "SIMPLEXDP_DATA"
_NAME_A_FOLDER = f"Name the folder that holds the data sets in {VARIABLE}."


def cache_folder() -> Path:
    """The folder for downloads, where each platform keeps such things."""
    try:
        return folder_for("uci")
    except RuntimeError:  # nobody's process, as in some containers
        raise SourceError(f"There is no home folder for downloads. {_NAME_A_FOLDER}") from None


def find(name: str, *, directory: Path | None = None, fetch: Fetch = fetch_from_uci) -> Path:
    """The file of a data set: in `directory`, in the folder named by SIMPLEXDP_DATA, in the cache, or downloaded to it.

    Raises:
        SourceError: when a folder was named and does not hold it, or when it cannot be downloaded.
    """
    data_set = known(name)
    named = directory or (Path(os.environ[VARIABLE]) if os.environ.get(VARIABLE) else None)
    if named is not None:
        path = named / data_set.file
        if not path.is_file():
            raise SourceError(f"{path} does not exist. It is UCI data set {data_set.uci}, {data_set.title}.")
        return path
    path = cache_folder() / data_set.file
    if not os.path.isfile(path):  # noqa: PTH113 - a home that may not be looked into holds nothing
        text = download(data_set, fetch)
        check_text(data_set, text)
        _keep(path, gzip.compress(text, compresslevel=9, mtime=0))
    return path


def _keep(path: Path, packed: bytes) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_suffix(".partial")
        partial.write_bytes(packed)
        partial.replace(path)  # so that an interrupted download leaves nothing half-written
    except OSError as error:
        raise SourceError(f"{path.parent} cannot be written: {error.strerror}. {_NAME_A_FOLDER}") from None


def read_text(data_set: DataSet, path: Path) -> bytes:
    """The uncompressed file, if it is the one that is known."""
    packed = path.read_bytes()
    try:
        text = gzip.decompress(packed)
    except (OSError, EOFError):
        raise SourceError(f"{path} is not a gzip file. Delete it and let it be downloaded again.") from None
    if hashlib.sha256(packed).hexdigest() != data_set.sha256:
        check_text(data_set, text)
    return text


def check_text(data_set: DataSet, text: bytes) -> None:
    """Refuse a file whose text differs from the known one by a single byte."""
    found = hashlib.sha256(text).hexdigest()
    if found != data_set.sha256_text:
        raise SourceError(
            f"{data_set.file} is not the file the experiments know: its text has SHA-256 {found}, "
            f"expected {data_set.sha256_text}."
        )
