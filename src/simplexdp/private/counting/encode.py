"""From values to cell numbers: the cell of a value is a function of that value and the declaration alone.

Arrow arrays have one function a column and Arrow type, chosen before any row is read. Python objects come from pandas
columns of objects, DB-API cursors, NumPy arrays of objects and scikit-learn. Arrow would infer one type for a whole
block, so that one record decides what the others count as; here each value is taken for what it is. `cell_of` says what
that means; blocks are encoded by groups of values of exactly one type, which gives the same.

Depends on NumPy and pyarrow only, because it is shipped to Spark executors.
"""

from __future__ import annotations

import datetime
import decimal
import fractions
import sys
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import compress
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ...errors import SourceError
from ...lazy import pa, pc

Codes = NDArray[np.unsignedinteger[Any]]
Encoder = Callable[[Any], Codes]
Kind = Literal["text", "whole", "truth", "date", "numeric"]

_FEW_EDGES = 48  # below this, counting the edges at or below x beats a binary search (2 against 18 ns at 11 edges)
_LOOKUP_SPAN = 1 << 16  # declared integers within this span are looked up in a table, wider ones are hashed
_DAY = {"s": 86_400, "ms": 86_400_000, "us": 86_400_000_000, "ns": 86_400_000_000_000}
_WORDS = {"text": "strings", "whole": "integers", "truth": "booleans", "date": "dates", "numeric": "numbers"}


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
    steps: tuple[tuple[Any, ...], ...] = ()  # what is done to each value before; `column_encoder` does it

    @property
    def misfit(self) -> int:
        """For a value of a type that the declaration cannot hold: the other cell, or a mark of its own if refused."""
        return self.other if self.other < self.size else self.size + 2

    @property
    def dtype(self) -> np.dtype[np.unsignedinteger[Any]]:
        """The smallest unsigned type that holds every cell number and the three marks for refused values."""
        return np.min_scalar_type(self.size + 2)

    def encode(self, array: Any, encoder: Encoder, label: str) -> Codes:
        """Cell numbers of an array; what the declaration refuses is an error that names the rule."""
        codes = encoder(array)
        # A value that is not refused is below size, so the largest code tells whether any was refused.
        if (self.other >= self.size or self.missing >= self.size) and codes.size and codes.max() >= self.size:
            raise SourceError(f"{label}: column {self.name!r} {self.rule(codes)}")
        return codes

    def rule(self, codes: Codes) -> str:
        """The rule that some of these codes break, in words without a value."""
        if self.missing >= self.size and bool((codes == self.missing).any()):
            return (
                "has missing entries, and its declaration refuses them. "
                "Declare missing='cell' to count them in a cell of their own."
            )
        cell = "outside='cell'" if self.kind == "numeric" else "other='cell'"
        if bool((codes == self.size + 2).any()):
            return (
                f"is declared with {_WORDS[self.kind]} and has entries that are not. "
                f"Declare {cell} to count them in a cell of their own, or convert them in the source."
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
        raise SourceError(
            f"{label}: column {spec.name!r} is declared with {_WORDS[spec.kind]} and has the type {kind}. "
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
        numbers = _decimals(array) if types.is_decimal(kind) else _numbers(array).astype(np.float64, copy=False)
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


def _decimals(array: Any) -> NDArray[np.float64]:
    """Decimals as the nearest floats, as Python's float() gives them; Arrow's cast is off by one unit for every tenth.

    An integer below 2⁵³ and a power of ten up to 10²² are floats, so that their quotient is correctly rounded. All
    others are read from their text.
    """
    kind = array.type
    if kind.bit_width < 128:
        array = array.cast(pa.decimal128(kind.precision, kind.scale))
    if array.type.bit_width == 128 and 0 <= kind.scale <= 22 and sys.byteorder == "little":
        words = np.frombuffer(array.buffers()[1] or b"", np.int64, offset=16 * array.offset, count=2 * len(array))
        low, high = words[::2], words[1::2]
        small = (high == low >> 63) & (np.abs(low) <= 1 << 53)
        numbers: NDArray[np.float64] = low / 10.0**kind.scale
    else:
        small, numbers = np.zeros(len(array), np.bool_), np.empty(len(array))
    if not small.all():
        large = array.filter(pa.array(~small))
        numbers[~small] = large.cast(pa.string()).cast(pa.float64()).fill_null(0.0).to_numpy()
    return numbers


def _as(dtype: np.dtype[Any], value: int) -> Any:
    return dtype.type(min(value, np.iinfo(dtype).max))


# -- Python objects ----------------------------------------------------------------------------------------------------


_TYPES: dict[str, type] = {"text": str, "whole": int, "truth": bool, "date": datetime.date}
_NUMBERS = (int, float, decimal.Decimal, fractions.Fraction)
_OWN: tuple[tuple[type, type], ...] = (
    (np.str_, str),
    (np.bool_, bool),
    (np.integer, int),
    (np.floating, float),
)
_ARROW = {
    ("text", str): "large_string",
    ("truth", bool): "bool_",
    ("date", datetime.date): "date32",
    ("whole", int): "int64",
    ("whole", float): "float64",
    ("numeric", int): "int64",
    ("numeric", float): "float64",
}
"""The Arrow type that a group of values of one Python type is encoded as; other groups go value by value."""
_DAYS = tuple(f"datetime64[{unit}]" for unit in ("D", "h", "m", "s", "ms", "us", "ns"))
_EXACT: dict[type, Callable[[Any], Any]] = {str: str.__str__, int: int.__int__, float: float.__float__}
"""What gives the value of a subclass, such as a member of an enumeration."""
_FEW_TYPES = 16


def cell_of(spec: ColumnSpec, value: Any) -> int:
    """The cell of one value.

    None, NaN, NaT and pandas' NA are missing. Numbers count under numbers, whatever their type; truth values and text
    are no numbers. A date is a date or the midnight of a time without a zone. What the declaration cannot hold counts
    as other, or is refused.

    >>> spec = ColumnSpec(name="n", kind="whole", values=(1, 2), size=4, other=2, missing=3)
    >>> [cell_of(spec, value) for value in (1, 2.0, 1.5, True, "1", None)]
    [0, 1, 2, 2, 2, 3]
    """
    return ObjectEncoder(spec).cell(value)


class ObjectEncoder:
    """The function from sequences of Python objects to cell numbers of one column."""

    def __init__(self, spec: ColumnSpec) -> None:
        self._spec = spec
        self._codes = {value: code for code, value in enumerate(spec.values)}
        self._encoders: dict[type, Encoder] = {
            own: encoder(spec, getattr(pa, arrow)(), "") for (kind, own), arrow in _ARROW.items() if kind == spec.kind
        }

    def cell(self, value: Any) -> int:
        """The cell of one value."""
        if is_missing(value):
            return self._spec.missing
        value = plain(value)
        if self._spec.kind == "numeric":
            return self._bin(as_float(value)) if type(value) in _NUMBERS else self._spec.misfit
        found = self._declarable(value)
        return self._spec.misfit if found is _MISFIT else self._codes.get(found, self._spec.other)

    def _declarable(self, value: Any) -> Any:
        """The value as one that could be declared, None if its type fits but no declared value can equal it."""
        kind = self._spec.kind
        if type(value) is _TYPES[kind]:
            return value
        if kind == "whole" and type(value) in _NUMBERS:
            if isinstance(value, fractions.Fraction):
                return value.numerator if value.denominator == 1 else None
            # A declared integer has at most 64 bits; an exponent of a million digits is not written out.
            return int(value) if -(1 << 64) < value < 1 << 64 and value == int(value) else None
        if kind == "date" and isinstance(value, datetime.datetime) and value.tzinfo is None:
            return _midnight(value)
        if kind == "date" and isinstance(value, np.datetime64) and value.dtype.name in _DAYS:
            day = value.astype("datetime64[D]")
            return day.item() if day.astype(value.dtype) == value else None
        return _MISFIT

    def _bin(self, number: float) -> int:
        spec = self._spec
        if number in self._codes:
            return self._codes[number]
        first, last = len(spec.values), len(spec.values) + len(spec.edges) - 2
        passed = bisect_right(spec.edges, number)
        if passed == len(spec.edges) and passed and number == spec.edges[-1]:  # the last bin is closed
            return last
        if 0 < passed < len(spec.edges):
            return first + passed - 1
        if spec.nearest:
            return last if passed else first
        return spec.other

    def __call__(self, values: Sequence[Any]) -> Codes:
        """The cells of many values, as of each: those of one exact type go together, with a given Arrow type."""
        kinds = set(map(type, values)) - {type(None)}
        if len(kinds) > _FEW_TYPES:
            return self._one_by_one(values)
        if len(kinds) <= 1:
            return self._group(kinds.pop() if kinds else type(None), values)
        codes = np.full(len(values), self._spec.missing, self._spec.dtype)
        types = list(map(type, values))
        for kind in kinds:
            chosen = np.array([each is kind for each in types])
            codes[chosen] = self._group(kind, list(compress(values, chosen)))
        return codes

    def _group(self, kind: type, values: Sequence[Any]) -> Codes:
        """Values of one type and None."""
        if kind is type(None):
            return np.full(len(values), self._spec.missing, self._spec.dtype)
        own = _own(kind)
        if own is not None or (self._spec.kind == "numeric" and kind is decimal.Decimal):
            convert: Callable[[Any], Any] = own or float
            kind = own or float
            try:
                values = [None if value is None or value != value else convert(value) for value in values]
            except (ArithmeticError, ValueError):  # a signalling NaN
                return self._one_by_one(values)
        if (self._spec.kind, kind) in _ARROW:
            column = None
            try:
                column = pa.array(values, getattr(pa, _ARROW[self._spec.kind, kind])())
            except (pa.ArrowException, OverflowError, UnicodeError):  # integers beyond 64 bits, lone surrogates
                column = None
            if column is not None:
                return self._encoders[kind](column)
        return self._one_by_one(values)

    def _one_by_one(self, values: Sequence[Any]) -> Codes:
        return np.fromiter(map(self.cell, values), self._spec.dtype, len(values))


_MISFIT = object()


def is_missing(value: Any) -> bool:
    """Whether a value stands for a missing entry: None, NaN of any number type, NaT, pandas' NA."""
    if value is None:
        return True
    if isinstance(value, (float, np.floating)):
        return bool(value != value)
    if isinstance(value, decimal.Decimal):
        return value.is_nan()
    if isinstance(value, (np.datetime64, np.timedelta64)):
        return bool(np.isnat(value))
    if isinstance(value, pa.Scalar):
        return is_missing(value.as_py())
    kind = type(value)
    return kind.__name__ in ("NAType", "NaTType") and kind.__module__.startswith("pandas.")


def plain(value: Any) -> Any:
    """A value that is not missing as one of Python's own types, if it is one: subclasses, NumPy and Arrow scalars."""
    if isinstance(value, pa.Scalar):
        value = value.as_py()
    own = _own(type(value))
    if own is not None:
        return own(value)
    if isinstance(value, bool) or type(value) in _EXACT:
        return value
    for kind, exact in _EXACT.items():
        if isinstance(value, kind):
            return exact(value)
    if isinstance(value, datetime.date) and not isinstance(value, datetime.datetime):
        return datetime.date(value.year, value.month, value.day)
    return value


def as_float(number: Any) -> float:
    """The nearest float; what is beyond all floats is infinite."""
    try:
        return float(number)
    except OverflowError:
        return float("inf") if number > 0 else float("-inf")


def _own(kind: type) -> type | None:
    """Python's type for a type of NumPy scalars."""
    if issubclass(kind, np.timedelta64):  # for NumPy a span of time is an integer
        return None
    return next((own for base, own in _OWN if issubclass(kind, base)), None)


def _midnight(value: datetime.datetime) -> datetime.date | None:
    """The date of a midnight; pandas' times have nanoseconds and years that dates have not."""
    if value.hour or value.minute or value.second or value.microsecond or getattr(value, "nanosecond", 0):
        return None
    if not datetime.MINYEAR <= value.year <= datetime.MAXYEAR:
        return None
    return datetime.date(value.year, value.month, value.day)
