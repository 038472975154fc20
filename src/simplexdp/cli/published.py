"""What is done with a published release or model: `simplexdp inspect`, `sample` and `predict`."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, get_args

import numpy as np
import pyarrow as pa
import typer
from numpy.typing import NDArray

from .. import plots
from ..budget import check_fraction
from ..cores import ahead, in_order, threads_from
from ..errors import InvalidArgument, SourceError
from ..ledger import Ledger
from ..models import Model, Predictor, check_document, read
from ..models.document import checksum, read_file, write_file
from ..models.plain import in_words
from ..models.sections import Section
from ..private.counting.encode import Codes, ColumnSpec, Encoder
from ..private.counting.files import Files, column_names, open_files, with_layout
from ..private.counting.kernel import BatchEncoder
from ..private.counting.plan import column_spec
from ..private.counting.source import Request, arrow_batch, arrow_schema, batches_in, engine_errors
from ..private.counting.spread import Task, tasks_in
from ..report import model_report
from ..schema import Categories, Schema
from ..synthetic import Bins, synthetic_records
from .files import ENDINGS, check_output, progress_bar, table_writer
from .options import (
    Delimiter,
    Encoding,
    FileFormat,
    Force,
    Json,
    Names,
    OutFile,
    Quote,
    Threads,
    layout_from,
    names_from,
    print_json,
    print_table,
)

PICTURES = (".png", ".svg", ".pdf", ".html")


def inspect(
    file: Annotated[Path, typer.Argument(help="A release or model that `simplexdp fit` wrote.")],
    column: Annotated[str | None, typer.Option(help="A feature or node of a model: show its table.")] = None,
    level: Annotated[float, typer.Option(help="Of the intervals.")] = 0.95,
    cells: Annotated[int, typer.Option(help="Rows of a table to print; the most probable.", min=1)] = 20,
    plot: Annotated[
        Path | None, typer.Option(help="Write a picture (.png, .svg, .pdf) or a whole report (.html).")
    ] = None,
    ledger: Annotated[
        Path | None, typer.Option(help="A ledger: say which of its entries paid for the file, and for what data set.")
    ] = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Show a release or model: its probabilities with intervals, and its certificate."""
    check_fraction("--level", level)
    if plot is not None:
        check_output(plot, force, PICTURES)
    found = read(file)
    sections = found.describe(level=level, most=cells, column=column)
    paid = None if ledger is None else _paid(file, ledger)
    if as_json:
        told = {} if ledger is None else {"paid": paid}
        facts = {"kind": found.kind, "certificate": found.certificate().__dict__, **told}
        print_json({**facts, **found.as_data(level=level)})
    else:
        _show(found, sections, hint=column is None and len(found.releases) > 1, paid=paid, looked=ledger is not None)
    if plot is not None:
        form = plot.suffix.lower().removeprefix(".")
        write_file(plot, _picture(found, column, level, form, paid or {}))
        typer.echo(f"Written to {plot}.", err=as_json)


def _paid(file: Path, ledger: Path) -> dict[str, str] | None:
    """The data set and the entry of a ledger that paid for a file; None where it did not."""
    charge = Ledger.open(ledger).paid_for(checksum(check_document(read_file(file))))
    if charge is None:
        return None
    return {
        "dataset": str(charge.body["dataset"]),
        "entry": f"{charge.number} of {ledger.name}, {charge.body['time']}, by {charge.body['actor']}",
    }


def _show(found: Model, sections: Sequence[Section], hint: bool, paid: dict[str, str] | None, looked: bool) -> None:
    typer.echo(f"{found!r}")
    typer.echo(". ".join(found._facts()) + ".")
    if found.private:
        typer.echo(in_words(found.guarantee))
    if looked:
        typer.echo(
            "No charge of the ledger paid for this file."
            if paid is None
            else f"Data set: {paid['dataset']}. Paid for by entry {paid['entry']}."
        )
    first = found.releases[0]
    typer.echo(f"created {first.created} by {first.software}; estimate: {first.method}\n")
    last = max((i for i, section in enumerate(sections) if section.table is not None), default=None)
    for i, section in enumerate(sections):
        if section.table is not None:
            more = "--column NAME shows the table of a column." if hint and i == last else ""
            note = f"{section.table.note} {more}".strip()
            print_table(section.heading, section.table.columns, section.table.rows, note)
        for item in section.items:
            typer.echo(item)
    typer.echo(f"\n{found.certificate()}")


def _picture(found: Model, column: str | None, level: float, form: str, paid: dict[str, str]) -> bytes:
    if form == "html":
        return model_report(found, level=level, **paid).encode()
    return plots.save(plots.figure(found.picture(level=level, column=column)), form)


