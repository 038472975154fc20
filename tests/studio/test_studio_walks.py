"""The walks through the studio without a script: from a file to a release, with errors beside their fields."""

from __future__ import annotations

import io
import re
import zipfile
from pathlib import Path

import pytest
from studios import CANARY, NUMBER, browsing, errors, make

from simplexdp import Ledger, read
from simplexdp.cli import run
from simplexdp.ledger import Queue
from simplexdp.studio.questions import KINDS

MARKS = (CANARY, str(NUMBER), f"{NUMBER:,}")
QUESTIONS = {
    "table": {"kind": "table", "columns": ["smoker", "ill"]},
    "tables": {"kind": "tables", "all": ["all-1-way"], "tables": "age, ill"},
    "classifier": {"kind": "classifier", "target": "ill"},
    "network": {"kind": "network", "edges": "smoker -> ill\nage -> ill"},
    "synthetic": {"kind": "synthetic"},
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return make(tmp_path / "a hospital")


def test_every_question_has_a_walk() -> None:
    assert set(QUESTIONS) == set(KINDS)


@pytest.mark.slow
@pytest.mark.parametrize("kind", QUESTIONS)
def test_a_walk_ends_in_a_release_that_the_ledger_paid(
    kind: str, folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with browsing(folder) as browser:
        place = browser.planned(QUESTIONS[kind])
        before = len(browser.seen)
        assert browser.spend(place).status_code == 303
        text = browser.finish(place)
        assert "PRIVATE" in text, errors(text)
        archive = zipfile.ZipFile(io.BytesIO(browser.client.get(f"/t0k3n{place}/bundle").content))
        assert len(archive.namelist()) == 6
        document = next(name for name in archive.namelist() if name.endswith(".json"))
        (path,) = folder.glob("releases/*.json")
        assert archive.read(document) == path.read_bytes()
        model = read(path)
        assert model.certificate().private
        ledger = Ledger.open(folder / "ledger.db")
        assert ledger.verify().unsealed == ()
        assert [asked.status for asked in Queue(ledger)] == ["sealed"]
        browser.get(f"{place}/report")
        assert len(browser.get(f"{place}/synthetic?records=7").text.splitlines()) == 8
        everything = "".join([*browser.seen, *map(str, browser.studio.drafts), *_texts(archive)])
    assert before < len(browser.seen)
    said = capfd.readouterr()
    for mark in MARKS:  # values that the schema does not know are in no page, file or log
        assert mark not in everything + said.out + said.err
        assert mark.encode() not in b"".join(
            p.read_bytes() for p in folder.rglob("*") if p.is_file() and p.suffix != ".csv"
        )


def _texts(archive: zipfile.ZipFile) -> list[str]:
    return [archive.read(name).decode() for name in archive.namelist()]


def test_the_search_for_canaries_can_fail(folder: Path) -> None:
    assert CANARY.encode() in (folder / "clinic.csv").read_bytes()
    assert str(NUMBER).encode() in (folder / "clinic.csv").read_bytes()


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["table", "classifier", "synthetic"])
def test_the_command_and_the_script_ask_the_same(kind: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import shlex

    with browsing(folder) as browser:
        place = browser.planned(QUESTIONS[kind])
        browser.spend(place, epsilon="0.7")
        browser.finish(place)
        archive = zipfile.ZipFile(io.BytesIO(browser.client.get(f"/t0k3n{place}/bundle").content))
    schema = next(name for name in archive.namelist() if name.endswith(".schema.yaml"))
    archive.extract(schema, folder / "releases")
    script, command = (next(n for n in archive.namelist() if n.endswith(end)) for end in (".py", ".sh"))
    monkeypatch.chdir(folder)
    words = shlex.split(archive.read(command).decode(), comments=True)
    assert words[0] == "simplexdp"
    assert run(words[1:]) == 0
    text = archive.read(script).decode().replace("-again.json", "-once-more.json")
    exec(compile(text, "script", "exec"), {})  # noqa: S102  it is ours
    charges = [entry.body for entry in Ledger.open(folder / "ledger.db").entries() if entry.kind == "charge"]
    assert len(charges) == 3
    assert len({body["request"] for body in charges}) == 1
    assert len({str(body["loss"]) for body in charges}) == 1


def test_errors_stand_beside_their_fields(folder: Path) -> None:
    with browsing(folder) as browser:
        found = browser.post("/new", {"path": "nothing.csv"})
        assert found.status_code == 422
        assert 'id="error-path"' in found.text
        found = browser.post("/new", {"sql": "SELECT count(*) FROM 'clinic.csv'"})
        assert 'id="error-sql"' in found.text
        place = browser.goes("/new", {"file": "clinic.csv"}).rpartition("/")[0]
        fields = browser.fields(f"{place}/columns")
        found = browser.post(f"{place}/columns", fields | {"kind-0": "edges", "what-0": "18, 0", "action": "next"})
        assert found.status_code == 422
        assert 'id="error-0"' in found.text
        browser.goes(f"{place}/columns", fields | {"action": "next"})
        for question, field in (
            ({"kind": "table"}, "columns"),
            ({"kind": "tables", "tables": "age, nobody"}, "tables"),
            ({"kind": "classifier", "target": "age"}, "target"),
            ({"kind": "network", "edges": "age -> ill -> age"}, "edges"),
        ):
            found = browser.post(f"{place}/question", question)
            assert found.status_code == 422
            assert f'id="error-{field}"' in found.text, question
        browser.goes(f"{place}/question", QUESTIONS["table"])
        found = browser.post(
            f"{place}/unit", {"unit": "person", "neighbours": "replace-one", "person": "secret", "rows_per_person": "x"}
        )
        assert 'id="error-rows_per_person"' in found.text
        browser.goes(f"{place}/unit", {"unit": "row", "neighbours": "replace-one"})
        for query, field in (("epsilon=0", "epsilon"), ("delta=2", "delta"), ("like=a", "like"), ("error=-1", "error")):
            found = browser.get(f"{place}/budget?{query}&by=error")
            assert found.status_code == 422
            assert f'id="error-{field}"' in found.text, query
    assert not (folder / "ledger.db").exists()


def test_a_schema_is_saved_where_the_user_says_and_never_over_another(folder: Path) -> None:
    with browsing(folder) as browser:
        place = browser.goes("/new", {"file": "clinic.csv"}).rpartition("/")[0]
        fields = browser.fields(f"{place}/columns") | {"action": "save"}
        assert 'id="error-save_as"' in browser.post(f"{place}/columns", fields).text
        assert (folder / "clinic.schema.yaml").read_text(encoding="utf-8").startswith("columns:\n  age: {edges")
        found = browser.post(f"{place}/columns", fields | {"save_as": "mine.yaml"})
        assert "Saved as mine.yaml" in found.text
        made = browser.post(f"{place}/columns", {"schema_path": "mine.yaml", "action": "load"})
        assert made.status_code == 200
        assert errors(made.text) == []


def test_names_suggest_templates_and_no_value_is_looked_at(folder: Path) -> None:
    (folder / "clinic.schema.yaml").unlink()
    with browsing(folder) as browser:
        place = browser.goes("/new", {"file": "clinic.csv"})
        text = browser.get(place).text
        fields = browser.fields(place)
    assert (fields["kind-0"], fields["kind-3"]) == ("template:age-5", "out")
    assert "No value was looked at" in text
    assert all(mark not in text for mark in MARKS)


@pytest.mark.slow
def test_the_budget_answers_at_once_and_then_exactly(folder: Path) -> None:
    with browsing(folder) as browser:
        place = browser.planned()
        first = browser.get(f"{place}/budget?epsilon=1").text
        browser.get(f"{place}/budget?epsilon=0.3")
        quick = browser.get(f"{place}/budget?epsilon=0.6&fast=1", **{"x-fragment": "1"}).text
        exact = browser.get(f"{place}/budget?epsilon=0.6", **{"x-fragment": "1"}).text
        assert "<html" in first
        assert "<html" not in quick
        assert ">interpolated<" in quick
        assert ">exact<" in exact
        near, true = (float(re.findall(r"± ([\d.]+) records", text)[0]) for text in (quick, exact))
        assert abs(near / true - 1) < 0.1
        wanted = browser.fields(f"{place}/budget?error=40&by=error")
        found = browser.get(f"{place}/budget?epsilon={wanted['epsilon']}").text
        assert 39 <= float(re.findall(r"± ([\d.]+) records", found)[0]) <= 40
    assert not (folder / "ledger.db").exists()


def test_persons_and_private_numbers_of_rows(folder: Path) -> None:
    with browsing(folder) as browser:
        unit = {
            "unit": "person",
            "neighbours": "add-remove",
            "person": "secret",
            "rows_per_person": "2",
            "records": "500",
        }
        place = browser.planned(unit=unit)
        text = browser.get(f"{place}/budget").text
    assert "one person that is added or removed" in text
    assert "400" not in re.sub(r"<[^>]+>", "", text)  # the number of rows is private, and 500 is the guess
