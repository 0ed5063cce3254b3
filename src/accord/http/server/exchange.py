"""One HTTP request and the ways to respond to it, on the ASGI interface or on the listener."""

import asyncio
import logging
import time
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterable, Mapping, MutableMapping
from math import inf
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import msgspec

from accord.http.rules import gate
from accord.http.rules import headers as names
from accord.http.server.stream import Reader, Stream
from accord.principal import Principal, as_principal
from accord.protocol import codec
from accord.protocol.jsonrpc import ErrorBody
from accord.runtime.handlers import DONE, TURN

if TYPE_CHECKING:
    from accord.http.server.connection import HttpConnection
    from accord.http.server.listener_request import ListenerExchange, ReceivedHead
    from accord.http.settings import HttpSettings

log = logging.getLogger("accord.http")

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
_NOTHING: Final[frozenset[bytes]] = frozenset()
Scope: TypeAlias = MutableMapping[str, Any]
Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
Headers: TypeAlias = list[tuple[bytes, bytes]]
_START: Final = "http.response.start"
_BODY: Final = "http.response.body"


class ResponseCut(Exception):
    """Raised by an ASGI app to end the connection within a response; the listener logs no error."""


class Admission(msgspec.Struct):
    """What a guard knows of a request that it passes on.

    Attributes:
        principal: whose token it has.
        challenge_for: returns the header that asks for more scopes.
        is_admitted: verifies the token again.
    """

    principal: Principal
    challenge_for: Callable[[Iterable[str]], tuple[bytes, bytes]]
    is_admitted: Callable[[], Awaitable[bool]]


