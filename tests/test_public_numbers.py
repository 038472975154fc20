"""Every public number is Python's own behind the door, whatever type it comes in; truth values are no numbers."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from decimal import Decimal
from fractions import Fraction
from numbers import Rational
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from public_numbers import public_numbers
from public_samples import INTERNAL, OUTPUTS, SAMPLES, Sample
from simplexdp import Budget, Gaussian
from simplexdp.budget import check_number, check_order, check_positive, check_whole
from simplexdp.errors import InvalidArgument

PUBLIC = {name: found for name, found in public_numbers().items() if name not in OUTPUTS | INTERNAL}
WIDTHS = (np.uint8, np.float16, np.int64, np.float32, np.int8, np.int16, np.uint64, np.float64, np.longdouble)


def samples(name: str) -> list[Sample]:
    found = SAMPLES[name]
    return found if isinstance(found, list) else [found]


CASES = [(name, one, key) for name in SAMPLES for one in samples(name) for key in one.values]


@pytest.mark.parametrize("name", PUBLIC)
def test_a_new_public_number_needs_a_sample(name: str) -> None:
    assert name in SAMPLES, f"add a call of {name} to tests/public_samples.py"
    missing = set(PUBLIC[name]) - {key for one in samples(name) for key in one.values}
    assert not missing - WITHOUT.get(name, set()), f"{name} takes numbers that have no sample: {missing}"


WITHOUT = {
    "audit.audit": {"tables"},  # a pair of counts, as in `checked_counts`
    "budget.check_whole": {"at_least"},
    "planning.Asked": {"extras", "split"},  # in a test of their own below
    "forecast.plan": {"split"},
    "pipeline.fit_tables": {"split"},
    "pipeline.release_tables": {"split"},
    "naive_bayes.fit_naive_bayes": {"split"},
    "planning.shares": {"split"},
    "network.BayesianNetwork": {"split"},
    "learn.NaiveBayes": {"split"},
    "plots.curves": {"series", "errors", "level_lines"},
}


def test_samples_are_of_public_numbers() -> None:
    assert set(SAMPLES) <= set(PUBLIC)
    for name, one, key in CASES:
        assert key in PUBLIC[name], (name, key)
        assert all(v for v in one.values), name


def of_type(width: Any, value: Any) -> Any:
    """The same number in this type, or None if the type has no such number."""
    if width is Decimal and isinstance(value, float):
        return Decimal(value)
    if issubclass(width, np.integer):
        info = np.iinfo(width)
        return width(int(value)) if value == int(value) and info.min <= value <= info.max else None
    made = width(value)
    return made if made == value else None


def variants(value: Any, annotation: str) -> Iterator[Any]:
    """The same number, or sequence of numbers, in other types."""
    if not isinstance(value, list):
        yield from (made for width in (*WIDTHS, Fraction, Decimal) if (made := of_type(width, value)) is not None)
        return
    flat = np.asarray(value).ravel().tolist()
    for width in WIDTHS:
        if all(of_type(width, each) is not None for each in flat):
            array = np.array(value, dtype=width)
            if "ArrayLike" in annotation:
                yield array
            else:
                yield [list(row) for row in array] if array.ndim == 2 else list(array)
    if "ArrayLike" not in annotation:
        yield [[Fraction(e) for e in each] if isinstance(each, list) else Fraction(each) for each in value]


def plain(result: Any) -> Any:
    """Anything as something that can be compared, types included."""
    if isinstance(result, np.ndarray):
        return str(result.dtype), result.shape, result.tolist()
    if isinstance(result, pa.Table | pa.RecordBatch):
        return result.to_pydict()
    if isinstance(result, dict):
        return {key: plain(value) for key, value in result.items()}
    if isinstance(result, list | tuple):
        return [plain(each) for each in result]
    if is_dataclass(result):
        return type(result).__name__, {f.name: plain(getattr(result, f.name)) for f in fields(result) if f.repr}
    return repr(result)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:delta = ")  # small tables, to be fast
@pytest.mark.parametrize(("name", "one", "key"), CASES, ids=[f"{name}-{key}" for name, _, key in CASES])
def test_the_type_of_a_number_changes_nothing(name: str, one: Sample, key: str) -> None:
    expected = plain(one.call(**one.values))
    tried = 0
    for variant in variants(one.values[key], PUBLIC[name][key]):
        if one.slow and tried == 4:
            break
        given = one.values | {key: variant}
        kind = type(variant)
        whole = (
            variant.dtype.kind in "iu" if isinstance(variant, np.ndarray) else isinstance(variant, Rational | Decimal)
        )
        if key in one.exact and not whole:
            with pytest.raises(InvalidArgument, match=key):
                one.call(**given)
            continue
        assert plain(one.call(**given)) == expected, kind
        tried += 1
    assert tried >= 4


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:delta = ")
@pytest.mark.parametrize(
    ("name", "one", "key"),
    [case for case in CASES if not case[1].unused],
    ids=[f"{name}-{key}" for name, one, key in CASES if not one.unused],
)
@pytest.mark.parametrize("truth", [True, np.True_], ids=["bool", "np.bool"])
def test_truth_values_are_no_numbers(name: str, one: Sample, key: str, truth: Any) -> None:
    value = one.values[key]
    if "ArrayLike" in PUBLIC[name][key]:
        if key not in ("counts", "like"):
            pytest.skip("arrays of truth values are shown as zeros and ones")
        wrong: Any = np.full(np.shape(value), truth)
    else:
        wrong = [[truth], *value[1:]] if isinstance(value, list) and isinstance(value[0], list) else truth
        wrong = [truth, *value[1:]] if isinstance(value, list) and wrong is truth else wrong
    with pytest.raises(InvalidArgument):
        one.call(**one.values | {key: wrong})


def test_the_break() -> None:
    """16² is 0 in eight bits: the loss of a person with 16 rows came out as 0."""
    loss = Gaussian(sigma=5).loss(rows=np.uint8(16))
    assert loss.rdp(5) == Gaussian(sigma=5).loss(rows=16).rdp(5) > 50


def test_splits_are_numbers_too() -> None:
    from public_samples import planned

    shapes: Any = {"shapes": [(3,), (4,)], "columns": [("a",), ("b",)]}
    expected = plain(planned(**shapes, split=[200.0, 100.0]))
    for weights in ([np.uint8(200), np.uint8(100)], [np.float16(200), 100], [Fraction(200), Decimal(100)]):
        assert plain(planned(**shapes, split=weights)) == expected
    assert plain(planned(**shapes, split={"a": np.uint8(200), "b": np.uint8(100)})) == expected
    for wrong in ([True, 1.0], [np.True_, 1.0], ["1", "1"]):
        with pytest.raises(InvalidArgument, match="`split`"):
            planned(**shapes, split=wrong)
    looks = plain(planned(**shapes, extras=[("tables", 0.5)]))
    assert plain(planned(**shapes, extras=[("tables", np.float16(0.5))])) == looks
    with pytest.raises(InvalidArgument, match="`extras`"):
        planned(**shapes, extras=[("tables", True)])


@given(st.integers(min_value=1, max_value=2**63 - 1))
def test_whole_numbers_stay_exact(value: int) -> None:
    kinds: list[Any] = [int, Fraction, Decimal, np.int64, np.uint64]
    for kind in kinds:
        found = check_whole("n", kind(value))
        assert found == value
        assert type(found) is int
    assert check_whole("n", 2**60 + 1) == 2**60 + 1


@pytest.mark.parametrize(
    "wrong",
    [1.5, math.inf, math.nan, -math.inf, 0, -1, 2**63, 10**400, -(10**5000), "1", None, 1j, b"1", [1], np.array(1),
     np.array([1]), np.float16(np.inf), np.longdouble(np.nan), Decimal("NaN"), Decimal("sNaN"), Decimal("Infinity"),
     Fraction(3, 2), Decimal("1.5"), np.datetime64(1, "s"), np.timedelta64(1, "s")],
    ids=lambda value: type(value).__name__,
)  # fmt: skip
def test_what_is_no_whole_number(wrong: Any) -> None:
    with pytest.raises(InvalidArgument, match="`n`") as error:
        check_whole("n", wrong)
    assert len(str(error.value)) < 400


@given(st.fractions(min_value=Fraction(1, 10**30), max_value=10**30), st.sampled_from(["down", "nearest", "up"]))
def test_rounding_goes_the_way_it_says(value: Fraction, direction: Any) -> None:
    found = Fraction(check_positive("x", value, rounded=direction))
    assert direction != "down" or found <= value
    assert direction != "up" or found >= value
    assert abs(found - value) <= value / 2**52
    assert (
        check_number("x", value, rounded="down") <= check_number("x", value) <= check_number("x", value, rounded="up")
    )


@given(st.fractions(min_value=Fraction(1, 10**9), max_value=100), st.fractions(min_value=0, max_value=Fraction(1, 2)))
def test_a_budget_is_never_larger_than_what_was_said(epsilon: Fraction, delta: Fraction) -> None:
    made = Budget(epsilon=epsilon, delta=delta)  # type: ignore[arg-type]
    assert made.epsilon <= epsilon
    assert made.delta is not None
    assert made.delta <= delta
    order = 1 + epsilon
    assert check_order(order) >= order  # type: ignore[arg-type]
