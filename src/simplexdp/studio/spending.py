"""Carrying out a request: once, whoever sends it again, and whenever the process that did it was killed.

The order is: request in the queue, charge under its key, draw, file beside the ledger, seal, file in its place.
Nothing that depends on a value leaves the process before the file beside the ledger is begun. So a request that was
charged and not sealed is in one of three states, which that file tells apart:

| file beside the ledger | what happened | what follows |
|---|---|---|
| none | the draw died with its process, and nobody has seen it | it is drawn anew, at the same charge |
| whole | all but the seal | it is sealed and put in its place; nothing is drawn |
| broken | some of it may have been seen | it stays charged, and nothing is drawn |

Where the ledger records that the draw failed on the data, nothing is drawn again either.

Proof: docs/proofs/composition.md.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from ..errors import FormatError, LedgerUnavailable, PrivacyError, SimplexDPError
from ..ledger import Amount, Asked, Charge, Ledger, Queue
from ..ledger.chain import sync_folder
from ..ledger.queue import FAILED
from ..models import Model, kinds, read
from ..models.document import checksum, read_document, read_file, write_file
from ..private.counting import Progress
from .spec import RESULTS, Spec

if TYPE_CHECKING:
    from ..accounting.filters import Filter
    from ..accounting.loss import PrivacyLoss
    from ..budget import UnitKind

Phase = Literal["waiting", "reading", "drawing", "writing", "done", "refused", "cancelled", "failed"]


class Cancelled(KeyboardInterrupt):
    """The user stopped the work; as an interrupt it closes no data set."""


class Lost(PrivacyError):
    """A request was charged and its result cannot be had any more."""


@dataclass(frozen=True, kw_only=True)
class Work:
    """How far a request has come in this process.

    Args:
        phase: what is done now.
        done: rows that were read, where that is public.
        total: the rows in all.
        told: what to tell of a refusal, with the argument that it names.
        field: that argument.
    """

    phase: Phase = "waiting"
    done: int = 0
    total: int = 0
    told: str = ""
    field: str = ""

    @property
    def is_over(self) -> bool:
        """Whether nothing more will happen by itself."""
        return self.phase in ("done", "refused", "cancelled", "failed")


class _Held:
    """A charge whose seal waits until what was drawn is in a file."""

    def __init__(self, charge: Charge) -> None:
        self.charge, self.release = charge, ""

    def seal(self, release_hash: str) -> None:
        """Keep the hash."""
        self.release = release_hash

    def fail(self, reason: str) -> None:
        """Record it now."""
        self.charge.fail(reason)


class Keyed:
    """The ledger for one request: it pays under the key, or draws again what was paid under it.

    Args:
        queue: of the ledger.
        key: of the request.
        admitted: called when the charge is on disk.
    """

    def __init__(self, queue: Queue, key: str, admitted: Callable[[], None] = lambda: None) -> None:
        self._queue, self._key, self._admitted = queue, key, admitted
        self.held: _Held | None = None

    @property
    def filter(self) -> Filter:
        """Of the ledger."""
        return self._queue.ledger.filter

    def remaining(self, dataset: str) -> Amount:
        """As the ledger does."""
        return self._queue.ledger.remaining(dataset)

    def admit(self, dataset: str, source: Any, schema: Any, *, person: str | None = None) -> Any:
        """As the ledger does."""
        return self._queue.ledger.admit(dataset, source, schema, person=person)

    def charge(
        self, loss: PrivacyLoss, *, dataset: str, description: str, request_hash: str, unit: UnitKind = "row"
    ) -> _Held:
        """Charge the request, or find what was charged for it."""
        said: dict[str, Any] = {"dataset": dataset, "request_hash": request_hash, "unit": unit}
        found = self._queue.paid(self._key, loss, **said)
        if found is None:
            found = self._queue.ledger.charge(loss, description=description, key=self._key, **said)
        self.held = _Held(found)
        self._admitted()
        return self.held


class Results:
    """The files of results: one for each charge, first beside the ledger, then in its place.

    Args:
        folder: of the studio, below which results have their place.
        ledger: the resolved path of the ledger. What is not sealed yet stands beside it, so that the studios of several
            folders on one ledger find it.
    """

    def __init__(self, folder: Path, ledger: Callable[[], Path]) -> None:
        self.folder, self._ledger = folder / RESULTS, ledger

    def name(self, asked: Asked) -> str:
        """By data set and charge: one file for each charge of each ledger."""
        plain = re.sub(r"[^\w-]+", "-", asked.dataset).strip("-")[:60] or "data"
        return f"{plain}-{self._mark(asked)}"

    @staticmethod
    def _mark(asked: Asked) -> str:
        """The charge, the hash of its entry and with it of all before, and the key of the request."""
        return f"{asked.charge}-{asked.entry[:16]}-{asked.key[:16]}"

    def path(self, asked: Asked) -> Path:
        """Where the result is in the end."""
        return self.folder / f"{self.name(asked)}.json"

    def staged(self, asked: Asked) -> Path:
        """Where it is until it is sealed."""
        ledger = self._ledger()
        return ledger.with_name(f".{ledger.name}.{self._mark(asked)}.unsealed")

    def stage(self, asked: Asked, text: str) -> None:
        """Write it down; from the first moment on nothing may be drawn again."""
        path = self.staged(asked)
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        sync_folder(path.parent)

    def staged_hash(self, asked: Asked) -> str | None:
        """The checksum of what was written down; None where nothing was begun.

        Raises:
            Lost: it was begun and not finished.
        """
        path = self.staged(asked)
        if not os.path.lexists(path):
            return None
        try:
            return _checksum(path.read_text(encoding="utf-8"))
        except (FormatError, OSError, UnicodeError):
            raise Lost(
                "This request is charged, and its result was being written when the process ended. As a part of it may "
                "have been seen, nothing is drawn again: the budget is spent and there is no result."
            ) from None

    def publish(self, asked: Asked) -> None:
        """Put what was sealed in its place, whoever sealed it.

        Raises:
            Lost: what was written down is not what the ledger has sealed.
        """
        staged = self.staged(asked)
        if not staged.exists():
            return
        try:
            text = staged.read_text(encoding="utf-8")
            same = _checksum(text) == asked.release
        except (FormatError, OSError, UnicodeError):
            same = False
        if not same:
            raise self._lost(asked)
        self.folder.mkdir(exist_ok=True)
        write_file(self.path(asked), text)
        sync_folder(self.folder)
        staged.unlink(missing_ok=True)
        sync_folder(staged.parent)

    def model(self, asked: Asked) -> Model:
        """The result of a request that is sealed.

        Raises:
            Lost: there is no file with what the ledger has sealed.
        """
        path = self.path(asked)
        try:
            if not path.exists():
                self.publish(asked)  # where the process ended between the seal and this
            if _checksum(read_file(path)) == asked.release:
                return read(path)
        except (OSError, SimplexDPError):
            pass
        raise self._lost(asked)

    def _lost(self, asked: Asked) -> Lost:
        return Lost(
            f"The release of this request is sealed in the ledger, and its file {self.path(asked).name} in the folder "
            f"{RESULTS} is gone or was changed, or is in the folder of another studio on this ledger."
        )


def _checksum(text: str) -> str:
    """The checksum of a release, by which the ledger seals it."""
    return checksum(read_document(text, *kinds())[1])


class Spender:
    """Carries out requests, one after the other, and tells how far each is.

    Args:
        folder: of the studio.
        ledger: opened by whoever needs it first.
    """

    def __init__(self, folder: Path, ledger: Callable[[], Ledger]) -> None:
        self.folder, self._ledger = folder, ledger
        self.results = Results(folder, lambda: ledger().path)
        self._pool = ThreadPoolExecutor(max_workers=1, thread_name_prefix="spend")
        self._lock = threading.Lock()
        self._work: dict[str, Work] = {}
        self._over: dict[str, threading.Event] = {}
        self._stopped: set[str] = set()

    def start(self, key: str, *, register: bool = True) -> threading.Event:
        """Begin, unless it is under way already; the event is set when it is over."""
        with self._lock:
            known = self._work.get(key)
            if known is not None and not known.is_over:
                return self._over[key]
            self._work[key], self._over[key] = Work(), threading.Event()
            self._stopped.discard(key)
            over = self._over[key]
        self._pool.submit(self._run, key, over, register)
        return over

    def work(self, key: str) -> Work | None:
        """How far it is in this process, None where it was not begun here."""
        return self._work.get(key)

    def cancel(self, key: str) -> None:
        """Stop it at the next block of rows; what is charged stays charged."""
        self._stopped.add(key)

    def close(self) -> None:
        """Wait for nothing more."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _run(self, key: str, over: threading.Event, register: bool) -> None:
        try:
            self.carry_out(key, register=register)
            self._say(key, phase="done")
        except Cancelled:
            self._say(key, phase="cancelled")
        except SimplexDPError as error:
            self._say(key, phase="refused", told=str(error), field=str(getattr(error, "name", "") or ""))
        except Exception as error:
            if os.environ.get("SIMPLEXDP_DEBUG"):
                raise
            # Its message may quote the data.
            print(f"simplexdp studio: unexpected {type(error).__name__}", file=sys.stderr)
            self._say(key, phase="failed", told=f"The work ended with an unexpected {type(error).__name__}.")
        finally:
            over.set()

    def _say(self, key: str, **said: Any) -> None:
        with self._lock:
            self._work[key] = replace(self._work.get(key, Work()), **said)

    def carry_out(self, key: str, *, register: bool = True) -> Asked:
        """All that is still to be done for a request, by this process alone.

        Args:
            key: of a request in the queue.
            register: whether the data set is registered first, where it has to be: for the officer.
        """
        ledger = self._ledger()
        queue = Queue(ledger)
        with alone(ledger.path):
            asked = self._asked(queue, key)
            if asked.status == "sealed":
                self.results.publish(asked)
                return asked
            if asked.status == "failed":
                raise PrivacyError(FAILED)
            written = self.results.staged_hash(asked) if asked.status == "charged" else None
            if written is None:
                self._draw(queue, asked, register)
            else:
                queue.charge_of(asked)[0].seal(written)
            asked = self._asked(queue, key)
            self.results.publish(asked)
            return asked

    def _draw(self, queue: Queue, asked: Asked, register: bool) -> None:
        spec, key = Spec.of(asked.spec), asked.key
        if register:
            self._say(key, phase="reading")
            registered(queue.ledger, spec, self.folder)
        keyed = Keyed(queue, key, lambda: self._say(key, phase="drawing"))
        made = spec.fit(self.folder, keyed, self._progress(key))
        self._check_going(key)
        self._say(key, phase="writing")
        assert keyed.held is not None  # a fit with a ledger has charged it
        self.results.stage(self._asked(queue, key), made.to_json())
        keyed.held.charge.seal(keyed.held.release)

    def _progress(self, key: str) -> Progress:
        def told(done: int, total: int | None) -> None:
            self._check_going(key)
            self._say(key, done=done, total=total or 0)

        return told

    def _check_going(self, key: str) -> None:
        if key in self._stopped:
            raise Cancelled

    @staticmethod
    def _asked(queue: Queue, key: str) -> Asked:
        asked = queue.get(key)
        if asked is None:
            raise PrivacyError("the ledger knows no such request.")
        return asked


