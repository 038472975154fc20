"""`python -m tools.pictures`: reports of every kind as they look in a browser: narrow and wide, light and dark.

It makes one report of each kind on public or invented data, opens it in headless Chromium and writes a PNG for each
width and colour scheme, for people to look at. With `--pages FOLDER` it opens the HTML files of a folder, such as the
built documentation. Needs Chromium on the path; nothing is loaded from the network.
"""

from __future__ import annotations

import argparse
import html
import itertools
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
from PIL import Image, ImageChops

from simplexdp import BayesianNetwork, Budget, Ledger, NaiveBayes, Numeric, Schema, release, release_tables
from simplexdp.cli import ledger as ledger_command
from simplexdp.models.sections import Bars
from simplexdp.pictures import svg
from simplexdp.report import model_report

WIDTHS = (390, 820, 1440)
SCHEMES = {"light": 1, "dark": 0}
"""Blink's names of preferred colour schemes."""
TALL = 6000
"""Pixels of the window; what is empty below the page is cut off."""
FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--hide-scrollbars"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
    "--allow-file-access-from-files",
)
BUDGET = Budget(epsilon=1.0, delta=1e-6)


def main() -> None:
    """Write reports and their pictures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("build/pictures"), help="folder of the pictures")
    parser.add_argument("--only", help="part of a name")
    parser.add_argument("--pages", type=Path, nargs="*", help="HTML files in place of reports")
    parser.add_argument("--widths", type=int, nargs="*", default=WIDTHS)
    parser.add_argument("--result", type=Path, help="write the picture of the README there, and nothing else")
    given = parser.parse_args()
    if given.result is not None:
        given.result.write_text(result(), encoding="utf-8")
        return
    given.out.mkdir(parents=True, exist_ok=True)
    pages = {page.stem: page for page in given.pages or ()} or dict(reports(given.out, given.only or ""))
    for name, page in pages.items():
        for width, scheme in itertools.product(given.widths, SCHEMES):
            photograph(page, given.out / f"{name}-{width}-{scheme}.png", width, scheme)
            print(given.out / f"{name}-{width}-{scheme}.png")


def photograph(page: Path, out: Path, width: int, scheme: str) -> None:
    """The page as a picture: inside a frame of this width, because windows have a least width."""
    program = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if program is None:
        raise SystemExit("tools.pictures: needs Chromium on the path, such as `apt-get install chromium`")
    with tempfile.TemporaryDirectory() as folder:
        frame = Path(folder, "frame.html")
        address = html.escape(page.resolve().as_uri(), quote=True)
        frame.write_text(
            '<!doctype html><meta name="color-scheme" content="light dark"><body style="margin:0">'
            f'<iframe src="{address}" style="width:{width}px;height:{TALL}px;border:0;display:block"></iframe>',
            encoding="utf-8",
        )
        size = f"--window-size={max(width, 600)},{TALL}"
        colours = f"--blink-settings=preferredColorScheme={SCHEMES[scheme]}"
        command = [program, *FLAGS, f"--user-data-dir={folder}/profile", size, colours, "--virtual-time-budget=5000"]
        subprocess.run([*command, f"--screenshot={out}", frame.as_uri()], check=True, capture_output=True, timeout=120)
    with Image.open(out) as taken:
        picture = taken.convert("RGB").crop((0, 0, width, TALL))
    rest = ImageChops.difference(picture, Image.new("RGB", picture.size, picture.getpixel((2, TALL - 2))))
    box = rest.getbbox()
    picture.crop((0, 0, width, min(TALL, (box[3] if box else 100) + 16))).save(out)


ADMITTED = {
    "A": (512, 313, 89, 19),
    "B": (353, 207, 17, 8),
    "C": (120, 205, 202, 391),
    "D": (138, 279, 131, 244),
    "E": (53, 138, 94, 299),
    "F": (22, 351, 24, 317),
}
"""Men admitted and rejected, women admitted and rejected, by department: Science 187 (1975), 398-404."""
INK = ":root{color:#1c1c1c}@media(prefers-color-scheme:dark){:root{color:#e6e6e6}}"


def result() -> str:
    """The shares of applicants who were admitted, by department and sex, as a picture that stands alone."""
    counts = [[[men_no, men], [women_no, women]] for men, men_no, women, women_no in ADMITTED.values()]
    schema = Schema.of(department=list(ADMITTED), sex=["men", "women"], admitted=["no", "yes"])
    rows = [
        (department, sex, decision)
        for department, table in zip(ADMITTED, counts, strict=True)
        for sex, line in zip(("men", "women"), table, strict=True)
        for decision, count in zip(("no", "yes"), line, strict=True)
        for _ in range(count)
    ]
    named = dict(zip(schema.names, map(list, zip(*rows, strict=True)), strict=True))
    tables = release_tables(pa.table(named), schema, [("department", "sex", "admitted")], budget=BUDGET)
    answer = tables.share("admitted", by=["department", "sex"])
    kept = [i for i, label in enumerate(answer.labels) if label[-1] == "yes"]
    drawn = Bars(
        labels=[f"{answer.labels[i][0]}, {answer.labels[i][1]}" for i in kept],
        values=answer.estimate[kept],
        lower=answer.low[kept],
        upper=answer.high[kept],
        title="Share admitted, by department and sex",
        unit="share; whiskers: 95 % intervals; epsilon = 1, delta = 1e-6",
    )
    start, rest = svg(drawn).split(">", 1)
    return f"{start}><style>{INK}</style>{rest}\n"


def reports(folder: Path, only: str) -> Iterator[tuple[str, Path]]:
    """One report of each kind."""
    for name, make in MAKERS.items():
        if only in name:
            path = folder / f"{name}.html"
            path.unlink(missing_ok=True)
            text = make(path)
            if text is not None:
                path.write_text(text, encoding="utf-8")
            yield name, path


def _people(rows: int = 20_000) -> tuple[pa.Table, Schema]:
    """Invented patients, with long labels and many cells where these tend to break pictures."""
    rng = np.random.default_rng(7)
    age = rng.beta(2, 3, rows) * 100
    smoker = rng.random(rows) < 0.35 - 0.002 * age
    ill = rng.random(rows) < 0.03 + 0.004 * age + 0.2 * smoker
    wards = ["internal medicine and geriatrics", "surgery", "paediatrics", "emergency", "neurology", "oncology", "ENT"]
    status = ["single", "married or in a partnership", "divorced", "widowed"]
    columns = {
        "age": age,
        "smoker": np.where(smoker, "yes", "no"),
        "ill": np.where(ill, "yes", "no"),
        "ward": rng.choice(wards, rows, p=[0.3, 0.2, 0.1, 0.15, 0.1, 0.1, 0.05]),
        "status": rng.choice(status, rows, p=[0.4, 0.4, 0.12, 0.08]),
    }
    schema = Schema.of(
        age=Numeric([0, 18, 30, 45, 60, 75, 100], outside="nearest"),
        smoker=["no", "yes"],
        ill=["no", "yes"],
        ward=wards,
        status=status,
    )
    return pa.table(columns), schema


def _single(_: Path) -> str:
    _table, schema = _people(10)
    counts = [5210, 4020, 2030, 3011, 1980, 2001, 17]
    return model_report(release(counts, budget=BUDGET, schema=schema.select(["ward"])), dataset="clinic 2026")


def _crossed(_: Path) -> str:
    table, schema = _people()
    return model_report(release_tables(table, schema, [("ward", "age")], budget=BUDGET))


def _many(_: Path) -> str:
    rng = np.random.default_rng(1)
    names = [f"question {i + 1}" for i in range(15)]
    answers = [f"answer {j}" for j in range(5)]
    table = pa.table({name: rng.choice(answers, 5000, p=[0.4, 0.25, 0.2, 0.1, 0.05]) for name in names})
    schema = Schema.of(**dict.fromkeys(names, answers))
    return model_report(release_tables(table, schema, list(itertools.combinations(names, 2)), budget=BUDGET))


def _bayes(_: Path) -> str:
    table, schema = _people()
    return model_report(NaiveBayes(schema=schema, target="ill", budget=BUDGET).fit_source(table).model)


def _network(_: Path) -> str:
    table, schema = _people()
    graph = {"smoker": ["age"], "ill": ["age", "smoker"], "ward": ["ill", "age"], "status": ["age"]}
    return model_report(BayesianNetwork(graph, schema, budget=BUDGET).fit(table).model)


def _exact(_: Path) -> str:
    return model_report(release([119, 74, 618, 272, 13, 187], budget=BUDGET, entropy=1))


def _ledger(out: Path) -> None:
    file = out.with_suffix(".db")
    file.unlink(missing_ok=True)
    ledger = Ledger.open(file, budget=Budget(epsilon=3.0, delta=1e-6))
    for epsilon, dataset in ((0.5, "clinic 2026"), (1.0, "clinic 2026"), (0.25, "survey 2025")):
        release([119, 74, 618], budget=Budget(epsilon=epsilon, delta=1e-7), ledger=ledger, dataset=dataset)
    ledger_command.report(file, out, None, True)


MAKERS: dict[str, Callable[[Path], str | None]] = {
    "table": _single,
    "cross": _crossed,
    "many": _many,
    "bayes": _bayes,
    "network": _network,
    "seeded": _exact,
    "ledger": _ledger,
}


if __name__ == "__main__":
    main()
