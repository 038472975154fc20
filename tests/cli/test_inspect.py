from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from cli_support import BUDGET, contents

from simplexdp import Numeric, Release, Schema
from simplexdp.errors import Infeasible

KINDS = {"dist": "release", "nb": "naive-bayes", "bn": "bayesian-network"}


@pytest.mark.slow
def test_a_release_says_its_probabilities_and_its_promise(trained, simplexdp):
    file = "dist.json"
    ran = simplexdp("inspect", file, "--cells", 3)
    assert (ran.code, ran.err) == (0, "")
    assert "3 most probable of 8" in " ".join(ran.out.split())
    assert "\nPRIVATE\n" in ran.out
    assert "Assumed to be public" in ran.out
    data = simplexdp("inspect", file, "--json").data
    release = Release.read(file)
    assert data["kind"] == "release"
    assert [cell["probability"] for cell in data["cells"]] == release.probabilities.ravel().tolist()
    assert data["cells"][0]["cell"] == "no, [0, 18)"
    assert all(cell["lower"] <= cell["probability"] <= cell["upper"] for cell in data["cells"])
    assert data["certificate"]["private"] is True


@pytest.mark.slow
@pytest.mark.parametrize("name", ["nb", "bn"])
def test_models_say_what_they_hold(trained, simplexdp, name):
    file = f"{name}-seeded.json"
    ran = simplexdp("inspect", file)
    assert ran.code == 0, ran.err
    assert "smoker" in ran.out
    assert "NOT PRIVATE" in ran.out
    one = simplexdp("inspect", file, "--column", "smoker")
    assert re.search(r"P\(smoker", one.out)
    data = simplexdp("inspect", file, "--json").data
    assert data["kind"] == KINDS[name]
    if name == "nb":
        assert sum(data["class_probabilities"]) == pytest.approx(1)
        assert next(iter(data["features"])) == "smoker"  # the only one that says anything
        tables = [np.array(feature["given_class"]) for feature in data["features"].values()]
    else:
        assert data["nodes"]["ill"]["parents"] == ["smoker"]
        assert data["nodes"]["ill"]["information"] > 0.02
        tables = [np.array(node["table"]) for node in data["nodes"].values()]
    for table in tables:
        np.testing.assert_allclose(table.sum(axis=-1), 1, rtol=1e-9)


BEGINNINGS = {"png": b"\x89PNG", "svg": b"<?xml", "pdf": b"%PDF", "html": b"<!doctype html>"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "suffix"), [*((n, "html") for n in KINDS), ("dist", "png"), ("nb", "svg"), ("bn", "pdf")]
)
def test_pictures_are_what_their_ending_says(trained, simplexdp, name, suffix):
    ran = simplexdp("inspect", f"{name}.json", "--plot", f"p.{suffix}")
    assert ran.code == 0, ran.err
    content = Path(f"p.{suffix}").read_bytes()
    assert content.startswith(BEGINNINGS[suffix])
    if suffix == "html":
        assert_self_contained(content.decode())
        assert "PRIVATE" in content.decode()


@pytest.mark.slow
def test_a_network_too_large_for_exact_inference_is_shown_without_it(trained, simplexdp, monkeypatch):
    def too_large(*_: object) -> None:
        raise Infeasible("too large")

    monkeypatch.setattr("simplexdp.models.bayesian_network.BayesianNetworkModel.marginal", too_large)
    assert simplexdp("inspect", "bn.json").code == 0
    data = simplexdp("inspect", "bn.json", "--plot", "p.html", "--json").data
    assert data["nodes"]["ill"]["information"] is None
    assert data["nodes"]["smoker"]["information"] == 0
    assert Path("p.html").exists()


@pytest.mark.slow
def test_one_table_of_a_model_as_a_picture(trained, simplexdp):
    for name in ("nb", "bn"):
        ran = simplexdp("inspect", f"{name}.json", "--column", "smoker", "--plot", f"{name}.png", "--json")
        assert ran.code == 0, ran.err
        assert ran.data["kind"] == KINDS[name]  # the JSON stays alone on standard output
        assert Path(f"{name}.png").stat().st_size > 1000


@pytest.mark.slow
def test_markup_in_names_is_text_in_the_report(work, simplexdp):
    Path("evil.yaml").write_text(
        "columns: [{name: smoker, values: ['no', 'yes', '<script>x</script>', '$a$', '[red]']}]"
    )
    fit = ("fit", "distribution", "rows.parquet", "--schema", "evil.yaml", "--columns", "smoker", *BUDGET)
    assert simplexdp(*fit, "--out", "e.json").code == 0
    ran = simplexdp("inspect", "e.json", "--plot", "e.html")
    assert ran.code == 0, ran.err
    assert "[red]" in ran.out
    assert "<script" not in Path("e.html").read_text()


def assert_self_contained(text: str) -> None:
    assert "<script" not in text
    assert "<link" not in text
    for address in re.findall(r'(?:src|href)="([^"]*)"', text):
        assert address.startswith(("data:", "#"))  # its own data, or a place on the page


@pytest.mark.parametrize(
    "arguments",
    [
        ("none.json",),
        ("rows.parquet",),
        ("schema.yaml",),
        ("dist.json", "--level", "2"),
        ("dist.json", "--column", "age"),
        ("dist.json", "--plot", "p.gif"),
        ("dist.json", "--plot", "nowhere/p.png"),
        ("nb.json", "--column", "colour"),
        ("nb.json", "--plot", "rows.parquet"),
    ],
)
def test_refusals(trained, simplexdp, arguments):
    before = contents(trained)
    ran = simplexdp("inspect", *arguments)
    assert ran.code == 2
    assert ran.err.startswith("simplexdp: ")
    assert ran.err.count("\n") == 1
    assert contents(trained) == before


def test_merged_bins_are_named(work, simplexdp):
    Schema.of(x=Numeric(range(11)), y=["no", "yes"]).write("bins.yaml")
    Path("bins.csv").write_text("x,y\n" + "".join(f"{i % 10},{'yes' if i % 3 else 'no'}\n" for i in range(200)))
    fit = ("fit", "nb", "bins.csv", "--schema", "bins.yaml", "--target", "y", "--epsilon", 0.01, "--order", 5)
    assert simplexdp(*fit, "--out", "few.json").code == 0
    assert simplexdp(*fit, "--no-merge-bins", "--out", "all.json").code == 0
    assert "x (4 of 10 cells)" in " ".join(simplexdp("inspect", "few.json").out.split())
    assert simplexdp("inspect", "few.json", "--json").data["released_cells"] == {"x": 4}
    assert "merged" not in simplexdp("inspect", "all.json").out
    assert simplexdp("predict", "few.json", "bins.csv", "--out", "p.csv").code == 0
    assert simplexdp("audit", "few.json", "--draws", 2000).code == 0
