"""Faults that were found in the studio by reading it as an attacker does; each test failed before its mend."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import pyarrow.csv
import pyarrow.parquet
import pytest
from studios import Browser, browsing, errors, make, unescaped

from simplexdp import Budget, Files, Gaussian, Ledger, Schema
from simplexdp.errors import InvalidArgument, PrivacyError
from simplexdp.ledger import Asked, Charge, Queue, fingerprint
from simplexdp.studio import spending, steps
from simplexdp.studio.drafts import Drafts
from simplexdp.studio.spec import Spec

KEY, OTHER = "ab" * 32, "cd" * 32
EVERYTHING = "SELECT age, smoker, ill FROM 'rows.parquet'"
SELECTING = f"{EVERYTHING} WHERE ill = 'yes'"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    made = make(tmp_path / "hospital")
    pyarrow.parquet.write_table(pyarrow.csv.read_csv(made / "clinic.csv"), made / "rows.parquet")
    monkeypatch.chdir(made)  # where queries find their files
    return made


@pytest.fixture
def ledger(folder: Path) -> Ledger:
    return Ledger.open(folder / "ledger.db", budget=Budget(epsilon=3, delta=1e-6))


def queried(browser: Browser, sql: str, **said: str) -> str:
    """A request about a query, as far as its budget."""
    place = browser.goes("/new", {"sql": sql, **said}).rpartition("/")[0]
    assert browser.post(f"{place}/columns", {"schema_path": "clinic.schema.yaml", "action": "load"}).status_code == 200
    browser.goes(f"{place}/question", {"kind": "table", "columns": ["ill"]})
    browser.goes(f"{place}/unit", {"unit": "row", "neighbours": "replace-one"})
    return place


def counted(browser: Browser, place: str) -> int | None:
    """The number of records that the studio found."""
    draft = browser.studio.drafts.get(place.rpartition("/")[2])
    assert draft is not None
    return draft.found


@pytest.mark.parametrize(
    ("sql", "said", "found"),
    [(EVERYTHING, {}, 400), (SELECTING, {}, None), (f"{EVERYTHING} WHERE true", {"public_size": "1"}, 400)],
)
def test_rows_that_a_query_selects_are_not_counted(
    sql: str, said: dict[str, str], found: int | None, folder: Path
) -> None:
    with browsing(folder) as officer:
        assert counted(officer, queried(officer, sql, **said)) == found


def test_nothing_is_counted_for_an_analyst(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[object] = []
    monkeypatch.setattr(steps, "number_of_records", lambda rows: calls.append(rows))
    with browsing(folder, "analyst") as analyst:
        assert counted(analyst, queried(analyst, EVERYTHING)) is None
        assert counted(analyst, queried(analyst, SELECTING, public_size="1")) is None
        assert counted(analyst, analyst.planned()) is None
    assert calls == []
    with browsing(folder) as officer:
        officer.planned()
    assert len(calls) == 1


def spec_of(file: str, dataset: str) -> Spec:
    """A request about a file."""
    return Spec.of(
        {
            "source": {"files": [file]},
            "dataset": dataset,
            "schema": "columns:\n  ill: ['no', 'yes']\n",
            "question": {"kind": "table", "columns": ["ill"]},
            "unit": {"neighbours": "replace-one"},
            "budget": {"epsilon": 0.5, "delta": 1e-6},
        }
    )


def test_a_registration_is_never_replaced_by_a_request(folder: Path, ledger: Ledger) -> None:
    """Or else: register `a`, ask `a` about another file, and the first file is free for a second name and budget."""
    (folder / "other.csv").write_text("ill\nno\nyes\n", encoding="utf-8")
    spending.registered(ledger, spec_of("clinic.csv", "a"), folder)
    made = ledger.registration("a")
    with pytest.raises(PrivacyError, match="not the one that is registered"):
        spending.registered(ledger, spec_of("other.csv", "a"), folder)
    with pytest.raises(InvalidArgument, match="registered already"):
        spending.registered(ledger, spec_of("clinic.csv", "b"), folder)
    (folder / "clinic.csv").write_text("ill\nno\n", encoding="utf-8")
    with pytest.raises(PrivacyError, match="have changed"):
        spending.registered(ledger, spec_of("clinic.csv", "a"), folder)
    assert ledger.registration("a") == made
    assert ledger.registration("b") is None


def test_what_is_not_admitted_is_refused_before_it_is_asked(folder: Path, ledger: Ledger) -> None:
    ledger.register("clinic", Files("clinic.csv"), Schema.read("clinic.schema.yaml"))
    with browsing(folder) as officer:
        place = officer.planned()
        with (folder / "clinic.csv").open("a", encoding="utf-8") as file:
            file.write("3,no,no,x\n")
        found = officer.spend(place)
        assert found.status_code == 422
        assert "have changed" in errors(found.text)[0]
    assert list(Queue(ledger)) == []


def asked_for(queue: Queue, key: str = KEY) -> Asked:
    """A request that waits for nobody."""
    spec = spec_of("clinic.csv", "clinic")
    return queue.ask(key, dataset="clinic", description="ill", spec=spec.to_body())


def charged(ledger: Ledger, key: str = KEY) -> Charge:
    """What the request is charged by hand."""
    loss = Gaussian(sigma=50.0).loss()
    return ledger.charge(loss, dataset="clinic", description="ill", request_hash=fingerprint("q"), key=key)


def test_results_of_two_ledgers_and_requests_have_their_own_names(folder: Path) -> None:
    names = []
    for epsilon, key in ((1, KEY), (2, KEY), (2, OTHER)):
        path = folder / f"{epsilon}-{key[:4]}.db"
        ledger = Ledger.open(path, budget=Budget(epsilon=epsilon, delta=1e-6))
        asked_for(Queue(ledger), key)
        charged(ledger, key)
        asked = Queue(ledger).get(key)
        assert asked is not None
        assert asked.entry == ledger.entries()[2].hash
        results = spending.Results(folder, partial(Path, path))
        names.append((results.path(asked), results.staged(asked)))
        assert results.staged(asked).parent == folder
    assert len({path for path, _ in names}) == len({path for _, path in names}) == 3


def test_a_result_that_is_not_the_sealed_one_is_lost(folder: Path, ledger: Ledger) -> None:
    asked_for(Queue(ledger))
    spender = spending.Spender(folder, lambda: ledger)
    asked, results = spender.carry_out(KEY), spender.results
    assert not results.staged(asked).exists()
    path = results.path(asked)
    assert results.model(asked).to_json() == path.read_text(encoding="utf-8")
    second = spender.carry_out(asked_for(Queue(ledger), OTHER).key)
    whole = path.read_bytes()
    path.write_bytes(results.path(second).read_bytes())
    with pytest.raises(spending.Lost, match="gone or was changed"):
        results.model(asked)
    results.staged(asked).write_bytes(results.path(second).read_bytes())
    with pytest.raises(spending.Lost, match="gone or was changed"):
        results.publish(asked)
    path.unlink()
    results.staged(asked).write_bytes(whole)  # as where the process ended between seal and publication
    assert results.model(asked).to_json().encode() == whole
    assert not results.staged(asked).exists()


def test_what_was_begun_is_found_from_another_folder(folder: Path, ledger: Ledger, tmp_path: Path) -> None:
    """The file of one studio keeps another one, of another folder on the same ledger, from drawing again."""
    asked_for(Queue(ledger))
    spender = spending.Spender(folder, lambda: ledger)
    spender.results.stage = lambda *_: (_ for _ in ()).throw(KeyboardInterrupt)  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        spender.carry_out(KEY)
    begun = Queue(ledger).get(KEY)
    assert begun is not None
    assert begun.status == "charged"
    spender.results.staged(begun).write_text("{", encoding="utf-8")
    other = make(tmp_path / "elsewhere")
    (other / "link.db").symlink_to(ledger.path)
    there = Ledger.open(other / "link.db")
    with pytest.raises(spending.Lost, match="nothing is drawn again"):
        spending.Spender(other, lambda: there).carry_out(KEY)


def test_a_draw_that_failed_is_not_drawn_again(folder: Path, ledger: Ledger) -> None:
    queue = Queue(ledger)
    asked_for(queue)
    charged(ledger).fail("a record broke a rule")
    ledger.reopen("clinic")
    asked = Queue(Ledger.open(ledger.path)).get(KEY)
    assert asked is not None
    assert asked.status == "failed"
    loss = Gaussian(sigma=50.0).loss()
    with pytest.raises(PrivacyError, match="a new request pays anew"):
        queue.paid(KEY, loss, dataset="clinic", request_hash=fingerprint("q"))
    spender = spending.Spender(folder, lambda: ledger)
    with pytest.raises(PrivacyError, match="a new request pays anew"):
        spender.carry_out(KEY)
    with pytest.raises(PrivacyError, match="charged already"):
        charged(ledger)
    with browsing(folder) as officer:
        page = officer.get(f"/q/{KEY}").text
        assert "Nothing is drawn again" in page
        assert "Take it up again" not in page
        assert "charged, failed" in officer.get("/").text
    assert spender.carry_out(asked_for(queue, OTHER).key).status == "sealed"


@pytest.mark.parametrize("path", ["../rows.csv", "/{outside}/rows.csv", "*/../../rows.csv", "link.csv", "l*.csv"])
def test_an_analyst_reads_nothing_outside_of_the_folder(path: str, folder: Path) -> None:
    outside = folder.parent
    (outside / "rows.csv").write_text("ill\nno\nyes\n", encoding="utf-8")
    (folder / "link.csv").symlink_to(outside / "rows.csv")
    said = {"path": path.format(outside=str(outside).strip("/"))}
    with browsing(folder, "analyst") as analyst:
        found = analyst.post("/new", said)
        assert found.status_code == 422
        assert "in the folder of the studio" in errors(found.text)[0]
        assert list(analyst.studio.drafts) == []
        assert analyst.post("/new", {"path": "cl*.csv"}).status_code == 303
    if path != "*/../../rows.csv":  # there is no folder that * stands for
        with browsing(folder) as officer:
            assert officer.post("/new", said).status_code == 303


def test_an_analyst_loads_and_saves_schemas_in_the_folder_and_replaces_none(folder: Path) -> None:
    outside = folder.parent / "theirs.yaml"
    outside.write_text("columns:\n  ill: ['no', 'yes']\n", encoding="utf-8")
    before = (folder / "clinic.schema.yaml").read_bytes()
    with browsing(folder, "analyst") as analyst:
        place = analyst.goes("/new", {"file": "clinic.csv"}).rpartition("/")[0]
        found = analyst.post(f"{place}/columns", {"schema_path": "../theirs.yaml", "action": "load"})
        assert "in the folder of the studio" in errors(found.text)[0]
        fields = analyst.fields(f"{place}/columns") | {"action": "save", "replace": "1"}
        for name in ("../theirs.yaml", "../new.yaml", "clinic.schema.yaml"):
            assert 'id="error-save_as"' in analyst.post(f"{place}/columns", fields | {"save_as": name}).text
        assert "Saved as" in analyst.post(f"{place}/columns", fields | {"save_as": "mine.yaml"}).text
    assert outside.read_text(encoding="utf-8").startswith("columns:\n  ill: [")
    assert not (folder.parent / "new.yaml").exists()
    assert (folder / "clinic.schema.yaml").read_bytes() == before
    with browsing(folder) as officer:
        place = officer.goes("/new", {"file": "clinic.csv"}).rpartition("/")[0]
        fields = officer.fields(f"{place}/columns") | {"action": "save", "replace": "1", "save_as": "mine.yaml"}
        assert "Saved as" in officer.post(f"{place}/columns", fields).text


def test_a_draft_has_the_key_of_its_file(folder: Path) -> None:
    with browsing(folder) as officer:
        officer.goes("/new", {"file": "clinic.csv"})
        (draft,) = officer.studio.drafts
    (path,) = folder.glob(".simplexdp-studio/*.json")
    body = json.loads(path.read_text(encoding="utf-8"))
    for key, stem in (("../../gone", "e" * 64), (OTHER, "e" * 64), ("../gone", "gone")):
        (path.parent / f"{stem}.json").write_text(json.dumps({**body, "key": key}), encoding="utf-8")
    assert [each.key for each in Drafts(folder)] == [draft.key]


@pytest.mark.parametrize("role", ["officer", "analyst"])
def test_the_officer_sees_all_that_is_approved(role: str, folder: Path, ledger: Ledger) -> None:
    spec = spec_of("clinic.csv", "clinic").to_body()
    spec["source"] = {"files": [], "sql": EVERYTHING, "database": False, "public_size": True}
    spec["unit"] = {"neighbours": "replace-one", "person": "secret", "rows_per_person": 17}
    spec["records"] = 987654
    Queue(ledger).ask(KEY, dataset="clinic", description="ill", spec=spec, approval=True)
    with browsing(folder, role) as browser:
        page = unescaped(browser.get(f"/q/{KEY}").text)
    shown = ["<dd>secret<", "<dd>17<", "<dd>987,654<", "declared public</dt><dd>yes<", "environment</dt><dd>no<"]
    shown.append(Schema.from_yaml(str(spec["schema"])).to_yaml().strip())
    assert [text in page for text in shown] == [role == "officer"] * len(shown)
