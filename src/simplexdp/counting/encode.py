"""From an Arrow array to cell numbers: one function a column and Arrow type, chosen before any row is read.

Depends on NumPy and pyarrow only, because it is shipped to Spark executors.
"""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ..errors import SourceError

Codes = NDArray[np.unsignedinteger[Any]]
Encoder = Callable[[Any], Codes]
Kind = Literal["text", "whole", "truth", "date", "numeric"]

_FEW_EDGES = 48  # below this, counting the edges at or below x beats a binary search (2 against 18 ns at 11 edges)
_LOOKUP_SPAN = 1 << 16  # declared integers within this span are looked up in a table, wider ones are hashed
_DAY = {"s": 86_400, "ms": 86_400_000, "us": 86_400_000_000, "ns": 86_400_000_000_000}


@dataclass(frozen=True, kw_only=True)
class ColumnSpec:
    """One declared column in plain values: what an encoder needs to know, and all a Spark executor gets.

    Cells come in the order: own values and bins (numeric) or declared values, then other, then missing.
    `other` and `missing` are cell numbers; a refused one has a number at or above `size`.
    """

    name: str
    kind: Kind
    values: tuple[Any, ...] = ()  # declared values; for numeric the values with a cell of their own
    edges: tuple[float, ...] = ()
    nearest: bool = False
    size: int
    other: int
    missing: int

    @property
    def dtype(self) -> np.dtype[np.unsignedinteger[Any]]:
        """The smallest unsigned type that holds every cell number and the two marks for refused values."""
        return np.min_scalar_type(self.size + 1)

    def encode(self, array: Any, encoder: Encoder, label: str) -> Codes:
        """Cell numbers of an array; what the declaration refuses is an error that names the rule."""
        codes = encoder(array)
        # A value that is not refused is below size, so the largest code tells whether any was refused.
        if (self.other >= self.size or self.missing >= self.size) and codes.size and codes.max() >= self.size:
            raise SourceError(f"{label}: column {self.name!r} {self._rule(codes)}")
        return codes

    def _rule(self, codes: Codes) -> str:
        if self.missing >= self.size and bool((codes == self.missing).any()):
            return (
                "has missing entries, and its declaration refuses them. "
                "Declare missing='cell' to count them in a cell of their own."
            )
        if self.kind == "numeric":
            return (
                "has values outside its edges, and its declaration refuses them. "
                "Declare outside='cell' or outside='nearest', or wider edges."
            )
        return (
            "has values that are not declared, and its declaration refuses them. "
            "Declare other='cell' to count them in a cell of their own, or declare the values."
        )


def encoder(spec: ColumnSpec, kind: Any, label: str) -> Encoder:
    """The function from arrays of the Arrow type `kind` to cell numbers.

    Raises:
        SourceError: the type cannot hold what the column declares.
    """
    found = _encoder(spec, kind)
    if found is None:
        wanted = {
            "text": "strings",
            "whole": "integers",
            "truth": "booleans",
            "date": "dates",
            "numeric": "numbers",
        }
        raise SourceError(
            f"{label}: column {spec.name!r} is declared with {wanted[spec.kind]} and has the type {kind}. "
            "Cast the column in the source, or declare values of its type."
        )
    return found


def _encoder(spec: ColumnSpec, kind: Any) -> Encoder | None:
    types = pa.types
    if types.is_null(kind):
        return lambda array: np.full(len(array), spec.missing, spec.dtype)
    if types.is_dictionary(kind):
        return _dictionary(spec, kind)
    if spec.kind == "numeric":
        return _numeric(spec, kind)
    codes = {value: code for code, value in enumerate(spec.values)}
    if spec.kind == "text":
        if types.is_string(kind) or types.is_large_string(kind):
            return _hashed(spec, kind, codes)
        if types.is_string_view(kind):  # Arrow has no lookup for views yet
            hashed = _hashed(spec, pa.large_string(), codes)
            return lambda array: hashed(array.cast(pa.large_string()))
        return None
    if spec.kind == "truth":
        if not types.is_boolean(kind):
            return None
        cells = _cells(spec, codes, 2)
        return lambda array: _with_missing(spec, array, cells.take(_numbers(array.cast(pa.uint8()))))
    if spec.kind == "date":
        return _dates(spec, kind)
    if types.is_integer(kind):
        return _integers(spec, kind, spec.values)
    if types.is_floating(kind):
        return _whole_floats(spec)
    if types.is_decimal(kind) and kind.scale == 0:
        widest = pa.decimal256(76, 0)
        hashed = _hashed(spec, widest, {decimal.Decimal(value): code for value, code in codes.items()})
        return lambda array: hashed(array.cast(widest))
    return None


