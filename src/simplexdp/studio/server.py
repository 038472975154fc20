"""The server: one process on 127.0.0.1 for one folder, and what its pages share."""

from __future__ import annotations

import os
import secrets
import socket
import sys
import tempfile
import threading
import webbrowser
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from fractions import Fraction
from importlib import resources
from pathlib import Path
from typing import Any, Literal, get_args

from ..budget import Budget, Neighbours
from ..errors import InvalidArgument, MissingExtra
from ..ledger import Amount, Ledger, filter_for
from .drafts import Draft, Drafts
from .foresight import Foresight
from .guard import Guard
from .spec import digest_of
from .spending import Spender

Role = Literal["officer", "analyst"]
LEDGER = "ledger.db"
WHOLE = Budget(epsilon=3.0, delta=1e-6)
"""Of each data set in a ledger that is started here, unless the user says another one."""
_FORESEEN = 32
"""Requests whose forecasts are kept."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What a studio is started with.

    Args:
        folder: of the data, the ledger and the results.
        role: "officer", who spends, or "analyst", who plans and asks.
        ledger: the path of the ledger, relative to the folder.
        token: the secret of its addresses.
        port: where it listens.
    """

    folder: Path
    role: Role = "officer"
    ledger: Path = Path(LEDGER)
    token: str = field(default_factory=lambda: secrets.token_urlsafe(24), repr=False)
    port: int = 0

    def __post_init__(self) -> None:
        if self.role not in get_args(Role):
            raise InvalidArgument("role", " or ".join(map(repr, get_args(Role))), got=self.role)
        try:
            folder = self.folder.resolve()
            known = folder.is_dir()
        except (OSError, ValueError):
            known = False
        if not known:
            raise InvalidArgument("folder", "a folder that is there", got=str(self.folder))
        object.__setattr__(self, "folder", folder)
        object.__setattr__(self, "ledger", folder / self.ledger)

    @property
    def host(self) -> str:
        """The only one that is answered for."""
        return f"127.0.0.1:{self.port}"

    @property
    def address(self) -> str:
        """What to open."""
        return f"http://{self.host}/{self.token}/"

    @property
    def ledger_name(self) -> str:
        """As command lines in the folder say it."""
        return str(self.ledger.relative_to(self.folder) if self.ledger.is_relative_to(self.folder) else self.ledger)


class Studio:
    """What the pages share."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.drafts = Drafts(settings.folder)
        self._lock = threading.Lock()
        self._ledger: Ledger | None = None
        self._foreseen: dict[str, Foresight] = {}
        self._behind = ThreadPoolExecutor(max_workers=1, thread_name_prefix="foresee")
        self.spender = Spender(settings.folder, self.opened)

    @property
    def is_officer(self) -> bool:
        """Whether this studio may spend."""
        return self.settings.role == "officer"

    @property
    def ledger(self) -> Ledger | None:
        """The ledger, where there is one."""
        with self._lock:
            if self._ledger is None and self.settings.ledger.exists():
                self._ledger = Ledger.open(self.settings.ledger)
            return self._ledger

    def opened(self) -> Ledger:
        """The ledger, which must be there."""
        found = self.ledger
        if found is None:
            raise InvalidArgument("ledger", "started by the officer first")
        return found

    def foresight(
        self, draft: Draft, delta: float, like: tuple[int, ...] = (), whole: Budget | None = None
    ) -> Foresight:
        """The forecasts of a draft at this δ, new ones where it has changed; `whole` is for a ledger to be started."""
        spec = draft.spec(epsilon=1.0, delta=delta)
        ledger = self.ledger
        left = unspent(whole or WHOLE, spec.unit.neighbours) if ledger is None else ledger.remaining(draft.dataset)
        held = f"{left.filter} {left.exact} {left.slack}"
        digest = digest_of({**spec.to_body(), "size": draft.size, "like": like, "held": held})
        with self._lock:
            found = self._foreseen.get(digest)
            if found is None:
                found = self._foreseen[digest] = Foresight(spec, draft.size, left, like)
                while len(self._foreseen) > _FORESEEN:
                    del self._foreseen[next(iter(self._foreseen))]
                found.prepare(self._behind)
        return found

    def close(self) -> None:
        """Stop what is done behind the pages."""
        self._behind.shutdown(wait=False, cancel_futures=True)
        self.spender.close()


def unspent(whole: Budget, neighbours: Neighbours) -> Amount:
    """What a data set has in a ledger that is started with this budget."""
    guard = filter_for(whole)
    return Amount(
        filter=guard, exact=Fraction(guard.total), slack=Fraction(guard.slack), whole=whole, neighbours=neighbours
    )


def create_app(settings: Settings) -> Any:
    """The studio as an ASGI application, guarded."""
    try:
        import jinja2  # noqa: F401
        from starlette.applications import Starlette
        from starlette.routing import Mount
        from starlette.staticfiles import StaticFiles
    except ImportError as error:
        raise MissingExtra(error.name or "starlette", "studio") from None
    from . import books, outcome, paying, steps
    from .view import routed

    studio = Studio(settings)
    listed = [*steps.ROUTES, *paying.ROUTES, *outcome.ROUTES, *books.ROUTES]
    static = StaticFiles(directory=str(resources.files(__package__).joinpath("static")))
    routes = [*(routed(studio, *each) for each in listed), Mount("/static", static)]
    app = Starlette(routes=routes)
    app.state.studio = studio
    guard = Guard(app, settings.host, settings.token)
    guard.studio = studio  # type: ignore[attr-defined]
    return guard


def serve(
    folder: Path = Path(),
    *,
    port: int = 0,
    browser: bool = True,
    role: Role = "officer",
    ledger: Path = Path(LEDGER),
    say: Callable[[str], None] = print,
) -> None:
    """Serve until interrupted.

    Args:
        folder: of the data.
        port: on 127.0.0.1; a free one by default.
        browser: whether to open the address.
        role: "officer" or "analyst".
        ledger: its path, relative to the folder.
        say: prints a line.
    """
    try:
        import uvicorn
    except ImportError:
        raise MissingExtra("uvicorn", "studio") from None
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        if os.name == "posix":
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(("127.0.0.1", port))
        listening.listen(256)  # who opens the address at once waits, and is not refused
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or "out of range"
        raise InvalidArgument("port", f"one that is free ({reason})", got=port) from None
    settings = Settings(folder=folder, role=role, ledger=ledger, port=listening.getsockname()[1])
    os.chdir(settings.folder)  # where queries find their files
    app = create_app(settings)
    config = uvicorn.Config(
        app,
        log_level="error",
        access_log=False,
        server_header=False,
        date_header=False,
        ws="none",
        lifespan="off",
        loop="asyncio",
        http="h11",
    )
    say(f"The studio of {settings.folder} for the {settings.role}:\n  {settings.address}\nCtrl-C ends it.")
    opened = _open(settings.address) if browser else None
    try:
        uvicorn.Server(config).run(sockets=[listening])
    except KeyboardInterrupt:
        pass
    finally:
        app.studio.close()
        if opened is not None:
            opened.unlink(missing_ok=True)
        sys.stdout.flush()


def _open(address: str) -> Path:
    """Open a browser by a page that only this user can read: others see the command lines of all processes."""
    handle, name = tempfile.mkstemp(suffix=".html", prefix="simplexdp-")
    with os.fdopen(handle, "w", encoding="utf-8") as page:
        to = f'<meta http-equiv="refresh" content="0;url={address}"><a href="{address}">Studio</a>'
        page.write(f"<!doctype html><title>Studio</title>{to}")
    webbrowser.open(Path(name).as_uri())
    return Path(name)
