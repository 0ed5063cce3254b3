"""The listener without sockets: data goes straight to a connection, in parts."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from accord.http.server.listener import HttpListener
from accord.http.settings import HttpLimits


class MemoryTransport(asyncio.Transport):
    """A transport that keeps what is written; the client reads everything at once."""

    def __init__(self, protocol: asyncio.Protocol) -> None:
        super().__init__({"peername": ("127.0.0.1", 1), "sockname": ("127.0.0.1", 80)})
        self._protocol = protocol
        self.written = bytearray()
        self.has_ended = False
        self.is_paused = False
        self._is_closing = False

    def write(self, data: Any) -> None:
        if not self._is_closing and not self.has_ended:
            self.written += data

    def writelines(self, parts: Iterable[Any]) -> None:
        for part in parts:
            self.write(part)

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        self.has_ended = True

    def get_write_buffer_size(self) -> int:
        return 0

    def pause_reading(self) -> None:
        self.is_paused = True

    def resume_reading(self) -> None:
        self.is_paused = False

    def is_closing(self) -> bool:
        return self._is_closing

    def close(self) -> None:
        if not self._is_closing:
            self._is_closing = True
            asyncio.get_running_loop().call_soon(self._protocol.connection_lost, None)

    abort = close


@dataclass(frozen=True)
class Read:
    """A request as an app has received it."""

    method: bytes
    target: bytes
    version: bytes
    headers: tuple[tuple[bytes, bytes], ...]
    body: bytes


class EchoApp:
    """An ASGI app that keeps what it receives, and says that all is well."""

    def __init__(self) -> None:
        self.reads: list[Read] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        body = b""
        more = True
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                return
            body += message["body"]
            more = message["more_body"]
        query = scope["query_string"]
        target = scope["raw_path"] + (b"?" + query if query else b"")
        version, headers = scope["http_version"].encode(), tuple(map(tuple, scope["headers"]))
        self.reads.append(Read(scope["method"].encode(), target, version, headers, body))
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"ok"})


class Memory:
    """A listener, and connections to it that are only objects."""

    def __init__(self, app: Any, limits: HttpLimits) -> None:
        self.app = app
        self.listener = HttpListener(app, limits)

    def connect(self) -> tuple[Any, MemoryTransport]:
        connection = self.listener.connection_type(self.listener)
        transport = MemoryTransport(connection)
        connection.connection_made(transport)
        return connection, transport

    async def send(self, parts: Iterable[bytes]) -> tuple[bytes, bool]:
        """Send parts on a new connection; return what came back, and whether it has ended."""
        connection, transport = self.connect()
        for part in parts:
            while transport.is_paused:
                await asyncio.sleep(0)
            if transport.is_closing():
                break
            connection.data_received(part)
            await asyncio.sleep(0)
        await settle(connection)
        found, has_ended = bytes(transport.written), transport.has_ended or transport.is_closing()
        transport.abort()
        await asyncio.sleep(0)
        return found, has_ended


async def settle(connection: Any) -> None:
    """Let the app answer what has arrived."""
    for _ in range(4):
        await asyncio.sleep(0)


@asynccontextmanager
async def memory(app: Any, **limits: Any) -> AsyncIterator[Memory]:
    made = Memory(app, HttpLimits(**limits))
    try:
        yield made
    finally:
        await made.listener.stop()
