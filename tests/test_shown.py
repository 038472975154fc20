"""What can be looked at: frames, Arrow streams and pieces of pages of every public value, and figures for notebooks."""

from __future__ import annotations

import math
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from simplexdp import (
    BayesianNetwork,
    Budget,
    Gaussian,
    Ledger,
    NaiveBayes,
    Schema,
    plan,
    release,
    release_tables,
    shown,
)
from simplexdp.errors import InvalidArgument, MissingExtra
from simplexdp.ledger import fingerprint

SCHEMA = Schema.of(a=["x", "y", "z"], b=["<b>", "no"])
BUDGET = Budget(epsilon=1.0, delta=1e-5)


def rows() -> pa.Table:
    rng = np.random.default_rng(0)
    return pa.table({"a": rng.choice(["x", "y", "z"], 300), "b": rng.choice(["<b>", "no"], 300)})


@pytest.fixture(scope="module", name="values")
def _values(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    table = rows()
    made = release([[119, 74], [618, 272], [13, 187]], budget=BUDGET, schema=SCHEMA)
    ledger = Ledger.open(tmp_path_factory.mktemp("ledger") / "l.db", budget=BUDGET)
    charge = ledger.charge(
        Gaussian(sigma=20.0).loss(), dataset="clinic", description="ages", request_hash=fingerprint("q")
    )
    charge.seal(fingerprint([1]))
    network = BayesianNetwork({"b": ["a"]}, SCHEMA, budget=BUDGET).fit(table).model
    return {
        "release": made,
        "network": network,
        "bayes": NaiveBayes(schema=SCHEMA, target="b", budget=BUDGET).fit(table.select(["a"]), table["b"]).model_,
        "tables": release_tables(table, SCHEMA, [("a", "b")], budget=BUDGET),
        "certificate": made.certificate(),
        "budget": BUDGET,
        "loss": made.loss,
        "forecast": plan([3, 12], budget=BUDGET, total=1000),
        "remaining": ledger.remaining("clinic"),
        "ledger": ledger,
    }


NAMES = ["release", "network", "bayes", "tables", "certificate", "budget", "loss", "forecast", "remaining", "ledger"]


class Balanced(HTMLParser):
    """Fails on a tag that is not closed, and keeps the text."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.text: list[str] = []

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        assert not [value for name, value in attrs if name in ("src", "href")]  # nothing from elsewhere
        self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_every_value_is_a_frame_a_stream_and_a_piece_of_a_page(values: dict[str, Any], name: str) -> None:
    value = values[name]
    frame = value.to_frame()
    assert len(frame) > 0
    assert pa.table(value).num_rows == pl.DataFrame(value).height == len(frame)
    assert pa.table(value).column_names == list(frame.columns)
    assert len(repr(value)) < 200
    page = Balanced()
    page.feed(value._repr_html_())
    assert page.open == []
    assert repr(value) in page.text[0]
    assert all(column in page.text for column in frame.columns)


def test_a_release_carries_its_labels_counts_and_intervals(values: dict[str, Any]) -> None:
    made = values["release"]
    frame = made.to_frame()
    assert list(frame.columns) == ["a", "b", "probability", "standard_error", "low", "high", "count"]
    assert frame[["a", "b"]].values.tolist()[:3] == [["x", "<b>"], ["x", "no"], ["y", "<b>"]]
    assert frame["probability"].tolist() == made.probabilities.ravel().tolist()
    assert frame["count"].sum() == pytest.approx(1283)
    assert "count" not in release([4, 5], budget=BUDGET, neighbours="add-remove").to_frame()
    assert "PRIVATE: (1, 1e-05)-DP for one row, replace-one" in made._repr_html_()
    assert "NOT PRIVATE" in release([4, 5], budget=BUDGET, entropy=3)._repr_html_()


def test_models_give_every_conditional_probability(values: dict[str, Any]) -> None:
    frame = values["network"].to_frame()
    found = frame[(frame["column"] == "b") & (frame["given"] == "a = y")]
    assert found["cell"].tolist() == ["<b>", "no"]
    assert found["probability"].tolist() == values["network"].conditional("b")[1].tolist()
    counts = values["tables"].to_frame()
    assert counts["count"].sum() == pytest.approx(300)
    assert (counts["low"] <= counts["high"]).all()


def test_losses_and_what_is_left_say_epsilon(values: dict[str, Any]) -> None:
    loss, left = values["loss"], values["remaining"]
    assert loss.to_frame().set_index("delta")["epsilon"][1e-5] == loss.epsilon(1e-5)
    assert left.to_frame()["epsilon"][0] == left.epsilon()
    assert "Fraction" not in repr(left)
    exact = release([4, 5], budget=None, mechanism="none").certificate()
    assert exact.to_frame()["epsilon"].tolist() == [math.inf] * 3


def test_long_tables_say_how_much_is_shown_and_names_are_escaped() -> None:
    text = shown.card("a <title>", ["1 < 2"], {"n": list(range(50))})
    assert "20 of 50 rows are shown." in text
    assert "a &lt;title&gt;" in text
    assert "rows are shown" not in shown.card("t", [], {"n": [1]})


def test_polars_serves_where_there_is_no_pandas(monkeypatch: pytest.MonkeyPatch) -> None:
    real = shown.import_module

    def without(*absent: str) -> Any:
        def load(name: str) -> Any:
            if name in absent:
                raise ImportError
            return real(name)

        return load

    assert isinstance(BUDGET.to_frame(), pd.DataFrame)
    monkeypatch.setattr(shown, "import_module", without("pandas"))
    assert isinstance(BUDGET.to_frame(), pl.DataFrame)
    monkeypatch.setattr(shown, "import_module", without("pandas", "polars"))
    with pytest.raises(MissingExtra):
        BUDGET.to_frame()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["release", "network", "tables"])
def test_figures_show_themselves_in_a_notebook(values: dict[str, Any], name: str, tmp_path: Path) -> None:
    figure = values[name].plot()
    assert figure._repr_svg_().lstrip().startswith("<?xml")
    figure.savefig(tmp_path / "f.png")
    assert (tmp_path / "f.png").stat().st_size > 1000


def test_masked_counts_are_refused_and_not_counted_without_their_mask() -> None:
    for counts in (np.ma.masked_array([5, 6, 7], [0, 1, 0]), [np.ma.masked_array([5, 6], [0, 1]), [1, 2]]):
        with pytest.raises(InvalidArgument, match="without a mask"):
            release(counts, budget=BUDGET)


def test_counts_that_cannot_be_added_up_are_named_as_the_reason() -> None:
    with pytest.raises(Exception, match=r"at most 2\^53"):
        release([2**62, 5], budget=BUDGET, mechanism="dirichlet")
