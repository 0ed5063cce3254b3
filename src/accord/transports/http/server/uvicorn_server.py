"""uvicorn, with a limit to everything that clients send or leave unread, and to every wait."""

import asyncio
import socket
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from types import FrameType
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import httptools
import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from accord.runtime.tasks import run_to_end, run_until_cancelled
from accord.transports.http.server.sockets import listen
from accord.transports.shutdown import exit_at_once, exit_later, take_signals

if TYPE_CHECKING:
    from accord.transports.http.server.app import HttpApp
    from accord.transports.http.server.exchange import Message, Receive, Scope, Send

__all__ = ["END_SLACK", "BoundedProtocol", "BoundedServer", "listen", "serve", "serve_in_loop"]

Start: TypeAlias = Callable[[], Awaitable[None]]
# How many open files are left to the server's own files and connections.
_FILES_SPARED: Final = 64
# Seconds without reading after which a client counts as stalled.
_STALLED: Final = 1.0
# How many seconds the last bytes may take to leave.
_FLUSH: Final = 0.25
# What a shutdown takes beyond the grace period: last responses, and leaving the lifespan. With the
# grace period of `server.run`, a server that hangs exits within 3 s.
END_SLACK: Final = 1.25
_HEAD_MOST: Final = 64 * 1024
# How many bytes may arrive between two chunks of a body, or after the last: sizes, trailers.
_FRAMING_MOST: Final = 16 * 1024
# More than the app accepts, so that the app refuses in its own words.
_HEADERS_MOST: Final = 250
_TRAILERS_MOST: Final = 100
# Clients hardly ever send a request before the last one is answered (RFC 9112, 9.3.2).
_PIPELINED_MOST: Final = 32
# After how many bytes a client is cut off that goes on sending after a refusal: complete requests,
# or something that is not HTTP.
_IGNORED_MOST: Final = 4 * 1024 * 1024
_NONSENSE_MOST: Final = 256 * 1024
_FRAMING: Final = (b"content-length", b"transfer-encoding")
_TOO_LARGE: Final = b"431 Request Header Fields Too Large"
_REFUSAL: Final = (
    b"HTTP/1.1 %b\r\ncontent-type: application/json\r\ncontent-length: %d\r\n"
    b"connection: close\r\n\r\n%b"
)
_ERROR: Final = b'{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"%b"}}'


class _StopParsing(Exception):
    """Raised to stop the parser."""


