"""Whole columns: the schema alone makes them so, synthetic values are whole, and their mean is not shifted.

Statistical tests reject at about 1e-6 (5 standard errors of the mean); the control is what was drawn before, real
numbers uniform in their bin.
"""

from __future__ import annotations

import datetime
import itertools
import math
from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simplexdp.schema import Numeric, Schema
from simplexdp.synthetic import InsideBins, decode, synthetic_records

SIZE = 200_000
FAR = 5.0


class Published:
    """A sampler of one column with these masses."""

    def __init__(self, column: Numeric, masses: list[float]) -> None:
        self.schema = Schema.of(x=column)
        self._masses = np.asarray(masses) / np.sum(masses)

    def sample_codes(self, size: int, generator: np.random.Generator) -> Mapping[str, np.ndarray]:
        return {"x": generator.choice(len(self._masses), size, p=self._masses)}


def mean_and_error(values: pa.Array) -> tuple[float, float]:
    numbers = values.cast(pa.float64()).to_numpy()
    return float(numbers.mean()), float(numbers.std() / math.sqrt(len(numbers)))


def test_unit_bins_give_their_number_and_the_mean_is_that_of_the_counts():
    visits = Numeric([0, 1, 2, 3, 4], integer=True)
    masses = [0.55, 0.3, 0.1, 0.05]
    drawn = synthetic_records(Published(visits, masses), SIZE, seed=1).read_all()["x"]
    assert drawn.type == pa.int64()
    # The last bin is closed, so 3 and 4 are in it.
    assert set(drawn.unique().to_pylist()) == {0, 1, 2, 3, 4}
    counted = Numeric([0, 1, 2, 3, 4, 5], integer=True)
    drawn = synthetic_records(Published(counted, [*masses, 0]), SIZE, seed=1).read_all()["x"].combine_chunks()
    truth = 0.3 + 0.2 + 0.15
    mean, error = mean_and_error(drawn)
    assert abs(mean - truth) < FAR * error
    shifted = decode(Numeric(counted.edges), np.asarray(drawn), np.random.default_rng(1))
    mean, error = mean_and_error(shifted)
    assert abs(mean - truth) > FAR * error  # the control: half a unit too much


@pytest.mark.parametrize("bins", ["auto", "uniform", "neighbours"])
def test_wide_bins_of_a_falling_law_have_a_mean_inside_the_published_interval(bins):
    """The neighbours also bring the mean nearer to that of the geometric law that the masses come from."""
    edges = [0, 5, 10, 20, 40, 80]
    q = 0.9
    masses = [q**low - q**high for low, high in itertools.pairwise(edges)]
    column = Numeric(edges, integer=True)
    sampler = Published(column, masses)
    mean, error = mean_and_error(synthetic_records(sampler, SIZE, bins=bins, seed=2).read_all()["x"].combine_chunks())
    shares = np.asarray(masses) / sum(masses)
    lowest, highest = shares @ np.array(edges[:-1]), shares @ np.array([4, 9, 19, 39, 80])
    assert lowest <= mean <= highest
    whole = np.arange(80)
    truth = float(whole @ q**whole / (q**whole).sum())
    uniform = float(shares @ InsideBins(column, None).means())
    if bins == "uniform":
        assert abs(mean - uniform) < FAR * error
    else:
        assert abs(mean - truth) < abs(uniform - truth) / 2
        assert abs(mean - uniform) > FAR * error


@given(
    edges=st.lists(st.integers(-50, 50), min_size=2, max_size=7, unique=True).map(sorted),
    own=st.lists(st.integers(-60, 60), max_size=3, unique=True),
    shift=st.sampled_from([0, 0.25, 0.5]),
    bins=st.sampled_from(["auto", "uniform", "midpoint", "neighbours"]),
    seed=st.integers(0, 99),
)
@settings(max_examples=60, deadline=None)
def test_whole_values_fall_into_the_cell_they_come_from(edges, own, shift, bins, seed):
    column = Numeric([edge + shift for edge in edges], own=own, integer=True, missing="cell", outside="cell")
    masses = np.random.default_rng(seed).random(column.size) + 0.01
    sampler = Published(column, list(masses))
    codes = sampler.sample_codes(300, np.random.default_rng(seed))["x"]
    drawn = synthetic_records(sampler, 300, bins=bins, seed=seed).read_all()["x"].to_pylist()
    for code, value in zip(codes, drawn, strict=True):
        if code >= column.declared:
            assert value is None
        elif code < len(own):
            assert value == own[code]
        else:
            low, high = column.edges[code - len(own)], column.edges[code - len(own) + 1]
            inside = [
                k
                for k in range(math.floor(low), math.ceil(high) + 1)
                if low <= k and (k < high or high == max(column.edges) >= k)
            ]
            free = set(inside) - set(own)
            if free and bins != "midpoint":
                assert value in free
            elif inside:
                assert value in inside


def test_dates_in_bins_come_back_as_days_of_the_bin():
    edges = [datetime.date(2020, 1, 1), datetime.date(2021, 1, 1), datetime.date(2022, 1, 1)]
    drawn = synthetic_records(Published(Numeric(edges), [1, 3]), 2000, seed=1).read_all()["x"]
    assert drawn.type == pa.date32()
    found = drawn.to_pylist()
    assert edges[0] <= min(found)
    assert max(found) <= edges[-1]
    assert abs(np.mean([day.year == 2020 for day in found]) - 0.25) < FAR * math.sqrt(0.25 * 0.75 / 2000)


def test_the_data_never_make_a_column_whole():
    assert Numeric([0, 1, 2]).integer is None
    drawn = synthetic_records(Published(Numeric([0, 1, 2]), [1, 1]), 100, seed=1).read_all()["x"]
    assert drawn.type == pa.float64()
    assert Schema.of(x=Numeric([0, 1]), y=Numeric([0, 1], integer=False), z=[1]).undecided_whole() == ("x",)
