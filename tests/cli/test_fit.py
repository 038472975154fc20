from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from cli_support import BUDGET, SECRET, contents, make_rows

from simplexdp import Budget, Release
from simplexdp.ledger import Ledger
from simplexdp.models.bayesian_network import BayesianNetworkModel
from simplexdp.models.naive_bayes import NaiveBayesModel

DISTRIBUTION = ("fit", "distribution", "--schema", "schema.yaml", "--columns", "smoker,ill", *BUDGET)


def test_a_distribution_is_written_and_keeps_its_budget(work, simplexdp):
    ran = simplexdp(*DISTRIBUTION, "rows.parquet", "--out", "out.json")
    assert (ran.code, ran.err) == (0, "")
    assert "PRIVATE" in ran.out
    release = Release.read("out.json")
    assert release.columns == ("smoker", "ill")
    assert release.total == 1500
    assert release.private
    assert release.loss.fits(Budget(epsilon=2, delta=1e-6))
    assert release.probabilities[0, 0] == pytest.approx(0.63, abs=0.05)


@pytest.mark.slow
@pytest.mark.parametrize("source", [["rows.csv"], ["--sql", "SELECT * FROM 'rows.parquet'"], ["rows.p*"]])
def test_every_source_gives_the_same_seeded_release(work, simplexdp, source):
    assert simplexdp(*DISTRIBUTION, "rows.parquet", "--seed", 5, "--out", "a.json").code == 0
    assert simplexdp(*DISTRIBUTION, *source, "--seed", 5, "--out", "b.json").code == 0
    one, other = Release.read("a.json"), Release.read("b.json")
    assert one.values.tolist() == other.values.tolist()
    assert not one.private
    unseeded = simplexdp(*DISTRIBUTION, *source, "--out", "c.json")
    assert unseeded.code == 0
    assert Release.read("c.json").private


def test_a_query_that_selects_rows_needs_a_private_or_a_declared_size(work, simplexdp):
    some = ("--sql", "SELECT * FROM 'rows.parquet' WHERE smoker = 'no'")
    refused = simplexdp(*DISTRIBUTION, *some, "--out", "a.json")
    assert refused.code != 0
    assert "add-remove" in refused.err
    assert "--public-size" in refused.err
    assert not Path("a.json").exists()
    assert simplexdp(*DISTRIBUTION, *some, "--neighbours", "add-remove", "--out", "a.json").code == 0
    assert Release.read("a.json").total is None
    assert simplexdp(*DISTRIBUTION, *some, "--public-size", "--out", "b.json").code == 0
    assert Release.read("b.json").private
    assert simplexdp(*DISTRIBUTION, "rows.parquet", "--public-size", "--out", "c.json").code != 0


def test_what_is_not_understood_is_declared_word_for_word(work, simplexdp):
    joined = ("--sql", "SELECT a.* FROM 'rows.parquet' a SEMI JOIN 'rows.parquet' b ON a.smoker = b.smoker")
    refused = simplexdp(*DISTRIBUTION, *joined, "--out", "a.json")
    assert refused.code != 0
    assert "a join" in refused.err
    assert "--one-record-per-row" in refused.err
    declared = (*joined, "--one-record-per-row", "--public-size", "--out", "b.json", "--json")
    made = json.loads(simplexdp(*DISTRIBUTION, *declared).out)
    assert made["certificate"]["declarations"] == [
        "the curator declares that each row of this query comes from one record",
        "the curator declares that the number of rows of this query is public",
    ]
    assert "each row of this query comes from one record" in simplexdp("inspect", "b.json").out.replace("\n", " ")
    assert simplexdp(*DISTRIBUTION, "rows.parquet", "--one-record-per-row", "--out", "c.json").code != 0


def test_json_says_what_was_written(work, simplexdp):
    ran = simplexdp(*DISTRIBUTION, "rows.parquet", "--out", "out.json", "--json", "--seed", 1)
    assert ran.code == 0
    assert ran.data["out"] == "out.json"
    assert ran.data["kind"] == "release"
    assert ran.data["private"] is False
    assert "seed" in ran.data["certificate"]["not_private"][0]


@pytest.mark.slow
def test_naive_bayes_from_files(work, simplexdp):
    ran = simplexdp("fit", "nb", "rows.csv", "--schema", "schema.yaml", "--target", "ill", *BUDGET, "--out", "nb.json")
    assert ran.code == 0, ran.err
    model = NaiveBayesModel.read("nb.json")
    assert model.features == ("smoker", "age", "region")
    assert model.private
    some = ("fit", "nb", "rows.csv", "--schema", "schema.yaml", "--target", "ill", "--features", "age,smoker")
    assert simplexdp(*some, *BUDGET, "--split", "1,2", "--out", "few.json").code == 0
    assert NaiveBayesModel.read("few.json").features == ("age", "smoker")


