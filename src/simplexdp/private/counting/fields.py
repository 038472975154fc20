"""Fields of text files as values of the declared type, each by itself; and the encoder of a column of any source.

| declared | fields |
|---|---|
| numbers, integers | 1, -1.50, 2e3, inf; NaN is missing |
| booleans | true, t, yes, y, 1; false, f, no, n, 0 |
| dates | 2024-02-29 or 2024/2/29, with a time only if that is midnight |

Case, and spaces around all but text, do not matter.

What a column transforms is read as a field too, wherever it comes from: its text, after the steps of the column.

Depends on NumPy and pyarrow only, because it is shipped to Spark executors.
"""

from __future__ import annotations

import datetime
import decimal
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ...errors import SourceError
from ...lazy import pa, pc
from ...schema.transforms import apply_steps, text_of
from .encode import Codes, ColumnSpec, Encoder, ObjectEncoder, encoder, is_missing, plain
from .source import Fields, FieldType

# What Arrow reads as a 64-bit float, and no more, so that a block with a field that is none counts its numbers alike.
_NUMBER = r"[+-]?([0-9]+([.][0-9]*)?|[.][0-9]+)(e[+-]?[0-9]+)?|[+-]?(nan([(][0-9a-z_]*[)])?|inf|infinity)"
_DATE = re.compile(r"([0-9]{4})([-/])([0-9]{1,2})\2([0-9]{1,2})([ T]0?0:00(:00([.]0*)?)?)?", re.IGNORECASE)
_TRUTH = dict.fromkeys(("true", "t", "yes", "y", "1"), True) | dict.fromkeys(("false", "f", "no", "n", "0"), False)
_SPACE = " \t\n\r\v\f"
_FAILED = object()


def field_type(spec: ColumnSpec | None) -> Any:
    """The type of the fields of a column; the column that names persons has no declaration and stays text."""
    if spec is None or spec.kind == "text" or spec.steps:
        return FieldType(pa.string())
    if spec.kind in ("truth", "date"):
        return FieldType(pa.bool_() if spec.kind == "truth" else pa.date32())
    return FieldType(pa.int64() if _is_wide(spec) else pa.float64())


def by_value(spec: ColumnSpec | None) -> bool:
    """Whether most fields of a column differ, so that it is not worth while to find those that are distinct."""
    return spec is None or (spec.kind == "numeric" and not spec.steps)


def fields(spec: ColumnSpec | None, raw: Any, codec: str = "utf-8") -> Fields:
    """Fields as they are in the file (Arrow strings or bytes), converted to the declared type.

    Where they come as numbers of distinct ones, each of these is converted once.
    """
    if pa.types.is_dictionary(raw.type):
        distinct = fields(spec, raw.dictionary, codec)
        values = pa.DictionaryArray.from_arrays(raw.indices, distinct.values)
        if not distinct.failed.true_count:
            return Fields(values, pa.array(np.zeros(len(raw), np.bool_)))
        return Fields(values, distinct.failed.take(raw.indices).fill_null(False))
    text = _decoded(raw, codec) if pa.types.is_binary(raw.type) else raw
    undecoded = pc.and_(raw.is_valid(), text.is_null())
    if spec is None or spec.kind == "text" or spec.steps:
        return Fields(text, undecoded)
    if spec.kind == "truth":
        found = _distinct(text, _truth, pa.bool_())
    elif spec.kind == "date":
        found = _distinct(text, _date, pa.date32())
    elif _is_wide(spec):
        found = _distinct(text, _integer, pa.int64())
    else:
        found = _floats(text)
    return Fields(found.values, pc.or_(found.failed, undecoded))


def _is_wide(spec: ColumnSpec) -> bool:
    """Whether floats would confuse the declared integers."""
    return spec.kind == "whole" and any(abs(value) >= 1 << 53 for value in spec.values)


def _decoded(raw: Any, codec: str) -> Any:
    if codec == "utf-8":
        try:
            return raw.cast(pa.string())
        except pa.ArrowInvalid:
            return pa.array([_characters(field, codec) for field in raw.to_pylist()], pa.string())
    coded = raw.dictionary_encode()
    distinct = [_characters(field, codec) for field in coded.dictionary.to_pylist()]
    return pa.array(distinct, pa.string()).take(coded.indices)


def _characters(field: bytes | None, codec: str) -> str | None:
    try:
        return None if field is None else field.decode(codec)
    except UnicodeDecodeError:
        return None


def _floats(text: Any) -> Fields:
    text = pc.ascii_trim_whitespace(text)
    try:
        return Fields(text.cast(pa.float64()), pa.array(np.zeros(len(text), np.bool_)))
    except pa.ArrowInvalid:
        good = pc.match_substring_regex(text, f"^({_NUMBER})$", ignore_case=True).fill_null(True)
        return Fields(pc.if_else(good, text, None).cast(pa.float64()), pc.invert(good))


def _distinct(text: Any, read: Callable[[str], Any], kind: Any) -> Fields:
    """Each distinct field is read once: there are few, or the column is none to count."""
    coded = text.dictionary_encode()
    found = [read(field.strip(_SPACE)) for field in coded.dictionary.to_pylist()]
    values = pa.array([None if value is _FAILED else value for value in found], kind)
    failed = pa.array([value is _FAILED for value in found], pa.bool_())
    return Fields(values.take(coded.indices), failed.take(coded.indices).fill_null(False))


def _truth(field: str) -> Any:
    return _TRUTH.get(field.lower(), _FAILED)


def _date(field: str) -> Any:
    match = _DATE.fullmatch(field)
    try:
        return datetime.date(int(match[1]), int(match[3]), int(match[4])) if match else _FAILED
    except ValueError:
        return _FAILED


