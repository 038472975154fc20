"""The class behind `test_values`: codes of a row do not depend on other rows, fast ways equal the definitions, and a
second implementation agrees on random tables through every source, also on empty ones."""

from __future__ import annotations

import datetime as dt
import random
import tempfile
import warnings
from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest
from benchmarks.fuzz import rows, second_count
from benchmarks.fuzz.rows import Case
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from simplexdp.counting import CellNumbers, count
from simplexdp.errors import SourceError
from simplexdp.private.counting import database
from simplexdp.private.counting import passes as reading
from simplexdp.private.counting.encode import ObjectEncoder, cell_of, encoder
from simplexdp.private.counting.plan import column_spec
from simplexdp.private.counting.text import fields
from simplexdp.sampling import SeededEntropy

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")  # connections that sources of the fuzz target leave
IN_ORDER = sorted(set(rows.SOURCES) - {"parquet", "duckdb", "duckdb query", "polars lazy", "dataset"})


def codes(case: Case, source: str, batch: int) -> list[tuple[int, ...]] | None:
    """The cell numbers of each row in its order; None if the source refuses them."""
    found: list[tuple[int, ...]] = []
    with patch.object(reading, "ROWS", batch), patch.object(database, "_FETCH", batch):
        try:
            for block in reading.encode_rows(rows.SOURCES[source](case), case.schema, case.names):
                found += zip(*(block[name].tolist() for name in case.names), strict=True)
        except SourceError:
            return None
    return found


@pytest.mark.slow
@pytest.mark.parametrize("source", IN_ORDER)
def test_a_row_counts_as_it_does_alone(source: str) -> None:
    """So it does when others are replaced, removed or come in other batches. A refusal has a row that causes it."""

    @settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck))
    @given(dice=st.randoms(use_true_random=False), batch=st.integers(1, 9))
    def check(dice: random.Random, batch: int) -> None:
        with tempfile.TemporaryDirectory() as folder:
            drawn = rows.draw_case(dice, source, Path(folder))
            case = replace(drawn, rows=drawn.rows[:6])
            expected = [[second_count.cell(case.columns[name], row[name]) for name in case.names] for row in case.rows]
            if source == "cell numbers" and any(None in row for row in expected):
                return  # there is no number to hand over
            alone = [codes(replace(case, rows=[row]), source, batch) for row in case.rows]
            assert alone == [None if None in row else [tuple(row)] for row in expected]
            wanted = None if None in alone else [row for one in alone for row in one or ()]
            assert codes(case, source, batch) == wanted

    check()


specs = st.builds(
    lambda dice: column_spec(
        Case(
            columns={"c": rows.declaration(dice, dice.choice([*rows.DECLARED, "numeric"]), refuse=0.4)},
            rows=[],
            dice=dice,
            folder=Path(),
        ).schema["c"]
    ),
    st.randoms(use_true_random=False),
)
anything = st.one_of(
    *[st.sampled_from(values) for values in rows.PLAIN.values()],
    st.sampled_from(rows.FOREIGN),
    st.floats(),
    st.integers(),
    st.decimals(),
    st.text(max_size=3),
    st.datetimes(),
    st.sampled_from(["float32", "float64", "int8", "uint64", "bool", "str"]).map(
        lambda name: pa.array([1]).to_numpy().astype(name)[0]
    ),
)


@given(spec=specs, values=st.lists(anything, max_size=12))
@settings(max_examples=300, deadline=None)
def test_blocks_of_objects_are_encoded_as_each_of_them(spec: Any, values: list[Any]) -> None:
    expected = [cell_of(spec, value) for value in values]
    encoder = ObjectEncoder(spec)
    assert encoder(values).tolist() == expected
    assert encoder(values).dtype == spec.dtype
    for value, code in zip(values, expected, strict=True):  # those of one type go through Arrow
        assert encoder([value, None, value]).tolist() == [code, spec.missing, code]