def registered(ledger: Ledger, spec: Spec, folder: Path) -> None:
    """Register the data set of a request where it is not registered yet: for the officer.

    All rows are read for it, and a refusal tells that some record breaks a rule of the columns. A registration is never
    replaced here: the source that it was for could then be registered under a second name and spend a second budget.

    Raises:
        PrivacyError: another source is registered under the name, or the files have changed; the officer registers anew
            with `ledger.register` or `simplexdp ledger register`, who then knows of it.
        SchemaError: a column could refuse what the registered one accepts.
    """
    rows = spec.source.rows(folder)
    if ledger.registration(spec.dataset) is not None:
        ledger.admit(spec.dataset, rows, spec.schema, person=spec.unit.person)
    elif spec.dataset not in ledger.failures():  # the fit says that the data set is closed
        ledger.register(spec.dataset, rows, spec.schema, person=spec.unit.person)


@contextlib.contextmanager
def alone(ledger: Path) -> Iterator[None]:
    """The only process that carries out requests of a ledger; the system lets go of it when the process ends."""
    with ledger.with_name(f"{ledger.name}.lock").open("ab") as file:
        if sys.platform == "win32":
            import msvcrt

            try:
                msvcrt.locking(file.fileno(), msvcrt.LK_LOCK, 1)
            except OSError:
                raise LedgerUnavailable("another studio is at work on this ledger") from None
        else:
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX)
        yield
