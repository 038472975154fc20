"""`simplexdp predict`: a published model applied to files, block by block, so that their size does not matter."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pyarrow as pa
import typer
from numpy.typing import NDArray

from ..counting.files import Files, column_names, open_files
from ..counting.plan import column_spec
from ..counting.run import BatchEncoder
from ..counting.source import Request, engine_errors, guarded
from ..errors import InvalidArgument, SourceError
from ..models import Release
from ..models.naive_bayes import NaiveBayesModel
from ..schema import Categories, Schema
from .files import Published, check_output, load, progress_bar
from .options import Delimiter, FileFormat, Force, Json, OutFile, names_from, print_json
from .tables import ENDINGS, table_writer

ROWS = 1 << 16
"""Rows predicted at once."""


def predict(
    model: Annotated[Path, typer.Argument(help="A naive Bayes model or a network that `simplexdp fit` wrote.")],
    source: Annotated[list[str], typer.Argument(metavar="INPUT...", help="Parquet, CSV or JSON files, or globs.")],
    out: OutFile,
    target: Annotated[str | None, typer.Option(help="The column to predict; needed for a network.")] = None,
    given: Annotated[str | None, typer.Option(help="Columns a,b to predict from; all there are by default.")] = None,
    keep: Annotated[str | None, typer.Option(help="Columns a,b to copy; all by default, '' for none.")] = None,
    probabilities: Annotated[bool, typer.Option(help="Add the probability of every value.")] = True,
    file_format: FileFormat = None,
    delimiter: Delimiter = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Predict a column for the rows of files, into a .csv, .parquet or .arrow file."""
    check_output(out, force, ENDINGS)
    _, found = load(model)
    files = Files(source, file_format, delimiter)
    there = column_names(files)
    job = _job(found, target, None if given is None else names_from("--given", given), there)
    copied = there if keep is None else names_from("--keep", keep) if keep else []
    rows = 0
    with progress_bar("predicting") as progress:
        total, blocks = _blocks(files, job, copied, probabilities)
        schema = next(blocks)
        with table_writer(out, schema) as writer:
            for batch in blocks:
                writer.write_batch(batch)
                rows += batch.num_rows
                progress(rows, total)
    private = found.certificate().private
    if as_json:
        print_json({"out": str(out), "rows": rows, "target": job.target, "columns": schema.names, "private": private})
        return
    typer.echo(f"{job.target!r} predicted for {rows:,} rows, written to {out}.")


@dataclass(frozen=True, kw_only=True)
class _Job:
    """What to predict from what, and how."""

    schema: Schema
    target: str
    evidence: tuple[str, ...]
    classify: Callable[[list[NDArray[Any]]], NDArray[np.float64]]

    @property
    def values(self) -> Any:
        """What the cells of the target are called: the declared values, or labels where cells are more than that."""
        column = self.schema[self.target]
        if isinstance(column, Categories) and column.size == column.declared:
            return pa.array(column.values)
        return pa.array(column.labels)


def _job(model: Published, target: str | None, given: Sequence[str] | None, there: Sequence[str]) -> _Job:
    if isinstance(model, Release):
        raise InvalidArgument("MODEL", "a naive Bayes model or a network", got="a release of one table")
    if isinstance(model, NaiveBayesModel):
        if model.schema is None or target not in (None, model.target):
            raise InvalidArgument("--target", f"{model.target!r} for this model, or left out", got=target)
        if given is not None:
            raise InvalidArgument("--given", "left out", hint="Naive Bayes predicts from all its features.")
        naive = model
        return _Job(
            schema=model.schema,
            target=model.target,
            evidence=model.features,
            classify=lambda codes: np.exp(naive.predict_log_proba(codes)),
        )
    if target is None or target not in model.schema:
        raise InvalidArgument("--target", "a column of the network", got=target)
    names = [name for name in model.columns if name != target and name in there] if given is None else list(given)
    model.schema.select(names)
    if not names:
        raise InvalidArgument("INPUT", "a file with at least one other column of the network")
    network, wanted = model, target
    return _Job(
        schema=model.schema,
        target=target,
        evidence=tuple(names),
        classify=lambda codes: network.predict(wanted, dict(zip(names, codes, strict=True))),
    )


def _blocks(files: Files, job: _Job, copied: Sequence[str], probabilities: bool) -> tuple[int | None, Iterator[Any]]:
    """The number of rows where it is known; then the schema of the output and its batches."""
    specs = [column_spec(job.schema[name]) for name in job.evidence]
    # Columns that are only copied are read as text where a file has no types of its own.
    extra = [column_spec(Categories([""], name=name)) for name in copied if name not in job.evidence]
    opened = open_files(files, Request(specs=(*specs, *extra), person=None, rows=ROWS))

    def batches() -> Iterator[Any]:
        encoder = BatchEncoder(specs, None, ROWS)
        schema = None
        try:
            for part in opened.parts:
                encoder.check(part.schema, part.label)
                if schema is None:
                    schema = _schema(part.schema, job, copied, probabilities)
                    yield schema
                for batch in guarded(part.batches, part.label):
                    for start in range(0, batch.num_rows, ROWS):
                        piece = batch.slice(start, ROWS)
                        (block,) = encoder.blocks(piece, part.label)
                        yield _output(piece, job, job.classify(list(block.codes)), schema, copied, part.label)
        finally:
            opened.close()

    return opened.rows, batches()


def _schema(part: Any, job: _Job, copied: Sequence[str], probabilities: bool) -> Any:
    """The schema of the output, from that of the first file."""
    absent = [name for name in copied if name not in part.names]
    if absent:
        raise InvalidArgument("--keep", "columns of the input", got=absent[0])
    fields = [pa.field(name, _plain(part.field(name).type)) for name in copied]
    fields.append(pa.field("prediction", job.values.type))
    if probabilities:
        fields += [pa.field(f"probability_{label}", pa.float64()) for label in job.schema[job.target].labels]
    names = [field.name for field in fields]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise InvalidArgument("INPUT", f"without a column {twice[0]!r}", hint="Choose the columns to copy with --keep.")
    return pa.schema(fields)


def _plain(kind: Any) -> Any:
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def _output(
    batch: Any, job: _Job, probabilities: NDArray[np.float64], schema: Any, copied: Sequence[str], label: str
) -> Any:
    arrays = []
    with engine_errors(f"{label}: its columns have other types than those of the first file"):
        for name in copied:
            if name not in batch.schema.names:
                raise SourceError(f"{label}: column {name!r} is missing.")
            arrays.append(batch.column(name).cast(schema.field(name).type))
    arrays.append(job.values.take(pa.array(probabilities.argmax(axis=1))))
    if len(schema) > len(arrays):
        arrays += [pa.array(np.ascontiguousarray(column)) for column in probabilities.T]
    return pa.record_batch(arrays, schema=schema)
