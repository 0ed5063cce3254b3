"""HTTP/1.1 on sockets: enough for the client of one server, at a fifth of a full library's cost.

No proxies, no redirects, no caches; connections through a proxy use aiohttp.
"""

import asyncio
import contextlib
import select
import ssl
import zlib
from collections.abc import Mapping
from math import inf
from typing import Any, Final, cast

import msgspec
from httptools import HttpResponseParser

from accord.transports.http.client.heads import CookieJar, HttpAddress, parse_address, write_head
from accord.transports.http.client.sender import (
    IDLE,
    ConnectionCut,
    HttpClientOptions,
    NotSent,
    describe_os_error,
    enable_keepalive,
    tls_failure,
)

# asyncio would allocate four times as much for each read.
_READ: Final = 64 * 1024
# Bytes that are read before the reader asks for them.
_AHEAD_MOST: Final = 256 * 1024
_RESET: Final = (ConnectionResetError, BrokenPipeError)
# A head, or anything else around a body: trailers, chunk extensions, responses that say "continue".
_HEAD_MOST: Final = 64 * 1024
_REMEMBERED: Final = 64
_PLAIN: Final = (b"", b"identity")
_DEFLATED: Final = (b"gzip", b"x-gzip", b"deflate")


class SocketSender:
    """Sends requests over connections of its own; made, used and closed on one loop."""

    def __init__(self, options: HttpClientOptions) -> None:
        self._connect_within = options.connect
        self._verify = options.verify
        self._tls: ssl.SSLContext | None = None
        self._loop = asyncio.get_running_loop()
        self._open: set[_Connection] = set()
        self._spare: dict[tuple[str, int, bool], list[_Connection]] = {}
        self._cookies = CookieJar()
        self._heads: dict[Any, bytes] = {}

    async def send(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes | None = None
    ) -> "_Response":
        """Send a request and wait for the head of its response."""
        try:
            place = parse_address(url)
            head = self._head(method, place, headers)
        except ValueError as error:
            raise NotSent(str(error)[:160], is_lasting=True) from None
        connection = self._take(place) or await self._connect(place)
        connection.place = place
        response = await connection.exchange(head, body)
        if method == "GET":
            enable_keepalive(connection.transport.get_extra_info("socket"))
        return response

    def _head(self, method: str, place: HttpAddress, headers: Mapping[str, str]) -> bytes:
        """Write the head of a request, up to its length; most are like the one before."""
        if self._cookies.expires < inf and self._cookies.expire():
            self._heads.clear()
        key = (method, place.url, *headers.items())
        head = self._heads.get(key)
        if head is None:
            head = write_head(method, place, headers, self._cookies.header(place))
            if len(self._heads) >= _REMEMBERED:
                self._heads.clear()
            self._heads[key] = head
        return head

    def note_cookie(self, text: str, place: HttpAddress) -> None:
        """Keep a cookie: balancers find a session's server by it."""
        if self._cookies.note(text, place):
            self._heads.clear()

    # -- connections

    def _take(self, place: HttpAddress) -> "_Connection | None":
        spare = self._spare.get(place[:3])
        while spare:
            connection = spare.pop()
            is_fresh = self._loop.time() - connection.used < IDLE
            if is_fresh and not connection.is_lost and not connection.has_news():
                return connection
            connection.abort()
        return None

    def put_back(self, connection: "_Connection") -> None:
        """Keep a connection whose response is complete for the next request."""
        connection.used = self._loop.time()
        self._spare.setdefault(connection.leads_to, []).append(connection)

    def forget(self, connection: "_Connection") -> None:
        """Forget a connection that is gone."""
        self._open.discard(connection)
        spare = self._spare.get(connection.leads_to)
        if spare and connection in spare:
            spare.remove(connection)

    async def _connect(self, place: HttpAddress) -> "_Connection":
        connection = _Connection(self, place[:3])
        context = self._context() if place.is_safe else None
        try:
            async with asyncio.timeout(self._connect_within):
                await self._loop.create_connection(
                    lambda: connection,
                    place.host,
                    place.port,
                    ssl=context,
                    server_hostname=place.host if place.is_safe else None,
                    **self._at_once(place.host),
                )
        except ssl.SSLError as error:
            raise tls_failure(error) from None
        except TimeoutError:
            raise NotSent("no connection in time") from None
        except OSError as error:
            raise NotSent(describe_os_error(error)) from None
        return connection

    def _at_once(self, host: str) -> dict[str, Any]:
        """Return how soon the next address is tried, so that an unreachable one costs little.

        Hosts on this machine have no such addresses, and uvloop only tries one after the other.
        """
        has_several = host != "localhost" and not host.replace(".", "").isdigit()
        can = isinstance(self._loop, asyncio.BaseEventLoop)
        return {"happy_eyeballs_delay": 0.25} if has_several and can else {}

    def _context(self) -> ssl.SSLContext:
        if self._tls is None and isinstance(self._verify, ssl.SSLContext):
            self._tls = self._verify
        elif self._tls is None:
            self._tls = ssl.create_default_context()
            self._tls.set_alpn_protocols(["http/1.1"])
            if not self._verify:
                self._tls.check_hostname = False
                self._tls.verify_mode = ssl.CERT_NONE
        return self._tls

    def add(self, connection: "_Connection") -> None:
        """Keep a new connection in mind, to close it at the end."""
        self._open.add(connection)

    async def close(self) -> None:
        """Close the connections."""
        for connection in list(self._open):
            connection.abort()
        for _ in range(5):  # turns of the loop in which connections learn of it
            await asyncio.sleep(0)

    def abandon(self) -> None:
        """Let go of the connections without a loop to close them on."""
        for connection in list(self._open):
            with contextlib.suppress(Exception):
                connection.abort()
            with contextlib.suppress(Exception):
                # All that is possible without a loop.
                connection.transport._call_connection_lost(None)  # type: ignore[attr-defined]  # asyncio's own


