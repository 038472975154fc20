"""The ledger on the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from simplexdp import Budget, Gaussian, release
from simplexdp.cli import app
from simplexdp.errors import FormatError, PrivacyError, SimplexDPError
from simplexdp.ledger import Ledger, fingerprint
from simplexdp.models.document import write_document


def run(*arguments: object) -> str:
    done = CliRunner().invoke(app, ["ledger", *map(str, arguments)], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.output


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "l.db"
    run("create", path, "--epsilon", 1, "--delta", 1e-5, "--dataset", "clinic", "--dataset", "[red]school")
    charge = Ledger.open(path).charge(
        Gaussian(sigma=20.0).loss(), dataset="clinic", description="ages", request_hash=fingerprint(1)
    )
    charge.seal(fingerprint(2))
    return path


def test_show(path: Path) -> None:
    assert "[red]school" in run("show", path)
    document = json.loads(run("show", path, "--json"))
    clinic, school = document["datasets"]
    assert (clinic["dataset"], clinic["charges"], school["charges"]) == ("clinic", 1, 0)
    assert clinic["spent"] + clinic["left"] == pytest.approx(document["limit"])
    assert school["epsilon_left"] == pytest.approx(1.0)
    more = Ledger.open(path).remaining("clinic").times(Gaussian(sigma=20.0).loss())
    assert (clinic["more_like_the_last"], school["more_like_the_last"]) == (more, None)


def test_verify_gives_an_anchor_and_takes_one(path: Path) -> None:
    document = json.loads(run("verify", path, "--json"))
    assert document["entries"] == 3
    assert document["unsealed"] == []
    assert "intact" in run("verify", path, "--anchor", document["anchor"])
    with pytest.raises(FormatError):
        run("verify", path, "--anchor", "1:" + "0" * 64)


def test_verify_finds_the_charge_of_a_file(path: Path, tmp_path: Path) -> None:
    published = release([5, 6, 7], budget=Budget(epsilon=0.2, delta=1e-6), ledger=Ledger.open(path), dataset="clinic")
    published.write(tmp_path / "paid.json")
    assert json.loads(run("verify", path, "--release", tmp_path / "paid.json", "--json"))["paid_by"] == 3
    assert "entry 3" in run("verify", path, "--release", tmp_path / "paid.json")
    release([5, 6, 7], budget=Budget(epsilon=0.2, delta=1e-6)).write(tmp_path / "free.json")
    with pytest.raises(PrivacyError, match="no charge"):
        run("verify", path, "--release", tmp_path / "free.json")
    # What a reader would pass over was not paid for either: exact counts beside the release, say.
    more = write_document("release", published.to_body() | {"counts": [5, 6, 7]})
    (tmp_path / "more.json").write_text(more)
    with pytest.raises(PrivacyError, match="no charge"):
        run("verify", path, "--release", tmp_path / "more.json")


def test_export(path: Path, tmp_path: Path) -> None:
    document = json.loads(run("export", path))
    assert [entry["kind"] for entry in document["entries"]] == ["open", "charge", "seal"]
    assert document["entries"][2]["release"] == fingerprint(2)
    run("export", path, "--out", tmp_path / "out.json")
    assert json.loads((tmp_path / "out.json").read_text()) == document
    with pytest.raises(SimplexDPError):
        run("export", path, "--out", tmp_path / "out.json")


def test_create_keeps_an_existing_file(path: Path) -> None:
    with pytest.raises(SimplexDPError, match="new path"):
        run("create", path, "--epsilon", 1, "--delta", 1e-5)
    assert json.loads(run("verify", path, "--json"))["entries"] == 3


def test_list_and_report_say_who_when_what_and_what_is_left(path: Path, tmp_path: Path) -> None:
    ledger, loss = Ledger.open(path), Gaussian(sigma=30.0).loss()
    failing = ledger.charge(loss, dataset="clinic", description="<b>sex</b>", request_hash=fingerprint(3))
    failing.fail("a value")
    rows = json.loads(run("list", path, "--delta", 1e-6, "--json"))["charges"]
    assert [row["description"] for row in rows] == ["ages", "<b>sex</b>"]
    assert rows[0]["epsilon"] == Gaussian(sigma=20.0).loss().epsilon(1e-6)
    assert (rows[0]["release"], rows[1]["release"]) == (fingerprint(2), None)
    assert (rows[0]["failed"], rows[1]["failed"]) == (None, "a value")
    assert "2 charges" in run("list", path)
    run("report", path, "--out", tmp_path / "r.json", "--delta", 1e-6)
    found = json.loads((tmp_path / "r.json").read_text())
    clinic, school = found["datasets"]
    assert clinic["epsilon_spent"] == ledger.spent("clinic").epsilon(1e-6)
    assert clinic["epsilon_left"] == ledger.remaining("clinic").epsilon(1e-6)
    assert (clinic["charges"], school["charges"], clinic["closed"]) == (2, 0, "a value")
    assert found["charges"] == rows
    assert found["anchor"] == ledger.verify().anchor
    run("report", path, "--out", tmp_path / "r.html")
    page = (tmp_path / "r.html").read_text()
    assert fingerprint(2) in page
    assert "&lt;b&gt;sex&lt;/b&gt;" in page
    assert "clinic is closed." in page
    with pytest.raises(SimplexDPError):
        run("report", path, "--out", tmp_path / "r.html")  # it is there already
    with pytest.raises(SimplexDPError):
        run("list", path, "--delta", 2)
