"""What holds columns in memory or hands them on: Arrow tables, readers and datasets, every frame that exports a stream,
pandas frames, and NumPy arrays of cell numbers.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ...errors import SourceError
from ...lazy import datasets, fs, pa
from .encode import ColumnSpec
from .files import real_file
from .kernel import Block
from .source import OBJECTS, Columns, MixedBatch, Part, Piece, Request, Source, engine_errors

if TYPE_CHECKING:
    from ...schema import Schema


def without_columns(source: Any) -> bool:
    """Whether a source in memory has no row and no column either, as what is made of an empty list of records."""
    if isinstance(source, (pa.Table, pa.RecordBatch)):
        return bool(source.num_columns == source.num_rows == 0)
    if is_pandas(source):
        return bool(len(source.columns) == len(source) == 0)
    return type(source).__module__.startswith("polars.") and getattr(source, "shape", None) == (0, 0)


def open_table(table: Any, request: Request) -> Source:
    """A pyarrow Table or RecordBatch."""
    if isinstance(table, pa.RecordBatch):
        return _one(Part(label="the record batch", schema=table.schema, batches=iter([table])), table.num_rows)
    narrow = table.select(_present(table.schema, request))
    starts = range(0, table.num_rows, request.rows)
    pieces = (Piece(read=partial(_joined, narrow.slice(start, request.rows))) for start in starts)
    return _one(Part(label="the Arrow table", schema=narrow.schema, batches=pieces), table.num_rows)


def _joined(rows: Any) -> Iterator[Any]:
    """Rows of a table as one batch: many small ones would have threads wait for each other."""
    with contextlib.suppress(pa.ArrowInvalid, pa.ArrowNotImplementedError):  # of a type that Arrow does not join
        rows = rows.combine_chunks()
    yield from rows.to_batches()


def is_dataset(source: Any, *, of_files: bool = False) -> bool:
    """Whether it is an Arrow dataset: only who has one has loaded that part of Arrow."""
    if "pyarrow.dataset" not in sys.modules:
        return False
    return isinstance(source, datasets.FileSystemDataset if of_files else datasets.Dataset)


def open_dataset(dataset: Any, request: Request) -> Source:
    """A pyarrow dataset; only the columns that are needed are read."""
    _check_files(dataset, request.names)
    names = _present(dataset.schema, request)
    scanner = dataset.scanner(columns=names, batch_size=request.rows, use_threads=request.threads > 1)
    return open_reader(scanner.to_reader(), "the Arrow dataset")


def _check_files(dataset: Any, names: Sequence[str]) -> None:
    """Refuse a dataset whose types were guessed from text files or names of folders, or that reads a file twice."""
    seen: set[tuple[object, ...]] = set()
    for each in _of_files(dataset):
        if each.format.default_extname in ("csv", "json"):
            raise SourceError(
                "the Arrow dataset reads text files, whose types Arrow guesses from the first records. Give the paths "
                "of the files, or, if their types were given, dataset.scanner().to_reader()."
            )
        guessed = [name for name in _guessed(each) if name in names]
        if guessed:
            raise SourceError(
                f"the Arrow dataset takes column {guessed[0]!r} from the names of folders, and its type is guessed "
                "from all of them. Give it: partitioning=pyarrow.dataset.partitioning(schema, flavor='hive'). If it "
                "was given, in a dataset of datasets, say dataset.scanner().to_reader()."
            )
        with engine_errors("the files of the Arrow dataset could not be looked at"):
            places = [_place(each.filesystem, path) for path in each.files]
        if len(set(places) - seen) < len(places):
            raise SourceError("the Arrow dataset reads a file more than once. Give every file once.")
        seen.update(places)


def _of_files(dataset: Any) -> Iterator[Any]:
    """The datasets of files that a dataset is made of."""
    if isinstance(dataset, datasets.FileSystemDataset):
        yield dataset
    for child in getattr(dataset, "children", ()):
        if not isinstance(child, (datasets.FileSystemDataset, datasets.UnionDataset)):
            raise SourceError(
                "the Arrow dataset is a union of parts that are no files: one record may be in several. Count them "
                "apart and add the tables up if they share no record."
            )
        yield from _of_files(child)


def _guessed(dataset: Any) -> Iterator[str]:
    """Columns of folder names, unless they are text or their types were given."""
    partitioning = dataset.partitioning
    if partitioning is None:  # in a dataset of datasets nothing tells who gave the types
        for fragment in dataset.get_fragments():
            keys = datasets.get_partition_keys(fragment.partition_expression)
            yield from (name for name in keys if not pa.types.is_string(dataset.schema.field(name).type))
        return
    for field, values in zip(partitioning.schema, partitioning.dictionaries, strict=True):
        if values is not None and not pa.types.is_string(values.type):  # Arrow listed all values to guess it
            yield field.name


def _place(system: Any, path: str) -> tuple[object, ...]:
    """What is the same for all names of a file, as far as its file system tells."""
    if isinstance(system, fs.SubTreeFileSystem):
        return _place(system.base_fs, system.base_path + path)
    return real_file(path) if isinstance(system, fs.LocalFileSystem) else (system.type_name, path)


def open_stream(source: Any, request: Request) -> Source:
    """Whatever has `__arrow_c_stream__`."""
    kind = type(source).__name__
    label = f"the {type(source).__module__.partition('.')[0]} {kind}"
    rows = None
    _refuse_objects(source, request, label)
    if type(source).__module__.partition(".")[0] == "polars" and hasattr(source, "height"):
        rows = source.height
        source = source.select([name for name in request.names if name in source.columns])
    with engine_errors(f"{label} could not be read as an Arrow stream"):
        reader = pa.RecordBatchReader.from_stream(source)
    return open_reader(reader, label, rows)


def open_lazy(frame: Any, request: Request) -> Source:
    """A polars LazyFrame, computed in batches."""
    with engine_errors("the polars LazyFrame could not be started"):
        names = frame.collect_schema().names()
        if set(request.names) <= set(names):
            frame = frame.select(request.names)
        frames = iter(frame.collect_batches(chunk_size=request.rows))
    part = Part(label="the polars LazyFrame", schema=None, batches=_flat(frames, request))
    return Source(parts=iter([part]))


def open_mixed(batch: MixedBatch) -> Source:
    """A batch of Arrow arrays and Python objects."""
    return _one(Part(label=batch.label, schema=batch.schema, batches=iter([batch])), batch.num_rows)


def open_reader(reader: Any, label: str, rows: int | None = None) -> Source:
    """A stream of batches; it is used up by counting."""
    schema = reader.schema if len(reader.schema) else None  # without a column there may be no record either
    batches = (batch for batch in reader if not without_columns(batch))
    return Source(
        parts=iter([Part(label=label, schema=schema, batches=batches)]),
        rows=rows,
        close=getattr(reader, "close", lambda: None),
    )


def open_batches(batches: Iterable[Any], request: Request) -> Source:
    """A list, generator or other iterable of record batches, tables or frames."""
    return Source(parts=iter([Part(label="the record batches", schema=None, batches=_flat(iter(batches), request))]))


def _flat(items: Iterator[Any], request: Request) -> Iterator[Any]:
    for item in items:
        if without_columns(item):
            continue
        if isinstance(item, (pa.RecordBatch, MixedBatch)):
            yield item
        elif is_pandas(item):  # as a stream its objects would get the types that pyarrow infers
            yield from batches_of(item, request)
        elif isinstance(item, pa.Table):
            yield from item.to_batches()
        elif hasattr(item, "__arrow_c_array__"):
            yield pa.record_batch(item)
        elif hasattr(item, "__arrow_c_stream__"):
            _refuse_objects(item, request, "the record batches")
            yield from pa.RecordBatchReader.from_stream(item)
        else:
            raise SourceError(f"the record batches: an item is of type {type(item).__name__}, not a record batch.")


def _refuse_objects(source: Any, request: Request, label: str) -> None:
    """Refuse Python objects in a polars frame: it exports where they lie in memory instead of what they are."""
    if type(source).__module__.partition(".")[0] != "polars" or not hasattr(source, "columns"):
        return
    for name, kind in zip(source.columns, source.dtypes, strict=True):
        if name in request.names and str(kind) == "Object":
            raise SourceError(
                f"{label}: column {name!r} holds Python objects. Cast it to a type of polars, or give a pandas frame."
            )


def _present(schema: Any, request: Request) -> list[int] | list[str]:
    """The wanted columns that are there; what is not, or is there twice, is reported by the encoder."""
    wanted = set(request.names)
    if len(set(schema.names)) == len(schema.names):
        return [name for name in schema.names if name in wanted]
    return list(range(len(schema.names)))


def _one(part: Part, rows: int) -> Source:
    return Source(parts=chain([part]), rows=rows)


# -- pandas ------------------------------------------------------------------------------------------------------------


_PANDAS = "the pandas frame"


def is_pandas(source: object) -> bool:
    """Whether the source is a pandas DataFrame, of a subclass too; pandas is not imported for it."""
    pandas = sys.modules.get("pandas")
    return pandas is not None and isinstance(source, pandas.DataFrame)


def open_frame(frame: Any, request: Request) -> Source:
    """A pandas DataFrame."""
    names = [str(name) for name in frame.columns]
    schema = Columns(tuple(names), (OBJECTS,) * len(names))  # types come with the batches; the names can be checked now
    return Source(parts=iter([Part(label=_PANDAS, schema=schema, batches=pieces_of(frame, request))]), rows=len(frame))


def batches_of(frame: Any, request: Request) -> Iterator[MixedBatch]:
    """The wanted columns of a DataFrame that are there, some rows at a time."""
    for piece in pieces_of(frame, request):
        yield from piece.read()


def pieces_of(frame: Any, request: Request) -> Iterator[Piece]:
    """The same as pieces, so that any thread makes Arrow arrays of them."""
    names = [name for name in request.names if list(frame.columns).count(name) == 1]
    columns = [frame[name] for name in names]

    def read(start: int) -> Iterator[MixedBatch]:
        parts = [column.iloc[start : start + request.rows] for column in columns]
        yield MixedBatch(names, [pandas_column(name, part) for name, part in zip(names, parts, strict=True)])

    for start in range(0, len(frame), request.rows):
        yield Piece(read=partial(read, start))


def pandas_column(name: str, values: Any, label: str = _PANDAS) -> Any:
    """A pandas Series as an Arrow array of the type that its dtype says, or as the Python objects that it holds."""
    if not _has_a_type(values.dtype):
        return np.asarray(values, dtype=object).tolist()
    with engine_errors(f"{label}: column {name!r} has no Arrow type"):
        array = pa.array(values)
    return array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array


def _has_a_type(dtype: Any) -> bool:
    """Whether the dtype alone, and no value, says which Arrow type the column has."""
    import pandas as pd

    if isinstance(dtype, pd.CategoricalDtype):
        return _has_a_type(dtype.categories.dtype)
    if isinstance(dtype, pd.StringDtype):
        return dtype.storage != "python"  # those are objects, and may be no valid Unicode
    return isinstance(dtype, pd.ArrowDtype) or (dtype.kind != "O" and not isinstance(dtype, pd.SparseDtype))


# -- cell numbers ------------------------------------------------------------------------------------------------------


CELLS = "the array of cell numbers"


@dataclass(frozen=True)
class CellNumbers:
    """States that an array holds cell numbers (0, 1, ... in the order of the schema's cells), not values.

    A bare NumPy array is taken for cell numbers too, unless a column declares integers, booleans or bins
    that would be numbered otherwise: there the array could as well hold values, and it must say which.

    Args:
        data: rows × columns in the order of the schema, or one array for each column by name.
    """

    data: NDArray[Any] | Mapping[str, NDArray[Any]]


def is_codes(source: object) -> bool:
    """Whether the source is an array or a mapping of arrays."""
    if isinstance(source, (CellNumbers, np.ndarray)):
        return True
    return isinstance(source, Mapping) and all(isinstance(value, np.ndarray) for value in source.values())


def length(source: Any) -> int | None:
    """The number of rows, from the shape."""
    data = source.data if isinstance(source, CellNumbers) else source
    if isinstance(data, Mapping):
        return next((len(array) for array in data.values() if np.ndim(array)), None)
    return int(np.shape(data)[0]) if np.ndim(data) else None


def open_codes(source: Any, schema: Schema, request: Request) -> Source:
    """An array of cell numbers, whose pieces give blocks."""
    data = source.data if isinstance(source, CellNumbers) else source
    columns = _columns(data, schema, request)
    if not isinstance(source, CellNumbers):
        for spec in request.specs:
            _check_clear(spec)
    arrays = [_integers(columns[spec.name], spec.name) for spec in request.specs]
    persons = None if request.person is None else columns[request.person]
    lengths = {len(array) for array in arrays} | (set() if persons is None else {len(persons)})
    if len(lengths) != 1:
        raise SourceError(f"{CELLS}: the columns differ in length.")
    return _one(Part(label=CELLS, schema=None, batches=_blocks(arrays, persons, request)), lengths.pop())


def _columns(data: Any, schema: Schema, request: Request) -> Mapping[str, NDArray[Any]]:
    if isinstance(data, Mapping):
        absent = [name for name in request.names if name not in data]
        if absent:
            raise SourceError(f"{CELLS}: column {absent[0]!r} is missing.")
        return data
    array = np.asarray(data)
    if array.shape == (0,):  # what NumPy makes of an empty list of rows
        array = array.reshape(0, len(schema.names))
    if array.ndim != 2 or array.shape[1] != len(schema.names):
        raise SourceError(
            f"{CELLS} must have two axes, rows × the {len(schema.names)} columns of the schema; "
            f"it has the shape {array.shape}. A mapping of arrays by column name works too."
        )
    if request.person is not None and request.person not in schema.names:
        raise SourceError(f"{CELLS}: column {request.person!r} is missing. Give a mapping of arrays by column name.")
    return {name: array[:, index] for index, name in enumerate(schema.names)}


def _check_clear(spec: ColumnSpec) -> None:
    """Refuse integers that may be values: the declared ones are numbers too, with other cell numbers."""
    if spec.kind == "text" or spec.kind == "date":
        return
    if spec.kind in ("whole", "truth") and [int(value) for value in spec.values] == list(range(len(spec.values))):
        return
    raise SourceError(
        f"{CELLS}: column {spec.name!r} declares numbers, so the array may hold values or cell numbers. "
        "Say CellNumbers(array) for cell numbers; for values, pass a data frame or an Arrow table."
    )


def _integers(array: NDArray[Any], name: str) -> NDArray[Any]:
    array = np.asarray(array)
    if array.shape == (0,):
        array = array.astype(np.uint8)  # NumPy takes an empty list for floats
    if array.ndim != 1 or array.dtype.kind not in "iub":
        raise SourceError(f"{CELLS}: column {name!r} is not a one-dimensional array of an integer type.")
    return array.view(np.uint8) if array.dtype.kind == "b" else array


def _blocks(arrays: list[NDArray[Any]], persons: Any, request: Request) -> Iterator[Piece]:
    def read(start: int) -> Iterator[Block]:
        codes = []
        for spec, array in zip(request.specs, arrays, strict=True):
            part = np.ascontiguousarray(array[start : start + request.rows])
            # Negative numbers are very large ones when read as unsigned.
            unsigned = part.view(np.dtype(f"u{part.dtype.itemsize}"))
            if int(unsigned.max()) >= spec.size:
                raise SourceError(
                    f"{CELLS}: column {spec.name!r} has numbers that are none of its cells, 0 to {spec.size - 1}."
                )
            codes.append(unsigned.astype(spec.dtype, copy=False))
        yield Block(codes=codes, persons=None if persons is None else _persons(persons[start : start + request.rows]))

    for start in range(0, len(arrays[0]), request.rows):
        yield Piece(read=partial(read, start))


def _persons(persons: NDArray[Any]) -> Any:
    """Names of persons by the type of the array; objects are told apart one by one."""
    if persons.dtype.kind == "O":
        return persons.tolist()
    with engine_errors(f"{CELLS}: the persons have no Arrow type"):
        return pa.array(persons)