def _dictionary(spec: ColumnSpec, kind: Any) -> Encoder | None:
    """Encode the few values of the dictionary, then look the many indices up."""
    inner = _encoder(spec, kind.value_type)
    if inner is None:
        return None
    last: list[Any] = [None, None]  # the dictionary object is kept, so that its address stays its name

    def encode(array: Any) -> Codes:
        dictionary = array.dictionary
        place = tuple(buffer.address if buffer else 0 for buffer in dictionary.buffers())
        if last[0] is None or last[0][1:] != (place, dictionary.offset, len(dictionary)):
            last[0] = (dictionary, place, dictionary.offset, len(dictionary))
            codes = inner(dictionary) if len(dictionary) else np.empty(0, spec.dtype)
            last[1] = np.append(codes, np.array([spec.missing], spec.dtype))  # the index after the last is a gap
        indices, cells = array.indices, last[1]
        plain = _numbers(indices)
        if indices.null_count:
            plain = np.where(_nulls(indices), len(cells) - 1, plain)
        found: Codes = cells.take(plain)
        return found

    return encode


def _hashed(spec: ColumnSpec, kind: Any, codes: dict[Any, int]) -> Encoder:
    """Strings and far-apart integers: Arrow's hash lookup, 8 ns a value."""
    declared = pa.array([*codes, None], type=kind)
    count = len(codes)
    cells = np.array([*codes.values(), spec.missing, spec.other], spec.dtype)  # null, then not found
    in_order = list(codes.values()) == list(range(count))

    def encode(array: Any) -> Codes:
        found = pc.index_in(array, value_set=declared)
        if found.null_count:
            return cells.take(_numbers(found.fill_null(count + 1)))
        if array.null_count or not in_order:
            return cells.take(_numbers(found))
        return _numbers(found).astype(spec.dtype)

    return encode


def _integers(spec: ColumnSpec, kind: Any, values: Iterable[int]) -> Encoder:
    """Integers: subtract if the declared values are consecutive, look up if close, hash if far apart."""
    limits = np.iinfo(kind.to_pandas_dtype())
    fitting = {value: code for code, value in enumerate(values) if limits.min <= value <= limits.max}
    if not fitting:
        return lambda array: _with_missing(spec, array, np.full(len(array), spec.other, spec.dtype))
    low, high = min(fitting), max(fitting)
    span = high - low + 1
    if span > _LOOKUP_SPAN:
        return _hashed(spec, kind, fitting)
    unsigned = np.dtype(f"u{limits.bits // 8}")
    cells = _cells(spec, {value - low: code for value, code in fitting.items()}, span)
    consecutive = len(fitting) == span and all(code == value - low for value, code in fitting.items())

    def encode(array: Any) -> Codes:
        numbers = _numbers(array)
        if low:
            numbers = numbers - numbers.dtype.type(low)  # wraps around: below low becomes very large
        offset = numbers.view(unsigned)
        if consecutive and offset.size and not array.null_count and int(offset.max()) < span:
            return offset.astype(spec.dtype, copy=False)
        # Beyond the span is beyond the table's last entry, which says "other".
        return _with_missing(spec, array, cells.take(np.minimum(offset, _as(unsigned, span))))

    return encode


