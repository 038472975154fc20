"""Modules that are loaded when something of them is first used, so that a small job does not wait for them."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any


class LazyModule:
    """Stands for a module until then.

    >>> path = LazyModule("os.path")
    >>> path.basename("a/b")
    'b'
    """

    def __init__(self, name: str) -> None:
        self._name = name

    def __reduce__(self) -> tuple[type[LazyModule], tuple[str]]:
        """By name: what was loaded stays here."""
        return LazyModule, (self._name,)

    def __getattr__(self, attribute: str) -> Any:
        found = getattr(import_module(self._name), attribute)
        self.__dict__[attribute] = found
        return found


if TYPE_CHECKING:
    import mpmath as mp
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq
    import yaml
    from pyarrow import csv as csv_files
    from pyarrow import dataset as datasets
    from pyarrow import fs
    from scipy import fft, linalg, optimize, sparse, special, stats
    from scipy.sparse import linalg as sparse_linalg
else:
    mp, yaml = LazyModule("mpmath"), LazyModule("yaml")
    pa, pc, pq = LazyModule("pyarrow"), LazyModule("pyarrow.compute"), LazyModule("pyarrow.parquet")
    csv_files, datasets, fs = LazyModule("pyarrow.csv"), LazyModule("pyarrow.dataset"), LazyModule("pyarrow.fs")
    fft, linalg, optimize, sparse, special, stats = (
        LazyModule(f"scipy.{name}") for name in ("fft", "linalg", "optimize", "sparse", "special", "stats")
    )
    sparse_linalg = LazyModule("scipy.sparse.linalg")

__all__ = [
    "LazyModule",
    "csv_files",
    "datasets",
    "fft",
    "fs",
    "linalg",
    "mp",
    "optimize",
    "pa",
    "pc",
    "pq",
    "sparse",
    "sparse_linalg",
    "special",
    "stats",
    "yaml",
]