@pytest.mark.slow
@pytest.mark.parametrize("form", ["text", "edges", "parents", "bif"])
def test_a_network_from_every_form_of_graph(work, simplexdp, form):
    graph = {
        "text": "smoker->ill, age->ill, region",
        "edges": "edges.json",
        "parents": "parents.json",
        "bif": "graph.bif",
    }[form]
    Path("edges.json").write_text(json.dumps([["smoker", "ill"], ["age", "ill"]]))
    Path("parents.json").write_text(json.dumps({"parents": {"ill": ["smoker", "age"], "region": []}}))
    Path("graph.bif").write_text(
        "network g {}\n"
        + "".join(f"variable {v} {{ type discrete [ 2 ] {{ a, b }}; }}\n" for v in ("smoker", "age", "ill"))
        + "probability ( smoker ) { table 0.5, 0.5; }\nprobability ( age ) { table 0.5, 0.5; }\n"
        "probability ( ill | smoker, age ) { (a, a) 0.5, 0.5; (a, b) 0.5, 0.5; (b, a) 0.5, 0.5; (b, b) 0.5, 0.5; }\n"
    )
    ran = simplexdp(
        "fit", "bn", "rows.parquet", "--schema", "schema.yaml", "--graph", graph, *BUDGET, "--out", "bn.json"
    )
    assert ran.code == 0, ran.err
    model = BayesianNetworkModel.read("bn.json")
    assert model.graph.parents("ill") == ("smoker", "age")
    assert ("region" in model.columns) == (form in ("text", "parents"))


def test_persons_are_the_unit_when_asked_for(work, simplexdp):
    ran = simplexdp(
        *DISTRIBUTION, "rows.parquet", "--person", "person", "--rows-per-person", 2, "--out", "out.json", "--json"
    )
    assert ran.code == 0, ran.err
    release = Release.read("out.json")
    assert (release.unit, release.guarantee.rows, release.total) == ("person", 2, None)


def test_a_ledger_is_charged_once_and_refuses_what_it_cannot_pay(work, simplexdp):
    assert simplexdp("ledger", "create", "l.db", "--epsilon", 2.2, "--delta", 1e-6).code == 0
    paid = ("--ledger", "l.db", "--dataset", "clinic")
    unknown = simplexdp(*DISTRIBUTION, "rows.parquet", *paid, "--out", "a.json")
    assert unknown.code == 2
    assert "ledger register" in unknown.err
    done = simplexdp("ledger", "register", "l.db", "clinic", "rows.parquet", "--schema", "schema.yaml")
    assert (done.code, done.err) == (0, "")
    assert simplexdp(*DISTRIBUTION, "rows.parquet", *paid, "--out", "a.json").code == 0
    before = contents(work)
    refused = simplexdp(*DISTRIBUTION, "rows.parquet", *paid, "--out", "b.json")
    assert refused.code == 2
    assert "left" in refused.err
    assert contents(work) == before
    kinds = [entry.kind for entry in Ledger.open("l.db").entries()]
    assert kinds == ["open", "register", "charge", "seal"]


def test_an_existing_file_is_kept_and_costs_nothing(work, simplexdp):
    Path("out.json").write_text("mine")
    simplexdp("ledger", "create", "l.db", "--epsilon", 5, "--delta", 1e-6)
    fit = (*DISTRIBUTION, "rows.parquet", "--ledger", "l.db", "--dataset", "clinic", "--out", "out.json")
    ran = simplexdp(*fit)
    assert ran.code == 2
    assert "--force" in ran.err
    assert Path("out.json").read_text() == "mine"
    assert [entry.kind for entry in Ledger.open("l.db").entries()] == ["open"]
    assert simplexdp("ledger", "register", "l.db", "clinic", "rows.parquet", "--schema", "schema.yaml").code == 0
    assert simplexdp(*fit, "--force").code == 0
    assert Release.read("out.json").private


