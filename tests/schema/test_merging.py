"""Merged bins: every number is in the cell that its bin became part of."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simplexdp import Categories, Numeric
from simplexdp.private.counting.kernel import BatchEncoder
from simplexdp.private.counting.plan import column_spec
from simplexdp.schema import Quantiles, cell_map, merged


def codes(column: Numeric, values: list[float | None]) -> list[int]:
    batch = pa.record_batch({"x": pa.array(values, pa.float64())})
    (block,) = BatchEncoder([column_spec(column)], None, len(values)).blocks(batch, "rows")
    return block.codes[0].tolist()


@given(
    st.lists(st.integers(-30, 30), min_size=2, max_size=40, unique=True).map(sorted),
    st.lists(st.integers(-30, 30), max_size=3, unique=True),
    st.integers(3, 8),
)
def test_a_number_is_where_its_bin_went(edges: list[int], own: list[int], bins: int) -> None:
    column = Numeric(edges, name="x", own=own, outside="cell", missing="cell")
    coarse = merged(column, bins)
    places = cell_map(column, coarse)
    assert places is not None
    assert coarse.bins == min(column.bins, bins)
    assert set(places) == set(range(coarse.size))
    values = [None, *(x / 2 for x in range(-70, 70))]
    assert [places[code] for code in codes(column, values)] == codes(coarse, values)


def test_tails_are_a_tenth_of_the_bins() -> None:
    assert merged(Numeric(range(11)), 6).edges == (0, 1, 3, 5, 7, 9, 10)
    assert merged(Numeric(range(41)), 4).edges == (0, 4, 20, 36, 40)
    same = Numeric(range(5))
    assert merged(same, 4) is same


@pytest.mark.parametrize(
    "other",
    [
        Numeric([0, 2, 5], name="x"),
        Numeric([1, 2, 4], name="x"),
        Numeric([0, 1.5, 4], name="x"),
        Numeric([0, 2, 4], name="x", own=[3]),
        Numeric([0, 2, 4], name="x", missing="cell"),
        Numeric([0, 2, 4], name="y"),
        Numeric([0, 1, 2, 3, 3.5, 4], name="x"),
        Numeric(own=[0], name="x"),
        Categories(["a"], name="x"),
        Quantiles(2, lower=0, upper=4, name="x"),
    ],
)
def test_what_is_not_coarser_is_told(other: Numeric) -> None:
    assert cell_map(Numeric(range(5), name="x"), other) is None