# -- query ------------------------------------------------------------------------------------------------------------
#
# `simplexdp query`: probabilities, means and quantiles with intervals from anything published, without budget.


def query(
    model: Annotated[Path, typer.Argument(help="A release or model that `simplexdp fit` wrote.")],
    columns: Annotated[
        list[str] | None, typer.Argument(metavar="COLUMN...", help="NAME for all of its cells, or NAME=VALUE.")
    ] = None,
    given: Annotated[
        list[str] | None, typer.Option(help="NAME=VALUE, or NAME for each of its cells; repeatable.")
    ] = None,
    mean: Annotated[str | None, typer.Option(help="The mean of this column of numbers instead.")] = None,
    quantile: Annotated[str | None, typer.Option(help="A quantile of this column of numbers instead.")] = None,
    q: Annotated[float, typer.Option("--q", help="The share of records below the quantile; 0.5: the median.")] = 0.5,
    about: Annotated[
        str, typer.Option(help="population (noise and sampling), or the records that were counted (noise alone).")
    ] = "population",
    kind: Annotated[
        str, typer.Option(help="posterior (shorter), or frequentist (from the noise alone).")
    ] = "posterior",
    level: Annotated[float, typer.Option(help="Of the intervals.")] = 0.95,
    counts: Annotated[bool, typer.Option("--counts", help="Expected counts in place of probabilities.")] = False,
    strict: Annotated[bool, typer.Option("--strict", help="Refuse what no released table holds.")] = False,
    out: Annotated[Path | None, typer.Option(help="Write the answer to a .csv, .parquet or .arrow file.")] = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Ask a published release or model: estimates with intervals, and what they rest on."""
    if (mean is not None) + (quantile is not None) + bool(columns) > 1:
        raise InvalidArgument("--mean", "asked for alone: columns, a mean or a quantile")
    if out is not None:
        check_output(out, force, ENDINGS)
    found = read(model)
    how: dict[str, Any] = {"about": about, "kind": kind, "level": level, "strict": strict}
    known = _asked(found, given or ())
    if mean is not None:
        answer = found.mean(mean, known, **how)
    elif quantile is not None:
        answer = found.quantile(quantile, q, known, **how)
    else:
        answer = found.query(_asked(found, columns or ()) or None, known, counts=counts, **how)
    if out is not None:
        table = answer.to_arrow()
        with table_writer(out, table.schema) as writer:
            writer.write_table(table)
    if as_json:
        facts = {name: getattr(answer, name) for name in ("measure", "about", "kind", "level", "ground")}
        rows = [{key: _finite(value) for key, value in row.items()} for row in answer.to_arrow().to_pylist()]
        print_json({**facts, "remarks": answer.remarks, "rows": rows})
        return
    shown = answer.table()
    print_table(answer.measure, shown.columns, shown.rows, shown.note)
    for remark in answer.remarks:
        typer.echo(remark)
    if not found.private:
        typer.echo("NOT PRIVATE: what it was made from is not.")


def _finite(value: Any) -> Any:
    """JSON has no infinite numbers: an open end is null."""
    return None if isinstance(value, float) and not np.isfinite(value) else value


def _asked(model: Model, words: Sequence[str]) -> dict[str, Any]:
    """NAME or NAME=VALUE by name; a value is a label, a number, several between |, or FROM..BELOW between edges."""
    found: dict[str, Any] = {}
    for word in words:
        name, there, text = word.partition("=")
        if name in found:
            raise InvalidArgument("--given", "each column once", got=name)
        found[name] = _value(model, name, text) if there else None
    return found


def _value(model: Model, name: str, text: str) -> Any:
    column = model.schema[name] if model.schema is not None and name in model.schema else None
    if (
        column is None
        or text in column.labels
        or (isinstance(column, Categories) and isinstance(column.values[0], str))
    ):
        return text.split("|") if "|" in text and (column is None or text not in column.labels) else text
    if "|" in text:
        return [_value(model, name, each) for each in text.split("|")]
    try:
        low, dots, high = text.partition("..")
        return (float(low), float(high)) if dots else float(text)
    except ValueError:
        return text


# -- sample -----------------------------------------------------------------------------------------------------------
#
# `simplexdp sample`: synthetic records from anything published, at no further budget.

BINS: dict[str, Bins] = {name: name for name in get_args(Bins)}


def sample(
    model: Annotated[Path, typer.Argument(help="A release or model that `simplexdp fit` wrote.")],
    out: OutFile,
    size: Annotated[int, typer.Option("--size", "-n", help="How many records.", min=1)],
    bins: Annotated[
        str, typer.Option(help="Numbers inside a bin: auto, uniform, its midpoint, or as neighbours suggest.")
    ] = "auto",
    labels: Annotated[bool, typer.Option("--labels", help="Labels as text; other and missing stay apart.")] = False,
    seed: Annotated[
        int | None, typer.Option(help="Repeatable records; as private as the model, whatever the seed.", min=0)
    ] = None,
    given: Annotated[
        list[str] | None, typer.Option(help="NAME=VALUE: records of such people alone; repeatable.")
    ] = None,
    threads: Threads = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Draw synthetic records from a published model into a .csv, .parquet or .arrow file."""
    if bins not in BINS:
        raise InvalidArgument("--bins", "one of " + ", ".join(BINS), got=bins)
    check_output(out, force, ENDINGS)
    found = read(model)
    known = _asked(found, given) if given else None
    reader = synthetic_records(found, size, bins=BINS[bins], labels=labels, seed=seed, given=known)
    done = 0
    with progress_bar("drawing") as progress, table_writer(out, reader.schema) as writer:
        for batch in ahead(reader, threads_from(threads)):
            writer.write_batch(batch)
            done += batch.num_rows
            progress(done, size)
    private = found.certificate().private
    if as_json:
        print_json({"out": str(out), "records": done, "columns": reader.schema.names, "private": private})
        return
    typer.echo(f"{done:,} synthetic records of {len(reader.schema)} columns written to {out}.")
    if not private:
        typer.echo("NOT PRIVATE: the model that they come from is not.")


# -- predict ----------------------------------------------------------------------------------------------------------
#
# `simplexdp predict`: a published model applied to files, block by block, so that their size does not matter.

ROWS = 1 << 16
"""Rows predicted at once."""


def predict(
    model: Annotated[Path, typer.Argument(help="A naive Bayes model or a network that `simplexdp fit` wrote.")],
    source: Annotated[list[str], typer.Argument(metavar="INPUT...", help="Parquet, CSV or JSON files, or globs.")],
    out: OutFile,
    target: Annotated[str | None, typer.Option(help="The column to predict; needed for a network.")] = None,
    given: Annotated[
        list[str] | None, typer.Option(help="Columns a,b to predict from; all there are by default.")
    ] = None,
    keep: Annotated[list[str] | None, typer.Option(help="Columns a,b to copy; all by default, '' for none.")] = None,
    probabilities: Annotated[bool, typer.Option(help="Add the probability of every value.")] = True,
    unknown: Annotated[
        str, typer.Option(help="Values that the model does not know: refuse, or ignore to predict from the others.")
    ] = "refuse",
    file_format: FileFormat = None,
    delimiter: Delimiter = None,
    encoding: Encoding = None,
    quote: Quote = None,
    names: Names = None,
    threads: Threads = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Predict a column for the rows of files, into a .csv, .parquet or .arrow file."""
    check_output(out, force, ENDINGS)
    if unknown not in ("refuse", "ignore"):
        raise InvalidArgument("--unknown", "refuse or ignore", got=unknown)
    found = read(model)
    layout = layout_from(delimiter, encoding, quote, names)
    files = with_layout(Files(source, file_format, **layout.model_dump()), found.schema)
    there = column_names(files)
    job = _job(found, target, names_from("--given", given, there) if given else None, there)
    copied = (names_from("--keep", keep, there) if keep != [""] else []) if keep else there
    rows = 0
    with progress_bar("predicting") as progress:
        asked = replace(job, ignores=unknown == "ignore")
        total, blocks = _blocks(files, asked, copied, probabilities, threads_from(threads))
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
class _Marked(ColumnSpec):
    """A column whose refused values keep their marks: cell numbers beyond the last."""

    def encode(self, array: Any, encoder: Encoder, label: str) -> Codes:  # noqa: ARG002
        """Cell numbers and marks."""
        return encoder(array)


@dataclass(frozen=True, kw_only=True)
class _Job:
    """What to predict from what, and how."""

    schema: Schema
    target: str
    evidence: tuple[str, ...]
    model: Predictor
    ignores: bool = False

    @property
    def specs(self) -> list[_Marked]:
        """What encodes the columns to predict from."""
        found = [column_spec(self.schema[name]) for name in self.evidence]
        return [_Marked(**{one.name: getattr(spec, one.name) for one in fields(spec)}) for spec in found]

    def classify(self, codes: Sequence[NDArray[Any]], before: int, label: str) -> NDArray[np.float64]:
        """P(target | evidence) for each row; values that the model does not know are refused by row, or ignored."""
        unknown = np.column_stack([column >= spec.size for column, spec in zip(codes, self.specs, strict=True)])
        if not unknown.any():
            return self.model.predict(self.target, dict(zip(self.evidence, codes, strict=True)))
        if not self.ignores:
            row = int(unknown.any(axis=1).argmax())
            spec, column = next((s, c) for s, c in zip(self.specs, codes, strict=True) if c[row] >= s.size)
            raise SourceError(
                f"{label}, row {before + row + 1:,}: column {spec.name!r} {spec.rule(column[row : row + 1])} "
                "Or say --unknown ignore, to predict such a row from its other columns."
            )
        kinds, which = np.unique(unknown, axis=0, return_inverse=True)
        shares = np.empty((len(unknown), self.schema[self.target].size))
        for number, kind in enumerate(kinds):
            rows = np.flatnonzero(which.ravel() == number)
            known = {n: c[rows] for n, c, gone in zip(self.evidence, codes, kind, strict=True) if not gone}
            given = {name: column.astype(np.int64) for name, column in known.items()}
            shares[rows] = self.model.predict_some(self.target, given, len(rows))
        return shares

    @property
    def values(self) -> Any:
        """What the cells of the target are called: the declared values, or labels where cells are more than that."""
        column = self.schema[self.target]
        if isinstance(column, Categories) and column.size == column.declared:
            return pa.array(column.values)
        return pa.array(column.labels)


def _job(model: Model, target: str | None, given: Sequence[str] | None, there: Sequence[str]) -> _Job:
    if not isinstance(model, Predictor):
        raise InvalidArgument("MODEL", "one that predicts, such as naive Bayes or a network", got=model.kind)
    wanted, evidence = model.question(target, given, there)
    assert model.schema is not None  # or there would be no names to ask with
    return _Job(schema=model.schema, target=wanted, evidence=evidence, model=model)


def _blocks(
    files: Files, job: _Job, copied: Sequence[str], probabilities: bool, threads: int
) -> tuple[int | None, Iterator[Any]]:
    """The number of rows where it is known; then the schema of the output and its batches."""
    specs = job.specs
    # Columns that are only copied are read as text where a file has no types of its own.
    extra = [column_spec(Categories([""], name=name)) for name in copied if name not in job.evidence]
    opened = open_files(files, Request(specs=(*specs, *extra), person=None, rows=ROWS, threads=threads))
    local = threading.local()

    def encoded(task: Task) -> list[tuple[Any, list[Codes]]]:
        """The rows of a task in pieces, with their cell numbers; by any thread."""
        if not hasattr(local, "encoder"):
            local.encoder = BatchEncoder(specs, None, ROWS)
        found = []
        for batch in batches_in(iter((task.rows,)), task.label):
            for start in range(0, batch.num_rows, ROWS):
                piece = batch.slice(start, ROWS)
                (block,) = local.encoder.blocks(piece, task.label)
                found.append((arrow_batch(piece), list(block.codes)))
        return found

    def batches() -> Iterator[Any]:
        checked, schema = BatchEncoder(specs, None, ROWS), None
        with contextlib.closing(opened):
            for part in opened.parts:
                checked.check(part.schema, part.label)
                if schema is None:
                    schema = _schema(arrow_schema(part.schema), job, copied, probabilities)
                    yield schema
                answer = partial(_answered, job, schema, copied, part.label)
                pieces = in_order(encoded, tasks_in(part, ROWS), threads)
                yield from in_order(answer, _placed(pieces), threads)

    return opened.rows, batches()


def _placed(pieces: Iterator[list[tuple[Any, list[Codes]]]]) -> Iterator[tuple[Any, list[Codes], int]]:
    """Each piece with the rows before it."""
    done = 0
    for batch, codes in chain.from_iterable(pieces):
        yield batch, codes, done
        done += batch.num_rows


def _answered(job: _Job, schema: Any, copied: Sequence[str], label: str, piece: tuple[Any, list[Codes], int]) -> Any:
    batch, codes, before = piece
    return _output(batch, job, job.classify(codes, before, label), schema, copied, label)


def _schema(part: Any, job: _Job, copied: Sequence[str], probabilities: bool) -> Any:
    """The schema of the output, from that of the first file."""
    absent = [name for name in copied if name not in part.names]
    if absent:
        raise InvalidArgument("--keep", "columns of the input", got=absent[0])
    made = [pa.field(name, _plain(part.field(name).type)) for name in copied]
    made.append(pa.field("prediction", job.values.type))
    if probabilities:
        made += [pa.field(f"probability_{label}", pa.float64()) for label in job.schema[job.target].labels]
    names = [field.name for field in made]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise InvalidArgument("INPUT", f"without a column {twice[0]!r}", hint="Choose the columns to copy with --keep.")
    return pa.schema(made)


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
