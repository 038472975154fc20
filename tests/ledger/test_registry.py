"""Registered data sets: a request that could fail on a value is refused before one is looked at, for all alike."""

from __future__ import annotations

import datetime
import json
import os
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array

from simplexdp import (
    BayesianNetwork,
    Budget,
    Categories,
    Ledger,
    NaiveBayes,
    Numeric,
    Quantiles,
    Query,
    Schema,
    count,
    release,
    release_distribution,
)
from simplexdp.errors import BudgetExceeded, InvalidArgument, PrivacyError, SchemaError, SourceError
from simplexdp.ledger import Registration
from simplexdp.ledger.registry import dataset_name, may_refuse, skeleton

BUDGET = Budget(epsilon=0.5, delta=1e-6)
SECRET = 917_431
SALARIES = Schema.of(salary=Numeric([0, 50_000, 100_000, 1_000_000]), ill=["no", "yes"])


def table(size: int = 300, salary: float = SECRET) -> pa.Table:
    rng = np.random.default_rng(3)
    salaries = rng.integers(0, 100_000, size)
    salaries[7] = salary
    return pa.table({"salary": salaries, "ill": rng.choice(["no", "yes"], size)})


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    opened = Ledger.open(tmp_path / "ledger.db", budget=Budget(epsilon=3, delta=1e-5))
    opened.register("clinic", table(), SALARIES)
    return opened


def kinds(ledger: Ledger) -> list[str]:
    return [entry.kind for entry in ledger.entries()]


# -- the attack -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("spent", [False, True], ids=["with budget", "without budget"])
def test_a_maximum_is_not_read_out_of_refusals(tmp_path: Path, spent: bool) -> None:
    """Bisection by 23 requests whose last edge lies above or below the largest salary: all end alike."""
    answers = []
    for salary in (SECRET, 101_000):
        opened = Ledger.open(tmp_path / f"{salary}.db", budget=Budget(epsilon=3, delta=1e-5))
        opened.register("clinic", table(salary=salary), SALARIES)
        if spent:
            release([5, 6], budget=opened.remaining("clinic").budget, ledger=opened, dataset="clinic")
        told, low, high = [], 0.0, 1_000_000.0
        for _ in range(23):
            middle = (low + high) / 2
            probe = Schema.of(salary=Numeric([0, middle]))
            try:
                release_distribution(
                    table(salary=salary), probe, ["salary"], budget=BUDGET, ledger=opened, dataset="clinic"
                )
            except (PrivacyError, SchemaError) as error:
                told.append((type(error).__name__, str(error)))
            low = middle
        answers.append(told)
        assert kinds(opened) == ["open", "register", *(["charge", "seal"] if spent else [])]
    assert answers[0] == answers[1]
    assert len(answers[0]) == 23


