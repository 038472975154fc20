"""One request is charged once and drawn once, whoever sends it again and whenever its process is killed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from studio_crashes import LOST, STEPS
from studios import browsing, make

from simplexdp import Ledger, read
from simplexdp.ledger import Queue
from simplexdp.models.document import checksum

TRIES = 50


def check_tries(folder: Path, tries: list[dict[str, object]]) -> dict[str, int]:
    """At most one charge and one draw that left for each key, and what was paid is there or was lost in the open."""
    ledger = Ledger.open(folder / "ledger.db")
    ledger.verify()
    entries = ledger.entries()
    charges = [entry.body["key"] for entry in entries if entry.kind == "charge"]
    assert len(charges) == len(set(charges))
    left: dict[str, set[str]] = {}
    for line in (folder / "left").read_text(encoding="utf-8").splitlines():
        key, digest = line.split()
        left.setdefault(key, set()).add(digest)
    seen = {"sealed": 0, "charged": 0}
    by_key = {asked.key: asked for asked in Queue(ledger)}
    for each in tries:
        asked = by_key[str(each["key"])]
        seen[asked.status] += 1
        drawn = left.get(asked.key, set())
        assert len(drawn) <= 1, each  # no second draw has ever left a process
        path = folder / "releases" / f"clinic-{asked.charge}-{asked.entry[:16]}-{asked.key[:16]}.json"
        if asked.status == "sealed":
            assert (each["last"], each["again"]) == (0, 0), each
            assert drawn == {asked.release}
            assert checksum(read(path).to_body()) == asked.release
        else:
            assert each["last"] == 3, each  # refused: a part of it may have been seen
            assert not path.exists()
        if each["step"]:
            assert each["first"] == -9, each
            assert (asked.status == "charged") == (each["step"] in LOST), each
    return seen


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_killed_at_every_step(tmp_path: Path) -> None:
    script = Path(__file__).with_name("studio_crashes.py")
    done = subprocess.run(
        [sys.executable, str(script), str(tmp_path), str(TRIES)], capture_output=True, text=True, check=False
    )
    tries = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(tries) == TRIES, done.stderr[-2000:]
    assert {each["step"] for each in tries} == {*STEPS, ""}
    seen = check_tries(tmp_path, tries)
    assert seen["sealed"] > 30
    assert seen["charged"] >= 6


@pytest.mark.slow
def test_two_tabs_and_double_clicks(tmp_path: Path) -> None:
    """Two studios on one folder, and the button pressed eight times at once in each."""
    folder = make(tmp_path / "shared")
    with browsing(folder) as one, browsing(folder) as other:
        place = one.planned()
        fields = one.fields(f"{place}/budget", 'class="spend')
        draft = one.studio.drafts.get(place.rpartition("/")[2])
        other.studio.drafts.keep(draft)
        with ThreadPoolExecutor(16) as pool:
            found = list(pool.map(lambda i: (one, other)[i % 2].post(f"{place}/spend", fields), range(16)))
        assert {answer.status_code for answer in found} <= {303, 409, 422}
        assert sum(answer.status_code == 303 for answer in found) >= 8
        texts = [browser.finish(place) for browser in (one, other)]
        assert all("PRIVATE" in text for text in texts)
        assert one.goes(f"{place}/spend", fields) == place  # much later, as after "back"
        assert one.goes(f"{place}/resume") == place
    ledger = Ledger.open(folder / "ledger.db")
    assert [entry.kind for entry in ledger.entries()].count("charge") == 1
    assert [entry.kind for entry in ledger.entries()].count("seal") == 1
    assert len(list(folder.glob("releases/*.json"))) == 1


@pytest.mark.slow
def test_what_was_shown_is_what_is_charged(tmp_path: Path) -> None:
    """A page that another tab has overtaken charges nothing."""
    folder = make(tmp_path / "x")
    with browsing(folder) as browser:
        place = browser.planned()
        old = browser.fields(f"{place}/budget", 'class="spend')
        browser.goes(f"{place}/question", {"kind": "table", "columns": ["age", "ill"]})
        found = browser.post(f"{place}/spend", old)
        assert found.status_code == 422
        assert "Look at them" in found.text
        assert browser.post(f"{place}/spend", old | {"epsilon": "2.5"}).status_code == 422
        assert not (folder / "ledger.db").exists()


@pytest.mark.slow
def test_cancelled_work_stays_charged_and_is_taken_up_again(tmp_path: Path) -> None:
    folder = make(tmp_path / "x", rows=300)
    with browsing(folder) as browser:
        place = browser.planned()
        key = place.rpartition("/")[2]
        spender = browser.studio.spender
        # Cancelled between the charge and the file: the block of rows after which it is looked at is the last one.
        keep = spender._progress(key)
        spender._progress = lambda key: lambda done, total: (spender.cancel(key), keep(done, total))  # type: ignore[method-assign]
        browser.spend(place)
        text = browser.finish(place)
        assert "It was cancelled" in text
        ledger = Ledger.open(folder / "ledger.db")
        charged = Queue(ledger).get(key)
        assert charged is not None
        assert charged.status == "charged"
        assert ledger.failures() == {}
        del spender._progress
        browser.goes(f"{place}/resume")
        assert "PRIVATE" in browser.finish(place)
    assert [entry.kind for entry in ledger.entries()].count("charge") == 1
