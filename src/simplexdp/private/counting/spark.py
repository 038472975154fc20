"""Spark: every partition counts its own rows, and the partial tables are added up before they reach the
driver.

Two stages. The first runs the same loop as everywhere else inside `mapInArrow` and leaves, for each
partition, its tables as one long integer array cut into chunks; chunks of zeros are left out. The second
brings equal chunks together and adds them, so that the driver receives each cell once, however many
partitions there are. Rows never leave the executors.

Executors need NumPy and pyarrow, which Spark's own Arrow functions need as well, and not this library: the
few modules of the loop travel with the job.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ...errors import MissingExtra, SourceError
from .expressions import ROW_WISE, NotUnderstood, Verdict, shortened, words
from .kernel import BatchEncoder, Counter, Layout
from .persons import Bound
from .source import Request, engine_errors
from .statement import SPARK_CUTS

if TYPE_CHECKING:
    from .passes import Progress

_LABEL = "the Spark frame"
_CHUNK = 1 << 16  # cells; half a MiB
_ROWS, _FAILURE = -1, -2  # numbers of the chunks that hold the number of rows and a broken rule
_FIELDS = "chunk int, counts binary, failure string"
_SHIPPED = (
    "errors",
    "lazy",
    "schema.transforms",
    "private.counting.encode",
    "private.counting.fields",
    "private.counting.kernel",
    "private.counting.persons",
    "private.counting.source",
    "private.counting.spark",
)


def count_frame(
    frame: Any,
    request: Request,
    layout: Layout,
    bound: Bound | None,
    progress: Progress | None,
) -> list[NDArray[np.int64]]:
    """The tables of a Spark DataFrame."""
    _ship()
    if hasattr(frame, "to_spark"):  # pandas on Spark
        frame = frame.to_spark()
    with engine_errors(f"{_LABEL} could not be analysed"):
        narrow = _narrow(frame, request)
    if bound is not None:
        narrow = narrow.repartition(f"c{request.names.index(bound.person)}")  # a person in one place
    work = _worker(request, layout, bound)
    cells = layout.cells()
    # The choice of rows is made anew when a lost partition is counted again. One reducer sees all chunks of
    # one attempt; several could add chunks of two choices, and a person would count more than m times.
    reducers = 1 if bound is not None else max(1, min(64, math.ceil(cells / _CHUNK)))
    with engine_errors(f"{_LABEL}: the job did not finish", "An executor may have died; the Spark logs tell."):
        merged = narrow.mapInArrow(work, _FIELDS).repartition(reducers, "chunk").mapInArrow(_merge, _FIELDS)
        found = merged.collect()
    flat = np.zeros(cells, np.int64)
    for row in found:
        if row["chunk"] == _FAILURE:
            raise SourceError(row["failure"])
        if row["chunk"] >= 0:
            counts = np.frombuffer(row["counts"], np.int64)
            flat[row["chunk"] * _CHUNK :][: len(counts)] += counts
        elif progress is not None:
            rows = int(np.frombuffer(row["counts"], np.int64)[0])
            progress(rows, rows)
    ends = np.cumsum([math.prod(layout.shape(table)) for table in range(len(layout.tables))])
    return [part.reshape(layout.shape(table)) for table, part in enumerate(np.split(flat, ends[:-1]))]


def _narrow(frame: Any, request: Request) -> Any:
    columns = list(frame.columns)
    for name in request.names:
        if columns.count(name) != 1:
            found = "is there more than once" if name in columns else "is missing"
            raise SourceError(f"{_LABEL}: column {name!r} {found}.")
    # Plain names inside the job: mapInArrow stumbles over dots and backticks in a name.
    chosen = ["`" + name.replace("`", "``") + "`" for name in request.names]
    return frame.select(*[frame[name].alias(f"c{place}") for place, name in enumerate(chosen)])


def _ship() -> None:
    """Let Spark send the loop itself rather than its name, so that executors need not have this library."""
    try:
        from pyspark import cloudpickle
    except ImportError:
        raise MissingExtra("pyspark", "spark") from None
    package = __name__.rpartition(".private.")[0]
    for name in _SHIPPED:
        cloudpickle.register_pickle_by_value(  # type: ignore[no-untyped-call]
            sys.modules[f"{package}.{name}"]
        )


def _worker(request: Request, layout: Layout, bound: Bound | None) -> Any:
    """The first stage, as a function that carries all it needs."""
    specs, names, person = request.specs, request.names, request.person

    def work(batches: Iterator[Any]) -> Iterator[Any]:
        sample = None
        if bound is not None:
            from pyspark import TaskContext

            # One stream of random numbers a partition, all from the entropy that was passed in.
            sample = bound.sample(TaskContext.get().partitionId())  # type: ignore[union-attr]  # inside a task
        encoder = BatchEncoder(specs, person, layout.block_rows())
        counter = Counter(specs, layout, sample)
        try:
            for batch in batches:
                for block in encoder.blocks(batch.rename_columns(names), _LABEL):
                    counter.add(block, _LABEL)
        except SourceError as error:
            # As a result rather than an exception: no retries, and no traceback in the logs.
            yield _record(_FAILURE, None, str(error))
            return
        if counter.rows:
            yield _record(_ROWS, np.array([counter.rows]))
            yield from _chunks(counter.finish())

    return work


def _chunks(tables: list[NDArray[np.int64]]) -> Iterator[Any]:
    flat = np.concatenate([table.ravel() for table in tables])
    for chunk in range(math.ceil(len(flat) / _CHUNK)):
        part = flat[chunk * _CHUNK : (chunk + 1) * _CHUNK]
        if part.any():
            yield _record(chunk, part)


def _merge(batches: Iterator[Any]) -> Iterator[Any]:
    """The second stage: equal chunks are added; of several failures the first is kept."""
    sums: dict[int, NDArray[np.int64]] = {}
    failure = None
    for batch in batches:
        for chunk, counts, text in zip(*(column.to_pylist() for column in batch.columns), strict=True):
            if text is not None:
                failure = failure or text
                continue
            part = np.frombuffer(counts, np.int64)
            sums[chunk] = sums[chunk] + part if chunk in sums else part
    if failure is not None:
        yield _record(_FAILURE, None, failure)
    for chunk, total in sums.items():
        yield _record(chunk, total)


def _record(chunk: int, counts: NDArray[np.int64] | None, failure: str | None = None) -> Any:
    return pa.RecordBatch.from_arrays(
        [
            pa.array([chunk], pa.int32()),
            pa.array([None if counts is None else counts.tobytes()], pa.binary()),
            pa.array([failure], pa.string()),
        ],
        names=["chunk", "counts", "failure"],
    )


# -- plans -------------------------------------------------------------------------------------------------------------


_NODES = frozenset(
    words(
        """
    Project Filter SubqueryAlias LogicalRelation LogicalRDD LocalRelation View Repartition RepartitionByExpression
    RebalancePartitions Sort GlobalLimit LocalLimit Offset OneRowRelation ResolvedHint UnresolvedHint HiveTableRelation
    WithCTE CTERelationDef CTERelationRef Union
    """
    )
)
_EXPRESSIONS = frozenset(
    words(
        """
    Alias AttributeReference Literal Cast UpCast Add Subtract Multiply Divide IntegralDivide Remainder UnaryMinus
    UnaryPositive And Or Not EqualTo EqualNullSafe GreaterThan GreaterThanOrEqual LessThan LessThanOrEqual In InSet
    IsNull IsNotNull Like ILike RLike Contains StartsWith EndsWith CaseWhen If Coalesce SortOrder GetStructField
    GetArrayItem GetMapValue GetArrayStructFields CreateArray CreateNamedStruct CreateMap LambdaFunction
    NamedLambdaVariable With CommonExpressionRef CommonExpressionDef NullIfResult DateAdd DateSub DateAddInterval
    DateAddYMInterval TimeAdd TimestampAddInterval TimestampAddYMInterval SubtractDates SubtractTimestamps BitwiseAnd
    BitwiseOr BitwiseXor BitwiseNot Concat Collate ResolvedCollation CurrentDate CurrentTimestamp Now LocalTimestamp
    """
    )
)
_USER_CODE = frozenset(
    words(
        """
    ScalaUDF PythonUDF PythonUDTF PythonUDAF PythonFuncExpression CallMethodViaReflection TryReflect
    ApplyFunctionExpression SQLFunctionExpression SQLScalarFunction UserDefinedExpression
    """
    )
)
_PACKAGE = "org.apache.spark.sql.catalyst.expressions."
_FORMATS = ("Parquet", "ORC", "Text", "CSV")


def check_spark(frame: Any) -> Verdict:
    """A Spark DataFrame over tables, files or what createDataFrame made, with functions of one row.

    Raises:
        NotUnderstood: anything else, or a frame of Spark Connect, whose plan is elsewhere.
    """
    java = getattr(frame, "_jdf", None)
    if java is None:
        raise NotUnderstood("a plan that this process does not see")
    plan = java.queryExecution().analyzed()
    selects = False
    files: list[str] = []
    waiting, union, named = [plan], False, 0
    sources: list[str] = []
    while waiting:
        node = waiting.pop()
        kind = _name(node)
        if kind not in _NODES:
            raise NotUnderstood(f"what Spark plans as {kind}")
        selects |= kind == "Filter"
        union |= kind == "Union"
        named += kind == "CTERelationRef"
        for each in _items(node.expressions()):
            _check_expression(each)
        if kind in ("GlobalLimit", "LocalLimit", "Offset"):
            raise NotUnderstood(SPARK_CUTS)
        if kind == "LogicalRelation":
            files += _spark_files(node.relation())
        elif kind in ("LogicalRDD", "LocalRelation", "HiveTableRelation"):
            sources.append(kind)
        waiting += _items(node.children())
    if union and (sources or named):
        raise NotUnderstood(
            "a union of frames that are no files: one record may be in both",
            "Count them apart and add the tables up if they share no record.",
        )
    if named > 1:
        raise NotUnderstood("a common table that is used more than once")
    if len(set(files)) < len(files):
        raise NotUnderstood("a file that is read twice")
    return Verdict(selects=selects, files=tuple(files))


def _check_expression(expression: Any) -> None:
    waiting = [expression]
    while waiting:
        each = waiting.pop()
        full, kind = str(each.getClass().getName()), _name(each)
        known = full == _PACKAGE + kind or full.startswith((_PACKAGE + "variant.", _PACKAGE + "xml."))
        named = kind not in _USER_CODE and str(each.prettyName()).lower() in ROW_WISE["spark"] and each.deterministic()
        if not (known and (kind in _EXPRESSIONS or named)):
            raise NotUnderstood(f"the expression {shortened(kind)}")
        if kind == "AttributeReference" and str(each.name()).lower() == "_metadata":
            raise NotUnderstood("the pseudo-column _metadata, which tells the place of a row among the others")
        waiting += _items(each.children())


def _spark_files(relation: Any) -> list[str]:
    if _name(relation) != "HadoopFsRelation":
        raise NotUnderstood(f"a source that Spark calls {_name(relation)}, which may be a query")
    form = str(relation.fileFormat().toString())
    options = {str(key).lower(): str(relation.options().apply(key)).lower() for key in _keys(relation.options())}
    if form not in _FORMATS or (form == "CSV" and options.get("inferschema") == "true"):
        raise NotUnderstood(f"files read as {form}, whose types are guessed from their rows")
    partitions = [str(field.dataType().typeName()) for field in relation.partitionSchema().fields()]
    if any(kind != "string" for kind in partitions) and _name(relation.location()) == "InMemoryFileIndex":
        raise NotUnderstood("folders such as year=2024, whose columns get a type that is guessed from all of them")
    return [str(path) for path in relation.location().inputFiles()]


def _name(each: Any) -> str:
    return str(each.getClass().getSimpleName()).rstrip("$")


def _items(sequence: Any) -> list[Any]:
    return [sequence.apply(place) for place in range(sequence.size())]


def _keys(mapping: Any) -> Iterator[Any]:
    keys = mapping.keysIterator()
    while keys.hasNext():
        yield keys.next()