def test_without_budget_no_value_is_looked_at(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    release([5, 6], budget=ledger.remaining("clinic").budget, ledger=ledger, dataset="clinic")

    def never(*_: object, **__: object) -> None:
        raise AssertionError("a value was looked at")

    monkeypatch.setattr("simplexdp.private.counting.passes.count_bounded", never)
    paid: dict[str, Any] = {"budget": BUDGET, "ledger": ledger, "dataset": "clinic"}
    with pytest.raises(BudgetExceeded):
        release_distribution(table(), SALARIES, ["salary"], **paid)
    with pytest.raises(BudgetExceeded):
        BayesianNetwork([("ill", "salary")], SALARIES, **paid).fit(table())
    with pytest.raises(BudgetExceeded):
        NaiveBayes(schema=SALARIES, target="ill", **paid).fit_source(table())
    rows = table().to_pandas()
    rows.loc[0, "salary"] = np.nan  # refused by the schema, if it were looked at
    with pytest.raises(BudgetExceeded):
        NaiveBayes(schema=SALARIES, target="ill", **paid).fit(rows[["salary"]], rows["ill"].replace("no", "never"))


TABLE = {"ill": ["no", "yes"] * 150, "salary": [1.0] * 300}
MISTAKES: dict[str, Any] = {
    "estimate of counts": lambda paid: release([5, 6], estimate="mean", **paid),  # type: ignore[arg-type]
    "budget of counts": lambda paid: release([5, 6], **paid | {"budget": 1.0}),
    "no counts": lambda paid: release(None, **paid),  # type: ignore[arg-type]
    "one count": lambda paid: release([5], **paid),
    "an array of text": lambda paid: release(np.array(["5", "6"]), **paid),
    "an array of objects": lambda paid: release(np.array([5, 6], dtype=object), **paid),
    "truth values": lambda paid: release(np.array([True, False]), **paid),
    "estimate": lambda paid: release_distribution(table(), SALARIES, ["ill"], estimate="mean", **paid),  # type: ignore[arg-type]
    "budget": lambda paid: release_distribution(table(), SALARIES, ["ill"], **paid | {"budget": (1, 1e-6)}),
    "progress": lambda paid: release_distribution(table(), SALARIES, ["ill"], progress=5, **paid),  # type: ignore[arg-type]
    "no source": lambda paid: release_distribution(None, SALARIES, ["ill"], **paid),
    "a number for a source": lambda paid: release_distribution(5, SALARIES, ["ill"], **paid),
    "a column that is not there": lambda paid: release_distribution(
        table().drop_columns("ill"), SALARIES, ["ill"], **paid
    ),
    "budget of a network": lambda paid: BayesianNetwork([("ill", "salary")], SALARIES, **paid | {"budget": 1.0}),
    "budget of a classifier": lambda paid: bayes(paid | {"budget": 1.0}).fit_source(table()),
    "split": lambda paid: bayes(paid, split="some").fit_source(table()),
    "one axis": lambda paid: bayes(paid).fit(np.zeros(300), TABLE["ill"]),
    "three axes": lambda paid: bayes(paid).fit(np.zeros((300, 1, 1)), TABLE["ill"]),
    "a sparse array": lambda paid: bayes(paid).fit(csr_array(np.ones((300, 1))), TABLE["ill"]),
    "several labels a row": lambda paid: bayes(paid).fit(np.ones((300, 1)), np.full((300, 2), "no")),
    "too few labels": lambda paid: bayes(paid).fit(np.ones((300, 1)), TABLE["ill"][1:]),
    "too many features": lambda paid: bayes(paid).fit(np.ones((300, 2)), TABLE["ill"]),
}


def bayes(paid: dict[str, Any], **more: Any) -> NaiveBayes:
    return NaiveBayes(schema=SALARIES, target="ill", **paid, **more)


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_that_needs_no_value_is_found_before_the_charge(ledger: Ledger, mistake: str) -> None:
    """Nothing is paid for it, and the data set stays open for others."""
    with pytest.raises((ValueError, SourceError)):
        MISTAKES[mistake]({"budget": BUDGET, "ledger": ledger, "dataset": "clinic"})
    assert kinds(ledger) == ["open", "register"]


def test_a_list_is_not_looked_at_before_the_charge(ledger: Ledger) -> None:
    """How long the first row is, and of which type one entry, is about records."""
    paid: dict[str, Any] = {"budget": BUDGET, "ledger": ledger, "dataset": "clinic"}
    for rows in ([[1.0, 2.0], *[[1.0]] * 299], [[1.0]] * 299 + [[]], ["ab"] * 300, [[1.0, 1.0]] * 300):
        with pytest.raises(PrivacyError, match="officer alone"):
            bayes(paid).fit(rows, TABLE["ill"])
        ledger.reopen("clinic")
    for counts in ([5, "6"], [5, None], [5, -6]):
        with pytest.raises(PrivacyError, match="officer alone"):
            release(counts, **paid)
        ledger.reopen("clinic")
    assert bayes(paid).fit([[1.0]] * 300, TABLE["ill"]).certificate_.private


# -- what is charged, recorded and closed -----------------------------------------------------------------------------


def test_a_failure_after_the_charge_is_for_the_officer_alone_and_closes(ledger: Ledger) -> None:
    paid: dict[str, Any] = {"budget": BUDGET, "ledger": ledger, "dataset": "clinic"}
    other = table().append_column("more", pa.array(["x"] * 300)).set_column(1, "ill", pa.array(["perhaps"] * 300))
    with pytest.raises(PrivacyError, match="officer alone") as caught:
        release_distribution(other, SALARIES, ["ill"], **paid)
    assert "declared" not in str(caught.value)
    assert caught.value.__context__ is None
    assert caught.value.__cause__ is None
    assert kinds(ledger) == ["open", "register", "charge", "failure"]
    assert ledger.spent("clinic").value > 0
    assert "not declared" in ledger.failures()["clinic"].body["reason"]
    for ask in (
        lambda: release_distribution(table(), SALARIES, ["ill"], **paid),
        lambda: release([5, 6], **paid),
    ):
        with pytest.raises(PrivacyError, match="closed"):
            ask()
    ledger.reopen("clinic", "the file was mended")
    assert ledger.failures() == {}
    assert release_distribution(table(), SALARIES, ["ill"], **paid).private
    with pytest.raises(InvalidArgument, match="closed"):
        ledger.reopen("clinic")
    assert Ledger.open(ledger._store.path).verify().entries == 7


def test_another_number_of_records_than_registered_is_a_failure(ledger: Ledger) -> None:
    paid: dict[str, Any] = {"budget": BUDGET, "ledger": ledger, "dataset": "clinic"}
    with pytest.raises(PrivacyError, match="officer alone"):
        release_distribution(table(299), SALARIES, ["ill"], **paid)
    assert "another number of records" in ledger.failures()["clinic"].body["reason"]
    ledger.reopen("clinic")
    with pytest.raises(InvalidArgument, match="registered number, 300"):
        release_distribution(table(), SALARIES, ["ill"], records=299, **paid)


def test_an_error_of_an_engine_is_recorded_without_its_words(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise RuntimeError(f"row {SECRET}")

    monkeypatch.setattr("simplexdp.private.counting.passes.count_bounded", broken)
    with pytest.raises(PrivacyError) as caught:
        release_distribution(table(), SALARIES, ["ill"], budget=BUDGET, ledger=ledger, dataset="clinic")
    assert ledger.failures()["clinic"].body["reason"] == "RuntimeError: "
    assert str(SECRET) not in str(caught.value)
    assert caught.value.__context__ is None


def test_without_a_ledger_the_error_says_what_it_reveals() -> None:
    with pytest.raises(SourceError, match=r"not declared.*A refusal tells"):
        release_distribution(table(), Schema.of(ill=["no", "perhaps"]), ["ill"], budget=BUDGET)


# -- who may ask what -------------------------------------------------------------------------------------------------


def test_a_data_set_has_to_be_registered(ledger: Ledger) -> None:
    with pytest.raises(PrivacyError, match="not registered"):
        release_distribution(table(), SALARIES, ["ill"], budget=BUDGET, ledger=ledger, dataset="ward")
    with pytest.raises(InvalidArgument, match="dataset"):
        release_distribution(table(), SALARIES, ["ill"], budget=BUDGET, ledger=ledger)
    assert kinds(ledger) == ["open", "register"]


def test_what_breaks_the_schema_is_not_registered(ledger: Ledger) -> None:
    with pytest.raises(SourceError):
        ledger.register("ward", table(), Schema.of(salary=Numeric([0, 100_000])))
    derived = Schema.from_data(table(), i_accept_that_the_result_is_not_private=True)
    with pytest.raises(PrivacyError, match="read off"):
        ledger.register("ward", table(), derived)
    with pytest.raises(PrivacyError, match="read off"):
        release_distribution(table(), derived, ["ill"], budget=BUDGET, ledger=ledger, dataset="clinic")
    assert kinds(ledger) == ["open", "register"]


def test_files_are_known_by_place_and_time(tmp_path: Path, ledger: Ledger) -> None:
    path = tmp_path / "rows.parquet"
    pq.write_table(table(), path)
    ledger.register("files", path, SALARIES)
    paid: dict[str, Any] = {"budget": Budget(epsilon=0.1, delta=1e-6), "ledger": ledger, "dataset": "files"}
    assert release_distribution(str(path), SALARIES, ["ill"], **paid).total == 300
    pq.write_table(table(), tmp_path / "other.parquet")
    with pytest.raises(PrivacyError, match="not the one that is registered"):
        release_distribution(tmp_path / "other.parquet", SALARIES, ["ill"], **paid)
    with pytest.raises(PrivacyError, match="not the one that is registered"):
        release_distribution(table(), SALARIES, ["ill"], **paid)
    os.utime(path, (1, 1))
    with pytest.raises(PrivacyError, match="have changed"):
        release_distribution(path, SALARIES, ["ill"], **paid)
    ledger.register("files", path, SALARIES)
    assert release_distribution(path, SALARIES, ["ill"], **paid).total == 300


def test_a_query_is_known_by_its_text(tmp_path: Path, ledger: Ledger) -> None:
    pq.write_table(table(), tmp_path / "rows.parquet")
    query = f"SELECT ill FROM '{tmp_path / 'rows.parquet'}'"
    ledger.register("query", Query(query), Schema.of(ill=["no", "yes"]))
    paid: dict[str, Any] = {"budget": BUDGET, "ledger": ledger, "dataset": "query"}
    assert release_distribution(Query(query), SALARIES, ["ill"], **paid).total == 300
    with pytest.raises(PrivacyError, match="not the one"):
        release_distribution(Query(f"{query} LIMIT 10"), SALARIES, ["ill"], **paid)


def test_persons_are_registered_with_their_column(tmp_path: Path) -> None:
    ledger = Ledger.open(tmp_path / "l.db", budget=Budget(epsilon=9, delta=1e-5))
    rows = table().append_column("who", pa.array([i // 3 for i in range(300)]))
    made = ledger.register("people", rows, SALARIES, person="who")
    assert made.records is None  # how many rows there are is private where persons are protected
    paid: dict[str, Any] = {"budget": BUDGET, "ledger": ledger, "dataset": "people"}
    with pytest.raises(InvalidArgument, match="persons by column 'who'"):
        release_distribution(rows, SALARIES, ["ill"], **paid)
    fitted = release_distribution(rows, SALARIES, ["ill"], rows_per_person=np.int64(2), person="who", **paid)
    assert fitted.unit == "person"
    assert json.loads(fitted.to_json())["body"]["guarantee"]["rows"] == 2


def test_under_add_remove_no_number_of_records_is_kept(tmp_path: Path) -> None:
    ledger = Ledger.open(tmp_path / "l.db", budget=Budget(epsilon=9, delta=1e-5), neighbours="add-remove")
    assert ledger.register("d", table(), SALARIES).records is None
    told = json.dumps([entry.as_dict() for entry in ledger.entries()])
    assert not re.search(r"\b300\b", told)  # a hash may have these digits inside


def test_a_ledger_may_be_named_by_its_path(ledger: Ledger) -> None:
    path = ledger._store.path
    made = release_distribution(table(), SALARIES, ["ill"], budget=BUDGET, ledger=str(path), dataset="clinic")
    assert made.private
    assert kinds(ledger) == ["open", "register", "charge", "seal"]
    with pytest.raises(InvalidArgument, match="existing ledger"):
        release([5, 6], budget=BUDGET, ledger="nowhere.db", dataset="clinic")
    with pytest.raises(InvalidArgument, match="a Ledger or the path"):
        release([5, 6], budget=BUDGET, ledger=3, dataset="clinic")  # type: ignore[arg-type]


# -- which columns may be asked about ---------------------------------------------------------------------------------

keep = st.sampled_from(["cell", "refuse"])
numbers = st.sampled_from([-5.0, -1.0, 0.0, 2.0, 3.5, 5.0, 8.0, 10.0, 12.0])


@st.composite
def numeric_columns(draw: st.DrawFn) -> Numeric | Quantiles:
    missing, outside = draw(keep), draw(st.sampled_from(["cell", "refuse", "nearest"]))
    edges = sorted(draw(st.sets(numbers, min_size=2, max_size=5)))
    if draw(st.booleans()):
        return Quantiles(2, lower=edges[0], upper=edges[-1], outside=outside, missing=missing, name="x")
    own = draw(st.lists(numbers, unique=True, max_size=2))
    return Numeric(edges, own=own, outside=outside, missing=missing, name="x")


@st.composite
def category_columns(draw: st.DrawFn) -> Categories:
    values = draw(
        st.one_of(
            st.lists(st.sampled_from(["a", "b", "c"]), unique=True, min_size=1),
            st.lists(st.sampled_from([0, 1, 2]), unique=True, min_size=1),
            st.lists(st.sampled_from([datetime.date(2024, 1, 1), datetime.date(2024, 1, 2)]), unique=True, min_size=1),
        )
    )
    return Categories(values, other=draw(keep), missing=draw(keep), name="x")


columns = st.one_of(numeric_columns(), category_columns())
VALUES: list[list[Any]] = [
    [None, -5.0, -1.0, 0.0, 1.0, 2.0, 3.5, 5.0, 7.0, 8.0, 10.0, 11.0, 12.0, float("nan"), float("inf")],
    [None, "a", "b", "c", "d"],
    [None, 0, 1, 2, 3],
    [None, datetime.date(2024, 1, 1), datetime.date(2024, 1, 2), datetime.date(2024, 1, 3)],
]


def accepts(column: Categories | Numeric | Quantiles, value: Any) -> bool:
    if isinstance(column, Quantiles):
        column = Numeric([column.lower, column.upper], outside=column.outside, missing=column.missing, name="x")
    kind = pa.float64() if isinstance(value, float) else None
    try:
        count(pa.table({"x": pa.array([value], kind)}), Schema([column]), [("x",)])
    except SourceError:
        return False
    return True


def test_a_value_of_its_own_at_the_end_of_a_range_covers_nothing_before_it() -> None:
    known = Numeric([-5, -1, 0, 2, 12])
    assert may_refuse(known, Numeric([-5, -1], own=[12]))
    assert not may_refuse(known, Numeric([-5, 12], own=[3]))


@pytest.mark.slow
@settings(max_examples=150)
@given(columns, columns)
def test_no_value_that_a_registered_column_accepts_is_refused_by_an_admitted_one(known: Any, asked: Any) -> None:
    if may_refuse(known, asked):
        return
    for values in VALUES:
        for value in values:
            if accepts(known, value):
                assert accepts(asked, value), (known, asked)


@given(columns)
def test_a_registered_column_itself_is_admitted(column: Any) -> None:
    assert may_refuse(column, column) == ""


def test_coarser_bins_are_admitted_and_others_named(ledger: Ledger) -> None:
    paid: dict[str, Any] = {"budget": Budget(epsilon=0.2, delta=1e-6), "ledger": ledger, "dataset": "clinic"}
    coarse = Schema.of(salary=Numeric([0, 100_000, 1_000_000]))
    assert release_distribution(table(), coarse, ["salary"], **paid).values.shape == (2,)
    with pytest.raises(SchemaError, match="ends before the registered range"):
        release_distribution(table(), Schema.of(salary=Numeric([0, 500_000])), ["salary"], **paid)
    with pytest.raises(SchemaError, match="a registered column"):
        release_distribution(table(), Schema.of(height=Numeric([0, 3])), ["height"], **paid)
    assert kinds(ledger) == ["open", "register", "charge", "seal"]


def test_merged_bins_and_quantiles_work_on_registered_columns(tmp_path: Path) -> None:
    ledger = Ledger.open(tmp_path / "l.db", budget=Budget(epsilon=9, delta=1e-5))
    ledger.register("d", table(), SALARIES)
    asked = Schema.of(salary=Quantiles(4, lower=0, upper=1_000_000), ill=["no", "yes"])
    made = release_distribution(table(), asked, ["salary", "ill"], budget=BUDGET, ledger=ledger, dataset="d")
    assert made.schema is not None
    assert not made.schema.unresolved


# -- names ------------------------------------------------------------------------------------------------------------


def test_names_have_one_spelling(ledger: Ledger) -> None:
    release([5, 6], budget=Budget(epsilon=0.1, delta=1e-6), ledger=ledger, dataset="  clinic ")
    release([5, 6], budget=Budget(epsilon=0.1, delta=1e-6), ledger=ledger, dataset="\uff43linic")  # a wide letter
    assert ledger.datasets == ("clinic",)
    assert ledger.spent("\uff43linic ").value == ledger.spent("clinic").value > 0


@pytest.mark.parametrize("name", ["Clinic", "clinic.", "c-linic", "CLINIC", "сlinic", "cl inic", "clínic"])
def test_names_that_look_alike_are_refused_with_the_known_one(ledger: Ledger, name: str) -> None:
    with pytest.raises(InvalidArgument, match="'clinic', which the ledger knows"):
        release([5, 6], budget=BUDGET, ledger=ledger, dataset=name)
    with pytest.raises(InvalidArgument, match="which the ledger knows"):
        ledger.register(name, table(), SALARIES)
    assert ledger.datasets == ("clinic",)


@pytest.mark.parametrize("name", ["", " ", "a\nb", "a\x00", "a\u200bb", "x" * 201, None, 3])
def test_names_are_printable_text(ledger: Ledger, name: Any) -> None:
    with pytest.raises(InvalidArgument):
        ledger.register(name, table(), SALARIES)


@example(" :0")
@example("´")  # composed it is a space with an accent, and trimmed the accent alone
@given(st.text(max_size=30))
def test_a_spelling_is_its_own(name: str) -> None:
    try:
        spelled = dataset_name(name)
    except InvalidArgument:
        return
    assert dataset_name(spelled) == spelled
    assert skeleton(spelled) == skeleton(name)


def test_a_registration_reads_back(ledger: Ledger) -> None:
    made = ledger.registration("clinic")
    assert made is not None
    assert Registration.from_body(made.to_body()) == made
    assert made.records == 300
    assert Schema.from_json(made.schema) == SALARIES
    assert ledger.registration("ward") is None


def test_pandas_rows_are_registered_as_rows_in_memory(tmp_path: Path) -> None:
    ledger = Ledger.open(tmp_path / "l.db", budget=Budget(epsilon=9, delta=1e-5))
    frame = pd.DataFrame({"smoker": ["no", "yes"] * 100, "ill": ["no", "yes"] * 100})
    schema = Schema.of(smoker=["no", "yes"], ill=["no", "yes"])
    ledger.register("d", frame, schema)
    model = NaiveBayes(epsilon=1, delta=1e-6, schema=schema, target="ill", ledger=ledger, dataset="d")
    assert model.fit(frame[["smoker"]], frame["ill"]).certificate_.private
    with pytest.raises(PrivacyError, match="read off"):
        NaiveBayes(domain="from-data", ledger=ledger, dataset="d").fit(frame[["smoker"]], frame["ill"])
