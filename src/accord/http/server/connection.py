"""One connection of the listener: bytes to requests, responses to bytes, and limits to both.

The rules at this edge are stricter than those of HTTP, since a proxy before it may read the same
bytes in another way. Trailers are counted and dropped. A response that begins before the end of the
request's body is the last of its connection. So is the response to a request with `Upgrade`, which
is served without upgrading. Requests that arrive before earlier ones are answered wait their turn.
"""

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Final

from accord.http.parser import HttpParserError, HttpParserUpgrade, HttpRequestParser, KnownHead
from accord.http.server.listener_request import ListenerRequest, ReceivedHead

if TYPE_CHECKING:
    from accord.http.server.exchange import Headers
    from accord.http.server.listener import HttpListener

# asyncio would allocate four times as much for each read.
_READ: Final = 64 * 1024
_HEAD_MOST: Final = 64 * 1024
# How many bytes may arrive between two chunks of a body, or after the last: sizes, trailers.
_FRAMING_MOST: Final = 16 * 1024
# More than the app accepts, so that the app refuses in its own words.
_HEADERS_MOST: Final = 250
_TRAILERS_MOST: Final = 100
# Clients hardly ever send a request before the last one is answered (RFC 9112, 9.3.2).
_PIPELINED_MOST: Final = 32
# How many bytes are read ahead of what the app has taken.
_AHEAD_MOST: Final = 64 * 1024
# After how many bytes a client is cut off that goes on sending after a refusal: complete requests,
# or something that is not HTTP.
_IGNORED_MOST: Final = 4 * 1024 * 1024
_NONSENSE_MOST: Final = 256 * 1024
# How many seconds a client has to read the last response, and to end the connection.
_LINGER: Final = 5.0
_SESSION: Final = b"mcp-session-id"
_NAME: Final = b"mcp-name"
_LENGTH: Final = b"content-length"
_FRAMING: Final = (_LENGTH, b"transfer-encoding")


class SocketFlow(asyncio.Protocol):
    """A connection of the listener, as far as it does not depend on what is sent.

    Attributes:
        listener: what all connections share.
        loop: the event loop.
        transport: the socket.
    """

    transport: asyncio.Transport
    is_congested = False
    """Whether the client has left too much unread."""
    _paused_since: float | None = None
    _unread = 0
    _collected: bytes | None = None
    _drained: asyncio.Future[None] | None = None

    def __init__(self, listener: "HttpListener") -> None:
        self.listener = listener
        self.loop = listener.loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport  # type: ignore[assignment]  # it is one for reading and writing
        if hasattr(transport, "max_size"):
            transport.max_size = _READ

    @property
    def client(self) -> tuple[str, int] | None:
        """The address and port of the other end; None for a Unix socket."""
        peer = self.transport.get_extra_info("peername")
        return (str(peer[0]), int(peer[1])) if isinstance(peer, tuple) else None

    @property
    def server(self) -> tuple[str, int | None] | None:
        """The address and port of our end; the path of a Unix socket."""
        name = self.transport.get_extra_info("sockname")
        if isinstance(name, tuple):
            return str(name[0]), int(name[1])
        return (str(name), None) if name else None

    @property
    def scheme(self) -> str:
        """Either http or https."""
        return "http" if self.transport.get_extra_info("sslcontext") is None else "https"

    # -- writing

    def write(self, data: bytes) -> None:
        """Write bytes, or keep them for as long as the listener collects what it writes."""
        if not self.listener.is_collecting:
            self.transport.write(data)
        elif self._collected is None:
            self._collected = data
            self.listener.add_writer(self)
        else:
            self._collected += data

    def flush(self) -> None:
        """Write what was collected."""
        data, self._collected = self._collected, None
        if data is not None:
            self.transport.write(data)

    def close(self) -> None:
        """End the connection once everything is written."""
        self.flush()
        self.transport.close()

    def abort(self) -> None:
        """End the connection at once."""
        self.transport.abort()

    def end_writing(self) -> bool:
        """End our side of the connection, or all of it; return whether the other side is open."""
        if not self.transport.can_write_eof():
            self.close()
            return False
        self.flush()
        try:
            self.transport.write_eof()
        except OSError:  # the client has reset the connection
            self.transport.abort()
            return False
        return True

    async def drain(self) -> None:
        """Wait until the client has read most of what was written, or is gone."""
        if self.is_congested:
            if self._drained is None:
                self._drained = self.loop.create_future()
            await asyncio.shield(self._drained)

    def pause_writing(self) -> None:
        self.is_congested = True
        self._paused_since = self.listener.now
        self._unread = self.transport.get_write_buffer_size()

    def resume_writing(self) -> None:
        self._paused_since = None
        self.release_writers()

    def release_writers(self) -> None:
        """Let go on what waits for the client to read."""
        self.is_congested = False
        drained, self._drained = self._drained, None
        if drained is not None and not drained.done():
            drained.set_result(None)

    def unread(self, now: float) -> tuple[float, int]:
        """Return since when the client has not read, and how many bytes wait for it."""
        if self._paused_since is None:
            return now, 0
        left = self.transport.get_write_buffer_size()
        if left < self._unread:
            self._paused_since = now
        self._unread = left
        return self._paused_since, left


