"""Studios for tests: a folder with rows that hold canaries, and a browser without one."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
from starlette.testclient import TestClient

from simplexdp.studio import Settings, create_app

TOKEN, PORT = "t0k3n", 8123
HOST = f"127.0.0.1:{PORT}"
ORIGIN = f"http://{HOST}"
CANARY, NUMBER = "Zaphod4711", 471147
SCHEMA = """columns:
  age: {edges: [0, 18, 65, 120], integer: true, outside: nearest}
  smoker: {values: ["no", "yes"], other: cell, missing: cell}
  ill: ["no", "yes"]
"""
Fields = Mapping[str, str | Sequence[str]]


def make(folder: Path, rows: int = 400) -> Path:
    """A folder with rows of which the schema does not know everything."""
    folder.mkdir(parents=True, exist_ok=True)
    draws = np.random.default_rng(5)
    smoker = draws.choice(["no", "yes"], rows)
    smoker[::50] = CANARY
    age = draws.integers(0, 120, rows)
    age[::70] = NUMBER
    columns = {"age": age, "smoker": smoker, "ill": draws.choice(["no", "yes"], rows)}
    columns["secret"] = np.array([f"{CANARY}-{i}" for i in range(rows)])
    pyarrow.csv.write_csv(pa.table({name: pa.array(column) for name, column in columns.items()}), folder / "clinic.csv")
    (folder / "clinic.schema.yaml").write_text(SCHEMA, encoding="utf-8")
    return folder


class Browser:
    """Follows forms as a browser without scripts does, and keeps all that it was sent."""

    def __init__(self, folder: Path, role: Any = "officer") -> None:
        self.app = create_app(Settings(folder=folder, role=role, token=TOKEN, port=PORT))
        self.studio = self.app.studio
        headers = {"host": HOST, "origin": ORIGIN}
        self.client = TestClient(self.app, base_url=ORIGIN, headers=headers, follow_redirects=False)
        self.seen: list[str] = []

    def get(self, path: str, **headers: str) -> Any:
        """A page."""
        found = self.client.get(f"/{TOKEN}{path}", headers=headers)
        self.seen.append(found.text)
        return found

    def post(self, path: str, fields: Fields | None = None) -> Any:
        """A form."""
        found = self.client.post(f"/{TOKEN}{path}", data=dict(fields or {"_": ""}))
        self.seen.append(found.text)
        return found

    def goes(self, path: str, fields: Fields | None = None) -> str:
        """Where a form leads."""
        found = self.post(path, fields)
        assert found.status_code == 303, errors(found.text) or found.text[-2000:]
        return str(found.headers["location"]).removeprefix(f"/{TOKEN}")

    def planned(self, question: Fields | None = None, unit: Fields | None = None, **said: str) -> str:
        """A request as far as its budget: its address."""
        place = self.goes("/new", {"file": said.pop("file", "clinic.csv"), **said}).rpartition("/")[0]
        self.goes(f"{place}/columns", self.fields(f"{place}/columns") | {"action": "next"})
        self.goes(f"{place}/question", question or {"kind": "table", "columns": ["smoker", "ill"]})
        self.goes(f"{place}/unit", unit or {"unit": "row", "neighbours": "replace-one"})
        return place

    def fields(self, path: str, form: str = "") -> dict[str, str]:
        """What the page's forms would send: hidden and filled fields, chosen options."""
        text = self.get(path).text
        if form:
            text = text[text.index(form) :].partition("</form>")[0]
        found = {
            n: unescaped(v)
            for n, v in re.findall(
                r'<input(?! type="(?:checkbox|radio|range)")[^>]*?name="([^"]+)" [^>]*?value="([^"]*)"', text
            )
        }
        found |= {n: unescaped(v) for v, n in re.findall(r'<input[^>]*?value="([^"]*)"[^>]*?name="([^"]+)"', text)}
        for name, inside in re.findall(r'<select[^>]*?name="([^"]+)"[^>]*>(.*?)</select>', text, re.DOTALL):
            chosen = re.search(r'value="([^"]*)" selected', inside)
            found[name] = unescaped(chosen[1]) if chosen else ""
        return found

    def spend(self, place: str, **said: str) -> Any:
        """Press the button, with what the page holds."""
        query = "&".join(f"{name}={value}" for name, value in said.items())
        fields = self.fields(f"{place}/budget" + (f"?{query}" if query else ""), 'class="spend')
        return self.post(f"{place}/spend", fields)

    def finish(self, place: str) -> str:
        """Wait for the work, and see its page."""
        key = place.rpartition("/")[2]
        over = self.studio.spender._over.get(key)
        if over is not None:
            assert over.wait(60)
        return str(self.get(place).text)


def unescaped(text: str) -> str:
    """What a browser makes of an attribute."""
    import html

    return html.unescape(text)


def errors(text: str) -> list[str]:
    """The errors on a page."""
    return [unescaped(found) for found in re.findall(r'class="error"[^>]*>(.*?)</p>', text, re.DOTALL)]


@contextmanager
def browsing(folder: Path, role: Any = "officer") -> Iterator[Browser]:
    """A studio that is closed at the end."""
    found = Browser(folder, role)
    try:
        yield found
    finally:
        found.studio.close()