REFUSED = {
    "no budget": ("rows.parquet", "--schema", "schema.yaml", "--columns", "ill"),
    "half a budget": ("rows.parquet", "--schema", "schema.yaml", "--columns", "ill", "--epsilon", "1"),
    "no such file": ("none.parquet", "--schema", "schema.yaml", "--columns", "ill", *BUDGET),
    "no such schema": ("rows.parquet", "--schema", "none.yaml", "--columns", "ill", *BUDGET),
    "no such column": ("rows.parquet", "--schema", "schema.yaml", "--columns", "sick", *BUDGET),
    "two sources": ("rows.parquet", "--sql", "SELECT 1", "--schema", "schema.yaml", "--columns", "ill", *BUDGET),
    "no source": ("--schema", "schema.yaml", "--columns", "ill", *BUDGET),
    "bad sql": ("--sql", "SELEC", "--schema", "schema.yaml", "--columns", "ill", *BUDGET),
    "bad mechanism": ("rows.parquet", "--schema", "schema.yaml", "--columns", "ill", *BUDGET, "--mechanism", "magic"),
    "bad estimate": ("rows.parquet", "--schema", "schema.yaml", "--columns", "ill", *BUDGET, "--estimate", "magic"),
    "bad relation": ("rows.parquet", "--schema", "schema.yaml", "--columns", "ill", *BUDGET, "--neighbours", "all"),
    "bad number": ("rows.parquet", "--schema", "schema.yaml", "--columns", "ill", "--epsilon", "one"),
    "undeclared value": ("rows.parquet", "--schema", "narrow.yaml", "--columns", "note", *BUDGET),
    "undeclared in csv": ("rows.csv", "--schema", "narrow.yaml", "--columns", "note", *BUDGET),
    "wrong type": ("rows.csv", "--schema", "wrong.yaml", "--columns", "note", *BUDGET),
    "person alone": ("rows.parquet", "--schema", "schema.yaml", "--columns", "ill", *BUDGET, "--person", "person"),
    "ledger alone": ("rows.parquet", "--schema", "schema.yaml", "--columns", "ill", *BUDGET, "--ledger", "l.db"),
    "no such option": ("rows.parquet", "--colums", "ill"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refusals_are_one_line_without_a_value_and_write_nothing(work, simplexdp, name):
    Path("narrow.yaml").write_text('columns: [{name: note, values: ["fine, thanks"]}]')
    Path("wrong.yaml").write_text("columns: [{name: note, values: [1, 2]}]")
    before = contents(work)
    ran = simplexdp("fit", "distribution", *REFUSED[name], "--out", "out.json")
    assert ran.code == 2
    assert ran.out == ""
    assert ran.err.startswith("simplexdp: ")
    assert ran.err.count("\n") == 1
    assert SECRET not in ran.err
    assert "1500" not in ran.err
    assert contents(work) == before


@pytest.mark.parametrize("out", ["nowhere/out.json", "."])
def test_a_path_that_cannot_be_written_is_found_before_anything_is_read(work, simplexdp, out):
    simplexdp("ledger", "create", "l.db", "--epsilon", 5, "--delta", 1e-6)
    ran = simplexdp(*DISTRIBUTION, "rows.parquet", "--ledger", "l.db", "--dataset", "clinic", "--out", out)
    assert ran.code == 2
    assert "--out" in ran.err
    assert [entry.kind for entry in Ledger.open("l.db").entries()] == ["open"]


def test_what_was_paid_for_is_not_lost_when_the_disk_fails(work, simplexdp, monkeypatch):
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("simplexdp.cli.fit.write_file", full)
    ran = simplexdp(*DISTRIBUTION, "rows.parquet", "--out", "out.json")
    assert ran.code == 2
    assert "No space left" in ran.err
    assert Release.from_json(ran.out).private


def test_an_unexpected_error_is_told_without_its_words(work, simplexdp, monkeypatch):
    def broken(*_: object, **__: object) -> None:
        raise RuntimeError(f"row {SECRET}")

    monkeypatch.setattr("simplexdp.cli.fit.release_distribution", broken)
    ran = simplexdp(*DISTRIBUTION, "rows.parquet", "--out", "out.json")
    assert ran.code == 1
    assert "RuntimeError" in ran.err
    assert SECRET not in ran.err + ran.out
    assert ran.err.count("\n") == 1
    monkeypatch.setenv("SIMPLEXDP_DEBUG", "1")
    with pytest.raises(RuntimeError):
        simplexdp(*DISTRIBUTION, "rows.parquet", "--out", "out.json")


INTERRUPTED = """
import contextlib, sys, types
import simplexdp.cli.fit as fit
from simplexdp.ledger import Ledger

Ledger.admit = lambda *_, **__: types.SimpleNamespace(records=None)  # what never ends cannot be registered

@contextlib.contextmanager
def loud(what):
    told = []

    def tell(done, total):
        if not told:
            print("counting", flush=True)
            told.append(done)

    yield tell

fit.progress_bar = loud
from simplexdp.cli import main
main()
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGINT for one process")
def test_an_interrupted_fit_leaves_nothing_but_its_charge(work, simplexdp):
    simplexdp("ledger", "create", "l.db", "--epsilon", 5, "--delta", 1e-6)
    script = work / "script.py"  # DuckDB takes `python -c` for a terminal and draws its own bar
    script.write_text(INTERRUPTED)
    before = contents(work)
    endless = "SELECT 'no' AS smoker, range % 2 = 0 AS ill FROM range(1000000000000)"
    declared = ["--one-record-per-row", "--public-size"]
    arguments = [
        *DISTRIBUTION,
        "--sql",
        endless,
        *declared,
        "--ledger",
        "l.db",
        "--dataset",
        "clinic",
        "--out",
        "out.json",
    ]
    with subprocess.Popen(
        [sys.executable, script, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stdout.readline() == "counting\n"
            process.send_signal(signal.SIGINT)
            _, err = process.communicate(timeout=60)
        finally:
            process.kill()
    assert process.returncode == 130
    assert "interrupted" in err
    assert err.count("\n") == 1
    assert contents(work) == before
    assert [entry.kind for entry in Ledger.open("l.db").entries()] == ["open", "charge"]


@pytest.mark.slow
def test_quantiles_in_the_schema_are_resolved(work, simplexdp):
    Path("q.yaml").write_text(
        "columns: [{name: age, bins: 3, lower: 0, upper: 100}, {name: ill, values: [false, true]}]"
    )
    fits = {"distribution": ("--columns", "age"), "nb": ("--target", "ill"), "bn": ("--graph", "age->ill")}
    for kind, what in fits.items():
        ran = simplexdp("fit", kind, "rows.parquet", "--schema", "q.yaml", *what, *BUDGET, "--out", f"{kind}.json")
        assert ran.code == 0, ran.err
        assert simplexdp("sample", f"{kind}.json", "-n", 5, "--out", f"{kind}.csv").code == 0
    for kind in ("nb", "bn"):
        ran = simplexdp("predict", f"{kind}.json", "rows.csv", "--target", "ill", "--out", f"p{kind}.csv")
        assert ran.code == 0, ran.err
    release = Release.read("distribution.json")
    assert release.schema["age"].kind == "numeric"
    assert release.loss.fits(Budget(epsilon=2, delta=1e-6))
    assert BayesianNetworkModel.read("bn.json").schema["age"].kind == "numeric"


def test_many_files_are_one_source(work, simplexdp):
    rows = make_rows()
    for i in range(3):
        pq.write_table(rows.slice(500 * i, 500), f"part{i}.parquet")
    assert simplexdp(*DISTRIBUTION, "part*.parquet", "--seed", 5, "--out", "a.json").code == 0
    parts = [f"part{i}.parquet" for i in range(3)]
    assert simplexdp(*DISTRIBUTION, *parts, "--seed", 5, "--out", "b.json").code == 0
    assert Release.read("a.json").values.tolist() == Release.read("b.json").values.tolist()
    assert Release.read("a.json").total == 1500


def test_a_file_without_a_header(work, simplexdp):
    """Names by position on the command line or in the schema: the same draw as from the file with a header."""
    header, rest = Path("rows.csv").read_text(encoding="utf-8").split("\n", 1)
    Path("bare.csv").write_text(rest, encoding="utf-8")
    seeded = (*DISTRIBUTION, "--seed", 5, "--out")
    assert simplexdp(*seeded, "a.json", "rows.csv").code == 0
    assert simplexdp(*seeded, "b.json", "bare.csv", "--names", header).code == 0
    assert Release.read("a.json").values.tolist() == Release.read("b.json").values.tolist()
    refused = simplexdp(*seeded, "c.json", "bare.csv")
    assert refused.code != 0
    assert "If the file has no header, name its columns with --names" in refused.err
    assert simplexdp("ledger", "create", "ledger.db", *BUDGET, "--dataset", "people").code == 0
    asked = ("ledger", "register", "ledger.db", "people", "bare.csv", "--schema", "schema.yaml")
    known = simplexdp(*asked, "--names", header)
    assert (known.code, known.err) == (0, "")
    drafted = simplexdp("schema", "draft", "bare.csv", "--names", header)
    assert "file: {header: false}" in drafted.out
    assert '"smoker": TODO' in drafted.out