class StopParsing(Exception):
    """Raised to stop the parser."""


class HttpConnection(SocketFlow):
    """A connection that ends when its client sends too much or takes too long.

    Attributes:
        is_ending: whether the next response is the last.
        held: how many bytes of requests it keeps that are not served yet.
        held_since: when that last changed.
    """

    is_ending = False
    held = 0
    held_since = 0.0
    _parser: HttpRequestParser | None = None
    _rest: HttpRequestParser | None = None
    _known: KnownHead[ReceivedHead] | None = None
    # The session, or the tool, that the last request named.
    _about: bytes | None = None
    # The request that is being answered, the one whose body is arriving, and those that wait.
    _active: ListenerRequest | None = None
    _arriving: ListenerRequest | None = None
    _waiting: deque[ListenerRequest] | None = None
    _is_serving = False
    # What has been parsed of a head.
    _target = b""
    _fields: "Headers"
    _is_open = False
    _is_in_body = False
    _is_upgrade = False
    _is_ignoring = False
    # Whether something was parsed since the last count of bytes.
    _is_new = False
    # Bytes since the head began, or since the last part of the body; without the data in which
    # that arrived.
    _size = 0
    _trailers = 0
    # Bytes of the data that is being parsed, and of all data since that in which the head began.
    _fed = 0
    _fed_since = 0
    # Why the head that is being parsed is refused: status and reason.
    _fault: tuple[int, str] | None = None
    _is_reading = True
    _closing_since: float | None = None
    # Since when a head, or the next request, is waited for; None while a request is served.
    _since: float | None = None
    # Whether nothing has arrived of the next request.
    _is_idle = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._since = self.listener.now
        self.listener.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._note_held(0)
        self.listener.remove(self)
        self._is_ignoring = True
        self._parser = self._rest = self._known = None
        for request in (self._active, self._arriving, *(self._waiting or ())):
            if request is not None and not request.is_complete:
                request.client_left()
        self._active = self._arriving = self._waiting = None
        self.release_writers()

    def release_writers(self) -> None:
        super().release_writers()
        active = self._active
        if active is not None and active.follower is not None:
            active.follower.wake()
        elif self._waiting:
            self.listener.call_outside(self._serve_waiting)

    # -- data

    def data_received(self, data: bytes) -> None:
        if self._known is not None and self._active is None and not self._is_open:
            found = self._known.find(data)
            is_ready = not (self._waiting or self.is_congested or self._is_ignoring)
            if found is not None and is_ready and not self.transport.is_closing():
                head = self._known.meaning
                if found[0] != head.headers[_LENGTH]:
                    head = self._known.meaning = head.with_length(found[0])
                request = self.listener.make_request(self, head)
                request.feed(found[1])
                request.is_received = True
                self._since = None
                self._is_idle = False
                self._serve(request)
                return
        self._parse(data)

    def _parse(self, data: bytes) -> None:
        if self._is_ignoring:
            self._ignore(data)
            return
        if self.transport.is_closing():
            return
        parser = self._rest or self._parser
        if parser is None:
            parser = self._parser = HttpRequestParser(self)
        is_fresh = not self._is_open
        self._fed = len(data)
        self._fed_since += self._fed
        try:
            parser.feed_data(data)
        except HttpParserUpgrade as upgrade:
            self._read_rest(data[upgrade.args[0] :])
        except HttpParserError as error:
            self._refuse_invalid(error)
        if self._is_open:
            self._count(len(data))
        elif self._is_idle:  # empty lines before a head: they do not extend the time for it
            self._is_idle = False
            self._since = self.listener.now
        waiting = self._waiting
        if waiting:
            if is_fresh and not self._is_open and len(waiting) == 1 and self._active is None:
                self._learn(waiting[0].head, data)
            self._serve_waiting()
        if self._is_open or self.held or waiting:
            self._hold()

    def _learn(self, head: ReceivedHead, data: bytes) -> None:
        """Learn to recognise a head, unless the connection is one of a proxy with many clients."""
        about = head.headers.get(_SESSION) or head.headers.get(_NAME) or b""
        if about == self._about:
            self._known = head.learn(data)
        self._about = about

    def _count(self, size: int) -> None:
        if self._is_new:
            self._is_new = False
            return
        self._size += size
        most = _FRAMING_MOST if self._is_in_body else _HEAD_MOST
        if self._size > most:
            self.refuse(431, f"{'trailers' if self._is_in_body else 'headers'} exceed {most} bytes")

    def _hold(self) -> None:
        """Count the bytes that are kept, and read no more while they are many."""
        is_in_head = self._is_open and not self._is_in_body and not self._is_ignoring
        held = self._size if is_in_head else 0
        for request in (self._active, *(self._waiting or ())):
            if request is not None:
                held += request.held_bytes
        if held != self.held:
            self._note_held(held)
            if held and not self._is_ignoring and not self.listener.make_room(self):
                self.listener.metrics.refused["bodies_bytes"] += 1
                self.refuse(503, self.listener.why_full)
                return
        is_over = self._is_ignoring or self.transport.is_closing()
        if self._is_reading and held > _AHEAD_MOST and not is_over:
            self._is_reading = False
            self.transport.pause_reading()

    def _note_held(self, held: int) -> None:
        self.listener.held += held - self.held
        self.held = held
        self.held_since = self.listener.now

    def give_up(self) -> None:
        """Abort the connection, and keep nothing of what has arrived on it."""
        self._note_held(0)
        self.abort()

    def body_was_taken(self) -> None:
        """Read on, after the app has taken what was there."""
        if self.held:
            self.loop.call_soon(self._hold)
        if not self._is_reading and not self.transport.is_closing():
            self._is_reading = True
            # asyncio calls `data_received` in the context of this call.
            self.listener.call_outside(self._resume)

    def _resume(self) -> None:
        if self._is_reading and not self.transport.is_closing():
            self.transport.resume_reading()

    def _ignore(self, data: bytes) -> None:
        """Read and drop data after the last response: unread, it would reset the connection."""
        self._size += len(data)
        if self._size > _IGNORED_MOST:
            self.transport.abort()

    def _read_rest(self, data: bytes) -> None:
        """Read the body of a request that asked for an upgrade.

        httptools takes the body of such a request for the other protocol, and parses later data as
        the next request. A second parser, which does not see the upgrade, reads the body.
        """
        framing = [b"%b: %b\r\n" % each for each in self._fields if each[0] in _FRAMING]
        self._rest = HttpRequestParser(_BodyReader(self))
        try:
            self._rest.feed_data(b"POST / HTTP/1.1\r\n%b\r\n" % b"".join(framing))
            if data and not self._is_ignoring:
                self._rest.feed_data(data)
        except HttpParserError as error:
            self._refuse_invalid(error)

    def _refuse_invalid(self, error: Exception) -> None:
        if self._fault is not None:
            self.refuse(*self._fault)
        elif isinstance(error.__context__, StopParsing):
            most, what = _HEADERS_MOST, "headers"
            if self._is_in_body:
                most, what = _TRAILERS_MOST, "trailers"
            self.refuse(431, f"more than {most} {what}")
        else:
            self.refuse(400, "this is not a valid HTTP request")

    # -- events of the parser

    def on_message_begin(self) -> None:
        self._target = b""
        self._fields = []
        if self._since is None or self._is_idle:
            self._since = self.listener.now
        self._is_idle = False
        self._is_open = self._is_new = True
        self._is_in_body = False
        self._size = 0
        self._fed_since = self._fed

    def on_url(self, url: bytes) -> None:
        self._target += url

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._is_in_body or len(self._fields) >= _HEADERS_MOST:
            self._drop_header()
            return
        # The parser leaves tabs at the end of a value. (RFC 9112, 5.1)
        self._fields.append((name.lower(), value.rstrip(b"\t ")))

    def _drop_header(self) -> None:
        """Drop a trailer, which the checks of headers have not seen; refuse too many headers."""
        self._trailers += 1
        if not self._is_in_body or self._trailers > _TRAILERS_MOST:
            raise StopParsing

    def on_headers_complete(self) -> None:
        self._since = None
        self._is_new = True
        self._size = self._trailers = 0
        waiting = self._waiting
        if self._is_ignoring or (waiting is not None and len(waiting) >= _PIPELINED_MOST):
            self._end_after_waiting()
            raise StopParsing
        parser = self._parser
        assert parser is not None
        self._is_upgrade = parser.should_upgrade()
        head = ReceivedHead(
            parser.get_method().decode("latin-1"),
            self._target,
            parser.get_http_version(),
            self._fields,
            is_kept_alive=parser.should_keep_alive() and not self._is_upgrade,
        )
        self._fault = head.find_fault(_HEAD_MOST if self._fed_since > _HEAD_MOST else None)
        if self._fault is not None:
            raise StopParsing
        request = self._arriving = self.listener.make_request(self, head)
        self._is_in_body = True
        if waiting is None:
            waiting = self._waiting = deque()
        if waiting or self._active is not None:
            request.head_size = head.memory
        waiting.append(request)

    def on_body(self, body: bytes) -> None:
        self._is_new = True
        self._size = 0
        if self._arriving is not None and not self._is_ignoring:
            self._arriving.feed(body)

    def on_message_complete(self) -> None:
        if self._is_ignoring or (self._is_upgrade and self._rest is None):
            return
        self._is_open = self._is_in_body = False
        arriving, self._arriving = self._arriving, None
        if arriving is not None:
            if self._trailers and self._parser is not None:
                # The parser obeys `Connection` in trailers too, and reads no more after a close.
                arriving.is_last = arriving.is_last or not self._parser.should_keep_alive()
                self._is_ignoring = arriving.is_last
            arriving.end_body()
        if self._is_upgrade:
            self._is_ignoring = True

    # -- serving

    def _serve_waiting(self) -> None:
        """Serve requests in the order in which they arrived, one at a time."""
        if self._is_serving:
            return
        self._is_serving = True
        try:
            while (
                self._waiting
                and self._active is None
                # A client that reads nothing would have any number of responses kept.
                and not self.is_congested
                and not self.transport.is_closing()
            ):
                request = self._waiting.popleft()
                request.head_size = 0
                self._serve(request)
        finally:
            self._is_serving = False

    def _serve(self, request: ListenerRequest) -> None:
        self._active = request
        self.listener.serve_soon(request)

    def expect_silence(self) -> None:
        """Keep no more than a silent client needs, while it follows a stream."""
        if not self._is_open and self._rest is None:
            self._parser = self._known = None
            self._fields = []
            self._target = b""
            if not self._waiting:
                self._waiting = None

    def response_ended(self, request: ListenerRequest) -> None:
        """Go on with the next request, or end the connection after the last."""
        if self._active is not request:
            return
        self._active = None
        if request.is_last or self.is_ending:
            self.linger()
            return
        if self._waiting:
            if not self._is_serving:
                self.listener.call_outside(self._serve_waiting)
        else:
            if not self._is_open:
                self._since = self.listener.now
                self._is_idle = True
            if not self._is_reading:
                self.body_was_taken()
        if self.held:
            self._hold()

    # -- ending

    def refuse(self, status: int, why: str) -> None:
        """Refuse the request that is arriving, and read no more."""
        if self._is_ignoring or self.transport.is_closing():
            return
        active, arriving = self._active, self._arriving
        is_served = active is not None and not active.is_complete
        if is_served and arriving is active and active is not None:
            active.client_left()  # the rest of its body will not be read
        if not is_served or (arriving is active and active is not None and not active.is_begun):
            if self._waiting:  # complete requests before it are answered first
                self._drop_incomplete()
                if self._waiting:
                    self._end_after_waiting()
                    return
            self._active = None
            self.write(self.listener.encode_refusal(status, why))
            self.linger()
            self._size = _IGNORED_MOST - _NONSENSE_MOST
        elif arriving is active:
            # A response is being sent already: a refusal would end up inside it.
            self.close()
        else:
            self._drop_incomplete()
            self._end_after_waiting()

    def _drop_incomplete(self) -> None:
        arriving, self._arriving = self._arriving, None
        if self._waiting and arriving is not None and self._waiting[-1] is arriving:
            self._waiting.pop()

    def _end_after_waiting(self) -> None:
        """Let complete requests be answered, and read no more."""
        self._is_ignoring = True
        last = self._waiting[-1] if self._waiting else self._active
        if last is not None:
            last.is_last = True

    def linger(self) -> None:
        """End the connection once the client has read the last response, or soon.

        Closing a socket with unread data resets it, and the client loses the part of the response
        that it has not read. (RFC 9112, 9.6)
        """
        self._is_ignoring = True
        self._size = 0
        self._waiting = self._arriving = self._known = None
        if self.held:
            self._note_held(0)
        if self.transport.is_closing():
            return
        if not self._is_reading:
            self._is_reading = True
            self.transport.resume_reading()
        if self.end_writing():
            self._since = self.listener.now
            self.is_ending = True

    def stop(self) -> None:
        """End the connection between two requests, or after the response to the present one.

        A new connection is not idle: a request on its way would be lost, and its client could not
        know whether it was carried out.
        """
        self.is_ending = True
        if self._is_idle and not self._is_ignoring:
            self.close()

    # -- time

    def tick(self, now: float) -> None:
        """End a connection that takes too long."""
        listener = self.listener
        if self.transport.is_closing():
            if self._closing_since is None:
                self._closing_since = now
            elif now - self._closing_since > listener.write_timeout:
                self.transport.abort()
        elif now - self.unread(now)[0] > listener.write_timeout:
            self.transport.abort()
        elif self._since is None:
            return
        elif self._is_ignoring:
            if self._active is None and now - self._since > _LINGER:
                self.close()
        elif self._is_idle:
            if now - self._since > listener.idle_timeout:
                self.close()
        elif now - self._since > listener.head_timeout:
            self._since = None
            self.refuse(408, "the head did not arrive in time (body_timeout)")


class _BodyReader:
    """Receives the body of a request that asked for an upgrade."""

    __slots__ = ("_connection", "on_body")

    def __init__(self, connection: HttpConnection) -> None:
        self._connection = connection
        self.on_body = connection.on_body

    def on_message_complete(self) -> None:
        """End the request; later data is not for this connection."""
        self._connection.on_message_complete()
        raise StopParsing
