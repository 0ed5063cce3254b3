"""HTTP requests and responses as data, and flows: generators that yield one and get the other.

Nothing here sends anything. A flow yields requests, gets their responses and returns a value, so
that any HTTP library can carry it and tests need none.
"""

from collections.abc import Awaitable, Callable, Generator, Mapping
from typing import Any, Final, TypeAlias, TypeVar
from urllib.parse import quote_plus, urlencode

import msgspec

from accord.bindings.http_responses import quote_text, quote_url

Value = TypeVar("Value")

_FORM: Final = "application/x-www-form-urlencoded"


class HttpRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A request to be sent.

    `repr` shows neither headers nor body: both may be secret.
    """

    method: str
    url: str
    headers: Mapping[str, str] = msgspec.field(default_factory=dict)
    body: bytes | None = None

    def __repr__(self) -> str:
        return f"HttpRequest({self.summary!r})"

    @property
    def summary(self) -> str:
        """Method and URL for messages to users: no query, no secrets."""
        return f"{self.method} {quote_url(self.url)}"


class HttpResponse(msgspec.Struct, frozen=True, kw_only=True):
    """A whole response: header names are lower case, `url` is the one that answered."""

    status: int
    headers: Mapping[str, str] = msgspec.field(default_factory=dict)
    body: bytes = b""
    url: str = ""

    def __repr__(self) -> str:
        return f"HttpResponse({self.status}, {quote_url(self.url)!r}, {len(self.body)} bytes)"

    @property
    def is_ok(self) -> bool:
        """Whether the status says that it succeeded."""
        return 200 <= self.status < 300

    def object(self) -> dict[str, Any] | None:
        """Return the body if it is a JSON object, else None."""
        try:
            found = msgspec.json.decode(self.body)
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
            return None
        return found if isinstance(found, dict) else None

    @property
    def summary(self) -> str:
        """The status, and the text of an OAuth error, for messages to users."""
        said = self.object() or {}
        error, about = said.get("error"), said.get("error_description")
        if isinstance(error, str):
            text = error if not isinstance(about, str) else f"{error}: {about}"
            return f"HTTP {self.status} {quote_text(text)}"
        return f"HTTP {self.status}{_kind(self)}"


Send: TypeAlias = Callable[[HttpRequest], Awaitable[HttpResponse]]
"""Sends a request, or raises `NoResponse`."""

Flow: TypeAlias = Generator[HttpRequest, HttpResponse, Value]
"""A flow: yields requests, gets responses (or has `NoResponse` raised), returns a value."""


class NoResponse(Exception):
    """A request got no response, or was not sent: raised into the flow that yielded it.

    `is_refused` says that our own policy refused it; `hint` says what to change.
    """

    def __init__(self, reason: str, *, is_refused: bool = False, hint: str = "") -> None:
        super().__init__(reason)
        self.reason = reason
        self.is_refused = is_refused
        self.hint = hint


def form_request(
    url: str, fields: Mapping[str, str], headers: Mapping[str, str] | None = None
) -> HttpRequest:
    """Return the POST of a form, as OAuth endpoints take it."""
    usual = {"Content-Type": _FORM, "Accept": "application/json"}
    body = urlencode(fields, quote_via=quote_plus).encode()
    return HttpRequest(method="POST", url=url, headers={**usual, **(headers or {})}, body=body)


def _kind(response: HttpResponse) -> str:
    kind = response.headers.get("content-type", "").partition(";")[0].strip()
    if not response.body:
        return " with an empty body"
    return f" with {quote_text(kind)}" if kind else ""


async def run_flow(flow: Flow[Value], send: Send) -> Value:
    """Carry a flow to its end."""
    try:
        request = next(flow)
        while True:
            try:
                response = await send(request)
            except NoResponse as error:
                request = flow.throw(error)
            else:
                request = flow.send(response)
    except StopIteration as end:
        value: Value = end.value
        return value
    finally:
        flow.close()