class BoundedProtocol(HttpToolsProtocol):
    """A connection that ends when its client sends too much or takes too long.

    Three rules beyond those of uvicorn hold for every request. Trailers are counted and dropped. A
    response that begins before the end of the request's body is the last of its connection. So is
    the response to a request with `Upgrade`, which is served without upgrading.
    """

    connections_most = 10_000
    _head_since: float | None = None
    _paused_since: float | None = None
    _closing_since: float | None = None
    _unread = 0
    # A request has begun and not ended; its head is complete.
    _is_open = False
    _is_in_body = False
    # Bytes since the head began, or since the last chunk of the body; without the data in which
    # that arrived.
    _size = 0
    _trailers = 0
    _is_new = False
    _is_upgrade = False
    _rest: httptools.HttpRequestParser | None = None
    _is_ignoring = False
    # Requests that were not answered yet when the next one arrived.
    _earlier: Sequence[RequestResponseCycle] = ()

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self._served: Any = self.app
        self.app = self._serve

    def _serve(self, scope: "Scope", receive: "Receive", send: "Send") -> Awaitable[None]:
        cycle: RequestResponseCycle = receive.__self__  # type: ignore[attr-defined]  # a method
        if cycle.more_body:
            send = partial(self._send_early, cycle)
        served: Awaitable[None] = self._served(scope, receive, send)
        return served

    async def _send_early(self, cycle: RequestResponseCycle, message: "Message") -> None:
        """Send a response that may begin before the end of the request's body.

        The rest of the body would be read as the next request, or waited for without end.
        """
        if cycle.more_body and not cycle.response_started:
            self._make_last(cycle)
        await cycle.send(message)  # type: ignore[arg-type]  # uvicorn has a type for each kind

    def _make_last(self, cycle: RequestResponseCycle) -> None:
        """Let the connection end after a response."""
        cycle.keep_alive = False
        cycle.transport = _LastTransport(self)  # type: ignore[assignment]  # all that it uses

    # -- data

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as in uvicorn
        super().connection_made(transport)
        self._head_since = self.loop.time()
        if len(self.connections) > self.connections_most:
            self._write_refusal(b"503 Service Unavailable", b"too many connections (connections)")
            self.transport.close()

    def data_received(self, data: bytes) -> None:
        if self._is_ignoring:
            self._ignore(data)
            return
        if self.transport.is_closing():
            return
        self._unset_keepalive_if_required()
        try:
            (self._rest or self.parser).feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            self._read_rest(data[upgrade.args[0] :])
        except httptools.HttpParserError as error:
            self._refuse_invalid(error)
        if self._is_open:
            self._count(len(data))
        elif self._head_since is None and not self._is_serving():
            # Empty lines before a head do not extend the time for the head.
            self._head_since = self.loop.time()

    def _is_serving(self) -> bool:
        cycle: RequestResponseCycle | None = self.cycle  # None before the first request
        return cycle is not None and not cycle.response_complete

    def _count(self, size: int) -> None:
        if self._is_new:
            self._is_new = False
            return
        self._size += size
        most = _FRAMING_MOST if self._is_in_body else _HEAD_MOST
        if self._size > most:
            what = b"trailers" if self._is_in_body else b"headers"
            self.refuse(_TOO_LARGE, b"%b exceed %d bytes" % (what, most))

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
        framing = [b"%b: %b\r\n" % each for each in self.headers if each[0] in _FRAMING]
        self._rest = httptools.HttpRequestParser(_Rest(self))
        try:
            self._rest.feed_data(b"POST / HTTP/1.1\r\n%b\r\n" % b"".join(framing))
            if data and not self._is_ignoring:
                self._rest.feed_data(data)
        except httptools.HttpParserError as error:
            self._refuse_invalid(error)

    def _refuse_invalid(self, error: Exception) -> None:
        if isinstance(error.__context__, _StopParsing):
            most, what = _HEADERS_MOST, b"headers"
            if self._is_in_body:
                most, what = _TRAILERS_MOST, b"trailers"
            self.refuse(_TOO_LARGE, b"more than %d %b" % (most, what))
        else:
            self.refuse(b"400 Bad Request", b"this is not a valid HTTP request")

    # -- events of the parser

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._head_since = self.loop.time()
        self._is_open = self._is_new = True
        self._is_in_body = False
        self._size = 0

    def on_header(self, name: bytes, value: bytes) -> None:
        headers = self.headers
        if self._is_in_body or len(headers) >= _HEADERS_MOST:
            self._drop_header()
            return
        # Repeated from uvicorn: a call for each header would cost more than the rest of this class.
        name = name.lower()
        if name == b"expect" and value.lower() == b"100-continue":
            self.expect_100_continue = True
        headers.append((name, value))

    def _drop_header(self) -> None:
        """Drop a trailer, which the checks of headers have not seen; refuse too many headers."""
        self._trailers += 1
        if not self._is_in_body or self._trailers > _TRAILERS_MOST:
            raise _StopParsing

    def on_headers_complete(self) -> None:
        self._head_since = None
        self._is_new = True
        self._size = self._trailers = 0
        if self._is_ignoring or len(self.pipeline) >= _PIPELINED_MOST:
            self._end_after(self.cycle)
            raise _StopParsing
        self._is_upgrade = self.parser.should_upgrade()
        before: RequestResponseCycle | None = self.cycle
        super().on_headers_complete()
        self._is_in_body = True
        if before is not None and not before.response_complete:
            unanswered = (each for each in self._earlier if not each.response_complete)
            self._earlier = (*unanswered, before)
        if self._is_upgrade:
            self._make_last(self.cycle)

    def on_body(self, body: bytes) -> None:
        self._is_new = True
        self._size = 0
        if not self._is_ignoring:
            super().on_body(body)

    def on_message_complete(self) -> None:
        if self._is_ignoring or (self._is_upgrade and self._rest is None):
            return
        self._is_open = self._is_in_body = False
        super().on_message_complete()
        if self._is_upgrade:
            self._is_ignoring = True

    # -- ending

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        for cycle in self._earlier:  # uvicorn informs only the newest
            cycle.disconnected = not cycle.response_complete
            cycle.message_event.set()

    def refuse(self, status: bytes, why: bytes) -> None:
        """Refuse the request that is arriving, and read no more."""
        if self._is_ignoring or self.transport.is_closing():
            return
        cycle = self.cycle
        is_served = self._is_serving()
        if is_served and self._is_in_body:
            cycle.disconnected = True  # the rest of its body will not be read
            cycle.message_event.set()
        if not is_served or (self._is_in_body and not self.pipeline and not cycle.response_started):
            self._write_refusal(status, why)
            self.linger()
            self._size = _IGNORED_MOST - _NONSENSE_MOST
        elif self._is_in_body:
            # A response is being sent already: a refusal would end up inside it.
            self.transport.close()
        else:
            self._end_after(cycle)

    def _write_refusal(self, status: bytes, why: bytes) -> None:
        body = _ERROR % why
        self.transport.write(_REFUSAL % (status, len(body), body))

    def _end_after(self, cycle: RequestResponseCycle) -> None:
        """Let complete requests be answered, and read no more."""
        self._is_ignoring = True
        self._make_last(cycle)

    def linger(self) -> None:
        """End the connection once the client has read the last response, or soon.

        Closing a socket with unread data resets it, and the client loses the part of the response
        that it has not read. (RFC 9112, 9.6)
        """
        self._is_ignoring = True
        self._size = 0
        self._unset_keepalive_if_required()
        if self.transport.is_closing():
            return
        self.flow.resume_reading()
        if self.transport.can_write_eof():
            self.transport.write_eof()
        self.timeout_keep_alive_task = self.loop.call_later(
            self.timeout_keep_alive, self.timeout_keep_alive_handler
        )

    # -- clients that do not read

    def pause_writing(self) -> None:
        super().pause_writing()
        self._paused_since = self.loop.time()
        self._unread = self.transport.get_write_buffer_size()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._paused_since = None

    def unread(self, now: float) -> tuple[float, int]:
        """Return since when the client has not read, and how many bytes wait for it."""
        if self._paused_since is None:
            return now, 0
        left = self.transport.get_write_buffer_size()
        if left < self._unread:
            self._paused_since = now
        self._unread = left
        return self._paused_since, left

    def tick(self, now: float, *, head_timeout: float, write_timeout: float) -> None:
        """End a connection that takes too long."""
        if self.transport.is_closing():
            if self._closing_since is None:
                self._closing_since = now
            elif now - self._closing_since > write_timeout:
                self.transport.abort()
        elif self._head_since is not None and now - self._head_since > head_timeout:
            self._head_since = None
            self.refuse(b"408 Request Timeout", b"the head did not arrive in time (body_timeout)")
        elif now - self.unread(now)[0] > write_timeout:
            self.transport.abort()


