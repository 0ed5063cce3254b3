"""One request on a connection of the listener: its head, its body as it arrives, its response.

The app of a server takes it as it is, without ASGI in between (`ListenerExchange`); any other ASGI
app gets a scope and runs in a task (`AsgiRequest`). A connection that repeats its head byte for
byte has it recognised instead of parsed (`KnownHead`).
"""

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable
from functools import cached_property, lru_cache
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final, TypeAlias
from urllib.parse import unquote

from accord.http.parser import DIGITS_MOST, HttpParserInvalidURLError, KnownHead, parse_url
from accord.http.server.exchange import (
    Admission,
    Headers,
    HttpExchange,
    ResponseCut,
    Scope,
    join_headers,
)
from accord.http.server.stream import Reader, Stream
from accord.principal import Principal, as_principal
from accord.runtime.eager import start
from accord.runtime.handlers import DONE

if TYPE_CHECKING:
    from accord.http.server.app import HeadDecision, HttpApp
    from accord.http.server.connection import HttpConnection
    from accord.http.server.exchange import Message, Receive, Send

log = logging.getLogger("accord.http")

_LENGTH: Final = b"content-length"
_PLAIN_PATH: Final = re.compile(rb"/[A-Za-z0-9/._~-]*")
# What makes a request more than a head and a body of known length.
_UNUSUAL: Final = (b"transfer-encoding", b"expect", b"upgrade")
# Longer heads are parsed each time: they would have to be kept for each connection.
_HEAD_MOST: Final = 4096
# What a header takes beside its bytes: five objects, and places in a list and a table.
_FIELD_COST: Final = 256
STATUS_LINES: Final = {
    each.value: b"HTTP/1.1 %d %b\r\n" % (each.value, each.phrase.encode()) for each in HTTPStatus
}
_CLOSE: Final = b"connection: close\r\n"
_KEEP_ALIVE: Final = b"connection: keep-alive\r\n"
_CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"
# RFC 9110, 6.4.1: such responses have no body.
_WITHOUT_BODY: Final = (204, 304)
_TEXT: Final = (b"content-type", b"text/plain; charset=utf-8")
_GONE: Final = {"type": "http.disconnect"}
AsgiApp: TypeAlias = "Callable[[Scope, Receive, Send], Awaitable[None]]"
_ASGI: Final = {"version": "3.0", "spec_version": "2.3"}
_ORIGIN: Final = b"origin"


