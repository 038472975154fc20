"""From a request to a page: forms as plain texts, templates, and errors beside the fields that they concern."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl

from jinja2 import Environment, FileSystemLoader, StrictUndefined, select_autoescape
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from .._version import __version__
from ..errors import FormatError, InvalidArgument, LedgerUnavailable, SimplexDPError
from ..numerics.printed import printed
from .guard import MAX_BODY

if TYPE_CHECKING:
    from .server import Studio

MOST_FIELDS = 5_000


class Form:
    """What a form or the end of an address says: texts by name."""

    def __init__(self, pairs: Sequence[tuple[str, str]]) -> None:
        self._said: dict[str, list[str]] = {}
        for name, text in pairs:
            self._said.setdefault(name, []).append(text)

    def text(self, name: str, default: str = "") -> str:
        """The last text of this name, without space around it."""
        return self._said.get(name, [default])[-1].strip()

    def texts(self, name: str) -> list[str]:
        """All of this name, each once."""
        return list(dict.fromkeys(self._said.get(name, [])))

    def has(self, name: str) -> bool:
        """Whether it is there."""
        return name in self._said

    def starting(self, prefix: str) -> dict[str, str]:
        """Those whose name starts so, by the rest of it."""
        return {name[len(prefix) :]: texts[-1].strip() for name, texts in self._said.items() if name.startswith(prefix)}


class Refused(Exception):
    """An answer that is no page of a step: status, title and text."""

    def __init__(self, status: int, title: str, text: str) -> None:
        self.status, self.title, self.text = status, title, text
        super().__init__(title)


class Ask:
    """One request: the studio, the parts of the path, the form and how to answer."""

    def __init__(self, studio: Studio, request: Request, form: Form) -> None:
        self.studio, self.form, self.request = studio, form, request
        self.path: Mapping[str, str] = request.path_params
        self.root = str(request.scope.get("root_path", ""))

    @property
    def is_post(self) -> bool:
        """Whether a form was sent."""
        return self.request.method == "POST"

    @property
    def is_fragment(self) -> bool:
        """Whether the script of the page asks for a piece of it."""
        return self.request.headers.get("x-fragment") == "1"

    def link(self, path: str) -> str:
        """The address of a page."""
        return f"{self.root}{path}"

    def go(self, path: str) -> Response:
        """After a form: look at this page."""
        return RedirectResponse(self.link(path), status_code=303)

    def page(self, template: str, *, status: int = 200, **values: Any) -> Response:
        """A page or a piece of one."""
        settings = self.studio.settings
        shared: dict[str, Any] = {
            "link": self.link,
            "role": settings.role,
            "officer": self.studio.is_officer,
            "folder": settings.folder.name or str(settings.folder),
            "ledger_name": settings.ledger_name,
            "version": __version__,
            "errors": {},
        }
        return HTMLResponse(environment().get_template(template).render({**shared, **values}), status_code=status)


Handler = Callable[[Ask], Response]


def routed(studio: Studio, path: str, handler: Handler, methods: Sequence[str]) -> Route:
    """A route to a handler, which runs in a thread and whose refusals become pages."""

    async def endpoint(request: Request) -> Response:
        pairs: list[tuple[str, str]] = list(request.query_params.multi_items())
        try:
            if request.method == "POST":
                pairs = _pairs(await _body(request))
            return await run_in_threadpool(_answer, handler, Ask(studio, request, Form(pairs)))
        except Refused as refused:
            return _refusal(Ask(studio, request, Form([])), refused)

    return Route(path, endpoint, methods=list(methods))


def _answer(handler: Handler, ask: Ask) -> Response:
    try:
        return handler(ask)
    except Refused as refused:
        return _refusal(ask, refused)
    except LedgerUnavailable as error:
        return _refusal(ask, Refused(503, "The ledger cannot be used now", str(error)))
    except FormatError as error:
        return _refusal(ask, Refused(409, "A file is damaged", str(error)))
    except SimplexDPError as error:
        return _refusal(ask, Refused(422, "This cannot be done", str(error)))


def _refusal(ask: Ask, refused: Refused) -> Response:
    return ask.page("refused.html", status=refused.status, title=refused.title, text=refused.text)


async def _body(request: Request) -> bytes:
    if request.headers.get("content-type", "").partition(";")[0].strip() != "application/x-www-form-urlencoded":
        raise Refused(415, "Not a form", "Forms of the studio are sent as application/x-www-form-urlencoded.")
    found = bytearray()
    async for part in request.stream():
        found += part
        if len(found) > MAX_BODY:
            raise Refused(413, "Too much", "The form is longer than any that the studio has.")
    return bytes(found)


def _pairs(body: bytes) -> list[tuple[str, str]]:
    try:
        return parse_qsl(
            body.decode("utf-8"), keep_blank_values=True, errors="replace", max_num_fields=MOST_FIELDS, separator="&"
        )
    except ValueError:
        raise Refused(400, "Not a form", "The form cannot be read.") from None


def beside(error: SimplexDPError, fields: Mapping[str, str], default: str = "") -> dict[str, str]:
    """The message of an error under the field of the page that it concerns.

    Args:
        error: of the library.
        fields: of the page, by the name of the argument that each gives.
        default: the field of all other errors; empty for the top of the page.
    """
    if isinstance(error, InvalidArgument):
        for name, field in fields.items():
            if error.name == name or error.name.startswith((f"{name}[", f"{name}.")):
                return {field: f"Must be {error.expectation}. {error.hint}".strip()}
    return {default: str(error)}


@cache
def environment() -> Environment:
    """The templates; every value is escaped."""
    found = Environment(
        loader=FileSystemLoader(str(resources.files(__package__).joinpath("templates"))),
        autoescape=select_autoescape(default=True, default_for_string=True),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    found.filters["printed"] = lambda value: "–" if value is None else printed(value)
    found.filters["left"] = lambda value: "–" if value is None else printed(value, up=False)
    found.filters["short"] = short
    found.filters["whole"] = lambda value: "–" if value is None else f"{value:,}"
    return found


def short(value: float | None) -> str:
    """A number that need not be exact.

    >>> short(12.3456), short(1234.5), short(None)
    ('12.3', '1,234', '–')
    """
    if value is None:
        return "–"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
