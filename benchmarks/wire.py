"""An HTTP client that does next to nothing, so that a server's time is what is measured."""

import asyncio
import time
from typing import Final

PATIENCE: Final = 60.0

OPENING: Final = (
    b'{"jsonrpc":"2.0","id":"open","method":"initialize","params":{"protocolVersion":"2025-06-18",'
    b'"capabilities":{},"clientInfo":{"name":"bench","version":"1"}}}'
)
OPENED: Final = b'{"jsonrpc":"2.0","method":"notifications/initialized"}'
_HEAD: Final = (
    b"POST /mcp HTTP/1.1\r\nhost: 127.0.0.1:8000\r\nuser-agent: bench\r\n"
    b"accept: application/json, text/event-stream\r\ncontent-type: application/json\r\n"
    b"%b%bcontent-length: %d\r\n\r\n%b"
)
_VERSION: Final = b"mcp-protocol-version: 2025-06-18\r\n"
_STATELESS: Final = b"mcp-protocol-version: 2026-07-28\r\nmcp-method: %b\r\n"
_LISTEN: Final = (
    b"GET /mcp HTTP/1.1\r\nhost: 127.0.0.1:8000\r\naccept: text/event-stream\r\n"
    b"mcp-protocol-version: 2025-06-18\r\n%b\r\n"
)


class Connection(asyncio.Protocol):
    """A connection that is kept; one request at a time."""

    def __init__(self) -> None:
        self.session = b""
        self.version = _VERSION
        self._transport: asyncio.Transport
        self._chunks: list[bytes] = []
        self._missing: int | None = None
        self._answer: asyncio.Future[bytes] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        transport.max_size = 1 << 16  # type: ignore[attr-defined]  # asyncio reads 256 KiB at once
        self._transport = transport

    def connection_lost(self, exc: Exception | None) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(RuntimeError("the server has closed the connection"))

    def data_received(self, data: bytes) -> None:
        self._chunks.append(data)
        if self._missing is not None:
            self._missing -= len(data)
        elif not self._read_head():
            return
        assert self._missing is not None
        is_over = self._missing <= 0 if self._missing < _CHUNKED else data.endswith(b"0\r\n\r\n")
        if is_over and self._answer is not None and not self._answer.done():
            whole = b"".join(self._chunks)
            self._chunks.clear()
            self._missing = None
            self._answer.set_result(whole)

    def _read_head(self) -> bool:
        data = b"".join(self._chunks)
        end = data.find(b"\r\n\r\n")
        if end < 0:
            return False
        head = data[:end].lower()
        at = head.find(b"content-length:")
        if at < 0:
            self._missing = _CHUNKED + (1 << 40)
        else:
            length = int(head[at + 15 :].split(b"\r\n", 1)[0])
            self._missing = end + 4 + length - len(data)
        return True

    async def post(self, body: bytes) -> bytes:
        """Send a message and return the whole response."""
        if self._transport.is_closing():
            raise RuntimeError("the server has closed the connection")
        self._answer = asyncio.get_running_loop().create_future()
        self._transport.write(_HEAD % (self.version, self.session, len(body), body))
        return await self._answer

    def repeat(self, method: str, name: str | None = None) -> None:
        """Send requests that stand on their own: headers repeat their method and name."""
        self.version = _STATELESS % method.encode()
        if name is not None:
            self.version += b"mcp-name: %b\r\n" % name.encode()

    async def open(self) -> None:
        """Begin a session."""
        response = await self.post(OPENING)
        for line in response.split(b"\r\n\r\n", 1)[0].split(b"\r\n"):
            if line.lower().startswith(b"mcp-session-id:"):
                self.session = line + b"\r\n"
        await self.post(OPENED)

    async def listen(self, session: bytes) -> None:
        """Open a stream; what comes is not looked at."""
        self._missing = _CHUNKED + (1 << 40)
        self._transport.write(_LISTEN % session)
        while not self._chunks:
            await asyncio.sleep(0.001)

    def close(self) -> None:
        self._transport.close()


_CHUNKED: Final = 1 << 40


async def connect(port: int) -> Connection:
    loop = asyncio.get_running_loop()
    end = time.monotonic() + PATIENCE
    while True:
        try:
            return (await loop.create_connection(Connection, "127.0.0.1", port))[1]
        except OSError:
            if time.monotonic() > end:
                raise
            await asyncio.sleep(0.05)