class _LastTransport:
    """Replaces the transport of a response after which the connection ends."""

    __slots__ = ("close", "is_closing", "write")

    def __init__(self, protocol: BoundedProtocol) -> None:
        self.write = protocol.transport.write
        self.is_closing = protocol.transport.is_closing
        self.close = protocol.linger


class _Rest:
    """Receives the body of a request that asked for an upgrade."""

    __slots__ = ("_protocol", "on_body")

    def __init__(self, protocol: BoundedProtocol) -> None:
        self._protocol = protocol
        self.on_body = protocol.on_body

    def on_message_complete(self) -> None:
        """End the request; later data is not for this connection."""
        self._protocol.on_message_complete()
        raise _StopParsing


class BoundedServer(uvicorn.Server):
    """Runs an app until a signal arrives; lets calls finish within limits, and ends."""

    def __init__(self, config: uvicorn.Config, app: "HttpApp") -> None:
        super().__init__(config)
        self._app = app

    async def on_tick(self, counter: int) -> bool:
        if counter % 10 == 0:
            self._tick_connections()
        return await super().on_tick(counter)

    def _tick_connections(self) -> None:
        """Abort connections that take too long, and stalled ones while too much is unread."""
        now, options = self._app.state.now(), self._app.options
        unread: list[tuple[float, int, BoundedProtocol]] = []
        for connection in list(self.server_state.connections):
            if isinstance(connection, BoundedProtocol):
                connection.tick(
                    now, head_timeout=options.body_timeout, write_timeout=options.write_timeout
                )
                since, size = connection.unread(now)
                if size:
                    unread.append((since, size, connection))
        total = sum(size for _, size, _ in unread)
        for since, size, connection in sorted(unread, key=lambda each: each[0]):
            if total <= options.unread_bytes or now - since < _STALLED:
                break
            connection.transport.abort()
            total -= size

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        for server in self.servers:
            server.close()
        await self._app.finish()
        await self._end_connections()
        await super().shutdown(sockets)

    async def _end_connections(self) -> None:
        """Let the last responses leave, then abort the rest; uvicorn would log errors for them."""
        state = self.server_state
        for connection in list(state.connections):
            connection.shutdown()
        end = self._app.state.now() + _FLUSH
        while state.connections and self._app.state.now() < end:
            await asyncio.sleep(0.01)
        for connection in list(state.connections):
            connection.transport.abort()
        for task in state.tasks:
            task.cancel()
        if state.tasks:
            await asyncio.wait(set(state.tasks), timeout=_FLUSH)

    # -- signals

    def run(self, sockets: list[socket.socket] | None = None, start: Start | None = None) -> None:
        """Serve until a signal arrives, or `should_exit` is set; `start` is awaited first.

        Signals are handled for longer than the loop lives: code that hangs may keep it from ending.
        """
        work = self._start_and_serve(sockets, start)
        with take_signals(self.handle_exit):
            run_to_end(work, loop_factory=_loop_factory(self.config))

    async def _start_and_serve(
        self, sockets: list[socket.socket] | None, start: Start | None
    ) -> None:
        if start is not None:
            await start()
        await self.serve(sockets)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave the signals to `run`; uvicorn would raise them again at the end."""
        yield

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Begin to stop at the first signal; exit at once at the second."""
        if self.should_exit:
            exit_at_once(0)
        self.should_exit = True
        grace = self._app.options.grace
        exit_later(grace, grace + END_SLACK)


