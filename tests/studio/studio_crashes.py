"""Kills a studio's work at a step, in a process of its own, and lets another one take it up again.

`python studio_crashes.py FOLDER TRIES` prints a line of JSON for each try. The parent starts no thread and can fork.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import random
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from simplexdp import Budget, Ledger
from simplexdp.errors import SimplexDPError
from simplexdp.ledger import Queue
from simplexdp.ledger import ledger as ledgers
from simplexdp.models.document import checksum
from simplexdp.private import session
from simplexdp.studio import spending
from simplexdp.studio.spec import Spec

SPEC: dict[str, Any] = {
    "source": {"files": ["rows.csv"]},
    "dataset": "clinic",
    "schema": "columns:\n  ill: ['no', 'yes']\n",
    "question": {"kind": "table", "columns": ["ill"]},
    "unit": {"neighbours": "replace-one", "person": None, "rows_per_person": None},
    "budget": {"epsilon": 0.05, "delta": 1e-8},
    "records": None,
}


def kill(*_: Any, **__: Any) -> Any:
    os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(60)


def before(owner: Any, name: str) -> None:
    setattr(owner, name, kill)


def after(owner: Any, name: str) -> None:
    whole = getattr(owner, name)

    def done(*given: Any, **named: Any) -> Any:
        found = whole(*given, **named)
        kill()
        return found

    setattr(owner, name, done)


def half_written(self: Any, asked: Any, text: str) -> None:
    with self.staged(asked).open("x", encoding="utf-8") as file:
        file.write(text[: len(text) // 2])
        file.flush()
        kill()


STEPS: dict[str, Callable[[], None]] = {
    "before the request": lambda: before(Queue, "ask"),
    "after the request": lambda: after(Queue, "ask"),
    "after the registration": lambda: after(spending, "registered"),
    "before the charge": lambda: before(ledgers.Ledger, "charge"),
    "in the charge": lambda: before(ledgers, "append"),
    "after the charge": lambda: after(ledgers.Ledger, "charge"),
    "in the draw": lambda: after(session, "draw_tables"),
    "after the draw": lambda: after(Spec, "fit"),
    "file begun": lambda: before(os, "fdopen"),
    "file half written": lambda: setattr(spending.Results, "stage", half_written),
    "file written": lambda: after(spending.Results, "stage"),
    "before the seal": lambda: before(ledgers.Ledger, "_seal"),
    "after the seal": lambda: after(ledgers.Ledger, "_seal"),
    "after all": lambda: after(spending.Results, "publish"),
}
LOST = ("file begun", "file half written")
"""Steps after which there is a charge and no result."""


def forked(work: Callable[[], None]) -> int:
    """The status of a child."""
    child = os.fork()
    if child == 0:
        code = 4
        try:
            work()
            code = 0
        except SimplexDPError:
            code = 3
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def carried_out(folder: Path, key: str, plant: Callable[[], None]) -> None:
    """As the button does it; each draw that leaves is noted."""
    stage = spending.Results.stage

    def noted(self: Any, asked: Any, text: str) -> None:
        with (folder / "left").open("a", encoding="utf-8") as log:
            log.write(f"{key} {checksum(json.loads(text)['body'])}\n")
        stage(self, asked, text)

    spending.Results.stage = noted  # type: ignore[method-assign]
    plant()
    ledger = Ledger.open(folder / "ledger.db")
    Queue(ledger).ask(key, dataset="clinic", description="ill", spec=SPEC)
    spending.Spender(folder, lambda: ledger).carry_out(key)


def in_time(seconds: float) -> Callable[[], None]:
    return lambda: threading.Timer(seconds, kill).start()


def one(folder: Path, i: int, draws: random.Random) -> dict[str, Any]:
    """One try: killed once or twice, then taken up again."""
    key, names = f"{i:064x}", list(STEPS)
    step = names[i % len(names)] if i < 3 * len(names) else ""
    plant = STEPS[step] if step else in_time(draws.uniform(0.0, 0.25))
    first = forked(lambda: carried_out(folder, key, plant))
    if i % 2 and step not in LOST:
        forked(lambda: carried_out(folder, key, in_time(draws.uniform(0.0, 0.25))))
    last = forked(lambda: carried_out(folder, key, lambda: None))
    again = last if i % 3 else forked(lambda: carried_out(folder, key, lambda: None))
    return {"step": step, "key": key, "first": first, "last": last, "again": again}


def warm(folder: Path) -> None:
    """Load here what a child loads, so that each of them need not."""
    told = folder / "loaded"

    def work() -> None:
        place = folder / "warm"
        place.mkdir()
        (place / "rows.csv").write_text("ill\nno\nyes\n", encoding="utf-8")
        Ledger.open(place / "ledger.db", budget=Budget(epsilon=50, delta=1e-5))
        carried_out(place, "f" * 64, lambda: None)
        told.write_text("\n".join(sys.modules), encoding="utf-8")

    forked(work)
    for name in told.read_text(encoding="utf-8").splitlines():
        if name.partition(".")[0] in ("simplexdp", "numpy", "scipy", "pyarrow", "pydantic", "yaml"):
            with contextlib.suppress(ImportError):
                importlib.import_module(name)


def main() -> None:
    folder, tries = Path(sys.argv[1]), int(sys.argv[2])
    (folder / "rows.csv").write_text("ill\n" + "no\nyes\nno\n" * 100, encoding="utf-8")
    whole = Budget(epsilon=50, delta=1e-5)
    forked(lambda: Ledger.open(folder / "ledger.db", budget=whole) and None)
    warm(folder)
    draws = random.Random(7)
    for i in range(tries):
        print(json.dumps(one(folder, i, draws)), flush=True)


if __name__ == "__main__":
    main()
