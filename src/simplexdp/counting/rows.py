"""Rows of any source as cell numbers, for models that score them; the rules of the schema apply as in counting."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from .api import open_source
from .codes import is_codes, open_codes
from .plan import column_spec
from .run import BatchEncoder
from .source import Request, guarded

if TYPE_CHECKING:
    from ..schema import Schema

ROWS = 1 << 16


def encode_rows(source: Any, schema: Schema, columns: Sequence[str]) -> Iterator[dict[str, NDArray[np.int64]]]:
    """Blocks of cell numbers by column, in the order of the rows; see `count` for the sources (Spark excepted).

    Raises:
        SourceError: a column is missing, has a wrong type or breaks a rule of the schema.
    """
    specs = tuple(column_spec(schema[name]) for name in columns)
    request = Request(specs=specs, person=None, rows=ROWS)
    with contextlib.ExitStack() as stack:
        if is_codes(source):
            for block in open_codes(source, schema, request)[0]:
                yield _named(columns, block.codes)
            return
        opened = open_source(source, request)
        stack.callback(opened.close)
        encoder = BatchEncoder(specs, None, ROWS)
        for part in opened.parts:
            for batch in guarded(part.batches, part.label):
                for block in encoder.blocks(batch, part.label):
                    yield _named(columns, block.codes)


def _named(columns: Sequence[str], codes: Sequence[NDArray[Any]]) -> dict[str, NDArray[np.int64]]:
    return {name: array.astype(np.int64) for name, array in zip(columns, codes, strict=True)}
