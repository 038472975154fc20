"""What a hostile input may cause while it is read: an error of this library or none, and nothing else.

A case is watched from inside the interpreter (audit events): files opened for writing, renamed or removed, commands,
sockets and pickles. It is also searched for a value of the private rows, in what it raises, prints, logs and writes.
"""

from __future__ import annotations

import io
import logging
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from functools import lru_cache
from pathlib import Path
from typing import Any

from simplexdp.errors import SimplexDPError

SECRET = "Qx7391vZ"
"""A value of the private rows: no message may hold it."""
COUNT = 739_173_917
"""A count of a private table: no message may hold it."""
FORBIDDEN = (
    "pickle.find_class",
    "marshal.loads",
    "os.system",
    "os.exec",
    "os.posix_spawn",
    "subprocess.Popen",
    "socket.",
)
"""What reading a file never does. Importing a module loads marshalled code, so that one is looked at by its caller."""
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_MOVING = ("os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.link", "os.symlink", "os.truncate", "os.chmod")


class Watch:
    """Events of one case; installed once, since audit hooks cannot be taken away."""

    def __init__(self) -> None:
        self.active = False
        self.seen: list[str] = []
        self.written: list[str] = []
        sys.addaudithook(self._hear)

    def _hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        if not self.active:
            return
        if event == "open":
            path, _, flags = arguments
            if flags & _WRITING and not isinstance(path, int):
                self.written.append(os.fsdecode(path))
        elif event in _MOVING:
            self.written.extend(os.fsdecode(path) for path in arguments[:2] if isinstance(path, str | bytes))
        elif event.startswith(FORBIDDEN) and not _importing():
            self.seen.append(event)

    @contextmanager
    def case(self) -> Iterator[None]:
        """Listen to one case."""
        self.seen, self.written, self.active = [], [], True
        try:
            yield
        finally:
            self.active = False


def _importing() -> bool:
    frame = sys._getframe(2)
    while frame is not None:
        if frame.f_globals.get("__name__", "").partition(".")[0] in ("importlib", "_frozen_importlib"):
            return True
        frame = frame.f_back  # type: ignore[assignment]
    return False


@lru_cache
def watch() -> Watch:
    """The one watch of this process."""
    sys.dont_write_bytecode = True
    return Watch()


@lru_cache
def folder() -> Path:
    """Where the files of this process are."""
    return Path(tempfile.mkdtemp(prefix="simplexdp-fuzz-")).resolve()


def quiet(run: Callable[[], object], *allowed: Path) -> None:
    """Run a case: only errors of this library, nothing private shown, nothing written but the files allowed."""
    said, log = io.StringIO(), io.StringIO()
    handler = logging.StreamHandler(log)
    logging.getLogger().addHandler(handler)
    raised: BaseException | None = None
    try:
        with redirect_stdout(said), redirect_stderr(said), watch().case():
            run()
    except SimplexDPError as error:
        raised = error
    finally:
        logging.getLogger().removeHandler(handler)
    texts = [said.getvalue(), log.getvalue()]
    while raised is not None:
        texts += [str(raised), repr(raised), *getattr(raised, "__notes__", ())]
        raised = raised.__cause__ or (None if raised.__suppress_context__ else raised.__context__)
    assert not any(SECRET in text or str(COUNT) in text for text in texts), "a message shows a private value"
    assert not watch().seen, f"reading a file caused {watch().seen}"
    asked = [_absolute(str(path)) for path in allowed]
    strangers = [path for path in map(_absolute, watch().written) if not _is_allowed(path, asked)]
    assert not strangers, f"written without being asked: {strangers}"


def _absolute(path: str) -> Path:
    return Path(os.path.abspath(path))  # noqa: PTH100 - resolve() would follow the links of hostile names


def _is_allowed(path: Path, allowed: list[Path]) -> bool:
    """A file asked for, or a temporary one beside it, by which it is written whole or its folder is tried."""
    if path == Path(os.devnull) or path.is_dir():  # a folder stands for a file without a name
        return True
    beside = [name for name in allowed if name.parent in (path, path.parent)]
    return path in allowed or any(
        path == name.parent or path.name.startswith((f".{name.name}", "tmp")) for name in beside
    )
