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
from typing import Any, Final, Protocol, Self, cast

import msgspec

from accord.http.client.heads import CookieJar, HttpAddress, parse_address, write_head
from accord.http.client.sender import (
    IDLE,
    JSON_TYPES,
    ConnectionCut,
    HttpClientOptions,
    NotSent,
    describe_os_error,
    enable_keepalive,
    tls_failure,
)
from accord.http.parser import HttpResponseParser, KnownHead
from accord.http.rules.headers import media_type

# As much is read at once, and decompressed at once: asyncio would allocate four times as much.
READ_MOST: Final = 64 * 1024
# Bytes that are read before the reader asks for them.
_AHEAD_MOST: Final = 256 * 1024
# The length of a body that does not say it.
_MANY: Final = b"9" * 9
_PLAIN: Final = (b"", b"identity")
_DEFLATED: Final = (b"gzip", b"x-gzip", b"deflate")
_RESET: Final = (ConnectionResetError, BrokenPipeError)
# A head, or anything else around a body: trailers, chunk extensions, responses that say "continue".
_HEAD_MOST: Final = 64 * 1024
_REMEMBERED: Final = 64
# A head with one of these has a meaning beyond the answer, or another framing.
_UNFIT: Final = (b"set-cookie", b"transfer-encoding", b"content-encoding")


class AnswerTaker(Protocol):
    """Takes the answer to a request that was sent without a task; one of its methods is called."""

    def complete(self, response: "SocketResponse", body: bytes) -> None:
        """Take the whole body of a JSON answer; the connection is free again."""

    def go_on(self) -> None:
        """Read the response in a task: it is incomplete, or anything but JSON, or it failed."""