def _dates(spec: ColumnSpec, kind: Any) -> Encoder | None:
    """Dates as the integers they are stored as. A timestamp equals a date at its midnight only."""
    types = pa.types
    if types.is_date32(kind):
        scale, storage = 1, pa.int32()
    elif types.is_date64(kind):
        scale, storage = _DAY["ms"], pa.int64()
    elif types.is_timestamp(kind) and kind.tz is None:  # with a time zone, midnight is ambiguous
        scale, storage = _DAY[kind.unit], pa.int64()
    else:
        return None
    epoch = datetime.date(1970, 1, 1)
    integers = _integers(spec, storage, [(day - epoch).days * scale for day in spec.values])
    return lambda array: integers(array.view(storage))


def _whole_floats(spec: ColumnSpec) -> Encoder:
    """Integers stored as floats (pandas does it when entries are missing); a fraction is not declared."""
    # A declared integer that no float equals cannot occur in a column of floats.
    exact = {float(value): code for code, value in enumerate(spec.values) if int(float(value)) == value}
    hashed = _hashed(spec, pa.float64(), exact)

    def encode(array: Any) -> Codes:
        numbers = _numbers(array).astype(np.float64) + 0.0  # -0.0 becomes 0.0
        codes = hashed(pa.array(numbers))
        codes[np.isnan(numbers)] = spec.missing
        return _with_missing(spec, array, codes)

    return encode


def _numeric(spec: ColumnSpec, kind: Any) -> Encoder | None:
    """Bins [e0, e1), [e1, e2), ..., the last one closed on the right."""
    types = pa.types
    if not (types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind)):
        return None
    edges, own = np.array(spec.edges, np.float64), spec.values
    first, last = len(own), len(own) + len(edges) - 2
    below, above = (first, last) if spec.nearest else (spec.other, spec.other)
    # By the number of edges at or below x: none, 1 .. bins, all.
    cells = np.array([below, *range(first, last + 1), above], spec.dtype)  # no edges: all is outside
    step = np.min_scalar_type(len(edges))

    def encode(array: Any) -> Codes:
        numbers = _numbers(array.cast(pa.float64()) if types.is_decimal(kind) else array)
        numbers = numbers.astype(np.float64, copy=False)
        if len(edges) <= _FEW_EDGES:
            passed = np.zeros(len(numbers), step)
            reached = np.empty(len(numbers), np.bool_)
            for edge in edges:
                np.greater_equal(numbers, edge, out=reached)
                passed += reached
        else:
            passed = np.searchsorted(edges, numbers, side="right").astype(step)
        codes = cells.take(passed)
        if len(edges):
            codes[numbers == edges[-1]] = last
        for code, value in enumerate(own):
            codes[numbers == value] = code
        codes[np.isnan(numbers)] = spec.missing
        return _with_missing(spec, array, codes)

    return encode


def _cells(spec: ColumnSpec, codes: dict[int, int], span: int) -> Codes:
    """A lookup table of `span` entries and one for everything beyond; what is not in `codes` is other."""
    cells = np.full(span + 1, spec.other, spec.dtype)
    for offset, code in codes.items():
        cells[int(offset)] = code  # a boolean would be taken for a mask
    return cells


def _with_missing(spec: ColumnSpec, array: Any, codes: Codes) -> Codes:
    if array.null_count:
        codes[_nulls(array)] = spec.missing
    return codes


def _nulls(array: Any) -> NDArray[np.bool_]:
    return array.is_null().to_numpy(zero_copy_only=False)  # type: ignore[no-any-return]  # pyarrow is untyped


def _numbers(array: Any) -> NDArray[Any]:
    """The values buffer of a fixed-width array, with whatever lies under its nulls."""
    dtype = np.dtype(array.type.to_pandas_dtype())
    buffer = array.buffers()[1]
    if buffer is None or not len(array):
        return np.zeros(len(array), dtype)
    return np.frombuffer(buffer, dtype, count=len(array), offset=array.offset * dtype.itemsize)


def _as(dtype: np.dtype[Any], value: int) -> Any:
    return dtype.type(min(value, np.iinfo(dtype).max))
