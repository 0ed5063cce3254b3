"""One HTTP request and its response, on the ASGI interface."""

import asyncio
from collections.abc import Awaitable, Callable, Generator, MutableMapping
from types import CoroutineType
from typing import Any, Final, TypeAlias

from accord.bindings import headers as names
from accord.bindings import http
from accord.protocol import codec
from accord.protocol.jsonrpc import ErrorBody
from accord.transports.http_bodies import Bodies, Body
from accord.transports.streams import Receive, Send

__all__ = [
    "HEADERS_MOST",
    "HEADER_BYTES_MOST",
    "LAST_EVENT",
    "SESSION",
    "Headers",
    "HttpExchange",
    "Scope",
    "readable_by",
]

Scope: TypeAlias = MutableMapping[str, Any]
Headers: TypeAlias = list[tuple[bytes, bytes]]

SESSION: Final = names.SESSION.encode()
LAST_EVENT: Final = names.LAST_EVENT.encode()
_LENGTH: Final = b"content-length"
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
# Far more than browsers and proxies send.
HEADERS_MOST: Final = 200
HEADER_BYTES_MOST: Final = 64 * 1024
# Bodies of less are within any limit that makes sense.
_BRIEF: Final = 4096


class HttpExchange:
    """One HTTP request and its response.

    Args:
        app: the app that serves it; its options and its clock count.
        scope: the request.
        receive: reads its body, and tells that the client is gone.
        send: writes the response.
    """

    is_begun = False
    denial: tuple[bytes, bytes] | None = None

    def __init__(self, app: Any, scope: Scope, receive: Receive, send: Send) -> None:
        self.app = app
        self.scope = scope
        self.method: str = scope["method"]
        self.receive = receive
        self.send = send
        given = scope["headers"]
        self.headers: dict[bytes, bytes] = dict(given)
        if len(self.headers) != len(given):
            self._join(given)

    def _join(self, given: Headers) -> None:
        """Make one of headers that came twice: with both values, and so none that is allowed."""
        found: dict[bytes, list[bytes]] = {}
        for name, value in given:
            found.setdefault(name, []).append(value)
        self.headers = {name: b", ".join(values) for name, values in found.items()}

    @property
    def is_admitted(self) -> Callable[[], Awaitable[bool]] | None:
        """What a guard around us says of the token later on; None where there is no guard."""
        found: Callable[[], Awaitable[bool]] | None = self.scope.get("accord.admitted")
        return found

    def header(self, name: bytes) -> str | None:
        """Return the text of a header that the app reads."""
        value = self.headers.get(name)
        return None if value is None else value.decode("latin-1")

    # -- the body

    # Whether the session that it belongs to has been found.
    is_known = False

    def body(self) -> bytes | Awaitable[bytes | None]:
        """Read the body: returns it if it is there, as small ones are, else what to wait for.

        Whoever waits gets None where the request was refused or the client is gone.
        """
        length = self.headers.get(_LENGTH)
        if length is not None and length.isdigit() and int(length[:20]) > _BRIEF:
            limit, setting = self._limit()
            if int(length[:20]) > limit:
                return self._refuse_body(limit, setting)
        waiting = self.receive()
        if type(waiting) is not CoroutineType:
            return self._patiently(waiting)
        try:
            first = waiting.send(None)
        except StopIteration as done:
            message = done.value
        else:
            return self._patiently(_Resumed(waiting, first))
        if message["type"] != "http.request" or message.get("more_body"):
            return self._patiently(None, message)
        body = bytes(message.get("body", b""))
        if len(body) > _BRIEF:
            limit, setting = self._limit()
            if len(body) > limit:
                return self._refuse_body(limit, setting)
        return body

    def _limit(self) -> tuple[int, str]:
        """Return how many bytes the body may have, and the setting that says so."""
        app = self.app
        limit, least = app.server.limits.message_bytes, app.options.opening_bytes
        is_known = self.is_known or app.options.stateless
        if is_known or limit <= least or self.headers.get(SESSION) in app.sessions:
            return limit, "message_bytes"
        return least, "opening_bytes, before there is a session"

    async def _refuse_body(self, limit: int, setting: str) -> None:
        why = f"body exceeds {limit} bytes ({setting})"
        await self.refuse(http.HttpRefusal(413, why), close=True)

    async def _patiently(
        self,
        waiting: Awaitable[MutableMapping[str, Any]] | None,
        message: MutableMapping[str, Any] | None = None,
    ) -> bytes | None:
        """Wait for a body, but not for ever: for its beginning, or for what follows that."""
        bodies: Bodies = self.app.bodies
        body = bodies.begin(self.app.now())
        try:
            if waiting is not None:
                message = await waiting
            if message is None or message["type"] != "http.request":
                return None
            return await self._rest(message, bodies, body)
        except asyncio.CancelledError:
            if body.refusal is None:
                raise
            body.task.uncancel()
            await self.refuse(body.refusal, close=True)
            return None
        finally:
            bodies.end(body)

    async def _rest(
        self, message: MutableMapping[str, Any], bodies: Bodies, body: Body
    ) -> bytes | None:
        limit, setting = self._limit()
        chunks: list[bytes] = []
        while message["type"] == "http.request":
            chunk = message.get("body", b"")
            chunks.append(chunk)
            refusal = bodies.add(body, len(chunk), self.app.now())
            if body.size > limit:
                chunks.clear()
                await self._refuse_body(limit, setting)
                return None
            if refusal is not None:
                chunks.clear()
                await self.refuse(refusal, close=True)
                return None
            if not message.get("more_body"):
                return b"".join(chunks)
            message = await self.receive()
        return None

    # -- responses

    def _headers(self, *more: tuple[bytes, bytes]) -> Headers:
        found = list(more)
        origin = self.headers.get(b"origin")
        if origin is not None and self.app.options.cors:
            found += readable_by(origin)
        return found

    async def _respond(self, status: int, headers: Headers, body: bytes = b"") -> None:
        headers.append((_LENGTH, b"%d" % len(body)))
        self.is_begun = True
        await self.send({"type": "http.response.start", "status": status, "headers": headers})
        await self.send({"type": "http.response.body", "body": body, "more_body": False})

    async def json(self, body: bytes, *, status: int = 200, session: str | None = None) -> None:
        """Answer with one message."""
        headers = self._headers(_JSON) if b"origin" in self.headers else [_JSON]
        if session is not None:
            headers.append((SESSION, session.encode()))
        if self.denial is not None:
            status = 403
            headers.append(self.denial)
        headers.append((_LENGTH, b"%d" % len(body)))
        self.is_begun = True
        await self.send({"type": "http.response.start", "status": status, "headers": headers})
        await self.send({"type": "http.response.body", "body": body, "more_body": False})

    async def empty(self, status: int) -> None:
        """Answer without a body."""
        if status == 204:  # has no length either
            self.is_begun = True
            head = {"type": "http.response.start", "status": status, "headers": self._headers()}
            await self.send(head)
            await self.send({"type": "http.response.body", "body": b"", "more_body": False})
        else:
            await self._respond(status, self._headers())

    async def refuse(self, refusal: http.HttpRefusal, *, close: bool = False) -> None:
        """Answer with an error that says why; the connection may be closed after it."""
        body = codec.encode_error(None, ErrorBody(refusal.code, refusal.message))
        # Origins that are refused may not read why.
        headers = [_JSON] if refusal.status == 403 else self._headers(_JSON)
        headers += [(name.encode(), value.encode()) for name, value in refusal.headers]
        if close and self.scope.get("http_version", "1.1") in ("1.0", "1.1"):
            headers.append(_CLOSE)
        await self._respond(refusal.status, headers, body)

    async def fail(self) -> None:
        """Answer that something went wrong here, if it is not too late to say so."""
        if not self.is_begun:
            await self.refuse(http.HttpRefusal(500, "internal error", code=-32603), close=True)

    async def health(self, *, is_ready: bool) -> None:
        """Say that the process lives, or that it takes requests."""
        body = b'{"status":"ok"}' if is_ready else b'{"status":"stopping"}'
        await self._respond(200 if is_ready else 503, [_JSON, _NO_STORE], body)

    async def preflight(self, allowed: str) -> None:
        """Answer a browser that asks whether it may."""
        headers = self._headers((b"allow", allowed.encode()))
        if self.app.options.cors:
            headers += [
                (b"access-control-allow-methods", b"GET, POST, DELETE"),
                (b"access-control-allow-headers", self.headers.get(_ASKED_HEADERS, b"*")),
                (b"access-control-max-age", _PREFLIGHT_AGE),
            ]
        head = {"type": "http.response.start", "status": 204, "headers": headers}
        await self.send(head)
        await self.send({"type": "http.response.body", "body": b"", "more_body": False})

    def stream_head(self, session: str | None = None) -> MutableMapping[str, Any]:
        """Make the beginning of an event stream; from now on it is too late for anything else."""
        headers = self._headers(*_SSE)
        if session is not None:
            headers.append((SESSION, session.encode()))
        self.is_begun = True
        return {"type": "http.response.start", "status": 200, "headers": headers}

    async def whole_stream(self, events: bytes, *, session: str | None = None) -> None:
        """Answer with an event stream that is already complete."""
        head = self.stream_head(session)
        head["headers"].append((_LENGTH, b"%d" % len(events)))
        await self.send(head)
        await self.send({"type": "http.response.body", "body": events, "more_body": False})


class _Resumed:
    """A coroutine that was begun by hand, to be awaited from where it waits."""

    __slots__ = ("_first", "_work")

    def __init__(self, work: "CoroutineType[Any, Any, Any]", first: Any) -> None:
        self._work = work
        self._first = first

    def __await__(self) -> Generator[Any, Any, Any]:
        waits_for = self._first
        try:
            while True:
                try:
                    outcome = yield waits_for
                except BaseException as error:
                    waits_for = self._work.throw(error)
                else:
                    waits_for = self._work.send(outcome)
        except StopIteration as done:
            return done.value


def readable_by(origin: bytes) -> Headers:
    """Return the headers that let pages of an origin read an answer."""
    return [
        (b"access-control-allow-origin", origin),
        (b"access-control-expose-headers", _EXPOSED),
        (b"vary", b"Origin"),
    ]