class ListenerApp(ABC):
    """An app that serves requests of the listener itself, without ASGI in between.

    An app around it is not one: it would be passed by.
    """

    @abstractmethod
    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request of ASGI."""

    @abstractmethod
    def make_exchange(
        self, connection: "HttpConnection", head: "ReceivedHead"
    ) -> "ListenerExchange":
        """Return the request for a head that the listener has received."""

    @abstractmethod
    def serve_exchange(self, exchange: "ListenerExchange") -> Awaitable[None]:
        """Serve a request of the listener; return DONE, or what is to be awaited."""


class HttpExchange(ABC):
    """One HTTP request, and the ways to respond to it.

    Attributes:
        options: of the app that serves it.
        method: as it was sent.
        headers: with lower-case names; repeated ones are joined, so that no allow-list matches.
        repeated: the names of headers that occur more than once.
        scope: the request as ASGI describes it.
        body: all of the body, if it has arrived.
        has_session: whether its session has been found before its body is read.
        is_begun: whether the response has begun.
        is_on_listener: whether it was received by the listener, where nothing has to be awaited.
        on_left: called once if the client leaves, on the listener.
        denial: the header of a response with status 403, in place of the status of the answer.
    """

    has_session = False
    is_begun = False
    is_on_listener = False
    on_left: Callable[[], None] | None = None
    repeated: frozenset[bytes] = _NOTHING
    denial: tuple[bytes, bytes] | None = None
    options: "HttpSettings"
    method: str
    headers: Mapping[bytes, bytes]
    scope: Scope
    body: bytes | None = None

    @abstractmethod
    def receive(self) -> Awaitable[Message]:
        """Wait for the next part of the body, then for the client to disconnect."""

    @abstractmethod
    def respond(self, status: int, headers: Headers, body: bytes) -> Awaitable[None]:
        """Send a whole response; its length is added to the headers."""

    @abstractmethod
    def make_reader(self, stream: "Stream", headers: Headers, among: "set[Reader]") -> "Reader":
        """Return what sends a stream as the response, with status 200."""

    def finish_later(self, work: Awaitable[None]) -> None:
        """Go on with a response in a task, where no task serves the request: on the listener."""
        raise NotImplementedError

    @abstractmethod
    def expect_silence(self) -> None:
        """Keep no more than a response needs that only follows a stream."""

    def header(self, name: bytes) -> str | None:
        """Return a header as text."""
        value = self.headers.get(name)
        return None if value is None else value.decode("latin-1")

    # -- the caller

    @property
    def principal(self) -> Principal | None:
        """The caller, as the option `principal` or the guard around the app names it.

        Raises:
            TypeError: it is named by a value that does not identify it.
        """
        find = self.options["principal"]
        return as_principal(
            self.scope.get("accord.principal") if find is None else find(self.scope)
        )

    @property
    def is_admitted(self) -> Callable[[], Awaitable[bool]] | None:
        """Verifies the request's token again; None without a guard around the app."""
        found: Callable[[], Awaitable[bool]] | None = self.scope.get("accord.admitted")
        return found

    def expiry(self, now: float) -> float:
        """Return when the request's token expires; its streams end then."""
        principal = self.principal
        if principal is None or principal.expires_at is None:
            return inf
        left = principal.expires_at - time.time()
        return now + (left if left > 0 else _LEEWAY)

    # -- responses

    def _headers(self, *more: tuple[bytes, bytes]) -> Headers:
        found = list(more)
        origin = self.headers.get(b"origin")
        if origin is not None and self.options["cors"]:
            found += cors_headers(origin)
        return found

    def json(
        self, body: bytes, *, status: int = 200, session: str | None = None
    ) -> Awaitable[None]:
        """Respond with one message."""
        headers = self._headers(_JSON) if b"origin" in self.headers else [_JSON]
        if session is not None:
            headers.append((SESSION, session.encode()))
        if self.denial is not None:
            status = 403
            headers.append(self.denial)
        return self.respond(status, headers, body)

    def empty(self, status: int) -> Awaitable[None]:
        """Respond without a body."""
        return self.respond(status, self._headers(), b"")

    def refuse(self, refusal: gate.HttpRefusal, *, close: bool = False) -> Awaitable[None]:
        """Respond with an error; the connection may be closed after it."""
        body = codec.encode_error(None, ErrorBody(refusal.code, refusal.message))
        # A page of a refused origin must not read the error.
        headers = [_JSON] if refusal.status == 403 else self._headers(_JSON)
        headers += [(name.encode(), value.encode()) for name, value in refusal.headers]
        if close and self.scope.get("http_version", "1.1") in ("1.0", "1.1"):
            headers.append(_CLOSE)
        return self.respond(refusal.status, headers, body)

    def fail(self) -> Awaitable[None]:
        """Respond with an internal error, unless the response has begun."""
        if self.is_begun:
            return DONE
        return self.refuse(gate.HttpRefusal(500, "internal error", code=-32603), close=True)

    def health(self, unready_reason: str | None) -> Awaitable[None]:
        """Respond to a health check: say that all is well, or why it is not."""
        headers = [_JSON, _NO_STORE]
        if unready_reason is None:
            return self.respond(200, headers, b'{"status":"ok"}')
        body = msgspec.json.encode({"status": "unready", "reason": unready_reason})
        return self.respond(503, headers, body)

    def preflight(self, allowed: str) -> Awaitable[None]:
        """Respond to OPTIONS, which browsers send before the request of a page."""
        headers = self._headers((b"allow", allowed.encode()))
        if self.options["cors"]:
            headers += [
                (b"access-control-allow-methods", b"GET, POST, DELETE"),
                (b"access-control-allow-headers", self.headers.get(_ASKED_HEADERS, b"*")),
                (b"access-control-max-age", _PREFLIGHT_AGE),
            ]
        return self.respond(204, headers, b"")

    def stream_headers(self, session: str | None = None) -> Headers:
        """Return the headers of a response with an event stream."""
        headers = self._headers(*_SSE)
        if session is not None:
            headers.append((SESSION, session.encode()))
        return headers

    def whole_stream(self, events: bytes, *, session: str | None = None) -> Awaitable[None]:
        """Respond with an event stream that is already complete."""
        return self.respond(200, self.stream_headers(session), events)


def join_headers(fields: Headers) -> tuple[Mapping[bytes, bytes], frozenset[bytes]]:
    """Return headers by name, and the names of those that were joined because they repeat."""
    headers = dict(fields)
    if len(headers) == len(fields):
        return headers, _NOTHING
    found: dict[bytes, list[bytes]] = {}
    for name, value in fields:
        found.setdefault(name, []).append(value)
    repeated = frozenset(name for name, values in found.items() if len(values) > 1)
    return {name: b", ".join(values) for name, values in found.items()}, repeated


