"""Run as a program by test_ledger_crash.py: forks that die while they charge, and what they leave behind.

A fork stands for a process that fits: it charges, then "draws" by adding the number of its charge to a file of
releases, then seals. Whatever happens to it, every number in that file must be a charge of the ledger.
"""

from __future__ import annotations

import json
import os
import random
import resource
import shutil
import signal
import sqlite3
import sys
import time
from collections.abc import Callable
from pathlib import Path

from simplexdp import Budget, Gaussian
from simplexdp.errors import BudgetExceeded, FormatError, LedgerUnavailable
from simplexdp.ledger import Ledger, fingerprint
from simplexdp.ledger import chain as chain_module
from simplexdp.ledger.chain import Entry

LOSS = Gaussian(sigma=900.0).loss()  # room for thousands
BUDGET = Budget(epsilon=1.0, delta=1e-5)


def fit(ledger: Ledger, releases: Path) -> None:
    charge = ledger.charge(LOSS, dataset="clinic", description="fit", request_hash=fingerprint("fit"))
    with releases.open("a") as file:
        file.write(f"{charge.number}\n")
    charge.seal(fingerprint(charge.number))


def fork(work: Callable[[], None]) -> int:
    child = os.fork()
    if child == 0:
        try:
            work()
        finally:
            os._exit(0)
    return child


def judge(path: Path, releases: Path) -> dict[str, int]:
    """Open the ledger as the next process would: it must be intact and hold a charge for every release."""
    ledger = Ledger.open(path)
    charges = {entry.number for entry in ledger.entries() if entry.kind == "charge"}
    drawn = [int(line) for line in releases.read_text().split()] if releases.exists() else []
    return {"charges": len(charges), "releases": len(drawn), "uncharged": len(set(drawn) - charges)}


def at_every_statement(folder: Path) -> dict[str, int]:
    """Killed at the k-th statement that SQLite runs, for every k of a fit; and right after each commit."""
    path, releases = folder / "a.db", folder / "a.txt"
    ledger = Ledger.open(path, budget=BUDGET)
    connect, deaths, k = sqlite3.connect, 0, 0
    while True:
        left = [k]

        def traced(*args: object, left: list[int] = left, **kwargs: object) -> sqlite3.Connection:
            connection: sqlite3.Connection = connect(*args, **kwargs)  # type: ignore[call-overload]

            def count(_: str) -> None:
                if left[0] == 0:
                    os.kill(os.getpid(), signal.SIGKILL)
                left[0] -= 1

            connection.set_trace_callback(count)
            return connection

        def work(traced: Callable[..., sqlite3.Connection] = traced) -> None:
            chain_module.sqlite3.connect = traced  # type: ignore[assignment]
            fit(ledger, releases)

        _, status = os.waitpid(fork(work), 0)
        if not os.WIFSIGNALED(status):
            break
        deaths, k = deaths + 1, k + 1
        judge(path, releases)

    def charge_and_die() -> None:
        ledger.charge(LOSS, dataset="clinic", description="fit", request_hash=fingerprint("fit"))
        os.kill(os.getpid(), signal.SIGKILL)

    os.waitpid(fork(charge_and_die), 0)
    return {**judge(path, releases), "deaths": deaths}


def at_random(folder: Path, times: int = 40) -> dict[str, int]:
    """Killed after up to two fits and a random part of the next, commits included, again and again on one ledger."""
    path, releases = folder / "r.db", folder / "r.txt"
    ledger, rng, deaths, finished = Ledger.open(path, budget=BUDGET), random.Random(1), 0, 1
    start = time.perf_counter()
    fit(ledger, releases)
    one = time.perf_counter() - start

    for _ in range(times):
        begun, begin = os.pipe()

        def work(begin: int = begin) -> None:
            while True:
                os.write(begin, b".")
                fit(ledger, releases)

        child, fits = fork(work), rng.randint(0, 2)
        os.close(begin)
        for _ in range(fits + 1):
            os.read(begun, 1)
        time.sleep(rng.uniform(0.0, one))
        os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        os.close(begun)
        deaths += os.WIFSIGNALED(status)
        finished += fits
    return {**judge(path, releases), "deaths": deaths, "finished": finished}


def race(folder: Path, processes: int = 8) -> dict[str, int]:
    """Processes that spend as fast as they can until each has been refused."""
    path, releases = folder / "c.db", folder / "c.txt"
    small = Budget.rdp(order=17.8, epsilon=10.5 * LOSS.rdp(17.8))

    def work() -> None:
        ledger = Ledger.open(path, budget=small)
        try:
            while True:
                fit(ledger, releases)
        except BudgetExceeded:
            pass

    for child in [fork(work) for _ in range(processes)]:
        os.waitpid(child, 0)
    return {**judge(path, releases), "room": 10}


def full_disk(folder: Path) -> dict[str, int]:
    """A limit on the size of files, a little higher each time: writing fails at ever later places."""
    path, releases = folder / "f.db", folder / "f.txt"
    ledger, refused = Ledger.open(path, budget=BUDGET), 0
    for more in range(0, 24_000, 1500):

        def work(size: int = path.stat().st_size + more - 6000) -> None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (max(size, 512), resource.RLIM_INFINITY))
            try:
                for _ in range(6):
                    fit(ledger, releases)
            except LedgerUnavailable:
                os._exit(3)
            except BaseException:  # anything else is a failure of the test
                os._exit(4)

        _, status = os.waitpid(fork(work), 0)
        if os.waitstatus_to_exitcode(status) == 4:
            return {**judge(path, releases), "refused": -1}
        refused += os.waitstatus_to_exitcode(status) == 3
    return {**judge(path, releases), "refused": refused}


def power_loss(folder: Path) -> dict[str, int]:
    """The disk as it is in the middle of a transaction, with the journal cut at many lengths."""
    path, releases = folder / "p.db", folder / "p.txt"
    ledger = Ledger.open(path, budget=BUDGET)
    for _ in range(3):
        fit(ledger, releases)
    committed = ledger.entries()
    state = ledger._state
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA cache_size=1")  # so that pages go to the file before the commit
    connection.execute("BEGIN IMMEDIATE")
    number, previous = state.count, state.head
    for _ in range(60):
        body = {**committed[1].body, "description": "x" * 1500, "cost": 1e-9}
        entry = Entry.after(number, previous, "charge", body)
        chain_module._append(connection, entry)
        number, previous = entry.number + 1, entry.hash
    middle, journal = path.read_bytes(), Path(f"{path}-journal").read_bytes()
    connection.close()
    shutil.copy(path, folder / "before.db")
    refused = lost = 0
    lengths = sorted({*range(0, len(journal), max(1, len(journal) // 40)), 1, 7, 8, 28, 511, 512, 513, len(journal)})
    for length in lengths:
        place = folder / f"cut{length}.db"
        place.write_bytes(middle)
        Path(f"{place}-journal").write_bytes(journal[:length])
        try:
            found = Ledger.open(place).entries()
        except FormatError:
            refused += 1
            continue
        lost += found[: len(committed)] != committed
    whole = folder / f"cut{len(journal)}.db"
    return {
        "cases": len(lengths),
        "refused": refused,
        "lost": lost,
        "spilled": len(middle) - (folder / "before.db").stat().st_size,
        "recovered": len(Ledger.open(whole).entries()) if whole.exists() else -1,
        "committed": len(committed),
    }


if __name__ == "__main__":
    where = Path(sys.argv[2])
    print(json.dumps(globals()[sys.argv[1]](where)))