DAYS = [*rows.DAYS, dt.date(1970, 1, 1)]
TIMES = [
    dt.datetime(2024, 2, 29),
    dt.datetime(2024, 2, 29, 12),
    dt.datetime(1969, 12, 31, 23, 59, 59),
    dt.datetime(2030, 1, 1),
]
WHOLE = [0, 1, 2, 3, 7, -1, -5, 127, 255, 300, 2**53 + 1, 2**53, -(2**62), -(2**63), 2**63 - 1, 2**63, 2**64 - 1]
FLOATS = [value for value in rows.PLAIN["numeric"] if value in (0.5, 1.0, 2.5, 10.0, -1.0, 0.0) or abs(value) > 99]
TENTHS = [Decimal(text) for text in ("0", "0.1", "0.3", "1.0", "2.5", "9.9", "-1", "10.5")]
TYPES: dict[Any, Sequence[Any]] = {
    **{
        kind: [value for value in WHOLE if low <= value <= high]
        for kind, low, high in [
            *((getattr(pa, f"int{bits}")(), -(1 << bits - 1), (1 << bits - 1) - 1) for bits in (8, 16, 32, 64)),
            *((getattr(pa, f"uint{bits}")(), 0, (1 << bits) - 1) for bits in (8, 16, 32, 64)),
            *((pa.decimal32(9, 0), -300, 300), (pa.decimal64(18, 0), -(2**53), 2**53)),
            *((pa.decimal128(38, 0), -(2**64), 2**64), (pa.decimal256(76, 0), -(2**64), 2**64)),
        ]
    },
    **dict.fromkeys([pa.float16(), pa.float32()], (*FLOATS, -0.0, float("nan"))),
    pa.float64(): [*rows.PLAIN["numeric"], 2.0**53, 2.0**63, float("nan"), 5e-324, 1e300],
    **dict.fromkeys(
        [pa.decimal32(9, 3), pa.decimal64(18, 4), pa.decimal128(38, 30), pa.decimal128(12, 1), pa.decimal256(70, 20)],
        TENTHS,
    ),
    **dict.fromkeys([pa.string(), pa.large_string(), pa.string_view()], (*rows.PLAIN["text"], "", "\0", "a\0")),
    pa.bool_(): [True, False],
    **dict.fromkeys([pa.date32(), pa.date64()], DAYS),
    **dict.fromkeys([pa.timestamp(unit) for unit in ("s", "ms", "us", "ns")], TIMES),
    pa.null(): [None],
}


@pytest.mark.parametrize("kind", TYPES, ids=str)
def test_arrow_types_are_encoded_as_the_values_they_hold(kind: Any) -> None:
    """Also in slices, and in dictionaries with gaps, repeated values and values that no row has."""

    @given(spec=specs, dice=st.randoms(use_true_random=False))
    @settings(max_examples=60, deadline=None)
    def check(spec: Any, dice: random.Random) -> None:
        def draw(size: int) -> Any:
            return pa.array([dice.choice([*TYPES[kind], None]) for _ in range(size)], kind)

        array = draw(dice.randint(0, 9))
        for index in dice.sample([None, pa.int8(), pa.uint8(), pa.int32(), pa.uint64()], 2):
            if index is not None:
                places = [dice.choice([None, *range(5)]) for _ in range(dice.randint(0, 9))]
                array = pa.DictionaryArray.from_arrays(pa.array(places, index), draw(5))
            start = dice.randint(0, len(array))
            for part in (array, array.slice(start), array.slice(start, 1)):
                try:
                    found = encoder(spec, part.type, "rows")(part)
                except SourceError:
                    break  # a type that the declaration cannot have, whatever the values
                assert found.dtype == spec.dtype
                assert found.tolist() == [cell_of(spec, value) for value in part]

    check()


written = st.one_of(
    st.none(),
    st.sampled_from(
        ["1", "1.5", " 2", "nan", "NaN(1)", "-inf", "1e400", "0x1", "1_0", "true", "No", "2024-2-29", "1e"]
    ),
    st.text("0123456789.+-eEnaif ()_x", max_size=6),
    st.dates().map(str),
    st.datetimes().map(str),
    st.integers().map(str),
    st.floats().map(str),
)


@given(spec=specs, text=st.lists(written, max_size=8))
@settings(max_examples=300, deadline=None)
def test_fields_are_read_as_each_of_them(spec: Any, text: Sequence[str | None]) -> None:
    def read(part: Sequence[str | None]) -> list[tuple[str, bool]]:
        found = fields(spec, pa.array([None if one is None else one.encode() for one in part], pa.binary()))
        return list(zip(map(repr, found.values.to_pylist()), found.failed.to_pylist(), strict=True))

    assert read(text) == [one for part in text for one in read([part])]