class _Connection(asyncio.Protocol):
    """One connection, with one request under way or none."""

    def __init__(self, sender: SocketSender, leads_to: tuple[str, int, bool]) -> None:
        self.sender = sender
        self.leads_to = leads_to
        # The address of the request under way.
        self.place: HttpAddress
        self.used = 0.0
        self.is_lost = False
        self.transport: asyncio.Transport
        self._response: _Response | None = None
        self._parser = HttpResponseParser(self)
        self._headers: dict[bytes, bytes] = {}
        self._cookies: list[bytes] = []
        # Bytes of the head, then those between two parts of the body.
        self._head_size = 0
        self._has_surplus = False
        self._fd = -1
        self._news = select.poll() if hasattr(select, "poll") else None  # Windows has none

    # -- called by asyncio

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # Transports of uvloop are not subclasses of it.
        self.transport = transport = cast("asyncio.Transport", transport)
        if hasattr(transport, "max_size"):
            transport.max_size = _READ
        self._fd = transport.get_extra_info("socket").fileno()
        if self._news is not None:
            self._news.register(self._fd, select.POLLIN)
        self.sender.add(self)

    def data_received(self, data: bytes) -> None:
        response = self._response
        if response is None:
            return self.abort()  # no request is under way
        self._head_size += len(data)
        try:
            self._parser.feed_data(data)
        except Exception as error:  # of the parser; nothing more can be read
            if self._response is response:
                response.end(f"the answer is not HTTP: {' '.join(str(error).split())[:120]}")
            self.abort()
        else:
            if self._head_size > _HEAD_MOST and self._response is response:
                part = "the framing of its body" if response.head.done() else "its head"
                response.end(f"the answer is not HTTP: {part} exceeds {_HEAD_MOST} bytes")
                self.abort()
        return None

    def connection_lost(self, error: Exception | None) -> None:
        self.is_lost = True
        self.sender.forget(self)
        response, self._response = self._response, None
        if response is None:
            return
        if not response.head.done():
            if self.used and not self._head_size and isinstance(error, _RESET):
                # A reset says that the request was not read: it met a server that was closing.
                response.head.set_exception(NotSent("the server was closing the connection"))
            response.end("the server closed the connection")
        elif error is None and response.ends_with_connection:
            response.end()
        else:
            response.end("the connection broke in the middle of the answer")

    # -- called by the parser

    def on_message_begin(self) -> None:
        # More than was asked for must not become the answer to the next request.
        self._has_surplus = self._response is None
        self._headers = {}
        self._cookies = []

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._response is None or self._response.status:
            return  # a trailer (RFC 9110, section 6.5.1: it must not be merged into the head)
        name = name.lower()
        if name == b"set-cookie":
            self._cookies.append(value)
        known = self._headers.get(name)
        self._headers[name] = value if known is None else known + b", " + value

    def on_headers_complete(self) -> None:
        status = self._parser.get_status_code()
        headers, self._headers = self._headers, {}
        if status >= 200 and self._response is not None:
            for cookie in self._cookies:
                self.sender.note_cookie(cookie.decode("latin-1"), self.place)
            self._response.begin(status, headers)

    def on_body(self, data: bytes) -> None:
        self._head_size = 0
        if self._response is not None:
            self._response.add(data)

    def on_message_complete(self) -> None:
        response = self._response
        if response is not None and response.status:  # not one that only says "continue"
            self._response = None
            response.is_kept = (
                self._parser.should_keep_alive() and not response.ends_with_connection
            )
            response.end()

    # -- called by the sender

    async def exchange(self, head: bytes, body: bytes | None) -> "_Response":
        """Send a request and wait for the head of its response."""
        head_read = asyncio.get_running_loop().create_future()
        response = self._response = _Response(self, head_read)
        self._head_size = 0
        if body is None:
            self.transport.write(head + b"\r\n")
        elif len(body) < _READ:
            self.transport.write(b"%bContent-Length: %d\r\n\r\n%b" % (head, len(body), body))
        else:
            self.transport.write(b"%bContent-Length: %d\r\n\r\n" % (head, len(body)))
            self.transport.write(body)
        try:
            await response.head
        except asyncio.CancelledError:
            self.abort()
            raise
        return response

    def has_news(self) -> bool:
        """Whether bytes arrived without a request: most often the end, not yet noticed."""
        if self._news is None:
            return bool(select.select([self._fd], (), (), 0)[0])
        return bool(self._news.poll(0))

    def release(self, response: "_Response") -> None:
        """Take back the connection of a response that is not read any more."""
        if self.is_lost:
            return
        is_clean = not self._has_surplus and not self.transport.get_write_buffer_size()
        if response.is_kept and is_clean:
            self.transport.resume_reading()
            self.sender.put_back(self)
        else:
            self.abort()

    def abort(self) -> None:
        """Close it at once."""
        self.is_lost = True
        self.transport.abort()


