"""The tutorials: every block of Python and every command runs as a reader meets it; notebooks are the same."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tools.walks import DOCS, TUTORIALS, Block, Output, Walk, blocks, cells, notebook, pages, text_of

from simplexdp import Budget, Gaussian, Laplace

NAMES = [path.stem for path in pages()]


def test_there_is_a_tutorial_for_each_door_with_a_notebook() -> None:
    assert set(NAMES) == {"publish", "models", "budget"}
    index = (DOCS / "index.md").read_text(encoding="utf-8")
    assert all(f"(tutorials/{name}.md)" in index for name in NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_the_notebook_is_that_of_the_page(name: str) -> None:
    page = (TUTORIALS / f"{name}.md").read_text(encoding="utf-8")
    kept = (TUTORIALS / f"{name}.ipynb").read_text(encoding="utf-8")
    assert kept == text_of(notebook(page)), "run `python -m tools.walks`"
    assert f"{name}.ipynb" in page
    for cell in json.loads(kept)["cells"]:
        assert "{run}" not in "".join(cell["source"])
        assert not cell.get("outputs")


def walked(found: list[Block]) -> list[Output]:
    with Walk() as walk:
        return [walk.step(block) for block in found]


SHOWN = {
    "publish": ["PRIVATE", "department × sex × admitted", '"department","admitted"', "Asked for (1, 1e-06)-DP"],
    "models": ["log loss 0.", "13 tables, ", "predicted for 4,190 rows", "5,000 synthetic records"],
    "budget": [
        "Every row obeys the schema",
        "budget",  # of the refusal
        "intact: 8 entries",
        "last.json was paid for by entry 6",
        "Data set: applicants. Paid for by entry 6 of office.db",
        "True True",
    ],
}


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_every_cell_of_the_notebook_runs(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing but the page is known to who runs it; a refusal that the page shows is a refusal."""
    monkeypatch.setenv("COLUMNS", "100")
    kept = json.loads((TUTORIALS / f"{name}.ipynb").read_text(encoding="utf-8"))
    outputs = walked(list(cells(kept)))
    assert len(outputs) >= 7
    text = "\n".join(output.text for output in outputs)
    for said in SHOWN[name]:
        assert said in text, said
    assert any("<svg " in output.html for output in outputs)  # the walk has its pictures
    assert not re.search(r"NOT PRIVATE|Traceback", text)


@pytest.mark.slow
@pytest.mark.parametrize("page", ["choosing", "index"])
def test_other_pages_with_code_run(page: str) -> None:
    found = [block for block in blocks((DOCS / f"{page}.md").read_text(encoding="utf-8")) if block.kind != "text"]
    assert found
    assert any("<svg " in output.html for output in walked(found))


def test_the_risks_on_the_page_about_choosing_are_those_of_the_library() -> None:
    page = (DOCS / "choosing.md").read_text(encoding="utf-8")
    gaussian, laplace = (kind.calibrate(Budget(epsilon=1, delta=1e-6)).loss() for kind in (Gaussian, Laplace))
    assert gaussian.posterior() < 0.55 < laplace.posterior()  # what the hospital decides on
    assert Laplace.calibrate(Budget(epsilon=8, delta=1e-6)).loss().posterior() > 0.98
    growth = (
        Gaussian.calibrate(Budget(epsilon=1, delta=1e-9)).sigma
        / Gaussian.calibrate(Budget(epsilon=1, delta=1e-6)).sigma
    )
    assert 1.25 < growth < 1.35
    assert "grows by less than a third" in page
    assert "55 %" in page


def test_a_walk_stops_at_what_fails_and_runs_nothing_else(tmp_path: Path) -> None:
    with Walk() as walk:
        assert walk.step(Block(kind="run", source="x = 2\nx + 1")).text == "3\n"
        with pytest.raises(ZeroDivisionError):
            walk.step(Block(kind="run", source="1 / 0"))
        with pytest.raises(RuntimeError, match="ended with 2"):
            walk.step(Block(kind="shell", source="simplexdp inspect none.json"))
        assert "none.json" in walk.step(Block(kind="shell", source="simplexdp inspect none.json # exit 2")).text
        with pytest.raises(ValueError, match="commands of simplexdp"):
            walk.step(Block(kind="shell", source="ls"))
    made = notebook("# A\n\n```{run}\n:hide:\nx = 1\n```\n\n```{shell}\nsimplexdp a \\\n  --b\n```\n")
    assert [cell["cell_type"] for cell in made["cells"]] == ["markdown", "code", "code"]
    assert [block.source for block in cells(made)] == ["x = 1", "simplexdp a    --b"]


def test_every_page_is_in_the_table_of_contents_and_proofs_come_last() -> None:
    trees = re.findall(r"```\{toctree\}\n(.*?)```", (DOCS / "index.md").read_text(encoding="utf-8"), re.DOTALL)
    listed = [line for tree in trees for line in tree.splitlines() if line and not line.startswith(":")]
    assert listed[-1] == "proofs/index"
    inner = re.findall(r"```\{toctree\}\n(.*?)```", (TUTORIALS / "index.md").read_text(encoding="utf-8"), re.DOTALL)
    listed += [line.removeprefix("../") for line in inner[0].splitlines() if line and not line.startswith(":")]
    pages_ = {path.stem for path in DOCS.glob("*.md")} - {"index"}
    assert pages_ <= set(listed)


def test_formulas_need_no_network() -> None:
    conf = (DOCS / "conf.py").read_text(encoding="utf-8")
    assert '"sphinx-mathjax-offline"' in conf
    assert not re.search(r"https?://", conf)


README = (DOCS.parent / "README.md").read_text(encoding="utf-8")


@pytest.mark.slow
def test_the_examples_of_the_readme_run() -> None:
    rng = np.random.default_rng(0)
    table = pa.table(
        {"age": rng.integers(0, 100, 600), "smoker": ["no", "yes"] * 300, "ill": ["no", "no", "yes"] * 200}
    )
    frame = table.to_pandas()
    python = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    shell = re.sub(r"  +#.*", "", README.split("## Guard a budget\n\n```\n")[1].split("```")[0])
    assert len(python) == 2
    with Walk() as walk:
        folder = Path(walk.folder.name)
        (folder / "patients").mkdir()
        for name in ("patients/part.parquet", "patients.parquet"):
            pq.write_table(table, folder / name)
        walk.names |= {"X": frame[["age", "smoker"]], "y": frame["ill"]}
        outputs = [walk.step(Block(kind="run", source=block)) for block in (*python, 'schema.write("schema.yaml")')]
        said = walk.step(Block(kind="shell", source=shell)).text
    assert "Assumed to be public" in outputs[0].text
    assert "<svg " in outputs[1].html
    assert "Written to tables.html" in said


def test_the_readme_is_short_and_shows_a_picture() -> None:
    assert len(README.encode()) <= 7884 / 2  # half of what it was
    (picture,) = re.findall(r"!\[[^]]+\]\((\S+\.svg)\)", README)
    text = (DOCS.parent / picture).read_text(encoding="utf-8")
    assert "B, women: 0." in text
    assert "prefers-color-scheme:dark" in text
    assert all(command in README for command in ("make demo", "make test"))
