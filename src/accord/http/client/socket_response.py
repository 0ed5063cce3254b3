"""One response on a socket of our own, from the head to the last byte of its body."""

import asyncio
import zlib
from typing import Any, Final, Protocol, Self

import msgspec

from accord.http.client.sender import JSON_TYPES, ConnectionCut
from accord.http.rules.headers import media_type

# As much is read at once, and decompressed at once: asyncio would allocate four times as much.
READ_MOST: Final = 64 * 1024
# Bytes that are read before the reader asks for them.
_AHEAD_MOST: Final = 256 * 1024
# The length of a body that does not say it.
_MANY: Final = b"9" * 9
_PLAIN: Final = (b"", b"identity")
_DEFLATED: Final = (b"gzip", b"x-gzip", b"deflate")


class AnswerTaker(Protocol):
    """Takes the answer to a request that was sent without a task; one of its methods is called."""

    def complete(self, response: "SocketResponse", body: bytes) -> None:
        """Take the whole body of a JSON answer; the connection is free again."""

    def go_on(self) -> None:
        """Read the response in a task: it is incomplete, or anything but JSON, or it failed."""


class ResponseConnection(Protocol):
    """What a response needs of its connection."""

    transport: asyncio.Transport

    def release(self, response: "SocketResponse") -> None:
        """Take back the connection of a response that is not read any more."""

    def abort(self) -> None:
        """Close it at once."""


class SocketResponse(msgspec.Struct, eq=False):
    """A response while it arrives."""

    _connection: "ResponseConnection | None"
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
