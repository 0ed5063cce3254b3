"""One request on a connection of the listener: its body as it arrives, its response."""

import asyncio
from collections.abc import Awaitable
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

from accord.http.server.received import ReceivedHead
from accord.runtime.handlers import DONE

if TYPE_CHECKING:
    from accord.http.server.connection import HttpConnection
    from accord.http.server.exchange import Headers, Message

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
