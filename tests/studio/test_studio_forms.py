"""Forms with anything in them: an answer each time, never an unexpected error, and nothing is charged by chance."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from studios import Browser, browsing, make

from simplexdp.studio.questions import KINDS

pytestmark = pytest.mark.slow
CASES = 300
FIELDS = {
    "/new": ("file", "path", "sql", "dataset", "public_size", "database"),
    "/columns": (
        "kind-0",
        "what-0",
        "other-0",
        "missing-0",
        "kind-2",
        "what-2",
        "yaml",
        "schema_path",
        "save_as",
        "action",
        "dataset",
    ),
    "/question": ("kind", "columns", "all", "tables", "target", "features", "edges", "nodes"),
    "/unit": ("unit", "neighbours", "person", "rows_per_person", "records"),
    "/budget": ("epsilon", "delta", "error", "like", "by", "fast"),
    "/spend": ("epsilon", "delta", "digest", "whole_epsilon", "whole_delta"),
    "/decide": ("decision", "reason", "register"),
    "/resume": (),
    "/cancel": (),
    "/synthetic": ("records",),
    "": ("columns", "given"),
    "/ledger/reopen": ("dataset", "reason"),
}
WORDS = [
    *KINDS, 'values', 'edges', 'bins', 'template:age-5', 'template:year', 'out', 'written', 'load', 'yaml',
    'save', 'next', 'row', 'person', 'add-remove', 'replace-one', 'age', 'ill', 'smoker', 'secret', 'clinic',
    'clinic.csv', 'all-1-way', 'all-9-way', 'age, ill', 'age -> ill', 'ill -> ill', '-> ->', '0, 1, 2', '2, 1',
    '1, nan, 3', 'no, yes', '10 from 0 to 100', '-1 from 5 to 5', '2015 to 2024', '0', '-1', '1', '1e-6', '1e400',
    'nan', 'inf', '0x10', '1_000', '９', '../../etc', '/', '\x00', '*', "a" * 5000, '{}', '[', 'columns: [',
    'columns: {age: 3}', 'columns:\n  age: age-5', '? {a: b}', '<script>', "'; --", "SELECT * FROM 'clinic.csv'",
    'SELECT 1; DROP TABLE x', 'approve', 'refuse', 'error', '���', 'ill = no', 'x.yaml',
]  # fmt: skip
texts = st.one_of(st.sampled_from(WORDS), st.text(max_size=30), st.floats().map(str), st.integers().map(str))


@st.composite
def requests(draw: st.DrawFn) -> tuple[str, dict[str, Any]]:
    place = draw(st.sampled_from(sorted(FIELDS)))
    named = st.sampled_from(FIELDS[place]) if FIELDS[place] else st.nothing()
    names = st.one_of(named, st.text(max_size=8))
    return place, draw(st.dictionaries(names, st.one_of(texts, st.lists(texts, max_size=3)), max_size=7))


def send(browser: Browser, draft: str, place: str, fields: dict[str, Any]) -> int:
    """The status of the answer."""
    path = place if place in ("/new", "/ledger/reopen") else f"{draft}{place}"
    if place in ("/budget", "/synthetic", ""):
        return int(browser.client.get(f"/t0k3n{path}", params=fields).status_code)
    return int(browser.post(path, fields).status_code)


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Any:
    with browsing(make(tmp_path_factory.mktemp("fuzz") / "x", rows=60)) as browser:
        done = browser.planned()
        browser.spend(done)
        browser.finish(done)
        yield browser, browser.planned(), done


@settings(max_examples=CASES, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
@given(asked=requests(), on_done=st.booleans())
def test_every_form_gets_an_answer(started: tuple[Browser, str, str], asked: Any, on_done: bool) -> None:
    browser, draft, done = started
    place, fields = asked
    if "digest" in fields and place == "/spend":
        fields = fields | {"digest": "0"}
    status = send(browser, done if on_done else draft, place, fields)
    assert status < 500, (place, fields)
    ledger = browser.studio.opened()
    assert [entry.kind for entry in ledger.entries()].count("charge") == 1


@pytest.mark.parametrize("key", ["x", "0" * 64, "g" * 64, "%00", "a" * 3000])
def test_addresses_of_nothing(key: str, tmp_path: Path) -> None:
    with browsing(make(tmp_path / "x", rows=20)) as browser:
        for step in ("", "/columns", "/budget", "/report", "/release", "/bundle", "/synthetic"):
            assert browser.get(f"/q/{key}{step}").status_code in (303, 403, 404, 405), step
        for step in ("/spend", "/resume", "/again", "/cancel", "/decide", "/drop"):
            assert browser.post(f"/q/{key}{step}").status_code in (303, 403, 404, 405), step
