"""Who may speak to the studio, and what its pages may load: checked before, and set after, everything else.

The token is a part of every address and not a cookie, for browsers send cookies of 127.0.0.1 to each of its ports,
where another user of the machine may listen.
"""

from __future__ import annotations

import hmac
import os
import sys
import traceback
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "form-action 'self'; frame-src 'self'; frame-ancestors 'none'; base-uri 'none'"
)
REPORT_POLICY = (
    "default-src 'none'; img-src data:; style-src 'unsafe-inline'; form-action 'none'; frame-ancestors 'self'; "
    "base-uri 'none'; sandbox allow-same-origin"
)
"""Of a report, which has its styles and pictures in itself, and no script."""
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",
    "cache-control": "no-store",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), microphone=(), geolocation=(), payment=()",
}
MAX_BODY = 1 << 20
"""Bytes of a form."""


class Guard:
    """Lets through what comes from a page of this server to this server, with the token; everything else is refused.

    Args:
        app: what is guarded.
        host: `127.0.0.1:port`, the only one that is answered for.
        token: the first part of every path.
    """

    def __init__(self, app: App, host: str, token: str) -> None:
        self._app, self.host, self._token = app, host, token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            return
        started = False

        async def sent(message: MutableMapping[str, Any]) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                message["headers"] = _with_headers(message.get("headers", []))
            await send(message)

        problem = self._problem(scope)
        if problem is not None:
            await _plain(sent, *problem)
            return
        prefix = f"/{self._token}"
        try:
            path = f"{prefix}/" if scope["path"] == prefix else scope["path"]
            await self._app({**scope, "path": path, "root_path": prefix}, receive, sent)
        except Exception as error:
            # Its message and its frames may hold what must not be told.
            if os.environ.get("SIMPLEXDP_DEBUG"):
                traceback.print_exc()
            else:
                print(f"simplexdp studio: unexpected {type(error).__name__}", file=sys.stderr)
            if not started:
                await _plain(sent, 500, "The studio failed. Nothing more is known here; see its terminal.")

    def _problem(self, scope: Scope) -> tuple[int, str] | None:
        """Status and text of a refusal."""
        headers: dict[bytes, list[bytes]] = {}
        for name, value in scope["headers"]:
            headers.setdefault(name.lower(), []).append(value)
        if headers.get(b"host") != [self.host.encode()]:
            return 421, "This server answers for another host."
        first = scope["path"].lstrip("/").partition("/")[0]
        if not hmac.compare_digest(first.encode("utf-8", "surrogatepass"), self._token.encode()):
            return 403, "The address needs the token that the terminal shows."
        if scope["method"] not in ("GET", "HEAD", "POST"):
            return 405, "Only GET and POST are answered."
        origins = headers.get(b"origin", [])
        if origins not in ([], [f"http://{self.host}".encode()]):
            return 403, "The request comes from another origin."
        if scope["method"] == "POST" and not origins:
            return 403, "A form must come from a page of the studio."
        if headers.get(b"sec-fetch-site", [b"none"]) not in ([b"none"], [b"same-origin"]):
            return 403, "The request comes from another site."
        return None


def _with_headers(headers: Any) -> list[tuple[bytes, bytes]]:
    """Those of every answer, but for those that the answer has of its own."""
    own = [(name.lower(), value) for name, value in headers]
    named = {name for name, _ in own}
    return own + [(k.encode(), v.encode()) for k, v in HEADERS.items() if k.encode() not in named]


async def _plain(send: Send, status: int, text: str) -> None:
    headers = [(b"content-type", b"text/plain; charset=utf-8")]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": text.encode()})
