"""Rows in and out: record batches of files, and files of record batches that appear whole or not at all."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa

from ..errors import InvalidArgument
from ..models.document import whole_file

ENDINGS = (".csv", ".parquet", ".arrow")


@contextmanager
def table_writer(path: Path, schema: Any) -> Iterator[Any]:
    """A writer with `write_batch` for a .csv, .parquet or .arrow file."""
    suffix = path.suffix.lower()
    if suffix not in ENDINGS:
        raise InvalidArgument("--out", f"a file name that ends in {', '.join(ENDINGS)}", got=str(path))
    with whole_file(path) as made, _writer(str(made), schema, suffix) as writer:
        yield writer


def _writer(name: str, schema: Any, suffix: str) -> Any:
    if suffix == ".csv":
        import pyarrow.csv

        return pyarrow.csv.CSVWriter(name, schema)
    if suffix == ".parquet":
        import pyarrow.parquet

        return pyarrow.parquet.ParquetWriter(name, schema)
    return pa.ipc.new_file(name, schema)