@given(st.binary(max_size=12), st.binary(max_size=12))
@settings(max_examples=300, deadline=None)
def test_quotes_are_judged_alike_wherever_a_block_ends(first: bytes, second: bytes) -> None:
    """Any cut into blocks gives the same verdict, the same bytes, and no block ends inside a record."""
    import io

    from simplexdp.private.counting import text
    from simplexdp.schema.text import TextFile

    whole, layout = b"a,b\n" + first + b'"' + second, TextFile(delimiter=",")
    verdicts = set()
    for size in (1, 2, 3, 7, 1000):
        with patch.multiple(text, _LONGEST=9, _BLOCK=size):
            try:
                blocks = list(text._blocks("f", io.BytesIO(whole), layout))
                if any(text._problem(block, layout) for block in blocks):
                    raise SourceError("refused")
                assert all(block.count(b'"') % 2 == 0 and block[-1:] in (b"\n", b"\r") for block in blocks)
                verdicts.add(b"".join(blocks))
            except SourceError:
                verdicts.add(b"refused")
    assert len(verdicts) == 1


@pytest.mark.slow
@pytest.mark.parametrize("source", rows.SOURCES)
def test_a_second_implementation_counts_the_same(source: str, tmp_path: Path) -> None:
    """Hundreds of random tables here, 10⁵ in `python -m benchmarks fuzz --target rows`."""
    for seed in range(8 if source in rows.SLOW else 20):
        rows.run(random.Random(f"{source} {seed}"), source, tmp_path)


def test_the_second_implementation_finds_a_wrong_count(tmp_path: Path) -> None:
    """The control: a library that takes every row for the first is found out."""
    broken = patch.object(
        rows, "count", lambda made, schema, tables, **about: count(_first(made), schema, tables, **about)
    )
    with broken, pytest.raises(AssertionError):
        _all(30, tmp_path)


def _all(seeds: int, folder: Path) -> None:
    for seed in range(seeds):
        rows.run(random.Random(seed), "arrow table", folder)


def _first(table: pa.Table) -> pa.Table:
    return table.take([0] * len(table))


NUMBERS = {
    "array of a list": lambda case: CellNumbers(np.array([[0] * len(case.names) for _ in case.rows])),
    "arrays of lists": lambda case: CellNumbers({name: np.array([0 for _ in case.rows]) for name in case.names}),
}
"""Cell numbers in what NumPy makes of lists, which are floats where a list is empty."""


@pytest.mark.slow
@pytest.mark.parametrize("source", [*rows.SOURCES, "no batches", "csv without records", *NUMBERS])
@pytest.mark.parametrize("persons", [False, True])
def test_one_record_against_none(source: str, persons: bool, tmp_path: Path) -> None:
    """No record gives the same tables as one does, all zero: no error, no warning, nothing that tells them apart."""
    if persons and source in ("cell numbers", "pandas nullable", "pandas categorical", *NUMBERS):
        kinds = {"c0": "whole"}
    else:
        kinds = {"c0": "text", "c1": "whole"} | ({} if source in rows.SQLITE else {"c2": "date", "c3": "truth"})
    dice = random.Random(1)
    columns = {name: rows.declaration(dice, kind, refuse=0) for name, kind in kinds.items()}
    columns[rows.PERSON] = {"values": [1, 2], "other": "cell", "missing": "cell"}
    row = {name: column["values"][0] for name, column in columns.items()}
    about: dict[str, Any] = (
        {"rows_per_person": 1, "person": rows.PERSON, "entropy": SeededEntropy(1)} if persons else {}
    )
    found = []
    for held in ([], [row]):
        for path in tmp_path.iterdir():
            path.unlink()
        case = Case(columns=columns, rows=held, dice=random.Random(2), folder=tmp_path)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            warnings.simplefilter("ignore", ResourceWarning)
            found.append(count(_made(source, case), case.schema, [list(kinds), ["c0"]], **about))
    assert [str(table) for table in found[0]] == [str(table) for table in found[1]]
    assert [int(table.private_counts().sum()) for table in found[0]] == [0, 0]
    assert [int(table.private_counts().sum()) for table in found[1]] == [1, 1]


def _made(source: str, case: Case) -> Any:
    if source in NUMBERS:
        return NUMBERS[source](case)
    if source == "no batches":
        return rows.batches(case)
    if source == "csv without records":
        path = case.folder / "rows.csv"
        path.write_text(rows.csv_text(case, ",").rstrip("\n\r"), newline="")
        return path
    return rows.SOURCES[source](case)
