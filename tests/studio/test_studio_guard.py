"""Who may speak to the studio, and what its answers say to browsers."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from studios import HOST, ORIGIN, TOKEN, Browser, browsing, make

import simplexdp.studio
from simplexdp.studio.guard import HEADERS, MAX_BODY


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Any:
    with browsing(make(tmp_path_factory.mktemp("guard"))) as found:
        yield found


@pytest.mark.parametrize(
    ("path", "headers", "status"),
    [
        (f"/{TOKEN}/", {}, 200),
        ("/", {}, 403),
        ("/wrong/", {}, 403),
        (f"/{TOKEN}x/", {}, 403),
        (f"/{TOKEN}/", {"host": "localhost:8123"}, 421),
        (f"/{TOKEN}/", {"host": "127.0.0.1:8124"}, 421),
        (f"/{TOKEN}/", {"host": "evil.example"}, 421),
        (f"/{TOKEN}/", {"origin": "http://127.0.0.1:9999"}, 403),
        (f"/{TOKEN}/", {"origin": "null"}, 403),
        (f"/{TOKEN}/", {"sec-fetch-site": "cross-site"}, 403),
        (f"/{TOKEN}/", {"sec-fetch-site": "same-site"}, 403),
        (f"/{TOKEN}/", {"sec-fetch-site": "same-origin"}, 200),
        (f"/{TOKEN}/static/studio.js", {}, 200),
        ("/static/studio.js", {}, 403),
        (f"/{TOKEN}/static/../server.py", {}, 404),
        (f"/{TOKEN}/static/%2e%2e/server.py", {}, 404),
    ],
)
def test_what_is_let_in(browser: Browser, path: str, headers: dict[str, str], status: int) -> None:
    assert browser.client.get(path, headers=headers).status_code == status


@pytest.mark.parametrize("origin", [None, "null", "http://localhost:8123", "https://127.0.0.1:8123", f"{ORIGIN}.evil"])
def test_a_form_needs_the_origin_of_the_studio(browser: Browser, origin: str | None) -> None:
    client = browser.client
    headers = {} if origin is None else {"origin": origin}
    request = client.build_request("POST", f"/{TOKEN}/new", data={"file": "clinic.csv"}, headers=headers)
    if origin is None:
        del request.headers["origin"]
    assert client.send(request).status_code == 403


def test_other_methods_and_large_or_strange_bodies_are_refused(browser: Browser) -> None:
    client = browser.client
    assert client.put(f"/{TOKEN}/").status_code == 405
    assert client.delete(f"/{TOKEN}/").status_code == 405
    assert client.post(f"/{TOKEN}/new", json={"file": "clinic.csv"}).status_code == 415
    assert client.post(f"/{TOKEN}/new", data={"path": "x" * (MAX_BODY + 1)}).status_code == 413
    assert client.post(f"/{TOKEN}/new", data={f"f{i}": "" for i in range(6000)}).status_code == 400


@pytest.mark.parametrize(
    "path", [f"/{TOKEN}/", "/", f"/{TOKEN}/nothing", f"/{TOKEN}/static/studio.css", f"/{TOKEN}/ledger"]
)
def test_every_answer_has_the_headers(browser: Browser, path: str) -> None:
    headers = browser.client.get(path).headers
    assert {name: headers.get(name) for name in HEADERS} == HEADERS
    policy = headers["content-security-policy"]
    assert policy.startswith("default-src 'none'")
    assert not re.search(r"unsafe|https?:|\*", policy)


def test_no_page_asks_for_anything_elsewhere_or_has_code_in_it() -> None:
    folder = Path(simplexdp.studio.__file__).parent
    texts = {path.name: path.read_text(encoding="utf-8") for path in folder.rglob("*.html")}
    texts |= {path.name: path.read_text(encoding="utf-8") for path in folder.glob("static/*")}
    assert len(texts) > 15
    for name, text in texts.items():
        away = [url for url in re.findall(r"(?:https?:)?//[\w.]+\.[\w./]+", text) if "www.w3.org" not in url]
        assert away == [], name
        if name.endswith(".html"):
            assert not re.search(r"\son\w+=|\sstyle=|<style|javascript:|<script(?![^>]*src=)", text), name


def test_the_token_is_long_and_told_to_nobody(tmp_path: Path) -> None:
    from simplexdp.studio import Settings

    settings = Settings(folder=tmp_path)
    assert len(settings.token) >= 32
    assert settings.token not in repr(settings)
    assert settings.token != Settings(folder=tmp_path).token


def test_an_unexpected_error_is_told_without_its_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    from simplexdp.studio import steps

    def broken(_: Any) -> Any:
        raise ZeroDivisionError("Zaphod4711")

    monkeypatch.setattr(steps, "files_of", broken)
    with browsing(make(tmp_path / "x")) as found:
        answer = found.get("/")
    said = capfd.readouterr()
    assert answer.status_code == 500
    assert "ZeroDivisionError" in said.err
    assert "Zaphod4711" not in answer.text + said.out + said.err
    assert HOST == "127.0.0.1:8123"