class ReceivedHead:
    """The head of a request.

    Attributes:
        method: as it was sent.
        target: as it was sent.
        version: "1.1" or "1.0".
        fields: the headers in order; names are lower case.
        headers: the same by name; repeated ones are joined, so that no allow-list matches them.
        repeated: the names of headers that occur more than once.
        is_kept_alive: whether the client wants to send more requests on the connection.
        path: the decoded path.
        query: the query string.
        decision: what follows from it for the app; kept for the next request with the same head.
    """

    __slots__ = (
        "decision",
        "fields",
        "headers",
        "is_kept_alive",
        "method",
        "path",
        "query",
        "raw_path",
        "repeated",
        "target",
        "version",
    )

    def __init__(
        self, method: str, target: bytes, version: str, fields: Headers, *, is_kept_alive: bool
    ) -> None:
        self.method = method
        self.target = target
        self.version = version
        self.fields = fields
        self.is_kept_alive = is_kept_alive
        self.headers, self.repeated = join_headers(fields)
        self.path = ""
        self.raw_path = self.query = b""
        self.decision: HeadDecision | None = None

    def _size(self) -> int:
        return len(self.target) + sum(len(name) + len(value) for name, value in self.fields)

    @property
    def memory(self) -> int:
        """About how many bytes it takes."""
        return self._size() + _FIELD_COST * len(self.fields)

    def find_fault(self, most: int | None) -> tuple[int, str] | None:
        """Return the status and the reason of a refusal, for what the parser lets through.

        It reads requests of HTTP/0.9 and 2.0 as if they were of 1.1, and takes a body for chunked
        whatever other coding it has.

        Args:
            most: how many bytes it may have, where that is in doubt.
        """
        if most is not None and self._size() > most:
            return 431, f"headers exceed {most} bytes"
        version = self.version
        if version not in ("1.1", "1.0"):
            return 505, "the version of HTTP is not 1.1 or 1.0"
        coding = self.headers.get(b"transfer-encoding")
        if coding is None:
            return None
        if version == "1.0":  # RFC 9112, 6.1: its framing is faulty
            return 400, "HTTP/1.0 has no Transfer-Encoding"
        return None if coding.lower() == b"chunked" else (501, "only chunked is a known coding")

    def parse_target(self) -> str | None:
        """Find the path and the query; return what is wrong with them, if anything is."""
        target = self.target
        if _PLAIN_PATH.fullmatch(target):
            self.raw_path = target
            self.path = target.decode("ascii")
            return None
        try:
            parsed = parse_url(target)
        except HttpParserInvalidURLError:
            return "the target of the request is not a path"
        if parsed.schema is not None:
            # RFC 9112, 3.2.2: a target with a host replaces the Host header. One that says
            # something else is refused: a proxy in between may have believed the other.
            if parsed.schema.lower() not in (b"http", b"https"):
                return "the target of the request is not of HTTP"
            host = parsed.host or b""
            port = b":%d" % parsed.port if parsed.port else b""
            if self.headers.get(b"host", b"").lower() not in (host.lower(), host.lower() + port):
                return "the Host header differs from the host in the target"
        self.raw_path = parsed.path or b"/"
        self.query = parsed.query or b""
        path = self.raw_path.decode("latin-1")
        self.path = unquote(path) if "%" in path else path
        return None

    def without_headers(self) -> "ReceivedHead":
        """Return what a response under way needs of the head: the method and the version."""
        return _head_of(self.method, self.version)

    def learn(self, data: bytes) -> "KnownHead[ReceivedHead] | None":
        """Return what recognises the head, if all of a request with it arrived as these bytes.

        None if the request has more than a head and a body of known length.
        """
        length = self.headers.get(_LENGTH, b"")
        is_plain = self.version == "1.1" and self.is_kept_alive and not self.repeated
        is_plain = is_plain and length.isdigit() and len(length) <= DIGITS_MOST
        if not is_plain or any(name in self.headers for name in _UNUSUAL):
            return None
        size = len(data) - int(length)
        return KnownHead.learn(data[:size], length, self) if 0 < size <= _HEAD_MOST else None

    def with_length(self, digits: bytes) -> "ReceivedHead":
        """Return the same head for a body of another length."""
        other = ReceivedHead.__new__(ReceivedHead)
        other.method, other.target, other.version = self.method, self.target, self.version
        other.is_kept_alive, other.repeated = self.is_kept_alive, self.repeated
        other.path, other.raw_path, other.query = self.path, self.raw_path, self.query
        other.decision = self.decision
        other.headers = {**self.headers, _LENGTH: digits}
        other.fields = [(name, digits if name == _LENGTH else value) for name, value in self.fields]
        return other


@lru_cache(maxsize=64)
def _head_of(method: str, version: str) -> ReceivedHead:
    return ReceivedHead(method, b"", version, [], is_kept_alive=True)