class SocketResponse(msgspec.Struct, eq=False):
    """A response while it arrives."""

    _connection: "_Connection | None"
    taker: AnswerTaker | None = None
    # 0 until the head is read.
    status: int = 0
    is_kept: bool = False
    ends_with_connection: bool = False
    headers: dict[bytes, bytes] = {}
    _chunks: list[bytes] = []
    _size: int = 0
    _is_over: bool = False
    is_paused: bool = False
    _error: Exception | None = None
    _waiter: "asyncio.Future[None] | None" = None
    _inflate: Any = None
    _unreadable: str | None = None

    # -- called by the connection

    def begin(self, status: int, headers: dict[bytes, bytes]) -> None:
        self.status = status
        self.headers = headers
        is_framed = b"content-length" in headers or b"transfer-encoding" in headers
        self.ends_with_connection = not is_framed and status not in (204, 304)
        encoding = headers.get(b"content-encoding", b"").strip().lower()
        if encoding in _DEFLATED:
            self._inflate = zlib.decompressobj(wbits=zlib.MAX_WBITS | 32)
        elif encoding not in _PLAIN:
            self._unreadable = encoding.decode("latin-1")[:40]
        self._wake()

    def take_known(self, headers: dict[bytes, bytes]) -> None:
        """Be the answer with a known head, complete."""
        self.status, self.headers, self.is_kept, self._is_over = 200, headers, True, True

    def whole_json(self) -> bytes | None:
        """Return the body of a JSON answer that is complete; None for any other response."""
        is_whole = self._is_over and self._error is None
        return b"".join(self._chunks) if is_whole and self._is_plain_json else None

    @property
    def is_awaited(self) -> bool:
        """Whether a whole JSON answer may come with the next read."""
        if self._is_over or not self.status:
            return not self._is_over
        return self._is_plain_json and int(self.headers.get(b"content-length", _MANY)) <= READ_MOST

    @property
    def _is_plain_json(self) -> bool:
        is_plain = self._inflate is None and self._unreadable is None
        return (
            self.status == 200
            and is_plain
            and media_type(self.header("content-type")) in JSON_TYPES
        )

    def add(self, data: bytes) -> None:
        self._chunks.append(data)
        self._size += len(data)
        if self._size > _AHEAD_MOST and not self.is_paused and self._connection is not None:
            self.is_paused = True
            self._connection.transport.pause_reading()
        self._wake()

    def cut(self, why: str) -> None:
        self.end(ConnectionCut(why))

    def end(self, error: Exception | None = None) -> None:
        if not self._is_over:  # the first reason counts
            self._is_over = True
            self._error = error
            self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    # -- called by the reader

    async def arrive(self) -> Self:
        """Wait for the head.

        Raises:
            NotSent: the server has not read the request.
            ConnectionCut: there is no response.
        """
        connection = self._connection
        try:
            while not self.status:
                if self._error is not None:
                    raise self._error
                await self._news()
        except asyncio.CancelledError:
            if connection is not None:
                connection.abort()
            raise
        return self

    async def _news(self) -> None:
        self._waiter = asyncio.get_running_loop().create_future()
        await self._waiter

    def header(self, name: str) -> str | None:
        value = self.headers.get(name.lower().encode())
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
                raise self._error
            if self._is_over:
                return b""
            await self._news()
        chunk = self._chunks[0] if len(self._chunks) == 1 else b"".join(self._chunks)
        self._chunks.clear()
        self._size = 0
        if self.is_paused and self._connection is not None:
            self.is_paused = False
            self._connection.transport.resume_reading()
        return chunk

    def _inflate_chunk(self, chunk: bytes) -> bytes:
        """Decompress a part of a chunk; the rest waits for the next turn."""
        inflate = self._inflate
        if inflate.eof:
            raise ConnectionCut("the compressed answer goes on after its end")
        try:
            plain: bytes = inflate.decompress(chunk, READ_MOST)
        except zlib.error:
            raise ConnectionCut("the answer is compressed in a way that cannot be read") from None
        rest = inflate.unused_data or inflate.unconsumed_tail
        if rest:
            self._chunks.insert(0, rest)
        return plain

    def abort(self) -> None:
        """Close the connection, and call the taker no more."""
        self.taker = None
        if self._connection is not None:
            self._connection.abort()

    def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.release(self)


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
        # The last request of them: comparing is cheaper than hashing.
        self._last: tuple[str, HttpAddress, dict[str, str], bytes] | None = None
        # The head of the last whole JSON answer.
        self.known_head: KnownHead[dict[bytes, bytes]] | None = None

    async def send(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes | None = None
    ) -> SocketResponse:
        """Send a request and wait for the head of its response."""
        try:
            place = parse_address(url)
            head = self._head(method, place, headers)
        except ValueError as error:
            raise NotSent(str(error)[:160], is_lasting=True) from None
        connection = self._take(place) or await self._connect(place)
        connection.place = place
        response = await connection.begin(head, body).arrive()
        if method == "GET":
            enable_keepalive(connection.transport.get_extra_info("socket"))
        return response

    def begin(
        self, url: str, headers: Mapping[str, str], body: bytes, taker: AnswerTaker
    ) -> SocketResponse | None:
        """Send a POST at once, without a task; None when no connection is at hand.

        The taker is called when the first bytes of the response have arrived, or none will.
        """
        try:
            place = parse_address(url)
            head = self._head("POST", place, headers)
        except ValueError:
            return None  # `send` says why
        connection = self._take(place)
        if connection is None:
            return None
        connection.place = place
        return connection.begin(head, body, taker)

    def _head(self, method: str, place: HttpAddress, headers: Mapping[str, str]) -> bytes:
        """Write the head of a request, up to its length; most are like the one before."""
        if self._cookies.expires < inf and self._cookies.expire():
            self._forget_heads()
        last = self._last
        if last is not None and last[2] == headers and last[1] is place and last[0] == method:
            return last[3]
        key = (method, place.url, *headers.items())
        head = self._heads.get(key)
        if head is None:
            head = write_head(method, place, headers, self._cookies.header(place))
            if len(self._heads) >= _REMEMBERED:
                self._heads.clear()
            self._heads[key] = head
        self._last = (method, place, dict(headers), head)
        return head

    def _forget_heads(self) -> None:
        self._heads.clear()
        self._last = None

    def note_cookie(self, text: str, place: HttpAddress) -> None:
        """Keep a cookie: balancers find a session's server by it."""
        if self._cookies.note(text, place):
            self._forget_heads()

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
        connection.spare.append(connection)

    def forget(self, connection: "_Connection") -> None:
        """Forget a connection that is gone."""
        self._open.discard(connection)
        if connection in connection.spare:
            connection.spare.remove(connection)

    async def _connect(self, place: HttpAddress) -> "_Connection":
        connection = _Connection(self, self._spare.setdefault(place[:3], []))
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

    def __init__(self, sender: SocketSender, spare: "list[_Connection]") -> None:
        self.sender = sender
        # The connections to the same server that wait for a request.
        self.spare = spare
        # The address of the request under way.
        self.place: HttpAddress
        self.used = 0.0
        self.is_lost = False
        self.transport: asyncio.Transport
        self._response: SocketResponse | None = None
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
            transport.max_size = READ_MOST
        self._fd = transport.get_extra_info("socket").fileno()
        if self._news is not None:
            self._news.register(self._fd, select.POLLIN)
        self.sender.add(self)

    def data_received(self, data: bytes) -> None:
        response = self._response
        if response is None:
            return self.abort()  # no request is under way
        taker = response.taker
        if taker is None:
            return self._parse(response, data)
        is_first = not response.status and not self._head_size
        # A head like the last one is not parsed again: that takes longer than all the rest here.
        known = self.sender.known_head if is_first else None
        found = None if known is None else known.find(data)
        body = None if found is None else found[1]
        if known is not None and body is not None:
            self._response = None
            response.take_known(known.meaning)
        else:
            self._parse(response, data)
            if response.is_awaited:
                return None  # servers may write the head and the body one after the other
            body = response.whole_json()
            if body is None:
                response.taker = None
                return taker.go_on()
            if is_first and response.is_kept and not self._has_surplus:
                self.sender.known_head = learn_head(data, response.headers, body)
        response.taker = None
        response.close()
        return taker.complete(response, body)

    def _parse(self, response: SocketResponse, data: bytes) -> None:
        self._head_size += len(data)
        try:
            self._parser.feed_data(data)
        except Exception as error:  # of the parser; nothing more can be read
            if self._response is response:
                response.cut(f"the answer is not HTTP: {' '.join(str(error).split())[:120]}")
            self.abort()
        else:
            if self._head_size > _HEAD_MOST and self._response is response:
                part = "the framing of its body" if response.status else "its head"
                response.cut(f"the answer is not HTTP: {part} exceeds {_HEAD_MOST} bytes")
                self.abort()

    def connection_lost(self, error: Exception | None) -> None:
        self.is_lost = True
        self.sender.forget(self)
        response, self._response = self._response, None
        if response is None:
            return
        if not response.status:
            if self.used and not self._head_size and isinstance(error, _RESET):
                # A reset says that the request was not read: it met a server that was closing.
                response.end(NotSent("the server was closing the connection"))
            else:
                response.cut("the server closed the connection")
        elif error is None and response.ends_with_connection:
            response.end()
        else:
            response.cut("the connection broke in the middle of the answer")
        taker, response.taker = response.taker, None
        if taker is not None:
            taker.go_on()

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

    def begin(
        self, head: bytes, body: bytes | None, taker: AnswerTaker | None = None
    ) -> SocketResponse:
        """Send a request."""
        response = self._response = SocketResponse(self, taker)
        self._head_size = 0
        if body is None:
            self.transport.write(head + b"\r\n")
        elif len(body) < READ_MOST:
            self.transport.write(b"%bContent-Length: %d\r\n\r\n%b" % (head, len(body), body))
        else:
            self.transport.write(b"%bContent-Length: %d\r\n\r\n" % (head, len(body)))
            self.transport.write(body)
        return response

    def has_news(self) -> bool:
        """Whether bytes arrived without a request: most often the end, not yet noticed."""
        if self._news is None:
            return bool(select.select([self._fd], (), (), 0)[0])
        return bool(self._news.poll(0))

    def release(self, response: SocketResponse) -> None:
        """Take back the connection of a response that is not read any more."""
        if self.is_lost:
            return
        is_clean = not self._has_surplus and not self.transport.get_write_buffer_size()
        if response.is_kept and is_clean:
            if response.is_paused:
                self.transport.resume_reading()
            self.sender.put_back(self)
        else:
            self.abort()

    def abort(self) -> None:
        """Close it at once."""
        self.is_lost = True
        self.transport.abort()


def learn_head(
    data: bytes, headers: dict[bytes, bytes], body: bytes
) -> KnownHead[dict[bytes, bytes]] | None:
    """Return what recognises the head of a response that the parser has read in one piece.

    The answers of one server differ in their length alone, as a rule, and in the date once a
    second.

    Args:
        data: the response, from its first byte to its last.
        headers: as the parser has read them.
        body: as the parser has read it.
    """
    length = headers.get(b"content-length")
    if length != b"%d" % len(body) or any(name in headers for name in _UNFIT):
        return None
    return KnownHead.learn(data[: len(data) - len(body)], length, headers)