def _integer(field: str) -> Any:
    if not re.fullmatch(_NUMBER, field, re.IGNORECASE | re.ASCII):
        return _FAILED
    try:
        number = decimal.Decimal(field.partition("(")[0])
    except decimal.InvalidOperation:  # an exponent beyond all
        return _FAILED
    if number.is_nan():
        return None
    return int(number) if -(1 << 63) <= number < 1 << 63 and number == int(number) else _FAILED


# -- encoders ----------------------------------------------------------------------------------------------------------


def column_encoder(spec: ColumnSpec, kind: Any, label: str) -> Encoder:
    """The function from columns of a type to cell numbers; see `encoder` for Arrow types."""
    if isinstance(kind, FieldType):
        inner = column_encoder(spec, kind.arrow, label)

        def encode(fields: Fields) -> Codes:
            codes = inner(fields.values)
            if fields.failed.true_count:
                failed = fields.failed.to_numpy(zero_copy_only=False)
                codes = np.where(failed, np.asarray(spec.misfit, spec.dtype), codes)
            return codes

        return encode
    if spec.steps:
        return _transformed(spec, kind, label)
    return ObjectEncoder(spec) if isinstance(kind, str) else encoder(spec, kind, label)


def _transformed(spec: ColumnSpec, kind: Any, label: str) -> Encoder:
    """Values of any type as text, through the steps of the column, and read as fields of the declared type.

    Each distinct value takes the steps once; what it becomes depends on it alone.
    """
    if isinstance(kind, str):
        return lambda values: _after_steps(spec, [_text(value) for value in values])
    types = pa.types
    plain = kind.value_type if types.is_dictionary(kind) else kind
    if not (_is_text(plain) or any(getattr(types, f"is_{each}")(plain) for each in _TRANSFORMABLE)):
        hint = "Cast the column in the source, or declare it without transform."
        raise SourceError(f"{label}: column {spec.name!r} is transformed as text and has the type {kind}. {hint}")

    def encode(array: Any) -> Codes:
        if types.is_null(array.type):
            return np.full(len(array), spec.missing, spec.dtype)
        coded = array if types.is_dictionary(array.type) else _floored(_seconds(array), spec).dictionary_encode()
        texts = [_text(value) for value in _objects(_seconds(coded.dictionary))]
        cells = np.append(_after_steps(spec, texts), np.array([spec.missing], spec.dtype))
        found: Codes = cells.take(coded.indices.cast(pa.int64()).fill_null(len(texts)).to_numpy())
        return found

    return encode


_TRANSFORMABLE = ("null", "integer", "floating", "decimal", "boolean", "date", "timestamp")


def _is_text(kind: Any) -> bool:
    types = pa.types
    return bool(types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind))


def _seconds(array: Any) -> Any:
    """An array that Arrow can tell distinct values of and give as Python objects, whose times end with microseconds."""
    kind = array.type
    if pa.types.is_string_view(kind):
        return array.cast(pa.large_string())
    if pa.types.is_timestamp(kind) and kind.unit == "ns":
        counts = array.view(pa.int64()).fill_null(0).to_numpy() // 1000
        nulls = array.is_null().to_numpy(zero_copy_only=False)
        return pa.array(counts, pa.int64(), mask=nulls).view(pa.timestamp("us", kind.tz))
    if pa.types.is_float16(kind):
        return array.cast(pa.float32())
    return array


def _floored(array: Any, spec: ColumnSpec) -> Any:
    """Times of which a part is taken, to the hour or the day, which has the same part: far fewer are distinct."""
    kind = array.type
    if not (pa.types.is_timestamp(kind) and kind.tz is None and spec.steps[0][0] == "part"):
        return array
    unit = {"s": 1, "ms": 1000, "us": 1_000_000}[kind.unit] * (3600 if spec.steps[0][1] == "hour" else 86_400)
    counts = array.view(pa.int64()).fill_null(0).to_numpy() // unit * unit
    return pa.array(counts, pa.int64(), mask=array.is_null().to_numpy(zero_copy_only=False)).view(kind)


def _objects(array: Any) -> list[Any]:
    """The values as Python objects; a time that Python has not, before the year 1 or after 9999, has no text."""
    try:
        return list(array.to_pylist())
    except (ValueError, OverflowError):
        return [_object(one) for one in array]


def _object(scalar: Any) -> Any:
    try:
        return scalar.as_py()
    except (ValueError, OverflowError):
        return _FAILED


def _text(value: Any) -> str | bool | None:
    """A value as text, None if it is missing, False if it has none."""
    if is_missing(value):
        return None
    value = plain(value)
    if isinstance(value, np.datetime64):
        value = value.astype("datetime64[us]").item()
    try:
        return text_of(value)
    except (ValueError, OverflowError):
        return False


def _after_steps(spec: ColumnSpec, texts: Sequence[str | bool | None]) -> Codes:
    """The cells of texts, each for itself; False stands for a value without a text."""
    found: dict[str | bool | None, str | bool | None] = {}
    for text in set(texts):
        try:
            found[text] = apply_steps(spec.steps, text) if isinstance(text, str) else text
            if isinstance(found[text], str):
                str(found[text]).encode()
        except (ValueError, OverflowError):  # no date, a day that does not exist, a lone surrogate
            found[text] = False
    bare = replace(spec, steps=())
    after = list(found.values())
    read = fields(bare, pa.array([text if isinstance(text, str) else None for text in after], pa.string()))
    codes = column_encoder(bare, read.type, "")(read)
    cells = {
        text: spec.misfit if became is False else int(code)
        for (text, became), code in zip(found.items(), codes, strict=True)
    }
    return np.fromiter((cells[text] for text in texts), spec.dtype, len(texts))