class _Response(msgspec.Struct, eq=False):
    """A response while it arrives."""

    _connection: _Connection | None
    head: "asyncio.Future[None]"
    status: int = 0
    is_kept: bool = False
    ends_with_connection: bool = False
    _headers: dict[bytes, bytes] = {}
    _chunks: list[bytes] = []
    _size: int = 0
    _is_over: bool = False
    _is_paused: bool = False
    _error: str | None = None
    _waiter: "asyncio.Future[None] | None" = None
    _inflate: Any = None
    _unreadable: str | None = None

    # -- called by the connection

    def begin(self, status: int, headers: dict[bytes, bytes]) -> None:
        self.status = status
        self._headers = headers
        is_framed = b"content-length" in headers or b"transfer-encoding" in headers
        self.ends_with_connection = not is_framed and status not in (204, 304)
        encoding = headers.get(b"content-encoding", b"").strip().lower()
        if encoding in _DEFLATED:
            self._inflate = zlib.decompressobj(wbits=zlib.MAX_WBITS | 32)
        elif encoding not in _PLAIN:
            self._unreadable = encoding.decode("latin-1")[:40]
        if not self.head.done():
            self.head.set_result(None)

    def add(self, data: bytes) -> None:
        self._chunks.append(data)
        self._size += len(data)
        if self._size > _AHEAD_MOST and not self._is_paused and self._connection is not None:
            self._is_paused = True
            self._connection.transport.pause_reading()
        self._wake()

    def end(self, error: str | None = None) -> None:
        self._is_over = True
        self._error = error
        if error is not None and not self.head.done():
            self.head.set_exception(ConnectionCut(error))
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    # -- called by the reader

    def header(self, name: str) -> str | None:
        value = self._headers.get(name.lower().encode())
        return None if value is None else value.decode("utf-8", "replace")

    async def chunk(self) -> bytes:
        if self._unreadable is not None:
            raise ConnectionCut(
                f"the answer is encoded as {self._unreadable!r}, which was not asked for"
            )
        chunk = await self._next_chunk()
        if self._inflate is None:
            return chunk
        while chunk:
            plain = self._inflate_chunk(chunk)
            if plain:
                return plain
            chunk = await self._next_chunk()
        return b""

    async def _next_chunk(self) -> bytes:
        """Return the bytes that have arrived; empty at the end."""
        while not self._chunks:
            if self._error is not None:
                raise ConnectionCut(self._error)
            if self._is_over:
                return b""
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter
        chunk = self._chunks[0] if len(self._chunks) == 1 else b"".join(self._chunks)
        self._chunks.clear()
        self._size = 0
        if self._is_paused and self._connection is not None:
            self._is_paused = False
            self._connection.transport.resume_reading()
        return chunk

    def _inflate_chunk(self, chunk: bytes) -> bytes:
        """Decompress a part of a chunk; the rest waits for the next turn."""
        inflate = self._inflate
        if inflate.eof:
            raise ConnectionCut("the compressed answer goes on after its end")
        try:
            plain: bytes = inflate.decompress(chunk, _READ)
        except zlib.error:
            raise ConnectionCut("the answer is compressed in a way that cannot be read") from None
        rest = inflate.unused_data or inflate.unconsumed_tail
        if rest:
            self._chunks.insert(0, rest)
        return plain

    def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.release(self)
