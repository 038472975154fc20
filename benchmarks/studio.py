"""The studio under load: 50 requests at a time, processes killed at every step, forms with anything in them.

`python -m benchmarks studio [--seconds 60] [--tries 1000] [--cases 10000]`: each part states its counts, or fails.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import random
import re
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

from simplexdp import Ledger
from simplexdp.ledger import Queue

AT_A_TIME = 50
SPENDS = 20
"""Requests that are charged during the load, each of them sent several times at once."""
SENT = 5
TESTS = Path(__file__).resolve().parents[1] / "tests" / "studio"
SCHEMA = "columns:\n  age: age-10\n  ill: ['no', 'yes']\n"


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """The address of a studio in a process of its own."""
    command = [sys.executable, "-m", "simplexdp", "studio", str(folder), "--no-browser"]
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=environment, text=True)
    assert process.stdout is not None
    try:
        found = next(match[0] for line in process.stdout if (match := re.search(r"http://127\.0\.0\.1:\d+/\S+", line)))
        yield found
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


class Client:
    """Asks one studio, over the loopback alone."""

    def __init__(self, address: str) -> None:
        self.root, self.host = urlsplit(address).path.rstrip("/"), urlsplit(address).netloc

    def ask(self, method: str, path: str, fields: Any = None) -> tuple[int, str, str]:
        """Status, place and text of an answer."""
        name, port = self.host.split(":")
        connection = HTTPConnection(name, int(port), timeout=120)
        try:
            body = urlencode(fields, doseq=True, errors="replace") if fields is not None else None
            headers = {"origin": f"http://{self.host}", "content-type": "application/x-www-form-urlencoded"}
            connection.request(method, f"{self.root}{path}", body, headers)
            answer = connection.getresponse()
            text = answer.read().decode("utf-8", "replace")
            return answer.status, (answer.getheader("location") or "").removeprefix(self.root), text
        finally:
            connection.close()

    def planned(self) -> tuple[str, dict[str, str]]:
        """A request as far as its button, and what the button sends."""
        place = self.ask("POST", "/new", {"file": "rows.csv"})[1].rpartition("/")[0]
        self.ask("POST", f"{place}/columns", {"action": "next"})
        self.ask("POST", f"{place}/question", {"kind": "table", "columns": ["ill"]})
        self.ask("POST", f"{place}/unit", {"unit": "row", "neighbours": "replace-one"})
        text = self.ask("GET", f"{place}/budget?epsilon=0.05")[2]
        form = text[text.index('class="spend') :]
        return place, dict(re.findall(r'name="([^"]+)"[^>]*?value="([^"]*)"', form))


def rows(folder: Path) -> Path:
    """A folder with rows and their schema."""
    folder.mkdir(parents=True, exist_ok=True)
    draws = random.Random(1)
    lines = [f"{draws.randrange(100)},{draws.choice(['no', 'yes'])}" for _ in range(2000)]
    (folder / "rows.csv").write_text("age,ill\n" + "\n".join(lines) + "\n", encoding="utf-8")
    (folder / "rows.schema.yaml").write_text(SCHEMA, encoding="utf-8")
    return folder


def load(folder: Path, seconds: float) -> None:
    """50 at a time for so long; some of them are charges, each sent five times at once."""
    with served(rows(folder)) as address:
        client = Client(address)
        spends = [client.planned() for _ in range(SPENDS)]
        place = spends[0][0]
        paths = ["/", "/ledger", f"{place}/columns", f"{place}/budget?epsilon=0.05&fast=1", "/static/studio.css"]
        seen: Counter[int] = Counter()
        taken: list[float] = []
        end, lock = time.monotonic() + seconds, threading.Lock()

        def reader(i: int) -> None:
            turn = i
            while time.monotonic() < end:
                started = time.monotonic()
                status = client.ask("GET", paths[turn % len(paths)])[0]
                with lock:
                    seen[status] += 1
                    taken.append(time.monotonic() - started)
                turn += 1

        with ThreadPoolExecutor(AT_A_TIME + SPENDS * SENT) as pool:
            waiting = [pool.submit(reader, i) for i in range(AT_A_TIME)]
            sent = [pool.submit(client.ask, "POST", f"{p}/spend", said) for p, said in spends for _ in range(SENT)]
            answers = Counter(each.result()[0] for each in sent)
            for each in waiting:
                each.result()
        deadline = time.monotonic() + 300
        ledger = Ledger.open(folder / "ledger.db")
        while time.monotonic() < deadline and any(asked.status != "sealed" for asked in Queue(ledger)):
            time.sleep(0.5)
    kinds = Counter(entry.kind for entry in ledger.entries())
    taken.sort()
    print(f"{sum(seen.values())} pages in {seconds:g} s, {AT_A_TIME} at a time: statuses {dict(seen)}")
    print(f"median {taken[len(taken) // 2] * 1e3:.0f} ms, 99 % within {taken[len(taken) * 99 // 100] * 1e3:.0f} ms")
    paid = f"{kinds['charge']} charges, {kinds['seal']} seals"
    print(f"{SPENDS} requests sent {SENT} times each: answers {dict(answers)}, {paid}")
    assert set(seen) <= {200, 303, 409}, seen
    assert set(answers) <= {303, 409, 422}, answers
    assert kinds["charge"] == kinds["seal"] == len({place for place, _ in spends})


def tests_of(name: str) -> Any:
    """A module of the tests of the studio."""
    sys.path.insert(0, str(TESTS))
    spec = importlib.util.spec_from_file_location(name, TESTS / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def kills(folder: Path, tries: int) -> None:
    """Processes killed at every step and at random times."""
    folder.mkdir(parents=True)
    command = [sys.executable, str(TESTS / "studio_crashes.py"), str(folder), str(tries)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    found = [json.loads(line) for line in done.stdout.splitlines()]
    seen = tests_of("test_studio_once").check_tries(folder, found)
    print(f"{len(found)} requests killed and taken up again: {seen}; at most one charge and one draw each")


def forms(folder: Path, cases: int) -> None:
    """Forms with anything in them."""
    with served(rows(folder)) as address:
        client, fuzz, draws = Client(address), tests_of("test_studio_forms"), random.Random(3)
        place, _ = client.planned()
        seen: Counter[int] = Counter()
        for _ in range(cases):
            where = draws.choice(sorted(fuzz.FIELDS))
            names = [*fuzz.FIELDS[where], "other", "x" * 9]
            said = {
                draws.choice(names): draws.choices(fuzz.WORDS, k=draws.randrange(3)) for _ in range(draws.randrange(7))
            }
            said.pop("digest", None)
            path = where if where in ("/new", "/ledger/reopen") else f"{place}{where}"
            query = where in ("/budget", "/synthetic", "")
            path = f"{path}?{urlencode(said, doseq=True, errors='replace')}" if query else path
            status = client.ask("GET" if query else "POST", path, None if query else said)[0]
            seen[status] += 1
            assert status < 500, (where, said)
        print(f"{cases} forms with anything in them: statuses {dict(sorted(seen.items()))}")


def main() -> None:
    """Load, kills, forms."""
    parser = argparse.ArgumentParser(prog="benchmarks.studio", description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--seconds", type=float)
    parser.add_argument("--tries", type=int)
    parser.add_argument("--cases", type=int)
    said = parser.parse_args()
    socket.setdefaulttimeout(120)
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        load(folder / "load", said.seconds or (10 if said.quick else 60))
        forms(folder / "forms", said.cases or (300 if said.quick else 10_000))
        kills(folder / "kills", said.tries or (28 if said.quick else 1000))


if __name__ == "__main__":
    main()
