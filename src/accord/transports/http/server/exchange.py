"""One HTTP request and its response, on the ASGI interface."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Hashable, MutableMapping
from math import inf
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from accord.bindings import headers as names
from accord.bindings import http
from accord.protocol import codec
from accord.protocol.jsonrpc import ErrorBody

if TYPE_CHECKING:
    from accord.transports.http.server.state import HttpOptions

SESSION: Final = names.SESSION.encode()
VERSION: Final = names.VERSION.encode()
LAST_EVENT: Final = names.LAST_EVENT.encode()
LENGTH: Final = b"content-length"
_ASKED_HEADERS: Final = b"access-control-request-headers"

_JSON: Final = (b"content-type", b"application/json")
_SSE: Final = (
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-cache, no-transform"),
    (b"x-accel-buffering", b"no"),
)
_NO_STORE: Final = (b"cache-control", b"no-store")
_CLOSE: Final = (b"connection", b"close")
_EXPOSED: Final = b"Mcp-Session-Id, MCP-Protocol-Version, WWW-Authenticate"
_PREFLIGHT_AGE: Final = b"600"
# Far more than browsers and proxies send; nginx and Apache take 32 KiB and 100 headers or less.
HEADERS_MOST: Final = 200
HEADER_BYTES_MOST: Final = 64 * 1024
# How many messages of a body may follow, before the first that says that the client is gone.
_LEFTOVERS: Final = 8
# Verifiers accept tokens for about this long after they expire; streams last as long then.
_LEEWAY: Final = 60.0

Scope: TypeAlias = MutableMapping[str, Any]
Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
Headers: TypeAlias = list[tuple[bytes, bytes]]


class HttpExchange:
    """One HTTP request, and the ways to respond to it.

    Args:
        options: of the app that serves it.
        scope: the request.
        receive: reads its body, and reports when the client disconnects.
        send: writes the response.
    """

    # Whether its session has been found before its body is read.
    has_session = False
    # Whether the response has begun.
    is_begun = False
    # The names of headers that occur more than once.
    repeated: frozenset[bytes] = frozenset()
    # The header of a response with status 403, in place of the status of the answer.
    denial: tuple[bytes, bytes] | None = None

    def __init__(self, options: "HttpOptions", scope: Scope, receive: Receive, send: Send) -> None:
        self.options = options
        self.scope = scope
        self.method: str = scope["method"]
        self.receive = receive
        self.send = send
        given: Headers = scope["headers"]
        self.headers: dict[bytes, bytes] = dict(given)
        if len(self.headers) != len(given):
            self._join(given)

    def _join(self, given: Headers) -> None:
        """Join repeated headers, so that no allow-list matches them."""
        found: dict[bytes, list[bytes]] = {}
        for name, value in given:
            found.setdefault(name, []).append(value)
        self.headers = {name: b", ".join(values) for name, values in found.items()}
        self.repeated = frozenset(name for name, values in found.items() if len(values) > 1)

    def header(self, name: bytes) -> str | None:
        """Return a header as text."""
        value = self.headers.get(name)
        return None if value is None else value.decode("latin-1")

    # -- the caller

    @property
    def principal(self) -> Hashable:
        """The caller, as the option `principal` or the guard around the app names it."""
        if self.options.principal is None:
            found: Hashable = self.scope.get("accord.principal")
            return found
        return self.options.principal(self.scope)

    @property
    def is_admitted(self) -> Callable[[], Awaitable[bool]] | None:
        """Verifies the request's token again; None without a guard around the app."""
        found: Callable[[], Awaitable[bool]] | None = self.scope.get("accord.admitted")
        return found

    def expiry(self, now: float) -> float:
        """Return when the request's token expires; its streams end then."""
        expires_at: float | None = getattr(self.principal, "expires_at", None)
        if expires_at is None:
            return inf
        left = expires_at - time.time()
        return now + (left if left > 0 else _LEEWAY)

    # -- responses

    def _headers(self, *more: tuple[bytes, bytes]) -> Headers:
        found = list(more)
        origin = self.headers.get(b"origin")
        if origin is not None and self.options.cors:
            found += cors_headers(origin)
        return found

    async def _respond(self, status: int, headers: Headers, body: bytes = b"") -> None:
        if status != 204:  # RFC 9110, 8.6: a 204 has no length
            headers.append((LENGTH, b"%d" % len(body)))
        self.is_begun = True
        await self.send({"type": "http.response.start", "status": status, "headers": headers})
        await self.send({"type": "http.response.body", "body": body, "more_body": False})

    async def json(self, body: bytes, *, status: int = 200, session: str | None = None) -> None:
        """Respond with one message."""
        headers = self._headers(_JSON) if b"origin" in self.headers else [_JSON]
        if session is not None:
            headers.append((SESSION, session.encode()))
        if self.denial is not None:
            status = 403
            headers.append(self.denial)
        # As `_respond` does it, without the cost of another coroutine.
        headers.append((LENGTH, b"%d" % len(body)))
        self.is_begun = True
        await self.send({"type": "http.response.start", "status": status, "headers": headers})
        await self.send({"type": "http.response.body", "body": body, "more_body": False})

    def empty(self, status: int) -> Awaitable[None]:
        """Respond without a body."""
        return self._respond(status, self._headers())

    async def refuse(self, refusal: http.HttpRefusal, *, close: bool = False) -> None:
        """Respond with an error; the connection may be closed after it."""
        body = codec.encode_error(None, ErrorBody(refusal.code, refusal.message))
        # A page of a refused origin must not read the error.
        headers = [_JSON] if refusal.status == 403 else self._headers(_JSON)
        headers += [(name.encode(), value.encode()) for name, value in refusal.headers]
        if close and self.scope.get("http_version", "1.1") in ("1.0", "1.1"):
            headers.append(_CLOSE)
        await self._respond(refusal.status, headers, body)

    async def fail(self) -> None:
        """Respond with an internal error, unless the response has begun."""
        if not self.is_begun:
            await self.refuse(http.HttpRefusal(500, "internal error", code=-32603), close=True)

    def health(self, *, is_ready: bool) -> Awaitable[None]:
        """Respond to a health check."""
        body = b'{"status":"ok"}' if is_ready else b'{"status":"stopping"}'
        return self._respond(200 if is_ready else 503, [_JSON, _NO_STORE], body)

    def preflight(self, allowed: str) -> Awaitable[None]:
        """Respond to OPTIONS, which browsers send before the request of a page."""
        headers = self._headers((b"allow", allowed.encode()))
        if self.options.cors:
            headers += [
                (b"access-control-allow-methods", b"GET, POST, DELETE"),
                (b"access-control-allow-headers", self.headers.get(_ASKED_HEADERS, b"*")),
                (b"access-control-max-age", _PREFLIGHT_AGE),
            ]
        return self._respond(204, headers)

    def stream_head(self, session: str | None = None) -> Message:
        """Return the start of a response with an event stream, to be sent at once."""
        headers = self._headers(*_SSE)
        if session is not None:
            headers.append((SESSION, session.encode()))
        self.is_begun = True
        return {"type": "http.response.start", "status": 200, "headers": headers}

    async def whole_stream(self, events: bytes, *, session: str | None = None) -> None:
        """Respond with an event stream that is already complete."""
        head = self.stream_head(session)
        head["headers"].append((LENGTH, b"%d" % len(events)))
        await self.send(head)
        await self.send({"type": "http.response.body", "body": events, "more_body": False})


async def wait_for_disconnect(receive: Receive) -> None:
    """Wait until the client is gone; for ever if the ASGI server cannot tell.

    Apps in between that have read the body may return it again and again.
    """
    for _ in range(_LEFTOVERS):
        if (await receive())["type"] == "http.disconnect":
            return
    await asyncio.get_running_loop().create_future()


def cors_headers(origin: bytes) -> Headers:
    """Return the headers that let pages of an origin read a response."""
    return [
        (b"access-control-allow-origin", origin),
        (b"access-control-expose-headers", _EXPOSED),
        (b"vary", b"Origin"),
    ]