def _loop_factory(config: uvicorn.Config) -> Callable[[], asyncio.AbstractEventLoop] | None:
    if hasattr(config, "get_loop_factory"):
        return config.get_loop_factory()
    config.setup_event_loop()  # before uvicorn 0.36 it is a policy
    return None


def _limit_connections(wanted: int) -> int:
    with suppress(ImportError):
        import resource

        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        if soft > 0:
            return max(1, min(wanted, soft - _FILES_SPARED))
    return wanted


def _make_server(app: "HttpApp", **config: Any) -> BoundedServer:
    class Protocol(BoundedProtocol):
        connections_most = _limit_connections(app.options.connections)

    settings = uvicorn.Config(
        app,
        http=Protocol,
        ws="none",
        lifespan="on",
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=1,
        **config,
    )
    return BoundedServer(settings, app)


def serve(app: "HttpApp", sockets: list[socket.socket], start: Start) -> None:
    """Serve an app on open sockets until a signal arrives; `start` is awaited first."""
    with suppress(KeyboardInterrupt):
        _make_server(app, log_level="warning").run(sockets, start)


async def serve_in_loop(app: "HttpApp", sockets: list[socket.socket]) -> None:
    """Serve an app on open sockets, which are closed at the end, until the task is cancelled.

    Signals, the logging and the loop of the process stay as they are.
    """
    server = _make_server(app, log_config=None)

    def stop() -> None:
        server.should_exit = True

    async def work() -> None:
        await app.start()  # a lifespan that fails raises its own exception here
        await server.serve(sockets)

    try:
        await run_until_cancelled(work(), stop, seconds=app.options.grace + END_SLACK)
    finally:
        for each in sockets:
            each.close()
