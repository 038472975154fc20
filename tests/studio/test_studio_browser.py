"""The walks in a real browser, headless Chromium: clicks counted, keyboard alone, without scripts, accessibility."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest
from studios import make

from simplexdp import Ledger

playwright = pytest.importorskip("playwright.sync_api", reason="the package playwright is not installed")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed (Debian: apt-get install chromium)"),
]
SWITCHES = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
MOST_ACTIONS = 8
WAIT = 90_000
"""Milliseconds for work on a busy machine."""

CHECKS = """() => {
  const found = [], label = (field) => field.labels?.length || field.getAttribute('aria-label') || field.title;
  if (!document.documentElement.lang) found.push('no language');
  if (!document.title) found.push('no title');
  if (document.querySelectorAll('h1').length !== 1) found.push('not one h1');
  if (document.querySelectorAll('main').length !== 1) found.push('not one main');
  let level = 0;
  for (const head of document.querySelectorAll('h1,h2,h3,h4')) {
    const now = Number(head.tagName[1]);
    if (now > level + 1) found.push('heading skips a level: ' + head.textContent);
    level = now;
  }
  const ids = [...document.querySelectorAll('[id]')].map((each) => each.id);
  if (new Set(ids).size < ids.length) found.push('an id twice: ' + ids.filter((id, i) => ids.indexOf(id) < i));
  for (const field of document.querySelectorAll('input:not([type=hidden]),select,textarea'))
    if (!label(field)) found.push('no label: ' + field.outerHTML.slice(0, 90));
  for (const each of document.querySelectorAll('button,a[href],summary,[role=button]'))
    if (!(each.textContent.trim() || each.getAttribute('aria-label') || each.querySelector('img[alt]:not([alt=""])')))
      found.push('no name: ' + each.outerHTML.slice(0, 90));
  for (const each of document.querySelectorAll('img:not([alt]),iframe:not([title]),svg[role=img]:not([aria-label])'))
    found.push('no words: ' + each.outerHTML.slice(0, 90));
  for (const each of document.querySelectorAll('[aria-describedby],[aria-labelledby]'))
    for (const id of (each.getAttribute('aria-describedby') || each.getAttribute('aria-labelledby')).split(' '))
      if (!document.getElementById(id)) found.push('refers to nothing: ' + id);
  for (const each of document.querySelectorAll('fieldset')) if (!each.querySelector('legend')) found.push('no legend');
  for (const each of document.querySelectorAll('table')) if (!each.querySelector('th[scope]')) found.push('no scope');
  for (const each of document.querySelectorAll('[tabindex]')) if (each.tabIndex > 0) found.push('tabindex above 0');
  const light = (text) => {
    const [r, g, b, a = 1] = text.match(/[\\d.]+/g).map(Number);
    const parts = [r, g, b].map((v) => { v /= 255; return v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; });
    return [0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2], a];
  };
  const ground = (each) => {
    for (let at = each; at; at = at.parentElement) {
      const [value, alpha] = light(getComputedStyle(at).backgroundColor);
      if (alpha > 0.99) return value;
    }
    return 1;
  };
  for (const each of document.querySelectorAll('body *')) {
    const style = getComputedStyle(each);
    const text = [...each.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim());
    if (!text || !each.checkVisibility() || each.closest('svg,:disabled,.off,.hidden')) continue;
    const [front] = light(style.color), back = ground(each), size = parseFloat(style.fontSize);
    const ratio = (Math.max(front, back) + 0.05) / (Math.min(front, back) + 0.05);
    const large = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700);
    const said = each.textContent.trim().slice(0, 40);
    if (ratio < (large ? 3 : 4.5)) found.push('contrast ' + ratio.toFixed(2) + ': ' + said);
  }
  if (document.documentElement.scrollWidth > innerWidth) found.push('wider than the window');
  return [...new Set(found)];
}"""
"""What WCAG 2.2 asks at levels A and AA, as far as a script sees it: names, labels, structure, contrast, reflow."""


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=CHROMIUM, args=SWITCHES)
        yield browser
        browser.close()


@pytest.fixture
def studio(tmp_path: Path) -> Iterator[Callable[..., str]]:
    """Starts studios on one folder, each a process of its own; gives their addresses."""
    started: list[Any] = []
    environment = {**os.environ, "PYTHONUNBUFFERED": "1", "OPENBLAS_NUM_THREADS": "1"}
    folder = make(tmp_path / "hospital")
    draws = np.random.default_rng(3)
    wide = {f"item{i:02}": pa.array(draws.choice(["a", "b", "c"], 800)) for i in range(30)}
    pyarrow.csv.write_csv(pa.table(wide), folder / "survey.csv")
    lines = "".join(f"  {name}: [a, b, c]\n" for name in wide)
    (folder / "survey.schema.yaml").write_text(f"columns:\n{lines}", encoding="utf-8")

    def start(*options: str) -> str:
        command = [sys.executable, "-m", "simplexdp", "studio", str(folder), "--no-browser", *options]
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=environment, text=True
        )
        started.append(process)
        assert process.stdout is not None
        for line in process.stdout:
            if found := re.search(r"http://127\.0\.0\.1:\d+/\S+", line):
                return found[0]
        raise AssertionError("the studio did not start")

    yield start
    for process in started:
        process.kill()
        process.wait()
        process.stdout.close()


class Person:
    """Somebody at a page, who counts what they do; every page is checked."""

    def __init__(self, browser: Any, address: str, **settings: Any) -> None:
        self.context = browser.new_context(**{"viewport": {"width": 390, "height": 800}, **settings})
        self.page = self.context.new_page()
        self.page.set_default_timeout(WAIT)
        self.actions, self.asked, self.address = 0, [], address
        self.page.on("request", lambda request: self.asked.append(request.url))
        self.problems: list[str] = []
        self.page.on("pageerror", lambda error: self.problems.append(str(error)))
        self.page.on("console", lambda said: said.type == "error" and self.problems.append(said.text))
        self.page.goto(address)

    def click(self, what: str) -> None:
        self.check()
        self.page.locator(what).first.click()
        self.actions += 1

    def check(self) -> None:
        """No fault on the page, once it is there: a click may be about to leave it."""
        found: list[str] = ["not looked at"]
        for _ in range(20):
            try:
                self.page.wait_for_load_state("load")
                found = self.page.evaluate(CHECKS)
            except playwright.Error:
                found = ["the page was left"]
            if not found:
                break
            self.page.wait_for_timeout(250)
        assert found == [], (self.page.url.rpartition("/")[2], found)

    def publish(self) -> None:
        self.click("text=Charge and publish")
        self.page.wait_for_selector("text=Ask the release", timeout=WAIT)
        self.check()
        assert self.page.locator(".badge").first.inner_text() == "PRIVATE"

    def alone(self) -> None:
        """Nothing was asked of anybody else, and no page complained."""
        host = self.address.split("/")[2]
        assert len(self.asked) > 10
        assert [url for url in self.asked if not url.startswith((f"http://{host}/", "data:"))] == []
        assert self.problems == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_table_in_eight_actions(scheme: str, chromium: Any, studio: Callable[..., str]) -> None:
    person = Person(chromium, studio(), color_scheme=scheme)
    person.click("text=clinic.csv")
    person.click("text=These are right")
    person.click(".for-table input[value=smoker]")
    person.click(".for-table input[value=ill]")
    person.click("text=On to the unit")
    person.click("text=On to the budget")
    person.publish()
    assert person.actions <= MOST_ACTIONS
    person.page.goto(f"{person.address}ledger")
    person.check()
    person.alone()


def test_a_classifier_in_eight_actions(chromium: Any, studio: Callable[..., str]) -> None:
    person = Person(chromium, studio())
    person.click("text=clinic.csv")
    person.click("text=These are right")
    person.click("input[value=classifier]")
    person.page.select_option("#target", "ill")
    person.actions += 1
    person.click("text=On to the unit")
    person.click("text=On to the budget")
    person.publish()
    assert person.actions <= MOST_ACTIONS
    person.alone()


def test_synthetic_records_of_thirty_columns_in_eight_actions(chromium: Any, studio: Callable[..., str]) -> None:
    person = Person(chromium, studio())
    person.click("text=survey.csv")
    person.click("text=These are right")
    person.click("input[value=synthetic]")
    person.click("text=On to the unit")
    person.click("text=On to the budget")
    person.publish()
    with person.page.expect_download() as download:
        person.click("text=Download (.csv)")
    lines = Path(download.value.path()).read_text(encoding="utf-8").splitlines()
    assert len(lines) == 1001
    assert len(lines[0].split(",")) == 30
    assert person.actions <= MOST_ACTIONS
    person.alone()


def test_keyboard_alone_and_a_double_press(chromium: Any, studio: Callable[..., str], tmp_path: Path) -> None:
    person = Person(chromium, studio())
    keys = person.page.keyboard

    def reach(what: str) -> None:
        for _ in range(80):
            keys.press("Tab")
            if person.page.evaluate("what => document.activeElement.matches(what)", what):
                visible = "getComputedStyle(document.activeElement).outlineStyle !== 'none'"
                assert person.page.evaluate(visible), what  # one can see where one is
                return
        raise AssertionError(f"{what} is not reached by the keyboard")

    for what, key in (
        ("[value='clinic.csv']", "Enter"),
        ("[value=next]", "Enter"),
        (".for-table input[value=ill]", "Space"),
        (".question button.primary", "Enter"),
        (".unit button.primary", "Enter"),
    ):
        reach(what)
        if key == "Enter":
            with person.page.expect_navigation():
                keys.press(key)
        else:
            keys.press(key)
    reach(".spend-button")
    person.page.evaluate("() => { const b = document.activeElement; b.click(); b.click(); b.click(); }")
    person.page.wait_for_selector("text=Ask the release", timeout=WAIT)
    place = person.page.url
    person.page.go_back()
    person.page.wait_for_timeout(1000)
    person.page.goto(place)
    person.page.reload()
    entries = Ledger.open(tmp_path / "hospital" / "ledger.db").entries()
    assert [entry.kind for entry in entries].count("charge") == 1


def test_without_scripts(chromium: Any, studio: Callable[..., str]) -> None:
    person = Person(chromium, studio(), java_script_enabled=False)
    page = person.page
    for what in ("text=clinic.csv", "text=These are right", ".for-table input[value=ill]", "text=On to the unit"):
        page.locator(what).first.click()
    page.locator("text=On to the budget").click()
    page.fill("#error", "40")
    page.locator("text=Find ε").click()
    assert page.locator("text=exact").count() == 1
    page.locator("text=Charge and publish").click()
    for _ in range(60):
        if page.locator("text=Ask the release").count():
            break
        page.wait_for_timeout(1000)
    assert page.locator("text=Ask the release").count() == 1


def test_the_officer_approves(chromium: Any, studio: Callable[..., str], tmp_path: Path) -> None:
    Ledger.open(tmp_path / "hospital" / "ledger.db", budget=_whole())
    officer, analyst = Person(chromium, studio()), Person(chromium, studio("--role", "analyst"))
    for what in ("text=clinic.csv", "text=These are right", ".for-table input[value=ill]", "text=On to the unit"):
        analyst.click(what)
    analyst.click("text=On to the budget")
    analyst.click("text=Ask for approval")
    analyst.page.wait_for_selector("text=It waits for the officer")
    officer.page.goto(f"{officer.address}ledger")
    officer.click("#h-waiting + ul a")
    officer.click("text=Register “clinic”")
    officer.click("text=Approve, charge and publish")
    officer.page.wait_for_selector("text=Ask the release", timeout=WAIT)
    analyst.page.wait_for_selector("text=Ask the release", timeout=WAIT)
    officer.alone()
    analyst.alone()


def _whole() -> Any:
    from simplexdp import Budget

    return Budget(epsilon=2, delta=1e-6)


def test_the_checks_find_faults(chromium: Any) -> None:
    page = chromium.new_context(viewport={"width": 390, "height": 800}).new_page()
    page.set_content(
        "<h1>a</h1><h3>b</h3><input><button></button><img src=x><p style='color:#aaa;background:#fff'>pale</p>"
        "<div style='width:900px'>wide</div><i id=a></i><i id=a></i><b aria-labelledby=none>c</b>"
    )
    found = " ".join(page.evaluate(CHECKS))
    for fault in (
        "no language",
        "no title",
        "not one main",
        "skips",
        "no label",
        "no name",
        "no words",
        "contrast",
        "wider",
        "twice",
        "nothing",
    ):
        assert fault in found, fault