def expiry_check(ends_at: float) -> Callable[[float], bool] | None:
    """Return what tells whether a token has expired; None if it never does."""
    return None if ends_at == inf else lambda now: now >= ends_at


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


class AsgiExchange(HttpExchange):
    """A request on the ASGI interface.

    Args:
        options: of the app that serves it.
        scope: the request.
        receive: reads its body, and reports when the client disconnects.
        send: writes the response.
    """

    def __init__(self, options: "HttpSettings", scope: Scope, receive: Receive, send: Send) -> None:
        self.options = options
        self.scope = scope
        self.method = scope["method"]
        self._receive = receive
        self.send = send
        self.headers, self.repeated = join_headers(scope["headers"])

    def receive(self) -> Awaitable[Message]:
        return self._receive()

    async def respond(self, status: int, headers: Headers, body: bytes) -> None:
        self.is_begun = True
        if status != 204:  # RFC 9110, 8.6: a 204 has no length
            headers.append((LENGTH, b"%d" % len(body)))
        # First all requests of this turn of the loop are served, then all responses are written:
        # with 32 connections that takes a sixth less time, since code stays in the caches.
        await TURN
        await self.send({"type": _START, "status": status, "headers": headers})
        await self.send({"type": _BODY, "body": body, "more_body": False})

    def make_reader(self, stream: Stream, headers: Headers, among: set[Reader]) -> Reader:
        self.is_begun = True
        return AsgiReader(stream, among, self, headers)

    def expect_silence(self) -> None:
        """Keep everything: the scope belongs to the ASGI server."""


class AsgiReader(Reader):
    """A response that follows a stream on the ASGI interface; a task writes it.

    Args:
        stream: the stream.
        among: the open readers.
        exchange: its request.
        headers: sent before anything else.
    """

    __slots__ = ("_exchange", "_headers", "_is_let_go", "_owner", "_task")

    def __init__(
        self, stream: Stream, among: set[Reader], exchange: AsgiExchange, headers: Headers
    ) -> None:
        super().__init__(stream, among)
        self._exchange = exchange
        self._headers: Headers | None = headers
        self._task: asyncio.Task[None] | None = None
        self._owner: asyncio.Task[object] | None = None
        self._is_let_go = False

    def wake(self) -> None:
        if self._task is None and not self.is_done:
            self._task = self._loop.create_task(self._write())

    @property
    def is_writing(self) -> bool:
        return self._task is not None

    def let_go(self) -> None:
        self._is_let_go = True
        self.finish()
        if self._task is not None:
            self._task.cancel()

    async def _write(self) -> None:
        send = self._exchange.send
        try:
            if self._headers is not None:
                headers, self._headers = self._headers, None
                await send({"type": _START, "status": 200, "headers": headers})
            while not self.is_done:
                chunk, is_last = self._next()
                if not chunk and not is_last:
                    break
                self.last_write = self._loop.time()
                await send({"type": _BODY, "body": chunk, "more_body": not is_last})
                if is_last:
                    self.finish()
        except asyncio.CancelledError:
            if not self._is_let_go:
                raise
        except Exception as error:  # ASGI servers raise different errors when the client is gone
            log.debug("a client is gone: %r", error)
            self.finish()
        finally:
            self._task = None

    def finish(self) -> None:
        super().finish()
        if self._owner is not None:
            # First the ASGI server may end the wait for a disconnect itself: the response is done.
            self._loop.call_soon(self._free)

    def _free(self) -> None:
        if self._owner is not None:
            self._owner.cancel()

    async def follow(self) -> None:
        owner = self._owner = asyncio.current_task()
        assert owner is not None
        try:
            if not self.is_done:
                await wait_for_disconnect(self._exchange.receive)
        except asyncio.CancelledError:
            if not self.is_done:
                raise
            owner.uncancel()
        finally:
            self._owner = None
            self._among.discard(self)
            self.stream.detach(self)
            if self._task is not None and not self.is_done:
                self.is_done = self._is_let_go = True
                self._task.cancel()
            self._report_end()
