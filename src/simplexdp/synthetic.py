"""Synthetic records from a release or model: as an Arrow reader or table, or in a CSV or Parquet file."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from .errors import InvalidArgument
from .models.document import whole_file
from .models.synthetic import Bins, Source, arrow_schema, model_schema, record_batches


def synthetic_records(
    model: Source,
    size: int,
    *,
    bins: Bins = "uniform",
    labels: bool = False,
    seed: int | np.random.Generator | None = None,
) -> Any:
    """A `pyarrow.RecordBatchReader` of synthetic records, made block by block; `.read_all()` gives a table.

    Records follow the published distribution and nothing else, so they cost no budget, however many there are. They
    are private exactly when the model is, whatever the seed.

    Args:
        model: a Bayesian network, a naive Bayes model or a release over declared columns.
        size: how many records.
        bins: numbers as "uniform" draws inside their bin, or its "midpoint".
        labels: write the schema's labels, so that other and missing stay apart; otherwise both are null.
        seed: makes the records repeatable.

    >>> from simplexdp import Budget, Schema, release_distribution
    >>> rows, schema = pa.table({"ill": [True, False, True, True]}), Schema.of(ill=[False, True])
    >>> published = release_distribution(rows, schema, ["ill"], budget=Budget(epsilon=1, delta=1e-5))
    >>> synthetic_records(published, 1000, seed=1).read_all().shape
    (1000, 1)
    """
    generator = np.random.default_rng(seed)
    batches = record_batches(model, size, generator, bins=bins, labels=labels)
    return pa.RecordBatchReader.from_batches(arrow_schema(model_schema(model), labels=labels), batches)


def write_synthetic_records(
    model: Source,
    size: int,
    path: str | os.PathLike[str],
    *,
    bins: Bins = "uniform",
    labels: bool = False,
    seed: int | np.random.Generator | None = None,
) -> None:
    """Write synthetic records to a .csv or .parquet file, block by block; nothing is left if it fails."""
    target = Path(path)
    suffix = target.suffix.lower()
    if suffix not in (".csv", ".parquet"):
        raise InvalidArgument("path", "the name of a .csv or .parquet file", got=str(path))
    reader = synthetic_records(model, size, bins=bins, labels=labels, seed=seed)
    with whole_file(target) as made, _writer(str(made), reader.schema, suffix) as writer:
        for batch in reader:
            writer.write_batch(batch)


def _writer(name: str, schema: Any, suffix: str) -> Any:
    if suffix == ".csv":
        import pyarrow.csv

        return pyarrow.csv.CSVWriter(name, schema)
    import pyarrow.parquet

    return pyarrow.parquet.ParquetWriter(name, schema)