class ListenerRequest:
    """One request and its response.

    Args:
        connection: where it was received.
        head: its head.

    Attributes:
        is_received: whether all of its body has arrived.
        is_begun: whether the head of the response is decided.
        is_complete: whether the response is complete, or cannot be sent any more.
        is_last: whether the connection ends after the response.
        is_gone: whether its client has disconnected before the response was complete.
    """

    is_received = False
    is_begun = False
    is_complete = False
    is_gone = False
    body: bytes | None = None
    # What has arrived of the body. One buffer: each of many small parts would cost 50 bytes more.
    _arrived: bytes | bytearray = b""
    # What the head takes, while the request waits for others.
    head_size = 0
    _is_taken = False
    _is_continued = False
    _is_chunked = False
    _pending_head: bytes | None = None
    _waiter: asyncio.Future[None] | None = None
    # A response that follows a stream without a task of its own.
    follower: Any = None

    def __init__(self, connection: "HttpConnection", head: ReceivedHead) -> None:
        self.connection = connection
        self.head = head
        self.is_last = not head.is_kept_alive

    # -- the request

    def feed(self, data: bytes) -> None:
        """Take a part of the body."""
        arrived = self._arrived
        if not arrived:
            self._arrived = data
        elif type(arrived) is bytearray:
            arrived += data
        else:
            self._arrived = bytearray(arrived) + data
        if self._waiter is not None:
            self._wake()

    def end_body(self) -> None:
        """Note that the body is complete."""
        self.is_received = True
        self._wake()

    @property
    def held_bytes(self) -> int:
        """How many bytes of it wait to be served."""
        return self.head_size + len(self._arrived)

    def take_body(self) -> bytes:
        """Return the parts of the body that have arrived since the last call."""
        found, self._arrived = self._arrived, b""
        return found if type(found) is bytes else bytes(found)

    def take_whole(self) -> None:
        """Take a body that has arrived before the request is served."""
        self._is_taken = True
        self.body = self.take_body()

    async def receive(self) -> "Message":
        """Wait for the next part of the body, then for the end of the response or its client.

        The messages are those of ASGI.
        """
        while not self._is_taken and not self.is_gone:
            if self._arrived or self.is_received:
                self._is_taken = self.is_received
                body = self.take_body()
                self.connection.body_was_taken()
                return {"type": "http.request", "body": body, "more_body": not self.is_received}
            self._invite()
            await self._wait()
        while not self.is_gone and not self.is_complete:
            await self._wait()
        return _GONE

    def _invite(self) -> None:
        """Ask a client for the body that waits to be asked. (RFC 9110, 10.1.1)"""
        expected = self.head.headers.get(b"expect", b"")
        if expected.lower() == b"100-continue" and not self._is_continued and not self.is_begun:
            self._is_continued = True
            if self.head.version == "1.1":
                self.connection.write(_CONTINUE)

    async def _wait(self) -> None:
        self._waiter = self.connection.loop.create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def client_left(self) -> None:
        """Note that the client has disconnected."""
        self.is_gone = True
        self.is_complete = True
        self._wake()
        if self.follower is not None:
            self.follower.client_left()
        self.note_end()

    def note_end(self) -> None:
        """Note that the response has ended."""

    # -- the response

    def respond(self, status: int, headers: "Headers", body: bytes) -> Awaitable[None]:
        """Send a whole response, in one write."""
        self.is_begun = True
        head = self._encode_head(status, headers)
        if status in _WITHOUT_BODY:
            self._end(head + b"\r\n")
        elif self.head.method == "HEAD":
            self._end(b"%bcontent-length: %d\r\n\r\n" % (head, len(body)))
        else:
            self._end(b"%bcontent-length: %d\r\n\r\n%b" % (head, len(body), body))
        return DONE

    def begin(self, status: int, headers: "Headers") -> None:
        """Begin a response of unknown length; its head leaves with the first part of its body."""
        self.is_begun = True
        self._is_chunked = self.head.method != "HEAD" and status not in _WITHOUT_BODY
        if self._is_chunked and any(name == b"content-length" for name, _ in headers):
            self._is_chunked = False
        elif self._is_chunked and self.head.version != "1.1":
            self._is_chunked = False
            self.is_last = True  # the end of the connection is the end of the body
        head = self._encode_head(status, headers)
        if self._is_chunked:
            head += b"transfer-encoding: chunked\r\n"
        self._pending_head = head + b"\r\n"

    def write(self, data: bytes, *, is_last: bool) -> None:
        """Send a part of the body."""
        if self.is_complete:
            return
        head, self._pending_head = self._pending_head or b"", None
        if self._is_chunked:
            data = b"%x\r\n%b\r\n" % (len(data), data) if data else b""
            if is_last:
                data += b"0\r\n\r\n"
        elif self.head.method == "HEAD":
            data = b""
        if is_last:
            self._end(head + data)
        elif head or data:
            self.connection.write(head + data)

    def _encode_head(self, status: int, headers: "Headers") -> bytes:
        """Return the head of the response, up to the line that ends it."""
        if not self.is_received:
            # The rest of the body would be read as the next request, or waited for without end.
            self.is_last = True
        listener = self.connection.listener
        listener.metrics.responses[self.head.method][status // 100] += 1
        lines = [STATUS_LINES.get(status) or b"HTTP/1.1 %d \r\n" % status, listener.date_line]
        for name, value in headers:
            if name == b"connection":
                self.is_last = self.is_last or b"close" in value.lower()
            elif name == b"date":  # an app that passes on responses of others has it already
                lines[1] = b"date: %b\r\n" % value
            elif name != b"transfer-encoding":
                lines.append(b"%b: %b\r\n" % (name, value))
        if self.is_last or self.connection.is_ending:
            self.is_last = True
            lines.append(_CLOSE)
        elif self.head.version != "1.1":
            lines.append(_KEEP_ALIVE)
        return b"".join(lines)

    def _end(self, data: bytes) -> None:
        if not self.is_complete:
            self.is_complete = True
            self.connection.write(data)
            if self._waiter is not None:
                self._wake()
            self.note_end()
            self.connection.response_ended(self)

    def cut_off(self) -> None:
        """End a response that cannot be completed."""
        if not self.is_complete:
            self.is_complete = True
            self._wake()
            if self.follower is not None:
                self.follower.client_left()
            self.note_end()
            self.connection.abort()

    def fail(self) -> Awaitable[None]:
        """Respond with an error; a response that has begun is cut off."""
        if self.is_begun:
            self.cut_off()
        elif not self.is_complete:
            self.is_last = True
            self.respond(500, [_TEXT], b"internal error")
        return DONE


def build_scope(connection: "HttpConnection", head: "ReceivedHead") -> "Scope":
    """Return the ASGI scope of a request."""
    proxies = connection.listener.proxies
    client, scheme = proxies.find_client(head, connection.client, connection.scheme)
    return {
        "type": "http",
        "asgi": _ASGI,
        "http_version": head.version,
        "server": connection.server,
        "client": client,
        "scheme": scheme,
        "method": head.method,
        "root_path": "",
        "path": head.path,
        "raw_path": head.raw_path,
        "query_string": head.query,
        # A copy: apps may change theirs, and the head may serve the next request too.
        "headers": head.fields.copy(),
        "state": {},
    }


class AsgiRequest(ListenerRequest):
    """A request that an ASGI app serves."""

    _length: int | None = None
    _sent = 0

    async def run(self, app: AsgiApp) -> None:
        """Let the app respond; a response that it does not complete is a failure."""
        try:
            await app(build_scope(self.connection, self.head), self.receive, self.send)
        except asyncio.CancelledError:
            self.fail()
            raise
        except ResponseCut:
            self.connection.close()  # what was sent before still leaves
            return
        except Exception:
            if not self.is_gone:
                log.exception("%s %s failed", self.head.method, self.head.path[:200])
        if not self.is_complete:
            self.fail()

    def fail(self) -> Awaitable[None]:
        if self._pending_head is not None:  # nothing of it was sent
            self._pending_head = None
            self.is_begun = False
        return super().fail()

    async def send(self, message: "Message") -> None:
        """Send a part of the response; a client that is gone gets nothing."""
        kind = message["type"]
        if kind == "http.response.start":
            if self.is_begun:
                raise RuntimeError("the response has begun already")
            self.begin(message["status"], self._check_headers(message.get("headers", ())))
        elif kind != "http.response.body" or not self.is_begun:
            raise RuntimeError(f"unexpected ASGI message {kind!r}")
        else:
            await self._send_body(message.get("body", b""), more=message.get("more_body", False))

    async def _send_body(self, body: bytes, *, more: bool) -> None:
        if self.is_complete:
            if self.is_gone:
                return
            raise RuntimeError("the response is complete already")
        self._sent += len(body)
        if self._length is not None and self.head.method != "HEAD":
            is_wrong = self._sent > self._length or (not more and self._sent != self._length)
            if is_wrong:
                self.cut_off()  # the client would take the next response for the rest of this one
                raise RuntimeError(f"the body has not the {self._length} bytes of Content-Length")
        self.write(body, is_last=not more)
        if self.connection.is_congested:
            await self.connection.drain()

    def _check_headers(self, headers: Any) -> "Headers":
        found: Headers = []
        for name, value in headers:
            name = bytes(name).lower()
            value = bytes(value)
            if any(each in value or each in name for each in (b"\r", b"\n", b"\0")):
                raise RuntimeError(f"header {name!r} of the response has a line break")
            if name == b"content-length":
                self._length = int(value)
            found.append((name, value))
        return found


class ListenerExchange(ListenerRequest, HttpExchange):
    """A request on the listener, and the ways to respond to it.

    Args:
        app: serves it.
        connection: where it was received.
        head: its head.

    Attributes:
        is_counted: whether the app counts it as under way.
        admission: what the guard around the app knows of it.
    """

    is_counted = False
    admission: Admission | None = None
    is_on_listener = True

    def __init__(self, app: "HttpApp", connection: "HttpConnection", head: ReceivedHead) -> None:
        super().__init__(connection, head)
        self._app = app
        self.options = app.options
        self.method = head.method
        self.headers = head.headers
        self.repeated = head.repeated

    @cached_property
    def scope(self) -> Scope:  # type: ignore[override]  # made only where it is asked for
        """The request as ASGI describes it."""
        scope = build_scope(self.connection, self.head)
        admission = self.admission
        if admission is not None:
            scope["accord.principal"] = admission.principal
            scope["accord.challenge"] = admission.challenge_for
            scope["accord.admitted"] = admission.is_admitted
        return scope

    @property
    def principal(self) -> Principal | None:
        """The caller, as the option `principal` or the guard around the app names it."""
        find = self.options["principal"]
        if find is not None:
            return as_principal(find(self.scope))
        return None if self.admission is None else self.admission.principal

    @property
    def is_admitted(self) -> Callable[[], Awaitable[bool]] | None:
        return None if self.admission is None else self.admission.is_admitted

    def json(
        self, body: bytes, *, status: int = 200, session: str | None = None
    ) -> Awaitable[None]:
        if (
            status != 200
            or session is not None
            or self.is_last
            or _ORIGIN in self.headers
            or self.denial is not None
            or self.connection.is_ending
            or self.head.version != "1.1"
        ):
            return super().json(body, status=status, session=session)
        # As `respond` does it, for the response that nearly all requests get.
        self.is_begun = True
        listener = self.connection.listener
        listener.metrics.responses[self.method][2] += 1
        self._end(
            b"HTTP/1.1 200 OK\r\n%bcontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b"
            % (listener.date_line, len(body), body)
        )
        return DONE

    def make_reader(self, stream: Stream, headers: Headers, among: set[Reader]) -> Reader:
        self.begin(200, headers)
        reader = self.follower = ListenerReader(stream, among, self)
        return reader

    def finish_later(self, work: Awaitable[None]) -> None:
        listener = self.connection.listener
        start(listener.loop, listener.finish(self, work), "http request")

    def expect_silence(self) -> None:
        self.connection.expect_silence()
        self.head = self.head.without_headers()
        self.headers = self.head.headers

    def client_left(self) -> None:
        super().client_left()
        on_left, self.on_left = self.on_left, None
        if on_left is not None:
            on_left()

    def note_end(self) -> None:
        """Note that the response has ended."""
        if self.is_counted:
            self.is_counted = False
            self._app.under_way -= 1


class ListenerReader(Reader):
    """A response that follows a stream on the listener; callbacks of the loop write it."""

    __slots__ = ("_handle", "_request")

    def __init__(self, stream: Stream, among: set[Reader], request: ListenerRequest) -> None:
        super().__init__(stream, among)
        self._request = request
        self._handle: asyncio.Handle | None = None

    def wake(self) -> None:
        if self._handle is None and not self.is_done and not self._request.connection.is_congested:
            # In the next turn of the loop, so that what is sent together leaves together.
            self._handle = self._loop.call_soon(self._write)

    @property
    def is_writing(self) -> bool:
        return self._handle is not None or self._request.connection.is_congested

    def _write(self) -> None:
        self._handle = None
        request = self._request
        while not self.is_done and not request.connection.is_congested:
            chunk, is_last = self._next()
            if not chunk and not is_last:
                break
            self.last_write = self._loop.time()
            if is_last:
                self.finish()
            request.write(chunk, is_last=is_last)

    def follow(self) -> Awaitable[None]:
        if self._request.is_complete:  # the client left before the response became a stream
            self.client_left()
        return DONE

    def let_go(self) -> None:
        self.finish()
        self._request.cut_off()

    def client_left(self) -> None:
        """Leave the stream of a client that is gone."""
        if not self.is_done:
            self.finish()

    def finish(self) -> None:
        super().finish()
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None
        self._report_end()
